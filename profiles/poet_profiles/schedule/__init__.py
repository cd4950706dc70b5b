# SPDX-License-Identifier: Apache-2.0
"""The training schedule, `poet-schedule/1`: its data and its file (docs/SPEC.md, section 4)."""

from poet_profiles.schedule.model import Action, Objective, Schedule, Status, Step

__all__ = ["Action", "Objective", "Schedule", "Status", "Step"]
