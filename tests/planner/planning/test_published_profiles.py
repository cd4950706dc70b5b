# SPDX-License-Identifier: Apache-2.0
"""The shipped profiles of the paper's devices: published constants, held against the paper, and nothing else."""

from __future__ import annotations

import pytest
from poet_planner.costs.cost_model import Basis, CostModel
from poet_planner.costs.features import features
from poet_planner.planning.published_profiles import DEVICES, published_rows
from poet_planner.planning.training_graph import training_graph
from poet_profiles.boards import load_board
from poet_profiles.profile import read_profile
from poet_profiles.shipped import profile_names, shipped_profile

PROFILES = [device.profile for device in DEVICES]


def test_every_device_of_table_2_is_shipped() -> None:
    assert {"m0", "m4", "a72", "tx2"} == set(PROFILES) <= set(profile_names())


@pytest.mark.parametrize("name", PROFILES)
def test_nothing_published_is_called_measured(name: str) -> None:
    rows = read_profile(shipped_profile(name))
    assert set(rows["source"]) == {"published"}
    assert len(set(rows["board"])) == 1


@pytest.mark.parametrize(
    ("name", "flops_per_s", "power_w"),
    [("m0", 166_667, 0.066), ("m4", 6.37e6, 0.01098), ("a72", 120.35e6, 3.0), ("tx2", 16e9, 0.995)],
)
def test_compute_rows_are_rate_and_power(name: str, flops_per_s: float, power_w: float) -> None:
    rows = read_profile(shipped_profile(name))
    row = rows[(rows["op"] == "conv2d")].iloc[0]
    flops = features(row["op"], row["params"]).flops
    assert row["time_s"] == pytest.approx(flops / flops_per_s, rel=1e-3)
    assert row["energy_j"] == pytest.approx(row["time_s"] * power_w, rel=1e-3)


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
