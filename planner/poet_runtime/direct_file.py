# SPDX-License-Identifier: Apache-2.0
"""A file that is read and written past the kernel's cache, so that a page on disk takes no RAM there.

Direct transfers want memory and sizes aligned to the disk's blocks, which tensors are not: everything goes through one
aligned buffer. A page needs no durability, and nothing is flushed. Some file systems refuse direct transfers; there
the kernel is told after each transfer to drop its copy.
"""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from poet_profiles.errors import UserError

ALIGNMENT = 4096
BUFFER_BYTES = 1 << 20


class DirectFile:
    """A file of fixed size; emptied if it exists. Close it, or use it as a context manager.

    Parameters
    ----------
    path : Path
    size_bytes : int
        Room for pages. The blocks are reserved, and written once: a first write to them would take longer.

    Attributes
    ----------
    direct : bool
        Whether the kernel's cache is passed by; False where the file system refuses that.

    Raises
    ------
    UserError
        If the file cannot be made, or the disk is full.
    """

    def __init__(self, path: Path, size_bytes: int) -> None:
        self.path = path
        self.size_bytes = -(-size_bytes // ALIGNMENT) * ALIGNMENT
        self._buffer = mmap.mmap(-1, BUFFER_BYTES)
        self._memory = memoryview(self._buffer)
        try:
            self._file, self.direct = _opened(path)
        except OSError as error:
            raise UserError(f"{path}: cannot page to it ({error.strerror}); choose another place") from None
        try:
            if self.size_bytes:
                os.posix_fallocate(self._file, 0, self.size_bytes)
            self._write_through()
        except OSError as error:
            self.close()
            raise UserError(f"{path}: no room for {self.size_bytes} B of pages ({error.strerror})") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and leave it."""
        os.close(self._file)
        self._memory.release()
        self._buffer.close()

    def write(self, offset: int, data: memoryview) -> None:
        """Write bytes, from a multiple of 4096 on; what follows them in their last block is lost.

        Raises
        ------
        OSError
        """
        for begin, end, whole in self._pieces(offset, len(data)):
            self._memory[: end - begin] = data[begin:end]
            done = 0
            while done < whole:
                done += os.pwrite(self._file, self._memory[done:whole], offset + begin + done)
            self._drop(offset + begin, whole)

    def read(self, offset: int, into: memoryview) -> None:
        """Read bytes, from a multiple of 4096 on.

        Raises
        ------
        OSError
            If the file ends before.
        """
        for begin, end, whole in self._pieces(offset, len(into)):
            self._drop(offset + begin, whole)
            done = 0
            while done < whole:
                count = os.preadv(self._file, [self._memory[done:whole]], offset + begin + done)
                if not count:
                    raise OSError(errno.EIO, f"ends inside a page; somebody else has changed {self.path}")
                done += count
            into[begin:end] = self._memory[: end - begin]

    def _pieces(self, offset: int, size: int) -> list[tuple[int, int, int]]:
        """(begin, end, bytes in whole blocks) of each piece that fits the buffer."""
        if offset % ALIGNMENT or offset + size > self.size_bytes:
            raise ValueError(f"{size} B at {offset} are no place in a file of {self.size_bytes} B")
        starts = range(0, size, BUFFER_BYTES)
        ends = [min(begin + BUFFER_BYTES, size) for begin in starts]
        return [
            (begin, end, -(-(end - begin) // ALIGNMENT) * ALIGNMENT) for begin, end in zip(starts, ends, strict=True)
        ]

    def _drop(self, offset: int, size: int) -> None:
        if not self.direct:
            os.fdatasync(self._file)
            os.posix_fadvise(self._file, offset, size, os.POSIX_FADV_DONTNEED)

    def _write_through(self) -> None:
        for offset in range(0, self.size_bytes, BUFFER_BYTES):
            self.write(offset, self._memory[: min(BUFFER_BYTES, self.size_bytes - offset)])


def _opened(path: Path) -> tuple[int, bool]:
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_DIRECT, 0o600), True
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, flags, 0o600), False
