# SPDX-License-Identifier: Apache-2.0
"""Weights, and an optimiser's state, from files in the place of what the data begin with."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from poet_profiles.errors import UserError
from poet_profiles.files.weights_file import (
    Wanted,
    WeightsFile,
    by_source,
    fitting,
    is_counter,
    is_rounding,
    read_weights,
)
from poet_profiles.graph.kept import TRAINED_KINDS
from poet_profiles.graph.parts import name_of, whole_shapes

from ..plan_folder.plan import Plan
from .weights import AFTER_STEPS, StateTable

Array = NDArray[Any]


def with_weights(path: Path, table: StateTable, plan: Plan) -> tuple[dict[str, Array], StateTable]:
    """The weights of a file, by the plan's ids, and the table with those of its tensors that no board holds.

    Raises
    ------
    UserError
        With one line for each tensor that differs from what the model has: in name, shape, type, or because it is not
        finite, or frozen in the plan with other numbers.
    """
    wanted = _wanted(table, plan)
    file = fitting(read_weights(path, wanted), wanted, "the plan's model")
    arrays = by_source(file, {name: tensor for name, tensor in wanted.items() if not is_counter(name)})
    lines = [*_fixed(arrays, table, plan)]
    if lines:
        raise UserError(f"{path}: the plan was made with other weights; plan again with --weights", lines=lines)
    own = [id for id, array in arrays.items() if id in plan.constants and not np.array_equal(array, plan.constants[id])]
    if own:
        more = f" and {len(own) - 1} more frozen tensors" if len(own) > 1 else ", frozen,"
        print(f"{path}: {own[0]}{more} differ from the plan's by rounding; the plan's are kept", file=sys.stderr)
    given = {id: array for id, array in arrays.items() if id not in plan.constants}
    unheld = {id: array for id, array in given.items() if id in table.arrays}
    held = {id: array for id, array in given.items() if id not in table.arrays}
    return held, replace(table, arrays={**table.arrays, **unheld, **_counts(file, table)})


def of_library(folder: Path, plan: Plan) -> dict[int, bytes]:
    """What a plan's own library begins with, by the tensors' indices.

    Raises
    ------
    UserError
        If it is another plan's library, or has no weights.
    """
    name = folder.name
    header, initial = (folder / "src" / file for file in (f"{name}.h", f"{name}_initial.bin"))
    if not (header.is_file() and initial.is_file()):
        raise UserError(f"{folder}: no library of poet-plan --library {name}; name the folder that it wrote")
    if f"hash {plan.schedule.graph_hash}." not in header.read_text():
        raise UserError(f"{folder}: is another plan's library; plan again with --library {name}")
    if plan.commits_steps:
        raise UserError(f"{folder}: the trained weights lie on the card; prepare one, and give --restore")
    content, at, found = initial.read_bytes(), 0, dict[int, bytes]()
    for index, tensor in enumerate(plan.residents):
        if tensor.kind in TRAINED_KINDS:
            found[index] = content[at : at + tensor.bytes].ljust(tensor.bytes, b"\0")  # zeros at the end are left out
            at += tensor.bytes
    return found


def optimizer_state(path: Path, plan: Plan) -> dict[str, Array]:
    """The optimiser's state from a file that ``poet-harness weights`` or ``run --trained`` wrote, by the plan's ids.

    Raises
    ------
    UserError
        If the plan's optimiser has none; with one line for each tensor that is missing, surplus, of another shape or
        type, or not finite.
    """
    if not plan.optimizer.state:
        raise UserError(f"--state {path}: {plan.optimizer.words()} has no state; leave it out")
    types, shapes = _of_tensors(plan)
    wanted = {name: Wanted(shapes[id], types[id], id) for name, id in plan.optimizer.tensors.items()}
    file = fitting(read_weights(path, wanted), wanted, f"the state of {plan.optimizer.words()}")
    return by_source(file, wanted)


def _of_tensors(plan: Plan) -> tuple[dict[str, str], dict[str, tuple[int, ...]]]:
    """Types and shapes of a plan's tensors, each whole."""
    return {name_of(tensor): plan.type_of(tensor).name for tensor in plan.tensors}, whole_shapes(plan.tensors)


def _wanted(table: StateTable, plan: Plan) -> dict[str, Wanted]:
    types, shapes = _of_tensors(plan)
    for id, array in {**plan.constants, **table.arrays}.items():
        types[id], shapes[id] = array.dtype.name, array.shape
    for id, array in table.arrays.items():
        if id.endswith(AFTER_STEPS):
            types[id.removesuffix(AFTER_STEPS)], shapes[id.removesuffix(AFTER_STEPS)] = array.dtype.name, array[0].shape
    return {name: Wanted(shapes[source], types[source], source) for name, source in table.sources.items()}


def _fixed(arrays: Mapping[str, Array], table: StateTable, plan: Plan) -> Iterator[str]:
    """What the plan or the data hold already, and the file has with other numbers."""
    for id, array in arrays.items():
        if id in plan.constants and not is_rounding(array, plan.constants[id]):
            yield f"{id}: is frozen, and lies in the plan with other numbers"
        followed = table.arrays.get(f"{id}{AFTER_STEPS}")
        if followed is not None and not is_rounding(array, followed[0]):
            yield f"{id}: changes a step in a way that only PyTorch knows, and the data begin with other numbers"


def _counts(file: WeightsFile, table: StateTable) -> dict[str, Array]:
    sources = {name: source for name, source in table.sources.items() if is_counter(name) and source in table.arrays}
    counts = {source: file.counter(name) for name, source in sources.items()}
    return {source: np.array(count, np.int64) for source, count in counts.items() if count is not None}
