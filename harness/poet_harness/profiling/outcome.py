# SPDX-License-Identifier: Apache-2.0
"""What a profile run did, and what of it a user has to know."""

from __future__ import annotations

from dataclasses import dataclass, field

from .configurations import Configuration


@dataclass(frozen=True)
class Closing:
    """What the rows of a network add up to, as a share of its whole step; the energy's is None without a sensor."""

    network: str
    time: float
    energy: float | None


@dataclass
class Outcome:
    """What a profile run did.

    Parameters
    ----------
    written : int
        Rows.
    skipped : list
        Configurations that the board cannot run, with the reason.
    resets : int
        How often the board was reset meanwhile.
    drift : float
        How much more time or energy the first operator took when it was measured again at the end: a board that grew
        hot, or changed its clock.
    unsteady : list
        Configurations in whose row the board's own sensors show drift, every time they were measured, with its words.
    temperatures_c : tuple of float
        Lowest and highest of the run; empty for a board without such a sensor.
    past_the_meter : list
        Page transfers whose rows were refused, with what they drew: the card's current is not in the measurement.
    coarse : list
        Configurations whose power is within a few steps of the meter, with that power; their rows are marked.
    below_idle : list
        Configurations that drew less than the sleeping board; their rows have an energy of zero.
    closings : list
        Of each network whose whole step was measured, by an agent.
    through_cache : bool
        Whether pages went through the cache of the board's kernel, as its file system takes no direct transfers.
    """

    written: int = 0
    skipped: list[tuple[Configuration, str]] = field(default_factory=list)
    resets: int = 0
    drift: float = 0.0
    unsteady: list[tuple[Configuration, str]] = field(default_factory=list)
    temperatures_c: tuple[float, ...] = ()
    past_the_meter: list[tuple[Configuration, str]] = field(default_factory=list)
    coarse: list[tuple[Configuration, str]] = field(default_factory=list)
    below_idle: list[Configuration] = field(default_factory=list)
    closings: list[Closing] = field(default_factory=list)
    through_cache: bool = False
