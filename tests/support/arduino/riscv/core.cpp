// SPDX-License-Identifier: Apache-2.0
// Arduino on QEMU's `virt`: its 16550, and its timer of 10 MHz.
#include "../bare.h"

static volatile uint8_t *const uart = reinterpret_cast<volatile uint8_t *>(0x10000000u);
static volatile uint32_t *const mtime = reinterpret_cast<volatile uint32_t *>(0x0200BFF8u);

void HardwareSerial::begin(unsigned long)
{
    uart[2] = 1;
}

int HardwareSerial::available()
{
    return uart[5] & 1;
}

int HardwareSerial::read()
{
    return available() ? uart[0] : -1;
}

size_t HardwareSerial::write(const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        while ((uart[5] & 0x20) == 0) {
        }
        uart[0] = data[i];
    }
    return bytes;
}

// Without a 64-bit division, which would count as the sketch's flash.
unsigned long micros()
{
    static uint32_t last, passed;
    const uint32_t tenths = (*mtime - last) / 10u;
    last += tenths * 10u;
    return passed += tenths;
}

// Until the timer's interrupt, or that of the serial line, which is the controller's number 10. Neither is taken. While
// the line is awaited no alarm is set: without sleeping, as tests run it, QEMU's clock would jump there.
static void sleep_for(uint32_t microseconds)
{
    volatile uint32_t *const alarm = reinterpret_cast<volatile uint32_t *>(0x02004000u);
    volatile uint32_t *const controller = reinterpret_cast<volatile uint32_t *>(0x0C000000u);
    if (microseconds > 0u) {
        const uint32_t now = *mtime, until = now + microseconds * 10u;
        alarm[1] = UINT32_MAX;
        alarm[0] = until;
        alarm[1] = mtime[1] + (until < now);
    } else {
        controller[10] = 1u;
        controller[0x2000 / 4] = 1u << 10;
        controller[0x200004 / 4] = controller[0x200004 / 4];
        uart[1] = 1u;
    }
    if (microseconds > 0u || (uart[5] & 1) == 0) {
        __asm__ volatile("csrw mie, %0\n wfi" ::"r"(microseconds > 0u ? 1u << 7 : 1u << 11));
    }
}

extern "C" __attribute__((naked, section(".init"))) void _start()
{
    __asm__ volatile(".option push\n .option norelax\n la gp, __global_pointer$\n .option pop\n"
                     "la sp, __stack\n la tp, __tls\n"
                     "li t0, 0x6000\n csrs mstatus, t0\n" // the floating-point unit
                     "la t0, __bss_begin\n la t1, __bss_end\n"
                     "1: bgeu t0, t1, 2f\n sw zero, 0(t0)\n addi t0, t0, 4\n j 1b\n"
                     "2: call __libc_init_array\n call main\n 3: j 3b\n");
}
