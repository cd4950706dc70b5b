# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: the processor time of each test, with the programs that it ran, summed over each file.

Processor time and not the clock's: it is nearly the same beside other busy programs.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

OPTION = "--processor-time"


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
    """Where reports arrive: the sums of all files, in the order of their names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.split("::")[0]
        self.seconds[file] += report.processor_s
        self.tests[file] += report.when == "setup"

    def pytest_sessionfinish(self) -> None:
        rows = [f"{file},{self.tests[file]},{self.seconds[file]:.2f}" for file in sorted(self.tests)]
        self.path.write_text("\n".join(["file,tests,processor_s", *rows, ""]))
