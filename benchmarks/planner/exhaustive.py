# SPDX-License-Identifier: Apache-2.0
"""The least energy over all schedules of the contract for graphs of a few nodes, by trying them all.

    python -m benchmarks.planner.exhaustive [--graphs 2000] [--seed 0] [--in-place] [--seconds 10] [--jobs 1]

Dijkstra's algorithm over the states of the board (docs/SPEC.md, section 4): which nodes have been computed, which
values are in RAM, which have a copy on the card, and, where there is a deadline and transfers overlap compute, when
each transfer ends. It shares no code with the planner, knows nothing of what makes a good schedule, and leaves out
only what cannot lower the energy: writing to the card what is there already. Costs are whole numbers, so that sums are
exact.

Offsets in the arena are no part of that: where the values of the best schedule fit by their bytes but cannot be given
offsets, the planner's plan may cost more, and must then not call itself optimal. Whether that is so, a second search
tells, which knows at which word of the arena each value lies and tries all of them. The bound must not be above the
least energy in any case.
"""

from __future__ import annotations

import heapq
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple, TypeVar

import typer
from joblib import Parallel, delayed
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import NoScheduleError, OptimiseOptions, optimise
from poet_profiles.graph import Graph, Node, PageCost, Value
from poet_profiles.graph.sizes import smallest_ram_bytes

T = TypeVar("T")
WORD = 4
TOLERANCE = 1e-6
PROVEN = {"proven, equal", "none exists, none found"}
UNPROVEN = {"equal, not proven", "least with offsets, not proven", "above, not proven"}


@dataclass(frozen=True)
class Small:
    """A graph of a few nodes with limits."""

    graph: Graph
    ram_bytes: int
    deadline_s: float | None


def small_instance(seed: int, most_nodes: int = 7, in_place: bool = False) -> Small:
    """A random instance: any shape, values and workspace of odd sizes, some nodes that cannot be recomputed.

    With ``in_place``, most nodes that may take over an input do.
    """
    draw = random.Random(seed)
    nodes: list[Node] = []
    values: list[str] = []
    for number in range(draw.randint(2, most_nodes)):
        inputs = tuple(draw.sample(values, min(len(values), draw.choice((0, 1, 1, 2, 2, 3)))))
        node = _small_node(draw, f"n{number}", inputs)
        nodes.append(node)
        values += [value.id for value in node.values]
    resident_bytes = draw.choice((0, 0, 8))
    graph = Graph(f"small {seed}", tuple(nodes), resident_bytes, dma=draw.random() < 0.25)
    if in_place:
        graph = with_taking_over(graph, draw)
    least, store_all = smallest_ram_bytes(graph), store_all_schedule(graph)
    ram_bytes = draw.randint(least, max(least, store_all.peak_bytes))
    deadline_s = draw.choice((None, float(int(store_all.time_s * draw.uniform(1.0, 2.5)))))
    return Small(graph, ram_bytes, deadline_s)


def _small_node(draw: random.Random, name: str, inputs: tuple[str, ...]) -> Node:
    ids = [name] if draw.random() < 0.8 else [f"{name}.0", f"{name}.1"]
    return Node(
        name,
        time_s=float(draw.randint(0, 9)),
        energy_j=float(draw.randint(0, 20)),
        values=tuple(Value(id, draw.choice((0, *range(1, 60))), _page(draw)) for id in ids),
        inputs=inputs,
        workspace_bytes=draw.choice((0, 0, 0, 5, 16)),
        recomputable=draw.random() < 0.85,
    )


def with_taking_over(graph: Graph, draw: random.Random, share: float = 0.8) -> Graph:
    """The same graph, with a share of its values, drawn, in the place of an input, with the bytes of that."""
    uses = Counter(id for node in graph.nodes for id in node.inputs)
    sizes: dict[str, int] = {}
    nodes = []
    for node in graph.nodes:
        free = [id for id in node.inputs if uses[id] == 1 and sizes[id]]
        over, values = {}, []
        for value in node.values:
            if free and value.bytes and draw.random() < share:
                over[value.id] = free.pop(draw.randrange(len(free)))
                value = replace(value, bytes=sizes[over[value.id]])
            values.append(value)
        sizes |= {value.id: value.bytes for value in values}
        nodes.append(replace(node, values=tuple(values), takes_over=over))
    return replace(graph, nodes=tuple(nodes))


def _page(draw: random.Random) -> PageCost | None:
    if draw.random() < 0.4:
        return None
    return PageCost(*(float(draw.randint(1, 9)) for _ in range(4)))


class _State(NamedTuple):
    """The board; sets are bits.

    ``bus``, ``arrives`` and ``let_go`` are how much later than the CPU's clock the bus is free, and each value may be
    read and freed. ``lies`` says at which word each value in RAM lies, and -1 for the others; empty without offsets.
    """

    computed: int
    ram: int
    card: int
    bus: float
    arrives: tuple[float, ...]
    let_go: tuple[float, ...]
    lies: tuple[int, ...]


class _Move(NamedTuple):
    state: _State
    energy_j: float
    time_s: float


def least_energy_j(small: Small, offsets: bool = False) -> float | None:
    """Energy of the best schedule, or of the best that can be given offsets; None where there is none."""
    board = _Board(small, offsets)
    start = _State(0, 0, 0, 0.0, board.idle, board.idle, board.nowhere)
    quickest: dict[_State, float] = {}
    queue: list[tuple[float, float, _State]] = [(0.0, 0.0, start)]
    while queue:
        energy_j, time_s, state = heapq.heappop(queue)
        if quickest.get(state, float("inf")) <= time_s:
            continue
        quickest[state] = time_s
        if state.computed == board.all_nodes:
            return energy_j
        for move in board.moves(state):
            later_s = time_s + move.time_s
            if later_s + move.state.bus <= board.deadline_s:
                heapq.heappush(queue, (energy_j + move.energy_j, later_s, move.state))
    return None


class _Board:
    """What may happen next, and at what cost."""

    def __init__(self, small: Small, offsets: bool) -> None:
        graph = small.graph
        values = [value for node in graph.nodes for value in node.values]
        index = {value.id: bit for bit, value in enumerate(values)}
        self._nodes = graph.nodes
        self._values = values
        self._inputs = [_bits(index[id] for id in node.inputs) for node in graph.nodes]
        self._own = [_bits(index[value.id] for value in node.values) for node in graph.nodes]
        self._takes = [{index[id]: index[taken] for id, taken in node.takes_over.items()} for node in graph.nodes]
        self._bytes = [_whole(value.bytes) for value in values]
        self._room = small.ram_bytes - graph.resident_bytes
        self._clocks = graph.dma and small.deadline_s is not None
        self._counts_time = small.deadline_s is not None
        self.deadline_s = float("inf") if small.deadline_s is None else small.deadline_s
        self.all_nodes = (1 << len(graph.nodes)) - 1
        self.idle = (0.0,) * len(values) if self._clocks else ()
        self.nowhere = (-1,) * len(values) if offsets else ()

    def moves(self, state: _State) -> Iterator[_Move]:
        yield from self._computes(state)
        for bit, value in enumerate(self._values):
            in_ram = state.ram >> bit & 1
            if in_ram:
                yield self._free(state, bit)
            if value.page is None:
                continue
            if in_ram and not state.card >> bit & 1:
                written = state._replace(card=state.card | 1 << bit)
                yield self._transfer(written, bit, value.page.out_energy_j, value.page.out_time_s, arrives=False)
            if not in_ram and state.card >> bit & 1:
                for read in self._holding(state, [bit], 0):
                    yield self._transfer(read, bit, value.page.in_energy_j, value.page.in_time_s, arrives=True)

    def _taken_over(self, state: _State, number: int) -> _State:
        """The state in which the node's values lie in the places that they take over."""
        ram, lies = state.ram, state.lies
        for bit, taken in self._takes[number].items():
            ram = ram & ~(1 << taken) | 1 << bit
            lies = _with(_with(lies, bit, lies[taken]), taken, -1) if lies else ()
        return state._replace(ram=ram, lies=lies)

    def _holding(self, state: _State, bits: list[int], workspace: int) -> Iterator[_State]:
        """The state with these values in RAM beside a workspace; with offsets, one for each way to lay them."""
        ram = state.ram | _bits(bits)
        if sum(size for bit, size in enumerate(self._bytes) if ram >> bit & 1) + workspace > self._room:
            return
        if not state.lies:
            yield state._replace(ram=ram)
            return
        taken = sum(self._words(bit, first) for bit, first in enumerate(state.lies) if first >= 0)
        for lies, full in self._laid(state.lies, taken, bits):
            if any(not full & _run(workspace, first) for first in self._firsts(workspace)):
                yield state._replace(ram=ram, lies=lies)

    def _laid(self, lies: tuple[int, ...], taken: int, bits: list[int]) -> Iterator[tuple[tuple[int, ...], int]]:
        """All ways to lay these values where no word is taken, and the words taken then."""
        if not bits:
            yield lies, taken
            return
        for first in self._firsts(self._bytes[bits[0]]):
            words = self._words(bits[0], first)
            if not taken & words:
                yield from self._laid(_with(lies, bits[0], first), taken | words, bits[1:])

    def _words(self, bit: int, first: int) -> int:
        return _run(self._bytes[bit], first)

    def _firsts(self, size: int) -> range:
        """Words at which so many bytes may begin; where there are none, one is as good as another."""
        return range((self._room - size) // WORD + 1) if size else range(1)

    def _computes(self, state: _State) -> Iterator[_Move]:
        for number, node in enumerate(self._nodes):
            if self._inputs[number] & ~state.ram or self._own[number] & state.ram:
                continue
            if state.computed >> number & 1 and not node.recomputable:
                continue
            wait_s = max(
                (late for bit, late in enumerate(state.arrives) if self._inputs[number] >> bit & 1), default=0.0
            )
            takes = self._takes[number]
            if self._clocks:
                wait_s = max([wait_s, *(state.let_go[taken] for taken in takes.values())])
            own = [bit for bit in range(len(self._values)) if self._own[number] >> bit & 1 and bit not in takes]
            for holding in self._holding(self._taken_over(state, number), own, _whole(node.workspace_bytes)):
                after = holding._replace(computed=state.computed | 1 << number)
                yield self._later(after, node.energy_j, wait_s + node.time_s)

    def _free(self, state: _State, bit: int) -> _Move:
        after = state._replace(ram=state.ram & ~(1 << bit), lies=_with(state.lies, bit, -1) if state.lies else ())
        return self._later(after, 0.0, state.let_go[bit] if self._clocks else 0.0)

    def _transfer(self, after: _State, bit: int, energy_j: float, time_s: float, arrives: bool) -> _Move:
        """Waits for the bus; with DMA the CPU goes on at once."""
        if not self._clocks:
            return self._later(after, energy_j, time_s)
        free = self._later(after, energy_j, after.bus)
        state = free.state._replace(bus=time_s, let_go=_with(free.state.let_go, bit, time_s))
        if arrives:
            state = state._replace(arrives=_with(state.arrives, bit, time_s))
        return free._replace(state=state)

    def _later(self, state: _State, energy_j: float, time_s: float) -> _Move:
        """The state once the CPU's clock has moved on."""
        if not self._counts_time:
            return _Move(state, energy_j, 0.0)
        arrives = tuple(max(0.0, late - time_s) for late in state.arrives)
        let_go = tuple(max(0.0, late - time_s) for late in state.let_go)
        after = state._replace(bus=max(0.0, state.bus - time_s), arrives=arrives, let_go=let_go)
        return _Move(after, energy_j, time_s)


def _with(entries: tuple[T, ...], place: int, entry: T) -> tuple[T, ...]:
    return (*entries[:place], entry, *entries[place + 1 :])


def _run(size: int, first: int) -> int:
    """The words that so many bytes take from one on, as bits."""
    return ((1 << size // WORD) - 1) << first


def _bits(places: Iterable[int]) -> int:
    return sum(1 << place for place in set(places))


def _whole(size: int) -> int:
    return -(-size // WORD) * WORD


class Outcome(NamedTuple):
    """``verdict`` is what the table counts; ``wrong`` says what must not be."""

    verdict: str
    wrong: str


def compare(small: Small, seconds: float, seed: int = 0) -> Outcome:
    """The planner's answer beside the least energy."""
    least_j = least_energy_j(small)
    try:
        schedule = optimise(small.graph, small.ram_bytes, small.deadline_s, OptimiseOptions(seconds, seed))
    except NoScheduleError as refusal:
        if least_j is None:
            return Outcome("none exists, none found", "")
        return Outcome("one exists, none found", f"least energy is {least_j}; {refusal}")
    if least_j is None:
        return Outcome("none exists, one found", "the verifier passes it" * verify(small.graph, schedule).sound)
    room = TOLERANCE * max(1.0, least_j)
    faults = verify(small.graph, schedule).faults
    if faults:
        return Outcome("not sound", faults[0])
    if schedule.bound_j > least_j + room:
        return Outcome("bound too high", f"bound {schedule.bound_j}, least energy {least_j}")
    if schedule.energy_j < least_j - room:
        return Outcome("below the least energy", f"{schedule.energy_j} < {least_j}")
    equal = schedule.energy_j <= least_j + room
    if schedule.status.value == "optimal":
        return (
            Outcome("proven, equal", "") if equal else Outcome("proven, but above", f"{schedule.energy_j}, {least_j}")
        )
    if equal:
        return Outcome("equal, not proven", "")
    placed_j = least_energy_j(small, offsets=True)
    if placed_j is not None and schedule.energy_j <= placed_j + room:
        return Outcome("least with offsets, not proven", f"{schedule.energy_j}; without offsets {least_j}")
    return Outcome("above, not proven", f"{schedule.energy_j}; with offsets {placed_j}, without {least_j}")


def _outcome(seed: int, most_nodes: int, in_place: bool, seconds: float) -> Outcome:
    try:
        return compare(small_instance(seed, most_nodes, in_place), seconds)
    except Exception as fault:
        return Outcome("error", f"{type(fault).__name__}: {fault}")


def main(
    graphs: Annotated[int, typer.Option(min=1, help="How many.")] = 2000,
    most_nodes: Annotated[int, typer.Option(min=2, max=9)] = 7,
    seed: Annotated[int, typer.Option(help="Of the first graph; the others count on.")] = 0,
    in_place: Annotated[bool, typer.Option(help="With nodes that take over inputs.")] = False,
    seconds: Annotated[float, typer.Option(help="The planner's time limit for a graph.")] = 10.0,
    jobs: Annotated[int, typer.Option(min=1)] = 1,
) -> None:
    """Hold the planner against all schedules of small random graphs; exit 1 if it is wrong anywhere."""
    seeds = range(seed, seed + graphs)
    outcomes = Parallel(n_jobs=jobs, return_as="generator", batch_size=20)(
        delayed(_outcome)(each, most_nodes, in_place, seconds) for each in seeds
    )
    counts: Counter[str] = Counter()
    for each, outcome in zip(seeds, outcomes, strict=True):
        counts[outcome.verdict] += 1
        if outcome.verdict not in PROVEN:
            print(f"graph {each}: {outcome.verdict} {outcome.wrong}", flush=True)
        if (each - seed + 1) % 100 == 0:
            print(f"{each - seed + 1} of {graphs}", file=sys.stderr)
    for verdict, count in counts.most_common():
        print(f"{count:6} {verdict}")
    raise SystemExit(0 if set(counts) <= PROVEN | UNPROVEN else 1)


if __name__ == "__main__":
    typer.run(main)
