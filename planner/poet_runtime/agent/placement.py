# SPDX-License-Identifier: Apache-2.0
"""A program's plain step, everything kept: as a whole, and operator by operator, each timed in its place."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from statistics import median

from torch import Tensor

from poet_runtime.compiled_step import CompiledStep, compile_steps
from poet_runtime.executor import store_all_steps
from poet_runtime.traced_graph import TracedGraph

SPLIT_STEPS = 3


class PlainStep:
    """Runs the step in the compiled form in which plans run.

    Halves of one backward kernel are one call there. The call's time is given to them in the proportion that they have
    where each is a call of its own: a plan that parts them is more expensive by a little than their sum says.

    Attributes
    ----------
    times_ns : list of int
        Of each operator, in the program's order, in the last timed step.
    between_ns : int
        What the step took beside its operators.
    peak_bytes : int
        The most that values and workspaces take at once.
    """

    def __init__(self, graph: TracedGraph, residents: Mapping[str, Tensor]) -> None:
        steps = [*store_all_steps(graph)]
        self._graph = graph
        self._given = {**residents, **graph.constants}
        self._plain = compile_steps(graph, steps, limit_bytes=math.inf)
        self._timed = compile_steps(graph, steps, timed=True, limit_bytes=math.inf)
        self._split = compile_steps(graph, steps, timed=True, limit_bytes=-math.inf)
        self.peak_bytes = self._plain.peak_bytes
        self._shares: dict[str, float] = {}
        self.times_ns: list[int] = []
        self.between_ns = 0

    def run(self) -> None:
        """One step that nothing interrupts."""
        self._run(self._plain)

    def run_timed(self) -> None:
        """One step, with two readings of the clock around each operator."""
        if not self._shares:
            self._shares = self._shares_of_halves()
        start_ns = time.perf_counter_ns()
        times = self._run(self._timed)
        total_ns = time.perf_counter_ns() - start_ns
        for joined in [id for id in times if id not in self._shares]:
            whole_ns = times.pop(joined)
            halves = self._timed.halves[joined]
            apart = sum(self._shares[half] for half in halves)
            times.update((half, round(whole_ns * self._shares[half] / apart)) for half in halves)
        self.times_ns = [times[operator.id] for operator in self._graph.operators]
        self.between_ns = max(0, total_ns - sum(self.times_ns))

    def _shares_of_halves(self) -> dict[str, float]:
        """Time of each operator as a call of its own."""
        self._run(self._split)
        rounds = [self._run(self._split) for _ in range(SPLIT_STEPS)]
        return {id: max(1.0, median(times[id] for times in rounds)) for id in self._split.operators}

    def _run(self, step: CompiledStep) -> dict[str, int]:
        """Nanoseconds by operator, of a timed form."""
        step.run([self._given[id] for id in step.residents])
        readings = step.times_ns
        spans = [end - start for start, end in zip(readings[::2], readings[1::2], strict=True)]
        return dict(zip(step.operators, spans, strict=True)) if spans else {}
