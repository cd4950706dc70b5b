# SPDX-License-Identifier: Apache-2.0
"""Profile tables: the columns, reading with checks, and appending row by row (docs/SPEC.md, section 2)."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import UserError, visible
from .files.locks import is_at, lock
from .files.text_file import read_table, refuse_missing
from .files.whole_file import check_writable, folder_made
from .firmware.operators import dtype_of
from .firmware.steps import as_step
from .program.closing import Closing

if TYPE_CHECKING:
    import pandas as pd

SOURCES = ("measured", "emulated", "published")
# A row's meter begins with it where the time was measured, and the energy is that times a power of the board file.
NO_SENSOR = "no sensor"
# Where an operator was timed: call by call in a loop, or in its place in a training step.
LOOP, PLACE = "loop", "place"


@dataclass(frozen=True)
class ProfileRow:
    """One measured configuration. Units are in the names; ``docs/SPEC.md`` says what each column means."""

    board: str
    op: str
    params: str
    dtype: str
    time_s: float
    time_s_std: float
    energy_j: float
    energy_j_std: float
    idle_power_w: float
    bytes: int
    workspace_bytes: int
    repeats: int
    slice: float
    source: str
    meter: str
    voltage_v: float
    firmware: str
    taken_at: str
    cpu_hz: float | None = None
    cpu_hz_std: float | None = None
    temperature_c: float | None = None
    temperature_c_std: float | None = None
    where: str = ""
    call: str = ""
    closing_time: float | None = None
    closing_energy: float | None = None


ALL_COLUMNS = tuple(field.name for field in fields(ProfileRow))
# Profiles that were made before there were such columns lack them.
_YOUNGER = ("where", "call", "closing_time", "closing_energy")
COLUMNS = tuple(name for name in ALL_COLUMNS if name not in _YOUNGER)
# What a table of costs from elsewhere has at least, and what it then stands for: nobody says that poet measured it.
LEAST = ("board", "op", "params", "time_s", "energy_j")
_ABSENT = {
    **{"time_s_std": "0", "energy_j_std": "0", "idle_power_w": "0", "bytes": "0", "workspace_bytes": "0"},
    **{
        "repeats": "1",
        "slice": "1",
        "source": "published",
        "meter": "unknown",
        "voltage_v": "0",
        "firmware": "unknown",
    },
    **{"taken_at": "", "cpu_hz": "", "cpu_hz_std": "", "temperature_c": "", "temperature_c_std": ""},
}
_WHOLE = ("bytes", "workspace_bytes", "repeats")
_REAL = ("time_s", "time_s_std", "energy_j", "energy_j_std", "idle_power_w", "slice", "voltage_v")
_SENSED = ("cpu_hz", "cpu_hz_std", "temperature_c", "temperature_c_std")
_CLOSING = ("closing_time", "closing_energy")
_KEY = ("board", "op", "params", "dtype", "source")


def read_profile(path: str | Path) -> pd.DataFrame:
    """Read and check a profile.

    Returns
    -------
    pandas.DataFrame
        One row a configuration, with the columns of ``docs/SPEC.md``, section 2, and whatever further ones the file
        has. ``params`` is an empty string where there are none. Of columns that the file lacks, the defaults there.

    Raises
    ------
    UserError
        With file, line and column, if the table breaks section 2.
    """
    import pandas as pd

    rows = profile_rows(path)
    return pd.DataFrame.from_records(rows) if rows else pd.DataFrame(columns=list(COLUMNS))


def profile_rows(path: str | Path) -> list[dict[str, Any]]:
    """The rows of `read_profile`, without pandas, whose import takes longer."""
    path = Path(path)
    records = []
    seen: dict[tuple[str, ...], int] = {}
    lines = [(line, row, as_step(row["op"], row["params"])) for line, row in _lines(path)]
    is_old = {line: step != (row["op"], row["params"]) for line, row, step in lines}
    for line, row, (row["op"], row["params"]) in sorted(lines, key=lambda each: is_old[each[0]]):
        record: dict[str, Any] = dict(row)
        for column in _REAL:
            record[column] = _number(path, line, column, row[column])
        for column in _WHOLE:
            record[column] = _count(path, line, column, row[column])
        for column in _SENSED:
            record[column] = _finite(path, line, column, row[column]) if row[column] else math.nan
        for column in _CLOSING:
            if column in row:
                record[column] = _finite(path, line, column, row[column]) if row[column] else math.nan
        if row["source"] not in SOURCES:
            raise UserError(f"{path}:{line}: source: {row['source']!r} is none of {', '.join(SOURCES)}")
        for column in ("board", "op"):
            if not row[column]:
                raise UserError(f"{path}:{line}: {column}: is empty")
        if "s8" in (row["dtype"], dtype_of(row["op"])) and row["dtype"] != dtype_of(row["op"]):
            raise UserError(f"{path}:{line}: dtype: {row['op']} is of {dtype_of(row['op'])}, not of {row['dtype']!r}")
        if "/" in row["board"] or "." in row["board"]:  # a path: the planner reads the board's file by this name
            raise UserError(f"{path}:{line}: board: {row['board']!r} is no name of a board")
        key = tuple(row[column] for column in _KEY)
        if key in seen and is_old[line]:
            continue
        if key in seen:
            raise UserError(f"{path}:{line}: params: same {', '.join(_KEY)} as line {seen[key]}")
        seen[key] = line
        records.append(record)
    return records


class ProfileWriter(Closing):
    """Appends rows to a profile as they come; each is on disk before the next is measured.

    An existing file is continued: a last line that a crash tore is cut off first, and further columns are kept. Missing
    parent folders are made. The file is locked until the writer is closed.

        with ProfileWriter(path) as profile:
            if ("nrf52840", "pointwise", "size=1024 steps=relu(y0,x0)", "f32", "measured") not in profile.done:
                profile.append(row)

    Attributes
    ----------
    done : set of tuple of str
        What the file already has: board, operator, parameters, dtype and source of each row.

    Raises
    ------
    UserError
        If the file cannot be written, is no profile, or another writer is at it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.done: set[tuple[str, ...]] = set()
        check_writable(self.path)
        with ExitStack() as opening:
            opening.enter_context(folder_made(self.path.parent))
            # Unbuffered, so that a row that a full disk cuts off can be taken back.
            self._file = opening.enter_context(self.path.open("ab", buffering=0))
            self._lock()
            self._columns = self._continued()
            self._opened = opening.pop_all()

    def _lock(self) -> None:
        """Make sure that nobody else writes."""
        handle = self._file.fileno()
        if lock(handle) is False or not is_at(self.path, handle):
            raise UserError(f"{self.path}: another run is writing this profile; wait for its end, or name another file")

    def _continued(self) -> list[str]:
        """The columns of the file, whose rows are ``done``."""
        _cut_torn_line(self.path)
        if not self._size_bytes():
            return list(ALL_COLUMNS)
        frame = read_profile(self.path)
        with self.path.open(encoding="utf-8-sig") as file:
            header = [name.strip() for name in file.readline().lower().split(",")]
        refuse_missing(self.path, header, COLUMNS, "measured rows need them: name another file")
        self.done = set(frame[list(_KEY)].itertuples(index=False, name=None))
        return list(frame.columns)

    def append(self, row: ProfileRow) -> None:
        """Write one row, real numbers to seven digits, and wait until it is on disk.

        Raises
        ------
        UserError
            If the disk is full, or gone; the rows before are whole.
        """
        text = io.StringIO()
        lines = csv.DictWriter(text, self._columns, restval="", extrasaction="ignore", lineterminator="\n")
        size_bytes = self._size_bytes()
        if not size_bytes:
            lines.writeheader()
        # A meter's or a firmware's name is what a device says of itself.
        values = {key: visible(value) if isinstance(value, str) else value for key, value in asdict(row).items()}
        sensed = [column for column in (*_SENSED, *_CLOSING) if values[column] is not None]
        lines.writerow({**values, **{column: f"{values[column]:.7g}" for column in (*_REAL, *sensed)}})
        data = text.getvalue().encode()
        try:
            while data:
                data = data[self._file.write(data) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(size_bytes)
            raise UserError(
                f"{self.path}: a row could not be written: {error.strerror}; make room, then go on with --resume"
            ) from None
        self.done.add(tuple(values[column] for column in _KEY))

    def close(self) -> None:
        """Close the file, and leave neither one in which there is nothing nor the folder made for it."""
        if self.path.is_file() and not self._size_bytes():
            self.path.unlink()
        self._opened.close()

    def _size_bytes(self) -> int:
        return os.fstat(self._file.fileno()).st_size


def _lines(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and fields of every row, after a check of the header and of each row's length."""
    try:
        reader = csv.reader(io.StringIO(read_table(path), newline=""), strict=True)
        header = [name.strip().lower() for name in next(filter(None, reader), [])]
        refuse_missing(path, header, LEAST, f"a profile has at least {', '.join(LEAST)}")
        if len(set(header)) < len(header):
            raise UserError(f"{path}:1: {', '.join(header)}: a column stands twice")
        for row in reader:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if len(row) != len(header):
                column = header[min(len(row), len(header)) - 1]
                raise UserError(
                    f"{path}:{reader.line_num}: {column}: the line has {len(row)} fields, the header {len(header)}"
                )
            for column, text in zip(header, cells, strict=True):
                if not (column + text).isprintable():
                    raise UserError(
                        f"{path}:{reader.line_num}: {column}: {text!a}: a character in it cannot be printed"
                    )
            named = dict(zip(header, cells, strict=True))
            absent = {"dtype": dtype_of(named["op"]), **_ABSENT}
            yield reader.line_num, {**named, **{key: text for key, text in absent.items() if key not in named}}
    except csv.Error as error:
        raise UserError(f"{path}: not a CSV in UTF-8: {error}") from None


def _finite(path: Path, line: int, column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        cure = "; write it with a point, and nothing between thousands" if "," in text else ""
        raise UserError(f"{path}:{line}: {column}: {text!r} is not a number{cure}") from None
    if not math.isfinite(value):
        raise UserError(f"{path}:{line}: {column}: {text} must be finite")
    return value


def _number(path: Path, line: int, column: str, text: str) -> float:
    value = _finite(path, line, column, text)
    if value < 0:
        raise UserError(f"{path}:{line}: {column}: {text} must not be negative")
    return value


def _count(path: Path, line: int, column: str, text: str) -> int:
    value = _number(path, line, column, text)
    if value != int(value):
        raise UserError(f"{path}:{line}: {column}: {text} is not a whole number")
    return int(value)


def _cut_torn_line(path: Path) -> None:
    """Cut off what stands after the last line feed of a profile: a row that a crash left half written."""
    with path.open("r+b") as file:
        content = file.read()
        header, line_feed, _ = content.partition(b"\n")
        is_profile = bool(line_feed) and set(COLUMNS) <= set(header.decode("utf-8-sig", "replace").strip().split(","))
        is_torn_header = not line_feed and ",".join(ALL_COLUMNS).encode().startswith(header)
        if is_profile or is_torn_header:  # what is no profile is left alone: reading it will say so
            file.truncate(content.rfind(b"\n") + 1)
