# SPDX-License-Identifier: Apache-2.0
"""The figures that the planner is held to, from a file of measurements, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from benchmarks.planner.best_known import KEY, best_energy_j, distinguished, read_best
from benchmarks.planner.instances import PROTOTYPES

INSTANCE = ["suite", "graph", "ram", "deadline", "paging"]
RUN = ["formulation", "solver", "seconds", "clock", "seed"]
FEASIBLE_S = 2.0
EARLY_S = 10.0
NEAR = 0.01
GAPS = (0.001, 0.01)
RELATIVE = 1e-6


def report(results: pd.DataFrame) -> str:
    """One table a suite and time limit, and how many instances fall short of each goal."""
    rows = _last(results)
    ours = rows[rows["formulation"] == "best"]
    parts = [
        "# Results of the planner benchmarks",
        f"`python -m benchmarks.planner table` made this from {len(rows)} rows of `results.csv`. "
        "[README.md](README.md) says what the columns mean. *Found* and the columns after it count instances that are "
        "known to have a schedule.",
    ]
    for (suite, seconds, clock), group in ours.groupby(["suite", "seconds", "clock"]):
        table = pd.DataFrame([_summary(paging, of_it) for paging, of_it in group.groupby("paging")])
        parts += [f"## `{suite}`, {seconds:g} s ({clock})", markdown(table)]
    sentences = [_bounds(ours), *_prototypes(ours), *_against_paper(rows)]
    parts += ["## Comparisons", "\n".join(f"- {sentence}" for sentence in sentences)]
    missed = short(results).value_counts(["suite", "missed"], sort=False).rename("instances").reset_index()
    parts += ["## What falls short", "[short.csv](short.csv) has each instance.", markdown(missed)]
    return "\n\n".join(parts) + "\n"


def _last(results: pd.DataFrame) -> pd.DataFrame:
    """Of several rows of one instance under the same run the last, with the best energies known."""
    return _with_best(results.drop_duplicates([*INSTANCE, *RUN], keep="last"))


def _with_best(results: pd.DataFrame) -> pd.DataFrame:
    """The results with the best energy known, their overheads in % of plain energy, and gaps."""
    best = read_best()
    answers = results[results["verified"].astype(bool) & (results["formulation"] == "best")]
    answers = distinguished(answers).assign(deadline_s=answers["deadline_s"].fillna(np.inf))
    best = pd.concat([best, answers], ignore_index=True)
    rows = results.assign(deadline_s=results["deadline_s"].fillna(np.inf))
    unsound = ~rows["verified"].astype(bool)
    rows.loc[unsound, [column for column in rows.columns if column.startswith(("energy_", "bound_"))]] = np.nan
    rows["best_j"] = [best_energy_j(best, *key) for key in distinguished(rows)[KEY].itertuples(index=False)]
    for moment in ("2s_", "10s_", "60s_", ""):
        rows[f"overhead_{moment}percent"] = _percent_above(rows[f"energy_{moment}j"], rows["plain_energy_j"])
    rows["early_j"] = rows["energy_10s_j"].where(rows["seconds"] >= EARLY_S, rows["energy_j"])
    rows["best_overhead_percent"] = _percent_above(rows["best_j"], rows["plain_energy_j"])
    rows["gap"] = (rows["energy_j"] - rows["bound_j"]) / rows["energy_j"]
    overhead_j = rows["energy_j"] - rows["plain_energy_j"]
    rows["overhead_gap"] = ((rows["energy_j"] - rows["bound_j"]) / overhead_j).where(
        overhead_j > RELATIVE * rows["plain_energy_j"], 0.0
    )
    return rows


def _percent_above(energy: pd.Series, plain: pd.Series) -> pd.Series:
    return 100 * (energy / plain - 1)


def _exists(rows: pd.DataFrame) -> pd.Series:
    """Whether a schedule is known to exist."""
    return rows["best_j"].notna()


def _summary(paging: bool, rows: pd.DataFrame) -> dict[str, object]:
    real = rows[_exists(rows)]
    return {
        "storage": "yes" if paging else "no",
        "instances": len(rows),
        "found": _share(real["verified"].astype(bool)),
        "first, worst": f"{real['first_feasible_s'].max():.2f} s",
        "near best early": _share(_near(real)),
        "gap ≤ 0.1 %": _share(real["gap"] <= GAPS[0]),
        "gap ≤ 1 %": _share(real["gap"] <= GAPS[1]),
        "proven": _share(real["status"] == "optimal"),
    }


def _near(rows: pd.DataFrame) -> pd.Series:
    """Whether the overhead is at most 1 % (relative) above the best known, after ten seconds or a shorter limit."""
    over, best = rows["early_j"] - rows["plain_energy_j"], rows["best_j"] - rows["plain_energy_j"]
    return over <= best * (1 + NEAR) + RELATIVE * rows["plain_energy_j"]


def _share(flags: pd.Series) -> str:
    return f"{int(flags.sum())} of {len(flags)}"


def _bounds(rows: pd.DataFrame) -> str:
    """Every bound against the least energy known for its instance: one above it would be false."""
    bounded = rows[rows["bound_j"].notna()]
    false = bounded[bounded["bound_j"] > bounded["best_j"] * (1 + 1e-9)]
    named = ": " + ", ".join(" ".join(map(str, key)) for key in false[INSTANCE].itertuples(index=False))
    return f"Of {len(bounded)} bounds, {len(false)} are above an energy that was reached{named * (not false.empty)}."


def _prototypes(rows: pd.DataFrame) -> list[str]:
    """How many of the overheads that earlier prototypes reached are met, to the digits that are known of them."""
    prototypes = pd.read_csv(PROTOTYPES, dtype=str)
    merged = rows[rows["suite"] == "prototypes"].merge(prototypes, on=["graph", "ram", "deadline"])
    if merged.empty:
        return []
    digits = merged["overhead_percent_y"].str.partition(".")[2].str.len()
    met = merged["overhead_percent_x"] <= merged["overhead_percent_y"].astype(float) + 0.5 * 10.0**-digits
    return [f"The overhead of the earlier prototypes is reached or undercut in {_share(met)} instances."]


def _against_paper(rows: pd.DataFrame) -> list[str]:
    """Algorithm 1 as printed beside ours: same solver, same RAM."""
    key = [*INSTANCE, "ram_bytes", "solver"]
    paper, ours = rows[rows["formulation"] == "paper"], rows[(rows["formulation"] == "best") & _exists(rows)]
    if paper.empty:
        return []
    both = paper.merge(ours, on=key, suffixes=("_paper", ""))
    found = both["energy_j_paper"].notna()
    lower = both["energy_j_paper"] < both["energy_j"] * (1 - RELATIVE)
    limits = " or ".join(f"{seconds:g}" for seconds in sorted(both["seconds_paper"].unique()))
    outcome = f"It found a schedule in {found.sum()}, and one of less energy than ours in {lower.sum()}."
    return [f"Algorithm 1 as printed was given {limits} s in {len(both)} runs on these instances. {outcome}"]


def short(results: pd.DataFrame) -> pd.DataFrame:
    """Instances that miss a goal, and which."""
    rows = _last(results)
    real = rows[_exists(rows) & (rows["formulation"] == "best")]
    missed = [", ".join(_misses(row)) for _, row in real.iterrows()]
    short = real.assign(missed=missed)[[bool(text) for text in missed]].sort_values(INSTANCE)
    short["gap"] *= 100
    columns = {"overhead, %": "overhead_percent", "best known, %": "best_overhead_percent", "gap, %": "gap"}
    return pd.DataFrame(
        {
            **{column: short[column] for column in ("suite", "graph", "ram", "deadline")},
            "storage": np.where(short["paging"], "yes", "no"),
            **{name: short[column].map("{:z.4f}".format) for name, column in columns.items()},
            "missed": short["missed"],
        }
    )


def _misses(row: pd.Series) -> Iterator[str]:
    if not row["verified"]:
        yield f"{row['status']}: {row['note']}" if isinstance(row["note"], str) else row["status"]
        return
    if row["first_feasible_s"] > FEASIBLE_S:
        yield f"first after {row['first_feasible_s']:.1f} s"
    if not _near(row.to_frame().T).item():
        yield "not near the best early"
    if not row["gap"] <= GAPS[0]:
        yield "gap > 1 %" if row["gap"] > GAPS[1] else "gap > 0.1 %"


def markdown(frame: pd.DataFrame) -> str:
    """A table of what is in the frame."""
    if frame.empty:
        return "Nothing."
    rows = [list(map(str, frame.columns)), ["---"] * len(frame.columns)]
    rows += [["" if text == "nan" else str(text) for text in row] for row in frame.itertuples(index=False)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
