# SPDX-License-Identifier: Apache-2.0
"""The evaluation's sweeps: what they plan, and that their committed tables are theirs and hold what is claimed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from poet_planner.comparison.compare import chosen, place_of
from poet_planner.comparison.registry import method_named
from poet_planner.comparison.sweep_table import PointKey, read_points
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions
from poet_profiles.errors import UserError
from poet_profiles.graph.file import graph_hash
from poet_profiles.schedule import Action

from benchmarks.evaluation import sweeps
from benchmarks.evaluation.__main__ import run
from benchmarks.evaluation.subjects import paper_subject, traced_subject
from benchmarks.evaluation.sweeps import SWEEPS, Sweep
from benchmarks.planner.instances import PAPER_GRAPHS
from benchmarks.planner.paper_tx2 import MODELS, graph_text

OF_THE_PAPER = [sweep for sweep in SWEEPS if sweep.subject is paper_subject]
COMMITTED = [sweep for sweep in SWEEPS if sweep.path.exists()]


@pytest.mark.parametrize("model", MODELS)
def test_the_tx2s_graphs_have_the_flops_of_the_m4s(model: str) -> None:
    """They are made from those for the a72; at one rate a board, times are FLOPs."""
    assert (PAPER_GRAPHS / f"{model}.tx2.json").read_text() == graph_text(model)
    tx2, m4 = (paper_subject(model, board).graph for board in ("tx2", "m4"))
    assert graph_hash(tx2) == graph_hash(m4)
    flops = [16e9 * node.time_s for node in tx2.nodes]
    assert flops == pytest.approx([16_283 * 100 * 1000 / 255.6237 * node.time_s for node in m4.nodes], rel=1e-6)
    assert [node.energy_j for node in tx2.nodes] == pytest.approx([0.766 * node.time_s for node in tx2.nodes])


def test_a_table_holds_the_points_of_its_sweep_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "HERE", tmp_path)
    sweep = Sweep("one-two", ("linear",), ("m4", "a72"), "store_all,page_all", rams=("70%",), time_limit_s=0.5)
    run(sweep)
    table = pd.read_csv(tmp_path / "one_two.csv")
    assert len(table) == 2 * 3
    assert set(table["time_limit_s"]) == {0.5}
    run(Sweep("one-two", ("linear",), ("m4",), "dtr", rams=("70%", "smallest"), time_limit_s=0.5))
    again = pd.read_csv(tmp_path / "one_two.csv")
    assert sorted(again["method"]) == ["dtr", "dtr", "optimal", "optimal"]
    # Ours of the first sweep was not planned again.
    [kept] = again[(again["method"] == "optimal") & (again["ram_of_plain"] > 0.6)]["seconds"]
    assert kept in set(table["seconds"])


@pytest.mark.parametrize("sweep", [sweep for sweep in COMMITTED if sweep in OF_THE_PAPER], ids=lambda sweep: sweep.name)
def test_a_committed_table_is_that_of_the_sweep(sweep: Sweep) -> None:
    options = OptimiseOptions(time_limit_s=sweep.time_limit_s)
    wanted: set[PointKey] = {
        place_of(setting, method, options) for setting in sweep.settings() for method in chosen(sweep.methods)
    }
    assert {point.place for point in read_points(sweep.path)} == wanted


@pytest.mark.parametrize("sweep", COMMITTED, ids=lambda sweep: sweep.name)
def test_in_a_committed_table_ours_is_never_above_another_and_has_its_gap(sweep: Sweep) -> None:
    points = pd.read_csv(sweep.path)
    assert not (points["status"] == "failed").any()
    for _, graph in points.groupby(["model", "board"]):
        graph = graph.assign(deadline_s=graph["deadline_s"].fillna(float("inf")))
        ours = graph[graph["method"] == "optimal"]
        for point in ours.itertuples():
            within = graph[
                (graph["ram_budget_bytes"] <= point.ram_budget_bytes) & (graph["deadline_s"] <= point.deadline_s)
            ]
            least_j = within["energy_j"].min()
            if point.status == "not run":
                continue
            if point.status in ("none", "time"):
                assert pd.isna(least_j)
            else:
                assert point.energy_j <= least_j * (1 + 1e-8)
                assert point.bound_j <= point.energy_j
                assert point.gap == pytest.approx(1 - point.bound_j / point.energy_j, abs=1e-8)
                assert point.peak_bytes <= point.ram_budget_bytes


def test_a_traced_network_has_the_same_structure_by_either_profile() -> None:
    emulated, published = (traced_subject("digits_cnn_small", profile) for profile in ("nrf52840", "m4"))
    assert graph_hash(emulated.graph) == graph_hash(published.graph)
    assert emulated.costs_hash != published.costs_hash
    assert (emulated.board, emulated.profile_source) == ("nrf52840", "emulated")
    assert published.profile_source == "published"


def test_figure_4_is_planned_with_the_deadline_on_computes_alone_too() -> None:
    """By energies as published: on the VGG16 in the least RAM paging keeps the store-all time, recomputing does not."""
    for board in ("m4", "a72"):
        subject = paper_subject("vgg16_cifar", f"{board}-computes")
        plain = paper_subject("vgg16_cifar", board)
        assert subject.graph_hash == plain.graph_hash and subject.costs_hash != plain.costs_hash
        assert subject.store_all.energy_j == plain.store_all.energy_j
        ram, deadline_s = 1048576, subject.store_all.time_s
        options = OptimiseOptions(time_limit_s=2.0)
        paged = method_named("paging_only").schedule(subject.graph, ram, deadline_s, options)
        assert verify(subject.graph, paged).faults == ()
        assert Action.PAGE_IN in {step.do for step in paged.steps}
        with pytest.raises(UserError):
            method_named("rematerialization_only").schedule(subject.graph, ram, deadline_s, options)


def test_below_pofo_leaves_out_what_pofo_has_no_plan_for() -> None:
    subject = paper_subject("linear", "m4")
    budgets = sweeps.below_pofo(subject, ["90%", "1%"])
    pofo = method_named("pofo_time").schedule(
        subject.graph, int(0.9 * subject.store_all.peak_bytes), None, OptimiseOptions()
    )
    assert budgets == [int(pofo.peak_bytes * sweeps.TABLE_3_RATIO)]
