# SPDX-License-Identifier: Apache-2.0
"""Beaumont et al. 2019, rotor: optimal checkpointing of heterogeneous chains (arXiv 1911.13214).

A dynamic program over parts of a chain of blocks (see `linearisation`) and memory in slots. A part is reversed either
by running its first block with all that its backward needs, or by running to a later block with the first one's
entering value alone, reversing from there, and running again. Each block has its measured cost, the bytes of its
values, and the temporaries of its three passes. The objective is the method's own, time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.comparison.methods.instance import Events, Instance, out_of_time
from poet_planner.comparison.methods.linearisation import Blocks, blocks
from poet_planner.planning.method import Aware, Method, Option
from poet_planner.solve import OptimiseOptions
from poet_planner.solve.instance import Floats

SLOTS = 1000  # of memory, in the peak of the store-all schedule
MOST_CELLS = 2e7  # of the table; a longer chain gets fewer slots
ALL = 0  # the choice to keep all of the first block


def schedule(graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> Schedule:
    """The schedule of least time for the chain.

    Raises
    ------
    UserError
        If there is none, or the table takes too long.
    """
    instance = Instance(graph, ram_bytes, deadline_s, options)
    chain = chain_of(instance, instance.time_s)
    table = cache(lambda: Table(chain, instance))

    def orders(budget: int) -> Iterator[Events]:
        try:
            slots = table().slots_in(budget)
        except TimeoutError:
            raise out_of_time("rotor") from None
        if table().cost(0, chain.length - 1, slots) < math.inf:
            walk = Walk(instance, chain)
            table().emit(0, chain.length - 1, slots, walk)
            yield walk.events

    return instance.planned("rotor", orders)


METHOD = Method(
    name="rotor",
    source="Beaumont et al. 2019, arXiv 1911.13214",
    decides="checkpoints of a chain, by dynamic programming over time and bytes",
    schedule=schedule,
    recomputes=True,
    takes=(Option.TIME_LIMIT,),
    compute_aware=Aware.YES,
    memory_aware=Aware.YES,
)


@dataclass(frozen=True)
class Chain:
    """A chain of L blocks. Costs are seconds or joules, sizes bytes."""

    blocks: Blocks
    # forward, backward: (L,) cost of computing each block's nodes once.
    forward: list[float]
    backward: list[float]
    entering: list[frozenset[int]]  # (L + 1,) the values that enter block k; none enters after the last block
    # (L + 1,) the values that block k - 1 makes and that its backward reads, and those that enter block k.
    saved: list[frozenset[int]]
    # entering_bytes, saved_bytes: their sizes.
    entering_bytes: list[int]
    saved_bytes: list[int]
    # (L + 1,) of the gradients that the backward of block k - 1 and of those in front of it need of later blocks.
    gradient_bytes: list[int]
    # saving_bytes, passing_bytes, backward_bytes: (L,) what block k takes beside entering and left values: in a forward
    # that saves all, in one that keeps the end value alone, and in the backward, gradients included.
    saving_bytes: list[int]
    passing_bytes: list[int]
    backward_bytes: list[int]

    @property
    def length(self) -> int:
        return len(self.forward)


def chain_of(instance: Instance, cost: Sequence[float]) -> Chain:
    """The chain of an instance; ``cost`` is of each node."""
    chain = blocks(instance)
    count = len(chain.forward)
    block_of = {node: k for k, nodes in enumerate(chain.forward) for node in nodes}
    part_of = {node: k for k, nodes in enumerate(chain.backward) for node in nodes}

    def size(values: Iterable[int]) -> int:
        return sum(instance.size[v] for v in values)

    made_by = [[v for node in nodes for v in instance.outputs[node] if instance.size[v]] for nodes in chain.forward]
    entering = [frozenset[int]()]
    entering += [
        frozenset(v for v in made_by[k] if any(block_of.get(user, -1) > k for user in instance.users[v]))
        for k in range(count)
    ]
    saved = [frozenset[int]()]
    saved += [entering[k + 1] | {v for v in made_by[k] if instance.read_backward(v)} for k in range(count)]
    gradients = [
        frozenset(
            v
            for node, part in part_of.items()
            if part >= k
            for v in instance.outputs[node]
            if any(part_of[user] < k for user in instance.users[v])
        )
        for k in range(count + 1)
    ]

    def extra(nodes: list[int], start: frozenset[int], end: frozenset[int], counted: frozenset[int]) -> int:
        """Peak of running nodes from the values at the start, those at the end kept, beyond the counted ones."""
        return max(0, _peak(instance, nodes, start, end) - size(counted))

    return Chain(
        blocks=chain,
        forward=[sum(cost[node] for node in nodes) for nodes in chain.forward],
        backward=[sum(cost[node] for node in nodes) for nodes in chain.backward],
        entering=entering,
        saved=saved,
        entering_bytes=[size(values) for values in entering],
        saved_bytes=[size(values) for values in saved],
        gradient_bytes=[size(values) for values in gradients],
        saving_bytes=[
            extra(chain.forward[k], entering[k], entering[k] | saved[k + 1], entering[k] | saved[k + 1])
            for k in range(count)
        ],
        passing_bytes=[
            extra(chain.forward[k], entering[k], entering[k] | entering[k + 1], entering[k] | entering[k + 1])
            for k in range(count)
        ],
        backward_bytes=[
            extra(
                chain.backward[k],
                entering[k] | saved[k + 1] | gradients[k + 1],
                entering[k] | gradients[k],
                entering[k] | saved[k + 1],
            )
            for k in range(count)
        ],
    )


def _slot_bytes(instance: Instance, chain: Chain) -> float:
    everything = instance.evaluated(range(instance.nodes))
    assert everything is not None
    return everything.peak / min(SLOTS, MOST_CELLS / chain.length**2)


class Table:
    """The least cost of reversing blocks i..j in m slots, beside the value that enters block i; and the choice.

    The table has as many slots as the budget of the instance, whose time it takes. By default a slot is a share of the
    store-all schedule's peak.

    Raises
    ------
    TimeoutError
        If the time is up.
    """

    def __init__(self, chain: Chain, instance: Instance, slot_bytes: float | None = None) -> None:
        slot_bytes = slot_bytes or _slot_bytes(instance, chain)
        slots = self.slots = max(0, int(instance.budget / slot_bytes))
        self._slot_bytes = slot_bytes
        self._chain = chain

        def in_slots(sizes: list[int]) -> list[int]:
            return [math.ceil(size / slot_bytes - 1e-9) for size in sizes]

        self.entering = in_slots(chain.entering_bytes)
        self.saved = in_slots(chain.saved_bytes)
        self.gradient = in_slots(chain.gradient_bytes)
        self.saving = in_slots(chain.saving_bytes)
        self.passing = in_slots(chain.passing_bytes)
        self.backward = in_slots(chain.backward_bytes)
        self.upto = np.append(0.0, np.cumsum(chain.forward))
        self._cost: dict[tuple[int, int], Floats] = {}
        self._choice: dict[tuple[int, int], npt.NDArray[np.int32]] = {}
        for i in range(chain.length):
            least = np.full(slots + 1, math.inf)
            least[self.least_slots(i, i) :] = chain.forward[i] + chain.backward[i]
            self._cost[i, i] = least
            self._choice[i, i] = np.full(slots + 1, ALL, dtype=np.int32)
        for steps in range(1, chain.length):
            if instance.time_left.expired:
                raise TimeoutError
            for i in range(chain.length - steps):
                self._fill(i, i + steps)

    def slots_in(self, size: int) -> int:
        """How many slots so many bytes are."""
        return int(size / self._slot_bytes)

    def cost(self, i: int, j: int, slots: int) -> float:
        return float(self._cost[i, j][slots])

    def costs(self, i: int, j: int) -> Floats:
        """For each number of slots."""
        return self._cost[i, j]

    def least_slots(self, i: int, j: int) -> int:
        """What it takes to save all of block i, the last one being j, and to run its backward."""
        saved = self.saved[i + 1]
        return max(self.gradient[j + 1] + saved + self.saving[i], saved + self.backward[i])

    def running(self, i: int, end: int) -> int:
        """What it takes to run block ``end - 1`` from block i on, end values alone being kept."""
        last = end - 1
        return (self.entering[last] if last > i else 0) + self.entering[end] + self.passing[last]

    def _fill(self, i: int, j: int) -> None:
        chain = self._chain
        best = chain.forward[i] + chain.backward[i] + after(self._cost[i + 1, j], self.saved[i + 1])
        best[: self.least_slots(i, j)] = math.inf
        choice = np.full(self.slots + 1, ALL, dtype=np.int32)
        needed = 0
        for c in range(i + 1, j + 1):
            needed = max(needed, self.gradient[j + 1] + self.running(i, c))
            if needed > self.slots:
                break
            tried = self.upto[c] - self.upto[i] + after(self._cost[c, j], self.entering[c]) + self._cost[i, c - 1]
            tried[:needed] = math.inf
            choice[tried < best] = c
            best = np.minimum(best, tried)
        self._cost[i, j] = best
        self._choice[i, j] = choice

    def emit(self, i: int, j: int, slots: int, walk: Walk) -> None:
        """Reverse blocks i..j as the table says."""
        # Parts to reverse, or a block whose backward is due, the next one last.
        due: list[tuple[int, int, int] | int] = [(i, j, slots)]
        while due:
            part = due.pop()
            if isinstance(part, int):
                walk.back(part)
                continue
            first, last, left = part
            choice = int(self._choice[first, last][left])
            if choice != ALL:
                walk.run(first, choice)
                due += [(first, choice - 1, left), (choice, last, left - self.entering[choice])]
                continue
            walk.save(first)
            due.append(first)
            if first < last:
                due.append((first + 1, last, left - self.saved[first + 1]))


class Walk:
    """The events of a chain's passes."""

    def __init__(self, instance: Instance, chain: Chain) -> None:
        self._instance = instance
        self._chain = chain
        self._visited = 0
        self.events: list[int] = []

    def save(self, block: int) -> None:
        """A forward of a block that keeps all that its backward reads."""
        self._forward(block, self._chain.saved[block + 1])

    def run(self, first: int, end: int) -> None:
        """Forwards of blocks from ``first`` to before ``end``, end values alone being kept."""
        for block in range(first, end):
            self._forward(block, self._chain.entering[block + 1])

    def back(self, block: int) -> None:
        """The backward of a block."""
        self.events += self._chain.blocks.backward[block]

    def page_in(self, values: Iterable[int]) -> None:
        self.events += [self._instance.nodes + v for v in sorted(values)]

    def _forward(self, block: int, wanted: frozenset[int]) -> None:
        instance, nodes = self._instance, self._chain.blocks.forward[block]
        if block == self._visited:
            self._visited += 1
            self.events += nodes
            return
        own = set(nodes)
        others = {v for v in range(instance.values) if instance.producer[v] not in own}
        self.events += instance.to_make(wanted, others | instance.empty)


def after(costs: Floats, taken: int) -> Floats:
    """The costs for each number of slots, of which so many are taken."""
    shifted = np.full(len(costs), math.inf)
    shifted[taken:] = costs[: max(0, len(costs) - taken)]
    return shifted


def _peak(instance: Instance, nodes: list[int], start: frozenset[int], end: frozenset[int]) -> int:
    """Bytes at most while nodes run one after the other; a value goes when none of them reads it any more."""
    last_use = {v: node for node in nodes for v in instance.inputs[node]}
    held = {v for v in start if instance.size[v]}
    peak = sum(instance.size[v] for v in held)
    for node in nodes:
        held |= set(instance.outputs[node])
        peak = max(peak, sum(instance.size[v] for v in held) + instance.workspace[node])
        held = {v for v in held if v in end or last_use.get(v, -1) > node}
    return peak
