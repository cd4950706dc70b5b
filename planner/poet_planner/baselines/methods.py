# SPDX-License-Identifier: Apache-2.0
"""All baselines, by name."""

from __future__ import annotations

from poet_profiles.errors import UserError

from poet_planner.baselines import poet_ilp, store_all
from poet_planner.baselines.method import Method

METHODS = (store_all.METHOD, poet_ilp.METHOD)


def method_named(name: str) -> Method:
    """The baseline of that name.

    Raises
    ------
    UserError
        If there is none.
    """
    for method in METHODS:
        if method.name == name:
            return method
    raise UserError(f"no method {name!r}; there are {', '.join(method.name for method in METHODS)}")
