# SPDX-License-Identifier: Apache-2.0
"""A memory layout: where a step's tensors lie and how it is cut, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from poet_planner.graph.streaming import FETCHED_WHOLE, Streaming


class Parameters(StrEnum):
    """Where parameters lie.

    Excluded: nowhere that counts, nor do gradients and optimiser state, as in the POET paper.
    """

    AUTO = "auto"
    RESIDENT = "resident"
    CARD = "card"
    EXCLUDED = "excluded"


class Gradients(StrEnum):
    """Whether gradients have places of their own, are values, or end in early updates."""

    AUTO = "auto"
    RESIDENT = "resident"
    PAGED = "paged"
    EARLY = "early"


class Tiles(StrEnum):
    """Whether operators may be computed in bands: where the RAM needs it, or it is cheaper."""

    AUTO = "auto"
    OFF = "off"


@dataclass(frozen=True)
class Bands:
    """Values above a size are computed in at most so many bands; on the way back those above another are made again."""

    count: int
    above_bytes: int
    again_bytes: int


@dataclass(frozen=True)
class MemoryLayout:
    """Where things lie, and how the step is cut."""

    # Whether gradients have places of their own in RAM, or are values like others: on a Linux board until the step
    # ends, on a microcontroller until they are used. With parameters on the card it says nothing.
    resident_gradients: bool = True
    # Size of the largest parameter that stays in RAM; larger ones lie on the card. None: all stay.
    card_above_bytes: int | None = None
    streaming: Streaming = FETCHED_WHOLE  # which of them are read tile by tile, and which activations are in slices
    counts_parameters: bool = True  # whether parameters, gradients and optimiser state count in RAM
    # Whether a parameter changes as soon as its gradient is done and nothing reads it any more. Nothing is paged.
    early_updates: bool = False
    # In how many parts, one after the other, a batch goes through the network. Above 1 gradients are sums in RAM.
    micro_batches: int = 1
    segments: int = 1  # of how many recurrent layers' steps are; what each keeps for the way back is a value
    bands: Bands | None = None  # what is computed a few rows at a time, with gradients as values or sums
    tiles: int = 1  # in how many tiles the largest value is computed, of rows of a matrix or of channels
    constants_on_card: bool = False  # whether constants for which flash has no room lie on the card, and nothing else
    states_above_bytes: int | None = None  # of parameters above it the states lie on the card, and nothing else
    batch_on_card: bool = True  # whether the batch lies on the card where parameters do
    commit_each: int = 1  # so many steps are made to count together, where parameters lie on the card

    @property
    def is_tiled(self) -> bool:
        """Whether something is computed in bands or tiles."""
        return self.bands is not None or self.tiles > 1

    @property
    def gradients(self) -> str:
        """What gradients are, in a word."""
        if self.micro_batches > 1:
            return "sums"
        if self.early_updates:
            return Gradients.EARLY.value
        return (Gradients.RESIDENT if self.resident_gradients else Gradients.PAGED).value

    @property
    def words(self) -> str:
        """Which form of the step it is."""
        on_card = self.card_above_bytes is not None
        told = ["--parameters card"] * on_card
        told += ["states on the card"] * (self.states_above_bytes is not None)
        told += [f"{self.micro_batches} micro-batches"] * (self.micro_batches > 1)
        told += [f"recurrent layers in {self.segments} segments"] * (self.segments > 1)
        if self.bands is not None:
            told += [f"what is above {self.bands.above_bytes} B in {self.bands.count} bands"]
        told += [f"the largest values in {self.tiles} tiles"] * (self.tiles > 1)
        return ", ".join(told) or f"--gradients {self.gradients}"

    @property
    def details(self) -> str:
        """The same, with what tells apart two forms that have things on the card."""
        if self.states_above_bytes is not None:
            return f"{self.words}: above {self.states_above_bytes} B, in tiles of {self.streaming.tile_bytes} B"
        if self.card_above_bytes is None and not self.constants_on_card:
            return self.words if self.counts_parameters else "--parameters excluded"
        above, tiles, slices = self.streaming.above_bytes, self.streaming.tile_bytes, self.streaming.slices_above_bytes
        told = [
            "" if self.card_above_bytes is None else f"above {self.card_above_bytes} B",
            "fetched whole" if above is None else f"those above {above} B in tiles of {tiles} B",
            "" if slices is None else f"slices above {slices} B",
            "" if self.card_above_bytes is None or self.batch_on_card else "batch in RAM",
        ]
        return f"{self.words}{', constants on the card' * self.constants_on_card}: {', '.join(filter(None, told))}"


GRADIENTS_RESIDENT = MemoryLayout()
GRADIENTS_PAGED = MemoryLayout(resident_gradients=False)
GRADIENTS_EARLY = MemoryLayout(resident_gradients=False, early_updates=True)
PARAMETERS_EXCLUDED = MemoryLayout(counts_parameters=False)
