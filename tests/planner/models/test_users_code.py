# SPDX-License-Identifier: Apache-2.0
"""A user's first mistakes with a model of his own are one line, and what his code prints is no result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from poet_planner import models
from poet_planner.planning.training_graph import training_graph, training_step
from poet_profiles.boards import load_board
from poet_profiles.errors import BAD_INPUT, UserError

from tests.support.programs import Said, poet_plan

MINE = """
import sys
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss
from poet_planner.models import Model

print("imported")

class Net(nn.Linear):
    def forward(self, x):
        print("forward")
        return super().forward(x)

class Foo:
    pass

net, text = nn.Linear(4, 3), "net"
already = Model("already", net, (torch.randn(2, 4),), (torch.arange(2),), cross_entropy)

def made(module=None, x=None, y=None, loss=cross_entropy):
    module = Net(4, 3) if module is None else module
    x = torch.randn(2, 4) if x is None else x
    return Model("mine", module, (x,), (torch.tensor([0, 2]) if y is None else y,), loss)

def good(batch):
    print("making")
    return made()

def without_arguments(): return made()
def returns_a_module(batch): return net
def raises(batch): raise ValueError("not\\ntoday")
def exits(batch): sys.exit(2)
def no_tuple(batch): return Model("mine", net, torch.randn(2, 4), (torch.arange(2),), cross_entropy)
def no_tuple_of_targets(batch): return Model("mine", net, (torch.randn(2, 4),), torch.arange(2), cross_entropy)
def no_module(batch): return Model("mine", lambda x: x, (), (), cross_entropy)
def no_loss(batch): return Model("mine", net, (), (), None)
def named(classes): return Model("mine", net, (torch.randn(2, 4),), (torch.arange(2),), cross_entropy, classes)
def no_names(batch): return named("squat")
def a_number_as_name(batch): return named(("squat", 1))
def unprintable(batch): return named(("squat\\n",))
def twice(batch): return named(("squat", "lunge", "squat"))
def alien(batch): return made(x={"a": [Foo()]})
def wrong_shape(batch): return made(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(4, 3)))
def mixed_types(batch): return made(nn.Linear(4, 3).double())
def out_of_range(batch): return made(y=torch.tensor([0, 7]))
def float_labels(batch): return made(y=torch.zeros(2))
def ids_out_of_range(batch): return made(nn.Sequential(nn.Embedding(5, 3), nn.Flatten()), x=torch.tensor([[1], [9]]))
def number(batch): return made(loss=lambda y, t: 3.0)
def detached(batch): return made(loss=lambda y, t: cross_entropy(y, t).detach())
def vector(batch): return made(loss=nn.CrossEntropyLoss(reduction="none"))
def complex_loss(batch): return made(loss=lambda y, t: (y * 1j).sum())
def attribute(batch): return made(loss=lambda y, t: y.lossy())
def lazy(batch): return made(nn.Sequential(nn.LazyLinear(3)))
def compiled(batch): return made(torch.compile(net))
def compiled_inside(batch):
    module = nn.Sequential(nn.Linear(4, 3))
    module[0].compile()
    return made(module)
def scripted(batch): return made(torch.jit.script(net))
def without_data(batch): return made(nn.Linear(4, 3, device="meta"))
def elsewhere(batch): return made(nn.Linear(4, 3).cuda())
def sparse(batch): return made(x=torch.eye(2, 4).to_sparse())
def untrained(batch): return made(nn.Flatten())
def lone_channel(batch): return made(nn.Sequential(net, nn.BatchNorm1d(3)), torch.randn(1, 4), torch.tensor([0]))
"""

WORDS = {
    "mine:nothing": "mine has no nothing",
    "mine:goood": "did you mean good",
    "mine:text": "mine:text is no callable, but a str",
    "mine:net": "mine:net is a Linear already; .* a function of the batch size",
    "mine:Net": "mine:Net is the class Net; .* a function of the batch size",
    "mine:already": "mine:already is a Model already",
    "mine:without_arguments": "cannot be called with a batch size",
    "mine:returns_a_module": r"mine:returns_a_module returned a Linear; it must return a poet_planner\.Model",
    "mine:raises": r"mine:raises raised ValueError: not today \(mine\.py:32\)$",
    "mine:exits": r"mine:exits raised SystemExit: 2 \(mine\.py:33\)$",
    "mine:no_tuple": r"inputs is a Tensor; it must be a tuple, \(x,\) for one",
    "mine:no_tuple_of_targets": "targets is a Tensor; it must be a tuple",
    "mine:no_module": r"module is a function; it must be a torch\.nn\.Module",
    "mine:no_loss": "loss is None",
    "mine:no_names": "classes is a str; it must be a tuple of names",
    "mine:a_number_as_name": "class 1 is 1; it must be a printable name",
    "mine:unprintable": r"class 0 is 'squat\\n'; it must be a printable name",
    "mine:twice": "two classes have the name 'squat'",
    "mine:alien": r"inputs\[0\]\['a'\]\[0\] is of type Foo; inputs and targets of a Model may be tensors, None",
    "mine:wrong_shape": r"mine, module 2, raised RuntimeError: mat1 and mat2 shapes .* \(2x5 and 4x3\)",
    "mine:mixed_types": "must have the same dtype, but got Float and Double",
    "mine:out_of_range": "Target 7 is out of bounds",
    "mine:float_labels": "mine raised RuntimeError: .*Long",
    "mine:ids_out_of_range": "mine, module 0, raised IndexError: index out of range",
    "mine:number": "the loss is of type float",
    "mine:detached": r"depends on no parameter that needs a gradient; look for detach\(\)",
    "mine:vector": "must be a scalar",
    "mine:complex_loss": "the loss is complex",
    "mine:attribute": r"raised AttributeError: 'Tensor' object has no attribute 'lossy' \(mine\.py:",
    "mine:lazy": r"0\.weight has no shape yet",
    "mine:compiled": "is compiled",
    "mine:compiled_inside": "module 0 is compiled",
    "mine:scripted": "is scripted",
    "mine:without_data": "weight has no data",
    "mine:elsewhere": r"mine:elsewhere raised .*CUDA|is on cuda:0; move",
    "mine:sparse": "the batch is a sparse tensor",
    "mine:untrained": "nothing to train",
    "mine:lone_channel": "mine, module 1, raised ValueError: Expected more than 1 value per channel",
    "broken:make": r"broken:make raised SyntaxError: .* \(broken\.py:2\)$",
    "script:make": r"script:make raised SystemExit: usage: script \(script\.py:2\)",
    "lacking:make": r"lacking:make raised ModuleNotFoundError: No module named 'timmm' \(lacking\.py:1\)",
    "nowhere:make": "No module named 'nowhere'; give module:callable",
    "mlperf_autoencoder": r"mlperf_autoencoder, module bn1, raised ValueError: Expected more than 1 value per channel",
}


@pytest.fixture(autouse=True)
def _in_a_folder_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "broken.py").write_text("import torch\ndef make(batch:\n")
    (tmp_path / "script.py").write_text("import sys\nsys.exit('usage: script')\n")
    (tmp_path / "lacking.py").write_text("import timmm\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("POET_DEBUG", raising=False)
    for module in ("mine", "broken", "script", "lacking"):
        monkeypatch.delitem(__import__("sys").modules, module, raising=False)
    training_step.cache_clear()


@pytest.mark.parametrize("board", ["nrf52840", "rpi4b"])
@pytest.mark.parametrize("name", WORDS)
def test_a_mistake_is_one_line(name: str, board: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=WORDS[name]) as caught:
        training_graph(name, 1 if name == "mlperf_autoencoder" else None, load_board(board))
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == BAD_INPUT
    assert "Traceback" not in capfd.readouterr().err


def test_a_debug_switch_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    arguments = ("graph", "--model", "mine:raises", "--board", "nrf52840", "--out", "graph.json")
    assert poet_plan(*arguments) == BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 2  # "imported", and the line.
    monkeypatch.setenv("POET_DEBUG", "1")
    assert poet_plan(*arguments) == BAD_INPUT
    assert 'raise ValueError("not\\ntoday")' in capsys.readouterr().err


def test_standard_output_is_the_result_alone(capsys: Said) -> None:
    planning = ("--model", "mine:good", "--profile", "a72", "--parameters", "excluded", "--ram", "100%", "--json")
    assert poet_plan(*planning, "--method", "store_all", "--out", "plan") == 0
    streams = capsys.readouterr()
    assert json.loads(streams.out)["graph"].startswith("mine")
    assert {"imported", "making", "forward"} <= set(streams.err.splitlines())
    files = ("plan/graph.json", "plan/schedule.json")
    assert poet_plan("check", *files, "--model", "mine:good", "--json") == 0
    assert json.loads(capsys.readouterr().out)["different"] == []


def test_the_factory_gets_the_same_numbers_every_time(tmp_path: Path) -> None:
    (tmp_path / "drawn.py").write_text(
        "import random\nimport numpy as np\nimport torch\nfrom poet_planner.models import Model\n"
        "def make(batch):\n"
        "    x = torch.tensor([[random.random(), np.random.rand(), float(torch.rand(()))]])\n"
        "    return Model('drawn', torch.nn.Linear(3, 2), (x,), (torch.zeros(1, 2),), torch.nn.functional.mse_loss)\n"
    )
    first, second = (models.load("drawn:make").inputs[0] for _ in range(2))
    assert first.equal(second)
