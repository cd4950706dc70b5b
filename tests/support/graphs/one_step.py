# SPDX-License-Identifier: Apache-2.0
"""Nodes of one step, by its name."""

from __future__ import annotations

from poet_profiles.firmware.steps import KINDS, POINTWISE, only_step
from poet_profiles.graph import Operation


def named(name: str, size: object) -> tuple[str, str]:
    """Operator and key for so many numbers.

    Of a step, or of an operator with no other parameter.
    """
    if name not in KINDS:
        return name, f"size={size}"
    sources = ",".join(f"x{place}" for place in range(KINDS[name].operands))
    return POINTWISE, f"size={size} steps={name}(y0,{sources})"


def name_of(operation: Operation) -> str:
    """Of the only step, or of the operator."""
    return only_step(operation.params) or operation.op
