# SPDX-License-Identifier: Apache-2.0
"""Blocks of the card: no two tensors share one, whatever the graph keeps."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from poet_profiles.card.layout import BLOCK_BYTES, FIRST_BLOCK, CardLayout, check_of, lay_out, padded


@dataclass(frozen=True)
class Tensor:
    id: str
    kind: str
    bytes: int
    rows: int = 1


@st.composite
def kept(draw: st.DrawFn) -> tuple[list[Tensor], list[str]]:
    kinds = draw(st.lists(st.sampled_from(["parameter", "state", "constant", "input", "target"]), max_size=12))
    sizes, rows = st.integers(1, 5 * BLOCK_BYTES), st.integers(1, 4)
    tensors = []
    for number, kind in enumerate(kinds):
        count = 1 if kind in ("input", "target") else draw(rows)
        tensors.append(Tensor(f"t{number}", kind, count * draw(sizes), count))
    trained = [tensor.id for tensor in tensors if tensor.kind in ("parameter", "state")]
    return tensors, draw(st.permutations(trained))


def spans(layout: CardLayout, batches: int) -> list[tuple[int, int]]:
    """First block of everything that a card holds, and the block after it, as SPEC's section 7 counts them."""
    found = []
    for place in layout.units:
        rows = [(row, second) for row in range(place.rows) for second in (False, True)]
        found += [(layout.home_block(place, row, second), place.bytes // place.rows) for row, second in rows]
    for place in layout.constants:
        found += [(place.row_block(row), place.bytes // place.rows) for row in range(place.rows)]
    found += [(layout.batch_block(place, n), place.bytes + 4) for n in range(batches) for place in layout.batch]
    return sorted((block, block + -(-size // BLOCK_BYTES)) for block, size in found)


@given(given=kept(), resident_bytes=st.integers(0, 3000), batches=st.integers(0, 4))
def test_tensors_fill_the_area_up_to_the_pages_without_gap_or_overlap(
    given: tuple[list[Tensor], list[str]], resident_bytes: int, batches: int
) -> None:
    tensors, written = given
    layout = lay_out(tensors, written, resident_bytes)
    edges = spans(layout, batches)
    assert [begin for begin, _ in edges] == [FIRST_BLOCK, *(end for _, end in edges)][: len(edges)]
    assert layout.page_block(batches) == (edges[-1][1] if edges else FIRST_BLOCK)


@given(given=kept(), resident_bytes=st.integers(0, 3000))
def test_units_are_in_the_order_of_their_writers_and_the_residents_last(
    given: tuple[list[Tensor], list[str]], resident_bytes: int
) -> None:
    tensors, written = given
    layout = lay_out(tensors, written, resident_bytes)
    assert [place.id for place in layout.units] == [*written, *([""] if resident_bytes else [])]
    assert [place.id for place in layout.constants] == [t.id for t in tensors if t.kind == "constant"]
    assert [place.id for place in layout.batch] == [t.id for t in tensors if t.kind in ("input", "target")]
    homes = [layout.home_block(place, row, False) for place in layout.units for row in range(place.rows)]
    assert len(homes) == layout.bits
    assert layout.first_bits == tuple(sum(place.rows for place in layout.units[:n]) for n in range(len(layout.units)))
    assert homes == sorted(homes), "a step's writes go up through the card"


def test_an_example_by_hand() -> None:
    tensors = [
        Tensor("input", "input", 600),
        Tensor("a", "parameter", 512),
        Tensor("table", "constant", 1),
        Tensor("b", "parameter", 513),
        Tensor("target", "target", 4),
    ]
    layout = lay_out(tensors, ["b", "a"], 100)
    assert [(place.id, place.block) for place in layout.units] == [("b", 2048), ("a", 2050), ("", 2051)]
    assert layout.home_blocks == 4
    assert layout.home_block(layout.units[1], 0, True) == 2054
    assert [(place.id, place.block) for place in layout.constants] == [("table", 2056)]
    assert [(place.id, place.block) for place in layout.batch] == [("input", 2057), ("target", 2059)]
    assert layout.batch_blocks == 3
    assert layout.batch_block(layout.batch[1], 10) == 2089
    assert layout.page_block(10) == 2087


def test_three_homes_where_steps_are_kept_together() -> None:
    tensors = [Tensor("a", "parameter", 512), Tensor("table", "constant", 1)]
    layout = lay_out(tensors, ["a"], 100, 10)
    assert (layout.home_blocks, layout.bits, layout.constants[0].block) == (2, 4, 2048 + 3 * 2)
    assert [layout.home_block(layout.units[0], 0, home) for home in range(3)] == [2048, 2050, 2052]


def test_a_table_by_rows_by_hand() -> None:
    tensors = [Tensor("table", "parameter", 3 * 600, 3), Tensor("a", "parameter", 512), Tensor("old", "constant", 8, 2)]
    layout = lay_out(tensors, ["a", "table"], 4)
    assert [(place.id, place.block) for place in layout.units] == [("a", 2048), ("table", 2049), ("", 2055)]
    assert (layout.home_blocks, layout.bits, layout.first_bits) == (8, 5, (0, 1, 4))
    assert layout.home_block(layout.units[1], 2, True) == 2049 + 2 * 2 + 8
    assert [place.row_block(1) for place in layout.constants] == [2065]
    content = bytes(range(200)) * 9
    assert padded(layout.units[1], content) == b"".join(content[at : at + 600] + bytes(424) for at in (0, 600, 1200))
    crcs = [zlib.crc32(content[at : at + 600], number) for number, at in enumerate((0, 600, 1200))]
    assert check_of(layout.units[1], content) == sum(crcs) % 2**32
    assert check_of(layout.units[0], content[:512]) == zlib.crc32(content[:512])
