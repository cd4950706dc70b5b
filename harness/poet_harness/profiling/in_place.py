# SPDX-License-Identifier: Apache-2.0
"""What operators cost in place: in training steps in which every action is timed and metered for itself.

A benchmark fills operands with random numbers, of which none is zero. Training is full of zeros (images, what a ReLU
lets through, its gradient), and floating point in software is quicker on them.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence

from poet_profiles.firmware.operators import OPERATORS, parse_params
from poet_profiles.profile import ProfileWriter
from poet_profiles.program.stopping import undisturbed

from ..data.batches import TrainingData
from ..measuring.measure import Measurement, spread
from ..plan_folder.plan import Plan, PredictedAction
from ..training.observed import ObservedStep
from ..training.trainer import Trainer
from .configurations import TRANSFERS, Configuration
from .profiler import Profiler


def profile_in_place(
    trainer: Trainer,
    profiler: Profiler,
    profile: ProfileWriter,
    plan: Plan,
    data: TrainingData,
    learning_rate: float,
    done: Callable[[ObservedStep], None] = lambda _: None,
) -> int:
    """Train with every step traced, and append what the operators cost; the number of rows.

    A card that holds trained weights of the plan is gone on with: their values matter little. However the training
    ends, the steps that were whole become rows. Nothing is trained if the profile holds all of
    the plan's operators already.
    """
    if all(profiler.is_done(_configuration(action), profile) for action in plan.actions if _is_computed(action)):
        return 0
    rows = 0
    try:
        begun = trainer.held.on_card()
        trainer.train(data, learning_rate, resume=begun > 0, done=done, trace_all=True, steps=begun + len(data.batches))
    finally:
        if trainer.observed:
            with undisturbed():
                costs = costs_in_place(plan, trainer.observed)
                rows = profiler.take_over(costs, trainer.metering.idle_power_w, profile)
    return rows


def costs_in_place(plan: Plan, steps: Sequence[ObservedStep]) -> dict[Configuration, Measurement]:
    """Mean time and energy of every configuration that the traced steps computed.

    A mean, and no median: what a plan adds up is every run. A configuration whose energy no window showed is left out.

    Parameters
    ----------
    steps : sequence of ObservedStep
        Those that were not traced count for nothing.
    """
    times_s: dict[Configuration, list[float]] = defaultdict(list)
    energies_j: dict[Configuration, list[float]] = defaultdict(list)
    for step in steps:
        for action, seen in zip(plan.actions, step.actions, strict=bool(step.actions)):
            if _is_computed(action) and seen.energy_j is not None:
                item = _configuration(action)
                times_s[item].append(seen.time_s / action.runs)
                energies_j[item].append(seen.energy_j / action.runs)
    return {item: _measurement(item, times_s[item], energies_j[item]) for item in times_s}


def _is_computed(action: PredictedAction) -> bool:
    """Whether its cost is that of its operator: a transfer's is a page's, and a commit's is another in each graph."""
    return action.do == "compute" and action.op in OPERATORS and action.op not in TRANSFERS


def _configuration(action: PredictedAction) -> Configuration:
    return Configuration(action.op, action.params)


def _measurement(item: Configuration, times_s: list[float], energies_j: list[float]) -> Measurement:
    sizes = OPERATORS[item.op].sizes(parse_params(item.params))
    return Measurement(
        time_s=statistics.fmean(times_s),
        time_s_std=spread(times_s),
        energy_j=statistics.fmean(energies_j),
        energy_j_std=spread(energies_j),
        repeats=len(times_s),
        bytes=sum(sizes.outputs),
        workspace_bytes=sizes.workspace,
    )
