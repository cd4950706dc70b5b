# SPDX-License-Identifier: Apache-2.0
"""The harness knows the firmware's error numbers by the names that the firmware gives them."""

from __future__ import annotations

import re

from poet_profiles.protocol.status import Status

from tests.support import ROOT

HEADER = ROOT / "firmware" / "include" / "poet" / "status.h"


def test_status_mirrors_the_header() -> None:
    code = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
    enumeration = re.search(r"typedef enum poet_status \{(.*?)\} poet_status;", code, re.DOTALL)
    assert enumeration is not None
    entries = [entry.split("=") for entry in enumeration.group(1).split(",")]
    found = {name.strip(): int(number) for name, number in entries}
    # What is above 0 is for callers in C, and never in a frame.
    assert {name: number for name, number in found.items() if number <= 0} == {
        f"POET_{s.name}": s.value for s in Status
    }
