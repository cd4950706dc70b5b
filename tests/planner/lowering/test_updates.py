# SPDX-License-Identifier: Apache-2.0
"""Updates inside a step: behind all that reads the parameter, and with eager's bits where they are carried out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import process_time

import pytest
import torch
from poet_planner import models
from poet_planner.baselines.store_all import store_all_schedule
from poet_planner.lowering import lower_for_linux, with_updates
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions, optimise
from poet_planner.tracing import trace
from poet_profiles.errors import FaultError
from poet_profiles.graph import Graph, Node
from poet_profiles.graph.validation import check_graph
from poet_profiles.schedule import Action, Schedule, Step
from poet_runtime.executor import Execution, residents_of
from poet_runtime.page_file import PageFile
from poet_runtime.plan_steps import planned_steps

from tests.support.graphs.costed import costed

NAME, BATCH, RATE = "resnet18_cifar_w4", 4, 0.05
MODEL = models.load(NAME, BATCH)
TRACED = trace(MODEL.module, MODEL.inputs, MODEL.targets, MODEL.loss, NAME)
GRADIENTS = {parameter: ref.source for parameter, ref in TRACED.gradients.items()}


def plain() -> Graph:
    return costed(lower_for_linux(TRACED, dma=False, resident_gradients=False))


def updated() -> Graph:
    graph = costed(with_updates(lower_for_linux(TRACED, dma=False, resident_gradients=False), GRADIENTS))
    check_graph(graph)
    return graph


def test_a_gradient_lives_until_its_update() -> None:
    graph = updated()
    *_, end = graph.nodes
    assert {f"{parameter}..update" for parameter in GRADIENTS} | {TRACED.loss.source} == set(end.inputs)
    less = store_all_schedule(plain()).peak_bytes - store_all_schedule(graph).peak_bytes
    assert less > 0.5 * sum(parameter.nbytes for parameter in MODEL.module.parameters())


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_training_with_updates_inside_has_eagers_bits(share: float, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    graph = updated()
    store_all = store_all_schedule(graph)
    budget = graph.resident_bytes + int(share * (store_all.peak_bytes - graph.resident_bytes))
    schedule = optimise(graph, budget, None, OptimiseOptions(time_limit_s=1, clock=process_time))
    assert verify(graph, schedule).faults == ()
    assert (len(schedule.steps) > len(store_all.steps)) == (share < 1)
    ours, theirs = models.load(NAME, BATCH), models.load(NAME, BATCH)
    optimiser = torch.optim.SGD(theirs.module.parameters(), lr=RATE, foreach=False)
    for _ in range(2):
        optimiser.zero_grad()
        loss = theirs.loss(theirs.module(*theirs.inputs), *theirs.targets)
        loss.backward()
        optimiser.step()
        assert torch.equal(trained(ours, graph, schedule, tmp_path), loss)
    for name, parameter in ours.module.named_parameters():
        assert torch.equal(parameter, dict(theirs.module.named_parameters())[name]), name


def trained(model: models.Model, graph: Graph, schedule: Schedule, folder: Path) -> torch.Tensor:
    """One step under the schedule, each update carried out where it stands."""
    residents = residents_of(TRACED, model.module, model.inputs, model.targets)
    with PageFile(folder / "pages") as pages:
        execution = Execution(TRACED, residents, pages)

        def without_updates() -> Iterator[Step]:
            for step in schedule.steps:
                parameter = step.target.removesuffix("..update")
                if step.do is Action.COMPUTE and parameter != step.target:
                    gradient = execution._seen(TRACED.gradients[parameter])
                    residents[parameter].add_(gradient, alpha=-RATE)
                yield step

        for step in planned_steps(TRACED, graph, without_updates()):
            execution.step(step)
        result = execution.result()
    with torch.no_grad():
        for name, contents in result.buffers.items():
            residents[name].copy_(contents)
    return result.loss


def test_an_update_before_a_reader_is_refused() -> None:
    graph = updated()
    index = next(k for k, node in enumerate(graph.nodes) if node.id == "layer1.0.conv1.weight..update")
    update = graph.nodes[index]

    def instead(node: Node) -> Graph:
        return replace(graph, nodes=(*graph.nodes[:index], node, *graph.nodes[index + 1 :]))

    for damaged, fault in (
        (replace(update, inputs=update.inputs[:1]), "must stand before layer1.0.conv1.weight..update, which changes"),
        (replace(update, recomputable=True), 'say "recomputable": false'),
    ):
        with pytest.raises(FaultError, match=fault):
            check_graph(instead(damaged))
    again = (replace(node, recomputable=any(value.bytes for value in node.values)) for node in graph.nodes)
    with pytest.raises(FaultError, match="must stand before"):
        check_graph(replace(graph, nodes=tuple(again)))


def test_a_reader_that_is_computed_again_behind_the_update_is_a_fault() -> None:
    graph = updated()
    plan = store_all_schedule(graph)
    place = next(k for k, step in enumerate(plan.steps) if step.target == "layer1.0.conv1.weight..update")
    steps = (*plan.steps[: place + 1], Step(Action.COMPUTE, "layer1.0.conv1"), *plan.steps[place + 1 :])
    faults = verify(graph, replace(plan, steps=steps)).faults
    assert any("computed again from layer1.0.conv1.weight, which has changed" in fault for fault in faults)
