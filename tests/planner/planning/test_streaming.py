# SPDX-License-Identifier: Apache-2.0
"""What of the card is read tile by tile, and what is in slices: as little as leaves room, or what is asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from poet_planner import models
from poet_planner.models import Model
from poet_planner.models.transformer import BERT_BASE_16, Bert
from poet_planner.planning.pipeline import plan, prepare
from poet_planner.solve import OptimiseOptions
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


def test_a_layer_of_bert_base_is_planned_for_256_kb() -> None:
    """Its attention takes whole values, the wide part between two norms is in slices."""
    size = replace(BERT_BASE_16, layers=1, vocabulary=64)
    token_ids, label = torch.randint(64, (1, 16)), torch.randint(2, (1,))
    model = Model("layer", Bert(size), (token_ids,), (label,), torch.nn.functional.cross_entropy)
    made = plan(model, profile="nrf52840", options=OptimiseOptions(time_limit_s=1))
    parts = {kept.part.of for kept in made.graph.kept if kept.part}
    assert parts == {f"layers.0.{name}" for name in ("wide.weight", "wide.bias", "narrow.weight")}
    assert made.why_no_headers is None
    assert made.summary.gap < 0.1
    assert sum(kept.bytes for kept in made.graph.kept) > 28e6 > 100 * made.schedule.peak_bytes


def test_bert_base_has_the_published_size() -> None:
    published = 109_482_240  # of bert-base-uncased, without a classifier
    positions, token_types, classifier = 496 * 768, 2 * 768, 2 * 768 + 2
    assert sum(models.trained_bytes("bert_base_16")) == 4 * (published - positions - token_types + classifier)
