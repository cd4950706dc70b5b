# SPDX-License-Identifier: Apache-2.0
"""The costed training graph, `poet-graph/1` (docs/SPEC.md, section 3), as plain data.

A *node* is an operator with a cost; it yields one or several *values* that occupy RAM, live and die apart, and can be
paged out to storage. Reading and writing the JSON form is `graph_file`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PageCost:
    """Cost of moving one value between RAM and storage, block rounding included."""

    out_time_s: float
    out_energy_j: float
    in_time_s: float
    in_energy_j: float


@dataclass(frozen=True)
class Value:
    """One tensor that a node yields. ``page`` is None where it cannot be paged."""

    id: str
    bytes: int
    page: PageCost | None = None


@dataclass(frozen=True)
class Operation:
    """What a node computes, for a device that can run the graph.

    ``operands`` and ``results`` are value or resident ids in the operator's own order.
    """

    op: str
    params: str
    operands: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Refusal:
    """Why the firmware cannot compute a node, in words: ``where`` it stands, what is lacking, and the ``cure``."""

    where: str
    lacks: str
    cure: str


@dataclass(frozen=True)
class Node:
    """One operator of the training step.

    ``inputs`` are the ids of the distinct values it needs in RAM; ``refused`` says why the firmware cannot compute it.
    """

    id: str
    time_s: float
    energy_j: float
    values: tuple[Value, ...]
    inputs: tuple[str, ...] = ()
    workspace_bytes: int = 0
    recomputable: bool = True
    backward: bool = False
    operation: Operation | None = None
    refused: Refusal | None = None


@dataclass(frozen=True)
class Resident:
    """A tensor with one place in RAM for good: parameter, gradient, state, input, target, loss or constant."""

    id: str
    kind: str
    bytes: int
    offset: int
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Graph:
    """A training step. ``nodes`` stand in a topological order."""

    name: str
    nodes: tuple[Node, ...]
    resident_bytes: int = 0
    dma: bool = False
    residents: tuple[Resident, ...] = ()
