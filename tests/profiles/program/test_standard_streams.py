# SPDX-License-Identifier: Apache-2.0
"""Every verb of both programs without standard streams, with full ones, without a reader."""

from __future__ import annotations

import importlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import poet_harness.cli
import poet_planner.cli
import pytest
import typer
from poet_profiles.program.standard_streams import lasting_streams
from safetensors.numpy import load_file

from tests.support import needs
from tests.support.programs import poet_harness as harness
from tests.support.programs import poet_plan

pytestmark = needs.gcc

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = {"poet-harness": poet_harness.cli, "poet-plan": poet_planner.cli}
NET = ["--model", "digits_cnn_small", "--batch", "4"]
BOARD = ["--board", "native", "--plan", "plan"]
TRAIN = ["train", *BOARD, "--data", "data.npz", "--samples", "set.npz", "--epochs", "3"]
# Of each verb one use; where there is none here, it is asked for its help.
USES: dict[str, list[str]] = {
    "": ["--profile", "nrf52840", *NET, "--out", "again", "--time-limit", "1"],
    "flash": BOARD,
    "run": [*BOARD, "--data", "data.npz", "--trained", "{}.safetensors"],
    "train": [*TRAIN[1:], "--folder", "{}"],
    "eval": [*BOARD, "--samples", "set.npz", "--weights", "data.npz"],
    "profile": ["--board", "native", "--ops", "fill", "--out", "{}.csv"],
    "diff": ["profile.csv", "slower.csv"],
    "battery": ["--plan", "plan", "--cell", "cr123a"],
    "bootloader": ["--board", "nrf52840"],
    "weights": ["--plan", "plan", "--out", "w.safetensors", "--board", "native"],
    "energy": ["--trace", "none.csv", "--windows", "none.csv"],
    "sweep": ["--profile", "nrf52840", *NET, "--ram", "200KB", "--methods", "store_all", "--out", "{}"],
    "compare": ["--profile", "nrf52840", *NET, "--ram", "200KB", "--methods", "store_all"],
    "report": ["plan"],
    "plot": ["none.csv"],
    "verify": ["plan/graph.json", "plan/schedule.json"],
    "check": ["plan/graph.json", "plan/schedule.json", *NET],
    "execute": ["plan", "--data", "data.npz"],
    "graph": [*NET, "--profile", "m0", "--out", "{}.json"],
    "data": [*NET, "--out", "{}.npz"],
    "reference": ["--data", "data.npz", *NET, "--out", "{}.npz"],
    **{verb: [] for verb in ("boards", "meters", "doctor", "methods", "solvers")},
}
CODES = {"diff": 1}
# These take long: each is given one kind of wrong streams.
LONG = ("flash", "data", "", "report", "sweep", "compare", "profile", "graph", "check")
Streams = Callable[[], None]


def verbs() -> list[Any]:
    found = []
    for program, module in PROGRAMS.items():
        group: Any = typer.main.get_command(module.app)
        own = [""] if group.invoke_without_command else []
        found += [pytest.param(program, verb, id=f"{program} {verb}") for verb in [*own, *group.commands]]
    return found


@pytest.fixture(scope="module")
def children(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that forks for each use. A lock that a thread of it held would stop a child."""
    modules = [name for name in sys.modules if name.startswith(("poet_", "torch.", "sympy."))]
    program = f"import {__name__} as here; here.serve({modules})"
    words, pipe = [sys.executable, "-c", program], subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(words, env=environment, stdin=pipe, stdout=pipe, text=True) as server:
        yield server


def exit_code(children: subprocess.Popen[str], program: str, words: list[str], streams: Streams) -> int:
    assert children.stdin and children.stdout
    print(json.dumps([program, words, streams.__name__]), file=children.stdin, flush=True)
    return int(children.stdout.readline())


def serve(modules: list[str]) -> None:
    for name in modules:
        importlib.import_module(name)
    for line in sys.stdin:
        assert len(list(Path("/proc/self/task").iterdir())) == 1
        program, words, streams = json.loads(line)
        print(forked(program, words, globals()[streams]), flush=True)


@pytest.fixture(scope="module")
def folder(builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("streams")
    drawn = np.random.default_rng(1)
    x, y = drawn.standard_normal((8, 1, 8, 8)).astype("f4"), drawn.permutation(8)
    np.savez(root / "set.npz", x=x, y=y)
    slower = pd.read_csv(ROOT / "profiles" / "nrf52840.csv", comment="#").head(40)
    slower.to_csv(root / "profile.csv", index=False)
    slower.assign(time_s=2 * slower["time_s"]).to_csv(root / "slower.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("PLATFORMIO_BUILD_DIR", str(builds))
        assert poet_plan("--profile", "nrf52840", *NET, "--out", "plan", "--time-limit", "1") == 0
        assert poet_plan("data", *NET, "--out", "data.npz", "--steps", "1") == 0
        assert harness("flash", *BOARD) == 0
        yield root


def given() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def closed() -> None:
    os.close(1)
    os.close(2)


def full() -> None:
    file = os.open("/dev/full", os.O_WRONLY)
    os.dup2(file, 1)
    os.dup2(file, 2)


def unread() -> None:
    reading, writing = os.pipe()
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    os.close(reading)


def forked(program: str, words: list[str], streams: Streams) -> int:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code: object = 99  # a traceback's
    try:
        os.close(0)
        streams()
        files = [None if streams is closed else io.TextIOWrapper(io.FileIO(n, "w", closefd=False)) for n in (1, 2)]
        sys.stdin, (sys.stdout, sys.stderr), sys.argv = None, files, [program, *words]
        PROGRAMS[program].main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        os._exit(code if isinstance(code, int) else 98)


@pytest.mark.parametrize(("program", "verb"), verbs())
def test_a_verb_ends_as_with_its_streams(program: str, verb: str, children: subprocess.Popen[str]) -> None:
    words = [verb, *USES.get(verb, ["--help"])] if verb else USES[verb]
    codes, wrong = {}, (closed, full, unread)
    for streams in (given, *([wrong[LONG.index(verb) % 3]] if verb in LONG else wrong)):
        name = streams.__name__
        codes[name] = exit_code(children, program, [word.format(f"{verb}-{name}") for word in words], streams)
    assert set(codes.values()) == {codes["given"]}, codes
    assert codes["given"] == CODES.get(verb, codes["given"]) < 98


def test_a_training_that_loses_its_reader_goes_on_and_is_resumed(children: subprocess.Popen[str]) -> None:
    """The bits of one that was read, and of one that goes on from what it has kept."""
    for name, streams in (("read", given), ("lost", unread)):
        words = [*TRAIN, "--folder", f"run_{name}", "--trained", f"{name}.safetensors"]
        assert exit_code(children, "poet-harness", words, streams) == 0
    further = [*TRAIN[:-1], "5", "--folder", "run_lost", "--resume", "--trained", "more.safetensors"]
    assert exit_code(children, "poet-harness", further, full) == 0
    read, lost, more = (load_file(f"{name}.safetensors") for name in ("read", "lost", "more"))
    assert all(read[name].tobytes() == lost[name].tobytes() for name in read)
    assert any(more[name].tobytes() != lost[name].tobytes() for name in lost)
    assert len(pd.read_csv("run_lost/epochs.csv")) == 5


@pytest.mark.parametrize("ends", [">&-", ">&- 2>&-", ">/dev/full", "2>/dev/full", "| head -n 1; exit ${PIPESTATUS[0]}"])
@pytest.mark.parametrize("asked", ["boards", "boards --json", "diff {0}/profile.csv {0}/slower.csv"])
def test_a_shell_sees_the_same_code(asked: str, ends: str, folder: Path) -> None:
    line = f"{sys.executable} -c 'from poet_harness.cli import main; main()' {asked.format(folder)} {ends}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == (1 if asked.startswith("diff") else 0), done.stderr
    lost = "standard output: No space left on device; the rest of it is lost\n"
    assert done.stderr == (lost if ends == ">/dev/full" else "")


def test_a_pipe_that_does_not_wait_gets_all() -> None:
    """Its other end is a program that reads slowly, and has asked for that."""
    program = (
        "import os; os.set_blocking(1, False)\n"
        "from poet_profiles.program.standard_streams import lasting_streams\n"
        "with lasting_streams(): print('x' * 300_000)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (len(done.stdout), done.stderr) == (300_001, b"")


def test_a_stream_that_is_no_file_stays(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with lasting_streams():
        assert (sys.stdout, sys.stderr) == before


def test_a_stream_that_users_code_closes_lasts() -> None:
    code = (
        "from poet_profiles.program.standard_streams import *\n"
        "with lasting_streams(): sys.{0}.close(); print(1, file=sys.{0})"
    )
    for name in ("stdout", "stderr"):
        done = subprocess.run([sys.executable, "-c", code.format(name)], capture_output=True, text=True, check=True)
        assert (done.stdout + done.stderr) == "1\n"
