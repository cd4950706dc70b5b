# SPDX-License-Identifier: Apache-2.0
"""The pictures of a plan: what they draw is what the schedule does, and a reader can tell it apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from poet_planner.report.energy_picture import energy_added, energy_figure
from poet_planner.report.figures import ABSENT, COLOURS, HATCHES, HELD, MARKERS, svg_text
from poet_planner.report.module_groups import Group, in_words, module_groups, module_of
from poet_planner.report.pictures import plan_figures, write_pictures
from poet_planner.report.quantities import energy_text, share_text
from poet_planner.report.ram_picture import ram_figure
from poet_planner.report.schedule_picture import grid, schedule_figure
from poet_planner.report.summary import summarise
from poet_planner.report.table import fits_error, rows
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.timeline import CostTerm, timeline
from poet_profiles.graph import Graph, Node, Operation, PageCost, Uses, Value
from poet_profiles.plan_folder.summary import FitReport
from poet_profiles.schedule import Action, Schedule, Step

from tests.support.graphs.kept_graphs import kept_step

PAGE = PageCost(3.0, 2.0, 2.0, 1.0)


def mirror(blocks: int, dma: bool = False) -> Graph:
    """A network of ``blocks`` modules of four operators, forwards and back."""
    forward = [
        f"stage{block // 4}.{block % 4}.{name}" for block in range(blocks) for name in ("conv", "bn", "relu", "add")
    ]
    nodes = [
        Node(id, 1.0 + index % 3, 1.0, (Value(id, 64, PAGE),), (forward[index - 1],) if index else ())
        for index, id in enumerate(forward)
    ]
    above = forward[-1]
    for id in reversed(forward):
        gradient = f"{id}.backward"
        nodes.append(Node(gradient, 2.0, 1.0, (Value(gradient, 32, PAGE),), tuple({above, id}), backward=True))
        above = gradient
    return Graph("mirror", tuple(nodes), 16, dma)


def with_absences(graph: Graph) -> Schedule:
    """The store-all schedule, but the first value is paged and the third is computed again."""
    schedule = store_all_schedule(graph)
    first, second, third = (node.id for node in graph.nodes[:3])
    steps = list(schedule.steps)

    def at(do: Action, target: str) -> int:
        return steps.index(next(step for step in steps if step.do is do and step.target == target))

    made = {id: steps[at(Action.COMPUTE, id)] for id in (first, second, third)}
    readers = {id: next(n.id for n in reversed(graph.nodes) if id in n.inputs) for id in (first, third)}
    again = at(Action.COMPUTE, readers[third])
    steps[again:again] = [made[third]]
    back = at(Action.COMPUTE, readers[first])
    steps[back:back] = [Step(Action.PAGE_IN, first, made[first].offsets)]
    gone = at(Action.COMPUTE, second) + 1
    steps[gone:gone] = [Step(Action.PAGE_OUT, first), Step(Action.FREE, first)]
    gone = at(Action.COMPUTE, graph.nodes[3].id) + 1
    steps[gone:gone] = [Step(Action.FREE, third)]
    return replace(schedule, steps=tuple(steps))


@pytest.mark.parametrize("dma", [False, True])
def test_a_grey_cell_is_a_value_held_when_its_step_begins(dma: bool) -> None:
    graph = mirror(2, dma)
    schedule = with_absences(graph)
    shown = grid(graph, schedule, timeline(graph, schedule))
    held: set[str] = set()
    expected = []
    for step in schedule.steps:
        if step.do is not Action.FREE:
            expected.append([node.id in held for node in shown.nodes])
        if step.do is Action.FREE:
            held.discard(step.target)
        elif step.do is not Action.PAGE_OUT:
            held.add(step.target)
    assert shown.held.tolist() == expected
    assert [m.kind for m in shown.moments].count(CostTerm.RECOMPUTE) == 1


@pytest.mark.parametrize("to_scale", [False, True])
@pytest.mark.parametrize("dma", [False, True])
def test_no_line_runs_backwards_in_time(dma: bool, to_scale: bool) -> None:
    graph = mirror(3, dma)
    schedule = with_absences(graph)
    moments = timeline(graph, schedule)
    figure = ram_figure(graph, schedule, moments, timeline(graph, store_all_schedule(graph)))
    for line in figure.axes[0].lines:
        times_s = line.get_xdata()
        assert all(before <= after for before, after in pairwise(times_s))
    ticks = schedule_figure(graph, schedule, moments, to_scale).axes[0].get_yticks()
    assert all(before < after for before, after in pairwise(ticks))


def test_no_two_rows_have_the_same_time_beside_them() -> None:
    """Rows of nanoseconds begin at the same time, as three digits say it."""
    graph = mirror(6)
    short = (replace(node, time_s=1e-9) if index else node for index, node in enumerate(graph.nodes))
    schedule = store_all_schedule(graph := replace(graph, nodes=tuple(short)))
    axis = schedule_figure(graph, schedule, timeline(graph, schedule)).axes[0]
    labels = [label.get_text() for label in axis.get_yticklabels()]
    assert [label for label in labels if label] == ["0 s", "1 s"] and len(labels) > 8
    assert labels[-1] == "1 s"


def test_to_scale_equal_times_are_equally_long() -> None:
    graph = mirror(1)
    schedule = store_all_schedule(graph)
    axis = schedule_figure(graph, schedule, timeline(graph, schedule), to_scale=True).axes[0]
    (marks,) = (c for c in axis.collections if len(c.get_paths()) == len(graph.nodes))
    heights = [np.ptp(path.vertices[:, 1]) for path in marks.get_paths()]
    assert heights == pytest.approx([node.time_s for node in graph.nodes])
    assert axis.get_ylim()[0] == pytest.approx(schedule.time_s)


@pytest.mark.parametrize("blocks", [5, 100])
def test_pictures_of_40_and_of_800_operators_have_room_for_their_labels(blocks: int, tmp_path: Path) -> None:
    graph = mirror(blocks)
    schedule = with_absences(graph)
    write_pictures(graph, schedule, store_all_schedule(graph), tmp_path)
    for name in ("schedule", "ram", "energy"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    figure = schedule_figure(graph, schedule, timeline(graph, schedule))
    figure.draw_without_rendering()
    (axis,) = figure.axes
    boxes = [label.get_window_extent() for label in axis.get_xticklabels()]
    assert len(boxes) >= 20
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert "grey: held in RAM" in [text.get_text() for text in figure.legends[0].get_texts()]
    assert (f"{8 * blocks} operators by module" in axis.get_xlabel()) == (blocks == 100)


def test_modules_are_told_apart_as_deep_as_there_is_room() -> None:
    forward_and_back = module_groups(list(mirror(4).nodes))
    assert forward_and_back[:5] == [
        *(Group(f"stage0.{k}", 4 * k, 4 * k + 4) for k in range(4)),
        Group("stage0.3", 16, 20),
    ]
    ids = [f"stage{s}.{k}.{op}" for s in range(4) for k in range(30) for op in ("conv", "relu")]
    assert [group.name for group in module_groups(named(ids))] == [f"stage{s}" for s in range(4)]
    updates = [replace(node, operation=Operation("sgd", "", (), ())) for node in named(["a.x", "b.x", "a.y", "b.y"])]
    assert module_groups([*named(["a.x", "a.y"]), *updates]) == [Group("a", 0, 2), Group("updates", 2, 6)]
    assert module_groups(named("abc")) == module_groups([]) == []


@pytest.mark.parametrize(
    ("id", "words", "module"),
    [
        ("..gradients", "gradients", "gradients"),
        ("..commit", "commit", "commit"),
        ("block1.1..update", "block1.1, update", "block1.1"),
        ("fc.weight.grad..layout", "fc.weight.grad, layout", "fc.weight"),
        ("conv..0.1..done", "conv, 0.1, done", "conv, 0"),
        ("conv.relu", "conv.relu", "conv.relu"),
        ("..", "..", ".."),
    ],
)
def test_axes_have_what_poet_adds_in_words(id: str, words: str, module: str) -> None:
    """Whole, one by one, in the picture of the schedule; two parts deep, as modules."""
    assert in_words(id) == words
    assert in_words(module_of(id, 2)) == module
    graph = Graph("net", (Node("x", 1.0, 1.0, (Value("x", 4),)), Node(id, 1.0, 1.0, (Value(id, 4),), ("x",))))
    schedule = store_all_schedule(graph)
    (axis,) = schedule_figure(graph, schedule, timeline(graph, schedule)).axes
    assert [label.get_text() for label in axis.get_xticklabels()] == ["x", words]


def named(ids: Iterable[str]) -> list[Node]:
    return [Node(id, 1.0, 1.0, ()) for id in ids]


def test_nothing_is_told_by_colour_alone() -> None:
    def lightness(colour: str) -> float:
        red, green, blue = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
        return 0.299 * red + 0.587 * green + 0.114 * blue

    cells = [COLOURS[kind] for kind in COLOURS if kind not in MARKERS] + [HELD, ABSENT]
    assert all(abs(lightness(one) - lightness(other)) > 0.1 for one, other in combinations(cells, 2))
    assert len(set(MARKERS.values())) == len(MARKERS) == len(COLOURS) - 3
    transfers = [HATCHES[kind] for kind in MARKERS]
    assert len(set(transfers)) == len(transfers) and all(transfers)


def on_card(share: float = 0.75) -> Graph:
    """Of a second and a joule of each node on the card, so much is the card's."""
    step = kept_step()
    moved = (
        replace(node, card_time_s=share, card_energy_j=share) if node.uses is not Uses.CPU else node
        for node in step.nodes
    )
    return replace(step, nodes=tuple(moved))


def widths(axis: Axes, row: int) -> dict[str, float]:
    """Of the bars of one row by their label, in joules."""
    return {str(bars.get_label()): bars[row].get_width() for bars in axis.containers}


def test_bars_of_energy_are_the_summarys_figures() -> None:
    graph = on_card()
    schedule = store_all_schedule(graph)
    summary = summarise(graph, schedule, schedule)
    total, *more = energy_figure(graph, schedule, timeline(graph, schedule), summary).axes
    moved = sum(node.uses is not Uses.CPU for node in graph.nodes)
    assert (summary.energy_card_j, summary.all_of_the_card_j) == (0.75 * moved, 0.75 * moved)
    for row in (0, 1):
        bars = widths(total, row)
        assert bars == {"computed": pytest.approx(summary.energy_compute_j), "card: kept tensors": 0.75 * moved}
        assert sum(bars.values()) == pytest.approx(summary.energy_j)
    assert not more  # a panel for what is added would be empty
    named = {name: (energy, remark) for name, energy, remark in rows(summary)}
    assert named["  card in all"][0] == energy_text(0.75 * moved)
    assert named["  card in all"][1].startswith(share_text(0.75 * moved / schedule.energy_j))


def test_of_a_compute_on_the_card_the_end_is_drawn_as_the_cards() -> None:
    graph = on_card()
    schedule = store_all_schedule(graph)
    moments = timeline(graph, schedule)
    axis = schedule_figure(graph, schedule, moments, to_scale=True).axes[0]
    drawn = {to_hex(cells.get_facecolor()[0]): cells.get_paths() for cells in axis.collections if cells.get_paths()}
    heights = {
        kind: [np.ptp(path.vertices[:, 1]) for path in drawn[COLOURS[kind].lower()]]
        for kind in (CostTerm.COMPUTE, CostTerm.CARD)
    }
    assert sum(heights[CostTerm.CARD]) == pytest.approx(sum(node.card_time_s for node in graph.nodes))
    assert sum(heights[CostTerm.COMPUTE]) + sum(heights[CostTerm.CARD]) == pytest.approx(schedule.time_s, rel=0.02)
    lanes = ram_figure(graph, schedule, moments, moments).axes[1]
    assert [label.get_text() for label in lanes.get_yticklabels()] == ["computed", "card: kept tensors"]


def test_each_picture_says_where_its_costs_come_from() -> None:
    graph = mirror(1)
    schedule = store_all_schedule(graph)
    summary = summarise(graph, schedule, schedule)
    for given, said in (
        (summary, "the graph, which does not say"),
        (
            replace(summary, energy_share={"emulated": 0.25, "measured": 0.0, "fitted": 0.75}),
            "75 % fitted, 25 % emulated",
        ),
    ):
        for figure in plan_figures(graph, schedule, schedule, given).values():
            assert said in svg_text(figure)


def test_an_error_is_weighted_by_what_is_predicted() -> None:
    """S9 of the cases: the worst row is 4 % of a step, and the one that counts 94 %."""
    large, small = (
        FitReport("conv2d_relu", 9, ("emulated",), 0.2, 0.19, 0.94),
        FitReport("pool", 4, (), 0.4, 0.38, 0.04),
    )
    unused, lone = (
        replace(small, operator="linear", energy_share=0.0),
        replace(small, energy_error=None, energy_share=0.02),
    )
    assert fits_error((large, small, unused, lone)) == pytest.approx((0.94 * 0.19 + 0.04 * 0.38) / 0.98)
    assert fits_error((unused, lone)) is None
    graph = mirror(1)
    schedule = store_all_schedule(graph)
    shown = rows(replace(summarise(graph, schedule, schedule), fits=(small, large, unused)))
    [(figure, remark)] = [(figure, remark) for name, figure, remark in shown if name == "  predictions"]
    assert figure == "19.8% off" and remark.startswith("most by conv2d_relu, 94 % of the energy: 19.0% off in energy")


def test_energy_added_by_module_sums_up_to_what_the_plan_adds() -> None:
    graph = mirror(100)
    schedule = with_absences(graph)
    moments = timeline(graph, schedule)
    added = energy_added(moments)
    total = sum(joules for row in added.values() for joules in row.values())
    assert total == pytest.approx(sum(m.energy_j for m in moments) - sum(node.energy_j for node in graph.nodes))
    assert added["stage0.0.conv"] == {CostTerm.PAGE_OUT: 2.0, CostTerm.PAGE_IN: 1.0}
    assert added["stage0.0.relu"] == {CostTerm.RECOMPUTE: 1.0}
