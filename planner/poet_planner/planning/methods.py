# SPDX-License-Identifier: Apache-2.0
"""All schedulers by name: the optimiser, and the baselines to compare it with."""

from __future__ import annotations

from poet_profiles.errors import UserError

from poet_planner.baselines import (
    ablations,
    capuchin,
    checkmate,
    chen,
    dtr,
    page_activations,
    page_all,
    poet_ilp,
    pofo,
    revolve,
    rotor,
    store_all,
)
from poet_planner.baselines.method import Aware, Method
from poet_planner.solve import optimise

OPTIMAL = Method(
    name="optimal",
    source="poet: simulated annealing, and a lower bound that ends in a proof",
    decides="what to recompute and page, when, and in which order",
    schedule=optimise,
    recomputes=True,
    pages=True,
    keeps_deadline=True,
    general=Aware.YES,
    compute_aware=Aware.YES,
    memory_aware=Aware.YES,
    power_aware=Aware.YES,
)
METHODS = (
    OPTIMAL,
    store_all.METHOD,
    chen.SQRT,
    chen.GREEDY,
    revolve.METHOD,
    checkmate.MILP,
    checkmate.ROUNDED,
    *dtr.METHODS,
    capuchin.METHOD,
    capuchin.HIDDEN_ONLY,
    rotor.METHOD,
    *pofo.METHODS,
    page_activations.METHOD,
    page_all.METHOD,
    ablations.PAGING,
    ablations.REMATERIALIZATION,
    poet_ilp.METHOD,
)


def method_named(name: str) -> Method:
    """The method of that name.

    Raises
    ------
    UserError
        If there is none.
    """
    for method in METHODS:
        if method.name == name:
            return method
    raise UserError(f"no method {name!r}; there are {', '.join(method.name for method in METHODS)}")
