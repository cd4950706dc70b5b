# SPDX-License-Identifier: Apache-2.0
"""What a search for a cheapest path over memory states has met: arrays that the engine fills (`native/path_search.c`).

See docs/optimiser/state_space.md, "Memory states".
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.engine import Struct, struct
from poet_planner.solve.instance import Floats, Ints
from poet_planner.solve.statespace.bitset import empty_slots

OPEN_PER_STATE = 4  # room for entries of the heap, for each state allowed; more than 1 were not seen


@struct
class OpenStates(Struct):
    """A heap of states."""

    least: Floats  # what a path through the state costs at least; the heap is ordered by this first
    order: Floats  # of equal ones, the least first; then the least number of a state
    state: Ints  # numbers of states
    count: Ints  # (1,) entries in the heap


@struct
class PathSearch(Struct):
    """The states that a search has met, in this order."""

    slots: Ints  # hash table of the numbers of states, -1: free
    rows: Ints  # (states, words) bits
    energy: Floats  # (states,) least energy spent on a way to the state
    closed: Floats  # (states,) that with which the state was last expanded; infinite: it was not
    to_go: Floats  # (states,) lower bound on the cost that remains to be paid
    # parent, arrived_by: (states,) the state before on the cheapest path, and the move from there.
    parent: Ints
    arrived_by: Ints
    count: Ints  # (1,) states that were met
    open_states: OpenStates


def new_search(most_states: int, words: int) -> PathSearch:
    """A search that has met nothing. It ends if there are more than ``most_states``, of so many words each."""
    most_states = max(most_states, 1)
    return PathSearch(
        slots=empty_slots(most_states),
        rows=np.zeros((most_states, words), dtype=np.int64),
        energy=np.full(most_states, np.inf),
        closed=np.full(most_states, np.inf),
        to_go=np.zeros(most_states),
        parent=np.full(most_states, -1, dtype=np.int64),
        arrived_by=np.full(most_states, -1, dtype=np.int64),
        count=np.zeros(1, dtype=np.int64),
        open_states=no_open_states(OPEN_PER_STATE * most_states),
    )


def no_open_states(room: int) -> OpenStates:
    """An empty heap."""
    count = np.zeros(1, dtype=np.int64)
    return OpenStates(np.empty(room), np.empty(room), np.empty(room, dtype=np.int64), count)
