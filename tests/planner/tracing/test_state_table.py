# SPDX-License-Identifier: Apache-2.0
"""The table by which a board's tensors become a `state_dict` again, held against modules trained by PyTorch."""

from __future__ import annotations

import numpy as np
import torch
from poet_planner.tracing import trace
from poet_planner.tracing.state_table import AFTER_STEPS, PARAMETERS, TABLE, state_table, unheld_state
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


def test_every_name_has_its_array_and_counters_are_pytorchs_after_every_step() -> None:
    torch.manual_seed(0)
    module, x, y = Odd(), torch.randn(4, 6), torch.randint(6, (4,))
    module.frozen.eval()
    traced = trace(module, (x,), (y,), cross_entropy, "odd")
    arrays = state_table(traced, module, steps=3)
    rows = {name: (source, note) for name, source, note in arrays.pop(TABLE).tolist()}
    assert list(rows) == list(module.state_dict())
    assert {name: source for name, (source, _) in rows.items() if name != source} == {"other.weight": "one.weight"}
    notes = {name: note for name, (_, note) in rows.items() if note}
    assert notes == {"last": "unkept", "calls": "+1", "bn.num_batches_tracked": "+1"}
    assert arrays.pop(PARAMETERS).tolist() == [name for name, _ in module.named_parameters()]
    assert list(arrays) == [f"power{AFTER_STEPS}"]
    begun = {name: module.state_dict()[name].item() for name in notes if name != "last"}
    for step in range(4):
        expected = module.state_dict()["power"].numpy()
        assert np.array_equal(arrays[f"power{AFTER_STEPS}"][step], expected)
        assert arrays[f"power{AFTER_STEPS}"].dtype == expected.dtype
        assert {name: module.state_dict()[name].item() - step for name in begun} == begun
        cross_entropy(module(x), y).backward()


def test_what_no_board_holds_lies_beside_the_plan() -> None:
    module, x, y = Odd(), torch.randn(4, 6), torch.randint(6, (4,))
    module.frozen.eval()
    arrays = unheld_state(trace(module, (x,), (y,), cross_entropy, "odd"), module)
    unused = {"unused.weight", "unused.bias", "calls", "power", "last", "bn.num_batches_tracked"}
    assert set(arrays) - {TABLE, PARAMETERS, f"power{AFTER_STEPS}"} == unused | {"frozen.num_batches_tracked"}
    assert arrays["calls"] == 3


class Rises(nn.Module):
    """Buffers that rise, but not by a whole number a step that can be known beforehand."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        for name, begin in (("halves", 0.0), ("doubled", 1), ("twice", 0), ("by_five", 0)):
            self.register_buffer(name, torch.tensor(begin))

    def forward(self, x: Tensor) -> Tensor:
        self.halves += 0.5
        self.doubled += self.doubled.clone()
        self.twice += 1
        self.twice += 1
        self.by_five += 5
        return self.layer(x)


def test_only_whole_numbers_that_are_added_count_as_steps() -> None:
    module, x = Rises(), torch.randn(3, 2)
    traced = trace(module, (x,), (torch.randint(2, (3,)),), cross_entropy, "rises")
    arrays = state_table(traced, module, 2)
    assert {name: note for name, _, note in arrays[TABLE].tolist() if note} == {"by_five": "+5"}
    assert arrays[f"doubled{AFTER_STEPS}"].tolist() == [1, 2, 4]
    assert arrays[f"twice{AFTER_STEPS}"].tolist() == [0, 2, 4]


def test_a_module_without_buffers_has_no_counters() -> None:
    module, x = nn.Linear(2, 2), torch.randn(3, 2)
    traced = trace(module, (x,), (torch.randint(2, (3,)),), cross_entropy, "plain")
    assert list(state_table(traced, module, 5)) == [TABLE, PARAMETERS]
