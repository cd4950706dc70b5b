# SPDX-License-Identifier: Apache-2.0
"""What the planner makes of a traced graph, run by PyTorch: eager's results; and what memory it really takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from poet_planner import models
from poet_planner.cli import app
from poet_planner.lowering import lower_for_firmware, lower_for_linux
from poet_planner.models import Model
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve import OptimiseOptions, optimise
from poet_planner.torch_reference.check import check_plan
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.file import write_graph
from poet_profiles.schedule import Action, Schedule, Step
from poet_profiles.schedule.file import write_schedule
from poet_runtime.compiled_step import CompiledStep
from poet_runtime.executor import execute, residents_of
from poet_runtime.measured_sizes import measured
from poet_runtime.nested import tensors_in
from poet_runtime.plan_steps import planned_steps
from poet_runtime.traced_graph import TracedGraph
from torch import Tensor
from torch.autograd.profiler import profile
from typer.testing import CliRunner

from tests.support.firmware.crude_schedules import everything_paged, everything_recomputed
from tests.support.graphs.costed import costed
from tests.support.networks.eager import SEED, differences, eager_step, traced
from tests.support.networks.own import frozen_backbone, positions, trained_through_folded_norms
from tests.support.networks.zoo import ZOO, zoo_model

pytestmark = pytest.mark.usefixtures("one_thread")


def load(name: str) -> Model:
    return zoo_model(name) if name in ZOO else models.load(name, 2)


def run(model: Model, graph: TracedGraph, steps: Iterator[Step]) -> list[str]:
    torch.manual_seed(SEED)
    found = execute(graph, residents_of(graph, model.module, model.inputs, model.targets), steps)
    return differences(model, eager_step(model), found)


def for_linux(graph: TracedGraph) -> Graph:
    return lower_for_linux(graph, dma=False)


@pytest.mark.parametrize(
    ("name", "lower"),
    [
        ("digits_cnn", lower_for_firmware),
        ("mlperf_autoencoder", lower_for_firmware),
        ("resnet18_cifar_w4", for_linux),
        ("random", for_linux),
        ("gru", for_linux),
        ("gpt_small", for_linux),
    ],
)
def test_plain_schedule_of_the_lowered_graph_equals_eager(name: str, lower: Callable[[TracedGraph], Graph]) -> None:
    model = load(name)
    graph = traced(model)
    planned = lower(graph)
    steps = planned_steps(graph, planned, store_all_schedule(planned).steps)
    assert run(model, graph, steps) == []


@pytest.mark.parametrize("make", [trained_through_folded_norms, frozen_backbone, positions])
@pytest.mark.parametrize("order", [store_all_schedule, everything_paged, everything_recomputed])
def test_folded_and_constant_operators_are_pytorchs_where_they_are_read(
    make: Callable[[], Model], order: Callable[[Graph], Schedule]
) -> None:
    model = make()
    graph = traced(model)
    planned = lower_for_firmware(graph)
    missing = {operator.id for operator in graph.operators} - {node.id for node in planned.nodes}
    assert planned.constants and missing
    assert run(model, graph, planned_steps(graph, planned, order(planned).steps)) == []


@pytest.mark.parametrize(("name", "share"), [("digits_cnn", 0.5), ("resnet18_cifar_w4", 0.45), ("random", 0.6)])
def test_optimised_schedule_equals_eager(name: str, share: float) -> None:
    model = load(name)
    graph = traced(model)
    planned = costed(for_linux(graph))
    store_all = store_all_schedule(planned)
    budget = planned.resident_bytes + int(share * (store_all.peak_bytes - planned.resident_bytes))
    schedule = optimise(planned, budget, options=OptimiseOptions(time_limit_s=3))
    assert any(step.do is Action.PAGE_IN for step in schedule.steps) or len(
        [step for step in schedule.steps if step.do is Action.COMPUTE]
    ) > len(planned.nodes)
    assert run(model, graph, planned_steps(graph, planned, schedule.steps)) == []


def test_check_runs_a_plan_for_the_firmware(tmp_path: Path) -> None:
    """Which has no node for the loss's weight and may compute the loss after its gradient."""
    model = models.load("resnet18_cifar_w4", 2)
    planned = costed(lower_for_firmware(traced(model), False, False))
    store_all = store_all_schedule(planned)
    order = [step for step in store_all.steps if step.target != "nll_loss"]
    last = max(index for index, step in enumerate(order) if step.target == "log_softmax" and step.do is Action.FREE)
    order.insert(last, Step(Action.COMPUTE, "nll_loss"))
    report = check_plan(model, planned, replace(store_all, steps=tuple(order)), tmp_path)
    assert report.different == ()
    assert (report.gradients, report.buffers) == (62, 60)
    assert list(tmp_path.iterdir()) == [], "the page file is gone"


def test_check_says_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.load("digits_cnn_small", 2)
    planned = for_linux(traced(model))
    write_graph(planned, tmp_path / "graph.json")
    write_schedule(store_all_schedule(planned), tmp_path / "schedule.json")
    arguments = ["check", "graph.json", "schedule.json", "--model", "digits_cnn_small", "--batch", "2"]
    monkeypatch.chdir(tmp_path)
    sound = CliRunner().invoke(app, arguments)
    assert (sound.exit_code, "bit for bit" in sound.output) == (0, True)

    run = CompiledStep.run

    def careless(
        self: CompiledStep, tensors: Sequence[Tensor]
    ) -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]:
        loss, gradients, contents = run(self, tensors)
        wrong = self.gradients.index("conv5.weight")
        off = gradients[wrong].nextafter(torch.tensor(1.0))
        return loss, (*gradients[:wrong], off, *gradients[wrong + 1 :]), contents

    monkeypatch.setattr(CompiledStep, "run", careless)
    wrong = CliRunner().invoke(app, arguments)
    assert isinstance(wrong.exception, UserError)
    assert "conv5.weight.grad differs" in str(wrong.exception)


def test_check_refuses_another_graphs_schedule() -> None:
    model = models.load("digits_cnn_small", 2)
    planned = for_linux(traced(model))
    other = store_all_schedule(for_linux(traced(models.load("digits_cnn_small", 3))))
    with pytest.raises(UserError, match="made for another graph"):
        check_plan(model, planned, other)


def test_a_plan_of_another_model_is_refused() -> None:
    one, other = (traced(load(name)) for name in ("digits_cnn", "mlperf_autoencoder"))
    planned = for_linux(other)
    with pytest.raises(UserError, match="is no plan of"):
        list(planned_steps(one, planned, store_all_schedule(planned).steps))


def test_storage_and_workspace_are_what_the_allocator_says() -> None:
    model = models.load("mlperf_autoencoder", 8)
    graph = traced(model)
    state = torch.get_rng_state()
    real = measured(graph, model.module, model.inputs, model.targets)
    assert torch.equal(torch.get_rng_state(), state)
    by_id = {operator.id: operator for operator in real.operators}
    # mse_loss works on a buffer as large as its input, of which only the mean is the loss.
    assert by_id["mse_loss"].workspace_bytes >= 8 * 640 * 4
    assert real.values["mse_loss"].bytes == 4
    # An elementwise operator allocates its result and nothing else.
    assert by_id["relu1"].workspace_bytes == 0
    assert {id: value.bytes for id, value in real.values.items()} == {
        id: value.bytes for id, value in graph.values.items()
    }


def test_workspace_follows_the_batch() -> None:
    def workspace(batch: int) -> int:
        model = models.load("mlperf_autoencoder", batch)
        real = measured(traced(model), model.module, model.inputs, model.targets)
        return next(operator.workspace_bytes for operator in real.operators if operator.id == "mse_loss")

    assert workspace(32) - workspace(8) == 2 * 24 * 640 * 4


def test_peak_of_the_allocator_is_the_plans(tmp_path: Path) -> None:
    """Values, workspace and gradients add up to what PyTorch's allocator really had out at once."""
    model = models.load("mlperf_autoencoder", 16)
    graph = measured(traced(model), model.module, model.inputs, model.targets)
    planned = for_linux(graph)
    schedule = store_all_schedule(planned)
    made = {resident.id for resident in planned.residents if resident.kind in ("gradient", "loss")}
    results_bytes = sum(resident.bytes for resident in planned.residents if resident.id in made)
    residents = residents_of(graph, model.module, model.inputs, model.targets)
    with profile(use_device=None, profile_memory=True) as record:
        execute(graph, residents, planned_steps(graph, planned, schedule.steps))
    changes = sorted((e.start_ns(), e.nbytes()) for e in record.kineto_results.events() if e.name() == "[memory]")
    peak = max(accumulate(change for _, change in changes))
    buffers_bytes = sum(r.bytes for r in planned.residents if r.kind == "state")
    predicted = schedule.peak_bytes - planned.resident_bytes
    assert predicted <= peak <= predicted + results_bytes + buffers_bytes


def test_generator_states_are_accounted_for() -> None:
    graph = traced(zoo_model("random"))
    draws = sum(operator.random for operator in graph.operators)
    generator = next(resident for resident in graph.residents if resident.id == "generator")
    assert generator.bytes == draws * torch.get_rng_state().nbytes


def test_batches_are_the_seeds() -> None:
    for name in ("digits_cnn", "mlperf_ds_cnn"):
        one, again, other = (list(models.load_batches(name, 2, seed)) for seed in (3, 3, 4))
        assert all(torch.equal(a, b) for a, b in zip(tensors_in(one), tensors_in(again), strict=True))
        assert not torch.equal(tensors_in(one)[0], tensors_in(other)[0])
        assert tensors_in(one)[0].shape == models.load(name).inputs[0].shape
