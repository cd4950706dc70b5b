# SPDX-License-Identifier: Apache-2.0
"""Standard streams that last: work does not end because nobody reads what it prints."""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

NAMES = ("stdin", "stdout", "stderr")
STANDARD_ERROR = 2


@contextmanager
def lasting_streams() -> Iterator[None]:
    """Let a program have all its standard streams, whatever becomes of those that it was given.

    One that is closed is the null device: a file that is opened later would else be taken for it, by native code and by
    other programs. One that cannot be written any more is so from then on.
    """
    before = {name: getattr(sys, name) for name in NAMES}
    for number, name in enumerate(NAMES):
        if before[name] is None:
            null = os.open(os.devnull, os.O_RDWR)  # gets the stream's own number, the lowest that is free
            os.set_inheritable(null, True)
            setattr(sys, name, os.fdopen(null, "w" if number else "r", encoding="utf-8", closefd=False))
        elif number and _is_of(before[name], number):
            setattr(sys, name, lasting(number, before[name]))
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        vars(sys).update(before)


def lasting(number: int, like: io.TextIOWrapper) -> io.TextIOWrapper:
    """A stream to the open file of that number, which writes as another does."""
    like.flush()
    errors = "backslashreplace" if like.errors == "strict" else like.errors
    buffered = io.BufferedWriter(_Lasting(number))  # type: ignore[type-var]
    how = like.line_buffering, like.write_through
    return _Unclosed(buffered, like.encoding, errors, None, *how)


def _is_of(stream: object, number: int) -> bool:
    """Whether a stream is Python's own to the file of that number, and not a test's."""
    try:
        return isinstance(stream, io.TextIOWrapper) and stream.fileno() == number
    except (OSError, ValueError):
        return False


class _Unclosed(io.TextIOWrapper):
    """Users' code may close what the program goes on to write to."""

    def close(self) -> None:
        self.flush()


class _Lasting(io.FileIO):
    """A file that becomes the null device when it cannot be written: its reader has ended, or the disk is full."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "w", closefd=False)

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        try:
            while (written := super().write(data)) is None:
                select.select([], [self], [])  # a pipe that does not wait, and is full
        except OSError as error:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            if not isinstance(error, BrokenPipeError) and self.fileno() != STANDARD_ERROR:
                print(f"standard output: {error.strerror}; the rest of it is lost", file=sys.stderr)
            return len(data)
        return written
