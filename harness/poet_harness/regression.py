# SPDX-License-Identifier: Apache-2.0
"""Two profiles, or two runs of one plan, row by row: which costs have risen, beyond their spread?"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poet_profiles import profile
from poet_profiles.errors import UserError
from poet_profiles.text_file import read_table

from .training import comparison

if TYPE_CHECKING:
    import pandas as pd

# Two readings of the same cost lie that many standard deviations of their difference apart in one of twenty pairs.
SPREADS = 2.0
WHOLE_STEP = "whole step"
TRACED_STEP = "whole step, traced"
ASLEEP = "asleep"


class Verdict(StrEnum):
    """How the second figure stands to the first."""

    MORE_EXPENSIVE = "more expensive"
    CHEAPER = "cheaper"
    SAME = "same"

    @property
    def words(self) -> str:
        """As people read it."""
        return self.name.lower().replace("_", " ")


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
        Operator and parameters, or the action of a schedule.
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
    """All rows of two files.

    Attributes
    ----------
    kind : str
        ``profile`` or ``run``.
    only_first, only_second : tuple of str
        Rows that the other file does not have.
    left_out : mapping of str to str
        Rows that both have and that are not alike, and why.
    notes : tuple of str
        What else differs between the files.
    """

    kind: str
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
    """Hold the second file's costs against the first's.

    Parameters
    ----------
    limit : float
        By what share of the first a cost may differ, beyond the spread of both.

    Raises
    ------
    UserError
        If one of them cannot be read, or the two cannot be compared.
    """
    kinds = [_kind(path) for path in (first, second)]
    if kinds[0] != kinds[1]:
        raise UserError(f"{first} is a {kinds[0]}, {second} a {kinds[1]}: only two of a kind can be compared")
    compared = (_runs if kinds[0] == "run" else _profiles)(first, second, limit)
    if not compared.changes:
        raise UserError(f"{first} and {second} have no row in common that could be compared")
    return compared


def _kind(path: Path) -> str:
    try:
        header = {name.strip().lower() for name in next(csv.reader(read_table(path).splitlines()), [])}
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except csv.Error as error:
        raise UserError(f"{path}: not a CSV in UTF-8: {error}") from None
    for kind, columns in (("profile", profile.COLUMNS), ("run", comparison.COLUMNS)):
        # A column or two may be missing: the reader then says which.
        if len(header & set(columns)) > len(columns) / 2:
            return kind
    raise UserError(f"{path}: neither a profile (poet-harness profile) nor a run (poet-harness run --out)")


def _profiles(first: Path, second: Path, limit: float) -> Compared:
    tables = [profile.read_profile(path) for path in (first, second)]
    _refuse_others("board", first, second, *tables)
    _refuse_others("source", first, second, *tables)
    rows = [_profile_rows(table) for table in tables]
    left_out = {
        name: why for name in rows[0] if name in rows[1] and (why := _unlike_rows(rows[0][name], rows[1][name]))
    }
    costs = [{name: _profile_costs(row) for name, row in of_one.items() if name not in left_out} for of_one in rows]
    notes = _differing(("firmware", "meter", "voltage_v"), *tables)
    return Compared(
        "profile",
        tuple(_changes(costs[0], costs[1], limit)),
        *_only(*rows),
        left_out,
        (*notes, *_single(costs, tables)),
    )


def _profile_rows(table: pd.DataFrame) -> dict[str, Mapping[str, Any]]:
    """The rows by what they are of, board and source included where the table has several."""
    names = ["op", "params"]
    names += [column for column in ("board", "source") if table[column].nunique() > 1]
    rows: dict[str, Mapping[str, Any]] = {}
    for record in table.to_dict("records"):
        rows[" ".join(str(record[name]) for name in names if record[name])] = {str(k): v for k, v in record.items()}
    return rows


def _unlike_rows(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """Why two rows of one configuration are not of the same thing; empty where they are."""
    if first["dtype"] != second["dtype"]:
        return f"dtype {first['dtype']} against {second['dtype']}"
    if first["slice"] != second["slice"]:
        return f"slice {first['slice']:g} against {second['slice']:g}"
    places = [row.get("where") or "" for row in (first, second)]
    if all(places) and places[0] != places[1]:
        return f"taken in the {places[0]} against in the {places[1]}"
    return ""


def _profile_costs(row: Mapping[str, Any]) -> dict[str, Reading]:
    if row["op"] == "idle":  # its time is the window's, which the harness chose
        return {"idle_power_w": Reading(row["idle_power_w"])}
    return {
        "time_s": Reading(row["time_s"], row["time_s_std"]),
        "energy_j": Reading(row["energy_j"], row["energy_j_std"]),
    }


def _runs(first: Path, second: Path, limit: float) -> Compared:
    tables = [comparison.read_run(path) for path in (first, second)]
    _refuse_others("board", first, second, *tables)
    _refuse_others("source", first, second, *tables)
    for hash_of in ("graph_hash", "schedule_hash"):
        _refuse_others(hash_of, first, second, *tables)
    costs = [_run_costs(table) for table in tables]
    unmetered = {
        name: "its energy was not metered in both runs"
        for name in costs[0]
        if name in costs[1] and costs[0][name].keys() != costs[1][name].keys()
    }
    notes = (*_differing(("firmware",), *tables), *_other_losses(*tables))
    return Compared(
        "run", tuple(_changes(costs[0], costs[1], limit)), *_only(*costs), unmetered, (*notes, *_single(costs, tables))
    )


def _run_costs(table: pd.DataFrame) -> dict[str, dict[str, Reading]]:
    """Of every action, and of a whole step: a trace pauses between two actions, and nothing overlaps in it."""
    whole, actions = table[table["do"] == "step"], table[table["do"] != "step"]
    is_traced = whole["training_step"].isin(actions["training_step"])
    costs = {
        name: _readings(rows)
        for name, rows in ((WHOLE_STEP, whole[~is_traced]), (TRACED_STEP, whole[is_traced]))
        if len(rows)
    }
    idle = table["idle_power_w"].dropna()
    if len(idle):
        costs[ASLEEP] = {"idle_power_w": Reading(float(idle.median()))}
    for (index, do, name), rows in actions.groupby(["index", "do", "name"]):
        readings = _readings(rows)
        if any(reading.value for reading in readings.values()):
            costs[f"{index:.0f} {do} {name}"] = readings
    return costs


def _readings(rows: pd.DataFrame) -> dict[str, Reading]:
    readings = {}
    for quantity in ("time_s", "energy_j"):
        seen = rows[f"observed_{quantity}"].dropna()
        if len(seen):
            readings[quantity] = Reading(float(seen.median()), float(seen.std()) if len(seen) > 1 else 0.0)
    return readings


def _changes(
    first: Mapping[str, Mapping[str, Reading]], second: Mapping[str, Mapping[str, Reading]], limit: float
) -> Iterator[Change]:
    for name in first:
        for quantity in first[name]:
            if name in second and quantity in second[name]:
                yield _change(name, quantity, first[name][quantity], second[name][quantity], limit)


def _change(row: str, quantity: str, first: Reading, second: Reading, limit: float) -> Change:
    spread = SPREADS * math.hypot(first.std, second.std)
    difference = second.value - first.value
    beyond = abs(difference) > limit * first.value + spread
    verdict = Verdict.SAME if not beyond else Verdict.MORE_EXPENSIVE if difference > 0 else Verdict.CHEAPER
    return Change(row, quantity, first, second, spread, verdict)


def _only(first: Mapping[str, object], second: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(name for name in first if name not in second), tuple(name for name in second if name not in first)


def _refuse_others(column: str, first: Path, second: Path, one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Refuse two files of which one is of another board, source or plan."""
    found = [", ".join(sorted(set(table[column]))) or "none" for table in (one, other)]
    if found[0] != found[1]:
        what = column.replace("_", " ")
        raise UserError(
            f"{first} has the {what} {found[0]}, {second} {found[1]}: their costs are not of the same thing"
        )


def _differing(columns: tuple[str, ...], one: pd.DataFrame, other: pd.DataFrame) -> Iterator[str]:
    for column in columns:
        found = [", ".join(sorted({str(value) for value in table[column]})) for table in (one, other)]
        if found[0] != found[1]:
            yield f"{column.removesuffix('_v')}: {found[0]} in the first, {found[1]} in the second"


def _other_losses(one: pd.DataFrame, other: pd.DataFrame) -> Iterator[str]:
    """The cost of a step depends on its data, above all on how many zeros there are."""
    losses = [table[table["do"] == "step"].set_index("training_step")["loss"].dropna() for table in (one, other)]
    both = losses[0].index.intersection(losses[1].index)
    unequal = [step for step in both if losses[0][step] != losses[1][step]]
    if unequal:
        yield f"losses differ from step {unequal[0]} on: other weights, data, learning rate or kernels"


def _single(costs: Sequence[Mapping[str, Mapping[str, Reading]]], tables: Sequence[pd.DataFrame]) -> Iterator[str]:
    """Measured costs without a spread: the limit alone decides about them."""
    if not any("measured" in set(table["source"]) for table in tables):
        return
    alone = {
        name
        for of_one in costs
        for name, readings in of_one.items()
        if all(name in other for other in costs)
        and any(reading.value and not reading.std for reading in readings.values())
    }
    if alone:
        yield f"rows with a single reading, whose spread is not known: {len(alone)}; the limit alone decides there"
