# SPDX-License-Identifier: Apache-2.0
"""Tables of records: what is no sweep."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import asdict, fields
from io import StringIO
from pathlib import Path
from typing import TypeVar

from poet_profiles.files.whole_file import write_whole

Record = TypeVar("Record")


def read_rows(path: Path, kind: type[Record]) -> list[Record]:
    """The records of a table; none if it was never made."""
    if not path.exists():
        return []
    kinds = {field.name: str(field.type) for field in fields(kind)}  # type: ignore[arg-type]
    with path.open(encoding="utf-8", newline="") as file:
        return [kind(**{name: _read(kinds[name], cell) for name, cell in row.items()}) for row in csv.DictReader(file)]


def _read(kind: str, cell: str) -> object:
    if kind.startswith("float"):
        return None if cell == "" else float(cell)
    return int(cell) if kind == "int" else cell


def write_rows(rows: Iterable[Record], kind: type[Record], path: Path) -> None:
    """Write the table whole."""
    text = StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(kind)], lineterminator="\n")  # type: ignore[arg-type]
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)  # type: ignore[call-overload]
    write_whole(path, text.getvalue())
