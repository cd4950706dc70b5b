# SPDX-License-Identifier: Apache-2.0
"""Measures the planner, and writes the figures of what was measured."""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from joblib import Parallel, delayed
from poet_profiles.files.whole_file import write_whole

from benchmarks.planner.best_known import add_to_best
from benchmarks.planner.figures import INSTANCE, report, short
from benchmarks.planner.instances import SUITES, Instance, suite
from benchmarks.planner.measuring import COLUMNS, METHODS, Run, measure

HERE = Path(__file__).parent
Suite = StrEnum("Suite", {name: name for name in SUITES})
Method = StrEnum("Method", {name: name for name in METHODS.values()})
Results = Annotated[Path, typer.Option(help="CSV file of measurements; rows are appended as they come.")]
Subset = Annotated[int, typer.Option(min=0, help="Only so many instances, drawn evenly; 0: all.")]
Only = Annotated[str, typer.Option(help="Only instances whose line holds this text.")]


def measure_suites(
    suites: Annotated[list[Suite], typer.Argument(help="What to plan.")],
    seconds: Annotated[float, typer.Option(min=0.1, help="Time limit of one instance.")] = 60.0,
    clock: Annotated[str, typer.Option(help="wall, or cpu for the planner's own processor time.")] = "wall",
    method: Annotated[Method, typer.Option(help="optimal, or poet_ilp for Algorithm 1 as printed.")] = Method.optimal,
    solver: Annotated[str, typer.Option(help="MILP solver (see `poet-plan solvers`).")] = "highs",
    seed: Annotated[int, typer.Option(help="Of the planner.")] = 0,
    subset: Subset = 0,
    only: Only = "",
    jobs: Annotated[int, typer.Option(min=1, help="Instances at a time.")] = 1,
    again: Annotated[bool, typer.Option("--again", help="Those with a row too: the last row counts.")] = False,
    results: Results = HERE / "results.csv",
) -> None:
    """Plan every instance of the suites that the results do not hold yet; stop and go on at will."""
    formulation = next(name for name, planner in METHODS.items() if planner == method)
    run = Run(seconds, clock, formulation, solver, seed)
    wanted = chosen([name.value for name in suites], only, subset)
    ours = ram_of_ours(results) if formulation == "paper" else {}
    wanted = wanted if again else missing(wanted, run, results, ours)
    typer.echo(f"{len(wanted)} instances to plan, at most {len(wanted) * seconds / jobs / 60:.0f} min", err=True)
    planned = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(measure)(each, run, ours.get(each)) for each in wanted
    )
    better = 0
    for row in append(map(asdict, planned), results, len(wanted)):
        if formulation == "best":
            better += add_to_best(pd.DataFrame([row]), f"poet, {seconds:g} s")
    if formulation == "best":
        typer.echo(f"{better} best values new or better", err=True)


def table(
    results: Results = HERE / "results.csv",
    out: Annotated[Path | None, typer.Option(help="Write the report here, and short.csv beside it.")] = None,
) -> None:
    """The figures, from the results so far and the best values known."""
    rows = pd.read_csv(results)
    if out is None:
        print(report(rows))
    else:
        write_whole(out, report(rows))
        write_whole(out.with_name("short.csv"), short(rows).to_csv(index=False, lineterminator="\n"))


def chosen(suites: list[str], only: str, subset: int) -> list[Instance]:
    """Instances of the suites whose line holds ``only``; ``subset`` of them, drawn evenly, unless it is 0."""
    found = [each for name in suites for each in suite(name) if only in _line(each)]
    return sorted(random.Random(0).sample(found, min(subset, len(found))), key=found.index) if subset else found


def _line(instance: Instance) -> str:
    storage = "paging" if instance.paging else "no-paging"
    return f"{instance.suite} {instance.graph} {instance.ram} {instance.deadline} {storage}"


def missing(wanted: list[Instance], run: Run, results: Path, ram_bytes: dict[Instance, int]) -> list[Instance]:
    """Those of which there is no row of such a run yet, or only in other RAM than they are to be given now."""
    if not results.exists():
        return wanted
    found = pd.read_csv(results)
    for column, value in asdict(run).items():
        found = found[found[column] == value]
    done = _last_ram(found)
    return [each for each in wanted if each not in done or done[each] != ram_bytes.get(each, done[each])]


def ram_of_ours(results: Path) -> dict[Instance, int]:
    """Bytes of RAM in the last row of each instance: Algorithm 1 does not say what the smallest is."""
    if not results.exists():
        return {}
    found = pd.read_csv(results)
    return _last_ram(found[(found["formulation"] == "best") & found["energy_j"].notna()])


def _last_ram(rows: pd.DataFrame) -> dict[Instance, int]:
    keys = rows[INSTANCE].itertuples(index=False, name=None)
    return dict(zip((Instance(*key) for key in keys), rows["ram_bytes"].astype(int), strict=True))


def append(rows: Iterable[dict[str, Any]], results: Path, total: int) -> Iterator[dict[str, Any]]:
    """Write each row as it comes, and say it on standard error."""
    results.parent.mkdir(parents=True, exist_ok=True)
    new = not results.exists()
    with results.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        for number, row in enumerate(rows, 1):
            writer.writerow(row)
            file.flush()
            print(f"{number}/{total} {_line_of(row)}", file=sys.stderr)
            yield row


def _line_of(row: dict[str, Any]) -> str:
    what = _line(Instance(*(row[column] for column in INSTANCE)))
    if row["energy_j"] is None or row["bound_j"] is None:
        return f"{what}: {row['status']}, {row['note']}"
    if not row["verified"]:
        return f"{what}: NOT SOUND: {row['note']}"
    overhead = 100 * (row["energy_j"] / row["plain_energy_j"] - 1)
    gap = 100 * (row["energy_j"] - row["bound_j"]) / row["energy_j"]
    spent = f"{row['wall_s']:.1f} s ({row['cpu_s']:.1f} s CPU)"
    note = f", {row['note']}" if row["note"] else ""
    return f"{what}: overhead {overhead:.4f} %, gap {gap:.4f} %, {row['status']}, {spent}{note}"
