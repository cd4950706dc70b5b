# SPDX-License-Identifier: Apache-2.0
"""What of the card is read tile by tile, and what is in slices: as little as leaves room, or what is asked for."""

from __future__ import annotations

import pytest
from poet_planner.planning.pipeline import prepare
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import smallest_ram_bytes


def streamed_bytes(graph: Graph) -> list[int]:
    """Sizes of the tensors that operators read themselves."""
    sizes = {tensor.id: tensor.bytes for tensor in graph.kept}
    operations = [node.operation for node in graph.nodes if node.operation and node.operation.op != "fetch"]
    return sorted(sizes[id] for id in {id for one in operations for id in one.operands} & sizes.keys())


@pytest.mark.parametrize(
    ("ram", "streamed"), [("200KB", []), ("90KB", [73728]), (None, [18432, 61440, 73728])], ids=["none", "one", "three"]
)
def test_no_more_is_streamed_than_leaves_room(ram: str | None, streamed: list[int]) -> None:
    prepared = prepare("cnn_40k", profile="mkr1000", parameters="card", ram=ram)
    assert smallest_ram_bytes(prepared.graph) <= 0.9 * prepared.residency.budget_bytes
    assert streamed_bytes(prepared.graph) == streamed


def test_the_size_can_be_stated() -> None:
    graph = prepare("cnn_40k", profile="mkr1000", parameters="card", ram="200KB", stream_above="64KB").graph
    assert streamed_bytes(graph) == [73728]


@pytest.mark.parametrize("stream_above", [None, "4KB"])
def test_activations_are_in_slices_where_nothing_else_leaves_room(stream_above: str | None) -> None:
    prepared = prepare("mlperf_ds_cnn", profile="nrf52840", parameters="card", ram="90KB", stream_above=stream_above)
    graph, residency = prepared.graph, prepared.residency
    assert smallest_ram_bytes(graph) <= 0.9 * residency.budget_bytes
    parts = {tensor.part.of for tensor in (*graph.residents, *graph.kept) if tensor.part}
    assert "large activations are in slices" in residency.note
    assert f"{len(parts)} parameters and statistics in parts" in residency.note


def test_nothing_is_in_slices_where_there_is_room() -> None:
    prepared = prepare("mlperf_ds_cnn", profile="nrf52840", parameters="card")
    assert not any(tensor.part for tensor in (*prepared.graph.residents, *prepared.graph.kept))
    assert not prepared.residency.note
