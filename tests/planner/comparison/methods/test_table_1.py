# SPDX-License-Identifier: Apache-2.0
"""Table 1 of the paper, cell by cell: what each method takes into account, seen by changing it.

Nothing is taken from the methods' records: a cell is what the decisions do when a cost or a size changes, or when a
graph has no cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
from poet_planner.comparison.methods import checkmate, chen, page_activations, revolve, single_schedules
from poet_planner.comparison.methods.instance import Events, Instance
from poet_planner.comparison.methods.linearisation import blocks, cuts
from poet_planner.comparison.registry import METHODS, method_named
from poet_planner.planning.method import Aware, Method
from poet_planner.schedule.page_all import page_all_schedule
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph, Node, PageCost, Value
from poet_profiles.schedule import Action, Schedule

each_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)

TIME_LIMIT_S = 300.0  # none comes near it, but on a busy machine
FACTORS = (8.0, 0.125)
SHARES = (0.9, 0.7)  # of the store-all schedule's peak
SLOW = ("paging_only", "checkmate")  # one share, one factor and every fourth node will do

PAPER = {  # general graphs, compute aware, memory aware, power aware
    "store_all": "✓×××",
    "revolve": "××××",
    "chen_sqrt": "××××",
    "chen_greedy": "××~×",
    "checkmate": "✓✓✓×",
    "pofo_time": "×✓✓×",
    "dtr": "✓✓✓×",
    "optimal": "✓✓✓✓",
}


def chain_step() -> Graph:
    """A chain of five, forwards and back, with costs and sizes of its own for each node."""
    seconds, words = (3, 2, 4, 2, 3), (4, 7, 5, 6, 3)

    def node(id: str, cost: float, size: int, *inputs: str, backward: bool = False) -> Node:
        page = PageCost(size, 0.5 * size, size, 0.4 * size)
        return Node(id, cost, cost, (Value(id, 4 * size, page),), inputs, backward=backward)

    nodes = [node(f"a{k}", seconds[k], words[k], *([f"a{k - 1}"] if k else [])) for k in range(5)]
    for k in range(4, -1, -1):
        inputs = (f"a{k}", f"g{k + 1}") if k < 4 else (f"a{k}",)
        nodes.append(node(f"g{k}", 1.5 * seconds[k], 2, *inputs, backward=True))
    return Graph("chain", tuple(nodes))


def ladder_step() -> Graph:
    """Two chains side by side: after each node a value of both is still to be read, so nothing is a cut."""

    def node(id: str, *inputs: str, words: int = 2) -> Node:
        page = PageCost(0.5, 0.5, 0.5, 0.5)
        return Node(id, 1.0, 1.0, (Value(id, 4 * words, page),), inputs, backward=id.startswith("g"))

    nodes = [Node("in", 0.0, 0.0, (Value("p0", 4), Value("q0", 4)))]
    for k in range(1, 4):
        nodes += [node(f"p{k}", f"p{k - 1}", words=4), node(f"q{k}", f"q{k - 1}", f"p{k - 1}", words=4)]
    nodes.append(node("loss", "p3", "q3"))
    above = "loss"
    for k in range(3, 0, -1):
        nodes += [node(f"gp{k}", f"p{k}", above), node(f"gq{k}", f"q{k}", f"gp{k}")]
        above = f"gq{k}"
    return Graph("ladder", tuple(nodes))


def scaled_cost(graph: Graph, number: int, factor: float) -> Graph:
    """One node takes more time, and at the same power more energy."""
    node = graph.nodes[number]
    return _with(graph, number, replace(node, time_s=factor * node.time_s, energy_j=factor * node.energy_j))


def scaled_bytes(graph: Graph, number: int, factor: float) -> Graph:
    """The values of one node take more bytes."""
    node = graph.nodes[number]
    # A value that is too large fits nowhere, so two will do.
    times = 2.0 if factor > 1 else 0.5
    values = tuple(replace(v, bytes=4 * max(1, round(times * v.bytes / 4))) for v in node.values)
    return _with(graph, number, replace(node, values=values))


def scaled_power(graph: Graph, number: int, factor: float) -> Graph:
    """One node computes at more power, and its values are paged at more; no time changes."""
    node = graph.nodes[number]
    values = tuple(replace(v, page=_times_as_expensive(v.page, factor)) for v in node.values)
    return _with(graph, number, replace(node, energy_j=factor * node.energy_j, values=values))


def _times_as_expensive(page: PageCost | None, factor: float) -> PageCost | None:
    if page is None:
        return None
    return replace(page, out_energy_j=factor * page.out_energy_j, in_energy_j=factor * page.in_energy_j)


def _with(graph: Graph, number: int, node: Node) -> Graph:
    return replace(graph, nodes=(*graph.nodes[:number], node, *graph.nodes[number + 1 :]))


def decisions(method: Method, graph: Graph, ram: int) -> tuple[object, ...] | None:
    """What a method decides, before the cheapest of several orders is chosen; None if it has no schedule."""
    orders = ORDERS.get(method.name)
    if orders is not None:
        return tuple(tuple(events) for events in orders(Instance(graph, ram, None, OptimiseOptions())))
    if method.name in ONE_SCHEDULE:
        return _moves(ONE_SCHEDULE[method.name](graph))
    try:
        return _moves(method.schedule(graph, ram, None, OptimiseOptions(time_limit_s=TIME_LIMIT_S)))
    except UserError:
        return None


def _moves(schedule: Schedule) -> tuple[object, ...]:
    return tuple((step.do, step.target) for step in schedule.steps if step.do is not Action.FREE)


def _revolve_orders(instance: Instance) -> Iterator[Events]:
    chain = blocks(instance)
    return (revolve.order(instance, chain, snapshots) for snapshots in range(1, len(chain.forward) + 1))


ORDERS: dict[str, Callable[[Instance], Iterator[Events]]] = {
    "chen_sqrt": chen.sqrt_orders,
    "chen_greedy": chen.greedy_orders,
    "revolve": _revolve_orders,
    "checkmate_lp": checkmate.rounded_orders,
    "page_activations": lambda instance: iter([page_activations.order(instance)]),
}
ONE_SCHEDULE = {"store_all": store_all_schedule, "page_all": page_all_schedule}


@cache
def as_is(name: str, share: float) -> tuple[object, ...] | None:
    return decisions(method_named(name), chain_step(), ram_of(chain_step(), share))


def ram_of(graph: Graph, share: float) -> int:
    return int(share * store_all_schedule(graph).peak_bytes)


def changes(method: Method, change: Callable[[Graph, int, float], Graph]) -> bool:
    """Whether the decisions change when some node does; those about which something is decided are tried first."""
    graph = chain_step()
    numbers = {node.id: number for number, node in enumerate(graph.nodes)}
    tried, every = (1, 4) if method.name in SLOW else (2, 1)
    for share, factor in product(SHARES[:tried], FACTORS[:tried]):
        before = as_is(method.name, share) or ()
        decided = [move[1] for k, move in enumerate(before) if move in before[:k] or move[0] is Action.PAGE_IN]
        for number in dict.fromkeys(
            [*(numbers[id] for id in decided if id in numbers), *range(0, len(graph.nodes), every)]
        ):
            after = decisions(method, change(graph, number, factor), ram_of(graph, share))
            if after is not None and after != before:
                return True
    return False


@each_method
def test_compute_aware(method: Method) -> None:
    assert changes(method, scaled_cost) == (method.compute_aware is Aware.YES)


@each_method
def test_power_aware(method: Method) -> None:
    assert changes(method, scaled_power) == (method.power_aware is Aware.YES)


@pytest.mark.parametrize("method", [m for m in METHODS if not m.in_parts], ids=lambda method: method.name)
def test_memory_aware(method: Method) -> None:
    """In full only if it is given a budget: the families of orders are not. Of parts of a batch: test_store_all.py."""
    takes_no_budget = method.name in ONE_SCHEDULE or method.name in set(ORDERS) - {"checkmate_lp"}
    in_full = Aware.PARTLY if takes_no_budget else Aware.YES
    assert method.memory_aware is (in_full if changes(method, scaled_bytes) else Aware.NO)


@each_method
def test_general_graphs(method: Method) -> None:
    """Where nothing is a cut a method for chains has but the graph's own order, which does not fit."""
    graph = ladder_step()
    assert cuts(Instance(graph, 1 << 20, None, OptimiseOptions())) == []
    if method in (chen.SQRT, chen.GREEDY):
        # Its own candidates are the cuts; with all forward nodes, Checkmate's generalisation, it plans such graphs.
        assert method.general is Aware.NO
        return
    ram = ram_of(graph, 1.0 if method.schedule is single_schedules.STORE_ALL.schedule else 0.93)
    try:
        schedule = method.schedule(graph, ram, None, OptimiseOptions(time_limit_s=TIME_LIMIT_S))
    except UserError:
        assert method.general is Aware.NO
        return
    assert method.general is Aware.YES
    assert verify(graph, schedule).faults == ()


def test_the_cells_are_the_papers() -> None:
    marks = {Aware.YES: "✓", Aware.PARTLY: "~", Aware.NO: "×"}
    for name, cells in PAPER.items():
        method = method_named(name)
        columns = (method.general, method.compute_aware, method.memory_aware, method.power_aware)
        assert "".join(marks[column] for column in columns) == cells, name
