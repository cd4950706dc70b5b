# SPDX-License-Identifier: Apache-2.0
"""The optimiser that ends a training step, in the words of ``torch.optim``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf, isfinite

from poet_profiles.errors import UserError


class Method(StrEnum):
    """Which class of ``torch.optim`` it is."""

    SGD = "sgd"
    ADAM = "adam"
    ADAMW = "adamw"


@dataclass(frozen=True)
class Optimizer:
    """Options as that class has them, but the learning rate, which each step is given.

    Attributes
    ----------
    method : Method
        Or its name, such as ``"adamw"``.
    momentum, nesterov : float, bool
        Of SGD.
    weight_decay : float
        Added to the gradient; of AdamW taken off the parameter itself.
    betas, eps : (float, float), float
        Of Adam and AdamW.
    clip_value : float or None
        Each element of a gradient is kept within plus and minus that, as ``torch.nn.utils.clip_grad_value_`` does.

    Raises
    ------
    UserError
        If an option is out of range, or of another optimiser, or there is no such method.
    """

    method: Method = Method.SGD
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    clip_value: float | None = None

    def __post_init__(self) -> None:
        if self.method not in list(Method):
            raise UserError(f"--optimizer {self.method}: there is none; it is {', '.join(Method)}")
        object.__setattr__(self, "method", Method(self.method))
        for option, strange in (
            (f"--momentum {self.momentum:g}", self.is_adam and self.momentum),
            ("--nesterov", self.is_adam and self.nesterov),
            (f"--betas {self.betas[0]:g},{self.betas[1]:g}", not self.is_adam and self.betas != Optimizer.betas),
            (f"--eps {self.eps:g}", not self.is_adam and self.eps != Optimizer.eps),
        ):
            if strange:
                raise UserError(f"{option}: --optimizer {self.method} has none; leave it out")
        if self.nesterov and not self.momentum:
            raise UserError("--nesterov: goes with momentum; give --momentum 0.9, or leave it out")
        for option, number, most in (
            ("--momentum", self.momentum, 1.0),
            ("--weight-decay", self.weight_decay, inf),
            ("--eps", self.eps, inf),
        ):
            if not (isfinite(number) and 0 <= number <= most):
                raise UserError(f"{option} {number:g}: is out of range; it is from 0 to {most:g}")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise UserError(f"--betas {self.betas[0]:g},{self.betas[1]:g}: both are from 0 to below 1, as 0.9,0.999")
        if self.method is Method.ADAMW and not self.weight_decay:
            raise UserError(
                "--optimizer adamw: is adam without a weight decay; give --weight-decay 0.01, or --optimizer adam"
            )
        if self.clip_value is not None and not 0 < self.clip_value < inf:
            raise UserError(f"--clip-value {self.clip_value:g}: is above 0, and finite; leave it out not to clip")

    @property
    def is_adam(self) -> bool:
        """Whether it is Adam or AdamW."""
        return self.method is not Method.SGD

    @property
    def is_plain(self) -> bool:
        """Whether it is gradient descent and nothing else."""
        return self == Optimizer()

    @property
    def words(self) -> str:
        """As on a command line: what differs from plain gradient descent."""
        default = Optimizer()
        words = [
            ("--optimizer", self.method, default.method),
            ("--momentum", f"{self.momentum:g}", f"{default.momentum:g}"),
            ("--weight-decay", f"{self.weight_decay:g}", f"{default.weight_decay:g}"),
            ("--clip-value", self.clip_value, default.clip_value),
        ]
        return " ".join(f"{option} {given}" for option, given, usual in words if given != usual)


PLAIN = Optimizer()
