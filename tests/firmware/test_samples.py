# SPDX-License-Identifier: Apache-2.0
"""Samples as small integers: normalised as they arrive, or on the card and named by their numbers."""

from __future__ import annotations

import ctypes as c
import struct
import zlib
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from poet_harness.card.sample_set import SampleSet
from poet_harness.protocol.device import HeldSet
from poet_profiles.quantised import Normalising
from poet_profiles.samples import Samples

from tests.support.firmware import core as fw
from tests.support.firmware.device import Device, boot

BATCH, CHANNELS, EXTENT = 3, 2, 90
NUMBERS = CHANNELS * EXTENT
X, Y, LOSS = 0, 1, 2
# One page of five blocks, and one block of a trace.
SET = fw.PAGE_AREA + 6
TYPES = {"u8": np.uint8, "i8": np.int8, "i16": np.int16}
SHIFTS, SCALES = np.array([17, 3.3], np.float32), np.array([1 / 255, 0.7], np.float32)


def net() -> fw.Net:
    size = BATCH * NUMBERS
    return fw.Net(
        nodes=[(fw.RELU, [size], [1], [0], 0), (fw.NLL_LOSS, [BATCH, NUMBERS], [0, 2], [3], 0)],
        values=[(4 * size, 0)],
        residents=[(0, 4 * size, fw.INPUT), (4 * size, 4 * BATCH, fw.TARGET), (4 * size + 4 * BATCH, 4, 6)],
        steps=[(fw.COMPUTE, 0, [0]), (fw.COMPUTE, 1, []), (fw.PAGE_OUT, 0, 0), (fw.FREE, 0, 0)],
        arena_bytes=4 * size,
    )


@pytest.fixture
def card() -> fw.Card:
    return fw.Card(fw.PAGE_AREA + 66)


@pytest.fixture
def device(core: c.CDLL, card: fw.Card) -> Iterator[Device]:
    device = boot(core, net())
    device.ok("hello")
    device.insert(card)
    yield device


def drawn(kind: str, *shape: int) -> np.ndarray:
    bounds = np.iinfo(TYPES[kind])
    return np.random.default_rng(5).integers(bounds.min, bounds.max, shape, TYPES[kind], endpoint=True)


def normalised(numbers: np.ndarray, shift: np.float32, scale: np.float32) -> np.ndarray:
    return (numbers.astype(np.float32) - shift) * scale


def bits(number: np.float32) -> str:
    return struct.pack(">f", number).hex()


def tensor(device: Device, index: int, count: int) -> bytes:
    parts = [device.ok(f"get {index} {at} {min(224, count - at)}")["data"] for at in range(0, count, 224)]
    return bytes.fromhex("".join(parts))


@pytest.mark.parametrize("kind", TYPES)
def test_numbers_are_normalised_as_they_arrive(device: Device, kind: str) -> None:
    numbers = drawn(kind, 100)
    pair = f"{bits(SHIFTS[1])} {bits(SCALES[1])}"
    assert device.ok(f"scaled {X} 30 {kind} {pair} {numbers.tobytes().hex()}") == {"numbers": "100"}
    found = tensor(device, X, 4 * 131)
    assert found[:120] == bytes(120)
    assert found[120:520] == normalised(numbers, SHIFTS[1], SCALES[1]).tobytes()
    assert found[520:] == bytes(4)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (f"scaled {X} {BATCH * NUMBERS - 1} u8 00000000 3f800000 0102", "err -1"),
        (f"scaled {X} {BATCH * NUMBERS} u8 00000000 3f800000 01", "err -1"),
        (f"scaled {X} 4294967295 u8 00000000 3f800000 0102", "err -1"),
        ("scaled 9 0 u8 00000000 3f800000 01", "err -1"),
        (f"scaled {X} 0 i16 00000000 3f800000 010203", "err -1 expected: scaled"),
        (f"scaled {X} 0 u16 00000000 3f800000 0102", "err -1 expected: scaled"),
        (f"scaled {X} 0 u8 0 3f800000 0102", "err -1 expected: scaled"),
        (f"scaled {X} 0 u8 00000000 3f800000 0G", "err -1 expected: scaled"),
        ("set x", "err -1 expected"),
        (f"set {SET - 1}", "err -1 not after the plan's pages"),
        (f"set {fw.PAGE_AREA + 66}", "err -1"),
        (f"set {SET}", "err -9 no data set"),
        (f"samples {SET} 0 1", "err -9 no data set"),
        (f"block {SET - 1} 0 00", "err -1 not after the plan's pages"),
        (f"block {SET} 511 0000", "err -1"),
        (f"block {SET} 0 ", "err -1"),
        (f"block {SET} 0 0", "err -1 expected"),
    ],
)
def test_what_makes_no_sense_is_refused(device: Device, request_: str, error: str) -> None:
    assert device.ask(request_).startswith(error)


def record(number: int, *parts: bytes) -> bytes:
    content = b"".join(part + bytes(-len(part) % 4) for part in parts)
    return content + struct.pack("<I", zlib.crc32(content, number))


def header(count: int, blocks: int, entries: list[tuple[int, ...]], channels: list[tuple[float, float]]) -> bytes:
    lengths = struct.pack("<5I", count, blocks, 0xCAFE, len(entries), len(channels))
    content = b"POET SET 1\n".ljust(16, b"\0") + lengths
    content += b"".join(struct.pack("<4I", *entry) for entry in entries)
    content += b"".join(struct.pack("<2f", *pair) for pair in channels)
    return content + struct.pack("<I", zlib.crc32(content))


def put_set(device: Device, kind: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """A set of numbers in two channels, with labels."""
    x, y = drawn(kind, count, CHANNELS, EXTENT), np.arange(count, dtype="<i4")
    records = [record(number, x[number].tobytes(), y[number].tobytes()) for number in range(count)]
    blocks = -(-len(records[0]) // 512)
    for number, content in enumerate(records):
        put_whole(device, SET + 1 + number * blocks, content)
    entries = [(1 + list(TYPES).index(kind), NUMBERS, 0, CHANNELS), (0, 1, CHANNELS, 1)]
    pairs = [*zip(map(float, SHIFTS), map(float, SCALES), strict=True), (0.0, 1.0)]
    put_whole(device, SET, header(count, blocks, entries, pairs))
    return x, y


def put_whole(device: Device, block: int, content: bytes) -> None:
    for at in range(0, len(content), 512):
        part = content[at : at + 512]
        for inside in range(0, len(part), 200):
            device.ok(f"block {block + at // 512} {inside} {part[inside : inside + 200].hex()}")


@pytest.mark.parametrize("kind", TYPES)
def test_a_batch_is_made_of_samples_on_the_card(device: Device, kind: str) -> None:
    x, y = put_set(device, kind, 7)
    assert device.ok(f"set {SET}") == {"samples": "7", "check": "0000cafe"}
    chosen = [6, 0, 3]
    assert device.ok(f"samples {SET} 0 6 0") == {"samples": "2"}
    assert device.ok(f"samples {SET} 2 3") == {"samples": "1"}
    expected = normalised(x[chosen], SHIFTS[:, None], SCALES[:, None])
    assert tensor(device, X, expected.nbytes) == expected.tobytes()
    assert tensor(device, Y, 4 * BATCH) == y[chosen].tobytes()
    assert device.ask(f"samples {SET} 0 7").startswith("err -1")
    assert device.ask(f"samples {SET} 2 1 1").startswith("err -1")
    assert device.ask(f"samples {SET} 0 1 x").startswith("err -1")


def test_a_set_lies_after_the_pages_of_training_and_inference() -> None:
    for own, inferences, expected in ((7, 3, 7), (3, 7, 7), (3, None, 3)):
        inference = None if inferences is None else SimpleNamespace(page_blocks=inferences)
        plan = SimpleNamespace(page_blocks=own, inference=inference, extraction=None, card=None)
        assert SampleSet(plan, None, None).block == fw.PAGE_AREA + expected  # type: ignore[arg-type]


def test_a_sample_that_is_damaged_or_in_anothers_place_is_no_sample(device: Device) -> None:
    x, y = put_set(device, "u8", 4)
    device.ok(f"block {SET + 2} 100 {bytes(4).hex()}")
    assert device.ask(f"samples {SET} 0 1") == "err -7 a sample on the card is damaged"
    device.ok(f"samples {SET} 0 0 2")
    put_whole(device, SET + 2, record(3, x[3].tobytes(), y[3].tobytes()))
    assert device.ask(f"samples {SET} 0 1").startswith("err -7")
    put_whole(device, SET + 2, record(1, x[1].tobytes(), y[1].tobytes()))
    device.ok(f"samples {SET} 0 1")


@pytest.mark.parametrize(
    ("entries", "count", "blocks"),
    [
        ([(1, NUMBERS, 0, 1)], 2, 1),
        ([(1, NUMBERS, 0, 1), (0, 1, 0, 1), (0, 1, 0, 1)], 2, 1),
        ([(1, NUMBERS - 1, 0, 1), (0, 1, 0, 1)], 2, 1),
        ([(1, NUMBERS, 0, 1), (0, 3, 0, 1)], 2, 1),
        ([(4, NUMBERS, 0, 1), (0, 1, 0, 1)], 2, 1),
        ([(1, NUMBERS, 0, 7), (0, 1, 0, 1)], 2, 1),
        ([(1, NUMBERS, 1, 1), (0, 1, 0, 1)], 2, 1),
        ([(1, 0, 0, 1), (0, 1, 0, 1)], 2, 1),
        ([(1, NUMBERS, 0, 1), (0, 1, 0, 1)], 2, 2),
        ([(1, NUMBERS, 0, 1), (0, 1, 0, 1)], 60, 1),
    ],
)
def test_a_set_for_another_model_is_none(
    device: Device, entries: list[tuple[int, ...]], count: int, blocks: int
) -> None:
    put_whole(device, SET, header(count, blocks, entries, [(0.0, 1.0)]))
    assert device.ask(f"set {SET}").startswith("err -9 no data set")
    put_whole(device, SET, header(59, 1, [(1, NUMBERS, 0, 1), (0, 1, 0, 1)], [(0.0, 1.0)]))
    assert device.ok(f"set {SET}")["samples"] == "59"


def test_a_header_that_is_damaged_is_none(device: Device) -> None:
    whole = header(4, 1, [(1, NUMBERS, 0, 1), (0, 1, 0, 1)], [(0.0, 1.0)])
    for place in range(len(whole)):
        damaged = bytes((*whole[:place], whole[place] ^ 0x41, *whole[place + 1 :]))
        put_whole(device, SET, damaged)
        assert device.ask(f"set {SET}").startswith("err -9"), place
    put_whole(device, SET, whole)
    device.ok(f"set {SET}")


def test_a_card_without_a_label_gets_no_set(core: c.CDLL) -> None:
    device = boot(core, net())
    device.ok("hello")
    device.insert(fw.Card(fw.PAGE_AREA + 66, labelled=False))
    for request in (f"block {SET} 0 00", f"set {SET}", f"samples {SET} 0 1"):
        assert device.ask(request) == "err -9 no card, or no label on it"


def test_a_model_without_a_batch_in_ram_takes_no_set(core: c.CDLL) -> None:
    device = boot(core, fw.Net([(fw.RELU, [1], [1], [0], 0)], [(4, None)], [(0, 4, 7)], [(fw.COMPUTE, 0, [0])], 4))
    device.ok("hello")
    device.insert(fw.Card(fw.PAGE_AREA + 66))
    assert device.ask(f"set {fw.PAGE_AREA + 1}") == "err -8 the built model has no batch in RAM"


@pytest.mark.parametrize(("wrong", "answer"), [(1, "ok"), (2, "ok"), (3, "err -7")])
def test_a_sample_is_read_three_times_at_most(device: Device, card: fw.Card, wrong: int, answer: str) -> None:
    x, _ = put_set(device, "i16", 4)
    left = wrong

    def spoil(block: int) -> None:
        nonlocal left
        card.flips = int(block == SET + 2 and left > 0)
        left -= card.flips

    card.before_read = spoil
    assert device.ask(f"samples {SET} 0 1").startswith(answer)
    card.before_read = None
    if answer == "ok":
        expected = normalised(x[1], SHIFTS[:, None], SCALES[:, None])
        assert tensor(device, X, expected.nbytes) == expected.tobytes()


def test_what_the_harness_lays_out_the_firmware_reads(device: Device) -> None:
    count = 5
    arrays = {X: drawn("i16", count, CHANNELS, EXTENT), Y: np.arange(count, dtype="<i4")}
    samples = Samples("drawn", count, lambda numbers: {index: array[numbers] for index, array in arrays.items()})
    normalising = Normalising(tuple(map(float, SHIFTS)), tuple(map(float, SCALES)))
    placed = SampleSet(
        SimpleNamespace(page_blocks=SET - fw.PAGE_AREA, inference=None, extraction=None, card=None),
        samples,
        normalising,
    )  # type: ignore[arg-type]
    assert placed.block == SET
    put_whole(device, SET, placed.header)
    for number, content in enumerate(placed.records()):
        put_whole(device, SET + 1 + number * placed.sample_blocks, content)
    assert device.ok(f"set {SET}") == {"samples": str(count), "check": placed.check}
    device.ok(f"samples {SET} 0 4 2 0")
    expected = normalising(arrays[X][[4, 2, 0]])
    assert tensor(device, X, expected.nbytes) == expected.tobytes()
    assert tensor(device, Y, 4 * BATCH) == arrays[Y][[4, 2, 0]].tobytes()


class CutError(Exception):
    """The host, or the supply, is gone."""


class Sending:
    """What the harness sends through, until it is cut after so many blocks."""

    def __init__(self, device: Device, blocks: int) -> None:
        self._device, self._left = device, blocks

    def put_block(self, block: int, data: bytes) -> None:
        if not self._left:
            raise CutError
        self._left -= 1
        put_whole(self._device, block, data)

    def sample_set(self, block: int) -> HeldSet | None:
        answer = self._device.ask(f"set {block}")
        found = dict(pair.split("=") for pair in answer.split()[1:]) if answer.startswith("ok") else None
        return found and HeldSet(int(found["samples"]), found["check"])  # type: ignore[return-value]


def laid_out(seed: int) -> SampleSet:
    count = 5
    x = np.random.default_rng(seed).integers(0, 256, (count, CHANNELS, EXTENT), np.uint8)
    arrays = {X: x, Y: np.arange(count, dtype="<i4")}
    samples = Samples("drawn", count, lambda numbers: {index: array[numbers] for index, array in arrays.items()})
    return SampleSet(
        SimpleNamespace(page_blocks=SET - fw.PAGE_AREA, inference=None, extraction=None, card=None),
        samples,
        Normalising((0.0,), (0.5,)),
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("blocks", range(7))
def test_a_set_whose_sending_is_cut_is_neither_the_old_one_nor_the_new_one(device: Device, blocks: int) -> None:
    old, new = laid_out(1), laid_out(2)
    old.send(Sending(device, 100), lambda _: None)  # type: ignore[arg-type]
    with pytest.raises(CutError):
        new.send(Sending(device, blocks), lambda _: None)  # type: ignore[arg-type]
    whole = Sending(device, 100)
    assert not new.is_on(whole)  # type: ignore[arg-type]
    assert old.is_on(whole) == (blocks == 0)  # type: ignore[arg-type]
    new.send(whole, lambda _: None)  # type: ignore[arg-type]
    assert new.is_on(whole)  # type: ignore[arg-type]


def test_a_card_that_fails_is_brought_up_again(device: Device, card: fw.Card) -> None:
    put_set(device, "i8", 4)
    for reads in range(4):
        card.fail_reads = reads
        assert device.ask(f"samples {SET} 0 1 2").startswith("err -5")
        card.fail_reads = None
        device.ok(f"samples {SET} 0 1 2")
    card.fail_writes = 0
    assert device.ask(f"block {SET} 0 00").startswith("err -5")
    card.fail_writes = None
    device.ok(f"set {SET}")
