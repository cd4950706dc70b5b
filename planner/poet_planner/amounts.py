"""Amounts as people write them: RAM as ``256KB`` or ``50%``, a deadline as ``2.5s`` or ``1.5x``."""

from __future__ import annotations

import math
import re

from poet_profiles.errors import UserError

_BYTES = {"": 1, "b": 1, "kb": 1024, "kib": 1024, "mb": 1024**2, "mib": 1024**2, "gb": 1024**3, "gib": 1024**3}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "min": 60.0, "h": 3600.0}
_AMOUNT = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([a-zA-Z%]*)\s*")


def ram_bytes(text: str, plain_peak_bytes: int) -> int:
    """Bytes meant by ``text``: ``200000``, ``256KB`` (of 1024 B), or ``50%`` of plain training's peak.

    Raises
    ------
    UserError
        If it is none of these.
    """
    number, unit = _parts(text, "--ram", "256KB, 2MB or 50%")
    if unit == "%":
        return math.floor(plain_peak_bytes * number / 100)
    if unit not in _BYTES:
        raise UserError(f"--ram {text}: unknown unit {unit!r}; write for example 256KB, 2MB or 50%")
    return math.floor(number * _BYTES[unit])


def deadline_s(text: str, plain_time_s: float) -> float:
    """Seconds meant by ``text``: ``2.5s``, ``800ms``, or ``1.5x`` plain training's time.

    Raises
    ------
    UserError
        If it is none of these.
    """
    number, unit = _parts(text, "--deadline", "2.5s, 800ms or 1.5x")
    if unit == "x":
        return plain_time_s * number
    if unit not in _SECONDS:
        raise UserError(f"--deadline {text}: unknown unit {unit!r}; write for example 2.5s, 800ms or 1.5x")
    return number * _SECONDS[unit]


def _parts(text: str, option: str, examples: str) -> tuple[float, str]:
    match = _AMOUNT.fullmatch(text)
    if match is None or not float(match[1]) > 0 or not math.isfinite(float(match[1])):
        raise UserError(f"{option} {text}: not an amount above zero; write for example {examples}")
    return float(match[1]), match[2].lower()
