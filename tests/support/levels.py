# SPDX-License-Identifier: Apache-2.0
"""Two levels of tests: the fast one, which `make test` runs, and the rest.

tests/levels.toml has a list of each: files, tests of them, and cases of tests. The longest entry that a test's name
begins with says at which level it runs; without one it is in the rest. Tests whose examples hypothesis draws are in
both if they are in the fast one, where they have a quarter of them.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from hypothesis import settings

FAST, REST = "fast", "rest"
PROFILE = "poet"
EXAMPLES = 100

# No test depends on how fast the machine is: an example may take as long as it takes.
settings.register_profile(PROFILE, deadline=None, max_examples=EXAMPLES)
settings.register_profile(FAST, deadline=None, max_examples=EXAMPLES // 4)


def examples(count: int) -> int:
    """How many to draw with the profile that is loaded: a quarter at the fast level."""
    return max(1, count * settings.default.max_examples // EXAMPLES)


class Levels:
    """The entries of a file, each with its level."""

    def __init__(self, path: Path) -> None:
        lists = tomllib.loads(path.read_text(encoding="utf-8"))
        self.entries = {entry: level for level in (FAST, REST) for entry in lists[level]}

    def of(self, test: str) -> str:
        """The level of a test, by its whole name, or of a file."""
        ends = [match.start() for match in re.finditer(r"::|\[|$", test)]
        names = [test[:end] for end in reversed(ends)]
        return next((self.entries[name] for name in names if name in self.entries), REST)

    def files(self) -> set[str]:
        """Those with tests of the fast level."""
        return {entry.split("::")[0] for entry, level in self.entries.items() if level == FAST}
