# SPDX-License-Identifier: Apache-2.0
"""An SD card in SPI mode over an image file: what it answers, how long it takes, and what can go wrong with it.

Follows the SD Association's "Physical Layer Simplified Specification" 6.00, chapter 7. Times are those of `CardTiming`
and say nothing about any real card.
"""

from __future__ import annotations

import binascii
import ctypes
import mmap
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path
from typing import Literal

from poet_profiles.errors import UserError

from .clock import Clock
from .library import compiled
from .power import Power

BLOCK = 512
DATA_BYTES = BLOCK + 2  # a block and its CRC
FRAME_BYTES = 6
KIND = Literal["sdhc", "sdsc", "sdsc1"]

R1_IDLE = 0x01
R1_ILLEGAL = 0x04
R1_CRC = 0x08
R1_ADDRESS = 0x20
R1_PARAMETER = 0x40
R2_ERROR = 0x04
R2_WRITE_PROTECTED = 0x20
R2_OUT_OF_RANGE = 0x80
START_BLOCK = 0xFE
OUT_OF_RANGE_TOKEN = 0x09
ACCEPTED, CRC_REJECTED, WRITE_REJECTED = 0xE5, 0xEB, 0xED
LEGAL_WHILE_IDLE = {0, 8, 55, 58, 59}
CSD_UNIT = 1024 * BLOCK
CSD_PROTECTION = {"temporary": 0x10, "permanent": 0x20}
NOISE_SEED = 1


@dataclass(frozen=True)
class CardTiming:
    """Latencies of the card, in seconds: round numbers of the order that cards of speed class 10 show in SPI mode.

    `version` goes up whenever a number changes.

    Attributes
    ----------
    pause_seed : int or None
        With a seed, the card tidies up now and then after a block that it writes. None: it never does.
    pause_blocks : (int, int)
        Fewest and most blocks from one pause to the next.
    pause_s : (float, float)
        Shortest and longest pause.
    """

    version: int = 1
    start_s: float = 20e-3
    read_access_s: float = 300e-6
    read_next_s: float = 20e-6
    write_single_s: float = 1.2e-3
    write_next_s: float = 150e-6
    write_stop_s: float = 800e-6
    pause_seed: int | None = None
    pause_blocks: tuple[int, int] = (2_000, 10_000)
    pause_s: tuple[float, float] = (20e-3, 100e-3)

    @property
    def words(self) -> str:
        """What goes into a row's meter."""
        pauses = "" if self.pause_seed is None else f" with pauses of seed {self.pause_seed}"
        return f"card latencies {self.version}{pauses}"


@dataclass
class CardFaults:
    """What goes wrong from now on. Counters count down and then it happens once.

    Attributes
    ----------
    removed : bool
        The slot is empty. A card that is put back has lost its supply meanwhile.
    floats : {"high", "low", "noise"}
        What the line shows while no card drives it and no pin of the board pulls it up.
    deaf_s : float
        Time from the first clock in which the card takes no command.
    shifted_bits : int
        How far the card's responses are out of step with the bytes, 0 to 7.
    crc_command : {"obeyed", "illegal", "always on"}
        What CMD59 does. The last two call it illegal: such a card never checks a transfer, or always.
    unknown : set of str
        Commands that the card calls illegal, as `ACMD23`.
    protection : {"", "temporary", "permanent", "blocks"}
        Write protection: by a bit of the CSD, or of the blocks, which only a write finds out.
    keeps_waiting : bool
        Deselection does not end a transfer: the card goes on with the block that it sends or waits for, as some do.
    full : bool
        Every write is refused as out of range.
    write_error_after : int or None
        Blocks that are still written before one is refused with a write error.
    corrupt_reads : int
        Blocks whose next transfers lose a bit on the bus (the transfer's CRC does not fit).
    silent_corruptions : int
        Blocks whose next transfers lose a bit in the card (the transfer's CRC fits).
    cut_after_writes : int or None
        Blocks that are still written before the power fails; the block under way is torn: its first half is new.
    """

    removed: bool = False
    floats: Literal["high", "low", "noise"] = "high"
    deaf_s: float = 0.0
    shifted_bits: int = 0
    crc_command: Literal["obeyed", "illegal", "always on"] = "obeyed"
    unknown: frozenset[str] = frozenset()
    protection: Literal["", "temporary", "permanent", "blocks"] = ""
    keeps_waiting: bool = False
    full: bool = False
    write_error_after: int | None = None
    corrupt_reads: int = 0
    silent_corruptions: int = 0
    cut_after_writes: int | None = None


def _crc7_of(byte: int) -> int:
    crc = 0
    for bit in range(7, -1, -1):
        crc = (crc << 1) ^ (0x09 if ((crc >> 6) ^ (byte >> bit)) & 1 else 0)
    return crc & 0x7F


CRC7 = tuple(_crc7_of(byte) for byte in range(256))
AT_TIME = ctypes.CFUNCTYPE(None, ctypes.c_uint64)


class CardState(ctypes.Structure):
    """``struct card`` of native/card.h."""

    _fields_ = [
        ("busy_until", ctypes.c_uint64),
        ("out_when", ctypes.c_uint64),
        ("out", ctypes.c_void_p),
        ("out_left", ctypes.c_uint32),
        ("missing", ctypes.c_uint32),
        ("frame_bytes", ctypes.c_uint32),
        ("response_bytes", ctypes.c_uint32),
        ("frame", ctypes.c_uint8 * 8),
        ("response", ctypes.c_uint8 * 8),
        ("data", ctypes.c_uint8 * 520),
        ("driven", ctypes.c_uint8),
        ("writing", ctypes.c_uint8),
        ("multiple", ctypes.c_uint8),
        ("command", AT_TIME),
        ("given", AT_TIME),
        ("programme", AT_TIME),
        ("stop", AT_TIME),
    ]


def crc7(data: bytes) -> int:
    """The checksum of a command frame, x^7 + x^3 + 1 (section 4.5)."""
    crc = 0
    for byte in data:
        crc = CRC7[crc << 1 & 0xFF ^ byte]
    return crc


def crc16(data: bytes) -> int:
    """The checksum of a data block: CRC-16/XMODEM."""
    return binascii.crc_hqx(data, 0)


class SdCard:
    """The card's side of the SPI bus.

    Attributes
    ----------
    pulled_up : callable
        Whether the board pulls the line up now that the card answers on.
    state : CardState
        What it shares with C.
    on_failure : callable
        Called with an exception that cannot cross the C.

    Parameters
    ----------
    path : Path
        Raw image; made sparse with `new_bytes` where there is none.
    clock, power
        Time, and where the card's current goes.
    on_power_cut : callable
        Called when `CardFaults.cut_after_writes` runs out.

    Raises
    ------
    UserError
        If the image's size is no card's.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock,
        power: Power,
        on_power_cut: Callable[[], None],
        kind: KIND = "sdhc",
        timing: CardTiming | None = None,
        new_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self.faults = CardFaults()
        self.timing = timing or CardTiming()
        self.blocks_written = 0
        self.pulled_up: Callable[[], bool] = lambda: False
        self.on_failure: Callable[[BaseException], None] = self._keep_failure
        self.state = CardState(
            command=self._guarded(lambda now: self._command(bytes(self.state.frame[:FRAME_BYTES]), now)),
            given=self._guarded(lambda end: self._given(end)),
            programme=self._guarded(lambda end: self._programme(end)),
            stop=self._guarded(lambda now: self._end_write(now, self.timing.write_stop_s)),
        )
        self._failure: BaseException | None = None
        self._kind = kind
        self._clock = clock
        self._power = power
        self._on_power_cut = on_power_cut
        self._file, self._image = _open_image(path, new_bytes)
        self._selected = False
        self._noise = random.Random(NOISE_SEED)
        self._pauses = random.Random(self.timing.pause_seed)
        self._blocks_to_pause = self._next_pause()
        self._supply()

    def _supply(self) -> None:
        """The card gets its supply: it is in SD mode, and drives no line until CMD0 comes with chip select."""
        self.state.busy_until = 0
        self._spi_mode = False
        self._idle = True
        self._crc_on = False
        self._application = False
        self._supplied_at: int | None = None
        self._ready_at: int | None = None
        self._error_status = 0
        self._forget_transfer()

    def close(self) -> None:
        """Write the image out."""
        self._image.close()
        self._file.close()

    def select(self, selected: bool) -> None:
        """Chip select. A transfer under way ends when it is released."""
        if self._selected and not selected and not self.faults.keeps_waiting:
            self._forget_transfer()
            self._power.storage_idles(max(self._clock.now, self.state.busy_until))
        self._selected = selected
        self.attend()

    def attend(self) -> None:
        """Let C move its bytes, or not: to be called where `faults` may have changed."""
        self.state.driven = self._selected and self._spi_mode and not self.faults.removed

    def exchange(self, sent: bytes, begin: int, byte_cycles: int) -> bytes:
        """Clock bytes through the card.

        Parameters
        ----------
        sent : bytes
            What the host sends.
        begin : int
            When the first byte begins, in cycles.
        byte_cycles : int
            How long each takes.
        """
        if self.faults.removed:
            self._supply()
            return self._undriven(len(sent))
        if self._supplied_at is None:
            self._supplied_at = begin
        if not self._selected:
            return self._undriven(len(sent))
        received = bytearray()
        while not self._spi_mode and len(received) < len(sent):
            received += self._take_in_sd_mode(sent[len(received)], begin + len(received) * byte_cycles)
        self.attend()
        place = len(received)
        if place < len(sent):
            received += self._exchange_natively(sent[place:], begin + place * byte_cycles, byte_cycles)
        return bytes(received)

    def _take_in_sd_mode(self, sent: int, now: int) -> bytes:
        """A byte in SD mode: the card waits for CMD0 and drives no line."""
        received, state = self._undriven(1), self.state
        if state.frame_bytes or sent & 0xC0 == 0x40:
            state.frame[state.frame_bytes] = sent
            state.frame_bytes += 1
        if state.frame_bytes == FRAME_BYTES:
            state.frame_bytes = 0
            self._command(bytes(state.frame[:FRAME_BYTES]), now)
        return received

    def _exchange_natively(self, sent: bytes, begin: int, byte_cycles: int) -> bytes:
        received = ctypes.create_string_buffer(len(sent))
        compiled().card_exchange(
            ctypes.byref(self.state),
            sent,
            received,
            ctypes.c_uint32(len(sent)),
            ctypes.c_uint64(begin),
            ctypes.c_uint64(byte_cycles),
        )
        self.raise_failure()
        return received.raw

    def raise_failure(self) -> None:
        """What went wrong while C called back; on a board `on_failure` is another's."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _guarded(self, handle: Callable[[int], None]) -> Callable[[int], None]:
        def guarded(when: int) -> None:
            try:
                handle(when)
            except BaseException as error:
                self.on_failure(error)

        return AT_TIME(guarded)

    def _keep_failure(self, error: BaseException) -> None:
        self._failure = self._failure or error

    # --- bytes ---

    def _undriven(self, count: int) -> bytes:
        if self.faults.floats == "high" or self.pulled_up():
            return b"\xff" * count
        return self._noise.randbytes(count) if self.faults.floats == "noise" else b"\x00" * count

    def _forget_transfer(self) -> None:
        self._out: deque[tuple[int, bytes]] = deque()
        self._reading = False
        self._streaming_from: int | None = None
        self._write_to(None)
        self.state.frame_bytes = self.state.missing = self.state.response_bytes = 0
        self._say_next()

    def _write_to(self, block: int | None, multiple: bool = False) -> None:
        self._writing_to = block
        self.state.writing, self.state.multiple = block is not None, multiple

    def _say(self, when: int, chunk: bytes) -> None:
        """From `when` on, and after everything else."""
        self._out.append((when, chunk))
        if len(self._out) == 1:
            self._say_next()

    def _say_next(self) -> None:
        """Show C what comes first now."""
        when, chunk = self._out[0] if self._out else (0, b"")
        self.state.out_when, self.state.out_left = when, len(chunk)
        self.state.out = ctypes.cast(ctypes.c_char_p(chunk), ctypes.c_void_p) if self._out else None

    def _given(self, end: int) -> None:
        """All that came first has been said."""
        self._out.popleft()
        self._say_next()
        if self._streaming_from is not None and not self._out:
            self._queue_block(end + self._clock.cycles(self.timing.read_next_s))
        elif not self._out and self._writing_to is None:
            self._power.storage_idles(end)

    def _answer(self, response: bytes, now: int, block: bytes = b"") -> None:
        # In SD mode a card answers on another line, and a command whose CRC is wrong not at all (section 4.10.1).
        if self._spi_mode:
            self._say(now, b"\xff" + self._shifted(response) + block)

    def _respond(self, response: bytes) -> None:
        """The data response to a block, after its last byte."""
        self.state.response_bytes = len(response)
        self.state.response[: len(response)] = response

    def _shifted(self, response: bytes) -> bytes:
        """A response after some more ones; ones again to the end of its last byte."""
        bits = self.faults.shifted_bits
        if not bits:
            return response
        moved = (1 << bits) - 1 << 8 * len(response) | int.from_bytes(response)
        return (moved << 8 - bits | (1 << 8 - bits) - 1).to_bytes(len(response) + 1)

    # --- commands ---

    def _command(self, frame: bytes, now: int) -> None:
        index, argument = frame[0] & 0x3F, int.from_bytes(frame[1:5])
        if not self._takes(index, now):
            return
        application, self._application = self._application, False
        if (self._crc_on or index in (0, 8)) and frame[5] != crc7(frame[:5]) << 1 | 1:
            self._answer(bytes([R1_CRC | self._r1()]), now)
            return
        name = f"_acmd{index}" if application else f"_cmd{index}"
        handler: Callable[[int, int], None] | None = getattr(self, name, None)
        if handler is None and application:
            handler = getattr(self, f"_cmd{index}", None)
        legal = not self._idle or index in LEGAL_WHILE_IDLE or (application and index == 41)
        if handler is None or not legal or name[1:].upper() in self.faults.unknown:
            self._answer(bytes([R1_ILLEGAL | self._r1()]), now)
            return
        handler(argument, now)

    def _takes(self, index: int, now: int) -> bool:
        assert self._supplied_at is not None
        if now < self.state.busy_until or now - self._supplied_at < self.faults.deaf_s * self._clock.hz:
            return False
        if not self._spi_mode:
            return index == 0
        # A card that sends blocks takes nothing but their end, and one that sends its last, nothing at all.
        sends_blocks = self._reading and bool(self._out)
        return not sends_blocks or (index == 12 and self._streaming_from is not None)

    def _r1(self) -> int:
        return R1_IDLE if self._idle else 0

    def _cmd0(self, _argument: int, now: int) -> None:
        self._forget_transfer()
        self._spi_mode = True
        self._idle, self._crc_on, self._ready_at = True, self.faults.crc_command == "always on", None
        self._power.storage_idles(now)
        self._answer(bytes([self._r1()]), now)

    def _cmd8(self, argument: int, now: int) -> None:
        if self._kind == "sdsc1":
            self._answer(bytes([R1_ILLEGAL | self._r1()]), now)
        else:
            self._answer(bytes([self._r1()]) + (argument & 0xFFF).to_bytes(4), now)

    def _cmd9(self, _argument: int, now: int) -> None:
        csd = self._csd()
        sum_ = crc16(csd) if self._crc_on else 0
        self._answer(bytes([self._r1()]), now, b"\xff" + bytes([START_BLOCK]) + csd + sum_.to_bytes(2))

    def _cmd12(self, _argument: int, now: int) -> None:
        # After its last block a card has looked further already.
        beyond = self._streaming_from is not None and self._streaming_from * BLOCK >= len(self._image)
        self._error_status |= R2_OUT_OF_RANGE if beyond else 0
        self._forget_transfer()
        self._power.storage_idles(now)
        self._answer(bytes([self._r1() | (R1_PARAMETER if beyond else 0)]), now)
        self._out.appendleft((now, b"\xff"))
        self._say_next()

    def _cmd13(self, _argument: int, now: int) -> None:
        self._answer(bytes([self._r1(), self._error_status]), now)
        self._error_status = 0

    def _cmd16(self, argument: int, now: int) -> None:
        self._answer(bytes([self._r1() | (0 if argument == BLOCK else R1_PARAMETER)]), now)

    def _cmd17(self, argument: int, now: int) -> None:
        self._read(argument, now, multiple=False)

    def _cmd18(self, argument: int, now: int) -> None:
        self._read(argument, now, multiple=True)

    def _cmd24(self, argument: int, now: int) -> None:
        self._write(argument, now, multiple=False)

    def _cmd25(self, argument: int, now: int) -> None:
        self._write(argument, now, multiple=True)

    def _cmd55(self, _argument: int, now: int) -> None:
        self._application = True
        self._answer(bytes([self._r1()]), now)

    def _cmd58(self, _argument: int, now: int) -> None:
        ocr = 0x00FF8000 | (0 if self._idle else 0x80000000)
        ocr |= 0x40000000 if self._kind == "sdhc" and not self._idle else 0
        self._answer(bytes([self._r1()]) + ocr.to_bytes(4), now)

    def _cmd59(self, argument: int, now: int) -> None:
        if self.faults.crc_command != "obeyed":
            self._answer(bytes([R1_ILLEGAL | self._r1()]), now)
            return
        self._crc_on = bool(argument & 1)
        self._answer(bytes([self._r1()]), now)

    def _acmd23(self, _argument: int, now: int) -> None:
        self._answer(bytes([self._r1()]), now)

    def _acmd41(self, argument: int, now: int) -> None:
        if self._ready_at is None:
            self._ready_at = now + self._clock.cycles(self.timing.start_s)
        host_fits = self._kind != "sdhc" or bool(argument & 0x40000000)
        self._idle = not (host_fits and now >= self._ready_at)
        self._answer(bytes([self._r1()]), now)

    # --- data ---

    def _block_of(self, argument: int) -> tuple[int, int]:
        """Block number and the R1 error bits of an address."""
        if self._kind == "sdhc":
            block = argument
        elif argument % BLOCK:
            return 0, R1_ADDRESS
        else:
            block = argument // BLOCK
        return block, 0 if block < len(self._image) // BLOCK else R1_PARAMETER

    def _read(self, argument: int, now: int, multiple: bool) -> None:
        block, error = self._block_of(argument)
        self._answer(bytes([self._r1() | error]), now)
        if error:
            return
        self._power.storage_reads(now)
        self._reading = True
        self._streaming_from = block
        self._queue_block(now + self._clock.cycles(self.timing.read_access_s))
        if not multiple:
            self._streaming_from = None

    def _queue_block(self, when: int) -> None:
        block = self._streaming_from
        assert block is not None
        data = bytes(self._image[block * BLOCK : (block + 1) * BLOCK])
        if len(data) < BLOCK:
            self._say(when, bytes([OUT_OF_RANGE_TOKEN]))
            self._streaming_from = None
            return
        if self.faults.silent_corruptions:
            self.faults.silent_corruptions -= 1
            data = data[:100] + bytes([data[100] ^ 0x10]) + data[101:]
        sum_ = crc16(data) if self._crc_on else 0
        if self.faults.corrupt_reads:
            self.faults.corrupt_reads -= 1
            data = data[:200] + bytes([data[200] ^ 0x01]) + data[201:]
        self._streaming_from = block + 1
        self._say(when, bytes([START_BLOCK]) + data + sum_.to_bytes(2))

    def _write(self, argument: int, now: int, multiple: bool) -> None:
        block, error = self._block_of(argument)
        self._answer(bytes([self._r1() | error]), now)
        if error:
            return
        self._power.storage_writes(now)
        self._write_to(block, multiple)

    def _programme(self, now: int) -> None:
        block = self._writing_to
        assert block is not None
        carried = bytes(self.state.data)
        data, sum_ = carried[:BLOCK], int.from_bytes(carried[BLOCK:DATA_BYTES])
        response = self._verdict(block, data, sum_)
        if response == ACCEPTED:
            self._image[block * BLOCK : (block + 1) * BLOCK] = data
            self.blocks_written += 1
            self._writing_to = block + 1
        self._respond(self._shifted(bytes([response])))
        pause_s = self._pause_s()
        if self.state.multiple:
            self._stay_busy(now, self.timing.write_next_s + pause_s)
        else:
            self._end_write(now, self.timing.write_single_s + pause_s)

    def _next_pause(self) -> int:
        return self._pauses.randint(*self.timing.pause_blocks)

    def _pause_s(self) -> float:
        """How long the card tidies up after this block, besides writing it."""
        if self.timing.pause_seed is None:
            return 0.0
        self._blocks_to_pause -= 1
        if self._blocks_to_pause:
            return 0.0
        self._blocks_to_pause = self._next_pause()
        return self._pauses.uniform(*self.timing.pause_s)

    def _verdict(self, block: int, data: bytes, sum_: int) -> int:
        faults = self.faults
        if self._crc_on and crc16(data) != sum_:
            return CRC_REJECTED
        if faults.protection:
            self._error_status = R2_WRITE_PROTECTED
            return WRITE_REJECTED
        if faults.full or (block + 1) * BLOCK > len(self._image):
            self._error_status = R2_OUT_OF_RANGE
            return WRITE_REJECTED
        if faults.write_error_after is not None:
            faults.write_error_after -= 1
            if faults.write_error_after < 0:
                faults.write_error_after = None
                self._error_status = R2_ERROR
                return WRITE_REJECTED
        if faults.cut_after_writes is not None:
            faults.cut_after_writes -= 1
            if faults.cut_after_writes < 0:
                faults.cut_after_writes = None
                self._image[block * BLOCK : block * BLOCK + BLOCK // 2] = data[: BLOCK // 2]
                self._on_power_cut()
                return WRITE_REJECTED
        return ACCEPTED

    def _stay_busy(self, now: int, seconds: float) -> None:
        self.state.busy_until = now + self._clock.cycles(seconds)

    def _end_write(self, now: int, seconds: float) -> None:
        self._write_to(None)
        self._stay_busy(now, seconds)
        self._power.storage_idles(self.state.busy_until)

    def _csd(self) -> bytes:
        """Card-Specific Data: only the capacity is of interest (section 5.3)."""
        csd = bytearray(16)
        if self._kind == "sdhc":
            csd[0] = 0x40
            csd[7:10] = (len(self._image) // CSD_UNIT - 1).to_bytes(3)
        else:
            # Capacity = (size + 1) * 2^(multiplier + 2) * 2^9; a multiplier of 7 gives steps of 256 KB.
            size = len(self._image) // (BLOCK << 9) - 1
            csd[5] = 9
            csd[6], csd[7], csd[8] = size >> 10 & 3, size >> 2 & 0xFF, (size & 3) << 6
            csd[9], csd[10] = 7 >> 1, (7 & 1) << 7
        csd[14] = CSD_PROTECTION.get(self.faults.protection, 0)
        csd[15] = crc7(bytes(csd[:15])) << 1 | 1
        return bytes(csd)


def _open_image(path: Path, new_bytes: int) -> tuple[BufferedRandom, mmap.mmap]:
    try:
        if not path.exists() or not path.stat().st_size:
            with path.open("wb") as new:
                new.truncate(new_bytes)
        file = path.open("r+b")
    except OSError as error:
        raise UserError(f"{path}: cannot use it as a card image: {error.strerror}") from None
    size = path.stat().st_size
    if size == 0 or size % CSD_UNIT:
        file.close()
        raise UserError(f"{path}: a card image's size is a multiple of 512 KiB, this one has {size} bytes")
    return file, mmap.mmap(file.fileno(), size)
