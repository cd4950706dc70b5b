# SPDX-License-Identifier: Apache-2.0
"""Every picture of many plans says what its costs rest on, and leaves no name empty."""

from __future__ import annotations

import pytest
from poet_planner.comparison.pictures.energy_vs_deadline import energy_vs_deadline
from poet_planner.comparison.pictures.energy_vs_ram import energy_vs_ram, overhead_log
from poet_planner.comparison.pictures.headings import sources_text
from poet_planner.comparison.pictures.overhead_map import overhead_map

from tests.support.graphs.sweep_points import sweep_point

LATE = {"deadline_s": 15.0, "deadline_of_plain": 1.5}


@pytest.mark.parametrize("draw", [energy_vs_ram, overhead_log, energy_vs_deadline, overhead_map])
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("published", "costs rest on published figures"),
        ("emulated+measured", "costs rest on emulated and measured figures"),
        ("", "costs: those of the graph, which does not say where they come from"),
    ],
)
def test_every_picture_says_what_its_costs_rest_on(draw: object, source: str, said: str) -> None:
    points = [sweep_point("optimal", 0.5, 0.1, batch=batch, profile_source=source, **LATE) for batch in (1, 2)]
    assert callable(draw)
    figure = draw(points)
    assert " ".join(figure.get_suptitle().split()).endswith(said)
    figure.canvas.draw()
    assert figure.bbox.x0 <= figure._suptitle.get_window_extent().x0


def test_costs_of_several_sources_are_told_by_board_or_by_network() -> None:
    def text(*rows: tuple[str, str, str]) -> str:
        points = [
            sweep_point("optimal", 0.5, 0.1, model=model, board=board, profile_source=source)
            for model, board, source in rows
        ]
        return sources_text(points)

    by_board = ("a", "m4", "published"), ("b", "m4", "published"), ("a", "pi", "measured")
    assert text(*by_board) == "costs rest on published figures (m4), measured figures (pi)"
    by_network = ("a", "m4", "published"), ("b", "m4", "emulated"), ("c", "", "")
    assert text(*by_network) == (
        "costs rest on published figures (a, m4), emulated figures (b, m4), figures of unknown origin (c)"
    )


@pytest.mark.parametrize("draw", [energy_vs_ram, overhead_map])
def test_a_graph_of_no_board_leaves_no_comma(draw: object) -> None:
    assert callable(draw)
    (axis,) = draw([sweep_point("optimal", 0.5, 0.1, board="", batch=batch) for batch in (1, 2)]).axes[:1]
    assert axis.get_title().startswith("net") and ",\n" not in axis.get_title() + "\n"


def test_a_limit_that_all_panels_share_is_named_above_them() -> None:
    assert "0.5 MB" not in energy_vs_ram([sweep_point("optimal", 0.5, 0.1)]).get_suptitle()
    assert energy_vs_deadline([sweep_point("optimal", 0.5, 0.1, **LATE)]).get_suptitle().startswith("512.0 KB (50 %)")
    late = energy_vs_ram([sweep_point("optimal", 0.5, 0.1, **LATE)])
    assert late.get_suptitle().startswith("within 1.5\u00d7 the time")
