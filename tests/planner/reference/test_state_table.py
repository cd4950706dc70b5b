# SPDX-License-Identifier: Apache-2.0
"""The table by which a board's tensors become a `state_dict` again, held against modules trained by PyTorch."""

from __future__ import annotations

import numpy as np
import torch
from poet_planner.reference.state_table import AFTER_STEPS, TABLE, state_table
from poet_planner.tracing import trace
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


class Odd(nn.Module):
    """Tied weights, a layer that nothing uses, counters, a buffer that is not saved, and one that follows the data."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.unused, self.other = nn.Linear(6, 6), nn.Linear(2, 2), nn.Linear(6, 6)
        self.other.weight = self.one.weight
        self.bn, self.frozen = nn.BatchNorm1d(6), nn.BatchNorm1d(6).eval()
        self.register_buffer("calls", torch.tensor(3))
        self.register_buffer("power", torch.ones(2, dtype=torch.float64))
        self.register_buffer("scale", torch.full((6,), 2.0), persistent=False)
        self.register_buffer("last", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.power *= 0.5
        self.last.copy_(x.detach().mean(0))
        return self.other(self.frozen(self.bn(self.one(x) * self.scale)))


def test_every_name_has_its_array_and_counters_are_pytorchs_behind_every_step() -> None:
    torch.manual_seed(0)
    module, x, y = Odd(), torch.randn(4, 6), torch.randint(6, (4,))
    module.frozen.eval()
    traced = trace(module, (x,), (y,), cross_entropy, "odd")
    arrays = state_table(traced, module, steps=3)
    rows = {name: (source, note) for name, source, note in arrays.pop(TABLE).tolist()}
    assert list(rows) == list(module.state_dict())
    assert {name: source for name, (source, _) in rows.items() if name != source} == {"other.weight": "one.weight"}
    assert [name for name, (_, note) in rows.items() if note] == ["last"]
    assert set(arrays) == {f"{name}{AFTER_STEPS}" for name in ("calls", "power", "bn.num_batches_tracked")}
    for step in range(4):
        for name, values in arrays.items():
            expected = module.state_dict()[name.removesuffix(AFTER_STEPS)].numpy()
            assert np.array_equal(values[step], expected)
            assert values.dtype == expected.dtype
        cross_entropy(module(x), y).backward()


def test_a_module_without_buffers_has_no_counters() -> None:
    module, x = nn.Linear(2, 2), torch.randn(3, 2)
    traced = trace(module, (x,), (torch.randint(2, (3,)),), cross_entropy, "plain")
    assert list(state_table(traced, module, 5)) == [TABLE]
