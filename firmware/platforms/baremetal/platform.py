# SPDX-License-Identifier: Apache-2.0
"""PlatformIO platform of this repository: builds with the tools at hand before it asks PlatformIO's registry.

A GCC for Arm on the PATH and the pip-installed SCons are used as they are, so that a build needs no network.
Where either is missing, PlatformIO downloads its own package of it.
"""

import json
import os
import shutil
import tempfile
import tomllib
from pathlib import Path

from platformio.dependencies import get_core_dependencies
from platformio.platform.base import PlatformBase
from platformio.platform.board import PlatformBoardConfig

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

    def get_boards(self, id_=None):
        """Those of profiles/boards that have a chip known here; their files are all that describes them."""
        files = Path(self.get_dir()).resolve().parents[2] / "profiles" / "boards"
        for path in [files / f"{id_}.toml"] if id_ else sorted(files.glob("*.toml")):
            board = described_board(path)
            if board and board.get("chip") and path.stem not in self._BOARDS_CACHE:
                self._BOARDS_CACHE[path.stem] = DescribedBoard(board, Path(self.get_dir()) / "chips")
        return super().get_boards(id_)

    def is_embedded(self):
        return bool(self.project_env and self.config.get(f"env:{self.project_env}", "board", None))


class DescribedBoard(PlatformBoardConfig):
    """PlatformIO's manifest of a board, from the board's file and from what all boards with its chip share."""

    def __init__(self, board, chips):
        self._id = board["name"]
        chip = json.loads((chips / f"{board['chip']}.json").read_text())
        image = board["image"]
        self._manifest = {
            "name": board["title"],
            "vendor": chip["vendor"],
            "url": chip["url"],
            "build": {
                "mcu": board["chip"],
                "cpu": chip["cpu"],
                "f_cpu": f"{board['clock_hz']}L",
                "machine_flags": chip["machine_flags"],
                "folders": chip["folders"],
            },
            "upload": {
                "maximum_size": image["flash_end"] - image["flash_begin"],
                "maximum_ram_size": image["ram_end"] - image["ram_begin"],
                "protocol": "custom",
            },
            "frameworks": [],
            "platform": "baremetal",
            "poet": board,
        }


def described_board(path):
    """A board's file; or the board that poet-harness describes in POET_BOARD, a copy of the user's perhaps."""
    if "POET_BOARD" in os.environ:
        return json.loads(os.environ["POET_BOARD"])
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


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
