# SPDX-License-Identifier: Apache-2.0
"""The RAM that no form of a step does without, against what its forms need."""

from __future__ import annotations

import pytest
from poet_planner.graph.layout import MemoryLayout
from poet_planner.graph.streaming import MOST_SLICES, Streaming
from poet_planner.models import least_ram_bytes
from poet_planner.planning.training_graph import training_step
from poet_profiles.boards import load_board
from poet_profiles.graph.sizes import smallest_ram_bytes

BOARD = load_board("nrf52840")


@pytest.mark.parametrize("name", ["mlperf_ds_cnn", "transformer", "digits_cnn"])
@pytest.mark.parametrize("above", [None, 65536, 4096])
def test_no_form_needs_less(name: str, above: int | None) -> None:
    streaming = Streaming(4096, 4096, above)
    graph = training_step(name, None).graph(BOARD, layout=MemoryLayout(card_above_bytes=0, streaming=streaming))
    assert 0 < least_ram_bytes(name) <= smallest_ram_bytes(graph)


def test_it_is_the_size_of_a_known_layer() -> None:
    values = 4 * 64 * 112 * 112 // MOST_SLICES  # the first convolution makes them of the image, which is whole
    assert least_ram_bytes("resnet18") == 4 * 3 * 224 * 224 + values
    assert least_ram_bytes("bert_base") == 4 * 512 * 768  # a layer norm
    assert least_ram_bytes("digits_cnn", batch=48) == 2 * least_ram_bytes("digits_cnn")
