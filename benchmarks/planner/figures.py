# SPDX-License-Identifier: Apache-2.0
"""The figures that the planner is held to, from a file of measurements, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from benchmarks.planner.best_known import KEY, best_energy_j, read_best, told_apart
from benchmarks.planner.instances import PROTOTYPES

INSTANCE = ["suite", "graph", "ram", "deadline", "paging"]
RUN = ["formulation", "solver", "seconds", "clock", "seed"]
FEASIBLE_S = 2.0
EARLY_S = 10.0
NEAR = 0.01
GAPS = (0.001, 0.01)
RELATIVE = 1e-6


def report(results: pd.DataFrame) -> str:
    """All tables: one row a suite and time limit, what falls short, and the comparison with Algorithm 1 as printed.

    Of several rows of one instance under the same run, the last counts.
    """
    rows = _with_best(results.drop_duplicates([*INSTANCE, *RUN], keep="last"))
    ours = rows[rows["formulation"] == "best"]
    parts = [
        "# Results of the planner benchmarks",
        f"Made by `run.py table` from {len(rows)} rows; README.md says what the columns mean.",
        "## Suites",
        _markdown(pd.DataFrame([_summary(*group) for group in ours.groupby(["suite", "seconds", "clock"])])),
        "## Bounds",
        _bounds(ours),
    ]
    if (ours["suite"] == "prototypes").any():
        parts += ["## Prototypes' values", _markdown(_prototypes(ours))]
    if (ours["suite"] == "layered").any():
        parts += ["## Layered graphs", _markdown(_quality(ours[ours["suite"] == "layered"]))]
    if (ours["suite"] == "traced").any():
        parts += ["## Traced models", _markdown(_quality(ours[ours["suite"] == "traced"]))]
    if (rows["formulation"] == "paper").any():
        parts += ["## Against Algorithm 1 as printed", _against_paper(rows)]
    parts += ["## What falls short", _markdown(_short(ours)), "## What was measured", _commits(rows)]
    return "\n\n".join(parts) + "\n"


def _with_best(results: pd.DataFrame) -> pd.DataFrame:
    """The results with the best energy known, their overheads in % of plain energy, and gaps."""
    best = read_best()
    answers = results[results["verified"].astype(bool) & (results["formulation"] == "best")]
    answers = told_apart(answers).assign(deadline_s=answers["deadline_s"].fillna(np.inf))
    best = pd.concat([best, answers], ignore_index=True)
    rows = results.assign(deadline_s=results["deadline_s"].fillna(np.inf))
    unsound = ~rows["verified"].astype(bool)
    rows.loc[unsound, [column for column in rows.columns if column.startswith(("energy_", "bound_"))]] = np.nan
    rows["best_j"] = [best_energy_j(best, *key) for key in told_apart(rows)[KEY].itertuples(index=False)]
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


def _summary(key: tuple[str, float, str], rows: pd.DataFrame) -> dict[str, object]:
    suite, seconds, clock = key
    real = rows[_exists(rows)]
    near = _near(real)
    return {
        "suite": suite,
        "limit": f"{seconds:g} s {clock}",
        "instances": len(rows),
        "none exists": len(rows) - len(real),
        "verified": _share(real["verified"].astype(bool)),
        f"first ≤ {FEASIBLE_S:g} s": _share(real["first_feasible_s"] <= FEASIBLE_S),
        "first, worst s": f"{real['first_feasible_s'].max():.2f}",
        "near best early": _share(near),
        "gap ≤ 0.1 %": _share(real["gap"] <= GAPS[0]),
        "gap ≤ 1 %": _share(real["gap"] <= GAPS[1]),
        "gap, worst": f"{100 * real['gap'].max():.2f} %",
        "overhead gap, median": f"{100 * real['overhead_gap'].median():.2f} %",
        "90th": f"{100 * real['overhead_gap'].quantile(0.9):.1f} %",
        "load": f"{rows['load'].mean():.1f}",
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
    text = f"{len(bounded)} bounds, {len(false)} of them above an energy that was reached."
    return text if false.empty else text + "\n\n" + _markdown(false[[*INSTANCE, "bound_j", "best_j"]])


def _prototypes(rows: pd.DataFrame) -> pd.DataFrame:
    """Overheads beside those that earlier prototypes reached, to the digits that are known of them."""
    prototypes = pd.read_csv(PROTOTYPES, dtype=str)
    merged = rows[rows["suite"] == "prototypes"].merge(prototypes, on=["graph", "ram", "deadline"])
    digits = merged["overhead_percent_y"].str.partition(".")[2].str.len()
    theirs = merged["overhead_percent_y"].astype(float)
    reached = merged["overhead_percent_x"] <= theirs + 0.5 * 10.0**-digits
    return pd.DataFrame(
        {
            "graph": merged["graph"],
            "RAM": merged["ram"],
            "deadline": merged["deadline"],
            "limit, s": merged["seconds"].map("{:g}".format),
            "prototype, %": merged["overhead_percent_y"],
            "ours, %": merged["overhead_percent_x"].map("{:.4f}".format),
            "met": np.where(reached, "yes", "NO"),
            "bound, %": _percent_above(merged["bound_j"], merged["plain_energy_j"]).map("{:.4f}".format),
            "gap, %": (100 * merged["gap"]).map("{:.4f}".format),
            "CPU, s": merged["cpu_s"].map("{:.1f}".format),
        }
    )


def _quality(rows: pd.DataFrame) -> pd.DataFrame:
    """Quality against time."""
    overheads = {f"at {t} s, %": rows[f"overhead_{t}s_percent"] for t in (2, 10, 60)}
    columns = {
        "graph": rows["graph"],
        "RAM": rows["ram"],
        "storage": np.where(rows["paging"], "yes", "no"),
        "status": rows["status"],
        "first, s": rows["first_feasible_s"].map("{:.2f}".format),
        **{name: values.map("{:.3f}".format) for name, values in overheads.items()},
        "final, %": rows["overhead_percent"].map("{:.3f}".format),
        "gap, %": (100 * rows["gap"]).map("{:.3f}".format),
    }
    return pd.DataFrame(columns)


def _against_paper(rows: pd.DataFrame) -> str:
    """Algorithm 1 as printed beside ours, same solver, same RAM, with what each was given and used."""
    key = [*INSTANCE, "ram_bytes", "solver"]
    paper, ours = rows[rows["formulation"] == "paper"], rows[(rows["formulation"] == "best") & _exists(rows)]
    both = paper.merge(ours, on=key, suffixes=("_paper", ""))
    overhead = both["overhead_percent_paper"] / both["overhead_percent"].where(both["overhead_percent"] > 0)
    found = both["energy_j_paper"].notna()
    lower = both["energy_j_paper"] < both["energy_j"] * (1 - RELATIVE)
    table = pd.DataFrame(
        {
            **{column: both[column] for column in INSTANCE if column != "suite"},
            "its limit, s": both["seconds_paper"].map("{:g}".format),
            "our limit, s": both["seconds"].map("{:g}".format),
            "its overhead, %": both["overhead_percent_paper"].map("{:.4f}".format),
            "its CPU, s": both["cpu_s_paper"].where(found).map("{:.1f}".format),
            "our overhead, %": both["overhead_percent"].map("{:.4f}".format),
            "our CPU, s": both["cpu_s"].map("{:.1f}".format),
            "energy, ratio": (both["energy_j_paper"] / both["energy_j"]).map("{:.4f}".format),
            "overhead, ratio": overhead.map("{:.2f}".format),
        }
    )
    told = (
        f"Of {len(both)} runs on instances that have a schedule, it gave one in {found.sum()}, of less energy than "
        f"ours in {lower.sum()}. Where its columns are empty, it gave none in its time."
    )
    return f"{told}\n\n{_markdown(table)}"


def _short(rows: pd.DataFrame) -> pd.DataFrame:
    """Instances that miss a figure, and which."""
    real = rows[_exists(rows)]
    missed = [", ".join(_misses(row)) for _, row in real.iterrows()]
    short = real.assign(missed=missed)[[bool(text) for text in missed]]
    return pd.DataFrame(
        {
            **{column: short[column] for column in INSTANCE},
            "limit, s": short["seconds"].map("{:g}".format),
            "overhead, %": short["overhead_percent"].map("{:.4f}".format),
            "best, %": short["best_overhead_percent"].map("{:.4f}".format),
            "gap, %": (100 * short["gap"]).map("{:.4f}".format),
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


def _commits(rows: pd.DataFrame) -> str:
    """How many rows are of which commit: they are not all of one."""
    suites = rows["suite"].where(rows["formulation"] == "best", "Algorithm 1")
    table = pd.crosstab(rows["commit"].fillna("not known"), suites).reset_index()
    return _markdown(table.rename_axis(columns=None))


def _markdown(frame: pd.DataFrame) -> str:
    if frame.empty:
        return "Nothing."
    rows = [list(map(str, frame.columns)), ["---"] * len(frame.columns)]
    rows += [["" if text == "nan" else str(text) for text in row] for row in frame.itertuples(index=False)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
