# SPDX-License-Identifier: Apache-2.0
"""Every register address, field, value and interrupt number in drivers and emulation, against the vendors' files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from poet_harness.emulation import EmulationError
from poet_harness.emulation.chip import Chip
from poet_harness.emulation.core_registers import SystemControlSpace
from poet_profiles.boards import load_board

from tests.support import ROOT
from tests.support.emulation.emulated_board import BOARDS, Opener
from tests.support.emulation.vendor_svd import Svd, SvdRegister, load_svd

DEFINE = re.compile(r"^#define (\w+)(?:\((\w+)\))? (.+?)(?:\s*/\*.*)?$", re.MULTILINE)
ADDRESS = re.compile(r"REGISTER(8|16|32)?\((0x[0-9A-F]+)u(?: \+ (?:(\d+)u \* )?\(\w+\))?\)")
FIELD = re.compile(r"\(1u << (\d+)\)|\(\(uint32_t\)\(value\) << (\d+)\)")
NUMBER = re.compile(r"(0x[0-9A-F]+|\d+)u$")

# Values that the drivers name without their register.
NAMED_VALUES = {
    "nrf52840": {"PULL_UP": ("P0", "PIN_CNF[0]", "PULL")},
    "mkr1000": {
        "OSC8M_DIV8": ("SYSCTRL", "OSC8M", "PRESC"),
        "GCLK_SOURCE_XOSC32K": ("GCLK", "GENCTRL", "SRC"),
        "GCLK_SOURCE_DFLL48M": ("GCLK", "GENCTRL", "SRC"),
        "PORT_FUNCTION_C": ("PORT", "PMUX0_0", "PMUXE"),
        "PORT_FUNCTION_D": ("PORT", "PMUX0_0", "PMUXE"),
        "TC_MODE_COUNT32": ("TC4", "COUNT32.CTRLA", "MODE"),
        "TC_PRESCALER_DIV8": ("TC4", "COUNT32.CTRLA", "PRESCALER"),
        "SERCOM_MODE_USART_INTERNAL": ("SERCOM5", "USART.CTRLA", "MODE"),
        "SERCOM_MODE_SPI_MASTER": ("SERCOM1", "SPI.CTRLA", "MODE"),
    },
}

# Numbers that no SVD file lists: data sheet DS40001882, table 15-5 "Generic Clock Selection ID", and the vendor's
# header component/gclk.h, GCLK_CLKCTRL_ID_DFLL48_Val and so on.
# Nordic's nrfx (nrf52840.h, nrf52_erratas.h: nrf52_configuration_249) has the rest.
UNLISTED_REGISTERS = {
    "nrf52840": {"APPROTECT_DISABLE": 0x40000558, "FICR_PART_CODE": 0x10000130, "FICR_REVISION_CODE": 0x10000134},
}
UNLISTED_ADDRESSES = {address for registers in UNLISTED_REGISTERS.values() for address in registers.values()}
UNLISTED = {
    "PART_CODE_NRF52840": 8,
    "REVISION_CODE_F0": 5,
    "GCLK_ID_DFLL48": 0,
    "GCLK_ID_SERCOM1_CORE": 0x15,
    "GCLK_ID_SERCOM5_CORE": 0x19,
    "GCLK_ID_TC4_TC5": 0x1C,
}


def flat(name: str) -> str:
    """A register's SVD name as the drivers write it."""
    return re.sub(r"\[\d+\]", "", name).replace(".", "_")


def split_peripheral(svd: Svd, name: str) -> tuple[str, str]:
    """``TIMER0_TASKS_START`` into peripheral and the rest."""
    fits = [peripheral for peripheral in svd.registers if name.startswith(peripheral + "_")]
    assert fits, f"{name}: no such peripheral"
    peripheral = max(fits, key=len)
    return peripheral, name[len(peripheral) + 1 :]


def candidates(svd: Svd, peripheral: str, register: str) -> list[SvdRegister]:
    """Registers of that name; every element of an array."""
    found = []
    for name, entries in svd.registers[peripheral].items():
        if flat(name) == register or (register.endswith("_") and re.fullmatch(register + r"\d+", flat(name))):
            found += entries
    return found


def longest_register(svd: Svd, peripheral: str, rest: str) -> tuple[list[SvdRegister], str]:
    """``CTRLA_SWRST`` into the register CTRLA and the field SWRST."""
    parts = rest.split("_")
    for count in range(len(parts), 0, -1):
        for name in ("_".join(parts[:count]), "_".join(parts[:count]) + "_0"):
            found = candidates(svd, peripheral, name)
            if found:
                return found, "_".join(parts[count:])
    raise AssertionError(f"{peripheral}_{rest}: no such register")


@pytest.mark.parametrize("name", (*BOARDS, "nucleo-f411re"))
def test_the_drivers_registers_are_the_vendors(name: str) -> None:
    svd = load_svd(name)
    header = (ROOT / "firmware/boards" / str(load_board(name).chip) / "registers.h").read_text()
    checked = {"registers": 0, "fields": 0, "values": 0}
    for macro, parameter, body in DEFINE.findall(header):
        if macro.startswith("REGISTER") or macro.endswith("_REGISTERS_H"):
            continue
        if address := ADDRESS.fullmatch(body):
            check_register(svd, name, macro, parameter, address)
            checked["registers"] += 1
        elif field := FIELD.fullmatch(body):
            check_field(svd, macro, int(field.group(1) or field.group(2)), single=field.group(1) is not None)
            checked["fields"] += 1
        elif number := NUMBER.fullmatch(body):
            check_value(svd, name, macro, int(number.group(1), 0))
            checked["values"] += 1
        else:
            raise AssertionError(f"{macro}: this test does not understand {body!r}")
    # ST's file has no names for values: only interrupt numbers can be looked up.
    least = 0 if name == "nucleo-f411re" else 7
    assert checked["registers"] > 25 and checked["fields"] > 4 and checked["values"] > least, checked


def check_register(svd: Svd, board: str, macro: str, parameter: str, address: re.Match[str]) -> None:
    unlisted = UNLISTED_REGISTERS.get(board, {})
    if macro in unlisted:
        assert int(address.group(2), 0) == unlisted[macro], macro
        return
    peripheral, register = split_peripheral(svd, macro)
    entries = candidates(svd, peripheral, register)
    assert entries, f"{macro}: {peripheral} has no register {register}"
    addresses = sorted({entry.address for entry in entries})
    assert int(address.group(2), 0) == addresses[0], macro
    if parameter:
        assert addresses[1] - addresses[0] == int(address.group(3) or 1), f"{macro}: distance of two elements"
    width = int(address.group(1) or 32) // 8
    assert all(entry.width in (0, width) for entry in entries), f"{macro}: width"


def check_field(svd: Svd, macro: str, lsb: int, single: bool) -> None:
    peripheral, rest = split_peripheral(svd, macro)
    entries, field = longest_register(svd, peripheral, rest)
    found = [entry.fields[field] for entry in entries if field in entry.fields]
    assert found, f"{macro}: no such field"
    assert {entry.lsb for entry in found} == {lsb}, macro
    # INTFLAG_MC0 is written to INTENSET as well, and a field of several bits needs a value.
    assert not single or found[0].width == 1, f"{macro}: {found[0].width} bits"


def check_value(svd: Svd, board: str, macro: str, value: int) -> None:
    if macro.endswith("_IRQ"):
        assert svd.interrupts[macro.removesuffix("_IRQ")] == value, macro
        return
    if macro in UNLISTED:
        assert value == UNLISTED[macro], macro
        return
    if macro in NAMED_VALUES[board]:
        peripheral, register, field = NAMED_VALUES[board][macro]
        values = svd.registers[peripheral][register][0].fields[field].values
    else:
        peripheral, rest = split_peripheral(svd, macro)
        entries, _ = longest_register(svd, peripheral, rest)
        values = frozenset().union(*(field.values for entry in entries for field in entry.fields.values()))
    assert value in values, f"{macro}: {value} is not among {sorted(values)}"


@pytest.mark.parametrize("name", BOARDS)
def test_the_emulated_registers_are_the_vendors(open_line: Opener, name: str) -> None:
    check_registers(load_svd(name), open_line(name, greet=False).emulated.chip)


def check_registers(svd: Svd, chip: Chip, but: frozenset[str] = frozenset()) -> None:
    """Every register of an emulated chip; `but` are places whose reset value the vendor's file has wrong."""
    for peripheral in chip.bus.peripherals:
        if isinstance(peripheral, SystemControlSpace):
            continue  # the core's own: Arm's manual, not the vendor's file; or in no manual
        listed = {
            register: modelled
            for register, modelled in peripheral.REGISTERS.items()
            if peripheral.base + modelled.offset not in UNLISTED_ADDRESSES
        }
        assert not listed or svd.bases[peripheral.name] == peripheral.base
        for register, modelled in listed.items():
            entries = svd.registers[peripheral.name][register]
            place = f"{peripheral.name}.{register}"
            assert {entry.address for entry in entries} == {peripheral.base + modelled.offset}, place
            assert all(entry.width in (0, modelled.width) for entry in entries), place
            resets = {entry.reset for entry in entries} - {None}
            assert place in but or not resets or modelled.reset in resets, f"{place}: reset value"


@pytest.mark.parametrize("name", BOARDS)
def test_an_address_that_the_vendor_does_not_know_faults(open_line: Opener, name: str) -> None:
    svd = load_svd(name)
    bus = open_line(name, greet=False).emulated.chip.bus
    known = {
        entry.address for registers in svd.registers.values() for entries in registers.values() for entry in entries
    }
    known.update(UNLISTED_ADDRESSES)
    core = range(0xE000E000, 0xE000F000)
    answered = 0
    for page in bus.pages:
        for address in range(page, page + bus.PAGE):
            for width in (1, 2, 4):
                try:
                    bus.read(address, width)
                except EmulationError:
                    continue
                assert address in known or address in core, hex(address)
                answered += 1
    assert answered > 25


def test_the_firmware_cannot_touch_what_is_not_modelled(images: dict[str, Path], open_line: Opener) -> None:
    line = open_line("nrf52840")
    with pytest.raises(EmulationError, match=r"0x40002304.*UART0 \+ 0x304"):
        line.emulated.chip.bus.read(0x40002304, 4)
    with pytest.raises(EmulationError, match=r"write of 1 bytes at 0x40002524"):
        line.emulated.chip.bus.write(0x40002524, 1, 0)
