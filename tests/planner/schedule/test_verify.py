# SPDX-License-Identifier: Apache-2.0
"""The verifier finds each kind of fault, and nothing in a sound schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_profiles.graph import Graph, Node, Operation, PageCost, Resident, Value
from poet_profiles.graph.file import graph_hash
from poet_profiles.schedule import Action, Objective, Schedule, Status, Step

from tests.support.graphs.kept_graphs import kept_step

PAGE = PageCost(out_time_s=2.0, out_energy_j=0.3, in_time_s=1.0, in_energy_j=0.2)


def chain(dma: bool = False) -> Graph:
    """a -> b -> c, and c needs a too."""
    return Graph(
        "chain",
        (
            Node("a", 1.0, 1.0, (Value("a", 8, PAGE),)),
            Node("b", 1.0, 1.0, (Value("b", 6),), ("a",), workspace_bytes=5),
            Node("c", 1.0, 1.0, (Value("c", 4),), ("b", "a"), recomputable=False),
        ),
        resident_bytes=4,
        dma=dma,
    )


def by_hand(graph: Graph) -> Schedule:
    """Pages a out and in again around b; figures worked out by hand."""
    steps = (
        Step(Action.COMPUTE, "a", {"a": 0}),
        Step(Action.PAGE_OUT, "a"),
        Step(Action.COMPUTE, "b", {"b": 8}, workspace_offset=16),
        Step(Action.FREE, "a"),
        Step(Action.PAGE_IN, "a", {"a": 0}),
        Step(Action.COMPUTE, "c", {"c": 16}),
    )
    return replace(
        store_all_schedule(graph),
        steps=steps,
        ram_budget_bytes=28,
        energy_j=3.5,
        # Overlapped: out 1-3 beside b 1-2, the free waits until 3, in 3-4, c 4-5.
        time_s=5.0 if graph.dma else 6.0,
        peak_bytes=28,
        arena_bytes=24,
        status=Status.FEASIBLE,
        bound_j=3.0,
        gap=0.5 / 3.5,
    )


@pytest.mark.parametrize("dma", [False, True])
def test_a_sound_schedule_is_sound(dma: bool) -> None:
    report = verify(chain(dma), by_hand(chain(dma)))
    assert report.faults == ()
    assert (report.energy_j, report.time_s, report.peak_bytes) == (3.5, 5.0 if dma else 6.0, 28)


def without(number: int) -> Callable[[Schedule], Schedule]:
    return lambda s: replace(s, steps=s.steps[:number] + s.steps[number + 1 :])


def instead(number: int, *steps: Step) -> Callable[[Schedule], Schedule]:
    return lambda s: replace(s, steps=s.steps[:number] + steps + s.steps[number + 1 :])


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (without(5), "never computed"),
        (without(0), "not in RAM"),
        (without(1), "no copy of it is on the card"),
        (without(3), "in RAM already"),
        (instead(3, Step(Action.FREE, "b")), "input b is not in RAM"),
        (
            instead(
                5, Step(Action.COMPUTE, "c", {"c": 16}), Step(Action.FREE, "c"), Step(Action.COMPUTE, "c", {"c": 16})
            ),
            "not recomputable",
        ),
        (instead(1, Step(Action.PAGE_OUT, "b")), "not pageable"),
        (instead(0, Step(Action.COMPUTE, "z")), "no such node"),
        (instead(1, Step(Action.PAGE_OUT, "z")), "no such value"),
        (instead(2, Step(Action.COMPUTE, "b", {"b": 4}, workspace_offset=16)), "overlaps"),
        (instead(2, Step(Action.COMPUTE, "b", {"b": 8}, workspace_offset=12)), "overlaps"),
        (instead(2, Step(Action.COMPUTE, "b", {"b": 8})), "no offset"),
        (instead(4, Step(Action.PAGE_IN, "a", {"a": 2})), "multiple of 4"),
        (lambda s: replace(s, ram_budget_bytes=24), "exceeds the budget"),
        (lambda s: replace(s, deadline_s=5.9), "exceeds the deadline"),
        (lambda s: replace(s, energy_j=3.4), "energy_j is stated"),
        (lambda s: replace(s, time_s=6.1), "time_s is stated"),
        (lambda s: replace(s, peak_bytes=24), "peak_bytes is stated"),
        (lambda s: replace(s, arena_bytes=20), "arena_bytes is stated"),
        (lambda s: replace(s, steps=(), arena_bytes=4), "arena_bytes is stated"),
        (lambda s: replace(s, bound_j=3.6, gap=-0.1 / 3.5), "above the energy"),
        (lambda s: replace(s, gap=0.0), "gap is stated"),
        (lambda s: replace(s, status=Status.OPTIMAL), "optimal"),
        (lambda s: replace(s, graph_hash="0" * 16), "graph hash"),
    ],
)
def test_each_fault_is_found(damage: Callable[[Schedule], Schedule], fault: str) -> None:
    report = verify(chain(), damage(by_hand(chain())))
    assert any(fault in line for line in report.faults), report.faults


def by_time(schedule: Schedule) -> Schedule:
    """`by_hand` with the 6 s of its computes and transfers as what it has little of, and 3 s as their bound."""
    return replace(schedule, objective=Objective.TIME, bound_s=3.0, gap=0.5)


@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e-20])
@pytest.mark.parametrize("name", ["energy_j", "time_s"])
def test_a_figure_is_as_exact_however_small_the_costs_are(name: str, scale: float) -> None:
    graph = chain()
    small = (replace(node, energy_j=scale * node.energy_j, time_s=scale * node.time_s) for node in graph.nodes)
    schedule = store_all_schedule(graph := replace(graph, nodes=tuple(small)))
    assert verify(graph, schedule).faults == ()
    wrong = replace(schedule, **{name: (1 + 1e-8) * getattr(schedule, name)})
    assert any(fault.startswith(f"{name} is stated as") for fault in verify(graph, wrong).faults)


@pytest.mark.parametrize("dma", [False, True])
def test_time_is_that_of_all_computes_and_transfers(dma: bool) -> None:
    schedule = by_time(by_hand(chain(dma)))
    assert verify(chain(dma), schedule).faults == ()
    wrong = {
        "gap is stated": replace(schedule, gap=0.4),
        "is above the time": replace(schedule, bound_s=6.1, gap=-0.1 / 6.0),
        "above the energy": replace(schedule, bound_j=3.6),
    }
    for fault, damaged in wrong.items():
        assert [fault in line for line in verify(chain(dma), damaged).faults] == [True]


def test_a_board_that_allocates_needs_no_offsets() -> None:
    graph = replace(chain(), allocates=True)
    placed = by_hand(chain())
    schedule = replace(placed, steps=tuple(Step(step.do, step.target) for step in placed.steps))
    assert verify(graph, schedule).faults == ()
    assert any("no offset" in line for line in verify(chain(), schedule).faults)
    assert any("it has an offset" in line for line in verify(graph, placed).faults)
    assert any("arena_bytes is stated" in line for line in verify(graph, replace(schedule, arena_bytes=28)).faults)


def test_a_transfer_after_a_changed_parameter_is_a_fault() -> None:
    """A card that fails there would leave half of a step."""
    graph = chain()
    update = Operation("sgd", "size=1", ("b", "w"), ("w",))
    changing = tuple(replace(node, operation=update) if node.id == "b" else node for node in graph.nodes)
    weight = Resident("w", "parameter", 4, 0, (1,))
    for residents, faults in (((), 0), ((weight,), 1), ((replace(weight, kind="loss"),), 0)):
        changed = replace(graph, nodes=changing, residents=residents)
        report = verify(changed, replace(by_hand(graph), graph_hash=graph_hash(changed)))
        assert len(report.faults) == faults
        assert all("step 4 (page_in a): w has changed before" in fault for fault in report.faults)


def test_what_is_computed_again_from_a_changed_parameter_is_a_fault() -> None:
    """The first computation may read it: there is no other value to be had."""
    weight = Resident("w", "parameter", 4, 0, (1,))
    reads = Node(
        "a", 1.0, 1.0, (Value("a", 4),), operation=Operation("pointwise", "size=1 steps=relu(y0,x0)", ("w",), ("a",))
    )
    changes = Node("b", 1.0, 1.0, (Value("b", 0),), operation=Operation("sgd", "size=1", ("w", "w"), ("w",)))
    graph = Graph("changes", (reads, replace(changes, recomputable=False)), 4, residents=(weight,))
    once = Step(Action.COMPUTE, "a", {"a": 0})
    change, free = Step(Action.COMPUTE, "b"), Step(Action.FREE, "a")
    for steps, faults in (((once, change), 0), ((change, once), 0), ((once, free, change, once), 1)):
        energy_j = sum(1.0 for step in steps if step.do is Action.COMPUTE)
        schedule = Schedule(
            "changes", graph_hash(graph), 8, None, steps, energy_j, energy_j, 8, 4, Status.FEASIBLE, 0, 1
        )
        report = verify(graph, schedule)
        assert len(report.faults) == faults, report.faults
        assert all("step 3 (compute a): it is computed again from w" in fault for fault in report.faults)


def in_place(dma: bool) -> tuple[Graph, Schedule]:
    """a -> b -> c, and b takes over a's place, of which a page-out is under way; figures worked out by hand."""
    graph = Graph(
        "in place",
        (
            Node("a", 1.0, 1.0, (Value("a", 8, PAGE),)),
            Node("b", 1.0, 1.0, (Value("b", 8), Value("b2", 4)), ("a",), workspace_bytes=4, takes_over={"b": "a"}),
            Node("c", 1.0, 1.0, (Value("c", 8),), ("b",), takes_over={"c": "b"}),
        ),
        resident_bytes=4,
        dma=dma,
    )
    steps = (
        Step(Action.COMPUTE, "a", {"a": 4}),
        Step(Action.PAGE_OUT, "a"),
        Step(Action.COMPUTE, "b", {"b": 4, "b2": 0}, workspace_offset=12),
        Step(Action.COMPUTE, "c", {"c": 4}),
    )
    energy_j, time_s = 3.3, 5.0  # b waits until a's place has been read
    limits = graph_hash(graph), 20, None
    return graph, Schedule("in place", *limits, steps, energy_j, time_s, 20, 16, Status.FEASIBLE, 3.0, 0.3 / 3.3)


@pytest.mark.parametrize("dma", [False, True])
def test_what_is_taken_over_counts_once_and_ends(dma: bool) -> None:
    graph, schedule = in_place(dma)
    assert verify(graph, schedule).faults == ()


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (instead(2, Step(Action.COMPUTE, "b", {"b": 8, "b2": 0}, 16)), "b takes over a, but does not lie in its place"),
        (instead(3, Step(Action.COMPUTE, "c", {"c": 12})), "c takes over b, but does not lie in its place"),
        (instead(3, Step(Action.FREE, "a")), "step 3 (free a): it is not in RAM"),
        (instead(3, Step(Action.FREE, "b"), Step(Action.COMPUTE, "b", {"b": 4, "b2": 0}, 12)), "a is not in RAM"),
    ],
)
def test_each_fault_in_taking_over_is_found(damage: Callable[[Schedule], Schedule], fault: str) -> None:
    graph, schedule = in_place(dma=False)
    assert any(fault in line for line in verify(graph, damage(schedule)).faults)


ONCE = ("x..fetch", "w..fetch", "product", "y", "gradient", "update", "ready", "descent", "commit")


def computing(graph: Graph, *steps: str | Step) -> Schedule:
    """Computes by their nodes' names, and other steps, without offsets."""
    made = tuple(Step(Action.COMPUTE, step) if isinstance(step, str) else step for step in steps)
    energy_j = float(sum(step.do is Action.COMPUTE and step.target != "ready" for step in made))
    return Schedule("kept", graph_hash(graph), 1000, None, made, energy_j, energy_j, 0, 0, Status.FEASIBLE, 0, 1)


def faults_of(graph: Graph, schedule: Schedule) -> list[str]:
    """What is wrong with it, but for figures that nobody worked out."""
    report = verify(graph, schedule, check_offsets=False)
    return [fault for fault in report.faults if "is stated as" not in fault]


@pytest.mark.parametrize("dma", [False, True])
def test_a_step_with_tensors_on_the_card_is_sound(dma: bool) -> None:
    graph = kept_step(dma)
    assert faults_of(graph, computing(graph, *ONCE)) == []
    assert verify(graph, store_all_schedule(kept_step())).sound


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        (ONCE[:-1], "node commit is never computed"),
        ((*ONCE[:5], *ONCE[6:]), "parameter w on the card is written 0 times"),
        ((*ONCE[:6], Step(Action.FREE, "update"), *ONCE[5:]), "parameter w on the card is written 2 times"),
        ((*ONCE, Step(Action.FREE, "y"), "y"), "step 10 (compute y): the step is committed already"),
        ((*ONCE, Step(Action.PAGE_OUT, "y")), "step 9 (page_out y): the step is committed already"),
    ],
)
def test_each_fault_around_the_card_is_found(steps: tuple[str | Step, ...], fault: str) -> None:
    graph = kept_step()
    assert any(fault in line for line in faults_of(graph, computing(graph, *steps)))


@pytest.mark.parametrize(
    ("steps", "serial_s", "overlapped_s"),
    [
        # The fetches keep the bus busy until 2, and the product waits for both.
        (ONCE, 8.0, 8.0),
        # w is fetched again while y is computed.
        ((*ONCE[:3], Step(Action.FREE, "w..fetch"), "w..fetch", *ONCE[3:]), 9.0, 8.0),
        # A value that is freed while it arrives is waited for.
        ((*ONCE[:3], Step(Action.FREE, "w..fetch"), "w..fetch", Step(Action.FREE, "w..fetch"), "y"), 5.0, 5.0),
        # The page-out of the product, 2 s, runs beside y and the gradient; the update needs the bus until then.
        ((*ONCE[:3], Step(Action.PAGE_OUT, "product"), *ONCE[3:]), 10.0, 8.0),
        # The update holds both: what comes after it starts when it ends.
        ((*ONCE[:5], Step(Action.PAGE_OUT, "gradient"), *ONCE[5:]), 10.0, 10.0),
    ],
)
def test_cpu_and_bus_are_used_as_nodes_say(steps: tuple[str | Step, ...], serial_s: float, overlapped_s: float) -> None:
    for dma, time_s in ((False, serial_s), (True, overlapped_s)):
        graph = kept_step(dma)
        assert verify(graph, computing(graph, *steps), check_offsets=False).time_s == pytest.approx(time_s)
