# SPDX-License-Identifier: Apache-2.0
"""Every tensor of a step in bands has the bits of the step that is in none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from poet_planner.graph.layout import Bands, MemoryLayout
from poet_planner.lowering import lower_for_firmware
from poet_planner.lowering.firmware import constant_data
from poet_planner.lowering.memory.in_place import with_taking_over
from poet_planner.lowering.tiles.rows import with_bands
from poet_planner.models import Model
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.tracing import trace
from poet_profiles.boards import load_board
from poet_profiles.graph.validation import check_graph
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from tests.support import needs
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import run_step
from tests.support.networks.forms import u_net_transposed

pytestmark = needs.gcc


class Bytes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.float() / 255


NETWORKS: dict[str, tuple[nn.Module, ...]] = {
    "camera": (Bytes(), nn.Conv2d(3, 4, 3), nn.LeakyReLU(0.1), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3), nn.ReLU()),
    "padded": (Bytes(), nn.Conv2d(3, 4, 5, padding=2, bias=False), nn.ReLU6(), nn.MaxPool2d(4)),
    "numbers": (nn.Conv2d(3, 5, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
    "nothing between": (nn.Conv2d(3, 4, (4, 2), padding=(1, 0)), nn.MaxPool2d((1, 2))),
    "means": (nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(4, 4, 3, padding=1), nn.GELU()),
    "strides": (nn.Conv2d(3, 4, 4, 2, 1), nn.ReLU(), nn.Conv2d(4, 6, 4, 2, 1), nn.Sigmoid(), nn.Conv2d(6, 4, 3)),
    "a last band whose rows none reads": (
        *(nn.Conv2d(3, 4, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Conv2d(4, 4, 3), nn.ReLU()),
    ),
    "one row": (nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AvgPool2d((18, 1))),
    "deep": (nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 5, 3), nn.ReLU(), nn.MaxPool2d((1, 2))),
}
# What stands in the way of rows, and an operator that so is whole.
NOT_CUT: dict[str, tuple[str, tuple[nn.Module, ...]]] = {
    "windows that overlap": ("max_pool2d_backward", (nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(3, 2))),
    "a row left": ("max_pool2d_backward", (nn.Conv2d(3, 4, 4), nn.ReLU(), nn.MaxPool2d(2))),
    "a norm between": ("conv2d", (nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2))),
    "Winograd": ("conv2d", (nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 3), nn.Tanh())),
    "groups": ("conv2d_backward_input", (nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3, groups=4), nn.Tanh())),
}


def network(layers: tuple[nn.Module, ...]) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    x = torch.randint(0, 256, (1, 3, 20, 18), dtype=torch.uint8)
    x = x if isinstance(layers[0], Bytes) else x.float() / 99 - 1
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(3)), x, torch.tensor([1])


def cut_alike(layers: tuple[nn.Module, ...], bands: Bands, operators: Operators) -> list[str]:
    """Operators of a step in bands, whose bits are those of the whole step."""
    module, x, y = network(layers)
    module(x)
    traced = trace(module, (x,), (y,), cross_entropy, "network")
    plain = lower_for_firmware(traced)
    cut = with_taking_over(with_bands(plain, bands))
    check_graph(cut)
    assert verify(cut, store_all_schedule(cut)).sound
    read = {id for node in cut.nodes for id in node.inputs}
    assert all(node.id in read for node in cut.nodes if "..held" in node.id)
    given = {id: tensor.detach().numpy().copy() for id, tensor in module.state_dict().items()}
    given |= {**constant_data(traced), "input": x.numpy(), "target": y.numpy()}
    expected, found = (run_step(graph, given, operators) for graph in (plain, cut))
    assert all(found[id].tobytes() == one.tobytes() for id, one in expected.items())
    assert not np.array_equal(found["0.weight" if "0.weight" in found else "1.weight"], 0)
    return [node.operation.op for node in cut.nodes if node.operation]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("bands", [Bands(2, 0, 0), Bands(6, 1000, 1500), Bands(99, 0, 10**6)])
def test_bands_have_the_bits_of_the_whole(name: str, bands: Bands, operators: Operators) -> None:
    found = cut_alike(NETWORKS[name], bands, operators)
    assert sum(op == "conv2d_rows" for op in found) > 1


@pytest.mark.parametrize("name", NOT_CUT)
def test_what_cannot_be_cut_stays_whole(name: str, operators: Operators) -> None:
    op, layers = NOT_CUT[name]
    assert op in cut_alike(layers, Bands(4, 0, 0), operators)


class Causal(nn.Module):
    """Cuts off what a convolution in bands has too much, and multiplies by what is whole."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(3, 6, 3, padding=2), nn.Conv1d(6, 6, 3, padding=2)
        self.third = nn.Conv1d(6, 4, 3, padding=2, dilation=2)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.first(x)[:, :, :-2].relu()
        return self.third((self.second(gate)[:, :, :-2].relu() * x.sum(1, keepdim=True)).relu())


def causal() -> Model:
    module, x = Causal(), torch.randn(1, 3, 16)
    return Model("causal", module, (x,), (torch.zeros_like(module(x)),), mse_loss)


@pytest.mark.parametrize("make", [u_net_transposed, causal])
def test_what_stands_beside_bands_has_the_bits_of_the_whole(make: Callable[[], Model], operators: Operators) -> None:
    torch.manual_seed(0)
    model = make()
    step, found = TrainingStep(model), []
    for bands in (None, Bands(2, 0, 0)):
        graph = step.graph(load_board("nrf52840"), layout=MemoryLayout(bands=bands))
        batch = iter((*model.inputs, *model.targets))
        given = {id: tensor.detach().numpy() for id, tensor in model.module.state_dict().items()}
        given |= {one.id: next(batch).numpy() for one in graph.residents if one.kind in ("input", "target")}
        found.append(run_step(graph, {**given, **step.constants(graph)}, operators))
    assert any(node.operation and node.operation.op.endswith("_rows") for node in graph.nodes)
    assert [id for id, one in found[0].items() if found[1][id].tobytes() != one.tobytes()] == []


INFERENCES: dict[str, tuple[nn.Module, ...]] = {
    "scores by filters": (nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3)),
    "a plane of scores": (nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 3, 3)),
    "a plane of probabilities": (nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 3, 3), nn.Sigmoid()),
}


@pytest.mark.parametrize("name", INFERENCES)
@pytest.mark.parametrize("bands", [Bands(3, 1000, 0), Bands(99, 0, 0)])
def test_an_inferences_output_is_a_resident(name: str, bands: Bands, operators: Operators) -> None:
    torch.manual_seed(0)
    module, x = nn.Sequential(*INFERENCES[name]), torch.randn(1, 3, 20, 18)
    step = TrainingStep(Model("scores", module, (x,), (torch.zeros_like(module(x)),), mse_loss))
    plain = step.inference(step.graph(load_board("nrf52840"))).graph
    cut = with_taking_over(with_bands(plain, bands))
    check_graph(cut)
    assert "conv2d_rows" in {node.operation.op for node in cut.nodes if node.operation}
    given = {id: tensor.detach().numpy() for id, tensor in module.state_dict().items()}
    given["inference.input"] = x.numpy()
    expected, found = (run_step(graph, given, operators)["inference.output"] for graph in (plain, cut))
    assert found.tobytes() == expected.tobytes()
    np.testing.assert_allclose(found, module(x).detach(), atol=1e-5)
