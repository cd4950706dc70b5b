# SPDX-License-Identifier: Apache-2.0
"""Digits by a backbone that has seen 0 to 6: on int8 it answers as in f32; and what is said of that is so."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from poet_planner import models, plan
from poet_planner.lowering.firmware import in_integers
from poet_planner.models import Model
from poet_planner.planning.calibration import Calibration
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.planning.validation import validated
from poet_planner.solve import OptimiseOptions
from poet_profiles.errors import UserError
from poet_profiles.plan_folder.summary import Int8Validation
from poet_runtime.executor import Execution, store_all_steps
from torch import Tensor, nn
from torch.nn import functional

from tests.support.networks.quantised import of_chain
from tests.support.profile_rows import profile_of

pytestmark = pytest.mark.usefixtures("one_thread")

OPTIONS = OptimiseOptions(time_limit_s=1)
Arrays = dict[str, NDArray[np.generic]]


def digits() -> tuple[Arrays, Arrays]:
    """1200 samples to train on, 597 others."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    order = np.random.default_rng(1).permutation(len(x))
    train, others = ({"input": x[rows], "target": labels[rows]} for rows in (order[:1200], order[1200:]))
    return train, others


def descend(module: nn.Module, x: Tensor, y: Tensor, epochs: int) -> None:
    optimizer = torch.optim.Adam([one for one in module.parameters() if one.requires_grad], 3e-3)
    for _ in range(epochs):
        for part in torch.randperm(len(x)).split(32):
            optimizer.zero_grad()
            functional.cross_entropy(module(x[part]), y[part]).backward()
            optimizer.step()


@pytest.fixture(scope="module")
def trained() -> Model:
    torch.manual_seed(0)
    model = models.load("finetune_cnn_small", 4)
    backbone, (samples, _) = model.module.get_submodule("backbone"), digits()
    x, y = (torch.from_numpy(samples[name]) for name in ("input", "target"))
    backbone.requires_grad_(True).train()
    descend(nn.Sequential(backbone, nn.Linear(64, 7)), x[y < 7], y[y < 7], 12)
    backbone.requires_grad_(False).eval()
    descend(model.module, x, y, 4)
    return replace(model, name="digits")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("digits")
    for name, samples in zip(("calibrate", "validate"), digits(), strict=True):
        np.savez(folder / f"{name}.npz", **samples)  # type: ignore[arg-type]
    return folder / "calibrate.npz", folder / "validate.npz"


def features(step: TrainingStep, model: Model, x: Tensor) -> Tensor:
    """What the trained layer reads, from exact integers; of as many samples as fill batches."""
    graph, size = in_integers(step.traced), len(model.inputs[0])
    last = next(operator for operator in graph.operators if operator.id == "head").args[1]
    made = []
    for part in x.split(size):
        given = {"input": part, "target": model.targets[0], **model.module.state_dict()}
        execution = Execution(graph, given)
        for action in store_all_steps(graph):
            execution.step(action)
            if last.source in execution.values:
                made.append(execution.values[last.source].flatten(1))
                break
    return torch.cat(made)


def head_on(x: Tensor, y: Tensor) -> nn.Linear:
    torch.manual_seed(0)
    layer = nn.Linear(64, 10)
    optimizer = torch.optim.SGD(layer.parameters(), 0.05, momentum=0.9)
    for _ in range(400):
        part = torch.randint(len(x), (16,))
        optimizer.zero_grad()
        functional.cross_entropy(layer(x[part]), y[part]).backward()
        optimizer.step()
    return layer


def test_digits_have_the_answers_of_f32(trained: Model, files: tuple[Path, Path]) -> None:
    """A head that is trained on features of int8 beside one that is trained on those of f32."""
    step = TrainingStep(trained, calibration=Calibration(files[0]))
    (x, y), (tested, wanted) = ((torch.from_numpy(array) for array in one.values()) for one in digits())
    tested = torch.cat([tested, tested[:3]])  # 600 fill batches
    backbone = trained.module.get_submodule("backbone")
    with torch.no_grad():
        plain, plain_tested = backbone(x), backbone(tested)
        on_int8, int8_tested = features(step, trained, x), features(step, trained, tested)
    in_f32, in_int8 = (
        head(seen).argmax(1)[:597]
        for head, seen in ((head_on(plain, y), plain_tested), (head_on(on_int8, y), int8_tested))
    )
    right_f32, right = (float((answers == wanted).double().mean()) for answers in (in_f32, in_int8))
    assert float((in_f32 == in_int8).double().mean()) >= 0.995
    assert abs(right - right_f32) <= 0.003
    assert right_f32 > 0.9
    assert 0.0 < float((int8_tested - plain_tested).norm() / plain_tested.norm()) < 0.04
    found = validated(step, files[1])
    assert found.samples == 597
    assert found.same_answers is not None
    assert found.same_answers >= 0.99


def test_shares_are_those_of_the_training_graph_and_of_eager_pytorch(trained: Model, files: tuple[Path, Path]) -> None:
    """From ranges of one sample alone, so that there is an error."""
    x, y = (torch.from_numpy(array) for array in digits()[1].values())
    batch = replace(trained, inputs=(x[:32],), targets=(y[:32],))
    one = replace(batch, inputs=(0.2 * x[:32],))
    step = TrainingStep(one, calibration=Calibration())
    np.savez(files[1].with_name("few.npz"), input=x[:32].numpy(), target=y[:32].numpy())
    found = validated(step, files[1].with_name("few.npz"))
    execution = Execution(in_integers(step.traced), {**trained.module.state_dict(), "input": x[:32], "target": y[:32]})
    for action in store_all_steps(in_integers(step.traced)):
        execution.step(action)
        if action.target == "head":
            scores = execution.values["head"]
            break
    plain = trained.module(x[:32]).detach()
    assert found.score_error == pytest.approx(float((scores - plain).norm() / plain.norm()), rel=1e-4)
    assert found.score_error > 0.1
    assert found.right == float((scores.argmax(1) == y[:32]).double().mean())
    assert found.right_f32 == float((plain.argmax(1) == y[:32]).double().mean())
    assert found.same_answers == float((scores.argmax(1) == plain.argmax(1)).double().mean())


def test_outputs_that_are_no_scores_of_classes_have_an_error_alone(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, y = torch.rand(2, 1, 8, 8), torch.rand(2, 3)
    module = nn.Sequential(nn.Conv2d(1, 4, 3).requires_grad_(False), nn.Flatten(), nn.Linear(144, 3))
    model = Model("numbers", module, (x,), (y,), functional.mse_loss)
    np.savez(tmp_path / "samples.npz", input=x.numpy(), target=y.numpy())
    found = validated(TrainingStep(model, calibration=Calibration()), tmp_path / "samples.npz")
    assert 0.0 < found.score_error < 0.05
    assert asdict(found) == asdict(Int8Validation(2, found.score_error, None, None, None))


def test_the_summary_says_what_is_on_int8_and_how_it_answers(
    trained: Model, files: tuple[Path, Path], tmp_path: Path
) -> None:
    step = TrainingStep(trained, calibration=Calibration(files[0]))
    profile = [profile_of(step, tmp_path / "int8.csv"), "mkr1000"]
    asked = {"profile": profile, "options": OPTIONS, "frozen": "int8", "calibrate": files[0]}
    made = plan(trained, **asked, validate=files[1])  # type: ignore[arg-type]
    made.write_files(tmp_path)
    found = json.loads((tmp_path / "summary.json").read_text())["int8"]
    assert found["layers"] == found["frozen_layers"] == 6
    assert found["samples"] == 1200
    weights = sum(one.bytes for one in made.graph.constants if one.dtype == "i8")
    assert weights < found["weight_bytes"] < weights + 2000 < found["f32_weight_bytes"] / 3
    assert found["validation"]["samples"] == 597
    assert found["validation"] == asdict(validated(step, files[1]))
    with pytest.raises(UserError, match="nothing of digits is on int8"):
        plan(trained, profile="mkr1000", options=OPTIONS, validate=files[1])


@pytest.mark.parametrize(
    ("model", "profile", "asked", "words"),
    [
        ("finetune_cnn_small", "mkr1000", {"frozen": "int4"}, "--frozen int4: there are int8"),
        ("finetune_cnn_small", "mkr1000", {"calibrate": "some.npz"}, "--calibrate some.npz: its samples are for"),
        ("finetune_cnn_small", "mkr1000", {"validate": "some.npz"}, "some.npz"),
        ("finetune_cnn_small", "a72", {"frozen": "int8"}, "--frozen int8: rpi4b trains in PyTorch"),
        ("digits_cnn_small", "mkr1000", {"frozen": "int8"}, "nothing of digits_cnn_small is frozen"),
    ],
)
def test_what_does_not_go_together_is_refused(model: str, profile: str, asked: dict[str, str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        plan(model, profile=profile, options=OPTIONS, **asked)  # type: ignore[arg-type]


def test_what_is_quantised_already_is_refused() -> None:
    with pytest.raises(UserError, match="quantised is quantised already"):
        _ = TrainingStep(of_chain(), calibration=Calibration()).traced


@pytest.mark.parametrize("features", ["auto", "whole"])
def test_the_summary_counts_layers_on_int8_wherever_they_are_computed(
    trained: Model, files: tuple[Path, Path], features: str
) -> None:
    """In each step, or once a sample, where their features are kept."""
    given = {"frozen": "int8", "calibrate": files[0], "validate": files[1], "features": features}
    made = plan(trained, profile="mkr1000", micro_batches=1, **given)  # type: ignore[arg-type]
    assert (made.summary.features is None) == (features == "whole")
    assert made.summary.int8 is not None and made.summary.int8.validation is not None
    assert made.summary.int8.layers == made.summary.int8.frozen_layers > 1
    assert made.summary.int8.validation.samples == 597
