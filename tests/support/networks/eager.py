# SPDX-License-Identifier: Apache-2.0
"""What eager PyTorch makes of one training step, and whether a traced step made the same of it, bit for bit."""

from __future__ import annotations

import copy

import torch
from poet_planner.models import Model
from poet_planner.tracing import trace
from poet_runtime.executor import StepResult
from poet_runtime.traced_graph import TracedGraph

SEED = 1


def traced(model: Model) -> TracedGraph:
    return trace(model.module, model.inputs, model.targets, model.loss, model.name)


def eager_step(model: Model) -> StepResult:
    """Loss, gradients and all buffers after ``loss.backward()`` on a copy of the model."""
    module = copy.deepcopy(model.module)
    torch.manual_seed(SEED)
    loss = model.loss(module(*model.inputs), *model.targets)
    loss.backward()
    gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    return StepResult(loss.detach(), gradients, dict(module.named_buffers()), 0)


def differences(model: Model, expected: StepResult, found: StepResult) -> list[str]:
    """Names of what is not the same to the last bit."""
    before = dict(model.module.named_buffers())
    different = [] if torch.equal(expected.loss, found.loss) else ["loss"]
    different += sorted(expected.gradients.keys() ^ found.gradients.keys())
    for name in expected.gradients.keys() & found.gradients.keys():
        one, other = expected.gradients[name], found.gradients[name]
        if one.shape != other.shape or not torch.equal(one, other):
            different.append(f"{name}.grad")
    for name, contents in expected.buffers.items():
        if not torch.equal(contents, found.buffers.get(name, before[name])):
            different.append(name)
    return different
