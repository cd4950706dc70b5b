# SPDX-License-Identifier: Apache-2.0
"""`--validate`: the answers of a network with frozen layers on int8, beside its own in f32."""

from __future__ import annotations

from pathlib import Path

import torch
from poet_profiles.plan_folder.summary import Int8Validation
from poet_profiles.program.users_code import users_code
from poet_runtime.executor import execute
from poet_runtime.nested import with_tensors
from poet_runtime.traced_graph import Kind
from torch import Tensor

from poet_planner.lowering.firmware import in_integers
from poet_planner.planning.calibration import samples_of
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.tracing.evaluating import evaluating
from poet_planner.tracing.one_sample import one_sample


def validated(step: TrainingStep, path: Path) -> Int8Validation:
    """Both on the samples of a file, one by one, with the model's weights as they are.

    Raises
    ------
    UserError
        If there is no forward pass of one sample, or the samples are not what the model takes.
    """
    step = step.whole
    model, training = step.model, step.traced
    inputs, targets = ([one for one in training.residents if one.kind is kind] for kind in (Kind.INPUT, Kind.TARGET))
    given = samples_of(path, [*inputs, *targets])
    with users_code(model.name):
        first = one_sample(model.module, model.inputs, model.name)
    graph = in_integers(step.forward)
    own = [one.id for one in graph.residents if one.kind is Kind.INPUT]
    state = {**dict(model.module.named_parameters()), **dict(model.module.named_buffers())}
    state = {name: tensor.detach() for name, tensor in state.items()}
    made: list[tuple[Tensor, Tensor]] = []
    with users_code(model.name), evaluating(model.module), torch.no_grad():
        for row in range(len(given[inputs[0].id])):
            tensors = [given[one.id][row : row + 1] for one in inputs]
            on_int8 = execute(graph, {**state, **dict(zip(own, tensors, strict=True))}).loss
            made.append((on_int8, model.module(*with_tensors(first, tensors))))
    on_int8, in_f32 = (torch.cat(one).double() for one in zip(*made, strict=True))
    wanted = given[targets[0].id] if len(targets) == 1 else None
    return _compared(on_int8, in_f32, wanted)


def _compared(on_int8: Tensor, in_f32: Tensor, wanted: Tensor | None) -> Int8Validation:
    error = float(torch.linalg.vector_norm(on_int8 - in_f32) / torch.linalg.vector_norm(in_f32).clamp_min(1e-30))
    if in_f32.dim() != 2 or in_f32.shape[1] == 1 or wanted is None or wanted.is_floating_point() or wanted.dim() != 1:
        return Int8Validation(len(in_f32), error, None, None, None)
    found, plain = on_int8.argmax(1), in_f32.argmax(1)
    pairs = ((found, plain), (found, wanted), (plain, wanted))
    shares = (float((one == other).double().mean()) for one, other in pairs)
    return Int8Validation(len(in_f32), error, *shares)
