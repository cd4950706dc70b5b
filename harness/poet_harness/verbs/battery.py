# SPDX-License-Identifier: Apache-2.0
"""``poet-harness battery``: steps, epochs and hours from a cell."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from poet_profiles import battery

from .options import Json, Plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from poet_profiles.battery import Battery
    from poet_profiles.cells import Cell

    from ..battery import Life, StepCost, TrainingCost
    from ..plan_folder import plan as plans

NAME = "battery"
GIVEN = "given"
USABLE, EFFICIENCY = f"{battery.USABLE:.0%}", f"{battery.EFFICIENCY:.0%}"
DUTY = "100%"
# Of a lithium-ion cell.
VOLTAGE_V = 3.7
CHARGES_AH = {"mAh": 1e-3, "Ah": 1.0}
POWERS_W = {"uW": 1e-6, "µW": 1e-6, "mW": 1e-3, "W": 1.0}
PERCENT = {"%": 0.01}


class Assumption(NamedTuple):
    """A number that the answer rests on, and where it is from."""

    name: str
    value: float
    words: str
    source: str


def command(
    plan: Plan,
    cell: Annotated[str, typer.Option(help="cr123a, lipo500 or another cell, a .toml file, or a capacity: 500mAh.")],
    run: Annotated[
        Path | None,
        typer.Option(help="CSV of poet-harness run: take the steps that it saw, not the plan's prediction."),
    ] = None,
    training: Annotated[
        Path | None, typer.Option(help="Folder of poet-harness train: for how many such trainings it lasts.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many such cells.")] = 1,
    voltage: Annotated[
        float | None, typer.Option(help="Mean voltage of a cell in use, in volt. [the nominal one]")
    ] = None,
    usable: Annotated[
        str | None, typer.Option(help=f"Share of the capacity that can be used. [assumed: {USABLE}]")
    ] = None,
    efficiency: Annotated[
        str | None,
        typer.Option(help=f"Of the converter between cell and board, 100% without one. [assumed: {EFFICIENCY}]"),
    ] = None,
    duty: Annotated[
        str | None,
        typer.Option(help=f"Share of the time in which the board trains; it sleeps otherwise. [assumed: {DUTY}]"),
    ] = None,
    idle_power: Annotated[
        str | None, typer.Option(help="What the sleeping board draws between two steps, such as 50uW. [the profile's]")
    ] = None,
    set_size: Annotated[int | None, typer.Option(min=1, help="Samples of the training set, to count epochs.")] = None,
    data: Annotated[Path | None, typer.Option(help="Or all its batches: .npz (poet-plan data).")] = None,
    as_json: Json = False,
) -> None:
    """Print for how many training steps, epochs, fine-tunings and hours a battery lasts.

    A step draws the energy of the plan, and the idle power for as long as it takes. Between two steps the board sleeps
    and draws the idle power. The command prints every number that the answer rests on, and where it is from: a data
    sheet (quoted, where it was not at hand), assumed, or given with an option.
    """
    from poet_profiles.battery import Battery
    from poet_profiles.errors import UserError
    from poet_profiles.program.json_output import print_json

    from ..battery import life, observed_step, planned_step, training_cost
    from ..plan_folder.plan import read_plan

    if set_size is not None and data is not None:
        raise UserError("--set-size and --data both say how large the training set is; give one of them")
    if training is not None and (run or set_size or data):
        raise UserError("--training: says what --run, --set-size and --data say; leave them out")
    schedule = read_plan(plan)
    step = planned_step(schedule, plan)
    if run is not None:
        step = observed_step(step, run, schedule.schedule_hash)
    whole = None if training is None else training_cost(training, schedule.graph_hash)
    if whole is not None:
        step = whole.at_once(step)
    chosen = _cell(cell)
    shares = (
        _share("usable capacity", "--usable", usable, USABLE),
        _share("converter's efficiency", "--efficiency", efficiency, EFFICIENCY),
        _share("duty cycle", "--duty", duty, DUTY),
    )
    sleep_power_w = None if idle_power is None else _quantity("--idle-power", idle_power, POWERS_W, "50uW or 3mW")
    volt = _voltage(chosen, voltage)
    battery = Battery(chosen.capacity_ah, volt.value, count, shares[0].value, shares[1].value)
    part = next((tensor.shape[0] for tensor in schedule.tensors if tensor.kind == "input" and tensor.shape), 1)
    batch = part * schedule.micro_batches
    answer = Answer(
        step=step,
        whole=whole,
        battery=battery,
        lasts=life(step, battery, shares[2].value, sleep_power_w),
        batch=batch,
        samples=_samples(set_size, data, schedule, batch),
        assumptions=(_capacity(chosen), volt, *shares, _idle(step, sleep_power_w)),
    )
    warnings = _warnings(chosen, step, answer.lasts, answer.unit)
    if as_json:
        print_json({**answer.document(), "warnings": warnings})
    else:
        _show(answer, warnings)


@dataclass(frozen=True)
class Answer:
    """For how long a battery lasts, and what that rests on; ``whole`` is a training, if steps are those of one."""

    step: StepCost
    whole: TrainingCost | None
    battery: Battery
    lasts: Life
    batch: int
    samples: int | None
    assumptions: tuple[Assumption, ...]

    @property
    def unit(self) -> str:
        return "step" if self.whole is None else "fine-tuning"

    @property
    def epochs(self) -> float | None:
        """Epochs are of whole batches: `train` leaves the rest out."""
        if self.whole is not None:
            return self.lasts.steps * self.whole.epochs
        return None if self.samples is None else self.lasts.steps / (self.samples // self.batch)

    @property
    def idle_j(self) -> float:
        """Of what a step draws, the idle power's part."""
        return self.lasts.step_j - self.step.energy_j

    def document(self) -> dict[str, object]:
        whole, lasts = self.whole, self.lasts
        at_once = 1 if whole is None else whole.steps
        return {
            "steps": lasts.steps * at_once,
            "epochs": self.epochs,
            "fine_tunings": None if whole is None else lasts.steps,
            "hours": lasts.hours,
            "battery_j": self.battery.energy_j,
            "fine_tuning_j": None if whole is None else {**whole.parts_j, "idle": self.idle_j},
            "step_j": lasts.step_j / at_once,
            "between_j": lasts.between_j / at_once,
            "cell_current_a": lasts.cell_current_a,
            "cells": self.battery.count,
            "batch": self.batch,
            "samples": self.samples,
            "assumptions": [each._asdict() for each in self.assumptions],
        }


def _show(answer: Answer, warnings: Sequence[str]) -> None:
    from .console import wide_console

    lasts, whole = answer.lasts, answer.whole
    what = f"steps of batch {answer.batch}"
    if whole is not None:
        parts = _parts({**whole.parts_j, "idle power": answer.idle_j})
        what = f"fine-tunings of {whole.epochs} epochs ({lasts.step_j * 1e3:.4g} mJ each: {parts})"
    elif answer.epochs is not None:
        what += f", {_rounded(answer.epochs)} epochs of {answer.samples:,} samples"
    console = wide_console()
    for line in (
        f"{_rounded(lasts.steps)} {what}, in {_rounded(lasts.hours)} hours",
        *_account(answer),
        "",
        *_listed(answer.assumptions),
        "  not counted: self-discharge, the converter's own current, and data that come to the board",
        *warnings,
    ):
        console.print(line, soft_wrap=True, markup=False)


def _samples(given: int | None, data: Path | None, plan: plans.Plan, batch: int) -> int | None:
    """Samples of the training set, if anybody says how many."""
    from poet_profiles.errors import UserError

    from ..data.batches import read_training_data

    if data is not None:
        given = batch * len(read_training_data(data, plan, None).batches)
    if given is not None and given < batch:
        raise UserError(f"--set-size {given}: a batch takes {batch}; name at least as many")
    return given


def _cell(words: str) -> Cell:
    from poet_profiles.cells import Cell, load_cell
    from poet_profiles.errors import UserError

    if not re.fullmatch(_pattern(CHARGES_AH), words):
        return load_cell(words)
    capacity_ah = _quantity("--cell", words, CHARGES_AH, "500mAh")
    if not capacity_ah:
        raise UserError(f"--cell {words}: must be above 0")
    return Cell(name="given", title=words, capacity_ah=capacity_ah, voltage_v=VOLTAGE_V, source=GIVEN)


def _capacity(cell: Cell) -> Assumption:
    source = cell.source
    return Assumption("capacity", cell.capacity_ah, f"{cell.capacity_ah * 1e3:,.4g} mAh", source)


def _voltage(cell: Cell, given: float | None) -> Assumption:
    from poet_profiles.errors import UserError

    if given is None:
        source = "assumed: lithium ion (--voltage)" if cell.source == GIVEN else "nominal, as the capacity (--voltage)"
        return Assumption("voltage", cell.voltage_v, f"{cell.voltage_v:.4g} V", source)
    if not 0 < given < math.inf:
        raise UserError(f"--voltage {given}: must be above 0")
    return Assumption("voltage", given, f"{given:.4g} V", GIVEN)


def _share(name: str, option: str, given: str | None, default: str) -> Assumption:
    from poet_profiles.errors import UserError

    words = default if given is None else given
    share = _quantity(option, words, PERCENT, default)
    if not 0 < share <= 1:
        raise UserError(f"{option} {words}: must be above 0% and at most 100%")
    return Assumption(name, share, words, f"assumed ({option})" if given is None else GIVEN)


def _idle(step: StepCost, given_w: float | None) -> Assumption:
    power_w = given_w if given_w is not None else step.idle_power_w or 0.0
    source = GIVEN if given_w is not None else "that of the profile, or of --run (--idle-power)"
    return Assumption("idle power", power_w, f"{power_w * 1e3:.4g} mW", source)


def _quantity(option: str, words: str, units: Mapping[str, float], such_as: str) -> float:
    from poet_profiles.errors import UserError

    found = re.fullmatch(_pattern(units), words)
    if found is None:
        raise UserError(f"{option} {words}: must be such as {such_as}")
    return float(found[1]) * units[found[2]]


def _pattern(units: Mapping[str, float]) -> str:
    return rf"(\d+\.?\d*|\.\d+) ?({'|'.join(units)})"


def _parts(joules: Mapping[str, float]) -> str:
    return ", ".join(f"{one * 1e3:.4g} of {name}" for name, one in joules.items() if one)


def _account(answer: Answer) -> list[str]:
    step, battery, lasts, unit = answer.step, answer.battery, answer.lasts, answer.unit
    cells = f"{battery.count} cells, each giving" if battery.count > 1 else "the cell, which gives"
    basis = f" ({step.basis})" if step.basis else ""
    plan, idle = (f"{joules * 1e3:.4g}" for joules in (step.energy_j, answer.idle_j))
    lines = [
        f"  {battery.energy_j:,.4g} J arrive at the board from {cells} {lasts.cell_current_a * 1e3:.3g} mA in training",
        f"  a {unit} takes {lasts.step_j * 1e3:.4g} mJ in {step.time_s:.4g} s: {plan} of training{basis}, {idle} of "
        "the idle power",
    ]
    if lasts.between_s:
        lines.append(f"  between two {unit}s the board takes {lasts.between_j * 1e3:.4g} mJ in {lasts.between_s:.4g} s")
    return lines


def _listed(assumptions: Sequence[Assumption]) -> list[str]:
    names, words = (max(map(len, column)) for column in zip(*((a.name, a.words) for a in assumptions), strict=True))
    return [f"  {each.name:<{names}}  {each.words:>{words}}  {each.source}" for each in assumptions]


def _warnings(cell: Cell, step: StepCost, lasts: Life, unit: str) -> list[str]:
    lines = []
    if cell.rated_current_a is not None and lasts.cell_current_a > cell.rated_current_a:
        lines.append(
            f"expect less: {cell.title} has its capacity at {cell.rated_current_a * 1e3:.3g} mA, and gives "
            f"{lasts.cell_current_a * 1e3:.3g} mA here"
        )
    if step.life_steps is not None and step.life_steps < lasts.steps:
        lines.append(f"the card is worn out before, after {_rounded(step.life_steps)} {unit}s")
    return lines


def _rounded(number: float) -> str:
    """Three digits: the assumptions are not known any better."""
    return f"{float(f'{number:.3g}'):,.10g}"
