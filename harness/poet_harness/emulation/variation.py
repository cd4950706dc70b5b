# SPDX-License-Identifier: Apache-2.0
"""What differs between two boards of one kind, and what a bad one does: the firmware must live with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Cause = Literal["power", "pin", "request", "lockup"]
"""Why a chip comes out of reset."""


@dataclass(frozen=True)
class Variation:
    """One board.

    Attributes
    ----------
    crystal_starts : bool
        False: the crystal that feeds the clocks never does.
    faults : {"stop", "taken"}
        Whether a fault of the CPU ends the emulation with a word about it, or is taken as silicon takes it.
    revision_code : int
        nRF52840: FICR's word after the build code; 5 is F0, the first one whose debug port locks at every reset.
    uicr_approtect : int
        nRF52840: UICR.APPROTECT. 0x5A as tools leave it, 0xFF after an erase.
    """

    crystal_starts: bool = True
    faults: Literal["stop", "taken"] = "stop"
    revision_code: int = 5
    uicr_approtect: int = 0x5A
