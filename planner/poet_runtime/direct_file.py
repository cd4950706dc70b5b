# SPDX-License-Identifier: Apache-2.0
"""A file that is read and written past the kernel's cache, so that a page on disk takes no RAM there.

Direct transfers want memory and sizes aligned to the disk's blocks, which tensors are not: everything goes through one
aligned buffer. A page needs no durability, and nothing is flushed. Some file systems refuse direct transfers; there
the kernel is asked after each transfer to drop its copy. Transfers and copies let other threads run.
"""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

import torch
from poet_profiles.errors import UserError
from poet_profiles.program.closing import Closing
from torch import Tensor

ALIGNMENT = 4096
BUFFER_BYTES = 1 << 20


class DirectFile(Closing):
    """A file of fixed size that has no name any more: it goes with the program, however that ends.

    Close it, or use it as a context manager.

    Parameters
    ----------
    path : Path
        Where it is made; nothing may be there.
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
        self._memory = memoryview(mmap.mmap(-1, BUFFER_BYTES))
        self._buffer = torch.frombuffer(self._memory, dtype=torch.uint8)
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

    def close(self) -> None:
        """Close the file, which ends it."""
        os.close(self._file)

    def write(self, offset: int, data: Tensor) -> None:
        """Write bytes, from a multiple of 4096 on; what follows them in their last block is lost.

        Parameters
        ----------
        data : Tensor, shape (bytes,), uint8

        Raises
        ------
        OSError
        """
        for begin, end, whole in self._pieces(offset, len(data)):
            self._buffer[: end - begin].copy_(data[begin:end])
            done = 0
            while done < whole:
                done += _whole_blocks(os.pwrite(self._file, self._memory[done:whole], offset + begin + done))
            self._drop(offset + begin, whole)

    def read(self, offset: int, into: Tensor) -> None:
        """Read bytes, from a multiple of 4096 on.

        Parameters
        ----------
        into : Tensor, shape (bytes,), uint8

        Raises
        ------
        OSError
            If the file ends before.
        """
        for begin, end, whole in self._pieces(offset, len(into)):
            self._drop(offset + begin, whole)
            done = 0
            while done < whole:
                done += _whole_blocks(os.preadv(self._file, [self._memory[done:whole]], offset + begin + done))
            into[begin:end].copy_(self._buffer[: end - begin])

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
            self.write(offset, self._buffer[: min(BUFFER_BYTES, self.size_bytes - offset)])


def _whole_blocks(count: int) -> int:
    """What of a short transfer counts: the next one has to begin at a block."""
    if count < ALIGNMENT:
        raise OSError(errno.EIO, "the page file ends inside a page, or its disk is full")
    return count // ALIGNMENT * ALIGNMENT


def _opened(path: Path) -> tuple[int, bool]:
    """A new file, unlinked at once, and whether its file system takes direct transfers."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        file, direct = os.open(path, flags | os.O_DIRECT, 0o600), True
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        path.unlink(missing_ok=True)  # Some file systems make the file before they refuse.
        file, direct = os.open(path, flags, 0o600), False
    path.unlink()
    return file, direct
