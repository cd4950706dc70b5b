# SPDX-License-Identifier: Apache-2.0
"""The RAM budget: of which layout a share is, and what of a board is left."""

from __future__ import annotations

import pytest
from poet_planner.graph.layout import GRADIENTS_PAGED, GRADIENTS_RESIDENT
from poet_planner.planning.budget import plan_ram_bytes, ram_budget_bytes
from poet_planner.planning.costed_step import CostedStep
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph, Node, PageCost, Value

BOARD = load_board("nrf52840")
PAGE = PageCost(1.0, 1.0, 1.0, 1.0)


def step(values: int, board: str | None = "nrf52840") -> CostedStep:
    """So many values of 400 B that all live until the end, and may be paged."""
    made = tuple(Node(f"v{k}", 1.0, 1.0, (Value(f"v{k}", 400, PAGE),)) for k in range(values))
    end = Node("end", 1.0, 1.0, (Value("end", 0),), tuple(node.id for node in made))
    graph = Graph(f"{values} values", (*made, end), 64)
    layout = GRADIENTS_RESIDENT if values < 10 else GRADIENTS_PAGED
    return CostedStep(graph, layout, load_board(board) if board else None)


def test_a_share_is_of_the_usual_layout() -> None:
    assert ram_budget_bytes("50%", step(4), step(40)) == (64 + 4 * 400) // 2
    assert ram_budget_bytes("50%", step(40), step(4)) == (64 + 40 * 400) // 2


def test_a_board_gives_the_smaller_of_what_both_layouts_leave() -> None:
    """Tables have an entry of 4 B for each value that may be paged."""
    few, many = (BOARD.usable_ram_bytes - 4 * values for values in (4, 40))
    assert [plan_ram_bytes(BOARD, step(values).graph) for values in (4, 40)] == [few, many]
    assert ram_budget_bytes(None, step(4), step(4)) == few
    assert ram_budget_bytes(None, step(4), step(40)) == ram_budget_bytes(None, step(40), step(4)) == many


def test_without_a_board_the_budget_has_to_be_stated() -> None:
    with pytest.raises(UserError, match="names no board"):
        ram_budget_bytes(None, step(4, None), step(4, None))
