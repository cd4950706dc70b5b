"""MILP solvers by name, all of them handed a Pyomo model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poet_profiles.errors import UserError

if TYPE_CHECKING:
    import pyomo.environ as pyo


@dataclass(frozen=True)
class Outcome:
    """What a solver brought back; the model's variables hold the solution if there is one."""

    has_solution: bool
    objective: float | None
    bound: float | None
    optimal: bool


@dataclass(frozen=True)
class Solver:
    """A MILP solver.

    Attributes
    ----------
    pyomo_name : str
        The name in Pyomo's registry.
    time_limit_option, gap_option : str
        The solver's own names for them.
    """

    name: str
    pyomo_name: str
    time_limit_option: str
    gap_option: str
    note: str

    @property
    def available(self) -> bool:
        """Whether it is installed and licensed."""
        from pyomo.environ import SolverFactory

        return bool(SolverFactory(self.pyomo_name).available(exception_flag=False))

    def solve(self, model: pyo.ConcreteModel, time_limit_s: float, relative_gap: float = 1e-9) -> Outcome:
        """Solve ``model`` (minimisation)."""
        from pyomo.environ import SolverFactory
        from pyomo.opt import TerminationCondition, SolverStatus

        solver = SolverFactory(self.pyomo_name)
        options: dict[str, Any] = {self.time_limit_option: time_limit_s, self.gap_option: relative_gap}
        results = solver.solve(model, options=options, load_solutions=False, tee=False)
        has_solution = len(results.solution) > 0
        if has_solution:
            model.solutions.load_from(results)
        problem = results.problem
        return Outcome(
            has_solution=has_solution,
            objective=float(problem.upper_bound) if has_solution else None,
            bound=float(problem.lower_bound) if problem.lower_bound is not None else None,
            optimal=results.solver.status == SolverStatus.ok
            and results.solver.termination_condition == TerminationCondition.optimal,
        )


_SOLVERS = (
    Solver("highs", "appsi_highs", "time_limit", "mip_rel_gap", "comes with poet"),
    Solver("gurobi", "gurobi", "TimeLimit", "MIPGap", "needs Gurobi and its licence"),
    Solver("cbc", "cbc", "seconds", "ratioGap", "needs COIN-OR CBC on the path"),
    Solver("scip", "scip", "limits/time", "limits/gap", "needs SCIP on the path"),
)


def solvers() -> tuple[Solver, ...]:
    """All that this version knows, installed or not."""
    return _SOLVERS


def solver_named(name: str) -> Solver:
    """The solver of that name.

    Raises
    ------
    UserError
        If there is none of that name, or it is not installed.
    """
    for solver in _SOLVERS:
        if solver.name == name:
            if not solver.available:
                raise UserError(f"solver {name} is not available: it {solver.note}")
            return solver
    raise UserError(f"no solver {name!r}; known are {', '.join(solver.name for solver in _SOLVERS)}")
