# SPDX-License-Identifier: Apache-2.0
"""A board without the board: the image that would be flashed, run with its serial line, card and supply current."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError
from poet_profiles.program.closing import Closing
from poet_profiles.program.stopping import undisturbed

from . import nrf52840, samd21, stm32f411
from .bus import EmulationError
from .chip import Chip
from .image import load_image
from .machine import Machine, Memory
from .parts import Parts
from .power import Power, Trace
from .sdcard import KIND, CardTiming, SdCard
from .serial_line import Faults, SerialLine
from .variation import Variation

CHIPS: dict[str, tuple[Memory, Callable[[Parts], Chip]]] = {
    "nrf52840": (nrf52840.MEMORY, nrf52840.Nrf52840),
    "samd21": (samd21.MEMORY, samd21.Samd21),
    "stm32f411": (stm32f411.MEMORY, stm32f411.Stm32f411),
}

# Between two looks at the host's clock; about a tenth of a second of work.
SLICE_CYCLES = 20_000_000


class EmulatedSerial:
    """The host's end of the serial line, with the part of pyserial's interface that the harness uses.

    Nothing runs in the background: `read` runs the board until it has said something.
    """

    def __init__(self, machine: Machine, line: SerialLine, timeout: float | None = 1.0) -> None:
        self.timeout = timeout
        self._machine = machine
        self._line = line
        self._starved = False

    def starve(self) -> None:
        """The board waits for the host."""
        self._starved = True
        self._machine.pause()

    @property
    def in_waiting(self) -> int:
        """Bytes that `read` returns at once."""
        return self._line.available

    def write(self, data: bytes) -> int:
        """Send to the board."""
        self._line.push(data)
        return len(data)

    def read(self, size: int = 1) -> bytes:
        """Between one and `size` bytes, or none if the board says nothing within `timeout` seconds."""
        deadline = None if self.timeout is None else time.monotonic() + self.timeout
        while not self._line.whole_line:
            self._starved = False
            try:
                with undisturbed():  # a signal's exception would be lost between the engine and what it calls
                    self._machine.run(SLICE_CYCLES)
            except EmulationError as fault:
                raise UserError(f"the emulated board stopped: {fault}", NO_DEVICE) from fault
            if self._starved:
                if not self._line.available:
                    _wait_in_vain(deadline)
                break
            if deadline is not None and time.monotonic() >= deadline:
                break
        return self._line.take(size)

    def reset_input_buffer(self) -> None:
        """Forget what the board has sent so far."""
        self._line.drop_to_host()

    def close(self) -> None:
        """Nothing to release: the board belongs to its `EmulatedBoard`."""


def _wait_in_vain(deadline: float | None) -> None:
    """Both sides wait for each other: only the host's clock can end that."""
    if deadline is None:
        raise UserError("the emulated board waits for the host, and the host for it, without a time limit", NO_DEVICE)
    time.sleep(max(0.0, deadline - time.monotonic()))


class EmulatedBoard(Closing):
    """An emulated board. Use `open_emulated_board`."""

    def __init__(
        self,
        board: Board,
        image: Path,
        card: Path,
        faults: Faults | None,
        kind: KIND,
        variation: Variation,
        timing: CardTiming | None,
    ) -> None:
        assert board.chip is not None and board.image is not None
        memory, chip = CHIPS[board.chip]
        memory = replace(memory, vectors=board.image.flash_begin)  # where a bootloader jumps to
        seed = 1
        self._machine = Machine(board.core, memory, load_image(image), board.clock_hz, seed, variation)
        self._power = Power(board.rails_a, self._machine.clock)
        self._line = SerialLine(faults)
        self.card = SdCard(card, self._machine.clock, self._power, self._machine.cut_power, kind, timing)
        self.card.on_failure = self._machine.fail
        self._power.take_sleeps = self._machine.take_sleeps
        self.serial = EmulatedSerial(self._machine, self._line)
        parts = Parts(board, variation, self._machine, self.card, self._power, self._line, self.serial.starve, seed)
        self.chip = chip(parts)
        self._machine.connect(self.chip, self._sleeps)
        if board.memory is not None:
            self._machine.map_slow_memory(board.memory, self._power.storage_moves)
        self._beside_card = card.with_name(f"{card.name}.flash")
        if self.chip.flash is not None and self._beside_card.is_file():
            self.chip.flash.put_back(self._beside_card.read_bytes())

    def _sleeps(self, begin: int, end: int) -> None:
        if self._machine.float_flags:
            raise EmulationError(
                "the CPU sleeps with float flags set, which hold the FPU's interrupt pending and may wake it (nRF52840 "
                "erratum 87)"
            )
        self._power.cpu_sleeps(begin, end)

    @property
    def time_s(self) -> float:
        """Emulated time so far."""
        return self._machine.clock.now / self._machine.clock.hz

    @property
    def timing_model(self) -> str:
        """What the times are made from: cycle table and card latencies, each with its version."""
        return f"twin {self._machine.timing_model}, {self.card.timing.words}"

    def power_trace(self) -> Trace:
        """Supply current and window line since the last call."""
        return self._power.drain()

    def memory(self, address: int, size: int) -> bytes:
        """What lies in RAM or flash, as a debug probe would read it.

        Raises
        ------
        EmulationError
            If the chip's debug port is locked.
        """
        if self.chip.debug_locked:
            raise EmulationError("the debug port is locked: only an erase of the whole chip opens it")
        return self._machine.read_memory(address, size)

    def reset(self) -> None:
        """Press the reset button. RAM keeps its content."""
        self._machine.request_reset()

    def cut_power(self) -> None:
        """The supply fails and comes back. RAM wakes up with noise."""
        self._machine.cut_power()

    def close(self) -> None:
        """Write the card's image out, and beside it what the program has in the chip's own flash."""
        self.card.close()
        if self.chip.flash is not None and self.chip.flash.operations:
            self._beside_card.write_bytes(self.chip.flash.written)


def open_emulated_board(
    board: Board,
    image: Path,
    card: Path,
    faults: Faults | None = None,
    kind: KIND = "sdhc",
    variation: Variation | None = None,
    timing: CardTiming | None = None,
) -> EmulatedBoard:
    """Emulate a board.

    Parameters
    ----------
    board : Board
        Which; its clock and its rails are used.
    image : Path
        ``firmware.elf`` as `pio run` made it.
    card : Path
        Image of the SD card; made (sparse, 64 MiB, without a label) where there is none.
    faults : Faults, optional
        What happens to bytes on the serial line.
    kind : {"sdhc", "sdsc", "sdsc1"}
        Kind of card.
    variation : Variation, optional
        What the board has of its own; a good one of today if not given.
    timing : CardTiming, optional
        Latencies of the card, and its pauses.

    Raises
    ------
    UserError
        If the board cannot be emulated, image or card are unusable, or there is no C compiler.
    """
    if board.chip not in CHIPS:
        raise UserError(f"board {board.name!r} cannot be emulated; those with a chip can: {', '.join(sorted(CHIPS))}")
    return EmulatedBoard(board, image, card, faults, kind, variation or Variation(), timing)
