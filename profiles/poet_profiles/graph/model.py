# SPDX-License-Identifier: Apache-2.0
"""The costed training graph, `poet-graph/1` (docs/SPEC.md, section 3), as plain data.

A *node* is an operator with a cost; it yields one or several *values* that occupy RAM, live and die apart, and can be
paged out to storage. Reading and writing the JSON form is `graph.file`.
All is in SI units: seconds, joules; sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True)
class PageCost:
    """Cost of moving one value between RAM and storage, block rounding included: seconds and joules."""

    out_time_s: float
    out_energy_j: float
    in_time_s: float
    in_energy_j: float


@dataclass(frozen=True)
class Value:
    """One tensor that a node yields.

    Attributes
    ----------
    id : str
        Different from every other value's.
    bytes : int
        May be 0: then it only says that one node has to come before another.
    page : PageCost or None
        None where it cannot be paged.
    """

    id: str
    bytes: int
    page: PageCost | None = None


@dataclass(frozen=True)
class Operation:
    """What a node computes, for a device that can run the graph.

    ``operands`` and ``results`` are ids of values, residents or (operands) constants in the operator's own order.
    """

    op: str
    params: str
    operands: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Refusal:
    """Why the firmware cannot compute a node, in words: ``where`` it stands, what is missing, and the ``cure``."""

    where: str
    lacks: str
    cure: str


class Uses(StrEnum):
    """What a node is busy with while it is computed: the CPU, the one bus to the card, or both."""

    CPU = "cpu"
    BUS = "bus"
    BOTH = "both"


@dataclass(frozen=True)
class Node:
    """One operator of the training step.

    Attributes
    ----------
    id : str
        Different from every other node's.
    time_s, energy_j : float
        Of computing it once: seconds, joules. Not negative.
    card_time_s, card_energy_j : float
        Of these, what moving tensors between RAM and card takes, beside computing: no more than the whole.
    values : tuple of Value
        What it yields, all at once.
    inputs : tuple of str
        Ids of the distinct values that it needs in RAM.
    workspace_bytes : int
        RAM that it needs beside inputs and values while it is computed.
    recomputable : bool
        Whether it may be computed again.
    backward : bool
        Whether it belongs to the backward pass; for pictures.
    operation : Operation or None
        What it computes; None where only its cost is known.
    refused : Refusal or None
        Why the firmware cannot compute it.
    uses : Uses
        The bus where it moves a tensor between RAM and card, both where it computes with one that lies there.
    takes_over : mapping of str to str
        Its values that begin in the place of one of its inputs, each with that input, whose life then ends.
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
    uses: Uses = Uses.CPU
    takes_over: Mapping[str, str] = field(default_factory=dict)
    card_time_s: float = 0.0
    card_energy_j: float = 0.0


@dataclass(frozen=True)
class Part:
    """Of which tensor another is a part, and where in it, along each of its axes, the part starts."""

    of: str
    start: tuple[int, ...]


@dataclass(frozen=True)
class Resident:
    """A tensor with one place in RAM for good: parameter, gradient, state, input, target, loss or constant.

    A parameter or a state may be a ``part`` of the network's. ``dtype`` is as of a constant.
    """

    id: str
    kind: str
    bytes: int
    offset: int
    shape: tuple[int, ...] = ()
    part: Part | None = None
    dtype: str | None = None


I8, U8, I16 = "i8", "u8", "i16"


def number_bytes(dtype: str | None) -> int:
    """What a number of a tensor takes: a word, or what its ``dtype`` says."""
    return {I8: 1, U8: 1, I16: 2}.get(dtype or "", 4)


@dataclass(frozen=True)
class Constant:
    """A tensor in the chip's flash, which no step changes: it is read where it lies and takes no RAM.

    Attributes
    ----------
    offset : int
        From the start of the table of all constants: bytes, a multiple of 4.
    crc32 : str
        Of its bytes as they lie there (IEEE): 8 hex digits.
    dtype : str, optional
        ``i8`` or ``u8``, of a byte a number, or ``i16``, of two; otherwise each has four.
    """

    id: str
    bytes: int
    offset: int
    shape: tuple[int, ...]
    crc32: str
    dtype: str | None = None


@dataclass(frozen=True)
class Kept:
    """A tensor that lies on the card from step to step: parameter, state, constant, or the batches of input or target.

    ``bytes`` and ``shape`` are of one batch. Within a step it never changes; a parameter or a state has one node that
    writes its next version, and may be a ``part`` of the network's. One that lies by ``rows`` is read and written row
    by row; otherwise they are 1. ``dtype`` is as of a constant.
    """

    id: str
    kind: str
    bytes: int
    shape: tuple[int, ...] = ()
    part: Part | None = None
    rows: int = 1
    dtype: str | None = None


@dataclass(frozen=True)
class Graph:
    """A training step.

    Attributes
    ----------
    name : str
    nodes : tuple of Node
        In a topological order.
    resident_bytes : int
        RAM of what is there throughout: parameters, gradients, the batch.
    dma : bool
        Whether page transfers run beside compute.
    residents : tuple of Resident
        Where each of those tensors lies; may be empty where only the bytes are known.
    constants : tuple of Constant
        What lies in flash.
    kept : tuple of Kept
        What lies on the card, in its order there.
    allocates : bool
        Whether what runs the step allocates its values itself, as PyTorch does: its schedules have no offsets.
    micro_batches : int
        In how many equal parts a batch goes through the nodes, one part after the other. Gradients and losses are
        added up, and what changes parameters comes once, after the last part. Costs are those of one part.
    source : str
        What the costs rest on, as in a profile (``emulated``, ``measured+published``); empty if it is not known.
    """

    name: str
    nodes: tuple[Node, ...]
    resident_bytes: int = 0
    dma: bool = False
    residents: tuple[Resident, ...] = ()
    constants: tuple[Constant, ...] = ()
    kept: tuple[Kept, ...] = ()
    allocates: bool = False
    micro_batches: int = 1
    source: str = ""
