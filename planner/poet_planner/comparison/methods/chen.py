# SPDX-License-Identifier: Apache-2.0
"""Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost (arXiv 1604.06174, sections 3 and 4).

The forward pass keeps some values, the checkpoints, and all of the segment after the last one. When the backward pass
misses a value of another segment, all of that segment that it still needs is computed again, from the checkpoint in
front. What is kept follows from the graph alone: every √n-th of n candidates, or the first candidate after every so
many bytes (algorithm 3). Candidates are the cuts of the graph, as in the paper, and all forward nodes, as in
Checkmate's generalisation; of both the cheaper counts. Of the segment sizes of the greedy method the cheapest that fits
counts.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator

from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.comparison.methods.instance import Events, Instance
from poet_planner.comparison.methods.linearisation import cuts
from poet_planner.planning.method import Aware, Method, Option
from poet_planner.solve import OptimiseOptions

SIZES = 40  # segment sizes that the greedy method tries, and their ratio
RATIO = 1.25


def schedule_sqrt(graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> Schedule:
    """√n: every ⌊√n⌋-th of the n candidates is a checkpoint.

    Raises
    ------
    UserError
        If it needs more RAM, or more time; or wants to compute a node again that must not be.
    """
    instance = Instance(graph, ram_bytes, deadline_s, options)
    return instance.cheapest("Chen √n", sqrt_orders(instance))


def schedule_greedy(graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> Schedule:
    """Greedy: a checkpoint after every so many bytes; raises as `schedule_sqrt`."""
    instance = Instance(graph, ram_bytes, deadline_s, options)
    return instance.cheapest("Chen greedy", greedy_orders(instance))


SOURCE = "Chen et al. 2016, arXiv 1604.06174"
SQRT = Method(
    name="chen_sqrt",
    source=f"{SOURCE}, section 4.1",
    decides="which forward values to keep: every √n-th",
    schedule=schedule_sqrt,
    recomputes=True,
    takes=(Option.TIME_LIMIT,),
)
GREEDY = Method(
    name="chen_greedy",
    source=f"{SOURCE}, algorithm 3",
    decides="which forward values to keep: one after every so many bytes",
    schedule=schedule_greedy,
    recomputes=True,
    takes=(Option.TIME_LIMIT,),
    memory_aware=Aware.PARTLY,  # it counts bytes, but knows no budget
)


def every_root(candidates: list[int]) -> list[int]:
    """Every ⌊√n⌋-th of n candidates."""
    step = max(1, math.isqrt(len(candidates)))
    return candidates[step - 1 :: step]


def spaced_by_bytes(instance: Instance, candidates: Container[int], size: float) -> list[int]:
    """The first candidate whenever the values since the one before it take more than ``size`` bytes."""
    found = []
    held = 0
    for node in range(instance.first_backward):
        held += sum(instance.size[v] for v in instance.outputs[node])
        if node in candidates and held > size:
            found.append(node)
            held = 0
    return found


def order(instance: Instance, checkpoints: Iterable[int]) -> list[int]:
    """The training step that keeps what these forward nodes yield, and the segment after the last one."""
    kept = set(checkpoints)
    segment_of: dict[int, int] = {}
    number = 0
    for node in range(instance.first_backward):
        segment_of[node] = number
        number += node in kept
    last = segment_of.get(instance.first_backward - 1, 0)
    held = set(instance.empty)
    for node, segment in segment_of.items():
        if node in kept or segment == last:
            held |= set(instance.outputs[node])
    events = list(range(instance.first_backward))
    for node in range(instance.first_backward, instance.nodes):
        missing = {
            segment_of[instance.producer[v]]
            for v in instance.inputs[node]
            if v not in held and instance.producer[v] in segment_of
        }
        wanted = [
            v
            for v in range(instance.values)
            if segment_of.get(instance.producer[v]) in missing and any(user >= node for user in instance.users[v])
        ]
        for again in instance.to_make(wanted, held):
            events.append(again)
            held |= set(instance.outputs[again])
        events.append(node)
        held |= set(instance.outputs[node])
    return events


def sqrt_orders(instance: Instance) -> Iterator[Events]:
    """Of both sets of candidates."""
    for candidates in (cuts(instance), list(range(instance.first_backward))):
        yield order(instance, every_root(candidates))


def greedy_orders(instance: Instance) -> Iterator[Events]:
    """Of all segment sizes and both sets of candidates; equal checkpoints count once."""
    total = sum(instance.size[v] for node in range(instance.first_backward) for v in instance.outputs[node])
    sizes = [0.0, *(total / RATIO**power for power in range(SIZES))]
    candidates: tuple[Container[int], ...] = (set(cuts(instance)), range(instance.first_backward))
    for kept in dict.fromkeys(tuple(spaced_by_bytes(instance, among, size)) for among in candidates for size in sizes):
        yield order(instance, kept)
