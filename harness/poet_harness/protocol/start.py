# SPDX-License-Identifier: Apache-2.0
"""Why a device last started, as its ``hello`` says: a fault of the firmware is no loss of power."""

from __future__ import annotations

from dataclasses import dataclass

from .link import Values

WAITED_FOR = {
    1: "the crystal to start",
    2: "the clocks to settle",
    3: "the timer",
    4: "the serial line to send",
    5: "the card's bus",
    6: "a random number",
}
CAUSES = {
    "power": "its supply came up anew",
    "brownout": "its supply sagged",
    "pin": "its reset button or line was used",
    "watchdog": "its watchdog ran out",
    "lockup": "its core locked up: a fault within a fault",
    "request": "software asked for it",
}


@dataclass(frozen=True)
class Start:
    """One start of a device.

    Attributes
    ----------
    cause : str
        A word of docs/SPEC.md, section 6; empty where the device cannot say.
    failures : int
        Faults, overflows and stalls since the power came.
    pc, lr, status : int
        Of a fault; ``status`` is the CFSR of an Armv7-M core. 0 where unknown.
    waited_for : int
        In a stall, what was waited for: a key of ``WAITED_FOR``.
    """

    cause: str = ""
    failures: int = 0
    pc: int = 0
    lr: int = 0
    status: int = 0
    waited_for: int = 0

    @property
    def is_failure(self) -> bool:
        """Whether the firmware itself gave up, and started anew."""
        return self.cause in ("fault", "stack", "stall", "lockup", "watchdog")

    @property
    def words(self) -> str:
        """What happened, as the end of a sentence."""
        if self.cause == "fault":
            return (
                f"a fault at PC 0x{self.pc:08x} (LR 0x{self.lr:08x}, CFSR 0x{self.status:08x}); docs/boards.md, Faults"
            )
        if self.cause == "stack":
            return "its stack grew too far; docs/boards.md, Faults"
        if self.cause == "stall":
            return f"it waited in vain for {WAITED_FOR.get(self.waited_for, f'something numbered {self.waited_for}')}"
        return CAUSES.get(self.cause, "it does not say why (look at its supply)")


def read_start(values: Values) -> Start:
    """From the pairs of a ``hello``."""
    return Start(
        cause=values.get("start", ""),
        failures=values.number("failures", default=0),
        pc=values.number("pc", 16, default=0),
        lr=values.number("lr", 16, default=0),
        status=values.number("status", 16, default=0),
        waited_for=values.number("waited_for", default=0),
    )
