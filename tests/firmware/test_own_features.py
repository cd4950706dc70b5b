# SPDX-License-Identifier: Apache-2.0
"""A program of one's own on the emulated board keeps features, and trains on them what whole steps train."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from poet_harness.emulation import open_emulated_board
from poet_planner import Optimizer, models, plan
from poet_planner.models import Model
from poet_planner.schedule.c_library import write_library
from poet_profiles.boards import load_board

from tests.support import ROOT
from tests.support.firmware.own_project import built, said_by, words

BOARD = load_board("nrf52840")
RATE, MOMENTUM, CLIP = 0.01, 0.9, 0.2


@dataclass(frozen=True)
class Job:
    """A network of which the head is trained, and what on."""

    model: Model
    x: NDArray[np.float32]
    y: NDArray[np.int32]
    epochs: int


def digits() -> Job:
    draw = np.random.default_rng(2)
    model = models.load("finetune_cnn", 8)
    x = draw.standard_normal((16, *model.inputs[0].shape[1:])).astype("f4")
    return Job(model, x, draw.integers(0, 10, 16).astype("i4"), 2)


def watch() -> Job:
    """That of firmware/examples, with its convolutions as they were sold."""
    pytest.importorskip("seglearn")
    from benchmarks.firmware.watch import load_example

    example = load_example()
    model = example.network(8)
    for layer in list(model.module)[:-1]:
        layer.requires_grad_(False)
    windows, labels = example.labelled_by(9)
    return Job(model, example.numbers(windows).numpy(), labels, 15)


def samples_header(job: Job) -> str:
    rows = [f"    {{{words(x.tobytes())}, {words(y.tobytes())}}}," for x, y in zip(job.x, job.y, strict=True)]
    sizes = f"unsigned char input[{job.x[0].nbytes}], target[{job.y[0].nbytes}];"
    given = (f"#define COUNT {len(job.x)}u", f"#define EPOCHS {job.epochs}u", f"#define RATE {RATE!r}f")
    return "\n".join((*given, f"static const struct {{ {sizes} }} samples[] = {{", *rows, "};", ""))


def image_of(job: Job, folder: Path) -> Path:
    initial = {name: tensor.detach().numpy() for name, tensor in job.model.module.state_dict().items()}
    for name in ("whole", "head"):
        features = "auto" if name == "head" else "whole"
        optimizer = Optimizer(momentum=MOMENTUM, clip_value=CLIP)
        made = plan(job.model, profile=BOARD.name, optimizer=optimizer, features=features)
        assert (made.extraction is None) == (name == "whole")
        beside = made.inference, (), made.extraction
        write_library(name, made.graph, made.schedule, made.constants, initial, folder / "libraries" / name, *beside)
    (folder / "src").mkdir()
    (folder / "src/main.cpp").write_bytes((ROOT / "tests/support/firmware/features.cpp").read_bytes())
    (folder / "src/samples.h").write_text(samples_header(job))
    return built(folder, "whole", "head")


def by_pytorch(job: Job) -> int:
    """Samples that are right after the same steps of the whole network."""
    module, random = job.model.module, 1
    trained = [one for one in module.parameters() if one.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=RATE, momentum=MOMENTUM)
    x, y = torch.from_numpy(job.x), torch.from_numpy(job.y).long()
    samples = len(job.model.inputs[0])
    for _ in range(job.epochs * len(x) // samples):
        chosen = []
        for _ in range(samples):
            random = (random * 1664525 + 1013904223) % 2**32
            chosen.append((random >> 8) % len(x))
        optimizer.zero_grad()
        job.model.loss(module(x[chosen]), y[chosen]).backward()
        torch.nn.utils.clip_grad_value_(trained, CLIP)
        optimizer.step()
    with torch.no_grad():
        return int((module(x).argmax(dim=1) == y).sum())


@pytest.mark.parametrize(("make", "least"), [(digits, 100), (watch, 20)], ids=["digits", "watch"])
def test_one_image_trains_whole_and_on_features_with_the_same_bits(make: object, least: int, tmp_path: Path) -> None:
    job: Job = make()  # type: ignore[operator]
    with open_emulated_board(BOARD, image_of(job, tmp_path), tmp_path / "card.img") as emulated:
        said = said_by(emulated)
    assert said["end"] == 0
    assert said["whole"] == said["head"] != said["once"] == said["unchanged"]
    assert said["same"] == len(job.x)
    assert said["right"] == by_pytorch(job)
    # Cycles of the emulated board, the same at each run: a head's step, a whole one, and one that makes its features.
    assert least * said["short"] <= said["long"]
    assert abs(said["made"] - said["first"]) < 0.02 * said["first"]
