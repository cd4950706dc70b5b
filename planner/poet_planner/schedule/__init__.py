# SPDX-License-Identifier: Apache-2.0
"""The schedule (`poet_profiles.schedule`), and what is done with it: verified, laid out in time, as C headers."""

from poet_profiles.schedule import Action, Schedule, Status, Step
from poet_profiles.schedule.file import read_schedule, write_schedule

__all__ = ["Action", "Schedule", "Status", "Step", "read_schedule", "write_schedule"]
