# SPDX-License-Identifier: Apache-2.0
"""The contest plans what brute force finds over all forms of drawn steps in bands."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from poet_planner.graph.layout import GRADIENTS_RESIDENT, Bands, MemoryLayout
from poet_planner.planning.bench import Bench
from poet_planner.planning.contest import Contest
from poet_planner.planning.costed_step import CostedStep
from poet_planner.planning.families import Family
from poet_planner.planning.method import OPTIMAL
from poet_planner.planning.request import Request
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import NoScheduleError, OptimiseOptions
from poet_profiles.graph import Graph, Node, Value
from poet_profiles.graph.sizes import smallest_ram_bytes
from poet_profiles.graph.validation import check_graph

from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.random_graphs import random_graph
from tests.support.levels import examples

LAYOUTS = {1: GRADIENTS_RESIDENT, **{count: MemoryLayout(bands=Bands(count, 0, 0)) for count in (2, 3)}}


class Menu(Bench):
    """A step in several forms, by layout."""

    def __init__(self, forms: dict[int, Graph], ram_bytes: int) -> None:
        super().__init__(Request(forms[1], ram=ram_bytes))
        self.forms = {LAYOUTS[count]: graph for count, graph in forms.items()}

    def step(self, layout: MemoryLayout) -> CostedStep:
        return CostedStep(self.forms[layout], layout, None)


WHOLE = Family("whole", lambda bench: [[LAYOUTS[1]]])
IN_BANDS = Family("bands", lambda bench: [[LAYOUTS[2], LAYOUTS[3]]], handicap_j=lambda form: 0.0)


def in_bands(graph: Graph, place: int, count: int, more: float) -> Graph:
    """With a node as several that add to each other: less workspace, more energy."""
    node, bands = graph.nodes[place], list[Node]()
    for number in range(count):
        so_far = bands[-1].values[0].id if bands else None
        last = number == count - 1
        own = node.values if last else (Value(f"{node.id}..rows{number}", node.values[0].bytes),)
        takes_over = {own[0].id: so_far} if so_far is not None else {}
        bands.append(
            replace(
                node,
                id=node.id if last else own[0].id,
                values=own,
                inputs=(*node.inputs, *([so_far] if so_far is not None else [])),
                workspace_bytes=-(-node.workspace_bytes // count),
                time_s=node.time_s / count,
                energy_j=node.energy_j * (1 + more * (count - 1)) / count,
                takes_over=takes_over,
            )
        )
    return replace(graph, nodes=(*graph.nodes[:place], *bands, *graph.nodes[place + 1 :]))


def drawn(seed: int) -> tuple[dict[int, Graph], int]:
    """Forms of a step by the number of bands, and a RAM that is too small for some of them."""
    draw = random.Random(seed)
    graph = random_graph(seed, most_nodes=5)
    made = [place for place, node in enumerate(graph.nodes) if node.values[0].bytes]
    place = draw.choice(made or [0])
    large = replace(graph.nodes[place], workspace_bytes=draw.randint(8, 48))
    graph = replace(graph, nodes=(*graph.nodes[:place], large, *graph.nodes[place + 1 :]))
    forms = {1: graph}
    if made:
        more = draw.choice((0.05, 0.2, 0.5))
        forms |= {count: in_bands(graph, place, count, more) for count in (2, 3)}
    else:
        forms |= {2: graph, 3: graph}
    for one in forms.values():
        check_graph(one)
    least = min(smallest_ram_bytes(one) for one in forms.values())
    return forms, draw.randint(least - 4, store_all_schedule(graph).peak_bytes)


def check(seed: int) -> int:
    """Which form it is; 0: there is none."""
    forms, ram_bytes = drawn(seed)
    least = {count: least_energy(graph, ram_bytes, None) for count, graph in forms.items()}
    contest = Contest(Menu(forms, ram_bytes), (WHOLE, IN_BANDS))
    try:
        contest.choose()
        outcome = contest.plan(OPTIMAL, OptimiseOptions(time_limit_s=60))
    except NoScheduleError:
        assert math.isinf(min(least.values())), seed
        return 0
    assert verify(outcome.form.graph, outcome.schedule).faults == (), seed
    assert outcome.schedule.energy_j == pytest.approx(min(least.values()), rel=1e-9), seed
    for row in outcome.table:
        form = next(count for count, layout in LAYOUTS.items() if layout.details == row.form)
        assert row.bound_j is None or row.bound_j <= least[form] * (1 + 1e-9), seed
    return next(count for count, layout in LAYOUTS.items() if layout == outcome.form.layout)


def test_the_plan_of_a_menu_is_that_of_brute_force() -> None:
    found = [check(seed) for seed in range(examples(60))]
    assert {1, 2, 3} <= {*found}
