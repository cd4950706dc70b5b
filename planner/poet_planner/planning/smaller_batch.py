# SPDX-License-Identifier: Apache-2.0
"""What a sample costs in half the batch, and in the largest whose store-all schedule fits.

A store-all schedule's energy is exact. Half a batch takes a short search where it needs one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from math import floor, inf

from poet_profiles.errors import UserError
from poet_profiles.plan_folder.summary import ContestRow
from poet_profiles.schedule import Schedule

from poet_planner.graph.layout import Gradients, Parameters, Tiles
from poet_planner.graph.optimizer import Method, Optimizer
from poet_planner.planning import families, notes
from poet_planner.planning.contest import Contest, row
from poet_planner.planning.form import Form
from poet_planner.planning.more_ram import DEAR
from poet_planner.planning.request import AUTO_PARTS, Request

Lever = Callable[[Request, int], Request]  # of a step on so many samples
RESIDENT = Parameters.RESIDENT
IN_BYTES = "with inputs in bytes (x.float() / 255 in the module)"
TOGETHER = 2  # levers at most
MOST_TOLD = 4  # of what would do
LINES = 4  # guesses on a line through what two batches lack; then the middle


class SmallerBatches:
    """A step on fewer samples, with the options and in the RAM of the whole batch's."""

    def __init__(self, whole: Contest) -> None:
        self._whole = whole
        self._contests: dict[int, Contest | None] = {}

    @cached_property
    def _samples(self) -> int:
        """In the whole batch; 0: a smaller one is no advice."""
        whole, step = self._whole, self._whole.bench.training_step
        in_ram = families.may_be_smaller(whole.bench) and whole.families[0].why_not(whole.bench, whole.usual) is None
        if step is None or not in_ram:
            return 0
        self._contests[step.samples] = whole
        return step.samples

    def with_rows(self, table: tuple[ContestRow, ...], schedule: Schedule) -> tuple[ContestRow, ...]:
        """The table, the plan first, with batches in which a sample costs less, if it is dear."""
        usual = self._whole.usual
        if usual is None or not usual.is_short_of_ram or schedule.energy_j <= (1 + DEAR) * usual.once_j:
            return table
        samples, reason = self._samples, families.why_whole(self._whole.bench)
        if reason is None:
            return table
        found = {size: form for size in (samples // 2, self.largest()) if (form := self._cheapest(size))}
        cheaper = {size: form for size, form in found.items() if _energy_j(form) / size < schedule.energy_j / samples}
        if not cheaper:
            return table
        rows = (
            replace(
                row(form, _energy_j(form), notes.ANOTHER_BATCH.format(reason)), form=f"--batch {size}", samples=size
            )
            for size, form in cheaper.items()
        )
        return (replace(table[0], samples=samples), *table[1:], *rows)

    def cure(self) -> str:
        """What a refusal for RAM adds where no parts of the batch would do."""
        request = self._whole.bench.request
        if self._whole.is_cured:
            return ""
        coupled = request.deadline is None and families.why_whole(self._whole.bench, anyhow=True) is not None
        largest = self.largest() if coupled else 0
        return notes.FITS.format(f"--batch {largest}") if largest else self._nearest()

    def _nearest(self) -> str:
        """What would do, found by trying: the largest batch with each set of levers, where no fewer of them do as well.

        Each has a schedule that a short search found.
        """
        bench, levers = self._whole.bench, self._levers()
        if bench.training_step is None or not bench.is_for_a_microcontroller or bench.request.deadline is not None:
            return ""
        samples, most, told = bench.training_step.samples, dict[frozenset[str], int](), []
        is_free = _freed(bench.request) == bench.request
        for used in (frozenset(some) for count in range(TOGETHER + 1) for some in combinations(levers, count)):
            most[used] = low = max((most[fewer] for fewer in most if fewer < used), default=0)
            high, size, words = samples + bool(used or not is_free), low + 1, ""
            while low < samples and low < size < high:
                form = self._form_of(size, [levers[name] for name in levers if name in used])
                low, high = (low, size) if form is None else (size, high)
                words = words if form is None else self._words_of(form, size if size < samples else 0)
                size = samples if size == most[used] + 1 else (low + high) // 2
            most[used] = low
            told += [notes.FITS.format(" ".join([words, *(name for name in levers if name in used)]))] if words else []
        return "".join(told[:MOST_TOLD])

    def _levers(self) -> dict[str, Lever]:
        """What may be asked for instead, by its words: of each the least RAM that it may need."""
        bench, own = self._whole.bench, self._whole.bench.request
        plain = Optimizer(weight_decay=own.optimizer.weight_decay, clip_value=own.optimizer.clip_value)
        kept = "momentum" if own.optimizer.method is Method.SGD else f"--optimizer {own.optimizer.method}"
        levers: dict[str, Lever] = {}
        if own.optimizer != plain:
            levers[f"without {kept}"] = lambda asked, _: replace(asked, optimizer=plain)
        if bench.cut is None and own.frozen is None and own.stream is None:
            levers[IN_BYTES] = self._in_bytes
        if bench.board is not None and bench.board.has_card and not (own.paging and own.parameters != RESIDENT):
            words = f"with --parameters {Parameters.CARD}{'' if own.paging else ' --paging'}"
            levers[words] = lambda asked, _: replace(asked, parameters=Parameters.CARD, paging=True)
        return levers

    def _in_bytes(self, asked: Request, samples: int) -> Request:
        """The same of a step that reads bytes; a `UserError` if it reads no floats."""
        from poet_planner.tracing.micro_batches import first_samples, of_bytes

        step = self._whole.bench.training_step
        assert step is not None
        return replace(asked, network=first_samples(of_bytes(step.model), samples), batch=None, weights=None)

    def _words_of(self, form: Form, samples: int) -> str:
        """A form's batch (0: the same), and what has to be asked for otherwise."""
        own, layout, words = self._whole.bench.request, form.layout, []
        if layout.early_updates or (own.gradients != Gradients.AUTO and layout.micro_batches > 1):
            words.append(f"--gradients {layout.gradients if layout.early_updates else Gradients.AUTO}")
        if families.parts_asked_for(own) not in (None, layout.micro_batches):
            words.append(f"--micro-batches {AUTO_PARTS}")
        if own.tiles == Tiles.OFF and layout.is_tiled:
            words.append(f"--tiles {Tiles.AUTO}")
        return " ".join([f"--batch {samples}" if samples else "the same batch", *words])

    def _form_of(self, samples: int, levers: Iterable[Lever]) -> Form | None:
        """A form with a schedule of that step, whatever was asked for of its parts and gradients; None without."""
        with suppress(UserError):
            smaller = self._whole.with_batch(samples, [families.LEANEST])
            asked = _freed(smaller.bench.request)
            for lever in levers:
                asked = lever(asked, samples)
            smaller.bench.request = asked
            return smaller.first_planned()
        return None

    def largest(self) -> int:
        """The largest batch whose store-all schedule fits; 0 if there is none."""
        low, high = 0, self._samples
        guess, lacks = high // 2, {high: self._lacks(high)} if high else {}
        for number in range(high):
            if high - low <= 1:
                break
            lacks[guess] = self._lacks(guess)
            low, high = (guess, high) if lacks[guess] <= 0 else (low, guess)
            on_a_line = _without_lack(lacks) if number < LINES else (low + high) // 2
            guess = min(max(on_a_line, low + 1), high - 1)
        return low

    def _cheapest(self, size: int) -> Form | None:
        """One whose store-all schedule fits, or what a short search finds to be the cheapest of those in RAM."""
        contest = self._contest(size) if size else None
        if contest is None:
            return None
        for form in contest.in_ram():
            if _is_plain(form):
                return form
        form = contest.choose()
        searched = form.fits and contest.bench.request.deadline is None and form.found_j < inf
        return form if searched else None

    def _lacks(self, size: int) -> float:
        """How many bytes the store-all schedule lacks, in the form that lacks least."""
        contest = self._contest(size)
        forms = [] if contest is None else contest.in_ram()
        return min((form.store_all.ram_budget_bytes - form.budget_bytes for form in forms), default=inf)

    def _contest(self, size: int) -> Contest | None:
        """Of the forms in RAM; None: there is no such step."""
        if size not in self._contests:
            self._contests[size] = None
            with suppress(UserError):
                smaller = self._whole.with_batch(size)
                step = smaller.bench.training_step
                if step is not None and step.samples == size and smaller.in_ram():
                    self._contests[size] = smaller
        return self._contests[size]


def _freed(own: Request) -> Request:
    """The same, whatever was asked for of gradients, parts, tiles and the card."""
    parameters = RESIDENT if own.parameters == RESIDENT else Parameters.AUTO
    free = replace(own, parameters=parameters, gradients=Gradients.AUTO, micro_batches=AUTO_PARTS)
    return replace(free, tiles=Tiles.AUTO)


def _is_plain(form: Form) -> bool:
    return form.store_all.ram_budget_bytes <= form.budget_bytes


def _energy_j(form: Form) -> float:
    return form.store_all.energy_j if _is_plain(form) else form.found_j


def _without_lack(lacks: dict[int, float]) -> int:
    """The batch on a line through the two that are nearest to lack nothing."""
    (size, lack), (other, others) = sorted(lacks.items(), key=lambda pair: abs(pair[1]))[:2]
    slope = (others - lack) / (other - size)
    return floor(size - lack / slope) if 0 < slope < inf else 0
