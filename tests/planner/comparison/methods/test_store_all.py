# SPDX-License-Identifier: Apache-2.0
"""Store-all in micro-batches: the fewest parts that fit, counted by hand; beside the optimiser, never a start of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
import torch
from poet_planner import plan
from poet_planner.cli import app
from poet_planner.comparison.compare import MethodResult, Setting, answers, point_of, subject_of, with_parts
from poet_planner.comparison.methods.single_schedules import STORE_ALL_IN_MICRO_BATCHES
from poet_planner.graph.layout import PARAMETERS_EXCLUDED, MemoryLayout
from poet_planner.models import Model
from poet_planner.planning.bench import Bench
from poet_planner.planning.method import OPTIMAL, Aware
from poet_planner.planning.request import Request
from poet_planner.solve import OptimiseOptions
from poet_profiles.errors import NO_SCHEDULE, UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.file import write_graph
from torch import nn
from torch.nn.functional import cross_entropy
from typer.testing import CliRunner

BOARD, MODEL, BATCH = "nrf52840", "digits_cnn_small", 4
OPTIONS = OptimiseOptions(time_limit_s=1.0)


@cache
def graph_of(parts: int) -> Graph:
    return Bench(Request(MODEL, BOARD)).step(MemoryLayout(micro_batches=parts)).graph


def peak_by_hand(graph: Graph) -> int:
    """Residents, and the most that is held at once if nothing is freed before its last use."""

    def words(count: int) -> int:
        return -(-count // 4) * 4

    last = {id: number for number, node in enumerate(graph.nodes) for id in node.inputs}
    over = {id: number for number, node in enumerate(graph.nodes) for id in node.takes_over.values()}
    lives = [
        (number, over.get(value.id, last.get(value.id, number) + 1), words(value.bytes))
        for number, node in enumerate(graph.nodes)
        for value in node.values
    ]
    held = [
        words(node.workspace_bytes) + sum(size for first, end, size in lives if first <= number < end)
        for number, node in enumerate(graph.nodes)
    ]
    return graph.resident_bytes + max(held)


def energy_by_hand(graph: Graph, parts: int) -> float:
    """What changes a parameter counts once, all else for each part."""
    kept = {resident.id for resident in graph.residents if resident.kind == "parameter"}
    return sum(
        node.energy_j * (1 if node.operation and kept & {*node.operation.results} else parts) for node in graph.nodes
    )


def setting(ram: int, model: str | Model = MODEL, profile: str = BOARD, parameters: str = "resident") -> Setting:
    bench = Bench(Request(model, profile, parameters=parameters, micro_batches=1))
    step = bench.step(PARAMETERS_EXCLUDED if parameters == "excluded" else MemoryLayout())
    return with_parts(Setting(subject_of(step, None, None), ram, None), bench, step)


def answered(problem: Setting) -> list[MethodResult]:
    return list(answers(problem, [STORE_ALL_IN_MICRO_BATCHES], OPTIONS))


def test_the_fewest_parts_that_fit_at_the_costs_of_the_batch() -> None:
    assert STORE_ALL_IN_MICRO_BATCHES.memory_aware is Aware.YES
    peaks = {parts: peak_by_hand(graph_of(parts)) for parts in (1, 2, 4)}
    assert peaks[1] > peaks[2] > peaks[4]
    for ram, parts in ((peaks[1], 1), (peaks[1] - 4, 2), (peaks[2], 2), (peaks[2] - 4, 4), (19500, 4)):
        problem = setting(ram)
        [answer] = answered(problem)
        point = point_of(problem, answer, OPTIONS)
        assert point.peak_bytes == peaks[parts]
        assert point.energy_j == pytest.approx(energy_by_hand(graph_of(parts), parts))
        assert point.plain_energy_j == pytest.approx(sum(node.energy_j for node in graph_of(1).nodes))
        assert (point.recomputes, point.page_ins, point.bound_j) == (0, 0, None)
        assert (point.status, point.note) == (("optimal", "") if parts == 1 else ("feasible", f"{parts} micro-batches"))
    [answer] = answered(setting(peaks[4] - 4))
    assert answer.schedule is None
    assert answer.note.startswith("the store-all (4 micro-batches) schedule needs 19000 B of RAM")  # offsets included


def normed() -> Model:
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    return Model("normed", module, (torch.randn(4, 1, 8, 8),), (torch.randint(10, (4,)),), cross_entropy)


@pytest.mark.parametrize(
    ("problem", "note"),
    [
        (lambda: setting(9000, normed()), "--micro-batches 2: 1 normalises by the statistics of the whole batch"),
        (
            lambda: setting(20000, profile="a72"),
            "--micro-batches 2: a Linux board adds up what you call it for: plan with --batch 2, and call the step 2",
        ),
        (lambda: setting(9000, parameters="excluded"), "--parameters excluded: micro-batches need sums of gradients"),
    ],
)
def test_what_has_no_parts_says_why(problem: Callable[[], Setting], note: str) -> None:
    [answer] = answered(problem())
    assert (answer.schedule, answer.status) == (None, "not run")
    assert answer.note.startswith(note)


def test_the_optimiser_plans_the_whole_batch_beside_it() -> None:
    """Its schedules are of another graph: they are no starts, and not the optimiser's."""
    problem = setting(24 * 1024)
    parts, best = answers(problem, [OPTIMAL, STORE_ALL_IN_MICRO_BATCHES], OPTIONS)
    assert parts.schedule is not None and best.schedule is not None
    assert parts.schedule.energy_j < best.schedule.energy_j
    assert best.note == ""
    assert best.schedule.graph_hash == problem.subject.graph_hash != parts.schedule.graph_hash


def test_a_plan_by_it() -> None:
    made = plan(MODEL, profile=BOARD, ram=peak_by_hand(graph_of(2)), method="store_all_micro_batches")
    assert (made.summary.micro_batches, made.summary.recomputes, made.summary.page_ins) == (2, 0, 0)
    assert made.summary.energy_j == pytest.approx(energy_by_hand(graph_of(2), 2))
    assert made.why_no_headers is None
    with pytest.raises(UserError, match=r"the store-all \(4 micro-batches\) schedule needs") as lack:
        plan(MODEL, profile=BOARD, ram="14KB", method="store_all_micro_batches")
    assert lack.value.exit_code == NO_SCHEDULE


def test_compare_and_sweep_have_a_row_of_it(tmp_path: Path) -> None:
    ram = peak_by_hand(graph_of(2))
    words = ["--methods", "store_all_micro_batches", "--time-limit", "0.5", "--profile", BOARD, "--model", MODEL]
    for verb, table in (("compare", "compare.csv"), ("sweep", "points.csv")):
        result = CliRunner().invoke(app, [verb, *words, "--ram", str(ram), "--out", str(tmp_path / verb)])
        assert result.exit_code == 0, result.output
        rows = pd.read_csv(tmp_path / verb / table).set_index("method")
        assert rows.loc["store_all_micro_batches", "peak_bytes"] == ram
        assert rows.loc["store_all_micro_batches", "nodes"] == len(graph_of(2).nodes)
    write_graph(graph_of(1), tmp_path / "graph.json")
    of_graph = [*words[:4], "--graph", str(tmp_path / "graph.json"), "--ram", str(ram)]
    result = CliRunner().invoke(app, ["compare", *of_graph, "--out", str(tmp_path / "of_graph")])
    assert result.exit_code == 0, result.output
    notes = pd.read_csv(tmp_path / "of_graph" / "compare.csv").set_index("method")["note"]
    assert notes["store_all_micro_batches"].startswith("a graph says in how many parts a batch goes through it")
