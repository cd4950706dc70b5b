# SPDX-License-Identifier: Apache-2.0
"""What every test of a compiled step wants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from poet_planner.torch_step import profile_here
from poet_runtime.traced_graph import TracedGraph, TracedOperator


def given(traced: TracedGraph, *_: Any) -> dict[str, Any]:
    """Times by what an operator yields, in the place of measured ones, by which a busy computer would choose plans."""

    def time_s(operator: TracedOperator) -> float:
        yields = sum(traced.values[value].bytes for value in operator.values if value in traced.values)
        return 1e-6 + yields * (2e-8 if "conv" in operator.id or "mm" in operator.id else 1e-9)

    return {"times_s": {operator.id: time_s(operator) for operator in traced.operators}, "overhead_s": 1e-6}


@pytest.fixture(autouse=True)
def _given_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_here, "_timed", given)


@pytest.fixture(autouse=True)
def _apart(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One thread, and a cache of costs of the test's own."""
    monkeypatch.setattr(profile_here, "cache_folder", lambda name: tmp_path_factory.getbasetemp() / name)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
