# SPDX-License-Identifier: Apache-2.0
"""Losses and weights that are infinite or no numbers: training ends there, and what was kept before stays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from poet_profiles.errors import UserError

if TYPE_CHECKING:
    from ..plan_folder.plan import Plan


class NotFiniteError(UserError):
    """Training came to such a loss or weight. Nothing of it is to be kept. Exit code 2."""


def count_not_finite(arrays: Iterable[NDArray[Any]]) -> int:
    """How many of their values are infinite or no numbers."""
    return sum(int((~np.isfinite(array)).sum()) for array in arrays if array.dtype.kind == "f")


def largest_input(plan: Plan, batches: Sequence[Mapping[int, bytes]], steps: range) -> str:
    """What a message says of the largest input of these steps; nothing where it is not known.

    Parameters
    ----------
    batches : sequence
        Those of the steps from 0 on, again and again; by the tensors' indices.
    """
    inputs = [(index, plan.type_of(tensor)) for index, tensor in enumerate(plan.tensors) if tensor.kind == "input"]
    found = [
        (float(np.abs(np.frombuffer(batches[step % len(batches)][index], dtype)).max()), step + 1)
        for step in (steps[-len(batches) :] if batches else ())
        for index, dtype in inputs
        if dtype.kind == "f"
    ]
    return " (the largest input so far is {:.3g}, in step {})".format(*max(found)) if found else ""
