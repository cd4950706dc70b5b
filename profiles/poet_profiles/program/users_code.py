# SPDX-License-Identifier: Apache-2.0
"""Code that a user gave: a guest, whose errors end in one line, and who prints nothing into a command's result."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import TracebackType

from poet_profiles.errors import UserError
from poet_profiles.program.guest import as_guest, is_users

_LONGEST = 300
# How PyTorch, oneDNN, Python's threads and C++ say that there is no memory.
_LACKS = ("llocate memory", "could not create a primitive", "can't start new thread", "std::bad_alloc")


@contextmanager
def users_code(whose: str) -> Iterator[None]:
    """Within, settings are the user's (`guest`), standard output is standard error, any exception becomes one line.

    ``whose`` begins the line: the name of a model.

    Raises
    ------
    UserError
        "mine:make raised ValueError: … (mine.py:12)", from the exception itself; with the submodule that was running.
    """
    with as_guest(), redirect_stdout(sys.stderr):
        try:
            yield
        except UserError:
            raise
        except (Exception, SystemExit) as error:
            refuse_lack_of_memory(whose, error)
            raise UserError(f"{whose}{_running(error)} raised {_in_a_line(error)}") from error


def refuse_lack_of_memory(whose: str, error: BaseException) -> None:
    """Raise a UserError without a cause if an error says that there is no memory left: nobody's code is at fault."""
    words = " ".join(str(error).split())
    if isinstance(error, UserError):
        return
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or any(map(words.count, _LACKS)):
        said = f": {words[:_LONGEST]}" if words else ""
        raise UserError(
            f"{whose}: memory has run out ({type(error).__name__}{said}); give it more, or less to do (a smaller batch)"
        ) from None


def _in_a_line(error: BaseException) -> str:
    words = " ".join(str(error).split())
    if len(words) > _LONGEST:
        words = f"{words[:_LONGEST]}…"
    if isinstance(error, SyntaxError):
        place = f"{Path(error.filename or '?').name}:{error.lineno}"
        return f"{type(error).__name__}: {error.msg} ({place})"
    return f"{type(error).__name__}: {words}{_place(error)}" if words else f"{type(error).__name__}{_place(error)}"


def _place(error: BaseException) -> str:
    """The last line of the user's own on the way to an error."""
    place = ""
    for frame in _frames(error.__traceback__):
        file = Path(frame.tb_frame.f_code.co_filename)
        if is_users(file):
            place = f" ({file.name}:{frame.tb_lineno})"
    return place


def _running(error: BaseException) -> str:
    """The innermost submodule that an error went through."""
    if "torch" not in sys.modules:
        return ""
    from torch import nn

    selves = [frame.tb_frame.f_locals.get("self") for frame in _frames(error.__traceback__)]
    modules = [this for this in selves if isinstance(this, nn.Module)]
    if not modules:
        return ""
    paths = {id(child): path for path, child in modules[0].named_modules()}
    path = [paths[id(this)] for this in modules if id(this) in paths][-1]
    return f", module {path}," if path else ""


def _frames(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next
