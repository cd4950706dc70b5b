# SPDX-License-Identifier: Apache-2.0
"""Small graphs with tensors on the card."""

from __future__ import annotations

import random
from dataclasses import replace

from poet_profiles.graph import Graph, Kept, Node, Operation, PageCost, Resident, Uses, Value

PAGE = PageCost(out_time_s=2.0, out_energy_j=0.3, in_time_s=1.0, in_energy_j=0.2)


def kept_step(dma: bool = False) -> Graph:
    """A step of y = w x + b: w and x on the card, b in RAM; each node takes a second and a joule."""
    fetch_x = _node("x..fetch", "fetch", "size=2", ("x",), ("x..fetch",), Uses.BUS, size=8)
    fetch_w = _node("w..fetch", "fetch", "size=2", ("w",), ("w..fetch",), Uses.BUS, size=8)
    product = _node(
        "product", "pointwise", "size=2 steps=mul(y0,x0,x1)", ("x..fetch", "w..fetch"), ("product",), size=8, page=PAGE
    )
    y = _node("y", "pointwise", "size=2 steps=add(y0,x0,x1)", ("product", "b"), ("y",), size=8, page=PAGE)
    gradient = _node(
        "gradient", "pointwise", "size=2 steps=mul(y0,x0,x1)", ("y", "x..fetch"), ("gradient",), size=8, page=PAGE
    )
    update = _node(
        "update", "sgd_update", "size=2 tile=2", ("gradient", "w..fetch"), ("w",), Uses.BOTH, workspace=520, once=True
    )
    ready = Node("ready", 0.0, 0.0, (Value("ready", 0),), ("update", "y"), recomputable=False)
    descent = _node("descent", "sgd", "size=2", ("y", "b"), ("b",), once=True, after=("ready",))
    commit = _node("commit", "commit", "steps=1", (), (), Uses.BOTH, once=True, after=("ready", "descent"))
    return Graph(
        "kept",
        (fetch_x, fetch_w, product, y, gradient, update, ready, descent, commit),
        resident_bytes=8,
        dma=dma,
        residents=(Resident("b", "parameter", 8, 0, (2,)),),
        kept=(Kept("w", "parameter", 8, (2,)), Kept("x", "input", 8, (2,))),
    )


def frozen_step() -> Graph:
    """A step of y = w x + b: w is frozen, and on the card; x and b are in RAM."""
    fetch_w = _node("w..fetch", "fetch", "size=2", ("w",), ("w..fetch",), Uses.BUS, size=8)
    product = _node(
        "product", "pointwise", "size=2 steps=mul(y0,x0,x1)", ("x", "w..fetch"), ("product",), size=8, page=PAGE
    )
    y = _node("y", "pointwise", "size=2 steps=add(y0,x0,x1)", ("product", "b"), ("y",), size=8, page=PAGE)
    ready = Node("ready", 0.0, 0.0, (Value("ready", 0),), ("y",), recomputable=False)
    descent = _node("descent", "sgd", "size=2", ("y", "b"), ("b",), once=True, after=("ready",))
    return Graph(
        "frozen",
        (fetch_w, product, y, ready, descent),
        resident_bytes=16,
        residents=(Resident("b", "parameter", 8, 0, (2,)), Resident("x", "input", 8, 8, (2,))),
        kept=(Kept("w", "constant", 8, (2,)),),
    )


def table_step() -> Graph:
    """A step of an embedding whose table lies by three rows of two numbers; b is in RAM, and nothing changes it."""
    both = Uses.BOTH
    ids = _node("ids..fetch", "fetch", "size=2", ("ids",), ("ids..fetch",), Uses.BUS, size=8)
    shape, given = "m=2 v=3 d=2", ("table", "ids..fetch")
    product = _node("product", "streamed_embedding", shape, given, ("product",), both, size=16, page=PAGE)
    new, read = ("table",), ("product", "ids..fetch", "table")
    update = _node("update", "streamed_embedding_update", shape, read, new, both, workspace=16, once=True)
    commit = _node("commit", "commit", "steps=1", (), (), both, once=True, after=("update", "product"))
    return Graph(
        "table",
        (ids, product, update, commit),
        resident_bytes=8,
        residents=(Resident("b", "parameter", 8, 0, (2,)),),
        kept=(Kept("table", "parameter", 24, (3, 2), rows=3), Kept("ids", "input", 8, (2,))),
    )


def _node(
    id: str,
    op: str,
    params: str,
    operands: tuple[str, ...],
    results: tuple[str, ...],
    uses: Uses = Uses.CPU,
    size: int = 0,
    workspace: int = 0,
    once: bool = False,
    after: tuple[str, ...] = (),
    page: PageCost | None = None,
) -> Node:
    inputs = tuple(dict.fromkeys(id for id in operands if id not in ("x", "w", "b", "ids", "table")))
    return Node(
        id=id,
        time_s=1.0,
        energy_j=1.0,
        values=(Value(id, size, page),),
        inputs=(*inputs, *after),
        workspace_bytes=workspace,
        recomputable=not once,
        operation=Operation(op, params, operands, results),
        uses=uses,
    )


def random_kept_graph(seed: int, dma: bool = False) -> Graph:
    """Costs alone, like training: a chain forwards and back, its weights fetched, and updated on the card.

    So small that brute force takes less than a second.
    """
    rng = random.Random(seed)
    depth = 2
    nodes: list[Node] = []

    def add(id: str, *inputs: str, size: int, uses: Uses = Uses.CPU, once: bool = False) -> None:
        page = None if uses is Uses.BUS or not size or rng.random() < 0.4 else PageCost(*_costs(rng, 4))
        time_s, energy_j = _costs(rng, 2)
        nodes.append(Node(id, time_s, energy_j, (Value(id, size, page),), inputs, recomputable=not once, uses=uses))

    def sized() -> int:
        return rng.choice((4, 8, 8, 16))

    for k in range(depth):
        add(f"w{k}", size=sized(), uses=Uses.BUS)
        add(f"a{k}", *([f"a{k - 1}"] if k else []), f"w{k}", size=sized())
    for k in reversed(range(depth)):
        above = f"g{k + 1}" if k < depth - 1 else f"a{k}"
        add(f"u{k}", above, *([f"a{k - 1}"] if k else []), f"w{k}", size=0, uses=Uses.BOTH, once=True)
        if k:
            add(f"g{k}", above, f"w{k}", size=sized())
    add("commit", *(f"u{k}" for k in range(depth)), size=0, uses=Uses.BOTH, once=True)
    return replace(Graph(f"kept {seed}", tuple(nodes)), dma=dma)


def _costs(rng: random.Random, count: int) -> list[float]:
    return [round(rng.uniform(0.2, 3), 2) for _ in range(count)]
