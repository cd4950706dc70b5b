# SPDX-License-Identifier: Apache-2.0
"""The schedule runner on tiny nets: what it computes, what it counts, and what it refuses."""

from __future__ import annotations

import ctypes as c
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.support.firmware.core import (
    ADD,
    BETWEEN,
    COMPUTE,
    E_ABSENT,
    E_ARGUMENT,
    E_CORRUPT,
    E_FULL,
    E_HASH,
    E_IO,
    E_MEMORY,
    E_ORDER,
    E_UNSUPPORTED,
    FREE,
    GRADIENT,
    HOOKS,
    INPUT,
    MORE,
    NO_VALUE,
    OK,
    PAGE_AREA,
    PAGE_IN,
    PAGE_OUT,
    PARAMETER,
    RELU,
    SGD,
    STOPPED,
    Card,
    Hooks,
    Net,
    Pager,
    Run,
    Runner,
    TraceRow,
)
from tests.support.firmware.fenced import fenced

SIZE = 160
BYTES = 4 * SIZE
# Values: 0 relu(x), 1 x + relu(x). Residents: 2 x, 3 gradient (value 1 + value 0), 4 parameter.
NODES = [
    (RELU, [SIZE], [2], [0], 0),
    (ADD, [SIZE], [2, 0], [1], BYTES),
    (ADD, [SIZE], [1, 0], [3], BYTES),
    (0, [], [], [], 0),
    (SGD, [SIZE], [3, 4], [4], 0),
]
VALUES = [(BYTES, 0), (BYTES, 2)]
RESIDENTS = [(0, BYTES, INPUT), (BYTES, BYTES, GRADIENT), (2 * BYTES, BYTES, PARAMETER)]
PLAIN = [
    (COMPUTE, 0, [0]),
    (COMPUTE, 1, [BYTES, 2 * BYTES]),
    (COMPUTE, 2, [2 * BYTES]),
    (FREE, 0, 0),
    (FREE, 1, 0),
    (COMPUTE, 3, []),
    (COMPUTE, 4, []),
]
# relu(x) waits on the card while its place is used otherwise, and comes back elsewhere; value 1 is recomputed.
PAGED = [
    (COMPUTE, 0, [0]),
    (PAGE_OUT, 0, 0),
    (COMPUTE, 1, [BYTES, 2 * BYTES]),
    (FREE, 0, 0),
    (PAGE_OUT, 1, 0),
    (FREE, 1, 0),
    (FREE, NO_VALUE, 0),
    (PAGE_IN, 0, BYTES),
    (COMPUTE, 1, [0, 2 * BYTES]),
    (COMPUTE, 2, [2 * BYTES]),
    (FREE, 0, 0),
    (COMPUTE, 3, []),
    (COMPUTE, 4, []),
]
ARENA = 3 * BYTES


def net(steps: list[tuple[int, int, object]], arena: int = ARENA, **changes: object) -> Net:
    return Net(**({"nodes": NODES, "values": VALUES, "residents": RESIDENTS} | changes), steps=steps, arena_bytes=arena)


@dataclass
class Bench:
    """A runner with its RAM, its card and one run."""

    core: c.CDLL
    net: Net
    card: Card | None = field(default_factory=lambda: Card(PAGE_AREA + 64))
    ram_bytes: int = 1 << 16

    def __post_init__(self) -> None:
        self.ram = fenced(c.c_uint64, self.ram_bytes // 8)
        self.runner = Runner()
        self.run_ = Run(hooks=c.pointer(HOOKS), learning_rate=0.5)
        self.x = np.random.default_rng(1).standard_normal(SIZE).astype(np.float32)
        self.parameter = np.random.default_rng(2).standard_normal(SIZE).astype(np.float32)
        self.tensors = np.frombuffer(self.ram, np.float32)
        self.tensors[:SIZE] = self.x
        self.tensors[2 * SIZE : 3 * SIZE] = self.parameter
        self.status = self.core.poet_runner_init(
            *(c.byref(part) for part in (self.runner, self.net.model, self.net.schedule, self.net.tables, self.ram)),
            self.ram_bytes,
        )
        if self.card is not None:
            self.pager = Pager()
            assert self.core.poet_pager_open(c.byref(self.pager), c.byref(self.card.device)) == OK
            self.run_.pager = c.pointer(self.pager)

    def run(self, trace: bool = False) -> int:
        self.run_.trace = trace
        c.c_uint32.in_dll(self.core, "test_window_count").value = 0
        return self.core.poet_runner_step(c.byref(self.runner), c.byref(self.run_))

    def traced(self, step: int) -> tuple[int, TraceRow]:
        row = TraceRow()
        pager = c.byref(self.pager) if self.card is not None else None
        return self.core.poet_runner_read_trace(c.byref(self.runner), pager, step, c.byref(row)), row

    def edges(self) -> list[int]:
        count = c.c_uint32.in_dll(self.core, "test_window_count").value
        return list((c.c_uint8 * count).in_dll(self.core, "test_window_edges"))

    def assert_right(self) -> None:
        relu = np.maximum(self.x, 0)
        gradient = (self.x + relu) + relu
        np.testing.assert_array_equal(self.tensors[SIZE : 2 * SIZE], gradient)
        updated = self.parameter - np.float32(0.5) * gradient
        np.testing.assert_array_equal(self.tensors[2 * SIZE : 3 * SIZE], updated)


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("steps", [PLAIN, PAGED], ids=["plain", "paged"])
def test_both_schedules_give_the_same_numbers(core: c.CDLL, steps: list, trace: bool, dma: bool) -> None:
    bench = Bench(core, net(steps), Card(PAGE_AREA + 64, dma))
    assert bench.run(trace) == OK
    bench.assert_right()


@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("dma", [False, True])
def test_what_is_counted(core: c.CDLL, dma: bool, trace: bool) -> None:
    bench = Bench(core, net(PAGED), Card(PAGE_AREA + 64, dma))
    assert bench.run(trace) == OK
    run = bench.run_
    assert (run.page_ins, run.page_outs, run.steps) == (1, 2, len(PAGED))
    assert run.peak_bytes == 3 * BYTES + ARENA  # residents, two values and a workspace
    assert run.arena_bytes == ARENA


# Value 1 takes over value 0's place, from which it has been paged out; another value 0 comes back beside it.
IN_PLACE = [
    (COMPUTE, 0, [BYTES]),
    (PAGE_OUT, 0, 0),
    (COMPUTE, 1, [BYTES, 0]),
    (PAGE_IN, 0, 0),
    (COMPUTE, 2, [2 * BYTES]),
    (FREE, 0, 0),
    (COMPUTE, 3, []),
    (COMPUTE, 4, []),
]


@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("dma", [False, True])
def test_a_result_takes_over_the_place_of_an_input(core: c.CDLL, dma: bool, trace: bool) -> None:
    card = Card(PAGE_AREA + 64, dma)
    bench = Bench(core, net(IN_PLACE), card)
    assert bench.run(trace) == OK
    bench.assert_right()
    assert bench.run_.peak_bytes == 3 * BYTES + ARENA
    if trace:
        assert [bench.traced(step)[1].peak_bytes // BYTES - 3 for step in range(5)] == [1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        # A place half on the input's, and one that the operator does not take: neither is a taking over.
        ([(COMPUTE, 0, [BYTES]), (COMPUTE, 1, [BYTES + 4, 0])], E_MEMORY),
        ([(COMPUTE, 0, [0]), (COMPUTE, 2, [0])], E_ORDER),
        # What has been taken over is gone.
        ([(COMPUTE, 0, [BYTES]), (COMPUTE, 1, [BYTES, 0]), (FREE, 0, 0)], E_ORDER),
        ([(COMPUTE, 0, [BYTES]), (COMPUTE, 1, [BYTES, 0]), (COMPUTE, 2, [0])], E_ORDER),
    ],
)
def test_what_is_no_taking_over_is_refused(core: c.CDLL, steps: list, status: int) -> None:
    assert Bench(core, net(steps)).run() == status


def test_a_smaller_result_does_not_take_over(core: c.CDLL) -> None:
    short = [(RELU, [SIZE], [2], [0], 0), (RELU, [SIZE // 2], [0], [1], 0)]
    steps = [(COMPUTE, 0, [0]), (COMPUTE, 1, [0])]
    values = [(BYTES, None), (BYTES // 2, None)]
    assert Bench(core, net(steps, nodes=short, values=values)).run() == E_MEMORY


def test_an_input_is_overwritten_only_when_the_card_has_it(core: c.CDLL) -> None:
    """Its page-out is waited for before the compute that takes over its place, and not before."""
    card = Card(PAGE_AREA + 64, dma=True)
    assert Bench(core, net(IN_PLACE), card).run() == OK
    assert [kind for kind, _, _ in card.log if kind != "read"] == ["start_write", "wait", "start_read", "wait"]
    card = Card(PAGE_AREA + 64, dma=True)
    card.fail_writes = 0
    bench = Bench(core, net(IN_PLACE), card)
    assert bench.run() == E_IO
    assert bench.run_.steps in (1, 2)


PLAIN_RAM = 3 * BYTES + ARENA


# With RAM after the arena for the whole trace, and with less: it then goes to the card.
@pytest.mark.parametrize("ram_bytes", [PLAIN_RAM + 512, PLAIN_RAM + 504])
@pytest.mark.parametrize("dma", [False, True])
def test_a_trace_has_ticks_and_peak_of_each_step(core: c.CDLL, dma: bool, ram_bytes: int) -> None:
    bench = Bench(core, net(PAGED), Card(PAGE_AREA + 64, dma), ram_bytes)
    assert bench.runner.trace_in_ram == (ram_bytes == PLAIN_RAM + 512)
    assert bench.run(trace=True) == OK
    bench.assert_right()
    statuses, rows = zip(*(bench.traced(step) for step in range(len(PAGED))), strict=True)
    assert set(statuses) == {OK}
    # A free counts what it is about to release; a compute step its workspace.
    in_arena = [1, 1, 3, 2, 1, 1, 0, 1, 3, 3, 2, 1, 1]
    assert [row.peak_bytes // BYTES - 3 for row in rows] == in_arena
    assert bench.run_.ticks == sum(row.ticks for row in rows)
    assert bench.traced(len(PAGED))[0] == E_ARGUMENT
    assert bench.run() == OK
    assert bench.traced(0)[0] == E_ABSENT


LONG = [*([(COMPUTE, 0, [0]), (FREE, 0, 0)] * 70), *PLAIN]


def test_a_long_trace_goes_to_the_card_after_the_pages(core: c.CDLL) -> None:
    card = Card(PAGE_AREA + 64)
    bench = Bench(core, net(LONG), card, PLAIN_RAM + 2 * 512)
    assert not bench.runner.trace_in_ram
    assert bench.run(trace=True) == OK
    assert {block for kind, block, _ in card.log if kind == "write"} == {PAGE_AREA + 4 + part for part in range(3)}
    rows = [bench.traced(step) for step in range(len(LONG))]
    assert {status for status, _ in rows} == {OK}
    assert bench.run_.ticks == sum(row.ticks for _, row in rows)
    assert [row.peak_bytes for _, row in rows[:4]] == [4 * BYTES] * 4
    card.content[(PAGE_AREA + 4) * 512 + 8] ^= 1
    assert bench.traced(0)[0] == E_CORRUPT
    assert bench.traced(63)[0] == OK
    card.fail_reads = 0
    assert bench.traced(0)[0] == E_IO


def test_a_trace_that_cannot_be_written_is_lost_and_the_step_is_not(core: c.CDLL) -> None:
    card = Card(PAGE_AREA + 64)
    bench = Bench(core, net(LONG), card, PLAIN_RAM)
    card.fail_writes = 1
    assert bench.run(trace=True) == OK
    bench.assert_right()
    assert bench.traced(0)[0] == E_ABSENT


def test_a_trace_without_a_place_is_refused_before_the_step(core: c.CDLL) -> None:
    bench = Bench(core, net(PLAIN), None, PLAIN_RAM)
    assert bench.run(trace=True) == E_ABSENT
    np.testing.assert_array_equal(bench.tensors[2 * SIZE : 3 * SIZE], bench.parameter)
    assert bench.run() == OK


def test_more_live_values_than_the_schedule_states_are_refused(core: c.CDLL) -> None:
    short = net(PLAIN)
    short.schedule.live_count = 2
    assert Bench(core, short).run() == E_MEMORY


def test_traced_windows(core: c.CDLL) -> None:
    bench = Bench(core, net(PAGED))
    assert bench.run(trace=True) == OK
    windows = sum(action != FREE and (action, index) != (COMPUTE, 3) for action, index, _ in PAGED)  # 3 only orders
    assert bench.edges() == [1, 0] * windows


def test_ticks_of_a_run_longer_than_the_counter(core: c.CDLL) -> None:
    bench = Bench(core, net(PLAIN))
    step = c.c_uint32.in_dll(core, "test_tick_step")
    step.value = 0xF0000000
    try:
        assert bench.run() == OK
    finally:
        step.value = 1
    assert bench.run_.ticks == len(PLAIN) * 0xF0000000


def test_transfers_overlap_only_what_does_not_need_them(core: c.CDLL) -> None:
    card = Card(PAGE_AREA + 64, dma=True)
    assert Bench(core, net(PAGED), card).run() == OK
    assert [kind for kind, _, _ in card.log if kind != "read"] == [
        "start_write", "wait",  # out 0; computed past it, waited for at `free`
        "start_write", "wait",  # out 1
        "start_read", "wait",  # in 0, before the recomputation that reads it
    ]  # fmt: skip


class WatchedCard(Card):
    """Notes which values were there when each transfer was waited for."""

    def __init__(self) -> None:
        super().__init__(PAGE_AREA + 64, dma=True)
        self.runner = Runner()
        self.seen: list[set[int]] = []

    def _wait(self, context: int) -> int:
        arena = self.runner.arena
        self.seen.append({block.owner for block in arena.live[: arena.live_count]})
        return super()._wait(context)


def watch(core: c.CDLL, steps: list[tuple[int, int, object]]) -> list[set[int]]:
    """The values that were there when each transfer was waited for."""
    card = WatchedCard()
    bench = Bench(core, net(steps), card)
    card.runner = bench.runner
    assert bench.run() == OK
    return card.seen


def test_a_value_on_its_way_out_can_be_read_meanwhile(core: c.CDLL) -> None:
    steps = [(COMPUTE, 0, [0]), (PAGE_OUT, 0, 0), (COMPUTE, 1, [BYTES, 2 * BYTES]), (FREE, 0, 0), (COMPUTE, 3, [])]
    assert watch(core, steps) == [{0, 1}]  # waited for at `free`, when value 1 had been computed


def test_a_value_on_its_way_in_is_waited_for(core: c.CDLL) -> None:
    steps = [(COMPUTE, 0, [0]), (PAGE_OUT, 0, 0), (FREE, 0, 0), (PAGE_IN, 0, 0), (COMPUTE, 1, [BYTES, 2 * BYTES])]
    assert watch(core, steps) == [{0}, {0}]


@pytest.mark.parametrize(
    ("steps", "failing"),
    [
        ([(COMPUTE, 1, [0, BYTES])], 0),  # input never computed
        ([(COMPUTE, 0, [0]), (FREE, 0, 0), (COMPUTE, 1, [0, BYTES])], 2),  # input gone
        ([(COMPUTE, 0, [0]), (COMPUTE, 0, [BYTES])], 1),  # already there
        ([(FREE, 0, 0)], 0),
        ([(PAGE_OUT, 0, 0)], 0),
        ([(PAGE_IN, 0, 0)], 0),  # never on the card
        ([(COMPUTE, 0, [0]), (PAGE_OUT, 0, 0), (PAGE_IN, 0, BYTES)], 2),  # still in RAM
    ],
)
def test_a_step_that_needs_what_is_not_there(core: c.CDLL, steps: list, failing: int) -> None:
    bench = Bench(core, net(steps))
    assert bench.run() == E_ORDER
    assert bench.run_.steps == failing
    assert bench.edges() == [1, 0]


@pytest.mark.parametrize(
    "steps",
    [
        [(COMPUTE, 0, [0]), (COMPUTE, 1, [BYTES - 4, 2 * BYTES])],  # value over value
        [(COMPUTE, 0, [0]), (COMPUTE, 1, [BYTES, 4])],  # workspace over input
        [(COMPUTE, 0, [ARENA - BYTES + 4])],  # outside
        [(COMPUTE, 0, [2])],  # not on a word
        [(COMPUTE, 0, [2**32 - 4])],
    ],
)
def test_overlap_and_outside_are_refused(core: c.CDLL, steps: list) -> None:
    bench = Bench(core, net(steps))
    assert bench.run() == E_MEMORY
    np.testing.assert_array_equal(bench.tensors[2 * SIZE : 3 * SIZE], bench.parameter)


def test_another_graphs_schedule_is_refused(core: c.CDLL) -> None:
    wrong = net(PLAIN)
    wrong.schedule.graph_hash ^= 1
    assert Bench(core, wrong).status == E_HASH


def test_an_unknown_operator_is_refused(core: c.CDLL) -> None:
    assert Bench(core, net([], nodes=[(200, [], [], [], 0)])).status == E_UNSUPPORTED


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes": [(RELU, [SIZE], [2, 2], [0], 0)]},  # one input too many
        {"nodes": [(RELU, [0], [2], [0], 0)]},  # no such shape
        {"nodes": [(RELU, [SIZE + 1], [2], [0], 0)]},  # operand too small for the shape
        {"nodes": [(RELU, [SIZE], [2], [5], 0)]},  # no such operand
        {"nodes": [(ADD, [SIZE], [2, 3], [1], BYTES - 4)]},  # too little workspace
        {"nodes": [(SGD, [SIZE], [3, 4], [3], 0)]},  # in place, but of another operand
        {"nodes": [(SGD, [SIZE], [3, 0], [0], 0)]},  # in place on a value
        {"nodes": [(0, [], [2], [], 0)]},  # an ordering node has no operands
        {"residents": [(0, BYTES, INPUT), (4 * BYTES, BYTES, GRADIENT), (0, BYTES, PARAMETER)]},
    ],
)
def test_a_damaged_model_is_refused(core: c.CDLL, changes: dict) -> None:
    assert Bench(core, net([], **changes)).status == E_CORRUPT


@pytest.mark.parametrize(
    ("steps", "values"),
    [
        ([(9, 0, 0)], VALUES),
        ([(COMPUTE, 5, [0])], VALUES),
        ([(COMPUTE, 0, [])], VALUES),  # offsets end before
        ([(FREE, 2, 0)], VALUES),
        ([(PAGE_OUT, 0, 0)], [(BYTES, None), (BYTES, None)]),
    ],
)
def test_a_damaged_schedule_is_refused(core: c.CDLL, steps: list, values: list) -> None:
    assert Bench(core, net(steps, values=values)).status == E_CORRUPT


# Operand 5, after 2 values and 3 residents, lies in flash.
SCALE = np.random.default_rng(3).standard_normal(SIZE + 1).astype(np.float32)
FROZEN = {
    "nodes": [NODES[0], (ADD, [SIZE], [5, 0], [1], BYTES), *NODES[2:]],
    "constants": [(4, BYTES)],
    "constant_words": SCALE.tobytes(),
}


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("steps", [PLAIN, PAGED], ids=["plain", "paged"])
def test_a_constant_is_read_where_it_lies(core: c.CDLL, steps: list, dma: bool) -> None:
    bench = Bench(core, net(steps, **FROZEN), Card(PAGE_AREA + 64, dma))
    assert bench.run() == OK
    relu = np.maximum(bench.x, 0)
    np.testing.assert_array_equal(bench.tensors[SIZE : 2 * SIZE], (SCALE[1:] + relu) + relu)
    assert bench.run_.peak_bytes == 3 * BYTES + ARENA
    assert bytes(bench.net.constant_words) == SCALE.tobytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes": [(RELU, [SIZE], [2], [5], 0)]},  # flash is not written
        {"nodes": [(SGD, [SIZE], [3, 5], [5], 0)]},
        {"nodes": [(RELU, [SIZE], [6], [0], 0)]},  # no such operand
        {"constants": [(4, BYTES - 4)]},  # too small for the shape
        {"constants": [(2, BYTES)]},
        {"constants": [(8, BYTES)]},  # ends past the table
        {"constants": [(2**32 - 4, BYTES)]},
    ],
)
def test_damaged_constants_are_refused(core: c.CDLL, changes: dict) -> None:
    assert Bench(core, net([], **FROZEN)).status == OK
    assert Bench(core, net([], **(FROZEN | changes))).status == E_CORRUPT


def test_constants_with_another_check_are_refused(core: c.CDLL) -> None:
    frozen = net([], **FROZEN)
    frozen.constant_words[SIZE] ^= 1
    assert Bench(core, frozen).status == E_CORRUPT


def test_tables_that_end_early_are_refused(core: c.CDLL) -> None:
    short = net([])
    short.model.operand_count -= 1
    assert Bench(core, short).status == E_CORRUPT
    short = net([])
    short.model.param_count -= 1
    assert Bench(core, short).status == E_CORRUPT


def test_ram_that_is_too_small_is_refused(core: c.CDLL) -> None:
    assert Bench(core, net(PLAIN), ram_bytes=PLAIN_RAM).status == OK
    assert Bench(core, net(PLAIN), ram_bytes=PLAIN_RAM - 8).status == E_MEMORY


def test_a_paged_schedule_needs_a_card(core: c.CDLL) -> None:
    assert Bench(core, net(PAGED), card=None).run() == E_ABSENT
    assert Bench(core, net(PLAIN), card=None).run() == OK


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize(
    ("blocks", "faults", "expected"),
    [
        (64, {"flips": 3}, E_CORRUPT),
        (64, {"fail_reads": 0}, E_IO),
        (64, {"fail_writes": 0}, E_IO),
        (64, {"fail_writes": 1}, E_IO),
        (3, {}, E_FULL),
    ],
)
def test_card_errors_end_the_step_with_the_weights_intact(
    core: c.CDLL, blocks: int, faults: dict[str, int], expected: int, dma: bool
) -> None:
    card = Card(PAGE_AREA + blocks, dma)
    bench = Bench(core, net(PAGED), card)
    for name, value in faults.items():
        setattr(card, name, value)
    assert bench.run() == expected
    np.testing.assert_array_equal(bench.tensors[2 * SIZE : 3 * SIZE], bench.parameter)
    assert bench.edges() == [1, 0]


@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("fault", ["fail_reads", "fail_writes"])
def test_every_transfer_that_fails_leaves_the_weights_intact(core: c.CDLL, fault: str, dma: bool, trace: bool) -> None:
    """Both values are on their way when the first parameter's turn comes: value 0 just in, value 1 just out."""
    late = [*PAGED[:-2], (PAGE_OUT, 1, 0), (FREE, 1, 0), (PAGE_IN, 1, 0), (PAGE_OUT, 1, 0), *PAGED[-2:]]
    failed = 0
    for transfer in range(10):
        card = Card(PAGE_AREA + 64, dma)
        bench = Bench(core, net(late), card)
        setattr(card, fault, transfer)
        status = bench.run(trace)
        if status == OK:
            break
        assert status == E_IO
        np.testing.assert_array_equal(bench.tensors[2 * SIZE : 3 * SIZE], bench.parameter)
        failed += 1
    assert failed == {"fail_reads": 2, "fail_writes": 4}[fault]


@pytest.mark.parametrize("late", [(PAGE_OUT, 1, 0), (PAGE_IN, 0, 0)])
def test_a_schedule_with_a_transfer_after_a_changed_weight_is_refused(core: c.CDLL, late: tuple) -> None:
    assert Bench(core, net([*PAGED[:-1], late, PAGED[-1]])).status == OK
    assert Bench(core, net([*PAGED, late])).status == E_ORDER


def test_a_step_after_a_failed_one_starts_afresh(core: c.CDLL) -> None:
    card = Card(PAGE_AREA + 64)
    bench = Bench(core, net(PAGED), card)
    card.fail_reads = 0
    assert bench.run() == E_IO
    card.fail_reads = None
    assert bench.run() == OK
    bench.assert_right()


def begin(bench: Bench) -> int:
    return bench.core.poet_runner_begin(c.byref(bench.runner), c.byref(bench.run_))


def go_on(bench: Bench) -> int:
    return bench.core.poet_runner_next(c.byref(bench.runner), c.byref(bench.run_))


def stop(bench: Bench) -> int:
    return bench.core.poet_runner_stop(c.byref(bench.runner), c.byref(bench.run_))


@pytest.mark.parametrize("dma", [False, True])
def test_piece_by_piece_gives_what_a_whole_run_does(core: c.CDLL, dma: bool) -> None:
    whole, pieces = (Bench(core, net(PAGED), Card(PAGE_AREA + 64, dma)) for _ in range(2))
    assert whole.run() == OK
    assert begin(pieces) == MORE
    assert [go_on(pieces) for _ in PAGED] == [MORE] * (len(PAGED) - 1) + [OK]
    pieces.assert_right()
    np.testing.assert_array_equal(pieces.tensors, whole.tensors)
    for name in ("ticks", "peak_bytes", "arena_bytes", "page_ins", "page_outs", "steps"):
        assert getattr(pieces.run_, name) == getattr(whole.run_, name), name
    assert pieces.card is not None and whole.card is not None
    assert pieces.card.log == whole.card.log


def test_nothing_goes_on_that_is_not_under_way(core: c.CDLL) -> None:
    bench = Bench(core, net(PLAIN))
    assert (go_on(bench), stop(bench)) == (E_ORDER, E_ORDER)
    assert begin(bench) == MORE
    while go_on(bench) == MORE:
        pass
    assert (go_on(bench), stop(bench)) == (E_ORDER, E_ORDER)
    bench.assert_right()


@pytest.mark.parametrize("done", range(1, len(PAGED)))
def test_a_stop_leaves_no_half_step(core: c.CDLL, done: int) -> None:
    """The last step of the schedule is the only change of a weight here; the line is low, the bus idle."""
    card = Card(PAGE_AREA + 64, dma=True)
    bench = Bench(core, net(PAGED), card)
    assert begin(bench) == MORE
    assert [go_on(bench) for _ in range(done)] == [MORE] * done
    assert stop(bench) == STOPPED
    np.testing.assert_array_equal(bench.tensors[2 * SIZE : 3 * SIZE], bench.parameter)
    assert card._pending is None
    assert bench.edges()[-1] == 0
    assert go_on(bench) == E_ORDER
    assert bench.run() == OK  # as if nothing had been
    bench.assert_right()


def test_a_stop_after_the_first_change_completes_the_step(core: c.CDLL) -> None:
    twice = [*NODES, (SGD, [SIZE], [3, 4], [4], 0)]
    bench = Bench(core, net([*PLAIN, (COMPUTE, 5, [])], nodes=twice))
    assert begin(bench) == MORE
    assert [go_on(bench) for _ in PLAIN] == [MORE] * len(PLAIN)
    bench.assert_right()
    assert stop(bench) == OK
    updated = bench.parameter - np.float32(0.5) * bench.tensors[SIZE : 2 * SIZE]
    updated -= np.float32(0.5) * bench.tensors[SIZE : 2 * SIZE]
    np.testing.assert_array_equal(bench.tensors[2 * SIZE : 3 * SIZE], updated)


@pytest.mark.parametrize("last", [3, len(PLAIN)])
def test_a_word_between_two_steps_can_stop_a_run(core: c.CDLL, last: int) -> None:
    seen = []

    def between(_context: int, progress: int) -> bool:
        seen.append(tuple((c.c_uint32 * 2).from_address(progress)))
        return len(seen) < last

    bench = Bench(core, net(PLAIN))
    hooks = Hooks(ticks=HOOKS.ticks, ticks_hz=HOOKS.ticks_hz, window=HOOKS.window, between=BETWEEN(between))
    bench.run_.hooks = c.pointer(hooks)
    assert bench.run() == (STOPPED if last < len(PLAIN) else OK)
    assert seen == [(done, len(PLAIN)) for done in range(1, min(last, len(PLAIN) - 1) + 1)]
    assert bench.edges() == [1, 0]


def test_settling_waits_for_the_bus_and_a_failed_transfer_ends_the_run(core: c.CDLL) -> None:
    for fails in (False, True):
        card = Card(PAGE_AREA + 64, dma=True)
        bench = Bench(core, net(PAGED), card)
        assert begin(bench) == MORE
        while card._pending is None:
            assert go_on(bench) == MORE
        if fails:
            card.fail_writes = 0
        status = core.poet_runner_settle(c.byref(bench.runner), c.byref(bench.run_))
        assert (status, card._pending) == (E_IO if fails else OK, None)
        while (status := go_on(bench)) == MORE:
            pass
        assert status == (E_ORDER if fails else OK)
        if not fails:
            bench.assert_right()


def test_hooks_may_be_missing(core: c.CDLL) -> None:
    for hooks in (None, c.pointer(Hooks())):
        bench = Bench(core, net(PAGED))
        bench.run_.hooks = hooks
        for trace in (False, True):
            bench.run_.under_way = False
            bench.tensors[2 * SIZE : 3 * SIZE] = bench.parameter
            assert bench.run(trace) == OK
            bench.assert_right()
            assert (bench.run_.ticks, bench.edges()) == (0, [])
