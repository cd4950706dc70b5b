# SPDX-License-Identifier: Apache-2.0
"""All schedulers by name: the optimiser, and the methods to compare it with."""

from __future__ import annotations

from poet_profiles.errors import UserError

from poet_planner.comparison.methods import (
    ablations,
    capuchin,
    checkmate,
    chen,
    dtr,
    page_activations,
    poet_ilp,
    pofo,
    revolve,
    rotor,
    single_schedules,
)
from poet_planner.planning.method import OPTIMAL, Method

METHODS = (
    OPTIMAL,
    single_schedules.STORE_ALL,
    single_schedules.STORE_ALL_IN_MICRO_BATCHES,
    chen.SQRT,
    chen.GREEDY,
    revolve.METHOD,
    checkmate.MILP,
    checkmate.ROUNDED,
    *dtr.METHODS,
    *capuchin.METHODS,
    rotor.METHOD,
    *pofo.METHODS,
    page_activations.METHOD,
    single_schedules.PAGE_ALL,
    ablations.PAGING,
    ablations.REMATERIALIZATION,
    poet_ilp.METHOD,
)

# What a comparison of all methods leaves out: each is another one of them, made in another way.
BY_NAME_ALONE = (ablations.ALONE, poet_ilp.PAPER)


def method_named(name: str) -> Method:
    """The method of that name, poet's own included.

    Raises
    ------
    UserError
        If there is none.
    """
    for method in (*METHODS, *BY_NAME_ALONE):
        if method.name == name:
            return method
    raise UserError(f"no method {name!r}; there are {', '.join(method.name for method in METHODS)}")
