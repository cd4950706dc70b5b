# SPDX-License-Identifier: Apache-2.0
"""What a file is by its first bytes, whatever its name."""

from __future__ import annotations

from pathlib import Path
from typing import IO
from zipfile import ZipFile

from poet_profiles.errors import UserError

SAFETENSORS, NPZ, JSON = "safetensors", "an .npz", "JSON"
TORCH = "what torch.save wrote"  # or another pickle
LOOKED_AT_BYTES = 64
# Where a mark stands, and what has it.
_MARKS = (
    (0, b"\x80", TORCH),
    (0, b"\x93NUMPY", "a single array, an .npy"),
    (0, b"\x89HDF", "HDF5 (Keras)"),
    (0, b"GGUF", "GGUF"),
    (4, b"TFL3", "TFLite"),
    (4, b"ET12", "a program of ExecuTorch"),
    (0, b"\x08", "ONNX"),
    (0, b"\x1f\x8b", "packed by gzip"),
    (0, b"BZh", "packed by bzip2"),
    (0, b"\xfd7zXZ", "packed by xz"),
    (0, b"\x28\xb5\x2f\xfd", "packed by zstd"),
    (0, b"version https://git-lfs", "a pointer of Git LFS (git lfs pull fetches the file)"),
    (0, b"<", "a web page"),
)
# The same of a .zip: how the name of a file in it ends, in this order.
_ZIPPED = (
    ("/constants.pkl", "TorchScript (torch.jit.load(…).state_dict() has its weights)"),
    ("/archive_format", "a program of torch.export"),
    ("data.pkl", TORCH),
    ("model.weights.h5", "a model of Keras"),
    (".npy", NPZ),
)


def content_of(path: Path) -> str:
    """What a file is: SAFETENSORS, NPZ, TORCH, JSON, or something else in words.

    Raises
    ------
    UserError
        If it is a folder, is empty, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(LOOKED_AT_BYTES)
            if begin[:2] == b"PK":
                return _zipped(file)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    if not begin:
        raise UserError(f"{path}: is empty; write it again")
    if begin[8:9] == b"{":
        return SAFETENSORS
    if begin[:1] == b"{":
        return JSON
    text = "text, such as a CSV" if begin.replace(b"\r\n", b"").isascii() else "of a kind that poet does not know"
    return next((what for place, mark, what in _MARKS if begin.startswith(mark, place)), text)


def _zipped(file: IO[bytes]) -> str:
    try:
        with ZipFile(file) as archive:
            names = archive.namelist()
    except Exception:  # whatever a damaged one makes zipfile raise
        return "a damaged .zip, or its beginning alone"
    known = (what for end, what in _ZIPPED if any(f"/{name}".endswith(end) for name in names))
    return next(known, NPZ if not names else "a .zip of something else")
