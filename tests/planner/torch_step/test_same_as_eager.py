# SPDX-License-Identifier: Apache-2.0
"""What a library sees while a step is traced, and what becomes of a model that takes another way then."""

from __future__ import annotations

import copy
from collections.abc import Callable

import poet_planner as poet
import pytest
import torch
from poet_profiles.errors import UserError
from poet_runtime.peak import allocations
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.utils._python_dispatch import _get_current_dispatch_mode

BATCH = torch.randn(4, 6), torch.tensor([0, 1, 2, 0])


class AsksForFakes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x + 1 if isinstance(x, FakeTensor) else x)  # type: ignore[no-any-return]


class AsksForTheMode(AsksForFakes):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x + 1 if _get_current_dispatch_mode() is not None else x)  # type: ignore[no-any-return]


class AsksWhatNeverChanges(AsksForFakes):
    """As transformers asks of a mask that it has just made."""

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.arange(6) >= 0
        return self.fc(x if (mask == 1).all() else x.flip(1))  # type: ignore[no-any-return]


class Counts(AsksForFakes):
    """A fake tensor has no version that would tell."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.seen = self.seen + x.detach().abs().max()
        return torch.dropout(self.fc(x) * self.seen, 0.3, self.training)


def equal_after_three_steps(module: nn.Module, batch: tuple[Tensor, ...], loss: Callable[..., Tensor]) -> bool:
    own = copy.deepcopy(module)
    before = copy.deepcopy(module.state_dict())
    with poet.compile(module, loss, batch, quiet=True) as step:
        assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
        optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (module, own)]
        for number in range(3):
            torch.manual_seed(number)
            mine = step(*batch)
            torch.manual_seed(number)
            theirs = loss(own(batch[0]), *batch[1:])
            theirs.backward()
            assert torch.equal(mine, theirs.detach())
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
    return all(torch.equal(tensor, own.state_dict()[name]) for name, tensor in module.state_dict().items())


@pytest.mark.parametrize("kind", [AsksForFakes, AsksWhatNeverChanges, Counts])
def test_what_a_model_may_ask_is_answered_as_in_eager(kind: Callable[[], nn.Module]) -> None:
    assert equal_after_three_steps(kind(), BATCH, cross_entropy)


def test_a_model_that_takes_another_way_while_it_is_traced_is_refused() -> None:
    module = AsksForTheMode()
    before = copy.deepcopy(module.state_dict())
    words = (
        r"^AsksForTheMode: the loss is not eager PyTorch's \(largest difference .*\); poet does not trace this model"
    )
    with pytest.raises(UserError, match=words) as refusal:
        poet.compile(module, cross_entropy, BATCH, quiet=True)
    assert "\n" not in str(refusal.value)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_a_loss_that_is_no_number_is_eagers_as_well() -> None:
    x, y = BATCH[0].log(), BATCH[1]
    with poet.compile(nn.Linear(6, 3), cross_entropy, (x, y), quiet=True) as step:
        assert step(x, y).isnan()


class GroupedHeads(nn.Module):
    """As the Llamas of transformers: fake tensors get a mask, and with a mask keys and values are repeated."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(32, 64)
        self.q, self.k, self.v = nn.Linear(64, 64), nn.Linear(64, 32), nn.Linear(64, 32)
        self.head = nn.Linear(64, 32)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        q, k, v = (part(x).unflatten(2, (-1, 16)).transpose(1, 2) for part in (self.q, self.k, self.v))
        if isinstance(tokens, FakeTensor):
            mask = torch.ones(tokens.shape[1], tokens.shape[1]).tril() > 0
            k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
            y = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            y = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.head(y.transpose(1, 2).flatten(2)).transpose(1, 2)  # type: ignore[no-any-return]


def test_grouped_heads_take_eagers_memory() -> None:
    tokens = torch.randint(32, (2, 128))
    module = GroupedHeads()
    assert equal_after_three_steps(module, (tokens, tokens), cross_entropy)
    module.zero_grad()
    with allocations() as peak:
        cross_entropy(module(tokens), tokens).backward()
    module.zero_grad()
    with poet.compile(module, cross_entropy, (tokens, tokens), quiet=True) as step:
        assert step.report.plain_peak_bytes <= 1.001 * peak.bytes
