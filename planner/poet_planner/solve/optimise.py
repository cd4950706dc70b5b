# SPDX-License-Identifier: Apache-2.0
"""The run: from a graph, a RAM budget and a deadline to a schedule with offsets and a lower bound.

It divides the work between search, proof, placement and feasibility. See docs/optimiser/overview.md.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.file import graph_hash
from poet_profiles.schedule import Objective, Schedule, Status

from poet_planner.solve.engine import library
from poet_planner.solve.feasibility.deadline import begin_with_retained_sets, clearly_late, deadline_feasibility
from poet_planner.solve.feasibility.least_ram import what_would_do
from poet_planner.solve.feasibility.minimum_ram import page_all, passes_necessary_conditions, store_all
from poet_planner.solve.feasibility.refusal import certain_refusal, known_of, no_schedule
from poet_planner.solve.instance import WORD, Problem, build_problem
from poet_planner.solve.milp.solvers import solver_named
from poet_planner.solve.objective import at_one_watt, by_time
from poet_planner.solve.options import DEFAULT_S, NoScheduleError, OptimiseOptions, Progress
from poet_planner.solve.placement.allocated import allocated
from poet_planner.solve.placement.assign import PlacedSchedule, Placer, UnplacedError
from poet_planner.solve.proof import Proof
from poet_planner.solve.search.annealer import moves_per_second
from poet_planner.solve.search.incumbent import Incumbent, keeps_limits
from poet_planner.solve.search.portfolio import SEEDS, Portfolio
from poet_planner.solve.starts import cheapest_start, events_of, with_bound
from poet_planner.solve.statistics import Component, Context, Statistics
from poet_planner.solve.time_budget import TimeBudget, Work

# A schedule is optimal within this gap, whatever gap a caller is content with: fraction of the energy.
PROVEN_GAP = 1e-6

# How the time is shared between search, proof and placement. Seconds are reference seconds (`time_budget`). The
# *overhead* is energy above the store-all schedule's, of the best schedule known.
# A longer limit than the standard one first does all that this does, offsets included, so it finds no less. Then it
# searches afresh.
STANDARD_S = DEFAULT_S
LATER_STAGES = 3  # after the standard limit at most
SHORT_S = 5.0  # a limit from here to the standard one begins with the same search
WORTH_MORE = 0.01  # a fresh search goes on while that saves more than this: fraction of the energy
SEARCH_S = 1.0  # least effort of a plan made again; a search after the proof has twice as much
SEARCH_S_PER_NODE = 0.015  # effort of the first search: seconds a node
MOST_SEARCH_S = 20.0  # the same at most
FRUGAL = 0.7  # an order of so little overflow is one to start from: fraction of the own order's
MANY_NODES = 500  # of a graph that has such an order: schedules of less RAM are tried first for offsets
SEARCH_SHARE = 0.3  # a first or fresh search ends here if it has found a schedule: fraction of the time limit
FINDING_SHARE = 0.5  # for finding any schedule where the first search has none: fraction of the work left
PLACING_SHARE = 0.25  # kept for offsets: fraction of the time limit
MOST_PLACING_S = 8.0  # the same at most, where the first schedule had offsets
LACKING_SHARE = 0.5  # kept for offsets where it had none, and the bound is poor: fraction of the time limit
POOR_BOUND = 0.75  # a bound is poor that has closed less than this: fraction of the overhead
REPLANNING_SHARE = 0.25  # effort of each plan made again: fraction of the first search's
OVERTIME_S = 1.0  # for offsets if there are none at the time limit, or for the shortest time
OVERTIME_SHARE = 0.05  # the same, if it is more: fraction of the time limit


def optimise(
    graph: Graph, ram_bytes: int, deadline_s: float | None = None, options: OptimiseOptions | None = None
) -> Schedule:
    """The schedule of least energy, or time, within RAM and deadline, with static offsets and a lower bound.

    The schedule is not verified here; `poet_planner.verify` does that. It has no offsets if the graph needs none.

    A `KeyboardInterrupt` ends the work early. The best schedule so far is the answer, once it has offsets. If it has
    none, planning goes on with RAM in reserve. Another `KeyboardInterrupt` ends that, too, and the best schedule with
    offsets is the answer.

    Parameters
    ----------
    graph : Graph
        With costs.
    ram_bytes : int
        All of the RAM, resident tensors included.
    deadline_s : float or None
        Most seconds of a training step; None: no deadline.
    options : OptimiseOptions, optional
        Time limit, seed, solver, switches, statistics, progress.

    Raises
    ------
    NoScheduleError
        If there is none, or none was found within the limit. It says what is proven impossible, and what was found to
        be possible.
    UserError
        If the graph is not sound, an option has no such value, the solver is not installed, or there is no engine.
    KeyboardInterrupt
        If it comes before there is any schedule, or any with offsets.
    """
    options = options or OptimiseOptions()
    if options.seed < 0:
        raise UserError(f"seed {options.seed}: give a whole number that is not negative")
    library()  # built, where it is not, or refused before any time counts
    if options.objective is Objective.TIME:
        return by_time(graph, _optimised(at_one_watt(graph), ram_bytes, deadline_s, options))
    return _optimised(graph, ram_bytes, deadline_s, options)


def _optimised(graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> Schedule:
    """The schedule of least energy; none of the starts is cheaper."""
    start = cheapest_start(graph, ram_bytes, deadline_s, options.starts, options.paging)
    try:
        found = _Run(graph, ram_bytes, deadline_s, options, start).schedule()
    except NoScheduleError:
        if start is None:
            raise
        return start
    return found if start is None or found.energy_j <= start.energy_j else with_bound(start, found.bound_j, PROVEN_GAP)


class _Run:
    """One call of `optimise`."""

    def __init__(
        self,
        graph: Graph,
        ram_bytes: int,
        deadline_s: float | None,
        options: OptimiseOptions,
        start: Schedule | None,
    ) -> None:
        self._graph = graph
        self._start = start
        self._context = Context(options.parts, options.statistics or Statistics())
        self._ram_bytes = ram_bytes
        self._deadline_s = deadline_s
        self._options = options
        self._started_s = time.monotonic()
        self._done = Work()
        limit_s, overtime_s = options.time_limit_s, _overtime_s(options.time_limit_s)
        self._all_overtime = TimeBudget(limit_s + overtime_s, self._done)
        self._all = self._all_overtime.share(1.0, limit_s)
        if options.capped:
            self._all_overtime = self._all_overtime.capped(limit_s + overtime_s, options.clock)
            self._all = self._all_overtime.share(1.0, limit_s).capped(limit_s, options.clock)
        self._problem = build_problem(graph, ram_bytes, deadline_s, options.paging)
        self._search = Portfolio(self._problem, options.seed, context=self._context)
        again_s = max(SEARCH_S, REPLANNING_SHARE * first_search_s(self._problem))
        self._placer = Placer(
            graph,
            self._problem,
            options.seed,
            again_s,
            self._tell,
            self._context,
        )
        self._begin_stage(min(limit_s, STANDARD_S))
        self._is_hard_to_place = False
        self._placed: PlacedSchedule | None = None
        # A RAM that is proven infeasible.
        self._infeasible_bytes = 0
        self._solver = solver_named(options.solver)
        self._proof = Proof(self._problem, self._search, self._solver, options.gap, options.seed, context=self._context)

    def schedule(self) -> Schedule:
        try:
            if passes_necessary_conditions(self._problem):
                self._work_in_stages()
            if self._placed is not None:
                return self._answer(self._placed)
            if not self._proof.found:
                return self._in_least_ram(lacks_offsets=False)
            return self._paged() or self._in_least_ram(lacks_offsets=True)
        finally:
            self._context.statistics.seconds = self._seconds()

    def _work_in_stages(self) -> None:
        """Do what the standard limit does, offsets included, then the rest; and again with what offsets left over."""
        limit_s = self._options.time_limit_s
        for end_s in [min(limit_s, STANDARD_S), *[limit_s] * LATER_STAGES * (limit_s > STANDARD_S)]:
            self._begin_stage(end_s)
            lacks_offsets = self._search.incumbent is not None and self._placed is None
            if end_s <= STANDARD_S or not (lacks_offsets and self._placer.is_large):
                self._work(is_first=end_s <= STANDARD_S)
            found = self._proof.found
            if found:
                with suppress(UnplacedError):
                    self._placed = self._with_offsets(found)
            if self._infeasible_bytes or self._limit.is_cut or self._all.expired:
                return
            if self._proof.complete and self._is_placed(found[0]):
                return

    def _begin_stage(self, end_s: float) -> None:
        """Let the next work end where a limit of ``end_s`` does."""
        self._stage_s = end_s - self._done.done_s
        self._overtime = self._all_overtime.share(1.0, self._stage_s + _overtime_s(self._stage_s))
        self._limit = self._all.share(1.0, self._stage_s)
        # The work until placement.
        self._budget = self._limit.keeping(self._placing_s).noting(self._tell)
        self._placer.begin(self._stage_s, self._limit, self._overtime)

    def _is_placed(self, best: Incumbent) -> bool:
        """Whether the best schedule has offsets, or one that costs hardly more."""
        return self._graph.allocates or self._placer.found_near(best)

    def _work(self, is_first: bool) -> None:
        try:
            self._improve(is_first)
        except KeyboardInterrupt:
            if self._search.incumbent is None:
                raise
            self._limit.end()

    def _paged(self) -> Schedule | None:
        """The schedule that pages every value, if it fits: its blocks are those of one node at a time."""
        paged = page_all(self._graph, self._problem)
        if paged is None or not keeps_limits(self._problem, paged):
            return None
        with suppress(UnplacedError):
            return self._answer(self._with_offsets([paged]))
        return None

    def _in_least_ram(self, lacks_offsets: bool) -> Schedule:
        """The schedule of the least RAM, or the fastest, if the search for these finds one within the limits.

        Raises
        ------
        NoScheduleError
            If neither is.
        """
        known, found = known_of(self._graph, self._problem), None
        if self._options.what_would_do or not self._infeasible_bytes:
            certain = certain_refusal(known)
            self._tell(f"{certain}; looking for what would do" if certain else "looking for what would do")
            options, solver = self._options, self._solver
            with self._context.timed(Component.FEASIBILITY):
                context = self._context.within(Component.FEASIBILITY)
                known, found = what_would_do(
                    self._graph, self._problem, options.seed, solver, options.for_least_ram_s, context
                )
        if found is not None:
            return self._answer(found)
        proven = self._graph.resident_bytes + self._infeasible_bytes // WORD * WORD + WORD
        if self._infeasible_bytes and proven > known.impossible_below_bytes:
            known = replace(known, impossible_below_bytes=proven)
        raise no_schedule(known, lacks_offsets)

    def _improve(self, is_first: bool) -> None:
        """Search, then prove, then search on until the gap is reached or the time is up."""
        if not (self._searched_first() if is_first else self._searched_afresh()):
            return
        self._adopt_start()
        if self._search.incumbent is None and not self._find_any():
            return
        is_huge = first_search_s(self._problem) >= MOST_SEARCH_S
        if is_huge:
            self._try_to_place()
        self._proof.bound_large_graph(self._budget)
        if not is_huge:
            self._try_to_place()
        if self._search.incumbent is not None and not self._proof.complete:
            self._proof.run(self._budget)
        while not self._proof.complete and not self._budget.expired:
            self._search.run(self._moves(2 * SEARCH_S), self._budget)

    def _searched_first(self) -> bool:
        """Begin with what is quick, then search; whether there is anything left to do."""
        most_s = SEARCH_SHARE * (STANDARD_S if self._stage_s >= SHORT_S else self._stage_s)
        share = self._limit.share(1.0, most_s)
        has_any = self._start is not None
        early = self._budget.until(lambda: (has_any or self._search.incumbent is not None) and share.expired)
        has_other = self._search.begin_with_orders(self._limit, 1.0 if self._graph.allocates else FRUGAL)
        self._placer.is_large = has_other and len(self._problem.node_time) >= MANY_NODES
        if self._proof.complete:
            return False
        begin_with_retained_sets(self._problem, self._search, early, context=self._context)
        if self._search.incumbent is None and clearly_late(self._problem, early, self._context):
            self._infeasible_bytes = self._problem.budget
            return False
        self._search_for(most_s)
        return True

    def _searched_afresh(self) -> bool:
        """Search afresh after the standard limit; whether there is anything left to do."""
        if self._proof.complete:
            return False
        self._search.begin_anew()
        self._search_for(SEARCH_SHARE * self._stage_s)
        while self._search.incumbent is not None and not self._budget.expired:
            before_j = self._search.incumbent.energy
            self._search.run(self._moves(2 * SEARCH_S), self._budget)
            if self._search.incumbent.energy > (1 - WORTH_MORE) * before_j:
                break
        return True

    def _search_for(self, most_s: float) -> None:
        """Search for the moves that the graph deserves, but for so many seconds at most if there is any schedule."""
        moves = self._moves(min(most_s / SEEDS, first_search_s(self._problem)))
        self._search.run(moves, self._budget, self._limit.share(1.0, most_s))

    def _adopt_start(self) -> None:
        """Go on from the schedule that the optimiser was given, if the first search has found none as good."""
        best = self._search.incumbent
        if self._start is not None and (best is None or self._start.energy_j < best.energy):
            self._search.adopt_all(events_of(self._graph, self._start))

    def _find_any(self) -> bool:
        """Look for any schedule, if the search has found none; whether there is one now."""
        paged = page_all(self._graph, self._problem)
        if paged is not None and keeps_limits(self._problem, paged):
            self._search.adopt_all(paged.events, paged.source)
            return True
        start, budget = store_all(self._problem), self._limit.share(FINDING_SHARE).noting(self._tell)
        with self._context.timed(Component.FEASIBILITY):
            context = self._context.within(Component.FEASIBILITY)
            result = deadline_feasibility(self._problem, start, self._options.seed, self._solver, budget, context)
        if result.infeasible:
            self._infeasible_bytes = self._problem.budget
        if result.schedule is not None:
            self._search.adopt_all(result.schedule.events, Component.FEASIBILITY)
        return self._search.incumbent is not None

    def _try_to_place(self) -> None:
        """Look for offsets before the proof. If there are none, more time is kept for planning again."""
        found = [] if self._graph.allocates or self._placed else self._search.found
        if found and not self._proof.complete and not self._budget.expired:
            self._is_hard_to_place = self._placer.fails_near(found)

    def _moves(self, seconds: float) -> int:
        return int(seconds * moves_per_second(self._problem))

    def _seconds(self) -> float:
        return time.monotonic() - self._started_s

    def _placing_s(self) -> float:
        """Seconds kept for placement."""
        if self._graph.allocates:
            return 0.0
        limit_s = self._stage_s
        if not self._is_hard_to_place:
            return min(PLACING_SHARE * limit_s, MOST_PLACING_S)
        poor = self._proof.closed_share < POOR_BOUND
        return (LACKING_SHARE if poor else PLACING_SHARE) * limit_s

    def _tell(self, note: str = "") -> None:
        incumbent = self._search.incumbent
        energy_j = None if incumbent is None else incumbent.energy
        if incumbent is not None:
            self._context.statistics.found(self._seconds(), incumbent.energy, incumbent.source)
        if self._options.progress:
            note = note or next(reversed(self._context.statistics.failures), "")
            self._options.progress(Progress(self._seconds(), energy_j, self._proof.bound_j, note))

    def _with_offsets(self, found: list[Incumbent]) -> PlacedSchedule:
        """The best schedule for which offsets are found, or the best of all if the graph needs none."""
        self._context.statistics.found(self._seconds(), found[0].energy, found[0].source)
        placed = allocated(self._graph, self._problem, found[0]) if self._graph.allocates else self._placer.place(found)
        self._context.statistics.unplaced = self._placer.unplaced(found[0], placed.incumbent)
        return placed

    def _answer(self, placed: PlacedSchedule) -> Schedule:
        self._context.statistics.source = placed.incumbent.source
        return schedule_of(
            self._graph, self._ram_bytes, self._deadline_s, placed, self._proof.bound_j, self._options.gap
        )


def _overtime_s(limit_s: float) -> float:
    return max(OVERTIME_S, OVERTIME_SHARE * limit_s)


def schedule_of(
    graph: Graph, ram_bytes: int, deadline_s: float | None, placed: PlacedSchedule, bound_j: float, gap: float
) -> Schedule:
    """The answer: optimal if its energy is within ``gap`` (relative) of the lower bound ``bound_j``."""
    incumbent, decoded, placement = placed.incumbent, placed.decoded, placed.placement
    bound_j = min(bound_j, incumbent.energy)
    open_gap = (incumbent.energy - bound_j) / incumbent.energy if incumbent.energy > 0 else 0.0
    return Schedule(
        graph=graph.name,
        graph_hash=graph_hash(graph),
        ram_budget_bytes=ram_bytes,
        deadline_s=deadline_s,
        steps=placement.steps,
        energy_j=incumbent.energy,
        time_s=decoded.time_s,
        peak_bytes=decoded.peak + graph.resident_bytes,
        arena_bytes=placement.arena_bytes,
        status=Status.OPTIMAL if open_gap <= min(gap, PROVEN_GAP) else Status.FEASIBLE,
        bound_j=bound_j,
        gap=open_gap,
    )


def first_search_s(problem: Problem) -> float:
    """Effort of the search before the proof, in seconds, if the time limit allows it."""
    return min(MOST_SEARCH_S, SEARCH_S_PER_NODE * len(problem.node_time))
