# SPDX-License-Identifier: Apache-2.0
"""MILP solvers by name; each is handed a Pyomo model."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from poet_profiles.errors import UserError

from poet_planner.solve.time_budget import OnProgress, TimeBudget, unheard

if TYPE_CHECKING:
    import pyomo.environ as pyo

REPORT_EVERY_S = 0.2
LEAST_S = 0.01


@dataclass
class Outcome:
    """What a solver brought back. Solutions map the names of variables to values, best last."""

    solutions: list[dict[str, float]] = field(default_factory=list)
    bound: float = -np.inf
    infeasible: bool = False


@dataclass(frozen=True)
class Limits:
    """How far a solver is to go; as the parameters of `Solver.solve`."""

    budget: TimeBudget
    absolute_gap: float
    cutoff: float
    on_progress: OnProgress

    @property
    def time_s(self) -> float:
        """For a solver that minds a time limit only if there is one."""
        return max(self.budget.left(), LEAST_S)


@dataclass(frozen=True)
class Solver(ABC):
    """A MILP solver on one thread: the search has the others.

    Attributes
    ----------
    note : str
        What it takes to have it.
    reports_progress : bool
        Whether it tells its bound while it works, and can be ended early.
    """

    name: str
    note: str
    reports_progress: bool = False

    @property
    @abstractmethod
    def available(self) -> bool:
        """Whether it is installed and licensed."""

    def solve(
        self,
        model: pyo.ConcreteModel,
        budget: TimeBudget,
        absolute_gap: float,
        cutoff: float = np.inf,
        on_progress: OnProgress = unheard,
    ) -> Outcome:
        """Minimise ``model``; nothing above ``cutoff`` is wanted, which not every solver can be told.

        A solver that ``reports_progress`` tells ``on_progress`` its bound and its best solution now and then.

        Raises
        ------
        UserError
            If the solver fails: a licence that allows no model as large, too little memory.
        """
        try:
            return self._solve(model, Limits(budget, absolute_gap, cutoff, on_progress))
        except Exception as error:
            reason = next(iter(str(error).splitlines()), "") or type(error).__name__
            raise UserError(f"solver {self.name} failed: {reason}; `poet-plan solvers` lists others") from error

    @abstractmethod
    def _solve(self, model: pyo.ConcreteModel, limits: Limits) -> Outcome: ...


@dataclass(frozen=True)
class Direct(Solver):
    """By way of Pyomo's interface to the solver's own Python package."""

    pyomo_name: str = ""

    @property
    def available(self) -> bool:
        return bool(self._interface().available())

    def _interface(self) -> Any:
        import pyomo.environ  # noqa: F401  It knows no solver before.
        from pyomo.contrib.solver.common.factory import SolverFactory

        return SolverFactory(self.pyomo_name)

    def _solve(self, model: pyo.ConcreteModel, limits: Limits) -> Outcome:
        from pyomo.contrib.solver.common.results import SolutionStatus, TerminationCondition

        results = self._interface().solve(
            model,
            threads=1,
            time_limit=limits.time_s,
            rel_gap=0.0,
            abs_gap=limits.absolute_gap,
            load_solutions=False,
            raise_exception_on_nonoptimal_result=False,
        )
        outcome = Outcome(infeasible=results.termination_condition == TerminationCondition.provenInfeasible)
        if results.objective_bound is not None:
            outcome.bound = float(results.objective_bound)
        if results.solution_status in (SolutionStatus.feasible, SolutionStatus.optimal):
            values = results.solution_loader.get_vars()
            outcome.solutions.append({variable.name: float(value) for variable, value in values.items()})
        return outcome


@dataclass(frozen=True)
class Cbc(Solver):
    """COIN-OR CBC by way of Pyomo and the command line."""

    @property
    def available(self) -> bool:
        from pyomo.environ import SolverFactory

        return bool(SolverFactory("cbc").available(exception_flag=False))

    def _solve(self, model: pyo.ConcreteModel, limits: Limits) -> Outcome:
        import pyomo.environ as pyo
        from pyomo.opt import TerminationCondition

        options = {"seconds": limits.time_s, "timeMode": "elapsed", "ratioGap": 0, "allowableGap": limits.absolute_gap}
        results = pyo.SolverFactory("cbc").solve(model, options=options, load_solutions=False)
        ended = results.solver.termination_condition
        outcome = Outcome(infeasible=ended == TerminationCondition.infeasible)
        if ended == TerminationCondition.optimal:
            # Pyomo tells the objective for the bound or that of the LP: all below the gap is ruled out.
            outcome.bound = float(results.problem.upper_bound) - limits.absolute_gap
        elif results.problem.lower_bound is not None:
            outcome.bound = float(results.problem.lower_bound)
        if len(results.solution) > 0:
            model.solutions.load_from(results)
            variables = model.component_data_objects(pyo.Var)
            # It knows nothing of variables that are in no row.
            outcome.solutions.append({one.name: float(one.value) for one in variables if one.value is not None})
        return outcome


@dataclass(frozen=True)
class Highs(Solver):
    """HiGHS by way of Pyomo's LP writer and highspy: tells its bound, and every solution on the way."""

    @property
    def available(self) -> bool:
        return True

    def _solve(self, model: pyo.ConcreteModel, limits: Limits) -> Outcome:
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
        highs.setOptionValue("time_limit", limits.time_s)
        highs.setOptionValue("mip_rel_gap", 0.0)
        highs.setOptionValue("mip_abs_gap", limits.absolute_gap)
        highs.setOptionValue("objective_bound", limits.cutoff)
        outcome = Outcome()
        listener = _Listener(limits, names, outcome)
        highs.cbMipInterrupt.subscribe(listener.interrupt)
        highs.cbMipImprovingSolution.subscribe(listener.improved)
        highs.run()
        status = highs.getModelStatus()
        info = highs.getInfo()
        nothing_better = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kObjectiveBound)
        outcome.infeasible = status in nothing_better
        if info.mip_node_count >= 0:
            outcome.bound = info.mip_dual_bound
        elif status == highspy.HighsModelStatus.kOptimal:
            outcome.bound = info.objective_function_value
        if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
            listener.keep(highs.getSolution().col_value)
        return outcome


class _Listener:
    """HiGHS's callbacks."""

    def __init__(self, limits: Limits, names: list[str], outcome: Outcome) -> None:
        self._limits = limits
        self._names = names
        self._outcome = outcome
        self._reported_s = -np.inf

    def interrupt(self, event: Any) -> None:
        if event.data_out.running_time < self._reported_s + REPORT_EVERY_S:
            return
        self._reported_s = event.data_out.running_time
        self._limits.on_progress(event.data_out.mip_dual_bound, event.data_out.mip_primal_bound)
        if self._limits.budget.expired:
            event.interrupt()

    def improved(self, event: Any) -> None:
        self.keep(event.data_out.mip_solution)

    def keep(self, values: Any) -> None:
        self._outcome.solutions.append(dict(zip(self._names, map(float, values), strict=True)))


_SOLVERS: tuple[Solver, ...] = (
    Highs("highs", "comes with poet", reports_progress=True),
    Direct("gurobi", "needs the Python package gurobipy and a licence", pyomo_name="gurobi_direct"),
    Cbc("cbc", "needs COIN-OR CBC's program `cbc` on the path"),
    Direct("scip", "needs the Python package pyscipopt", pyomo_name="scip_direct"),
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
