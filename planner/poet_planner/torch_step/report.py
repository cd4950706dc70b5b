# SPDX-License-Identifier: Apache-2.0
"""What was planned for a step, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from poet_planner.report.quantities import bytes_text, more_text, time_text


@dataclass
class Report:
    """Bytes are what a step allocates beside parameters, buffers, the batch and the optimiser's state.

    Attributes
    ----------
    plain_peak_bytes, plain_time_s : int, float
        Of the step that keeps everything and recomputes nothing, as planned from the same costs.
    budget_bytes : int or None
        What was allowed; None: no limit.
    planned_peak_bytes, planned_time_s : int, float
        Of the compiled step.
    recomputations, planned_out_bytes, planned_in_bytes : int
        Operators that are computed again, and traffic to and from the disk, in each step.
    gap, bound : float
        The plan takes at most `gap` more than any plan can, which takes at least `bound`: seconds, or joules where
        energy is the objective.
    steps : int
        How many have been taken.
    time_s : float or None
        Seconds of the last step; None before the second.
    peak_bytes : int or None
        What PyTorch's allocator counted in one step, the second.
    out_bytes, in_bytes : int
        Traffic of all steps so far.
    retraced : int
        How often the step has been traced again since something in Python had changed that it reads.
    note : str
        What the user should know, or empty.
    slices : int
        In how many the batch is taken. All else is of the batch, but `plain_time_s` of slices that keep everything.
    """

    plain_peak_bytes: int
    plain_time_s: float
    budget_bytes: int | None
    planned_peak_bytes: int
    planned_time_s: float
    recomputations: int
    planned_out_bytes: int
    planned_in_bytes: int
    gap: float
    bound: float
    steps: int = 0
    time_s: float | None = None
    peak_bytes: int | None = None
    out_bytes: int = 0
    in_bytes: int = 0
    retraced: int = 0
    note: str = ""
    slices: int = 1

    def __str__(self) -> str:
        """One line."""
        more = self.planned_time_s / self.plain_time_s - 1 if self.plain_time_s else 0.0
        line = (
            f"{bytes_text(self.planned_peak_bytes)} a step instead of {bytes_text(self.plain_peak_bytes)}, in "
            f"{time_text(self.planned_time_s)} ({more_text(more)})"
        )
        if self.slices > 1:
            line += f", {self.slices} slices"
        if self.recomputations:
            line += f", {self.recomputations} recomputations"
        if self.planned_out_bytes:
            line += f", {bytes_text(self.planned_out_bytes)} to disk and {bytes_text(self.planned_in_bytes)} back"
        if self.peak_bytes is not None:
            line += f"; seen: {bytes_text(self.peak_bytes)}"
        if self.time_s is not None:
            line += f"; the last step took {time_text(self.time_s)}"
        if self.retraced:
            line += f"; traced again {self.retraced} times"
        return f"{line}; {self.note}" if self.note else line
