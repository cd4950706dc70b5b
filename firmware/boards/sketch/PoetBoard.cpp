// SPDX-License-Identifier: Apache-2.0
#include "PoetBoard.h"

#include <stdlib.h>

#include "poet/board.h"
#include "poet/built.h"
#include "poet/server.h"
#include "sketch/sketch.h"

#if defined(ARDUINO_ARCH_ESP32)
#include <esp_heap_caps.h>
#include <esp_system.h>
#elif defined(ARDUINO_ARCH_SAMD)
extern "C" char *sbrk(int);
#endif

// A sketch that has a board of its own, without PoetBoard, defines these itself.
#define OPTIONAL extern "C" __attribute__((weak))

static const uint32_t spare_bytes = 8192; // of the heap, for the core itself
static const uint32_t stack_bytes = 2048; // below what is in use of it
static const uint32_t most_bytes = 0x2000000;

static Stream *serial;
static uint8_t *ram;
static uint32_t ram_bytes;
static int window_pin = -1;
static int (*open_storage)(poet_block_device *);
static poet_server server;
static uint32_t boot;
static uint32_t fed;
static const poet_built no_plan = {nullptr, nullptr, {}, nullptr, nullptr, &poet_all_operators};

// A line goes out in few writes: one byte at a time would be a packet each on USB.
static uint8_t line[64];
static uint32_t line_bytes;

static void send_line()
{
    for (uint32_t sent = 0; sent < line_bytes;) {
        const size_t taken = serial->write(line + sent, line_bytes - sent);
        if (taken == 0) {
            break; // nobody listens: the host will ask again
        }
        sent += static_cast<uint32_t>(taken);
    }
    line_bytes = 0;
}

OPTIONAL const char poet_board_name[];
OPTIONAL const uint32_t poet_board_ticks_hz;
OPTIONAL const bool poet_board_has_bootloader;
const char poet_board_name[] = "sketch";
const uint32_t poet_board_ticks_hz = 1000000u;
const bool poet_board_has_bootloader = false;

OPTIONAL void poet_board_init()
{
}

OPTIONAL uint32_t poet_board_ticks()
{
    return static_cast<uint32_t>(micros());
}

OPTIONAL int poet_board_getchar()
{
    return serial->available() > 0 ? serial->read() : -1;
}

OPTIONAL void poet_board_putchar(char byte)
{
    line[line_bytes++] = static_cast<uint8_t>(byte);
    if (line_bytes == sizeof line) {
        send_line();
    }
}

OPTIONAL void poet_board_flush()
{
    send_line();
    serial->flush();
}

OPTIONAL void poet_board_window(bool inside)
{
    if (window_pin >= 0) {
        digitalWrite(window_pin, inside ? HIGH : LOW);
    }
}

OPTIONAL void poet_board_idle(uint32_t ticks)
{
    delay(ticks / 1000u);
    delayMicroseconds(ticks % 1000u);
}

OPTIONAL int poet_board_storage(poet_block_device *device)
{
    return open_storage != nullptr ? open_storage(device) : POET_E_ABSENT;
}

OPTIONAL uint8_t *poet_board_ram(uint32_t *bytes)
{
    *bytes = ram_bytes;
    return ram;
}

OPTIONAL uint32_t poet_board_boot_id()
{
    return boot;
}

OPTIONAL void poet_board_start(poet_start *start)
{
    *start = {};
#if defined(ARDUINO_ARCH_ESP32)
    const esp_reset_reason_t reason = esp_reset_reason();
    const bool watchdog = reason == ESP_RST_TASK_WDT || reason == ESP_RST_INT_WDT || reason == ESP_RST_WDT;
    start->flags = static_cast<uint32_t>(reason);
    start->cause = reason == ESP_RST_POWERON    ? "power"
                   : reason == ESP_RST_BROWNOUT ? "brownout"
                   : reason == ESP_RST_PANIC    ? "fault"
                   : watchdog                   ? "watchdog"
                   : reason == ESP_RST_SW       ? "request"
                                                : "pin";
#endif
}

OPTIONAL void poet_board_enter_bootloader()
{
}

OPTIONAL void poet_board_sensors(poet_sensors *sensors)
{
    *sensors = {};
#ifdef F_CPU
    sensors->has_clock = true;
    sensors->cpu_khz = static_cast<uint32_t>(F_CPU / 1000u);
#endif
}

OPTIONAL uint32_t poet_board_stack_peak()
{
    return 0;
}

// Between two calls of a step: a core's own tasks, its watchdog among them, get a millisecond each second.
static bool feed(void *, const poet_progress *)
{
    if (poet_board_ticks() - fed > poet_board_ticks_hz) {
        delay(1);
        fed = poet_board_ticks();
    }
    return true;
}

// Slow memory is none of it: that is storage (PoetMemory.h).
static void *block_of(uint32_t bytes)
{
#if defined(ARDUINO_ARCH_ESP32)
    return heap_caps_malloc(bytes, MALLOC_CAP_INTERNAL | MALLOC_CAP_8BIT);
#else
    return malloc(bytes);
#endif
}

// The largest block that there is, less what the core may need.
static void take_ram()
{
    uint32_t least = 0, most = most_bytes;
#if defined(ARDUINO_ARCH_SAMD) // whose malloc knows the RAM's end, and not the stack before it
    const char top = 0;
    most = static_cast<uint32_t>(&top - sbrk(0)) - stack_bytes;
#endif
    while (most - least > 1024u) {
        const uint32_t middle = least + (most - least) / 2u;
        void *block = block_of(middle);
        if (block != nullptr) {
            least = middle;
        } else {
            most = middle;
        }
        free(block);
    }
    const uint32_t room = least > spare_bytes ? least - spare_bytes : 0u;
    PoetBoard::useRam(block_of(room), room);
}

void PoetBoard::begin(const char *name, Stream &port)
{
    poet_sketch_name(name);
    serial = &port;
}

void PoetBoard::useRam(void *block, uint32_t bytes)
{
    const uint32_t skipped = static_cast<uint32_t>(0u - reinterpret_cast<uintptr_t>(block)) & 7u;
    ram = static_cast<uint8_t *>(block) + skipped;
    ram_bytes = block == nullptr || bytes < skipped ? 0u : (bytes - skipped) / 8u * 8u;
}

void PoetBoard::useWindow(int pin)
{
    window_pin = pin;
    pinMode(pin, OUTPUT);
    digitalWrite(pin, LOW);
}

void PoetBoard::useStorage(int (*open)(poet_block_device *device))
{
    open_storage = open;
}

void PoetBoard::serve()
{
    for (int byte; (byte = poet_board_getchar()) >= 0;) {
        if (boot == 0) { // when the host first speaks is not the same in two boots
            boot = (poet_board_ticks() * 2654435761u) | 1u;
            if (ram == nullptr) {
                take_ram();
            }
            poet_server_init(&server, &no_plan);
            server.hooks.between = feed;
        }
        fed = poet_board_ticks(); // between two calls of serve the core had its time
        poet_server_receive(&server, static_cast<char>(byte));
    }
}
