# SPDX-License-Identifier: Apache-2.0
"""A stream's inference by the firmware's kernels: its answers are PyTorch's of each window."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from poet_planner.models import Model
from poet_planner.planning.calibration import Calibration
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.support import needs
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import run_step, tensors_of_step

BOARD = load_board("nrf52840")

pytestmark = needs.gcc


class Mixed(nn.Module):
    """Kernels of two lengths side by side, cut to one length, and a path around them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.short, self.long = nn.Conv1d(3, 4, 4, 2), nn.Conv1d(2, 2, 3, groups=2), nn.Conv1d(2, 2, 5)
        self.point, self.end = nn.Conv1d(4, 4, 1), nn.Linear(4 * 5, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        one, two = x.split(2, 1)
        y = torch.cat([self.short(one)[..., 2:], self.long(two)], 1)
        around = x.split([4, x.shape[-1] - 4], -1)[1].reshape(-1, 2, 2, x.shape[-1] - 4).flatten(1, 2)
        return self.end((self.point(y).relu() + around)[..., -5:].flatten(1))  # type: ignore[no-any-return]


class LastFrame(nn.Module):
    """Dilated and causal in effect: only the newest column of the last layer is read."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv1d(2, 4, 2), nn.ReLU(), nn.Conv1d(4, 4, 2, dilation=2), nn.BatchNorm1d(4), nn.ReLU()),
            *(nn.Conv1d(4, 4, 2, dilation=4), nn.ReLU()),
        )
        self.end = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.layers(x)[..., -1])  # type: ignore[no-any-return]


class Frames(nn.Module):
    """Frames first: linear layers and norms of each, a convolution over them, and their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Linear(5, 4), nn.LayerNorm(4)
        self.conv, self.end = nn.Conv1d(4, 6, 3, stride=2), nn.Linear(6, 3)  # as many as columns

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.embed(x)).softmax(-1).transpose(1, 2)
        return self.end(self.conv(x).tanh().mean(-1))  # type: ignore[no-any-return]


def spectrogram() -> nn.Module:
    """Rows are time; columns are padded, and the last rows of a pool are left over."""
    return nn.Sequential(
        *(nn.Conv2d(1, 3, 3, stride=(2, 1), padding=(0, 1)), nn.ReLU(), nn.MaxPool2d((3, 2))),
        *(nn.Conv2d(3, 3, (2, 1), groups=3), nn.AvgPool2d((1, 3)), nn.Flatten(), nn.Linear(3 * 2, 3)),
    )


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "kernels side by side": (Mixed, (3, 30), 2),
    "the last frame": (LastFrame, (2, 12), -1),
    "frames first": (Frames, (13, 5), 1),
    "rows of images": (spectrogram, (1, 22, 6), 2),
}


def model_of(module: nn.Module, shape: tuple[int, ...]) -> Model:
    return Model("own", module, (torch.randn(2, *shape),), (torch.tensor([0, 2]),), cross_entropy)


@pytest.mark.parametrize("name", NETWORKS)
def test_answers_are_those_of_the_window(name: str, operators: Operators) -> None:
    torch.manual_seed(0)
    make, shape, axis = NETWORKS[name]
    model = model_of(make(), shape)
    step = TrainingStep(model, stream=axis)
    graph = step.graph(BOARD)
    window = step.inference(graph)
    stream = window.stream
    assert stream is not None
    assert verify(stream.graph, store_all_schedule(stream.graph)).sound
    assert stream.graph.residents[: len(graph.residents)] == graph.residents
    x, *histories, output = stream.graph.residents[len(graph.residents) :]
    assert {one.kind for one in histories} == {"history"}
    columns = x.shape[axis]
    heard = torch.randn(1, *shape[: axis % 3 - 1], columns * (stream.calls + 4), *shape[axis % 3 :])
    held = {id: tensor.detach().numpy() for id, tensor in model.module.state_dict().items()}
    held |= {one.id: np.zeros(one.shape, np.float32) for one in histories}
    model.module.eval()
    for end in range(columns, heard.shape[axis] + 1, columns):
        new = np.ascontiguousarray(heard.narrow(axis, end - columns, columns).numpy())
        held |= run_step(stream.graph, {**held, x.id: new, **window.data, **stream.data}, operators)
        if end >= columns * stream.calls:
            with torch.no_grad():
                expected = model.module(heard.narrow(axis, end - shape[axis - (axis > 0)], shape[axis - (axis > 0)]))
            np.testing.assert_allclose(held[output.id], expected.numpy(), atol=1e-6, rtol=1e-6)


class Sound(nn.Module):
    """Samples of int16, frozen layers with a pool and a sum, and a head that is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.wide, self.pool = nn.Conv1d(3, 6, 4, 2), nn.Conv1d(6, 6, 3, groups=2), nn.MaxPool1d(2, 1)
        self.requires_grad_(False)
        self.end = nn.Linear(6 * 11, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x.float() * (10 / 256)).relu()
        return self.end((self.pool(self.wide(x)) + x[..., 3:]).flatten(1))  # type: ignore[no-any-return]


def test_a_stream_of_frozen_layers_remembers_bytes(operators: Operators) -> None:
    """Its answers have the bits of the window's, by the same kernels."""
    torch.manual_seed(0)
    module, random = Sound().eval(), np.random.default_rng(0)
    x = torch.from_numpy(random.integers(-900, 900, (2, 3, 30)).astype(np.int16))
    model = Model("sound", module, (x,), (torch.tensor([0, 2]),), cross_entropy)
    step = TrainingStep(model, calibration=Calibration(), stream=2)
    window = step.inference(step.graph(BOARD))
    assert window.stream is not None
    graph = window.stream.graph
    histories = [one for one in graph.residents if one.kind == "history"]
    new, output = (next(one for one in graph.residents if one.id == f"inference.{id}") for id in ("input", "output"))
    assert (new.bytes, new.dtype, {one.dtype for one in histories}) == (2 * 3 * 2, "i16", {"i8"})
    kinds = [node.operation.op for node in graph.nodes if node.operation]
    assert kinds.count("shift_s8") == len(histories) == 4
    assert {"levels_s8", "add_s8", "max_pool2d_s8"} <= {*kinds}
    assert {"quantize_s8", "map_s8"}.isdisjoint(kinds)
    held = {id: tensor.detach().numpy() for id, tensor in module.state_dict().items()}
    held |= {**step.constants(step.graph(BOARD)), **window.data, **window.stream.data, "input": x.numpy()}
    held |= {one.id: np.zeros(one.shape, np.int8 if one.dtype else np.float32) for one in histories}
    heard = random.integers(-1200, 1200, (1, 3, 36)).astype(np.int16)
    for end in range(2, 37, 2):
        given = {**held, new.id: np.ascontiguousarray(heard[..., end - 2 : end])}
        found = tensors_of_step(graph, given, operators)
        held |= {one.id: found[one.id].view(np.int8 if one.dtype else np.float32) for one in (*histories, output)}
        if end >= 30:
            whole = {**held, new.id: np.ascontiguousarray(heard[..., end - 30 : end])}
            expected = run_step(window.graph, whole, operators)[output.id]
            assert np.array_equal(held[output.id], expected.ravel())


class Position(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.end, self.place = nn.Conv1d(2, 2, 3), nn.Linear(20, 3), nn.Parameter(torch.randn(2, 12))

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.conv(x + self.place).flatten(1))  # type: ignore[no-any-return]


class Of(nn.Module):
    """A layer of one function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.both, self.end = nn.GRU(2, 3, batch_first=True, bidirectional=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.both(x.transpose(1, 2))[0].mean(1))  # type: ignore[no-any-return]


def between(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv1d(2, 2, 3), *layers, nn.Flatten(), nn.LazyLinear(3))


REFUSED: dict[str, tuple[Callable[[], nn.Module], int, str]] = {
    "a norm over time": (lambda: between(nn.GroupNorm(1, 2)), 2, r"1 \(GroupNorm\) takes the columns of the whole"),
    "an instance norm": (lambda: between(nn.InstanceNorm1d(2)), 2, r"takes the columns of the whole"),
    "padding": (lambda: between(nn.Conv1d(2, 2, 3, padding=1)), 2, r"1 \(Conv1d\) pads its input along time"),
    "both ways": (Recurrent, 2, "takes the columns of the whole"),
    "a place in the window": (Position, 2, r"add \(Position\) treats each column by its place"),
    "a mean taken off": (lambda: between(Of(lambda x: x - x.mean(-1, keepdim=True))), 2, "combines each column"),
    "a gate": (lambda: between(Of(lambda x: x * x.amax((1, 2), keepdim=True).sigmoid())), 2, "combines each column"),
    "attention without weights": (lambda: between(Of(lambda x: x @ x.mT @ x)), 2, "combines each column"),
    "the highest so far": (lambda: between(Of(lambda x: x[:, :1].cummax(2)[0])), 2, "takes the columns of the whole"),
    "numbers summed up": (
        lambda: between(Of(lambda x: x.round().int().cumsum(2).float())),
        2,
        "takes the columns of the whole",
    ),
    "in reverse": (
        lambda: between(Of(lambda x: x.index_select(2, torch.arange(9, -1, -1)))),
        2,
        "takes the columns of the whole",
    ),
    "two paces": (lambda: between(Of(lambda x: x[..., ::2][..., -3:] + x[..., ::3][..., -3:])), 2, "for 2 and for 3"),
    "softmax over time": (lambda: between(nn.Softmax(2)), 2, r"1 \(Softmax\) takes the columns of the whole"),
    "the samples": (lambda: between(), 0, "no axis of columns"),
    "no axis": (lambda: between(), 3, "no axis of columns"),
    "an answer a column": (lambda: nn.Conv1d(2, 3, 3), 2, "an answer for each column"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_stream_is_refused_by_name(name: str) -> None:
    """Before it is trained, too: a last layer of zeros gives the right answers of anything."""
    make, axis, words = REFUSED[name]
    module = make()
    x = torch.randn(2, 2, 12)
    module(x)
    for parameter in list(module.parameters())[-2:]:
        nn.init.zeros_(parameter)
    target = torch.zeros(2, 10, dtype=torch.int64) if "answer" in name else torch.tensor([0, 2])
    with pytest.raises(UserError, match=f"--stream {axis}: .*({words})"):
        _ = TrainingStep(Model("own", module, (x,), (target,), cross_entropy), stream=axis).streamed
