# SPDX-License-Identifier: Apache-2.0
"""A graph that breaks the contract reaches no search and no file, wherever it comes from."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from poet_planner.planning import training_graph as training
from poet_planner.solve import OptimiseOptions, optimise
from poet_planner.solve.instance import build_problem
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph, Node, Operation, PageCost, Resident, Value
from poet_profiles.graph.file import document_of_graph, read_graph, write_graph

from tests.support.graphs.chains import chain


def changed(graph: Graph, place: int, **fields: object) -> Graph:
    nodes = list(graph.nodes)
    nodes[place] = replace(nodes[place], **fields)  # type: ignore[arg-type]
    return replace(graph, nodes=tuple(nodes))


FAULTS: dict[str, Callable[[Graph], Graph]] = {
    "cycle": lambda g: changed(g, 0, inputs=(g.nodes[-1].values[0].id,)),
    "before its input": lambda g: replace(g, nodes=(*g.nodes[1:], g.nodes[0])),
    "no node yields": lambda g: changed(g, 1, inputs=("nowhere",)),
    "node id .* twice": lambda g: changed(g, 1, id=g.nodes[0].id),
    "value id .* twice": lambda g: changed(g, 1, values=g.nodes[0].values),
    "a value's and a resident's": lambda g: replace(
        g, residents=(Resident(g.nodes[0].values[0].id, "state", 0, 0),), resident_bytes=0
    ),
    "no cost": lambda g: changed(g, 0, energy_j=math.nan),
    "-1.0 is no cost": lambda g: changed(g, 0, values=(Value(g.nodes[0].id, 4, PageCost(0.0, 0.0, -1.0, 0.0)),)),
    "bytes; give a whole number": lambda g: changed(g, 0, workspace_bytes=-4),
    "99999 bytes": lambda g: changed(g, 0, values=(Value(g.nodes[0].id, 99999 * 10**15 + 99999),)),
    "nothing to plan": lambda g: replace(g, nodes=()),
    "must be a value": lambda g: changed(g, 2, takes_over={g.nodes[2].id: g.nodes[0].id}),
    "and that an input": lambda g: changed(g, 2, takes_over={g.nodes[1].id: g.nodes[1].id}),
    "which other nodes need": lambda g: changed(g, 2, takes_over={g.nodes[2].id: g.nodes[1].id}),
    "the same bytes": lambda g: changed(g, 5, takes_over={"g2": "g3"}, values=(Value("g2", 1),)),
    "pointwise has no such result in place": lambda g: changed(
        g, 5, takes_over={"g2": "g3"}, operation=Operation("pointwise", "size=1 steps=copy(y0,x0)", (), ("g2",))
    ),
    'in place; leave out "takes_over"': lambda g: changed(
        g, 5, takes_over={"g2": "g3"}, operation=Operation("pointwise", "size=0 steps=copy(y0,x0)", ("g3",), ("g2",))
    ),
    "names an input twice": lambda g: changed(
        g,
        2,
        takes_over={g.nodes[2].id: g.nodes[1].id, "more": g.nodes[1].id},
        values=(*g.nodes[2].values, Value("more", g.nodes[1].values[0].bytes)),
    ),
}


@pytest.mark.parametrize("complaint", FAULTS)
def test_it_is_found_before_any_search_and_before_any_file(complaint: str, tmp_path: Path) -> None:
    graph = FAULTS[complaint](chain(4))
    with pytest.raises(UserError, match=complaint):
        build_problem(graph, 10**6, None)
    with pytest.raises(UserError, match=complaint):
        optimise(graph, 10**6)
    with pytest.raises(UserError, match=complaint):
        write_graph(graph, tmp_path / "graph.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("board", ["nrf52840", "rpi4b"])
def test_it_is_found_in_a_models_graph(board: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "lower_for_firmware" if board == "nrf52840" else "for_board.lower_for_linux"

    def wrong(*_: object) -> Graph:
        node = Node("a", 0.0, 0.0, (Value("a", 4),), ("a",))
        return Graph("wrong", (node,))

    monkeypatch.setattr(f"poet_planner.lowering.{name}", wrong)
    with pytest.raises(UserError, match=r"digits_cnn_small: .*cycle.*report this"):
        training.training_graph("digits_cnn_small", 1, load_board(board))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"nodes": ' + "9" * 5_000 + "}"])
def test_json_that_the_parser_gives_up_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(text)
    with pytest.raises(UserError, match="not JSON"):
        read_graph(tmp_path / "graph.json")


@pytest.mark.parametrize(
    ("field", "value", "complaint"), [("bytes", 10**30, "0 to 2"), ("time_s", 10**400, "a cost is finite")]
)
def test_sizes_and_costs_beyond_all_machines_are_one_line(
    field: str, value: int, complaint: str, tmp_path: Path
) -> None:
    document = document_of_graph(chain(2))
    document["nodes"][0][field] = value
    (tmp_path / "huge.json").write_text(json.dumps(document))
    with pytest.raises(UserError, match=complaint):
        read_graph(tmp_path / "huge.json")


def test_a_budget_beyond_all_machines_is_a_large_one() -> None:
    assert optimise(chain(3), 10**30, None, OptimiseOptions(time_limit_s=0.5)).ram_budget_bytes == 10**30


def test_a_negative_seed_is_one_line() -> None:
    with pytest.raises(UserError, match="seed -5"):
        optimise(chain(3), 10**6, None, OptimiseOptions(seed=-5))
