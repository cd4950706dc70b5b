# SPDX-License-Identifier: Apache-2.0
"""Rows as Markdown, and what of them is not as it has to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import le

from benchmarks.executor.measuring import Row
from benchmarks.executor.parts import AT_CHECKPOINTS_PEAK
from benchmarks.executor.variants import BUDGETED

MIB = 1 << 20
KEEP_ALL_EXTRA = 0.03
PEAK_OFF = 0.02
TIME_OFF = 0.10
OF_CHECKPOINTS_EXTRA = 0.5
OF_EAGERS_PEAK = 0.5

_COLUMNS = ("", "ms", "", "least wall ms", "peak MiB", "planned MiB", "planned ms", "", "again", "paged MiB")
_HEAD = f"| {' | '.join(_COLUMNS)} | not eager's bits | missed |"


def table(rows: Sequence[Row], with_optimizer: bool = False) -> str:
    """The rows as Markdown; times beside eager PyTorch's of the same process, planned ones beside what was seen."""
    lines = [_HEAD, "| --- |" + " ---: |" * (len(_COLUMNS) - 1) + " --- | --- |"]
    for row in rows:
        planned = "" if row.planned_bytes is None else f"{row.planned_bytes / MIB:.2f}"
        cells = [
            *(row.name, f"{row.time_s * 1e3:.1f}", f"{row.extra:+.1%}", f"{row.wall_s * 1e3:.1f}"),
            *(f"{row.peak_bytes / MIB:.2f}", planned),
            *(("", "") if row.planned_s is None else (f"{row.planned_s * 1e3:.1f}", f"{_time_off(row):+.1%}")),
            str(row.recomputations or ""),
            f"{row.paged_bytes / MIB:.1f}" if row.paged_bytes else "",
            row.different,
            "; ".join(missed(row, rows, with_optimizer)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def without_outdone(rows: Sequence[Row]) -> list[Row]:
    """Of a solver's budgets only those that no other of its budgets beats in both time and peak."""
    return [row for row in rows if not (row.name.startswith(BUDGETED) and any(_outdoes(other, row) for other in rows))]


def _outdoes(one: Row, other: Row) -> bool:
    same = one.name.split(", ")[1:] == other.name.split(", ")[1:] and one.name.startswith(BUDGETED)
    extras = (one.peak_bytes, one.extra), (other.peak_bytes, other.extra)
    return same and extras[0] != extras[1] and all(map(le, *extras))


def missed(row: Row, rows: Sequence[Row], with_optimizer: bool = False) -> Iterator[str]:
    """What is asked of a row of poet's and does not hold."""
    # The greedy choice is a baseline, and no plan of poet's.
    if row.planned_bytes is None or row.planned_s is None or row.name.startswith("greedy"):
        return
    if row.different:
        yield "bits"
    if abs(row.peak_bytes / row.planned_bytes - 1) > PEAK_OFF:
        yield f"peak {row.peak_bytes / row.planned_bytes - 1:+.1%} off"
    if not row.paged_bytes and abs(_time_off(row)) > TIME_OFF:
        yield f"predicted time {_time_off(row):+.1%} off"
    if row.name == "keep all" and not with_optimizer and row.extra > KEEP_ALL_EXTRA:
        yield f"more than {KEEP_ALL_EXTRA:.0%} above eager"
    if with_optimizer and row.peak_bytes > OF_EAGERS_PEAK * rows[0].peak_bytes:
        yield f"not below {OF_EAGERS_PEAK:.0%} of eager's peak"
    theirs = next((other for other in rows if other.name.startswith("checkpoint")), None)
    if row.name == AT_CHECKPOINTS_PEAK and theirs is not None:
        if row.peak_bytes > theirs.peak_bytes:
            yield "above checkpoint's peak"
        if row.extra > OF_CHECKPOINTS_EXTRA * theirs.extra:
            yield f"more than {OF_CHECKPOINTS_EXTRA:.0%} of checkpoint's extra time"


def _time_off(row: Row) -> float:
    """By what share the predicted time is above the time that was seen."""
    assert row.planned_s is not None
    return row.planned_s / row.time_s - 1
