# SPDX-License-Identifier: Apache-2.0
"""The columns of the relaxation, by what they mean."""

from __future__ import annotations

from typing import NamedTuple

from poet_planner.solve.instance import Ints


class Columns(NamedTuple):
    """Column numbers of the MILP (as in `bound.Relaxation`), and the gaps.

    ``repeated`` is (instants + 1,): the energy of what is done again within one and the same stage. ``must`` is
    (instants, m): tau of value v after instant t, -1 where nothing is certain to need it.
    """

    instants: Ints
    compute: Ints
    page_in: Ints
    keep: Ints
    page_out: Ints
    repeated: Ints
    must: Ints
