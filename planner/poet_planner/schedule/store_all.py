# SPDX-License-Identifier: Apache-2.0
"""The store-all schedule: every node once, in the graph's order, each value freed after its last use.

A framework without rematerialization and paging trains like this. It is the baseline of the RAM that a plan saves and
for the energy that it adds.
"""

from __future__ import annotations

from dataclasses import replace

from poet_profiles.graph import Graph, Node, Uses
from poet_profiles.graph.file import graph_hash
from poet_profiles.graph.once import once_a_graph
from poet_profiles.graph.sizes import aligned
from poet_profiles.schedule import Action, Schedule, Status, Step

from poet_planner.graph.batch import once_j, once_s
from poet_planner.schedule.allocated import without_offsets
from poet_planner.schedule.lifetimes import Lifetime, first_fit
from poet_planner.schedule.verify import verify


@once_a_graph
def store_all_schedule(graph: Graph) -> Schedule:
    """The store-all schedule with offsets. Its RAM budget is what it needs."""
    lifetimes = _lifetimes(graph)
    offsets = first_fit(lifetimes)
    last_use = _last_uses(graph)
    for node in graph.nodes:
        offsets |= {value: offsets[taken] for value, taken in node.takes_over.items()}
    steps: list[Step] = []
    ending: dict[int, list[str]] = {}  # the values that each node reads last
    peak = live = 0
    sizes = {value.id: aligned(value.bytes) for node in graph.nodes for value in node.values}
    for index, node in enumerate(graph.nodes):
        places = {value.id: offsets[value.id] for value in node.values if value.bytes}
        steps.append(Step(Action.COMPUTE, node.id, places, offsets.get(_workspace_id(node))))
        for id in places:
            ending.setdefault(last_use.get(id, index), []).append(id)
        live += sum(sizes[id] for id in places if id not in node.takes_over)
        peak = max(peak, live + aligned(node.workspace_bytes))
        taken = set(node.takes_over.values())
        for id in (id for id in ending.get(index, ()) if id not in taken):
            steps.append(Step(Action.FREE, id))
            live -= sizes[id]
    energy_j = once_j(graph)
    arena_bytes = max((offsets[lifetime.key] + lifetime.bytes for lifetime in lifetimes), default=0)
    made = Schedule(
        graph=graph.name,
        graph_hash=graph_hash(graph),
        ram_budget_bytes=graph.resident_bytes + (peak if graph.allocates else max(arena_bytes, peak)),
        deadline_s=None,
        steps=tuple(steps),
        energy_j=energy_j,
        time_s=once_s(graph),
        peak_bytes=graph.resident_bytes + peak,
        arena_bytes=arena_bytes,
        status=Status.OPTIMAL,
        bound_j=energy_j,
        gap=0.0,
    )
    made = without_offsets(graph, made)
    overlaps = graph.dma and any(node.uses is not Uses.CPU for node in graph.nodes)
    return replace(made, time_s=verify(graph, made, check_offsets=False).time_s) if overlaps else made


def _workspace_id(node: Node) -> str:
    return f"{node.id}\0workspace"


def _last_uses(graph: Graph) -> dict[str, int]:
    """The last node that reads each value that is read."""
    return {value: index for index, node in enumerate(graph.nodes) for value in node.inputs}


def _lifetimes(graph: Graph) -> list[Lifetime[str]]:
    """Of values and workspaces, from the node that makes each to the last one that reads it.

    What takes over a value's place prolongs that value's lifetime, and has none of its own.
    """
    end = {value.id: index for index, node in enumerate(graph.nodes) for value in node.values} | _last_uses(graph)
    for node in reversed(graph.nodes):
        end |= {taken: end[value] for value, taken in node.takes_over.items()}
    lifetimes = [
        Lifetime(value.id, aligned(value.bytes), index, end[value.id])
        for index, node in enumerate(graph.nodes)
        for value in node.values
        if value.id not in node.takes_over
    ]
    lifetimes += [
        Lifetime(_workspace_id(node), aligned(node.workspace_bytes), index, index)
        for index, node in enumerate(graph.nodes)
    ]
    return [lifetime for lifetime in lifetimes if lifetime.bytes]
