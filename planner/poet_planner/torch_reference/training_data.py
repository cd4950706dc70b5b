# SPDX-License-Identifier: Apache-2.0
"""Arrays for a training run: what a board starts from, and what PyTorch's autograd makes of the same."""

from __future__ import annotations

from binascii import crc32
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from poet_profiles.errors import UserError
from poet_profiles.files.arrays import npz, read_arrays
from poet_profiles.files.whole_file import write_whole
from poet_profiles.program.users_code import users_code
from poet_profiles.quantised import Normalising
from poet_runtime.executor import train_step
from poet_runtime.nested import tensors_in, with_tensors
from poet_runtime.traced_graph import Kind, TracedGraph, TracedResident

from poet_planner import models
from poet_planner.graph.optimizer import PLAIN, Optimizer
from poet_planner.lowering.firmware import in_integers
from poet_planner.lowering.int8.integers import has_integers
from poet_planner.lowering.rewrites.constants import stored
from poet_planner.lowering.rewrites.random_numbers import generator_of
from poet_planner.models import Model
from poet_planner.planning.calibration import Calibration
from poet_planner.planning.training_graph import training_step
from poet_planner.torch_reference.own_batches import own_batches
from poet_planner.tracing import trace
from poet_planner.tracing.micro_batches import micro_batch, parts_of
from poet_planner.tracing.state_table import named_tensors, state_table

if TYPE_CHECKING:
    from torch import Tensor

Arrays = dict[str, NDArray[Any]]

LOSS = "loss"
FROZEN = "..frozen"
MOST_SEEDS = 2**31
_EVERY_STEP = (Kind.INPUT, Kind.TARGET)


def training_data(
    model: str,
    steps: int,
    seed: int,
    batch: int | None,
    given: Path | None = None,
    weights: Path | None = None,
    normalising: Normalising | None = None,
) -> Arrays:
    """What a board starts from, and what it trains on (docs/SPEC.md, section 8).

    Parameters
    ----------
    seed : int
        Decides the order of samples, and what is drawn where there are none.
    given : Path, optional
        An .npz with an array for each tensor of a batch, ``input`` and ``target``, with a leading axis of samples, or
        one of steps before that of the batch.
    weights : Path, optional
        What a board starts from instead of the model's own: see :func:`poet_planner.models.weights.load_weights`.
    normalising : Normalising, optional
        Of small integers in ``given``.

    Returns
    -------
    dict
        Parameters and buffers by name, and each tensor of a batch with a leading axis of steps, as the firmware stores
        them: f32, integers as i32. With them the table by which trained weights become a `state_dict`. What is frozen
        lies in a plan: of it there are only the checks.

    Raises
    ------
    UserError
        If there is no such model, or ``given`` or ``weights`` are not what it takes.
    """
    module = models.load(model, batch, weights=weights).module
    traced = training_step(model, batch, weights).traced
    arrays = initial_state(model, seed, batch, weights) | state_table(traced, module, steps) | _frozen_table(traced)
    if given is not None:
        return arrays | own_batches(given, _every_step(traced), steps, seed, normalising)
    drawn = [tensors_in(batches) for batches in models.load_batches(model, steps, seed, batch)]
    for resident, tensors in zip(_every_step(traced), zip(*drawn, strict=True), strict=True):
        arrays[resident.id] = np.stack([_as_stored(resident.id, tensor) for tensor in tensors])
    return arrays


def initial_state(model: str, seed: int, batch: int | None, weights: Path | None = None) -> Arrays:
    """Parameters and buffers that a board starts from, by name, as the firmware stores them: f32, integers as i32.

    ``seed`` is of what the network draws, if it does; ``weights`` are as :func:`training_data` takes them.

    Raises
    ------
    UserError
        If there is no such model, or the weights are not its own.
    """
    module = models.load(model, batch, weights=weights).module
    traced = training_step(model, batch, weights).traced
    # Buffers that a state_dict leaves out are on the board all the same.
    state = {**module.state_dict(keep_vars=True), **dict(module.named_buffers()), **traced.loss_parameters}
    frozen = {id(tensor) for name, tensor in named_tensors(module) if name in traced.frozen}
    arrays = {
        name: _as_stored(name, tensor)
        for name, tensor in state.items()
        if hasattr(tensor, "detach") and id(tensor) not in frozen
    }
    generator = generator_of(traced)
    if generator is not None:
        arrays[generator] = np.array([seed % MOST_SEEDS, 0], np.int32)
    return arrays


def reference_run(
    model: str,
    data: Path,
    learning_rate: float,
    optimizer: Optimizer = PLAIN,
    follow: Path | None = None,
    weights: Path | None = None,
    micro_batches: int = 1,
    calibration: Calibration | None = None,
) -> Arrays:
    """Loss and gradients of training by PyTorch, a step a batch.

    Training is chaotic: rounding differences of 1e-7 in one step are 1e-1 some thirty steps later. To hold each step
    of a board against PyTorch, the weights must be the board's at every step. Dropout draws the board's masks. What is
    quantised is computed in exact integers, as the board does, and not in the f32 of PyTorch's quantised graph.

    Parameters
    ----------
    follow : Path, optional
        What a board's run saved: weights are updated with its gradients instead of PyTorch's own.
    weights : Path, optional
        What the data were made with, for frozen layers: the others' are in the data.
    micro_batches : int
        In how many equal parts each batch goes through the network, one `backward()` a part.
    calibration : Calibration, optional
        Frozen layers are on int8, as they were planned.

    Returns
    -------
    dict
        ``loss``, shape (steps,), and ``PARAMETER.grad``, shape (steps, …).

    Raises
    ------
    UserError
        If ``data`` is not what :func:`training_data` made for this model, or a loss is infinite or no number.
    """
    import torch

    from poet_planner.torch_reference.board_random import BoardRandom
    from poet_planner.torch_reference.updates import Updates
    from poet_planner.tracing.checkpointing import without_checkpointing

    arrays = read_arrays(data, "poet-plan data")
    loaded, traced = _model_of(model, data, arrays, weights)
    if calibration is not None:
        traced = replace(traced, int8_ranges=calibration.ranges(traced, model, len(tensors_in(loaded.inputs)[0])))
    _refuse_other_frozen(arrays, traced, data, model)
    parameters = {**dict(loaded.module.named_parameters()), **traced.loss_parameters}
    state = {**parameters, **dict(loaded.module.named_buffers())}
    _start_from(arrays, {name: state[name] for name in state.keys() - traced.frozen.keys()}, data, model)
    inputs = [resident.id for resident in traced.residents if resident.kind is Kind.INPUT]
    targets = [resident.id for resident in traced.residents if resident.kind is Kind.TARGET]
    generator_seed, first_step = (int(word) for word in arrays.get(generator_of(traced) or "", (0, 0)))
    followed = read_arrays(follow, "poet-harness run --save") if follow else None
    updates = Updates(optimizer, learning_rate)
    share = micro_batch(loaded, traced, micro_batches)
    observed: dict[str, list[NDArray[Any]]] = {LOSS: []}
    for step in range(min((len(arrays[id]) for id in (*inputs, *targets)), default=0)):
        for parameter in parameters.values():
            parameter.grad = None
        given = _batch(loaded.inputs, [arrays[id][step] for id in inputs])
        wanted = _batch(loaded.targets, [arrays[id][step] for id in targets])
        losses = []
        for number, part in enumerate(parts_of(replace(loaded, inputs=given, targets=wanted), micro_batches)):
            run = first_step + step * micro_batches + number
            with users_code(loaded.name), without_checkpointing(), BoardRandom(generator_seed, run):
                loss = _with_gradients(replace(share, inputs=part[0], targets=part[1]), traced)
                updates.check_loss(loss, step)
            losses.append(loss)
        observed[LOSS].append(sum(losses[1:], losses[0]).numpy())
        for name, parameter in parameters.items():
            if parameter.grad is None:
                continue
            gradient = f"{name}.grad"
            observed.setdefault(gradient, []).append(parameter.grad.numpy().copy())
            update = (
                parameter.grad if followed is None else torch.from_numpy(_step_of(followed, gradient, step, follow))
            )
            updates.apply(name, parameter.data, update.reshape(parameter.shape))
    return {name: np.stack(steps) for name, steps in observed.items()}


def _with_gradients(model: Model, traced: TracedGraph) -> Tensor:
    """The loss of a batch, or a part of one; its gradients are added to those that are there."""
    if not has_integers(traced):
        loss = model.loss(model.module(*model.inputs), *model.targets)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()
    part = trace(model.module, model.inputs, model.targets, model.loss, model.name, segments=1)
    part = in_integers(replace(part, int8_ranges=traced.int8_ranges))
    return train_step(part, model.module, model.inputs, model.targets)


def write_arrays(arrays: Arrays, path: Path) -> None:
    """Write arrays as .npz, whole or not at all."""
    write_whole(path, npz(arrays))


def _frozen_table(traced: TracedGraph) -> Arrays:
    """Which frozen tensors a model had, as text: a row a tensor, its name and the CRC-32 of its numbers on a board."""
    rows = [(name, f"{crc32(stored(tensor).tobytes()):08x}") for name, tensor in traced.frozen.items()]
    return {FROZEN: np.array(rows, dtype=np.str_).reshape(len(rows), 2)} if rows else {}


def _refuse_other_frozen(arrays: Arrays, traced: TracedGraph, data: Path, model: str) -> None:
    given, wanted = (dict(table.get(FROZEN, np.empty((0, 2)))) for table in (arrays, _frozen_table(traced)))
    for name in {**given, **wanted}:
        if given.get(name) != wanted.get(name):
            raise UserError(
                f"{data}: was made with another frozen {name} than {model} has; write it again, or give its --weights"
            )


def _as_stored(name: str, tensor: Tensor) -> NDArray[Any]:
    try:
        array: NDArray[Any] = tensor.detach().numpy()
    except TypeError:  # bfloat16
        raise UserError(f"{name}: is {tensor.dtype}, which no .npz holds; make it float32, with .float()") from None
    return array.astype(np.int32) if array.dtype == np.int64 else array


def _every_step(traced: TracedGraph) -> list[TracedResident]:
    """The tensors of a batch, inputs first."""
    return [resident for resident in traced.residents if resident.kind in _EVERY_STEP]


def _model_of(model: str, data: Path, arrays: Arrays, weights: Path | None) -> tuple[Model, TracedGraph]:
    """The model with a batch as large as the data's, and its graph."""
    loaded = models.load(model, weights=weights)
    traced = trace(loaded.module, loaded.inputs, loaded.targets, loaded.loss, loaded.name)
    for resident in _every_step(traced):
        if resident.id not in arrays:
            raise UserError(f"{data}: lacks {resident.id}; write it with `poet-plan data`")
        shape = arrays[resident.id].shape[1:]
        if shape == resident.shape:
            continue
        if len(shape) == 0 or shape[1:] != resident.shape[1:]:
            raise UserError(
                f"{data}: {resident.id} has shape {shape} a step, {model} takes {resident.shape}; write it again with "
                "this model"
            )
        loaded = models.load(model, shape[0], weights=weights)
        return loaded, trace(loaded.module, loaded.inputs, loaded.targets, loaded.loss, loaded.name)
    return loaded, traced


def _start_from(arrays: Arrays, state: Mapping[str, Tensor], data: Path, model: str) -> None:
    import torch

    with torch.no_grad():
        for name, tensor in state.items():
            if name not in arrays or arrays[name].shape != tuple(tensor.shape):
                raise UserError(
                    f"{data}: holds other parameters than {model} has ({name}); write it again with this model"
                )
            tensor.copy_(torch.from_numpy(arrays[name]))


def _batch(example: tuple[Any, ...], arrays: list[NDArray[Any]]) -> tuple[Any, ...]:
    """A batch as the model is called with it: labels and tokens are 64-bit integers in PyTorch."""
    import torch

    tensors = [torch.from_numpy(array).to(like.dtype) for array, like in zip(arrays, tensors_in(example), strict=True)]
    nested: tuple[Any, ...] = with_tensors(example, tensors)
    return nested


def _step_of(arrays: Arrays, name: str, step: int, path: Path | None) -> NDArray[Any]:
    if name not in arrays:
        raise UserError(
            f"{path}: has no {name}; a run saves the gradients that have places of their own in RAM: plan with "
            "--gradients resident, or leave --follow out (a plan with parameters on the card has no such gradients)"
        )
    if step >= len(arrays[name]):
        raise UserError(f"{path}: has no {name} of step {step}; run all the steps of the data with `poet-harness run`")
    gradient: NDArray[Any] = arrays[name][step]
    return gradient
