# SPDX-License-Identifier: Apache-2.0
"""For how many training steps a battery lasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from poet_profiles.errors import UserError
from poet_profiles.json_file import read_json

from .training.comparison import read_run

SECONDS_AN_HOUR = 3600.0


@dataclass(frozen=True)
class StepCost:
    """One training step. ``energy_j`` is above ``idle_power_w``, which the board draws all the time besides.

    ``idle_power_w`` is 0 where the energy is all that is drawn, and None where that is not known. ``life_steps`` is for
    how many steps the card lasts. ``basis`` says what the energy rests on, such as ``emulated``.
    """

    energy_j: float
    time_s: float
    idle_power_w: float | None
    life_steps: float | None = None
    basis: str = ""


@dataclass(frozen=True)
class Battery:
    """Cells, and how much of what they hold arrives at the board.

    Attributes
    ----------
    count : int
        Cells, all alike.
    usable : float
        Share of the capacity until the board's supply is too low.
    efficiency : float
        Of the converter between battery and board.
    """

    capacity_ah: float
    voltage_v: float
    count: int
    usable: float
    efficiency: float

    @property
    def energy_j(self) -> float:
        """What arrives at the board."""
        held_j = self.count * self.capacity_ah * SECONDS_AN_HOUR * self.voltage_v
        return held_j * self.usable * self.efficiency


@dataclass(frozen=True)
class Life:
    """How long a battery lasts.

    Attributes
    ----------
    step_j : float
        All that a step draws at the board.
    between_j : float
        What the board draws between two steps, while it sleeps.
    between_s : float
        How long that is.
    cell_current_a : float
        What each cell gives while the board trains.
    """

    step_j: float
    between_j: float
    between_s: float
    steps: float
    hours: float
    cell_current_a: float


def life(step: StepCost, battery: Battery, duty: float, sleep_power_w: float | None) -> Life:
    """Spend a battery on training steps.

    Parameters
    ----------
    duty : float
        Share of the time in which the board trains; it sleeps for the rest.
    sleep_power_w : float or None
        What it draws then, if not the idle power.

    Raises
    ------
    UserError
        If the power of the sleeping board is needed and not known.
    """
    idle_w = sleep_power_w if step.idle_power_w is None else step.idle_power_w
    if idle_w is None:
        raise UserError("the plan's profile does not say what the sleeping board draws; give --idle-power")
    between_s = step.time_s * (1 / duty - 1)
    asleep_w = sleep_power_w if sleep_power_w is not None else idle_w
    if between_s and sleep_power_w is None and not idle_w:
        raise UserError(
            "the plan's costs are published ones, which do not say what the sleeping board draws; give --idle-power"
        )
    step_j = step.energy_j + idle_w * step.time_s
    between_j = asleep_w * between_s
    if not step_j + between_j:
        raise UserError("a step of the plan costs no energy; plan with a profile that has costs")
    training_w = step_j / step.time_s if step.time_s else 0.0
    steps = battery.energy_j / (step_j + between_j)
    seconds = steps * (step.time_s + between_s)
    return Life(
        step_j=step_j,
        between_j=between_j,
        between_s=between_s,
        steps=steps,
        hours=seconds / SECONDS_AN_HOUR,
        cell_current_a=training_w / battery.efficiency / battery.voltage_v / battery.count,
    )


def planned_step(folder: Path, energy_j: float, time_s: float) -> StepCost:
    """A step as planned, with what the plan's summary says besides.

    Raises
    ------
    UserError
        If there is no summary that says it.
    """
    path = folder / "summary.json"
    if not path.is_file():
        raise UserError(f"{path}: no such file; make the plan with poet-plan --out {folder}")
    summary = read_json(path)
    if not isinstance(summary, dict) or "idle_power_w" not in summary:
        raise UserError(f"{path}: idle_power_w: is missing; plan again with poet-plan --out {folder}")
    wear = summary.get("wear")
    life_steps = _number(path, wear, "life_steps") if isinstance(wear, dict) else None
    shares = summary.get("energy_share")
    basis = ", ".join(name for name, share in shares.items() if share) if isinstance(shares, dict) else ""
    return StepCost(energy_j, time_s, _number(path, summary, "idle_power_w"), life_steps, basis)


def observed_step(planned: StepCost, path: Path, schedule_hash: str) -> StepCost:
    """A step as a run saw it: the median of the steps that were not traced.

    Raises
    ------
    UserError
        If the file is no run of this plan, or has no such step, or none with its energy.
    """
    run = read_run(path)
    if set(run["schedule_hash"]) != {schedule_hash}:
        found = ", ".join(sorted(set(run["schedule_hash"])))
        raise UserError(
            f"{path}: is a run of the schedule {found}, the plan's is {schedule_hash}; name a run of this plan"
        )
    traced = run["training_step"][run["do"] != "step"]
    steps = run[(run["do"] == "step") & ~run["training_step"].isin(traced) & run["observed_energy_j"].notna()]
    if steps.empty:
        raise UserError(f"{path}: has no step with its energy beside the traced one; run more steps (--steps)")
    return replace(
        planned,
        energy_j=float(steps["observed_energy_j"].median()),
        time_s=float(steps["observed_time_s"].median()),
        idle_power_w=float(steps["idle_power_w"].iloc[0]),
        basis=f"{steps['source'].iloc[0]}, median of {len(steps)} steps",
    )


def _number(path: Path, document: Mapping[str, Any], key: str) -> float | None:
    value = document.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise UserError(f"{path}: {key}: {value!r} is not a number from 0 on; plan again")
    return float(value)
