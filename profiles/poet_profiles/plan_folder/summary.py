# SPDX-License-Identifier: Apache-2.0
"""What a plan costs and what that rests on: `summary.json` (docs/SPEC.md, section 4)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from poet_profiles.errors import UserError
from poet_profiles.files.json_file import read_json
from poet_profiles.files.whole_file import write_whole
from poet_profiles.losses import Loss
from poet_profiles.traced_loss import TracedLoss

NotNegative = Annotated[float, Field(ge=0)]


@dataclass(frozen=True)
class FitReport:
    """A fitted cost model, and the share of the plan's energy that it predicts.

    Errors are relative, None where one row is all there is.
    """

    operator: str
    rows: int
    sources: tuple[str, ...]
    time_error: float | None
    energy_error: float | None
    energy_share: float


@dataclass(frozen=True)
class PlacementReport:
    """The cheapest schedule found has no static offsets within the RAM.

    So the plan is a more expensive one. ``cost`` is by how much it costs more, relative to that schedule's energy
    ``cheapest_j``. Where time is the objective, it is by how much longer the plan takes, and the joules are seconds.
    ``proven`` says that the blocks of that schedule, with their lives in its order of steps, fit the RAM in no way. It
    says nothing of other orders or other schedules. ``tried`` is how many schedules cheaper than the plan were given no
    offsets, this one included; for ``tried_proven`` of them that is proven.
    """

    cost: float
    cheapest_j: float
    proven: bool
    tried: int
    tried_proven: int


@dataclass(frozen=True)
class Wear:
    """Bytes that a step writes, in whole blocks, and the steps that the card lasts.

    ``committed_bytes`` are new versions of parameters and states and the record of them. ``life_steps`` is None where
    nothing is written, or what the card stands is not known. In slow memory a plan takes ``slow_memory_bytes``.
    """

    committed_bytes: int
    paged_bytes: int
    endurance_bytes: int
    life_steps: NotNegative | None
    slow_memory_bytes: int = 0


@dataclass(frozen=True)
class PartReport:
    """What one part of the optimiser did: see `poet_planner.solve.statistics.PartRecord`.

    ``bound_raised_share`` and ``incumbent_improved_share`` are relative to the plan's energy above the store-all
    schedule's; 0 where there is none.
    """

    part: str
    seconds: float
    calls: int
    bound_raised_j: float
    bound_raised_share: float
    incumbent_improved_j: float
    incumbent_improved_share: float


@dataclass(frozen=True)
class ImprovementReport:
    """A schedule better than all before, and the part that found it."""

    seconds: float
    energy_j: float
    source: str | None


@dataclass(frozen=True)
class OptimiserReport:
    """The optimiser's seconds, the part that found the plan, and each part's work.

    ``failures`` is what solvers failed at, a line each: the bound may be lower for it.
    """

    seconds: float
    source: str | None
    parts: tuple[PartReport, ...]
    improvements: tuple[ImprovementReport, ...]
    failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class ContestRow:
    """A form of the step in the contest, and what became of it."""

    form: str
    micro_batches: int
    gradients: str
    needs_bytes: int  # no schedule of it fits in less RAM
    least_j: float  # no schedule of it takes less: each node once
    found_j: float | None  # of a schedule that was found, by a short search at least
    bound_j: float | None  # below which none is within the RAM, where that is part of the answer's bound
    runner_j: float  # what the firmware's runner adds
    why_out: str  # empty: it is the plan's
    samples: int | None = None  # in the batch, where the table has another one, too


@dataclass(frozen=True)
class TiledValue:
    """A value that never exists as a whole: what it would be, in how many tiles it is made, and the largest of these.

    Of a step on one micro-batch, once on each side of the loss.
    """

    value: str
    bytes: int
    tiles: int
    tile_bytes: int


@dataclass(frozen=True)
class MoreRam:
    """The price of the last bytes: a larger budget, and what a step would cost within it.

    ``saved`` is the share of the plan's energy that it would save. ``beyond_board`` is the board's name if it has less.
    """

    ram_budget_bytes: int
    more_bytes: int
    energy_j: float
    saved: float
    beyond_board: str | None = None


@dataclass(frozen=True)
class InferenceReport:
    """The inference of one sample beside the training step, without idle power.

    ``ram_bytes`` has the residents in it. ``loss`` is how the training's loss reads its output, None if it has no
    name and is no data; ``classes`` are names.
    """

    graph_hash: str
    energy_j: float
    time_s: float
    ram_bytes: int
    page_ins: int
    loss: Loss | TracedLoss | None = None
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Int8Validation:
    """The model's forward pass on samples, frozen layers on int8, beside its own in f32.

    ``score_error`` is the norm of the difference, relative. ``same_answers`` is the share of samples whose highest
    score is the same one, ``right`` and ``right_f32`` those where it is the target's; None where outputs are no scores
    of classes, or targets no classes.
    """

    samples: int
    score_error: float
    same_answers: float | None
    right: float | None
    right_f32: float | None


@dataclass(frozen=True)
class Int8Report:
    """Layers on int8, and their weights beside those in f32.

    Ranges are from ``samples``. It is None where PyTorch quantised the model, ``validation`` where nobody asked.
    """

    layers: int
    frozen_layers: int
    weight_bytes: int
    f32_weight_bytes: int
    samples: int | None
    validation: Int8Validation | None = None


@dataclass(frozen=True)
class FeaturesReport:
    """Features that are kept of a sample, and their costs, without idle power.

    ``at_once`` samples are made at a time. ``room`` is for how many samples the board's RAM has room beside the
    plans, None where no board is named; those of others lie on the card if reading one takes any time, else nowhere.
    """

    graph_hash: str
    sample_bytes: int
    at_once: Annotated[int, Field(gt=0)]
    energy_j: float
    time_s: float
    ram_bytes: int
    page_ins: int
    room: int | None
    read_time_s: float = 0.0
    read_energy_j: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A plan in figures, in the order of the file.

    Fields named ``plain_…`` are the store-all schedule's. Counts of recomputations and transfers are of one
    micro-batch, energies of all.
    """

    # What was planned, and what its costs rest on: shares by basis, of the plan's energy, and of the store-all
    # schedule's of the whole batch if the plan is in micro-batches; the builds with which they were profiled. Where no
    # sensor was, energies are times, multiplied by powers of the board file. The sleeping board draws the idle power
    # besides: 0 where the energies are all that is drawn, as published ones are, and None where it is not known.
    graph: str
    graph_hash: str
    nodes: int
    energy_share: dict[str, float]
    plain_fitted: float | None
    energy_sensed: bool
    fits: tuple[FitReport, ...]
    firmware: tuple[str, ...]
    idle_power_w: NotNegative | None
    source: str = ""  # of a graph that was given with its costs
    # The card's is what operators move as they are computed for the first time; refetches and pages come on top.
    # The overhead is what is above the store-all schedule, relative to that schedule's energy.
    energy_j: float
    energy_compute_j: float
    energy_card_j: float
    energy_recompute_j: float
    energy_refetch_j: float
    energy_page_in_j: float
    energy_page_out_j: float
    recomputes: int
    refetches: int
    page_ins: int
    page_outs: int
    plain_energy_j: float
    plain_card_j: float
    overhead: float
    # All computes and transfers are busy. The longest pause is the longest time for which a step of the schedule keeps
    # a microcontroller's CPU; None for a Linux board.
    time_s: float
    deadline_s: float | None
    plain_time_s: float
    busy_s: float
    plain_busy_s: float
    longest_pause_s: float | None = None
    # Parameters, gradients and state are excluded if they are not counted. The placement is None unless static offsets
    # make the plan more expensive.
    peak_bytes: int
    ram_budget_bytes: int
    resident_bytes: int
    excluded_bytes: int
    resident_gradients: bool | None
    allocates: bool
    arena_bytes: int
    plain_peak_bytes: int
    placement: PlacementReport | None = None
    # Constants are in flash; what is kept lies on the card, without the batch.
    constant_bytes: int
    kept_bytes: int
    wear: Wear
    # How much less another plan might cost. Gaps are of the objective, energy or time: by time, ``bound_s`` is the
    # lower bound of ``busy_s``, and joules of the optimiser, None with another method, are seconds. The contest
    # has the forms of the step that were looked at, the plan's first; the gap is over those with a bound.
    status: str
    objective: str
    bound_j: float
    bound_s: float | None
    gap: float
    overhead_gap: float
    optimiser: OptimiserReport | None
    micro_batches: int
    contest: tuple[ContestRow, ...]
    forms_gap: float
    tiles: tuple[TiledValue, ...] = ()  # the largest first
    # None: nobody asked or a little more RAM does not save much; none beside the plan; nothing on int8; a whole step.
    more_ram: MoreRam | None = None
    inference: InferenceReport | None = None
    int8: Int8Report | None = None
    features: FeaturesReport | None = None
    commit_each: int = 1  # so many steps are made to count together on the card; energies and times are the mean

    @property
    def all_of_the_card_j(self) -> float:
        """With what is fetched again, and pages."""
        return self.energy_card_j + self.energy_refetch_j + self.energy_page_in_j + self.energy_page_out_j

    def document(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


def write_summary(summary: Summary, path: Path) -> None:
    """Write `summary.json`."""
    write_whole(path, json.dumps(summary.document(), indent=1) + "\n")


def read_summary(path: Path) -> Summary:
    """Read `summary.json`.

    Raises
    ------
    UserError
        In one line: which key is wrong, in which file, and what to do.
    """
    document = json.dumps(read_json(path))
    try:
        return TypeAdapter(Summary).validate_json(document, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"{part}: " for part in (".".join(map(str, first["loc"])),) if part)
        raise UserError(f"{path}: {place}{first['msg']}; plan again with poet-plan --out {path.parent}") from None
