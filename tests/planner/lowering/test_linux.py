# SPDX-License-Identifier: Apache-2.0
"""Graphs for boards that run PyTorch: what lives how long, and what that takes of RAM."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from math import floor

import pytest
import torch
from poet_planner import models
from poet_planner.lowering import lower_for_linux
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import NoScheduleError, OptimiseOptions, optimise
from poet_planner.torch_reference.check import check_plan
from poet_planner.tracing import trace
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import aligned, smallest_ram_bytes
from poet_runtime.measured_sizes import measured
from torch.autograd.profiler import profile

from tests.support.graphs.costed import costed

MODEL = models.load("resnet18_cifar_w4", 4)
TRACED = trace(MODEL.module, MODEL.inputs, MODEL.targets, MODEL.loss, MODEL.name)


def with_values() -> Graph:
    return costed(lower_for_linux(TRACED, dma=False, resident_gradients=False))


def test_gradients_and_loss_live_until_the_step_ends() -> None:
    graph = with_values()
    parameters = dict(MODEL.module.named_parameters())
    assert {resident.kind for resident in graph.residents} == {"parameter", "state", "input", "target"}
    *nodes, end = graph.nodes
    made = {value.id: (value.bytes, node.recomputable) for node in nodes for value in node.values}
    gradients = {ref.source for ref in TRACED.gradients.values()}
    assert set(end.inputs) == {*gradients, TRACED.loss.source}
    assert sum(made[id][0] for id in gradients) == sum(parameter.nbytes for parameter in parameters.values())
    assert made[TRACED.loss.source][0] == 4
    assert not any(made[id][1] for id in end.inputs)


def test_peak_is_that_of_eagers_allocator() -> None:
    """Storages and workspaces read off one run, against the allocator's own record of a backward pass."""
    torch.set_num_threads(1)
    graph = lower_for_linux(measured(TRACED, MODEL.module, MODEL.inputs, MODEL.targets), False, False)
    predicted = store_all_schedule(graph).peak_bytes - graph.resident_bytes
    MODEL.module.zero_grad()
    with profile(use_device=None, profile_memory=True) as record:
        MODEL.loss(MODEL.module(*MODEL.inputs), *MODEL.targets).backward()
    events = [event for event in record.kineto_results.events() if event.name() == "[memory]"]
    peak = max(accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())))
    assert peak == pytest.approx(predicted, rel=0.02)


def test_a_plan_trains_bit_for_bit_in_its_peak() -> None:
    torch.set_num_threads(1)
    graph = with_values()
    store_all = store_all_schedule(graph)
    budget = graph.resident_bytes + int(0.7 * (store_all.peak_bytes - graph.resident_bytes))
    schedule = optimise(graph, budget, None, OptimiseOptions(time_limit_s=1, paging=False))
    assert verify(graph, schedule).faults == ()
    assert not any(step.offsets for step in schedule.steps)
    assert check_plan(models.load("resnet18_cifar_w4", 4), graph, schedule).different == ()


def test_too_little_ram_is_put_down_to_the_gradients_or_to_an_operator() -> None:
    graph = with_values()
    results = graph.nodes[-1].inputs
    gradients = sum(aligned(value.bytes) for node in graph.nodes for value in node.values if value.id in results)
    needed = floor(10 * (graph.resident_bytes + gradients) / 1024) / 10
    took = rf"^what lives until the end \(gradients\) needs {needed:g} KB by itself, so .* KB cannot do; "
    with pytest.raises(NoScheduleError, match=took):
        optimise(graph, graph.resident_bytes + gradients // 2, None, OptimiseOptions(time_limit_s=0.2))
    resident = costed(lower_for_linux(TRACED, dma=False))
    least = smallest_ram_bytes(resident)
    with pytest.raises(
        NoScheduleError, match=rf"^layer1\.\S+ needs {least} bytes by itself, so {least - 4} bytes cannot do; "
    ):
        optimise(resident, least - 4, None, OptimiseOptions(time_limit_s=0.2))


def test_resident_gradients_take_no_arena() -> None:
    graph = lower_for_linux(TRACED, dma=False)
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    assert {sizes[ref.source] for ref in TRACED.gradients.values()} == {0}
    assert replace(graph, allocates=True) == graph
