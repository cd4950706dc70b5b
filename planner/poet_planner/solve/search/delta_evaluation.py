# SPDX-License-Identifier: Apache-2.0
"""Delta evaluation: what a few edits change in an evaluated sequence (docs/optimiser/search.md).

An *edit* leaves an event out or puts one in. A backward pass goes from the last edit towards the first event, like the
full evaluation (`evaluation`). It visits only the edits, and the events that make or use a *changed* value: one whose
presence in RAM differs from the old sequence. Between two visited events the RAM differs by the same number of bytes.
The pass ends when no edit is left and no value is changed any more.

A *key* is a position in the edited sequence: ``place * PER_PLACE + LAST`` is the old event at a place, and
``place * PER_PLACE + k`` is the k-th event put in right before it.
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.engine import Struct, struct
from poet_planner.solve.instance import Flags, Ints, Problem, zeros
from poet_planner.solve.search.evaluation import capacity

MOST_EDITS = 256  # edits of one move
MOST_CHANGES = 1024  # changes of the presence of values in RAM


@struct
class DeltaEvaluation(Struct):
    """Edits of a sequence, and their consequences. All arrays are allocated once."""

    # edit_place, edit_event, edit_key: the edits in the order of the sequence: the place before which an event is put
    # in, that event (or LEFT_OUT), and its key.
    edit_place: Ints
    edit_event: Ints
    edit_key: Ints
    edit_memory: Ints  # bytes of RAM at each event put in, or DROPPED
    memory: Ints  # bytes of RAM at each old event, or DROPPED
    # change_value, change_sign, change_open, change_close: changes: a value that is in RAM now (1) or not any more
    # (-1), from the key ``change_open`` back to the key ``change_close`` (-1: still open).
    change_value: Ints
    change_sign: Ints
    change_open: Ints
    change_close: Ints
    most_changes: int  # a pass with so many gives up; there is room for those of one more visit
    changed: Ints  # the values that are changed where the pass is
    # sign, change, touch: (m,) sign of the change of each value; for each position in ``changed``, the number of the
    # change, and the value's next touch to the left.
    sign: Ints
    change: Ints
    touch: Ints
    slot: Ints  # (m,) position of a changed value in ``changed``
    # computes, pages: (n,), (m,) how many more computes of each node, and page-ins of each value, the pass has met.
    computes: Ints
    pages: Ints
    # nodes, listed: the nodes whose number of computes or page-ins has changed, and (n,) whether a node is one of them.
    nodes: Ints
    listed: Flags
    pending: Ints  # keys of the first computes of such nodes that the pass has not visited yet
    # values, value_at: the values whose number of page-ins has changed, and (m,) their position in ``values``, or -1.
    values: Ints
    value_at: Ints
    counters: Ints  # number of edits, number of changes


def new_delta_evaluation(problem: Problem) -> DeltaEvaluation:
    """Without edits, for sequences of up to `capacity` events."""
    n, m = len(problem.node_time), len(problem.size)
    changes = MOST_CHANGES + int(
        np.diff(problem.output_start).max(initial=0) + np.diff(problem.input_start).max(initial=0)
    )

    return DeltaEvaluation(
        edit_place=zeros(MOST_EDITS),
        edit_event=zeros(MOST_EDITS),
        edit_key=zeros(MOST_EDITS),
        edit_memory=zeros(MOST_EDITS),
        memory=zeros(capacity(problem)),
        change_value=zeros(changes),
        change_sign=zeros(changes),
        change_open=zeros(changes),
        change_close=zeros(changes),
        most_changes=MOST_CHANGES,
        changed=zeros(m),
        sign=zeros(m),
        change=zeros(m),
        touch=zeros(m),
        slot=zeros(m),
        computes=zeros(n),
        pages=zeros(m),
        nodes=zeros(n),
        listed=np.zeros(n, dtype=np.bool_),
        pending=zeros(n),
        values=zeros(m),
        value_at=np.full(m, -1, dtype=np.int64),
        counters=zeros(2),
    )
