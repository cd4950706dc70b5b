# SPDX-License-Identifier: Apache-2.0
"""Whether a step is cut in two, and where: what its frozen part makes of a sample is computed once and kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from poet_profiles.graph import Graph
from poet_profiles.graph.kept import BATCH_KINDS

from poet_planner.features.cut import Cut, least_cut
from poet_planner.features.fixed import fixed_nodes
from poet_planner.graph.layout import Parameters
from poet_planner.planning.request import Request

NORM_UPDATE = "batch_norm_update"
WORD_BYTES = 4  # a sample's part of what is kept begins at a word
LEAST_SHARE = 0.1  # of a step's energy that has to be the same in every epoch, for keeping it to be worth its rules


@dataclass(frozen=True)
class Division:
    """Where a step is ``cut``, None where it stays whole, and what a user should know of that."""

    cut: Cut | None = None
    note: str = ""


def where_to_cut(request: Request) -> Division:
    """The cut with which an epoch takes the least energy, if the frozen part takes a tenth of a step's at least.

    Raises
    ------
    UserError
        If the model cannot be traced, or the profile lacks rows that are needed.
    """
    step, board, costs = request.training_step, request.target_board, request.cost_model
    in_ram = request.parameters in (Parameters.AUTO, Parameters.RESIDENT) and request.parts in (None, 1)
    if step is None or board is None or costs is None or board.kind != "microcontroller" or not in_ram:
        return Division()
    if not step.traced.frozen:
        return Division()
    graph = costs.apply(step.graph(board, optimizer=request.optimizer)).graph
    if not _has_samples(graph):
        return Division()
    fixed = fixed_nodes(graph)
    if _energy_j(graph, fixed) < LEAST_SHARE * _energy_j(graph, {node.id for node in graph.nodes}):
        return Division()
    from poet_planner.features.independent import independent_values  # PyTorch: a costed graph needs none

    inputs = {one.id for one in graph.residents if one.kind == "input"}
    alone = independent_values(step.model, step.traced) | inputs

    def read_j(id: str, size: int) -> float:
        return 0.0 if id in alone and size % (WORD_BYTES * step.samples) == 0 else inf

    cut = least_cut(graph, fixed, read_j)
    return Division(cut) if cut.once else Division(note=_mixing(graph, fixed - alone))


def _has_samples(graph: Graph) -> bool:
    """Whether all inputs and targets have the same number of samples, along their first axes."""
    counts = {one.shape[:1] for one in graph.residents if one.kind in BATCH_KINDS}
    return len(counts) == 1 and counts != {()}


def _energy_j(graph: Graph, nodes: Iterable[str]) -> float:
    chosen = set(nodes)
    return sum(node.energy_j for node in graph.nodes if node.id in chosen)


def _mixing(graph: Graph, mixing: frozenset[str]) -> str:
    """The first of them: a frozen batch norm that was left in training mode is the usual one."""
    node = next((one for one in graph.nodes if one.id in mixing), None)
    if node is None or node.operation is None:
        return ""
    updated = {one.operation.operands[0] for one in graph.nodes if one.operation and one.operation.op == NORM_UPDATE}
    if updated & {*node.operation.results}:
        return f"features are not kept: {node.id} is frozen, but in training mode; call eval() on it"
    return f"features are not kept: {node.id} mixes the samples of a batch"
