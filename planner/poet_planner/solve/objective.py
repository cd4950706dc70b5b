# SPDX-License-Identifier: Apache-2.0
"""Time as the objective: the optimiser plans at one watt, where a second costs a joule.

The time is the sum over all computes and transfers. A transfer beside a compute counts in full: where pages cost
nothing, a schedule pages for nothing.
"""

from __future__ import annotations

from dataclasses import replace

from poet_profiles.graph import Graph, Node, Value
from poet_profiles.schedule import Action, Objective, Schedule

from poet_planner.graph.batch import nodes_of_batch, once_j


def at_one_watt(graph: Graph) -> Graph:
    """``graph`` with seconds in the place of joules."""
    return replace(graph, nodes=tuple(_node_at_one_watt(node) for node in graph.nodes))


def by_time(graph: Graph, schedule: Schedule) -> Schedule:
    """A schedule of `at_one_watt` as one of ``graph``, with its energy there and its bound in seconds.

    Its bound on the energy is that of every schedule: each node is computed once.
    """
    nodes = {node.id: node for node in nodes_of_batch(graph)}
    values = {value.id: value for node in nodes.values() for value in node.values}
    energy_j = 0.0
    for step in schedule.steps:
        if step.do is Action.COMPUTE:
            energy_j += nodes[step.target].energy_j
        elif (page := values[step.target].page) is not None and step.do is not Action.FREE:
            energy_j += page.out_energy_j if step.do is Action.PAGE_OUT else page.in_energy_j
    bound_j = min(energy_j, once_j(graph))
    return replace(schedule, objective=Objective.TIME, energy_j=energy_j, bound_j=bound_j, bound_s=schedule.bound_j)


def _node_at_one_watt(node: Node) -> Node:
    return replace(node, energy_j=node.time_s, values=tuple(_value_at_one_watt(value) for value in node.values))


def _value_at_one_watt(value: Value) -> Value:
    page = value.page
    if page is None:
        return value
    return replace(value, page=replace(page, out_energy_j=page.out_time_s, in_energy_j=page.in_time_s))
