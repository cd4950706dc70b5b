# SPDX-License-Identifier: Apache-2.0
"""The SD card driver against the card model: every kind of card, every length, and everything that can go wrong."""

from __future__ import annotations

import ctypes
import dataclasses
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from poet_harness.emulation.clock import Clock
from poet_harness.emulation.counter import Counter
from poet_harness.emulation.power import Power
from poet_harness.emulation.sdcard import BLOCK, KIND, CardTiming, SdCard, crc7, crc16
from poet_harness.emulation.spi_bus import SpiBus, SpiBusState
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError

from tests.support import ROOT
from tests.support.emulation.emulated_board import BOARDS, Opener
from tests.support.levels import examples

KINDS: tuple[KIND, ...] = ("sdhc", "sdsc", "sdsc1")
OK, IO, FULL, CORRUPT, UNSUPPORTED, ABSENT, PROTECTED = 0, -5, -6, -7, -8, -9, -10
SIZE = 4 * 1024 * 1024
HZ = 1_000_000
SKIP = HZ // 20

SELECT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_bool)
SET_SPEED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32)
TRANSFER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)
SLEEP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Spi(ctypes.Structure):
    """``poet_spi`` of poet/sdcard.h."""

    _fields_ = [
        ("context", ctypes.c_void_p),
        ("fastest_hz", ctypes.c_uint32),
        ("set_speed", SET_SPEED),
        ("select", SELECT),
        ("transfer", TRANSFER),
        ("start", TRANSFER),
        ("sleep", SLEEP),
        ("ticks", ctypes.c_void_p),  # card_on_host.c's own
        ("ticks_hz", ctypes.c_uint32),
    ]


class Bench:
    """The driver, wired to a card model on this machine; with `dma` the bus works on its own and interrupts."""

    def __init__(self, library: Path, image: Path, kind: KIND, dma: bool, timing: CardTiming | None) -> None:
        self.image = image
        self.library: Any = ctypes.CDLL(str(library))
        self.clock = Clock(Counter(), HZ)
        power = Power(load_board("nrf52840").rails_a, self.clock)
        self.card = SdCard(image, self.clock, power, self._lose_power, kind, timing, new_bytes=SIZE)
        self.bus = SpiBus(self.card, self.clock, SpiBusState())
        self.hz = 0.0
        self.speeds: list[int] = []
        self.commands: list[int] = []
        self.under_way: tuple[int | None, int | None, int] | None = None
        start, sleep = (TRANSFER(self._start), SLEEP(self._sleep)) if dma else (TRANSFER(), SLEEP())
        self.spi = Spi(
            None, 8_000_000, SET_SPEED(self._set_speed), SELECT(self._select), TRANSFER(self._transfer), start, sleep
        )

    def _lose_power(self) -> None:
        self.card.faults.removed = True

    def _set_speed(self, _context: int, hz: int) -> None:
        self.hz = float(hz)
        self.speeds.append(hz)

    def _select(self, _context: int, selected: bool) -> None:
        self.card.select(selected)

    def _transfer(self, _context: int, send: int | None, receive: int | None, count: int) -> None:
        sent = ctypes.string_at(send, count) if send else b"\xff" * count
        if count == 6 and sent[0] & 0xC0 == 0x40:
            self.commands.append(sent[0] & 0x3F)
        self.card.attend()
        has_news = max(self.card.state.busy_until, self.card.state.out_when) if self.card.state.driven else 0
        if not send and has_news - self.clock.now > SKIP:
            self.clock.advance_to(self.clock.now + SKIP // 2)  # a long wait, in few looks
        elif not send and self.card.faults.removed:
            self.clock.advance_to(self.clock.now + SKIP // 50)
        received, end = self.bus.poll(sent, self.clock.now, self.hz)
        self.clock.advance_to(end)
        ctypes.c_uint32.in_dll(self.library, "test_ticks").value = self.clock.now & 0xFFFFFFFF
        if receive:
            ctypes.memmove(receive, received, count)

    def _start(self, _context: int, send: int | None, receive: int | None, count: int) -> None:
        assert self.under_way is None, "a transfer is started while one is under way"
        self.under_way = (send, receive, count)

    def _sleep(self, _context: int, _busy: int) -> None:
        self.interrupt()

    def interrupt(self) -> None:
        """The transfer under way ends."""
        assert self.under_way is not None, "sleeps although nothing could wake it"
        (send, receive, count), self.under_way = self.under_way, None
        self._transfer(0, send, receive, count)
        self.library.test_interrupt()

    @property
    def time_s(self) -> float:
        return self.clock.now / HZ

    def reset(self) -> None:
        """The board forgets what it was doing; the card keeps its supply and does not."""
        self.under_way = None
        self.card.select(False)

    def init(self) -> int:
        return int(self.library.test_init(ctypes.byref(self.spi)))

    def read(self, block: int, count: int) -> tuple[int, bytes]:
        data = ctypes.create_string_buffer(b"\xee" * (count + 8), count + 8)
        status = int(self.library.test_read(block, data, count))
        assert data.raw[count:] == b"\xee" * 8, "wrote beyond the buffer"
        return status, data.raw[:count]

    def write(self, block: int, data: bytes) -> int:
        return int(self.library.test_write(block, data, len(data)))

    def on_card(self, block: int, count: int) -> bytes:
        with self.image.open("rb") as file:
            file.seek(block * BLOCK)
            return file.read(count)


OpenBench = Callable[..., Bench]


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("card") / "driver.so"
    files = [ROOT / "tests/support/emulation/native/card_on_host.c", *(ROOT / "firmware/src/storage").glob("sdcard*.c")]
    flags = ["-std=c99", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-shared", "-fPIC"]
    include = ["-I", str(ROOT / "firmware/include")]
    subprocess.run(["gcc", *flags, *include, *map(str, files), "-o", str(library)], check=True)
    return library


@pytest.fixture(params=[False, True], ids=["polled", "dma"])
def dma(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def open_bench(driver: Path, tmp_path: Path, dma: bool) -> Iterator[OpenBench]:
    benches = []

    def open_it(kind: KIND = "sdhc", timing: CardTiming | None = None) -> Bench:
        bench = Bench(driver, tmp_path / "card.img", kind, dma, timing)
        benches.append(bench)
        return bench

    yield open_it
    for bench in benches:
        bench.card.close()


@pytest.fixture
def bench(open_bench: OpenBench) -> Bench:
    """With a card that is started."""
    bench = open_bench()
    assert bench.init() == OK
    return bench


def pattern(count: int, salt: int = 0) -> bytes:
    return bytes((7 * i + (i >> 8) + salt) & 0xFF for i in range(count))


def test_checksums_are_the_ones_the_specification_prints() -> None:
    # Physical Layer Simplified Specification 4.5: CMD0, CMD17 with argument 0, and a block of 0xFF.
    assert crc7(bytes([0x40, 0, 0, 0, 0])) == 0b1001010
    assert crc7(bytes([0x51, 0, 0, 0, 0])) == 0b0101010
    assert crc16(b"\xff" * 512) == 0x7FA1


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_card_starts_and_tells_its_size(open_bench: OpenBench, kind: KIND) -> None:
    bench = open_bench(kind)
    assert bench.init() == OK
    assert bench.library.test_block_count() == SIZE // BLOCK
    assert bench.speeds[0] <= 400_000 < bench.speeds[-1]


@pytest.mark.parametrize(
    "csd",
    [
        b"\0\0\0\0\0\x08",  # reserved in section 5.3.2, as are the next two
        b"\0\0\0\0\0\x0c",
        b"\xc0\0\0\0\0\x09",
        b"\x40\0\0\0\0\0\0\x3f\xff\xff",  # 2^32 blocks: one more than a number of 32 bits reaches
    ],
    ids=["256 bytes a block", "4096 bytes a block", "structure 3", "2 TB"],
)
def test_a_capacity_that_no_card_has_is_refused(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch, csd: bytes
) -> None:
    bench = open_bench("sdhc")
    monkeypatch.setattr(bench.card, "_csd", lambda: csd.ljust(16, b"\0"))
    assert bench.init() == UNSUPPORTED
    assert bench.library.test_block_count() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_in_the_image_and_comes_back(open_bench: OpenBench, kind: KIND) -> None:
    bench = open_bench(kind)
    assert bench.init() == OK

    @settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(block=st.integers(0, SIZE // BLOCK - 8), count=st.integers(1, 8 * BLOCK), salt=st.integers(0, 255))
    def round_trip(block: int, count: int, salt: int) -> None:
        data = pattern(count, salt)
        assert bench.write(block, data) == OK
        padded = -count % BLOCK
        assert bench.on_card(block, count + padded) == data + bytes(padded)
        assert bench.read(block, count) == (OK, data)

    round_trip()


@pytest.mark.parametrize("before_the_end", [0, 1, 2])
def test_a_write_behind_a_read_near_the_cards_end_is_none_the_worse(bench: Bench, before_the_end: int) -> None:
    """The card has looked one block further than it was asked to, and says "out of range" where that was none."""
    data = pattern(8 * BLOCK, 5)
    first = SIZE // BLOCK - 8 - before_the_end
    assert bench.write(first, data) == OK
    assert bench.read(first, len(data)) == (OK, data)
    assert bench.write(7, data) == OK
    assert bench.read(7, len(data)) == (OK, data)


def test_a_write_touches_no_block_beside_its_own(bench: Bench) -> None:
    bench.write(10, b"\xaa" * 5 * BLOCK)
    bench.write(11, b"\x55" * (2 * BLOCK + 1))
    assert bench.on_card(10, 5 * BLOCK) == (
        b"\xaa" * BLOCK + b"\x55" * (2 * BLOCK + 1) + bytes(BLOCK - 1) + b"\xaa" * BLOCK
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_end_of_the_card_is_the_end(open_bench: OpenBench, kind: KIND) -> None:
    bench = open_bench(kind)
    bench.init()
    last = SIZE // BLOCK - 1
    assert bench.write(last, pattern(BLOCK)) == OK
    assert bench.write(last, pattern(BLOCK + 1)) == FULL
    assert bench.write(last + 1, pattern(1)) == FULL
    assert bench.read(last, BLOCK + 1)[0] == FULL
    assert bench.read(0xFFFFFFFF, BLOCK)[0] == FULL
    assert bench.on_card(last, BLOCK) == pattern(BLOCK)


def test_an_empty_slot_is_absent(open_bench: OpenBench) -> None:
    bench = open_bench()
    bench.card.faults.removed = True
    assert bench.init() == ABSENT


def test_a_card_pulled_out_is_absent_and_may_come_back(bench: Bench) -> None:
    bench.write(5, pattern(2000))
    bench.card.faults.removed = True
    assert bench.write(5, pattern(2000, 1)) == ABSENT
    assert bench.read(5, 2000)[0] == ABSENT
    bench.card.faults.removed = False
    assert bench.init() == OK
    assert bench.read(5, 2000) == (OK, pattern(2000))


@pytest.mark.parametrize("count", [BLOCK, 6 * BLOCK])
def test_a_bit_lost_on_the_bus_is_read_again(bench: Bench, count: int) -> None:
    bench.write(40, pattern(count))
    bench.card.faults.corrupt_reads = 2
    assert bench.read(40, count) == (OK, pattern(count))
    bench.card.faults.corrupt_reads = 100
    assert bench.read(40, count)[0] == CORRUPT
    bench.card.faults.corrupt_reads = 0
    assert bench.read(40, count) == (OK, pattern(count))


@pytest.mark.parametrize("count", [BLOCK, 6 * BLOCK])
@pytest.mark.parametrize("after", [0, 3])
def test_a_write_error_is_reported_and_the_card_goes_on(bench: Bench, count: int, after: int) -> None:
    bench.card.faults.write_error_after = after
    expected = IO if after * BLOCK < count else OK
    assert bench.write(40, pattern(count)) == expected
    bench.card.faults.write_error_after = None
    assert bench.write(40, pattern(count)) == OK
    assert bench.read(40, count) == (OK, pattern(count))


def test_a_full_card_is_full(bench: Bench) -> None:
    bench.card.faults.full = True
    assert bench.write(40, pattern(3 * BLOCK)) == FULL
    assert bench.write(40, pattern(1)) == FULL
    bench.card.faults.full = False
    assert bench.write(40, pattern(3 * BLOCK)) == OK


def test_a_block_damaged_on_its_way_to_the_card_is_sent_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    poll, damaged = bench.bus.poll, []

    def noisy(sent: bytes, begin: int, hz: float) -> tuple[bytes, int]:
        if len(sent) == BLOCK and len(damaged) < 2 and sent != b"\xff" * BLOCK:
            damaged.append(sent)
            sent = sent[:7] + bytes([sent[7] ^ 4]) + sent[8:]
        return poll(sent, begin, hz)

    monkeypatch.setattr(bench.bus, "poll", noisy)
    assert bench.write(40, pattern(5 * BLOCK)) == OK
    assert len(damaged) == 2
    assert bench.on_card(40, 5 * BLOCK) == pattern(5 * BLOCK)


STOP_TRANSMISSION, SEND_STATUS = 12, 13


@pytest.mark.parametrize("count", [40, BLOCK, 5 * BLOCK, 5 * BLOCK + 40])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_command_damaged_behind_a_transfer_harms_no_block(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, count: int, times: int
) -> None:
    blocks = -(-count // BLOCK)
    bench.write(40, pattern(7 * BLOCK, 1))
    poll = bench.bus.poll
    left = {STOP_TRANSMISSION: times, SEND_STATUS: times}

    def noisy(sent: bytes, begin: int, hz: float) -> tuple[bytes, int]:
        if len(sent) == 6 and left.get(sent[0] & 0x3F, 0) > 0:
            left[sent[0] & 0x3F] -= 1
            sent = sent[:5] + bytes([sent[5] ^ 4])
        return poll(sent, begin, hz)

    monkeypatch.setattr(bench.bus, "poll", noisy)
    written = bench.write(40, pattern(count))
    assert written == (OK if times < 3 else CORRUPT)
    assert left[SEND_STATUS] == 0
    assert (
        bench.on_card(40, 7 * BLOCK)
        == pattern(count).ljust(blocks * BLOCK, b"\0") + pattern(7 * BLOCK, 1)[blocks * BLOCK :]
    )
    status, data = bench.read(40, count)
    assert (status == OK) == (times < 3 or blocks == 1)
    assert data == pattern(count)


def test_a_transfer_that_was_started_goes_on_by_interrupts_alone(bench: Bench, dma: bool) -> None:
    data = pattern(9 * BLOCK + 100)
    if not dma:
        assert bench.library.test_start_write(40, data, len(data)) == 1, "a polled bus offers no start"
        return
    assert bench.library.test_start_write(40, data, len(data)) == OK
    while bench.under_way is not None:
        bench.interrupt()
    assert bench.library.test_wait() == OK
    back = ctypes.create_string_buffer(len(data))
    assert bench.library.test_start_read(40, back, len(data)) == OK
    while bench.under_way is not None:
        bench.interrupt()
    assert bench.library.test_wait() == OK
    assert back.raw == data


@pytest.mark.parametrize("blocks", [1, 5])
@pytest.mark.parametrize("moved", [1, 2, 3])
def test_a_write_that_a_reset_cut_short_does_not_lock_the_card(
    bench: Bench, dma: bool, blocks: int, moved: int
) -> None:
    if not dma:
        return  # a polled transfer cannot be left half done from outside
    bench.card.faults.keeps_waiting = True
    bench.library.test_start_write(40, pattern(blocks * BLOCK), blocks * BLOCK)
    for _ in range(moved - 1):
        bench.interrupt()
    assert bench.under_way is not None
    send, _, count = bench.under_way
    bench.under_way = None
    bench._transfer(0, send, None, count // 2)  # reset: the board forgets, the card does not
    bench.card.select(False)
    assert bench.init() == OK
    assert bench.write(40, pattern(blocks * BLOCK, 1)) == OK
    assert bench.read(40, blocks * BLOCK) == (OK, pattern(blocks * BLOCK, 1))


@pytest.mark.parametrize("blocks", [1, 4])
@pytest.mark.parametrize("slow", ["write_single_s", "write_next_s", "write_stop_s", "read_access_s", "read_next_s"])
def test_a_card_that_is_busy_for_two_seconds_costs_two_seconds(bench: Bench, blocks: int, slow: str) -> None:
    bench.card.timing = dataclasses.replace(bench.card.timing, **{slow: 2.0})  # type: ignore[arg-type]
    began_s = bench.time_s
    assert bench.write(40, pattern(blocks * BLOCK)) == OK
    assert bench.read(40, blocks * BLOCK) == (OK, pattern(blocks * BLOCK))
    waits = {"write_single_s": 1, "read_access_s": 1} if blocks == 1 else {
        "write_next_s": 4, "write_stop_s": 1, "read_access_s": 1, "read_next_s": 3,
    }  # fmt: skip
    assert bench.time_s - began_s == pytest.approx(2.0 * waits.get(slow, 0), abs=0.1)


def test_a_card_that_stays_busy_is_given_up(bench: Bench) -> None:
    bench.card.timing = dataclasses.replace(bench.card.timing, write_stop_s=1000.0)
    assert bench.write(40, pattern(2 * BLOCK)) == IO
    assert bench.time_s < 10


def test_pauses_come_by_their_seed_and_lose_no_block(open_bench: OpenBench) -> None:
    timing = CardTiming(pause_seed=3, pause_blocks=(5, 20), pause_s=(0.5, 2.0))

    def time_s(bench: Bench) -> float:
        bench.init()
        began_s = bench.time_s
        assert bench.write(40, pattern(100 * BLOCK)) == OK
        assert bench.on_card(40, 100 * BLOCK) == pattern(100 * BLOCK)
        return bench.time_s - began_s

    steady, paused, again, other = (
        time_s(open_bench(timing=each)) for each in (None, timing, timing, dataclasses.replace(timing, pause_seed=4))
    )
    assert 100 / 20 * 0.5 - 1 < paused - steady < 100 / 5 * 2.0
    assert paused == again != other


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("crc_command", ["illegal", "always on"])
def test_a_card_whose_check_cannot_be_switched_is_used(open_bench: OpenBench, kind: KIND, crc_command: str) -> None:
    bench = open_bench(kind)
    bench.card.faults.crc_command = crc_command
    assert bench.init() == OK
    assert bench.library.test_block_count() == SIZE // BLOCK
    assert bench.write(40, pattern(4 * BLOCK + 9)) == OK
    assert bench.read(40, 4 * BLOCK + 9) == (OK, pattern(4 * BLOCK + 9))


# What a write and a read of four blocks send, the second time: to a card that knows all, and to others.
WITHOUT = {
    "": [55, 23, 25, 13, 18, 12],
    "ACMD23": [25, 13, 18, 12],
    "CMD25": [24, 13] * 4 + [18, 12],
    "CMD18": [55, 23, 25, 13] + [17] * 4,
    "CMD13": [55, 23, 25, 18, 12],
    "ACMD23 CMD25 CMD18 CMD13": [24] * 4 + [17] * 4,
}


@pytest.mark.parametrize("unknown", WITHOUT)
@pytest.mark.parametrize("kind", ["sdhc", "sdsc"])
def test_a_command_that_a_card_need_not_know_is_done_without(open_bench: OpenBench, kind: KIND, unknown: str) -> None:
    bench = open_bench(kind)
    bench.card.faults.unknown = frozenset(unknown.split())
    assert bench.init() == OK
    for count in (9, BLOCK, 3 * BLOCK + 9, 4 * BLOCK):
        bench.commands.clear()
        assert bench.write(40, pattern(count, count)) == OK
        assert bench.read(40, count) == (OK, pattern(count, count))
        assert bench.on_card(40, count) == pattern(count, count)
    assert bench.commands == WITHOUT[unknown]
    assert bench.read(SIZE // BLOCK - 3, 3 * BLOCK)[0] == OK, "a card looks beyond its end"
    bench.card.faults.unknown = frozenset()
    assert bench.init() == OK
    bench.commands.clear()
    assert (bench.write(40, pattern(4 * BLOCK)), bench.read(40, 4 * BLOCK)) == (OK, (OK, pattern(4 * BLOCK)))
    assert bench.commands == WITHOUT[""], "another card in the slot is asked anew"


def test_single_blocks_are_sent_again_and_refused_one_by_one(bench: Bench) -> None:
    bench.card.faults.unknown = frozenset(["ACMD23", "CMD25", "CMD18", "CMD13"])
    assert bench.write(40, pattern(5 * BLOCK)) == OK
    bench.card.faults.corrupt_reads = 2
    assert bench.read(40, 5 * BLOCK) == (OK, pattern(5 * BLOCK))
    bench.card.faults.write_error_after = 2
    assert bench.write(40, pattern(5 * BLOCK, 1)) == IO
    assert bench.on_card(40, 5 * BLOCK) == pattern(5 * BLOCK, 1)[: 2 * BLOCK] + pattern(5 * BLOCK)[2 * BLOCK :]
    for cut in range(5):
        assert bench.write(40, pattern(5 * BLOCK)) == OK
        bench.card.faults.cut_after_writes = cut
        assert bench.write(40, pattern(5 * BLOCK, 1)) != OK
        whole = cut * BLOCK
        assert bench.on_card(40, whole) == pattern(5 * BLOCK, 1)[:whole]
        assert bench.on_card(41 + cut, (4 - cut) * BLOCK) == pattern(5 * BLOCK)[whole + BLOCK :]
        bench.card.faults.removed, bench.card.faults.cut_after_writes = False, None
        assert bench.init() == OK


@pytest.mark.parametrize("lost", [23, 25, 18, 13])
def test_silence_behind_a_command_does_not_make_it_unknown(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    take = bench.card._command
    with monkeypatch.context() as patch:
        patch.setattr(bench.card, "_command", lambda frame, now: frame[0] & 0x3F == lost or take(frame, now))
        assert (bench.write(40, pattern(2 * BLOCK)), bench.read(40, 2 * BLOCK)[0]) != (OK, OK)
    bench.write(40, pattern(BLOCK))
    bench.commands.clear()
    assert (bench.write(40, pattern(4 * BLOCK)), bench.read(40, 4 * BLOCK)) == (OK, (OK, pattern(4 * BLOCK)))
    assert bench.commands == WITHOUT[""]


@pytest.mark.parametrize("protection", ["temporary", "permanent", "blocks"])
@pytest.mark.parametrize("count", [BLOCK, 3 * BLOCK])
def test_a_write_protected_card_is_read_and_says_so(bench: Bench, protection: str, count: int) -> None:
    bench.write(40, pattern(count))
    bench.card.faults.protection = protection
    assert bench.init() == OK
    assert bench.write(40, pattern(count, 1)) == PROTECTED
    assert bench.read(40, count) == (OK, pattern(count))
    bench.card.faults.protection = ""
    assert bench.init() == OK
    assert bench.write(40, pattern(count, 1)) == OK


@pytest.mark.parametrize("bits", range(1, 8))
@pytest.mark.parametrize("kind", KINDS)
def test_responses_may_be_out_of_step_with_the_bytes(open_bench: OpenBench, kind: KIND, bits: int) -> None:
    bench = open_bench(kind)
    bench.card.faults.shifted_bits = bits
    assert bench.init() == OK
    assert bench.library.test_block_count() == SIZE // BLOCK
    for count in (BLOCK, 5 * BLOCK):
        assert bench.write(40, pattern(count)) == OK
        assert bench.read(40, count) == (OK, pattern(count))
    bench.card.faults.full = True
    assert bench.write(40, pattern(BLOCK)) == FULL


@pytest.mark.parametrize("floats", ["high", "low", "noise"])
def test_a_bus_that_floats_is_told_from_a_card(open_bench: OpenBench, floats: str) -> None:
    bench = open_bench()
    bench.card.faults.floats = floats
    bench.card.faults.removed = True
    assert bench.init() == ABSENT
    assert bench.time_s < 4
    bench.card.faults.removed = False
    assert bench.init() == OK
    assert bench.write(40, pattern(3 * BLOCK)) == OK
    bench.card.faults.removed = True
    assert bench.write(40, pattern(3 * BLOCK)) != OK
    assert bench.read(40, 3 * BLOCK)[0] != OK
    bench.card.faults.removed = False
    assert bench.init() == OK
    assert bench.read(40, 3 * BLOCK) == (OK, pattern(3 * BLOCK))


def test_a_line_that_always_says_idle_is_no_card(open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = open_bench()
    monkeypatch.setattr(bench.card, "exchange", lambda sent, _begin, _cycles: b"\x01" * len(sent))
    assert bench.init() == ABSENT


def test_a_card_that_wakes_slowly_is_waited_for(open_bench: OpenBench) -> None:
    bench = open_bench()
    bench.card.faults.deaf_s = 1.9
    assert bench.init() == OK
    bench.card.timing = dataclasses.replace(bench.card.timing, start_s=1.9)
    assert bench.init() == OK


# What a page may hold that looks like the answer to CMD0.
MISLEADING = (b"\x01", b"\xff\x01", b"\xff\x01\xff", b"\xff\xff\x01\xff", b"\x00", b"\xff")


@pytest.mark.parametrize("content", MISLEADING)
@pytest.mark.parametrize("blocks", [1, 5])
def test_a_read_that_a_reset_cut_short_does_not_lock_the_card(
    bench: Bench, dma: bool, content: bytes, blocks: int
) -> None:
    if not dma:
        return  # a polled transfer cannot be left half done from outside
    data = (content * (blocks * BLOCK))[: blocks * BLOCK]
    bench.write(40, data)
    bench.card.faults.keeps_waiting = True
    back = ctypes.create_string_buffer(len(data))
    for interrupts in range(1, 2 * blocks):
        assert bench.library.test_start_read(40, back, len(data)) == OK
        for _ in range(interrupts):
            bench.interrupt()
        assert bench.under_way is not None
        bench.reset()
        assert bench.init() == OK
        assert bench.read(40, len(data)) == (OK, data)


@pytest.mark.parametrize("busy_s", [0.1, 2.0])
def test_a_reset_while_the_card_is_busy_costs_that_time(bench: Bench, dma: bool, busy_s: float) -> None:
    if not dma:
        return
    bench.card.timing = dataclasses.replace(bench.card.timing, write_next_s=busy_s)
    bench.library.test_start_write(40, pattern(3 * BLOCK), 3 * BLOCK)
    bench.interrupt()
    bench.interrupt()
    bench.reset()
    assert bench.init() == OK
    assert bench.on_card(40, BLOCK) == pattern(BLOCK)


@pytest.mark.parametrize("index", [0, 8, 59, 55, 41, 58, 16, 9])
@pytest.mark.parametrize("loss", ["command", "answer"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_command_or_an_answer_lost_while_the_card_starts_is_made_good(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch, kind: KIND, index: int, loss: str
) -> None:
    bench = open_bench(kind)
    poll, lost, mute = bench.bus.poll, 0, 0

    def noisy(sent: bytes, begin: int, hz: float) -> tuple[bytes, int]:
        nonlocal lost, mute
        is_it = len(sent) == 6 and sent[0] & 0x3F == index
        if is_it and lost < 2:
            lost += 1
            mute = 12 if loss == "answer" else 0
            sent = sent if loss == "answer" else sent[:5] + bytes([sent[5] ^ 4])
        received, end = poll(sent, begin, hz)
        if len(sent) == 1 and mute:
            mute -= 1
            received = b"\xff"
        return received, end

    monkeypatch.setattr(bench.bus, "poll", noisy)
    assert bench.init() == OK
    assert bench.library.test_block_count() == SIZE // BLOCK
    assert lost or index == 16
    assert bench.write(40, pattern(BLOCK)) == OK
    assert bench.read(40, BLOCK) == (OK, pattern(BLOCK))


def test_a_bus_that_loses_bits_is_slowed_down(bench: Bench) -> None:
    bench.write(40, pattern(6 * BLOCK))
    fast = bench.card._queue_block

    def fails_above(limit_hz: float) -> None:
        def queue(when: int) -> None:
            bench.card.faults.corrupt_reads = int(bench.hz > limit_hz)
            fast(when)

        bench.card._queue_block = queue  # type: ignore[method-assign]

    fails_above(4e6)
    assert bench.read(40, 6 * BLOCK) == (OK, pattern(6 * BLOCK))
    assert bench.speeds[-2:] == [8_000_000, 4_000_000]
    fails_above(1e6)
    assert bench.read(40, 6 * BLOCK) == (OK, pattern(6 * BLOCK))
    assert bench.speeds[-2:] == [4_000_000, 1_000_000]
    fails_above(0.5e6)
    assert bench.read(40, 6 * BLOCK)[0] == CORRUPT
    assert bench.init() == OK
    assert bench.hz == 8e6


def test_single_bits_lost_in_a_long_transfer_do_not_end_it(bench: Bench) -> None:
    bench.write(40, pattern(60 * BLOCK))
    queue, blocks = bench.card._queue_block, 0

    def now_and_then(when: int) -> None:
        nonlocal blocks
        blocks += 1
        bench.card.faults.corrupt_reads = int(blocks % 10 == 0)
        queue(when)

    bench.card._queue_block = now_and_then  # type: ignore[method-assign]
    assert bench.read(40, 60 * BLOCK) == (OK, pattern(60 * BLOCK))
    assert bench.speeds[-1] == 8_000_000


def test_what_a_card_says_behind_its_last_block_is_no_error(bench: Bench) -> None:
    last = SIZE // BLOCK - 3
    assert bench.write(last, pattern(3 * BLOCK)) == OK
    assert bench.read(last, 3 * BLOCK) == (OK, pattern(3 * BLOCK))
    assert bench.write(last, pattern(3 * BLOCK, 1)) == OK
    assert bench.write(40, pattern(BLOCK)) == OK


def test_a_bus_that_damages_what_is_sent_is_slowed_down(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    poll = bench.bus.poll

    def noisy(sent: bytes, begin: int, hz: float) -> tuple[bytes, int]:
        if len(sent) == BLOCK and sent != b"\xff" * BLOCK and hz > 4e6:
            sent = sent[:7] + bytes([sent[7] ^ 4]) + sent[8:]
        return poll(sent, begin, hz)

    monkeypatch.setattr(bench.bus, "poll", noisy)
    assert bench.write(40, pattern(5 * BLOCK)) == OK
    assert bench.speeds[-1] == 4_000_000
    assert bench.on_card(40, 5 * BLOCK) == pattern(5 * BLOCK)


def test_a_card_that_lost_its_supply_for_a_moment_is_not_waited_for(bench: Bench) -> None:
    bench.card._idle = True
    began_s = bench.time_s
    assert bench.read(40, BLOCK)[0] == IO
    assert bench.time_s - began_s < 0.1


def test_an_image_that_is_no_card_is_refused(tmp_path: Path) -> None:
    odd = tmp_path / "odd.img"
    odd.write_bytes(b"x" * 1000)
    clock = Clock(Counter(), HZ)
    with pytest.raises(UserError, match="multiple of 512 KiB"):
        SdCard(odd, clock, Power(load_board("nrf52840").rails_a, clock), lambda: None)
    assert odd.read_bytes() == b"x" * 1000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BOARDS)
def test_a_board_labels_its_card_and_pages_to_it(open_line: Opener, tmp_path: Path, name: str, kind: KIND) -> None:
    line = open_line(name, kind=kind)
    assert line.ask("page out 4096 2 sequential").startswith("err -9")
    assert int(line.values("format")["blocks"]) == 64 * 1024 * 1024 // BLOCK
    assert (tmp_path / f"{name}.img").read_bytes()[:BLOCK] == b"POET CARD 1\n".ljust(BLOCK, b"\0")
    before = line.emulated.card.blocks_written
    line.values("page out 4096 2 sequential")
    assert line.emulated.card.blocks_written - before == 2 * 8
    assert int(line.values("page in 4096 2 scattered")["ticks"]) > 0


@pytest.mark.parametrize("name", BOARDS)
def test_a_transfer_draws_the_cards_current_inside_its_window(open_line: Opener, name: str) -> None:
    line = open_line(name)
    rails = load_board(name).rails_a
    line.values("format")
    line.emulated.power_trace()
    line.values("page out 4096 1 sequential")
    trace = line.emulated.power_trace()
    assert trace.current_a[trace.window].max() == pytest.approx(rails.cpu_active + rails.storage_write)
    line.values("page in 4096 1 sequential")
    trace = line.emulated.power_trace()
    assert trace.current_a[trace.window].max() == pytest.approx(rails.cpu_active + rails.storage_read)


@pytest.mark.parametrize("name", BOARDS)
def test_a_card_pulled_out_is_told_to_the_host(open_line: Opener, name: str) -> None:
    line = open_line(name)
    line.values("format")
    line.emulated.card.faults.removed = True
    assert line.ask("page out 4096 1 sequential").startswith("err -9")
    assert line.ask("stack").startswith("ok")


FLOATING = ("high", "low", "noise")


@pytest.mark.parametrize("floats", FLOATING)
@pytest.mark.parametrize("name", BOARDS)
def test_a_board_tells_an_empty_slot_from_a_card_whatever_the_line_does(
    open_line: Opener, name: str, floats: str
) -> None:
    line = open_line(name)
    faults = line.emulated.card.faults
    faults.floats, faults.removed = floats, True
    assert line.ask("format").startswith("err -9")
    faults.removed = False
    assert line.ask("format").startswith("ok")


@pytest.mark.parametrize("left_in", [17, 18, 24, 25])
@pytest.mark.parametrize("name", BOARDS)
def test_a_board_that_was_reset_gets_its_card_back(open_line: Opener, name: str, left_in: int) -> None:
    line = open_line(name)
    line.values("format")
    card = line.emulated.card
    card.faults.keeps_waiting = True
    frame = bytes([0x40 | left_in]) + (2048).to_bytes(4)
    token = {24: b"\xfe", 25: b"\xfc"}.get(left_in, b"\xff")
    card.select(True)
    now = line.emulated.card._clock.now
    sent = frame + bytes([crc7(frame) << 1 | 1]) + b"\xff" * 3 + token + b"\x01" * 200
    card.exchange(sent, now, card._clock.cycles(10e-6))  # a read is in its block now, a write waits for it
    line.emulated.reset()
    line.greet()
    line.values("page out 4096 1 sequential")
    line.values("page in 4096 1 sequential")


@pytest.mark.parametrize("name", BOARDS)
def test_a_write_protected_card_is_told_in_words(open_line: Opener, name: str) -> None:
    line = open_line(name)
    line.values("format")
    line.emulated.card.faults.protection = "blocks"
    assert line.ask("page out 4096 1 sequential") == (
        "err -10 card is write-protected or locked: unlock it in a computer, or use another one"
    )
    line.emulated.card.faults.protection = "temporary"
    assert line.ask("page out 4096 1 sequential").startswith("err -10")
    line.emulated.card.faults.protection = ""
    line.values("page out 4096 1 sequential")


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_waits_for_a_card_that_tidies_up(open_line: Opener, name: str) -> None:
    line = open_line(name, timing=CardTiming(pause_seed=1, pause_blocks=(4, 4), pause_s=(0.7, 0.7)))
    assert "pauses of seed 1" in line.emulated.timing_model
    line.values("format")
    before_s = line.emulated.time_s
    line.values("page out 2048 1 sequential")
    assert 0.7 < line.emulated.time_s - before_s < 0.8
