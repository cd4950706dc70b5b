# SPDX-License-Identifier: Apache-2.0
"""What a reader has to know before relying on a plan's figures."""

from __future__ import annotations

from poet_profiles.plan_folder.summary import Summary

from poet_planner.report.quantities import bytes_text, share_text
from poet_planner.report.table import figures_text, fits_error, more_ram_text, placement_text, smaller_batch_text

# A gap or an error of a fit above this is reported (relative); so is a card that lasts for fewer steps.
OPEN_GAP = 0.001
POOR_FIT = 0.1
SHORT_LIFE_STEPS = 1e6


def cautions(summary: Summary) -> list[str]:
    """A sentence for each; none where there is nothing to say."""
    return [
        *([f"{said[0].upper()}{said[1:]}."] if (said := smaller_batch_text(summary)) else []),
        *([f"{more_ram_text(summary.more_ram)}."] if summary.more_ram else []),
        *_of_the_proof(summary),
        *_of_placement(summary),
        *_of_the_costs(summary),
        *_of_ram_and_card(summary),
    ]


def _of_the_proof(s: Summary) -> list[str]:
    if s.gap <= OPEN_GAP:
        return []
    return [
        f"The plan is not proven to be the best: a better one may spend up to {share_text(s.gap)} less {s.objective}. "
        "A longer --time-limit may find it, or prove more."
    ]


def _of_placement(s: Summary) -> list[str]:
    if s.placement is None:
        return []
    return [f"Placement costs {share_text(s.placement.cost)} {s.objective}: {placement_text(s.placement)}."]


def _of_the_costs(s: Summary) -> list[str]:
    said = []
    if s.energy_share and not s.energy_share.get("measured"):
        bases = ", ".join(f"{share_text(share)} {basis}" for basis, share in s.energy_share.items() if share)
        said.append(f"No energy was measured on a real board: {bases}.")
    if s.source and "measured" not in s.source:
        said.append(f"No energy was measured on a real board: {figures_text(s.source)}.")
    if not s.energy_sensed:
        said.append("Energies are times, multiplied by the powers of the board file: there was no sensor.")
    error = fits_error(s.fits)
    if error is not None and error > POOR_FIT:
        said.append(f"What is predicted is {share_text(error)} off in energy, on average of what each fit predicts.")
    for fit in s.fits:
        part = f"it is {share_text(fit.energy_share)} of the energy"
        if fit.energy_error is None:
            said.append(f"The cost of {fit.operator} rests on one row of the profile; its error is unknown; {part}.")
        elif fit.energy_error > POOR_FIT:
            said.append(f"The fitted cost of {fit.operator} is {share_text(fit.energy_error)} off in energy; {part}.")
    if len(s.firmware) > 1:
        said.append(f"The costs were profiled with {len(s.firmware)} builds of the firmware.")
    return said


def _of_ram_and_card(s: Summary) -> list[str]:
    said = []
    if s.excluded_bytes:
        amount = bytes_text(s.excluded_bytes)
        said.append(f"{amount} of parameters, gradients and state are not counted in the RAM.")
    if s.wear.life_steps is not None and s.wear.life_steps < SHORT_LIFE_STEPS:
        said.append(f"The card lasts for about {float(f'{s.wear.life_steps:.2g}'):,.0f} steps.")
    if s.wear.slow_memory_bytes:
        said.append(
            f"All that is said of a card is in slow memory, {bytes_text(s.wear.slow_memory_bytes)} of it: it ends with "
            "the power, and commits alone go to the card beside it, or to flash (--keep flash)."
        )
    return said
