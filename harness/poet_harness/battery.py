# SPDX-License-Identifier: Apache-2.0
"""For how many training steps, or whole fine-tunings, a battery lasts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from poet_profiles.battery import SECONDS_AN_HOUR, Battery
from poet_profiles.errors import UserError
from poet_profiles.files.json_file import read_json
from poet_profiles.files.text_file import read_frame
from poet_profiles.plan_folder import SUMMARY_FILE
from poet_profiles.plan_folder.files import PlanFiles

from .training.comparison import read_run
from .training.run_folder import EPOCHS_FILE, FORMAT, SETTINGS_FILE

# Columns of a training's epochs. Not each training keeps features, or validates.
_MAY_LACK = ["features_energy_j", "features_time_s", "validated"]
_INFERENCES = ["inference_energy_j", "inference_time_s"]
_COSTS = ["steps", "energy_j", "time_s", *_MAY_LACK, *_INFERENCES]


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
class TrainingCost:
    """A training over epochs as its folder has it; energies are above the idle power.

    ``features_j`` is of features that are computed once and kept, ``validation_j`` of all inferences.
    """

    epochs: int
    steps: int
    features_j: float
    steps_j: float
    validation_j: float
    time_s: float
    source: str

    @property
    def parts_j(self) -> dict[str, float]:
        return {"features": self.features_j, "steps": self.steps_j, "validation": self.validation_j}

    def at_once(self, planned: StepCost) -> StepCost:
        """The whole training as one step, on a board as planned."""
        return StepCost(
            sum(self.parts_j.values()),
            self.time_s,
            planned.idle_power_w,
            None if planned.life_steps is None else planned.life_steps / self.steps,
            self.source,
        )


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


def planned_step(plan: PlanFiles, folder: Path) -> StepCost:
    """A step as planned, with what the plan's summary says besides."""
    summary = plan.summary
    if summary is None:
        raise UserError(f"{folder / SUMMARY_FILE}: no such file; make the plan with poet-plan --out {folder}")
    basis = ", ".join(name for name, share in summary.energy_share.items() if share) or summary.source
    step = plan.schedule
    return StepCost(step.energy_j, step.time_s, summary.idle_power_w, summary.wear.life_steps, basis)


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


def training_cost(folder: Path, graph_hash: str) -> TrainingCost:
    """What a training took, by the epochs that its folder has.

    Raises
    ------
    UserError
        If it is no folder of ``poet-harness train``, or one of another model, or an energy is not known.
    """
    settings, path = read_json(folder / SETTINGS_FILE), folder / EPOCHS_FILE
    if not isinstance(settings, dict) or settings.get("format") != FORMAT:
        raise UserError(f"{folder / SETTINGS_FILE}: is not of format {FORMAT}; name what train --folder wrote")
    if settings.get("graph_hash") != graph_hash:
        raise UserError(f"{folder}: is of the graph {settings.get('graph_hash')}, the plan's is {graph_hash}")
    try:
        rows = read_frame(path)
        numbers = rows.reindex(columns=_COSTS).astype(float)
        if (numbers < 0).any(axis=None) or (numbers["steps"] < 1).any():
            raise ValueError("a number is too small")
        source = str(rows["source"].iloc[-1])
    except (ValueError, KeyError, IndexError) as error:
        raise UserError(f"{path}: is no table of epochs ({error}); name what train --folder wrote") from None
    numbers[_MAY_LACK] = numbers[_MAY_LACK].fillna(0.0)
    validated = numbers["validated"] > 0
    numbers.loc[~validated, _INFERENCES] = 0.0
    if numbers.isna().any(axis=None):
        row, column = (int(place[0]) for place in numbers.isna().to_numpy().nonzero())
        raise UserError(f"{path}:{row + 2}: {_COSTS[column]}: is not known, so the energy of the training is not")
    time_s = numbers["time_s"] + numbers["features_time_s"] + numbers["validated"] * numbers["inference_time_s"]
    return TrainingCost(
        epochs=len(numbers),
        steps=int(numbers["steps"].sum()),
        features_j=float(numbers["features_energy_j"].sum()),
        steps_j=float(numbers["energy_j"].sum()),
        validation_j=float((numbers["validated"] * numbers["inference_energy_j"]).sum()),
        time_s=float(time_s.sum()),
        source=source,
    )
