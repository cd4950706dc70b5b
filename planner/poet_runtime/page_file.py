# SPDX-License-Identifier: Apache-2.0
"""Values on disk while they are not in RAM: one file, whole blocks, each value in a place of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import torch
from poet_profiles.errors import UserError
from torch import Tensor

BLOCK_BYTES = 512


class PageFile:
    """A page store in a file, which is created, or emptied if it exists; close it, or use it as a context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[str, tuple[int, int]] = {}
        self._end = 0
        try:
            self._file = path.open("w+b", buffering=0)
        except OSError as error:
            raise UserError(f"{path}: cannot page to it ({error.strerror}); choose another place") from None

    def __enter__(self) -> PageFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and leave it."""
        self._file.close()

    def write(self, id: str, tensor: Tensor) -> None:
        """Copy a value's whole storage to its place."""
        data = _storage(tensor)
        if id not in self._places:
            self._places[id] = (self._end, len(data))
            self._end += -(-len(data) // BLOCK_BYTES) * BLOCK_BYTES
        offset, size = self._places[id]
        done = 0
        try:
            while done < size:
                done += os.pwrite(self._file.fileno(), data[done:], offset + done)
        except OSError as error:
            raise UserError(f"{self._path}: cannot page out {id} ({error.strerror})") from None

    def read(self, id: str, shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> Tensor:
        """A new tensor with a value's contents."""
        if id not in self._places:
            raise UserError(f"page_in {id}: it has never been paged out")
        offset, size = self._places[id]
        storage = torch.empty(size, dtype=torch.uint8)
        memory = _bytes(storage)
        done = 0
        while done < size:
            count = os.preadv(self._file.fileno(), [memory[done:]], offset + done)
            if not count:
                raise UserError(f"{self._path}: ends inside {id}; somebody else has changed it")
            done += count
        return torch.empty(0, dtype=dtype).set_(storage.untyped_storage(), 0, tuple(shape), tuple(stride))


def _storage(tensor: Tensor) -> memoryview:
    return _bytes(torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()))


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.numpy().data
