# SPDX-License-Identifier: Apache-2.0
"""Trained weights as a file that PyTorch loads: the model's ``state_dict``, and the optimiser's state beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from poet_profiles.errors import UserError
from poet_profiles.graph.kept import TRAINED_KINDS
from poet_profiles.graph.parts import name_of

from .plan import Plan

Array = NDArray[Any]

# Of the data file (docs/SPEC.md, section 8).
TABLE = "..state_dict"
AFTER_STEPS = "..after_steps"
UNKEPT = "unkept"
# Of a batch norm: by its definition it counts on by one a step, behind what the table has, too.
BATCHES_TRACKED = "num_batches_tracked"


@dataclass(frozen=True)
class StateTable:
    """How the names of a model's ``state_dict`` follow from what the board holds.

    Parameters
    ----------
    sources : mapping of str to str
        The tensor that each name stands for.
    unkept : tuple of str
        Names of buffers that change in PyTorch and not on the board.
    arrays : mapping of str to array
        What the board does not hold: as it was at the beginning, or, behind every step, a counter.
    """

    sources: Mapping[str, str]
    unkept: tuple[str, ...]
    arrays: Mapping[str, Array]

    def check_steps(self, steps: int) -> None:
        """Make sure that every counter is known behind so many training steps.

        Raises
        ------
        UserError
            If one is not.
        """
        for name, array in self.arrays.items():
            counter = name.removesuffix(AFTER_STEPS)
            if name.endswith(AFTER_STEPS) and len(array) <= steps and not _counts_on(counter):
                raise UserError(
                    f"{counter}: the data say what it is after {len(array) - 1} steps at most, --steps asks for "
                    f"{steps}; make them with poet-plan data --steps {steps}"
                )

    def state_dict(self, tensors: Mapping[str, Array], steps: int) -> dict[str, Array]:
        """Every tensor of the model behind so many training steps, by name; ``tensors`` are the board's, by id."""
        return {name: self._contents(source, tensors, steps) for name, source in self.sources.items()}

    def _contents(self, source: str, tensors: Mapping[str, Array], steps: int) -> Array:
        if source in tensors:
            return tensors[source]
        counted = self.arrays.get(f"{source}{AFTER_STEPS}")
        if counted is None:
            return self.arrays[source]
        if steps >= len(counted) and _counts_on(source):
            return np.asarray(counted[-1] + (steps + 1 - len(counted)), counted.dtype)
        return np.asarray(counted[steps])


def _counts_on(counter: str) -> bool:
    return counter.rpartition(".")[2] == BATCHES_TRACKED


def state_table(path: Path, arrays: Mapping[str, Array], plan: Plan) -> StateTable:
    """The table of a data file; of one without, the plan's own ids of parameters and state are the names.

    Raises
    ------
    UserError
        If it names an array that is neither in the file, nor in the plan, nor on the board.
    """
    held = {name_of(tensor) for tensor in plan.tensors if tensor.kind in TRAINED_KINDS}
    held -= {*plan.optimizer.tensors.values(), *plan.generators}
    if TABLE not in arrays:
        return StateTable({id: id for id in sorted(held)}, (), {})
    rows = arrays[TABLE]
    arrays = {**arrays, **plan.frozen}
    if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype.kind != "U":
        raise UserError(f"{path}: {TABLE}: is no table of names; make the file with poet-plan data")
    sources = {str(name): str(source) for name, source, _ in rows}
    for name, source in sources.items():
        if source not in held and source not in arrays:
            raise UserError(f"{path}: {TABLE}: {name} stands for {source}, which is not there; make the file anew")
    needed = {array for source in sources.values() for array in (source, f"{source}{AFTER_STEPS}")} - held
    return StateTable(
        sources=sources,
        unkept=tuple(str(name) for name, _, note in rows if note == UNKEPT),
        arrays={name: arrays[name] for name in needed & arrays.keys()},
    )


def optimizer_path(path: Path) -> Path:
    """Where the optimiser's state goes: ``net.optimizer.safetensors`` beside ``net.safetensors``."""
    return path.with_name(f"{path.stem}.optimizer{path.suffix}")


def as_safetensors(tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """The bytes of a safetensors file."""
    from safetensors.numpy import save

    # "format" is what readers of such files ask for; the tensors are as PyTorch has them.
    contents = {name: np.ascontiguousarray(tensor).reshape(tensor.shape) for name, tensor in tensors.items()}
    return save(contents, {"format": "pt", **metadata})
