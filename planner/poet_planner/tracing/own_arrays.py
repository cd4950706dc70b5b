# SPDX-License-Identifier: Apache-2.0
"""A user's own samples, by the names of a graph's inputs and targets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from poet_profiles.errors import UserError
from poet_profiles.files.arrays import read_arrays
from poet_profiles.quantised import TYPES, Normalising
from poet_runtime.traced_graph import TracedResident

Array = NDArray[Any]


def own_arrays(path: Path, batch: Sequence[TracedResident], normalising: Normalising | None = None) -> dict[str, Array]:
    """An array for each tensor of a batch, as the firmware stores it: samples, or batches, along the first axis.

    ``path`` is an .npz with an array for each of ``batch``, of as many axes or one more. With ``normalising``, u8, i8
    and i16 may stand where the model takes f32.

    Raises
    ------
    UserError
        With the array's name, what it is and what it should be.
    """
    arrays = read_arrays(path, "numpy.savez")
    for resident in batch:
        if resident.id not in arrays:
            found = ", ".join(arrays) or "nothing"
            raise UserError(f"{path}: lacks {resident.id}, it holds {found}; name the arrays as the graph does")
    return {
        resident.id: _checked(path, resident, _normalised(resident, arrays[resident.id], normalising))
        for resident in batch
    }


def _normalised(resident: TracedResident, array: Array, normalising: Normalising | None) -> Array:
    if normalising is None or array.dtype.name not in TYPES or not resident.dtype.is_floating_point:
        return array
    if array.ndim <= len(resident.shape):
        return normalising(array)
    return normalising(array.reshape(-1, *array.shape[2:])).reshape(array.shape)


def _checked(path: Path, resident: TracedResident, array: Array) -> Array:
    """An array as the firmware stores it: f32, integers as i32."""
    wanted = _KINDS[_kind(resident.dtype)]
    shape = resident.shape
    fits = array.shape[1:] == (shape if array.ndim > len(shape) else shape[1:])
    if not fits or not shape or array.dtype.kind not in wanted.numpys:
        samples = ", ".join(map(str, ("samples", *shape[1:])))
        raise UserError(
            f"{path}: {resident.id} is {array.dtype} of shape {array.shape}; the model takes {wanted.name} of shape "
            f"({samples})"
        )
    as_they_are = resident.dtype in (torch.uint8, torch.int8, torch.int16)
    held = np.dtype(str(resident.dtype).removeprefix("torch.") if as_they_are else wanted.stored)
    with np.errstate(over="ignore"):  # Infinity is found below.
        stored = array.astype(held)
    if not np.isfinite(stored).all() or (held.kind in "iu" and not np.array_equal(stored, array)):
        bits = 8 * held.itemsize
        raise UserError(f"{path}: {resident.id} holds numbers that are not finite, or that {bits} bits do not hold")
    return stored


class _Kind(NamedTuple):
    name: str
    numpys: str
    stored: type[np.generic]


_KINDS = {
    "floating": _Kind("floating-point numbers", "f", np.float32),
    "integer": _Kind("integers", "iu", np.int32),
    "truth": _Kind("truth values", "b", np.bool_),
    "complex": _Kind("complex numbers", "c", np.complex64),
}


def _kind(dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return "truth"
    return "floating" if dtype.is_floating_point else "complex" if dtype.is_complex else "integer"
