// SPDX-License-Identifier: Apache-2.0
// Arduino on QEMU's MPS2 boards: the UART and the timer of 25 MHz of Arm's CMSDK.
#include "../bare.h"

static void sleep_for(uint32_t)
{
}

static volatile uint32_t &at(uint32_t address)
{
    return *reinterpret_cast<volatile uint32_t *>(address);
}

static uint32_t last;
static uint64_t ticks;

extern "C" {
extern char __stack[];
void __libc_init_array();

void *_sbrk(int more)
{
    static char *end = __heap_start;
    if (end + more > __heap_end) {
        return reinterpret_cast<void *>(-1);
    }
    end += more;
    return end - more;
}

__attribute__((naked)) void Reset_Handler()
{
    __asm__ volatile("ldr r0, =0xE000ED88\n ldr r1, [r0]\n orr r1, r1, #0xF00000\n str r1, [r0]\n dsb\n isb\n"
                     "bl __libc_init_array\n bl main\n b .");
}

__attribute__((section(".vectors"), used)) void *vectors[16] = {__stack, reinterpret_cast<void *>(Reset_Handler)};
}

void HardwareSerial::begin(unsigned long)
{
    at(0x40004010) = 16;
    at(0x40004008) = 3;
    at(0x40000008) = at(0x40000004) = last = 0xFFFFFFFF;
    at(0x40000000) = 1;
}

int HardwareSerial::available()
{
    return (at(0x40004004) & 2) != 0;
}

int HardwareSerial::read()
{
    return available() ? static_cast<int>(at(0x40004000) & 0xFF) : -1;
}

size_t HardwareSerial::write(const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        while ((at(0x40004004) & 1) != 0) {
        }
        at(0x40004000) = data[i];
    }
    return bytes;
}

unsigned long micros()
{
    const uint32_t now = at(0x40000004);
    ticks += static_cast<uint32_t>(last - now);
    last = now;
    return static_cast<unsigned long>(ticks / 25u);
}
