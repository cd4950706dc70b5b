# SPDX-License-Identifier: Apache-2.0
"""A core for arduino-builder that has the flags of Arduino's core for the Nano 33 BLE, and nothing of its hardware.

Arduino's own cores are in no registry of pip, npm or apt. The flags are those of ArduinoCore-mbed, as it publishes them
in variants/ARDUINO_NANO33BLE/cflags.txt, cxxflags.txt and ldflags.txt; the compiler is the one that is here.
"""

from __future__ import annotations

from pathlib import Path

BOTH = (
    "-Os -Wall -Wextra -Wno-missing-field-initializers -Wno-unused-parameter -fdata-sections -ffunction-sections"
    " -fmessage-length=0 -fno-delete-null-pointer-checks -fno-exceptions -fomit-frame-pointer -funsigned-char -g1"
    " -mcpu=cortex-m4 -mfloat-abi=softfp -mfpu=fpv4-sp-d16 -mthumb"
)
C_FLAGS = f"-std=gnu11 {BOTH}"
CXX_FLAGS = f"-Wvla -fno-rtti -std=gnu++14 -fno-threadsafe-statics {BOTH}"
BOARD = "poet:mbed:nano33ble"
FILES = {
    "boards.txt": """\
nano33ble.name=Nano 33 BLE, its flags
nano33ble.build.core=arduino
nano33ble.build.board=ARDUINO_NANO33BLE
nano33ble.upload.maximum_size=983040
""",
    "platform.txt": f"""\
name=Flags of Arduino's mbed core
version=1.0.0
recipe.c.o.pattern=arm-none-eabi-gcc -c {C_FLAGS} {{includes}} "{{source_file}}" -o "{{object_file}}"
recipe.cpp.o.pattern=arm-none-eabi-g++ -c {CXX_FLAGS} {{includes}} "{{source_file}}" -o "{{object_file}}"
recipe.S.o.pattern=arm-none-eabi-gcc -c -x assembler-with-cpp {BOTH} {{includes}} "{{source_file}}" -o "{{object_file}}"
recipe.ar.pattern=arm-none-eabi-ar rcs "{{archive_file_path}}" "{{object_file}}"
archive_file=core.a
recipe.c.combine.pattern=arm-none-eabi-gcc {BOTH} -Wl,--gc-sections --specs=nosys.specs --specs=nano.specs \
-Wl,--no-warn-rwx-segments -Wl,--start-group {{object_files}} "{{build.path}}/{{archive_file}}" -lm -Wl,--end-group \
-o "{{build.path}}/{{build.project_name}}.elf"
recipe.preproc.macros=arm-none-eabi-g++ -w -x c++ -E -CC {CXX_FLAGS} {{includes}} "{{source_file}}" \
-o "{{preprocessed_file_path}}"
tools.ctags.pattern=arduino-ctags -u --language-force=c++ -f - --c++-kinds=svpf --fields=KSTtzns --line-directives \
"{{source_file}}"
""",
    "cores/arduino/Arduino.h": """\
#pragma once
#include <stddef.h>
#include <stdint.h>
enum { LOW, HIGH, INPUT = 0, OUTPUT };
struct Stream {
    void begin(unsigned long);
    int available();
    int read();
    size_t write(uint8_t);
    size_t write(const uint8_t *, size_t);
    void flush();
};
extern Stream Serial;
void pinMode(int, int);
void digitalWrite(int, int);
unsigned long micros();
void delay(unsigned long);
void delayMicroseconds(unsigned int);
void yield();
void setup();
void loop();
""",
    "cores/arduino/core.cpp": """\
#include "Arduino.h"
Stream Serial;
static volatile unsigned long hardware;
void Stream::begin(unsigned long rate) { hardware = rate; }
int Stream::available() { return 1; }
int Stream::read() { return static_cast<int>(hardware); }
size_t Stream::write(uint8_t byte) { hardware = byte; return 1; }
size_t Stream::write(const uint8_t *data, size_t bytes) { hardware = *data; return bytes; }
void Stream::flush() {}
void pinMode(int pin, int) { hardware = pin; }
void digitalWrite(int pin, int level) { hardware = pin + level; }
unsigned long micros() { return hardware; }
void delay(unsigned long ms) { hardware = ms; }
void delayMicroseconds(unsigned int us) { hardware = us; }
void yield() {}
int main() { setup(); for (;;) loop(); }
""",
    "libraries/SPI/SPI.h": """\
#pragma once
#include <Arduino.h>
enum { MSBFIRST = 1, SPI_MODE0 = 0 };
struct SPISettings { SPISettings(uint32_t, int, int) {} };
struct SPIClass {
    void begin() {}
    void beginTransaction(SPISettings) {}
    void endTransaction() {}
    uint8_t transfer(uint8_t byte) { return static_cast<uint8_t>(byte + micros()); }
};
extern SPIClass SPI;
""",
    "libraries/SPI/SPI.cpp": '#include "SPI.h"\nSPIClass SPI;\n',
}


def write_core(folder: Path) -> None:
    """Into a folder of hardware, as arduino-builder looks for it."""
    for name, text in FILES.items():
        path = folder / "poet" / "mbed" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
