# SPDX-License-Identifier: Apache-2.0
"""docs/bring_up.md: its commands have the options that it names, and its lines of protocol the right checksums."""

from __future__ import annotations

import re
import shlex

import pytest
import typer.main
from poet_harness.cli import app as harness
from poet_planner.cli import app as planner
from poet_profiles.protocol.frame import decode

from tests.support import ROOT

PAGE = (ROOT / "docs" / "bring_up.md").read_text()
COMMANDS = [line.split("#")[0].strip() for line in PAGE.splitlines() if re.match(r"\s{4,}poet-", line)]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_has_its_options(command: str) -> None:
    program, *words = shlex.split(command)
    group = typer.main.get_command(harness if program == "poet-harness" else planner)
    verb = group
    if words and not words[0].startswith("-"):
        verb = group.commands[words.pop(0)]  # type: ignore[attr-defined]
    known = {option for parameter in verb.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_pages_protocol_lines_are_whole() -> None:
    lines = re.findall(r"^ {4}(>\S+ [^*]+\*[0-9a-f]{4})", PAGE, re.MULTILINE)
    assert len(lines) == 3
    assert all(decode(line.encode()) for line in lines)


def test_the_page_has_a_command_for_every_step_that_needs_one() -> None:
    assert len(COMMANDS) >= 10
    assert {shlex.split(command)[1] for command in COMMANDS} >= {"doctor", "boards", "flash", "profile", "run", "data"}
