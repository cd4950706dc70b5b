# SPDX-License-Identifier: Apache-2.0
"""The paper's Table 2, and what a byte and a FLOP cost on each board: published, and emulated by poet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pandas as pd
from poet_planner.costs.features import features
from poet_planner.planning.published_profiles import DEVICES
from poet_profiles.boards import load_board
from poet_profiles.shipped import shipped_profile

from benchmarks.evaluation.markdown import table

# The paper's Table 2: clock, RAM, floating-point unit.
PRINTED = {
    "m0": ("48 MHz", "32 KB", "no"),
    "m4": ("64 MHz", "256 KB", "yes"),
    "a72": ("1.5 GHz", "2 GB", "yes"),
    "tx2": ("2 GHz", "8 GB", "yes"),
}
EMULATED = ("mkr1000", "nrf52840")
# Where most of a convolutional network's energy goes.
HEAVY = ("conv2d", "conv2d_backward_input", "conv2d_backward_weight")


@dataclass(frozen=True)
class Constants:
    """What computing and paging cost; a byte is paged out and in."""

    flops_per_s: float
    j_per_flop: float
    s_per_byte: float
    j_per_byte: float

    @property
    def byte_in_flops(self) -> float:
        """How many FLOP cost as much energy as one byte out and in."""
        return self.j_per_byte / self.j_per_flop


@cache
def published(board: str) -> Constants:
    """The constants of POET's open code, without the latency of a transfer."""
    device = next(device for device in DEVICES if device.profile == board)
    s_per_byte = 1 / device.page_in_bytes_per_s + 1 / device.page_out_bytes_per_s
    return Constants(
        device.flops_per_s, device.power_w / device.flops_per_s, s_per_byte, s_per_byte * device.page_power_w
    )


@cache
def emulated(board: str) -> Constants:
    """The shipped profile's: all its convolutions together, and its largest transfers."""
    profile = pd.read_csv(shipped_profile(board))
    heavy = profile[profile["op"].isin(HEAVY)]
    flops = sum(features(op, params).flops for op, params in zip(heavy["op"], heavy["params"], strict=True))
    pages = profile[profile["params"].str.contains("pattern=sequential", na=False)]
    largest = pages.sort_values("bytes").groupby("op").last().loc[["page_in", "page_out"]]
    return Constants(
        flops / heavy["time_s"].sum(),
        heavy["energy_j"].sum() / flops,
        float((largest["time_s"] / largest["bytes"]).sum()),
        float((largest["energy_j"] / largest["bytes"]).sum()),
    )


def ram_bytes(name: str) -> int:
    """Of a board that the paper names."""
    return load_board(next(device.board for device in DEVICES if device.profile == name)).ram_bytes


def facts() -> dict[str, str]:
    """What the page says of it."""
    devices = {device.profile: load_board(device.board) for device in DEVICES if device.profile in PRINTED}
    printed = [
        [name, *PRINTED[name], board.title, _size(board.ram_bytes), "yes" if board.fpu else "no"]
        for name, board in devices.items()
    ]
    costs = [[f"{device.profile}, published", *_cells(published(device.profile))] for device in DEVICES]
    costs += [[f"{name}, emulated", *_cells(emulated(name))] for name in EMULATED]
    m4, nrf = published("m4"), emulated("nrf52840")
    return {
        "boards": table(["board", "clock", "RAM", "FPU", "board file", "RAM", "FPU"], printed),
        "costs": table(["board", "MFLOP/s", "nJ a FLOP", "ns a byte", "nJ a byte", "FLOP a byte costs"], costs),
        "faster": f"{nrf.flops_per_s / m4.flops_per_s:.1f}",
        "cheaper": f"{m4.j_per_flop / nrf.j_per_flop:.1f}",
        "byte": f"{nrf.j_per_byte / m4.j_per_byte:.1f}",
        "costs_more": f"{nrf.byte_in_flops / m4.byte_in_flops:.0f}",
    }


def _cells(costs: Constants) -> list[str]:
    return [
        f"{costs.flops_per_s / 1e6:,.4g}" if costs.flops_per_s < 1e9 else f"{costs.flops_per_s / 1e6:,.0f}",
        f"{costs.j_per_flop * 1e9:.3g}",
        f"{costs.s_per_byte * 1e9:.4g}",
        f"{costs.j_per_byte * 1e9:.4g}",
        f"{float(f'{costs.byte_in_flops:.3g}'):,.12g}",
    ]


def _size(count: int) -> str:
    return f"{count // 1024} KB" if count < 2**20 else f"{count / 2**30:g} GB"
