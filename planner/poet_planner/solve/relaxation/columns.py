# SPDX-License-Identifier: Apache-2.0
"""What the columns of the relaxation mean (docs/optimiser/relaxation.md)."""

from __future__ import annotations

from poet_planner.solve.engine import Struct, struct
from poet_planner.solve.instance import Ints


@struct
class Columns(Struct):
    """Column numbers of the MILP; -1 where there is no such column.

    Attributes
    ----------
    event_points : (t,) nodes at whose first compute the RAM is limited
    compute : (t + 1, n) R: node j is computed in a stage
    page_in : (t + 1, m) N: value v is paged in in a stage
    keep : (t, m) K: value v is in RAM at an event point
    page_out : (m,) P: value v is ever paged out
    interval_end : (t, m) tau: the last stage of the interval of value v after an event point; -1: no certain use
    """

    event_points: Ints
    compute: Ints
    page_in: Ints
    keep: Ints
    page_out: Ints
    interval_end: Ints
