# SPDX-License-Identifier: Apache-2.0
"""`--frozen int8`: the board's bits against PyTorch's operators run one by one, and both against the f32 network."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from poet_planner.lowering.firmware import in_integers
from poet_planner.lowering.int8.frozen_int8 import quantised, ranges_of
from poet_planner.lowering.rewrites.constants import stored
from poet_planner.models import Model
from poet_planner.planning.calibration import Calibration
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.report.int8 import int8_report
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.check import check_plan
from poet_planner.tracing import trace
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_runtime.executor import Execution, execute, store_all_steps
from poet_runtime.traced_graph import Kind, TracedGraph
from torch import Tensor, nn
from torch.nn import functional

from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import run_step, tensors_of_step
from tests.support.networks.quantised import EXTENT, Branches, chain

BOARD = load_board("nrf52840")
BATCH = 3


class Residual(nn.Module):
    """The input itself is summed, a weight is used twice, and a clipped ReLU stands behind a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 6, 1), nn.Conv2d(6, 6, 3, padding=1, bias=False)
        self.clipped = nn.ReLU6()

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        y = self.clipped(y + self.second(y))
        return torch.sigmoid(self.second(y) + x).flatten(1)


class Rows(nn.Module):
    """Convolutions of one axis, a linear layer of each row, and one without a bias behind what int8 has no form for."""

    def __init__(self) -> None:
        super().__init__()
        self.along, self.each = nn.Conv1d(EXTENT, 6, 3, padding=1), nn.Linear(EXTENT, 5)
        self.last = nn.Linear(30, 12, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.along(x.squeeze(1)))
        return self.last(functional.layer_norm(self.each(x), (5,)).flatten(1))


class DeadFilter(nn.Module):
    """A filter of zeros, and one whose bias is a thousand million times its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        with torch.no_grad():
            self.conv.weight[0] = 0.0
            assert self.conv.bias is not None
            self.conv.bias[0] = 0.0
            self.conv.weight[1] *= 1e-12
            self.conv.bias[1] = 1.5

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).flatten(1)


class OtherOrder(nn.Module):
    """Tensors that PyTorch stores in another order of their axes, and views that see them so."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 6, 3, stride=2, padding=1)
        self.all, self.attended, self.last = nn.Linear(96, 40), nn.Linear(10, 30), nn.Linear(10, 6)
        self.to(memory_format=torch.channels_last)

    def forward(self, x: Tensor) -> Tensor:
        x = self.second(functional.relu(self.first(x.to(memory_format=torch.channels_last))))
        rows = self.attended(functional.relu(self.all(x.permute(0, 2, 3, 1).flatten(1))).unflatten(1, (4, 10)))
        heads = (each.unflatten(2, (2, 5)).transpose(1, 2) for each in rows.chunk(3, 2))
        return self.last(functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)).mean(1)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "chain": chain,
    "branches": Branches,
    "residual": Residual,
    "rows": Rows,
    "dead filter": DeadFilter,
    "other order": OtherOrder,
}


def model_of(frozen: nn.Module, head: nn.Module | None = None, batch: int = BATCH) -> Model:
    x = torch.rand(batch, 1, EXTENT, EXTENT)
    frozen.requires_grad_(False).eval()
    module = nn.Sequential(OrderedDict(backbone=frozen, head=head or nn.Linear(frozen(x).shape[1], 10)))
    return Model("frozen", module, (x,), (torch.arange(batch) % 10,), functional.cross_entropy)


def step_of(name: str, seed: int = 0) -> tuple[Model, TrainingStep]:
    torch.manual_seed(seed)
    model = model_of(NETWORKS[name]())
    return model, TrainingStep(model, calibration=Calibration())


def kinds(graph: Graph) -> list[str]:
    return [node.operation.op for node in graph.nodes if node.operation and not node.backward]


def given_to(model: Model) -> dict[str, Tensor]:
    state = {**dict(model.module.named_parameters()), **dict(model.module.named_buffers())}
    batch = {"input": model.inputs[0], "target": model.targets[0]}
    return {id: tensor.detach() for id, tensor in state.items()} | batch


def values_of(graph: TracedGraph, given: dict[str, Tensor]) -> dict[str, Tensor]:
    """Everything that PyTorch's operators, and those of `poet_runtime.integers`, make one after the other."""
    execution, seen = Execution(graph, given), dict(given)
    for step in store_all_steps(graph):
        execution.step(step)
        seen |= execution.values
    return seen


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", NETWORKS)
def test_the_firmware_has_the_bits_of_pytorchs_operators_on_int8(operators: Operators, name: str, seed: int) -> None:
    model, step = step_of(name, seed)
    graph = step.graph(BOARD)
    given = given_to(model)
    arrays: dict[str, Any] = {id: stored(given[id]) for id in ("input", "target", "head.weight", "head.bias")}
    found = tensors_of_step(graph, arrays | dict(step.constants(graph)), operators)
    expected = values_of(in_integers(step.traced), given)
    compared = 0
    for node in graph.nodes:
        if node.operation and node.operation.op.endswith("_s8"):
            (id,) = node.operation.results
            one = expected[id].numpy()
            assert np.array_equal(found[id].view(one.dtype), one.ravel()), node.id
            compared += 1
    assert compared >= 3
    loss = functional.cross_entropy(expected["head"], given["target"])
    assert found["loss"].view(np.float32)[0] == pytest.approx(float(loss), rel=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_features_are_near_those_of_f32(name: str) -> None:
    model, step = step_of(name)
    given = given_to(model)
    exact = values_of(in_integers(step.traced), given)["head"]
    plain = model.module(*model.inputs).detach()
    assert 0.0 < (exact - plain).norm() < 0.04 * plain.norm()


@pytest.mark.parametrize("name", NETWORKS)
def test_whole_sums_are_within_steps_of_the_graph_that_quantises_in_f32(name: str) -> None:
    """Which PyTorch itself computes: it shares scales and weights, and nothing of sums, biases, rescaling."""
    model, step = step_of(name)
    given = given_to(model)
    exact, plain = values_of(in_integers(step.traced), given), values_of(quantised(step.traced), given)
    numbers = [id for id, tensor in exact.items() if tensor.dtype == torch.int8 and f"{id}..int8" in plain]
    for id in numbers:
        assert (exact[id].flatten().int() - plain[f"{id}..int8"].flatten().int()).abs().max() <= 3, id


@pytest.mark.parametrize("name", NETWORKS)
def test_the_inference_beside_it_has_the_same_scores_and_no_constants_of_its_own(name: str) -> None:
    model, step = step_of(name)
    given = given_to(model)
    lowered = step.inference(step.graph(BOARD))
    assert not any("int8" in id or "scale" in id or "start" in id for id in lowered.data)
    assert [kind for kind in kinds(lowered.graph) if kind.endswith("_s8")] == [
        kind for kind in kinds(step.graph(BOARD)) if kind.endswith("_s8")
    ]
    forward = step.forward
    own = next(one.id for one in forward.residents if one.kind is Kind.INPUT)
    scores = execute(in_integers(forward), given | {own: given["input"][:1]}).loss
    assert torch.allclose(scores, values_of(in_integers(step.traced), given)["head"][:1], rtol=1e-5, atol=1e-6)


def test_layers_norms_and_relus_of_a_chain_are_one_operator_each() -> None:
    _, step = step_of("chain")
    graph = step.graph(BOARD)
    integers = ["quantize_s8", "conv2d_s8", "conv2d_s8", "max_pool2d_s8", "conv2d_s8", "dequantize_s8"]
    assert kinds(graph) == [*integers, "linear", "log_softmax", "nll_loss"]
    assert sum(one.bytes for one in graph.constants if one.dtype == "i8") == 7 * 9 + 12 * 7 * 9 + 5 * 12


class Scaled(nn.Module):
    """What a front end of features makes of samples in bytes."""

    def forward(self, x: Tensor) -> Tensor:
        return x.float() * (10 / 256)


@pytest.mark.parametrize(("dtype", "by"), [(torch.uint8, "map_s8"), (torch.int8, "map_s8"), (torch.int16, "levels_s8")])
def test_whole_numbers_of_a_sample_reach_int8_at_once(operators: Operators, dtype: torch.dtype, by: str) -> None:
    """They have no copy in f32; each becomes what PyTorch quantises it to."""
    torch.manual_seed(0)
    backbone = nn.Sequential(Scaled(), chain()).requires_grad_(False).eval()
    step = 97 if dtype == torch.int16 else 1
    x = (step * torch.arange(BATCH * EXTENT * EXTENT)).to(dtype).reshape(BATCH, 1, EXTENT, EXTENT)
    module = nn.Sequential(OrderedDict(backbone=backbone, head=nn.Linear(backbone(x).shape[1], 10)))
    model = Model("bytes", module, (x,), (torch.arange(BATCH) % 10,), functional.cross_entropy)
    step = TrainingStep(model, calibration=Calibration())
    graph = step.graph(BOARD)
    assert kinds(graph)[:2] == [by, "conv2d_s8"]
    assert next(one for one in graph.residents if one.id == "input").bytes == x.nbytes
    given = given_to(model)
    arrays: dict[str, Any] = {id: stored(given[id]) for id in ("target", "head.weight", "head.bias")}
    found = tensors_of_step(graph, {**arrays, "input": x.numpy(), **step.constants(graph)}, operators)
    plain = values_of(quantised(step.traced), given)
    (mapped,) = (node.operation.results[0] for node in graph.nodes if node.operation and node.operation.op == by)
    assert np.array_equal(found[mapped].view(np.int8), plain[mapped].numpy().ravel())
    exact = values_of(in_integers(step.traced), given)["head"]
    assert functional.cross_entropy(exact, given["target"]).item() == pytest.approx(found["loss"].view(np.float32)[0])
    beside = step.inference(graph)
    assert kinds(beside.graph)[:2] == [by, "conv2d_s8"]
    assert next(one for one in beside.graph.residents if one.id == "inference.input").bytes == x[0].nbytes


def test_what_int8_has_no_form_for_stays_in_f32_between_layers_on_int8() -> None:
    found = kinds(step_of("rows")[1].graph(BOARD))
    assert found.count("conv2d_s8") == 1
    assert found.count("linear_s8") == 2
    assert found.count("quantize_s8") == found.count("dequantize_s8") == 2


def test_a_pool_keeps_the_scale_of_what_it_reads_and_padding_has_a_number() -> None:
    torch.manual_seed(0)
    model = model_of(nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.Flatten()))
    traced = trace(model.module, model.inputs, model.targets, model.loss, model.name)
    ranges = ranges_of(traced, [{"input": torch.full((BATCH, 1, EXTENT, EXTENT), 0.5) + torch.rand(1)}])
    assert ranges["backbone.1"] == ranges["backbone.0"]
    assert ranges["input"][0] == 0.0
    assert all(low <= 0.0 <= high for low, high in ranges.values())


class TrainedNorm(nn.Module):
    """Of a frozen convolution the norm is trained, and what stands behind it is frozen again."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.after = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 3, 3)
        self.dropout, self.drawn = nn.Dropout(0.5), nn.Conv2d(1, 4, 3)
        for layer in (self.conv, self.after, self.drawn):
            layer.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return (self.after(self.norm(self.conv(x))).sum((2, 3)), self.drawn(self.dropout(x)).mean((2, 3)))[0].flatten(1)


def test_what_is_behind_something_trained_stays_in_f32() -> None:
    x = torch.rand(BATCH, 1, EXTENT, EXTENT)
    model = Model("norm", TrainedNorm(), (x,), (torch.arange(BATCH) % 3,), functional.cross_entropy)
    step = TrainingStep(model, calibration=Calibration())
    assert step.int8_ranges.keys() == {"input", "conv"}
    found = kinds(step.graph(BOARD))
    assert found[:3] == ["quantize_s8", "conv2d_s8", "dequantize_s8"]
    assert found.count("conv2d") == 1
    assert kinds(step.inference(step.graph(BOARD)).graph)[:3] == found[:3]


def test_an_inference_that_reads_a_layers_operand_in_another_order_is_refused() -> None:
    """Of one sample the rows are a view of the image, of several a copy."""

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.image, self.each = nn.Conv2d(1, 8, 3), nn.Linear(8, 4)
            self.to(memory_format=torch.channels_last)

        def forward(self, x: Tensor) -> Tensor:
            x = self.image(x.to(memory_format=torch.channels_last))
            return self.each(x.permute(0, 2, 3, 1).flatten(1, 2)).mean(1)

    step = TrainingStep(model_of(Rows()), calibration=Calibration())
    graph = step.graph(BOARD)
    assert kinds(graph).count("linear_s8") == 1
    with pytest.raises(UserError, match=r"frozen part is another: backbone\.each is not on int8"):
        step.inference(graph)


class Mixed(nn.Module):
    """A frozen layer on int8, and one behind a trained layer that stays in f32 and passes its gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.trained, self.after = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 3, 3)
        self.head = nn.Linear(48, 10)
        for layer in (self.conv, self.after):
            layer.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(functional.relu(self.after(self.trained(self.conv(x)))).flatten(1))  # type: ignore[no-any-return]


def test_frozen_layers_on_int8_and_in_f32_run_together(operators: Operators) -> None:
    """By the firmware's kernels, with the loss and the gradients that PyTorch has on the same bits."""
    torch.manual_seed(0)
    x = torch.rand(BATCH, 1, EXTENT, EXTENT)
    model = Model("mixed", Mixed(), (x,), (torch.arange(BATCH) % 10,), functional.cross_entropy)
    step = TrainingStep(model, calibration=Calibration())
    graph, given = step.graph(BOARD), given_to(model)
    assert [kind for kind in kinds(graph) if kind.startswith("conv2d")] == ["conv2d_s8", "conv2d", "conv2d_relu"]
    arrays: dict[str, Any] = {one.id: stored(given[one.id]) for one in graph.residents if one.id in given}
    found = run_step(graph, arrays | dict(step.constants(graph)), operators)
    expected = execute(in_integers(step.traced), given)
    assert float(found["loss"]) == pytest.approx(float(expected.loss), rel=1e-5)
    assert expected.gradients.keys() == {"trained.weight", "trained.bias", "head.weight", "head.bias"}
    for name, gradient in expected.gradients.items():
        off = np.abs(found[f"{name}.grad"] - gradient.numpy()).max()
        assert off <= 1e-5 * float(gradient.abs().max()), name


class TwoWays(nn.Module):
    """In training the frozen layer reads something else than in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3).requires_grad_(False)
        self.head = nn.Linear(72, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.conv(x if self.training else 5.0 * x).flatten(1))  # type: ignore[no-any-return]


def test_an_inference_whose_frozen_part_is_another_is_refused() -> None:
    x = torch.rand(BATCH, 1, EXTENT, EXTENT)
    model = Model("two ways", TwoWays(), (x,), (torch.arange(BATCH) % 10,), functional.cross_entropy)
    step = TrainingStep(model, calibration=Calibration())
    with pytest.raises(UserError, match="in evaluation mode its frozen part is another"):
        step.inference(step.graph(BOARD))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_schedule_is_checked_against_the_quantised_graph(name: str) -> None:
    model, step = step_of(name)
    graph = step.graph(BOARD)
    report = check_plan(model, graph, store_all_schedule(graph), int8_ranges=step.int8_ranges)
    assert report.different == ()


def test_micro_batches_have_the_ranges_of_the_whole_batch() -> None:
    torch.manual_seed(0)
    whole = TrainingStep(model_of(chain(), batch=4), calibration=Calibration())
    part = whole.in_micro_batches(2)
    assert part.int8_ranges == whole.int8_ranges
    scales = [{id: data.tobytes() for id, data in step.constants(step.graph(BOARD)).items()} for step in (whole, part)]
    assert scales[0] == scales[1]


def test_ranges_are_those_of_the_samples_that_are_given(tmp_path: Path) -> None:
    path = tmp_path / "samples.npz"
    samples = np.random.default_rng(0).uniform(-3, 2, (7, 1, EXTENT, EXTENT)).astype(np.float32)
    np.savez(path, input=samples)
    torch.manual_seed(0)
    model = model_of(chain())
    step = TrainingStep(model, calibration=Calibration(path))
    assert step.int8_ranges["input"] == (samples.min(), samples.max())
    assert step.int8_samples == 7
    seen = model.module.get_submodule("backbone.conv1")(torch.from_numpy(samples))
    folded = model.module.get_submodule("backbone.norm1")(seen).relu()
    assert step.int8_ranges["backbone.relu1"][1] == pytest.approx(float(folded.max()), rel=1e-4)


def refusal(model: Model, board: str = "nrf52840", samples: Path | None = None) -> str:
    with pytest.raises(UserError) as refused:
        TrainingStep(model, calibration=Calibration(samples)).graph(load_board(board))
    return str(refused.value)


def test_what_cannot_be_on_int8_is_refused_in_a_line(tmp_path: Path) -> None:
    x = torch.rand(BATCH, 1, EXTENT, EXTENT)
    head = nn.Sequential(nn.Flatten(), nn.Linear(EXTENT**2, 10))
    nothing = Model("plain", head, (x,), (torch.arange(BATCH),), functional.cross_entropy)
    assert "nothing of plain is frozen" in refusal(nothing)
    for odd in (nn.Embedding(9, 4), nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))):
        given = torch.randint(9, (BATCH, 3)) if isinstance(odd, nn.Embedding) else torch.rand(BATCH, 3, 4)
        module = nn.Sequential(odd.requires_grad_(False), nn.Flatten(), nn.Linear(12, 10))
        words = refusal(Model("odd", module, (given,), (torch.arange(BATCH),), functional.cross_entropy))
        assert re.search(r"0 of \d frozen weights are on int8: no convolution .* reads 0\.\S+ as it is", words)
    assert "rpi4b trains in PyTorch" in refusal(model_of(chain()), "rpi4b")
    infinite = tmp_path / "infinite.npz"
    np.savez(infinite, input=np.full((2, 1, EXTENT, EXTENT), 3e38, np.float32))
    doubling = nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten())
    nn.init.constant_(doubling[0].weight, 2.0)
    assert "backbone.0 is not finite" in refusal(model_of(doubling), samples=infinite)
    for wrong in (np.zeros((2, 1, 3, 3), np.float32), np.zeros((0, 1, EXTENT, EXTENT), np.float32)):
        np.savez(infinite, input=wrong)
        assert str(infinite) in refusal(model_of(chain()), samples=infinite)


def test_ranges_hang_on_twelve_bits_of_a_scale_alone() -> None:
    """What another computer adds up in another order has the same numbers."""
    torch.manual_seed(0)
    _, step = step_of("chain")
    moved = {id: (low, high * (1 + 2e-7)) for id, (low, high) in step.int8_ranges.items()}
    graphs = [in_integers(replace(step.traced, int8_ranges=ranges)) for ranges in (step.int8_ranges, moved)]
    assert all(torch.equal(graphs[0].constants[id], data) for id, data in graphs[1].constants.items())


class Reshaped(nn.Module):
    """A frozen convolution's weights as a product's; beside it some whose input is a part of the batch."""

    def __init__(self, part: bool) -> None:
        super().__init__()
        self.conv, self.head, self.part = nn.Conv1d(2, 4, 3).requires_grad_(False), nn.Linear(4, 3), part

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, 1:7] if self.part else x
        return self.head(functional.linear(x, self.conv.weight.flatten(1), self.conv.bias).relu())  # type: ignore[no-any-return]


def reshaped(part: bool) -> TrainingStep:
    torch.manual_seed(0)
    x = torch.randn(4, 8 if part else 6)
    model = Model("reshaped", Reshaped(part), (x,), (torch.arange(4) % 3,), functional.cross_entropy)
    return TrainingStep(model, calibration=Calibration())


def test_reshaped_weights_are_on_int8(operators: Operators) -> None:
    step = reshaped(part=False)
    graph = step.graph(load_board("nrf52840"))
    report = int8_report(graph, 4)
    assert report is not None and (report.layers, report.frozen_layers) == (1, 1)
    window = step.inference(graph)
    model = step.model
    given = {id: tensor.detach().numpy() for id, tensor in model.module.state_dict().items()}
    x = model.inputs[0][:1]
    found = run_step(
        window.graph, {**given, **step.constants(graph), **window.data, "inference.input": x.numpy()}, operators
    )
    with torch.no_grad():
        expected = model.module.eval()(x).numpy()
    assert np.abs(found["inference.output"] - expected).max() < 0.05 * np.abs(expected).max()


def test_a_plan_says_that_nothing_is_on_int8() -> None:
    graph = reshaped(part=True).graph(load_board("nrf52840"))
    report = int8_report(graph, 4)
    assert report is not None and (report.layers, report.frozen_layers) == (0, 1)
    assert int8_report(graph, None) is None
