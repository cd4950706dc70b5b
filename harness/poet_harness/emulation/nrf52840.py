# SPDX-License-Identifier: Apache-2.0
"""The nRF52840 around its CPU, as far as firmware/boards/nrf52840 uses it.

Sections are those of the nRF52840 Product Specification v1.7. A pin is its port times 32 and its place there.
"""

from __future__ import annotations

import ctypes
import random
from dataclasses import dataclass
from typing import ClassVar

from poet_profiles.boards import Board, Pins, Regulator, pin_number

from .bus import Bus, EmulationError, Peripheral, Register, clear
from .clock import Clock
from .core_registers import NvicState, SystemControlSpace
from .counter import NEVER
from .machine import Machine, Memory
from .machine_state import MachineState, NativeChip
from .power import Power
from .sdcard import SdCard
from .serial_line import SerialLine, Starvation
from .spi_bus import SpiBus, SpiBusState
from .variation import Cause, Variation

MEMORY = Memory(0x0000, 0x00000000, 1024 * 1024, 0x20000000, 256 * 1024)

PULL_UP = 3
INPUT_DISCONNECTED = 1 << 1
REVISION_CODE_F0 = 5
HARDWARE_DISABLED = 0x5A
TIMER_IRQ = 8
SPIM_IRQ = 3
SPIM_END_INTERRUPT = 1 << 6
TIMER_HZ = 16_000_000
TIMER_COMPARE_0_INTERRUPT = 1 << 16
BAUDRATES = {0x10000000: 1_000_000, 0x01D7E000: 115_200}
SPI_FREQUENCIES = {
    0x02000000: 125e3, 0x04000000: 250e3, 0x08000000: 500e3, 0x10000000: 1e6,
    0x20000000: 2e6, 0x40000000: 4e6, 0x80000000: 8e6,
}  # fmt: skip
CRYSTAL_START_S = 360e-6  # 5.4.6, start-up time of the 32 MHz crystal oscillator, typical
RANDOM_BYTE_S = 30e-6  # 6.19.2, without bias correction, typical
BITS_A_BYTE = 10


class ClockControl(Peripheral):
    """5.4 CLOCK."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "TASKS_HFCLKSTART": Register(0x000),
        "EVENTS_HFCLKSTARTED": Register(0x100),
    }

    def __init__(self, clock: Clock, crystal_starts: bool) -> None:
        self._clock = clock
        self._crystal_starts = crystal_starts
        super().__init__("CLOCK", 0x40000000)

    def write_tasks_hfclkstart(self, _value: int) -> None:
        if not self._crystal_starts:
            return
        self._clock.advance_to(self._clock.now + self._clock.cycles(CRYSTAL_START_S))
        self.values["EVENTS_HFCLKSTARTED"] = 1


class PowerControl(Peripheral):
    """5.3 POWER: reset causes, and the converter in front of the core. It starts on the linear regulator."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "RESETREAS": Register(0x400),
        "GPREGRET": Register(0x51C),
        "DCDCEN": Register(0x578),
    }
    CAUSES: ClassVar[dict[Cause, int]] = {"power": 0, "pin": 1 << 0, "request": 1 << 2, "lockup": 1 << 3}

    def __init__(self, power: Power, regulator: Regulator | None) -> None:
        self._power = power
        self._ldo_ratio = regulator.ldo_current_ratio if regulator else 1.0
        self._causes = 0
        super().__init__("POWER", 0x40000000)

    def power_on(self) -> None:
        self._retained = self.values["GPREGRET"] if self.values else 0
        super().power_on()
        self._power.cpu_draws(self._ldo_ratio)

    def came_up(self, cause: Cause) -> None:
        """Causes add up until the firmware clears them or the supply fails."""
        self._causes = self._causes | self.CAUSES[cause] if cause != "power" else 0
        self.values["GPREGRET"] = self._retained if cause != "power" else 0

    def read_resetreas(self) -> int:
        return self._causes

    def write_resetreas(self, value: int) -> None:
        self._causes &= ~value

    def write_dcdcen(self, value: int) -> None:
        self.values["DCDCEN"] = value
        self._power.cpu_draws(1.0 if value & 1 else self._ldo_ratio)


class AccessPort(Peripheral):
    """4.8 APPROTECT, the firmware's half of the debug port's lock: each reset closes it (build code F0 and later)."""

    REGISTERS: ClassVar[dict[str, Register]] = {"DISABLE": Register(0x558)}

    def __init__(self) -> None:
        super().__init__("APPROTECT", 0x40000000)


class UserConfiguration(Peripheral):
    """4.5 UICR: flash, which no reset changes."""

    REGISTERS: ClassVar[dict[str, Register]] = {"APPROTECT": Register(0x208, reset=0xFFFFFFFF)}

    def __init__(self, approtect: int) -> None:
        self._approtect = 0xFFFFFF00 | approtect
        super().__init__("UICR", 0x10001000)

    def power_on(self) -> None:
        self.values["APPROTECT"] = self._approtect


class FactoryInformation(Peripheral):
    """4.4 FICR: part and revision as Nordic's nrfx reads them (`nrf52_configuration_249`)."""

    REGISTERS: ClassVar[dict[str, Register]] = {"PART_CODE": Register(0x130), "REVISION_CODE": Register(0x134)}

    def __init__(self, revision_code: int) -> None:
        self.revision_code = revision_code
        super().__init__("FICR", 0x10000000)

    def power_on(self) -> None:
        self.values.update(PART_CODE=8, REVISION_CODE=self.revision_code)


class FlashControl(Peripheral):
    """4.3 NVMC."""

    REGISTERS: ClassVar[dict[str, Register]] = {"ICACHECNF": Register(0x540)}

    def __init__(self) -> None:
        super().__init__("NVMC", 0x4001E000)


class Port(Peripheral):
    """6.9 GPIO, one port. `changed` is told of every pin that changes."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "OUTSET": Register(0x508),
        "OUTCLR": Register(0x50C),
        "DIRSET": Register(0x518),
        **{f"PIN_CNF[{pin}]": Register(0x700 + 4 * pin, reset=2) for pin in range(32)},
    }

    def power_on(self) -> None:
        super().power_on()
        self.out = 0
        self.drives = 0

    def read_outset(self) -> int:
        return self.out

    def read_outclr(self) -> int:
        return self.out

    def write_outset(self, value: int) -> None:
        self._set_out(self.out | value)

    def write_outclr(self, value: int) -> None:
        self._set_out(self.out & ~value)

    def write_dirset(self, value: int) -> None:
        self.drives |= value

    def is_output(self, pin: int) -> bool:
        """Whether the pin is driven."""
        return bool((self.drives >> pin | self.values[f"PIN_CNF[{pin}]"]) & 1)

    def _set_out(self, value: int) -> None:
        changed, self.out = self.out ^ value, value
        if changed:
            self.changed(changed)

    def changed(self, pins: int) -> None:
        """Some outputs changed level."""


@dataclass(frozen=True)
class Wiring:
    """What the board's pins are for."""

    serial: tuple[int, int]
    spi: tuple[int, int, int]
    window: int
    card_cs: int
    card_miso: int
    card_sck: int

    @classmethod
    def of(cls, pins: Pins) -> Wiring:
        """The wiring that a board's file says."""
        number = {name: pin_number(pin) for name, pin in pins.model_dump(exclude={"high", "low"}).items()}
        return cls(
            (number["serial_tx"], number["serial_rx"]),
            (number["card_sck"], number["card_mosi"], number["card_miso"]),
            *(number[name] for name in ("window", "card_cs", "card_miso", "card_sck")),
        )


class WiredPort(Port):
    """A port that may carry the window line and the card's chip select."""

    def __init__(self, number: int, wiring: Wiring, card: SdCard, power: Power) -> None:
        self._number = number
        self._wiring = wiring
        self._card = card
        self._power = power
        super().__init__(f"P{number}", 0x50000000 + 0x300 * number)

    def changed(self, pins: int) -> None:
        if self._is(self._wiring.window, pins):
            place = self._wiring.window % 32
            if not self.is_output(place) and self.out >> place & 1:
                raise EmulationError("the window line is raised while its pin is an input")
            self._power.window(bool(self.out >> place & 1))
        if self._is(self._wiring.card_cs, pins):
            self._card.select(not self.out >> self._wiring.card_cs % 32 & 1)

    def _is(self, pin: int, pins: int) -> bool:
        return pin // 32 == self._number and bool(pins >> pin % 32 & 1)


class RandomNumbers(Peripheral):
    """6.19 RNG. The numbers differ between power-ups and resets and repeat with the seed."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "TASKS_START": Register(0x000),
        "TASKS_STOP": Register(0x004),
        "EVENTS_VALRDY": Register(0x100),
        "VALUE": Register(0x508),
    }

    def __init__(self, clock: Clock, seed: int) -> None:
        self._clock = clock
        self._random = random.Random(seed)
        super().__init__("RNG", 0x4000D000)

    def power_on(self) -> None:
        super().power_on()
        self._running = False

    def write_tasks_start(self, _value: int) -> None:
        self._running = True

    def write_tasks_stop(self, _value: int) -> None:
        self._running = False

    def read_events_valrdy(self) -> int:
        if self._running and not self.values["EVENTS_VALRDY"]:
            self._clock.advance_to(self._clock.now + self._clock.cycles(RANDOM_BYTE_S))
            self.values.update(EVENTS_VALRDY=1, VALUE=self._random.getrandbits(8))
        return self.values["EVENTS_VALRDY"]


class TimerState(ctypes.Structure):
    """``struct nrf52840_timer`` of native/nrf52840.h."""

    _fields_ = [
        ("started_at", ctypes.c_uint64),
        ("due1", ctypes.c_uint64),
        ("due2", ctypes.c_uint64),
        ("cycles_a_tick", ctypes.c_uint32),
        ("interrupts", ctypes.c_uint32),
        ("cc0", ctypes.c_uint32),
        ("cc1", ctypes.c_uint32),
        ("cc2", ctypes.c_uint32),
        ("compare1", ctypes.c_uint32),
        ("compare2", ctypes.c_uint32),
    ]


class Timer(Peripheral):
    """6.30 TIMER0 as a 32-bit counter of 16 MHz, with a capture channel (0) and two compare channels (1, 2)."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "TASKS_START": Register(0x000),
        "TASKS_STOP": Register(0x004),
        "TASKS_CLEAR": Register(0x00C),
        "TASKS_CAPTURE[0]": Register(0x040),
        "EVENTS_COMPARE[1]": Register(0x144),
        "EVENTS_COMPARE[2]": Register(0x148),
        "INTENSET": Register(0x304),
        "INTENCLR": Register(0x308),
        "MODE": Register(0x504),
        "BITMODE": Register(0x508),
        "PRESCALER": Register(0x510, reset=4),
        "CC[0]": Register(0x540),
        "CC[1]": Register(0x544),
        "CC[2]": Register(0x548),
    }

    SHARED: ClassVar[dict[str, str]] = {
        "EVENTS_COMPARE[1]": "compare1",
        "EVENTS_COMPARE[2]": "compare2",
        "INTENSET": "interrupts",
        "CC[0]": "cc0",
        "CC[1]": "cc1",
        "CC[2]": "cc2",
    }

    def __init__(self, clock: Clock, state: TimerState) -> None:
        self._clock = clock
        self.state = state
        super().__init__("TIMER0", 0x40008000)

    def power_on(self) -> None:
        super().power_on()
        clear(self.state)
        self.state.due1 = self.state.due2 = NEVER

    def wakes_at(self) -> int | None:
        """When a compare interrupt will be pending, in cycles."""
        state = self.state
        dues = ((1, state.due1), (2, state.due2))
        armed = (due for channel, due in dues if state.interrupts & TIMER_COMPARE_0_INTERRUPT << channel)
        return min((due for due in armed if due != NEVER), default=None)

    def _ticks(self) -> int:
        if not self.state.cycles_a_tick:
            raise EmulationError("TIMER0 is read before it is started")
        return int((self._clock.now - self.state.started_at) // self.state.cycles_a_tick) & 0xFFFFFFFF

    def write_tasks_start(self, _value: int) -> None:
        if self.values["BITMODE"] != 3 or self.values["MODE"] != 0:
            raise EmulationError("TIMER0 is modelled as a 32-bit timer (BITMODE 3, MODE 0) alone")
        self.state.started_at = self._clock.now
        self.state.cycles_a_tick = self._cycles_a_tick()

    def write_tasks_clear(self, _value: int) -> None:
        self.state.started_at = self._clock.now

    def write_prescaler(self, value: int) -> None:
        self.values["PRESCALER"] = value
        if self.state.cycles_a_tick:
            self.state.cycles_a_tick = self._cycles_a_tick()

    def _cycles_a_tick(self) -> int:
        return self._clock.hz // TIMER_HZ << self.values["PRESCALER"]

    def write_tasks_capture0(self, _value: int) -> None:
        self.state.cc0 = self._ticks()

    def write_cc1(self, value: int) -> None:
        self.state.cc1, self.state.due1 = value, self._due(value)

    def write_cc2(self, value: int) -> None:
        self.state.cc2, self.state.due2 = value, self._due(value)

    def _due(self, value: int) -> int:
        left = (value - self._ticks() - 1 & 0xFFFFFFFF) + 1
        return self._clock.now + left * int(self.state.cycles_a_tick)

    def read_events_compare1(self) -> int:
        if self._clock.now >= self.state.due1:
            self.state.compare1 = 1
            self.state.due1 += self.state.cycles_a_tick << 32
        return int(self.state.compare1)

    def read_events_compare2(self) -> int:
        if self._clock.now >= self.state.due2:
            self.state.compare2 = 1
            self.state.due2 += self.state.cycles_a_tick << 32
        return int(self.state.compare2)

    def write_intenset(self, value: int) -> None:
        self.state.interrupts |= value

    def write_intenclr(self, value: int) -> None:
        self.state.interrupts &= ~value


class Uart(Peripheral):
    """6.33 UART without EasyDMA."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "TASKS_STARTRX": Register(0x000),
        "TASKS_STARTTX": Register(0x008),
        "EVENTS_RXDRDY": Register(0x108),
        "EVENTS_TXDRDY": Register(0x11C),
        "ENABLE": Register(0x500),
        "PSEL.TXD": Register(0x50C, reset=0xFFFFFFFF),
        "PSEL.RXD": Register(0x514, reset=0xFFFFFFFF),
        "RXD": Register(0x518),
        "TXD": Register(0x51C),
        "BAUDRATE": Register(0x524, reset=0x04000000),
        "CONFIG": Register(0x56C),
    }

    def __init__(self, clock: Clock, line: SerialLine, starvation: Starvation, pins: tuple[int, int]) -> None:
        self._clock = clock
        self._line = line
        self._starvation = starvation
        self._pins = pins
        super().__init__("UART0", 0x40002000)

    def power_on(self) -> None:
        super().power_on()
        self._receives = self._sends = False
        self._sent_at: int | None = None
        self._next_arrival = 0

    def _byte_cycles(self) -> int:
        rate = BAUDRATES.get(self.values["BAUDRATE"])
        if rate is None or self.values["CONFIG"] != 0:
            raise EmulationError(f"UART0: BAUDRATE 0x{self.values['BAUDRATE']:08X} or CONFIG is not modelled")
        return self._clock.cycles(BITS_A_BYTE / rate)

    def _check(self, started: bool) -> None:
        pins = (self.values["PSEL.TXD"], self.values["PSEL.RXD"])
        if not started or self.values["ENABLE"] != 4 or pins != self._pins:
            raise EmulationError("UART0 is used before it is enabled, started and connected to the board's serial pins")

    def write_tasks_startrx(self, _value: int) -> None:
        self._receives = True

    def write_tasks_starttx(self, _value: int) -> None:
        self._sends = True

    def read_events_rxdrdy(self) -> int:
        self._check(self._receives)
        if not self.values["EVENTS_RXDRDY"]:
            if self._line.waiting:
                self._clock.advance_to(self._next_arrival)
                self._next_arrival = self._clock.now + self._byte_cycles()
                self.values.update(EVENTS_RXDRDY=1, RXD=self._line.receive())
                self._starvation.busy()
            else:
                self._starvation.empty_poll(self._clock.now)
        return self.values["EVENTS_RXDRDY"]

    def write_txd(self, value: int) -> None:
        self._check(self._sends)
        if self._sent_at is not None and self._clock.now < self._sent_at:
            raise EmulationError("UART0: a byte is written before the last one was sent")
        self._sent_at = self._clock.now + self._byte_cycles()
        self._line.send(value & 0xFF)
        self._starvation.busy()

    def read_events_txdrdy(self) -> int:
        if self._sent_at is not None:
            self._clock.advance_to(self._sent_at)
            self._sent_at = None
            self.values["EVENTS_TXDRDY"] = 1
        return self.values["EVENTS_TXDRDY"]


def configuration(ports: tuple[Port, Port], pin: int) -> int:
    """PIN_CNF of a pin."""
    return int(ports[pin // 32].values[f"PIN_CNF[{pin % 32}]"])


class SpiState(ctypes.Structure):
    """``struct nrf52840_spim`` of native/nrf52840.h: a transfer under way, and registers."""

    _fields_ = [
        ("begin", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("byte_cycles", ctypes.c_uint64),
        ("send", ctypes.c_uint32),
        ("send_bytes", ctypes.c_uint32),
        ("receive", ctypes.c_uint32),
        ("receive_bytes", ctypes.c_uint32),
        ("events_end", ctypes.c_uint32),
        ("interrupts", ctypes.c_uint32),
        ("txd_ptr", ctypes.c_uint32),
        ("txd_maxcnt", ctypes.c_uint32),
        ("rxd_ptr", ctypes.c_uint32),
        ("rxd_maxcnt", ctypes.c_uint32),
        ("busy", ctypes.c_uint8),
        ("ready", ctypes.c_uint8),
        ("over_read", ctypes.c_uint8),
    ]


class SpiMaster(Peripheral):
    """6.25 SPIM0 with EasyDMA.

    The bytes move at once at the end of the transfer: data that the CPU changes on the way, or looks at too early,
    shows as an error, as it may on the chip.
    """

    REGISTERS: ClassVar[dict[str, Register]] = {
        "TASKS_START": Register(0x010),
        "EVENTS_END": Register(0x118),
        "INTENSET": Register(0x304),
        "INTENCLR": Register(0x308),
        "ENABLE": Register(0x500),
        "PSEL.SCK": Register(0x508, reset=0xFFFFFFFF),
        "PSEL.MOSI": Register(0x50C, reset=0xFFFFFFFF),
        "PSEL.MISO": Register(0x510, reset=0xFFFFFFFF),
        "FREQUENCY": Register(0x524, reset=0x04000000),
        "RXD.PTR": Register(0x534),
        "RXD.MAXCNT": Register(0x538),
        "TXD.PTR": Register(0x544),
        "TXD.MAXCNT": Register(0x548),
        "CONFIG": Register(0x554),
        "ORC": Register(0x5C0),
    }

    SHARED: ClassVar[dict[str, str]] = {
        "EVENTS_END": "events_end",
        "INTENSET": "interrupts",
        "RXD.PTR": "rxd_ptr",
        "RXD.MAXCNT": "rxd_maxcnt",
        "TXD.PTR": "txd_ptr",
        "TXD.MAXCNT": "txd_maxcnt",
    }

    def __init__(
        self, clock: Clock, bus: SpiBus, machine: Machine, ports: tuple[Port, Port], wiring: Wiring, state: SpiState
    ) -> None:
        self._clock = clock
        self._ports = ports
        self._wiring = wiring
        self._bus = bus
        self._machine = machine
        self.state = state
        super().__init__("SPIM0", 0x40003000)

    def power_on(self) -> None:
        super().power_on()
        clear(self.state)

    def interrupts_at(self) -> int | None:
        """When the END interrupt is pending, in cycles."""
        if not self.state.interrupts & SPIM_END_INTERRUPT:
            return None
        if self.state.events_end:
            return self._clock.now
        return int(self.state.end) if self.state.busy else None

    def write_tasks_start(self, _value: int) -> None:
        values, state = self.values, self.state
        pins = (values["PSEL.SCK"], values["PSEL.MOSI"], values["PSEL.MISO"])
        if values["ENABLE"] != 7 or pins != self._wiring.spi or values["CONFIG"] != 0:
            raise EmulationError("SPIM0 is started before it is enabled, in mode 0 and connected to the card's pins")
        if configuration(self._ports, self._wiring.card_sck) & INPUT_DISCONNECTED:
            raise EmulationError("SPIM0 is started while the input buffer of SCK, which it hears itself by, is off")
        if state.busy:
            raise EmulationError("SPIM0 is started while a transfer is under way")
        for name, count, place in (
            ("TXD", state.txd_maxcnt, state.txd_ptr),
            ("RXD", state.rxd_maxcnt, state.rxd_ptr),
        ):
            if count > 0xFFFF or (count and not self._machine.in_ram(place, count)):
                raise EmulationError(f"SPIM0: {count} bytes at {name}.PTR 0x{place:08X} are not in RAM")
        state.send, state.send_bytes = state.txd_ptr, state.txd_maxcnt
        state.receive, state.receive_bytes = state.rxd_ptr, state.rxd_maxcnt
        self._hz = SPI_FREQUENCIES[values["FREQUENCY"]]
        state.byte_cycles = self._bus.duration(1, self._hz)
        state.over_read = values["ORC"]
        state.begin = self._clock.now
        state.end = state.begin + max(state.txd_maxcnt, state.rxd_maxcnt) * state.byte_cycles
        state.busy = state.ready = True
        self._schedule()

    def write_intenset(self, value: int) -> None:
        self.state.interrupts |= value
        self._schedule()

    def write_intenclr(self, value: int) -> None:
        self.state.interrupts &= ~value

    def read_events_end(self) -> int:
        if self.state.busy:
            if not self.state.interrupts & SPIM_END_INTERRUPT:
                self._finish_polled()
            elif self._clock.now >= self.state.end:
                self._store(self._bus.move(self._sent(), self.state.begin, self._hz))
        return int(self.state.events_end)

    def _schedule(self) -> None:
        when = self.interrupts_at()
        if when is not None:
            self._machine.interrupt_at(when)

    def _finish_polled(self) -> None:
        """The CPU asks over and over: skip to the end."""
        received, end = self._bus.poll(self._sent(), self.state.begin, self._hz)
        self._clock.advance_to(end)
        self._store(received)

    def _sent(self) -> bytes:
        state = self.state
        sent = self._machine.read_memory(state.send, state.send_bytes) if state.send_bytes else b""
        return sent + bytes([state.over_read] * (state.receive_bytes - state.send_bytes))

    def _store(self, received: bytes) -> None:
        if self.state.receive_bytes:
            self._machine.write_memory(self.state.receive, received[: self.state.receive_bytes])
        self.state.busy = False
        self.state.events_end = 1


class ChipState(ctypes.Structure):
    """``struct nrf52840`` of native/nrf52840.h."""

    _fields_ = [
        ("timer", TimerState),
        ("spim", SpiState),
        ("bus", SpiBusState),
        ("machine", ctypes.POINTER(MachineState)),
        ("nvic", ctypes.POINTER(NvicState)),
    ]


class Nrf52840:
    """The chip: every peripheral that the firmware uses."""

    def __init__(
        self,
        board: Board,
        variation: Variation,
        machine: Machine,
        card: SdCard,
        power: Power,
        line: SerialLine,
        starvation: Starvation,
        seed: int,
    ) -> None:
        clock = machine.clock
        assert board.pins is not None
        wiring = Wiring.of(board.pins)
        ports = WiredPort(0, wiring, card, power), WiredPort(1, wiring, card, power)
        card.pulled_up = lambda: configuration(ports, wiring.card_miso) >> 2 & 3 == PULL_UP
        self._supply = PowerControl(power, board.regulator)
        self._configuration = UserConfiguration(variation.uicr_approtect)
        self._information = FactoryInformation(variation.revision_code)
        self._debug = AccessPort()
        self._core = SystemControlSpace(lambda: machine.request_reset("request"))
        state = ChipState(machine=ctypes.pointer(machine.state), nvic=ctypes.pointer(self._core.state))
        self._timer = Timer(clock, state.timer)
        self._spi = SpiMaster(clock, SpiBus(card, clock, state.bus), machine, ports, wiring, state.spim)
        self.native = NativeChip("nrf52840", state, card.attend)
        self.bus = Bus(
            (
                ClockControl(clock, variation.crystal_starts),
                self._supply,
                self._debug,
                self._configuration,
                self._information,
                FlashControl(),
                *ports,
                RandomNumbers(clock, seed),
                self._timer,
                Uart(clock, line, starvation, wiring.serial),
                self._spi,
                self._core,
            )
        )
        self._card = card
        self._power = power

    def next_interrupt(self) -> tuple[int, int] | None:
        """See `poet_harness.emulation.machine.Chip`."""
        sources = ((self._timer.wakes_at(), TIMER_IRQ), (self._spi.interrupts_at(), SPIM_IRQ))
        pending = [(when, irq) for when, irq in sources if when is not None and self._core.is_enabled(irq)]
        return min(pending, default=None)

    @property
    def debug_locked(self) -> bool:
        """See `poet_harness.emulation.machine.Chip`."""
        allowed = self._configuration.values["APPROTECT"] & 0xFF
        if self._information.revision_code < REVISION_CODE_F0:
            return allowed == 0x00
        return not allowed == self._debug.values["DISABLE"] & 0xFF == HARDWARE_DISABLED

    def reset(self, cause: Cause) -> None:
        """Pins float: pull-ups release the card, a pull-down ends the window."""
        self.bus.power_on()
        self._supply.came_up(cause)
        self._card.select(False)
        self._power.window(False)
