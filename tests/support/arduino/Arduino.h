/* SPDX-License-Identifier: Apache-2.0 */
/* What ArduinoCore-API declares of a board, as far as PoetBoard and PoetCard use it. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef F_CPU
#define F_CPU 100000000UL
#endif
enum { LOW, HIGH, INPUT = 0, OUTPUT };

struct Stream {
    virtual int available() = 0;
    virtual int read() = 0;
    virtual size_t write(const uint8_t *data, size_t bytes) = 0;
    virtual void flush()
    {
    }
};

struct HardwareSerial : Stream {
    void begin(unsigned long rate);
    int available() override;
    int read() override;
    size_t write(const uint8_t *data, size_t bytes) override;
};

extern HardwareSerial Serial;
void pinMode(int pin, int mode);
void digitalWrite(int pin, int level);
unsigned long micros();
void delay(unsigned long milliseconds);
void delayMicroseconds(unsigned int microseconds);
void yield();
void setup();
void loop();
