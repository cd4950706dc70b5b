# SPDX-License-Identifier: Apache-2.0
"""Whether a card's batches are as many as the data's."""

from __future__ import annotations

from poet_profiles.errors import UserError


def check_batch_count(card: str, found: int, given: int, steps: int) -> None:
    """Make sure that every step reads the batch that it would read of the data: that of its number, modulo the count.

    Parameters
    ----------
    card : str
        What the message begins with.
    found, given : int
        On the card, and in the data.

    Raises
    ------
    UserError
        If a step would read another.
    """
    if found != given and steps > min(found, given):
        raise UserError(
            f"{card} holds {found} batches, the data {given}: step {min(found, given)} would read another one; give "
            "the data that the card was prepared with, or fewer --steps, or prepare it anew with poet-harness card"
        )
