# SPDX-License-Identifier: Apache-2.0
"""Two profiles of a board, row by row: which costs have risen, beyond their spread?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poet_profiles.errors import UserError
from poet_profiles.profile import read_profile

if TYPE_CHECKING:
    import pandas as pd

# Two readings of the same cost lie that many standard deviations of their difference apart in one of twenty pairs.
SPREADS = 2.0


class Verdict(StrEnum):
    """How the second figure stands to the first."""

    MORE_EXPENSIVE = "more expensive"
    CHEAPER = "cheaper"
    SAME = "same"


@dataclass(frozen=True)
class Reading:
    """One cost in one file, in SI units; ``std`` is the standard deviation of its readings, 0 for a single one."""

    value: float
    std: float = 0.0


@dataclass(frozen=True)
class Change:
    """One cost of one row in both files.

    Attributes
    ----------
    row : str
        Operator and parameters.
    quantity : str
        ``time_s``, ``energy_j`` or ``idle_power_w``.
    spread : float
        What two readings of an unchanged cost may differ by.
    """

    row: str
    quantity: str
    first: Reading
    second: Reading
    spread: float
    verdict: Verdict

    @property
    def difference(self) -> float:
        """Second less first."""
        return self.second.value - self.first.value

    @property
    def relative(self) -> float | None:
        """The difference as a share of the first; None where that is 0 and the second is not."""
        if not self.first.value:
            return None if self.second.value else 0.0
        return self.difference / self.first.value


@dataclass(frozen=True)
class Compared:
    """All rows of two profiles.

    Attributes
    ----------
    only_first, only_second : tuple of str
        Rows that the other file does not have.
    left_out : mapping of str to str
        Rows that both have and that are not alike, and why.
    notes : tuple of str
        What else differs between the files.
    """

    changes: tuple[Change, ...]
    only_first: tuple[str, ...] = ()
    only_second: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def of(self, verdict: Verdict) -> list[Change]:
        """The changes of one verdict, the largest share first."""
        found = [change for change in self.changes if change.verdict is verdict]
        return sorted(found, key=lambda change: -abs(math.inf if change.relative is None else change.relative))


def compare_files(first: Path, second: Path, limit: float) -> Compared:
    """Hold the second profile's costs against the first's.

    Parameters
    ----------
    limit : float
        By what share of the first a cost may differ, beyond the spread of both.
    """
    tables = one, other = read_profile(first), read_profile(second)
    for column in ("board", "source"):
        found = [", ".join(sorted(set(table[column]))) for table in tables]
        if found[0] != found[1]:
            there = f"{first} has the {column} {found[0]}, {second} {found[1]}"
            raise UserError(f"{there}: their costs are not of the same thing")
    rows, others = _rows(one), _rows(other)
    both = [name for name in rows if name in others]
    left_out = {name: why for name in both if (why := _unlike(rows[name], others[name]))}
    changes = tuple(
        _change(name, quantity, reading, _costs(others[name])[quantity], limit)
        for name in both
        if name not in left_out
        for quantity, reading in _costs(rows[name]).items()
    )
    if not changes:
        raise UserError(f"{first} and {second} have no row in common that could be compared")
    return Compared(
        changes,
        tuple(name for name in rows if name not in others),
        tuple(name for name in others if name not in rows),
        left_out,
        (*_differing(one, other), *_single(changes, one)),
    )


def _rows(table: pd.DataFrame) -> dict[str, Mapping[str, Any]]:
    """The rows by what they are of, board and source included where the table has several."""
    names = ["op", "params", *(column for column in ("board", "source") if table[column].nunique() > 1)]
    records = ({str(name): value for name, value in record.items()} for record in table.to_dict("records"))
    return {" ".join(str(record[name]) for name in names if record[name]): record for record in records}


def _unlike(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """Why two rows of one configuration are not of the same thing; empty where they are."""
    if first["dtype"] != second["dtype"]:
        return f"dtype {first['dtype']} against {second['dtype']}"
    if first["slice"] != second["slice"]:
        return f"slice {first['slice']:g} against {second['slice']:g}"
    places = [row.get("where") or "" for row in (first, second)]
    if all(places) and places[0] != places[1]:
        return f"taken in the {places[0]} against in the {places[1]}"
    return ""


def _costs(row: Mapping[str, Any]) -> dict[str, Reading]:
    if row["op"] == "idle":  # its time is the window's, which the harness chose
        return {"idle_power_w": Reading(row["idle_power_w"])}
    return {quantity: Reading(row[quantity], row[f"{quantity}_std"]) for quantity in ("time_s", "energy_j")}


def _change(row: str, quantity: str, first: Reading, second: Reading, limit: float) -> Change:
    spread = SPREADS * math.hypot(first.std, second.std)
    difference = second.value - first.value
    beyond = abs(difference) > limit * first.value + spread
    verdict = Verdict.SAME if not beyond else Verdict.MORE_EXPENSIVE if difference > 0 else Verdict.CHEAPER
    return Change(row, quantity, first, second, spread, verdict)


def _differing(one: pd.DataFrame, other: pd.DataFrame) -> Iterator[str]:
    for column in ("firmware", "meter", "voltage_v"):
        found = [", ".join(sorted({str(value) for value in table[column]})) for table in (one, other)]
        if found[0] != found[1]:
            yield f"{column.removesuffix('_v')}: {found[0]} in the first, {found[1]} in the second"


def _single(changes: tuple[Change, ...], table: pd.DataFrame) -> Iterator[str]:
    """Measured costs without a spread: the limit alone decides about them."""
    readings = ((change.row, reading) for change in changes for reading in (change.first, change.second))
    alone = {row for row, reading in readings if reading.value and not reading.std}
    if alone and "measured" in set(table["source"]):
        yield f"rows with a single reading, whose spread is not known: {len(alone)}; the limit alone decides there"
