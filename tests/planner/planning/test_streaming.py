# SPDX-License-Identifier: Apache-2.0
"""What of the card is read tile by tile, and what is in slices: what is cheapest, or what is asked for."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from itertools import product
from math import inf

import pytest
import torch
from poet_planner import NoScheduleError, models, plan
from poet_planner.models import Model
from poet_planner.models.transformer import BERT_BASE_16, Bert
from poet_planner.planning.pipeline import prepare
from poet_planner.planning.request import Request
from poet_planner.solve import OptimiseOptions
from poet_profiles.firmware.operators import parse_params
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import smallest_ram_bytes


def streamed_bytes(graph: Graph) -> list[int]:
    """Sizes of the tensors that operators read themselves."""
    sizes = {tensor.id: tensor.bytes for tensor in graph.kept}
    operations = [node.operation for node in graph.nodes if node.operation and node.operation.op != "fetch"]
    return sorted(sizes[id] for id in {id for one in operations for id in one.operands} & sizes.keys())


@pytest.mark.parametrize(("ram", "streamed"), [("200KB", []), (None, [18432, 61440, 73728])], ids=["none", "three"])
def test_no_more_is_streamed_than_is_worth_it(ram: str | None, streamed: list[int]) -> None:
    prepared = prepare(Request("cnn_40k", profile="mkr1000", parameters="card", ram=ram))
    assert streamed_bytes(prepared.graph) == streamed


@pytest.mark.parametrize(("ram", "large"), [("200KB", True), ("24KB", False)])
def test_tiles_are_large_where_there_is_room(ram: str, large: bool) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    model = Model("wide", module, (torch.randn(1, 64),), (torch.tensor([3]),), torch.nn.functional.cross_entropy)
    graph = prepare(Request(model, profile="nrf52840", parameters="card", ram=ram)).graph
    updates = (node.operation for node in graph.nodes if node.operation and "linear_update" in node.operation.op)
    tiles = [4 * p["tile"] * p["k"] for p in (parse_params(update.params) for update in updates)]
    assert (max(tiles) > 8192) == large


@pytest.mark.parametrize("ram", ["90KB", "60KB"])
def test_the_form_is_the_cheapest_that_could_be_stated(ram: str) -> None:
    def energy_j(**stated: str) -> float:
        with suppress(NoScheduleError):
            options = OptimiseOptions(time_limit_s=1)
            made = plan("cnn_40k", profile="mkr1000", parameters="card", ram=ram, options=options, **stated)
            return made.summary.energy_j
        return inf

    forms = product(("2KB", "256"), ("1MB", "64KB", "16KB", "4KB"))
    stated = {energy_j(card_above=card, stream_above=stream) for card, stream in forms}
    assert energy_j() <= 1.001 * min(stated) < max(stated - {inf})


def test_parts_of_a_weight_stay_in_ram_where_the_whole_has_no_room() -> None:
    """The last block of MobileNet reads 262,144 B once, in parts, and not three times tile by tile."""
    prepared = prepare(Request("mobilenet_v1_last_block", profile="nrf52840"))
    fetched = sum(
        4 * parse_params(node.operation.params)["size"]
        for node in prepared.graph.nodes
        if node.operation and node.operation.op == "fetch"
    )
    assert fetched > 262144 > prepared.budget_bytes
    assert streamed_bytes(prepared.graph) == []


def test_the_size_can_be_stated() -> None:
    graph = prepare(Request("cnn_40k", profile="mkr1000", parameters="card", ram="200KB", stream_above="64KB")).graph
    assert streamed_bytes(graph) == [73728]


@pytest.mark.parametrize("stream_above", [None, "4KB"])
def test_activations_are_in_slices_where_nothing_else_leaves_room(stream_above: str | None) -> None:
    prepared = prepare(
        Request("mlperf_ds_cnn", profile="nrf52840", parameters="card", ram="70KB", stream_above=stream_above)
    )
    graph = prepared.graph
    assert smallest_ram_bytes(graph) <= 0.9 * prepared.budget_bytes
    parts = {tensor.part.of for tensor in (*graph.residents, *graph.kept) if tensor.part}
    assert "large activations are in slices" in prepared.note
    assert f"{len(parts)} parameters and statistics in parts" in prepared.note


def test_nothing_is_in_slices_where_there_is_room() -> None:
    prepared = prepare(Request("mlperf_ds_cnn", profile="nrf52840", parameters="card"))
    assert not any(tensor.part for tensor in (*prepared.graph.residents, *prepared.graph.kept))
    assert re.fullmatch("without --parameters card a step takes about .* in the same RAM, and .* so", prepared.note)


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
