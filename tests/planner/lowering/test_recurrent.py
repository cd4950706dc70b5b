# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers against PyTorch's; Linux boards run PyTorch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from poet_planner.models import Model, load
from poet_planner.planning.bench import Bench
from poet_planner.planning.contest import Contest
from poet_planner.planning.request import Request
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.check import check_plan
from poet_planner.tracing import trace
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.nn.utils.rnn import pack_padded_sequence

from tests.support import needs
from tests.support.firmware.against_autograd import equals_autograd
from tests.support.firmware.host_operators import Operators

pytestmark = needs.gcc

LAYERS: list[tuple[type[nn.RNNBase], dict[str, Any]]] = [
    (nn.LSTM, {}),
    (nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    (nn.LSTM, {"num_layers": 2, "bias": False}),
    (nn.GRU, {"bias": False}),
    (nn.GRU, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    (nn.RNN, {"bidirectional": True}),
    (nn.RNN, {"num_layers": 2, "nonlinearity": "relu"}),
]


class Encoder(nn.Module):
    """A layer behind a trained factor, with a head on all that it yields, or on its last states."""

    def __init__(self, layer: nn.RNNBase, states: bool, last: bool) -> None:
        super().__init__()
        self.factor, self.layer, self.last = nn.Parameter(torch.randn(6)), layer, last
        each, ways = int(isinstance(layer, nn.LSTM)) + 1, int(layer.bidirectional) + 1
        first = [torch.randn(ways * layer.num_layers, 4, 8) for _ in range(each if states else 0)]
        self.first, self.head = nn.ParameterList(first), nn.Linear(8 if last else 8 * ways, 3)

    def forward(self, x: Tensor) -> Tensor:
        states = tuple(self.first) or None
        y, ends = self.layer(x * self.factor, states if states is None or len(states) > 1 else states[0])
        if self.last:
            y = torch.cat(ends) if isinstance(ends, tuple) else ends
        out: Tensor = self.head(y)
        return out


@pytest.mark.parametrize(("kind", "options"), LAYERS)
@pytest.mark.parametrize(("states", "last"), [(False, False), (True, False), (True, True)])
def test_gradients_are_pytorchs(
    kind: type[nn.RNNBase], options: dict[str, Any], states: bool, last: bool, operators: Operators
) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 5, 6) if options.get("batch_first") else torch.randn(5, 4, 6)
    graph = equals_autograd(Encoder(kind(6, 8, **options), states, last), x, operators, tolerance=1e-6)
    own = [node for node in graph.nodes if node.operation and node.operation.op == kind.__name__.lower()]
    assert len(own) == options.get("num_layers", 1) * (1 + options.get("bidirectional", False))


class Last(nn.Module):
    def forward(self, given: tuple[Tensor, Any]) -> Tensor:
        return given[0][:, -1]


@pytest.mark.parametrize(("segments", "last"), [(2, False), (3, True), (9, True)])
@pytest.mark.parametrize(("kind", "options"), [LAYERS[1], LAYERS[4], LAYERS[5]])
def test_segments_of_steps(
    kind: type[nn.RNNBase], options: dict[str, Any], last: bool, segments: int, operators: Operators
) -> None:
    """Also such as do not divide the steps, and more than there are."""
    torch.manual_seed(0)
    layer = kind(6, 8, **{**options, "batch_first": True})
    module = nn.Sequential(layer, Last(), nn.Linear(16, 3)) if last else Encoder(layer, True, False)
    graph = equals_autograd(module, torch.randn(4, 5, 6), operators, tolerance=1e-6, segments=segments)
    own = [node for node in graph.nodes if node.operation and node.operation.op == kind.__name__.lower()]
    assert len(own) == {2: 2, 3: 3, 9: 5}[segments] * 2 * options.get("num_layers", 1)


def test_a_last_result_needs_no_zeros_for_others(operators: Operators) -> None:
    module = nn.Sequential(nn.LSTM(6, 8, batch_first=True), Last(), nn.Linear(8, 3))
    graph = equals_autograd(module, torch.randn(4, 12, 6), operators, tolerance=1e-6, segments=3)
    ops = [node.operation.op for node in graph.nodes if node.operation]
    assert ops.count("lstm_backward") == 3
    assert "strided_copy_backward" not in ops
    assert max(value.bytes for node in graph.nodes for value in node.values) == 4 * 4 * 4 * 32


def test_long_sequences_are_planned_in_segments() -> None:
    module = nn.Sequential(nn.LSTM(6, 8, batch_first=True), Last(), nn.Linear(8, 3))
    model = Model("long", module, (torch.randn(1, 48, 6),), (torch.tensor([1]),), cross_entropy)
    form = Contest(Bench(Request(model, "nrf52840", ram=9_000, gradients="resident", paging=False))).choose()
    assert form.layout.segments > 1
    assert form.needs_bytes <= 9_000
    assert not check_plan(model, form.graph, form.store_all).different


@pytest.mark.parametrize("board", ["nrf52840", "rpi4b"])
def test_a_plan_trains_as_pytorch_does(board: str) -> None:
    """A Linux board runs PyTorch's own operators, with eager PyTorch's bits."""
    model = "tests.support.networks.own:lstm"
    graph = training_step(model, 4).graph(load_board(board))
    ops = {node.operation.op for node in graph.nodes if node.operation}
    assert ("lstm_backward" in ops, "aten.mkldnn_rnn_layer" in ops) == (board == "nrf52840", board == "rpi4b")
    assert not check_plan(load(model, 4), graph, store_all_schedule(graph)).different


def test_packed_sequences_are_refused_by_name() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.GRU(6, 8)

        def forward(self, x: Tensor) -> Tensor:
            last: Tensor = self.layer(pack_padded_sequence(x, torch.tensor([5, 3])))[1]
            return last

    with pytest.raises(UserError, match=r"packs sequences; pad the sequences, and mask the loss$"):
        trace(Packed(), (torch.randn(5, 2, 6),), (torch.randn(1, 2, 8),), mse_loss, "packed")
