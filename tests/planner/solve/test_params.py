# SPDX-License-Identifier: Apache-2.0
"""The tuned numbers: what they may be, that each has its remark, and that they reach the parts."""

from __future__ import annotations

import ast
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions, Parts, Statistics, optimise, params
from poet_planner.solve.instance import Problem, build_problem
from poet_planner.solve.params import (
    DEFAULTS,
    AnnealingParams,
    EvictionParams,
    LagrangianParams,
    Params,
    PlacementParams,
    RelaxationParams,
    RetainedSetParams,
    StateSpaceParams,
)
from poet_planner.solve.search.annealer import Annealer
from poet_planner.solve.search.portfolio import Portfolio
from poet_planner.solve.statespace.abstraction import build_hierarchy
from poet_planner.solve.statistics import Context
from poet_profiles.errors import UserError

from tests.support.graphs.random_graphs import random_graph


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (AnnealingParams, {"hot": 0}),
        (AnnealingParams, {"hot": float("inf")}),
        (AnnealingParams, {"capped_share": 1.5}),
        (AnnealingParams, {"start_hot": ()}),
        (AnnealingParams, {"offspring": 2.5}),
        (EvictionParams, {"greed": (1.0, 0.5)}),
        (LagrangianParams, {"decrease": 1.0}),
        (StateSpaceParams, {"close": float("nan")}),
        (RetainedSetParams, {"segment_states": (100, 0)}),
        (RelaxationParams, {"patience": 0}),
        (PlacementParams, {"reserve": -0.1}),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(cls: type, wrong: dict[str, object]) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(UserError, match=rf"{cls.__name__}\.{name} = .*: give ") as refused:
        cls(**wrong)
    assert repr(value) in str(refused.value)


def test_each_number_says_what_it_is() -> None:
    lines = Path(params.__file__).read_text().splitlines()
    classes = [node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.ClassDef)]
    numbers = [
        (cls.name, field)
        for cls in classes
        if any(base.id == "Checked" for base in cls.bases if isinstance(base, ast.Name))
        for field in cls.body
        if isinstance(field, ast.AnnAssign)
    ]
    assert len(numbers) > 80
    bare = [
        (name, field.target.id)
        for name, field in numbers
        if isinstance(field.target, ast.Name)
        and "  # " not in lines[field.lineno - 1]
        and not lines[field.lineno - 2].strip().startswith("#")
    ]
    assert not bare


def test_annealing_that_never_cools_finds_nothing_good() -> None:
    graph = random_graph(2, 30)
    problem = build_problem(graph, int(0.6 * store_all_schedule(graph).peak_bytes), None)
    never = AnnealingParams(hot=1e6, warm=1e6, cold=1e5, start_hot=(1e6,), start_cold=1e5, cycles=1, capped_hot=1e6)
    energy_j = []
    for annealing in (AnnealingParams(), never):
        context = Context(Parts(eviction=False, energy_cap=False), replace(DEFAULTS, annealing=annealing))
        search = Annealer(problem, 0, context=context)
        search.run(60_000)
        energy_j.append(np.inf if search.incumbent is None else search.incumbent.energy)
    assert energy_j[0] < energy_j[1]


def test_coarse_abstractions_are_few_and_fine_ones_many() -> None:
    problem = build_problem(random_graph(2, 30), 1000, None)
    apart = np.arange(len(problem.size))
    few, many = (len(build_hierarchy(problem, apart, StateSpaceParams(growth=growth))) for growth in (10.0, 1.01))
    assert few < many


def test_options_hand_numbers_and_switches_to_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[Context] = []

    class Watched(Portfolio):
        def __init__(self, problem: Problem, seed: int, context: Context) -> None:
            super().__init__(problem, seed, context=context)
            handed.append(context)

    monkeypatch.setattr(import_module("poet_planner.solve.optimise"), "Portfolio", Watched)
    graph = random_graph(2, 30)
    options = OptimiseOptions(
        time_limit_s=1,
        parts=Parts(crossover=False),
        params=replace(DEFAULTS, annealing=AnnealingParams(cycles=2)),
        statistics=Statistics(),
    )
    schedule = optimise(graph, 2 * store_all_schedule(graph).peak_bytes, None, options)
    assert verify(graph, schedule).faults == ()
    assert handed == [Context(options.parts, options.params, options.statistics or Statistics())]


def test_every_class_of_numbers_is_reachable() -> None:
    reachable = {type(getattr(DEFAULTS, field.name)) for field in fields(Params)}
    classes = {cls for cls in vars(params).values() if isinstance(cls, type) and issubclass(cls, params.Checked)}
    assert classes - {params.Checked} == reachable | {params.RepairStrategy, params.FirstRun}
