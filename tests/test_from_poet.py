# SPDX-License-Identifier: Apache-2.0
"""docs/from_poet.md: every command runs, and gives what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from poet_profiles.graph.file import read_graph
from poet_profiles.schedule import Action
from poet_profiles.schedule.file import read_schedule

from tests.support import ROOT
from tests.support.programs import poet_plan

PAGE = (ROOT / "docs" / "from_poet.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line)[1:] for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()
]


def test_the_page_has_at_most_sixty_lines() -> None:
    assert len(PAGE.splitlines()) <= 60
    assert len(COMMANDS) == 5


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_runs(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    given = words[: words.index("--out")] if "--out" in words else words
    assert poet_plan(*given, "--time-limit", "2", "--out", tmp_path / "plan") == 0
    schedule = read_schedule(tmp_path / "plan" / "schedule.json")
    done = {step.do for step in schedule.steps}
    if "--no-paging" in words:
        assert Action.PAGE_IN not in done
    if "3000000" in words:
        assert f"{schedule.energy_j:.4f}" == "7.8895"
        assert f"{schedule.energy_j:.4f} J and no pages" in PAGE and Action.PAGE_OUT not in done
        graph = read_graph(ROOT / words[words.index("--graph") + 1])
        assert schedule.deadline_s == pytest.approx(7.6 * sum(node.time_s for node in graph.nodes))


def test_the_python_of_the_page_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With pages ten times as dear the plan costs no less."""
    monkeypatch.chdir(ROOT)
    [block] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, "docs/from_poet.md", "exec"), names)
    first, second = capsys.readouterr().out.split("\n")[:2]
    assert first == "7.8895 J"
    graph, schedule = names["graph"], names["schedule"]
    assert second == f"{schedule.energy_j:.4g} J"  # type: ignore[attr-defined]
    plain = names["optimise"](graph, 5_000)  # type: ignore[operator]
    assert schedule.energy_j >= plain.energy_j * (1 - 1e-9)  # type: ignore[attr-defined]
