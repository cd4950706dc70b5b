# SPDX-License-Identifier: Apache-2.0
"""What a part of the optimiser is worth: the same instances planned with all parts, and without some of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from joblib import Parallel, delayed
from poet_planner.solve.options import Parts

from benchmarks.planner.figures import INSTANCE, RELATIVE, RUN, markdown
from benchmarks.planner.instances import Instance
from benchmarks.planner.measuring import COLUMNS, Measurement, Run, measure
from benchmarks.planner.run import HERE, Only, Subset, Suite, append, chosen, ram_of_ours

CONTROL = "control"
NAMES = [part.name for part in fields(Parts)]
KEY = ["without", *INSTANCE, *RUN]


def compare_parts(
    without: Annotated[
        list[str],
        typer.Argument(
            help=f"Parts to switch off, joined by '+' if together: {', '.join(NAMES)}. "
            f"'{CONTROL}' switches nothing off: what then differs is noise."
        ),
    ],
    suites: Annotated[list[Suite], typer.Option("--suite", help="What to plan.")] = [Suite.paper, Suite.prototypes],  # noqa: B006
    seconds: Annotated[list[float], typer.Option(min=0.1, help="Time limits of one instance.")] = [7.0, 20.0, 60.0],  # noqa: B006
    clock: Annotated[str, typer.Option(help="wall, or cpu for the planner's own processor time.")] = "wall",
    seed: Annotated[int, typer.Option(help="Of the planner.")] = 0,
    subset: Subset = 40,
    only: Only = "",
    jobs: Annotated[int, typer.Option(min=1, help="Instances at a time.")] = 1,
    results: Annotated[Path, typer.Option(help="CSV file of the rows; those it has are not measured again.")] = HERE
    / "parts.csv",
) -> None:
    """Plan instances that have a schedule with all parts and without some, and print what differs."""
    variants = {"": Parts(), **{name: parts_without(name) for name in without}}
    ram_bytes = ram_of_ours(HERE / "results.csv")
    instances = chosen([suite.value for suite in suites], only, subset, within=ram_bytes)
    runs = [Run(limit_s, clock, "best", "highs", seed) for limit_s in seconds]
    wanted = [(name, each, run) for run in runs for each in instances for name in variants]
    known = read_parts(results)
    done = set(known[KEY].itertuples(index=False, name=None))
    todo = [one for one in wanted if _key(*one) not in done]
    limits_s = sum(run.seconds for _, _, run in todo)
    typer.echo(f"{len(todo)} plans to make, at most {limits_s / jobs / 60:.0f} min", err=True)
    measured = Parallel(n_jobs=jobs, return_as="generator")(
        delayed(measure)(each, run, ram_bytes[each], variants[name]) for name, each, run in todo
    )
    rows = _rows([name for name, _, _ in todo], measured)
    for _ in append(rows, results, ["without", *COLUMNS], len(todo)):
        pass
    asked = {_key(*one) for one in wanted}
    known = read_parts(results)
    typer.echo(comparison(known[[key in asked for key in known[KEY].itertuples(index=False, name=None)]]))


def parts_without(names: str) -> Parts:
    """All parts but those, which are joined by "+"."""
    off = [] if names == CONTROL else names.split("+")
    for name in off:
        if name not in NAMES:
            raise typer.BadParameter(f"the optimiser has no part {name!r}; it has {', '.join(NAMES)}")
    return replace(Parts(), **dict.fromkeys(off, False))


def read_parts(path: Path) -> pd.DataFrame:
    """The rows so far; the last counts if there are several of one run."""
    if not path.exists():
        return pd.DataFrame(columns=["without", *COLUMNS])
    return pd.read_csv(path).fillna({"without": ""}).drop_duplicates(KEY, keep="last")


def comparison(rows: pd.DataFrame) -> str:
    """A line for each time limit and what was left out, then each instance whose energy differs."""
    rows = rows.assign(energy_j=rows["energy_j"].where(rows["verified"].astype(bool)))
    rows["gap"] = ((rows["energy_j"] - rows["bound_j"]) / rows["energy_j"]).fillna(np.inf)
    rows["energy_j"] = rows["energy_j"].fillna(np.inf)
    pairs = rows[rows["without"] == ""].merge(rows[rows["without"] != ""], on=[*INSTANCE, *RUN], suffixes=("_all", ""))
    pairs["worse"] = pairs["energy_j"] > pairs["energy_j_all"] * (1 + RELATIVE)
    pairs["better"] = pairs["energy_j"] < pairs["energy_j_all"] * (1 - RELATIVE)
    groups = pairs.groupby(["without", "seconds", "clock"], sort=False)
    lines = pd.DataFrame([_line(*key, group) for key, group in groups])
    differ = pairs[pairs["worse"] | pairs["better"]]
    plain_j = differ["plain_energy_j"]
    each = pd.DataFrame(
        {
            **{column: differ[column] for column in ("without", "seconds", *INSTANCE)},
            "overhead with all, %": (100 * (differ["energy_j_all"] / plain_j - 1)).map("{:.4f}".format),
            "without, %": (100 * (differ["energy_j"] / plain_j - 1)).map("{:.4f}".format),
        }
    )
    commits = ", ".join(sorted(rows["commit"].dropna().astype(str).unique()))
    return "\n\n".join([f"Measured at {commits}.", markdown(lines), "Energies that differ:", markdown(each)])


def _line(without: str, seconds: float, clock: str, pairs: pd.DataFrame) -> dict[str, object]:
    return {
        "without": without,
        "limit": f"{seconds:g} s {clock}",
        "instances": len(pairs),
        "gap, median": _change(pairs["gap_all"].median(), pairs["gap"].median()),
        "gap, 90th": _change(*(pairs[column].quantile(0.9, "higher") for column in ("gap_all", "gap"))),
        "proven": " → ".join(str((pairs[column] == "optimal").sum()) for column in ("status_all", "status")),
        "energy worse": int(pairs["worse"].sum()),
        "better": int(pairs["better"].sum()),
        "no schedule": " → ".join(str(np.isinf(pairs[column]).sum()) for column in ("energy_j_all", "energy_j")),
        "load": f"{pairs['load'].mean():.1f}",
    }


def _change(gap_with_all: float, gap_without: float) -> str:
    return f"{100 * gap_with_all:.4f} % → {100 * gap_without:.4f} %"


def _key(name: str, instance: Instance, run: Run) -> tuple[object, ...]:
    row = {"without": name, **asdict(instance), **asdict(run)}
    return tuple(row[column] for column in KEY)


def _rows(names: list[str], measured: Iterator[Measurement]) -> Iterator[dict[str, object]]:
    for name, measurement in zip(names, measured, strict=True):
        yield {"without": name, **asdict(measurement)}
