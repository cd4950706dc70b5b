# SPDX-License-Identifier: Apache-2.0
"""PlatformIO platform of this repository: builds with the tools at hand before it asks PlatformIO's registry.

A GCC for Arm on the PATH and the pip-installed SCons are used as they are, so that a build needs no network.
Where either is missing, PlatformIO downloads its own package of it.
"""

import json
import shutil
import tempfile
from pathlib import Path

from platformio.dependencies import get_core_dependencies
from platformio.platform.base import PlatformBase

SCONS_LAUNCHER = """import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from SCons.Script.Main import main

main()
"""


class BaremetalPlatform(PlatformBase):
    """Cortex-M boards (an environment with a `board`) and the host (one without)."""

    def __init__(self, manifest_path):
        super().__init__(manifest_path)
        offer_installed_scons(Path(self.config.get("platformio", "packages_dir")))

    @property
    def packages(self):
        packages = dict(super().packages)
        if shutil.which("arm-none-eabi-gcc") or not self.is_embedded():
            packages.pop("toolchain-gccarmnoneeabi", None)
        return packages

    def is_embedded(self):
        return bool(self.project_env and self.config.get(f"env:{self.project_env}", "board", None))


def offer_installed_scons(packages_dir):
    """Presents the importable SCons as PlatformIO's `tool-scons`, where its version is the one asked for."""
    try:
        import SCons
    except ImportError:
        return
    major, minor, patch = (int(part) for part in SCons.__version__.split(".")[:3])
    version = f"{major}.{major}{minor:02d}{patch:02d}.0"
    target = packages_dir / "tool-scons"
    if target.exists() or get_core_dependencies()["tool-scons"] != f"~{version}":
        return
    packages_dir.mkdir(parents=True, exist_ok=True)
    # Prepared aside and renamed: two builds may start at once.
    partial = Path(tempfile.mkdtemp(dir=packages_dir.parent, prefix="tool-scons-"))
    shutil.copytree(Path(SCons.__file__).parent, partial / "SCons", ignore=shutil.ignore_patterns("__pycache__"))
    (partial / "scons.py").write_text(SCONS_LAUNCHER)
    name = {"name": "tool-scons", "version": version}
    (partial / "package.json").write_text(json.dumps({**name, "description": "SCons, as installed by pip"}))
    spec = {"owner": "platformio", "id": None, "name": "tool-scons", "requirements": None, "uri": None}
    (partial / ".piopm").write_text(json.dumps({"type": "tool", **name, "spec": spec}))
    try:
        partial.rename(target)
    except OSError:
        shutil.rmtree(partial)
        if not target.exists():
            raise
