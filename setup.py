"""Puts board descriptions and shipped profiles inside the wheel; everything else stands in pyproject.toml."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PROFILES = Path("profiles")


class BuildWithProfiles(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for source in [*PROFILES.glob("*.csv"), *PROFILES.glob("boards/*.toml")]:
            target = Path(self.build_lib, "poet_profiles", "shipped", source.relative_to(PROFILES))
            self.mkpath(str(target.parent))
            self.copy_file(str(source), str(target))


setup(cmdclass={"build_py": BuildWithProfiles})
