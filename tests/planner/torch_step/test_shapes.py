# SPDX-License-Identifier: Apache-2.0
"""Batches of ever other shapes: few are kept, and what the others have taken is given back."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import poet_planner
import pytest
import torch
from poet_planner.graph import PageCost
from poet_planner.solve import OptimiseOptions
from poet_planner.torch_step import profile_here, step
from torch import nn
from torch.nn.functional import cross_entropy

LAST = 6


def taken() -> tuple[int, int, int]:
    """Threads, open files, and objects of whoever."""
    gc.collect()
    return threading.active_count(), len([*Path("/proc/self/fd").iterdir()]), len(gc.get_objects())


def test_few_shapes_are_kept_and_one_line_says_pad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(profile_here.PageCosts, "cost", lambda *_: PageCost(1e-9, 1e-9, 1e-9, 1e-9))
    monkeypatch.setattr(profile_here, "LEAST_PAGE_BYTES", 64)
    monkeypatch.setattr(step, "MOST_SHAPES", 3)
    model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(8, 8), nn.Tanh())))
    options = OptimiseOptions(time_limit_s=60.0, gap=0.5)

    def batch(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(count, 8), torch.randint(8, (count,))

    given = batch(200)
    with poet_planner.compile(model, cross_entropy, given, ram="60%", pages=tmp_path, options=options) as planned:
        assert planned.report.planned_out_bytes > 0
        found = []
        for number in range(1, LAST):
            x, labels = batch(200 + number)
            model.zero_grad()
            planned(x, labels)
            ours = [parameter.grad for parameter in model.parameters()]
            model.zero_grad()
            cross_entropy(model(x), labels).backward()  # type: ignore[no-untyped-call]
            for one, parameter in zip(ours, model.parameters(), strict=True):
                assert one is not None and parameter.grad is not None and torch.equal(one, parameter.grad)
            found.append((*taken(), len(list(tmp_path.iterdir()))))
        assert len({one[:2] + one[3:] for one in found[2:]}) == 1
        assert abs(found[-1][2] - found[-3][2]) < 40
        planned(*given)
        assert planned.report.steps == 1
    assert capsys.readouterr().err.count("pad them to a few lengths") == 1
