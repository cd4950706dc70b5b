# SPDX-License-Identifier: Apache-2.0
"""A JSON file of one of poet's formats, or what is wrong with it in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from poet_profiles.errors import FaultError, UserError

Read = TypeVar("Read")


def read_document(path: Path, build: Callable[[Any], Read]) -> Read:
    """What ``build`` makes of a file's JSON.

    Parameters
    ----------
    build : callable
        Raises a `FaultError` that lacks only the file's name.

    Raises
    ------
    UserError
        In one line: what is wrong, in which file, and what to do.
    """
    document = read_json(path)
    try:
        return build(document)
    except FaultError as fault:
        raise UserError(f"{path}: {fault}") from None


def of_format(document: Any, name: str) -> dict[str, Any]:
    """A JSON object whose ``format`` is ``name``.

    Raises
    ------
    FaultError
        If it is none.
    """
    if not isinstance(document, dict):
        raise FaultError(f'not a {name}: it is not a JSON object; give a file whose format is "{name}"')
    if document.get("format") != name:
        raise FaultError(f'not a {name}: "format" is {document.get("format")!r}; give a file whose format is "{name}"')
    return document


def read_json(path: Path) -> Any:
    """Parse a JSON file.

    Raises
    ------
    UserError
        If it cannot be read or is not JSON (NaN and Infinity are not JSON).
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{path}: line {error.lineno}: not JSON ({error.msg}); mend it or write it again") from None
    except (ValueError, RecursionError, FaultError) as error:  # Also digits or brackets without end.
        raise UserError(f"{path}: not JSON ({error}); mend it or write it again") from None


def _refuse_constant(name: str) -> float:
    raise FaultError(f"{name} is not a JSON number")
