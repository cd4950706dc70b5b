# SPDX-License-Identifier: Apache-2.0
"""Loading the optimiser before any plan's time limit begins."""

from __future__ import annotations

from functools import cache

from poet_profiles.graph import Graph, Node, PageCost, Value

LAYERS = 4


@cache
def warm_up() -> None:
    """Plan something tiny, once a process."""
    from poet_planner.solve import OptimiseOptions, optimise

    page = PageCost(1.0, 1.0, 1.0, 1.0)
    forward = (Node(f"f{k}", 1.0, 1.0, (Value(f"f{k}", 8, page),), (f"f{k - 1}",) if k else ()) for k in range(LAYERS))
    backward = (
        Node(f"b{k}", 1.0, 1.0, (Value(f"b{k}", 4),), (f"f{k}", *([f"b{k + 1}"] if k < LAYERS - 1 else [])))
        for k in reversed(range(LAYERS))
    )
    optimise(Graph("warm-up", (*forward, *backward)), 40, None, OptimiseOptions(time_limit_s=1.0))
