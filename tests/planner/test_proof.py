"""The proof and the searches beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from poet_planner.plain import plain_schedule
from poet_planner.solve import proof
from poet_planner.solve.incumbent import Incumbent
from poet_planner.solve.problem import build_problem
from poet_planner.solve.proof import Proof
from poet_planner.solve.search import Aside, Searches
from poet_planner.solve.solvers import solver_named

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "planner"))

from layered import layered_graph

FEW_MOVES = 200
ASIDE_S = 0.5


def test_an_interrupt_keeps_what_searches_beside_the_proof_have_found(monkeypatch: pytest.MonkeyPatch) -> None:
    beside: list[Incumbent] = []

    class Interrupted(Aside):
        def wait(self, go_on: Callable[[], bool]) -> None:
            super().wait(lambda: True)
            assert self.best is not None
            beside.append(self.best)
            raise KeyboardInterrupt

    monkeypatch.setattr(proof, "Aside", Interrupted)
    monkeypatch.setattr(proof, "ASIDE_S", ASIDE_S)
    graph = layered_graph(60, 10, 0)
    problem = build_problem(graph, int(0.6 * plain_schedule(graph).peak_bytes), None)
    searches = Searches(problem, 0)
    searches.run(FEW_MOVES)
    assert searches.incumbent is not None
    before_j = searches.incumbent.energy

    interrupted = Proof(problem, searches, solver_named("highs"), 1e-6, 0)
    with pytest.raises(KeyboardInterrupt):
        interrupted.run(lambda: 60.0, lambda: True)

    assert interrupted.best is not None
    assert interrupted.best.energy == min(found.energy for found in beside) < before_j
