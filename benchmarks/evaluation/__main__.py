# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.evaluation figure-3`: make, or go on with, the points of a figure. See README.md."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated

import typer
from poet_planner.cli.sweep import plan_missing
from poet_planner.comparison.compare import chosen, place_of
from poet_planner.comparison.sweep_table import write_points
from poet_planner.solve import OptimiseOptions
from poet_profiles.errors import UserError
from poet_profiles.program.stopping import Stopped, listening

from benchmarks.evaluation import accuracy, beliefs, exact, fresh_draws, halving, micro_batches
from benchmarks.evaluation.page import write_page
from benchmarks.evaluation.sweeps import SWEEPS, Sweep

EVERYTHING = "all"
PAGE = "page"
# What is no sweep, each with its own limit in seconds a plan.
PASSES = {
    "micro-batches": (micro_batches.run, micro_batches.LIMIT_S),
    "exact": (exact.run_exact, exact.LIMIT_S),
    "accuracy": (accuracy.run_accuracy, accuracy.LIMIT_S),
    "fresh-draws": (fresh_draws.run_fresh_draws, fresh_draws.LIMIT_S),
    "halving": (halving.run_halving, halving.LIMIT_S),
    "beliefs": (beliefs.run_beliefs, beliefs.LIMIT_S),
}
NAMES = ", ".join([*(sweep.name for sweep in SWEEPS), *PASSES, EVERYTHING, PAGE])


def run(sweep: Sweep, jobs: int = 1, scheduler: str | None = None) -> None:
    """Plan what its table lacks. In the end the table holds the sweep's points, and no others."""
    settings, methods = sweep.settings(), chosen(sweep.methods)
    options = OptimiseOptions(time_limit_s=sweep.time_limit_s)
    wanted = {place_of(setting, method, options) for setting in settings for method in methods}
    points = plan_missing(settings, methods, options, sweep.path, jobs, scheduler)
    write_points([point for point in points if point.place in wanted], sweep.path)
    print(f"{sweep.path.name}: {len(wanted)} points")


def main(
    name: Annotated[str, typer.Argument(help=f"{NAMES}.")],
    jobs: Annotated[int, typer.Option(help="Points planned at once; one keeps two cores busy.")] = 1,
    scheduler: Annotated[str | None, typer.Option(help="Plan on the workers of this Dask scheduler.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds a plan, instead of the sweep's own.")] = None,
) -> None:
    """Make the table of a sweep, or what it lacks: points with another time limit, or by other code, are made anew.

    The name all is of every table, and page writes results.md and its pictures from them.
    """
    if name == PAGE:
        write_page()
        return
    sweeps = [sweep for sweep in SWEEPS if name in (sweep.name, EVERYTHING)]
    passes = [one for label, one in PASSES.items() if name in (label, EVERYTHING)]
    if not sweeps and not passes:
        raise UserError(f"no table {name!r}; there are {NAMES}")
    for sweep in sweeps:
        run(sweep if time_limit is None else replace(sweep, time_limit_s=time_limit), jobs, scheduler)
    for make, limit_s in passes:
        make(limit_s if time_limit is None else time_limit)


if __name__ == "__main__":
    try:
        with listening():
            typer.run(main)
    except (UserError, Stopped) as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
