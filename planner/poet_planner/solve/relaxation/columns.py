# SPDX-License-Identifier: Apache-2.0
"""What the columns of the relaxation mean (docs/optimiser/relaxation.md)."""

from __future__ import annotations

from poet_planner.solve.engine import Struct, struct
from poet_planner.solve.instance import Ints


@struct
class Columns(Struct):
    """Column numbers of the MILP; -1 where there is no such column."""

    event_points: Ints  # (t,) nodes at whose first compute the RAM is limited
    compute: Ints  # (t + 1, n) R: node j is computed in a stage
    page_in: Ints  # (t + 1, m) N: value v is paged in in a stage
    keep: Ints  # (t, m) K: value v is in RAM at an event point
    page_out: Ints  # (m,) P: value v is ever paged out
    interval_end: Ints  # (t, m) tau: the last stage of the interval of value v after an event point; -1: no certain use
