# SPDX-License-Identifier: Apache-2.0
"""What has a place in RAM for good: parameters and their gradients, or only what a small board can afford."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph, Node
from poet_profiles.graph.sizes import aligned, smallest_ram_bytes

if TYPE_CHECKING:
    from poet_planner.planning.task import Task

_BATCH_KINDS = ("input", "target", "loss", "constant")


class Parameters(StrEnum):
    """Whether parameters, gradients and optimiser state count in RAM."""

    AUTO = "auto"
    RESIDENT = "resident"
    EXCLUDED = "excluded"


class Gradients(StrEnum):
    """Whether gradients have places of their own, or are values that come, are paged and go."""

    AUTO = "auto"
    RESIDENT = "resident"
    PAGED = "paged"


@dataclass(frozen=True)
class Residency:
    """What was chosen to be resident.

    Attributes
    ----------
    task : Task
        With what is resident counted in its graph.
    budget_bytes : int
        RAM budget, resident tensors included.
    excluded_bytes : int
        Parameters, gradients and state that are left out of the RAM.
    note : str
        What the user should hear about the choice; empty where there was none.
    """

    task: Task
    budget_bytes: int
    excluded_bytes: int = 0
    note: str = ""


def choose_residents(
    build: Callable[[bool], Task],
    parameters: Parameters,
    gradients: Gradients,
    budget_bytes: Callable[[Task], int],
) -> Residency:
    """Choose what is resident.

    Where gradients leave no room for the largest node, they become values; where parameters alone exceed the budget,
    they are left out, as the POET paper leaves them out.

    Parameters
    ----------
    build : callable
        The task, with gradients resident or not.
    budget_bytes : callable
        RAM budget of a task. Where gradients become values because they do not fit, the budget stays that by which
        they do not; without parameters it is that of what is left.

    Raises
    ------
    UserError
        If gradients are to become values in a graph that has no such form, or are asked for where they do not count.
    """
    if parameters is Parameters.EXCLUDED:
        if gradients is not Gradients.AUTO:
            raise UserError(f"--gradients {gradients}: with --parameters excluded they are not in RAM; leave it out")
        return _excluded(build(True), budget_bytes)
    task = build(True)
    if gradients is Gradients.PAGED:
        resident, task = task, build(False)
        if task.graph == resident.graph:
            raise UserError("--gradients paged is for models on microcontrollers: leave it out")
    budget = budget_bytes(task)
    if smallest_ram_bytes(task.graph) <= budget:
        return Residency(task, budget)
    if gradients is Gradients.AUTO:
        paged = build(False)
        if smallest_ram_bytes(paged.graph) <= budget and paged.graph.resident_bytes < task.graph.resident_bytes:
            note = "gradients have no places of their own in RAM (--gradients resident gives them)"
            return Residency(paged, budget, note=note)
    if parameters is Parameters.AUTO and task.graph.residents and task.graph.resident_bytes > budget:
        return _excluded(build(True), budget_bytes)
    return Residency(task, budget)


def _excluded(task: Task, budget_bytes: Callable[[Task], int]) -> Residency:
    graph = without_parameters(task.graph)
    excluded_bytes = task.graph.resident_bytes - graph.resident_bytes
    note = (
        f"parameters, gradients and state ({excluded_bytes} B) are NOT counted in RAM, as in the paper: the plan shows "
        "what activations cost, and gets no C headers (--parameters resident counts them)"
    )
    without = replace(task, graph=graph, constants={})
    return Residency(without, budget_bytes(without), excluded_bytes, note)


def without_parameters(graph: Graph) -> Graph:
    """The same graph with parameters, gradients and state in a region of their own, as the POET paper counts RAM.

    It has no residents, so that no firmware takes it for something it could run.
    """
    batch = sum(aligned(r.bytes) for r in graph.residents if r.kind in _BATCH_KINDS)
    name, nodes = f"{graph.name}, parameters excluded", _statistics_at_once(graph)
    return replace(graph, name=name, nodes=nodes, resident_bytes=batch, residents=(), constants=())


def _statistics_at_once(graph: Graph) -> tuple[Node, ...]:
    """Nodes with every update of running statistics right behind what it reads.

    Only a board that runs the step has to keep what they read until its end.
    """
    empty = {value.id for node in graph.nodes for value in node.values if value.bytes == 0}
    updates = [node for node in graph.nodes if node.operation and node.operation.op == "batch_norm_update"]
    if not updates:
        return graph.nodes
    at_once = {node.id: replace(node, inputs=tuple(id for id in node.inputs if id not in empty)) for node in updates}
    nodes = []
    for node in graph.nodes:
        if node.id in at_once:
            continue
        if node.operation is None:
            node = replace(node, inputs=tuple(id for id in node.inputs if id in empty))
        nodes.append(node)
        made = {value.id for value in node.values}
        nodes += [update for update in at_once.values() if made.intersection(update.inputs)]
    return tuple(nodes)
