# SPDX-License-Identifier: Apache-2.0
"""Blocks of the card: no two tensors share one, whatever the graph keeps."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from poet_profiles.card.layout import BLOCK_BYTES, FIRST_BLOCK, CardLayout, lay_out


@dataclass(frozen=True)
class Tensor:
    id: str
    kind: str
    bytes: int


@st.composite
def kept(draw: st.DrawFn) -> tuple[list[Tensor], list[str]]:
    kinds = draw(st.lists(st.sampled_from(["parameter", "state", "constant", "input", "target"]), max_size=12))
    sizes = st.integers(1, 5 * BLOCK_BYTES)
    tensors = [Tensor(f"t{number}", kind, draw(sizes)) for number, kind in enumerate(kinds)]
    trained = [tensor.id for tensor in tensors if tensor.kind in ("parameter", "state")]
    return tensors, draw(st.permutations(trained))


def spans(layout: CardLayout, batches: int) -> list[tuple[int, int]]:
    """First block of everything that a card holds, and the block behind it, as SPEC's section 7 counts them."""
    found = []
    for number, place in enumerate(layout.units):
        found += [(layout.unit_block(number, second), place.bytes) for second in (False, True)]
    found += [(place.block, place.bytes) for place in layout.constants]
    found += [(layout.batch_block(place, n), place.bytes) for n in range(batches) for place in layout.batch]
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
    homes = [layout.unit_block(unit, False) for unit in range(len(layout.units))]
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
    assert layout.unit_block(1, True) == 2054
    assert [(place.id, place.block) for place in layout.constants] == [("table", 2056)]
    assert [(place.id, place.block) for place in layout.batch] == [("input", 2057), ("target", 2059)]
    assert layout.batch_blocks == 3
    assert layout.batch_block(layout.batch[1], 10) == 2089
    assert layout.page_block(10) == 2087
