"""Ctrl-C, SIGTERM and SIGHUP alike ask a verb to end early; what is being written then is written first."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class StopNow(BaseException):
    """Raised in place of `KeyboardInterrupt` where a signal ends the work and the best so far is no answer."""


class _Interrupts:
    """Raises an exception for each of the signals, or remembers that one came while they are held back."""

    def __init__(self) -> None:
        self.raised: type[BaseException] = KeyboardInterrupt
        self._holding = False
        self._waiting = False

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._holding:
            self._waiting = True
        else:
            raise self.raised

    @contextmanager
    def held_back(self) -> Iterator[None]:
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
            if self._waiting:
                self._waiting = False
                raise self.raised


_INTERRUPTS = _Interrupts()


def listen() -> None:
    """From now on every one of the signals raises `KeyboardInterrupt` in the main thread."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup asks for
            signal.signal(number, _INTERRUPTS.handle)


def held_back() -> AbstractContextManager[None]:
    """A context in which signals wait until it ends: for what is to be written as a whole."""
    return _INTERRUPTS.held_back()


@contextmanager
def stopping() -> Iterator[None]:
    """A context in which the signals raise `StopNow`."""
    _INTERRUPTS.raised = StopNow
    try:
        yield
    finally:
        _INTERRUPTS.raised = KeyboardInterrupt
