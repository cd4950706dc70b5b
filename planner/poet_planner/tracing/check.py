"""Whether a plan, run by PyTorch, leaves what eager PyTorch leaves: every bit of loss, gradients and buffers."""

from __future__ import annotations

import copy
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from poet_profiles.errors import UserError
from torch import Tensor

from poet_planner.graph import Graph
from poet_planner.graph_file import graph_hash
from poet_planner.models import Model
from poet_planner.schedule import Action, Schedule
from poet_planner.tracing import trace
from poet_planner.tracing.execute import StepResult, execute, residents_of
from poet_planner.tracing.page_file import PageFile
from poet_planner.tracing.planned import planned_steps

_SEED = 0


@dataclass(frozen=True)
class CheckReport:
    """What came of running a plan.

    ``different`` names the tensors that are not eager's to the last bit; ``peak_bytes`` is the most that values held
    at once, in PyTorch's sizes.
    """

    different: tuple[str, ...]
    gradients: int
    buffers: int
    steps: int
    recomputations: int
    page_outs: int
    page_ins: int
    peak_bytes: int


def check_plan(model: Model, planned: Graph, schedule: Schedule, page_folder: Path | None = None) -> CheckReport:
    """Run one training step twice, eagerly and under the plan, from the same state of model and generator.

    Parameters
    ----------
    planned : Graph
        What was planned: the model's graph as lowered for a board.
    page_folder : Path, optional
        Where the page file goes, which is deleted afterwards; default is the system's place for such files.

    Raises
    ------
    UserError
        If the schedule is not the graph's, the graph not the model's, or a step breaks the contract.
    """
    if schedule.graph_hash != graph_hash(planned):
        raise UserError("the schedule was made for another graph; give the two that one run wrote")
    graph = trace(model.module, model.inputs, model.targets, model.loss, model.name)
    expected = _eager(model)
    torch.manual_seed(_SEED)
    with tempfile.TemporaryDirectory(dir=page_folder) as folder, PageFile(Path(folder) / "pages") as pages:
        residents = residents_of(graph, model.module, model.inputs, model.targets)
        found = execute(graph, residents, planned_steps(graph, planned, schedule.steps), pages)
    actions = Counter(step.do for step in schedule.steps)
    return CheckReport(
        different=tuple(_different(model, expected, found)),
        gradients=len(expected.gradients),
        buffers=len(expected.buffers),
        steps=len(schedule.steps),
        recomputations=actions[Action.COMPUTE] - len(planned.nodes),
        page_outs=actions[Action.PAGE_OUT],
        page_ins=actions[Action.PAGE_IN],
        peak_bytes=found.peak_bytes,
    )


def _eager(model: Model) -> StepResult:
    module = copy.deepcopy(model.module)
    torch.manual_seed(_SEED)
    loss: Tensor = model.loss(module(*model.inputs), *model.targets)
    torch.autograd.backward(loss)
    gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    return StepResult(loss.detach(), gradients, dict(module.named_buffers()), 0)


def _different(model: Model, expected: StepResult, found: StepResult) -> list[str]:
    buffers = {**dict(model.module.named_buffers()), **found.buffers}
    pairs = {"loss": (expected.loss, found.loss)}
    pairs.update((f"{name}.grad", (gradient, found.gradients[name])) for name, gradient in expected.gradients.items())
    pairs.update((name, (contents, buffers[name])) for name, contents in expected.buffers.items())
    return [name for name, (one, other) in pairs.items() if not torch.equal(one, other)]
