# SPDX-License-Identifier: Apache-2.0
"""What a plan says of its tiles, against its graph and the sizes of the planes."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from poet_planner import Model, plan
from poet_planner.report.table import rows
from poet_planner.report.tiles import Chain, chains
from poet_planner.solve import OptimiseOptions
from poet_profiles.graph import Node
from poet_profiles.plan_folder.summary import read_summary
from torch import nn
from torch.nn.functional import cross_entropy

SIDE, FILTERS, BATCH = 34, 2, 3


def test_a_plan_says_which_values_are_never_whole_and_why(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, FILTERS, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(FILTERS * 16**2, 3)]
    model = Model(
        "camera", nn.Sequential(*layers), (torch.rand(BATCH, 3, SIDE, SIDE),), (torch.arange(3),), cross_entropy
    )
    options = OptimiseOptions(time_limit_s=0.5)
    made = plan(model, profile="nrf52840", ram="34KB", parameters="resident", options=options)
    made.write(tmp_path)
    tiles = {one.value: one for one in read_summary(tmp_path / "summary.json").tiles}
    plane = 4 * FILTERS * (SIDE - 2) ** 2
    assert {"0", "1"} <= tiles.keys()
    assert all(tiles[name].bytes == plane for name in "01")
    values = {value.id for node in made.graph.nodes for value in node.values}
    for name, one in tiles.items():
        bands = [id for id in values if id.startswith(f"{name}..band")]
        assert name not in values and len(bands) == one.tiles > 1
        assert one.bytes <= one.tiles * one.tile_bytes < one.bytes + one.tiles * one.tile_bytes
    note = made.form.note
    assert "without tiles a step needs" in note and "never in RAM as a whole: 0, 1" in note
    needed = [row.needs_bytes for row in made.summary.contest if "bands" not in row.form]
    assert f"{min(needed) / 1024:.1f} KB at least" in note and min(needed) > 34 * 1024
    assert [figure for name, figure, _ in rows(made.summary) if name == "  in tiles"] == [f"{len(tiles)} values"]
    untiled = plan(model, profile="nrf52840", ram="64KB", options=options)
    assert untiled.summary.tiles == () and json.loads(json.dumps(untiled.summary.document()))["tiles"] == []


def test_a_chain_goes_from_its_first_operator_to_the_one_that_gathers_it() -> None:
    forward = ["in", "pool..begun0", "conv..band0", "pool..rows0", "conv..band1", "pool", "fc"]
    backward = ["fc.grad..added", "conv.backward..tile0", "conv.backward..tile1", "update"]
    nodes = [Node(id, 1.0, 1.0, (), backward=id in backward) for id in (*forward, *backward)]
    assert chains(nodes) == [Chain("conv … pool", 1, 6, 2), Chain("conv", 8, 10, 2)]
