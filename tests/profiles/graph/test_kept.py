# SPDX-License-Identifier: Apache-2.0
"""Graphs with tensors on the card: their file, their hash, and each rule that they obey."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from poet_profiles.errors import FaultError, UserError
from poet_profiles.graph import Graph, Kept, Node, Operation, Resident, Uses, Value
from poet_profiles.graph.file import document_of_graph, graph_from_document, graph_hash
from poet_profiles.graph.validation import check_graph, refuse_unsound

from tests.support.graphs.kept_graphs import kept_step

Damage = Callable[[Graph], Graph]


def test_a_sound_graph_comes_back_from_its_file() -> None:
    graph = kept_step()
    again = graph_from_document(json.loads(json.dumps(document_of_graph(graph))))
    assert again == graph
    assert graph_hash(again) == graph_hash(graph)


def test_what_lies_on_the_card_is_part_of_the_hash() -> None:
    graph = kept_step()
    w, x = graph.kept
    shorter = replace(graph, kept=(x, w))
    assert graph_hash(shorter) != graph_hash(graph)
    assert graph_hash(replace(graph, kept=(replace(w, kind="state"), x))) != graph_hash(graph)
    assert graph_hash(on_nodes(graph, fetch_w=dict(uses=Uses.CPU))) != graph_hash(graph)
    assert graph_hash(by_rows(graph, 0, 2)) != graph_hash(graph)


def on_nodes(graph: Graph, **changes: dict[str, Any]) -> Graph:
    """The graph with changed nodes, by their ids; two dots are an underscore."""
    ids = {node.id.replace("..", "_").replace("w_fetch", "fetch_w"): node.id for node in graph.nodes}
    changed = {ids[id]: values for id, values in changes.items()}
    return replace(graph, nodes=tuple(replace(node, **changed.get(node.id, {})) for node in graph.nodes))


def operation(graph: Graph, id: str, **changes: Any) -> Graph:
    nodes = tuple(
        replace(node, operation=replace(node.operation, **changes)) if node.id == id and node.operation else node
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes)


def by_rows(graph: Graph, place: int, rows: int) -> Graph:
    kept = list(graph.kept)
    kept[place] = replace(kept[place], rows=rows)
    return replace(graph, kept=tuple(kept))


def without(graph: Graph, *ids: str) -> Graph:
    return replace(graph, nodes=tuple(node for node in graph.nodes if node.id not in ids))


def second_writer(graph: Graph) -> Graph:
    (update,) = (node for node in graph.nodes if node.id == "update")
    again = replace(update, id="again", values=(Value("again", 0),))
    nodes = [node if node.id != "ready" else replace(node, inputs=(*node.inputs, "again")) for node in graph.nodes]
    return replace(graph, nodes=(*nodes[:6], again, *nodes[6:]))


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda g: replace(g, kept=(g.kept[0], g.kept[0])), "kept tensor id w is there twice"),
        (lambda g: replace(g, kept=(*g.kept, Kept("y", "constant", 4))), "id y is a value's and a kept tensor's"),
        (lambda g: replace(g, kept=(*g.kept, Kept("b", "constant", 4))), "id b is a resident's and a kept tensor's"),
        (lambda g: replace(g, kept=(*g.kept, Kept("z", "constant", 0))), "kept tensor z has no bytes"),
        (lambda g: replace(g, kept=(*g.kept, Kept("z", "constant", 2**41))), "kept tensor z: 2199023255552 bytes"),
        (lambda g: on_nodes(g, fetch_w=dict(uses=Uses.CPU)), "\"uses\" is 'cpu', but fetch here needs 'bus'"),
        (lambda g: on_nodes(g, update=dict(uses=Uses.BUS)), "\"uses\" is 'bus', but sgd_update here needs 'both'"),
        (lambda g: on_nodes(g, product=dict(uses=Uses.BOTH)), "\"uses\" is 'both', but pointwise here needs 'cpu'"),
        (lambda g: on_nodes(g, commit=dict(uses=Uses.CPU)), "\"uses\" is 'cpu', but commit here needs 'both'"),
        (lambda g: operation(g, "w..fetch", operands=("b",)), "a fetch has one operand, a kept tensor"),
        (lambda g: operation(g, "w..fetch", operands=("w", "x")), "a fetch has one operand, a kept tensor"),
        (lambda g: replace(g, kept=(replace(g.kept[0], bytes=12), g.kept[1])), "a value with the bytes of the kept"),
        (lambda g: on_nodes(g, fetch_w=dict(workspace_bytes=4)), "a fetch needs nothing in RAM"),
        (lambda g: on_nodes(g, fetch_w=dict(inputs=("x..fetch",))), "a fetch needs nothing in RAM"),
        (lambda g: on_nodes(g, update=dict(recomputable=True)), 'writes the next version of w; say "recomputable"'),
        (second_writer, "kept tensor w: one node must write a parameter, but 2 do"),
        (lambda g: by_rows(g, 0, 3), "kept tensor w: 8 bytes are not 3 equal rows"),
        (lambda g: by_rows(g, 0, 0), "kept tensor w: 8 bytes are not 0 equal rows"),
        (lambda g: by_rows(g, 1, 2), 'kept tensor x: an input does not lie by rows; leave "rows" out'),
        (lambda g: by_rows(g, 0, 2), 'node w..fetch: w must have "rows": 1 here, it has 2'),
        (
            lambda g: replace(g, kept=(*g.kept, Kept("v", "state", 4))),
            "kept tensor v: one node must write a state, but 0 do",
        ),
        (
            lambda g: replace(g, kept=(replace(g.kept[0], kind="constant"), g.kept[1])),
            "kept tensor w: no node may write a constant, but 1 do",
        ),
        (lambda g: without(g, "commit"), "0 nodes commit"),
        (lambda g: on_nodes(g, commit=dict(recomputable=True)), 'node commit commits; say "recomputable": false'),
        (lambda g: on_nodes(g, commit=dict(inputs=("ready",))), "node descent must stand before commit"),
        (
            lambda g: replace(g, residents=(replace(g.residents[0], offset=4),), resident_bytes=12),
            "resident b stands after a gap",
        ),
        (
            lambda g: replace(
                g, residents=(Resident("l", "loss", 4, 0), replace(g.residents[0], offset=4)), resident_bytes=12
            ),
            "resident b stands after l",
        ),
    ],
)
def test_each_rule_is_checked(damage: Damage, fault: str) -> None:
    with pytest.raises(FaultError) as caught:
        check_graph(damage(kept_step()))
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_commit_beside_no_kept_tensor_is_refused() -> None:
    commit = Node(
        "commit",
        0.0,
        0.0,
        (Value("commit", 0),),
        recomputable=False,
        operation=Operation("commit", "steps=1", (), ()),
        uses=Uses.BOTH,
    )
    with pytest.raises(UserError, match="1 nodes commit; a graph with kept tensors that are no constants has one"):
        refuse_unsound(Graph("alone", (commit,)))


def test_a_store_writes_what_an_operator_has_made() -> None:
    """Instead of an update that writes itself."""
    graph = kept_step()
    stored = []
    for node in graph.nodes:
        if node.id == "update":
            new = replace(
                node,
                values=(Value("update", 8),),
                workspace_bytes=0,
                recomputable=True,
                operation=Operation("pointwise", "size=2 steps=sub(y0,x0,x1)", ("w..fetch", "gradient"), ("update",)),
                uses=Uses.CPU,
            )
            store = Operation("store", "size=2", ("update",), ("w",))
            stored += [new, Node("s", 1, 1, (Value("s", 0),), ("update",), 0, False, operation=store, uses=Uses.BUS)]
        elif node.id == "ready":
            stored.append(replace(node, inputs=("s", "y")))
        else:
            stored.append(node)
    sound = replace(graph, nodes=tuple(stored))
    check_graph(sound)
    for damage, fault in (
        (lambda g: operation(g, "s", operands=("w",)), "a store has one operand, a value"),
        (lambda g: operation(g, "s", results=("b",)), "a store has one result, a kept tensor"),
        (lambda g: on_nodes(g, s=dict(workspace_bytes=4)), "a store makes nothing in RAM"),
    ):
        with pytest.raises(FaultError, match=fault):
            check_graph(damage(sound))


def test_costs_alone_need_no_commit() -> None:
    graph = kept_step()
    nodes = tuple(replace(node, operation=None) for node in graph.nodes)
    check_graph(replace(graph, nodes=nodes, kept=(), residents=()))


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (
            lambda d: d["nodes"][0].update(uses="gpu"),
            "node x..fetch: \"uses\" is 'gpu'; it must be one of cpu, bus, both",
        ),
        (lambda d: d["nodes"][0].update(uses=None), 'node x..fetch: "uses" is None'),
        (lambda d: d["kept"][0].update(kind="gradient"), "kept tensor w: \"kind\" is 'gradient'"),
        (lambda d: d["kept"][0].update(bytes=-1), 'kept tensor w: "bytes" is -1'),
        (lambda d: d["kept"][0].update(rows=0), 'kept tensor w: "rows" is 0; it must be a whole number, at least 1'),
        (lambda d: d["kept"][0].update(rows=True), 'kept tensor w: "rows" is True'),
        (lambda d: d["kept"][0].pop("id"), 'an entry of kept lacks an "id"'),
        (lambda d: d["kept"][0].update(shape=["x"]), 'kept tensor w: "shape" must be a list of extents'),
        (lambda d: d.update(kept={}), '"kept" is not a list'),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(damage: Callable[[dict[str, Any]], Any], fault: str) -> None:
    document = document_of_graph(kept_step())
    damage(document)
    with pytest.raises(FaultError) as caught:
        graph_from_document(document)
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)
