# SPDX-License-Identifier: Apache-2.0
"""Groups of options that verbs take as one parameter each: declared once, and what they mean together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import (
    BoardName,
    Emulate,
    Json,
    Plan,
    Port,
    connection_option,
    detection_option,
    results_option,
    training_option,
)

if TYPE_CHECKING:
    from poet_profiles.boards import Board

    from ..target.connect import Target


def _known_meter(name: str | None) -> str | None:
    """Refuse a name that no meter has before a board is opened, or firmware built for it."""
    if name is None:
        return None
    from ..meters.registry import checked

    return checked(name)


@dataclass(frozen=True)
class Connection:
    """A board, the meter on its supply, and its card: real, this computer, or emulated.

    The last two options are for experiments; the pages of the emulator and of Linux boards have them.
    """

    board: BoardName
    port: Port = None
    emulate: Emulate = False
    meter: Annotated[
        str | None,
        connection_option(
            envvar="POET_METER",
            callback=_known_meter,
            help="NAME or NAME:ADDRESS (poet-harness meters); the connected one if not given.",
        ),
    ] = None
    card: Annotated[
        Path | None,
        connection_option(
            envvar="POET_CARD",
            help="Card image for --emulate and for this computer, kept for later; a fresh one if not given.",
        ),
    ] = None
    card_pauses: Annotated[int | None, connection_option(envvar="POET_CARD_PAUSES", min=0, hidden=True)] = None
    threads: Annotated[int | None, connection_option(envvar="POET_THREADS", min=1, hidden=True)] = None

    def takes_image(self, description: Board) -> bool:
        """Whether the board is an image that runs here; see :func:`poet_harness.target.connect.takes_image`."""
        from ..target.connect import takes_image

        return takes_image(description, self.port, self.emulate)

    def open(self, description: Board, image: Path | None, card: Path | None) -> Target:
        """Open it, with a card that a verb may have prepared; see :func:`poet_harness.target.connect.connect`."""
        from ..target.connect import connect

        return connect(
            description,
            self.port,
            image=image,
            emulate=self.emulate,
            meter=self.meter,
            card=card,
            card_pauses=self.card_pauses,
            threads=self.threads,
        )


@dataclass(frozen=True)
class Beginning:
    """A plan, and what a training under it begins with."""

    plan: Plan
    data: Annotated[Path, typer.Option(help=".npz with parameters and batches (poet-plan data).")]
    learning_rate: Annotated[float, training_option("--lr", min=0.0, help="Learning rate of the optimiser.")] = 0.01
    weights: Annotated[
        Path | None, training_option(help="Weights instead of those of --data: .safetensors, .pt, .pth or .npz.")
    ] = None
    state: Annotated[
        Path | None, training_option(help="The optimiser's state: .safetensors, as --trained writes it, too.")
    ] = None
    commit_every: Annotated[
        int, training_option(min=0, help="Keep the weights on the card every N steps (if they lie there: each).")
    ] = 0


@dataclass(frozen=True)
class Detecting:
    """Of a network that is to detect one thing: when it says so."""

    threshold: Annotated[
        float | None, detection_option(help="Accept above it; of classes the score less the highest other is compared.")
    ] = None
    false_accepts: Annotated[
        str | None, detection_option(help="Find the threshold with at most so many: 5/1000 windows, or 2/hour.")
    ] = None
    hop: Annotated[
        float | None, detection_option(help="Seconds from one sample to the next, which are a stream.", min=1e-3)
    ] = None
    detect: Annotated[str | None, detection_option(help="The class; the second of two if not given.")] = None
    curve: Annotated[
        Path | None, detection_option(help="CSV: recall and false accepts by threshold, for poet-plan plot.")
    ] = None

    def is_asked(self) -> bool:
        """Whether detection is counted; a `UserError` if what only says more of it stands alone."""
        from poet_profiles.errors import UserError

        asked = any(one is not None for one in (self.threshold, self.false_accepts, self.curve))
        for option, given in (("--hop", self.hop), ("--detect", self.detect)):
            if given is not None and not asked:
                raise UserError(f"{option} {given}: says nothing without --threshold, --false-accepts or --curve")
        return asked


@dataclass(frozen=True)
class ResultFiles:
    """Where a training's results go."""

    out: Annotated[Path | None, results_option("--out", "-o", help="CSV: predicted and observed, row by row.")] = None
    save: Annotated[Path | None, results_option(help=".npz: loss and gradients of every step.")] = None
    trained: Annotated[
        Path | None,
        results_option(help=".safetensors: the state_dict after the last step, read back from the board."),
    ] = None
    as_json: Json = False
