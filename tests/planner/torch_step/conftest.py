# SPDX-License-Identifier: Apache-2.0
"""What every test of a compiled step wants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from poet_planner.torch_step import profile_here
from poet_runtime.traced_graph import TracedGraph

measured = profile_here._timed


def given(traced: TracedGraph, *rest: Any) -> dict[str, Any]:
    """Times by what an operator yields, in the place of measured ones, by which a busy computer would choose plans."""
    operators = {operator.id: operator for operator in traced.operators}

    def time_s(id: str) -> float:
        yields = sum(traced.values[value].bytes for value in operators[id].values if value in traced.values)
        return 1e-6 + yields * (2e-8 if "conv" in id or "mm" in id else 1e-9)

    return {"times_s": {id: time_s(id) for id in measured(traced, *rest)["times_s"]}, "overhead_s": 1e-6}


@pytest.fixture(autouse=True)
def _given_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_here, "_timed", given)
    monkeypatch.setattr(profile_here, "WARM_UP", 0)
    monkeypatch.setattr(profile_here, "ROUNDS", 1)


@pytest.fixture(autouse=True)
def _apart(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One thread, and a cache of costs of the test's own."""
    monkeypatch.setattr(profile_here, "cache_folder", lambda name: tmp_path_factory.getbasetemp() / name)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
