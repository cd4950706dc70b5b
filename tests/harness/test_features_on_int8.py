# SPDX-License-Identifier: Apache-2.0
"""Features from layers on int8 are kept as others are: a head trained on them has the bits of whole steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from poet_harness.cli import app
from poet_planner import Optimizer, models, plan
from poet_planner.planning.calibration import Calibration
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.solve import OptimiseOptions
from poet_planner.torch_reference.training_data import training_data, write_arrays
from safetensors.numpy import load_file
from typer.testing import CliRunner

from tests.support import needs
from tests.support.profile_rows import profile_of

pytestmark = needs.gcc

COUNT = 18
OPTIONS = OptimiseOptions(time_limit_s=1)


@pytest.mark.parametrize(
    ("model", "frozen"),
    [("finetune_cnn_small", "int8"), ("tests.support.networks.quantised:of_finetune_cnn_small", None)],
    ids=["--frozen int8", "torchao"],
)
def test_a_head_on_kept_features_is_that_of_whole_steps(
    model: str, frozen: str | None, builds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLATFORMIO_BUILD_DIR", str(builds))
    write_arrays(training_data(model, 1, 0, 4), tmp_path / "data.npz")
    drawn, shape = np.random.default_rng(3), models.load(model).inputs[0].shape[1:]
    np.savez(tmp_path / "set.npz", x=drawn.random((COUNT, *shape), np.float32), y=drawn.integers(0, 10, COUNT))
    step = TrainingStep(model, 4, calibration=Calibration() if frozen else None)
    profile = [profile_of(step, tmp_path / "int8.csv"), "mkr1000"]
    asked = {"profile": profile, "batch": 4, "frozen": frozen, "optimizer": Optimizer(momentum=0.9)}
    trained: dict[str, dict[str, Any]] = {}
    for name, features in (("whole", "whole"), ("kept", "auto")):
        made = plan(model, **asked, features=features, options=OPTIONS)  # type: ignore[arg-type]
        made.write_files(tmp_path / name)
        kinds = [node.operation.op for node in made.graph.nodes if node.operation]
        assert any(kind.endswith("_s8") for kind in kinds) == (name == "whole")
        assert (made.extraction is None) == (name == "whole")
        given = ["--board", "native", "--plan", str(tmp_path / name)]
        training = ["--data", str(tmp_path / "data.npz"), "--samples", str(tmp_path / "set.npz"), "--epochs", "2"]
        results = ["--folder", str(tmp_path / f"run_{name}"), "--trained", str(tmp_path / f"{name}.safetensors")]
        for verb in (["flash", *given], ["train", *given, *training, "--shuffle", "7", "--lr", "0.05", *results]):
            result = CliRunner().invoke(app, verb)
            assert result.exit_code == 0, result.output
        trained[name] = load_file(tmp_path / f"{name}.safetensors")
    assert trained["kept"].keys() == trained["whole"].keys()
    start = models.load(model, 4).module.state_dict()
    for name, tensor in trained["whole"].items():
        assert trained["kept"][name].tobytes() == tensor.tobytes(), name
        if name.startswith("head."):
            assert tensor.tobytes() != start[name].numpy().tobytes(), name
