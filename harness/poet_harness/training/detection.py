# SPDX-License-Identifier: Apache-2.0
"""How well a network detects one thing: what it finds, and how often it is wrong."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import floor, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from poet_profiles.errors import UserError

from ..data.samples import batch_tensors
from ..plan_folder.plan import Plan
from .classes import class_names
from .evaluation import THERE, Evaluation, class_label

Array = NDArray[Any]
APART_S = 1.0  # false accepts that are nearer to a higher one are the same


@dataclass(frozen=True)
class Detection:
    """What is found above a threshold.

    Attributes
    ----------
    threshold : float
        What a score has to be above: a lone one; of classes, that of the one less the highest of the others.
    found, there : int
        Windows of what is detected: accepted, and all. With a time between windows, unbroken runs of them.
    recall : float
    false_accepts : int
        Other windows that were accepted; with a time between, those within a second of a higher one are the same.
    rate : float
        False accepts an hour, or in a thousand of the other windows.
    unit : str
    """

    threshold: float
    found: int
    there: int
    recall: float
    false_accepts: int
    rate: float
    unit: str


def read_bound(text: str, hop_s: float | None) -> float:
    """So many as in ``5/1000`` windows, or ``2/hour`` where the time between windows is known."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)/(h|hour|1000)", text)
    if match is None:
        raise UserError(f"--false-accepts {text}: give so many an hour or in a thousand windows, as 2/hour or 5/1000")
    if (match[2] == "1000") != (hop_s is None):
        cure = "give --hop, the seconds from one window to the next, too" if hop_s is None else "leave --hop out"
        raise UserError(f"--false-accepts {text}: {cure}")
    return float(match[1])


Heights = Callable[[Evaluation], tuple[Array, Array, Array]]


def heights_of(plan: Plan, name: str | None) -> Heights:
    """Gives each window's height, whether it has what is detected, and whether something else.

    ``name`` is the class that is detected, or its number; None: the lone score, or the second of two classes.

    Raises
    ------
    UserError
        If there is no such class, it is not clear which, or the targets are not of the scores.
    """
    inference, label = plan.inference, class_label(plan)
    assert inference is not None
    targets = [tensor for tensor in batch_tensors(plan)[0] if tensor.kind == "target"]
    if label is not None and not inference.is_lone:
        axis, usual = inference.class_axis, 1 if inference.class_count == 2 else None
        chosen = _place(class_names(inference), name, usual)

        def of_classes(found: Evaluation) -> tuple[Array, Array, Array]:
            own = found.targets[targets.index(label)]
            own = (own if label.choices else own.argmax(axis)).reshape(-1)
            rows = np.moveaxis(found.scores.astype(np.float64), axis, -1).reshape(len(own), -1)
            heights = rows[:, chosen] - np.delete(rows, chosen, 1).max(1)
            return heights, own == chosen, (own != chosen) & (own != label.ignored)

        return of_classes
    count, names = prod(inference.output.shape[1:]), inference.classes
    if len(targets) != 1 or prod(targets[0].shape) != count:
        raise UserError("--threshold, --false-accepts: the targets do not say what the scores are of; leave them out")
    names = names[-1:] if count == 1 else names
    place = _place(names if len(names) == count else tuple(map(str, range(count))), name, 0 if count == 1 else None)

    def alone(found: Evaluation) -> tuple[Array, Array, Array]:
        own = found.targets[0].reshape(found.count, -1)[:, place]
        if (inference.loss is None or inference.loss.boundary is None) and len(np.unique(own)) > 2:
            raise UserError("--threshold, --false-accepts: the targets are neither yes nor no; leave them out")
        return found.scores.astype(np.float64).reshape(found.count, -1)[:, place], own > THERE, own <= THERE

    return alone


class Detector:
    """Heights of what a network is to detect, and of everything else.

    ``hop_s`` is the time from one sample to the next, where they are a stream. It is a `UserError` if the samples have
    none of what is detected, or nothing else.
    """

    def __init__(self, heights_of_windows: Heights, found: Evaluation, hop_s: float | None) -> None:
        heights, there, others = heights_of_windows(found)
        if not there.any() or not others.any():
            missing = "nothing else" if there.any() else "none of what is detected"
            raise UserError(f"--samples: there is {missing}; give windows with it and without it")
        self._all = np.unique(heights[there | others])
        self._amount = float(others.sum() * hop_s / 3600 if hop_s else others.sum() / 1000)
        self._unit = "an hour" if hop_s else "in a thousand"
        self._others = _separate(np.where(others, heights, -np.inf), round(APART_S / hop_s) if hop_s else 0)
        begins = np.flatnonzero(there & ~np.r_[False, there[:-1]]) if hop_s else np.flatnonzero(there)
        self._there = np.maximum.reduceat(np.where(there, heights, -np.inf), begins) if hop_s else heights[begins]

    def at(self, threshold: float) -> Detection:
        """What is found above a threshold."""
        false = int((self._others > threshold).sum())
        found = int((self._there > threshold).sum())
        rate = false / self._amount
        return Detection(threshold, found, len(self._there), found / len(self._there), false, rate, self._unit)

    def within(self, most: float) -> Detection:
        """What is found above the lowest threshold with at most so many false accepts."""
        allowed = floor(most * self._amount * (1 + 1e-9))
        if allowed >= len(self._others):
            return self.at(float(self._all[0]) - 1)  # all are accepted
        last = self._others[allowed]
        above = self._all[self._all > last]
        return self.at(float((last + above[0]) / 2 if len(above) else last))

    def curve_csv(self, source: str) -> str:
        """A row for each threshold at which something changes, from the highest on."""
        text = io.StringIO()
        heights = np.unique(np.r_[self._others, self._there])[::-1]
        rows = [asdict(self.at(float(height))) | {"source": source} for height in heights]
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()


def _separate(heights: Array, apart: int) -> Array:
    """The highest, and then ever the highest further than ``apart`` places from all before."""
    free, kept = np.isfinite(heights), list[int]()
    for place in np.argsort(-heights, kind="stable"):
        if free[place]:
            kept.append(place)
            free[max(0, place - apart) : place + apart + 1] = False
    return np.asarray(heights[kept])


def _place(names: tuple[str, ...], name: str | None, usual: int | None) -> int:
    if name is None and usual is not None:
        return usual
    if name in names:
        return names.index(name)
    if name is not None and name.isdecimal() and int(name) < len(names):
        return int(name)
    given = "none is given" if name is None else f"there is no {name}"
    raise UserError(f"--detect: {given}; there are {', '.join(names)}")
