# SPDX-License-Identifier: Apache-2.0
"""What `make` installs: little for the demo, more for the tests; and what it does when a part fails."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from poet_harness.checks import PROGRAMS

from tests.support import ROOT

DEMO, TESTS = "debian-packages-demo.txt", "debian-packages-tests.txt"


def packages(name: str) -> list[str]:
    return [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]


def script(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def would_run(target: str, venv: Path) -> list[list[str]]:
    """The installers' command lines, where nothing is installed yet."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    dry = ["make", "--dry-run", f"VENV={venv}", target]
    run = subprocess.run(dry, cwd=ROOT, env=clean, capture_output=True, text=True, check=True)
    return [shlex.split(line) for line in run.stdout.splitlines() if line.startswith("./install-")]


def test_the_demo_installs_nothing_that_only_tests_need(tmp_path: Path) -> None:
    assert would_run("demo", tmp_path) == [
        ["./install-debian-packages", DEMO],
        ["./install-python-packages", "emulator,demo"],
    ]
    # What the harness itself asks for to build the firmware and the emulator's hook.
    asked = {package for name, _, cure in PROGRAMS if "gcc" in name for package in cure.split()[2:]}
    assert set(packages(DEMO)) == asked


@pytest.mark.parametrize("target", ["setup", "unit", "lint-types", "notebooks"])
def test_the_tests_install_both_lists(target: str, tmp_path: Path) -> None:
    assert would_run(target, tmp_path) == [
        ["./install-debian-packages", DEMO, TESTS],
        ["./install-python-packages", "emulator,demo,dev"],
    ]
    assert not set(packages(DEMO)) & set(packages(TESTS))


def test_the_page_on_installing_names_every_extra() -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r"`\[(\w+)\]`", page)) == set(extras)


class Clone:
    """A folder with the Makefile, whose installers are scripts of the test's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("Makefile", "pyproject.toml", "constraints.txt", DEMO, TESTS):
            shutil.copy(ROOT / name, folder)
        self.debian = folder / "install-debian-packages"
        self.python = folder / "install-python-packages"
        script(folder / ".venv" / "bin" / "python", "exit 0")

    def set_up(self, *arguments: str) -> bool:
        """Whether make ended well; then the stamp is there, else it is not."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        run = subprocess.run(["make", ".venv/.set-up", *arguments], cwd=self.folder, env=clean, capture_output=True)
        assert (self.folder / ".venv" / ".set-up").exists() == (run.returncode == 0)
        return run.returncode == 0


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_both_are_installed_at_the_same_time(clone: Clone) -> None:
    # Each ends once the other has begun.
    wait = "for i in $(seq 600); do [ -e {other} ] && exit 0; sleep 0.1; done; exit 1"
    script(clone.debian, "touch debian", wait.format(other="python"))
    script(clone.python, "touch python", wait.format(other="debian"))
    assert clone.set_up()


@pytest.mark.parametrize(("debian", "python"), [(0, 1), (1, 0), (1, 1)])
def test_neither_may_fail(debian: int, python: int, clone: Clone) -> None:
    script(clone.debian, f"exit {debian}")
    script(clone.python, f"exit {python}")
    assert not clone.set_up()
    script(clone.debian, "exit 0")
    script(clone.python, "exit 0")
    assert clone.set_up()


def test_a_virtual_environment_waits_for_debians_package_where_python_makes_none(clone: Clone) -> None:
    python = script(clone.folder / "debians-python", "exit 1")
    script(clone.debian, "sleep 0.5; touch installed")
    script(clone.python, "[ -e installed ]")
    assert clone.set_up(f"PYTHON={python}")


class Installer:
    """install-python-packages, where uv and the environment's Python write down how they are called."""

    def __init__(self, folder: Path) -> None:
        self.log, self.venv, self.bin = folder / "log", folder / "venv", folder / "bin"
        self.bin.mkdir()
        for tool in ("bash", "dirname", "env", "grep"):
            (self.bin / tool).symlink_to(str(shutil.which(tool)))
        self.with_pip_told("timeout='60'")

    def with_pip_told(self, setting: str) -> Installer:
        answer = f'[ "$*" != "-m pip config list" ] || echo "global.{setting}"'
        script(self.venv / "bin" / "python", f'echo "python $*" >> {self.log}', answer)
        return self

    def with_uv(self, exit_code: int) -> Installer:
        script(self.bin / "uv", f'echo "uv $*" >> {self.log}', f"exit {exit_code}")
        return self

    def installs(self, **variables: str) -> list[str]:
        subprocess.run(
            [ROOT / "install-python-packages", "emulator,demo"],
            env={"PATH": str(self.bin), "VENV": str(self.venv), **variables},
            capture_output=True,
            check=True,
        )
        return [line for line in self.log.read_text().splitlines() if " install " in line]


@pytest.fixture
def installer(tmp_path: Path) -> Installer:
    return Installer(tmp_path)


@pytest.mark.parametrize("index", ["", "https://example.org/cpu"])
def test_pip_installs_without_bytecode_from_one_index_more_if_that_is_given(index: str, installer: Installer) -> None:
    (line,) = installer.installs(TORCH_INDEX=index)
    assert line.startswith("python -m pip install") and "--no-compile" in line
    assert line.endswith("-c constraints.txt -e .[emulator,demo]")
    assert ("--extra-index-url https://example.org/cpu" in line) == bool(index)
    assert ("index" in line) == bool(index)


def test_another_file_of_versions_stands_for_the_tested_ones(installer: Installer) -> None:
    (line,) = installer.installs(CONSTRAINTS="/dev/null")
    assert line.endswith("-c /dev/null -e .[emulator,demo]")


def test_the_newest_releases_are_installed_apart_from_the_tested_ones(clone: Clone) -> None:
    script(clone.debian, "exit 0")
    script(clone.python, "mkdir -p $VENV/bin", 'echo "$VENV $CONSTRAINTS $1" > installed')
    script(clone.folder / "build" / "newest" / "bin" / "python", "exit 1")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    run = subprocess.run(["make", "newest"], cwd=clone.folder, env=clean, capture_output=True, text=True)
    assert (clone.folder / "installed").read_text() == "build/newest /dev/null emulator,demo,dev\n"
    assert "build/newest/bin/python -m pytest" in run.stdout and run.returncode  # that Python has gone


def test_the_readme_names_the_releases_that_the_tests_passed_with() -> None:
    passed = (ROOT / "tests" / "newest" / "passed.txt", ROOT / "constraints.txt")
    newest, tested = (re.search(r"(?m)^torch==([0-9.]+)", file.read_text()) for file in passed)
    sentence = re.search(r"Tests passed with PyTorch ([^,]*, .*? and\s+[0-9.]+),", (ROOT / "README.md").read_text())
    assert newest and tested and sentence
    assert sentence[1].split()[-1] == newest[1] and f" {tested[1]} " in f" {sentence[1]} "


def test_uv_installs_the_same_where_it_is_on_path(installer: Installer) -> None:
    (line,) = installer.with_uv(0).installs(TORCH_INDEX="https://example.org/cpu")
    assert line.startswith("uv pip install")
    assert line.endswith("--extra-index-url https://example.org/cpu -c constraints.txt -e .[emulator,demo]")


def test_pip_installs_where_it_is_told_of_an_index_that_uv_would_not_read(installer: Installer) -> None:
    (line,) = installer.with_uv(0).with_pip_told("extra-index-url='file:///mirror'").installs()
    assert line.startswith("python -m pip install")


def test_pip_installs_what_uv_could_not(installer: Installer) -> None:
    uv, pip = installer.with_uv(1).installs()
    assert uv.startswith("uv pip install") and pip.startswith("python -m pip install")


def test_only_missing_debian_packages_of_the_named_lists_are_installed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    (tmp_path / "list").write_text("# why\nthere\nmissing\n\nnowhere\n")
    script(tmp_path / "dpkg-query", 'for last; do :; done; [ "$last" = there ] && echo installed')
    script(tmp_path / "apt-cache", '[ "$2" != nowhere ]')
    script(tmp_path / "apt-get", f'echo "$*" >> {log}', '[ "$1" = update ] || echo noise')
    script(tmp_path / "id", "echo 0")
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHON": "true"}
    run = subprocess.run(
        [ROOT / "install-debian-packages", tmp_path / "list"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert log.read_text().splitlines()[-1] == "install -y -qq --no-install-recommends missing"
    assert "noise" not in run.stdout + run.stderr
    assert "no Debian package here: nowhere" in run.stderr
    script(tmp_path / "apt-get", "exit 100")
    failed = subprocess.run([ROOT / "install-debian-packages", tmp_path / "list"], env=environment, capture_output=True)
    assert failed.returncode == 100
