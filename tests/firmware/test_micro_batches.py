# SPDX-License-Identifier: Apache-2.0
"""A training step in micro-batches on the core: sums and weights bit for bit, and whatever may end one of its runs."""

from __future__ import annotations

import binascii
import ctypes as c
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray
from poet_profiles.protocol.f32 import f32_bits

from tests.support.firmware import core as fw
from tests.support.firmware.cut_card import TEARS, CutCard
from tests.support.firmware.device import Device, boot
from tests.support.firmware.fenced import fenced

Array = NDArray[np.float32]
Steps = list[tuple[int, int, object]]

SIZE = 160
MINUS_ZERO = 5  # here every gradient is -0, whose sign +0 would take
BYTES = 4 * SIZE
RATE = np.float32(0.5)
# Values: 0 twice x, 1 the gradient x + x + w, 2 what the generator is, 3 the loss of the part.
# Residents: 4 x, 5 sum of the gradient, 6 w, 7 generator, 8 sum of what was drawn, 9 sum of the loss.
RESIDENTS = [
    (0, BYTES, fw.INPUT),
    (BYTES, BYTES, fw.GRADIENT),
    (2 * BYTES, BYTES, fw.PARAMETER),
    (3 * BYTES, 8, fw.STATE),
    (3 * BYTES + 8, 8, fw.GRADIENT),
    (3 * BYTES + 16, 4, fw.LOSS),
]
END = 3 * BYTES + 20
NODES = [
    *((fw.ADD, [SIZE], [4, 4], [0], BYTES), (fw.ADD, [SIZE], [0, 6], [1], BYTES)),
    *((fw.ADD, [SIZE], [1, 5], [5], BYTES), (fw.RELU, [2], [7], [2], 0), (fw.ADD, [2], [2, 8], [8], 8)),
    *((fw.RELU, [1], [4], [3], 0), (fw.ADD, [1], [3, 9], [9], 4), (0, [], [], [], 0)),
    *((fw.SGD, [SIZE], [5, 6], [6], 0), (fw.ADVANCE, [1], [7], [7], 0)),
]
VALUES = [(BYTES, 0), (BYTES, 2), (8, None), (4, None)]
SMALL = [
    *(
        (fw.COMPUTE, 3, [0]),
        (fw.COMPUTE, 4, [8]),
        (fw.FREE, 2, 0),
        (fw.COMPUTE, 5, [0]),
        (fw.COMPUTE, 6, [8]),
        (fw.FREE, 3, 0),
    ),
    *((fw.COMPUTE, 7, []), (fw.COMPUTE, 8, []), (fw.COMPUTE, 9, [])),
]
PLAIN: Steps = [
    *(
        (fw.COMPUTE, 0, [0, BYTES]),
        (fw.COMPUTE, 1, [BYTES, 2 * BYTES]),
        (fw.FREE, 0, 0),
        (fw.COMPUTE, 2, [0]),
        (fw.FREE, 1, 0),
    ),
    *SMALL,
]
# Value 0 waits on the card, and value 1 is made again.
PAGED: Steps = [
    *(
        (fw.COMPUTE, 0, [0, BYTES]),
        (fw.PAGE_OUT, 0, 0),
        (fw.COMPUTE, 1, [BYTES, 2 * BYTES]),
        (fw.FREE, 0, 0),
        (fw.FREE, 1, 0),
    ),
    *(
        (fw.PAGE_IN, 0, 2 * BYTES),
        (fw.COMPUTE, 1, [0, BYTES]),
        (fw.FREE, 0, 0),
        (fw.COMPUTE, 2, [2 * BYTES]),
        (fw.FREE, 1, 0),
    ),
    *SMALL,
]
CALLS = [step for step in PAGED if step[0] != fw.FREE and step != (fw.COMPUTE, 7, [])]  # 7 only orders
ARENA = 3 * BYTES
SCHEDULES = pytest.mark.parametrize("steps", [PLAIN, PAGED], ids=["plain", "paged"])

PARAMETERS = np.random.default_rng(3).standard_normal(SIZE).astype(np.float32)
PARAMETERS[MINUS_ZERO] = -0.0
GENERATOR = np.array([7, 0], np.uint32)
INITIAL = PARAMETERS.tobytes() + GENERATOR.tobytes()


def net(micro_batches: int, steps: Steps = PAGED, **changes: object) -> fw.Net:
    options = {"nodes": NODES, "values": VALUES, "residents": RESIDENTS} | changes
    return fw.Net(**options, steps=steps, arena_bytes=ARENA, micro_batches=micro_batches)  # type: ignore[arg-type]


def part_of(step: int, part: int) -> Array:
    x = np.random.default_rng([4, step, part]).standard_normal(SIZE).astype(np.float32)
    x[MINUS_ZERO] = -0.0
    return x


@dataclass
class Expected:
    """What is in the RAM after a whole batch, by numpy alone."""

    weights: Array = field(default_factory=lambda: PARAMETERS)
    sums: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    loss: float = 0.0
    drawn: int = 0
    advanced: int = 0

    def after(self, step: int, count: int) -> Expected:
        parts = [part_of(step, part) for part in range(count)]
        gradients = [(x + x) + self.weights for x in parts]
        losses = [np.maximum(x[0], np.float32(0)) for x in parts]
        sums, loss = gradients[0], losses[0]
        for more, of_part in zip(gradients[1:], losses[1:], strict=True):
            sums, loss = sums + more, loss + of_part
        drawn = sum(self.advanced + part for part in range(count))
        return Expected(self.weights - RATE * sums, sums, loss, drawn, self.advanced + count)


@dataclass
class Board:
    """A network in RAM that is noise, with an inference beside it, as an application has it."""

    core: c.CDLL
    net: fw.Net
    card: fw.Card | None = field(default_factory=lambda: fw.Card(fw.PAGE_AREA + 64))

    def __post_init__(self) -> None:
        self.net.infer_by(beside())
        self._initial = c.create_string_buffer(INITIAL, len(INITIAL))
        self.network = fw.Network(
            c.pointer(self.net.plan), c.pointer(self.net.inference.plan), c.pointer(self.net.tables),
            c.addressof(self._initial), len(INITIAL), binascii.crc32(INITIAL), 1, END + 2 * BYTES + ARENA,
        )  # fmt: skip
        self.poet = fw.Poet()
        self.ram = fenced(c.c_uint32, self.network.ram_bytes // 4)
        for name in ("poet_input", "poet_tensor", "poet_infer_input", "poet_output"):
            getattr(self.core, name).restype = c.c_void_p
        self.core.poet_loss.restype = c.c_float

    def begin(self, hooks: fw.Hooks | None = None) -> int:
        c.memset(self.ram, 0xC9, self.network.ram_bytes)
        device = c.byref(self.card.device) if self.card is not None else None
        ram = (self.ram, self.network.ram_bytes)
        chosen = c.byref(hooks) if hooks else None
        return self.core.poet_begin(c.byref(self.poet), c.byref(self.network), *ram, device, chosen)

    def call(self, name: str) -> int:
        return getattr(self.core, name)(c.byref(self.poet))

    def train(self, step: int, part: int, name: str = "poet_train") -> int:
        c.memmove(self.core.poet_input(c.byref(self.poet), 0), part_of(step, part).tobytes(), BYTES)
        return getattr(self.core, name)(c.byref(self.poet), c.c_float(RATE))

    def batch(self, step: int, count: int) -> list[int]:
        return [self.train(step, part) for part in range(count)]

    def tensor(self, number: int, kind: type = c.c_float, count: int = SIZE) -> NDArray[np.generic]:
        return np.array((kind * count).from_address(self.core.poet_tensor(c.byref(self.poet), number)))

    def assert_state(self, expected: Expected) -> None:
        """Weights and states are those after the last whole batch."""
        assert self.tensor(2).tobytes() == expected.weights.tobytes()
        assert self.tensor(3, c.c_uint32, 2).tolist() == [7, expected.advanced]

    def assert_batch(self, expected: Expected) -> None:
        self.assert_state(expected)
        assert self.tensor(1).tobytes() == expected.sums.tobytes()
        assert self.tensor(4, c.c_uint32, 2)[1] == expected.drawn  # f32 so small are added exactly, like whole numbers
        assert self.core.poet_loss(c.byref(self.poet)) == expected.loss


def beside(**changes: object) -> fw.Net:
    """An inference: w + the sample."""
    residents = [*RESIDENTS, (END, BYTES, fw.INPUT), (END + BYTES, BYTES, fw.OUTPUT)]
    nodes = [(fw.ADD, [SIZE], [6, 10], [11], BYTES)]
    given = {"nodes": nodes, "values": VALUES, "residents": residents, "steps": [(fw.COMPUTE, 0, [0])], "graph_hash": 7}
    return fw.Net(**given | changes, arena_bytes=ARENA)  # type: ignore[arg-type]


def stopping_at(board_step: int) -> fw.Hooks:
    """Says stop when it is asked for that time, counted from 0."""
    asked = iter(range(1 << 20))
    return fw.Hooks(between=fw.BETWEEN(lambda *_: next(asked) != board_step))


@pytest.mark.parametrize("dma", [False, True])
@SCHEDULES
@pytest.mark.parametrize("count", [2, 3, 5])
def test_sums_and_weights_are_those_of_the_parts_added_in_order(
    core: c.CDLL, count: int, steps: Steps, dma: bool
) -> None:
    board = Board(core, net(count, steps), fw.Card(fw.PAGE_AREA + 64, dma))
    assert board.begin() == fw.OK
    expected = Expected()
    for step in range(3):
        for part in range(count - 1):
            assert board.train(step, part) == fw.GATHERED
            assert board.call("poet_gathered") == part + 1
            board.assert_state(expected)
        assert board.train(step, count - 1) == fw.OK
        expected = expected.after(step, count)
        board.assert_batch(expected)
        assert (board.call("poet_gathered"), board.call("poet_steps")) == (0, step + 1)
    assert np.signbit(board.tensor(1)[MINUS_ZERO]) == np.signbit(expected.sums[MINUS_ZERO])


def test_a_sum_of_minus_zeros_is_one(core: c.CDLL) -> None:
    board = Board(core, net(2))
    assert (board.begin(), board.batch(0, 2)) == (fw.OK, [fw.GATHERED, fw.OK])
    assert board.tensor(1)[MINUS_ZERO] == 0 and np.signbit(board.tensor(1)[MINUS_ZERO])


def test_piece_by_piece(core: c.CDLL) -> None:
    board = Board(core, net(2))
    assert board.begin() == fw.OK
    for part, status in enumerate((fw.GATHERED, fw.OK)):
        assert board.train(0, part, "poet_train_begin") == fw.MORE
        for _ in CALLS[1:]:
            assert board.call("poet_next") == fw.MORE
            assert board.call("poet_settle") == fw.OK
        assert board.call("poet_next") == status
        assert board.call("poet_next") == fw.E_ORDER
    board.assert_batch(Expected().after(0, 2))


@pytest.mark.parametrize("input_at", [END, 0], ids=["own", "shared"])
def test_an_inference_between_two_parts_leaves_the_sums_alone(core: c.CDLL, input_at: int) -> None:
    board = Board(core, net(3))
    board.net.infer_by(beside(residents=[*RESIDENTS, (input_at, BYTES, fw.INPUT), (END + BYTES, BYTES, fw.OUTPUT)]))
    board.network.infer = c.pointer(board.net.inference.plan)
    assert board.begin() == fw.OK
    sample = part_of(9, 9)
    for part in range(3):
        board.train(0, part)
        weights = board.tensor(2)
        c.memmove(core.poet_infer_input(c.byref(board.poet)), sample.tobytes(), BYTES)
        assert board.call("poet_infer") == fw.OK
        found = np.array((c.c_float * SIZE).from_address(core.poet_output(c.byref(board.poet))))
        np.testing.assert_array_equal(found, weights + sample)
    board.assert_batch(Expected().after(0, 3))


def test_an_inference_in_the_gradients_place_runs_between_batches_alone(core: c.CDLL) -> None:
    board = Board(core, net(3))
    board.net.infer_by(beside(residents=[*RESIDENTS, (END, BYTES, fw.INPUT), (BYTES, BYTES, fw.OUTPUT)]))
    board.network.infer = c.pointer(board.net.inference.plan)
    assert board.begin() == fw.OK
    expected = Expected()
    for step in range(2):
        c.memmove(core.poet_infer_input(c.byref(board.poet)), part_of(9, 9).tobytes(), BYTES)
        assert board.call("poet_infer") == fw.OK
        found = np.array((c.c_float * SIZE).from_address(core.poet_output(c.byref(board.poet))))
        np.testing.assert_array_equal(found, board.tensor(2) + part_of(9, 9))
        for part in range(3):
            board.train(step, part)
            if part < 2:
                assert board.call("poet_infer") == fw.E_ORDER
                assert core.poet_infer_input(c.byref(board.poet)) is None
                assert core.poet_output(c.byref(board.poet)) is None
        expected = expected.after(step, 3)
        board.assert_batch(expected)


@pytest.mark.parametrize("part", range(3))
def test_a_stop_at_any_call_of_any_part(core: c.CDLL, part: int) -> None:
    first_change = CALLS.index((fw.COMPUTE, 8, [])) + 1
    for asked in range(len(CALLS) - 1):
        board = Board(core, net(3))
        hooks = stopping_at(part * (len(CALLS) - 1) + asked)
        assert board.begin(hooks) == fw.OK
        assert board.batch(0, part) == [fw.GATHERED] * part
        expected = Expected()
        if part == 2 and asked + 1 >= first_change:
            assert board.train(0, part) == fw.OK
        else:
            assert board.train(0, part) == fw.STOPPED
            board.assert_state(expected)
            assert board.call("poet_gathered") == 0
            assert board.batch(0, 3) == [fw.GATHERED, fw.GATHERED, fw.OK]
        board.assert_batch(expected.after(0, 3))


def test_a_batch_can_be_given_up_between_two_parts(core: c.CDLL) -> None:
    board = Board(core, net(3))
    assert board.begin() == fw.OK
    assert board.call("poet_stop") == fw.E_ORDER
    assert board.batch(0, 2) == [fw.GATHERED, fw.GATHERED]
    assert board.call("poet_stop") == fw.STOPPED
    assert board.call("poet_stop") == fw.E_ORDER
    assert board.batch(0, 3) == [fw.GATHERED, fw.GATHERED, fw.OK]
    board.assert_batch(Expected().after(0, 3))


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("failing", ["fail_reads", "fail_writes"])
def test_an_error_of_the_card_in_any_part(core: c.CDLL, failing: str, part: int, dma: bool) -> None:
    card = fw.Card(fw.PAGE_AREA + 64, dma)
    board = Board(core, net(3), card)
    assert board.begin() == fw.OK
    assert board.batch(0, part) == [fw.GATHERED] * part
    setattr(card, failing, 0)
    assert board.train(0, part) == fw.E_IO
    board.assert_state(Expected())
    assert board.call("poet_gathered") == 0
    setattr(card, failing, None)
    assert board.batch(0, 3) == [fw.GATHERED, fw.GATHERED, fw.OK]
    board.assert_batch(Expected().after(0, 3))


@pytest.mark.parametrize("part", range(3))
def test_a_damaged_sample_ends_its_own_part(core: c.CDLL, part: int) -> None:
    board = Board(core, net(3))
    assert board.begin() == fw.OK
    board.batch(0, part)
    sample = part_of(0, part)
    sample[0] = np.inf
    c.memmove(core.poet_input(c.byref(board.poet), 0), sample.tobytes(), BYTES)
    assert core.poet_train(c.byref(board.poet), c.c_float(RATE)) == fw.E_NOT_FINITE
    board.assert_state(Expected())
    assert board.batch(0, 3) == [fw.GATHERED, fw.GATHERED, fw.OK]
    board.assert_batch(Expected().after(0, 3))


def test_a_commit_between_two_parts_is_that_of_the_last_batch(core: c.CDLL) -> None:
    board = Board(core, net(3))
    assert board.begin() == fw.OK
    board.batch(0, 3)
    assert board.batch(1, 2) == [fw.GATHERED, fw.GATHERED]
    assert board.call("poet_commit") == fw.OK
    assert board.train(1, 2) == fw.OK  # and loses no sum
    board.assert_batch(Expected().after(0, 3).after(1, 3))
    board.batch(2, 1)
    assert board.call("poet_restore") == fw.OK
    assert (board.call("poet_gathered"), board.call("poet_steps")) == (0, 1)
    board.assert_state(Expected().after(0, 3))
    board.batch(1, 3)
    board.assert_batch(Expected().after(0, 3).after(1, 3))


# --- over the protocol ---

RATE_BITS = f32_bits(float(RATE))


def put(device: Device, index: int, data: bytes) -> bool:
    lines = (f"put {index} {offset} {data[offset : offset + 200].hex()}" for offset in range(0, len(data), 200))
    return all(device.ask(line).startswith("ok") for line in lines)


def start(core: c.CDLL, card: fw.Card, micro_batches: int = 3) -> Device:
    device = boot(core, net(micro_batches), noise=True)
    device.insert(card)
    device.ok("hello")
    return device


def initialise(device: Device) -> None:
    assert put(device, 2, PARAMETERS.tobytes()) and put(device, 3, GENERATOR.tobytes())
    device.ok("commit 0")


def state(device: Device) -> bytes:
    rows = [(2, offset, 160) for offset in range(0, BYTES, 160)] + [(3, 0, 8)]
    return bytes.fromhex("".join(device.ok(f"get {i} {offset} {count}")["data"] for i, offset, count in rows))


def bytes_of(expected: Expected) -> bytes:
    return expected.weights.tobytes() + np.array([7, expected.advanced], np.uint32).tobytes()


def step(device: Device, number: int, part: int) -> str:
    put(device, 0, part_of(number, part).tobytes())
    return device.ask(f"step {RATE_BITS} 0 {part}")


def test_parts_come_in_their_order(core: c.CDLL) -> None:
    device = start(core, fw.Card(fw.PAGE_AREA + 64))
    initialise(device)
    assert device.ask(f"step {RATE_BITS} 0").startswith("err -1 expected: step")
    assert step(device, 0, 1) == "err -4 another micro-batch follows; begin the batch anew with 0"
    assert step(device, 0, 0).endswith("gathered=1")
    for part in (2, 3):
        assert step(device, 0, part).startswith("err -4")
    assert step(device, 0, 1).endswith("gathered=2")
    assert step(device, 0, 0).endswith("gathered=1")  # anew
    assert step(device, 0, 1).endswith("gathered=2")
    last = step(device, 0, 2)
    expected = Expected().after(0, 3)
    assert last.endswith("gathered=0")
    assert f"loss={f32_bits(float(expected.loss))} " in last
    assert state(device) == bytes_of(expected)
    assert device.ask("step 3d4ccccd 0 1").startswith("err -4")


@pytest.mark.parametrize("request_", ["bench 7 1 4", "page in 512 1 sequential", "restore"])
def test_what_uses_the_memory_otherwise_ends_the_batch(core: c.CDLL, request_: str) -> None:
    device = start(core, fw.Card(fw.PAGE_AREA + 64))
    initialise(device)
    step(device, 0, 0)
    device.ok(request_)
    assert step(device, 0, 1).startswith("err -4")


def test_windows_and_times_of_what_waits_for_the_batch(core: c.CDLL) -> None:
    """No window, so that a meter sees none that is empty."""
    device = start(core, fw.Card(fw.PAGE_AREA + 64))
    initialise(device)
    device.window_edges()
    for part in range(3):
        put(device, 0, part_of(0, part).tobytes())
        device.ok(f"step {RATE_BITS} 1 {part}")
        assert device.window_edges() == [1, 0] * (len(CALLS) - 2 * (part < 2))
        assert len(device.ok(f"times 0 {len(CALLS)}")["ticks"].split(",")) == len(CALLS)


def train(device: Device, first: int) -> int:
    """Batches until the power fails; the last one that was committed for sure."""
    for number in range(first, 3):
        for part in range(3):
            if not step(device, number, part).startswith("ok"):
                return number
        if not device.ask(f"commit {number + 1}").startswith("ok"):
            return number
    return 3


@pytest.mark.parametrize("torn", TEARS)
def test_a_cut_at_any_write_of_any_part_loses_at_most_the_batch_under_way(core: c.CDLL, torn: str) -> None:
    expected = [Expected()]
    for number in range(3):
        expected.append(expected[-1].after(number, 3))
    before, per_batch = 3, 3 + 3  # a page in each part; two tensors and the header
    for cut in range(before, before + 3 * per_batch):
        card = CutCard(fw.PAGE_AREA + 16)
        device = start(core, card)
        initialise(device)
        assert card.writes == before
        card.cut, card.torn = cut, torn
        committed = train(device, 0)
        assert card.dead
        card.power_up()

        device = start(core, card)
        resumed = int(device.ok("restore")["step"])
        assert resumed - committed in ((0, 1) if torn == "written, but not reported" else (0,)), cut
        assert state(device) == bytes_of(expected[resumed])
        assert train(device, resumed) == 3
        assert state(device) == bytes_of(expected[3])


# --- what is refused ---


def test_a_model_of_no_micro_batch_is_refused(core: c.CDLL) -> None:
    assert Board(core, net(micro_batches=0)).begin() == fw.E_CORRUPT


def test_an_inference_in_parts_is_refused(core: c.CDLL) -> None:
    board = Board(core, net(2))
    board.net.inference.model.micro_batches = 2
    assert board.begin() == fw.E_CORRUPT
