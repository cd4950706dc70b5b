# SPDX-License-Identifier: Apache-2.0
"""Where kept tensors lie on the card (docs/SPEC.md, section 7): a function of the graph alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from poet_profiles.graph.kept import BATCH_KINDS, TRAINED_KINDS
from poet_profiles.graph.model import Graph
from poet_profiles.graph.sizes import aligned

BLOCK_BYTES = 512
DATA_BLOCK = 2048  # the first that is neither the label's nor a record's
RECORD_HEADER_BYTES = 52  # its words that are there whatever the graph is


@dataclass(frozen=True)
class CardLayout:
    """Blocks are counted from `DATA_BLOCK`.

    Attributes
    ----------
    units : dict of str to int
        Number of each kept tensor that a node writes.
    resident_unit_bytes : int
        Of the residents that outlive a step, in one piece: the last unit; 0 where there are none.
    resident_block : int
        Of that unit's first home.
    constants : tuple of str
        The kept tensors that nothing writes, but for batches.
    blocks : dict of str to int
        First block of each kept tensor: of its first or only home, or in batch 0.
    home_blocks : int
        Of the first homes of all units; the second ones lie so far behind them.
    batch_block, batch_blocks : int
        Where batch 0 begins, and how many blocks a batch takes.
    """

    units: dict[str, int]
    resident_unit_bytes: int
    resident_block: int
    constants: tuple[str, ...]
    blocks: dict[str, int]
    home_blocks: int
    batch_block: int
    batch_blocks: int

    @property
    def unit_count(self) -> int:
        """Units, that of the residents among them."""
        return len(self.units) + bool(self.resident_unit_bytes)

    @property
    def record_bytes(self) -> int:
        """Of a record, from its begin to its end."""
        words = -(-self.unit_count // 32) + self.unit_count + len(self.constants)
        return RECORD_HEADER_BYTES + 4 * words


def card_layout(graph: Graph) -> CardLayout:
    """The layout of a sound graph's kept tensors."""
    sizes = {kept.id: kept.bytes for kept in graph.kept}
    written = [result for node in graph.nodes for result in (node.operation.results if node.operation else ())]
    units = [id for id in dict.fromkeys(written) if id in sizes]
    batch = [kept.id for kept in graph.kept if kept.kind in BATCH_KINDS]
    constants = [kept.id for kept in graph.kept if kept.id not in {*units, *batch}]
    blocks, resident_block = _in_turn(units, sizes, 0)
    resident_bytes = sum(aligned(r.bytes) for r in graph.residents if r.kind in TRAINED_KINDS)
    home_blocks = resident_block + blocks_of(resident_bytes)
    constant_blocks, batch_block = _in_turn(constants, sizes, 2 * home_blocks)
    batch_blocks, end = _in_turn(batch, sizes, batch_block)
    return CardLayout(
        units={id: number for number, id in enumerate(units)},
        resident_unit_bytes=resident_bytes,
        resident_block=resident_block,
        constants=tuple(constants),
        blocks=blocks | constant_blocks | batch_blocks,
        home_blocks=home_blocks,
        batch_block=batch_block,
        batch_blocks=end - batch_block,
    )


def blocks_of(size: int) -> int:
    """Blocks that so many bytes take."""
    return -(-size // BLOCK_BYTES)


def _in_turn(ids: Iterable[str], sizes: dict[str, int], block: int) -> tuple[dict[str, int], int]:
    """First block of each, one behind the other from ``block`` on, and the block behind them."""
    places = {}
    for id in ids:
        places[id] = block
        block += blocks_of(sizes[id])
    return places, block
