# SPDX-License-Identifier: Apache-2.0
"""The least energy that anybody has found for an instance, kept in best_known.csv."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from poet_profiles.files.whole_file import write_whole

FILE = Path(__file__).parent / "best_known.csv"
KEY = ["graph", "ram_bytes", "deadline_s", "paging"]


def read_best(path: Path = FILE) -> pd.DataFrame:
    """What is known; ``deadline_s`` is infinite where there is none."""
    best = pd.read_csv(path)
    return best.assign(deadline_s=best["deadline_s"].fillna(float("inf")))


def distinguished(rows: pd.DataFrame) -> pd.DataFrame:
    """The results with other names for traced graphs: some bear those of the paper's, and are not the same."""
    return rows.assign(graph=rows["graph"].where(rows["suite"] != "traced", "traced " + rows["graph"]))


def add_to_best(rows: pd.DataFrame, found: str, path: Path = FILE) -> int:
    """Keep what is better than anything known, of the verified ``rows``; how many that were.

    Parameters
    ----------
    found : str
        By whom, where a row is new or better.
    """
    known = read_best(path)
    offered = distinguished(rows)[rows["verified"].astype(bool)].assign(found=found)
    offered = offered.assign(deadline_s=offered["deadline_s"].fillna(float("inf")))[[*KEY, "energy_j", "found"]]
    together = pd.concat([known, offered], ignore_index=True).sort_values("energy_j", kind="stable")
    best = together.drop_duplicates(KEY).sort_values(KEY, ignore_index=True)
    text = best.assign(deadline_s=best["deadline_s"].replace(float("inf"), float("nan"))).to_csv(index=False)
    write_whole(path, text)
    return len(best) - len(best.merge(known[[*KEY, "energy_j"]], on=[*KEY, "energy_j"]))


def best_energy_j(best: pd.DataFrame, graph: str, ram_bytes: int, deadline_s: float, paging: bool) -> float:
    """Least energy known for an instance: its own, or that of one with less RAM, time or storage, which fits too.

    ``graph`` is named as in `distinguished`.
    """
    fits = (best["graph"] == graph) & (best["ram_bytes"] <= ram_bytes)
    fits &= (best["deadline_s"] <= deadline_s * (1 + 1e-9)) & (best["paging"] <= paging)
    return float(best.loc[fits, "energy_j"].min())
