# SPDX-License-Identifier: Apache-2.0
"""The contest of a step's forms: which is chosen, which is planned in the end.

A family of forms is opened if none before it has a form that fits, or if its forms may be cheaper. Short searches tell
which form is chosen; what cannot be cheaper than a schedule that is known is not searched. The chosen form is planned,
then its rivals. Where none of them has a schedule any form may have one; where no form has, the refusal is the least of
what is known of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from poet_profiles.errors import UserError
from poet_profiles.plan_folder.summary import ContestRow
from poet_profiles.schedule import Objective, Schedule

from poet_planner.graph.layout import GRADIENTS_PAGED, GRADIENTS_RESIDENT, MemoryLayout
from poet_planner.planning import families, notes
from poet_planner.planning.bench import Bench
from poet_planner.planning.budget import frozen_too_large, ram_budget_bytes
from poet_planner.planning.costed_step import CostedStep
from poet_planner.planning.families import FAMILIES, Family
from poet_planner.planning.form import Form
from poet_planner.planning.method import OPTIMAL, Method
from poet_planner.report.quantities import energy_text
from poet_planner.schedule.flash import has_room_in_flash
from poet_planner.solve import NoScheduleError, OptimiseOptions, Progress, optimise
from poet_planner.solve.feasibility.refusal import known_of, no_schedule
from poet_planner.solve.instance import build_problem, busy_s
from poet_planner.solve.options import Refused

RIVALS_SHARE = 0.4  # of the time, for all other forms of the step together
RIVALS_GAP = 1e-3  # what is no more open than this need not be closed
MOST_SEARCHED = 8  # forms, where the chosen one has no schedule
FITTING_SHARE = 0.4  # of the time, for all of these together that may fit


@dataclass(frozen=True)
class Outcome:
    """The form that won, with its schedule, not verified yet, and the contest's table."""

    form: Form
    schedule: Schedule
    table: tuple[ContestRow, ...]


class Contest:
    """Of the forms of one step.

    Attributes
    ----------
    bench : Bench
    families : sequence of Family
        In the order in which they are tried.
    searches : bool
        Whether short searches tell which form is chosen; else bounds do, for who asks for no more than a bound.
    chosen : Form
        The one to plan first, once `choose` has found it.
    is_cured : bool
        Whether a refusal names parts in which the same batch fits.
    """

    def __init__(self, bench: Bench, families: Sequence[Family] = FAMILIES, searches: bool = True) -> None:
        self.bench = bench
        self.families = families
        self.searches = searches
        self.chosen: Form
        self.is_cured = False
        self._made: dict[MemoryLayout, Form] = {}
        self._planned: dict[MemoryLayout, Schedule | NoScheduleError] = {}
        self._spared_bytes = 0

    def with_batch(self, samples: int, families: Sequence[Family] = FAMILIES[:1]) -> Contest:
        """That of the forms in RAM, or others, of the step on fewer samples, within the same budget."""
        is_the_boards = self.bench.request.ram is None and not self._spared_bytes
        return Contest(self.bench.with_batch(samples, None if is_the_boards else self.chosen.budget_bytes), families)

    def in_ram(self) -> list[Form]:
        """Those of the whole batch in RAM."""
        return self._opened(self.families[0])

    @cached_property
    def usual(self) -> Form | None:
        """The form that is tried first; None: parameters are to lie on the card."""
        layout = families.usual_layout(self.bench)
        if layout is None:
            return None
        usual = self._form(layout)
        return replace(usual, whole=self._form(GRADIENTS_RESIDENT)) if layout.micro_batches > 1 else usual

    def choose(self, in_parts: bool = False) -> Form:
        """Choose the form to plan first.

        With ``in_parts`` only in how many micro-batches a batch goes through the RAM is chosen. What does not fit in
        any is left in the layout that needs the least RAM.

        Raises
        ------
        UserError
            If what is asked for is not to be had, and as `Bench.step`.
        """
        usual = self.usual
        if usual is not None and not usual.layout.counts_parameters:
            self.chosen = replace(usual, note=notes.EXCLUDED.format(usual.step.excluded_bytes))
        elif in_parts and usual is not None:
            self.chosen = fewest_parts(self.bench, usual.step, self.bench.request.ram)
        else:
            self.chosen = self._chosen()
        return self.chosen

    def in_one_layout(self) -> CostedStep:
        """The step in one layout for all budgets; on the card it is chosen for the RAM of the board."""
        layout = families.usual_layout(self.bench)
        return self.choose().step if layout is None else self.bench.step(layout)

    def first_that_fits(self) -> Form | None:
        """The first form that fits, or of those on the card what streams least, whatever they cost."""
        for family in self._open():
            if fitting := [form for form in self._opened(family) if form.fits]:
                return fitting[family.start]
        return None

    def first_planned(self) -> Form | None:
        """The first form of which a short search has a schedule."""
        usual = self.usual
        may_fit = (family for family in self._open() if usual is None or family.may_fit(usual))
        layouts = (layout for family in may_fit for level in family.levels(self.bench) for layout in level)
        forms = (self._form(layout, usual) for layout in layouts)
        return next((form for form in forms if form.fits and form.found_j < inf), None)

    def spare(self, bytes: int) -> None:
        """Leave so much RAM to others."""
        self._spared_bytes += bytes
        self.chosen, *rivals = (
            replace(form, budget_bytes=form.budget_bytes - bytes) for form in (self.chosen, *self.chosen.rivals)
        )
        self.chosen = replace(self.chosen, rivals=tuple(rivals))
        made = self._made.items()
        self._made = {layout: replace(form, budget_bytes=form.budget_bytes - bytes) for layout, form in made}

    def plan(self, method: Method, options: OptimiseOptions, stopped: Callable[[], bool] = lambda: False) -> Outcome:
        """The form that turns out to be the cheapest, with its schedule.

        The optimiser plans the rivals, too, in a part of the time, unless it was ``stopped``; their bounds are part of
        the answer. Another method plans the chosen form alone.

        Raises
        ------
        UserError
            If there is no schedule within the limits: of the optimiser's a `NoScheduleError`, over all forms.
        """
        chosen = self.chosen
        options = replace(options, least_ram_s=options.for_least_ram_s)  # for every form, whatever its time
        try:
            if method is not OPTIMAL:
                schedule = method.schedule(chosen.graph, chosen.budget_bytes, chosen.deadline_s, options)
                self._planned[chosen.layout] = schedule
                return Outcome(chosen, schedule, self._table(chosen, schedule, ()))
            if chosen.fits:
                with suppress(NoScheduleError):
                    return self._with_rivals(options, stopped)
            return self._in_any_form(options)
        except NoScheduleError as refusal:
            raise self._with_cure(refusal) from None

    def _chosen(self) -> Form:
        usual = self.usual
        if usual is not None and self._is_enough(usual):
            return usual
        best: Form | None = None
        standing: list[Form] = []
        closest, note = usual, ""
        for family in self._open():
            if best is not None and family.handicap_j is None:
                break
            if usual is not None and not family.may_fit(usual):
                continue
            forms = self._opened(family)
            if family.least_first:
                closest = self._refined(family, forms, closest, standing)
                if closest is not None and closest.fits and closest is not usual:
                    return closest
                continue
            found = _cheapest(form for form in forms if form.fits)
            if found is not None and best is not None:
                assert family.handicap_j is not None
                if found.found_cost_j + family.handicap_j(found) >= best.found_cost_j:
                    continue
            if found is not None:
                best, note = found, family.note(found, usual, best, standing or forms)
            standing += forms
        if best is None:
            assert closest is not None
            return closest
        # Gradients as values need no more than those with places of their own, at the same costs.
        relaxed = GRADIENTS_RESIDENT if any(form.layout == GRADIENTS_PAGED for form in standing) else None
        fitting = [form for form in standing if form.fits and form.layout not in (best.layout, relaxed)]
        any_may_be = best.is_short_of_ram and not self.searches
        rivals = [form for form in fitting if any_may_be or form.least_cost_j < best.found_cost_j]
        return replace(best, note=note, rivals=tuple(sorted(rivals, key=lambda form: form.least_cost_j)))

    def _is_enough(self, usual: Form) -> bool:
        """Whether no other form is looked at."""
        if not has_room_in_flash(usual.graph, self.bench.board):
            return False
        return usual.fits if families.is_stated(self.bench.request) else not usual.is_short_of_ram

    def _open(self) -> Iterator[Family]:
        """The families that there are forms of."""
        return (family for family in self.families if family.why_not(self.bench, self.usual) is None)

    def _opened(self, family: Family) -> list[Form]:
        """Its forms; where the least comes first those that fit, of as few levels as leave room round the largest node.

        What streams least comes last. Where none fits: the one that lacks least.
        """
        if not family.least_first:
            layouts = [layout for level in family.levels(self.bench) for layout in level]
            if family.least_last and layouts and not (least := self._form(layouts[-1], self.usual)).fits:
                return [least]
            return [self._form(layout, self.usual) for layout in layouts]
        tried: list[Form] = []
        for layouts in family.levels(self.bench):
            level: list[Form] = []
            for layout in layouts:
                level.append(form := self._form(layout))
                if not level[0].fits or any(form.graph is other.graph for other in tried):
                    break  # the others need even more, or are as they were with fewer slices
            tried += level
            if any(form.filled <= family.comfort for form in level):
                break
        return [form for form in tried if form.fits] or [*sorted(tried, key=lambda form: form.filled)[:1]]

    def _refined(
        self, family: Family, forms: list[Form], closest: Form | None, standing: Sequence[Form]
    ) -> Form | None:
        """The cheapest of a family on the card, and of what is near it; ``closest`` where that lacks less.

        What it is said to save is told of the forms in RAM ``standing`` before it.
        """
        if not forms:
            return closest
        start = forms.pop(family.start)
        best = _cheapest(forms, start)
        assert best is not None
        for refinement in family.refinements:
            if best.fits or refinement.needs_less:
                near = [self._form(layout) for layout in refinement.layouts(self.bench, best)]
                room = refinement.room if refinement.instead else max(best.filled, refinement.room)
                near = [form for form in near if form.filled <= room]
                best = (near or [best])[0] if refinement.instead else _cheapest(near, best)
                assert best is not None
        usual = self.usual
        if usual is None:
            return replace(best, note=family.note(best, usual, None, ()))
        if has_room_in_flash(usual.graph, self.bench.board) and best.needs_bytes >= usual.needs_bytes:
            return closest
        budget_bytes = self._budget_bytes(best.step, usual)
        return replace(best, budget_bytes=budget_bytes, note=family.note(best, usual, None, standing))

    def _form(self, layout: MemoryLayout, usual: Form | None = None) -> Form:
        """The form in a layout, with the budget that is reckoned on the usual one, or on itself.

        Two layouts may cut the step alike: what is computed of the graph of one that is known is not computed again.
        """
        if usual is not None and usual.layout == layout:
            return replace(usual, budget_bytes=usual.budget_bytes - self._spared_bytes) if self._spared_bytes else usual
        if layout not in self._made:
            step = self.bench.step(layout)
            alike = next((one.graph for one in self._made.values() if one.graph == step.graph), step.graph)
            step = replace(step, graph=alike)
            whole = usual if layout.micro_batches > 1 else None
            self._made[layout] = Form(step, self._budget_bytes(step, usual), whole=whole, searched=self.searches)
        return self._made[layout]

    def _budget_bytes(self, step: CostedStep, usual: Form | None) -> int:
        ram = self.bench.request.ram
        return ram_budget_bytes(ram, step if usual is None else usual.step, step) - self._spared_bytes

    def _with_rivals(self, options: OptimiseOptions, stopped: Callable[[], bool]) -> Outcome:
        """The chosen form takes most of the time; what cannot be cheaper than a schedule that is known takes none."""
        best = chosen = self.chosen
        rivals = chosen.rivals if options.objective is Objective.ENERGY else ()
        share = 1 - RIVALS_SHARE if rivals else 1.0
        schedule = self._schedule(chosen, replace(options, time_limit_s=share * options.time_limit_s))
        for rival in rivals:
            if rival.least_cost_j >= schedule.energy_j + best.runner_j or stopped():
                continue
            show = _shown_as(options.progress, rival.layout.words)
            rivals_s = RIVALS_SHARE * options.time_limit_s / len(rivals)
            quick = replace(options, time_limit_s=rivals_s, statistics=None, gap=RIVALS_GAP, progress=show)
            quick = replace(quick, what_would_do=False)  # nobody hears what a rival lacks
            rival = replace(rival, deadline_s=chosen.deadline_s)
            with suppress(NoScheduleError):  # the bound of its computes remains
                found = self._schedule(rival, quick)
                if found.energy_j + rival.runner_j < schedule.energy_j + best.runner_j:
                    note = notes.TURNED_OUT.format(rival.layout.words, energy_text(found.energy_j))
                    best, schedule = replace(rival, note=note), found
        return Outcome(best, schedule, self._table(best, schedule, (chosen, *rivals)))

    def _in_any_form(self, options: OptimiseOptions) -> Outcome:
        """Another form with a schedule within the limits, or the refusal that covers all.

        What needs the least is tried first. A form that needs more by itself than one is known to do is not searched.
        """
        forms = [replace(form, deadline_s=self.chosen.deadline_s) for form in self._every_form()]
        lacks: dict[int, NoScheduleError] = {}
        fitting = sum(form.fits for form in forms)
        quick = replace(options, time_limit_s=FITTING_SHARE * options.time_limit_s / max(1, fitting))
        for number, form in enumerate(forms):
            known_bytes = [one.possible_bytes for one in lacks.values() if one.possible_bytes is not None]
            if len(lacks) == MOST_SEARCHED or (known_bytes and min(known_bytes) <= form.needs_bytes):
                break
            known = self._planned.get(form.layout) if form.layout == self.chosen.layout else None
            try:
                if isinstance(known, NoScheduleError):
                    raise known
                schedule = self._schedule(form, quick)
            except NoScheduleError as lack:
                lacks[number] = lack
            else:
                form = replace(form, note=notes.FOUND_TO_DO.format(form.layout.words))
                return Outcome(form, schedule, self._table(form, schedule, ()))
        raise _of_all(forms, lacks)

    def _every_form(self) -> list[Form]:
        """The forms that may be chosen in any RAM, what needs the least first; parts on the card come last."""
        forms = [self.chosen]
        for family in self._open():
            for form in self._least(family) if family.least_first else self._opened(family):
                if all(form.graph != other.graph for other in forms):
                    forms.append(form)
        late = self.chosen.deadline_s is not None  # tiles need less, and take longer
        return sorted(forms, key=lambda form: (_is_last(form, late), form.needs_bytes, form.layout.early_updates))

    def _least(self, family: Family) -> Iterator[Form]:
        """Of each level what needs the least."""
        for layout, *_ in family.levels(self.bench):
            yield (least := self._form(layout))
            finer = (near for near in family.refinements if near.needs_less)
            yield from (self._form(one) for near in finer for one in near.layouts(self.bench, least))

    def _schedule(self, form: Form, options: OptimiseOptions) -> Schedule:
        try:
            schedule = optimise(form.graph, form.budget_bytes, form.deadline_s, options)
        except NoScheduleError as lack:
            self._planned[form.layout] = lack
            raise
        self._planned[form.layout] = schedule
        return schedule

    def _with_cure(self, refusal: NoScheduleError) -> NoScheduleError:
        """The refusal with what would do, or what is in the way, if that is known."""
        budget_bytes = self.chosen.budget_bytes
        with suppress(UserError):
            for count in families.more_parts(self.bench):
                if self._form(MemoryLayout(micro_batches=count), self.usual).needs_bytes <= budget_bytes:
                    self.is_cured = True
                    return refusal.adding(notes.PARTS_FIT.format(count))
        if (large := frozen_too_large(self.chosen.graph, budget_bytes)) is not None:
            return refusal.adding(notes.TOO_LARGE.format(large))
        return refusal

    def _table(self, best: Form, schedule: Schedule, bounded: Iterable[Form]) -> tuple[ContestRow, ...]:
        """What became of each form, the plan's first; ``bounded`` are those whose bounds are part of the answer."""
        layouts = [form.layout for form in bounded]
        self._made[best.layout] = best
        forms = sorted(self._made.values(), key=lambda form: form.layout != best.layout)
        return tuple(self._row(form, best, schedule, form.layout in layouts) for form in forms)

    def _row(self, form: Form, best: Form, schedule: Schedule, is_bounded: bool) -> ContestRow:
        own = self._planned.get(form.layout)
        planned = own if isinstance(own, Schedule) else None
        found_j = form.known_j if planned is None else planned.energy_j
        bound_j = planned.bound_j if planned else form.once_j if is_bounded else None
        return row(form, found_j, notes.why_out(form, best, schedule, own), bound_j)


def row(form: Form, found_j: float | None, why_out: str, bound_j: float | None = None) -> ContestRow:
    """Of the contest's table."""
    return ContestRow(
        form=form.layout.details,
        micro_batches=form.layout.micro_batches,
        gradients=form.layout.gradients,
        needs_bytes=form.needs_bytes,
        least_j=form.once_j,
        found_j=found_j,
        bound_j=bound_j,
        runner_j=form.runner_j,
        why_out=why_out,
    )


def fewest_parts(bench: Bench, whole: CostedStep, ram: int | str | None) -> Form:
    """The step on the fewest equal parts of its batch whose store-all schedule fits.

    On the smallest parts if none does.

    Raises
    ------
    UserError
        If parts are needed, and it has none: a graph says how many it is of, gradients are no sums in RAM, the board
        runs Linux, or something couples the samples.
    """
    form = usual = Form(whole, ram_budget_bytes(ram, whole, whole))
    finer = families.finer(bench, whole.graph.micro_batches)
    while form.store_all.ram_budget_bytes > form.budget_bytes and (count := next(finer, None)):
        step = bench.step(MemoryLayout(micro_batches=count))
        form = Form(step, ram_budget_bytes(ram, whole, step), whole=usual)
    return form


def _is_last(form: Form, late: bool) -> bool:
    in_parts = form.fits and form.layout.card_above_bytes is not None and form.layout.micro_batches > 1
    return in_parts or (late and form.layout.tiles > 1)


def _cheapest(forms: Iterable[Form], best: Form | None = None) -> Form | None:
    """The cheapest by short searches; the first of equals. What cannot be cheaper is not searched."""
    for form in sorted(forms, key=lambda form: (not form.graph.kept and form.is_short_of_ram, form.once_j)):
        if best is None or (
            form.fits and form.least_cost_j < best.found_cost_j and form.found_cost_j < best.found_cost_j
        ):
            best = form
    return best


def _shown_as(show: Callable[[Progress], None] | None, form: str) -> Callable[[Progress], None] | None:
    """The same for another form of the step, by its name: its energy is not the plan's."""
    return show and (lambda state: show(replace(state, note=notes.PLANNED_BESIDE.format(form, state.note).rstrip())))


def _of_all(forms: list[Form], lacks: dict[int, NoScheduleError]) -> NoScheduleError:
    """The refusal that covers all forms, of which some were searched: of each limit the least."""
    problems = [build_problem(form.graph, form.budget_bytes, form.deadline_s) for form in forms]
    below = [
        lacks[number].impossible_below_bytes if number in lacks else form.needs_bytes
        for number, form in enumerate(forms)
    ]
    possible = {number: one.possible_bytes for number, one in lacks.items() if one.possible_bytes is not None}
    found_s = [one.possible_s for one in lacks.values() if one.possible_s is not None]
    best = min(possible, key=lambda number: possible[number], default=None)
    words = [form.layout.words for form in forms]
    known = replace(
        known_of(forms[0].graph, problems[0]),
        asked_bytes=max(form.budget_bytes for form in forms),
        computing_s=min(map(busy_s, problems)),
        impossible_below_bytes=min(below),
        possible_bytes=None if best is None else possible[best],
        possible_s=min(found_s, default=None),
        form="" if len(forms) == 1 else f"with {words[0]}, the form that needs least",
    )
    lacks_offsets = any(one.status is Refused.NO_OFFSETS for one in lacks.values())
    another = best is not None and words[best] != words[0]
    return no_schedule(known, lacks_offsets, f"with {words[best or 0]}" if another else "")
