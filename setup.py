# SPDX-License-Identifier: Apache-2.0
"""Puts boards, profiles, the firmware's sources and two libraries into the wheel; the rest: pyproject.toml.

The libraries, the optimiser's engine and the firmware's operators for this platform, know nothing of Python: one wheel
for each platform serves all versions of it. With `POET_NO_ENGINE=1` the wheel is for all platforms, and they are
compiled where it is used.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

sys.path.insert(0, "profiles")
from poet_profiles.firmware import compiled_operators
from poet_profiles.native import NativeError, build, file_name

# Folder in the wheel, folder here, and what goes from one into the other.
SHIPPED = (
    ("poet_profiles/shipped", "profiles", ("*.csv", "boards/*.toml", "cells/*.toml")),
    ("poet_profiles/project", ".", ("platformio.ini", "firmware/**/*", "profiles/boards/*.toml")),
)
ENGINE = Path("poet_planner/solve/native")
WITH_ENGINE = os.environ.get("POET_NO_ENGINE") != "1"


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
        self._build_library(ENGINE, "engine", sorted(Path("planner", ENGINE).glob("*.[ch]")))
        asked = compiled_operators
        self._build_library(Path("poet_profiles/shipped"), asked.NAME, *asked.sources(), asked.COMPILE_FLAGS)

    def _build_library(
        self,
        folder: Path,
        name: str,
        sources: Sequence[Path],
        included: Sequence[Path] = (),
        flags: Sequence[str] = (),
    ) -> None:
        """Build it, and remove those that an earlier build left."""
        wanted = Path(self.build_lib, folder, file_name(name, [*sources, *included])).resolve()
        for earlier in wanted.parent.glob("*.so"):
            earlier.unlink()
        if WITH_ENGINE:
            try:
                build(wanted, sources, flags)
            except NativeError as error:
                sys.exit(f"error: the library {name}: {error}, or set POET_NO_ENGINE=1 for a wheel without it")


class WithEngine(Distribution):
    def has_ext_modules(self) -> bool:
        return WITH_ENGINE


class WheelForAllVersions(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


setup(distclass=WithEngine, cmdclass={"build_py": BuildWithShipped, "bdist_wheel": WheelForAllVersions})
