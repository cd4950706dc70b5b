# SPDX-License-Identifier: Apache-2.0
"""The generated function gives eager's bits under any schedule, in the memory that it says, and refuses as before."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from poet_planner import models
from poet_planner.models import Model
from poet_planner.tracing import trace
from poet_profiles.errors import UserError
from poet_profiles.schedule import Action, Step
from poet_runtime.compiled_step import CompiledStep, compile_steps
from poet_runtime.executor import StepResult, execute, residents_of, store_all_steps
from poet_runtime.measured_sizes import measured
from poet_runtime.pager import Pager
from poet_runtime.peak import allocations
from poet_runtime.program import Program, document_of_program, program_from_document
from poet_runtime.traced_graph import TracedGraph
from torch import nn

from tests.runtime.test_executor import BUILT_IN, RandomSchedule, load
from tests.support.graphs.breaches import BREACHES
from tests.support.networks.eager import SEED, differences, eager_step
from tests.support.networks.zoo import ZOO, zoo_model


def traced(model: Model) -> TracedGraph:
    graph = trace(model.module, model.inputs, model.targets, model.loss, model.name)
    return measured(graph, model.module, model.inputs, model.targets)


def compiled(model: Model, graph: TracedGraph, steps: list[Step] | None, folder: Path) -> StepResult:
    torch.manual_seed(SEED)
    residents = residents_of(graph, model.module, model.inputs, model.targets)
    with Pager(folder) as pager:
        return compile_steps(graph, store_all_steps(graph) if steps is None else steps, pager).result(graph, residents)


@pytest.mark.parametrize("name", [*BUILT_IN, *ZOO])
def test_any_schedule_gives_eagers_bits(name: str, tmp_path: Path) -> None:
    model = load(name)
    graph = traced(model)
    expected = eager_step(model)
    assert differences(model, expected, compiled(model, graph, None, tmp_path)) == []
    restless = 0.3 if len(graph.operators) > 60 else 1.5
    for seed in range(2):
        schedule = RandomSchedule(graph, seed, restless)
        assert differences(model, expected, compiled(model, graph, schedule.steps, tmp_path)) == []


def joined(step: CompiledStep) -> list[str]:
    return [id for id in step.operators if "+" in id]


@pytest.mark.parametrize(("name", "batch"), [("resnet18_cifar_w4", 2), ("mlperf_ds_cnn", 2), ("bert_2x128", 1)])
def test_halves_that_stand_together_are_one_call(name: str, batch: int) -> None:
    graph = trace(*parts(models.load(name, batch)))
    halves = {operator.id for operator in graph.operators if operator.target in HALVES}
    step = compile_steps(graph, store_all_steps(graph), limit_bytes=math.inf)
    split = halves.intersection(step.operators)
    pairs = [id.split("+") for id in joined(step)]
    calls = [
        line for line in step.source.splitlines() if re.search(r"(convolution|layer_norm)_backward_default\(", line)
    ]
    assert len(calls) == len(pairs) + len(split) and len(pairs) > 2
    # The first layer has no input gradient: its half stands alone.
    assert {*split, *(half for pair in pairs for half in pair)} == halves
    assert len(split) <= 1


HALVES = {torch.ops.aten.convolution_backward.default, torch.ops.aten.native_layer_norm_backward.default}


def test_halves_stay_apart_where_one_call_would_take_more_memory() -> None:
    """The half that goes first takes the most: one call would hold both results beside its workspace."""
    conv = nn.Sequential(nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 1), nn.Flatten())
    model = Model("two", conv, (torch.randn(1, 2, 2, 2),), (torch.tensor([1]),), nn.functional.cross_entropy)
    graph = trace(model.module, model.inputs, model.targets, model.loss, model.name)
    first = next(op for op in graph.operators if op.id == "1.backward_input")
    other = next(op for op in graph.operators if op.id == "1.backward_weight")
    last = next(op for op in graph.operators if op.id == "0.backward_weight")
    before = graph.operators[: graph.operators.index(first)]
    steps = [Step(Action.COMPUTE, op.id) for op in (*before, first, other, last)]
    assert joined(compile_steps(graph, steps))
    heavy = {first.id: 10_000, other.id: 10_000 - 8}
    graph = replace(graph, operators=tuple(replace(op, workspace_bytes=heavy.get(op.id, 0)) for op in graph.operators))
    assert not joined(compile_steps(graph, steps))


def test_the_peak_is_what_pytorch_allocates() -> None:
    """Gradients and new contents of buffers are among it; blanks, which nobody touches, are not."""
    for name in ("resnet18_cifar_w4", "mlperf_ds_cnn"):
        model = models.load(name, 8)
        graph = traced(model)
        residents = residents_of(graph, model.module, model.inputs, model.targets)
        step = compile_steps(graph, store_all_steps(graph))
        tensors = [{**residents, **graph.constants}[id] for id in step.residents]
        for _ in range(2):
            step.run(tensors)
        with allocations() as peak:
            step.run(tensors)
        assert step.peak_bytes * 0.98 <= peak.bytes <= step.peak_bytes * 1.02


def test_the_source_names_atens_operators_and_numbers_what_has_an_id() -> None:
    model = models.load("digits_cnn_small", 2)
    graph = trace(*parts(model))
    step = compile_steps(graph, store_all_steps(graph))
    assert step.source.startswith("def step(\n    r0,\n    r1,\n") and step.residents[0] == "conv1.weight"
    assert "v0 = convolution_default(r" in step.source
    assert "page" not in step.source


HOSTILE = "x\n    canary()\r\f\u2028\0'\"\\#{0}%s\ud800"


def hostile(entry: Any, ids: Set[str]) -> Any:
    """A program's document with something hostile after each of its ids."""
    if isinstance(entry, dict):
        return {key: value if key == "kind" else hostile(value, ids) for key, value in entry.items()}
    if isinstance(entry, list):
        return [hostile(item, ids) for item in entry]
    return f"{entry}{HOSTILE}" if isinstance(entry, str) and entry in ids else entry


@pytest.mark.parametrize("name", ["random", "in-place", "shared batch norm"])
def test_no_id_and_no_name_gets_into_the_source(name: str, tmp_path: Path) -> None:
    """Of a step that pages and computes again, draws, updates buffers, and has the optimiser's updates within."""
    model = load(name)
    document = document_of_program(Program(traced(model), "0" * 16))
    document["optimizer_updates"] = [{"id": "up", "parameter": next(iter(document["gradients"])), "workspace_bytes": 0}]
    operators = document["operators"] + document["bookkeeping"]
    outputs = [value for one in operators for value in one["outputs"] if value]
    outputs += [write["value"] for one in operators for write in one.get("writes", ())]
    ids = {one["id"] for one in (*document["residents"], *operators, *outputs, *document["optimizer_updates"])}
    spoilt = hostile(document, ids)
    spoilt["gradients"] = {hostile(key, ids): value for key, value in spoilt["gradients"].items()}
    spoilt["model"] = HOSTILE
    sources = []
    plain = program_from_document(document).graph
    steps = [*RandomSchedule(plain, seed=1, restless=0.9).steps, Step(Action.COMPUTE, "up")]
    for given, suffix in ((document, ""), (spoilt, HOSTILE)):
        graph = program_from_document(given).graph
        taken = [Step(step.do, step.target + suffix) for step in steps]
        with Pager(tmp_path) as pager:
            sources.append(compile_steps(graph, taken, pager, timed=True, update=lambda _, __: None).source)
    assert sources[0] == sources[1]
    assert "page_out(" in sources[0] and "update(" in sources[0]


@pytest.mark.parametrize(("spoil", "complaint"), BREACHES)
def test_a_schedule_that_breaks_the_contract_is_refused_in_the_executors_words(
    spoil: Callable[[list[Step]], list[Step]], complaint: str, tmp_path: Path
) -> None:
    graph = trace(*parts(models.load("digits_cnn", 2)))
    steps = spoil([step for step in store_all_steps(graph) if step.do is Action.COMPUTE])
    with pytest.raises(UserError, match=complaint):
        compile_steps(graph, steps, Pager(tmp_path))


def parts(model: Model) -> tuple[Any, ...]:
    return model.module, model.inputs, model.targets, model.loss, model.name


def test_random_operators_keep_their_order_and_pages_want_a_file() -> None:
    graph = traced(zoo_model("random"))
    draws = [operator.id for operator in graph.operators if operator.random]
    with pytest.raises(UserError, match=f"compute {draws[1]}: {draws[0]} has to be computed before it"):
        compile_steps(graph, [Step(Action.COMPUTE, draws[1])])
    first = graph.operators[0]
    with pytest.raises(UserError, match="no file to page to"):
        compile_steps(graph, [Step(Action.COMPUTE, first.id), Step(Action.PAGE_OUT, first.values[0])])


@pytest.mark.parametrize("name", ["in-place", "shared batch norm"])
def test_a_timed_step_reads_the_clock_around_every_operator(name: str) -> None:
    model = load(name)
    graph = traced(model)
    step = compile_steps(graph, store_all_steps(graph), timed=True)
    for _ in range(2):
        result = step.result(graph, residents_of(graph, model.module, model.inputs, model.targets))
        assert len(step.times_ns) == 2 * len(step.operators)
        assert step.times_ns == sorted(step.times_ns)
    assert differences(model, eager_step(model), result) == []


def test_a_traced_step_reads_the_clock_around_every_step_and_waits_for_each_transfer(tmp_path: Path) -> None:
    model = load("digits_cnn")
    graph = traced(model)
    schedule = RandomSchedule(graph, seed=1, restless=0.9)
    with Pager(tmp_path) as pager:
        step = compile_steps(graph, schedule.steps, pager, traced=True)
        result = step.result(graph, residents_of(graph, model.module, model.inputs, model.targets))
    lines = [line.partition("  # ")[0].strip() for line in step.source.splitlines()]
    transfers = [index for index, line in enumerate(lines) if "page_out(" in line or "page_in(" in line]
    assert len(transfers) == sum(step.do in (Action.PAGE_IN, Action.PAGE_OUT) for step in schedule.steps) > 2
    assert all(lines[index + 1].startswith("wait(") and "mark" in lines[index + 2] for index in transfers)
    assert len(step.times_ns) == 2 * len(schedule.steps)
    assert step.times_ns == sorted(step.times_ns)
    assert differences(model, eager_step(model), result) == []


def test_a_step_leaves_the_gradient_mode_and_the_generator_as_eager_does() -> None:
    model = zoo_model("random")
    graph = traced(model)
    residents = residents_of(graph, model.module, model.inputs, model.targets)
    schedule = RandomSchedule(graph, seed=1, restless=0.0)
    step = compile_steps(graph, schedule.steps)
    torch.manual_seed(SEED)
    model.loss(model.module(*model.inputs), *model.targets)
    expected = torch.get_rng_state()
    for mode in (True, False):
        torch.manual_seed(SEED)
        with torch.set_grad_enabled(mode):
            step.result(graph, residents)
            assert torch.is_grad_enabled() is mode
        assert torch.equal(torch.get_rng_state(), expected)


def test_three_steps_equal_the_executors(tmp_path: Path) -> None:
    """Paged and recomputed, with buffers that go on from step to step."""
    model = models.load("resnet18_cifar_w4", 2)
    graph = traced(model)
    schedule = RandomSchedule(graph, seed=3, restless=0.3)
    residents = residents_of(graph, model.module, model.inputs, model.targets)
    with Pager(tmp_path) as pager:
        step = compile_steps(graph, schedule.steps, pager)
        for _ in range(3):
            expected = execute(graph, residents, schedule.steps)
            found = step.result(graph, residents)
            assert differences(model, expected, found) == []
            for name, contents in found.buffers.items():
                residents[name].copy_(contents)
        assert pager.traffic.in_bytes > 0
