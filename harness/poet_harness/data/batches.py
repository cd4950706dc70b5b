# SPDX-License-Identifier: Apache-2.0
"""Initial parameters and batches for a training run, from an ``.npz`` whose keys are the tensors' ids."""

from __future__ import annotations

from binascii import crc32
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from poet_profiles.errors import UserError
from poet_profiles.files.arrays import read_arrays
from poet_profiles.graph import Kept, Resident
from poet_profiles.graph.parts import cut_from, name_of, whole_shapes
from poet_profiles.samples import Choices, refuse_choices, refuse_numbers, shape_text

from ..plan_folder.plan import Plan
from .initial_weights import optimizer_state, with_weights
from .weights import StateTable, rows_of_text, state_table

Array = NDArray[Any]

GIVEN_ONCE = ("parameter", "state", "constant")
EVERY_STEP = ("input", "target")
FROZEN = "..frozen"


@dataclass(frozen=True)
class TrainingData:
    """Bytes to put on the board or its card, by the tensor's index in the protocol (its place in ``Plan.tensors``).

    Parameters
    ----------
    constants : dict
        Put whenever the board has started anew: no commit keeps them.
    weights : dict
        Initial parameters and state, and whatever else the card has one version of.
    batches : list of dict
        Input and target of each step, all its micro-batches. Those on the card are used again and again.
    state : StateTable
        By which trained weights get their names.
    step : int
        How many training steps made the weights.
    """

    constants: dict[int, bytes]
    weights: dict[int, bytes]
    batches: list[dict[int, bytes]]
    state: StateTable
    step: int = 0


def read_training_data(
    path: Path, plan: Plan, steps: int | None, weights: Path | None = None, state: Path | None = None
) -> TrainingData:
    """Read the arrays that the plan's tensors need, and hold each against the plan: name, type, shape, numbers.

    Tensors of kind ``input`` and ``target`` have a leading axis over the batches; the others are given once. The
    optimiser's state and random generators that are not in the file start at zero. Integers travel in the size that the
    plan has them in.

    Parameters
    ----------
    steps : int or None
        How many batches; None: all that the file has; 0: none, and the file needs no arrays for them.
    weights : Path, optional
        A file of weights to begin with, in the place of those of the data, which need then have none.
    state : Path, optional
        A file of the optimiser's state to begin with, in the place of zeros.

    Raises
    ------
    UserError
        With the array's name, what the plan reads and what the file has: if an array is missing, has another type or
        shape, holds a number that is not finite or a label that there is not, if there are fewer batches than steps, or
        if the file was made beside other frozen weights than the plan's, or the weights are not those of its model.
    """
    arrays = {**read_arrays(path, "poet-plan data"), **plan.constants}
    refuse_other_frozen(path, arrays, plan)
    table = state_table(path, arrays, plan)
    if weights is not None:
        given, table = with_weights(weights, table, plan)
        arrays |= given
    if state is not None:
        arrays |= optimizer_state(state, plan)
    zeros = {*plan.optimizer.tensors.values(), *plan.generators}
    count = _batch_count(path, plan, arrays) if steps is None else steps
    constants: dict[int, bytes] = {}
    once: dict[int, bytes] = {}
    every_step: dict[int, Array] = {}
    shapes = whole_shapes(plan.tensors)
    shared = _shared_by_parts(path, plan, arrays)
    for index, tensor in enumerate(plan.tensors):
        numbers = plan.type_of(tensor), (plan.choices.get(tensor.id), plan.ignored.get(tensor.id))
        if name_of(tensor) in zeros - arrays.keys():
            once[index] = bytes(tensor.bytes)
        elif tensor.kind in EVERY_STEP and steps != 0:
            whole = tensor if tensor.id in shared else _of_a_batch(tensor, plan.micro_batches)
            every_step[index] = checked_array(path, whole, *numbers, arrays, count)
        elif tensor.kind in GIVEN_ONCE:
            whole = replace(tensor, id=name_of(tensor), shape=shapes[name_of(tensor)])
            data = cut_from(tensor, checked_array(path, whole, *numbers, arrays)).tobytes()
            in_ram = index < len(plan.residents)
            (constants if in_ram and tensor.kind == "constant" else once)[index] = data
    batches = [{index: array[step].tobytes() for index, array in every_step.items()} for step in range(count)]
    return TrainingData(constants, once, batches, table)


def part_of_batch(batch: Mapping[int, bytes], plan: Plan, part: int) -> dict[int, bytes]:
    """What of a step's tensors one micro-batch takes; a tensor that all parts share is given with the first."""
    sizes = {index: plan.tensors[index].bytes for index in batch}
    cut = {index: content for index, content in batch.items() if len(content) > sizes[index] or not part}
    return {index: content[part * sizes[index] : (part + 1) * sizes[index]] for index, content in cut.items()}


def _shared_by_parts(path: Path, plan: Plan, arrays: Mapping[str, Array]) -> set[str]:
    """Tensors that are no longer in a batch than in a micro-batch of it; not all, or there is nothing to cut."""
    of_steps = [tensor for tensor in plan.tensors if tensor.kind in EVERY_STEP and tensor.id in arrays]
    equal = {tensor.id for tensor in of_steps if arrays[tensor.id].shape[1:] == tensor.shape}
    if of_steps and len(equal) == len(of_steps) and plan.micro_batches > 1:
        raise UserError(
            f"{path}: its batches are as large as one of the plan's {plan.micro_batches} micro-batches; a step takes "
            f"{plan.micro_batches} times as many samples: make the file with poet-plan data"
        )
    return equal


def _of_a_batch(tensor: Resident | Kept, parts: int) -> Resident | Kept:
    if parts == 1 or not tensor.shape:
        return tensor
    return replace(tensor, shape=(parts * tensor.shape[0], *tensor.shape[1:]))


def _batch_count(path: Path, plan: Plan, arrays: Mapping[str, Array]) -> int:
    """As many as every array of batches has; what is no such array is refused when it is read."""
    given = (tensor.id for tensor in plan.tensors if tensor.kind in EVERY_STEP and tensor.id in arrays)
    counts = {name: len(arrays[name]) for name in given if arrays[name].ndim}
    for name, count in counts.items():
        if not count:
            raise UserError(f"{path}: {name}: holds no batch; make the file with poet-plan data")
    return min(counts.values(), default=0)


def refuse_other_frozen(path: Path, arrays: Mapping[str, Array], plan: Plan) -> None:
    """Make sure that a data file was made beside the plan's frozen weights."""
    for name, check in rows_of_text(path, arrays, FROZEN, 2):
        if name in plan.constants and f"{crc32(plan.constants[name].tobytes()):08x}" != check:
            raise UserError(f"{path}: was made with another frozen {name} than the plan; make both again")


def checked_array(
    path: Path,
    resident: Resident | Kept,
    dtype: np.dtype[Any],
    choices: Choices,
    arrays: Mapping[str, Array],
    steps: int | None = None,
) -> Array:
    """An array as the board stores it; with ``steps``, the first so many along a leading axis.

    Parameters
    ----------
    dtype : dtype
        Of its numbers there; an array of whole numbers may be of another size.
    choices : pair of int or None
        How many there are to choose from: its numbers are whole, from 0 to below that. And one beside them.
    """
    where = f"{path}: {resident.id}"
    if resident.id not in arrays:
        raise UserError(f"{where}: no such array (make the file with poet-plan data)")
    array = arrays[resident.id]
    shape = array.shape if steps is None else array.shape[1:]
    whole = dtype.kind in "iu"
    wanted = "whole numbers" if whole else dtype.name
    fits = np.issubdtype(array.dtype, np.integer) if whole else array.dtype == dtype
    if not fits or shape != resident.shape or (steps is not None and not array.ndim):
        batches = () if steps is None else ("steps",)
        raise UserError(
            f"{where}: is {array.dtype} of shape {shape_text(array.shape)}, the plan reads {wanted} of shape "
            f"{shape_text((*batches, *resident.shape))}; convert it, or make the file with poet-plan data"
        )
    if steps is not None and len(array) < steps:
        raise UserError(f"{where}: holds {len(array)} batches, --steps asks for {steps}")
    used = array if steps is None else array[:steps]
    if whole:
        refuse_choices(where, used, dtype, choices)
    else:
        # The mask of an attention is poet's own constant, and minus infinity where nothing is to be seen.
        wrong = np.isnan(used) if resident.kind == "constant" else ~np.isfinite(used)
        refuse_numbers(where, used, wrong, "training needs finite numbers")
    return np.ascontiguousarray(used, dtype=dtype)
