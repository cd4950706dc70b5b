# SPDX-License-Identifier: Apache-2.0
"""Pictures of 96x96 are planned as the page of the camera says: in bands alone, cheaply."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from poet_planner import Model, Plan, plan
from poet_planner.solve import NoScheduleError, OptimiseOptions
from poet_profiles.boards import load_board

CAMERA = Path(__file__).parents[2] / "firmware" / "examples" / "camera" / "camera.py"


def test_a_step_on_a_picture_fits_in_bands_alone() -> None:
    network: Callable[[int], Model] = runpy.run_path(str(CAMERA))["network"]

    def planned(**asked: Any) -> Plan:
        return plan(network(3), profile="nrf52840", options=OptimiseOptions(time_limit_s=0.5), **asked)

    banded, whole = planned(), planned(tiles="off", ram="600KB")
    with pytest.raises(NoScheduleError, match=r"KB of inputs; .*; the same batch --tiles auto fits"):
        planned(tiles="off", parameters="resident")
    assert banded.summary.peak_bytes < load_board("nrf52840").usable_ram_bytes < whole.summary.peak_bytes
    assert banded.summary.energy_j < 1.02 * whole.summary.energy_j
    largest = 4 * 4 * 94 * 94
    assert [one.bytes for one in banded.summary.tiles if one.bytes == largest] == [largest] * 3
    assert max(value.bytes for node in banded.graph.nodes for value in node.values) < largest / 2
