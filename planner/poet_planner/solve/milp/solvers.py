# SPDX-License-Identifier: Apache-2.0
"""MILP solvers by name. Each solves a Pyomo model, and a linear one as what it takes soonest: HiGHS takes arrays."""

from __future__ import annotations

import importlib
import re
import tempfile
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from poet_profiles.errors import UserError

from poet_planner.solve.instance import Floats
from poet_planner.solve.milp import highs
from poet_planner.solve.milp.failure import SolverError, told_as
from poet_planner.solve.milp.linear_model import LinearModel
from poet_planner.solve.milp.pyomo_model import point_of, pyomo_of
from poet_planner.solve.time_budget import OnProgress, TimeBudget, ignore_progress

if TYPE_CHECKING:
    import pyomo.environ as pyo

NOT_INSTALLED = "not installed"
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
    """What a solver found."""

    # Values by the names of the variables; the best solution last.
    solutions: list[dict[str, float]] = field(default_factory=list)
    # Lower bound on the optimum, or at least on the cutoff if that is lower; minus infinity if there is none.
    bound: float = -np.inf
    status: SolverStatus = SolverStatus.FAILED  # why the solver ended


@dataclass(frozen=True)
class MilpResult:
    """The result for a `LinearModel`; as `SolverResult`, but that solutions are in the model's columns."""

    solutions: tuple[Floats, ...] = ()
    bound: float = -np.inf
    status: SolverStatus = SolverStatus.FAILED


NOTHING = MilpResult()


def _refuse_nothing(result: SolverResult | MilpResult) -> None:
    if result.status is SolverStatus.FAILED and not result.solutions and result.bound == -np.inf:
        raise RuntimeError("it ended with neither a solution nor a bound")


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
    """A MILP solver on one thread; the search uses the others."""

    name: str  # what the user calls it
    note: str  # what must be installed to use it
    # Whether it reports its bound while it works, counts that work, and can be interrupted. Others go by the wall's
    # clock: what they come to in a time limit depends on what else the computer does.
    reports_progress: bool = False
    # Whether it need not be installed. If it cannot be loaded all the same, that costs the bound and not the plan.
    comes_with_poet: bool = False

    @property
    @abstractmethod
    def available(self) -> bool:
        """Whether it is installed and licensed."""

    @property
    def state(self) -> str:
        """The same in words."""
        return "installed" if self.available else NOT_INSTALLED

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
                _refuse_nothing(result)
        finally:
            if not self.reports_progress:
                budget.spend(time.monotonic() - began_s)
        if result.status is SolverStatus.OPTIMAL and result.bound >= cutoff:
            result.status = SolverStatus.CUT_OFF
        return result

    def solve_linear(
        self,
        model: LinearModel,
        budget: TimeBudget,
        absolute_gap: float,
        cutoff: float = np.inf,
        on_progress: OnProgress = ignore_progress,
    ) -> MilpResult:
        """As `solve`, for a linear model, which is stated in Pyomo. Stating it is no part of the time."""
        with budget.paused(), told_as(self.name):
            stated = pyomo_of(model)
        result = self.solve(stated, budget, absolute_gap, cutoff, on_progress)
        points = tuple(point_of(model, values) for values in result.solutions)
        return MilpResult(points, result.bound, result.status)

    def solve_arrays(self, model: LinearModel, budget: TimeBudget, absolute_gap: float) -> MilpResult:
        """As `solve_linear`, for a model that is large: a solver that takes arrays is given them without Pyomo."""
        return self.solve_linear(model, budget, absolute_gap)

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
class Gurobi(Direct):
    """Gurobi may be there with a licence that has ended, as the one that comes with an older release."""

    @property
    def state(self) -> str:
        if self.available or find_spec("gurobipy") is None:
            return super().state
        gurobipy = importlib.import_module("gurobipy")
        try:
            with gurobipy.Env(params={"OutputFlag": 0}):
                return "installed"
        except gurobipy.GurobiError as error:
            said = (str(error).splitlines() or [""])[0]
            ended = re.search(r"expired (\S+)", said)
            return f"installed, licence ended on {ended[1]}" if ended else f"installed, without a licence: {said}"


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

    def solve_arrays(self, model: LinearModel, budget: TimeBudget, absolute_gap: float) -> MilpResult:
        with told_as(self.name):
            with budget.paused():
                instance = highs.given(model)
            limits = Limits(budget, absolute_gap, np.inf, ignore_progress)
            result = _run(instance, limits, is_whole=bool(model.integer.any()))
            _refuse_nothing(result)
        return result

    def _solve(self, model: pyo.ConcreteModel, limits: Limits) -> SolverResult:
        with limits.budget.paused():
            instance, names = _read(model)
        found = _run(instance, limits)
        solutions = [dict(zip(names, point.tolist(), strict=True)) for point in found.solutions]
        return SolverResult(solutions, found.bound, found.status)


def _read(model: pyo.ConcreteModel) -> tuple[Any, list[str]]:
    """HiGHS, which has read the model by a file in LP format, and the variable of each of its columns."""
    from pyomo.repn.plugins.lp_writer import LPWriter

    instance = highs.silent_highs()
    with tempfile.TemporaryDirectory(prefix="poet-") as folder:
        path = Path(folder) / "model.lp"
        with path.open("w") as stream:
            written = LPWriter().write(model, stream)
        highs.check(instance, instance.readModel(str(path)), "model")
    symbols = (instance.getColName(column)[1] for column in range(instance.getNumCol()))
    known = written.symbol_map.bySymbol
    return instance, [known[symbol].name if symbol in known else symbol for symbol in symbols]


def _run(instance: Any, limits: Limits, is_whole: bool = True) -> MilpResult:
    """What HiGHS finds for the model that it has.

    If no column ``is_whole``, HiGHS solves an LP, and is asked to end between its iterations.
    """
    statuses = highs.load().HighsModelStatus
    instance.setOptionValue("time_limit", max(limits.budget.wall_s(), LEAST_S))
    instance.setOptionValue("mip_rel_gap", 0.0)
    instance.setOptionValue("mip_abs_gap", limits.absolute_gap)
    instance.setOptionValue("objective_bound", limits.cutoff)
    entries = instance.getNumNz()
    if is_whole:
        listener = _Listener(limits, LOOK_S + LOOK_S_PER_ENTRY * entries)
        instance.cbMipInterrupt.subscribe(listener.interrupt)
        instance.cbMipImprovingSolution.subscribe(listener.improved)
    else:
        listener = _Listener(limits, highs.ITERATION_S + highs.ITERATION_S_PER_ENTRY * entries)
        instance.cbSimplexInterrupt.subscribe(listener.interrupt)
    highs.run(instance, listener.stop)
    ended, info = instance.getModelStatus(), instance.getInfo()
    status = {
        statuses.kOptimal: SolverStatus.OPTIMAL,
        # HiGHS calls a model infeasible, too, if all its solutions are above the cutoff.
        statuses.kInfeasible: SolverStatus.INFEASIBLE if limits.cutoff == np.inf else SolverStatus.CUT_OFF,
        statuses.kObjectiveBound: SolverStatus.CUT_OFF,
        statuses.kTimeLimit: SolverStatus.TIME_LIMIT,
        statuses.kInterrupt: SolverStatus.TIME_LIMIT,
    }.get(ended, SolverStatus.FAILED)
    bound = -np.inf
    if info.mip_node_count >= 0:
        bound = info.mip_dual_bound
    elif ended == statuses.kOptimal:
        bound = info.objective_function_value
    if info.primal_solution_status == highs.load().SolutionStatus.kSolutionStatusFeasible:
        listener.keep(instance.getSolution().col_value)
    return MilpResult(tuple(listener.solutions), bound, status)


class _Listener:
    """HiGHS's callbacks."""

    def __init__(self, limits: Limits, look_s: float) -> None:
        self.solutions: list[Floats] = []
        self._limits = limits
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
        self.solutions.append(np.array(values, dtype=np.float64))


_SOLVERS: tuple[Solver, ...] = (
    Highs(highs.NAME, "comes with poet", reports_progress=True, comes_with_poet=True),
    Gurobi("gurobi", "needs the Python package gurobipy and a licence", pyomo_name="gurobi_direct"),
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
        If there is no solver of that name, or it is not installed or has no licence.
    """
    for solver in _SOLVERS:
        if solver.name == name:
            if not solver.comes_with_poet and not solver.available:
                state = solver.state.removeprefix("installed, ")
                raise UserError(f"solver {name}, {state}: it {solver.note}; `poet-plan solvers` lists them")
            return solver
    raise UserError(f"no solver {name!r}; known are {', '.join(solver.name for solver in _SOLVERS)}")
