# SPDX-License-Identifier: Apache-2.0
"""poet's planner as a library: docs/library.md has worked examples.

`plan` goes from a model and a board's profile to a verified training schedule. `optimise` and `verify` work on any
costed graph. `compile` makes a training step of a PyTorch module that stays within a budget of RAM
(docs/pytorch.md). `place` gives offsets to any blocks in a memory of a given size. What a name needs (PyTorch, Pyomo)
is imported when the name is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from poet_planner.graph import Graph
    from poet_planner.graph.optimizer import Optimizer
    from poet_planner.models import Model
    from poet_planner.placement import Places, place
    from poet_planner.planning.pipeline import plan
    from poet_planner.planning.plan import Plan
    from poet_planner.schedule import Schedule
    from poet_planner.schedule.verify import verify
    from poet_planner.solve import NoScheduleError, OptimiseOptions, optimise
    from poet_planner.solve.milp.pyomo_model import pyomo_of
    from poet_planner.torch_step.compiling import compile

__all__ = [
    "Graph",
    "Model",
    "NoScheduleError",
    "OptimiseOptions",
    "Optimizer",
    "Places",
    "Plan",
    "Schedule",
    "compile",
    "optimise",
    "place",
    "plan",
    "pyomo_of",
    "verify",
]

_HOMES = {
    "Graph": "poet_planner.graph",
    "Model": "poet_planner.models",
    "NoScheduleError": "poet_planner.solve",
    "OptimiseOptions": "poet_planner.solve",
    "Optimizer": "poet_planner.graph.optimizer",
    "Places": "poet_planner.placement",
    "Plan": "poet_planner.planning.plan",
    "Schedule": "poet_planner.schedule",
    "compile": "poet_planner.torch_step.compiling",
    "optimise": "poet_planner.solve",
    "place": "poet_planner.placement",
    "plan": "poet_planner.planning.pipeline",
    "pyomo_of": "poet_planner.solve.milp.pyomo_model",
    "verify": "poet_planner.schedule.verify",
}

# Type checkers see the imports above, and no attribute that is not there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
