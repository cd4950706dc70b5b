# SPDX-License-Identifier: Apache-2.0
"""The levels of tests stay within their processor time, as it was measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import ROOT
from tests.support.levels import FAST, PROFILE, REST, Levels, examples
from tests.support.processor_time import read

pytest_plugins = ["pytester"]

LEVELS = ROOT / "tests" / "levels.toml"
MEASURED = ROOT / "tests" / "durations.csv"
MOST_FAST_S, MOST_S = 600, 2_700
# What a file counts until CI's next run measures it.
UNMEASURED_S = 2.0


def test_levels_keep_their_processor_time() -> None:
    rows = read(MEASURED)
    measured = {row.file: row.processor_s for row in rows if row.level == FAST}
    fast_s = sum(measured.get(file, UNMEASURED_S) for file in Levels(LEVELS).files())
    assert fast_s <= MOST_FAST_S, "name the slowest tests among those of the rest in tests/levels.toml"
    assert fast_s + sum(row.processor_s for row in rows if row.level == REST) <= MOST_S


def test_every_entry_names_tests(request: pytest.FixtureRequest) -> None:
    levels = Levels(LEVELS)
    for entry in levels.entries:
        file, _, test = entry.partition("::")
        assert test.partition("[")[0] in (ROOT / file).read_text(encoding="utf-8"), entry
    whole = [Path(argument).resolve() for argument in request.config.args] == [ROOT / "tests"]
    if not whole or request.config.option.keyword or request.config.getoption("--level") == REST:
        pytest.skip("without some of the tests")
    names = "\n".join(f"\n{item.nodeid}[" for item in request.session.items)
    fast = [entry for entry, level in levels.entries.items() if level == FAST]
    assert not [entry for entry in fast if f"\n{entry}::" not in names and f"\n{entry}[" not in names]


def test_the_longest_entry_says_the_level(tmp_path: Path) -> None:
    path = tmp_path / "levels.toml"
    path.write_text('fast = ["a.py", "b.py::test_one[x]"]\nrest = ["a.py::test_two", "a.py::test_three[1]"]\n')
    levels = Levels(path)
    of = {
        name: levels.of(name)
        for name in ("a.py", "a.py::test_one", "a.py::test_two[1]", "a.py::test_three[1]", "a.py::test_three[12]")
    }
    assert list(of.values()) == [FAST, FAST, REST, REST, FAST]
    assert [levels.of(f"b.py::test_one[{case}]") for case in "xy"] == [FAST, REST]
    assert [levels.of(name) for name in ("c.py::test_one", "a.pyx")] == [REST, REST]
    assert levels.files() == {"a.py", "b.py"}


def test_a_quarter_of_the_examples_is_drawn_at_the_fast_level() -> None:
    now = settings.default
    try:
        settings.load_profile(PROFILE)
        assert [examples(count) for count in (150, 2)] == [150, 2]
        settings.load_profile(FAST)
        assert [examples(count) for count in (150, 2)] == [37, 1]
    finally:
        settings.load_profile(FAST if now.max_examples < settings.get_profile(PROFILE).max_examples else PROFILE)


SUITE = """
import time
import pytest

@pytest.fixture(scope="module")
def made():
    spend(0.2)

def spend(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

def test_spends(made):
    spend(0.3)

def test_waits():
    time.sleep(0.5)
"""


def test_processor_time_is_written_a_file_and_a_level(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]")  # so that no folder above is the root
    pytester.makepyfile(test_one=SUITE, test_two="def test_nothing(): pass")
    for level in (FAST, REST):
        pytester.makeconftest(
            "from pathlib import Path\n"
            "from tests.support.processor_time import Measured, Written\n"
            f"def pytest_configure(config):\n"
            "    config.pluginmanager.register(Measured())\n"
            f"    config.pluginmanager.register(Written(Path('durations.csv'), {level!r}))\n"
        )
        pytester.runpytest_inprocess().assert_outcomes(passed=3)
        rows = read(pytester.path / "durations.csv")
    assert [(row.level, row.file, row.tests) for row in rows] == [
        (level, file, tests) for level in (FAST, REST) for file, tests in (("test_one.py", 2), ("test_two.py", 1))
    ]
    one, two = (row.processor_s for row in rows[:2])
    assert 0.5 <= one < 0.9
    assert two < 0.1
