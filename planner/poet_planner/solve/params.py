# SPDX-License-Identifier: Apache-2.0
"""The tuned numbers of the optimiser, a class for each part.

Seconds are reference seconds (`time_budget`): they stand for as many moves as a usual core makes in that time. A
*move a node* is as many moves as the graph has nodes. The *overhead* is energy above the store-all schedule's, of the
best schedule known. The *bound's gap* is what the bound lacks to the best schedule's energy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, Any, get_args, get_type_hints

from poet_profiles.errors import UserError


@dataclass(frozen=True)
class Within:
    """The values that a parameter may have, and how to say it."""

    text: str
    allows: Callable[[Any], bool]


Share = Annotated[float, Within("from 0 to 1", lambda value: 0 <= value <= 1)]
Amount = Annotated[float, Within("a number that is not negative", lambda value: 0 <= value < inf)]
Positive = Annotated[float, Within("a number above 0", lambda value: 0 < value < inf)]
Factor = Annotated[float, Within("a number above 1", lambda value: 1 < value < inf)]
Number = Annotated[int, Within("a whole number that is not negative", lambda value: value >= 0 and value == int(value))]
Count = Annotated[int, Within("a whole number above 0", lambda value: value > 0 and value == int(value))]
Positives = Annotated[
    tuple[float, ...], Within("numbers above 0", lambda value: len(value) > 0 and all(0 < each < inf for each in value))
]
Counts = Annotated[
    tuple[int, ...], Within("whole numbers above 0", lambda value: len(value) > 0 and all(each > 0 for each in value))
]
Interval = Annotated[
    tuple[float, float], Within("two numbers, the lower first", lambda value: 0 <= value[0] <= value[1] < inf)
]


class Checked:
    """A dataclass whose fields are annotated with what they may be."""

    def __post_init__(self) -> None:
        """Refuse what is not `Within`.

        Raises
        ------
        UserError
            It names the parameter and what it may be.
        """
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            value = getattr(self, name)
            for within in get_args(hint)[1:]:
                if isinstance(within, Within) and not within.allows(value):
                    raise UserError(f"{type(self).__name__}.{name} = {value!r}: give {within.text}")


@dataclass(frozen=True)
class EffortParams(Checked):
    """How the time is shared between search, proof and placement."""

    search_s: Amount = 1.0  # least effort of a plan made again; a search after the proof has twice as much: seconds
    search_s_per_node: Amount = 0.015  # effort of the first search: seconds a node
    most_search_s: Amount = 20.0  # the same at most: seconds
    orders_share: Share = 0.1  # for orders at most: fraction of the work left
    search_share: Share = 0.3  # the first search ends here if it has found a schedule: fraction of the time limit
    finding_share: Share = 0.5  # for finding any schedule where the first search has none: fraction of the work left
    placing_share: Share = 0.25  # kept for offsets: fraction of the time limit
    most_placing_s: Amount = 8.0  # the same at most, where the first schedule had offsets: seconds
    lacking_share: Share = 0.5  # kept for offsets where it had none, and the bound is poor: fraction of the time limit
    poor_bound: Share = 0.75  # a bound is poor that has closed less than this: fraction of the overhead
    replanning_share: Share = 0.25  # effort of each plan made again: fraction of the first search's
    overtime_s: Amount = 1.0  # for offsets if there are none at the time limit, or for the shortest time: seconds
    overtime_share: Share = 0.05  # the same, if it is more: fraction of the time limit


@dataclass(frozen=True)
class RepairStrategy(Checked):
    """What an annealer does about overflow: memory that a state takes above the budget."""

    share: Share  # how often a move in such a state drops a value there and restores it: fraction of its moves
    repairs: Number  # how many values more are dropped at once
    changed_first: bool  # always drop rather a value that is there because of the move; else every second time


@dataclass(frozen=True)
class FirstRun(Checked):
    """How a first run with many moves spends those that Lagrange multipliers leave it."""

    start_share: Share  # passes from the store-all schedule: fraction of the moves
    capped_share: Share  # passes with an energy cap: fraction of the rest
    further: Amount  # more moves for passes with an energy cap, relative to those of the run
    capped_moves: Count  # of each pass with an energy cap: moves a node
    above: Amount  # how far its energy may rise above the best schedule's: event energies


@dataclass(frozen=True)
class AnnealingParams(Checked):
    """Simulated annealing. Temperatures are in *event energies*: overhead of the best schedule for each event of it."""

    hot: Positive = 1.0  # first temperature of a pass that goes on where the last one ended
    warm: Positive = 0.3  # first temperature of a pass from the best schedule, or from one that a part has made
    cold: Positive = 0.02  # last temperature of both
    cycles: Count = 4  # passes of a cycle, each twice as long as the one before
    start_hot: Positives = (30.0, 5.0, 1.0)  # first temperatures of passes from the store-all schedule
    start_cold: Positive = 0.01  # their last temperature
    start_share: Share = 0.39  # these passes, where moves are few: fraction of the first run's
    capped_hot: Positive = 0.2  # first temperature of a pass with an energy cap
    capped_cold: Positive = 0.002  # its last temperature
    capped_share: Share = 0.6  # passes with an energy cap: fraction of a later run's moves
    many_moves: Count = 600  # with as many moves a node the first run makes offspring instead of cycles
    many_starts: Count = 2  # how often it goes through ``start_hot`` then
    loose: FirstRun = FirstRun(0.48, 0.33, 0.0, 200, 0.0)  # its balance where no deadline binds
    binding: FirstRun = FirstRun(0.25, 0.8, 1.0, 500, 1.0)  # its balance where the deadline binds
    offspring: Count = 16  # passes from offspring of two schedules
    parents: Count = 6  # the best schedules that offspring are made of
    event_energy: Positive = 0.01  # the event energy until a schedule is known, relative to E0 / n
    # Annealers take turns: some networks want the one, others the other.
    repair_strategies: tuple[RepairStrategy, ...] = (RepairStrategy(0.7, 0, False), RepairStrategy(0.3, 3, True))
    repairers: Count = 4  # annealers that try to repair a schedule, one after the other
    repair_s: Amount = 0.3  # effort of each of them: seconds


@dataclass(frozen=True)
class OrderParams(Checked):
    """Orders by list scheduling. Each pass has random keys of its own, one a node."""

    passes: Number = 6000  # orders that are made at most
    least_passes: Number = 32  # orders that are made however little time there is
    nodes: Count = 1_500_000  # the same in nodes that are put in order
    random_passes: Count = 400  # of these, the first: all keys are drawn anew
    noise: Interval = (0.0, 1.0)  # standard deviation of the logarithm of those keys
    transient: Interval = (0.0, 1.0)  # weight of the bytes that a node takes while it is computed
    changed: Interval = (0.02, 0.1)  # keys that another pass changes: fraction


@dataclass(frozen=True)
class EvictionParams(Checked):
    """Starts by eviction. A value's score is cost / (time until use) ** patience / bytes ** greed, times exp(noise)."""

    passes_share: Share = 0.06  # passes, each of them a move a node long: fraction of the first run's moves
    least_passes: Count = 4  # passes at least
    most_passes: Count = 128  # passes at most
    enough: Count = 32  # schedules after which no further pass is made
    start_moves: Count = 100  # moves a node of a pass from each, where passes from store-all find no schedule
    patience: Interval = (0.5, 4.0)  # drawn anew for each pass, as the next two
    greed: Interval = (0.0, 0.6)  # no unit
    noise: Interval = (0.0, 0.5)  # standard deviation


@dataclass(frozen=True)
class LagrangianParams(Checked):
    """The Lagrange multiplier of the deadline, in units of E0 / T0: the store-all schedule's energy over its time."""

    trials: Count = 8  # multipliers that are tried
    share: Share = 0.5  # for all of them, and for repairs: fraction of the first run's moves
    repair_trials: Number = 3  # repair of the last late schedule and of the last in time: moves of as many trials each
    repair_factor: Share = 0.7  # the multiplier of a repair, relative to the largest one that was late
    pass_share: Share = 0.12  # passes from both: fraction of the first run's moves
    first: Positive = 1.0  # the first multiplier, where eviction is late
    decrease: Factor = 4.0  # divides it while no schedule is late
    increase: Factor = 2.0  # multiplies it while none is in time


@dataclass(frozen=True)
class StateSpaceParams(Checked):
    """Shortest paths over memory states."""

    few_states: Positive = 1e7  # first search: states of an abstraction times nodes, values and edges of the graph
    many_states: Positive = 2e8  # search again, if the graph is small and the bound close: the same
    most_states: Count = 500_000  # states of an abstraction in either
    few_share: Share = 0.1  # first search: fraction of the work left
    many_share: Share = 0.6  # search again: fraction of the work left
    small: Count = 600  # a graph is small up to as many nodes, values and edges
    close: Share = 0.6  # a bound is close that has closed more than this: fraction of the overhead
    cheap: Share = 0.005  # values of a node up to this energy may be aggregated: fraction of the overhead
    limit_step: Share = 0.34  # the limit on the energy rises by this fraction of the bound's gap
    least_limit_step: Share = 0.02  # and by no less than this fraction of the overhead
    easy: Share = 0.25  # it rises all at once if no abstraction had more states: fraction of those allowed
    growth: Factor = 1.25  # values of an abstraction, relative to the coarser one before
    first_values: Count = 12  # values of the coarsest abstraction at most


@dataclass(frozen=True)
class RetainedSetParams(Checked):
    """Shortest paths over the sets of values that stay in RAM at the bottleneck nodes."""

    little: Share = 1e-3  # a value up to this size takes no RAM: fraction of the budget
    cheap: Share = 1e-4  # values of a node up to this energy are aggregated: fraction of E0, or of the overhead
    most_sets: Count = 1_000  # sets at one bottleneck node
    most_pairs: Count = 500_000  # pairs of sets at neighbouring bottleneck nodes, in all
    segment_states: Counts = (2_000, 20_000)  # states of a segment: at first, then where it matters
    most_states: Count = 100_000  # states of all segments


@dataclass(frozen=True)
class RelaxationParams(Checked):
    """The order-free relaxation: its own search, its LP, its MILP."""

    first_need: Share = 0.6  # nodes on the path that need as much are event points first: fraction of the largest need
    search_s: Amount = 0.5  # effort of its own search: seconds
    search_share: Share = 0.1  # the same at most: fraction of the work left
    refine_s: Amount = 0.3  # effort of the search from an LP solution: seconds
    lp_share: Share = 0.6  # LP with cuts: fraction of the work left
    patience: Count = 6  # LPs in a row that may raise the bound by little
    stall: Share = 0.02  # an increase over all these LPs is little below this fraction of the bound's gap
    most_idle: Count = 4  # LPs in a row in which a cut may be slack before it is dropped
    worth_proving: Share = 0.9  # not solved where a larger fraction of the bound's gap lies beyond its optimum


@dataclass(frozen=True)
class DownsetParams(Checked):
    """The RAM when the last node of a downset is first computed."""

    large: Count = 600  # a graph is large that has more nodes, values and edges
    step: Share = 0.05  # another downset is looked for that proves so much more: fraction of the overhead
    share: Share = 0.3  # fraction of the work left
    search_s_per_node: Amount = 0.003  # effort of a search beside it: seconds a node


@dataclass(frozen=True)
class ProofParams(Checked):
    """Searches beside and between the steps of the proof."""

    # Nodes, values and edges up to which there is none beside: the first search does, and a proof is quick.
    tiny: Number = 60
    background_s: Amount = 6.0  # effort of a search beside a step of the proof: seconds
    background_share: Share = 0.25  # the same at least, beside a relaxation: fraction of the work left
    first_background_s: Amount = 3.0  # the same beside the first, quick steps: seconds
    refine_s: Amount = 0.3  # effort of the search from where a step points: seconds
    between_s: Amount = 1.0  # effort of the search between two relaxations: seconds
    between_share: Share = 0.1  # the same at most: fraction of the work left


@dataclass(frozen=True)
class PlacementParams(Checked):
    """Offsets."""

    first_s: Amount = 3.0  # for the ejection search of the best schedule: seconds
    near: Share = 1e-3  # a schedule with offsets is good enough whose overhead is larger by no more than this fraction
    as_good: Amount = 0.01  # others are tried whose overhead is larger by no more than this fraction
    orders: Number = 64  # orders of the best schedule that are tried
    shifts: Count = 16  # moves between two of them: moves a node
    other_s: Amount = 0.3  # for the ejection search of each of the others, and of each order: seconds
    others_share: Share = 0.6  # for the others: fraction of the work left
    orders_share: Share = 0.2  # for the orders: fraction of the work left
    early_share: Share = 0.05  # the same for each of both, before the proof: fraction of the work left
    most_attempts: Count = 12  # plans with RAM in reserve at most, the first plan included
    attempt_share: Share = 0.05  # for each of them at least, even if the time is up: fraction of the time limit
    late_s: Amount = 0.2  # for the ejection search of a schedule where the time is up: seconds
    many_nodes: Count = 500  # from so many nodes on, any schedule with offsets is looked for before the proof
    securing_share: Share = 0.3  # for that: fraction of the work left
    securing_passes: Count = 2  # passes of eviction in each budget that is tried for it
    reserve: Share = 0.25  # extra head-room around unplaced blocks: fraction of their bytes
    canonical_runs: Count = 128  # of the complete search
    ejection_moves: Count = 20_000  # of a round of the ejection search
    ejection_rounds: Count = 75  # rounds of a search
    growths: Positives = (0.1, 0.3, 0.03)  # growth of a block's weight when it ejects, by rounds: fraction of it
    disturbance: Amount = 0.2  # of the order of sizes that rounds begin with: standard deviation of log(size)
    halvings: Number = 5  # of the interval of capacities, where the budget does not do
    halving_rounds: Count = 3  # of the ejection search at each capacity


@dataclass(frozen=True)
class FeasibilityParams(Checked):
    """Whether a schedule exists, and in how little RAM."""

    search_s: Amount = 0.5  # effort of a search for a schedule in time: seconds
    question_share: Share = 0.5  # for one RAM: fraction of the work left
    least_ram_share: Share = 0.25  # for the least RAM, where nothing is found: fraction of the time limit, beside it
    least_ram_s: Amount = 4.0  # the same at least: seconds
    longest: Positive = 1000.0  # without a deadline, the latest schedule that is looked for: in T0


@dataclass(frozen=True)
class Params:
    """All tuned numbers."""

    effort: EffortParams = field(default_factory=EffortParams)
    annealing: AnnealingParams = field(default_factory=AnnealingParams)
    orders: OrderParams = field(default_factory=OrderParams)
    eviction: EvictionParams = field(default_factory=EvictionParams)
    lagrangian: LagrangianParams = field(default_factory=LagrangianParams)
    state_space: StateSpaceParams = field(default_factory=StateSpaceParams)
    retained_sets: RetainedSetParams = field(default_factory=RetainedSetParams)
    relaxation: RelaxationParams = field(default_factory=RelaxationParams)
    downsets: DownsetParams = field(default_factory=DownsetParams)
    proof: ProofParams = field(default_factory=ProofParams)
    placement: PlacementParams = field(default_factory=PlacementParams)
    feasibility: FeasibilityParams = field(default_factory=FeasibilityParams)


DEFAULTS = Params()
