# SPDX-License-Identifier: Apache-2.0
"""Training an embedding on the card row by row: every step counts wholly or not at all, and other rows stay."""

from __future__ import annotations

import ctypes as c
import struct
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from poet_profiles.protocol.f32 import f32_bits

from tests.support.firmware import core as fw
from tests.support.firmware.cut_card import TEARS, BlockCard
from tests.support.firmware.device import Device, boot
from tests.support.firmware.fenced import fenced

TOKENS, WORDS, WIDTH = 6, 37, 150  # a row is padded to two blocks, and the rows' bits take two words
ROW_BYTES, ROW_BLOCKS = 4 * WIDTH, 2
Y_BYTES, W_BYTES = TOKENS * ROW_BYTES, WORDS * ROW_BYTES
RATE = np.float32(0.05)
STEP = f"step {f32_bits(0.05)} 0"
BATCHES = 3
STEPS = 4
RECORDS = (16, 1032)
SHAPE = [TOKENS, WORDS, WIDTH]
Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

# Values: 0 tokens, 1 y, 2 relu(y), which serves as y's gradient.
# Kept tensors: 3 tokens (batches), 4 w (unit 0, by rows), 5 the last relu(y) (unit 1).
TOKENS_AT, W, S = 3, 4, 5
NODES = [
    (fw.FETCH, [TOKENS], [TOKENS_AT], [0], 0),
    (fw.STREAMED_EMBEDDING, SHAPE, [W, 0], [1], 0),
    (fw.RELU, [TOKENS * WIDTH], [1], [2], 0),
    (fw.STREAMED_EMBEDDING_UPDATE, SHAPE, [2, 0, W], [W], 2 * ROW_BYTES),
    (fw.STORE, [TOKENS * WIDTH], [2], [S], 0),
    (fw.COMMIT, [1], [], [], 0),
]
SCHEDULE: list[tuple[int, int, object]] = [
    *((fw.COMPUTE, 0, [0]), (fw.COMPUTE, 1, [32]), (fw.COMPUTE, 2, [32 + Y_BYTES])),
    *((fw.FREE, 1, 0), (fw.COMPUTE, 3, [32 + 2 * Y_BYTES]), (fw.FREE, 0, 0)),
    *((fw.COMPUTE, 4, []), (fw.FREE, 2, 0), (fw.COMPUTE, 5, [])),
]
KEPT = [(4 * TOKENS, fw.INPUT, None), (W_BYTES, fw.PARAMETER, 0, WORDS), (Y_BYTES, fw.STATE, 1)]


def training_net(**changes: object) -> fw.Net:
    parts = {"nodes": NODES, "kept": KEPT, "steps": SCHEDULE} | changes
    values = [(4 * TOKENS, None), (Y_BYTES, None), (Y_BYTES, None)]
    return fw.Net(values=values, residents=[], arena_bytes=32 + 2 * Y_BYTES + 2 * ROW_BYTES, **parts)  # type: ignore[arg-type]


NET = training_net()
LAYOUT = NET.layout
BLOCKS = fw.PAGE_AREA + LAYOUT.batch_block + BATCHES * LAYOUT.batch_blocks + 8


def tokens(batch: int) -> Ints:
    """One occurs twice, and the batches have one in common."""
    drawn = np.random.default_rng(batch).integers(1, WORDS, TOKENS).astype(np.int32)
    drawn[-1], drawn[2] = drawn[0], WORDS - 1
    return drawn


def after(steps: int) -> tuple[Floats, Floats]:
    """The table and the last relu(y) by numpy, after dense updates in float32: equal tokens' gradients in order."""
    w: Floats = np.random.default_rng(7).standard_normal((WORDS, WIDTH)).astype(np.float32)
    s: Floats = np.zeros((TOKENS, WIDTH), np.float32)
    for step in range(steps):
        at = tokens(step % BATCHES)
        s = np.maximum(w[at], 0)
        gradient = np.zeros_like(w)
        for token, row in zip(at, s, strict=True):
            gradient[token] += row
        w = w - RATE * gradient
    return w, s


def touched(step: int) -> int:
    """Rows that a step changes."""
    return len(set(tokens(step % BATCHES).tolist()))


def record(sequence: int, step: int, second: list[bool]) -> bytes:
    w, s = after(step)
    check = sum(zlib.crc32(row.tobytes(), number) for number, row in enumerate(w)) & 0xFFFFFFFF
    bits = sum(bit << place for place, bit in enumerate(second))
    head = b"POET RECORD 2\n\0\0" + struct.pack(
        "<IIQIIII", sequence, 52 + 4 * 4, NET.model.graph_hash, step, BATCHES, WORDS + 1, 2
    )
    body = head + struct.pack("<QII", bits, check, zlib.crc32(s.tobytes()))
    return (body + struct.pack("<I", zlib.crc32(body))).ljust(fw.BLOCK, b"\0")


def row_place(row: int, second: bool) -> int:
    return (fw.PAGE_AREA + LAYOUT.rows[W - 3][1] + row * ROW_BLOCKS + second * LAYOUT.home_blocks) * fw.BLOCK


def image() -> bytes:
    """A prepared card, laid out after docs/SPEC.md alone."""
    content = bytearray(BLOCKS * fw.BLOCK)

    def write(place: int, data: bytes) -> None:
        content[place : place + len(data)] = data

    w, s = after(0)
    write(0, b"POET CARD 1\n")
    for number, row in enumerate(w):
        write(row_place(number, second=False), row.tobytes())
    write((fw.PAGE_AREA + LAYOUT.rows[S - 3][1]) * fw.BLOCK, s.tobytes())
    for batch in range(BATCHES):
        place = fw.PAGE_AREA + LAYOUT.rows[0][1] + batch * LAYOUT.batch_blocks
        write(place * fw.BLOCK, fw.checked(tokens(batch).tobytes(), batch))
    write(RECORDS[0] * fw.BLOCK, record(1, 0, [False] * (WORDS + 1)))
    return bytes(content)


def prepared(dma: bool = False) -> BlockCard:
    card = BlockCard(BLOCKS, dma, half_block=48)
    card.content[:] = image()
    return card


def start(core: c.CDLL, card: fw.Card) -> Device:
    device = boot(core, training_net(), noise=True)
    device.insert(card)
    device.ok("hello")
    return device


def restored(core: c.CDLL, card: fw.Card) -> Device:
    device = start(core, card)
    device.ok("restore")
    return device


def tensor(device: Device, index: int, count: int) -> bytes:
    return b"".join(
        bytes.fromhex(device.ok(f"get {index} {at} {min(224, count - at)}")["data"]) for at in range(0, count, 224)
    )


def weights(device: Device) -> tuple[bytes, bytes]:
    return tensor(device, 1, W_BYTES), tensor(device, 2, Y_BYTES)


def bits(step: int) -> tuple[bytes, bytes]:
    w, s = after(step)
    return w.tobytes(), s.tobytes()


@pytest.mark.parametrize("dma", [False, True])
def test_the_bits_are_those_of_a_dense_update(core: c.CDLL, dma: bool) -> None:
    card = prepared(dma)
    device = restored(core, card)
    for step in range(1, STEPS + 1):
        writes = card.writes
        assert device.ok(STEP)["committed"] == str(step)
        assert card.writes - writes == ROW_BLOCKS * touched(step - 1) + -(-Y_BYTES // fw.BLOCK) + 1
        assert weights(device) == bits(step)
    device = start(core, card)
    assert device.ok("restore")["step"] == str(STEPS)
    assert weights(device) == bits(STEPS)


def test_the_bytes_on_the_card_are_those_of_the_spec(core: c.CDLL) -> None:
    card = prepared()
    before = bytes(card.content)
    device = restored(core, card)
    device.ok(STEP)
    device.ok(STEP)
    second = [False] * (WORDS + 1)
    expected = bytearray(before)
    for step in (0, 1):
        w, s = after(step + 1)
        for row in set(tokens(step).tolist()):
            second[row] = not second[row]
            place = row_place(row, second[row])
            expected[place : place + ROW_BLOCKS * fw.BLOCK] = w[row].tobytes().ljust(ROW_BLOCKS * fw.BLOCK, b"\0")
        second[WORDS] = not second[WORDS]
        place = (fw.PAGE_AREA + LAYOUT.rows[S - 3][1] + second[WORDS] * LAYOUT.home_blocks) * fw.BLOCK
        expected[place : place + Y_BYTES] = s.tobytes()
        place = RECORDS[1 - step] * fw.BLOCK
        expected[place : place + fw.BLOCK] = record(2 + step, step + 1, second)
    assert bytes(card.content) == bytes(expected)


def train(device: Device) -> int | None:
    return device.train(STEP, STEPS)


@pytest.mark.parametrize("torn", TEARS)
def test_a_cut_at_any_block_write_loses_at_most_the_step_under_way(core: c.CDLL, torn: str) -> None:
    whole = prepared()
    device = start(core, whole)
    device.ok("restore")
    ends = []
    while len(ends) < STEPS:
        device.ok(STEP)
        ends.append(whole.writes)
    for cut in range(whole.writes):
        card = prepared(dma=cut % 2 == 1)
        device = restored(core, card)
        card.cut, card.torn = cut, torn
        committed = train(device) or 0
        assert card.dead and committed == sum(end <= cut for end in ends)
        card.power_up()

        device = start(core, card)
        resumed = int(device.ok("restore")["step"])
        assert resumed - committed in ((0, 1) if torn == "written, but not reported" else (0,)), cut
        assert weights(device) == bits(resumed), cut
        assert resumed == STEPS or train(device) == STEPS
        assert weights(device) == bits(STEPS), cut


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("fault", ["fail_reads", "fail_writes"])
def test_after_an_error_at_any_transfer_the_step_can_be_asked_for_again(core: c.CDLL, fault: str, dma: bool) -> None:
    card = prepared(dma)
    device = restored(core, card)
    device.ok(STEP)
    setattr(card, fault, 10_000)
    device.ok(STEP)
    count = 10_000 - int(getattr(card, fault))
    assert count > 5
    for transfer in range(count):
        card = prepared(dma)
        device = restored(core, card)
        device.ok(STEP)
        setattr(card, fault, transfer)
        assert "err -5" in device.ask(STEP)
        setattr(card, fault, None)
        other = start(core, card)  # another start of the board sees the step before, or the one that was just sealed
        resumed = int(other.ok("restore")["step"])
        last = fault == "fail_reads" and transfer == count - 1  # the record was written and could not be read back
        assert resumed == 1 + last
        assert weights(other) == bits(resumed)
        done = int(other.ok(STEP)["committed"])
        assert weights(other) == bits(done)


class ForgetfulCard(BlockCard):
    """One write of many is acknowledged and lost."""

    lost: int | None = None

    def _write(self, context: int, block: int, data: int, count: int) -> int:
        if self.lost is not None and self.writes == self.lost:
            self.writes += 1
            return fw.OK
        return super()._write(context, block, data, count)


def test_a_lost_write_of_a_row_is_found_at_once(core: c.CDLL) -> None:
    rows = touched(1)
    for lost in range(rows):
        card = ForgetfulCard(BLOCKS)
        card.content[:] = image()
        device = restored(core, card)
        device.ok(STEP)
        card.lost = card.writes + ROW_BLOCKS * lost
        assert device.ask(STEP).startswith("err -7 call 3:"), lost
        card.lost = None
        assert device.ok(STEP)["committed"] == "2"
        assert weights(device) == bits(2)


def test_damage_to_a_new_row_gives_way_to_the_step_before(core: c.CDLL) -> None:
    for row in set(tokens(0).tolist()):
        card = prepared()
        device = restored(core, card)
        device.ok(STEP)
        card.content[row_place(row, second=True) + ROW_BYTES - 1] ^= 4
        device = start(core, card)
        assert device.ok("restore")["step"] == "0"
        assert weights(device) == bits(0)
        assert train(device) == STEPS
        assert weights(device) == bits(STEPS)


def test_a_step_before_that_a_later_one_has_begun_to_overwrite_is_not_taken(core: c.CDLL) -> None:
    """The newest version is damaged, and rows of the one before are already those of the step that was cut."""
    card = prepared()
    device = restored(core, card)
    device.ok(STEP)
    card.cut = card.writes + ROW_BLOCKS * touched(1)  # all rows of the second step, nothing else
    assert not device.ask(STEP).startswith("ok")
    card.power_up()
    assert set(tokens(0).tolist()) & set(tokens(1).tolist())
    card.content[(fw.PAGE_AREA + LAYOUT.rows[S - 3][1] + LAYOUT.home_blocks) * fw.BLOCK] ^= 1
    assert start(core, card).ask("restore") == "err -7 check failed"


@pytest.mark.parametrize("swapped", [False, True])
def test_damage_to_other_rows_is_found_by_restore(core: c.CDLL, swapped: bool) -> None:
    others = sorted(set(range(WORDS)) - set(tokens(0).tolist()))
    first, last = (row_place(row, second=False) for row in (others[0], others[-1]))
    card = prepared()
    device = restored(core, card)
    if swapped:
        one, two = (card.content[place : place + ROW_BYTES] for place in (first, last))
        card.content[first : first + ROW_BYTES], card.content[last : last + ROW_BYTES] = two, one
    else:
        card.content[first] ^= 1
    assert device.ok(STEP)["committed"] == "1"  # nothing has read them
    assert device.ask("get 1 0 4") == "err -7 check failed"
    assert start(core, card).ask("restore") == "err -7 check failed"


def put(device: Device, index: int, data: bytes, offset: int = 0) -> None:
    for at in range(0, len(data), 230):
        device.ok(f"put {index} {offset + at} {data[at : at + 230].hex()}")


def test_a_table_put_over_the_line_counts_with_the_next_commit(core: c.CDLL) -> None:
    card = BlockCard(BLOCKS)
    card.content[:] = b"\xa5" * len(card.content)
    device = start(core, card)
    device.ok("format")
    device.ok(f"batches {BATCHES}")
    w, s = after(0)
    put(device, 1, w.tobytes()[:-4])
    put(device, 2, s.tobytes())
    for batch in range(BATCHES):
        put(device, 0, tokens(batch).tobytes(), batch * 4 * TOKENS)
    assert device.ask("commit 0").startswith("err -4 not all tensors")
    put(device, 1, w.tobytes()[-4:], W_BYTES - 4)
    device.ok("commit 0")
    wanted = image()
    homes = slice(fw.PAGE_AREA * fw.BLOCK, (fw.PAGE_AREA + LAYOUT.home_blocks) * fw.BLOCK)
    assert card.content[homes] == wanted[homes]
    assert card.content[RECORDS[0] * fw.BLOCK :][: fw.BLOCK] == wanted[RECORDS[0] * fw.BLOCK :][: fw.BLOCK]
    device.ok(STEP)
    put(device, 1, w.tobytes())  # where rows of both homes count
    assert tensor(device, 1, W_BYTES) == bits(1)[0]
    device.ok("commit 7")
    assert tensor(device, 1, W_BYTES) == w.tobytes()
    put(device, 1, b"\1\2\3\4", 600)  # half a version: forgotten
    device.ok("commit 8")
    assert tensor(start(core, card), 1, W_BYTES) == w.tobytes()


@pytest.mark.parametrize(
    ("kept", "nodes"),
    [
        ([KEPT[0], (W_BYTES, fw.PARAMETER, 0), KEPT[2]], NODES),  # not by rows
        ([KEPT[0], (W_BYTES, fw.PARAMETER, 0, 3 * WORDS), KEPT[2]], NODES),  # by other rows
        ([KEPT[0], KEPT[1], (Y_BYTES, fw.STATE, 1, TOKENS)], NODES),  # by rows, for a store
        ([(4 * TOKENS, fw.INPUT, None, TOKENS), *KEPT[1:]], NODES),  # a batch
        (KEPT, [*NODES[:3], (fw.SGD_UPDATE, [WORDS * WIDTH, 128, *fw.PLAIN], [W, W], [W], 1024), *NODES[4:]]),
    ],
)
def test_rows_that_an_operator_does_not_expect_are_refused(
    core: c.CDLL, kept: list[tuple[int, int, int | None]], nodes: list[object]
) -> None:
    def status(net: fw.Net) -> int:
        ram = fenced(c.c_uint64, 1 << 13)
        parts = (fw.Runner(), net.model, net.schedule, net.tables, ram)
        return int(core.poet_runner_init(*(c.byref(part) for part in parts), c.sizeof(ram)))

    assert status(training_net()) == fw.OK
    assert status(training_net(kept=kept, nodes=nodes)) == fw.E_CORRUPT


def test_a_benchmark_updates_rows_in_the_page_area(core: c.CDLL) -> None:
    card = BlockCard(BLOCKS + 3 * ROW_BLOCKS * WORDS)
    card.content[: BLOCKS * fw.BLOCK] = image()
    before = bytes(card.content)
    device = start(core, card)
    answer = device.ok(f"bench {fw.STREAMED_EMBEDDING_UPDATE} 3 {TOKENS} {WORDS} {WIDTH}")
    assert (answer["repeats"], answer["bytes"]) == ("3", str(W_BYTES))

    drawn = pseudo_random(0x2545F491)
    gy = floats(drawn, TOKENS * WIDTH).reshape(TOKENS, WIDTH)
    at = [next(drawn) % WORDS for _ in range(TOKENS)]
    drawn = pseudo_random(0x9E3779B9)
    w = {token: np.abs(floats(drawn, ROW_BLOCKS * fw.BLOCK // 4)[:WIDTH]) for token in at}
    pages = fw.PAGE_AREA + LAYOUT.batch_block + BATCHES * LAYOUT.batch_blocks
    checksum = 0
    for token in dict.fromkeys(at):
        gradient = np.zeros(WIDTH, np.float32)
        for place in range(TOKENS):
            gradient = gradient + gy[place] if at[place] == token else gradient
        row = (w[token] - np.float32(2**-10) * gradient).tobytes()
        checksum = zlib.crc32(row, checksum)
        place = (pages + ROW_BLOCKS * (WORDS + token)) * fw.BLOCK
        assert card.content[place : place + ROW_BYTES] == row
    assert answer["checksum"] == f"{checksum:08x}"
    assert card.content[: pages * fw.BLOCK] == before[: pages * fw.BLOCK]


def pseudo_random(state: int) -> Iterator[int]:
    """What the firmware fills operands with: xorshift."""
    while True:
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        yield state


def floats(drawn: Iterator[int], count: int) -> Floats:
    return np.array([(next(drawn) >> 8) * 2**-23 - 1 for _ in range(count)], np.float32)
