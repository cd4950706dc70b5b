# SPDX-License-Identifier: Apache-2.0
"""`poet-plan compare` and `methods`: what they print and write."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn
from xml.etree import ElementTree

import pytest
from poet_planner.cli import app
from poet_planner.comparison.compare import Setting, Subject, answers, compare, write_picture
from poet_planner.comparison.registry import METHODS, method_named
from poet_planner.solve import NoScheduleError, OptimiseOptions
from poet_planner.solve.options import Refused
from poet_profiles.errors import UserError
from poet_profiles.graph import PageCost
from typer.testing import CliRunner

from benchmarks.planner.layered import layered_graph
from tests.support.graphs.chains import training_chain
from tests.support.graphs.paper_graphs import FOLDER, paper_graph

GRAPH = FOLDER / "linear.a72.json"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_methods_lists_all_with_their_sources() -> None:
    listed = json.loads(run("methods", "--json"))
    assert [one["name"] for one in listed] == [method.name for method in METHODS]
    assert all(one["source"] and one["decides"] for one in listed)
    text = run("methods")
    assert all(method.name in text for method in METHODS)
    assert "Griewank and Walther 2000" in text


def test_compare_writes_a_row_for_each_method_and_pictures(tmp_path: Path) -> None:
    out = tmp_path / "compare"
    wanted = "store_all,revolve,dtr,pofo_energy"
    limits = ("--ram", "60%", "--time-limit", "1")
    text = run("compare", "--graph", str(GRAPH), *limits, "--methods", wanted, "--out", str(out))
    with (out / "compare.csv").open(newline="") as stream:
        rows = {row["method"]: row for row in csv.DictReader(stream)}
    assert next(iter(rows)) == "optimal"
    assert set(rows) == {"optimal", *wanted.split(",")}
    assert rows["store_all"]["status"] == "none"
    assert "needs 7416 B of RAM" in rows["store_all"]["note"]
    planned = [row for row in rows.values() if row["status"] != "none"]
    assert len(planned) == 4
    for row in planned:
        parts_j = sum(float(row[name]) for name in ("recompute_j", "page_in_j", "page_out_j"))
        store_all_j = float(row["plain_energy_j"])
        assert float(row["energy_j"]) == pytest.approx(store_all_j + parts_j)
        assert float(row["overhead"]) == pytest.approx(parts_j / store_all_j)
        assert float(row["ram_of_plain"]) == pytest.approx(0.6, rel=1e-3)
        assert float(rows["optimal"]["energy_j"]) <= float(row["energy_j"]) * (1 + 1e-9)
        assert row["method"] in text
    assert int(rows["pofo_energy"]["page_ins"]) > 0
    assert (out / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(out / "compare.svg").getroot().tag.endswith("svg")


def test_a_method_that_does_not_exist_is_refused_before_anything_is_planned(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no method 'chem'"):
        run("compare", "--graph", str(GRAPH), "--methods", "chem", "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_the_optimiser_is_never_above_another_method() -> None:
    """Whatever the time limit: it is given their plans."""
    for name, share in (("resnet18_cifar.m4", 0.5), ("resnet18_cifar.a72", 0.2), ("vgg16_cifar.m4", 0.6)):
        graph, store_all = paper_graph(name)
        names = (
            *("optimal", "chen_greedy", "revolve", "dtr", "msps", "capuchin", "pofo_energy", "page_activations"),
            *("paging_only", "rematerialization_only"),
        )
        methods = [method_named(method) for method in names]
        options = OptimiseOptions(time_limit_s=0.5)
        setting = Setting(Subject(graph, name), int(share * store_all.peak_bytes), None)
        rows = list(compare(setting, methods, options))
        assert rows[-1].method == "optimal"
        energies = [row.energy_j for row in rows if row.energy_j is not None]
        assert len(energies) >= 2  # a slow machine ends some of them
        assert energies[-1] <= min(energies) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("page_j", "technique", "other"),
    [(9.0, "rematerialization_only", "paging_only"), (0.1, "paging_only", "rematerialization_only")],
)
def test_a_proven_plan_that_does_with_one_technique_is_that_techniques_own(
    page_j: float, technique: str, other: str
) -> None:
    graph = training_chain(5)
    page = PageCost(1.0, page_j, 1.0, page_j)
    pageable = (replace(n, values=tuple(replace(v, page=page) for v in n.values)) for n in graph.nodes)
    subject = Subject(replace(graph, nodes=tuple(pageable)), "chain")
    methods = [method_named(name) for name in ("optimal", technique, other)]
    setting = Setting(subject, subject.store_all.peak_bytes - 4, None)
    rows = {row.method: row for row in compare(setting, methods, OptimiseOptions(time_limit_s=60))}
    assert rows["optimal"].status == "optimal"
    assert rows[technique].note.startswith("the optimiser's plan")
    assert rows[technique].energy_j == rows["optimal"].energy_j
    assert rows[other].note == ""
    assert rows[other].energy_j is None or rows[other].energy_j > rows["optimal"].energy_j


def test_that_none_exists_that_the_time_ended_and_that_it_was_not_run_are_three_things(tmp_path: Path) -> None:
    """In the table and in the picture."""
    graph, store_all = paper_graph("linear.a72")

    def refusing(status: Refused) -> Callable[..., NoReturn]:
        def schedule(*_: object) -> NoReturn:
            raise NoScheduleError("why; and a cure", status)

        return schedule

    statuses = {"dtr": Refused.IMPOSSIBLE, "revolve": Refused.NOT_FOUND, "chen_sqrt": Refused.NOT_RUN}
    methods = [replace(method_named(name), schedule=refusing(status)) for name, status in statuses.items()]
    setting = Setting(Subject(graph, "linear"), store_all.peak_bytes, None)
    points = list(compare(setting, [method_named("optimal"), *methods], OptimiseOptions(time_limit_s=1)))
    said = {point.method: point.status for point in points}
    assert said == {"dtr": "none", "revolve": "time", "chen_sqrt": "not run", "optimal": "optimal"}
    assert {point.note for point in points if point.energy_j is None} == {"why"}
    write_picture(setting, points, tmp_path / "compare.svg")
    drawn = (tmp_path / "compare.svg").read_text()
    assert all(f">{words}</text>" in drawn for words in ("no schedule", "none found in the time", "not run"))


def test_a_method_that_was_never_stated_was_not_run() -> None:
    """Algorithm 1 has variables for each pair of nodes."""
    graph = layered_graph(2000, 4, 0)
    setting = Setting(Subject(graph, "layered"), 10**9, None)
    [answer] = answers(setting, [method_named("poet_ilp")], OptimiseOptions(time_limit_s=1))
    assert (answer.status, answer.schedule) == ("not run", None)


def test_a_schedule_that_breaks_the_contract_is_a_failure_and_no_start() -> None:
    graph, store_all = paper_graph("linear.a72")
    broken = replace(store_all, steps=store_all.steps[:-2], energy_j=0.0)
    method = replace(method_named("dtr"), schedule=lambda *_: broken)
    setting = Setting(Subject(graph, "linear"), store_all.peak_bytes, None)
    failed, ours = compare(setting, [method_named("optimal"), method], OptimiseOptions(time_limit_s=1))
    assert failed.status == "failed" and "breaks the contract" in failed.note
    assert failed.energy_j is None
    assert ours.energy_j == pytest.approx(store_all.energy_j)
