# SPDX-License-Identifier: Apache-2.0
"""A user's own samples as batches, one a training step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from poet_profiles.errors import UserError
from poet_profiles.quantised import Normalising
from poet_runtime.traced_graph import TracedResident

from poet_planner.tracing.own_arrays import Array, own_arrays


def own_batches(
    path: Path, batch: Sequence[TracedResident], steps: int, seed: int, normalising: Normalising | None = None
) -> dict[str, Array]:
    """An array for each tensor of a batch, with a leading axis of steps, as the firmware stores it.

    ``path`` is an .npz with an array for each of ``batch``. One with an axis more has a batch for each step, which stay
    as they are; one with as many has samples along the first axis: of them come the batches, in an order that the seed
    decides, every sample once before any comes again. With ``normalising``, u8, i8 and i16 may stand where the model
    takes f32.

    Raises
    ------
    UserError
        With the array's name, what it is and what it should be.
    """
    given = own_arrays(path, batch, normalising)
    in_steps = [resident for resident in batch if given[resident.id].ndim > len(resident.shape)]
    if len(in_steps) not in (0, len(batch)):
        raise UserError(f"{path}: {in_steps[0].id} has an axis of steps, others have none; give all of them one")
    counts = {len(array) for array in given.values()}
    if len(counts) > 1:
        lengths = ", ".join(f"{id} {len(array)}" for id, array in given.items())
        raise UserError(f"{path}: the arrays do not belong together: {lengths} long")
    if in_steps:
        if counts.pop() < steps:
            raise UserError(f"{path}: holds {len(given[batch[0].id])} steps, --steps asks for {steps}")
        return {id: array[:steps] for id, array in given.items()}
    order = _order(path, counts.pop(), batch[0].shape[0], steps, seed)
    return {id: array[order] for id, array in given.items()}


def _order(path: Path, samples: int, size: int, steps: int, seed: int) -> NDArray[np.int64]:
    """Samples of each step, shape (steps, size); never one twice in a batch."""
    if samples < size:
        raise UserError(f"{path}: holds {samples} samples, one batch takes {size}; give more, or a smaller --batch")
    generator = np.random.default_rng(seed)
    batches: list[NDArray[np.int64]] = []
    while len(batches) < steps:
        order = generator.permutation(samples)[: samples // size * size]
        batches += list(order.reshape(-1, size))
    return np.stack(batches[:steps])
