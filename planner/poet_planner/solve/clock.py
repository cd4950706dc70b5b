# SPDX-License-Identifier: Apache-2.0
"""The optimiser's clock: seconds of work. It stands still while numba compiles, once a machine, so that a time limit
buys the first plan as much search as every later one, and equal seeds give equal plans.
"""

from __future__ import annotations

import logging
import time

from numba.core import event

_LOG = logging.getLogger(__name__)


class _Compiling(event.Listener):
    """Adds up the time during which numba compiles; one compilation may set off others, inside itself."""

    def __init__(self) -> None:
        self._depth = 0
        self._began_s = 0.0
        self._total_s = 0.0
        self._told = False

    @property
    def seconds(self) -> float:
        under_way_s = time.monotonic() - self._began_s if self._depth else 0.0
        return self._total_s + under_way_s

    def on_start(self, _event: event.Event) -> None:
        if self._depth == 0:
            self._began_s = time.monotonic()
        self._depth += 1
        if not self._told:
            self._told = True
            _LOG.warning("compiling the optimiser, once on this machine: a minute or two, beyond any time limit")

    def on_end(self, _event: event.Event) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._total_s += time.monotonic() - self._began_s


_COMPILING = _Compiling()
event.register("numba:compile", _COMPILING)  # type: ignore[no-untyped-call]


def seconds() -> float:
    """Seconds on the clock; only differences mean anything."""
    return time.monotonic() - _COMPILING.seconds
