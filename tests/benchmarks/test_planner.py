# SPDX-License-Identifier: Apache-2.0
"""The benchmarks' own parts: the generator of layered graphs, the exhaustive search, the table of best values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import typer
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import NoScheduleError, OptimiseOptions, optimise
from poet_planner.solve.feasibility import least_ram
from poet_planner.solve.placement import assign
from poet_planner.solve.placement.first_fit import Placement
from poet_profiles.graph import Graph, Node, PageCost, Value
from poet_profiles.graph.file import graph_hash, read_graph, write_graph
from poet_profiles.graph.sizes import smallest_ram_bytes
from poet_profiles.schedule import Step

from benchmarks.planner.best_known import add_to_best, best_energy_j, read_best
from benchmarks.planner.exhaustive import Small, compare, least_energy_j, small_instance
from benchmarks.planner.figures import report
from benchmarks.planner.instances import SUITES, Instance, load, suite
from benchmarks.planner.layered import layered_graph
from benchmarks.planner.measuring import Run, measure
from benchmarks.planner.placement import cut, placement, read
from benchmarks.planner.run import missing, ram_of_ours


@pytest.mark.parametrize(("nodes", "width"), [(2, 1), (500, 4), (500, 50), (502, 7)])
def test_layered_graphs_are_sound_and_of_the_size_asked_for(nodes: int, width: int, tmp_path: Path) -> None:
    graph = layered_graph(nodes, width, seed=1)
    assert len(graph.nodes) == nodes
    assert sum(node.backward for node in graph.nodes) == nodes // 2
    write_graph(graph, tmp_path / "graph.json")  # reading checks order, ids and costs
    assert read_graph(tmp_path / "graph.json") == graph
    assert verify(graph, store_all_schedule(graph)).sound


def test_layered_graphs_come_from_their_seed() -> None:
    assert layered_graph(100, 5, seed=3) == layered_graph(100, 5, seed=3)
    assert graph_hash(layered_graph(100, 5, seed=3)) != graph_hash(layered_graph(100, 5, seed=4))


def test_every_gradient_waits_for_its_users() -> None:
    graph = layered_graph(200, 10, seed=0)
    inputs = {node.id: set(node.inputs) for node in graph.nodes}
    for id, needed in inputs.items():
        if id.startswith("f"):
            assert all(f"b{id[1:]}" in inputs[f"b{used[1:]}"] for used in needed)


def test_layered_graphs_leave_room_below_their_plain_peak() -> None:
    for width in (4, 50):
        graph = layered_graph(500, width, seed=0)
        assert smallest_ram_bytes(graph) < 0.6 * store_all_schedule(graph).peak_bytes


@pytest.mark.parametrize("nodes", [0, 1, 7])
def test_layered_graphs_of_other_sizes_are_refused(nodes: int) -> None:
    with pytest.raises(ValueError, match="even number"):
        layered_graph(nodes, 4, seed=0)


@pytest.mark.parametrize("name", ["paper", "prototypes", "layered"])
def test_suites_hold_distinct_instances_that_load(name: str) -> None:
    instances = suite(name)
    assert len(set(instances)) == len(instances)
    loaded = load(instances[0])
    assert loaded.ram_bytes > 0


def test_the_paper_suite_is_the_whole_grid() -> None:
    assert len(suite("paper")) == 24 * 8 * 2 * 2
    assert set(SUITES) == {"paper", "prototypes", "layered", "traced", "steps", "tight"}


def chain(page: PageCost | None) -> Graph:
    """a -> b -> c -> d, where d needs a as well: 12 bytes live at once unless a is given up in between."""
    return Graph(
        "chain",
        (
            Node("a", 1.0, 10.0, (Value("a", 4, page),)),
            Node("b", 1.0, 1.0, (Value("b", 4),), ("a",)),
            Node("c", 1.0, 1.0, (Value("c", 8),), ("b",)),
            Node("d", 1.0, 1.0, (Value("d", 4),), ("c", "a")),
        ),
    )


def test_least_energy_by_hand() -> None:
    assert least_energy_j(Small(chain(None), 16, None)) == 13  # everything fits
    assert least_energy_j(Small(chain(None), 15, None)) is None  # d alone needs 16
    cheap = PageCost(1.0, 2.0, 1.0, 3.0)
    wide = Graph(
        "wide", (*chain(cheap).nodes[:2], Node("c", 1.0, 1.0, (Value("c", 12),), ("b",)), chain(None).nodes[3])
    )
    assert least_energy_j(Small(wide, 20, None)) == 13  # c is made while a is there
    assert least_energy_j(Small(wide, 19, None)) is None
    tight = Graph("large workspace", (*wide.nodes[:2], Node("c", 1.0, 1.0, (Value("c", 8),), ("b",), 8), wide.nodes[3]))
    assert least_energy_j(Small(tight, 24, None)) == 13
    assert least_energy_j(Small(tight, 20, None)) == 18  # a goes to the card and comes back
    assert least_energy_j(Small(tight, 20, 5.0)) == 23  # no time for the card: a is computed again
    assert least_energy_j(Small(tight, 20, 4.0)) is None
    for small in (Small(chain(None), 16, None), Small(wide, 20, None), Small(tight, 20, None)):
        assert least_energy_j(small, offsets=True) == least_energy_j(small)  # there is a place for all
    assert least_energy_j(Small(tight, 20, 4.0), offsets=True) is None


def test_transfers_hide_behind_compute_with_dma() -> None:
    page = PageCost(1.0, 2.0, 1.0, 3.0)
    serial = Graph(
        "overlap",
        (
            Node("a", 1.0, 10.0, (Value("a", 4, page),)),
            Node("b", 5.0, 1.0, (Value("b", 4),), ("a",)),
            Node("c", 1.0, 1.0, (Value("c", 8),), ("b",), 8),
            Node("d", 1.0, 1.0, (Value("d", 4),), ("c", "a")),
        ),
    )
    overlapped = Graph("overlap", serial.nodes, dma=True)
    assert least_energy_j(Small(serial, 20, 9.0)) == 23
    assert least_energy_j(Small(overlapped, 20, 9.0)) == 18  # a is written while b is computed
    assert least_energy_j(Small(overlapped, 20, 8.5)) is None  # and read while nothing else can go on


def test_the_planner_is_never_below_all_schedules_nor_its_bound_above() -> None:
    wrong = {seed: outcome for seed in range(25) if (outcome := compare(small_instance(seed, 6), seconds=5.0)).wrong}
    assert not wrong


@pytest.mark.parametrize(("number", "least_j"), [(908, 67.0), (1275, 103.0), (1560, 57.0)])
def test_tiny_graphs_with_dma_and_with_many_values_have_their_least_energy(number: int, least_j: float) -> None:
    """By `least_energy_j`, which takes up to half a minute for one of them, and by the brute force of the tests."""
    small = small_instance(number)
    schedule = optimise(small.graph, small.ram_bytes, small.deadline_s, OptimiseOptions(5.0))
    assert verify(small.graph, schedule).faults == ()
    assert schedule.energy_j == pytest.approx(least_j, rel=1e-9)
    assert schedule.bound_j <= least_j * (1 + 1e-9)


def test_an_order_without_offsets_gives_way_to_one_that_has_them() -> None:
    """Number 1456: in the nodes' own order the RAM is full and its pieces lie wrong, in another one they fit."""
    assert compare(small_instance(1456), seconds=5.0).verdict == "proven, equal"


def test_where_no_schedule_gets_offsets_the_refusal_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    small = small_instance(1334)

    def never(graph: Graph, steps: Sequence[Step], budget: int, *how: object, **more: object) -> Placement:
        return Placement(tuple(steps), max(budget, small.ram_bytes) + 8)

    for module in (assign, least_ram):
        monkeypatch.setattr(module, "place", never)
    with pytest.raises(NoScheduleError, match="offsets") as refusal:
        optimise(small.graph, small.ram_bytes, small.deadline_s, OptimiseOptions(2.0))
    assert refusal.value.possible_bytes is not None and refusal.value.possible_bytes > small.ram_bytes


def test_where_the_best_schedules_have_no_offsets_another_does() -> None:
    small = small_instance(1334)
    assert verify(small.graph, optimise(small.graph, small.ram_bytes, small.deadline_s, OptimiseOptions(5.0))).sound


def test_the_best_value_of_a_harder_instance_counts(tmp_path: Path) -> None:
    path = tmp_path / "best.csv"
    path.write_text("graph,ram_bytes,deadline_s,paging,energy_j,found\n")
    rows = pd.DataFrame(
        {
            "suite": ["paper", "paper", "paper", "traced"],
            "graph": ["g", "g", "h", "g"],
            "ram_bytes": [100, 200, 100, 100],
            "deadline_s": [10.0, None, 10.0, 10.0],
            "paging": [False, True, True, False],
            "energy_j": [5.0, 6.0, 1.0, 3.0],
            "verified": [True, True, False, True],
        }
    )
    assert add_to_best(rows, "a test", path) == 3
    assert add_to_best(rows, "a test", path) == 0
    best = read_best(path)
    assert best_energy_j(best, "g", 200, float("inf"), True) == 5.0
    assert best_energy_j(best, "g", 99, float("inf"), True) != best_energy_j(best, "g", 100, 10.0, False)
    assert best_energy_j(best, "traced g", 100, 10.0, False) == 3.0  # another graph of the same name
    assert pd.isna(best_energy_j(best, "h", 100, 10.0, True))  # what was not verified is not known


# A row of `results.csv`, as far as the report reads it.
ROW = {
    **{"suite": "paper", "graph": "linear.m0", "ram": "90%", "deadline": "2x", "paging": True},
    **{"formulation": "best", "solver": "highs", "seconds": 60.0, "clock": "wall", "seed": 0, "load": 1.0},
    **{"ram_bytes": 10, "deadline_s": 2.0, "plain_energy_j": 1.0, "status": "feasible", "verified": True},
    **{"first_feasible_s": 0.1, "energy_2s_j": 1.1, "energy_10s_j": 1.1, "energy_60s_j": 1.1, "energy_j": 1.1},
    **{"bound_j": 1.0, "wall_s": 60.0, "cpu_s": 60.0, "note": "", "commit": "1234567"},
}


def test_of_several_rows_of_an_instance_the_report_counts_the_last() -> None:
    later = {**ROW, "bound_j": 1.1, "status": "optimal"}
    text = report(pd.DataFrame([ROW, later]))
    assert "from 1 rows" in text
    assert "gap > " not in text
    assert "gap > 1 %" in report(pd.DataFrame([later, ROW]))


def test_the_table_of_a_suite_counts_instances_that_have_a_schedule() -> None:
    proven = {**ROW, "ram": "75%", "ram_bytes": 8, "bound_j": 1.1, "status": "optimal", "first_feasible_s": 0.25}
    refuted = {**ROW, "ram": "20%", "ram_bytes": 4, "energy_j": None, "bound_j": None, "verified": False}
    lines = report(pd.DataFrame([ROW, proven, refuted])).splitlines()
    head = next(line for line in lines if line.startswith("| storage"))
    row = next(line for line in lines if line.startswith("| yes"))
    cells = dict(zip(*([cell.strip() for cell in line.strip("|").split("|")] for line in (head, row)), strict=True))
    assert cells.pop("storage") == "yes"
    assert cells.pop("instances") == "3"
    assert cells.pop("first, worst") == "0.25 s"
    assert cells == {
        **{"found": "2/2", "near best early": "2/2"},
        **{"gap ≤ 0.1 %": "1/2", "gap ≤ 1 %": "1/2", "proven": "1/2"},
    }


def test_algorithm_1_is_given_the_ram_of_ours_and_compared_in_no_other(tmp_path: Path) -> None:
    ours = {**ROW, "ram": "smallest", "ram_bytes": 12}
    theirs = {**ours, "formulation": "paper", "ram_bytes": 10, "energy_j": None, "verified": False}
    assert "in 0 runs" in report(pd.DataFrame([ours, theirs]))
    assert "in 1 runs" in report(pd.DataFrame([ours, {**theirs, "ram_bytes": 12}]))
    results = tmp_path / "results.csv"
    assert ram_of_ours(results) == {}
    pd.DataFrame([{**ours, "ram_bytes": 14}, ours, theirs]).to_csv(results)
    instance = Instance("paper", "linear.m0", "smallest", "2x", True)
    assert ram_of_ours(results) == {instance: 12}
    run = Run(seconds=10.0, clock="wall", formulation="best", solver="highs", seed=0)
    assert missing([instance], run, results, {}) == [instance]
    printed = replace(run, seconds=60.0, formulation="paper")
    assert missing([instance], printed, results, {}) == []
    assert missing([instance], printed, results, {instance: 12}) == [instance]
    assert measure(instance, run, 5000).ram_bytes == 5000


def test_blocks_of_a_file_are_placed_by_each_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "two.12.csv"
    file.write_text("id,lower,upper,size\n0,-1,2,8\n1,1,3,4\n")
    blocks = read(file)
    assert (blocks.name, blocks.capacity, blocks.start.tolist()) == ("two", 12, [-1, 1])
    assert (blocks.end.tolist(), blocks.size.tolist()) == ([2, 3], [8, 4])
    placement([file], seconds=20.0, seeds=2)
    cells = capsys.readouterr().out.splitlines()[-1].split("|")[1:-1]
    assert [cell.strip() for cell in cells[:2]] == ["two", "2"]
    assert [cell.split(": ")[1].strip() for cell in cells[2:]] == ["placed"] * 3


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [("two.csv", "id,lower,upper,size", "NAME.CAPACITY.csv"), ("two.12.csv", "id,lower,upper\n0,1,2", "size")],
)
def test_other_files_of_blocks_are_refused(name: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(typer.BadParameter, match=words):
        read(tmp_path / name)


def test_pieces_of_a_rectangle_fill_it() -> None:
    blocks = cut(40, 3)
    alive = [int(blocks.size[(blocks.start <= step) & (step < blocks.end)].sum()) for step in range(200)]
    assert set(alive) == {blocks.capacity}
