# SPDX-License-Identifier: Apache-2.0
"""Tensors in parts: cut and joined, in the file, in the hash; what does not make a whole is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from poet_profiles.errors import FaultError
from poet_profiles.graph import Graph, Node, Part, Resident, Value
from poet_profiles.graph.file import document_of_graph, graph_from_document, graph_hash
from poet_profiles.graph.parts import cut_from, joined
from poet_profiles.graph.validation import check_graph


@st.composite
def _cuts(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Resident]]:
    """A shape, and the residents that a tensor of it is cut into, by a grid of planes in any places."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    planes = [sorted({0, extent, *draw(st.lists(st.integers(0, extent), max_size=2))}) for extent in shape]
    parts = []
    for number, box in enumerate(product(*(pairwise(along) for along in planes))):
        own = tuple(end - begin for begin, end in box)
        start = tuple(begin for begin, _ in box)
        parts.append(Resident(f"w..{number}", "parameter", 4 * int(np.prod(own)), 0, own, Part("w", start)))
    return shape, parts


@given(_cuts(), st.booleans())
def test_what_is_cut_becomes_whole_again(cut: tuple[tuple[int, ...], list[Resident]], steps: bool) -> None:
    shape, parts = cut
    full = (3, *shape) if steps else shape
    whole = np.arange(np.prod(full), dtype=np.float32).reshape(full)
    other = np.zeros(2, np.float32)
    arrays = {part.id: np.ascontiguousarray(cut_from(part, whole)) for part in parts}
    assert all(arrays[part.id].shape[steps:] == part.shape for part in parts)
    found = joined([*parts, Resident("b", "state", 8, 0, (2,))], {**arrays, "b": other})
    assert found.keys() == {"w", "b"}
    np.testing.assert_array_equal(found["w"], whole)
    assert found["b"] is other


def _graph(*residents: Resident) -> Graph:
    node = Node("a", 1.0, 1.0, (Value("a", 4),))
    placed = [replace(resident, offset=100 * place) for place, resident in enumerate(residents)]
    return Graph("parts", (node,), 100 * len(placed), residents=tuple(placed))


UPPER = Resident("w..0", "parameter", 16, 0, (2, 2), Part("w", (0, 0)))
LOWER = Resident("w..1", "parameter", 8, 0, (1, 2), Part("w", (2, 0)))


def test_parts_come_back_from_the_file_and_are_of_the_hash() -> None:
    graph = _graph(UPPER, LOWER)
    assert graph_from_document(document_of_graph(graph)) == graph
    turned = _graph(replace(UPPER, part=Part("w", (1, 0))), replace(LOWER, part=Part("w", (0, 0))))
    check_graph(turned)
    whole = _graph(*(replace(part, part=None) for part in (UPPER, LOWER)))
    assert len({graph_hash(one) for one in (graph, turned, whole)}) == 3


@pytest.mark.parametrize(
    ("residents", "fault"),
    [
        ((UPPER,), ""),
        ((LOWER,), "the parts of w do not make one whole tensor"),
        ((UPPER, replace(LOWER, part=Part("w", (1, 0)))), "the parts of w do not make one whole tensor"),
        ((UPPER, replace(LOWER, part=Part("w", (3, 0)))), "the parts of w do not make one whole tensor"),
        ((UPPER, replace(LOWER, kind="state")), "the parts of w do not make one whole tensor"),
        ((UPPER, replace(LOWER, shape=(2,), part=Part("w", (2,)))), "the parts of w have different numbers of axes"),
        ((UPPER, replace(LOWER, part=Part("w", (2,)))), 'w..1: its "part" and its bytes do not go with its shape'),
        ((UPPER, replace(LOWER, bytes=12)), 'w..1: its "part" and its bytes do not go with its shape'),
        ((UPPER, LOWER, Resident("w", "state", 8, 0, (2,))), "w is there whole and in parts"),
    ],
)
def test_each_rule_is_checked(residents: tuple[Resident, ...], fault: str) -> None:
    if not fault:
        check_graph(_graph(*residents))
        return
    with pytest.raises(FaultError) as raised:
        check_graph(_graph(*residents))
    assert str(raised.value) == fault


@pytest.mark.parametrize(
    "damage",
    [
        lambda part: part.pop("of"),
        lambda part: part.update(of=3),
        lambda part: part.update(start="0"),
        lambda part: part.update(start=[0, -1]),
        lambda part: part.update(start=[0, True]),
    ],
)
def test_a_part_that_is_none_is_refused(damage: Callable[[dict[str, object]], object]) -> None:
    document = document_of_graph(_graph(UPPER, LOWER))
    damage(document["residents"][0]["part"])
    with pytest.raises(FaultError) as raised:
        graph_from_document(document)
    assert str(raised.value) == 'resident w..0: "part" must have "of", an id, and "start", a list of places'
