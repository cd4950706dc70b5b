# SPDX-License-Identifier: Apache-2.0
"""Points of a sweep made by hand, for pictures."""

from __future__ import annotations

from typing import Any

from poet_planner.comparison.sweep_table import COLUMNS, Point

PLAIN_J, PLAIN_BYTES, PLAIN_S = 2.0, 1 << 20, 10.0


def sweep_point(method: str, share: float, overhead: float | None, proven: float | None = None, **other: Any) -> Point:
    """A method's plan in a share of the store-all peak; ``proven`` is the part of the overhead that is needed."""
    figures: dict[str, Any] = dict.fromkeys(COLUMNS)
    figures |= {"model": "net", "board": "m4", "profile_source": "published", "graph_hash": "g", "costs_hash": "c"}
    figures |= {"nodes": 9, "ram_budget_bytes": int(share * PLAIN_BYTES), "ram_of_plain": share, "method": method}
    figures |= {"plain_energy_j": PLAIN_J, "plain_time_s": PLAIN_S, "plain_peak_bytes": PLAIN_BYTES}
    figures |= {"seconds": 0.1, "seed": 0, "time_limit_s": 2.0, "code_version": "test", "note": "", "status": "none"}
    if overhead is not None:
        figures |= {"status": "feasible", "overhead": overhead, "energy_j": PLAIN_J * (1 + overhead), "time_s": PLAIN_S}
        figures |= {"peak_bytes": int(share * PLAIN_BYTES), "recomputes": 1, "page_ins": 1, "page_outs": 1}
    if proven is not None:
        figures |= {"bound_j": PLAIN_J * (1 + proven), "gap": (overhead or 0.0) - proven}
    return Point(**(figures | other))
