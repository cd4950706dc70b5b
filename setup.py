# SPDX-License-Identifier: Apache-2.0
"""Puts board descriptions, profiles and the firmware's sources inside the wheel; all else stands in pyproject.toml."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# Folder in the wheel, folder here, and what goes from one into the other.
SHIPPED = (
    ("poet_profiles/shipped", "profiles", ("*.csv", "boards/*.toml", "cells/*.toml")),
    ("poet_harness/project", ".", ("platformio.ini", "firmware/**/*", "profiles/boards/*.toml")),
)


class BuildWithShipped(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for folder, here, patterns in SHIPPED:
            for source in (path for pattern in patterns for path in Path(here).glob(pattern)):
                if source.is_file() and "__pycache__" not in source.parts:
                    target = Path(self.build_lib, folder, source.relative_to(here))
                    self.mkpath(str(target.parent))
                    self.copy_file(str(source), str(target))


setup(cmdclass={"build_py": BuildWithShipped})
