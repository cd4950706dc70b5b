# SPDX-License-Identifier: Apache-2.0
"""What is asked for: a network, what it costs, the board, the limits, and where things may lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from poet_profiles.boards import Board
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.shipped import profile_names

from poet_planner.graph.layout import Gradients, Parameters, Tiles
from poet_planner.graph.optimizer import PLAIN, Optimizer
from poet_planner.planning.calibration import Calibration, Frozen
from poet_planner.report.quantities import size_bytes

if TYPE_CHECKING:
    from poet_planner.models import Model

Profiles = str | Path | Sequence[str | Path]
Choice = TypeVar("Choice", bound=StrEnum)


AUTO_PARTS = "auto"
WHOLE = "whole"  # of --features: one step does all
MOST_KEPT = 65535  # steps together: 16 bits of the firmware's model


@dataclass(frozen=True)
class Request:
    """What is asked for, as it was given: `bench.Bench` looks up what its names stand for.

    Attributes are the parameters of `poet_planner.plan`. The board may also be one that is described already. Without
    a profile nothing has a cost: see `refuse_without_costs`.

    Raises
    ------
    UserError
        If something asked for does not go together, or is not understood.
    """

    network: Model | Graph | str | Path
    profile: Profiles | None = None
    board: str | Board | None = None
    batch: int | None = None
    ram: int | str | None = None
    deadline: float | str | None = None
    parameters: str = Parameters.AUTO
    gradients: str = Gradients.AUTO
    micro_batches: int | str = AUTO_PARTS
    card_above: int | str | None = None
    stream_above: int | str | None = None
    optimizer: Optimizer = PLAIN
    weights: str | Path | None = None
    frozen: str | None = None
    calibrate: str | Path | None = None
    paging: bool = True
    early_updates: bool = True  # whether auto may choose them: nothing is paged in such a step
    features: int | str = WHOLE
    stream: int | None = None  # an axis of the input
    tiles: str = Tiles.AUTO
    keep_each: int = 1  # so many steps are kept together, where each is

    def __post_init__(self) -> None:
        if isinstance(self.network, Graph | Path):
            own = None if self.optimizer.is_plain else self.optimizer.words
            others = {"--profile": self.profile, "--batch": self.batch, own or "--momentum": own}
            of_weights = {
                "--weights": self.weights,
                "--frozen": self.frozen,
                "--calibrate": self.calibrate,
                "--stream": self.stream,
            }
            refuse_beside_a_graph({**others, **of_weights})
        calibration(self.frozen, self.calibrate)
        named(Parameters, self.parameters, "--parameters")
        named(Gradients, self.gradients, "--gradients")
        named(Tiles, self.tiles, "--tiles")
        if not 1 <= self.keep_each <= MOST_KEPT:
            raise UserError(f"--keep-each {self.keep_each}: give how many steps are kept together, 1 to {MOST_KEPT}")
        if self.features not in (AUTO_PARTS, WHOLE) and not str(self.features).isdecimal():
            raise UserError(f"--features {self.features}: give auto, whole, or how many samples have room in RAM")
        excluded = self.parameters == Parameters.EXCLUDED
        with_it = (Gradients.AUTO,) if excluded else (Gradients.AUTO, Gradients.EARLY)  # as updates on the card are
        if (excluded or self.parameters == Parameters.CARD) and self.gradients not in with_it:
            why = "they are not in RAM" if excluded else "most are part of an update"
            raise UserError(f"--gradients {self.gradients}: with --parameters {self.parameters} {why}; leave it out")
        self._refuse_parts()
        if self.card_above is not None:
            size_bytes(self.card_above, "--card-above", "2KB")
        if self.stream_above is not None:
            size_bytes(self.stream_above, "--stream-above", "64KB")

    def _refuse_parts(self) -> None:
        """Refuse micro-batches that are no number, or cannot be beside what else is asked for."""
        option = f"--micro-batches {self.micro_batches}"
        if self.micro_batches != AUTO_PARTS and not str(self.micro_batches).isdecimal():
            raise UserError(f"{option}: give a whole number, at least 1, or {AUTO_PARTS}")
        parts = 1 if self.micro_batches == AUTO_PARTS else int(self.micro_batches)
        if parts == 0:
            raise UserError(f"{option}: a batch is at least one part; give 1 or more")
        if parts == 1:
            return
        if isinstance(self.network, Graph | Path):
            raise UserError(f"{option}: --graph already says in how many parts a batch goes through it; leave it out")
        if self.parameters == Parameters.EXCLUDED:
            raise UserError(f"{option}: with --parameters excluded sums of gradients are not in RAM; leave one out")
        if self.gradients not in (Gradients.AUTO, Gradients.RESIDENT):
            raise UserError(
                f"{option}: gradients are sums that outlive a part, so --gradients {self.gradients} frees nothing; "
                "leave one of both out"
            )

    @property
    def is_model(self) -> bool:
        """Whether a model is to be traced; otherwise a graph is given with its costs."""
        return not isinstance(self.network, Graph | Path)

    def refuse_without_costs(self) -> None:
        """Refuse a model without a profile."""
        if self.is_model and not self.profile:
            names = ", ".join(profile_names())
            raise UserError(f"nothing to plan: give --profile (a CSV file, or one of {names}) or --graph; see --help")


def calibration(frozen: str | None, samples: str | Path | None) -> Calibration | None:
    """What ``--frozen`` and ``--calibrate`` ask for; raises a `UserError` if they do not go together."""
    if frozen is None:
        if samples is not None:
            raise UserError(f"--calibrate {samples}: its samples are for --frozen int8; give that, too")
        return None
    named(Frozen, frozen, "--frozen")
    return Calibration(None if samples is None else Path(samples))


def refuse_beside_a_graph(others: Mapping[str, object]) -> None:
    """Raise a `UserError` if an option was given, not None, that says what a costed graph already says."""
    for option, given in others.items():
        if given is not None:
            raise UserError(f"--graph already holds the training step and its costs: leave {option} out")


def named(choices: type[Choice], name: str, option: str) -> Choice:
    """The choice of that name; raises a `UserError` if there is none."""
    try:
        return choices(name)
    except ValueError:
        raise UserError(f"{option} {name}: there are {', '.join(choices)}") from None
