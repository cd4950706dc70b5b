# SPDX-License-Identifier: Apache-2.0
"""What wrong costs cost: `python -m benchmarks.evaluation beliefs` makes `beliefs.csv`.

A belief is a graph with costs that may be wrong. poet plans for each, and each plan is priced in the world of each
belief. The regret of a plan in a world is what it costs there above the cheapest of all of these plans, as a share of
the store-all schedule's energy there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from poet_planner.comparison.code_version import code_version
from poet_planner.solve import OptimiseOptions, optimise
from poet_planner.solve.starts import cheapest_start
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph, Node, Value
from poet_profiles.schedule import Schedule

from benchmarks.evaluation.markdown import percent, table
from benchmarks.evaluation.records import read_rows, write_rows
from benchmarks.evaluation.results import HERE, NOT_RUN
from benchmarks.evaluation.subjects import paper_subject, traced_subject

PATH = HERE / "beliefs.csv"
LIMIT_S = 8.0
RIGHT = "right"
OFF = 0.2  # computes are wrong by up to so much
PAGES = 3.0  # and pages by so many times
DRAWS = (1, 2, 3)
# Network, board or profile, share of the RAM that the store-all schedule needs for values.
CASES = (
    ("resnet18_cifar", "m4", 0.2),
    ("resnet18_cifar", "a72", 0.2),
    ("bert", "m4", 0.5),
    ("vgg16_cifar", "m4", 0.5),
    ("digits_cnn", "nrf52840", 0.5),
    ("resnet18_cifar", "nrf52840", 0.2),
)
Case = tuple[str, str, float]


@dataclass(frozen=True)
class Row:
    """A plan, named by the belief that it was made for, in a world: what it adds there, and its regret."""

    model: str
    board: str
    ram_share: float
    plan: str
    world: str
    overhead: float
    regret: float
    time_limit_s: float
    code_version: str

    @property
    def case(self) -> Case:
        return self.model, self.board, self.ram_share


def beliefs(graph: Graph) -> dict[str, Graph]:
    """The graph as it is, and with costs that are wrong."""
    kinds = sorted({_kind(node) for node in graph.nodes})
    made = {RIGHT: graph}
    for draw in DRAWS:
        factors = np.random.default_rng(draw).uniform(1 - OFF, 1 + OFF, len(kinds))
        of_kind = dict(zip(kinds, factors.tolist(), strict=True))
        made[f"operators, draw {draw}"] = scaled(graph, [of_kind[_kind(node)] for node in graph.nodes])
    each = np.random.default_rng(len(kinds)).uniform(1 - OFF, 1 + OFF, len(graph.nodes))
    made["each node"] = scaled(graph, each.tolist())
    same = [1.0] * len(graph.nodes)
    return made | {"pages x 3": scaled(graph, same, PAGES), "pages / 3": scaled(graph, same, 1 / PAGES)}


def scaled(graph: Graph, computes: Sequence[float], pages: float = 1.0) -> Graph:
    """Time and energy of each node times its factor, and those of every transfer times ``pages``."""

    def value(one: Value) -> Value:
        return replace(one, page=one.page and replace(one.page, **{k: pages * v for k, v in vars(one.page).items()}))

    nodes = [
        replace(
            node,
            time_s=factor * node.time_s,
            energy_j=factor * node.energy_j,
            values=tuple(map(value, node.values)),
        )
        for node, factor in zip(graph.nodes, computes, strict=True)
    ]
    return replace(graph, nodes=tuple(nodes))


def _kind(node: Node) -> str:
    """What is wrong together: an operator, or a kind of layer of the paper's graphs."""
    return node.operation.op if node.operation else node.id.split("_", 1)[-1]


def price_j(graph: Graph, schedule: Schedule) -> float:
    """What a schedule costs by the costs of a graph, by the verifier.

    Raises
    ------
    UserError
        If it is no schedule of that graph.
    """
    priced = cheapest_start(graph, schedule.ram_budget_bytes, None, [schedule])
    if priced is None:
        raise UserError("a plan of the evaluation is no schedule of the graph that it is to be priced on")
    return priced.energy_j


def rows_of(case: Case, graph: Graph, ram: int, limit_s: float) -> list[Row]:
    """Every plan in every world."""
    worlds = beliefs(graph)
    plans = {name: optimise(world, ram, None, OptimiseOptions(time_limit_s=limit_s)) for name, world in worlds.items()}
    rows = []
    for name, world in worlds.items():
        plain_j = sum(node.energy_j for node in world.nodes)
        cost_j = {plan: price_j(world, schedule) for plan, schedule in plans.items()}
        least_j = min(cost_j.values())
        rows += [
            Row(*case, plan, name, one / plain_j - 1, (one - least_j) / plain_j, limit_s, code_version())
            for plan, one in cost_j.items()
        ]
    return rows


def _case(case: Case, limit_s: float) -> list[Row]:
    model, board, share = case
    subject = traced_subject(model, board) if board == "nrf52840" else paper_subject(model, board)
    resident = subject.graph.resident_bytes
    ram = int(share * (subject.store_all.peak_bytes - resident)) + resident
    return rows_of(case, subject.graph, ram, limit_s)


def run_beliefs(limit_s: float = LIMIT_S, path: Path = PATH, plan: Callable[[Case, float], list[Row]] = _case) -> None:
    """Make the cases that the table lacks: of another limit, or by other code, they are made anew."""
    asked = limit_s, code_version()
    of_case: dict[Case, list[Row]] = {}
    for row in read_rows(path, Row):
        if (row.time_limit_s, row.code_version) == asked:
            of_case.setdefault(row.case, []).append(row)
    for case in CASES:
        if case not in of_case:
            of_case[case] = plan(case, limit_s)
            write_rows([row for one in CASES for row in of_case.get(one, [])], Row, path)
            print(f"{case[0]} {case[1]} {case[2]:.0%}: {len(of_case[case])} rows", flush=True)


def facts(rows: Sequence[Row]) -> dict[str, str]:
    """What the page says of it: the regret of the plan for what is believed, where another world is the true one."""
    lines = []
    for model, board, share in CASES:
        here = {row.world: row for row in rows if row.case == (model, board, share) and row.plan == RIGHT}
        lines.append([model, board, percent(share), *(_cells(here) if here else [NOT_RUN] * 5)])
    header = [
        "network",
        "board",
        "RAM, %",
        "as believed, %",
        "operators off",
        "each node off",
        "pages x 3",
        "pages / 3",
    ]
    return {"table": table(header, lines)}


def _cells(of: Mapping[str, Row]) -> list[str]:
    drawn = [row.regret for world, row in of.items() if world.startswith("operators")]
    return [
        percent(of[RIGHT].overhead),
        f"{percent(min(drawn))} to {percent(max(drawn))}",
        *(percent(of[world].regret) for world in ("each node", "pages x 3", "pages / 3")),
    ]
