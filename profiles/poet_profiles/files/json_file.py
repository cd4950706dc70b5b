# SPDX-License-Identifier: Apache-2.0
"""A JSON file of one of poet's formats, or what is wrong with it in one line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from poet_profiles.errors import FaultError, UserError
from poet_profiles.files.text_file import read_text

Read = TypeVar("Read")

# More than any of the formats nests, and few enough for what walks a document, or writes one into a message.
MOST_NESTED = 32
SHOWN = 60

_HASH = re.compile("[0-9a-f]{16}")


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
    """A JSON object whose ``format`` is ``name``."""
    if not isinstance(document, dict):
        raise FaultError(f'not a {name}: it is not a JSON object; give a file whose format is "{name}"')
    if document.get("format") != name:
        raise FaultError(f'not a {name}: "format" is {document.get("format")!r}; give a file whose format is "{name}"')
    return document


def hash_in(document: dict[str, Any], key: str) -> str:
    """A hash as :func:`poet_profiles.files.document_hash.document_hash` makes it: it goes into answers and comments."""
    value = document.get(key)
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise FaultError(f'"{key}" is {value!r}; it must be 16 hex digits in lower case')
    return value


def read_json(path: Path) -> Any:
    """Parse a JSON file.

    Raises
    ------
    UserError
        If it cannot be read, or as :func:`parsed` says it.
    """
    try:
        return parsed(read_text(path, "JSON").encode())
    except FaultError as fault:
        raise UserError(f"{path}: {fault}; mend it or write it again") from None


def parsed(text: bytes) -> Any:
    """The document that a text in UTF-8 is.

    Raises
    ------
    FaultError
        If it is not JSON (NaN and Infinity are not). If it has a key twice, nests deeper than any format of poet's, or
        holds a character that cannot be printed: ids go to terminals, into pictures and into C.
    """
    try:
        document = json.loads(text.decode(), parse_constant=_refuse_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise FaultError(f"line {error.lineno}: not JSON ({error.msg})") from None
    except (ValueError, RecursionError) as error:  # Also digits or brackets without end.
        raise FaultError(f"not JSON ({error})") from None
    check_document(document)
    return document


def _refuse_constant(name: str) -> float:
    raise FaultError(f"not JSON ({name} is not a JSON number)")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise FaultError(f"{_shown(twice)} is there twice in one object")
    return document


def check_document(document: Any) -> None:
    """Whether a document has no more levels, and no other characters, than :func:`parsed` takes."""
    level = [document]
    for _ in range(MOST_NESTED):
        for text in level:
            if isinstance(text, str) and not text.isprintable():
                raise FaultError(f"{_shown(text)} has a character that cannot be printed")
        level = [child for entry in level for child in _children(entry)]
        if not level:
            return
    raise FaultError(f"nested more than {MOST_NESTED} deep")


def _children(entry: Any) -> Iterable[Any]:
    if isinstance(entry, dict):
        return (*entry, *entry.values())
    return entry if isinstance(entry, list) else ()


def _shown(text: str) -> str:
    """In ASCII, and not longer than a message."""
    return ascii(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")
