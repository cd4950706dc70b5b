# SPDX-License-Identifier: Apache-2.0
"""What a plan recomputes and pages, and why: each time that something leaves RAM and comes back."""

from __future__ import annotations

from dataclasses import dataclass

from poet_profiles.graph import Graph, Node
from poet_profiles.graph.sizes import aligned
from poet_profiles.schedule import Action, Schedule

from poet_planner.schedule.timeline import CostTerm, Moment


@dataclass(frozen=True)
class Absence:
    """Values of one node that were not in RAM for a while."""

    how: CostTerm  # in what way they came back: recomputed, fetched again, or paged in
    target: str  # the node computed again, or the value paged in
    bytes: int  # what they take in RAM: freed for that while
    # from_s, to_s: from when on they were gone, and when bringing them back began.
    from_s: float
    to_s: float
    energy_j: float  # what that cost; of a page-out the first absence after it bears the cost
    fullest_bytes: int  # the most RAM that was held meanwhile
    fullest_at: str  # the node that was computed then, or whose value was moved
    needed_by: str  # the next node that reads what came back; empty if none does


def absences(graph: Graph, schedule: Schedule, moments: list[Moment]) -> list[Absence]:
    """Every recomputation and page-in of a sound schedule, in the order of time; ``moments`` are its timeline."""
    nodes = {node.id: node for node in graph.nodes}
    sizes = {value.id: aligned(value.bytes) for node in graph.nodes for value in node.values}
    gone: dict[str, int] = {}
    paid_j: dict[str, float] = {}
    found = []
    for row, (step, moment) in enumerate(zip(schedule.steps, moments, strict=True)):
        if step.do is Action.FREE:
            gone[step.target] = row
            continue
        if step.do is Action.PAGE_OUT:
            paid_j[step.target] = paid_j.get(step.target, 0.0) + moment.energy_j
            continue
        back = [step.target] if step.do is Action.PAGE_IN else [value.id for value in nodes[step.target].values]
        if moment.kind is not CostTerm.COMPUTE:
            came = [value for value in back if value in gone]
            since = max((gone[value] for value in came), default=row)
            fullest = max(moments[since + 1 : row], key=lambda m: m.ram_bytes, default=moment)
            paid = paid_j.pop(step.target, 0.0) if step.do is Action.PAGE_IN else 0.0
            found.append(
                Absence(
                    how=moment.kind,
                    target=step.target,
                    bytes=sum(sizes[value] for value in came),
                    from_s=moments[since].end_s,
                    to_s=moment.start_s,
                    energy_j=moment.energy_j + paid,
                    fullest_bytes=fullest.ram_bytes,
                    fullest_at=fullest.node,
                    needed_by=_next_reader(schedule, row, nodes, set(back)),
                )
            )
        for value in back:
            gone.pop(value, None)
        if step.do is Action.COMPUTE:
            gone |= dict.fromkeys(nodes[step.target].takes_over.values(), row)
    return found


def _next_reader(schedule: Schedule, row: int, nodes: dict[str, Node], values: set[str]) -> str:
    for step in schedule.steps[row + 1 :]:
        if step.do is Action.COMPUTE and values.intersection(nodes[step.target].inputs):
            return step.target
    return ""
