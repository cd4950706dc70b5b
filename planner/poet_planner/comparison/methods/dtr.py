# SPDX-License-Identifier: Apache-2.0
"""Kirisame et al. 2021, Dynamic Tensor Rematerialization (ICLR 2021, section 2 and appendix C), and other scores in it.

The nodes run in order. Where RAM is short, the value of least score is evicted; a value that is missing is computed
again, from its inputs, which may be missing too. Nothing is planned ahead. DTR's own score of a value is

    (its cost + the cost of all evicted values around it) / (its bytes x the time since it was last read)

Around it are the evicted values that are reached from it by inputs through evicted ones only, and likewise by users.
*MSPS* is (its cost + the cost of the evicted values above it) / its bytes: the second half of Capuchin (Peng et al.
2020), in DTR's simulator. The POET repository lists that as its "Capuchin": most likely the paper plotted this.
*LRU* evicts what was read longest ago.

DTR releases a value after its last use, as a framework does. Without that, `no_release`, a value leaves by eviction
alone: that is how the simulator runs a bare graph. Schedules get their frees by liveness in both cases; what differs is
what was evicted and computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial

from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.comparison.methods.instance import Events, Instance, out_of_time
from poet_planner.planning.method import Aware, Method, Option
from poet_planner.solve import OptimiseOptions

UNITS = 1e9  # a cost is counted in this share of all
THRASHING = 20.0  # it gives up when it has computed for so many times the store-all schedule's time
LOOKS = 256  # evictions between two looks at the clock

Ratio = tuple[int, int]  # a score: what is above and below the line


class Score(Enum):
    """By what the value to evict is chosen."""

    DTR = "DTR"
    MSPS = "MSPS in DTR's simulator"
    LRU = "LRU in DTR's simulator"


def schedule(
    graph: Graph,
    ram_bytes: int,
    deadline_s: float | None,
    options: OptimiseOptions,
    score: Score = Score.DTR,
    release: bool = True,
) -> Schedule:
    """What the simulator does within the budget.

    Raises
    ------
    UserError
        If it runs out of RAM, computes twenty times as long as the store-all schedule, or is late.
    """
    instance = Instance(graph, ram_bytes, deadline_s, options)
    name = score.value if release else f"{score.value} without releases"

    def orders(budget: int) -> Iterator[Events]:
        try:
            yield Simulator(instance, budget, score, release).run()
        except _OutOfMemoryError:
            return
        except TimeoutError:
            raise out_of_time(name) from None

    return instance.planned(name, orders)


class _OutOfMemoryError(Exception):
    """Nothing is left to evict, or it thrashes, or a node would be computed again that must not be."""


@dataclass
class _Request:
    """A node that is to be computed: inputs of it that are still missing, the next one last."""

    node: int
    missing: list[int]


class Simulator:
    """One run.

    ``budget`` counts bytes for values and workspace.
    """

    def __init__(self, instance: Instance, budget: int, score: Score, release: bool) -> None:
        self._instance = instance
        self._budget = budget
        self._score = {Score.DTR: self._dtr, Score.MSPS: self._msps, Score.LRU: self._lru}[score]
        self._release = release
        total_s = sum(instance.time_s)
        # Whole numbers: on boards of proportional costs the same scores are equal, and no rounding decides.
        self._node_cost = [round(UNITS * seconds / total_s) if total_s else 0 for seconds in instance.time_s]
        self._cost = [self._node_cost[node] for node in instance.producer]
        # Values that a value is made from, and that are made from it.
        self._above = [instance.inputs[node] for node in instance.producer]
        self._below = [[v for user in users for v in instance.outputs[user]] for users in instance.users]
        self._held: set[int] = set()
        self._evicted: set[int] = set()
        self._locks = [0] * instance.values
        self._read_at = [0] * instance.values
        self._clock = 0
        self._bytes = 0
        self._computed: set[int] = set()
        self._events: list[int] = []
        self._evictions = 0

    def run(self) -> list[int]:
        """The nodes it computes, in order.

        Raises
        ------
        _OutOfMemoryError
            If it cannot go on.
        TimeoutError
            If the time is up.
        """
        instance = self._instance
        over: list[list[int]] = [[] for _ in range(instance.nodes)]
        for v, users in enumerate(instance.users):
            over[max(users, default=instance.producer[v])].append(v)
        for node in range(instance.nodes):
            self._materialise(node)
            for v in instance.outputs[node]:
                self._read_at[v] = self._clock
            if self._release:
                for v in over[node]:
                    if v in self._held:
                        self._evict(v)
        return self._events

    def _materialise(self, node: int) -> None:
        """Compute a node, and before it whatever it lacks."""
        requests = [self._request(node)]
        while requests:
            request = requests[-1]
            while request.missing and request.missing[-1] in self._held:
                self._locks[request.missing.pop()] += 1
            if request.missing:
                requests.append(self._request(self._instance.producer[request.missing[-1]]))
            else:
                self._compute(request.node)
                requests.pop()

    def _request(self, node: int) -> _Request:
        inputs = self._instance.inputs[node]
        for v in inputs:
            self._read_at[v] = self._clock
            if v in self._held:
                self._locks[v] += 1
        return _Request(node, [v for v in reversed(inputs) if v not in self._held])

    def _compute(self, node: int) -> None:
        instance = self._instance
        outputs = instance.outputs[node]
        if node in self._computed and not instance.recomputable[node]:
            raise _OutOfMemoryError
        for v in outputs:
            # The other values of a node that is computed again are made anew, so they go first.
            if v in self._held:
                if self._locks[v]:
                    raise _OutOfMemoryError
                self._evict(v)
        self._make_room(sum(instance.size[v] for v in outputs) + instance.workspace[node])
        self._events.append(node)
        self._computed.add(node)
        self._clock += self._node_cost[node]
        if self._clock > THRASHING * sum(self._node_cost):
            raise _OutOfMemoryError
        self._held |= set(outputs)
        self._evicted -= set(outputs)
        self._bytes += sum(instance.size[v] for v in outputs)
        for v in instance.inputs[node]:
            self._locks[v] -= 1

    def _make_room(self, needed: int) -> None:
        while self._bytes + needed > self._budget:
            pool = [v for v in sorted(self._held) if not self._locks[v] and self._instance.size[v]]
            if not pool:
                raise _OutOfMemoryError
            self._evictions += 1
            if self._evictions % LOOKS == 0 and self._instance.time_left.expired:
                raise TimeoutError
            # Of equal scores the later value goes.
            last = pool.pop()
            above, below = self._score(last)
            for v in reversed(pool):
                a, b = self._score(v)
                if a * below < above * b:
                    last, above, below = v, a, b
            self._evict(last)

    def _evict(self, value: int) -> None:
        self._held.discard(value)
        self._evicted.add(value)
        self._bytes -= self._instance.size[value]

    def _dtr(self, value: int) -> Ratio:
        weight = self._instance.size[value] * (self._clock - self._read_at[value])
        if weight <= 0:
            return 1, 0
        around = self._cost_around(value, self._above) + self._cost_around(value, self._below)
        return self._cost[value] + around, weight

    def _msps(self, value: int) -> Ratio:
        return self._cost[value] + self._cost_around(value, self._above), self._instance.size[value]

    def _lru(self, value: int) -> Ratio:
        return self._read_at[value], 1

    def _cost_around(self, value: int, neighbours: list[list[int]]) -> int:
        """The cost of the evicted values that are reached from a value through evicted ones."""
        found: set[int] = set()
        here = [value]
        while here:
            near = self._evicted.intersection(neighbours[here.pop()]) - found
            found |= near
            here += near
        return sum(self._cost[v] for v in sorted(found - {value}))


SOURCE = "Kirisame et al. 2021, ICLR"
PENG = "Peng et al. 2020, ASPLOS (Capuchin)"


def _method(name: str, source: str, decides: str, score: Score, release: bool = True) -> Method:
    aware = Aware.NO if score is Score.LRU else Aware.YES
    return Method(
        name=name,
        source=source,
        decides=decides,
        schedule=_schedule(score, release),
        recomputes=True,
        takes=(Option.TIME_LIMIT,),
        general=Aware.YES,
        compute_aware=aware,
        memory_aware=Aware.YES,
    )


def _schedule(score: Score, release: bool) -> Callable[[Graph, int, float | None, OptimiseOptions], Schedule]:
    return partial(schedule, score=score, release=release)


METHODS = (
    _method("dtr", SOURCE, "which value to evict, while it runs: by cost, bytes and staleness", Score.DTR),
    _method("dtr_no_release", SOURCE, "as dtr; values leave by eviction alone", Score.DTR, release=False),
    _method("msps", f"{PENG}, second half, in the simulator of {SOURCE}", "as dtr, by cost and bytes", Score.MSPS),
    _method(
        "msps_no_release",
        'as msps; most likely the "Capuchin" of Patil et al. 2022, Figure 5',
        "as msps; values leave by eviction alone",
        Score.MSPS,
        release=False,
    ),
    _method("lru", f"least recently used, in the simulator of {SOURCE}", "as dtr, by staleness", Score.LRU),
)
