# SPDX-License-Identifier: Apache-2.0
"""``poet-harness doctor``: what is missing on this computer, and how to get it."""

from __future__ import annotations

from .options import Json

NAME = "doctor"


def command(as_json: Json = False) -> None:
    """Check the tools and packages that the harness uses, and say how to get what is missing."""
    from ..checks import checks

    if as_json:
        from dataclasses import asdict

        from poet_profiles.program.json_output import print_json

        print_json([asdict(check) for check in checks()])
        return
    missing = 0
    for check in checks():
        print(f"{'ok     ' if check.present else 'MISSING'}  {check.name}: {check.found or check.needed_for}")
        if not check.present:
            missing += 1
            print(f"         get it: {check.cure}")
    print(f"{missing} missing" if missing else "nothing is missing")
