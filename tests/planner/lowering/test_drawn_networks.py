# SPDX-License-Identifier: Apache-2.0
"""Of networks that nobody wrote no graph is wrong: each is made, or refused."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=examples(8))
@given(st.integers(0, 2**32))
def test_no_graph_is_wrong(seed: int) -> None:
    random = Random(seed)
    with suppress(ValueError):  # PyTorch's, of a batch norm of one number
        model = drawn(random)
        step = TrainingStep(model, calibration=Calibration() if random.random() < 0.5 else None)
        for layout in LAYOUTS:
            try:
                graph = step.in_micro_batches(layout.micro_batches).graph(BOARD, layout=layout)
                step.in_micro_batches(layout.micro_batches).inference(graph, layout.streaming)
            except UserError as refusal:
                assert "report this as a bug" not in str(refusal)
                if "--frozen int8" in str(refusal):
                    step = TrainingStep(model)
