# SPDX-License-Identifier: Apache-2.0
"""The order in which layouts are tried: of equally good plans it decides which is made."""

from __future__ import annotations

import pytest
from poet_planner.graph.layout import GRADIENTS_PAGED, GRADIENTS_RESIDENT, MemoryLayout
from poet_planner.graph.optimizer import Optimizer
from poet_planner.planning.layouts import (
    fewer_on_card,
    finely_sliced,
    in_larger_tiles,
    layouts_on_card,
    usual_layout,
    why_not_on_card,
)
from poet_planner.planning.request import Request


def numbers(layout: MemoryLayout) -> tuple[int | None, int | None, int, int | None]:
    streaming = layout.streaming
    return layout.card_above_bytes, streaming.above_bytes, streaming.tile_bytes, streaming.slices_above_bytes


def test_on_the_card_the_least_ram_comes_first_and_then_more_slices() -> None:
    request = Request("digits_cnn", "nrf52840")
    levels = [[numbers(layout) for layout in level] for level in layouts_on_card(request)]
    assert levels == [
        [(256, 4096, 4096, sliced), (256, 16384, 8192, sliced), (256, 65536, 8192, sliced), (256, None, 8192, sliced)]
        for sliced in (None, 65536, 32768, 16384)
    ]
    [last] = [level[-1] for level in layouts_on_card(request)][:1]
    assert [numbers(one) for one in fewer_on_card(request, last)] == [(2048, None, 8192, None)]
    assert [numbers(one) for one in finely_sliced(request, last, 100)] == [(256, None, 8192, 4096)]
    assert finely_sliced(request, last, 101) == []
    assert [numbers(one) for one in in_larger_tiles(last)] == [(256, None, 16384, None), (256, None, 32768, None)]


def test_stated_sizes_leave_nothing_to_choose_but_slices() -> None:
    request = Request("digits_cnn", "nrf52840", card_above="1KB", stream_above="64KB")
    levels = [[numbers(layout) for layout in level] for level in layouts_on_card(request)]
    assert levels == [[(1024, 65536, 8192, sliced)] for sliced in (None, 65536, 32768, 16384)]
    layout = next(layouts_on_card(request))[0]
    assert fewer_on_card(request, layout) == finely_sliced(request, layout, 1) == []


@pytest.mark.parametrize(
    ("profile", "gradients", "usual"),
    [
        ("nrf52840", "auto", GRADIENTS_RESIDENT),
        ("a72", "auto", GRADIENTS_PAGED),
        ("a72", "resident", GRADIENTS_RESIDENT),
        ("nrf52840", "paged", GRADIENTS_PAGED),
    ],
)
def test_gradients_are_values_where_the_board_allocates_them(profile: str, gradients: str, usual: MemoryLayout) -> None:
    assert usual_layout(Request("digits_cnn", profile, gradients=gradients)) == usual


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (Request("digits_cnn", "nrf52840"), None),
        (Request("digits_cnn", "nrf52840", paging=False), "for models on microcontrollers that have a card"),
        (Request("digits_cnn", "a72"), "for models on microcontrollers that have a card"),
        (Request("digits_cnn", "nrf52840", optimizer=Optimizer(momentum=0.9)), "the firmware has none for parameters"),
    ],
)
def test_what_keeps_parameters_off_the_card(request_: Request, why: str | None) -> None:
    found = why_not_on_card(request_)
    assert found is None if why is None else why in (found or "")
