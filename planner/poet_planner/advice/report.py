# SPDX-License-Identifier: Apache-2.0
"""An advice as people and programs read it: tables, sentences, records."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poet_planner.advice.goal import SHARES, wilson
from poet_planner.advice.race import REACHES, Candidate
from poet_planner.graph.optimizer import Optimizer
from poet_planner.models.trained import of_name
from poet_planner.report.quantities import bytes_text, energy_text, share_text, time_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from poet_planner.advice.advice import Advice
    from poet_planner.advice.candidates import Step

SHOWN = 12  # candidates in a table that people read
OF_A_CANDIDATE = ("trained", "batch", "optimizer", "rate", "RAM", "a step", "epochs", "to the goal", "time", "")
OF_A_STEP = ("trained", "batch", "optimizer", "RAM", "flash", "energy", "time", "form, or why there is none")


def optimizer_text(optimizer: Optimizer) -> str:
    """In a word: sgd, momentum, adam."""
    return "momentum" if optimizer.momentum else optimizer.method.value


def table_of_steps(steps: Sequence[Step]) -> Table:
    """What each step takes, or why it cannot be."""
    from rich.table import Table

    table = Table(*OF_A_STEP, box=None)
    for step in steps:
        table.add_row(step.trained.name, str(step.batch), optimizer_text(step.optimizer), *_costs(step))
    return table


def _costs(step: Step) -> tuple[str, ...]:
    cost = step.cost
    if cost is None:
        return *[""] * 4, step.why_none
    least = "at least " if cost.is_bound else ""
    form = cost.form
    if cost.feature_j:
        form += f"; features {energy_text(cost.feature_j)} a sample, once if there are no more than {cost.room}"
    return (
        *("" if cost.is_bound else bytes_text(cost.ram_bytes), bytes_text(cost.flash_bytes)),
        *(f"{least}{energy_text(cost.energy_j)}", f"{least}{time_text(cost.time_s)}", form),
    )


def step_record(step: Step) -> dict[str, Any]:
    """For programs: energies in joules, times in seconds."""
    from dataclasses import asdict

    cost = {} if step.cost is None else asdict(step.cost)
    named = {"trained": step.trained.name, "parameters": sorted(step.trained.learns), "batch": step.batch}
    return {**named, "optimizer": optimizer_text(step.optimizer), **cost, "why_none": step.why_none}


def candidate_text(one: Candidate) -> str:
    step = one.step
    return f"{step.trained.name}, batches of {step.batch}, {optimizer_text(step.optimizer)}, rate {one.rate:g}"


def candidate_cells(advice: Advice, one: Candidate) -> tuple[str, ...]:
    """A row of the table: of who reaches the goal the worst draw, with the spread of all."""
    step, race = one.step, advice.race
    assert race is not None
    named = step.trained.name, str(step.batch), optimizer_text(step.optimizer), f"{one.rate:g}"
    if step.cost is None:
        return *named, *[""] * 5, one.verdict
    cost = "" if step.cost.is_bound else bytes_text(step.cost.ram_bytes), energy_text(step.cost.energy_j)
    if one is not race.winner:
        return *named, *cost, *[""] * 3, one.verdict
    joules = advice.joules
    spread = f"{energy_text(max(joules))} ({energy_text(min(joules))} to {energy_text(max(joules))})"
    return *named, *cost, str(advice.epochs), spread, time_text(advice.seconds), REACHES


def by_interest(advice: Advice) -> list[Candidate]:
    """The advice, what came nearest to the goal, what was not trained, what is refused."""
    race, goal = advice.race, advice.goal
    assert race is not None and goal is not None

    def lacks(one: Candidate) -> float:
        seen = [value for draw in range(len(one.seen)) for value in race.values(one, draw)]
        if not seen:
            return float("inf")
        return goal.best(seen) * (1 if goal.falls else -1)

    return sorted(race.candidates, key=lambda one: (one is not race.winner, one.step.cost is None, lacks(one)))


def table_of_candidates(advice: Advice, most: int | None = None) -> Table:
    """What became of each candidate.

    With ``most``, of each set the one that came nearest to the goal.
    """
    from rich.table import Table

    table, ones = Table(*OF_A_CANDIDATE, box=None), by_interest(advice)
    if most is not None:
        first = {one.step.trained.name: one for one in reversed(ones)}
        ones = [one for one in ones if one in ones[:1] or one is first[one.step.trained.name]][:most]
    for one in ones:
        table.add_row(*candidate_cells(advice, one))
    return table


def sentences(advice: Advice) -> list[str]:
    """What the advice is, and how far to trust it."""
    race, goal, curves = advice.race, advice.goal, advice.curves
    assert race is not None and goal is not None and curves is not None
    wanted = f"{goal.metric} {goal.text(goal.number)}"
    told = [f"{len(race.candidates)} candidates; {curves.epochs} epochs of PyTorch"]
    if race.winner is None:
        told.append(f"None reaches {wanted} in each of {race.draws} draws within {race.most_epochs} epochs.")
    elif not advice.epochs:
        told.append(f"It has {wanted} already, untrained: 0 J.")
    else:
        told.append(
            f"Train {candidate_text(race.winner)}, for {advice.epochs} epochs: {wanted} in each of {race.draws} draws. "
            f"No other of these takes less than {energy_text(max(advice.joules))} in its worst draw."
        )
    if race.as_good:
        costs = [(one.step.cost, one) for one in (race.winner, *race.as_good) if one and one.step.cost]
        cost, least = min(costs, key=lambda of: of[0].ram_bytes)
        told.append(
            f"{len(race.as_good)} more are as good, since fits of its step are {share_text(costs[0][0].error)} off; of "
            f"these and it {candidate_text(least)} takes the least RAM, {bytes_text(cost.ram_bytes)}"
        )
    if goal.metric in SHARES:
        count = min(held for _, held in map(curves.sets.counts, range(race.draws)))
        low, high = wilson(goal.number, count)
        told.append(
            f"{count} validation samples: {goal.text(goal.number)} of them may be {goal.text(low)} to "
            f"{goal.text(high)} of what comes later (Wilson, 95 %)"
        )
    return [*told, *advice.notes]


def commands(
    advice: Advice,
    planning: Sequence[str],
    weights: Path | None,
    samples: str,
    out: Path,
    calibrate: Path | None = None,
) -> str:
    """The five commands that train the advice on the board.

    The order of samples is that of its worst draw. ``planning`` has poet-plan's options for board, costs and limits.
    """
    race, winner = advice.race, advice.winner
    assert race is not None and winner is not None
    step, (base, own) = winner.step, of_name(advice.model)
    patterns = sorted(step.trained.learns) if own else step.trained.patterns
    name = f"{base}[{','.join(patterns)}]" if step.trained.patterns else advice.model
    model = ["--model", name, "--batch", str(step.batch)]
    begin, plan, trained = (str(out / file) for file in ("begin.npz", "plan", "trained.safetensors"))
    of_weights = [] if weights is None else ["--weights", str(weights)]
    on_board = ["--board", advice.board, "--plan", plan]
    training = ["--epochs", str(max(1, advice.epochs)), "--shuffle", str(advice.worst), "--lr", f"{winner.rate:g}"]
    int8 = [] if not step.trained.int8 else ["--frozen", "int8", "--calibrate", str(calibrate)]
    lines = [
        ["poet-plan", *model, *int8, *planning, *step.optimizer.words.split(), "--out", plan],
        ["poet-plan", "data", *model, *of_weights, "--steps", "1", "--out", begin],
        ["poet-harness", "flash", *on_board],
        ["poet-harness", "train", *on_board, "--data", begin, "--samples", samples, *training, "--trained", trained],
        ["poet-harness", "eval", *on_board, "--samples", samples, "--weights", trained],
    ]
    return "#!/bin/sh\nset -e\n" + "".join(f"{shlex.join(line)}\n" for line in lines)


def picture(advice: Advice) -> Figure:
    """Metric against joules.

    Of each set there is what came nearest to the goal: the mean of its draws, in a band from the worst to the best.
    """
    import numpy as np

    from poet_planner.report.figures import BUDGET, COLOURS, INK, new_figure

    race, goal = advice.race, advice.goal
    assert race is not None and goal is not None
    figure, (axis,) = new_figure(7.2, 4.2)
    nearest = {one.step.trained.name: one for one in reversed(by_interest(advice)) if one.seen}
    ones = [*([advice.winner] if advice.winner else []), *(one for one in nearest.values() if one is not advice.winner)]
    for one, colour, dashes in zip(ones, cycle(COLOURS.values()), cycle(["-", "--", "-.", ":"])):
        draws = [race.values(one, draw) for draw in range(len(one.seen))]
        epochs = range(max(map(len, draws)))
        at = [max(race.joules(one, epoch, draw) for draw in range(len(draws))) for epoch in epochs]
        known = [[values[epoch] for values in draws if epoch < len(values)] for epoch in epochs]
        is_first = one is ones[0]
        text = candidate_text(one) + (" (advice)" if one is advice.winner else "")
        means = [float(np.mean(values)) for values in known]
        axis.plot(at, means, dashes, color=colour, lw=2.4 if is_first else 1.2, label=text)
        axis.fill_between(at, [*map(min, known)], [*map(max, known)], color=colour, alpha=0.15, lw=0)
    axis.axhline(goal.number, color=BUDGET, lw=1, label=f"goal: {goal.metric} {goal.text(goal.number)}")
    if race.limit_j < float("inf"):
        axis.axvline(race.limit_j, color=BUDGET, lw=1, ls="--", label="limit")
    axis.set_xlabel(f"energy on {advice.board}, joules", fontsize=9, color=INK)
    axis.set_ylabel(f"{goal.metric} of validation samples", fontsize=9, color=INK)
    axis.legend(fontsize=7, frameon=False)
    return figure


def candidate_record(advice: Advice, one: Candidate) -> dict[str, Any]:
    """For programs: the step, the rate, the verdict, and of the advice what each draw takes."""
    made = {**step_record(one.step), "rate": one.rate, "verdict": one.verdict, "epochs_trained": sum(one.seen)}
    if one is advice.winner:
        made |= {"epochs": advice.epochs, "joules": advice.joules}
    return made
