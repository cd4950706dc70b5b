# SPDX-License-Identifier: Apache-2.0
"""One thread plans at a time, and others that call its model meanwhile wait.

Tracing changes PyTorch for the whole process, and puts stand-ins into the model. Where a thread is in the middle of
it, planning waits.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from poet_profiles.errors import UserError
from torch import nn

_PLANS = threading.RLock()
_CALL = nn.Module._call_impl
_LOOKS = 8
_waiting: set[int] = set()
_planned: list[tuple[int, Collection[int]]] = []  # the thread that plans, and the ids of its modules


@contextmanager
def alone(*parts: object) -> Iterator[None]:
    """Within, no other thread plans, calls a module of the parts, or takes a step of theirs."""
    me, modules = threading.get_ident(), _modules(parts)

    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if id(module) in modules and threading.get_ident() != me and not _runs(sys._getframe(1), modules):
            _wait()
            _PLANS.release()
        return _CALL(module, *args, **kwargs)  # type: ignore[no-untyped-call]

    _wait()
    before, nn.Module._call_impl = nn.Module._call_impl, call  # type: ignore[method-assign,assignment]
    _planned.append((me, modules))
    try:
        while any(_runs(frame, modules) for one, frame in sys._current_frames().items() if one not in (me, *_waiting)):
            time.sleep(1e-3)
        yield
    finally:
        nn.Module._call_impl = before  # type: ignore[method-assign]
        _planned.pop()
        _PLANS.release()


def in_turn(parts: Collection[object], step: Callable[[Any], Any], batch: Any) -> Any:
    """Take a step of these parts, once no other thread plans one."""
    if any(not _modules(parts).isdisjoint(modules) for _, modules in [*_planned]):
        _wait()
        _PLANS.release()
    return step(batch)


def _wait() -> None:
    """Until the lock is this thread's.

    Raises
    ------
    UserError
        If the thread that has it waits for this one: the model that it traces calls its modules in threads.
    """
    me, looks, last = threading.get_ident(), 0, None
    _waiting.add(me)
    try:
        while not _PLANS.acquire(timeout=0.25):
            frame = _idle()
            looks, last = (looks + 1 if frame is last else 0), frame
            if frame is not None and looks == _LOOKS:
                raise UserError("the model calls modules in threads of its own; call one after the other")
    finally:
        _waiting.discard(me)


def _idle() -> FrameType | None:
    """Where the thread that plans waits for another, in the middle of the model."""
    frames = sys._current_frames()
    for one, modules in [*_planned]:
        frame = frames.get(one)
        if frame is not None and frame.f_code.co_filename == threading.__file__ and _runs(frame, modules):
            return frame
    return None


def _modules(parts: Collection[object]) -> set[int]:
    return {id(one) for part in parts if isinstance(part, nn.Module) for one in part.modules()}


def _runs(frame: FrameType | None, modules: Collection[int]) -> bool:
    """Whether a thread is within a call of one of the modules, or a step of theirs."""
    while frame is not None:
        if frame.f_code is _CALL.__code__ and id(frame.f_locals.get("self")) in modules:
            return True
        if frame.f_code is in_turn.__code__ and not _modules(frame.f_locals["parts"]).isdisjoint(modules):
            return True
        frame = frame.f_back
    return False
