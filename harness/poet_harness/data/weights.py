# SPDX-License-Identifier: Apache-2.0
"""Trained weights as a file that PyTorch loads: the model's ``state_dict``, and the optimiser's state beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from poet_profiles.errors import UserError
from poet_profiles.graph.kept import TRAINED_KINDS
from poet_profiles.graph.parts import name_of

from ..plan_folder.plan import Plan

Array = NDArray[Any]

# Of the data file (docs/SPEC.md, section 8).
TABLE = "..state_dict"
PARAMETERS = "..parameters"
AFTER_STEPS = "..after_steps"
UNKEPT = "unkept"


@dataclass(frozen=True)
class StateTable:
    """How the names of a model's ``state_dict`` follow from what the board holds.

    Parameters
    ----------
    sources : mapping of str to str
        The tensor that each name stands for.
    notes : mapping of str to str
        By tensor: `+1`, how much a counter rises a step; `unkept`, a buffer that changes in PyTorch and not on the
        board.
    arrays : mapping of str to array
        What the board does not hold: as it was at the beginning, or, after every step, what changes without the batch.
    parameters : tuple of str
        Parameters in the order by which ``torch.optim`` numbers them; empty where that is not known.
    """

    sources: Mapping[str, str]
    notes: Mapping[str, str]
    arrays: Mapping[str, Array]
    parameters: tuple[str, ...] = ()

    @property
    def unkept(self) -> list[str]:
        """Names of buffers that change in PyTorch and not on the board."""
        return [name for name, source in self.sources.items() if self.notes.get(source) == UNKEPT]

    def check_steps(self, steps: int) -> None:
        """Make sure that what changes without the batch is known after so many training steps."""
        for name, array in self.arrays.items():
            if name.endswith(AFTER_STEPS) and len(array) <= steps:
                counter = name.removesuffix(AFTER_STEPS)
                raise UserError(
                    f"{counter}: the data say what it is after {len(array) - 1} steps at most, --steps asks for "
                    f"{steps}; make them with poet-plan data --steps {steps}"
                )

    def state_dict(self, tensors: Mapping[str, Array], steps: int) -> dict[str, Array]:
        """Every tensor of the model after so many training steps, by name; ``tensors`` are the board's, by id."""
        return {name: self._contents(source, tensors, steps) for name, source in self.sources.items()}

    def _contents(self, source: str, tensors: Mapping[str, Array], steps: int) -> Array:
        if source in tensors:
            return tensors[source]
        note = self.notes.get(source, "")
        if note.startswith("+"):
            return self.arrays[source].astype(np.int64) + steps * int(note)
        counted = self.arrays.get(f"{source}{AFTER_STEPS}")
        return self.arrays[source] if counted is None else np.asarray(counted[steps])


def state_table(path: Path, arrays: Mapping[str, Array], plan: Plan) -> StateTable:
    """The table of a data file, or else of the plan; without any, the plan's ids of parameters and state are the names.

    Raises
    ------
    UserError
        If it names an array that is neither in the file, nor in the plan, nor on the board.
    """
    held = {name_of(tensor) for tensor in plan.tensors if tensor.kind in TRAINED_KINDS}
    held -= {*plan.optimizer.tensors.values(), *plan.generators}
    arrays = {**plan.names, **arrays, **plan.constants}
    if TABLE not in arrays:
        return StateTable({id: id for id in sorted(held)}, {}, {})
    rows = rows_of_text(path, arrays, TABLE, 3)
    sources = {str(name): str(source) for name, source, _ in rows}
    for name, source in sources.items():
        if source not in held and source not in arrays:
            raise UserError(f"{path}: {TABLE}: {name} stands for {source}, which is not there; make the file anew")
    notes = {str(source): str(note) for _, source, note in rows if note}
    for source, note in notes.items():
        if note != UNKEPT and not (note.startswith("+") and note[1:].isdecimal()):
            raise UserError(f"{path}: {TABLE}: {source}: {note} is no note; make the file with poet-plan data")
    needed = {array for source in sources.values() for array in (source, f"{source}{AFTER_STEPS}")} - held
    return StateTable(
        sources=sources,
        notes=notes,
        arrays={name: arrays[name] for name in needed & arrays.keys()},
        parameters=tuple(str(name) for name in rows_of_text(path, arrays, PARAMETERS)),
    )


def rows_of_text(path: Path, arrays: Mapping[str, Array], name: str, *columns: int) -> Array:
    """A table of text with so many columns, or a list of text; without rows if there is none of that name."""
    rows = arrays.get(name, np.empty((0, *columns), np.str_))
    if rows.shape != (rows.size // math.prod(columns), *columns) or rows.dtype.kind != "U":
        raise UserError(f"{path}: {name}: is no table of names; make the file with poet-plan data")
    return rows
