/* SPDX-License-Identifier: Apache-2.0 */
/* What bare doubles of a core share: the rest of the C++ library's needs, and time by micros(). */
#pragma once
#include "Arduino.h"

HardwareSerial Serial;
static volatile int pins;

extern "C" {
void *__dso_handle = nullptr;
int __cxa_atexit(void (*)(void *), void *, void *)
{
    return 0;
}
void __cxa_pure_virtual()
{
    for (;;) {
    }
}
void _exit(int)
{
    for (;;) {
    }
}
void _init()
{
}
extern char __heap_start[], __heap_end[];
}

void pinMode(int pin, int)
{
    pins = pin;
}
void digitalWrite(int pin, int level)
{
    pins = pin + level;
}

// A core that can sleep does so, until something comes or so many microseconds have passed; 0 is no limit.
static void sleep_for(uint32_t microseconds);

void yield()
{
    sleep_for(0);
}

void delayMicroseconds(unsigned int microseconds)
{
    const uint32_t begin = static_cast<uint32_t>(micros());
    for (uint32_t gone; (gone = static_cast<uint32_t>(micros()) - begin) < microseconds;) {
        sleep_for(microseconds - gone);
    }
}

void delay(unsigned long milliseconds)
{
    while (milliseconds-- > 0) {
        delayMicroseconds(1000);
    }
}

int main()
{
    setup();
    for (;;) {
        loop();
    }
}
