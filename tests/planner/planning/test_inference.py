# SPDX-License-Identifier: Apache-2.0
"""The inference that is planned beside a training step: within its RAM, in its folder, or why there is none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from poet_planner import Model, OptimiseOptions, plan, verify
from poet_planner.planning.beside import plan_inference
from poet_planner.planning.form import Form
from poet_planner.planning.pipeline import prepare
from poet_planner.planning.request import Request
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.errors import FaultError, UserError
from poet_profiles.graph import Graph, Node, Resident
from poet_profiles.graph.file import read_graph
from poet_profiles.graph.sizes import smallest_ram_bytes
from poet_profiles.graph.validation import check_graph
from poet_profiles.losses import Loss
from poet_profiles.plan_folder.beside import Inference
from poet_profiles.plan_folder.files import read_plan
from poet_profiles.schedule import Action
from poet_profiles.schedule.file import read_schedule
from torch import Tensor, nn


class Hourglass(nn.Module):
    """In the middle of it one value waits for long beside large ones."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.wide = nn.Linear(6, 300), nn.Linear(300, 300)
        self.narrow, self.last = nn.Linear(300, 4), nn.Linear(4, 300)

    def forward(self, x: Tensor) -> Tensor:
        early = torch.relu(self.first(x))
        return self.last(self.narrow(torch.relu(self.wide(early)))) + early


def model() -> Model:
    target = torch.zeros(2, dtype=torch.int64)
    return Model("hourglass", Hourglass(), (torch.randn(2, 6),), (target,), nn.functional.cross_entropy)


@pytest.fixture(scope="module")
def prepared() -> Form:
    return prepare(Request(model(), profile="m4", ram="2MB"))


def test_a_plan_has_one_in_its_folder_until_there_is_none(tmp_path: Path) -> None:
    made = plan(model(), profile="m4", ram="2MB", method="store_all")
    assert made.why_no_inference is None
    assert made.inference is not None
    made.write(tmp_path)
    graph, schedule = (tmp_path / "inference" / name for name in ("graph.json", "schedule.json"))
    assert read_graph(graph) == made.inference.graph
    assert read_schedule(schedule) == made.inference.schedule
    summary = json.loads((tmp_path / "summary.json").read_text())["inference"]
    assert summary["ram_bytes"] == made.inference.ram_bytes
    assert 0 < summary["energy_j"] < made.summary.energy_j
    assert "POET_BUILT_INFERENCE" in (tmp_path / "poet_schedule.h").read_text()
    other = plan(tmp_path / "graph.json", ram="2MB", method="store_all")
    other.write(tmp_path)
    assert not graph.exists()
    assert not schedule.exists()
    assert "POET_BUILT_INFERENCE" not in (tmp_path / "poet_schedule.h").read_text()


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_the_summary_says_how_the_loss_reads_the_output(tmp_path: Path, micro_batches: int) -> None:
    named = replace(model(), classes=tuple(f"class {number}" for number in range(300)))
    plan(named, profile="m4", ram="2MB", method="store_all", micro_batches=micro_batches).write(tmp_path)
    said = json.loads((tmp_path / "summary.json").read_text())["inference"]
    assert said["loss"] == {"name": "cross_entropy", "class_axis": 1}
    assert said["classes"] == list(named.classes)
    found = read_plan(tmp_path).inference
    assert found is not None
    assert (found.loss, found.classes) == (Loss("cross_entropy", 1), named.classes)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("loss", "cross_entropy"),
        ("loss", {"name": "cross_entropy", "class_axis": 2}),
        ("loss", {"name": "cross_entropy", "class_axis": None}),
        ("loss", {"name": "mse_loss", "class_axis": 1}),
        ("loss", {"name": ["mse_loss"]}),
        ("loss", {"name": "huber_loss"}),
        ("classes", "a"),
        ("classes", [1]),
    ],
)
def test_a_summary_that_says_something_else_is_refused(tmp_path: Path, key: str, value: object) -> None:
    plan(model(), profile="m4", ram="2MB", method="store_all").write(tmp_path)
    document = json.loads((tmp_path / "summary.json").read_text())
    said = document["inference"]
    document["inference"] = said | {key: value}
    (tmp_path / "summary.json").write_text(json.dumps(document))
    with pytest.raises(UserError, match=f"summary.json: inference.{key}.*: .*; plan again"):
        read_plan(tmp_path)
    document["inference"] = said | {"graph_hash": "0" * 16}
    (tmp_path / "summary.json").write_text(json.dumps(document))
    found = read_plan(tmp_path).inference
    assert found is not None
    assert (found.loss, found.classes) == (None, ())  # it is another plan's


def test_where_everything_fits_nothing_is_paged(prepared: Form) -> None:
    found = plan_inference(prepared.step, prepared.store_all)
    assert isinstance(found, Inference)
    assert found.schedule.energy_j == store_all_schedule(found.graph).energy_j
    assert found.schedule.ram_budget_bytes == prepared.store_all.ram_budget_bytes
    assert {step.do for step in found.schedule.steps} == {Action.COMPUTE, Action.FREE}


def test_where_not_everything_fits_it_is_planned(prepared: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poet_planner.planning.beside.SECONDS", 60.0)  # it ends when nothing is better
    step = prepared.step
    whole = plan_inference(step, prepared.store_all)
    assert isinstance(whole, Inference)
    least = smallest_ram_bytes(whole.graph)
    assert least < whole.ram_bytes
    found = plan_inference(step, replace(prepared.store_all, ram_budget_bytes=least))
    assert isinstance(found, Inference)
    assert found.ram_bytes <= least
    assert verify(found.graph, found.schedule).sound
    assert found.schedule.energy_j > whole.schedule.energy_j
    sample_bytes = whole.own(step.graph)[0].bytes
    sharing = plan_inference(step, replace(prepared.store_all, ram_budget_bytes=least - sample_bytes))
    assert isinstance(sharing, Inference) and sharing.shares_inputs(step.graph)
    between = plan_inference(step, replace(prepared.store_all, ram_budget_bytes=least - sample_bytes - 4))
    assert isinstance(between, Inference) and between.is_between_batches(step.graph)
    gradients = {
        id for one in step.graph.residents if one.kind == "gradient" for id in range(one.offset, one.offset + one.bytes)
    }
    assert all({*range(one.offset, one.offset + one.bytes)} <= gradients for one in between.own(step.graph))
    assert verify(between.graph, between.schedule).sound
    own_bytes = sum(one.bytes for one in whole.own(step.graph))
    none = plan_inference(step, replace(prepared.store_all, ram_budget_bytes=least - own_bytes - 4))
    assert isinstance(none, str)


def test_where_the_batchs_input_is_the_room_that_lacks_it_is_shared(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(256, 8), nn.ReLU(), nn.Linear(8, 3))
    target = torch.zeros(4, dtype=torch.int64)
    wide = Model("wide", module, (torch.randn(4, 256),), (target,), nn.functional.cross_entropy)
    asked: dict[str, Any] = {"profile": "m4", "method": "store_all", "micro_batches": 4}
    roomy = plan(wide, ram="2MB", **asked)
    tight = plan(wide, ram=f"{store_all_schedule(roomy.graph).ram_budget_bytes}", **asked)
    assert roomy.inference is not None and tight.inference is not None, tight.why_no_inference
    assert not roomy.inference.shares_inputs(roomy.graph)
    assert tight.inference.shares_inputs(tight.graph)
    assert tight.inference.ram_bytes == roomy.inference.ram_bytes - 4 * 256 <= tight.schedule.ram_budget_bytes
    given, output = tight.inference.own(tight.graph)
    batch = next(one for one in tight.graph.residents if one.kind == "input")
    assert (given.offset, output.offset) == (batch.offset, tight.graph.resident_bytes)
    tight.write(tmp_path)
    assert read_plan(tmp_path).inference is not None


@pytest.mark.parametrize("sharing", [{"bytes": 1028, "shape": (1, 257)}, {"offset": 4}, {"kind": "history"}])
def test_nothing_else_shares_a_place(sharing: dict[str, Any]) -> None:
    batch, output = Resident("x", "input", 1024, 0, (1, 256)), Resident("y", "output", 4, 2048, (1, 1))
    own = replace(Resident("inference.x", "input", 1024, 0, (1, 256)), **sharing)
    graph = Graph("shared", (Node("n", 0.0, 0.0, ()),), 2052, residents=(batch, own, output))
    with pytest.raises(FaultError, match="overlaps"):
        check_graph(graph)


@pytest.mark.parametrize(
    ("network", "options", "words"),
    [
        (model(), {"parameters": "excluded"}, "its parameters are excluded from RAM"),
        (model(), {"profile": "a72"}, "its board runs PyTorch"),
        (replace(model(), module=nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3, track_running_stats=False))), {},
         "Expected more than 1 value per channel"),
    ],
)  # fmt: skip
def test_why_there_is_none(network: Model, options: dict[str, str], words: str) -> None:
    limits = OptimiseOptions(time_limit_s=1)
    made = plan(network, **{"profile": "m4", "ram": "2MB", "method": "store_all", "options": limits, **options})  # type: ignore[arg-type]
    assert made.inference is None
    assert made.why_no_inference is not None
    assert words in made.why_no_inference
