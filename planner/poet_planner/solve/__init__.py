# SPDX-License-Identifier: Apache-2.0
"""The optimiser: from a costed graph, a RAM budget and a deadline to the schedule of least energy, and a proof.

`instance` puts the graph into arrays. `search` finds schedules; `relaxation` and `statespace` bound the energy from
below, and `proof` runs them until bound and schedule meet; `placement` gives a schedule its static offsets;
`feasibility` says what would do where nothing fits; `optimise` is the run of them all.
"""

from poet_planner.solve.optimise import optimise
from poet_planner.solve.options import DEFAULT_S, NoScheduleError, OptimiseOptions, Progress
from poet_planner.solve.statistics import Parts, Statistics

__all__ = [
    "DEFAULT_S",
    "NoScheduleError",
    "OptimiseOptions",
    "Parts",
    "Progress",
    "Statistics",
    "optimise",
]
