# SPDX-License-Identifier: Apache-2.0
"""Options by their names of the last release: `--strategy` and `--formulation`. They go with the next one."""

from __future__ import annotations

import sys
from typing import Any

from poet_profiles.command_line import Program
from poet_profiles.errors import UserError
from typer import Context

METHODS = {
    "--strategy": {"optimal": "optimal", "store-all": "store_all", "plain": "store_all", "page-all": "page_all"},
    "--formulation": {"best": "optimal", "paper": "poet_ilp"},
}


class Planner(Program):
    """Takes them, too, and says the new name."""

    def make_context(self, info_name: str | None, args: list[str], *given: Any, **named: Any) -> Context:
        return super().make_context(info_name, renamed(args), *given, **named)


def renamed(words: list[str]) -> list[str]:
    """The command line with ``--method`` in their place.

    Raises
    ------
    UserError
        If they name two methods, of which one would be left out.
    """
    kept: list[str] = []
    names: list[str] = []
    left = iter(words)
    for word in left:
        option, sign, value = word.partition("=")
        if option not in METHODS:
            kept.append(word)
            continue
        value = value if sign else next(left, "")
        names.append(METHODS[option].get(value, value))
        print(f"poet-plan: {option} {value} is --method {names[-1]} now", file=sys.stderr)
    chosen = {name for name in names if name != "optimal"}
    also_now = any(word.partition("=")[0] == "--method" for word in kept)
    if len(chosen) > 1 or (names and also_now):
        raise UserError("--strategy and --formulation are --method now: give it once")
    return [*(("--method", chosen.pop()) if chosen else ()), *kept]
