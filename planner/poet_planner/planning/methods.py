# SPDX-License-Identifier: Apache-2.0
"""All schedulers by name: the optimiser, and the baselines to compare it with."""

from __future__ import annotations

from poet_profiles.errors import UserError

from poet_planner.baselines import page_all, poet_ilp, store_all
from poet_planner.baselines.method import Method
from poet_planner.solve import optimise

OPTIMAL = Method(
    name="optimal",
    source="poet: simulated annealing, and a lower bound that ends in a proof",
    schedule=optimise,
    recomputes=True,
    pages=True,
    chains_only=False,
    keeps_deadline=True,
)
METHODS = (OPTIMAL, store_all.METHOD, page_all.METHOD, poet_ilp.METHOD)


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
