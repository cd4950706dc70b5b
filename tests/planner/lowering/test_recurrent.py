# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers against PyTorch's; Linux boards run PyTorch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from poet_planner.models import load
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.check import check_plan
from poet_planner.tracing import trace
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from torch import Tensor, nn
from torch.nn.functional import mse_loss
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
