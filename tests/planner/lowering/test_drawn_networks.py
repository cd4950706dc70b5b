# SPDX-License-Identifier: Apache-2.0
"""Of networks that nobody wrote no graph is wrong: each is made, or refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_planner.features.cut import least_cut
from poet_planner.features.fixed import fixed_nodes
from poet_planner.features.independent import independent_values
from poet_planner.graph.layout import GRADIENTS_EARLY, GRADIENTS_PAGED, GRADIENTS_RESIDENT, MemoryLayout
from poet_planner.graph.streaming import Streaming
from poet_planner.planning.calibration import Calibration
from poet_planner.planning.training_graph import TrainingStep
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError

from tests.support.levels import examples
from tests.support.networks.drawn import drawn

BOARD = load_board("nrf52840")
LAYOUTS = (
    *(GRADIENTS_RESIDENT, GRADIENTS_EARLY, GRADIENTS_PAGED, MemoryLayout(micro_batches=2)),
    MemoryLayout(card_above_bytes=64, streaming=Streaming(64, 512)),
)


def in_layout(step: TrainingStep, layout: MemoryLayout) -> None:
    part = step.in_micro_batches(layout.micro_batches)
    part.inference(part.graph(BOARD, layout=layout), layout.streaming)


def on_features(step: TrainingStep) -> None:
    """Cut where the most is computed once a sample, if all nodes cost the same."""
    graph = step.plain(False)
    fixed = fixed_nodes(graph) if step.traced.frozen else set()
    alone = independent_values(step.model, step.traced) | {one.id for one in graph.residents if one.kind == "input"}
    alike = replace(graph, nodes=tuple(replace(node, energy_j=1.0) for node in graph.nodes))
    cut = least_cut(alike, fixed, lambda id, size: 0.0 if id in alone and size % (4 * step.samples) == 0 else inf)
    if cut.once:
        head = step.on_features(cut)
        graph = head.graph(BOARD)
        head.extraction(graph)
        head.inference_on_features(head.inference(graph).graph, graph)


TRIES: tuple[Callable[[TrainingStep], None], ...] = (
    *(partial(in_layout, layout=one) for one in (*LAYOUTS, LAYOUTS[0])),
    on_features,
)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=examples(8))
@given(st.integers(0, 2**32))
def test_no_graph_is_wrong(seed: int) -> None:
    """Of a step, its inference and its stream in each layout, and on features."""
    random = Random(seed)
    with suppress(ValueError):  # PyTorch's, of a batch norm of one number
        model = drawn(random)
        calibration, stream = Calibration() if random.random() < 0.5 else None, random.choice([None, 1, -1])
        step = TrainingStep(model, calibration=calibration, stream=stream)
        for attempt in TRIES:
            try:
                attempt(step)
            except UserError as refusal:
                assert "report this as a bug" not in str(refusal)
                calibration = None if "--frozen int8" in str(refusal) else calibration
                stream = None if "--stream" in str(refusal) else stream
                step = TrainingStep(model, calibration=calibration, stream=stream)
