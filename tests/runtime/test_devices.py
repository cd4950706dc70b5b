# SPDX-License-Identifier: Apache-2.0
"""What depends on the device. Of a GPU there is no more here than that it is asked for what is meant."""

from __future__ import annotations

import pytest
import torch
from poet_profiles.errors import UserError
from poet_runtime.devices import Cpu, Gpu, device_named
from poet_runtime.traced_graph import Blank


def test_a_device_that_is_not_there_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match=r"cuda:0: this PyTorch \(\S+\) sees no GPU; move model and batch to the CPU"):
        device_named("cuda:0")
    with pytest.raises(UserError, match="xpu: poet trains on the CPU, or on a GPU by CUDA"):
        device_named("xpu")
    assert type(device_named("cpu")) is Cpu


def test_what_nobody_touches_has_its_layout() -> None:
    layouts = [Blank((2, 3), (1, 2), torch.int64), Blank((0, 3), (3, 1), torch.float32), Blank((), (), torch.bool)]
    found = Cpu().untouched(layouts)
    for layout in layouts:
        assert (found[layout].shape, found[layout].stride(), found[layout].dtype) == (
            layout.shape,
            layout.stride,
            layout.dtype,
        )


def test_a_gpus_peak_is_its_allocators_beyond_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: asked.append(f"synchronize {device}"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: asked.append(f"reset {device}"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 100)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 350)
    with device_named("cuda:1").allocations() as peak:
        asked.append("step")
    assert peak.bytes == 250
    assert asked == ["synchronize cuda:1", "reset cuda:1", "step", "synchronize cuda:1"]
    clock = Gpu("cuda:1").clock()
    assert clock() <= clock()
    assert asked[-2:] == ["synchronize cuda:1"] * 2
