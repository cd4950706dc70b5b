"""The zoo: every small model is either planned and trained bit for bit, or refused in one line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from poet_planner.tracing import trace
from poet_profiles.errors import UserError
from zoo_mistakes import MISTAKES, mistake


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_in_one_line(name: str) -> None:
    model, word = mistake(name)
    with pytest.raises(UserError) as refused:
        trace(model.module, model.inputs, model.targets, model.loss, model.name)
    assert word in str(refused.value)
    assert "\n" not in str(refused.value)
