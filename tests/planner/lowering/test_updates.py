# SPDX-License-Identifier: Apache-2.0
"""Updates inside a step: after all that reads the parameter, and with eager's bits where they are carried out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from poet_planner import models
from poet_planner.lowering import lower_for_linux, with_updates
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions, optimise
from poet_planner.tracing import trace
from poet_profiles.errors import FaultError, UserError
from poet_profiles.graph import Graph, Node
from poet_profiles.graph.validation import check_graph
from poet_profiles.schedule import Action, Schedule, Step
from poet_runtime.compiled_step import compile_steps
from poet_runtime.executor import residents_of
from poet_runtime.pager import Pager
from poet_runtime.program import Program
from poet_runtime.traced_graph import OptimizerUpdate

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
    schedule = optimise(graph, budget, None, OptimiseOptions(time_limit_s=1))
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
    traced = TRACED.updating([OptimizerUpdate(f"{parameter}..update", parameter) for parameter in GRADIENTS])

    def descend(parameter: str, gradient: torch.Tensor) -> None:
        residents[parameter].add_(gradient, alpha=-RATE)

    steps = Program.of_plan(traced, graph).steps(schedule.steps)
    with Pager(folder) as pager:
        result = compile_steps(traced, steps, pager, update=descend).result(traced, residents)
    assert not result.gradients
    with torch.no_grad():
        for name, contents in result.buffers.items():
            residents[name].copy_(contents)
    return result.loss


def test_steps_that_break_the_contract_of_updates_are_refused() -> None:
    graph = updated()
    traced = TRACED.updating([OptimizerUpdate(f"{parameter}..update", parameter) for parameter in GRADIENTS])
    steps = [*Program.of_plan(traced, graph).steps(store_all_schedule(graph).steps)]
    place = next(k for k, step in enumerate(steps) if step.target == "fc.weight..update")
    made = next(k for k, step in enumerate(steps) if GRADIENTS["fc.weight"] in step.target)
    again = Step(Action.COMPUTE, "fc")
    for damaged, fault in (
        ([*steps[:place], *steps[place + 1 :]], "never computes fc.weight..update"),
        ([*steps[: place + 1], *steps[place:]], "fc.weight..update: it may be computed only once"),
        ([*steps[:made], steps[place], *steps[made:]], "fc.weight..update needs fc.backward_weight: it is not in RAM"),
        ([*steps[: made + 1], steps[place], again], "it reads fc.weight, which has been updated"),
    ):
        with pytest.raises(UserError, match=fault):
            compile_steps(traced, damaged, update=lambda *_: None)
    with pytest.raises(UserError, match="there is no optimiser"):
        compile_steps(traced, steps)


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


def test_a_reader_that_is_computed_again_after_the_update_is_a_fault() -> None:
    graph = updated()
    plan = store_all_schedule(graph)
    place = next(k for k, step in enumerate(plan.steps) if step.target == "layer1.0.conv1.weight..update")
    steps = (*plan.steps[: place + 1], Step(Action.COMPUTE, "layer1.0.conv1"), *plan.steps[place + 1 :])
    faults = verify(graph, replace(plan, steps=steps)).faults
    assert any("computed again from layer1.0.conv1.weight, which has changed" in fault for fault in faults)
