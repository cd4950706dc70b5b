# SPDX-License-Identifier: Apache-2.0
"""The schedule runner on tiny nets: what it computes, what it counts, and what it refuses."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.support.firmware import core as fw
from tests.support.firmware.fenced import fenced

SIZE = 160
BYTES = 4 * SIZE
# Values: 0 relu(x), 1 x + relu(x). Residents: 2 x, 3 gradient (value 1 + value 0), 4 parameter.
NODES = [
    (fw.RELU, [SIZE], [2], [0], 0),
    (fw.ADD, [SIZE], [2, 0], [1], BYTES),
    (fw.ADD, [SIZE], [1, 0], [3], BYTES),
    (0, [], [], [], 0),
    (fw.SGD, [SIZE], [3, 4], [4], 0),
]
VALUES = [(BYTES, 0), (BYTES, 2)]
RESIDENTS = [(0, BYTES, fw.INPUT), (BYTES, BYTES, fw.GRADIENT), (2 * BYTES, BYTES, fw.PARAMETER)]
PLAIN = [
    *((fw.COMPUTE, 0, [0]), (fw.COMPUTE, 1, [BYTES, 2 * BYTES]), (fw.COMPUTE, 2, [2 * BYTES])),
    *((fw.FREE, 0, 0), (fw.FREE, 1, 0), (fw.COMPUTE, 3, []), (fw.COMPUTE, 4, [])),
]
# relu(x) waits on the card while its place is used otherwise, and comes back elsewhere; value 1 is recomputed.
PAGED = [
    *((fw.COMPUTE, 0, [0]), (fw.PAGE_OUT, 0, 0), (fw.COMPUTE, 1, [BYTES, 2 * BYTES]), (fw.FREE, 0, 0)),
    *((fw.PAGE_OUT, 1, 0), (fw.FREE, 1, 0), (fw.FREE, fw.NO_VALUE, 0), (fw.PAGE_IN, 0, BYTES)),
    *((fw.COMPUTE, 1, [0, 2 * BYTES]), (fw.COMPUTE, 2, [2 * BYTES]), (fw.FREE, 0, 0), (fw.COMPUTE, 3, [])),
    (fw.COMPUTE, 4, []),
]
ARENA = 3 * BYTES


def net(steps: list[tuple[int, int, object]], arena: int = ARENA, **changes: object) -> fw.Net:
    return fw.Net(
        **({"nodes": NODES, "values": VALUES, "residents": RESIDENTS} | changes), steps=steps, arena_bytes=arena
    )


@dataclass
class Bench:
    """A runner with its RAM, its card and one run."""

    core: c.CDLL
    net: fw.Net
    card: fw.Card | None = field(default_factory=lambda: fw.Card(fw.PAGE_AREA + 64))
    ram_bytes: int = 1 << 16

    def __post_init__(self) -> None:
        self.ram = fenced(c.c_uint64, self.ram_bytes // 8)
        self.runner = fw.Runner()
        self.run_ = fw.Run(hooks=c.pointer(fw.HOOKS), learning_rate=0.5)
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
            self.pager = fw.Pager()
            assert self.core.poet_pager_open(c.byref(self.pager), c.byref(self.card.device)) == fw.OK
            self.run_.pager = c.pointer(self.pager)

    def run(self, trace: bool = False) -> int:
        self.run_.trace = trace
        c.c_uint32.in_dll(self.core, "test_window_count").value = 0
        return self.core.poet_runner_step(c.byref(self.runner), c.byref(self.run_))

    def traced(self, call: int) -> tuple[int, int]:
        ticks = c.c_uint32()
        pager = c.byref(self.pager) if self.card is not None else None
        status = self.core.poet_runner_read_trace(c.byref(self.runner), pager, call, c.byref(ticks))
        return status, ticks.value

    @property
    def calls(self) -> int:
        return self.net.schedule.call_count

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
    bench = Bench(core, net(steps), fw.Card(fw.PAGE_AREA + 64, dma))
    assert bench.run(trace) == fw.OK
    bench.assert_right()


@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("dma", [False, True])
def test_what_is_counted(core: c.CDLL, dma: bool, trace: bool) -> None:
    bench = Bench(core, net(PAGED), fw.Card(fw.PAGE_AREA + 64, dma))
    assert bench.run(trace) == fw.OK
    run = bench.run_
    assert (run.page_ins, run.page_outs, run.calls) == (1, 2, 8)  # neither frees nor what only orders


# Value 1 takes over value 0's place, from which it has been paged out; another value 0 comes back beside it.
IN_PLACE = [
    *((fw.COMPUTE, 0, [BYTES]), (fw.PAGE_OUT, 0, 0), (fw.COMPUTE, 1, [BYTES, 0]), (fw.PAGE_IN, 0, 0)),
    *((fw.COMPUTE, 2, [2 * BYTES]), (fw.FREE, 0, 0), (fw.COMPUTE, 3, []), (fw.COMPUTE, 4, [])),
]


@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("dma", [False, True])
def test_a_result_takes_over_the_place_of_an_input(core: c.CDLL, dma: bool, trace: bool) -> None:
    card = fw.Card(fw.PAGE_AREA + 64, dma)
    bench = Bench(core, net(IN_PLACE), card)
    assert bench.run(trace) == fw.OK
    bench.assert_right()


def test_an_input_is_overwritten_only_when_the_card_has_it(core: c.CDLL) -> None:
    """Its page-out is waited for before the compute that takes over its place, and not before."""
    card = fw.Card(fw.PAGE_AREA + 64, dma=True)
    assert Bench(core, net(IN_PLACE), card).run() == fw.OK
    assert [kind for kind, _, _ in card.log if kind != "read"] == ["start_write", "wait", "start_read", "wait"]
    card = fw.Card(fw.PAGE_AREA + 64, dma=True)
    card.fail_writes = 0
    bench = Bench(core, net(IN_PLACE), card)
    assert bench.run() == fw.E_IO
    assert bench.run_.calls in (1, 2)


PLAIN_RAM = 3 * BYTES + ARENA


# With RAM after the arena for the whole trace, and with less: it then goes to the card.
@pytest.mark.parametrize("ram_bytes", [PLAIN_RAM + 512, PLAIN_RAM + 504])
@pytest.mark.parametrize("dma", [False, True])
def test_a_trace_has_the_ticks_of_each_call(core: c.CDLL, dma: bool, ram_bytes: int) -> None:
    bench = Bench(core, net(PAGED), fw.Card(fw.PAGE_AREA + 64, dma), ram_bytes)
    assert bench.runner.trace_in_ram == (ram_bytes == PLAIN_RAM + 512)
    assert bench.run(trace=True) == fw.OK
    bench.assert_right()
    statuses, ticks = zip(*(bench.traced(call) for call in range(bench.calls)), strict=True)
    assert set(statuses) == {fw.OK}
    assert bench.run_.ticks == sum(ticks)
    assert bench.traced(bench.calls)[0] == fw.E_ARGUMENT
    assert bench.run() == fw.OK
    assert bench.traced(0)[0] == fw.E_ABSENT


LONG = [*([(fw.COMPUTE, 0, [0]), (fw.FREE, 0, 0)] * 260), *PLAIN]


def test_a_long_trace_goes_to_the_card_after_the_pages(core: c.CDLL) -> None:
    card = fw.Card(fw.PAGE_AREA + 64)
    bench = Bench(core, net([*LONG[:520], *PAGED]), card, PLAIN_RAM + 2 * 512)
    assert not bench.runner.trace_in_ram
    assert bench.run(trace=True) == fw.OK
    written = {block for kind, block, _ in card.log if kind == "write"}
    assert written == {fw.PAGE_AREA, fw.PAGE_AREA + 2} | {fw.PAGE_AREA + 4 + part for part in range(3)}
    rows = [bench.traced(call) for call in range(bench.calls)]
    assert {status for status, _ in rows} == {fw.OK}
    assert bench.run_.ticks == sum(ticks for _, ticks in rows)
    card.content[(fw.PAGE_AREA + 4) * 512 + 8] ^= 1
    assert bench.traced(0)[0] == fw.E_CORRUPT
    assert bench.traced(126)[0] == fw.OK
    card.fail_reads = 0
    assert bench.traced(0)[0] == fw.E_IO


def test_a_trace_that_cannot_be_written_is_lost_and_the_step_is_not(core: c.CDLL) -> None:
    card = fw.Card(fw.PAGE_AREA + 64)
    bench = Bench(core, net(LONG), card, PLAIN_RAM)
    card.fail_writes = 1
    assert bench.run(trace=True) == fw.OK
    bench.assert_right()
    assert bench.traced(0)[0] == fw.E_ABSENT


def test_a_trace_without_a_place_is_refused_before_the_step(core: c.CDLL) -> None:
    bench = Bench(core, net(PLAIN), None, PLAIN_RAM)
    assert bench.run(trace=True) == fw.E_ABSENT
    np.testing.assert_array_equal(bench.tensors[2 * SIZE : 3 * SIZE], bench.parameter)
    assert bench.run() == fw.OK


def test_traced_windows(core: c.CDLL) -> None:
    bench = Bench(core, net(PAGED))
    assert bench.run(trace=True) == fw.OK
    windows = sum(
        action != fw.FREE and (action, index) != (fw.COMPUTE, 3) for action, index, _ in PAGED
    )  # 3 only orders
    assert bench.edges() == [1, 0] * windows


def test_ticks_of_a_run_longer_than_the_counter(core: c.CDLL) -> None:
    bench = Bench(core, net(PLAIN))
    step = c.c_uint32.in_dll(core, "test_tick_step")
    step.value = 0xF0000000
    try:
        assert bench.run() == fw.OK
    finally:
        step.value = 1
    assert bench.run_.ticks == bench.calls * 0xF0000000


def test_transfers_overlap_only_what_does_not_need_them(core: c.CDLL) -> None:
    card = fw.Card(fw.PAGE_AREA + 64, dma=True)
    assert Bench(core, net(PAGED), card).run() == fw.OK
    assert [kind for kind, _, _ in card.log if kind != "read"] == [
        "start_write", "wait",  # out 0; computed past it, waited for at `free`
        "start_write", "wait",  # out 1
        "start_read", "wait",  # in 0, before the recomputation that reads it
    ]  # fmt: skip


class WatchedCard(fw.Card):
    """Notes how many computes were done when each transfer was waited for: each leaves its numbers in the arena."""

    def __init__(self) -> None:
        super().__init__(fw.PAGE_AREA + 64, dma=True)
        self.seen: list[int] = []
        self.count: Callable[[], int] = lambda: 0

    def _wait(self, context: int) -> int:
        self.seen.append(self.count())
        return super()._wait(context)


def watch(core: c.CDLL, steps: list[tuple[int, int, object]]) -> list[int]:
    """How many values had been computed when each transfer was waited for."""
    card = WatchedCard()
    bench = Bench(core, net(steps), card)
    arena = bench.tensors[3 * SIZE : 6 * SIZE].reshape(3, SIZE)
    card.count = lambda: int(arena.any(axis=1).sum())
    assert bench.run() == fw.OK
    return card.seen


def test_a_value_on_its_way_out_can_be_read_meanwhile(core: c.CDLL) -> None:
    steps = [
        (fw.COMPUTE, 0, [0]),
        (fw.PAGE_OUT, 0, 0),
        (fw.COMPUTE, 1, [BYTES, 2 * BYTES]),
        (fw.FREE, 0, 0),
        (fw.COMPUTE, 3, []),
    ]
    assert watch(core, steps) == [3]  # at the end, when value 1 and its workspace had been computed


def test_a_value_on_its_way_in_is_waited_for(core: c.CDLL) -> None:
    steps = [
        (fw.COMPUTE, 0, [0]),
        (fw.PAGE_OUT, 0, 0),
        (fw.FREE, 0, 0),
        (fw.PAGE_IN, 0, 0),
        (fw.COMPUTE, 1, [BYTES, 2 * BYTES]),
    ]
    assert watch(core, steps) == [1, 1]


def test_another_graphs_schedule_is_refused(core: c.CDLL) -> None:
    wrong = net(PLAIN)
    wrong.schedule.graph_hash ^= 1
    assert Bench(core, wrong).status == fw.E_HASH


def call(op: int, inputs: list[int], outputs: list[int], workspace: int = 0, size: int = SIZE) -> dict:
    return {"nodes": [(op, [size], inputs, outputs, workspace)]}


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        (call(200, [2], [0]), [0]),  # no such operator
        (call(fw.RELU, [2, 2], [0]), [0]),  # one input too many
        (call(fw.RELU, [2], [0], size=0), [0]),  # no such shape
        (call(fw.RELU, [2], [0], size=2 * SIZE), [2 * BYTES]),  # ends outside
        (call(fw.RELU, [2], [0]), [2]),  # not on a word
        (call(fw.RELU, [2], [0]), [2**32 - 4 - 3 * BYTES]),
        (call(fw.ADD, [2, 3], [1]), [0]),  # no workspace
        (call(fw.ADD, [2, 3], [1], BYTES), [0, 2 * BYTES + 4]),
        ({"residents": [(0, BYTES, fw.INPUT), (4 * BYTES, BYTES, fw.GRADIENT), (0, BYTES, fw.PARAMETER)]}, [0]),
    ],
)
def test_a_damaged_plan_is_refused_even_with_its_check(core: c.CDLL, changes: dict, places: list[int]) -> None:
    assert Bench(core, net([(fw.COMPUTE, 0, [0])])).status == fw.OK
    assert Bench(core, net([(fw.COMPUTE, 0, places)], **changes)).status == fw.E_CORRUPT


@pytest.mark.parametrize(
    ("place", "word", "apart"), [(1, 0, True), (1, 4, False), (5, 4 * BYTES - 4, False), (5, 5 * BYTES, True)]
)
def test_what_a_call_writes_lies_apart_from_all_else_that_it_has(
    core: c.CDLL, place: int, word: int, apart: bool
) -> None:
    """A result may lie in the place that it takes over, but not beside it; a workspace nowhere else."""
    changed, lies_apart = net(PLAIN), core.poet_plan_lies_apart
    lies_apart.restype = c.c_bool
    assert lies_apart(c.byref(changed.schedule))
    changed.schedule.words[place] = word
    assert lies_apart(c.byref(changed.schedule)) == apart


@pytest.mark.parametrize("word", range(4))
def test_a_damaged_page_is_refused_even_with_its_check(core: c.CDLL, word: int) -> None:
    paged = net(PAGED)
    first = next(call.words for call in paged.calls if call.op >= fw.CALL_PAGE_IN)
    for wrong in (2**31, 2**32 - 4, 0) if word == 1 else (2**31, 2**32 - 4):
        paged.words[first + word] = wrong
        paged.seal()
        assert Bench(core, paged).status == fw.E_CORRUPT


@pytest.mark.parametrize("steps", [PLAIN, PAGED], ids=["plain", "paged"])
@pytest.mark.parametrize("table", ["calls", "words", "params"])
def test_each_bit_that_turns_is_refused(core: c.CDLL, steps: list, table: str) -> None:
    damaged = net(steps)
    content = (c.c_uint8 * c.sizeof(getattr(damaged, table))).from_buffer(getattr(damaged, table))
    for place in range(len(content)):
        for bit in range(8):
            content[place] ^= 1 << bit
            assert core.poet_plan_check(c.byref(damaged.model), c.byref(damaged.schedule), 1 << 16) == fw.E_CORRUPT
            content[place] ^= 1 << bit
    assert core.poet_plan_check(c.byref(damaged.model), c.byref(damaged.schedule), 1 << 16) == fw.OK


# Operand 5, after 2 values and 3 residents, lies in flash.
SCALE = np.random.default_rng(3).standard_normal(SIZE + 1).astype(np.float32)
FROZEN = {
    "nodes": [NODES[0], (fw.ADD, [SIZE], [5, 0], [1], BYTES), *NODES[2:]],
    "constants": [(4, BYTES)],
    "constant_words": SCALE.tobytes(),
}


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("steps", [PLAIN, PAGED], ids=["plain", "paged"])
def test_a_constant_is_read_where_it_lies(core: c.CDLL, steps: list, dma: bool) -> None:
    bench = Bench(core, net(steps, **FROZEN), fw.Card(fw.PAGE_AREA + 64, dma))
    assert bench.run() == fw.OK
    relu = np.maximum(bench.x, 0)
    np.testing.assert_array_equal(bench.tensors[SIZE : 2 * SIZE], (SCALE[1:] + relu) + relu)
    assert bytes(bench.net.constant_words) == SCALE.tobytes()


@pytest.mark.parametrize(
    "changes",
    [
        call(fw.RELU, [2], [5]),  # flash is not written
        call(fw.SGD, [3, 5], [5]),
        {"constants": [(2, BYTES)]},
        {"constants": [(8, BYTES)]},  # ends past the table
        {"constants": [(2**32 - 4, BYTES)]},
    ],
)
def test_damaged_constants_are_refused(core: c.CDLL, changes: dict) -> None:
    reads = [(fw.COMPUTE, 0, [0])]
    frozen = FROZEN | call(fw.RELU, [5], [0])
    assert Bench(core, net(reads, **frozen)).status == fw.OK
    assert Bench(core, net(reads, **(frozen | changes))).status == fw.E_CORRUPT


def test_constants_with_another_check_are_refused(core: c.CDLL) -> None:
    frozen = net([], **FROZEN)
    frozen.constant_words[SIZE] ^= 1
    assert Bench(core, frozen).status == fw.E_CORRUPT


@pytest.mark.parametrize("count", ["word_count", "param_count", "page_count", "page_blocks", "operator_count"])
def test_tables_that_end_early_are_refused(core: c.CDLL, count: str) -> None:
    short = net(PAGED)
    setattr(short.schedule, count, getattr(short.schedule, count) - 1 if count != "operator_count" else 1)
    short.seal()
    assert Bench(core, short).status == fw.E_CORRUPT


def test_ram_that_is_too_small_is_refused(core: c.CDLL) -> None:
    assert Bench(core, net(PLAIN), ram_bytes=PLAIN_RAM).status == fw.OK
    assert Bench(core, net(PLAIN), ram_bytes=PLAIN_RAM - 8).status == fw.E_MEMORY


def test_a_paged_schedule_needs_a_card(core: c.CDLL) -> None:
    assert Bench(core, net(PAGED), card=None).run() == fw.E_ABSENT
    assert Bench(core, net(PLAIN), card=None).run() == fw.OK


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize(
    ("blocks", "faults", "expected"),
    [
        (64, {"flips": 3}, fw.E_CORRUPT),
        (64, {"fail_reads": 0}, fw.E_IO),
        (64, {"fail_writes": 0}, fw.E_IO),
        (64, {"fail_writes": 1}, fw.E_IO),
        (3, {}, fw.E_FULL),
    ],
)
def test_card_errors_end_the_step_with_the_weights_intact(
    core: c.CDLL, blocks: int, faults: dict[str, int], expected: int, dma: bool
) -> None:
    card = fw.Card(fw.PAGE_AREA + blocks, dma)
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
    late = [*PAGED[:-2], (fw.PAGE_OUT, 1, 0), (fw.FREE, 1, 0), (fw.PAGE_IN, 1, 0), (fw.PAGE_OUT, 1, 0), *PAGED[-2:]]
    failed = 0
    for transfer in range(10):
        card = fw.Card(fw.PAGE_AREA + 64, dma)
        bench = Bench(core, net(late), card)
        setattr(card, fault, transfer)
        status = bench.run(trace)
        if status == fw.OK:
            break
        assert status == fw.E_IO
        np.testing.assert_array_equal(bench.tensors[2 * SIZE : 3 * SIZE], bench.parameter)
        failed += 1
    assert failed == {"fail_reads": 2, "fail_writes": 4}[fault]


@pytest.mark.parametrize("late", [(fw.PAGE_OUT, 1, 0), (fw.PAGE_IN, 0, 0)])
def test_a_schedule_with_a_transfer_after_a_changed_weight_is_refused(core: c.CDLL, late: tuple) -> None:
    assert Bench(core, net([*PAGED[:-1], late, PAGED[-1]])).status == fw.OK
    assert Bench(core, net([*PAGED, late])).status == fw.E_ORDER


def test_a_step_after_a_failed_one_starts_afresh(core: c.CDLL) -> None:
    card = fw.Card(fw.PAGE_AREA + 64)
    bench = Bench(core, net(PAGED), card)
    card.fail_reads = 0
    assert bench.run() == fw.E_IO
    card.fail_reads = None
    assert bench.run() == fw.OK
    bench.assert_right()


def begin(bench: Bench) -> int:
    return bench.core.poet_runner_begin(c.byref(bench.runner), c.byref(bench.run_))


def go_on(bench: Bench) -> int:
    return bench.core.poet_runner_next(c.byref(bench.runner), c.byref(bench.run_))


def stop(bench: Bench) -> int:
    return bench.core.poet_runner_stop(c.byref(bench.runner), c.byref(bench.run_))


@pytest.mark.parametrize("dma", [False, True])
def test_piece_by_piece_gives_what_a_whole_run_does(core: c.CDLL, dma: bool) -> None:
    whole, pieces = (Bench(core, net(PAGED), fw.Card(fw.PAGE_AREA + 64, dma)) for _ in range(2))
    assert whole.run() == fw.OK
    assert begin(pieces) == fw.MORE
    assert [go_on(pieces) for _ in range(pieces.calls)] == [fw.MORE] * (pieces.calls - 1) + [fw.OK]
    pieces.assert_right()
    np.testing.assert_array_equal(pieces.tensors, whole.tensors)
    for name in ("ticks", "page_ins", "page_outs", "calls"):
        assert getattr(pieces.run_, name) == getattr(whole.run_, name), name
    assert pieces.card is not None and whole.card is not None
    assert pieces.card.log == whole.card.log


def test_nothing_goes_on_that_is_not_under_way(core: c.CDLL) -> None:
    bench = Bench(core, net(PLAIN))
    assert (go_on(bench), stop(bench)) == (fw.E_ORDER, fw.E_ORDER)
    assert begin(bench) == fw.MORE
    while go_on(bench) == fw.MORE:
        pass
    assert (go_on(bench), stop(bench)) == (fw.E_ORDER, fw.E_ORDER)
    bench.assert_right()


@pytest.mark.parametrize("done", range(1, 8))
def test_a_stop_leaves_no_half_step(core: c.CDLL, done: int) -> None:
    """The last step of the schedule is the only change of a weight here; the line is low, the bus idle."""
    card = fw.Card(fw.PAGE_AREA + 64, dma=True)
    bench = Bench(core, net(PAGED), card)
    assert begin(bench) == fw.MORE
    assert [go_on(bench) for _ in range(done)] == [fw.MORE] * done
    assert stop(bench) == fw.STOPPED
    np.testing.assert_array_equal(bench.tensors[2 * SIZE : 3 * SIZE], bench.parameter)
    assert card._pending is None
    assert bench.edges()[-1] == 0
    assert go_on(bench) == fw.E_ORDER
    assert bench.run() == fw.OK  # as if nothing had been
    bench.assert_right()


def test_a_stop_after_the_first_change_completes_the_step(core: c.CDLL) -> None:
    twice = [*NODES, (fw.SGD, [SIZE], [3, 4], [4], 0)]
    bench = Bench(core, net([*PLAIN, (fw.COMPUTE, 5, [])], nodes=twice))
    assert begin(bench) == fw.MORE
    assert [go_on(bench) for _ in range(4)] == [fw.MORE] * 4
    bench.assert_right()
    assert stop(bench) == fw.OK
    updated = bench.parameter - np.float32(0.5) * bench.tensors[SIZE : 2 * SIZE]
    updated -= np.float32(0.5) * bench.tensors[SIZE : 2 * SIZE]
    np.testing.assert_array_equal(bench.tensors[2 * SIZE : 3 * SIZE], updated)


@pytest.mark.parametrize("last", [2, 4])
def test_a_word_between_two_steps_can_stop_a_run(core: c.CDLL, last: int) -> None:
    seen = []

    def between(_context: int, progress: int) -> bool:
        seen.append(tuple((c.c_uint32 * 2).from_address(progress)))
        return len(seen) < last

    bench = Bench(core, net(PLAIN))
    hooks = fw.Hooks(
        ticks=fw.HOOKS.ticks, ticks_hz=fw.HOOKS.ticks_hz, window=fw.HOOKS.window, between=fw.BETWEEN(between)
    )
    bench.run_.hooks = c.pointer(hooks)
    assert bench.run() == (fw.STOPPED if last < 4 else fw.OK)
    assert seen == [(done, 4) for done in range(1, min(last, 3) + 1)]
    assert bench.edges() == [1, 0]


def test_settling_waits_for_the_bus_and_a_failed_transfer_ends_the_run(core: c.CDLL) -> None:
    for fails in (False, True):
        card = fw.Card(fw.PAGE_AREA + 64, dma=True)
        bench = Bench(core, net(PAGED), card)
        assert begin(bench) == fw.MORE
        while card._pending is None:
            assert go_on(bench) == fw.MORE
        if fails:
            card.fail_writes = 0
        status = core.poet_runner_settle(c.byref(bench.runner), c.byref(bench.run_))
        assert (status, card._pending) == (fw.E_IO if fails else fw.OK, None)
        while (status := go_on(bench)) == fw.MORE:
            pass
        assert status == (fw.E_ORDER if fails else fw.OK)
        if not fails:
            bench.assert_right()


def test_hooks_may_be_missing(core: c.CDLL) -> None:
    for hooks in (None, c.pointer(fw.Hooks())):
        bench = Bench(core, net(PAGED))
        bench.run_.hooks = hooks
        for trace in (False, True):
            bench.run_.under_way = False
            bench.tensors[2 * SIZE : 3 * SIZE] = bench.parameter
            assert bench.run(trace) == fw.OK
            bench.assert_right()
            assert (bench.run_.ticks, bench.edges()) == (0, [])
