# SPDX-License-Identifier: Apache-2.0
"""The one exception that a user sees as a single line instead of a traceback, and what becomes one."""

from __future__ import annotations

from collections.abc import Sequence

BAD_INPUT = 2
NO_SCHEDULE = 3
NO_DEVICE = 4
NOT_FOUND = 5
INTERRUPTED = 130


class UserError(Exception):
    """Something the user can mend: the message says what is wrong, where, and what to do.

    Parameters
    ----------
    message : str
        One line.
    exit_code : int
        2 bad input, 3 no schedule exists, 4 the device did not answer, 5 no schedule was found, and none is proven
        impossible, 128 + a signal that ended it.
    lines : sequence of str
        Where one file differs from another: a line for each difference.
    """

    def __init__(self, message: str, exit_code: int = BAD_INPUT, lines: Sequence[str] = ()) -> None:
        super().__init__("\n".join((message, *lines)))
        self.exit_code = exit_code
        self._message = message
        self._lines = tuple(lines)

    @property
    def printed(self) -> str:
        """For a terminal: the message in one line, and those of the differences, indented."""
        first = " ".join(self._message.splitlines())
        return "\n".join((visible(first), *(f"  {visible(line)}" for line in self._lines)))


def visible(text: str) -> str:
    """The same with an escape for each character that cannot be printed: it might steer a terminal."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


class FaultError(Exception):
    """What is wrong inside a file, without the file's name: its reader adds that and raises a :class:`UserError`."""
