# SPDX-License-Identifier: Apache-2.0
"""Training steps that may be advised, and what each costs at least."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from poet_profiles.errors import UserError
from poet_profiles.graph.sizes import constant_bytes

from poet_planner.advice.trained_sets import TrainedSet, on_int8, sets_of
from poet_planner.graph.optimizer import Method, Optimizer
from poet_planner.models.trained import train_only
from poet_planner.planning.bench import Bench
from poet_planner.planning.beside import plan_extraction, plan_inference, with_inference
from poet_planner.planning.contest import Contest
from poet_planner.planning.families import fit_error_j
from poet_planner.planning.method import OPTIMAL
from poet_planner.planning.pipeline import chosen_contest
from poet_planner.planning.request import Request, calibration
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.c_headers import table_bytes
from poet_planner.schedule.flash import room_for_features
from poet_planner.solve import OptimiseOptions

if TYPE_CHECKING:
    from poet_profiles.schedule import Schedule
    from torch import nn

    from poet_planner.models import Model
    from poet_planner.planning.form import Form

QUICK_S = 0.3  # of work, to hear why nothing fits
BATCHES = (2, 8, 24)
STATEFUL = (Optimizer(momentum=0.9), Optimizer(Method.ADAM))
PLAIN_SGD = Optimizer()  # where RAM has no room for state


@dataclass(frozen=True)
class Cost:
    """Of a step, and of a sample's features, which are made once.

    Attributes
    ----------
    is_bound : bool
        A plan may take more, and needs other RAM.
    room : int or None
        For how many samples' features the board has room; None: the step is not on features.
    idle_w : float or None
        What the sleeping board draws all the time besides; None: that is not known.
    error : float
        By which share the fits of the step's energy may be off, as they report it.
    """

    energy_j: float
    time_s: float
    feature_j: float
    feature_s: float
    ram_bytes: int
    flash_bytes: int
    parts: int
    form: str
    is_bound: bool
    room: int | None = None
    idle_w: float | None = None
    error: float = 0.0

    def epochs_j(self, epochs: int, samples: int, batch: int) -> float:
        """Energy of some epochs in joules; of none it is none."""
        return self._of_epochs(self.energy_j, self.feature_j, epochs, samples, batch)

    def epochs_s(self, epochs: int, samples: int, batch: int) -> float:
        """Likewise the time in seconds."""
        return self._of_epochs(self.time_s, self.feature_s, epochs, samples, batch)

    def _of_epochs(self, step: float, feature: float, epochs: int, samples: int, batch: int) -> float:
        steps = epochs * (samples // batch)
        made = samples if self.room is None or samples <= self.room else steps * batch
        return steps * step + (made * feature if epochs else 0.0)


@dataclass
class Step:
    """A set that learns, a batch, an optimizer.

    ``cost`` is None where ``why_none`` says why.
    """

    trained: TrainedSet
    batch: int
    optimizer: Optimizer
    cost: Cost | None = None
    why_none: str = ""
    bench: Bench | None = None

    def settle(self) -> None:
        """Plan it, where the cost is a bound: with the work that `poet_planner.plan` takes."""
        if self.cost is None or not self.cost.is_bound:
            return
        assert self.bench is not None
        try:
            outcome = chosen_contest(self.bench).plan(OPTIMAL, OptimiseOptions(capped=False))
            self.cost = _cost(outcome.form, outcome.schedule, is_bound=False)
        except UserError as refusal:
            self.cost, self.why_none = None, str(refusal)


class Steps:
    """The steps of a model on a board, each costed when it is asked for.

    Parameters
    ----------
    model : str or Model
    request : Request
        Profile, board, limits, memory and weights; network, batch and optimizer are each step's own.
    clip_value : float, optional
        Of every optimizer.
    more : tuple of str
        Patterns of sets beside the usual ones: see `sets_of`.
    """

    def __init__(
        self, model: str | Model, request: Request, clip_value: float | None = None, more: tuple[str, ...] = ()
    ) -> None:
        self._model, self._request, self._clip = model, request, clip_value
        self._weights = None if request.weights is None else Path(request.weights)
        self._models: dict[int, Model] = {}
        self._traced: dict[tuple[TrainedSet, int], TrainingStep] = {}
        self._bench: Bench | None = None
        self._costed: dict[tuple[TrainedSet, int, Optimizer], Step] = {}
        self.name = model if isinstance(model, str) else model.name
        module = self.model(BATCHES[0]).module
        self.sets = sets_of(module, more, self.name)
        self.sets += on_int8(self.sets, module) if request.frozen else []

    @property
    def calibrate(self) -> Path | None:
        """The samples from which ranges of int8 are."""
        return None if self._request.calibrate is None else Path(self._request.calibrate)

    @property
    def board(self) -> str:
        """Its name."""
        board = None if self._bench is None else self._bench.board
        return "" if board is None else board.name

    def model(self, batch: int) -> Model:
        """The model with a batch of so many samples; an example of fewer is repeated."""
        from poet_planner import models
        from poet_planner.tracing.micro_batches import first_samples

        if batch not in self._models:
            given, weights = self._model, self._weights
            self._models[batch] = (
                models.load(given, batch, weights=weights) if isinstance(given, str) else first_samples(given, batch)
            )
        return self._models[batch]

    def all(self, batches: Sequence[int] = BATCHES) -> Iterator[Step]:
        """Each set in each batch, with momentum and Adam; plain gradient descent where neither fits."""
        for trained, batch in product(self.sets, batches):
            made = [self.step(trained, batch, one) for one in STATEFUL]
            yield from made
            if all(one.cost is None for one in made):
                yield self.step(trained, batch, PLAIN_SGD)

    def step(self, trained: TrainedSet, batch: int, optimizer: Optimizer) -> Step:
        """A step with its cost, or why it has none."""
        optimizer = replace(optimizer, clip_value=self._clip)
        key = trained, batch, optimizer
        if key not in self._costed:
            self._costed[key] = step = Step(*key)
            try:
                step.bench = self._bench_of(step)
                step.cost = _cost_at_least(chosen_contest(step.bench, searches=False))
            except UserError as refusal:
                step.why_none = str(refusal)
        return self._costed[key]

    def _bench_of(self, step: Step) -> Bench:
        """With what is shared by all: costs, board, and between optimizers the trace."""
        traced = self.traced(step.trained, step.batch)
        own = {"network": traced.model, "weights": None, "optimizer": step.optimizer}
        own |= {} if step.trained.int8 else {"frozen": None, "calibrate": None}
        bench = Bench(replace(self._request, **own))  # type: ignore[arg-type]
        bench.training_step = traced
        if self._bench is None:
            self._bench = bench
        else:
            bench.board, bench.costs = self._bench.board, self._bench.costs
        return bench

    def traced(self, trained: TrainedSet, batch: int) -> TrainingStep:
        """The step of a set in a batch, traced once for all optimizers."""
        key = trained, batch
        if key not in self._traced:
            model = self.model(batch)
            module = deepcopy(model.module)
            train_only(module, trained.learns)
            ranges = calibration(self._request.frozen, self._request.calibrate) if trained.int8 else None
            self._traced[key] = step = TrainingStep(replace(model, module=module), calibration=ranges)
            everything = max(self.sets, key=lambda one: len(one.learns))
            if trained != everything and not trained.int8:
                other = self.traced(everything, batch)
                if _modes(other.model.module) == _modes(module):
                    step.alike = other
        return self._traced[key]


def _modes(module: nn.Module) -> list[bool]:
    return [one.training for one in module.modules()]


def _cost_at_least(contest: Contest) -> Cost:
    """The plan's where it stores all, else what no plan takes less than; raises as planning where nothing fits."""
    chosen = contest.chosen
    if chosen.fits and (chosen.is_short_of_ram or chosen.rivals):
        least = min((chosen, *chosen.rivals), key=lambda form: form.once_j)
        return _cost(least, least.store_all, is_bound=True)
    outcome = contest.plan(OPTIMAL, OptimiseOptions(time_limit_s=QUICK_S, least_ram_s=0.0, what_would_do=False))
    return _cost(outcome.form, outcome.schedule, is_bound=False)


def _cost(form: Form, schedule: Schedule, is_bound: bool) -> Cost:
    graph, board, extraction = form.graph, form.step.board, None
    if form.step.is_on_features:
        extraction = plan_extraction(form.step, form.budget_bytes)
    made, each = (extraction.schedule, extraction.at_once) if extraction else (None, 1)
    room = None
    if extraction is not None and board is not None:
        inference = plan_inference(form.step, schedule, extraction) if board.sketch else ""  # whose tables are in RAM
        made_too = None if isinstance(inference, str) else inference
        both = with_inference(form.step, extraction, made_too, schedule) if made_too else extraction
        room = room_for_features(graph, schedule, board, made_too, both)
    return Cost(
        energy_j=schedule.energy_j,
        time_s=schedule.time_s,
        feature_j=made.energy_j / each if made else 0.0,
        feature_s=made.time_s / each if made else 0.0,
        ram_bytes=min(schedule.peak_bytes, form.budget_bytes),
        flash_bytes=constant_bytes(graph) + table_bytes(graph, schedule, None, extraction),
        parts=graph.micro_batches,
        form=form.layout.details,
        is_bound=is_bound,
        room=room,
        idle_w=form.step.costed.idle_power_w if form.step.costed else None,
        error=fit_error_j(form) / schedule.energy_j,
    )
