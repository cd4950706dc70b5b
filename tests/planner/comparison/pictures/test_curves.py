# SPDX-License-Identifier: Apache-2.0
"""Pictures of a sweep show its points: curves, bands, ends and names, told apart without colours too."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from poet_planner.comparison.pictures.byte_axis import byte_ticks
from poet_planner.comparison.pictures.curves import curves_of
from poet_planner.comparison.pictures.energy_vs_deadline import energy_vs_deadline
from poet_planner.comparison.pictures.energy_vs_ram import energy_vs_ram, overhead_log
from poet_planner.comparison.pictures.method_styles import STYLES, in_legend_order, style_of
from poet_planner.comparison.pictures.overhead_map import overhead_map
from poet_planner.comparison.pictures.panels import deadline_text, panels_of
from poet_planner.comparison.pictures.ratio_axis import percent_above
from poet_planner.comparison.registry import BY_NAME_ALONE, METHODS
from poet_planner.comparison.sweep_table import LACKS, Point
from poet_profiles.errors import UserError

from tests.support.graphs.sweep_points import sweep_point

SHARES = (0.9, 0.75, 0.5, 0.25)
OVERHEADS = {
    "dtr": (0.05, 0.1, 0.9, None),
    "optimal": (0.001, 0.02, 0.1, 0.4),
    "page_all": (0.8, 0.8, 0.8, 0.8),
    "chen_sqrt": (None, None, None, None),
}
POINTS = [
    sweep_point(method, share, overhead, overhead and overhead / 2 if method == "optimal" else None)
    for method, overheads in OVERHEADS.items()
    for share, overhead in zip(SHARES, overheads, strict=True)
]


def test_every_method_has_a_style_that_is_told_apart_without_colour() -> None:
    assert set(STYLES) == {method.name for method in (*METHODS, *BY_NAME_ALONE)}
    looks = [(style.marker, style.line, style.filled) for style in STYLES.values()]
    assert len(set(looks)) == len(looks)
    assert len({style.label for style in STYLES.values()}) == len(STYLES)
    assert style_of("mine").label == "mine"
    assert in_legend_order({"mine", "dtr", "optimal"}) == ["optimal", "dtr", "mine"]


def test_a_curve_is_the_points_that_have_a_schedule() -> None:
    ours, dtr, page_all = curves_of(POINTS, lambda point: point.ram_budget_bytes, percent_above)
    assert [ours.method, dtr.method, page_all.method] == ["optimal", "dtr", "page_all"]
    assert ours.x == (1 << 18, 1 << 19, int(0.75 * (1 << 20)), int(0.9 * (1 << 20)))
    assert ours.y == pytest.approx((40.0, 10.0, 2.0, 0.1))
    assert ours.proven == pytest.approx((20.0, 5.0, 1.0, 0.05))
    assert dtr.x == ours.x[1:]
    assert dtr.proven == ()
    assert (ours.ends, dtr.ends, page_all.ends) == (None, "none", None)
    ratios = curves_of(POINTS, lambda point: point.ram_budget_bytes)
    assert ratios[0].y == pytest.approx((1.4, 1.1, 1.02, 1.001))


def test_lines_in_the_picture_are_those_of_the_points() -> None:
    figure = energy_vs_ram(POINTS)
    (axis,) = figure.axes
    lines = {line.get_color(): line for line in axis.lines if line.get_marker() in {"o", "s", "P"}}
    assert set(lines) == {style_of(method).colour for method in ("optimal", "dtr", "page_all")}
    assert tuple(lines[style_of("dtr").colour].get_ydata()) == pytest.approx((1.9, 1.1, 1.05))
    ends = [line for line in axis.lines if line.get_marker() == "x"]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in ends] == [(1 << 19, pytest.approx(1.9))]
    (band,) = axis.collections
    corners = band.get_paths()[0].vertices
    assert {round(float(y), 6) for x, y in corners if x == 1 << 18} == {1.2, 1.4}


def test_a_curve_that_would_flatten_poets_leaves_the_picture_and_poets_never_does() -> None:
    for ours, other, top in ((0.1, 9.0, 3.0), (4.0, 9.0, 5.5), (0.1, 0.2, 1.25)):
        (axis,) = energy_vs_ram([sweep_point("optimal", 0.5, ours), sweep_point("revolve", 0.5, other)]).axes
        assert axis.get_ylim()[1] == pytest.approx(top, rel=0.05)


def test_a_curve_that_leaves_the_picture_has_an_arrow_with_its_highest_number_above_it() -> None:
    others = {"revolve": (9.0, 2.5, 0.2), "page_all": (24.0, 24.0, 24.0), "dtr": (0.5, 0.2, 0.1)}
    points = [sweep_point("optimal", share, 0.1) for share in SHARES]
    points += [
        sweep_point(method, share, overhead)
        for method, overheads in others.items()
        for share, overhead in zip((0.25, 0.5, 0.9), overheads, strict=True)
    ]
    figure = energy_vs_ram(points)
    (axis,) = figure.axes
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["\u2191 10\u00d7", "\u2191 25\u00d7"]
    markers = [handle.get_marker() for handle in axis.get_legend().legend_handles]
    assert markers == [style_of("revolve").marker, style_of("page_all").marker]
    figure.canvas.draw()
    arrows = axis.get_legend().get_window_extent()
    assert arrows.y0 >= axis.get_window_extent().y1 - 1
    assert not arrows.overlaps(axis.title.get_window_extent())
    assert energy_vs_ram(POINTS).axes[0].get_legend() is None


def test_a_method_without_a_schedule_anywhere_is_in_the_legend_with_the_mark_of_why() -> None:
    figure = energy_vs_ram([*POINTS, sweep_point("rotor", 0.5, None, status="time")])
    [legend] = figure.legends
    marks = {
        text.get_text(): getattr(handle, "get_marker", lambda: None)()
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True)
    }
    assert marks["Chen \u221an"] == marks["no schedule further left, or at all"] == "x"
    assert marks["rotor"] == marks["none found in the time"] == (6, 2, 0)
    assert marks["DTR"] == style_of("dtr").marker


def test_points_without_energies_are_refused() -> None:
    with pytest.raises(UserError, match="net: its points have no energies"):
        energy_vs_ram([sweep_point("optimal", 0.5, 0.0, plain_energy_j=0.0)])


def test_names_cover_no_curve_and_no_other_name() -> None:
    for draw in (energy_vs_ram, overhead_log):
        figure = draw(POINTS)
        (axis,) = figure.axes
        boxes = [text.get_window_extent() for text in axis.texts]
        assert boxes, "no name found a place"
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
        for line in (line for line in axis.lines if len(line.get_xdata()) > 1):
            vertices = axis.transData.transform(np.column_stack(line.get_data()))
            assert not any(box.contains(*vertex) for box in boxes for vertex in vertices)


def test_a_panel_stands_for_each_model_board_and_limit() -> None:
    boards = [sweep_point("optimal", 0.5, 0.1, board=board, model=model) for board in "ab" for model in ("n", "m")]
    assert [axis.get_title() for axis in energy_vs_ram(boards).axes] == ["n, a", "n, b", "m, a", "m, b"]
    late = [sweep_point("optimal", 0.5, 0.1, deadline_s=12.0, deadline_of_plain=1.2), *POINTS]
    titles = {axis.get_title() for axis in energy_vs_ram(late).axes}
    assert titles == {"net, m4, within 1.2\u00d7 the time", "net, m4, no deadline"}


def test_more_limits_than_a_page_has_columns_go_on_in_the_next_row() -> None:
    many = [
        sweep_point("optimal", 0.5, 0.1, deadline_s=10.0 * late, deadline_of_plain=1.0 * late) for late in range(1, 7)
    ]
    unplanned = sweep_point("optimal", 0.5, None, deadline_s=9.0, deadline_of_plain=0.9)
    places = [(panel.row, panel.column) for panel in panels_of([*many, unplanned], deadline_text)]
    assert places == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2)]
    models = [sweep_point("optimal", 0.5, 0.1, model=model) for model in "abc"]
    assert [(panel.row, panel.column) for panel in panels_of(models, deadline_text)] == [(0, 0), (0, 1), (1, 0)]
    with pytest.raises(UserError, match="no point has a schedule"):
        energy_vs_ram([unplanned])


def test_batches_are_panels_of_their_own() -> None:
    batches = [
        sweep_point("optimal", 0.5, batch / 10, batch=batch, deadline_s=10.0, deadline_of_plain=1.0) for batch in (1, 2)
    ]
    for draw in (energy_vs_ram, energy_vs_deadline, overhead_map):
        assert [axis.get_title() for axis in draw(batches).axes] == ["net, batch 1, m4", "net, batch 2, m4"]


def by_deadline() -> list[Point]:
    return [
        sweep_point(method, 0.5, overhead, deadline_s=10 * late, deadline_of_plain=late)
        for method, overheads in {"optimal": (0.3, 0.2), "paging_only": (None, 0.4)}.items()
        for late, overhead in zip((1.0, 1.5), overheads, strict=True)
    ]


def test_energy_by_deadline_is_drawn_where_there_are_deadlines() -> None:
    (axis,) = energy_vs_deadline(by_deadline()).axes
    assert axis.get_title() == "net, m4"
    assert [label.get_text() for label in axis.get_xticklabels()] == ["1\u00d7", "1.5\u00d7"]
    with pytest.raises(UserError, match="no point has a deadline"):
        energy_vs_deadline(POINTS)


def test_what_has_no_deadline_and_what_has_no_schedule_is_drawn_too() -> None:
    """The first to the right of all deadlines, the second on the axis, by why there is none."""
    late = [(1.0, "none", None), (1.2, "time", None), (1.5, "feasible", 0.3)]
    points = [
        sweep_point("optimal", 0.5, overhead, deadline_s=10 * of_plain, deadline_of_plain=of_plain, status=status)
        for of_plain, status, overhead in late
    ]
    figure = energy_vs_deadline([*points, sweep_point("optimal", 0.5, 0.1)])
    (axis,) = figure.axes
    assert [label.get_text() for label in axis.get_xticklabels()] == ["1\u00d7", "1.2\u00d7", "1.5\u00d7", "none"]
    [curve] = [line for line in axis.lines if line.get_marker() == "o"]
    (last, unlimited), heights = curve.get_xdata(), curve.get_ydata()
    assert last == 1.5 < unlimited < axis.get_xlim()[1]
    assert tuple(heights) == pytest.approx((30, 10))
    marked = {line.get_label(): tuple(line.get_xdata()) for line in axis.lines if line.get_label() in LACKS.values()}
    assert marked == {"no schedule": (1.0,), "none found in the time": (1.2,)}
    [legend] = figure.legends
    assert {"no schedule", "none found in the time"} < {text.get_text() for text in legend.get_texts()}


def test_a_curve_ends_for_the_reason_of_the_next_point() -> None:
    """That the time ended is no proof that none exists."""
    points = [sweep_point("dtr", share, None, status=status) for share, status in ((0.1, "none"), (0.3, "time"))]
    figure = energy_vs_ram([*points, sweep_point("dtr", 0.5, 0.1)])
    words = {text.get_text() for text in figure.legends[0].get_texts()}
    assert words == {"DTR", "none found in the time further left"}


def test_a_limit_in_which_nothing_has_a_schedule_has_a_panel_that_says_so() -> None:
    unfit = [
        sweep_point("optimal", 0.25, None, deadline_s=10 * late, deadline_of_plain=late, status="time")
        for late in (1.0, 1.5)
    ]
    planned, empty = energy_vs_deadline([*by_deadline(), *unfit]).axes
    assert (planned.get_title(), empty.get_title()) == ("net, m4, 512.0 KB (50 %)", "net, m4, 256.0 KB (25 %)")
    assert [text.get_text() for text in empty.texts] == ["none found in the time"]
    assert not empty.lines


def test_a_legend_is_no_wider_than_its_picture() -> None:
    points = [sweep_point(method, 0.5, 0.1) for method in STYLES]
    points += [sweep_point(method, 0.25, None, status="time") for method in STYLES]
    figure = energy_vs_ram(points)
    figure.canvas.draw()
    assert figure.legends[0].get_window_extent().width <= figure.bbox.width
    assert figure.axes[0].get_window_extent().height > 100


def test_the_map_has_a_number_or_hatches_in_every_cell() -> None:
    unfit = sweep_point("optimal", 0.25, None, deadline_s=10.0, deadline_of_plain=1.0)
    ours = [*(point for point in by_deadline() if point.method == "optimal"), unfit]
    late = sweep_point("optimal", 0.25, 0.5, deadline_s=15.0, deadline_of_plain=1.5)
    (axis,) = overhead_map([*ours, late]).axes
    assert {text.get_text() for text in axis.texts} == {"30", "20", "50"}
    assert [patch.get_xy() for patch in axis.patches if patch.get_hatch()] == [(0, 0)]
    with pytest.raises(UserError, match="no point of the method optimal"):
        overhead_map([point for point in POINTS if point.method == "dtr"])


@given(st.integers(1, 2**40), st.floats(1, 1000), st.integers(2, 6))
def test_byte_ticks_are_few_and_within(least: int, factor: float, ticks: int) -> None:
    places = byte_ticks(least, least * factor, ticks)
    assert places == sorted(set(places))
    assert all(least <= place <= least * factor for place in places)
    assert 1 <= len(places) < 2 * ticks


def test_the_map_tells_that_none_exists_from_that_none_was_found() -> None:
    """Each hatch is in the legend; where every cell has a schedule there is none."""
    lacking = [sweep_point("optimal", share, None, status=status) for share, status in ((0.5, "none"), (0.6, "time"))]
    planned = sweep_point("optimal", 0.9, 0.1)
    assert not overhead_map([planned]).legends
    figure = overhead_map([planned, *lacking])
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["no schedule", "none found in the time"]
    hatches = {patch.get_hatch() for patch in figure.axes[0].patches}
    assert hatches == {handle.get_hatch() for handle in legend.get_patches()} and len(hatches) == 2
