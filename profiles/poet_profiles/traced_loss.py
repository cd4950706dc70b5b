# SPDX-License-Identifier: Apache-2.0
"""A loss without a name, as the operators of PyTorch that it calls.

So the harness computes it for any number of samples, in f64, without the user's code. Values are counted: scores are
value 0, targets follow, then constants, then what each call yields. Arguments are plain, but for objects of one key:

- ``value``, the number of one;
- ``samples``, two numbers: the first and, times the number of samples, the second;
- ``share``, what is divided by that number;
- ``torch``, a type by PyTorch's name, and ``number``, one that JSON lacks, such as ``"inf"``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from poet_profiles.errors import UserError
from poet_profiles.losses import BOUNDARIES

Array = NDArray[Any]
PICK = "pick"  # takes one of several results
# These give the numbers that they are given.
MOVING = {"view", "_unsafe_view", "reshape", "squeeze", "unsqueeze", "select", "alias", "detach", "clone", "_to_copy"}


@dataclass(frozen=True)
class LossCall:
    """One operator, such as ``add.Tensor``, with its arguments."""

    op: str
    args: list[Any]
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LossConstant:
    """Numbers that the loss comes with, such as class weights."""

    dtype: str
    numbers: Any


@dataclass(frozen=True)
class TracedLoss:
    """What a training computes of scores and targets.

    Attributes
    ----------
    targets : tuple of str
        PyTorch's name of each one's type.
    constants : tuple of LossConstant
    calls : tuple of LossCall
    result : int
        Which value is the loss.
    class_axis : int or None
        The axis of the scores that has one a class; None: the last one, if any has.
    soft : bool
        Whether a target has a share for each class.
    """

    targets: tuple[str, ...]
    constants: tuple[LossConstant, ...]
    calls: tuple[LossCall, ...]
    result: int
    class_axis: int | None = None
    soft: bool = False

    @property
    def boundary(self) -> float | None:
        """Above which a lone score says that it is there; None without a binary cross entropy."""
        made = {0: ""}  # values that are the scores, or their sigmoid
        for number, call in enumerate(self.calls, 1 + len(self.targets) + len(self.constants)):
            name, given = call.op.partition(".")[0], call.args[0] if call.args else None
            value = given.get("value") if isinstance(given, dict) else None
            if value not in made:
                continue
            if made[value] + name in BOUNDARIES:
                return BOUNDARIES[made[value] + name]
            if name in MOVING:
                made[number] = made[value]
            elif name == "sigmoid" and not made[value]:
                made[number] = "sigmoid "
        return None

    def reads(self, shape: tuple[int, ...]) -> bool:
        """Whether it may read scores of a shape whose first axis counts samples."""
        return bool(self.calls) and self.class_axis in (None, *range(1, len(shape)))

    def mean(self, scores: Array, *targets: Array) -> float:
        """The loss of some samples as one batch, in f64.

        Parameters
        ----------
        scores, targets : array
            Their first axis counts samples.

        Raises
        ------
        UserError
            If PyTorch does not take them, or the plan's file is damaged.
        """
        import torch

        def wide(name: str) -> Any:
            named = getattr(torch, name)
            return torch.float64 if isinstance(named, torch.dtype) and named.is_floating_point else named

        def decoded(argument: Any) -> Any:
            if isinstance(argument, list):
                return [decoded(one) for one in argument]
            if not isinstance(argument, dict):
                return argument
            ((kind, given),) = argument.items()
            if kind == "samples":
                return given[0] + given[1] * len(scores)
            if kind == "share":
                return given / len(scores)
            if kind == "value":
                return values[given]
            return wide(given) if kind == "torch" else float(given)

        try:
            given = zip(targets, self.targets, strict=True)
            values: list[Any] = [torch.tensor(scores, dtype=torch.float64)]
            values += [torch.tensor(target).to(wide(name)) for target, name in given]
            values += [torch.tensor(one.numbers, dtype=wide(one.dtype)) for one in self.constants]
            for call in self.calls:
                args = decoded(call.args)
                if call.op == PICK:
                    values.append(args[0][args[1]])
                    continue
                packet, _, overload = call.op.partition(".")
                operator = getattr(getattr(torch.ops.aten, packet), overload)
                values.append(operator(*args, **{name: decoded(one) for name, one in call.kwargs.items()}))
            return float(values[self.result])
        except Exception as error:
            why = str(error).partition("\n")[0]
            raise UserError(f"the plan's loss cannot be computed of these samples ({why}); plan again") from None
