# SPDX-License-Identifier: Apache-2.0
"""The window line: high while what is measured runs, for a meter that samples it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poet_profiles.errors import UserError


class WindowLine:
    """A file that takes ``1`` and ``0``, such as the value of a GPIO; without one, windows are known by time alone.

    Raises
    ------
    UserError
        If the file cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self.last_ns = 0
        try:
            self._file = None if path is None else os.open(path, os.O_WRONLY)
        except OSError as error:
            raise UserError(f"--window {path}: {error.strerror}") from None
        self._put(b"0")

    @contextmanager
    def open(self) -> Iterator[None]:
        """One window. ``last_ns`` is its length afterwards."""
        self._put(b"1")
        start_ns = time.perf_counter_ns()
        try:
            yield
        finally:
            self.last_ns = time.perf_counter_ns() - start_ns
            self._put(b"0")

    def _put(self, level: bytes) -> None:
        if self._file is not None:
            os.pwrite(self._file, level, 0)
