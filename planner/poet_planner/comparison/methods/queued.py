# SPDX-License-Identifier: Apache-2.0
"""Steps where transfers wait for the bus, and the CPU does not wait for it.

The optimiser's own steps page a value out right after its first compute, and in where the order says. Where transfers
run beside the computing, the CPU then waits whenever the bus is still busy. Methods that were made for such boards
queue their transfers: each starts between two computes when the bus is free, page-ins first, or when it is needed.
"""

from __future__ import annotations

from poet_profiles.graph import Graph

from poet_planner.solve.instance import Ints, Problem, inputs_of
from poet_planner.solve.search.decode import Decoder


class QueueingDecoder(Decoder):
    """Writes the steps of events as `Decoder` does, but for the time at which transfers start."""

    def __init__(self, graph: Graph, problem: Problem, events: Ints) -> None:
        super().__init__(graph, problem, events)
        self._to_send: list[int] = []
        self._to_fetch: list[int] = []

    def _before(self, event: int) -> None:
        self._start_waiting()
        if event < len(self._problem.node_time):
            for v in inputs_of(self._problem, event).tolist():
                if v in self._to_fetch:
                    self._fetch(v)
            # What is taken over cannot leave any more.
            for v in self._taken_over(event):
                self._send_up_to(v)

    def _page_out(self, v: int) -> None:
        self._to_send.append(v)

    def _page_in(self, v: int) -> None:
        self._to_fetch.append(v)

    def _start_waiting(self) -> None:
        """Start what waits while the bus is free."""
        while self._bus_s <= self._cpu_s:
            ready = [v for v in self._to_fetch[:1] if v not in self._to_send and self._has_room(v)]
            if ready:
                self._fetch(ready[0])
            elif self._to_send:
                self._send()
            else:
                return

    def _has_room(self, v: int) -> bool:
        staying = sum(int(self._problem.size[u]) for u in self._leaving if self._is_gone(u) or u == v)
        return self._held - staying + int(self._problem.size[v]) <= self._problem.budget and (
            v not in self._leaving or self._is_gone(v)
        )

    def _fetch(self, v: int) -> None:
        self._to_fetch.remove(v)
        super()._page_in(v)

    def _send(self) -> None:
        super()._page_out(self._to_send.pop(0))

    def _leave(self, v: int) -> None:
        if v in self._to_send:
            self._leaving.append(v)
        else:
            super()._leave(v)

    def _is_gone(self, v: int) -> bool:
        return v not in self._to_send and super()._is_gone(v)

    def _free(self, v: int) -> None:
        self._send_up_to(v)
        super()._free(v)

    def _send_up_to(self, v: int) -> None:
        while v in self._to_send:
            self._send()
