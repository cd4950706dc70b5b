# SPDX-License-Identifier: Apache-2.0
"""A mixed-integer linear model (MILP) as arrays in compressed row storage.

The relaxation (docs/optimiser/relaxation.md) fixes variables, adds cuts and relaxes integrality in this form, before a
solver sees the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints

SCALE = 1e4  # `instance.energy_unit_j`, which is E0 as a rule, in units of a model: solvers' tolerances are absolute
DEAREST = 1e12  # no cost is stated as more, in units of a model: HiGHS takes 1e20 for infinite
LP_SAFETY = 1e-3  # subtracted from each bound: units of a model

Entries = tuple[Ints, Ints, Floats | float]


@dataclass
class Rows:
    """Rows of a model: sparse coefficients, and a lower and an upper limit for each."""

    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    coefficients: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)

    def add(self, columns: list[int], coefficients: list[float], lower: float, upper: float) -> None:
        """Append ``lower <= sum(coefficients * columns) <= upper``."""
        self.columns += columns
        self.coefficients += coefficients
        self.starts.append(len(self.columns))
        self.lower.append(lower)
        self.upper.append(upper)


@dataclass
class RowBlocks:
    """The same for many equal rows at once: each block is arrays."""

    count: int = 0
    row: list[Ints] = field(default_factory=list)
    column: list[Ints] = field(default_factory=list)
    coefficient: list[Floats] = field(default_factory=list)
    lower: list[Floats] = field(default_factory=list)
    upper: list[Floats] = field(default_factory=list)

    def extend(self, rows: int, entries: Sequence[Entries], lower: float, upper: float) -> None:
        """Append ``rows`` rows with these limits; each of ``entries`` is rows of the block, columns, coefficients."""
        for row, column, coefficient in entries:
            self.row.append(self.count + row)
            self.column.append(column)
            self.coefficient.append(np.broadcast_to(np.asarray(coefficient, dtype=np.float64), column.shape))
        self.lower.append(np.full(rows, lower))
        self.upper.append(np.full(rows, upper))
        self.count += rows

    def model(self, cost: Floats, lower: Floats, upper: Floats, integer: Flags) -> LinearModel:
        """The model of these columns and rows."""
        row = np.concatenate(self.row)
        order = np.argsort(row, kind="stable")
        starts = np.append(0, np.cumsum(np.bincount(row, minlength=self.count)))
        column, coefficient = np.concatenate(self.column)[order], np.concatenate(self.coefficient)[order]
        limits = np.concatenate(self.lower), np.concatenate(self.upper)
        return LinearModel(cost, 0.0, lower, upper, integer, starts, column, coefficient, *limits)


@dataclass(frozen=True)
class LinearModel:
    """Minimise ``cost @ x + constant``; ``row_lower <= A x <= row_upper``; ``lower <= x <= upper``.

    ``A`` is stored by rows: those of row r are ``starts[r]:starts[r + 1]`` of ``columns`` and ``coefficients``.
    """

    cost: Floats
    constant: float
    lower: Floats
    upper: Floats
    integer: Flags
    starts: Ints
    columns: Ints
    coefficients: Floats
    row_lower: Floats
    row_upper: Floats

    @staticmethod
    def of(cost: Floats, constant: float, lower: Floats, upper: Floats, integer: Flags, rows: Rows) -> LinearModel:
        """The model of these columns and rows."""
        return LinearModel(
            cost,
            constant,
            lower,
            upper,
            integer,
            np.array(rows.starts, dtype=np.int64),
            np.array(rows.columns, dtype=np.int64),
            np.array(rows.coefficients, dtype=np.float64),
            np.array(rows.lower, dtype=np.float64),
            np.array(rows.upper, dtype=np.float64),
        )
