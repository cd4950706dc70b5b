# SPDX-License-Identifier: Apache-2.0
"""The table of plans that `compare` and `sweep` write: a row for each method on each problem (docs/baselines.md).

The file grows by whole lines. Of rows for the same problem and method the last one counts, and of a line that was torn
by a crash nothing does.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from poet_profiles.errors import UserError
from poet_profiles.files.text_file import read_table
from poet_profiles.files.whole_file import naming, write_whole

# A method's status where there is no schedule of its: it has none within the limits, its time was up, it was not run,
# or it broke.
NONE, TIME, NOT_RUN, FAILED = "none", "time", "not run", "failed"
# Each in the words of a picture.
LACKS = {NONE: "no schedule", TIME: "none found in the time", NOT_RUN: "not run", FAILED: "failed"}
# Enough to tell plans apart, and no more than costs are given in.
FLOAT_FORM = ".9g"


@dataclass(frozen=True)
class Point:
    """What one method made of one problem. Shares are of one; ``plain_…`` is the store-all schedule's."""

    # model, board: names; of the board none where the graph names none.
    model: str
    board: str
    profile_source: str  # what the costs rest on: ``published``, ``emulated``, ``measured``, or several of these
    # graph_hash, costs_hash: of the graph's structure, and of what its nodes and pages cost.
    graph_hash: str
    costs_hash: str
    batch: int | None  # samples in a step; None: the model's own
    nodes: int
    # All of the RAM, resident tensors included; ``ram_of_plain`` is its share of the store-all peak.
    ram_budget_bytes: int
    ram_of_plain: float | None
    # None: no deadline. ``deadline_of_plain`` is its multiple of the store-all time.
    deadline_s: float | None
    deadline_of_plain: float | None
    method: str
    # ``optimal``, ``feasible``; ``none`` where the method has no schedule within the limits, ``time`` where it found
    # none in its time, ``not run`` where it was not tried, ``failed`` where it broke: ``note`` says why.
    status: str
    energy_j: float | None
    plain_energy_j: float
    overhead: float | None  # energy above the store-all schedule's, as a share of that
    # recompute_j, page_in_j, page_out_j: what the overhead consists of; fetching a tensor again counts as recomputing.
    recompute_j: float | None
    page_in_j: float | None
    page_out_j: float | None
    # bound_j, gap: the lower bound, which only the optimiser proves, and what is open, as a share of the energy.
    bound_j: float | None
    gap: float | None
    time_s: float | None
    plain_time_s: float
    # peak_bytes, arena_bytes: the most RAM at once, resident tensors included; what the offsets take, without them.
    peak_bytes: int | None
    plain_peak_bytes: int
    arena_bytes: int | None
    recomputes: int | None
    page_ins: int | None
    page_outs: int | None
    bytes_paged: int | None  # out and in together
    # seconds, time_limit_s: what the method took, and what it was allowed.
    seconds: float
    seed: int
    time_limit_s: float
    code_version: str  # of what planned (see `code_version.code_version`)
    note: str = ""

    @property
    def time_of_plain(self) -> float | None:
        """Its time as a multiple of the store-all schedule's."""
        return self.time_s / self.plain_time_s if self.time_s is not None and self.plain_time_s else None

    @property
    def place(self) -> PointKey:
        return PointKey(
            *(self.model, self.board, self.graph_hash, self.costs_hash),
            *(self.ram_budget_bytes, deadline_text(self.deadline_s), self.method, self.seed),
        )


class PointKey(NamedTuple):
    """Where a point stands in the table: of two in one place the later one counts."""

    model: str
    board: str
    graph_hash: str
    costs_hash: str
    ram_budget_bytes: int
    deadline_s: str | None
    method: str
    seed: int


def deadline_text(deadline_s: float | None) -> str | None:
    """A deadline as the file has it, so that the one that is read is the one that was written."""
    return None if deadline_s is None else format(deadline_s, FLOAT_FORM)


COLUMNS = tuple(field.name for field in fields(Point))
_TYPES: Mapping[str, Any] = get_type_hints(Point)


def read_points(path: Path) -> list[Point]:
    """The points of a table, the last one of each place.

    Raises
    ------
    UserError
        If the file is not to be had, is no table of points, or a line is damaged. A torn last line is left out.
    """
    text = read_table(path)
    whole = text[: text.rfind("\n") + 1]
    rows = csv.reader(StringIO(whole))
    if tuple(next(rows, ())) != COLUMNS:
        raise UserError(f"{path}: is no table of `poet-plan sweep` of this version; name another file")
    points = {}
    for row in rows:
        try:
            point = _point(row)
        except ValueError as error:
            raise UserError(f"{path}: line {rows.line_num}: {error}; mend or remove the line") from None
        points[point.place] = point
    return list(points.values())


def append_points(points: Iterable[Point], path: Path) -> None:
    """Add whole lines to the table at once, and begin it with its header where there is none yet."""
    text = _lines(asdict(point) for point in points)
    with naming(path), path.open("a", encoding="utf-8", newline="") as stream:
        stream.write(text if stream.tell() else _header() + text)
        stream.flush()
        os.fsync(stream.fileno())


def write_points(points: Iterable[Point], path: Path) -> None:
    """Write the table, whole."""
    write_whole(path, _header() + _lines(asdict(point) for point in points))


def in_order(points: Iterable[Point]) -> list[Point]:
    """By model and board in the order in which they come; then by deadline, the loosest first, and by budget."""
    listed = list(points)
    models = list(dict.fromkeys(point.model for point in listed))
    boards = list(dict.fromkeys(point.board for point in listed))

    def key(point: Point) -> tuple[float, ...]:
        late = -math.inf if point.deadline_s is None else -point.deadline_s
        return models.index(point.model), boards.index(point.board), late, point.ram_budget_bytes

    return sorted(listed, key=key)


def _header() -> str:
    return ",".join(COLUMNS) + "\n"


def _lines(rows: Iterable[dict[str, Any]]) -> str:
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerows([_cell(row[name]) for name in COLUMNS] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return format(value, FLOAT_FORM)
    return " ".join(value.split()) if isinstance(value, str) else value


def _point(row: list[str]) -> Point:
    """A row of the file; a blank cell of a number is None."""
    if len(row) != len(COLUMNS):
        raise ValueError(f"has {len(row)} cells, not {len(COLUMNS)}")
    figures: dict[str, Any] = {}
    for name, cell in zip(COLUMNS, row, strict=True):
        kind = _TYPES[name]
        if kind is str:
            figures[name] = cell
        elif cell == "" and kind in (int | None, float | None):
            figures[name] = None
        else:
            figures[name] = int(cell) if kind in (int, int | None) else float(cell)
    return Point(**figures)
