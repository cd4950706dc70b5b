# SPDX-License-Identifier: Apache-2.0
"""Any subset of a network's parameters: gradients are autograd's, none that nobody reads."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_planner.lowering import lower_for_firmware
from poet_planner.lowering.firmware import constant_data
from poet_planner.models import Model
from poet_planner.tracing import trace
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.support import needs
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import run_step
from tests.support.levels import examples

pytestmark = needs.gcc
NORMS = ("batch_norm_eval_backward_weight", "layer_norm_backward_weight", "group_norm_backward_weight")


class Adapted(nn.Module):
    """A linear layer with an adapter of low rank beside it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)
        self.down, self.up = nn.Linear(inputs, 2, bias=False), nn.Linear(2, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.up(self.down(x))  # type: ignore[no-any-return]


def images() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=4)),
        *(nn.BatchNorm2d(4).eval(), nn.ReLU(), nn.ConvTranspose2d(4, 6, 2, 2), nn.GroupNorm(2, 6), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 5, 4), nn.ReLU(), nn.Flatten(), nn.LayerNorm(5), Adapted(5, 3)),
    )


def signals() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv1d(4, 6, 3, 2), nn.BatchNorm1d(6), nn.ReLU(), nn.Conv1d(6, 6, 3, groups=6, dilation=2)),
        *(nn.GroupNorm(1, 6), nn.ReLU(), nn.Conv1d(6, 4, 1), nn.ConvTranspose1d(4, 2, 3), nn.Flatten()),
        *(Adapted(28, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)),
    )


def rows() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
    return nn.Sequential(Adapted(5, 8), layer, nn.LayerNorm((4, 8)), nn.Conv1d(4, 2, 1), nn.Flatten(), nn.Linear(16, 3))


NETWORKS = {images: (3, 6, 6), signals: (4, 33), rows: (4, 5)}


@settings(max_examples=examples(24))
@given(random=st.randoms(use_true_random=False), make=st.sampled_from([*NETWORKS]), batch=st.integers(1, 3))
def test_no_gradient_is_computed_that_nobody_reads(random: Random, make, batch: int, operators: Operators) -> None:  # type: ignore[no-untyped-def]
    batch += make is signals and batch == 1  # PyTorch's batch norm of one number refuses
    torch.manual_seed(0)
    module = make()
    x, target = torch.randn(batch, *NETWORKS[make]), torch.arange(batch)
    names = [name for name, _ in module.named_parameters()]
    chosen = random.choice([names, [one for one in names if one.endswith("bias")], [names[-1]]])
    trained = {name for name in chosen if random.random() < 0.6} or {chosen[-1]}
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name in trained)
    model = Model("subset", module, (x,), (target,), cross_entropy)
    traced = trace(module, model.inputs, model.targets, model.loss, model.name)
    graph = lower_for_firmware(traced)
    operations = [node.operation for node in graph.nodes if node.operation]
    counts = Counter(one.op for one in operations)

    kinds = {name: type(module.get_submodule(name.rpartition(".")[0])) for name in trained if "in_proj" not in name}
    convolutions = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose1d, nn.ConvTranspose2d)
    weights = [name for name, kind in kinds.items() if kind in convolutions and name.endswith("weight")]
    of_one_place = make is images and "9.weight" in weights  # a product makes its gradient
    assert counts["conv2d_backward_weight"] == len(weights) - of_one_place
    read = {id for one in operations for id in one.operands}
    for one in operations:
        wasted = [id for id in one.results if "..unread" in id and one.op.partition("_backward")[1]]
        assert not wasted or (one.op in NORMS and len(wasted) == 1) or one.op == "batch_norm_backward", wasted
        if one.op == "batch_norm_backward":
            assert one.results[0] in read, "nobody wants its input's gradient"

    given = {id: tensor.detach().clone().numpy() for id, tensor in module.state_dict().items()}
    given |= {**constant_data(traced), "input": x.numpy(), "target": target.numpy()}
    found = run_step(graph, given, operators)
    module.double()
    cross_entropy(module(x.double()), target).backward()  # type: ignore[no-untyped-call]
    for name in trained:
        exact = module.get_parameter(name).grad.numpy()
        np.testing.assert_allclose(found[f"{name}.grad"], exact, rtol=1e-4, atol=1e-5, err_msg=name)
