# SPDX-License-Identifier: Apache-2.0
"""A chain's passes as an order: checkpoints are offloaded in the forward pass and prefetched in the backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poet_planner.comparison.methods.instance import Instance
from poet_planner.comparison.methods.rotor import Chain, Table, Walk


@dataclass(frozen=True)
class BlockRun:
    """A block that is saved, or a run of blocks that is computed again."""

    # block, end: the run reaches from ``block`` to before ``end``; 0: the block alone, which is saved.
    block: int
    end: int
    offloaded: frozenset[int]  # the values that are paged out, and in before the part's backward
    slots: int  # of memory that its backward may take


def order_of(instance: Instance, chain: Chain, table: Table, parts: Sequence[BlockRun]) -> list[int]:
    """The events of the parts that make up the chain, each page-in just before the backward that reads it."""
    walk = Walk(instance, chain)
    for part in parts:
        if part.end:
            walk.run(part.block, part.end)
        else:
            walk.save(part.block)
    for part in reversed(parts):
        walk.page_in(part.offloaded)
        if part.end:
            table.emit(part.block, part.end - 1, part.slots, walk)
        else:
            walk.back(part.block)
    return _without_idle_page_ins(instance, walk.events)


def _without_idle_page_ins(instance: Instance, events: Sequence[int]) -> list[int]:
    """Without page-ins that nothing reads: of what enters a block, and was only read by what took over its place."""
    wanted: set[int] = set()
    kept = []
    for event in reversed(events):
        value = event - instance.nodes
        if value >= 0 and value not in wanted:
            continue
        if value >= 0:
            wanted.remove(value)
        else:
            wanted.difference_update(instance.outputs[event])
            wanted.update(instance.inputs[event])
        kept.append(event)
    return kept[::-1]


def prefetched(instance: Instance, events: Sequence[int], budget: int) -> list[int]:
    """The same with every page-in early enough to be there when it is read, where it has the RAM.

    The last one first: each as late as the bus allows that has to serve those after it. One that would break the
    budget goes back towards its use, half of the way each time, until it does not.
    """
    n, problem = instance.nodes, instance.problem
    computes = [event for event in events if event < n]
    starts_s = np.append(0.0, np.cumsum([instance.time_s[node] for node in computes]))
    # Of each page-in: the value, and how many computes stand before it is read, and before it has been used last.
    moves = []
    done = 0
    for event in events:
        if event < n:
            done += 1
            continue
        value = event - n
        users = {instance.producer[value], *instance.users[value]}
        read = done + next(k for k, node in enumerate(computes[done:]) if node in instance.users[value])
        used = max((k + 1 for k, node in enumerate(computes[:done]) if node in users), default=0)
        moves.append((read, value, used))
    moves.sort()
    places = [read for read, _, _ in moves]
    free_s = float("inf")
    for k in range(len(moves) - 1, -1, -1):
        read, value, used = moves[k]
        latest_s = min(float(starts_s[read]), free_s) - float(problem.in_time[value])
        early = max(used, int(np.searchsorted(starts_s, latest_s, side="right")) - 1)
        while early < read:
            places[k] = early
            found = instance.evaluated(_with_page_ins(computes, places, moves, n))
            if found is not None and found.peak <= budget:
                break
            early += (read - early + 1) // 2
        places[k] = early
        free_s = min(free_s, float(starts_s[places[k]]))
    return _with_page_ins(computes, places, moves, n)


def _with_page_ins(computes: list[int], places: list[int], moves: list[tuple[int, int, int]], nodes: int) -> list[int]:
    """The computes with each page-in before the compute at its place."""
    due: dict[int, list[int]] = {}
    for place, (_, value, _) in zip(places, moves, strict=True):
        due.setdefault(place, []).append(nodes + value)
    return [event for place, node in enumerate(computes) for event in (*due.get(place, ()), node)]
