# SPDX-License-Identifier: Apache-2.0
"""The paper's graphs on its fourth board: `python -m benchmarks.planner.paper_tx2` writes them anew.

POET's code has the TX2's storage constants, and no compute rate. The nodes' FLOPs are those of the same graph on the
a72. Rates and powers are those of the published profiles (docs/costs.md).
"""

from __future__ import annotations

import json
from typing import Any

from poet_planner.planning.published_profiles import DEVICES
from poet_profiles.files.whole_file import write_whole

from benchmarks.planner.instances import PAPER_GRAPHS

MODELS = ("resnet18_cifar", "vgg16_cifar", "bert")
A72, TX2 = (next(device for device in DEVICES if device.profile == name) for name in ("a72", "tx2"))


def on_tx2(node: dict[str, Any]) -> dict[str, Any]:
    """A node of a graph file for the a72, with the TX2's costs."""
    compute_s = round(node["time_s"] * A72.flops_per_s) / TX2.flops_per_s
    costs = {"time_s": compute_s, "energy_j": compute_s * TX2.power_w}
    if "page_in_time_s" in node:
        in_s = TX2.page_in_latency_s + node["bytes"] / TX2.page_in_bytes_per_s
        out_s = TX2.page_out_latency_s + node["bytes"] / TX2.page_out_bytes_per_s
        costs |= {"page_in_time_s": in_s, "page_in_energy_j": in_s * TX2.page_power_w}
        costs |= {"page_out_time_s": out_s, "page_out_energy_j": out_s * TX2.page_power_w}
    return node | {name: float(f"{cost:.9g}") for name, cost in costs.items()}


def graph_text(model: str) -> str:
    """The file of that model on the TX2, a node a line."""
    graph = json.loads((PAPER_GRAPHS / f"{model}.a72.json").read_text(encoding="utf-8"))
    name = f"{model} on tx2, storage as published, computes at an assumed rate"
    nodes = ",\n".join(json.dumps(on_tx2(node), separators=(",", ":")) for node in graph["nodes"])
    edges = json.dumps(graph["edges"], separators=(",", ":"))
    head = json.dumps({"format": graph["format"], "name": name, "resident_bytes": 0}, separators=(",", ":"))
    return f'{head[:-1]},\n"nodes":[\n{nodes}\n],\n"edges":{edges}}}\n'


def main() -> None:
    """Write all of them."""
    for model in MODELS:
        write_whole(PAPER_GRAPHS / f"{model}.tx2.json", graph_text(model))


if __name__ == "__main__":
    main()
