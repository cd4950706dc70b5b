# SPDX-License-Identifier: Apache-2.0
"""A traced step, run operator by operator, against eager autograd: equal to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from poet_planner import models
from poet_planner.models import Model
from poet_planner.tracing import trace
from poet_profiles.errors import UserError
from poet_runtime.executor import Execution, execute, residents_of, train_step
from poet_runtime.traced_graph import Blank, Kind, TracedGraph
from torch import nn

from tests.support.networks.eager import SEED, differences, eager_step, traced
from tests.support.networks.zoo import ZOO, zoo_model

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = {
    **{"digits_cnn": 4, "digits_cnn_small": 1, "resnet18_cifar_w4": 2, "vgg16_cifar_w4": 2, "resnet18_w4": 1},
    **{"unet": 1, "transformer": 2, "gpt_small": 2, "cnn_40k": 2, "bert_2x128": 2, "poet_resnet18": 2},
    **{"mlperf_resnet8": 3, "mlperf_ds_cnn": 2, "mlperf_mobilenet_v1": 2, "mlperf_autoencoder": 4},
}


def check(model: Model) -> TracedGraph:
    graph = traced(model)
    expected = eager_step(model)
    generator = torch.get_rng_state()
    torch.manual_seed(SEED)
    found = execute(graph, residents_of(graph, model.module, model.inputs, model.targets))
    assert differences(model, expected, found) == []
    assert torch.equal(torch.get_rng_state(), generator), "the generator is left as eager leaves it"
    return graph


@pytest.mark.parametrize(("name", "batch"), SMALL.items())
def test_built_in_model_equals_eager(name: str, batch: int) -> None:
    check(models.load(name, batch))


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2"])
def test_full_size_model_equals_eager(name: str) -> None:
    """Those that are not above in another width."""
    model = models.load(name, 2)
    smaller = model.inputs[0][..., :64, :64].contiguous()
    check(Model(name, model.module, (smaller,), model.targets, model.loss))


def test_bert_base_equals_eager_with_dropout() -> None:
    model = models.load("bert_base")
    graph = check(Model("bert_base", model.module, (model.inputs[0][:, :16].contiguous(),), model.targets, model.loss))
    draws = [operator.id for operator in graph.operators if operator.random]
    assert len(draws) == 1 + 3 * 12
    assert [operator.after for operator in graph.operators if operator.random] == [
        (),
        *((before,) for before in draws[:-1]),
    ]


@pytest.mark.parametrize("name", ZOO)
def test_hard_model_equals_eager(name: str) -> None:
    check(zoo_model(name))


@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.AdamW])
def test_four_steps_of_training_equal_eager(optimiser: type[torch.optim.Optimizer]) -> None:
    model, other = models.load("resnet18_cifar_w4", 2), models.load("resnet18_cifar_w4", 2)
    graph = traced(model)
    ours, theirs = (optimiser(m.module.parameters(), lr=0.01) for m in (model, other))
    for step in range(4):
        torch.manual_seed(step)
        inputs, targets = (torch.randn(2, 3, 32, 32),), (torch.randint(10, (2,)),)
        ours.zero_grad()
        theirs.zero_grad()
        loss = train_step(graph, model.module, inputs, targets)
        expected = other.loss(other.module(*inputs), *targets)
        expected.backward()
        ours.step()
        theirs.step()
        assert torch.equal(loss, expected)
    state, expected_state = model.module.state_dict(), other.module.state_dict()
    assert all(torch.equal(state[name], expected_state[name]) for name in expected_state)


def test_digits_cnn_reads_as_a_person_would_write_it() -> None:
    graph = traced(models.load("digits_cnn"))
    ids = [operator.id for operator in graph.operators]
    assert ids[:6] == ["conv1", "relu1", "block2.conv", "block2.relu", "block2.add", "block3.conv"]
    assert {"pool1.indices", "conv1.backward_weight", "conv1.backward_weight.bias"} <= graph.values.keys()
    assert "conv1.backward_input" not in ids, "nobody wants the gradient of the images"
    assert graph.gradients["conv5.weight"].source == "conv5.backward_weight"
    by_id = {operator.id: operator for operator in graph.operators}
    assert graph.inputs(by_id["conv5.backward_weight"]) == ("relu5.backward", "pool1")
    assert graph.inputs(by_id["conv5.backward_input"]) == ("relu5.backward",)
    assert graph.inputs(by_id["pool1.backward"]) == ("conv5.backward_input", "pool1.indices")
    assert graph.values["conv1"].bytes == 24 * 8 * 8 * 8 * 4


def test_residents_account_for_every_parameter_and_gradient() -> None:
    model = models.load("mlperf_resnet8")
    graph = traced(model)
    parameters = {name: p.numel() * 4 for name, p in model.module.named_parameters()}
    assert {r.id: r.bytes for r in graph.residents if r.kind is Kind.PARAMETER} == parameters
    gradients = {r.id.removesuffix(".grad"): r.bytes for r in graph.residents if r.kind is Kind.GRADIENT}
    assert gradients == parameters
    assert {r.id for r in graph.residents if r.kind is Kind.BUFFER} == {n for n, _ in model.module.named_buffers()}
    assert len({*graph.values, *(r.id for r in graph.residents)}) == len(graph.values) + len(graph.residents)


def test_operands_said_to_be_blank_are_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def poisoned(_: Execution, layout: Blank) -> torch.Tensor:
        blank = torch.empty_strided(layout.shape, layout.stride, dtype=layout.dtype)
        return blank.fill_(float("nan")) if layout.dtype.is_floating_point else blank.fill_(-(2**20))

    monkeypatch.setattr(Execution, "_fresh", poisoned)
    for name in ("resnet18_w4", "mlperf_mobilenet_v1", "unet"):
        check(models.load(name, 1 if name == "unet" else 2))
    for name in ("frozen", "norms", "random", "in-place"):
        check(zoo_model(name))


def test_a_number_taken_out_of_a_tensor_is_refused() -> None:
    class Scaled(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x * x.sum().item())

    model = Model("scaled", Scaled(4, 2), (torch.ones(3, 4),), (torch.tensor([0, 1, 0]),), nn.CrossEntropyLoss())
    with pytest.raises(UserError, match="keep it a tensor"):
        traced(model)


def test_tracing_leaves_the_model_as_it_is() -> None:
    class Remembers(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.last = super().forward(x)
            return self.last

    model = Model("remembers", Remembers(4, 2), (torch.ones(3, 4),), (torch.tensor([0, 1, 0]),), nn.CrossEntropyLoss())
    traced(model)
    assert not hasattr(model.module, "last")
    eager_step(model)
    check(model)


@pytest.mark.parametrize(
    ("module", "target", "loss", "complaint"),
    [
        (nn.Embedding(10, 4, sparse=True), torch.zeros(6, 4), nn.MSELoss(), "sparse=False"),
        (nn.Embedding(10, 4), torch.zeros(6), lambda y, t: y[y > 0].sum(), "depends on its data"),
    ],
)
def test_what_has_no_fixed_dense_graph_is_refused(
    module: nn.Module, target: torch.Tensor, loss: Callable[..., torch.Tensor], complaint: str
) -> None:
    with pytest.raises(UserError, match=complaint):
        trace(module, (torch.arange(6),), (target,), loss, "embedding")


def test_a_loss_that_is_no_scalar_is_refused() -> None:
    loss = nn.CrossEntropyLoss(reduction="none")
    with pytest.raises(UserError, match="scalar"):
        trace(nn.Linear(2, 2), (torch.randn(3, 2),), (torch.zeros(3, dtype=torch.long),), loss, "linear")


def test_a_model_with_nothing_to_train_is_refused() -> None:
    with pytest.raises(UserError, match="nothing to train"):
        trace(nn.Flatten(), (torch.randn(3, 2),), (torch.zeros(3, dtype=torch.long),), nn.CrossEntropyLoss(), "none")


def test_unknown_model_names_a_near_one() -> None:
    with pytest.raises(UserError, match="did you mean resnet18_cifar"):
        models.load("resnet18_cifer")


def test_any_module_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_models.py").write_text(
        "import torch\n"
        "from poet_planner.models import Model\n"
        "def tagger(batch):\n"
        "    inputs, labels = (torch.randn(batch or 3, 4),), (torch.zeros(batch or 3, dtype=torch.long),)\n"
        "    return Model('tagger', torch.nn.Linear(4, 2), inputs, labels, torch.nn.functional.cross_entropy)\n"
        "def module(batch):\n"
        "    return torch.nn.Linear(4, 2)\n"
    )
    monkeypatch.chdir(tmp_path)
    model = models.load("my_models:tagger", 5)
    assert model.inputs[0].shape == (5, 4)
    check(model)
    with pytest.raises(UserError, match=r"must return a poet_planner\.Model"):
        models.load("my_models:module")
    for no_model in ("my_models:nothing", "my_models:torch"):
        with pytest.raises(UserError, match="give module:callable"):
            models.load(no_model)


def test_like_threads_equal_like_threads() -> None:
    torch.set_num_threads(2)
    for name in ("resnet18_cifar_w8", "mlperf_ds_cnn"):
        check(models.load(name, 4))
