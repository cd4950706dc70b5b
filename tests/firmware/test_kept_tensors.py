# SPDX-License-Identifier: Apache-2.0
"""Training with tensors on the card: every step counts wholly or not at all, whatever the card does."""

from __future__ import annotations

import ctypes as c
import struct
import zlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from poet_profiles.protocol.f32 import f32_bits

from tests.support.firmware import core as fw
from tests.support.firmware.cut_card import TEARS, BlockCard
from tests.support.firmware.device import Device, boot
from tests.support.firmware.fenced import fenced

SIZE = 300
BYTES = 4 * SIZE
TILE = 70  # elements: 280 bytes, so that tiles end in the middle of blocks
RATE = np.float32(0.05)
RATE_BITS = f32_bits(RATE)
BATCHES = 2
STEPS = 3
RECORDS = (16, 1032)
EMPTY = b"POET EMPTY\n".ljust(fw.BLOCK, b"\0")
Floats = NDArray[np.float32]

# Values: 0 w, 1 x, 2 relu(x), 3 w's gradient relu(x) + w, 4 c, 5 the residents' gradient (w's + c).
# Residents 6: a parameter r. Kept tensors: 7 x (batches), 8 w (unit 0), 9 c (a constant), 10 s (unit 1).
W, S, X, C = 8, 10, 7, 9
KEPT = [(BYTES, fw.INPUT, None), (BYTES, fw.PARAMETER, 0), (BYTES, fw.CONSTANT, None), (BYTES, fw.STATE, 1)]
NODES = [
    (fw.FETCH, [SIZE], [W], [0], 0),
    (fw.FETCH, [SIZE], [X], [1], 0),
    (fw.RELU, [SIZE], [1], [2], 0),
    (fw.ADD, [SIZE], [2, 0], [3], BYTES),
    (fw.FETCH, [SIZE], [C], [4], 0),
    (fw.ADD, [SIZE], [3, 4], [5], BYTES),
    (fw.SGD_UPDATE, [SIZE, TILE, *fw.PLAIN], [3, 0], [W], 512 + 4 * TILE),
    (fw.STORE, [SIZE], [2], [S], 0),
    (fw.SGD, [SIZE], [5, 6], [6], 0),
    (fw.COMMIT, [1], [], [], 0),
]
RESIDENTS = [(0, BYTES, fw.PARAMETER)]
SCHEDULE: list[tuple[int, int, object]] = [
    (fw.COMPUTE, 0, [0]),
    (fw.COMPUTE, 1, [BYTES]),
    (fw.COMPUTE, 2, [2 * BYTES]),
    (fw.FREE, 1, 0),
    (fw.PAGE_OUT, 2, 0),
    (fw.COMPUTE, 3, [BYTES, 3 * BYTES]),
    (fw.FREE, 2, 0),
    (fw.FREE, 0, 0),
    (fw.COMPUTE, 0, [0]),  # fetched again, which is a recomputation
    (fw.COMPUTE, 4, [3 * BYTES]),
    (fw.COMPUTE, 5, [2 * BYTES, 4 * BYTES]),
    (fw.FREE, 4, 0),
    (fw.PAGE_IN, 2, 4 * BYTES),
    (fw.COMPUTE, 6, [3 * BYTES]),
    (fw.COMPUTE, 7, []),
    (fw.FREE, 2, 0),
    (fw.COMPUTE, 8, []),
    (fw.COMPUTE, 9, []),
    (fw.FREE, 0, 0),
]


def training_net(steps: list[tuple[int, int, object]] | None = None, **changes: object) -> fw.Net:
    values = [(BYTES, 0 if value == 2 else None) for value in range(6)]
    parts = {"nodes": NODES, "values": values, "residents": RESIDENTS, "kept": KEPT} | changes
    return fw.Net(**parts, steps=SCHEDULE if steps is None else steps, arena_bytes=6 * BYTES)  # type: ignore[arg-type]


NET = training_net()
CARD_BLOCKS = fw.PAGE_AREA + NET.layout.batch_block + BATCHES * NET.layout.batch_blocks + 8


def draw(seed: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(SIZE).astype(np.float32)


def expected_after(steps: int) -> dict[str, Floats]:
    """What the weights are by numpy: float32, in the order of the operators."""
    w, r, s = draw(1), draw(2), draw(3)
    for step in range(steps):
        s = np.maximum(draw(10 + step % BATCHES), 0)
        gradient = s + w
        r = r - RATE * (gradient + draw(4))
        w = w - RATE * gradient
    return {"w": w, "r": r, "s": s}


def record(sequence: int, step: int, second: int, tensors: dict[str, Floats], net: fw.Net | None = None) -> bytes:
    bits = (net or NET).layout.bits
    checks = [tensors[name].tobytes() for name in "wsr"] + [draw(4).tobytes()]
    head = b"POET RECORD 2\n\0\0" + struct.pack(
        "<IIQIIIII", sequence, 52 + 4 * 5, NET.model.graph_hash, step, BATCHES, bits, 4, second
    )
    body = head + b"".join(struct.pack("<I", zlib.crc32(check)) for check in checks)
    return (body + struct.pack("<I", zlib.crc32(body))).ljust(fw.BLOCK, b"\0")


def image(net: fw.Net | None = None) -> bytes:
    """A prepared card, laid out after docs/SPEC.md alone."""
    layout = (net or NET).layout
    content = bytearray((CARD_BLOCKS + layout.batch_block - NET.layout.batch_block) * fw.BLOCK)
    first = expected_after(0)

    def write(block: int, data: bytes) -> None:
        content[block * fw.BLOCK : block * fw.BLOCK + len(data)] = data

    write(0, b"POET CARD 1\n")
    write(fw.PAGE_AREA + layout.rows[W - 7][1], first["w"].tobytes())
    write(fw.PAGE_AREA + layout.rows[S - 7][1], first["s"].tobytes())
    write(fw.PAGE_AREA + layout.resident_block, first["r"].tobytes())
    write(fw.PAGE_AREA + layout.rows[C - 7][1], draw(4).tobytes())
    for batch in range(BATCHES):
        write(
            fw.PAGE_AREA + layout.rows[X - 7][1] + batch * layout.batch_blocks,
            fw.checked(draw(10 + batch).tobytes(), batch),
        )
    write(RECORDS[0], record(1, 0, 0, first, net))
    return bytes(content)


def start(core: c.CDLL, card: fw.Card, net: fw.Net | None = None) -> Device:
    device = boot(core, net or training_net(), noise=True)
    device.insert(card)
    device.ok("hello")
    return device


def restored(core: c.CDLL, card: fw.Card, net: fw.Net | None = None) -> Device:
    device = start(core, card, net)
    device.ok("restore")
    return device


def blank(dma: bool = False) -> BlockCard:
    return BlockCard(CARD_BLOCKS, dma, half_block=48)


def prepared(dma: bool = False, net: fw.Net | None = None) -> BlockCard:
    content = image(net)
    card = BlockCard(len(content) // fw.BLOCK, dma, half_block=48)
    card.content[:] = content
    return card


def tensor(device: Device, index: int) -> Floats:
    data = "".join(device.ok(f"get {index} {offset} 200")["data"] for offset in range(0, BYTES, 200))
    return np.frombuffer(bytes.fromhex(data), np.float32)


def weights(device: Device) -> dict[str, bytes]:
    return {"w": tensor(device, 2).tobytes(), "r": tensor(device, 0).tobytes(), "s": tensor(device, 4).tobytes()}


def bits(tensors: dict[str, Floats]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in tensors.items()}


@pytest.mark.parametrize("trace", [0, 1])
@pytest.mark.parametrize("dma", [False, True])
def test_training_gives_the_bits_of_the_same_arithmetic(core: c.CDLL, dma: bool, trace: int) -> None:
    device = start(core, prepared(dma))
    assert device.ok("restore")["step"] == "0"
    for step in range(1, STEPS + 1):
        answer = device.ok(f"step {RATE_BITS} {trace}")
        assert answer["committed"] == str(step)
        assert (answer["page_ins"], answer["page_outs"]) == ("1", "1")
        assert weights(device) == bits(expected_after(step))
    device = start(core, device.keep[1])
    assert device.ok("restore")["step"] == str(STEPS)
    assert weights(device) == bits(expected_after(STEPS))


def test_the_bytes_on_the_card_are_those_of_the_spec(core: c.CDLL) -> None:
    card = prepared()
    before = bytes(card.content)
    device = restored(core, card)
    device.ok(f"step {RATE_BITS} 0")
    after, layout = expected_after(1), NET.layout
    assert card.content[RECORDS[1] * fw.BLOCK : (RECORDS[1] + 1) * fw.BLOCK] == record(2, 1, 0b111, after)
    homes = (fw.PAGE_AREA + layout.home_blocks) * fw.BLOCK
    written = b"".join(after[name].tobytes().ljust(fw.blocks_of(BYTES) * fw.BLOCK, b"\0") for name in "wsr")
    assert card.content[homes : homes + len(written)] == written
    pages = (fw.PAGE_AREA + layout.batch_block + BATCHES * layout.batch_blocks) * fw.BLOCK
    same = [
        slice(0, RECORDS[1] * fw.BLOCK),
        slice((RECORDS[1] + 1) * fw.BLOCK, homes),
        slice(homes + len(written), pages),
    ]
    assert all(card.content[part] == before[part] for part in same)


def train(device: Device) -> int | None:
    return device.train(f"step {RATE_BITS} 0", STEPS)


@pytest.mark.parametrize("torn", TEARS)
def test_a_cut_at_any_block_write_loses_at_most_the_step_under_way(core: c.CDLL, torn: str) -> None:
    whole = prepared()
    device = start(core, whole)
    device.ok("restore")
    assert train(device) == STEPS
    a_step = 3 * fw.blocks_of(BYTES) + 1 + fw.blocks_of(BYTES)  # three units, the record, a page
    assert whole.writes == STEPS * a_step
    expected = {step: bits(expected_after(step)) for step in range(STEPS + 1)}
    for cut in range(whole.writes):
        card = prepared(dma=cut % 2 == 1)
        device = restored(core, card)
        card.cut, card.torn = cut, torn
        committed = train(device) or 0
        assert card.dead and committed == cut // a_step
        card.dead, card.cut = False, None

        device = start(core, card)
        resumed = int(device.ok("restore")["step"])
        assert resumed - committed in ((0, 1) if torn == "written, but not reported" else (0,)), cut
        assert weights(device) == expected[resumed], cut
        assert resumed == STEPS or train(device) == STEPS
        assert weights(device) == expected[STEPS], cut


EACH, LONG = 3, 7


@pytest.mark.parametrize("torn", TEARS)
def test_of_commits_in_each_third_step_a_cut_loses_none(core: c.CDLL, torn: str) -> None:
    """The state is that of the last one, bit by bit, whatever was done since."""
    net = training_net(commit_each=EACH)
    expected = {step: bits(expected_after(step)) for step in range(LONG + 1)}
    whole = prepared(net=net)
    device = restored(core, whole, net)
    for step in range(1, LONG + 1):
        assert int(device.ok(f"step {RATE_BITS} 0")["committed"]) == step // EACH * EACH
        assert weights(device) == expected[step]
    for cut in range(0 if torn == "half written" else 7, whole.writes, 1 if torn == "half written" else 5):
        card = prepared(cut % 2 == 1, net)
        device = restored(core, card, net)
        card.cut, card.torn = cut, torn
        committed = 0
        while (answer := device.ask(f"step {RATE_BITS} 0")).startswith("ok"):
            committed = int(answer.split("committed=")[1])
        card.power_up()
        device = start(core, card, net)
        resumed = int(device.ok("restore")["step"])
        assert resumed - committed in ((0, EACH) if torn == "written, but not reported" else (0,)), cut
        assert weights(device) == expected[resumed], cut
        for _ in range(resumed, LONG):
            device.ok(f"step {RATE_BITS} 0")
        assert weights(device) == expected[LONG], cut


@pytest.mark.parametrize("fault", ["fail_reads", "fail_writes"])
def test_after_an_error_steps_go_on_from_the_last_commit(core: c.CDLL, fault: str) -> None:
    """Residents and tensors on the card are of one step, though there were two since."""
    net = training_net(commit_each=EACH)
    for transfer in range(5):
        device = restored(core, card := prepared(net=net), net)
        for _ in range(EACH + 1):
            device.ok(f"step {RATE_BITS} 0")
        setattr(card, fault, transfer)
        assert "err -5" in device.ask(f"step {RATE_BITS} 0")
        setattr(card, fault, None)
        assert device.ok(f"step {RATE_BITS} 0")["committed"] == str(EACH)
        assert weights(device) == bits(expected_after(EACH + 1))
        device.ok(f"commit {EACH + 1}")  # where a training ends
        assert restored(core, card, net).ok("restore")["step"] == str(EACH + 1)


def transfers(core: c.CDLL, dma: bool, fault: str) -> int:
    """How many of the transfers of the second step can fail."""
    card = prepared(dma)
    device = restored(core, card)
    device.ok(f"step {RATE_BITS} 0")
    setattr(card, fault, 10_000)
    device.ok(f"step {RATE_BITS} 0")
    return 10_000 - int(getattr(card, fault))


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("fault", ["fail_reads", "fail_writes"])
def test_an_error_at_any_transfer_leaves_the_committed_step_intact(core: c.CDLL, fault: str, dma: bool) -> None:
    count = transfers(core, dma, fault)
    assert count > 5
    for transfer in range(count):
        card = prepared(dma)
        device = restored(core, card)
        device.ok(f"step {RATE_BITS} 0")
        setattr(card, fault, transfer)
        assert "err -5" in device.ask(f"step {RATE_BITS} 0")
        setattr(card, fault, None)
        other = start(core, card)  # another start of the board sees the step before, or the one that was just sealed
        resumed = int(other.ok("restore")["step"])
        last = fault == "fail_reads" and transfer == count - 1  # the record was written and could not be read back
        assert resumed == 1 + last
        assert weights(other) == bits(expected_after(resumed))


@pytest.mark.parametrize("fault", ["fail_reads", "fail_writes"])
def test_after_an_error_the_step_can_be_asked_for_again(core: c.CDLL, fault: str) -> None:
    """Without a restart: residents that the failed step had changed are read back."""
    for transfer in range(transfers(core, False, fault)):
        card = prepared()
        device = restored(core, card)
        device.ok(f"step {RATE_BITS} 0")
        setattr(card, fault, transfer)
        assert "err -5" in device.ask(f"step {RATE_BITS} 0")
        setattr(card, fault, None)
        done = int(device.ok(f"step {RATE_BITS} 0")["committed"])
        assert done in (2, 3)
        assert weights(device) == bits(expected_after(done))


def damaged(index: int, byte: int, second: bool) -> int:
    layout = NET.layout
    return (fw.PAGE_AREA + layout.rows[index][1] + second * layout.home_blocks) * fw.BLOCK + byte


@pytest.mark.parametrize("unit", [1, 3])
def test_a_damaged_newest_version_gives_way_to_the_step_before(core: c.CDLL, unit: int) -> None:
    card = prepared()
    device = restored(core, card)
    device.ok(f"step {RATE_BITS} 0")
    card.content[damaged(unit, 700, second=True)] ^= 4
    device = start(core, card)
    assert device.ok("restore")["step"] == "0"
    assert weights(device) == bits(expected_after(0))
    assert train(device) == STEPS
    assert weights(device) == bits(expected_after(STEPS))
    sequence = struct.unpack_from("<I", card.content, RECORDS[0] * fw.BLOCK + 16)
    assert max(sequence, struct.unpack_from("<I", card.content, RECORDS[1] * fw.BLOCK + 16))[0] == 2 + STEPS


def test_a_damaged_tensor_is_never_used(core: c.CDLL) -> None:
    places = {"a weight": damaged(1, 700, second=False), "a constant": damaged(2, 700, second=False)}
    for what, place in places.items():
        card = prepared()
        device = restored(core, card)
        card.content[place] ^= 1
        assert "check failed" in device.ask(f"step {RATE_BITS} 0"), what
        card.content[place] ^= 1
        assert device.ok(f"step {RATE_BITS} 0")["committed"] == "1", what


def batch_place(batch: int) -> int:
    return (fw.PAGE_AREA + NET.layout.rows[X - 7][1] + batch * NET.layout.batch_blocks) * fw.BLOCK


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("byte", [0, 511, 512, BYTES - 1, BYTES, BYTES + 3])
def test_a_damaged_batch_is_never_used_and_named(core: c.CDLL, byte: int, dma: bool) -> None:
    """In its tensor or in its check; the card of a computer, and one prepared over the line."""
    for over_the_line in (False, True):
        card = prepared(dma)
        device = start(core, card)
        if over_the_line:
            prepare(device)
            device.ok("commit 0")
        device.ok("restore")
        device.ok(f"step {RATE_BITS} 0")
        card.content[batch_place(1) + byte] ^= 0x20
        for _ in range(2):
            assert device.ask(f"step {RATE_BITS} 0") == "err -7 batch 1 on the card is damaged"
        assert device.ask(f"get 1 {BYTES} 200") == "err -7 check failed"
        assert weights(device) == bits(expected_after(1))
        card.content[batch_place(1) + byte] ^= 0x20
        assert device.ok(f"step {RATE_BITS} 0")["committed"] == "2"
        assert weights(device) == bits(expected_after(2))


def test_a_batch_in_the_place_of_another_is_not_used(core: c.CDLL) -> None:
    card = prepared()
    size = NET.layout.batch_blocks * fw.BLOCK
    first, second = (slice(batch_place(batch), batch_place(batch) + size) for batch in range(2))
    card.content[first], card.content[second] = bytes(card.content[second]), bytes(card.content[first])
    device = restored(core, card)
    assert device.ask(f"step {RATE_BITS} 0") == "err -7 batch 0 on the card is damaged"


def test_a_batch_that_is_half_put_is_not_used(core: c.CDLL) -> None:
    device = start(core, prepared())
    device.ok("restore")
    put(device, 1, draw(11).tobytes()[:-4])
    assert device.ask(f"step {RATE_BITS} 0") == "err -7 batch 0 on the card is damaged"
    put(device, 1, draw(11).tobytes()[-4:], BYTES - 4)
    device.ok(f"step {RATE_BITS} 0")
    np.testing.assert_array_equal(tensor(device, 4), np.maximum(draw(11), 0))


def test_a_card_of_an_older_version_is_refused(core: c.CDLL) -> None:
    """Its batches have no checks, and lie elsewhere."""
    card = prepared()
    older = bytearray(card.content[RECORDS[0] * fw.BLOCK :][: fw.BLOCK])
    older[:16] = b"POET RECORD 1\n\0\0"
    size = struct.unpack_from("<I", older, 20)[0]
    struct.pack_into("<I", older, size - 4, zlib.crc32(older[: size - 4]))
    card.content[RECORDS[0] * fw.BLOCK : (RECORDS[0] + 1) * fw.BLOCK] = older
    before = bytes(card.content)
    device = start(core, card)
    for request in ("restore", f"batches {BATCHES}", "commit 0", f"step {RATE_BITS} 0"):
        assert device.ask(request).startswith("err -11 prepared by another version of poet, or "), request
    assert card.content == before


def test_both_versions_damaged(core: c.CDLL) -> None:
    card = prepared()
    device = restored(core, card)
    device.ok(f"step {RATE_BITS} 0")
    for second in (False, True):
        card.content[damaged(1, 100, second)] ^= 1
    assert start(core, card).ask("restore") == "err -7 check failed"


def put(device: Device, index: int, data: bytes, offset: int = 0) -> None:
    for at in range(0, len(data), 230):
        device.ok(f"put {index} {offset + at} {data[at : at + 230].hex()}")


def prepare(device: Device) -> None:
    device.ok("format")
    device.ok(f"batches {BATCHES}")
    for index, seed in ((0, 2), (2, 1), (3, 4), (4, 3)):
        put(device, index, draw(seed).tobytes())
    for batch in range(BATCHES):
        put(device, 1, draw(10 + batch).tobytes(), batch * BYTES)


def test_a_card_prepared_over_the_line_is_the_one_of_the_spec(core: c.CDLL) -> None:
    card = blank()
    card.content[:] = b"\xa5" * len(card.content)
    device = start(core, card)
    prepare(device)
    device.ok("commit 0")
    wanted = image()
    second = slice(
        (fw.PAGE_AREA + NET.layout.home_blocks) * fw.BLOCK, (fw.PAGE_AREA + 2 * NET.layout.home_blocks) * fw.BLOCK
    )
    end = (fw.PAGE_AREA + NET.layout.batch_block + BATCHES * NET.layout.batch_blocks) * fw.BLOCK
    assert (
        card.content[RECORDS[0] * fw.BLOCK : (RECORDS[0] + 1) * fw.BLOCK] == wanted[RECORDS[0] * fw.BLOCK :][: fw.BLOCK]
    )
    assert card.content[fw.PAGE_AREA * fw.BLOCK : second.start] == wanted[fw.PAGE_AREA * fw.BLOCK : second.start]
    assert card.content[second.stop : end] == wanted[second.stop : end]
    assert train(device) == STEPS
    assert weights(device) == bits(expected_after(STEPS))


def test_an_incomplete_first_record_is_refused(core: c.CDLL) -> None:
    device = start(core, blank())
    no_record = "err -9 no card, no label on it, or no record of this model"
    assert device.ask("put 2 0 00") == no_record
    assert device.ask(f"step {RATE_BITS} 0") == no_record
    device.ok(f"batches {BATCHES}")
    put(device, 2, draw(1).tobytes())
    assert device.ask("commit 0").startswith("err -4 not all tensors")
    put(device, 4, draw(3).tobytes()[:-4])
    assert device.ask("commit 0").startswith("err -4 not all tensors")
    put(device, 4, draw(3).tobytes()[-4:], BYTES - 4)
    assert device.ask("commit 0").startswith("err -4 not all tensors")
    put(device, 3, draw(4).tobytes())
    device.ok("commit 0")


def test_a_step_needs_the_residents_of_the_record(core: c.CDLL) -> None:
    device = start(core, prepared())
    assert device.ask(f"step {RATE_BITS} 0").startswith("err -4 restore or commit first")
    device.ok("restore")
    device.ok("bench 7 1 4")  # overwrites them; they are read back
    device.ok(f"step {RATE_BITS} 0")
    assert weights(device) == bits(expected_after(1))


def test_a_batch_put_before_each_step(core: c.CDLL) -> None:
    card = prepared()
    device = restored(core, card)
    put(device, 1, draw(10).tobytes(), BYTES)  # the second batch is now the first
    assert device.ok(f"step {RATE_BITS} 0")["committed"] == "1"
    assert device.ok(f"step {RATE_BITS} 0")["committed"] == "2"
    np.testing.assert_array_equal(tensor(device, 4), np.maximum(draw(10), 0))
    assert device.ask(f"put 1 {BATCHES * BYTES} 00").startswith("err -1")
    assert device.ask(f"put 1 {BYTES - 1} 0000").startswith("err -1")


def test_page_benchmarks_keep_away_from_what_is_kept(core: c.CDLL) -> None:
    card = prepared()
    device = start(core, card)
    before = bytes(card.content)
    device.ok("page out 512 3 sequential")
    device.ok(f"bench {fw.SGD_UPDATE} 2 200 70{6 * ' 0'}")
    pages = (fw.PAGE_AREA + NET.layout.batch_block + BATCHES * NET.layout.batch_blocks) * fw.BLOCK
    assert card.content[:pages] == before[:pages]
    assert card.content[pages:] != before[pages:]


def refused(core: c.CDLL, net: fw.Net) -> int:
    ram = fenced(c.c_uint64, 1 << 13)
    return int(
        core.poet_runner_init(
            *(c.byref(part) for part in (fw.Runner(), net.model, net.schedule, net.tables, ram)), c.sizeof(ram)
        )
    )


def without(*indices: int) -> list[tuple[int, int, object]]:
    return [step for place, step in enumerate(SCHEDULE) if place not in indices]


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        (SCHEDULE, fw.OK),
        (SCHEDULE[:-2], fw.E_ORDER),  # no commit
        ([*SCHEDULE, (fw.COMPUTE, 2, [0])], fw.E_ORDER),  # something after it
        ([*SCHEDULE, (fw.COMPUTE, 9, [])], fw.E_ORDER),
        ([*without(13), *SCHEDULE[13:14], (fw.COMPUTE, 9, [])], fw.E_ORDER),  # an update after a changed resident
        ([*SCHEDULE[:17], (fw.COMPUTE, 1, [0]), *SCHEDULE[17:]], fw.OK),  # a fetch there: the record has what was
    ],
)
def test_schedules_that_break_the_order_are_refused(
    core: c.CDLL, steps: list[tuple[int, int, object]], status: int
) -> None:
    assert refused(core, training_net(steps)) == status


def test_a_second_next_version_in_one_step_is_refused(core: c.CDLL) -> None:
    twice = training_net([*SCHEDULE[:14], SCHEDULE[13], *SCHEDULE[14:]])
    device = start(core, prepared(), twice)
    device.ok("restore")
    assert device.ask(f"step {RATE_BITS} 0").startswith(f"err -4 call {calls_before(14)}:")


def calls_before(step: int) -> int:
    """Frees, and what only orders, are no calls."""
    return sum(
        action != fw.FREE and not (action == fw.COMPUTE and NODES[index][0] == 0)
        for action, index, _ in SCHEDULE[:step]
    )


@pytest.mark.parametrize("left_out", [13, 14])
def test_a_step_that_leaves_a_tensor_as_it_was_does_not_count(core: c.CDLL, left_out: int) -> None:
    device = start(core, prepared(), training_net(without(left_out)))
    device.ok("restore")
    assert device.ask(f"step {RATE_BITS} 0").startswith(f"err -4 call {calls_before(17) - 1}:")
    assert start(core, device.keep[1]).ok("restore")["step"] == "0"


def broken() -> Iterator[tuple[str, fw.Net]]:
    yield ("a kept tensor for a value", training_net(nodes=[*NODES[:2], (fw.RELU, [SIZE], [X], [2], 0), *NODES[3:]]))
    yield "a value where a kept tensor belongs", training_net(nodes=[(fw.FETCH, [SIZE], [1], [0], 0), *NODES[1:]])
    yield "another size", training_net(nodes=[(fw.FETCH, [SIZE - 1], [W], [0], 0), *NODES[1:]])
    yield "one home cannot be written", training_net(nodes=[*NODES[:7], (fw.STORE, [SIZE], [2], [C], 0), *NODES[8:]])
    yield "no such tensor", training_net(nodes=[(fw.FETCH, [SIZE], [11], [0], 0), *NODES[1:]])
    for field in ("unit_count", "check_count", "bit_count", "home_blocks", "batch_block", "batch_blocks"):
        net = training_net()
        setattr(net.model, field, getattr(net.model, field) + 1)
        yield field, net
    for field in ("bytes", "block", "rows", "check"):
        for place in range(4):
            net = training_net()
            tensor_ = net.model.kept[place]
            setattr(tensor_, field, getattr(tensor_, field) ^ {"bytes": fw.BLOCK, "rows": 3}.get(field, 1))
            yield f"{field} of {place}", net
    for place in (1, 3):
        net = training_net()
        net.model.kept[place].bit ^= 1
        yield f"bit of {place}", net


def test_damaged_tables_are_refused(core: c.CDLL) -> None:
    for what, net in broken():
        assert refused(core, net) == fw.E_CORRUPT, what


def plain_net() -> fw.Net:
    """A parameter in RAM, and a value that is paged."""
    return fw.Net(
        nodes=[(fw.RELU, [SIZE], [1], [0], 0)],
        values=[(BYTES, 0)],
        residents=[(0, BYTES, fw.PARAMETER)],
        steps=[(fw.COMPUTE, 0, [0]), (fw.PAGE_OUT, 0, 0)],
        arena_bytes=BYTES,
    )


def net_of_another_graph() -> fw.Net:
    net = training_net()
    net.model.graph_hash = net.schedule.graph_hash = 0x1234
    return net


WRITING = ["page out 512 1 sequential", f"bench {fw.SGD_UPDATE} 1 200 70{6 * ' 0'}"]


@pytest.mark.parametrize(
    ("make", "requests"),
    [
        (lambda: None, WRITING),
        (plain_net, [*WRITING, f"step {RATE_BITS} 0", "commit 1", "restore"]),
        (net_of_another_graph, [*WRITING, f"step {RATE_BITS} 0", "batches 2", "put 2 0 00", "commit 1", "restore"]),
    ],
)
@pytest.mark.parametrize("place", RECORDS)
def test_the_tensors_of_another_model_are_not_overwritten(
    core: c.CDLL, make: Callable[[], fw.Net | None], requests: list[str], place: int
) -> None:
    card = prepared()
    first, here = (slice(block * fw.BLOCK, (block + 1) * fw.BLOCK) for block in (RECORDS[0], place))
    content, card.content[first] = bytes(card.content[first]), bytes(fw.BLOCK)
    card.content[here] = content
    before = bytes(card.content)
    device = boot(core, make())
    device.insert(card)
    device.ok("hello")
    for request in requests:
        assert device.ask(request).startswith("err -11 "), request
        assert device.ask(request).endswith("card holds the tensors of another model"), request
    assert card.content == before
    device.ok("format")
    assert card.content[here] == EMPTY
    device.ok(WRITING[0])


@pytest.mark.parametrize("commits", [1, 2])
def test_the_commits_of_a_model_without_kept_tensors_are_not_overwritten(core: c.CDLL, commits: int) -> None:
    """Records would stand where its slots are, and homes of tensors where it has pages."""
    card = blank()
    device = boot(core, plain_net())
    device.insert(card)
    device.ok("hello")
    device.ok(f"put 0 0 {bytes(8).hex()}")
    for step in range(commits):
        device.ok(f"commit {step}")
    if commits == 2:
        card.content[RECORDS[0] * fw.BLOCK] ^= 1  # the other one is enough
    before = bytes(card.content)
    device = start(core, card)
    for request in ("restore", "batches 2", "put 2 0 00", "commit 0", f"step {RATE_BITS} 0", *WRITING):
        answer = device.ask(request)
        assert answer.startswith("err -11 "), request
        assert answer.endswith("card holds the tensors of another model"), request
    assert card.content == before
    device.ok("format")
    prepare(device)


def test_formatting_ends_what_the_record_names(core: c.CDLL) -> None:
    card = prepared()
    device = restored(core, card)
    device.ok(f"step {RATE_BITS} 0")
    device.ok("format")
    assert all(card.content[place * fw.BLOCK : (place + 1) * fw.BLOCK] == EMPTY for place in RECORDS)
    assert device.ask("restore").startswith("err -9")
    assert start(core, card).ask("restore").startswith("err -9")
