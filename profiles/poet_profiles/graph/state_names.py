# SPDX-License-Identifier: Apache-2.0
"""How a board's tensors become the model's `state_dict`, in a file beside the graph (docs/SPEC.md, section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poet_profiles.files.arrays import npz, read_arrays
from poet_profiles.files.whole_file import write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

STATE_DICT_FILE = "state_dict.npz"
GRAPH = "..graph"


def write_names(names: Mapping[str, NDArray[Any]], folder: Path, graph_hash: str) -> None:
    """Write a graph's names; without any, remove what an earlier graph left in the folder."""
    import numpy as np

    path = folder / STATE_DICT_FILE
    if names:
        write_whole(path, npz({GRAPH: np.array(graph_hash), **names}))
    else:
        path.unlink(missing_ok=True)


def read_names(folder: Path, graph_hash: str) -> dict[str, NDArray[Any]]:
    """The names of a graph; empty where there is no file, or one of another graph."""
    path = folder / STATE_DICT_FILE
    if not path.is_file():
        return {}
    names = read_arrays(path, "poet-plan")
    return names if str(names.pop(GRAPH, "")) == graph_hash else {}
