"""Initial parameters and batches for a training run, from an ``.npz`` whose keys are resident ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from poet_profiles.arrays import read_arrays
from poet_profiles.errors import UserError

from .plan import Plan, Resident

WEIGHTS = ("parameter", "state")
EVERY_STEP = ("input", "target")


@dataclass(frozen=True)
class TrainingData:
    """Bytes to put on the board, by resident index.

    Parameters
    ----------
    constants : dict
        Put whenever the board has started anew: no commit keeps them.
    weights : dict
        Initial parameters and state.
    batches : list of dict
        Input and target of each step.
    """

    constants: dict[int, bytes]
    weights: dict[int, bytes]
    batches: list[dict[int, bytes]]


def read_training_data(path: Path, plan: Plan, steps: int) -> TrainingData:
    """Read and check the arrays that the plan's residents need.

    ``input`` and ``target`` residents have a leading axis over the steps; the others are given once. State that is
    not in the file starts at zero. Integers travel as 32 bits, everything else as single precision.

    Raises
    ------
    UserError
        If an array is missing, has another size than the resident, or there are fewer batches than steps.
    """
    arrays = read_arrays(path, "poet-plan data")
    constants: dict[int, bytes] = {}
    weights: dict[int, bytes] = {}
    batches: list[dict[int, bytes]] = [{} for _ in range(steps)]
    for index, resident in enumerate(plan.residents):
        if resident.kind == "constant":
            constants[index] = _bytes(path, resident, _array(path, resident, arrays))
        elif resident.kind in WEIGHTS:
            if resident.kind == "state" and resident.id not in arrays:
                arrays[resident.id] = np.zeros(resident.bytes // 4)
            weights[index] = _bytes(path, resident, _array(path, resident, arrays))
        elif resident.kind in EVERY_STEP:
            array = _array(path, resident, arrays)
            if len(array) < steps:
                raise UserError(f"{path}: {resident.id}: holds {len(array)} batches, --steps asks for {steps}")
            for step in range(steps):
                batches[step][index] = _bytes(path, resident, array[step])
    return TrainingData(constants, weights, batches)


def _array(path: Path, resident: Resident, arrays: dict[str, NDArray[np.generic]]) -> NDArray[np.generic]:
    if resident.id not in arrays:
        raise UserError(f"{path}: {resident.id}: no such array (make the file with poet-plan data)")
    return arrays[resident.id]


def _bytes(path: Path, resident: Resident, array: NDArray[np.generic]) -> bytes:
    element = "<i4" if np.issubdtype(array.dtype, np.integer) else "<f4"
    data = np.ascontiguousarray(array, dtype=element).tobytes()
    if len(data) != resident.bytes:
        raise UserError(f"{path}: {resident.id}: {len(data)} bytes where the plan has {resident.bytes}")
    return data
