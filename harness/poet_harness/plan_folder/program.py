# SPDX-License-Identifier: Apache-2.0
"""The program of a plan for a Linux board: the step that an agent loads, and its tensors as the agent counts them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from poet_profiles.errors import UserError
from poet_profiles.files.json_file import of_format, read_document
from poet_profiles.graph import Graph, Resident
from poet_profiles.graph.file import graph_hash
from poet_profiles.plan_folder import GRAPH_FILE, PROGRAM_FILE

PROGRAM_FORMAT = "poet-program/1"
# As NumPy writes them, in the order of bytes of all boards.
TYPES = {
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "int64": "<i8",
    "int32": "<i4",
    "int16": "<i2",
    "int8": "|i1",
    "uint8": "|u1",
    "bool": "|b1",
    "complex64": "<c8",
}
LOADED = "loaded"


def read_program(folder: Path, graph: Graph) -> dict[str, Any]:
    """The program file beside a graph."""
    path = folder / PROGRAM_FILE
    document = read_document(path, lambda read: of_format(read, PROGRAM_FORMAT))
    if document.get("graph_hash") != graph_hash(graph):
        raise UserError(f"{path}: belongs to another graph than {folder / GRAPH_FILE}; make the plan again")
    return document


def packed(document: Mapping[str, Any]) -> bytes:
    """A document as an agent loads it."""
    return gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0)


def tensors_of(program: Mapping[str, Any], path: Path) -> tuple[tuple[Resident, ...], dict[str, str]]:
    """A program's residents, and the NumPy type of each, by id.

    A buffer that no step changes is a ``constant``. What comes with the program is of kind ``loaded``: nobody puts it.

    Raises
    ------
    UserError
        If the file is damaged, or a tensor is of a type that no .npz holds.
    """
    try:
        operators = [*program["operators"], *program["bookkeeping"]]
        changed = {id for operator in operators for id in operator.get("updates", ())}
        residents = [_resident(entry, changed, path) for entry in program["residents"]]
        types = {entry["id"]: TYPES.get(entry["dtype"], "") for entry in program["residents"]}
    except (KeyError, TypeError, AttributeError):
        raise UserError(f"{path}: is damaged: its residents are none; plan again") from None
    return tuple(residents), types


def _resident(entry: Mapping[str, Any], changed: set[str], path: Path) -> Resident:
    id, kind, shape = entry["id"], entry["kind"], tuple(entry["shape"])
    if "data" in entry or kind == "state":
        kind = LOADED
    elif kind == "buffer":
        kind = "state" if id in changed else "constant"
    if kind != LOADED:
        name = TYPES.get(entry["dtype"])
        if name is None:
            raise UserError(f"{path}: {id}: is of {entry['dtype']}, which no .npz holds; plan a model of other tensors")
        if entry["bytes"] != np.dtype(name).itemsize * int(np.prod(shape)) or "stride" in entry:
            raise UserError(f"{path}: {id}: does not lie in one piece, row by row; make it contiguous, and plan again")
    return Resident(id, kind, entry["bytes"], 0, shape)
