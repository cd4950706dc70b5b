# SPDX-License-Identifier: Apache-2.0
"""The network of the watch's example, not trained yet, on random numbers; its folder has to be on Python's path."""

from __future__ import annotations

from dataclasses import replace

from poet_planner.models import Model
from watch import network, untrained


def make(batch: int | None) -> Model:
    """For `models.load`."""
    return replace(network(batch), module=untrained())
