# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: the processor time of each file's tests, with the programs that they run.

Processor time depends less on what else runs than the clock's time does.
"""

from __future__ import annotations

import csv
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest


class Row(NamedTuple):
    """What a file's tests take at a level."""

    level: str
    file: str
    tests: int
    processor_s: float


def _spent_s() -> float:
    """Of this process and of its children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


class Measured:
    """Where tests run: each report carries what its part of the test took."""

    def __init__(self) -> None:
        self.before_s = 0.0

    def pytest_runtest_logstart(self) -> None:
        self.before_s = _spent_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        report = yield
        now_s = _spent_s()
        report.processor_s = now_s - self.before_s
        self.before_s = now_s
        return report


class Written:
    """Where reports arrive: a level's row for each file, in place of those of its last run."""

    def __init__(self, path: Path, level: str) -> None:
        self.path = path
        self.level = level
        self.seconds: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.split("::")[0]
        self.seconds[file] += report.processor_s
        self.tests[file] += report.when == "setup"

    def pytest_sessionfinish(self) -> None:
        rows = [row for row in read(self.path) if row.level != self.level] if self.path.exists() else []
        rows += [Row(self.level, file, self.tests[file], round(self.seconds[file], 2)) for file in self.tests]
        with self.path.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerows([Row._fields, *sorted(rows)])


def read(path: Path) -> list[Row]:
    """Rows of such a table."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Row(row["level"], row["file"], int(row["tests"]), float(row["processor_s"])) for row in csv.DictReader(file)
        ]
