# SPDX-License-Identifier: Apache-2.0
"""FLOPs of traced operators against PyTorch's counter, against other forms of the same layer, and by hand."""

from __future__ import annotations

from collections.abc import Callable
from math import log2

import pandas as pd
import pytest
import torch
from poet_planner import models
from poet_planner.costs.cost_model import Basis, CostModel
from poet_planner.lowering import lower_for_firmware, lower_for_linux
from poet_planner.lowering.operators.flops import flops
from poet_planner.models import Model
from poet_planner.planning.bench import profile_path
from poet_planner.tracing import trace
from poet_profiles.errors import UserError
from poet_profiles.profile import read_profile
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode, flop_registry


def squared(output: Tensor | tuple[Tensor, ...]) -> Tensor:
    output = output[0] if isinstance(output, tuple) else output
    return (output.abs() if output.is_complex() else output).float().pow(2).mean()


class Applied(nn.Module):
    """A function of a parameter."""

    def __init__(self, function: Callable[[Tensor], Tensor], *shape: int) -> None:
        super().__init__()
        self.function = function
        self.x = nn.Parameter(torch.rand(shape) + torch.eye(*shape) if len(shape) == 2 else torch.rand(shape))

    def forward(self) -> Tensor:
        return self.function(self.x)


def counts(module: nn.Module, *inputs: Tensor) -> dict[str, int | None]:
    """By operator, all its calls together."""
    graph = trace(module, inputs, (), squared, "counted")
    found: dict[str, int | None] = {}
    for operator in graph.operators:
        count = flops(operator, graph)
        name = operator.target._schema.name.removeprefix("aten::")
        found[name] = None if count is None else (found.get(name) or 0) + count
    return found


def products(found: dict[str, int | None]) -> int:
    """Of the operators that PyTorch counts."""
    return sum(count or 0 for name, count in found.items() if getattr(torch.ops.aten, name) in flop_registry)


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Linear(6, 5), (3, 6)),
        (nn.Sequential(nn.Conv1d(4, 6, 3), nn.Conv1d(6, 2, 2, stride=2, groups=2)), (2, 4, 9)),
        (nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 6, 3, groups=6, dilation=2)), (2, 2, 7, 8)),
        (nn.Sequential(nn.Conv3d(2, 3, 2), nn.Conv3d(3, 2, 2)), (2, 2, 4, 4, 4)),
        (nn.Sequential(nn.ConvTranspose1d(4, 6, 3), nn.ConvTranspose1d(6, 2, 2, stride=2)), (2, 4, 5)),
        (nn.Sequential(nn.ConvTranspose2d(4, 6, 3, stride=2), nn.ConvTranspose2d(6, 2, 2)), (2, 4, 5, 5)),
        (nn.GRU(5, 4, 2), (3, 2, 5)),
        (nn.RNN(5, 4), (3, 2, 5)),
    ],
)
def test_products_are_as_pytorch_counts_them(module: nn.Module, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    with FlopCounterMode(display=False) as counter:
        squared(module(x)).backward()
    assert products(counts(module, x)) == counter.get_total_flops() > 0


@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (2, False), (1, True)])
def test_a_lstm_takes_what_its_cells_take(layers: int, bidirectional: bool) -> None:
    """Fused into one operator on a CPU: 1,152 FLOPs where one element written counts as one, instead of 276,480."""
    times, batch, features, hidden = 6, 8, 16, 24
    found = counts(nn.LSTM(features, hidden, layers, bidirectional=bidirectional), torch.randn(times, batch, features))
    total = 0
    for layer in range(layers):
        given = features if layer == 0 else hidden * (1 + bidirectional)
        cell = nn.LSTMCell(given, hidden)
        with FlopCounterMode(display=False) as counter:
            cell(torch.randn(batch, given), (torch.zeros(batch, hidden), torch.zeros(batch, hidden)))
        total += counter.get_total_flops() * times * (1 + bidirectional)
    assert found["mkldnn_rnn_layer"] == total
    assert found["mkldnn_rnn_layer_backward"] == 2 * total


def test_fused_attention_takes_what_its_products_take() -> None:
    x = torch.randn(2, 3, 7, 8)

    def by_hand(x: Tensor) -> Tensor:
        return (x @ x.transpose(-2, -1)).softmax(-1) @ x

    with FlopCounterMode(display=False) as counter:
        by_hand(x)
    attention = Applied(lambda x: functional.scaled_dot_product_attention(x, x, x), *x.shape)
    found = counts(attention)
    assert found["_scaled_dot_product_flash_attention_for_cpu"] == counter.get_total_flops()


HAND: list[tuple[str, Callable[[Tensor], Tensor], tuple[int, ...], int]] = [
    ("cumsum", lambda x: x.cumsum(0), (4, 6), 2 * 24),  # Once more backward.
    ("sort", lambda x: x.sort(1)[0], (4, 8), 32 * 3),
    ("sort", lambda x: x.sort(0)[0], (4, 8), 32 * 2),
    ("topk", lambda x: x.topk(4, 1)[0], (4, 8), 32 * 2),
    ("sum", lambda x: x.sum(), (4, 6), 24),
    ("amax", lambda x: x.amax(0), (4, 6), 24),
    ("_fft_c2c", lambda x: torch.fft.fft(torch.complex(x, x)), (4, 8), 2 * 5 * 32 * 3),
    ("_fft_r2c", lambda x: torch.fft.rfft2(x), (4, 8), round(2.5 * 32 * log2(32))),
    ("upsample_nearest2d", lambda x: functional.interpolate(x, scale_factor=2), (1, 2, 3, 3), 72),
    ("upsample_bilinear2d", lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"), (1, 2, 3, 3), 576),
    ("upsample_bicubic2d", lambda x: functional.interpolate(x, scale_factor=2, mode="bicubic"), (1, 2, 3, 3), 2304),
    (
        "upsample_bilinear2d_backward",
        lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
        (1, 2, 3, 3),
        576,
    ),
    ("max_pool2d_with_indices", lambda x: functional.max_pool2d(x, 3, 1), (1, 2, 5, 5), 2 * 9 * 9),
    ("avg_pool2d", lambda x: functional.avg_pool2d(x, (3, 2), 1), (1, 2, 5, 5), 2 * 12 * 6),
    ("_cdist_forward", lambda x: torch.cdist(x, 2 * x), (5, 3), 3 * 25 * 3),
    ("mv", lambda x: x @ x[0], (5, 5), 2 * 50),  # Once more backward.
    ("dot", lambda x: x[0] @ x[1], (5, 5), 10),
    ("_linalg_solve_ex", lambda x: torch.linalg.solve(x, x[:, :2]), (6, 6), 144 + 2 * 12 * 6),
    ("linalg_inv_ex", torch.linalg.inv, (6, 6), 432),
    ("linalg_cholesky_ex", lambda x: torch.linalg.cholesky(x @ x.T), (6, 6), 72),
    ("relu", torch.relu, (4, 6), 24),
    ("cat", lambda x: torch.cat([x, x]), (4, 6), 48),
]


@pytest.mark.parametrize(
    ("name", "function", "shape", "expected"), HAND, ids=[f"{h[0]}-{i}" for i, h in enumerate(HAND)]
)
def test_formulas(name: str, function: Callable[[Tensor], Tensor], shape: tuple[int, ...], expected: int) -> None:
    torch.manual_seed(0)
    assert counts(Applied(function, *shape))[name] == expected


@pytest.mark.parametrize("name", ["transformer", "unet", "mlperf_mobilenet_v1", "gpt_small"])
def test_nothing_in_built_in_models_is_unknown(name: str) -> None:
    model = models.load(name, 1)
    graph = trace(model.module, model.inputs, model.targets, model.loss, name)
    assert None not in [flops(operator, graph) for operator in graph.operators]


def singular() -> Model:
    module = nn.Sequential(nn.Linear(4, 4))
    return Model("singular", module, (torch.randn(4, 4),), (), lambda y: torch.linalg.svdvals(y).sum())


@pytest.mark.parametrize("profile", ["a72", "nrf52840"])
def test_what_is_not_known_is_not_priced(profile: str) -> None:
    model = singular()
    traced = trace(model.module, model.inputs, model.targets, model.loss, model.name)
    graph = lower_for_linux(traced, False) if profile == "a72" else lower_for_firmware(traced)
    rows = read_profile(profile_path(profile))
    with pytest.raises(UserError, match=r"^linalg_svd: how many FLOPs aten\._linalg_svd takes is not known"):
        CostModel(rows).apply(graph)
    operation = next(node.operation for node in graph.nodes if node.id == "linalg_svd")
    assert operation is not None
    assert operation.params.startswith("flops=unknown bytes=")
    own = {"op": operation.op, "params": operation.params, "time_s": 2e-3, "energy_j": 3e-3, "source": "measured"}
    costed = CostModel(pd.concat([rows, pd.DataFrame([{**rows.iloc[0], **own}])])).apply(graph)
    node = next(node for node in costed.graph.nodes if node.id == "linalg_svd")
    assert (node.time_s, node.energy_j, costed.basis[node.id]) == (2e-3, 3e-3, Basis.MEASURED)


def test_weights_scaled_before_they_are_used() -> None:
    normed = counts(nn.utils.parametrizations.weight_norm(nn.Linear(6, 8)), torch.randn(3, 6))
    assert normed["_weight_norm_interface"] == 3 * 6 * 8
    assert normed["_weight_norm_interface_backward"] == 5 * 6 * 8
    bounded = counts(nn.Embedding(9, 6, max_norm=1.0), torch.randint(9, (3, 4)))
    assert bounded["embedding_renorm"] == 9 * 6 + 3 * 12 * 6
