# SPDX-License-Identifier: Apache-2.0
"""Goals, and metrics of the validation samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import TYPE_CHECKING

from poet_profiles.errors import UserError
from poet_profiles.program.users_code import users_code
from poet_profiles.program.users_module import module_of

if TYPE_CHECKING:
    from torch import Tensor

KEPT = 3  # a goal is reached from the first epoch on from which so many keep it
Z_95 = 1.959963984540054
Metric = Callable[["Tensor", "Tensor"], float]


@dataclass(frozen=True)
class Goal:
    """A metric of outputs and targets, and the number that it is to reach.

    ``falls`` says that less is better.
    """

    metric: str
    number: float
    measure: Metric
    falls: bool = False

    def keeps(self, value: float) -> bool:
        return value <= self.number if self.falls else value >= self.number

    def best(self, values: Sequence[float]) -> float:
        return min(values) if self.falls else max(values)

    def least_epoch(self, values: Sequence[float]) -> tuple[int, bool]:
        """The first epoch from which it is kept, or may still be; and whether that is certain."""
        streak = 0
        for epoch, value in enumerate(values):
            streak = streak + 1 if self.keeps(value) else 0
            if streak == KEPT:
                return epoch - KEPT + 1, True
        return len(values) - streak, False

    def text(self, value: float) -> str:
        """A value as people read it."""
        return f"{100 * value:.0f} %" if self.metric in SHARES else f"{value:.3g}"


def goal_of(text: str, loss: Metric) -> Goal:
    """A goal as a user writes it: ``accuracy 0.85``, ``loss 0.1``, ``my_module:metric 0.7``.

    Parameters
    ----------
    loss : callable
        The model's, for the metric of that name.

    Raises
    ------
    UserError
        If it is no metric and number.
    """
    name, _, number = text.strip().rpartition(" ")
    name, among = name.strip(), ", ".join((*SHARES, *ERRORS, "loss", "r2"))
    try:
        value = float(number)
    except ValueError:
        raise UserError(f"--goal {text}: give a metric and a number, as accuracy 0.85; there are {among}") from None
    if not isfinite(value) or (name in SHARES and not 0 < value <= 1):
        raise UserError(f"--goal {text}: a share is above 0 and at most 1, as 0.85")
    if name == "loss":
        return Goal(name, value, loss, falls=True)
    if name in ERRORS:
        return Goal(name, value, ERRORS[name], falls=True)
    if ":" in name:
        return Goal(name, value, _own(name))
    if name not in (*SHARES, "r2"):
        raise UserError(f"--goal {text}: there is no metric {name!r}; there are {among}, or module:callable")
    return Goal(name, value, SHARES.get(name, _r2))


def _own(name: str) -> Metric:
    module, attribute = module_of(name)
    made = getattr(module, attribute, None)
    if not callable(made):
        raise UserError(f"{name}: {module.__name__} has no callable {attribute}; give one of outputs and targets")

    def measure(outputs: Tensor, targets: Tensor) -> float:
        with users_code(name):
            return float(made(outputs, targets))

    return measure


def _right(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.argmax(1) == targets).float()


def _balanced(outputs: Tensor, targets: Tensor) -> float:
    right, classes = _right(outputs, targets), {*targets.tolist()}
    return sum(float(right[targets == one].mean()) for one in classes) / len(classes)


def _f1(outputs: Tensor, targets: Tensor) -> float:
    """The mean over classes that there are, or that are answered."""
    answers, scores = outputs.argmax(1), []
    for one in {*targets.tolist(), *answers.tolist()}:
        both = int(((answers == one) & (targets == one)).sum())
        scores.append(2 * both / int((answers == one).sum() + (targets == one).sum()))
    return sum(scores) / len(scores)


def _r2(outputs: Tensor, targets: Tensor) -> float:
    return 1 - float(((outputs - targets) ** 2).sum() / ((targets - targets.mean()) ** 2).sum())


SHARES: dict[str, Metric] = {
    "accuracy": lambda outputs, targets: float(_right(outputs, targets).mean()),
    "balanced accuracy": _balanced,
    "macro f1": _f1,
}
ERRORS: dict[str, Metric] = {
    "mae": lambda outputs, targets: float((outputs - targets).abs().mean()),
    "rmse": lambda outputs, targets: float((outputs - targets).square().mean().sqrt()),
}


def wilson(share: float, count: int) -> tuple[float, float]:
    """The interval in which a share of so many samples leaves that of all, with 95 %."""
    spread = Z_95 * sqrt(share * (1 - share) / count + Z_95**2 / (4 * count**2))
    middle, scale = share + Z_95**2 / (2 * count), 1 + Z_95**2 / count
    return (middle - spread) / scale, (middle + spread) / scale
