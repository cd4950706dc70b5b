# SPDX-License-Identifier: Apache-2.0
"""Whether a plan, run by PyTorch, trains as eager PyTorch does: every bit of all that a few steps leave."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from poet_profiles.errors import UserError
from poet_profiles.firmware.operators import RECURRENT
from poet_profiles.graph import Graph
from poet_profiles.graph.file import graph_hash
from poet_profiles.plan_folder.beside import Extraction
from poet_profiles.schedule import Action, Schedule
from poet_runtime.compiled_step import compile_steps
from poet_runtime.executor import leave, residents_of, train_step
from poet_runtime.measured_sizes import measured
from poet_runtime.nested import tensors_in
from poet_runtime.pager import Pager
from poet_runtime.plan_steps import planned_steps
from poet_runtime.traced_graph import TracedGraph
from torch import Tensor, nn

from poet_planner.lowering.int8.frozen_int8 import quantised
from poet_planner.models import Model
from poet_planner.tracing import trace
from poet_planner.tracing.drawn_batches import Batch
from poet_planner.tracing.micro_batches import micro_batch, parts_of
from poet_planner.tracing.recurrent import recurrent_operators
from poet_planner.tracing.same_as_eager import digest
from poet_planner.tracing.snapshot import Snapshot, generators

_SEED = 0
_STEPS = 3
_UPDATED = " after the optimiser"
State = dict[str, bytes]


@dataclass(frozen=True)
class CheckReport:
    """What came of running a plan.

    ``different`` names what is not eager's to the last bit after training step ``step``, the first where something is
    not; it is the last step where all is well. ``peak_bytes`` is the most that values, gradients among them, and
    workspaces held at once, in PyTorch's sizes.
    """

    different: tuple[str, ...]
    step: int
    gradients: int
    buffers: int
    steps: int
    recomputations: int
    page_outs: int
    page_ins: int
    peak_bytes: int


def check_plan(
    model: Model,
    planned: Graph,
    schedule: Schedule,
    page_folder: Path | None = None,
    int8_ranges: Mapping[str, tuple[float, float]] | None = None,
    extraction: Extraction | None = None,
) -> CheckReport:
    """Train for three steps twice, eagerly and under the plan, from the same state, and compare after each.

    Compared are the loss, parameters (a loss's own, too), buffers, gradients, the batch and the random generators.
    A batch in micro-batches is taken part by part. Gradient descent with momentum follows each step; the third step
    adds its gradients to the second's. Nothing is copied: the model, its loss and its batch are put back to what they
    were.

    Parameters
    ----------
    planned : Graph
        What was planned: the model's graph as lowered for a board.
    page_folder : Path, optional
        Where the page file goes, which is deleted afterwards; default is the system's place for such files.
    int8_ranges : mapping, optional
        Of frozen layers on int8. Instead of eager steps there are those of the graph that is quantised by them, its
        operators in program order; so there are where recurrent layers are poet's own operators.
    extraction : Extraction, optional
        What makes the features that the plan reads: it comes before each step.

    Raises
    ------
    UserError
        If the schedule is not the graph's, the graph not the model's, a step breaks the contract, or eager PyTorch
        cannot take the steps itself.
    """
    if schedule.graph_hash != graph_hash(planned):
        raise UserError("the schedule was made for another graph; give the two that one run wrote")
    if extraction is not None:
        planned, schedule = _with_features(planned, schedule, extraction)
    actions = Counter(step.do for step in schedule.steps)
    parts = parts_of(model, planned.micro_batches)
    graph = _traced(model, planned)
    if len(parts) > 1:
        model = replace(micro_batch(model, graph, len(parts)), inputs=parts[0][0], targets=parts[0][1])
        graph = _traced(model, planned)
    own_bits = recurrent_operators(graph) > 0 or bool(int8_ranges)
    if int8_ranges:
        graph = quantised(replace(graph, int8_ranges=dict(int8_ranges)))
    if actions[Action.PAGE_OUT]:
        # A page has the size that PyTorch gives a value, which may be more than it shows.
        graph = measured(graph, model.module, model.inputs, model.targets)
    before = Snapshot(model.module, model.loss, model.inputs, model.targets)
    with Pager(page_folder or Path(tempfile.gettempdir())) as pager:
        compiled = compile_steps(graph, planned_steps(graph, planned, schedule.steps), pager)

        def planned_step() -> Tensor:
            losses = []
            for part in parts:
                residents = residents_of(graph, model.module, *part)
                result = compiled.result(graph, residents)
                leave(result, graph, model.module, residents)
                losses.append(result.loss.clone())
            return sum(losses[1:], losses[0])

        def in_order() -> Tensor:
            losses = [train_step(graph, model.module, *part) for part in parts]
            return sum(losses[1:], losses[0])

        try:
            expected = list(_training(model, graph, in_order if own_bits else lambda: _eager_step(model, parts)))
            before.restore()
            for step, found in enumerate(_training(model, graph, planned_step)):
                different = _different(expected[step], found)
                if different:
                    break
        finally:
            before.restore()
    return CheckReport(
        different=tuple(different),
        step=step + 1,
        gradients=len(graph.gradients),
        buffers=len(dict(model.module.named_buffers())),
        steps=len(schedule.steps),
        recomputations=actions[Action.COMPUTE] - len(planned.nodes),
        page_outs=actions[Action.PAGE_OUT],
        page_ins=actions[Action.PAGE_IN],
        peak_bytes=compiled.peak_bytes,
    )


def _traced(model: Model, planned: Graph) -> TracedGraph:
    """As it was traced for a Linux board, where PyTorch allocates, or for a microcontroller, in as many segments."""
    given = model.module, model.inputs, model.targets, model.loss, model.name
    graph = trace(*given, segments=int(not planned.allocates))
    operations = (node.operation.op for node in planned.nodes if node.operation)
    segments = sum(op in RECURRENT for op in operations) // max(1, recurrent_operators(graph))
    return trace(*given, segments=segments) if segments > 1 else graph


def _with_features(head: Graph, schedule: Schedule, extraction: Extraction) -> tuple[Graph, Schedule]:
    """The whole step: what is kept of its first part has no bytes there, and stays."""
    kept = {value.id for node in extraction.graph.nodes for value in node.values if not value.bytes}
    made = [one for one in extraction.schedule.steps if one.do is not Action.FREE or one.target not in kept]
    steps = (*made, *schedule.steps)
    return replace(head, nodes=(*extraction.graph.nodes, *head.nodes)), replace(schedule, steps=steps)


def _eager_step(model: Model, parts: list[Batch]) -> Tensor:
    losses: list[Tensor] = []
    try:
        for inputs, targets in parts:
            losses.append(model.loss(model.module(*inputs), *targets))
            torch.autograd.backward(losses[-1])
    except Exception as error:
        first_line = str(error).partition("\n")[0]
        raise UserError(f"{model.name}: eager PyTorch cannot train it for {_STEPS} steps: {first_line}") from error
    return sum((loss.detach() for loss in losses[1:]), losses[0].detach())


def _training(model: Model, graph: TracedGraph, step: Callable[[], Tensor]) -> Iterator[State]:
    """Take steps, and tell what each leaves."""
    torch.manual_seed(_SEED)
    parts = [part for part in (model.module, model.loss) if isinstance(part, nn.Module)]
    parameters = {**dict(model.module.named_parameters()), **graph.loss_parameters}
    optimiser = torch.optim.SGD(parameters.values(), lr=0.01, momentum=0.9)
    for part in parts:
        part.zero_grad()
    for number in range(_STEPS):
        if number < _STEPS - 1:
            optimiser.zero_grad()
        tensors = {"loss": step(), **_gradients(parameters), **_changeable(model), **parameters}
        left = {name: digest(tensor) for name, tensor in tensors.items()}
        optimiser.step()
        left.update((name + _UPDATED, digest(parameter)) for name, parameter in parameters.items())
        left.update((name, repr(state).encode()) for name, (state, _) in generators().items())
        yield left


def _gradients(parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{name}.grad": parameter.grad for name, parameter in parameters.items() if parameter.grad is not None}


def _changeable(model: Model) -> dict[str, Tensor]:
    """Buffers and the batch; looked up after a step, which may have put other tensors in their places."""
    batch = {f"batch[{index}]": one for index, one in enumerate(tensors_in((model.inputs, model.targets)))}
    loss = dict(model.loss.named_buffers(prefix="loss")) if isinstance(model.loss, nn.Module) else {}
    return {**dict(model.module.named_buffers()), **loss, **batch}


def _different(expected: State, found: State) -> list[str]:
    """What is not the same after one step; parameters differ after an update that gradients have led astray."""
    names = [name for name in {**expected, **found} if expected.get(name) != found.get(name)]
    return [name for name in names if not name.endswith(_UPDATED)] or names
