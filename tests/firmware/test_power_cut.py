# SPDX-License-Identifier: Apache-2.0
"""Training over power cuts: at every single write, torn in every way that a card may tear it."""

from __future__ import annotations

import ctypes as c
import struct
import zlib

import numpy as np
import pytest
from poet_profiles.protocol.f32 import f32_bits

from tests.support.firmware import core as fw
from tests.support.firmware.cut_card import TEARS, CutCard
from tests.support.firmware.device import Device, boot

SIZE = 300
BYTES = 4 * SIZE
RATE_BITS = f32_bits(0.05)
STEPS = 4
SLOTS = (16, 1032)


def training_net() -> fw.Net:
    """gradient = relu(x) + parameter (so that the weights depend on every step), and relu(x) is paged."""
    return fw.Net(
        nodes=[
            (fw.RELU, [SIZE], [1], [0], 0),
            (fw.ADD, [SIZE], [0, 3], [2], BYTES),
            (fw.SGD, [SIZE], [2, 3], [3], 0),
            (fw.SGD, [SIZE], [2, 4], [4], 0),
        ],
        values=[(BYTES, 0)],
        residents=[
            (0, BYTES, fw.INPUT),
            (BYTES, BYTES, fw.GRADIENT),
            (2 * BYTES, BYTES, fw.PARAMETER),
            (3 * BYTES, BYTES, fw.STATE),
        ],
        steps=[
            *((fw.COMPUTE, 0, [0]), (fw.PAGE_OUT, 0, 0), (fw.FREE, 0, 0), (fw.PAGE_IN, 0, BYTES)),
            *((fw.COMPUTE, 1, [0]), (fw.FREE, 0, 0), (fw.COMPUTE, 2, []), (fw.COMPUTE, 3, [])),
        ],
        arena_bytes=2 * BYTES,
    )


def batch(step: int) -> np.ndarray:
    return np.random.default_rng(step).standard_normal(SIZE).astype(np.float32)


def put(device: Device, index: int, data: bytes) -> str:
    answer = ""
    for offset in range(0, len(data), 200):
        answer = device.ask(f"put {index} {offset} {data[offset : offset + 200].hex()}")
        assert answer.startswith("ok")
    return answer


def weights(device: Device) -> bytes:
    data = ""
    for index in (2, 3):
        for offset in range(0, BYTES, 200):
            data += device.ok(f"get {index} {offset} 200")["data"]
    return bytes.fromhex(data)


def train(device: Device, first: int) -> tuple[int, dict[int, bytes]]:
    """Train until the power fails; the last step that was committed for sure, and the weights after each."""
    after = {}
    done = first
    for step in range(first + 1, STEPS + 1):
        put(device, 0, batch(step).tobytes())
        if not device.ask(f"step {RATE_BITS} 0").startswith("ok"):
            break
        after[step] = weights(device)
        if not device.ask(f"commit {step}").startswith("ok"):
            break
        done = step
    return done, after


def start(core: c.CDLL, card: fw.Card) -> Device:
    device = boot(core, training_net(), noise=True)
    device.insert(card)
    device.ok("hello")
    return device


def initialise(device: Device) -> None:
    for index in (2, 3):
        put(device, index, batch(100 + index).tobytes())
    device.ok("commit 0")


@pytest.fixture(scope="module")
def uninterrupted(core: c.CDLL) -> tuple[CutCard, dict[int, bytes]]:
    card = CutCard(fw.PAGE_AREA + 16)
    device = start(core, card)
    initialise(device)
    first = weights(device)
    done, after = train(device, 0)
    assert done == STEPS
    return card, {0: first} | after


@pytest.mark.parametrize("torn", TEARS)
def test_a_cut_at_any_write_loses_at_most_the_step_under_way(
    core: c.CDLL, uninterrupted: tuple[CutCard, dict[int, bytes]], torn: str
) -> None:
    whole, expected = uninterrupted
    assert len(set(expected.values())) == STEPS + 1
    per_commit = 3  # two tensors and the header
    assert whole.writes == per_commit + STEPS * (per_commit + 1)
    for cut in range(per_commit, whole.writes):
        card = CutCard(fw.PAGE_AREA + 16)
        device = start(core, card)
        initialise(device)
        card.cut, card.torn = cut, torn
        committed, _ = train(device, 0)
        assert card.dead
        card.power_up()

        device = start(core, card)
        resumed = int(device.ok("restore")["step"])
        assert resumed - committed in ((0, 1) if torn == "written, but not reported" else (0,)), cut
        assert weights(device) == expected[resumed]
        done, after = train(device, resumed)
        assert done == STEPS
        assert after == {step: expected[step] for step in range(resumed + 1, STEPS + 1)}


def test_the_bytes_on_the_card_are_those_of_the_spec(uninterrupted: tuple[CutCard, dict[int, bytes]]) -> None:
    card, expected = uninterrupted
    for step, slot in ((STEPS, SLOTS[0]), (STEPS - 1, SLOTS[1])):
        header = bytes(card.content[slot * fw.BLOCK : (slot + 1) * fw.BLOCK])
        fields = struct.pack("<IQIII", step + 1, 0x0123456789ABCDEF, step, 2 * BYTES, zlib.crc32(expected[step]))
        assert header[:36] == b"POET SLOT 1\n" + fields
        assert header[36:] == struct.pack("<I", zlib.crc32(header[:36])) + bytes(fw.BLOCK - 40)
        tensors = bytes(card.content[(slot + 1) * fw.BLOCK : (slot + 7) * fw.BLOCK])
        assert tensors == expected[step][:BYTES].ljust(1536, b"\0") + expected[step][BYTES:].ljust(1536, b"\0")


def test_nothing_committed_yet(core: c.CDLL) -> None:
    device = start(core, fw.Card(fw.PAGE_AREA + 16))
    assert device.ask("restore") == "err -9 no commit of this model on the card"


def test_a_commit_of_another_model_is_not_restored(core: c.CDLL) -> None:
    card = fw.Card(fw.PAGE_AREA + 16)
    initialise(start(core, card))
    other = training_net()
    other.model.graph_hash = other.schedule.graph_hash = 99
    device = boot(core, other)
    device.insert(card)
    device.ok("hello")
    assert device.ask("restore").startswith("err -9")
    before = bytes(card.content)
    answer = device.ask("commit 1")
    assert answer.startswith("err -11 ")
    assert answer.endswith("card holds the tensors of another model")
    assert card.content == before
    device.ok("format")  # takes the place on purpose
    device.ok("commit 1")


def test_a_damaged_newest_commit_gives_way_to_the_one_before(core: c.CDLL) -> None:
    card = fw.Card(fw.PAGE_AREA + 16)
    device = start(core, card)
    initialise(device)
    first = weights(device)
    put(device, 2, bytes(BYTES))
    device.ok("commit 1")
    card.content[(SLOTS[1] + 2) * fw.BLOCK] ^= 1
    assert device.ok("restore")["step"] == "0"
    assert weights(device) == first
    card.content[(SLOTS[0] + 2) * fw.BLOCK] ^= 1
    assert device.ask("restore").startswith("err -7")
    assert weights(device) == first


class WornCard(fw.Card):
    """Cannot read some blocks any more, until they are written anew."""

    def __init__(self) -> None:
        super().__init__(fw.PAGE_AREA + 16)
        self.unreadable: set[int] = set()

    def _read(self, context: int, block: int, data: int, count: int) -> int:
        blocks = range(block, block - -count // fw.BLOCK)
        return fw.E_IO if self.unreadable.intersection(blocks) else super()._read(context, block, data, count)

    def _write(self, context: int, block: int, data: int, count: int) -> int:
        self.unreadable.difference_update(range(block, block - -count // fw.BLOCK))
        return super()._write(context, block, data, count)


@pytest.mark.parametrize("place", [0, 2])
def test_an_unreadable_newest_commit_gives_way_to_the_one_before(core: c.CDLL, place: int) -> None:
    card = WornCard()
    device = start(core, card)
    initialise(device)
    first = weights(device)
    put(device, 2, bytes(BYTES))
    device.ok("commit 1")
    card.unreadable = {SLOTS[1] + place}
    assert device.ok("restore")["step"] == "0"
    assert weights(device) == first
    card.unreadable |= {SLOTS[0] + place}
    assert device.ask("restore").startswith("err -5")


def test_a_slot_whose_header_cannot_be_read_is_written_anew(core: c.CDLL) -> None:
    card = WornCard()
    device = start(core, card)
    initialise(device)
    device.ok("commit 1")
    card.unreadable = {SLOTS[0]}
    device.ok("commit 2")
    assert not card.unreadable
    assert device.ok("restore")["step"] == "2"


@pytest.mark.parametrize("commits", [1, 2])
def test_nothing_is_written_while_every_commit_is_unreadable(core: c.CDLL, commits: int) -> None:
    card = WornCard()
    device = start(core, card)
    initialise(device)
    if commits == 2:
        device.ok("commit 1")
    card.unreadable = set(SLOTS[:commits])
    before = bytes(card.content)
    assert device.ask("commit 2").startswith("err -5")
    assert bytes(card.content) == before
    card.unreadable = set()
    assert device.ok("restore")["step"] == str(commits - 1)


class UnsteadyCard(fw.Card):
    """Gives back the wrong bits in the first `wrong_reads` reads of each block, and stores one wrong if `careless`."""

    wrong_reads = 0
    careless = False

    def _read(self, context: int, block: int, data: int, count: int) -> int:
        self.flips = int(block > SLOTS[0] and self.log.count(("read", block, count)) < self.wrong_reads)
        return super()._read(context, block, data, count)

    def _write(self, context: int, block: int, data: int, count: int) -> int:
        status = super()._write(context, block, data, count)
        self.content[block * fw.BLOCK + 5] ^= 4 * self.careless
        return status


@pytest.mark.parametrize("wrong_reads", [1, 2])
def test_reading_errors_are_retried(core: c.CDLL, wrong_reads: int) -> None:
    card = UnsteadyCard(fw.PAGE_AREA + 16)
    device = start(core, card)
    initialise(device)
    before = weights(device)
    device = start(core, card)
    card.log.clear()
    card.wrong_reads = wrong_reads
    assert device.ok("restore")["step"] == "0"
    assert weights(device) == before


def test_a_write_that_went_wrong_silently_is_found_before_it_counts(core: c.CDLL) -> None:
    card = UnsteadyCard(fw.PAGE_AREA + 16)
    device = start(core, card)
    initialise(device)
    card.careless = True
    assert device.ask("commit 1").startswith("err -7")
    card.careless = False
    assert device.ok("restore")["step"] == "0"


def test_weights_larger_than_a_slot_are_refused(core: c.CDLL) -> None:
    size = 1016 * fw.BLOCK
    net = fw.Net([], [], [(0, size, fw.PARAMETER)], [], 0)
    device = boot(core, net)
    device.insert(fw.Card(fw.PAGE_AREA + 16))
    device.ok("hello")
    assert device.ask("commit 0").startswith("err -6")
