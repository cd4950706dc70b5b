# SPDX-License-Identifier: Apache-2.0
"""docs/bring_up.md: its commands have the options that it names, and its lines of protocol the right checksums."""

from __future__ import annotations

import re
import shlex

import pytest
from poet_profiles.protocol.frame import decode

from tests.support import ROOT
from tests.support.command_options import unknown_options

PAGE = (ROOT / "docs" / "bring_up.md").read_text()
COMMANDS = [line.split("#")[0].strip() for line in PAGE.splitlines() if re.match(r"\s{4,}poet-", line)]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_has_its_options(command: str) -> None:
    assert unknown_options(shlex.split(command)) == set()


def test_the_pages_protocol_lines_are_whole() -> None:
    lines = re.findall(r"^ {4}(>\S+ [^*]+\*[0-9a-f]{4})", PAGE, re.MULTILINE)
    assert len(lines) == 3
    assert all(decode(line.encode()) for line in lines)


def test_the_page_has_a_command_for_every_step_that_needs_one() -> None:
    assert len(COMMANDS) >= 10
    assert {shlex.split(command)[1] for command in COMMANDS} >= {"doctor", "boards", "flash", "profile", "run", "data"}
