# SPDX-License-Identifier: Apache-2.0
"""Numbers that are kept as small integers and are normalised where they are used (docs/SPEC.md, section 8).

``y = (q - shift) * scale``: two operations in f32, each rounded, in this order, with the same bits on host and board.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from .errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TYPES = ("uint8", "int8", "int16")


@dataclass(frozen=True)
class Normalising:
    """Shift and scale: one of each, or one a channel.

    Attributes
    ----------
    shifts, scales : tuple of float
        Each a number that f32 holds; both as long as there are channels, or 1 long.
    """

    shifts: tuple[float, ...]
    scales: tuple[float, ...]

    def __call__(self, numbers: NDArray[Any]) -> NDArray[np.float32]:
        """The f32 that such integers stand for.

        Parameters
        ----------
        numbers : array
            Of shape (samples, …); with several channels of shape (samples, channels, …).
        """
        import numpy as np

        shape = (1, -1, *(1 for _ in numbers.shape[2:])) if len(self.scales) > 1 else ()
        shifts, scales = (np.array(table, np.float32).reshape(shape) for table in (self.shifts, self.scales))
        normalised: NDArray[np.float32] = (numbers.astype(np.float32) - shifts) * scales
        return normalised


def read_normalising(scale: str | None, shift: str | None) -> Normalising | None:
    """What ``--scale`` and ``--shift`` say: a number or a fraction (``1/255``), or several with commas between them.

    Returns
    -------
    Normalising or None
        None if neither is given; a shift that is not given is 0.

    Raises
    ------
    UserError
        If one is no number that f32 holds, if both have several and not as many, or if there is no scale.
    """
    if scale is None:
        if shift is not None:
            raise UserError(f"--shift {shift}: says nothing without --scale; give both, --scale 1 for none")
        return None
    scales, shifts = _numbers("--scale", scale), _numbers("--shift", shift or "0")
    count = max(len(scales), len(shifts))
    if not {len(scales), len(shifts)} <= {1, count}:
        raise UserError(f"--scale has {len(scales)} numbers, --shift {len(shifts)}; give one a channel, or one")
    if not all(scales):
        raise UserError(f"--scale {scale}: a scale of 0 leaves nothing of the data")
    return Normalising(*(tuple(table * count if len(table) == 1 else table) for table in (shifts, scales)))


def _numbers(option: str, text: str) -> list[float]:
    import numpy as np

    try:
        with np.errstate(over="raise"):
            return [float(np.float32(float(Fraction(word.strip())))) for word in text.split(",")]
    except (ValueError, ArithmeticError):
        raise UserError(
            f"{option} {text}: is no number that f32 holds; write 0.5, 1/255, or one a channel: 0.5,0.4"
        ) from None
