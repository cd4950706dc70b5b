# SPDX-License-Identifier: Apache-2.0
"""What every test of a compiled step wants."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from poet_planner.drop_in import profile_here


@pytest.fixture(autouse=True)
def _apart(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One thread, and a cache of costs of the test's own."""
    monkeypatch.setattr(profile_here, "cache_folder", lambda name: tmp_path_factory.getbasetemp() / name)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
