# SPDX-License-Identifier: Apache-2.0
"""Poet's plans beside gradient accumulation as people do it by hand, for the demo's network and batch."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from poet_planner import plan
from poet_planner.solve import OptimiseOptions
from poet_profiles.errors import NO_SCHEDULE, UserError

from benchmarks.evaluation.markdown import NONE, percent, table

TABLE = Path(__file__).with_name("micro_batches.csv")
MODEL, BATCH, BOARD, LIMIT_S = "digits_cnn", 24, "nrf52840", 20.0
RAMS = ("216KB", "128KB", "96KB", "64KB", "48KB")
BY_HAND, OURS = "store_all_micro_batches", "optimal"


def run(time_limit_s: float = LIMIT_S) -> None:
    """Plan everything anew, and write the table."""
    rows = [row(ram, method, time_limit_s) for ram in RAMS for method in (BY_HAND, OURS)]
    pd.DataFrame(rows).to_csv(TABLE, index=False)
    print(f"{TABLE.name}: {len(rows)} plans")


def row(ram: str, method: str, time_limit_s: float) -> dict[str, object]:
    """Of the method's plan; without energy where it has none. Energies leave the runner's out."""
    where = {"ram": ram, "method": method, "time_limit_s": time_limit_s}
    options = OptimiseOptions(time_limit_s=time_limit_s)
    try:
        made = plan(MODEL, batch=BATCH, profile=BOARD, ram=ram, method=method, options=options)
    except UserError as lack:
        if lack.exit_code != NO_SCHEDULE:
            raise
        return where
    form, summary = made.form, made.summary
    plain = form.whole or form
    return where | {
        **{"micro_batches": summary.micro_batches, "energy_j": summary.energy_j, "runner_j": form.runner_j},
        **{"plain_energy_j": summary.plain_energy_j, "plain_runner_j": plain.runner_j, "gap": summary.forms_gap},
    }


def overheads(plans: pd.DataFrame) -> pd.DataFrame:
    """What each method adds to the whole batch in unlimited RAM, by budget."""
    plain_j = plans["plain_energy_j"] + plans["plain_runner_j"]
    added = plans.assign(overhead=(plans["energy_j"] + plans["runner_j"]) / plain_j - 1)
    return added.set_index(["ram", "method"])["overhead"].unstack("method").reindex(list(dict.fromkeys(plans["ram"])))


def facts() -> dict[str, str]:
    """What the page says of it: how many parts, and what they add."""
    table_of = pd.read_csv(TABLE)
    added, plans = overheads(table_of), table_of.set_index(["ram", "method"])
    rows = [
        [ram, *(cell for method in (BY_HAND, OURS) for cell in _cells(plans.loc[(ram, method)], added[method][ram]))]
        for ram in added.index
    ]
    for row in rows:
        row.append(percent(plans.loc[(row[0], OURS), "gap"]))
    heads = ("RAM", "by hand: parts", "adds, %", "poet: parts", "adds, %", "gap, %")
    return {"model": MODEL, "batch": str(BATCH), "board": BOARD, "table": table(heads, rows)}


def _cells(one: pd.Series, added: float) -> list[str]:
    return [NONE if pd.isna(one["micro_batches"]) else f"{one['micro_batches']:.0f}", percent(added)]
