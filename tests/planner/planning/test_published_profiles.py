# SPDX-License-Identifier: Apache-2.0
"""The shipped profiles of the paper's devices: published constants, held against the paper, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from poet_planner.costs.cost_model import Basis, CostModel
from poet_planner.costs.features import features
from poet_planner.planning.published_profiles import DEVICES, published_rows
from poet_planner.planning.training_graph import training_graph
from poet_profiles.boards import load_board
from poet_profiles.graph.file import read_graph
from poet_profiles.profile import read_profile
from poet_profiles.shipped import profile_names, shipped_profile

from benchmarks.planner.instances import PAPER_GRAPHS

PROFILES = [device.profile for device in DEVICES]


def test_every_device_of_table_2_is_shipped() -> None:
    assert {"m0", "m4", "a72", "a72nocache", "tx2"} == set(PROFILES) <= set(profile_names())


@pytest.mark.parametrize("name", PROFILES)
def test_nothing_published_is_called_measured(name: str) -> None:
    rows = read_profile(shipped_profile(name))
    assert set(rows["source"]) == {"published"}
    assert len(set(rows["board"])) == 1


@pytest.mark.parametrize(
    ("name", "flops_per_s", "power_w"),
    [
        *(("m0", 166_667, 0.066), ("m4", 6.37e6, 0.01098), ("a72", 120.35e6, 3.0)),
        *(("a72nocache", 120.35e6, 3.0), ("tx2", 16e9, 0.766)),
    ],
)
def test_compute_rows_are_rate_and_power(name: str, flops_per_s: float, power_w: float) -> None:
    rows = read_profile(shipped_profile(name))
    computes = rows[~rows["op"].isin(("page_in", "page_out"))]
    flops = [features(op, params).flops for op, params in zip(computes["op"], computes["params"], strict=True)]
    assert computes["time_s"].to_numpy() == pytest.approx(np.array(flops) / flops_per_s, rel=1e-3)
    assert computes["energy_j"].to_numpy() == pytest.approx(computes["time_s"].to_numpy() * power_w, rel=1e-3)
    assert len(computes) > 500


@pytest.mark.parametrize("path", sorted(PAPER_GRAPHS.glob("*.json")), ids=lambda path: path.stem)
def test_a_board_has_one_rate_and_one_power_in_its_profile_and_in_the_papers_graphs(path: Path) -> None:
    """Of every node: FLOPs are those of the same network on the m0, whose rate nobody doubts."""
    network, board = path.stem.split(".")
    m0, device = (next(device for device in DEVICES if device.profile == name) for name in ("m0", board))
    graph, of_m0 = read_graph(path), read_graph(PAPER_GRAPHS / f"{network}.m0.json")
    time_s, energy_j = np.array([(node.time_s, node.energy_j) for node in graph.nodes]).T
    flops = np.array([node.time_s for node in of_m0.nodes]) * m0.flops_per_s
    assert time_s == pytest.approx(flops / device.flops_per_s, rel=1e-6)
    assert energy_j == pytest.approx(time_s * device.power_w, rel=1e-6)
    assert (time_s > 0).sum() >= len(graph.nodes) - 2


def test_without_a_write_cache_only_paging_out_costs_more() -> None:
    cached, bare = (read_profile(shipped_profile(name)).set_index(["op", "params"]) for name in ("a72", "a72nocache"))
    slower = cached.index[bare.loc[cached.index, "time_s"] > cached["time_s"]]
    assert {op for op, _ in slower} == {"page_out"}
    row = bare.loc[("page_out", "bytes=65536 pattern=sequential")]
    assert row["time_s"] == pytest.approx(0.004235 + 65536 / 17.1e6)


def test_page_rows_are_the_papers_card() -> None:
    """A 64 KB page on the microcontrollers' card: 14.3 ms and 4.72 mJ in, 14.9 ms and 4.91 mJ out."""
    rows = read_profile(shipped_profile("m4")).set_index(["op", "params"])
    page_in = rows.loc[("page_in", "bytes=65536 pattern=sequential")]
    page_out = rows.loc[("page_out", "bytes=65536 pattern=sequential")]
    assert (page_in["time_s"], page_in["energy_j"]) == pytest.approx((0.0143050, 0.00472065), rel=1e-4)
    assert (page_out["time_s"], page_out["energy_j"]) == pytest.approx((0.0148734, 0.00490821), rel=1e-4)


@pytest.mark.parametrize(("name", "model"), [("m4", "resnet18_cifar"), ("m4", "digits_cnn"), ("a72", "digits_cnn")])
def test_built_in_models_are_covered(name: str, model: str) -> None:
    """A model that has changed since the profiles were made fails here: run `make profiles`."""
    rows = read_profile(shipped_profile(name))
    board = load_board(rows["board"].iloc[0])
    costed = CostModel(rows).apply(training_graph(model, None, board))
    operators = {node.id for node in costed.graph.nodes if node.operation}
    assert {costed.basis[id] for id in operators} == {Basis.PUBLISHED}


def test_shipped_rows_are_what_the_command_makes() -> None:
    device = next(device for device in DEVICES if device.profile == "m4")
    graph = training_graph("digits_cnn", None, load_board("nrf52840"))
    shipped = read_profile(shipped_profile("m4")).set_index(["op", "params"])
    for row in published_rows(device, [graph]):
        assert shipped.loc[(row.op, row.params), "energy_j"] == pytest.approx(row.energy_j)
