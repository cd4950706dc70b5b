# SPDX-License-Identifier: Apache-2.0
"""Reading and writing the arrays that go from one command to the next, as .npz and .safetensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from poet_profiles.errors import UserError

from .first_bytes import NPZ, content_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_USUAL = 100.0  # networks are made for inputs of about 1


def doubt(name: str, samples: NDArray[Any]) -> str:
    """What makes a tensor of all samples a poor thing to learn from, in a line; empty where nothing does."""
    least, most = (float(samples.min()), float(samples.max())) if samples.size else (0.0, 0.0)
    if samples.size > 1 and least == most:
        return f"{name}: is {most + 0.0:g} everywhere: nothing can be learned from that"
    if samples.dtype.kind == "f" and max(-least, most) > MOST_USUAL:
        return f"{name}: has numbers from {least:g} to {most:g}: training may diverge; scale them to about 1"
    return ""


def npz(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The content of an .npz that holds arrays of any names; those of `numpy.savez` must not be its own arguments'."""
    import numpy as np

    content = BytesIO()
    with ZipFile(content, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
    return content.getvalue()


def safetensors(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """The content of a .safetensors file; equal arrays and metadata give equal bytes."""
    from safetensors.numpy import save

    # "format" is what readers of such files ask for; the tensors are as PyTorch has them.
    content = save(dict(arrays), {"format": "pt", **metadata})
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    # The library writes the metadata in another order each time.
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    words = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    words += b" " * (-len(words) % 8)
    return len(words).to_bytes(8, "little") + words + content[end:]


def native(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in this computer's order of bytes: they are sent as bytes, and NumPy's names do not tell."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def read_arrays(path: Path, made_by: str) -> dict[str, NDArray[Any]]:
    """All arrays of an .npz by name.

    Parameters
    ----------
    made_by : str
        The command that writes such a file.

    Raises
    ------
    UserError
        If it cannot be read or is something else.
    """
    import numpy as np

    if (content := content_of(path)) != NPZ:
        raise UserError(f"{path}: is {content}, not an .npz of arrays; write it with {made_by}")
    try:
        with np.load(path) as file:
            return {name: native(file[name]) for name in file.files}
    except Exception as error:  # whatever a damaged file makes numpy and zipfile raise
        # NumPy's own words advise to run whatever code is there.
        reason = "objects are in it" if "pickle" in str(error) else "it is damaged"
        raise UserError(f"{path}: not an .npz of arrays of numbers ({reason}); write it with {made_by}") from None
