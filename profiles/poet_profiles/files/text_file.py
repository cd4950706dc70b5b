# SPDX-License-Identifier: Apache-2.0
"""Text and tables that people edit, as editors and spreadsheets write them: with a byte-order mark, or otherwise."""

from __future__ import annotations

from collections.abc import Container, Iterable
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poet_profiles.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = {";": "semicolons", "\t": "tabs"}


def read_text(path: Path, kind: str = "text") -> str:
    """A file in UTF-8, without the byte-order mark that it may begin with.

    Parameters
    ----------
    kind : str
        What it ought to be, for the message.

    Raises
    ------
    UserError
        If it cannot be read, or is in another encoding.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    if b"\0" in data or data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise UserError(f"{path}: not a {kind} in UTF-8: it is UTF-16, or no text at all; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path}: not a {kind} in UTF-8: byte {data[error.start]:#04x} in line {line}; save it as UTF-8"
        ) from None


def read_table(path: Path) -> str:
    """The text of a CSV, whose columns are separated by commas.

    Raises
    ------
    UserError
        If it cannot be read, they are separated by something else, or it is not UTF-8.
    """
    text = read_text(path, "CSV")
    header = next(iter(text.splitlines()), "")
    for sign, name in SEPARATORS.items():
        if header.count(sign) > header.count(","):
            raise UserError(
                f"{path}:1: its columns are separated by {name}; save it with commas there, and points in numbers"
            )
    return text


def refuse_missing(path: Path, header: Container[str], wanted: Iterable[str], cure: str) -> None:
    """Raise a `UserError` that names all columns which a table lacks."""
    if missing := [column for column in wanted if column not in header]:
        are = "column is" if len(missing) == 1 else "columns are"
        raise UserError(f"{path}:1: {', '.join(missing)}: {are} missing; {cure}")


def read_frame(path: Path, **options: Any) -> pd.DataFrame:
    """A CSV, by pandas; what it cannot read is a `UserError`."""
    import pandas as pd

    try:
        table: pd.DataFrame = pd.read_csv(StringIO(read_table(path)), **options)
    except ValueError as error:
        raise UserError(f"{path}: not a CSV in UTF-8: {' '.join(str(error).split())}") from None
    return table
