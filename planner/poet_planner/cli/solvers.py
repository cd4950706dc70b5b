"""`poet-plan solvers`: the MILP solvers that poet can use."""

from __future__ import annotations


def solvers() -> None:
    """List the MILP solvers and whether they are installed here."""
    from poet_planner.solve.solvers import solvers as known

    for solver in known():
        print(f"{solver.name:8} {'installed' if solver.available else 'not installed':14} {solver.note}")
