# SPDX-License-Identifier: Apache-2.0
"""Networks larger than the RAM, parameters on the card: `python -m benchmarks.planner card`.

Beside each plan stands the simplest policy that trains within the same RAM: every value is paged out once and in for
each use, parameters are fetched for each use, and nothing is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from poet_planner.planning.form import Form
from poet_planner.planning.pipeline import prepare, verified
from poet_planner.planning.request import Request
from poet_planner.report.summary import Summary
from poet_planner.schedule.page_all import page_all_schedule
from poet_planner.solve import OptimiseOptions, optimise
from poet_profiles.schedule import Schedule

MODELS = ("mlperf_resnet8", "poet_resnet18")
COLUMNS = (
    *("model", "RAM, B", "each node once, J", "plan, J", "gap", "simple policy, J", "plan, s", "simple, s"),
    *("recomputed, refetched, out, in", "written a step, MB"),
)


@dataclass(frozen=True)
class OnCard:
    """A model's plan, and the page-all schedule."""

    prepared: Form
    summary: Summary
    page_all: Schedule


def on_card(model: str, profile: str, seconds: float, seed: int = 0) -> OnCard:
    """Plan a model with its parameters on the card, within the RAM of the profile's board."""
    prepared = prepare(Request(model, profile, parameters="card"))
    options = OptimiseOptions(time_limit_s=seconds, seed=seed)
    plan = verified(prepared, optimise(prepared.graph, prepared.budget_bytes, None, options))
    return OnCard(prepared, plan.summary, page_all_schedule(prepared.graph))


def card(
    models: Annotated[list[str] | None, typer.Argument(help=f"Default {' '.join(MODELS)}.")] = None,
    profile: Annotated[str, typer.Option(help="Profile of the board.")] = "nrf52840",
    time_limit: Annotated[float, typer.Option(help="Seconds to optimise a plan for.")] = 60.0,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal plans.")] = 0,
) -> None:
    """Plan models with their parameters on the card, beside the simplest policy."""
    print(f"| {' | '.join(COLUMNS)} |")
    print("|" + " --- |" * len(COLUMNS))
    for model in models or MODELS:
        made = on_card(model, profile, time_limit, seed)
        print(f"| {' | '.join(_cells(model, made))} |", flush=True)


def _cells(model: str, made: OnCard) -> tuple[str, ...]:
    s, wear = made.summary, made.summary.wear
    return (
        *(model, str(s.ram_budget_bytes), f"{s.plain_energy_j:.3f}", f"{s.energy_j:.3f}", f"{s.gap:.0%}"),
        *(f"{made.page_all.energy_j:.3f}", f"{s.time_s:.1f}", f"{made.page_all.time_s:.1f}"),
        f"{s.recomputes}, {s.refetches}, {s.page_outs}, {s.page_ins}",
        f"{wear.committed_bytes / 1e6:.2f} + {wear.paged_bytes / 1e6:.2f}",
    )
