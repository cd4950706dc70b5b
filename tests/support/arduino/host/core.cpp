// SPDX-License-Identifier: Apache-2.0
// Arduino on this computer. The serial line is a pseudo-terminal, whose name is printed. With LOSSY=256 in the
// environment it keeps so many bytes that have come, and loses the rest, as the USB of some cores does.
#include "Arduino.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

HardwareSerial Serial;
static int master;
static unsigned char held[4096];
static ssize_t count, next;
static ssize_t most = sizeof held;

void HardwareSerial::begin(unsigned long)
{
    master = posix_openpt(O_RDWR | O_NOCTTY);
    grantpt(master);
    unlockpt(master);
    const int kept_open = open(ptsname(master), O_RDWR | O_NOCTTY);
    struct termios raw;
    tcgetattr(kept_open, &raw);
    cfmakeraw(&raw);
    tcsetattr(kept_open, TCSANOW, &raw);
    most = getenv("LOSSY") != nullptr ? atoi(getenv("LOSSY")) : most;
    printf("%s\n", ptsname(master));
    fflush(stdout);
}

int HardwareSerial::available()
{
    struct pollfd one = {master, POLLIN, 0};
    if (next == count && poll(&one, 1, 20) > 0) {
        if (most < static_cast<ssize_t>(sizeof held)) {
            usleep(5000); // the rest of the line comes meanwhile
        }
        next = 0;
        count = ::read(master, held, sizeof held);
        count = count < 0 ? 0 : count > most ? most : count;
    }
    return static_cast<int>(count - next);
}

int HardwareSerial::read()
{
    return next < count ? held[next++] : -1;
}

size_t HardwareSerial::write(const uint8_t *data, size_t bytes)
{
    const ssize_t taken = ::write(master, data, bytes);
    return taken > 0 ? static_cast<size_t>(taken) : 0;
}

void pinMode(int, int)
{
}

void digitalWrite(int, int)
{
}

unsigned long micros()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<unsigned long>(now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

void delay(unsigned long milliseconds)
{
    usleep(static_cast<useconds_t>(milliseconds * 1000));
}

void delayMicroseconds(unsigned int microseconds)
{
    usleep(microseconds);
}

void yield()
{
}

int main()
{
    setup();
    for (;;) {
        loop();
    }
}
