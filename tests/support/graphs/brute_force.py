# SPDX-License-Identifier: Apache-2.0
"""The least energy over all schedules of the contract, by exhausting every state of a small graph (Dijkstra).

Written from docs/SPEC.md alone: a state is what has been computed, what is in RAM and what is on the card. Without a
deadline the least energy is a shortest path; with one, the labels of a state are the pairs of energy and time of which
none is beaten in both.
"""

from __future__ import annotations

import heapq
import itertools
import math

from poet_profiles.graph import Graph


def least_energy(graph: Graph, ram_bytes: int, deadline_s: float | None) -> float:
    """Joules, infinite if there is no schedule. For graphs without DMA."""
    assert not graph.dma
    deadline = math.inf if deadline_s is None else deadline_s * (1 + 1e-12)
    values = [value for node in graph.nodes for value in node.values]
    bit = {value.id: 1 << k for k, value in enumerate(values)}
    size = [(value.bytes + 3) // 4 * 4 for value in values]
    own = [sum(bit[value.id] for value in node.values) for node in graph.nodes]
    needs = [sum(bit[id] for id in node.inputs) for node in graph.nodes]
    everything = (1 << len(graph.nodes)) - 1
    limit = ram_bytes - graph.resident_bytes

    def held(mask: int) -> int:
        return sum(size[k] for k in range(len(values)) if mask >> k & 1)

    ticket = itertools.count()
    queue = [(0.0, 0.0, next(ticket), 0, 0, 0)]
    labels: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
    while queue:
        energy, time, _, done, ram, card = heapq.heappop(queue)
        if done == everything:
            return energy
        state = (done, ram, card)
        if any(e <= energy and t <= time for e, t in labels.get(state, ())):
            continue
        labels.setdefault(state, []).append((energy, time))
        moves = []
        for j, node in enumerate(graph.nodes):
            if ram & needs[j] != needs[j] or ram & own[j]:
                continue
            if done >> j & 1 and not node.recomputable:
                continue
            if held(ram | own[j]) + (node.workspace_bytes + 3) // 4 * 4 <= limit:
                moves.append((node.energy_j, node.time_s, done | 1 << j, ram | own[j], card))
        for k, value in enumerate(values):
            mask = 1 << k
            if ram & mask:
                moves.append((0.0, 0.0, done, ram & ~mask, card))
            if value.page is None:
                continue
            if ram & mask and not card & mask:
                moves.append((value.page.out_energy_j, value.page.out_time_s, done, ram, card | mask))
            if card & mask and not ram & mask and held(ram | mask) <= limit:
                moves.append((value.page.in_energy_j, value.page.in_time_s, done, ram | mask, card))
        for cost, duration, *after in moves:
            if time + duration <= deadline:
                heapq.heappush(queue, (energy + cost, time + duration, next(ticket), *after))
    return math.inf
