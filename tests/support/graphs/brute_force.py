# SPDX-License-Identifier: Apache-2.0
"""The least energy over all schedules of the contract, by exhausting every state of a small graph (Dijkstra).

Written from docs/SPEC.md alone: a state is what has been computed, what is in RAM and what is on the card. Without a
deadline the least energy is a shortest path; with one, the labels of a state are energy and times of which none is
beaten in all. With DMA there are two clocks, and the times at which values have arrived and are let go.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

from poet_profiles.graph import Graph, Uses


def least_energy(graph: Graph, ram_bytes: int, deadline_s: float | None) -> float:
    """Joules, infinite if there is no schedule."""
    deadline = math.inf if deadline_s is None else deadline_s * (1 + 1e-12)
    values = [value for node in graph.nodes for value in node.values]
    index = {value.id: k for k, value in enumerate(values)}
    size = [(value.bytes + 3) // 4 * 4 for value in values]
    own = [[index[value.id] for value in node.values] for node in graph.nodes]
    needs = [[index[id] for id in node.inputs] for node in graph.nodes]
    taken = [[index[id] for id in node.takes_over.values()] for node in graph.nodes]
    everything = (1 << len(graph.nodes)) - 1
    limit = ram_bytes - graph.resident_bytes

    def bits(chosen: Iterable[int]) -> int:
        return sum(1 << k for k in chosen)

    def held(mask: int) -> int:
        return sum(size[k] for k in range(len(values)) if mask >> k & 1)

    ticket = itertools.count()
    queue = [(0.0, next(ticket), _Times(0.0, 0.0, (0.0,) * len(values), (0.0,) * len(values)), 0, 0, 0)]
    labels: dict[tuple[int, int, int], list[tuple[float, ...]]] = {}
    while queue:
        energy, _, times, done, ram, card = heapq.heappop(queue)
        if done == everything:
            return energy
        label = (energy, *times.flat(deadline))
        known = labels.setdefault((done, ram, card), [])
        if any(all(a <= b for a, b in zip(other, label, strict=True)) for other in known):
            continue
        known.append(label)
        moves = []
        for j, node in enumerate(graph.nodes):
            if ram & bits(needs[j]) != bits(needs[j]) or ram & bits(own[j]):
                continue
            if done >> j & 1 and not node.recomputable:
                continue
            after_ram = ram & ~bits(taken[j]) | bits(own[j])
            if held(after_ram) + (node.workspace_bytes + 3) // 4 * 4 <= limit:
                there = times.free(*taken[j])
                after = there.compute(graph.dma, node.uses, node.time_s, needs[j], own[j])
                moves.append((node.energy_j, after, done | 1 << j, after_ram, card))
        for k, value in enumerate(values):
            mask = 1 << k
            if ram & mask:
                moves.append((0.0, times.free(k), done, ram & ~mask, card))
            if value.page is None:
                continue
            if ram & mask and not card & mask:
                after = times.transfer(graph.dma, value.page.out_time_s, (), (k,))
                moves.append((value.page.out_energy_j, after, done, ram, card | mask))
            if card & mask and not ram & mask and held(ram | mask) <= limit:
                after = times.transfer(graph.dma, value.page.in_time_s, (k,), (k,))
                moves.append((value.page.in_energy_j, after, done, ram | mask, card))
        for cost, after, *state in moves:
            if max(after.cpu_s, after.bus_s) <= deadline:
                heapq.heappush(queue, (energy + cost, next(ticket), after, *state))
    return math.inf


class _Times(NamedTuple):
    """When CPU and bus are free, and when each value has arrived in RAM and may be freed; without DMA only the CPU."""

    cpu_s: float
    bus_s: float
    arrived_s: tuple[float, ...]
    let_go_s: tuple[float, ...]

    def flat(self, deadline: float) -> tuple[float, ...]:
        """What tells two ways to one state apart; nothing where there is no deadline."""
        if math.isinf(deadline):
            return ()
        later = (s if s > self.cpu_s else 0.0 for s in (self.bus_s, *self.arrived_s, *self.let_go_s))
        return (self.cpu_s, *later)

    def compute(self, dma: bool, uses: Uses, time_s: float, needs: Iterable[int], own: Iterable[int]) -> _Times:
        if not dma:
            return self._replace(cpu_s=self.cpu_s + time_s)
        there = self._replace(cpu_s=max([self.cpu_s, *(self.arrived_s[k] for k in needs)]))
        if uses is Uses.BUS:
            return there.transfer(dma, time_s, own, (*needs, *own))
        if uses is Uses.BOTH:
            end_s = max(there.cpu_s, there.bus_s) + time_s
            return there._replace(cpu_s=end_s, bus_s=end_s)
        return there._replace(cpu_s=there.cpu_s + time_s)

    def transfer(self, dma: bool, time_s: float, arriving: Iterable[int], moved: Iterable[int]) -> _Times:
        if not dma:
            return self._replace(cpu_s=self.cpu_s + time_s)
        start_s = max(self.cpu_s, self.bus_s)
        end_s = start_s + time_s
        return _Times(start_s, end_s, _at(self.arrived_s, arriving, end_s), _at(self.let_go_s, moved, end_s))

    def free(self, *gone: int) -> _Times:
        return self._replace(cpu_s=max([self.cpu_s, *(self.let_go_s[k] for k in gone)]))


def _at(times: tuple[float, ...], chosen: Iterable[int], time_s: float) -> tuple[float, ...]:
    chosen = set(chosen)
    return tuple(time_s if k in chosen else s for k, s in enumerate(times))
