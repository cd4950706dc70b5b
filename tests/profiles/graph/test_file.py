# SPDX-License-Identifier: Apache-2.0
"""Graphs made by hypothesis come back from their files as they were; hashes see structure alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_profiles.errors import UserError
from poet_profiles.graph import Constant, Graph, Kept, Node, Operation, PageCost, Resident, Uses, Value
from poet_profiles.graph.file import document_of_graph, graph_from_document, graph_hash, read_graph, write_graph

from tests.support.graphs.taking_over import with_random_taking_over
from tests.support.levels import examples

costs = st.floats(0, 1e6)
sizes = st.integers(0, 1 << 30)
pages = st.none() | st.builds(PageCost, costs, costs, costs, costs)
names = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs",), exclude_characters="."), min_size=1, max_size=4
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    ids = draw(st.lists(names, min_size=1, max_size=6, unique=True))
    residents, offset = [], 0
    for id in draw(st.lists(names, max_size=3, unique=True)):
        size = draw(st.integers(0, 25))
        residents.append(Resident(f"r {id}", "parameter", 4 * size, offset, (size,)))
        offset += 4 * size
    constants, place = [], 0
    for id in draw(st.lists(names, max_size=2, unique=True)):
        size = draw(st.integers(0, 25))
        constants.append(Constant(f"c {id}", 4 * size, place, (size,), f"{draw(st.integers(0, 2**32 - 1)):08x}"))
        place += 4 * size
    nodes: list[Node] = []
    for id in ids:
        earlier = [value.id for node in nodes for value in node.values]
        inputs = tuple(draw(st.lists(st.sampled_from(earlier), unique=True))) if earlier else ()
        count = draw(st.integers(0, 3))
        values = tuple(Value(id if k == 0 else f"{id}.{k}", draw(sizes), draw(pages)) for k in range(count))
        operands = (*inputs, *(tensor.id for tensor in (*residents, *constants)))
        operation = (
            Operation("aten.relu", "size=1", operands, tuple(v.id for v in values)) if draw(st.booleans()) else None
        )
        nodes.append(
            Node(
                id, draw(costs), draw(costs), values, inputs, draw(sizes), draw(st.booleans()), draw(st.booleans()),
                operation, uses=Uses.CPU if operation else draw(st.sampled_from(Uses)),
            )
        )  # fmt: skip
    # Where nodes name operators, something would have to commit.
    bare = not any(node.operation for node in nodes)
    names_there = draw(st.lists(names, max_size=2, unique=True)) if bare else ()
    kept = [Kept(f"k {id}", draw(st.sampled_from(("constant", "input"))), 4, (1,)) for id in names_there]
    graph = Graph(
        draw(st.text()), tuple(nodes), offset, draw(st.booleans()), tuple(residents), tuple(constants), tuple(kept),
        draw(st.booleans()), source=draw(st.sampled_from(("", "emulated", "measured+published"))),
    )  # fmt: skip
    return with_random_taking_over(graph, draw(st.integers(0, 100)), 0.5)


@settings(max_examples=examples(150), deadline=None)
@given(graphs())
def test_graph_round_trip(graph: Graph) -> None:
    again = graph_from_document(json.loads(json.dumps(document_of_graph(graph))))
    assert again == graph
    assert graph_hash(again) == graph_hash(graph)


@settings(max_examples=examples(50), deadline=None)
@given(graphs())
def test_hash_sees_structure_and_not_costs(graph: Graph) -> None:
    first = graph.nodes[0]
    cheaper = replace(first, time_s=first.time_s + 1, values=tuple(replace(v, page=None) for v in first.values))
    assert graph_hash(replace(graph, name="other", nodes=(cheaper, *graph.nodes[1:]))) == graph_hash(graph)
    wider = replace(first, workspace_bytes=first.workspace_bytes + 1)
    assert graph_hash(replace(graph, nodes=(wider, *graph.nodes[1:]))) != graph_hash(graph)


def test_hash_is_the_documented_one(tmp_path: Path) -> None:
    """Recomputed here from docs/SPEC.md, section 3, alone."""
    import hashlib

    path = tmp_path / "graph.json"
    path.write_text(
        '{"format": "poet-graph/1", "nodes": [{"id": "a", "time_s": 1, "energy_j": 2, "bytes": 3},'
        ' {"id": "b", "time_s": 1, "energy_j": 2, "bytes": 0, "workspace_bytes": 8, "op": "pointwise",'
        ' "params": "size=1 steps=relu(y0,x0)",'
        ' "inputs": ["a"], "results": ["w"]}], "edges": [["a", "b"]], "resident_bytes": 4,'
        ' "residents": [{"id": "w", "kind": "gradient", "bytes": 4, "offset": 0, "shape": [1]}]}'
    )
    text = (
        '{"edges":[["a","b"]],"nodes":[["a",0,[["a",3]],null,null,[],[]],'
        '["b",8,[["b",0]],"pointwise","size=1 steps=relu(y0,x0)",["a"],["w"]]],'
        '"resident_bytes":4,"residents":[["w","gradient",4,0]]}'
    )
    assert graph_hash(read_graph(path)) == hashlib.sha256(text.encode()).digest()[:8].hex()
    graph = read_graph(path)
    over = replace(graph.nodes[1], operation=None, values=(Value("b", 3),), takes_over={"b": "a"})
    text_over = text.replace(
        '["b",8,[["b",0]],"pointwise","size=1 steps=relu(y0,x0)",["a"],["w"]]', '["b",8,[["b",3]],null,null,[],[]]'
    )
    text_over = text_over.replace('"gradient",4,0]]', '"gradient",4,0]],"takes_over":[["b","b","a"]]')
    hash = hashlib.sha256(text_over.encode()).digest()[:8].hex()
    assert graph_hash(replace(graph, nodes=(graph.nodes[0], over))) == hash
    constants = (Constant("f", 8, 4, (2,), "0123abcd"),)
    text = text.replace('{"edges"', '{"constants":[["f",8,4,"0123abcd"]],"edges"')
    hash = hashlib.sha256(text.encode()).digest()[:8].hex()
    graph = replace(read_graph(path), constants=constants)
    assert graph_hash(graph) == hash
    text = text.replace('"nodes"', '"micro_batches":3,"nodes"')
    hash = hashlib.sha256(text.encode()).digest()[:8].hex()
    assert graph_hash(replace(graph, micro_batches=3)) == hash


@given(graphs(), st.sampled_from(["a\nb", "\x1b[2J", "\ud800", "\u2028"]))
@settings(max_examples=examples(10))
def test_a_graph_that_would_not_be_read_is_not_written(graph: Graph, id: str) -> None:
    """A module may be called so; the hash is taken before the graph is written."""
    graph = replace(graph, nodes=(*graph.nodes[:-1], replace(graph.nodes[-1], id=id)))
    assert len(graph_hash(graph)) == 16
    with TemporaryDirectory() as folder, pytest.raises(UserError, match="cannot be printed; rename what it is called"):
        write_graph(graph, Path(folder) / "graph.json")
    assert not Path(folder).exists()
