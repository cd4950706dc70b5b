# SPDX-License-Identifier: Apache-2.0
"""Amounts as people write and read them: RAM as ``256KB`` or ``50%``, a deadline as ``2.5s`` or ``1.5x``; 44.5 mJ."""

from __future__ import annotations

import math
import re
from typing import TypeVar

from poet_profiles.amounts import energy_text as energy_text
from poet_profiles.amounts import time_text as time_text
from poet_profiles.errors import UserError

_BYTES = {"": 1, "b": 1, "kb": 1024, "kib": 1024, "mb": 1024**2, "mib": 1024**2, "gb": 1024**3, "gib": 1024**3}
_BYTES |= {"tb": 1024**4, "tib": 1024**4}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "min": 60.0, "h": 3600.0}
_BYTE_UNITS = (("TB", 1024**4), ("GB", 1024**3), ("MB", 1024**2), ("KB", 1024), ("B", 1))
MOST_BYTES = 2**53  # exact in every format
Number = TypeVar("Number", int, float)
_AMOUNT = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([a-zA-Z%]*)\s*")


def ram_bytes(amount: int | str, store_all_peak_bytes: int) -> int:
    """Bytes meant: ``200000``, ``256KB`` (of 1024 B), or ``50%`` of the store-all schedule's peak.

    Raises
    ------
    UserError
        If it is none of these.
    """
    examples = "256KB, 2MB or 50%"
    if isinstance(amount, str) and amount.rstrip().endswith("%"):
        number, _ = _parts(amount, "--ram", examples)
        return _whole(store_all_peak_bytes * number / 100, amount, "--ram", examples)
    return size_bytes(amount, "--ram", examples)


def size_bytes(amount: int | str, option: str, examples: str) -> int:
    """Bytes meant: ``2048``, ``2KB`` (of 1024 B); ``option`` and ``examples`` are for the message.

    Raises
    ------
    UserError
        If it is neither.
    """
    if not isinstance(amount, str):
        return _whole(_above_zero(amount, option, examples), str(amount), option, examples)
    number, unit = _parts(amount, option, examples)
    if unit not in _BYTES:
        raise UserError(f"{option} {amount}: unknown unit {unit!r}; write for example {examples}")
    return _whole(number * _BYTES[unit], amount, option, examples)


def deadline_s(amount: float | str | None, store_all_time_s: float) -> float | None:
    """Seconds meant: ``2.5``, ``800ms``, or ``1.5x`` the store-all schedule's time; None of None and of ``none``.

    Raises
    ------
    UserError
        If it is none of these.
    """
    examples = "2.5s, 800ms, 1.5x or none"
    if amount in (None, "none"):
        return None
    if not isinstance(amount, str):
        return _above_zero(amount, "--deadline", examples)
    number, unit = _parts(amount, "--deadline", examples)
    if unit == "x":
        return store_all_time_s * number
    if unit not in _SECONDS:
        raise UserError(f"--deadline {amount}: unknown unit {unit!r}; write for example {examples}")
    return number * _SECONDS[unit]


def bytes_text(count: int) -> str:
    """Three digits or more and a unit of 1024: ``193.6 KB``; whole bytes below 1 KB."""
    unit, scale = byte_unit(count)
    return f"{count} B" if scale == 1 else f"{count / scale:.{1 if count < 1000 * scale else 0}f} {unit}"


def byte_unit(largest: int) -> tuple[str, int]:
    """Name and size of the unit in which amounts up to ``largest`` are best read."""
    return next(((unit, size) for unit, size in _BYTE_UNITS if largest >= size), _BYTE_UNITS[-1])


def share_text(share: float) -> str:
    """A share of one, in per cent: ``27.2 %``; what is too small to show, or below zero by rounding, is no number."""
    if share < 1e-9:
        return "0 %"
    return f"{float(f'{100 * share:.3g}'):g} %" if share >= 1e-5 else "< 0.001 %"


def more_text(share: float) -> str:
    """Excess of one number over another: ``+3.21 %``, or ``12.5 times`` from twice on."""
    if share >= 1:
        return f"{1 + share:.3g} times"
    return f"{'-' if share < 0 else '+'}{share_text(abs(share))}"


def _parts(text: str, option: str, examples: str) -> tuple[float, str]:
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise _no_amount(text, option, examples)
    return _above_zero(float(match[1]), option, examples, text), match[2].lower()


def _above_zero(number: Number, option: str, examples: str, text: str = "") -> Number:
    if not number > 0 or not math.isfinite(number):
        raise _no_amount(text or str(number), option, examples)
    return number


def _whole(bytes: float, text: str, option: str, examples: str) -> int:
    if not 1 <= bytes <= MOST_BYTES:
        raise UserError(f"{option} {text}: is no memory's size; write for example {examples}")
    return math.floor(bytes)


def _no_amount(text: str, option: str, examples: str) -> UserError:
    return UserError(f"{option} {text}: not an amount above zero; write for example {examples}")
