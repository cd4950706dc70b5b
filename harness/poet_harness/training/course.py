# SPDX-License-Identifier: Apache-2.0
"""What is trained over epochs, and on what: all that decides the bits of the training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from poet_profiles.graph.kept import TRAINED_KINDS

from ..card.reading import Weights
from .trained_files import trained_files

if TYPE_CHECKING:
    from pathlib import Path

    from poet_profiles.quantised import Normalising
    from poet_profiles.samples import Samples

    from ..card.sample_set import SampleSet
    from ..data.batches import TrainingData
    from ..plan_folder.plan import Plan
    from .best_epoch import Patience
    from .feeding import Order
    from .rates import Rates

MOST_CHECKED = 256


@dataclass(frozen=True)
class Course:
    """What is trained, and on what.

    Parameters
    ----------
    plan : Plan
        One that has its batch in RAM. If it keeps parameters on the card, that is what a training goes on from.
    data : TrainingData
        What training begins with; its batches are not used.
    samples : Samples
    order : Order
    epochs : int
    rates : Rates
    normalising : Normalising or None
        Of samples that are kept as small integers.
    on_card : SampleSet or None
        The samples, if they are to be sent to the card once; None: those of each step go over the line.
    validation : Samples or None
        What the board is asked after each epoch, by the inference of the plan.
    best_by_loss : bool
        Whether the best epoch is that of the lowest validation loss, and not of the most right answers.
    patience : Patience or None
        Ends the training before its last epoch.
    keeps_features : bool
        Whether the board keeps features from epoch to epoch, if it has room for those of all samples.
    """

    plan: Plan
    data: TrainingData
    samples: Samples
    order: Order
    epochs: int
    rates: Rates
    normalising: Normalising | None
    on_card: SampleSet | None = None
    validation: Samples | None = None
    best_by_loss: bool = False
    patience: Patience | None = None
    keeps_features: bool = True

    @property
    def steps(self) -> int:
        return self.epochs * self.order.steps_per_epoch

    def settings(self) -> dict[str, Any]:
        """What decides the bits of this training, as JSON takes it; of the data set a check."""
        rates = self.rates
        return {
            "graph_hash": self.plan.graph_hash,
            "initial": self._initial_check(),
            "samples": self.samples.count,
            "samples_check": samples_check(self.samples),
            "batch": self.order.batch,
            "shuffle": self.order.seed,
            "epochs": self.epochs,
            "learning_rate": rates.base,
            "schedule": rates.schedule,
            "warmup": rates.warmup,
            **({"every": rates.every, "factor": rates.factor} if rates.schedule == "step" else {}),
            **({"until_epoch": self.epochs} if rates.schedule == "cosine" else {}),
            "scale": list(self.normalising.scales) if self.normalising else None,
            "shift": list(self.normalising.shifts) if self.normalising else None,
            "validation": samples_check(self.validation) if self.validation else None,
            **({"best": "loss"} if self.best_by_loss else {}),
        }

    def weights(self, data: TrainingData) -> Weights:
        """Those that were read from the board."""
        tensors = {
            tensor.id: np.frombuffer(data.weights[index], self.plan.type_of(tensor)).reshape(tensor.shape)
            for index, tensor in enumerate(self.plan.residents)
            if tensor.kind in TRAINED_KINDS
        }
        return Weights(data.step, self.plan.whole(tensors), fell_back=False)

    def trained_files(self, out: Path, weights: Weights) -> dict[Path, bytes]:
        """What ``--trained`` writes."""
        return trained_files(out, self.plan, self.data.state, weights, self.rates(weights.step - 1))

    def _initial_check(self) -> str:
        check = 0
        for part in (self.data.constants, self.data.weights):
            for index in sorted(part):
                check = crc32(part[index], check)
        return f"{check:08x}"


def samples_check(samples: Samples) -> str:
    """A CRC-32 of at most 256 samples, evenly spread, the first and the last among them."""
    numbers = np.unique(np.linspace(0, samples.count - 1, min(samples.count, MOST_CHECKED)).astype(np.int64))
    check = 0
    for index, rows in sorted(samples.rows(numbers).items()):
        check = crc32(rows.tobytes(), crc32(f"{index} {rows.dtype.str} {rows.shape[1:]}".encode(), check))
    return f"{check:08x}"
