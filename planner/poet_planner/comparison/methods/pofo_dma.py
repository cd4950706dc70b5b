# SPDX-License-Identifier: Apache-2.0
"""POFO's dynamic program where transfers run beside the computing: the two backlogs of the paper.

The forward pass leaves bytes yet to be offloaded, and they hold RAM until they are. The backward pass has bytes to
prefetch, and they take RAM from when they are there. A block that needs the RAM waits for either. The backlogs, what is
kept, and the seconds so far go from the first block inwards. So the program is a shortest path over blocks, with the
*labels* of each block: ways to reach it of which none is better than another in all four.

Bytes are counted in slots, and the bus moves them at its mean rate. Inside a part that is computed again, the paper
overlaps prefetches with a sequence made for that. Here the part either leaves RAM for all that is to be prefetched, and
hides the transfers, or for none, and hides nothing.

The paper's bus moves bytes all the time. Here a transfer starts between two nodes, so that how much of its rate is used
depends on how long the nodes are. The program is solved for a few shares of the rate, and the replay chooses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from poet_planner.comparison.methods.instance import Instance
from poet_planner.comparison.methods.offloads import BlockRun, order_of
from poet_planner.comparison.methods.rotor import Chain, Table, chain_of
from poet_planner.solve.instance import Floats, Ints

SLOTS = 500  # of memory, in the peak of the store-all schedule
MOST_LABELS = 200  # at a block; those that may be cheapest in the end
SHARES = (1.0, 0.7, 0.5, 0.3)  # of the bus's rate
FREE_RATE = 1e12  # slots a second where transfers take no time: finite, so that what takes none moves none

ToGo = Callable[[int, int, Floats], Floats]


@dataclass(frozen=True)
class _Labels:
    """Ways to reach a block."""

    slots: Ints  # (k, 3) of memory: what stays for the backward pass, what is yet to be offloaded, and to be prefetched
    cost: Floats  # (k,) seconds so far, those of the backward passes outside included
    # (k, 5) block, kind and index of the label before, whether what entered there is offloaded, and the end of the part
    # that is computed again; 0 where the block is saved.
    step: Ints

    def at(self, chosen: Ints) -> _Labels:
        return _Labels(self.slots[chosen], self.cost[chosen], self.step[chosen])


_NONE = _Labels(np.zeros((0, 3), dtype=np.int64), np.zeros(0), np.zeros((0, 5), dtype=np.int64))
_START = _Labels(np.zeros((1, 3), dtype=np.int64), np.zeros(1), np.zeros((1, 5), dtype=np.int64))


def overlapped_orders(instance: Instance, to_go: ToGo, budget: int, at_most: float) -> list[list[int]]:
    """The best orders within so many bytes, one for each share of the rate: see `Overlapped`.

    Raises
    ------
    TimeoutError
        If the time is up.
    """
    chain = chain_of(instance, instance.time_s)
    programs = (Overlapped(instance, chain, to_go, budget, at_most, share) for share in SHARES)
    return [program.order() for program in programs if program.cost < math.inf]


class Overlapped:
    """The program for so many bytes.

    Parameters
    ----------
    chain : Chain
        With seconds as costs.
    to_go : callable
        How many seconds it takes at least from a block on: block, kind, and bytes of RAM, what enters included.
    at_most : float
        Seconds of an order that is known.
    share : float
        Of the bus's rate that can be used.

    Raises
    ------
    TimeoutError
        If the time is up.
    """

    def __init__(
        self, instance: Instance, chain: Chain, to_go: ToGo, budget: int, at_most: float, share: float
    ) -> None:
        self._instance = instance
        self._to_go = to_go
        self._at_most = at_most
        self._chain = chain
        everything = instance.evaluated(range(instance.nodes))
        assert everything is not None
        self._slot_bytes = max(1.0, everything.peak / SLOTS)
        self._table = Table(chain, instance, self._slot_bytes)
        self._slots = self._table.slots_in(budget)
        # Of what enters a block by itself, and of all that the block in front saved.
        self._values = (chain.entering, chain.saved)
        self._taken = (self._table.entering, self._table.saved)
        self._rate_out, self._rate_in = (share * rate for rate in _rates(instance, self._slot_bytes))
        self._found: dict[tuple[int, int], list[_Labels]] = {(0, 0): [_START]}
        self._labels: dict[tuple[int, int], _Labels] = {}
        for block in range(chain.length + 1):
            for kind in (0, 1):
                if instance.time_left.expired:
                    raise TimeoutError
                self._labels[block, kind] = self._undominated(block, kind)
                if block < chain.length:
                    self._save(block, kind)
                    self._run(block, kind)
        last = self._labels[chain.length, 1]
        # After the last block, nothing is left to hide a transfer.
        seconds = last.cost + last.slots[:, 1] / self._rate_out + last.slots[:, 2] / self._rate_in
        self._best = int(np.argmin(seconds)) if len(seconds) else 0
        # Seconds of the best order; infinite if there is none.
        self.cost = float(seconds[self._best]) if len(seconds) else math.inf

    def order(self) -> list[int]:
        """The best order, if there is one; each page-in just before the backward that reads it."""
        parts: list[BlockRun] = []
        place = (self._chain.length, 1, self._best)
        while place[0]:
            block, kind, index, offload, end = self._labels[place[0], place[1]].step[place[2]].tolist()
            offloaded = self._values[kind][block] if offload else frozenset[int]()
            kept = int(self._labels[block, kind].slots[index, 0])
            parts.append(BlockRun(block, end, offloaded, self._slots - kept - self._taken[kind][block]))
            place = (block, kind, index)
        return order_of(self._instance, self._chain, self._table, parts[::-1])

    def _save(self, block: int, kind: int) -> None:
        """The way on by a forward that saves all, and its backward."""
        labels, chain, table = self._labels[block, kind], self._chain, self._table
        kept, to_offload, to_prefetch = labels.slots.T
        saved = table.saved[block + 1]
        forward, backward = saved + table.saving[block], saved + table.backward[block]
        free = self._slots - kept - self._taken[kind][block]
        chosen = np.flatnonzero(free >= max(forward, backward))
        self._go_on(
            (block, kind),
            chosen,
            (block + 1, 1),
            chain.forward[block],
            np.full(len(chosen), chain.backward[block]),
            np.maximum(0, to_offload + forward - free)[chosen],
            np.maximum(0, to_prefetch + backward - free)[chosen],
        )

    def _run(self, block: int, kind: int) -> None:
        """The ways on by running to a later block, and by reversing what lies between after that block's backward."""
        labels, table = self._labels[block, kind], self._table
        kept, to_offload, to_prefetch = labels.slots.T
        free = self._slots - kept - self._taken[kind][block]
        needed = 0
        for end in range(block + 1, self._chain.length):
            needed = max(needed, table.running(block, end))
            if needed > self._slots:
                break
            costs = table.costs(block, end - 1)
            for hides in (True, False):
                left = free - to_prefetch if hides else free
                backward = np.where(left >= 0, costs[np.maximum(0, left)], math.inf)
                chosen = np.flatnonzero((free >= needed) & np.isfinite(backward))
                self._go_on(
                    (block, kind),
                    chosen,
                    (end, 0),
                    float(table.upto[end] - table.upto[block]),
                    backward[chosen],
                    np.maximum(0, to_offload + needed - free)[chosen],
                    np.zeros(len(chosen), dtype=np.int64),
                    hides,
                )

    def _go_on(
        self,
        here: tuple[int, int],
        chosen: Ints,
        there: tuple[int, int],
        forward: float,
        backward: Floats,
        waits_out: Ints,
        waits_in: Ints,
        hides: bool = True,
    ) -> None:
        """What some of a block's labels become, with what enters the block kept, and offloaded."""
        if not len(chosen):
            return
        block, kind = here
        entering, values = self._taken[kind][block], self._values[kind][block]
        before = self._labels[here].at(chosen)
        cost = before.cost + forward + backward + waits_out / self._rate_out + waits_in / self._rate_in
        sent = np.floor(forward * self._rate_out) + waits_out
        fetched = (np.floor(backward * self._rate_in) if hides else 0) + waits_in
        can_page = bool(entering) and all(self._instance.pageable[v] for v in values)
        for offload in (False, True) if can_page else (False,):
            moved = entering if offload else 0
            kept, to_offload, to_prefetch = before.slots.T
            slots = np.column_stack(
                [
                    kept + entering - moved,
                    np.maximum(0, to_offload + moved - sent),
                    np.maximum(0, to_prefetch - fetched) + moved,
                ]
            ).astype(np.int64)
            step = np.empty((len(chosen), 5), dtype=np.int64)
            step[:] = (block, kind, 0, offload, there[0] if there[1] == 0 else 0)
            step[:, 2] = chosen
            self._found.setdefault(there, []).append(_Labels(slots, cost, step))

    def _undominated(self, block: int, kind: int) -> _Labels:
        """The labels than which no other is better, `MOST_LABELS` at most.

        One that waits for the bus has smaller backlogs: it is better if it costs no more even then.
        """
        found = self._found.pop((block, kind), None)
        if found is None:
            return _NONE
        slots, cost, step = (np.concatenate([getattr(one, name) for one in found]) for name in _Labels.__annotations__)
        backlog_s = slots[:, 1] / self._rate_out + slots[:, 2] / self._rate_in
        to_go_s = self._to_go(block, kind, (self._slots - slots[:, 0]) * self._slot_bytes)
        least = cost + np.maximum(to_go_s, backlog_s)
        best = np.empty((MOST_LABELS, 4))
        chosen: list[int] = []
        for k in np.lexsort((slots[:, 0], cost, backlog_s, least)).tolist():
            if least[k] > self._at_most or len(chosen) == MOST_LABELS:
                break
            kept, to_offload, to_prefetch, seconds = best[: len(chosen)].T
            waiting = np.maximum(0, to_offload - slots[k, 1]) / self._rate_out
            waiting += np.maximum(0, to_prefetch - slots[k, 2]) / self._rate_in
            if not ((kept <= slots[k, 0]) & (seconds + waiting <= cost[k])).any():
                best[len(chosen)] = (*slots[k], cost[k])
                chosen.append(k)
        return _Labels(slots, cost, step).at(np.array(chosen, dtype=np.int64))


def _rates(instance: Instance, slot_bytes: float) -> tuple[float, float]:
    """Slots a second that the bus moves out and in, over all that can be paged."""
    problem = instance.problem
    moved = [v for v in range(instance.values) if instance.pageable[v] and instance.size[v]]
    slots = sum(instance.size[v] for v in moved) / slot_bytes
    seconds = (sum(float(times[v]) for v in moved) for times in (problem.out_time, problem.in_time))
    rate_out, rate_in = (slots / one if one else FREE_RATE for one in seconds)
    return rate_out, rate_in
