# SPDX-License-Identifier: Apache-2.0
"""An installed wheel alone, in an empty folder: boards, profiles, and the firmware's sources, built and emulated."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from poet_profiles.boards import board_names
from poet_profiles.cells import cell_names
from poet_profiles.profile import read_profile

from tests.support import ROOT, needs

NEEDED = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "profiles", "harness", "planner", "firmware")
ENGINE = Path("poet_planner/solve/native")
PROJECT = Path("poet_profiles/project")


def built(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A wheel of this source tree is built in a folder, in ``wheels/``."""
    sources = folder / "sources"
    sources.mkdir()
    for name in (*NEEDED, "platformio.ini"):
        (sources / name).symlink_to(ROOT / name)
    build = [sys.executable, "-c", "from setuptools import setup; import runpy; runpy.run_path('setup.py')"]
    options = ["egg_info", "--egg-base", str(folder), "bdist_wheel", "-d", str(folder / "wheels")]
    return subprocess.run(
        [*build, "-q", *options], cwd=sources, env=os.environ | environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    done = built(folder)
    assert done.returncode == 0, done.stderr
    [wheel] = (folder / "wheels").iterdir()
    return wheel


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the wheel installs, in a folder of its own."""
    installed = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    return installed


def call(site: Path, folder: Path, code: str, given: bytes = b"") -> str:
    """What the code prints, run in a folder with the wheel's packages and nothing of the source tree's."""
    own = {str(ROOT / name) for name in ("", "harness", "planner", "profiles")}
    path = [str(site), *(entry for entry in sys.path if entry not in own)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    for name in ("PLATFORMIO_CORE_DIR", "PLATFORMIO_BUILD_DIR"):
        environment.pop(name, None)
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {path!r}\n{code}"]
    done = subprocess.run(command, cwd=folder, env=environment, input=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_its_packages_are_inside_and_nothing_else(site: Path) -> None:
    """No tests and no benchmarks, which are packages too."""
    folders = {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")}
    assert folders == {"poet_harness", "poet_planner", "poet_profiles", "poet_runtime"}


def test_boards_and_profiles_are_inside(site: Path, tmp_path: Path) -> None:
    code = "from poet_profiles.boards import *; print(len(board_names()), load_board('mkr1000').clock_hz)"
    assert call(site, tmp_path, code).split() == [str(len(board_names())), "48000000"]
    assert call(site, tmp_path, "from poet_profiles.cells import *; print(*cell_names())").split() == cell_names()


def test_type_checkers_find_the_types(site: Path) -> None:
    for package in ("poet_harness", "poet_planner", "poet_profiles", "poet_runtime"):
        assert (site / package / "py.typed").is_file()


def test_its_engine_is_for_the_platform_and_any_python(wheel: Path, site: Path, tmp_path: Path) -> None:
    """It is taken as it is: no compiler is needed, and nothing comes into the cache."""
    assert re.fullmatch(r"poet_edge-[^-]+-py3-none-(?!any)\w+\.whl", wheel.name)
    code = "import os; os.environ['CC'] = 'nothing'; from poet_planner.solve.engine import *; print(library()._name)"
    [engine] = (site / ENGINE).glob("*.so")
    assert call(site, tmp_path, code).split() == [str(engine)]
    assert not list((tmp_path / "cache").rglob("*.so"))


def test_the_firmware_is_asked_without_a_compiler(site: Path, tmp_path: Path) -> None:
    code = "import os; os.environ['CC'] = 'nothing'; from poet_profiles.firmware.operators import *; "
    assert call(site, tmp_path, code + "print(OPERATORS['softmax'].sizes({'m': 1, 'n': 3}).outputs)") == "(12,)\n"
    assert not list((tmp_path / "cache").rglob("*.so"))


def test_sources_of_the_engine_are_inside(site: Path) -> None:
    for source in (ROOT / "planner" / ENGINE).glob("*.[ch]"):
        assert (site / ENGINE / source.name).read_bytes() == source.read_bytes()


def test_an_engine_of_other_sources_is_not_taken(site: Path, tmp_path: Path) -> None:
    changed = tmp_path / "site"
    shutil.copytree(site, changed)
    (changed / ENGINE / "engine.h").open("a").write("/* changed */\n")
    code = "from poet_planner.solve.engine import *; print(library()._name)"
    assert call(changed, tmp_path, code).startswith(str(tmp_path / "cache"))


def test_a_wheel_without_an_engine_is_for_all_platforms(tmp_path: Path) -> None:
    assert built(tmp_path, POET_NO_ENGINE="1", CC="nothing").returncode == 0
    [wheel] = (tmp_path / "wheels").iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert f"{ENGINE}/engine.h" in names
    assert not [name for name in names if name.endswith(".so")]


def test_no_wheel_is_built_without_a_compiler_by_mistake(tmp_path: Path) -> None:
    done = built(tmp_path, CC="nothing")
    assert done.returncode == 1
    assert re.fullmatch(r"error: .*no C compiler \(nothing.*POET_NO_ENGINE=1.*", done.stderr.strip().splitlines()[-1])
    assert "Traceback" not in done.stderr


ALONE = """
import importlib.abc, runpy
class Nothing(importlib.abc.MetaPathFinder):
    needed = {"numpy", "torch", "poet_profiles", "poet_runtime"}
    others = {"pydantic", "pandas", "serial", "typer", "rich", "pyomo", "matplotlib", "platformdirs",
              "safetensors", "joblib", "highspy", "poet_harness", "poet_planner"}
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in self.others:
            raise ImportError(f"a board has no {name}")
sys.meta_path.insert(0, Nothing())
sys.argv = ["poet-agent", "--threads", "1"]
runpy.run_module("poet_runtime.agent", run_name="__main__")
"""


def test_the_agent_needs_torch_and_numpy_alone(site: Path, tmp_path: Path) -> None:
    from poet_profiles.protocol.frame import decode, encode

    requests = ["hello", "page out 4096 2 sequential", "times 0 2"]
    lines = b"".join(encode(">", number, text) for number, text in enumerate(requests))
    answers = [decode(line) for line in call(site, tmp_path, ALONE, lines).encode().splitlines()]
    assert [answer.text.split()[0] for answer in answers if answer] == ["ack", "ok"] * 3
    assert answers[1] is not None and " threads=1 " in answers[1].text


def test_the_page_of_a_report_is_inside(site: Path) -> None:
    template = Path("poet_planner") / "report" / "plan.html"
    assert (site / template).read_bytes() == (ROOT / "planner" / template).read_bytes()


def test_every_source_of_the_firmware_is_inside(site: Path) -> None:
    tracked = subprocess.run(["git", "ls-files", "firmware"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in ("platformio.ini", *tracked.stdout.split()):
        if (ROOT / name).is_file():
            assert (site / PROJECT / name).read_bytes() == (ROOT / name).read_bytes()


def test_the_compiled_half_of_the_emulation_is_inside(site: Path) -> None:
    """Without it everything runs all the same, thirty times slower."""
    folder = Path("poet_harness") / "emulation" / "native"
    names = sorted(path.name for path in (ROOT / "harness" / folder).iterdir())
    assert "machine.c" in names
    assert sorted(path.name for path in (site / folder).iterdir()) == names


@needs.emulator
def test_the_firmware_is_built_and_emulated_in_an_empty_folder(site: Path, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("op,params\nrelu,size=64\n")
    arguments = ["profile", "--board", "nrf52840", "--emulate", "--quick", "--configs", "c.csv", "--out", "p.csv"]
    call(site, tmp_path, f"sys.argv[1:] = {arguments!r}; from poet_harness.cli import main; main()")
    assert list(read_profile(tmp_path / "p.csv")["op"]) == ["idle", "pointwise"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.csv", "cache", "p.csv"]
