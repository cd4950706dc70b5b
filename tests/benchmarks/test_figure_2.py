# SPDX-License-Identifier: Apache-2.0
"""The eight-layer network of the paper's Figure 2: its schedule is the optimiser's, and no schedule is cheaper."""

from __future__ import annotations

import heapq

import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.timeline import CostTerm
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions, optimise
from poet_profiles.graph import Graph
from poet_profiles.schedule import Action, Schedule

from benchmarks.evaluation.figure_2 import Cell, cells, instance

GRAPH, SCHEDULE = instance()
PLAIN_J = sum(node.energy_j for node in GRAPH.nodes)


def decisions(schedule: Schedule) -> tuple[list[str], list[str], list[str]]:
    """What is paged out, paged in and computed for the second time, each in order."""
    of = {action: [step.target for step in schedule.steps if step.do is action] for action in Action}
    computed = of[Action.COMPUTE]
    again = [target for place, target in enumerate(computed) if target in computed[:place]]
    return of[Action.PAGE_OUT], of[Action.PAGE_IN], again


def test_the_shipped_schedule_pages_l5_and_l6_and_recomputes_l2_and_l3_when_the_paper_does() -> None:
    report = verify(GRAPH, SCHEDULE)
    assert report.sound, report.faults
    assert decisions(SCHEDULE) == (["L5", "L6"], ["L6", "L5"], ["L2", "L3"])
    marks = cells(GRAPH, SCHEDULE)
    # As printed, but that L2 is recomputed before L3, and both before L3's gradient.
    printed = {
        Cell(6, 5, CostTerm.PAGE_OUT),
        Cell(7, 6, CostTerm.PAGE_OUT),
        Cell(10, 6, CostTerm.PAGE_IN),
        Cell(11, 5, CostTerm.PAGE_IN),
    }
    assert printed | {Cell(14, 2, CostTerm.RECOMPUTE), Cell(15, 3, CostTerm.RECOMPUTE)} <= set(marks)
    forward = [cell.layer for cell in marks if cell.what is CostTerm.COMPUTE]
    assert forward == list(range(1, 9))
    assert max(cell.timestep for cell in marks) == 18


def test_the_optimiser_decides_the_same() -> None:
    made = optimise(GRAPH, SCHEDULE.ram_budget_bytes, SCHEDULE.deadline_s, OptimiseOptions(time_limit_s=2.0))
    assert made.energy_j == pytest.approx(SCHEDULE.energy_j)
    assert decisions(made) == decisions(SCHEDULE)


def test_no_schedule_is_cheaper() -> None:
    """Neither with more time nor without: a deadline and transfers beside computes only take schedules away."""
    added_j = SCHEDULE.energy_j - PLAIN_J
    assert least_added_j(GRAPH, SCHEDULE.ram_budget_bytes, added_j - 1e-6) is None
    assert least_added_j(GRAPH, store_all_schedule(GRAPH).peak_bytes, 0.0) == 0.0  # the search finds what there is


def least_added_j(graph: Graph, ram_bytes: int, most_j: float) -> float | None:
    """The least energy above one compute of each node, over all states (computed, in RAM, on the card), by Dijkstra.

    None where it is above ``most_j``.

    Each node has one value. A value is written to the card as it is computed or not at all, and freed only where
    something else lacks room: neither changes what schedules cost.
    """
    nodes = graph.nodes
    place = {node.id: number for number, node in enumerate(nodes)}
    values = [node.values[0] for node in nodes]
    needs = [sum(1 << place[id] for id in node.inputs) for node in nodes]
    queue = [(0.0, 0, 0, 0)]
    seen = set()

    def reach(added: float, *state: int) -> None:
        if added <= most_j and state not in seen:
            heapq.heappush(queue, (added, *state))

    while queue:
        added, *state = heapq.heappop(queue)
        computed, ram, card = state
        if computed == (1 << len(nodes)) - 1:
            return added
        if tuple(state) in seen:
            continue
        seen.add(tuple(state))
        room = ram_bytes - sum(value.bytes for number, value in enumerate(values) if ram >> number & 1)
        missing = False
        for number, (node, value) in enumerate(zip(nodes, values, strict=True)):
            bit = 1 << number
            again = bool(computed & bit)
            computable = ram & needs[number] == needs[number] and (node.recomputable or not again)
            if ram & bit or not (computable or card & bit):
                continue
            if value.bytes > room:
                missing = True
                continue
            page, after = value.page, added + (node.energy_j if again else 0.0)
            if computable:
                reach(after, computed | bit, ram | bit, card)
                if page and not card & bit:
                    reach(after + page.out_energy_j, computed | bit, ram | bit, card | bit)
            if page and card & bit:
                reach(added + page.in_energy_j, computed, ram | bit, card)
        if missing:
            for number in range(len(nodes)):
                if ram >> number & 1:
                    reach(added, computed, ram & ~(1 << number), card)
    return None
