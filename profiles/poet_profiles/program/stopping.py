# SPDX-License-Identifier: Apache-2.0
"""Signals that end a command: Ctrl-C, a plain `kill`, a closed terminal.

A signal ends the command at once, by an exception. Two kinds of work make it wait: what is :func:`undisturbed` (native
code that no exception can cross, a file being written), and what is to be brought to its end first (:func:`finishing`,
a training step, the trained weights read from a board). A second signal does not wait for the latter.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
FINISHING = b"\nfinishing what is under way; the same again stops at once\n"
STANDARD_ERROR = 2


class Stopped(BaseException):
    """Ends a command. No ``Exception``, so that nothing which mends errors catches it.

    Parameters
    ----------
    number : int
        The signal's.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted ({signal.Signals(number).name})")
        self.exit_code = 128 + number


class _Listener:
    """What has been received and not been acted upon, and what has to be brought to its end before."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.undisturbed = 0
        self.finishing = 0
        self.interrupting = 0
        self.before: dict[int, Any] = {}

    def receive(self, number: int, _frame: FrameType | None) -> None:
        self.received.append(number)
        if self.finishing and len(self.received) == 1:
            # Not by print: the signal may have come in the middle of one.
            with suppress(OSError):
                os.write(STANDARD_ERROR, FINISHING)
        self.heed()

    def leave(self) -> None:
        """Put back what received the signals before, where nobody has put something else there."""
        for number, handler in self.before.items():
            if signal.getsignal(number) == self.receive:
                signal.signal(number, handler)
        self.before.clear()

    def heed(self) -> None:
        waits = self.undisturbed or (self.finishing and len(self.received) == 1)
        if self.received and not waits:
            raise KeyboardInterrupt if self.interrupting else Stopped(self.received[0])


_listener = _Listener()
if hasattr(os, "register_at_fork"):  # Windows has none
    # A process of users' code (a multiprocessing.Pool ends its own by SIGTERM) is no command.
    os.register_at_fork(after_in_child=_listener.leave)


@contextmanager
def listening() -> Iterator[None]:
    """Receive the signals inside this block. One that is ignored already (`nohup`) stays so."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    _listener.received.clear()
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _listener.receive)
            _listener.before[number] = handler
    try:
        yield
    finally:
        _listener.leave()


@contextmanager
def undisturbed() -> Iterator[None]:
    """No signal ends this block; one that comes meanwhile is heeded after it."""
    _listener.undisturbed += 1
    try:
        yield
    finally:
        _listener.undisturbed -= 1
    _listener.heed()


@contextmanager
def finishing() -> Iterator[Callable[[], bool]]:
    """The first signal is heeded after this block, a second one at once. Gives what tells whether one has come."""
    _listener.finishing += 1
    try:
        yield lambda: bool(_listener.received)
    finally:
        _listener.finishing -= 1
    _listener.heed()


@contextmanager
def interrupting() -> Iterator[Callable[[], bool]]:
    """Inside this block a signal raises `KeyboardInterrupt`, for code that then answers with the best it has so far.

    Gives what tells, inside the block, whether one has come.
    """
    _listener.interrupting += 1
    try:
        yield lambda: bool(_listener.received)
    finally:
        _listener.interrupting -= 1
    acted_upon()


def heed() -> None:
    """End the command if a signal came whose exception got lost: Python drops those that are raised in a destructor."""
    _listener.heed()


def acted_upon() -> None:
    """What was received has ended what it was to end: only another signal ends what follows."""
    _listener.received.clear()
