# SPDX-License-Identifier: Apache-2.0
"""What is printed of the steps that a board trained: predicted beside observed, by step and by operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poet_profiles.amounts import PRECISE, energy_text, loss_text, time_text

from .console import wide_console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from ..plan_folder.plan import Plan
    from ..training.observed import ObservedStep
    from ..training.run_folder import EpochRow
    from .session import Session, Trained

MOST_STEPS_SHOWN = 8
MOST_DIFFERENCE = 0.03


def print_steps(asked: Session, trained: Trained) -> None:
    """Print the steps and the traced ones' operators, and what of them is off, rough or unknown."""
    plan, trainer, meter = trained.plan, trained.trainer, trained.meter
    console, observed = wide_console(), trainer.observed
    if asked.board.kind == "program":
        # The plan's costs are another board's: there is nothing to hold them against here.
        console.print(_host_summary(observed))
        return
    console.print(_steps_table(plan, observed, meter.source))
    for step in observed:
        if step.actions:
            console.print(_actions_table(plan, step, meter.source))
    if (difference := _difference(plan, observed[-1])) > MOST_DIFFERENCE:
        console.print(f"the last step is {difference:.1%} off its prediction; {_cure(asked)}", soft_wrap=True)
    idle = f"energies are those above the idle power, {trainer.metering.idle_power_w * 1e3:.4g} mW{meter.steps}"
    console.print(idle if meter.senses else f"{idle}; {meter.identity}")
    if unmetered := trainer.metering.unmetered:
        console.print(f"energy unknown in {len(unmetered)} places, the first: {unmetered[0]}")
    if trained.stack_bytes:
        console.print(f"most stack used: {trained.stack_bytes} bytes")


def _cure(asked: Session) -> str:
    if asked.plan.documents:
        return "let nothing else run, and profile again, with as many threads"
    emulate = " --emulate" if asked.connection.emulate else ""
    return (
        f"a profile on this data predicts better: poet-harness profile --board {asked.connection.board}{emulate} "
        f"--plan {asked.given.plan} --data {asked.given.data}"
    )


def _difference(plan: Plan, step: ObservedStep) -> float:
    """How far a step's time or energy, whichever is worse, is off what was predicted."""
    pairs = ((step.report.work_s, plan.schedule.time_s), (step.energy_j, plan.schedule.energy_j))
    return max((abs(seen / given - 1) for seen, given in pairs if seen is not None and given), default=0.0)


def document(trained: Trained, epochs: Sequence[EpochRow] = ()) -> dict[str, object]:
    """What --out has, row by row, and what the tables say besides."""
    from dataclasses import asdict

    from ..training.comparison import compare

    plan, trainer, source = trained.plan, trained.trainer, trained.meter.source
    return {
        "source": source,
        "graph_hash": plan.graph_hash,
        "schedule_hash": plan.schedule_hash,
        "idle_power_w": trainer.metering.idle_power_w,
        "stack_bytes": trained.stack_bytes,
        "unmetered": trainer.metering.unmetered,
        "rows": [asdict(row) for row in compare(plan, trainer, source)],
        **({"epochs": [asdict(row) for row in epochs]} if epochs else {}),
    }


def _steps_table(plan: Plan, steps: Sequence[ObservedStep], source: str) -> Table:
    from rich.table import Table

    table = Table("", "loss", "energy", "", "time", "", "peak RAM", title=f"Training steps ({source})")
    one = plan.schedule
    costs = energy_text(one.energy_j, PRECISE), time_text(one.time_s, PRECISE)
    table.add_row("predicted", "", costs[0], "", costs[1], "", f"{one.peak_bytes:,}")
    shown = list(steps)
    if len(shown) > MOST_STEPS_SHOWN:
        shown = [*shown[: MOST_STEPS_SHOWN - 1], shown[-1]]
    for step in shown:
        table.add_row(
            f"step {step.number}" + (", traced" if step.actions else ""),
            loss_text(step.loss),
            "" if step.energy_j is None else energy_text(step.energy_j, PRECISE),
            "" if step.energy_j is None else _relative(step.energy_j, plan.schedule.energy_j),
            time_text(step.report.work_s, PRECISE),
            _relative(step.report.work_s, plan.schedule.time_s),
            _peak(plan, step.report.peak_bytes),
        )
    return table


def _peak(plan: Plan, peak_bytes: int | None) -> str:
    """Firmware keeps to a plan's places, and allocates nothing; PyTorch's allocator has its own mind."""
    if peak_bytes is None:
        return ""
    remark = "" if peak_bytes == plan.schedule.peak_bytes else f" ({_relative(peak_bytes, plan.schedule.peak_bytes)})"
    return f"{peak_bytes:,}{remark}"


def _actions_table(plan: Plan, step: ObservedStep, source: str) -> Table:
    """Predicted and observed cost by operator over all its runs in the traced step, and the highest of their peaks."""
    from rich.table import Table

    costs = ("predicted\ntime", "observed\ntime", "predicted\nenergy", "observed\nenergy", "difference")
    allocates = any(seen.peak_bytes for seen in step.actions)  # else all lies where the plan says
    peak = ("predicted\npeak RAM", "observed\npeak RAM") if allocates else ("peak RAM",)
    runner = None if allocates else "predicted with what a call costs the runner, observed without"
    table = Table("operator", "runs", *costs, *peak, title=f"Traced step ({source})", caption=runner)
    table.columns[0].no_wrap = True
    sums: dict[str, list[float]] = {}
    peaks: dict[str, tuple[int, int]] = {}
    for action, seen in zip(plan.actions, step.actions, strict=True):
        if action.is_marked:
            entry = sums.setdefault(action.op, [0.0] * 5)
            for place, value in enumerate(
                (action.runs, action.time_s, seen.time_s, action.energy_j, seen.energy_j or 0.0)
            ):
                entry[place] += value
            highest = peaks.get(action.op, (0, 0))
            peaks[action.op] = (max(highest[0], action.peak_bytes), max(highest[1], seen.peak_bytes or 0))
    for op, (runs, expected_s, seen_s, expected_j, seen_j) in sorted(sums.items(), key=lambda item: -item[1][4]):
        table.add_row(
            *(op, f"{runs:.0f}", time_text(expected_s, PRECISE), time_text(seen_s, PRECISE)),
            *(energy_text(expected_j, PRECISE), energy_text(seen_j, PRECISE), _relative(seen_j, expected_j)),
            *(f"{peak_bytes:,}" if peak_bytes else "" for peak_bytes in peaks[op][: len(peak)]),
        )
    return table


def _host_summary(steps: Sequence[ObservedStep]) -> str:
    losses = f"loss {loss_text(steps[0].loss)} to {loss_text(steps[-1].loss)}"
    return f"{len(steps)} steps on this computer: {losses}"


def _relative(observed: float, predicted: float) -> str:
    return f"{observed / predicted - 1:+.1%}" if predicted else ""
