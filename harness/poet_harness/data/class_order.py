# SPDX-License-Identifier: Apache-2.0
"""What the order of classes does to a training: batches of one class, classes not learnt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from poet_profiles.samples import BatchTensor, Samples

Array = NDArray[Any]

LEAST = 8  # fewer samples stand in any order
LOOKED = 256  # samples of a Dataset, which makes each: neighbours, two by two
FEW = 1 / 3  # of the changes of class between neighbours that a mixed set has
MOST_NAMED = 5


def words_on_order(
    tensors: Sequence[BatchTensor], train: Samples, validation: Samples | None, in_order: bool
) -> Iterator[str]:
    """What a user should know, a line each, where the one target is a number a sample.

    Parameters
    ----------
    in_order : bool
        Whether batches follow the order of the samples.
    """
    targets = [tensor for tensor in tensors if tensor.kind == "target"]
    if len(targets) != 1 or np.prod(targets[0].shape) != 1 or train.count < LEAST:
        return
    target = targets[0]
    if in_order and _stand_in_rows(_neighbours(train, target)):
        yield "samples of one class stand in a row, so batches are of one class; --shuffle SEED mixes them"
    if validation is not None and target.choices:
        learnt, asked = (_all_labels(samples, target) for samples in (train, validation))
        if (other := np.setdiff1d(asked, learnt)).size and learnt.size:
            named = ", ".join(map(str, other[:MOST_NAMED])) + (", …" if other.size > MOST_NAMED else "")
            yield f"the validation has classes that the training lacks ({named}): split after shuffling, by class"


def _all_labels(samples: Samples, target: BatchTensor) -> Array:
    """Every sample's; none where it would have to be made for that, and there are many."""
    if target.index in samples.arrays:
        return np.asarray(samples.arrays[target.index]).reshape(-1)
    return _labels(samples, target, np.arange(samples.count if samples.count <= LOOKED else 0))


def _neighbours(samples: Samples, target: BatchTensor) -> Array:
    """Labels of samples that follow one another, a pair a row."""
    labels = _all_labels(samples, target)
    if labels.size:
        return np.stack([labels[:-1], labels[1:]], axis=1)
    first = np.linspace(0, samples.count - 2, LOOKED // 2).astype(np.int64)
    return np.stack([_labels(samples, target, first + place) for place in range(2)], axis=1)


def _labels(samples: Samples, target: BatchTensor, numbers: NDArray[np.int64]) -> Array:
    return samples.rows(numbers)[target.index].reshape(-1) if numbers.size else np.empty(0)


def _stand_in_rows(pairs: Array) -> bool:
    shares = np.unique(pairs, return_counts=True)[1] / pairs.size
    return bool((pairs[:, 0] != pairs[:, 1]).mean() <= FEW * (1 - (shares**2).sum()) > 0)
