# SPDX-License-Identifier: Apache-2.0
"""The program of a plan for a Linux board: the step that an agent loads."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.file import graph_hash
from poet_profiles.json_file import of_format, read_document
from poet_profiles.plan_folder import GRAPH_FILE, PROGRAM_FILE

PROGRAM_FORMAT = "poet-program/1"


def read_program(folder: Path, graph: Graph) -> dict[str, Any]:
    """The program file beside a graph.

    Raises
    ------
    UserError
        If it is missing or damaged, or another graph's.
    """
    path = folder / PROGRAM_FILE
    document = read_document(path, lambda read: of_format(read, PROGRAM_FORMAT))
    if document.get("graph_hash") != graph_hash(graph):
        raise UserError(f"{path}: belongs to another graph than {folder / GRAPH_FILE}; make the plan again")
    return document


def packed(document: Mapping[str, Any]) -> bytes:
    """A document as an agent loads it."""
    return gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0)
