# SPDX-License-Identifier: Apache-2.0
"""Weights from a card as a file that PyTorch loads."""

from __future__ import annotations

from pathlib import Path

from poet_profiles.arrays import read_arrays
from poet_profiles.whole_file import check_writable, write_whole

from ..training.plan import Plan
from ..training.weights import as_safetensors, state_table
from .reading import Weights


def write_state_dict(out: Path, plan: Plan, data: Path | None, weights: Weights) -> None:
    """Write the ``state_dict``: under the names of the data file's table, or, without a file, under the plan's ids.

    Raises
    ------
    UserError
        If the file cannot be written, or the table names what is not there.
    """
    check_writable(out)
    arrays = read_arrays(data, "poet-plan data") if data is not None else {}
    table = state_table(data or out, arrays, plan)
    metadata = {"graph": plan.graph_hash, "step": str(weights.step)}
    write_whole(out, as_safetensors(table.state_dict(weights.tensors, weights.step), metadata))
