# SPDX-License-Identifier: Apache-2.0
"""What a step with parameters on the card has in RAM piece by piece: weights in tiles, activations in slices."""

from __future__ import annotations

from dataclasses import dataclass

TILE_BYTES = 8192  # of weights, or of their gradient, at a time
MOST_SLICES = 16  # a layer between two sliced values is as many operators as the product of both numbers


@dataclass(frozen=True)
class Streaming:
    """Which kept tensors are read tile by tile, and in tiles of how many bytes at most, if a tile can be so small.

    ``above_bytes`` is the size of the largest tensor that is still fetched whole; None: all are. Likewise
    ``slices_above_bytes`` is that of the largest value that no slices are made of.
    """

    above_bytes: int | None = None
    tile_bytes: int = TILE_BYTES
    slices_above_bytes: int | None = None


FETCHED_WHOLE = Streaming()
