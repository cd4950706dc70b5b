# SPDX-License-Identifier: Apache-2.0
"""`poet-plan solvers`: the MILP solvers that poet can use."""

from __future__ import annotations

from poet_profiles.program.json_output import print_json

from poet_planner.cli.option_groups import Json


def solvers(as_json: Json = False) -> None:
    """List the MILP solvers and whether they are installed here."""

    from poet_planner.solve.milp.solvers import solvers as known

    if as_json:
        print_json([{"name": s.name, "installed": s.available, "state": s.state, "note": s.note} for s in known()])
        return
    for solver in known():
        print(f"{solver.name:8} {solver.state:14} {solver.note}")
