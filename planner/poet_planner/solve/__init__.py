# SPDX-License-Identifier: Apache-2.0
"""The optimiser: from a costed graph, a RAM budget and a deadline to the schedule of least energy, and a proof.

`problem` puts the graph into arrays; `search` and `annealing` find schedules; `bound` proves how good they are; `paper`
is the optimisation problem as the POET paper prints it; `decode` and `arena` make steps with addresses.
"""

from poet_planner.solve.optimise import optimise
from poet_planner.solve.options import NoScheduleError, OptimiseOptions, Progress

__all__ = ["NoScheduleError", "OptimiseOptions", "Progress", "optimise"]
