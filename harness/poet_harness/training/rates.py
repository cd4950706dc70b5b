# SPDX-License-Identifier: Apache-2.0
"""Learning rates step by step, reckoned on the host: constant, in steps, or along a cosine, with a warm-up before."""

from __future__ import annotations

import math
from dataclasses import dataclass

from poet_profiles.errors import UserError

CONSTANT, STEP, COSINE = SCHEDULES = ("constant", "step", "cosine")


@dataclass(frozen=True)
class Rates:
    """The learning rate of each step, counted from 0.

    Parameters
    ----------
    base : float
        The highest, which the warm-up ends at.
    schedule : str
        ``constant``; ``step``: times ``factor`` every ``every`` epochs, as PyTorch's ``StepLR``; ``cosine``: from the
        base at the end of the warm-up along half a cosine to 0 after the last step, as ``CosineAnnealingLR`` that is
        stepped after every training step.
    warmup : int
        So many steps at the beginning have ``1/warmup``, ``2/warmup``, … of the base.
    steps, steps_per_epoch : int
        Of the whole training.

    Raises
    ------
    UserError
        If there is no such schedule, or nothing is left after the warm-up.
    """

    base: float
    schedule: str
    warmup: int
    steps: int
    steps_per_epoch: int
    every: int = 10
    factor: float = 0.1

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise UserError(f"--schedule {self.schedule}: there are {', '.join(SCHEDULES)}")
        if self.warmup >= self.steps:
            raise UserError(f"--warmup {self.warmup}: the training has {self.steps} steps in all; give fewer")

    def __call__(self, step: int) -> float:
        if step < self.warmup:
            return self.base * (step + 1) / self.warmup
        if self.schedule == STEP:
            return self.base * self.factor ** (step // self.steps_per_epoch // self.every)
        if self.schedule == COSINE:
            share = (step - self.warmup) / (self.steps - self.warmup)
            return self.base * (1 + math.cos(math.pi * share)) / 2
        return self.base
