# SPDX-License-Identifier: Apache-2.0
"""Pins: window line, chip select, the card's data line, and which pins are a peripheral's."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from ..bus import EmulationError, Peripheral, Register
from ..parts import Parts
from .bit_banged_spi import BitBangedSpi
from .clock_tree import Feed


class OutputLines:
    """The two outputs that something on the board hangs on: the window line, and the card's chip select."""

    def __init__(self, parts: Parts) -> None:
        self._window, self._card_cs = (divmod(pin, 32) for pin in parts.pins("window", "card_cs"))
        self._power = parts.power
        self._card = parts.card

    def selects(self, port: int, changed: int) -> bool:
        """Whether chip select is among the pins that have changed."""
        return port == self._card_cs[0] and bool(changed >> self._card_cs[1] & 1)

    def moved(self, port: int, changed: int, levels: int, is_output: Callable[[int], bool]) -> None:
        """Some pins of a port have changed to `levels`."""
        window = self._window[1]
        if port == self._window[0] and changed >> window & 1:
            if levels >> window & 1 and not is_output(window):
                raise EmulationError("the window line is raised while its pin is an input")
            self._power.window(bool(levels >> window & 1))
        if self.selects(port, changed):
            self._card.select(not levels >> self._card_cs[1] & 1)


class NordicPort(Peripheral):
    """nRF52840, 6.9 GPIO, one port."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "OUTSET": Register(0x508),
        "OUTCLR": Register(0x50C),
        "DIRSET": Register(0x518),
        **{f"PIN_CNF[{pin}]": Register(0x700 + 4 * pin, reset=2) for pin in range(32)},
    }
    PULL_UP = 3

    def __init__(self, name: str, base: int, number: int, lines: OutputLines) -> None:
        self._number = number
        self._lines = lines
        super().__init__(name, base)

    def power_on(self) -> None:
        super().power_on()
        self._out = self._drives = 0

    def reads(self, pin: int) -> bool:
        """Whether a pin's input buffer is on."""
        return not self.values[f"PIN_CNF[{pin}]"] & 1 << 1

    def is_pulled_up(self, pin: int) -> bool:
        """Whether a pin has a pull-up."""
        return self.values[f"PIN_CNF[{pin}]"] >> 2 & 3 == self.PULL_UP

    def read_outset(self) -> int:
        return self._out

    def read_outclr(self) -> int:
        return self._out

    def write_outset(self, value: int) -> None:
        self._set_out(self._out | value)

    def write_outclr(self, value: int) -> None:
        self._set_out(self._out & ~value)

    def write_dirset(self, value: int) -> None:
        self._drives |= value

    def _set_out(self, value: int) -> None:
        changed, self._out = self._out ^ value, value
        self._lines.moved(self._number, changed, value, self._is_output)

    def _is_output(self, pin: int) -> bool:
        return bool((self._drives >> pin | self.values[f"PIN_CNF[{pin}]"]) & 1)


class SamPorts(Peripheral):
    """SAM D21, 23 PORT: groups A and B, with the card's data lines in A.

    A pull-up works only while the pin is no peripheral's (Microchip's support, and others' measurements; the data sheet
    says otherwise).
    """

    REGISTERS: ClassVar[dict[str, Register]] = {
        "IN0": Register(0x20),
        **{f"DIRSET{group}": Register(0x08 + 0x80 * group) for group in (0, 1)},
        **{f"OUTCLR{group}": Register(0x14 + 0x80 * group) for group in (0, 1)},
        **{f"OUTSET{group}": Register(0x18 + 0x80 * group) for group in (0, 1)},
        **{f"PMUX{group}_{pair}": Register(0x30 + 0x80 * group + pair, 1) for group in (0, 1) for pair in range(16)},
        **{f"PINCFG{group}_{pin}": Register(0x40 + 0x80 * group + pin, 1) for group in (0, 1) for pin in range(32)},
    }
    MOSI, SCK, MISO = 16, 17, 19

    def __init__(self, name: str, base: int, lines: OutputLines, by_hand: BitBangedSpi) -> None:
        self._lines = lines
        self._by_hand = by_hand
        super().__init__(name, base)

    def power_on(self) -> None:
        super().power_on()
        self._out = [0, 0]
        self._drives = [0, 0]

    def pulls_up_card(self) -> bool:
        """Whether the card's data line has a pull-up that works."""
        return self.values[f"PINCFG0_{self.MISO}"] & 0b101 == 0b100 and bool(self._out[0] >> self.MISO & 1)

    def read_in0(self) -> int:
        if self.values[f"PINCFG0_{self.MISO}"] & 0b011 != 0b010:
            raise EmulationError("PORT: PA19 is read while it is a peripheral's, or without its input buffer")
        return int(self._by_hand.data_in) << self.MISO

    def is_multiplexed(self, group: int, pin: int, function: int) -> bool:
        """Whether a pin is given to a peripheral function."""
        multiplexer = self.values[f"PMUX{group}_{pin // 2}"] >> (4 if pin % 2 else 0) & 0xF
        return bool(self.values[f"PINCFG{group}_{pin}"] & 1) and multiplexer == function

    def write_dirset0(self, value: int) -> None:
        self._drives[0] |= value

    def write_dirset1(self, value: int) -> None:
        self._drives[1] |= value

    def write_outset0(self, value: int) -> None:
        self._set_out(0, self._out[0] | value)

    def write_outset1(self, value: int) -> None:
        self._set_out(1, self._out[1] | value)

    def write_outclr0(self, value: int) -> None:
        self._set_out(0, self._out[0] & ~value)

    def write_outclr1(self, value: int) -> None:
        self._set_out(1, self._out[1] & ~value)

    def _set_out(self, group: int, value: int) -> None:
        changed, self._out[group] = self._out[group] ^ value, value
        if group == 0 and changed >> self.SCK & 1:
            self._clock_by_hand()
        if self._lines.selects(group, changed):
            self._by_hand.restart()
        self._lines.moved(group, changed, value, lambda pin: bool(self._drives[group] >> pin & 1))

    def _clock_by_hand(self) -> None:
        """SCK has moved as an output of the firmware's."""
        if self.values[f"PINCFG0_{self.SCK}"] & 1 or not self._drives[0] >> self.SCK & 1:
            return
        if self._out[0] >> self.SCK & 1:
            self._by_hand.rise(bool(self._out[0] >> self.MOSI & 1))
        else:
            self._by_hand.fall()


class StmPort(Peripheral):
    """STM32F411, 8.4 GPIO, one port."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "MODER": Register(0x00),
        "PUPDR": Register(0x0C),
        "BSRR": Register(0x18),
        "AFRL": Register(0x20),
        "AFRH": Register(0x24),
    }
    OUTPUT, ALTERNATE = 1, 2

    def __init__(self, name: str, base: int, number: int, lines: OutputLines, feed: Feed) -> None:
        self._number = number
        self._lines = lines
        self._feed = feed
        super().__init__(name, base)

    def power_on(self) -> None:
        super().power_on()
        self._out = 0

    def is_pulled_up(self, pin: int) -> bool:
        """Whether a pin has a pull-up."""
        return self.values["PUPDR"] >> 2 * pin & 3 == 1

    def is_given(self, pin: int, function: int) -> bool:
        """Whether a pin is a peripheral's."""
        functions = self.values["AFRH" if pin >= 8 else "AFRL"]
        return self._mode(pin) == self.ALTERNATE and functions >> 4 * (pin % 8) & 0xF == function

    def write_moder(self, value: int) -> None:
        self._feed.require_on()
        self.values["MODER"] = value

    def read_bsrr(self) -> int:
        return 0

    def write_bsrr(self, value: int) -> None:
        self._feed.require_on()
        before, self._out = self._out, (self._out & ~(value >> 16) | value) & 0xFFFF
        self._lines.moved(self._number, before ^ self._out, self._out, lambda pin: self._mode(pin) == self.OUTPUT)

    def _mode(self, pin: int) -> int:
        return self.values["MODER"] >> 2 * pin & 3


class StmPortA(StmPort):
    """With the debug port's pins, as they come out of reset."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        **StmPort.REGISTERS,
        "MODER": Register(0x00, reset=0xA8000000),
        "PUPDR": Register(0x0C, reset=0x64000000),
    }


class StmPortB(StmPort):
    """The same."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        **StmPort.REGISTERS,
        "MODER": Register(0x00, reset=0x00000280),
        "PUPDR": Register(0x0C, reset=0x00000100),
    }
