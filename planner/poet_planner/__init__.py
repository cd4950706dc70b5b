# SPDX-License-Identifier: Apache-2.0
"""poet's planner as a library: docs/library.md has worked examples.

`plan` goes from a model and a board's profile to a verified training schedule. `optimise` and `verify` work on any
costed graph. `compile` makes a training step of a PyTorch module that stays within a budget of RAM
(docs/pytorch.md). `place` gives offsets to any blocks in a memory of a given size. What a name needs (PyTorch, Pyomo)
is imported when the name is first used.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from poet_planner.advice.advice import Advice, Search, advise
    from poet_planner.graph import Graph
    from poet_planner.graph.optimizer import Optimizer
    from poet_planner.models import Model
    from poet_planner.placement import Places, place
    from poet_planner.planning.method import Method
    from poet_planner.planning.plan import Plan
    from poet_planner.planning.request import Profiles
    from poet_planner.schedule import Schedule
    from poet_planner.schedule.verify import verify
    from poet_planner.solve import NoScheduleError, OptimiseOptions, optimise
    from poet_planner.solve.milp.pyomo_model import pyomo_of
    from poet_planner.torch_step.compiling import compile

__all__ = [
    "Advice",
    "Graph",
    "Model",
    "NoScheduleError",
    "OptimiseOptions",
    "Optimizer",
    "Places",
    "Plan",
    "Schedule",
    "Search",
    "advise",
    "compile",
    "optimise",
    "place",
    "plan",
    "pyomo_of",
    "verify",
]

_HOMES = {
    "Advice": "poet_planner.advice.advice",
    "Graph": "poet_planner.graph",
    "Model": "poet_planner.models",
    "NoScheduleError": "poet_planner.solve",
    "OptimiseOptions": "poet_planner.solve",
    "Optimizer": "poet_planner.graph.optimizer",
    "Places": "poet_planner.placement",
    "Plan": "poet_planner.planning.plan",
    "Schedule": "poet_planner.schedule",
    "Search": "poet_planner.advice.advice",
    "advise": "poet_planner.advice.advice",
    "compile": "poet_planner.torch_step.compiling",
    "optimise": "poet_planner.solve",
    "place": "poet_planner.placement",
    "pyomo_of": "poet_planner.solve.milp.pyomo_model",
    "verify": "poet_planner.schedule.verify",
}


def plan(
    network: Model | Graph | str | Path,
    *,
    profile: Profiles | None = None,
    board: str | None = None,
    batch: int | None = None,
    ram: int | str | None = None,
    deadline: float | str | None = None,
    parameters: str = "auto",
    gradients: str = "auto",
    micro_batches: int | str = "auto",
    features: int | str = "auto",
    card_above: int | str | None = None,
    stream_above: int | str | None = None,
    optimizer: Optimizer | None = None,
    weights: str | Path | None = None,
    frozen: str | None = None,
    calibrate: str | Path | None = None,
    validate: str | Path | None = None,
    paging: bool = True,
    objective: str | None = None,
    method: str | Method = "optimal",
    options: OptimiseOptions | None = None,
    library: str | None = None,
    stream: int | None = None,
    tiles: str = "auto",
    keep_each: int = 1,
) -> Plan:
    """Plan a training step of least energy, or time, within a RAM budget and a deadline, and verify the plan.

    Parameters
    ----------
    network : Model, str, Graph or Path
        A model of your own (`poet_planner.Model`: a module, its loss and an example batch), which stays as it is; the
        name of a built-in one, or ``module:callable``; or a graph with its costs, or its file (poet-graph/1).
    profile : str or Path, or a sequence of these, optional
        What a model's operators cost: a CSV file or a shipped name. Of several, each fills in missing rows.
    board : str, optional
        Default is the profile's.
    batch : int, optional
        Samples in a step of a model given by name; default is its own.
    ram : int or str, optional
        RAM budget with residents: bytes; ``"256KB"``, or ``"50%"`` of the store-all peak. Default is the board's.
    deadline : float or str, optional
        Most time for a step: seconds; ``"800ms"``, or ``"1.5x"`` the store-all schedule's time. Default is none.
    parameters : str
        ``"resident"``: they, gradients and state count in RAM. ``"card"``: larger ones lie on the card, and the batch
        where RAM has no room. ``"auto"``: in RAM if they fit. ``"excluded"``: not counted, as in the POET paper.
    gradients : str
        ``"resident"``: they have places in RAM. ``"paged"``: they are values, on a Linux board until the step ends.
        ``"early"``: a parameter changes as soon as its gradient is done, on a microcontroller. ``"auto"``: the best.
    micro_batches : int or str
        In how many equal parts a batch goes through a microcontroller; gradients are added up. ``"auto"``: in one,
        unless that does not fit and parts are cheaper, or all that fits.
    features : int or str
        ``"auto"``: where what a frozen part makes of a sample is the same in every epoch, and takes a tenth of a step's
        energy at least, it is kept: the plan is of the head's step, with one beside it that makes features. A number:
        likewise, with room in RAM for so many samples' features. ``"whole"``: one step does all.
    card_above, stream_above : int or str, optional
        Up to this size parameters stay in RAM where others lie on the card (default: 2 KB or 256 bytes), and those on
        the card are fetched whole, and not tile by tile (default: the cheapest).
    optimizer : Optimizer
        What ends a step on a microcontroller: `poet_planner.Optimizer(momentum=0.9)`; default is gradient descent.
    weights : str or Path, optional
        Those of a model given by name; default are its own.
    frozen : str, optional
        ``"int8"``: a microcontroller computes frozen layers in whole numbers of 8 bits.
    calibrate, validate : str or Path, optional
        An .npz with samples for their ranges (default: the model's own), and to compare their answers with f32's.
    paging : bool
        False: as on a board without storage.
    objective : str, optional
        ``"energy"``, or ``"time"``: of all computes and transfers together. Default is that of ``options``.
    method : str or Method
        ``"optimal"``, a baseline (`poet_planner.comparison.registry`), or a `poet_planner.planning.method.Method`.
    options : OptimiseOptions, optional
        Time limit, seed, solver, progress. Default: seed 0, HiGHS, work that takes one core some 7 s. A
        `KeyboardInterrupt` meanwhile makes the best schedule so far the plan, if there is one.
    library : str, optional
        A library of that name is to be made of the plan: what keeps it from that is refused before the search.
    stream, keep_each : int, optional
        The input's axis along which an inference streams, too; how many steps are kept together on the card.
    tiles : str
        ``"off"``: nothing is computed a few rows at a time; default is ``"auto"``, where it is too large.

    Returns
    -------
    Plan
        Verified; `Plan.write` writes its folder.

    Raises
    ------
    NoScheduleError
        If no schedule keeps the limits, or none was found in time: it has what would do.
    UserError
        If something does not exist or go together: one line that names ``poet-plan``'s option, and the cure.
    """
    from poet_profiles.schedule import Objective

    from poet_planner.graph.optimizer import PLAIN
    from poet_planner.planning import pipeline
    from poet_planner.planning.method import OPTIMAL
    from poet_planner.planning.request import Request, named
    from poet_planner.solve import OptimiseOptions

    if isinstance(method, str) and method != OPTIMAL.name:
        from poet_planner.comparison.registry import method_named

        method = method_named(method)
    request = Request(
        network, profile, board, batch, ram, deadline, parameters, gradients, micro_batches, card_above, stream_above,
        optimizer or PLAIN, weights, frozen, calibrate, paging, features=features, stream=stream, tiles=tiles,
        keep_each=keep_each,
    )  # fmt: skip
    options = options or OptimiseOptions(capped=False)
    if objective is not None:
        options = replace(options, objective=named(Objective, objective, "--objective"))
    method, samples = OPTIMAL if isinstance(method, str) else method, None if validate is None else Path(validate)
    return pipeline.plan(request, method, options, library=library, validate=samples)


# Type checkers see the imports above, and no attribute that is not there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
