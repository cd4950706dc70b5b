# SPDX-License-Identifier: Apache-2.0
"""Costs from a profile: exact rows, fitted models that find a known law, whole blocks, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_planner.costs.card import WeightTile, card_work
from poet_planner.costs.cost_model import ALL_OPERATORS, Basis, CostModel
from poet_planner.costs.fitting import fit_relative
from poet_profiles.errors import UserError
from poet_profiles.firmware.operators import ACCUMULATE, OPERATORS, Params, params_key, parse_params
from poet_profiles.graph import Graph, Node, Operation, Value
from poet_profiles.profile import ProfileRow, ProfileWriter, read_profile
from scipy.optimize import nnls

from tests.support.graphs.kept_graphs import kept_step
from tests.support.levels import examples

CONSTANT, PER_FLOP, PER_BYTE = 2e-5, 3e-9, 5e-10
LATENCY, PER_BLOCK = 1e-3, 2e-4


def row(op: str, params: str, time_s: float, source: str = "emulated") -> ProfileRow:
    return ProfileRow(
        "nrf52840", op, params, "f32", time_s, 0.0, time_s * 0.01, 0.0, 0.0, 0, 0, 1, 1.0, source, "m", 3.0, "f", "now"
    )  # fmt: skip


def fill_row(size: int, source: str = "emulated", factor: float = 1.0) -> ProfileRow:
    """A row that follows the law exactly: one FLOP and 4 bytes an element."""
    return row("fill", f"size={size} value_nano=0", factor * (CONSTANT + PER_FLOP * size + PER_BYTE * 4 * size), source)


def page_rows() -> list[ProfileRow]:
    return [
        row(op, f"bytes={size} pattern=sequential", LATENCY + PER_BLOCK * size / 512)
        for op in ("page_in", "page_out")
        for size in (512, 4096, 65536)
    ]


def model(tmp_path: Path, rows: list[ProfileRow], overlaps: bool = False) -> CostModel:
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / f"profile_{len(rows)}_{overlaps}.csv"
    with ProfileWriter(path) as profile:
        for each in rows:
            profile.append(each)
    return CostModel(read_profile(path), overlaps=overlaps)


def graph(op: str, params: str, size: int = 4) -> Graph:
    return Graph("g", (Node("n", 0, 0, (Value("n", size),), operation=Operation(op, params, (), ("n",))),))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([fill_row(1), replace(row("idle", "", 0.1), idle_power_w=3e-3)], 3e-3),
        (
            [
                replace(row("idle", "", 0.1), idle_power_w=3e-3),
                replace(row("idle", "", 0.1, "measured"), idle_power_w=4e-3),
            ],
            4e-3,
        ),
        ([fill_row(1)], None),
        ([fill_row(1, "published")], 0.0),
    ],
)
def test_the_power_that_the_energies_do_not_contain(
    rows: list[ProfileRow], expected: float | None, tmp_path: Path
) -> None:
    assert (
        model(tmp_path, [*rows, fill_row(10, rows[0].source)]).apply(graph("fill", "size=10 value_nano=0")).idle_power_w
        == expected
    )


def test_measured_row_is_taken_as_it_stands_and_before_an_emulated_one(tmp_path: Path) -> None:
    rows = [fill_row(10), fill_row(10, "measured", factor=2), fill_row(10, "published", factor=3)]
    costed = model(tmp_path, rows).apply(graph("fill", "size=10 value_nano=0"))
    assert costed.basis["n"] is Basis.MEASURED
    assert costed.graph.nodes[0].time_s == pytest.approx(rows[1].time_s)
    assert costed.graph.nodes[0].energy_j == pytest.approx(rows[1].energy_j)
    assert costed.fits == {}


def test_shape_never_measured_follows_the_law_of_the_others(tmp_path: Path) -> None:
    costed = model(tmp_path, [fill_row(size) for size in (10, 100, 5000)]).apply(graph("fill", "size=777 value_nano=0"))
    assert costed.basis["n"] is Basis.FITTED
    assert costed.graph.nodes[0].time_s == pytest.approx(fill_row(777).time_s)
    fit = costed.fits["fill"]
    assert fit.rows == 3
    assert fit.sources == ("emulated",)


def test_error_told_is_that_of_rows_left_out(tmp_path: Path) -> None:
    rows = [fill_row(10), fill_row(1000), fill_row(100_000), fill_row(3000, factor=1.5)]
    fit = model(tmp_path, rows).apply(graph("fill", "size=5 value_nano=0")).fits["fill"]
    assert fit.time_error is not None
    assert 0.05 < fit.time_error < 0.5
    single = model(tmp_path, [fill_row(10)]).apply(graph("fill", "size=5 value_nano=0")).fits["fill"]
    assert single.time_error is None


def test_operator_never_measured_is_predicted_from_all_others_and_says_so(tmp_path: Path) -> None:
    costed = model(tmp_path, [fill_row(size) for size in (10, 100, 5000)]).apply(
        graph("pointwise", "size=100 steps=gelu(y0,x0)")
    )
    assert costed.basis["n"] is Basis.FITTED
    assert list(costed.fits) == [ALL_OPERATORS]


def test_an_operator_on_integers_is_not_predicted_from_others(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no row of map_s8"):
        model(tmp_path, [fill_row(size) for size in (10, 100)]).apply(graph("map_s8", "size=100"))


def test_page_takes_whole_blocks(tmp_path: Path) -> None:
    costs = model(tmp_path, [fill_row(10), *page_rows()])
    for size, blocks in ((1, 1), (512, 1), (513, 2), (100_000, 196)):
        page = costs.apply(graph("fill", "size=10 value_nano=0", size)).graph.nodes[0].values[0].page
        assert page is not None
        assert page.in_time_s == pytest.approx(LATENCY + PER_BLOCK * blocks)
        assert page.out_energy_j == pytest.approx((LATENCY + PER_BLOCK * blocks) * 0.01)


def test_without_page_rows_nothing_is_pageable(tmp_path: Path) -> None:
    costed = model(tmp_path, [fill_row(10)]).apply(graph("fill", "size=10 value_nano=0"))
    assert costed.graph.nodes[0].values[0].page is None


def test_value_without_bytes_is_not_paged(tmp_path: Path) -> None:
    costed = model(tmp_path, [fill_row(10), *page_rows()]).apply(graph("fill", "size=10 value_nano=0", 0))
    assert costed.graph.nodes[0].values[0].page is None


def test_profile_without_compute_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no row of fill"):
        model(tmp_path, page_rows()).apply(graph("fill", "size=10 value_nano=0"))


def test_params_that_are_not_the_operators_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="operator fill: 'width=10'"):
        model(tmp_path, [fill_row(1), fill_row(2)]).apply(graph("fill", "width=10"))


positive = st.floats(1e-3, 1e3)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(positive, positive, positive, positive), min_size=1, max_size=8))
def test_fit_is_the_non_negative_least_squares_optimum(rows: list[tuple[float, float, float, float]]) -> None:
    """Against scipy's active-set solver, on the relative residuals."""
    table = np.array(rows)
    features, costs = table[:, :3], table[:, 3]
    weighted = features / costs[:, None]
    _, residual = nnls(weighted, np.ones(len(rows)))
    found = np.array(fit_relative(features, costs))
    assert (found >= 0).all()
    assert np.linalg.norm(weighted @ found - 1) <= residual + 1e-6


def test_the_builds_that_rows_were_taken_with_are_known_but_for_published_ones(tmp_path: Path) -> None:
    old, new = fill_row(10), replace(fill_row(20), firmware="newer")
    published = replace(fill_row(30, "published"), firmware="none")
    costed = model(tmp_path, [new, old, published]).apply(graph("fill", "size=10 value_nano=0"))
    assert costed.firmware == ("f", "newer")


def test_what_lies_on_the_card_costs_its_transfers_and_its_parts(tmp_path: Path) -> None:
    parts = [
        row("pointwise", "size=2 steps=mul(y0,x0,x1)", 1.0),
        row("pointwise", "size=2 steps=add(y0,x0,x1)", 1.0),
        row("sgd", "size=2", 0.25),
    ]
    costed = model(tmp_path, [*parts, *page_rows()]).apply(kept_step())
    times = {node.id: node.time_s for node in costed.graph.nodes}
    block = LATENCY + PER_BLOCK
    assert times["w..fetch"] == pytest.approx(block)
    assert times["x..fetch"] == pytest.approx(2 * block)  # and its check
    assert times["update"] == pytest.approx(0.25 + block)
    assert times["commit"] == pytest.approx(3 * block)  # the residents, and the record, which is read back
    assert costed.basis["update"] is Basis.FITTED
    pages = {value.id: value.page for node in costed.graph.nodes for value in node.values}
    assert pages["w..fetch"] is None and pages["product"] is not None
    measured = model(tmp_path, [*parts, *page_rows(), row("sgd_update", "size=2 tile=2", 0.5)]).apply(kept_step())
    assert {node.id: node.time_s for node in measured.graph.nodes}["update"] == pytest.approx(0.5)
    with pytest.raises(UserError, match="no page rows"):
        model(tmp_path, parts).apply(kept_step())


def test_of_what_a_node_costs_the_card_takes_its_transfers(tmp_path: Path) -> None:
    parts = [
        row("pointwise", "size=2 steps=mul(y0,x0,x1)", 1.0),
        row("pointwise", "size=2 steps=add(y0,x0,x1)", 1.0),
        row("sgd", "size=2", 0.25),
    ]
    whole = [row("sgd_update", "size=2 tile=2", 0.5), row("fetch", "size=2", 0.125), row("overhead", "", 0.0625)]
    block_s = LATENCY + PER_BLOCK
    for rows, update_s, between_s in (([], 0.25 + block_s, 0.0), (whole, 0.5, 0.0625)):
        costed = model(tmp_path, [*parts, *page_rows(), *rows]).apply(kept_step())
        nodes = {node.id: node for node in costed.graph.nodes}
        update, fetch = nodes["update"], nodes["w..fetch"]
        assert update.time_s == pytest.approx(update_s + between_s)
        assert update.card_time_s == pytest.approx(block_s)
        assert update.card_energy_j == pytest.approx(0.01 * block_s)
        assert fetch.card_energy_j == pytest.approx(fetch.energy_j - 0.01 * between_s)  # it does nothing else
        assert (nodes["product"].card_time_s, nodes["product"].card_energy_j) == (0.0, 0.0)
        assert sum(costed.predicted_j["commit"].values()) == pytest.approx(nodes["commit"].card_energy_j)
        assert costed.predicted_j["product"] == {}


@pytest.mark.parametrize(
    ("op", "params", "parts"),
    [
        (
            "conv2d_update",
            "n=1 c=4 h=8 w=8 k=8 r=3 s=3 sh=1 sw=1 ph=1 pw=1 g=1 bias=1 tile=8",
            [
                ("conv2d_backward_weight", "n=1 c=4 h=8 w=8 k=8 r=3 s=3 sh=1 sw=1 ph=1 pw=1 g=1 bias=1"),
                ("sgd", "size=288"),
                ("sgd", "size=8"),
            ],
        ),
        (
            "linear_update",
            "m=3 k=16 n=8 bias=0 tile=8",
            [("matmul", "b=1 m=8 k=3 n=16 ta=1 tb=0"), ("sgd", "size=128")],
        ),
    ],
)
def test_an_update_is_a_weight_gradient_and_a_descent(op: str, params: str, parts: list[tuple[str, str]]) -> None:
    work = card_work(kept_step(), op, params)
    assert work is not None
    assert [*((part.op, part.params) for part in work.parts), *work.operators] == parts
    assert sum(work.written_bytes) == sum(4 * int(params.split("=")[1]) for name, params in parts if name == "sgd")


def test_what_adds_to_a_sum_is_predicted_like_the_operator_that_does_not(tmp_path: Path) -> None:
    work = card_work(kept_step(), "streamed_linear_backward_input_accumulate", "m=4 k=128 n=64 tile=16")
    assert work is not None
    whole, tile = ("b=1 m=4 k=64 n=128 ta=0 tb=0", "b=1 m=4 k=16 n=128 ta=0 tb=0")
    assert work.parts == (WeightTile("matmul_accumulate", whole, tile),) * 4
    assert work.read_bytes == (8192,) * 4
    shapes = [(2, 8, 16), (4, 64, 8), (16, 32, 32), (1, 128, 10), (9, 9, 9)]
    products = {f"b=1 m={m} k={k} n={n} ta=0 tb=0": (m, k, n) for m, k, n in shapes}
    times = {
        key: PER_FLOP * 2 * m * k * n + PER_BYTE * 4 * (m * k + k * n + m * n) for key, (m, k, n) in products.items()
    }
    costs = model(tmp_path, [row("matmul", key, time_s) for key, time_s in times.items()])
    costed = costs.apply(graph("matmul_accumulate", "b=1 m=4 k=16 n=8 ta=0 tb=0"))
    expected = PER_FLOP * (2 * 4 * 16 * 8 + 4 * 8) + PER_BYTE * 4 * (4 * 16 + 16 * 8 + 2 * 4 * 8)
    assert costed.graph.nodes[0].time_s == pytest.approx(expected, rel=1e-6)
    assert [*costed.fits] == ["matmul, general"]


@pytest.mark.parametrize(
    ("op", "params", "written"),
    [
        (
            "conv2d_update",
            "n=1 c=4 h=8 w=8 k=40 r=3 s=3 sh=1 sw=1 ph=1 pw=1 g=1 bias=1 tile=32",
            (32 * 144, 8 * 144, 160),
        ),
        ("linear_update", "m=3 k=16 n=24 bias=0 tile=8", (512, 512, 512)),
        ("sgd_update", "size=300 tile=256", (1024, 176)),
    ],
)
def test_an_update_writes_tile_by_tile(op: str, params: str, written: tuple[int, ...]) -> None:
    work = card_work(kept_step(), op, params)
    assert work is not None
    assert work.written_bytes == written


STREAMED = "m=4 k=128 n=64 bias=0 tile=16"  # 32 KB in four tiles of 16 blocks


def test_a_streamed_operator_reads_each_tile_and_computes_beside_it() -> None:
    work = card_work(kept_step(), "streamed_linear", STREAMED)
    assert work is not None
    assert work.read_bytes == (8192,) * 4
    assert work.parts == (WeightTile("linear", "m=4 k=128 n=64 bias=0", "m=4 k=128 n=16 bias=0"),) * 4
    assert (work.operators, work.written_bytes, work.arriving) == ((), (), None)
    update = card_work(kept_step(), "streamed_linear_update", STREAMED)
    assert update is not None
    assert (update.read_bytes, update.written_bytes) == ((8192,) * 4, (8192,) * 4)
    assert update.parts == (WeightTile("matmul", "b=1 m=64 k=4 n=128 ta=1 tb=0", "b=1 m=16 k=4 n=128 ta=1 tb=0"),) * 4
    assert update.operators == (("sgd", "size=8192"),)
    rows = card_work(kept_step(), "streamed_embedding", "m=5 v=100 d=128")
    assert rows is not None
    assert rows.read_bytes == (512,) * 5
    update = card_work(kept_step(), "streamed_embedding_update", "m=5 v=3 d=100")  # each row read, written, read again
    assert update is not None
    assert (update.read_bytes, update.written_bytes) == ((400,) * 6, (400,) * 3)
    assert update.operators == (("sgd", "size=100"),) * 3


def test_only_the_first_tile_of_an_input_gradient_is_not_added() -> None:
    layer = "n=1 c=8 h=8 w=8 k=40 r=3 s=3 sh=2 sw=2 ph=1 pw=1 g=1 bias=0"
    work = card_work(kept_step(), "streamed_conv2d_backward_input", f"{layer} tile=16")
    assert work is not None
    assert [part.op.removeprefix("conv2d_backward_input") for part in work.parts] == ["", ACCUMULATE, ACCUMULATE]
    assert [parse_params(part.params)["k"] for part in work.parts] == [16, 16, 8]
    grouped = layer.replace("c=8", "c=40").replace("g=1", "g=20")
    work = card_work(kept_step(), "conv2d_update", f"{grouped} tile=16")
    assert work is not None
    cut = [parse_params(part.params) for part in work.parts]
    assert [(p["c"], p["k"], p["g"]) for p in cut] == [(16, 16, 8), (16, 16, 8), (8, 8, 4)]


LAYER = dict(n=1, c=32, h=8, w=8, k=64, r=3, s=3, sh=1, sw=1, ph=1, pw=1, g=1, bias=0)
TRANSFORMED = 16 * 32  # 4x4 tiles of the input of that layer
PRODUCTS = 4 * 32 * 16  # of four of them with four filters
PER_TRANSFORM, PER_PRODUCT = 2e-6, 7e-6


def winograd_s(op: str, p: Params) -> float:
    """By a law: products of four tiles and four filters, and the transform of what is read, once for all filters."""
    tiles = p["n"] * -(-p["h"] // 2) * -(-p["w"] // 2)
    read, filters = (p["k"], p["c"]) if "input" in op else (p["c"], p["k"])
    if "weight" in op:
        return PER_TRANSFORM * tiles * read + PER_PRODUCT * tiles * -(-read // 4) * -(-filters // 4)
    return PER_TRANSFORM * -(-tiles // 4) * 4 * read + PER_PRODUCT * -(-tiles // 4) * read * -(-filters // 4)


def winograd_rows(op: str) -> dict[str, float]:
    shapes = [
        LAYER | {"n": n, "c": c, "k": k, "h": h, "w": w}
        for n, c, k, h, w in (
            *((1, 8, 64, 8, 8), (1, 16, 8, 12, 12), (1, 48, 32, 8, 8), (1, 24, 8, 16, 16), (2, 9, 40, 4, 4)),
            *((3, 33, 8, 6, 4), (1, 8, 11, 14, 22), (2, 17, 28, 10, 8), (5, 12, 12, 6, 6), (1, 64, 9, 20, 4)),
        )
    ]
    return {params_key(op, p): winograd_s(op, p) for p in shapes}


@pytest.mark.parametrize(
    ("op", "tile", "passes"),
    [("conv2d", 16, 4), ("conv2d", 4, 16), ("conv2d_update", 16, 4), ("conv2d_backward_input", 16, 2)],
)
def test_inputs_are_transformed_again_for_each_tile(tmp_path: Path, op: str, tile: int, passes: int) -> None:
    """Tiles of four filters, too, which by themselves would be computed directly. Input gradients read gy once.

    It has twice as many channels as the input.
    """
    name = op.replace("update", "backward_weight")
    rows = [*(row(name, key, time_s) for key, time_s in winograd_rows(name).items()), *page_rows()]
    rows += [row("sgd", f"size={size}", 0.0) for size in (1, LAYER["k"] * LAYER["c"] * 9)]
    node = model(tmp_path, rows).apply(graph(f"streamed_{op}", params_key(f"streamed_{op}", LAYER | {"tile": tile})))
    size = 4 * LAYER["k"] * LAYER["c"] * 9
    count = LAYER["k"] // tile
    moved = (2 if "update" in op else 1) * (count * LATENCY + size // 512 * PER_BLOCK)
    computed = PER_PRODUCT * PRODUCTS + PER_TRANSFORM * TRANSFORMED * passes
    assert node.graph.nodes[0].time_s == pytest.approx(moved + computed, rel=1e-3)


def test_what_a_model_says_of_tiles_is_corrected_by_the_row_of_the_whole(tmp_path: Path) -> None:
    rows = [*(row("conv2d", key, time_s) for key, time_s in winograd_rows("conv2d").items()), *page_rows()]
    rows.append(row("conv2d", params_key("conv2d", LAYER), 7.0))
    costs = model(tmp_path, rows)
    one, many = (
        costs.apply(graph("streamed_conv2d", params_key("streamed_conv2d", LAYER | {"tile": tile})))
        for tile in (LAYER["k"], 16)
    )
    assert one.graph.nodes[0].time_s == pytest.approx(7.0 + LATENCY + 144 * PER_BLOCK)
    assert many.graph.nodes[0].time_s > 7.0 + 4 * LATENCY + 144 * PER_BLOCK


@pytest.mark.parametrize("compute_s", [0.01, 5.0])
def test_a_half_tile_arrives_while_the_one_before_is_computed_on(tmp_path: Path, compute_s: float) -> None:
    products = {n: row("linear", f"m=4 k=128 n={n} bias=0", compute_s * n / 64) for n in (8, 16, 24, 64)}
    serial, overlapped = (
        model(tmp_path, [*products.values(), *page_rows()], overlaps).apply(graph("streamed_linear", STREAMED))
        for overlaps in (False, True)
    )
    assert serial.graph.nodes[0].time_s == pytest.approx(4 * (LATENCY + 16 * PER_BLOCK) + compute_s)
    half, part = LATENCY + 8 * PER_BLOCK, compute_s / 8
    assert overlapped.graph.nodes[0].time_s == pytest.approx(half + 7 * max(half, part) + part)
    longer_j = overlapped.graph.nodes[0].energy_j - serial.graph.nodes[0].energy_j
    assert longer_j == pytest.approx(0.01 * 4 * LATENCY)
    for node in (serial.graph.nodes[0], overlapped.graph.nodes[0]):
        assert node.time_s - node.card_time_s == pytest.approx(compute_s)  # what is hidden takes no time of the card's
        assert node.energy_j - node.card_energy_j == pytest.approx(0.01 * compute_s)


@pytest.mark.parametrize("compute_s", [0.01, 5.0])
def test_a_tile_arrives_while_its_gradient_is_computed(tmp_path: Path, compute_s: float) -> None:
    """But one that cannot be read in halves does not arrive while anything else is computed."""
    products = [row("matmul", f"b=1 m={m} k=4 n=128 ta=1 tb=0", compute_s * m / 64) for m in (8, 16, 24, 64)]
    costs = model(tmp_path, [*products, row("sgd", "size=8192", 0.0), *page_rows()], True)
    node = costs.apply(graph("streamed_linear_update", STREAMED)).graph.nodes[0]
    tile = LATENCY + 16 * PER_BLOCK
    assert node.time_s == pytest.approx(4 * max(tile, compute_s / 4) + 4 * tile)
    forward = [row("linear", f"m=4 k=128 n={n} bias=0", compute_s * n / 64) for n in (1, 8, 24, 64)]
    costs = model(tmp_path, [*forward, *page_rows()], True)
    node = costs.apply(graph("streamed_linear", STREAMED.replace("tile=16", "tile=1"))).graph.nodes[0]
    assert node.time_s == pytest.approx(64 * (LATENCY + PER_BLOCK) + compute_s)


def test_a_tile_whose_half_is_no_whole_block_is_read_at_once() -> None:
    for params, reads in (("m=4 k=128 n=64 bias=0 tile=1", 64), ("m=4 k=64 n=64 bias=0 tile=2", 32)):
        work = card_work(kept_step(), "streamed_linear", params, overlaps=True)
        assert work is not None
        assert len(work.read_bytes) == reads


def test_the_time_between_operators_is_added_to_every_node_and_no_model_is_fitted_on_it(tmp_path: Path) -> None:
    rows = [fill_row(size) for size in (10, 100, 5000)]
    others = [row("idle", "", 1.0), row("step", "graph=0123456789abcdef", 3.0)]
    plain = model(tmp_path, [*rows, *others]).apply(graph("fill", "size=777 value_nano=0"))
    costed = model(tmp_path, [*rows, *others, row("overhead", "", 1e-5)]).apply(graph("fill", "size=777 value_nano=0"))
    assert costed.graph.nodes[0].time_s == pytest.approx(plain.graph.nodes[0].time_s + 1e-5)
    assert costed.graph.nodes[0].energy_j == pytest.approx(plain.graph.nodes[0].energy_j + 1e-7)
    assert costed.fits["fill"] == plain.fits["fill"]
    other = model(tmp_path, [fill_row(10), *others, row("overhead", "", 1e-5)]).apply(
        graph("pointwise", "size=10 steps=add(y0,x0,x1)")
    )
    assert other.fits[ALL_OPERATORS].rows == 1


def test_workspaces_are_those_that_an_agent_saw_on_the_board(tmp_path: Path) -> None:
    """Of a graph for PyTorch alone: a microcontroller's kernels take what the firmware says."""
    rows = [replace(fill_row(size), workspace_bytes=4096, where=where) for size, where in ((10, "place"), (20, "loop"))]
    costs = model(tmp_path, rows)
    for size, allocates, workspace in ((10, True, 4096), (10, False, 7), (20, True, 7), (30, True, 7)):
        given = graph("fill", f"size={size} value_nano=0")
        given = replace(given, allocates=allocates, nodes=(replace(given.nodes[0], workspace_bytes=7),))
        assert costs.apply(given).graph.nodes[0].workspace_bytes == workspace


def test_values_too_small_to_follow_the_line_of_pages_are_not_paged(tmp_path: Path) -> None:
    line = {size: LATENCY + PER_BLOCK * size / 512 for size in (65536, 2**20, 2**24)}
    rows = [
        row(op, f"bytes={size} pattern=sequential", time_s, source="measured")
        for op in ("page_in", "page_out")
        for size, time_s in {**line, 4096: 1.0}.items()
    ]
    path = tmp_path / "p.csv"
    with ProfileWriter(path) as profile:
        for each in [fill_row(10), *rows]:
            profile.append(each)
    for smallest, source in ((65536, "measured"), (65536, "published")):
        table = read_profile(path).assign(source=source)
        costs = CostModel(table, smallest_page_bytes=smallest)
        small, large = (
            costs.apply(graph("fill", "size=10 value_nano=0", size)).graph.nodes[0].values[0] for size in (4096, 2**21)
        )
        assert large.page is not None
        if source == "published":
            assert small.page is not None
        else:
            assert small.page is None
            assert large.page.in_time_s == pytest.approx(LATENCY + PER_BLOCK * 2**21 / 512)


def test_a_plan_knows_whether_anybody_has_measured_its_energies(tmp_path: Path) -> None:
    metered = fill_row(10, "measured")
    assert model(tmp_path, [metered]).apply(graph("fill", "size=10 value_nano=0")).senses
    guessed = replace(fill_row(20, "measured"), meter="no sensor: energy by the power states of host.toml")
    assert not model(tmp_path, [metered, guessed]).apply(graph("fill", "size=10 value_nano=0")).senses


def test_neither_kind_of_convolution_is_predicted_by_the_other(tmp_path: Path) -> None:
    """Each takes a law of its own: with exact rows of both, both are found."""

    def direct_s(op: str, p: Params) -> float:
        return PER_FLOP * OPERATORS[op].sizes(p).flops

    def rows(op: str, channels: tuple[int, ...], law: Callable[[str, Params], float]) -> dict[str, float]:
        keys = [
            f"n=1 c={c} h={extent} w={extent} k={c} r=3 s=3 sh=1 sw=1 ph=1 pw=1 g=1 bias=0"
            for c in channels
            for extent in (6, 8, 12)
        ]
        return {key: law(op, parse_params(key)) for key in keys}

    for op in ("conv2d", "conv2d_backward_input", "conv2d_backward_weight"):
        direct, winograd = rows(op, (2, 4, 7), direct_s), rows(op, (8, 16, 33), winograd_s)
        costs = model(tmp_path / op, [row(op, key, time_s) for key, time_s in (direct | winograd).items()])
        others = {**rows(op, (3, 5), direct_s), **rows(op, (9, 40), winograd_s)}
        for key, time_s in others.items():
            assert costs.apply(graph(op, key)).graph.nodes[0].time_s == pytest.approx(time_s, rel=1e-6)
        alone = model(tmp_path / f"{op}_alone", [row(op, key, time_s) for key, time_s in direct.items()])
        assert [*alone.apply(graph(op, next(iter(winograd)))).fits] == [ALL_OPERATORS]


PER_TILE, PER_TAP = 40e-6, 3e-6
SMALL = [(3, 4, 5), (4, 8, 4), (5, 16, 9), (8, 3, 7), (12, 20, 4), (3, 40, 16), (9, 6, 13), (16, 10, 5), (6, 2, 22)]


def tiled(m: int, k: int, n: int) -> float:
    """By a law of the firmware's loops: whole tiles of 4x4 results, however few there are."""
    return CONSTANT + -(-m // 4) * -(-n // 4) * (PER_TILE + PER_TAP * k)


def test_a_product_of_parts_of_tiles_costs_whole_ones(tmp_path: Path) -> None:
    rows = [row("matmul", f"b=1 m={m} k={k} n={n} ta=0 tb=0", tiled(m, k, n)) for m, k, n in SMALL]
    costs = model(tmp_path, rows)
    for m, k, n in ((5, 7, 9), (4, 100, 5), (13, 1, 6)):
        costed = costs.apply(graph("matmul", f"b=1 m={m} k={k} n={n} ta=0 tb=0"))
        assert costed.graph.nodes[0].time_s == pytest.approx(tiled(m, k, n), rel=1e-6)
        assert costed.fits["matmul, general"].rows == len(SMALL)


def test_rows_of_other_ways_say_only_what_those_of_the_same_way_leave_open(tmp_path: Path) -> None:
    """Single rows take a hundred times as long here: they hardly move what is said of tiles, and are not counted."""
    alone = [(1, k, n) for k in (4, 16, 30) for n in (4, 9, 20)]
    rows = [row("matmul", f"b=1 m={m} k={k} n={n} ta=0 tb=0", tiled(m, k, n)) for m, k, n in SMALL]
    rows += [row("matmul", f"b=1 m={m} k={k} n={n} ta=0 tb=0", 100 * tiled(m, k, n)) for m, k, n in alone]
    costed = model(tmp_path, rows).apply(graph("matmul", "b=1 m=5 k=7 n=9 ta=0 tb=0"))
    assert costed.graph.nodes[0].time_s == pytest.approx(tiled(5, 7, 9), rel=0.03)
    assert costed.fits["matmul, general"].rows == len(SMALL)
    unseen = model(tmp_path / "alone", rows[: len(SMALL)]).apply(graph("matmul", "b=1 m=1 k=7 n=9 ta=0 tb=0"))
    assert unseen.fits["matmul, few rows of a matrix"].rows == len(SMALL)  # there are no others
