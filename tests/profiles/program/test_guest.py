# SPDX-License-Identifier: Apache-2.0
"""What a user's file sets for the program is not set for poet, nor poet's for the file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import torch
from poet_planner import models
from poet_profiles.errors import UserError
from poet_profiles.program.users_code import users_code
from poet_profiles.program.users_module import module_of

from tests.support.programs import Said, poet_plan

# The package, what a user's file does with it, and how that shows.
CHANGES = [
    ("os", "os.chdir('/')", "os.getcwd()"),
    ("os", "os.environ['POET_TEST'] = os.environ.pop('PATH')", "dict(os.environ)"),
    ("sys", "sys.argv += ['--mine']", "[*sys.argv]"),
    ("sys", "sys.argv = ['mine']", "[*sys.argv]"),
    ("sys", "sys.path.insert(0, '/mine')", "[*sys.path]"),
    ("sys", "sys.setrecursionlimit(7654)", "sys.getrecursionlimit()"),
    ("sys", "sys.stderr = open('/dev/null', 'w')", "sys.stderr.name"),
    ("sys", "sys.excepthook = len", "sys.excepthook"),
    ("builtins", "builtins.print = len", "print"),
    ("gc", "gc.disable()", "gc.isenabled()"),
    ("locale", "locale.setlocale(locale.LC_ALL, 'C.UTF-8')", "locale.setlocale(locale.LC_ALL)"),
    ("logging", "logging.root.addHandler(logging.NullHandler())", "[*logging.root.handlers]"),
    ("logging", "logging.root.setLevel(7)", "logging.getLogger('a').getEffectiveLevel()"),
    ("logging", "logging.disable(45)", "logging.root.manager.disable"),
    ("socket", "socket.setdefaulttimeout(3)", "socket.getdefaulttimeout()"),
    ("random", "random.seed(1)", "random.getstate()"),
    ("numpy", "numpy.random.seed(1)", "numpy.random.get_state()[1].tobytes()"),
    ("numpy", "numpy.seterr(all='raise')", "numpy.geterr()"),
    ("matplotlib", "matplotlib.rcParams['font.size'] = 9", "matplotlib.rcParams['font.size']"),
    ("torch", "torch.manual_seed(1)", "torch.get_rng_state().tolist()"),
    ("torch", "torch.set_default_dtype(torch.float64)", "torch.ones(1).dtype"),
    ("torch", "torch.set_default_device('meta')", "torch.ones(1).device"),
    ("torch", "torch.set_default_device('cuda')", "getattr(torch._GLOBAL_DEVICE_CONTEXT, 'device_context', None)"),
    ("torch", "torch.set_num_threads(3)", "torch.get_num_threads()"),
    ("torch", "torch.use_deterministic_algorithms(True)", "torch.are_deterministic_algorithms_enabled()"),
    ("torch", "torch.set_float32_matmul_precision('high')", "torch.get_float32_matmul_precision()"),
    ("torch", "torch.autograd.set_detect_anomaly(True)", "torch.is_anomaly_enabled()"),
]
# What holds for poet while users' code runs, too.
POETS = [
    ("signal", "signal.signal(signal.SIGTERM, print)", "signal.getsignal(signal.SIGTERM)"),
    ("signal", "signal.alarm(99)", "signal.getitimer(signal.ITIMER_REAL)[0] > 90"),
    ("warnings", "warnings.filterwarnings('error')", "[*warnings.filters]"),
    ("torch", "torch.set_grad_enabled(False)", "torch.is_grad_enabled()"),
]

NET = """
import torch
from torch import nn
from poet_planner import Model

def example(batch, x=None, net=None):
    x = torch.randn(batch or 2, 3) if x is None else x
    return Model("mine", net or nn.Linear(3, 2), (x,), (torch.zeros(len(x), dtype=int),), nn.functional.cross_entropy)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty one, the current one, whose modules are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "layers"):
        sys.modules.pop(name, None)
    yield tmp_path
    for name in ("mine", "layers"):
        sys.modules.pop(name, None)


def _seen(package: str, expression: str) -> Any:
    """What the file sees the next time that its code is called."""
    with users_code("mine"):
        return eval(expression, {package: import_module(package)})


@pytest.mark.parametrize("change", CHANGES + POETS, ids=lambda change: change[1])
@pytest.mark.parametrize("when", ["import", "call"])
def test_a_change_is_the_files_own(change: tuple[str, str, str], when: str, folder: Path) -> None:
    package, words, expression = change
    there = {package: import_module(package)}
    Path("mine.py").write_text(f"import {package}\n" + (words if when == "import" else f"def call(): exec({words!r})"))
    before = eval(expression, there)
    mine, _ = module_of("mine:call")
    first = before
    if when == "call":
        first = _seen(package, expression)
        with users_code("mine"):
            mine.call()
    assert eval(expression, there) == before
    assert (_seen(package, expression) == first) == (change in POETS)
    assert eval(expression, there) == before


def test_a_file_is_a_program_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sees no options of poet's, its folder comes last, and its random numbers go on."""
    monkeypatch.setattr(sys, "argv", ["poet-plan", "--batch", "3"])
    Path("mine.py").write_text(
        "import argparse, random, sys\nparser = argparse.ArgumentParser()\nparser.add_argument('--batch', default=1)\n"
        "known, rest = parser.parse_known_args()\npath = [*sys.path]\n"
    )
    mine, _ = module_of("mine:known")
    assert (mine.known.batch, mine.rest, mine.parser.prog) == (1, [], "mine.py")
    assert mine.path[-1] == str(folder)
    assert str(folder) not in sys.path
    assert _seen("random", "random.random()") != _seen("random", "random.random()")


def test_options_that_a_file_asks_for_are_one_line(folder: Path) -> None:
    Path("mine.py").write_text("import argparse\np = argparse.ArgumentParser()\np.add_argument('x')\np.parse_args()\n")
    with pytest.raises(UserError, match=r"SystemExit: 2 \(mine\.py:4\); it is imported without options: .*__main__"):
        module_of("mine:make")


@pytest.mark.parametrize("name", ["graphlib", "serial", "profile", "time"])
def test_a_module_that_others_hide_is_refused_by_name(name: str, folder: Path) -> None:
    Path(f"{name}.py").write_text("mine = 1\n")
    Path("layers.py").write_text("width = 4\n")
    Path("mine.py").write_text(f"from layers import width\ndef later():\n    from {name} import mine\n")
    mine, _ = module_of("mine:later")
    assert mine.width == 4
    hides = rf"(Python's own {name}|.*{name}.*) hides {name} in {folder}; rename yours"
    with pytest.raises(UserError, match=f"mine.py imports {name}: {hides}"), users_code("mine"):
        mine.later()
    with pytest.raises(UserError, match=f"{name}:mine: {hides}"):
        module_of(f"{name}:mine")
    assert not hasattr(import_module(name), "mine")


@pytest.mark.parametrize("at", [".", "../mine"])
def test_a_folder_with_every_name_hides_no_module(at: str, folder: Path) -> None:
    """Names of Python's and of installed packages raise if they are imported from the folder."""
    for name in ("work", "mine"):
        (folder / name).mkdir()
    mine = (folder / "work" / at).resolve()
    names = {"triton", *sys.stdlib_module_names, *packages_distributions()} - {"torch"}
    if at != ".":  # before all others, where Python itself would take them: those alone that are imported later
        names = {"PIL", "html", "profile", "rich", "xml"}
    for name in names:
        if name.isidentifier() and not name.startswith("poet_"):
            (mine / f"{name}.py").write_text(f"raise RuntimeError('{name} is of the user')\n")
    (mine / "layers.py").write_text("width = 3\n")
    (mine / "mine.py").write_text(f"from layers import width\n{NET}\nmake = example\n")
    first = "" if at == "." else f"sys.path.insert(1, {str(mine)!r})"
    program = f"import sys; from poet_planner.cli import main\n{first}\nmain()"
    words = ("--profile", "m4", "--model", "mine:make", "--out", "plan", "--time-limit", "1")
    done = subprocess.run([sys.executable, "-P", "-c", program, *words], cwd=folder / "work", capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert len([*(folder / "work" / "plan").glob("*.png")]) > 1


SEEDING = {
    "seeds by itself": "def make(batch):\n    torch.manual_seed(0)\n    return example(batch)\n",
    "drawn at import": "x = torch.randn(2, 3)\ndef make(batch): return example(batch, x)\n",
    "the same numbers": "def make(batch): return example(batch, torch.ones(2, 3))\n",
}
DRAWING = {
    "draws": "make = example\n",
    "seeds at import": "torch.manual_seed(0)\nmake = example\n",
    "seeds weights": "def make(batch):\n    with torch.random.fork_rng():\n        torch.manual_seed(0)\n"
    "        net = nn.Linear(3, 2)\n    return example(batch, net=net)\n",
    "by Python": "import random\ndef make(batch): return example(batch, torch.full((2, 3), random.random()))\n",
}


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("source", SEEDING | DRAWING)
def test_batches_that_no_seed_changes_are_told_in_one_line(source: str, steps: int, folder: Path, capsys: Said) -> None:
    Path("mine.py").write_text(NET + (SEEDING | DRAWING)[source])
    batches = [[given[0] for given, _ in models.load_batches("mine:make", steps, seed)] for seed in (1, 1, 2)]
    found = [torch.stack(each) for each in batches]
    said = capsys.readouterr().err
    assert found[0].equal(found[1])
    assert found[0].equal(found[2]) == (source in SEEDING)
    assert said.count("\n") == said.count("mine:make gives the same inputs each time") == 3 * (source in SEEDING)


def test_what_is_drawn_at_import_depends_on_no_seed(folder: Path) -> None:
    drawn = []
    for seed in range(2):
        (folder / str(seed)).mkdir()
        os.chdir(folder / str(seed))
        text = "import random\nimport numpy\ndrawn = random.random(), numpy.random.rand(), float(torch.rand(()))\n"
        Path("mine.py").write_text(f"{NET}{text}make = example\n")
        sys.modules.pop("mine", None)
        next(models.load_batches("mine:make", 1, seed))
        drawn.append(sys.modules["mine"].drawn)
    assert drawn[0] == drawn[1]


def test_paths_of_a_command_mean_the_folder_in_which_it_is_given(folder: Path) -> None:
    """The file changes the folder; what it reads there itself, later too, it finds."""
    (folder / "project").mkdir()
    (folder / "project" / "width.txt").write_text("3")
    Path("mine.py").write_text(
        f"import os\nos.chdir('project')\n{NET}\nclass Net(nn.Linear):\n    def forward(self, x):\n"
        "        open('width.txt').close()\n        return super().forward(x)\n"
        "def make(batch): return example(batch, net=Net(int(open('width.txt').read()), 2))\n"
    )
    model = ("--model", "mine:make")
    assert poet_plan(*model, "--profile", "m4", "--method", "store_all", "--out", "plan") == 0
    assert poet_plan("check", "plan/graph.json", "plan/schedule.json", *model, "--page-folder", ".") == 0
    assert poet_plan("data", *model, "--out", "begin.npz", "--steps", "2") == 0
    assert poet_plan("reference", "--data", "begin.npz", *model, "--out", "end.npz", "--lr", "0.1") == 0
    assert {path.name for path in folder.iterdir()} >= {"plan", "begin.npz", "end.npz"}
    assert [path.name for path in (folder / "project").iterdir()] == ["width.txt"]
