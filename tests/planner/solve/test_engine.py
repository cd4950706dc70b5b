# SPDX-License-Identifier: Apache-2.0
"""The engine: clean C, structs of which Python and C have one idea, and one line where it is not to be had."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import weakref
from collections.abc import Iterator
from dataclasses import fields, make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from poet_planner.solve import engine
from poet_planner.solve.engine import SOURCES, Struct
from poet_planner.solve.instance import Problem, build_problem
from poet_planner.solve.optimise import optimise
from poet_planner.solve.search.evaluation import evaluate, new_workspace
from poet_profiles.errors import BAD_INPUT, UserError
from poet_profiles.graph import Graph, Node, Value
from poet_profiles.native import FLAGS, file_name

from tests.support import ROOT
from tests.support.levels import FAST

WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wmissing-prototypes")
GRAPH = Graph("two", (Node("a", 1.0, 1.0, (Value("x", 8),)), Node("b", 2.0, 1.0, (Value("y", 4),), ("x",))))
GRAPH_FILE = ROOT / "benchmarks" / "planner" / "paper-graphs" / "linear.m4.json"


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_it_is_clean_c(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    files = [str(source) for source in SOURCES if source.suffix == ".c"]
    assert files
    command = [compiler, *FLAGS, *WARNINGS, *files, "-lm", "-o", str(tmp_path / "engine.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def problem_with(names: list[str], **others: object) -> Any:
    """A problem as a class that has these fields."""
    problem = build_problem(GRAPH, 64, None)
    values = {name: getattr(problem, name, 0) for name in names} | others
    return make_dataclass("Problem", names, bases=(Struct,), frozen=True, eq=False)(**values)


NAMES = [field.name for field in fields(Problem)]


@pytest.mark.parametrize(
    ("names", "odd"),
    [
        ([*NAMES, "colour"], "colour"),
        ([name for name in NAMES if name != "taken"], "taken"),
        ([NAMES[1], NAMES[0], *NAMES[2:]], "the order"),
    ],
)
def test_a_field_on_one_side_alone_is_named(names: list[str], odd: str) -> None:
    events = np.arange(2)
    work = new_workspace(build_problem(GRAPH, 64, None), np.ones(1, dtype=np.uint64))
    assert evaluate(problem_with(NAMES), events, 2, work).energy == 2.0
    with pytest.raises(
        ctypes.ArgumentError, match=rf"ImportError: the engine's struct problem and Problem differ: {odd}$"
    ):
        evaluate(problem_with(names), events, 2, work)


@pytest.mark.parametrize("wrong", [np.zeros(2, dtype=np.float32), np.zeros(2, dtype=np.int64), np.zeros(4)[::2]])
def test_an_array_that_c_would_misread_is_refused(wrong: np.ndarray[Any, Any]) -> None:
    problem = problem_with(NAMES, node_time=wrong)
    work = new_workspace(problem, np.ones(1, dtype=np.uint64))
    with pytest.raises(ctypes.ArgumentError, match=r"problem\.node_time has to be a contiguous array of float64"):
        evaluate(problem, np.arange(2), 2, work)


def test_an_array_lives_as_long_as_its_address() -> None:
    made = np.arange(5)
    gone, address = weakref.ref(made), engine.ints(made)
    del made
    assert gone() is not None
    del address
    assert gone() is None


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No engine in the cache, and none that was loaded."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    engine.library.cache_clear()
    yield
    engine.library.cache_clear()


def test_without_a_compiler_there_is_one_line(nowhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "nothing")
    with pytest.raises(UserError, match=r"^the optimiser is not compiled here[^\n]* no C compiler \(nothing;[^\n]*$"):
        optimise(GRAPH, 64)


def test_a_compiler_that_fails_is_named(nowhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "cc -include missing.h")
    with pytest.raises(UserError, match=r"cc -include missing.h failed: [^\n]*error: [^\n]*$"):
        optimise(GRAPH, 64)


def test_a_wheels_library_that_does_not_load_here_is_built_instead(
    nowhere: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was built on a newer system asks for a newer C library; one of other sources has another name."""
    monkeypatch.setattr(engine, "NATIVE", tmp_path)
    (tmp_path / file_name("engine", engine.SOURCES)).write_bytes(b"no library")
    (tmp_path / file_name("engine", engine.SOURCES[1:])).write_bytes(b"no library either")
    assert Path(engine.library()._name).is_relative_to(tmp_path / "cache")
    assert optimise(GRAPH, 64).energy_j > 0


def test_on_the_command_line_too(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from poet_planner.cli import main; main()", "--graph", GRAPH_FILE, "--ram", "60%"]
    environment = os.environ | {"CC": "nothing", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == BAD_INPUT
    assert re.fullmatch(r"poet-plan: the optimiser is not compiled here, .*no C compiler.*\n", done.stderr)


# Tests that run the engine, and little else, with a quarter of their examples; of the long ones some cases.
KERNELS = {
    "search": ["annealing", "crossover", "delta_evaluation", "evaluation", "eviction", "orders"],
    "placement": ["first_fit"],
    "statespace": ["abstraction", "aggregation", "astar", "retained_sets"],
    "relaxation": ["cover_cuts"],
}
QUARTER = f"--hypothesis-profile={FAST}"
SOME_CASES = {"search": ("-k", "[1 or not ["), "statespace": ("-k", "[0] or not [")}


@pytest.fixture(scope="module")
def sanitized() -> dict[str, str]:
    """The environment in which the engine is built and run under sanitizers."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    runtimes = [
        subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    return os.environ | {
        "CC": "gcc -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g",
        "LD_PRELOAD": " ".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0",
    }


@pytest.mark.parametrize("part", KERNELS)
def test_it_is_clean_under_sanitizers(part: str, sanitized: dict[str, str]) -> None:
    files = [f"tests/planner/solve/{part}/test_{name}.py" for name in KERNELS[part]]
    chosen = [*SOME_CASES.get(part, ()), QUARTER, *files]
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *chosen]
    done = subprocess.run(command, cwd=ROOT, env=sanitized, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def test_sanitizers_see_a_read_beyond_an_array(sanitized: dict[str, str]) -> None:
    code = """
import numpy as np
from poet_planner.solve.placement.first_fit import _first_fit
one = np.ones(100, dtype=int)
_first_fit(np.arange(100), np.zeros(99, dtype=int), one, one, np.zeros_like(one))
"""
    done = subprocess.run([sys.executable, "-c", code], env=sanitized, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
    assert "first_fit.c" in done.stderr
