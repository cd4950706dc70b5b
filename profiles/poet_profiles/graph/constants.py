# SPDX-License-Identifier: Apache-2.0
"""The data of a graph's constants, in a file beside the graph (docs/SPEC.md, section 3)."""

from __future__ import annotations

from binascii import crc32
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poet_profiles.errors import UserError
from poet_profiles.files.arrays import safetensors
from poet_profiles.files.whole_file import write_whole

from . import Graph
from .kept import kept_constants

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONSTANTS_FILE = "constants.safetensors"


def write_constants(constants: Mapping[str, NDArray[Any]], folder: Path, graph_hash: str) -> None:
    """Write a graph's constants; without any, remove what an earlier graph left in the folder."""
    path = folder / CONSTANTS_FILE
    if constants:
        write_whole(path, safetensors(constants, {"graph": graph_hash}))
    else:
        path.unlink(missing_ok=True)


def read_constants(path: Path, graph: Graph) -> dict[str, NDArray[Any]]:
    """Every array of the file by name: constants in flash and on the card, and frozen tensors of the model beside them.

    Raises
    ------
    UserError
        If it cannot be read, does not hold the constants in flash bit for bit, or lacks one that lies on the card.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; make the plan with poet-plan --out {path.parent}") from None
    except SafetensorError as error:
        raise UserError(f"{path}: no safetensors file ({error}); make the plan again") from None
    except KeyError as type_name:  # one that NumPy has not
        raise UserError(f"{path}: holds a tensor of type {type_name.args[0]}; make the plan again") from None
    for constant in graph.constants:
        data = arrays[constant.id].tobytes() if constant.id in arrays else b""
        if len(data) != constant.bytes or f"{crc32(data):08x}" != constant.crc32:
            raise UserError(f"{path}: {constant.id} is not that of the graph beside it; make the plan again")
    for kept in kept_constants(graph):
        if kept.id not in arrays or arrays[kept.id].nbytes != kept.bytes:
            raise UserError(f"{path}: {kept.id} is not that of the graph beside it; make the plan again")
    return arrays
