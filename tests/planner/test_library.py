# SPDX-License-Identifier: Apache-2.0
"""`import poet_planner`: what it offers, its types, and the examples of docs/library.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import poet_planner
import pytest
import torch
from poet_planner.graph.optimizer import Method
from poet_profiles.errors import UserError

from tests.support import ROOT
from tests.support.programs import poet_plan

HEAVY = ("torch", "pyomo", "pandas", "matplotlib", "numpy")
MISUSE = """
import poet_planner
from poet_planner import Graph, plan

reveal_type(plan("digits_cnn").schedule.energy_j)
reveal_type(poet_planner.optimise(plan("digits_cnn").graph, 1024))
reveal_type(poet_planner.verify)
poet_planner.plam
plan(3)
plan("digits_cnn", ram=[1])
Graph("mine", nodes=1)
"""


def examples() -> list[str]:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "library.md").read_text(), re.DOTALL)
    assert len(blocks) == 5
    return blocks


def test_the_examples_of_the_page_run_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in examples():
        exec(compile(block, "docs/library.md", "exec"), names)
    printed = capsys.readouterr().out
    assert re.search(r"impossible: less than \d+ B cannot do, \d+ B do", printed)
    assert "peak 262144 B" in printed
    assert re.search(r"found by: (?!None)\w+", printed)
    assert re.search(r"placed: \(\d+, \d+, \d+, \d+, \d+\)", printed)
    planned = names["planned"]
    assert isinstance(planned, poet_planner.Plan)
    assert planned.summary.peak_bytes <= planned.schedule.ram_budget_bytes < planned.summary.plain_peak_bytes
    assert (tmp_path / "plan" / "poet_schedule.h").exists()
    assert poet_plan("verify", "plan/graph.json", "plan/schedule.json") == 0


def test_planning_leaves_the_users_model_as_it_is() -> None:
    """A batch norm's statistics, gradients, the random generator: running a step would change them."""
    module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Dropout(0.5))
    batch = torch.randn(4, 6)
    model = poet_planner.Model("mine", module, (batch,), (torch.zeros(4, 5),), torch.nn.functional.mse_loss)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    batch_before, random_before = batch.clone(), torch.get_rng_state()
    for profile in ("m4", "a72"):
        planned = poet_planner.plan(model, profile=profile, method="store_all", ram="110%")
        assert poet_planner.verify(planned.graph, planned.schedule).sound
    after = module.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert all(parameter.grad is None for parameter in module.parameters())
    assert torch.equal(batch, batch_before)
    assert torch.equal(torch.get_rng_state(), random_before)


@pytest.mark.parametrize("method", Method)
def test_an_optimisers_name_is_as_good_as_its_method(method: Method) -> None:
    """A text in its place would not be what the operators are chosen by: AdamW would be Adam."""
    name: Any = str(method)
    options: Any = {"sgd": {"momentum": 0.9}, "adam": {"eps": 1e-6}, "adamw": {"weight_decay": 0.1}}[name]
    assert poet_planner.Optimizer(name, **options).method is method
    assert poet_planner.Optimizer(name, **options) == poet_planner.Optimizer(method, **options)


def test_another_optimiser_is_refused() -> None:
    name: Any = "rmsprop"
    with pytest.raises(UserError, match="--optimizer rmsprop: there is none; it is sgd, adam, adamw"):
        poet_planner.Optimizer(name)


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    program = f"import sys, poet_planner; print([name for name in {HEAVY!r} if name in sys.modules])"
    program += "; poet_planner.Graph; print('torch' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.split("\n") == ["[]", "False", ""]


def test_every_name_is_there_and_documented() -> None:
    assert set(poet_planner.__all__) <= set(dir(poet_planner))
    for name in poet_planner.__all__:
        assert getattr(poet_planner, name).__doc__
    with pytest.raises(AttributeError, match="plam"):
        _ = poet_planner.plam  # type: ignore[attr-defined]


def test_type_checkers_know_the_types_of_all(tmp_path: Path) -> None:
    """The page's examples pass; each misuse is an error, and nothing is `Any`."""
    (tmp_path / "good.py").write_text("\n".join(examples()))
    (tmp_path / "bad.py").write_text(MISUSE)
    command = [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "good.py"), str(tmp_path / "bad.py")]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    said = {
        int(line): words
        for line, words in re.findall(r"bad\.py:(\d+): \w+: (.*)", found)
        if "defined here" not in words
    }
    assert "good.py" not in found
    assert 'Revealed type is "float"' in said[5].replace("builtins.", "")
    assert "poet_profiles.schedule.model.Schedule" in said[6]
    assert "Report" in said[7]
    assert 'no attribute "plam"' in said[8]
    assert set(said) == {5, 6, 7, 8, 9, 10, 11}
