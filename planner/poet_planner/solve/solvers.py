"""MILP solvers by name; each is handed a Pyomo model."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from poet_profiles.errors import UserError

if TYPE_CHECKING:
    import pyomo.environ as pyo

HEAR_EVERY_S = 0.2


@dataclass
class Outcome:
    """What a solver brought back. Solutions map the names of variables to values, best last."""

    solutions: list[dict[str, float]] = field(default_factory=list)
    bound: float = -np.inf
    infeasible: bool = False
    optimal: bool = False


@dataclass(frozen=True)
class Solver:
    """A MILP solver in Pyomo's registry.

    Attributes
    ----------
    note : str
        What it takes to have it.
    reports_progress : bool
        Whether it tells its bound while it works, and can be ended early.
    """

    name: str
    pyomo_name: str
    time_limit_option: str
    gap_option: str
    note: str
    reports_progress: bool = False

    @property
    def available(self) -> bool:
        """Whether it is installed and licensed."""
        from pyomo.environ import SolverFactory

        return bool(SolverFactory(self.pyomo_name).available(exception_flag=False))

    def solve(
        self,
        model: pyo.ConcreteModel,
        time_limit_s: float,
        absolute_gap: float,
        cutoff: float = np.inf,
        hear: Callable[[float], bool] = lambda bound: True,
    ) -> Outcome:
        """Minimise ``model``; nothing above ``cutoff`` is wanted, which not every solver can be told."""
        import pyomo.environ as pyo
        from pyomo.opt import TerminationCondition

        options = {self.time_limit_option: time_limit_s, self.gap_option: absolute_gap}
        results = pyo.SolverFactory(self.pyomo_name).solve(model, options=options, load_solutions=False)
        ended = results.solver.termination_condition
        outcome = Outcome(
            infeasible=ended in (TerminationCondition.infeasible, TerminationCondition.infeasibleOrUnbounded),
            optimal=ended == TerminationCondition.optimal,
        )
        if results.problem.lower_bound is not None:
            outcome.bound = float(results.problem.lower_bound)
        if len(results.solution) > 0:
            model.solutions.load_from(results)
            outcome.solutions.append(
                {variable.name: pyo.value(variable) for variable in model.component_data_objects(pyo.Var)}
            )
        return outcome


@dataclass(frozen=True)
class Highs(Solver):
    """HiGHS by way of Pyomo's LP writer and highspy: tells its bound, and every solution on the way."""

    @property
    def available(self) -> bool:
        return True

    def solve(
        self,
        model: pyo.ConcreteModel,
        time_limit_s: float,
        absolute_gap: float,
        cutoff: float = np.inf,
        hear: Callable[[float], bool] = lambda bound: True,
    ) -> Outcome:
        import highspy
        from pyomo.repn.plugins.lp_writer import LPWriter

        highs = highspy.Highs()  # type: ignore[no-untyped-call]
        highs.setOptionValue("output_flag", False)
        with tempfile.TemporaryDirectory(prefix="poet-") as folder:
            path = Path(folder) / "model.lp"
            with path.open("w") as stream:
                written = LPWriter().write(model, stream)
            highs.readModel(str(path))
        names = [
            written.symbol_map.bySymbol[symbol].name if symbol in written.symbol_map.bySymbol else symbol
            for symbol in (highs.getColName(column)[1] for column in range(highs.getNumCol()))
        ]
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("time_limit", max(time_limit_s, 0.01))
        highs.setOptionValue("mip_rel_gap", 0.0)
        highs.setOptionValue("mip_abs_gap", absolute_gap)
        highs.setOptionValue("objective_bound", cutoff)
        outcome = Outcome()
        listener = _Listener(hear, names, outcome)
        highs.cbMipInterrupt.subscribe(listener.interrupt)
        highs.cbMipImprovingSolution.subscribe(listener.improved)
        highs.run()
        status = highs.getModelStatus()
        info = highs.getInfo()
        nothing_better = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kObjectiveBound)
        outcome.infeasible = status in nothing_better
        outcome.optimal = status == highspy.HighsModelStatus.kOptimal
        mixed = info.mip_node_count >= 0
        outcome.bound = info.mip_dual_bound if mixed else info.objective_function_value if outcome.optimal else -np.inf
        if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
            listener.keep(highs.getSolution().col_value)
        return outcome


class _Listener:
    """HiGHS's callbacks."""

    def __init__(self, hear: Callable[[float], bool], names: list[str], outcome: Outcome) -> None:
        self._hear = hear
        self._names = names
        self._outcome = outcome
        self._heard_s = 0.0

    def interrupt(self, event: Any) -> None:
        if time.monotonic() < self._heard_s + HEAR_EVERY_S:
            return
        self._heard_s = time.monotonic()
        if not self._hear(event.data_out.mip_dual_bound):
            event.interrupt()

    def improved(self, event: Any) -> None:
        self.keep(event.data_out.mip_solution)

    def keep(self, values: Any) -> None:
        self._outcome.solutions.append(dict(zip(self._names, map(float, values), strict=True)))


_SOLVERS: tuple[Solver, ...] = (
    Highs("highs", "highs", "time_limit", "mip_abs_gap", "comes with poet", reports_progress=True),
    Solver("gurobi", "gurobi", "TimeLimit", "MIPGapAbs", "needs Gurobi and its licence"),
    Solver("cbc", "cbc", "seconds", "allowableGap", "needs COIN-OR CBC on the path"),
    Solver("scip", "scip", "limits/time", "limits/absgap", "needs SCIP on the path"),
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
                raise UserError(f"solver {name} is not installed: it {solver.note}; `poet-plan solvers` lists them")
            return solver
    raise UserError(f"no solver {name!r}; known are {', '.join(solver.name for solver in _SOLVERS)}")
