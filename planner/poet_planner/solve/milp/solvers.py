# SPDX-License-Identifier: Apache-2.0
"""MILP solvers by name. Each solves a Pyomo model (docs/optimiser/relaxation.md)."""

from __future__ import annotations

import tempfile
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from poet_profiles.errors import UserError

from poet_planner.solve.milp import highs
from poet_planner.solve.milp.failure import SolverError, told_as
from poet_planner.solve.time_budget import OnProgress, TimeBudget, ignore_progress

if TYPE_CHECKING:
    import pyomo.environ as pyo

REPORT_EVERY_S = 0.05  # between two reports of progress: reference seconds
LEAST_S = 0.01  # least time limit that a solver is given
# HiGHS looks about as often as it solves an LP. What passes from one look to the next, and what each coefficient of
# the model adds: reference seconds.
LOOK_S = 1e-3
LOOK_S_PER_ENTRY = 5e-7


class SolverStatus(Enum):
    """Why a solver ended."""

    OPTIMAL = "optimal"  # the best solution is within the gap
    INFEASIBLE = "infeasible"  # there is no solution
    CUT_OFF = "cut off"  # there is no solution below the cutoff, though there may be others
    TIME_LIMIT = "time is up"  # or the solver was interrupted
    FAILED = "failed"  # for any other reason; solutions and bound hold all the same

    @property
    def has_no_solution(self) -> bool:
        """Whether it is proven that there is no solution, or none below the cutoff."""
        return self in (SolverStatus.INFEASIBLE, SolverStatus.CUT_OFF)


@dataclass
class SolverResult:
    """What a solver found.

    Attributes
    ----------
    solutions : list of dict
        Values by the names of the variables; the best solution last.
    bound : float
        Lower bound on the optimum, or at least on the cutoff if that is lower; minus infinity if there is none.
    status : SolverStatus
        Why the solver ended.
    """

    solutions: list[dict[str, float]] = field(default_factory=list)
    bound: float = -np.inf
    status: SolverStatus = SolverStatus.FAILED


@dataclass(frozen=True)
class Limits:
    """When a solver ends; see the parameters of `Solver.solve`."""

    budget: TimeBudget
    absolute_gap: float
    cutoff: float
    on_progress: OnProgress

    @property
    def time_s(self) -> float:
        """The time limit, by the wall's clock, which is never 0: to some solvers that means none."""
        return max(self.budget.left(), LEAST_S)


@dataclass(frozen=True)
class Solver(ABC):
    """A MILP solver on one thread; the search uses the others.

    Attributes
    ----------
    name : str
        What the user calls it.
    note : str
        What must be installed to use it.
    reports_progress : bool
        Whether it reports its bound while it works, counts that work, and can be interrupted. Others go by the wall's
        clock: what they come to in a time limit depends on what else the computer does.
    comes_with_poet : bool
        Whether it need not be installed. If it cannot be loaded all the same, that costs the bound and not the plan.
    """

    name: str
    note: str
    reports_progress: bool = False
    comes_with_poet: bool = False

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
        on_progress: OnProgress = ignore_progress,
    ) -> SolverResult:
        """Minimise ``model``.

        Parameters
        ----------
        absolute_gap : float
            The solver ends when solution and bound differ by no more.
        cutoff : float
            Solutions above are not wanted. Solvers without this feature ignore it.
        on_progress : callable
            A solver that ``reports_progress`` calls it a few times a second with its bound and its best solution.

        Raises
        ------
        SolverError
            If the solver cannot work: its licence does not allow a model of this size, or memory is too small.
        """
        began_s = time.monotonic()
        try:
            with told_as(self.name):
                result = self._solve(model, Limits(budget, absolute_gap, cutoff, on_progress))
                if result.status is SolverStatus.FAILED and not result.solutions and result.bound == -np.inf:
                    raise RuntimeError("it ended with neither a solution nor a bound")
        finally:
            if not self.reports_progress:
                budget.spend(time.monotonic() - began_s)
        if result.status is SolverStatus.OPTIMAL and result.bound >= cutoff:
            result.status = SolverStatus.CUT_OFF
        return result

    @abstractmethod
    def _solve(self, model: pyo.ConcreteModel, limits: Limits) -> SolverResult: ...


@dataclass(frozen=True)
class Direct(Solver):
    """A solver with a Python package of its own, through Pyomo's interface to that."""

    pyomo_name: str = ""

    @property
    def available(self) -> bool:
        return bool(self._interface().available())

    def _interface(self) -> Any:
        import pyomo.environ  # noqa: F401  Registers the solvers.
        from pyomo.contrib.solver.common.factory import SolverFactory

        return SolverFactory(self.pyomo_name)

    def _solve(self, model: pyo.ConcreteModel, limits: Limits) -> SolverResult:
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
        status = {
            TerminationCondition.convergenceCriteriaSatisfied: SolverStatus.OPTIMAL,
            TerminationCondition.provenInfeasible: SolverStatus.INFEASIBLE,
            TerminationCondition.maxTimeLimit: SolverStatus.TIME_LIMIT,
        }.get(results.termination_condition, SolverStatus.FAILED)
        result = SolverResult(status=status)
        if results.objective_bound is not None:
            result.bound = float(results.objective_bound)
        if results.solution_status in (SolutionStatus.feasible, SolutionStatus.optimal):
            values = results.solution_loader.get_vars()
            result.solutions.append({variable.name: float(value) for variable, value in values.items()})
        return result


@dataclass(frozen=True)
class Cbc(Solver):
    """COIN-OR CBC, through Pyomo and CBC's program."""

    @property
    def available(self) -> bool:
        from pyomo.environ import SolverFactory

        return bool(SolverFactory("cbc").available(exception_flag=False))

    def _solve(self, model: pyo.ConcreteModel, limits: Limits) -> SolverResult:
        import pyomo.environ as pyo
        from pyomo.opt import SolverStatus as PyomoStatus
        from pyomo.opt import TerminationCondition

        options = {"seconds": limits.time_s, "timeMode": "elapsed", "ratioGap": 0, "allowableGap": limits.absolute_gap}
        results = pyo.SolverFactory("cbc").solve(model, options=options, load_solutions=False)
        ended = results.solver.termination_condition
        status = {
            TerminationCondition.optimal: SolverStatus.OPTIMAL,
            TerminationCondition.infeasible: SolverStatus.INFEASIBLE,
            TerminationCondition.maxTimeLimit: SolverStatus.TIME_LIMIT,
            # The time is up, and what is there is a fractional point of the LP.
            TerminationCondition.intermediateNonInteger: SolverStatus.TIME_LIMIT,
        }.get(ended, SolverStatus.FAILED)
        result = SolverResult(status=status)
        if ended == TerminationCondition.optimal:
            # Pyomo gives the objective, or the LP's, as the bound. What is proven lies lower by the gap.
            result.bound = float(results.problem.upper_bound) - limits.absolute_gap
        elif results.problem.lower_bound is not None:
            result.bound = float(results.problem.lower_bound)
        has_whole = ended in (TerminationCondition.optimal, TerminationCondition.maxTimeLimit)
        if has_whole and len(results.solution) > 0:
            # Else Pyomo warns on stderr of a solution that came at the limit.
            results.solver.status = PyomoStatus.ok
            model.solutions.load_from(results)
            variables = model.component_data_objects(pyo.Var)
            # CBC does not know variables that are in no row.
            result.solutions.append({one.name: float(one.value) for one in variables if one.value is not None})
        return result


@dataclass(frozen=True)
class Highs(Solver):
    """HiGHS, through Pyomo's LP writer and highspy. It reports its bound, and every solution that it finds."""

    @property
    def available(self) -> bool:
        try:
            highs.load()
        except SolverError:
            return False
        return True

    def _solve(self, model: pyo.ConcreteModel, limits: Limits) -> SolverResult:
        from pyomo.repn.plugins.lp_writer import LPWriter

        instance, statuses = highs.silent_highs(), highs.load().HighsModelStatus
        with tempfile.TemporaryDirectory(prefix="poet-") as folder:
            path = Path(folder) / "model.lp"
            with path.open("w") as stream:
                written = LPWriter().write(model, stream)
            highs.check(instance, instance.readModel(str(path)), "model")
        names = [
            written.symbol_map.bySymbol[symbol].name if symbol in written.symbol_map.bySymbol else symbol
            for symbol in (instance.getColName(column)[1] for column in range(instance.getNumCol()))
        ]
        instance.setOptionValue("time_limit", max(limits.budget.wall_s(), LEAST_S))
        instance.setOptionValue("mip_rel_gap", 0.0)
        instance.setOptionValue("mip_abs_gap", limits.absolute_gap)
        instance.setOptionValue("objective_bound", limits.cutoff)
        result = SolverResult()
        listener = _Listener(limits, names, result, LOOK_S + LOOK_S_PER_ENTRY * instance.getNumNz())
        instance.cbMipInterrupt.subscribe(listener.interrupt)
        instance.cbMipImprovingSolution.subscribe(listener.improved)
        highs.run(instance, listener.stop)
        status = instance.getModelStatus()
        info = instance.getInfo()
        result.status = {
            statuses.kOptimal: SolverStatus.OPTIMAL,
            # HiGHS calls a model infeasible, too, if all its solutions are above the cutoff.
            statuses.kInfeasible: SolverStatus.INFEASIBLE if limits.cutoff == np.inf else SolverStatus.CUT_OFF,
            statuses.kObjectiveBound: SolverStatus.CUT_OFF,
            statuses.kTimeLimit: SolverStatus.TIME_LIMIT,
            statuses.kInterrupt: SolverStatus.TIME_LIMIT,
        }.get(status, SolverStatus.FAILED)
        if info.mip_node_count >= 0:
            result.bound = info.mip_dual_bound
        elif status == statuses.kOptimal:
            result.bound = info.objective_function_value
        if info.primal_solution_status == highs.load().SolutionStatus.kSolutionStatusFeasible:
            listener.keep(instance.getSolution().col_value)
        return result


class _Listener:
    """HiGHS's callbacks."""

    def __init__(self, limits: Limits, names: list[str], result: SolverResult, look_s: float) -> None:
        self._limits = limits
        self._names = names
        self._result = result
        self._look_s = look_s
        self._looks = 0
        self._is_stopped = False
        self._looks_a_report = max(1, int(REPORT_EVERY_S / look_s))

    def stop(self) -> None:
        self._is_stopped = True

    def interrupt(self, event: Any) -> None:
        if self._is_stopped:
            event.interrupt()
            return
        self._limits.budget.spend(self._look_s)
        self._looks += 1
        if self._looks % self._looks_a_report == 0:
            self._limits.on_progress(event.data_out.mip_dual_bound, event.data_out.mip_primal_bound)
            if self._limits.budget.expired:
                event.interrupt()

    def improved(self, event: Any) -> None:
        self.keep(event.data_out.mip_solution)

    def keep(self, values: Any) -> None:
        self._result.solutions.append(dict(zip(self._names, map(float, values), strict=True)))


_SOLVERS: tuple[Solver, ...] = (
    Highs(highs.NAME, "comes with poet", reports_progress=True, comes_with_poet=True),
    Direct("gurobi", "needs the Python package gurobipy and a licence", pyomo_name="gurobi_direct"),
    Cbc("cbc", "needs COIN-OR CBC's program `cbc` on the path"),
    Direct("scip", "needs the Python package pyscipopt", pyomo_name="scip_direct"),
)


def solvers() -> tuple[Solver, ...]:
    """All supported solvers, installed or not."""
    return _SOLVERS


def solver_named(name: str) -> Solver:
    """The solver of that name.

    Raises
    ------
    UserError
        If there is no solver of that name, or it is not installed.
    """
    for solver in _SOLVERS:
        if solver.name == name:
            if not solver.comes_with_poet and not solver.available:
                raise UserError(f"solver {name} is not installed: it {solver.note}; `poet-plan solvers` lists them")
            return solver
    raise UserError(f"no solver {name!r}; known are {', '.join(solver.name for solver in _SOLVERS)}")
