# SPDX-License-Identifier: Apache-2.0
"""What a board's file (profiles/boards/NAME.toml) says, as the compiler and the linker read it."""

PINS = ("serial_tx", "serial_rx", "window", "card_cs", "card_mosi", "card_miso", "card_sck")


def header(board):
    """Text of ``board_settings.h``: everything that differs between two boards with the same chip."""
    bootloader = board.get("bootloader")
    regulator = board.get("regulator")
    memory = board.get("memory") or {"begin": 0, "bytes": 0}
    lines = {
        "BOARD_NAME": f'"{board["name"]}"',
        "BOARD_CLOCK_HZ": f"{board['clock_hz']}u",
        "BOARD_CRYSTAL_HZ": f"{board.get('crystal_hz') or 0}u",
        "BOARD_CRYSTAL_IS_CLOCK": int(board.get("crystal_is_clock", False)),
        "BOARD_BAUD": f"{board['baud']}u",
        "BOARD_DCDC": int(bool(regulator and regulator["dcdc"])),
        "BOARD_BOOTLOADER": int(bool(bootloader)),
        "BOARD_BOOTLOADER_REQUEST": f"0x{bootloader['request'] if bootloader else 0:X}u",
        "BOARD_MEMORY_BEGIN": f"0x{memory['begin']:X}u",
        "BOARD_MEMORY_BYTES": f"{memory['bytes']}u",
        "BOARD_RAM_END": f"0x{board['image']['ram_end']:X}u",
        **{f"PIN_{name.upper()}": f"{pin_number(board['pins'][name])}u" for name in PINS},
        # Bit masks, one for each port of 32 pins.
        **{
            f"PINS_{level.upper()}_{port}": f"0x{mask(board['pins'].get(level, ()), port):X}u"
            for level in ("high", "low")
            for port in (0, 1, 2)
        },
    }
    defines = "\n".join(f"#define {name} {value}" for name, value in lines.items())
    return f"/* Made from profiles/boards/{board['name']}.toml at each build. */\n#pragma once\n\n{defines}\n"


def linker_script(board):
    """Text of ``board.ld``."""
    image = board["image"]
    kept = board["ram_bytes"] - (image["ram_end"] - image["ram_begin"])  # a bootloader's part of RAM
    return f"""/* Made from profiles/boards/{board["name"]}.toml at each build. */
ENTRY(poet_reset)
EXTERN(poet_vectors)

MEMORY
{{
    FLASH (rx) : ORIGIN = 0x{image["flash_begin"]:08X}, LENGTH = {image["flash_end"] - image["flash_begin"]}
    RAM (rw) : ORIGIN = 0x{image["ram_begin"]:08X}, LENGTH = {image["ram_end"] - image["ram_begin"]}
}}

/* The planner uses what ram_reserved_bytes leaves. */
poet_reserved = {board["ram_reserved_bytes"] - kept};
poet_stack_bytes = {image["stack_bytes"]};

INCLUDE "cortex_m/sections.ld"
"""


def pin_number(name):
    """``P1.08`` or ``PB08`` as port * 32 + pin."""
    return 32 * max("01".find(name[1]), "ABC".find(name[1])) + int(name[-2:])


def mask(names, port):
    """The pins of one port, a bit each."""
    return sum(1 << number % 32 for number in map(pin_number, names) if number // 32 == port)
