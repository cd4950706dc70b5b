# SPDX-License-Identifier: Apache-2.0
"""Figures as people read them: a unit in which a number is neither nothing nor endless."""

from __future__ import annotations

# Digits of what is compared with a prediction.
PRECISE = 5
_PREFIXES = (("", 1.0), ("m", 1e-3), ("\u00b5", 1e-6), ("n", 1e-9))


def energy_text(energy_j: float, digits: int = 3) -> str:
    """Some digits and a unit: ``44.5 mJ``."""
    return _scaled(energy_j, "J", digits)


def time_text(time_s: float, digits: int = 3) -> str:
    """Some digits and a unit: ``901 ms``."""
    return _scaled(time_s, "s", digits)


def loss_text(loss: float) -> str:
    """Four decimals, ``2.3026``; ``1.5e+37`` and ``3.2e-06`` where these would say nothing."""
    return f"{loss:.4f}" if loss == 0 or 1e-3 <= abs(loss) < 1e5 else f"{loss:.4g}"


def _scaled(amount: float, unit: str, digits: int) -> str:
    """With the prefix that leaves a number between 1 and 1000."""
    size = float(f"{abs(amount):.{digits}g}")
    prefix, scale = next(((prefix, scale) for prefix, scale in _PREFIXES if size >= scale), _PREFIXES[-1])
    if size == 0 or size >= 1000:
        return f"{amount:.{max(6, digits)}g} {unit}"
    return f"{float(f'{amount / scale:.{digits}g}'):g} {prefix}{unit}"
