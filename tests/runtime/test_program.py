# SPDX-License-Identifier: Apache-2.0
"""A program file holds all of a training step that the user's Python was needed for."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from poet_planner import models
from poet_planner.graph import read_graph
from poet_planner.lowering import lower_for_linux
from poet_planner.models import Model
from poet_profiles.errors import FaultError, UserError
from poet_profiles.schedule import Action, Step
from poet_runtime.executor import execute, residents_of
from poet_runtime.measured_sizes import measured
from poet_runtime.program import (
    Program,
    decoded,
    document_of_program,
    encoded,
    operator_named,
    program_from_document,
    read_program,
    write_program,
)
from poet_runtime.traced_graph import Blank, OptimizerUpdate, TracedGraph
from torch import nn

from tests.support.networks.eager import SEED, differences, eager_step, traced
from tests.support.networks.zoo import ZOO, zoo_model
from tests.support.programs import Said, poet_plan


def read_back(graph: TracedGraph) -> TracedGraph:
    document = json.loads(json.dumps(document_of_program(Program(graph, "0" * 16))))
    return program_from_document(document).graph


@pytest.mark.parametrize("name", [*ZOO, "digits_cnn", "resnet18_cifar_w4"])
def test_a_step_read_from_a_file_is_the_same_step(name: str) -> None:
    model = zoo_model(name) if name in ZOO else models.load(name, 2)
    graph = traced(model)
    found = read_back(graph)
    assert (found.values, found.gradients, found.loss) == (graph.values, graph.gradients, graph.loss)
    assert [replace(operator, module="") for operator in graph.operators] == list(found.operators)
    assert found.residents == graph.residents
    torch.manual_seed(SEED)
    step = execute(found, residents_of(graph, model.module, model.inputs, model.targets))
    assert differences(model, eager_step(model), step) == []


def test_channels_last_operands_keep_their_strides() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    module.to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
    graph = traced(Model("last", module, (x,), (torch.tensor([0, 1]),), nn.functional.cross_entropy))
    strides = {resident.id: resident.stride for resident in graph.residents}
    assert strides["input"] == x.stride()
    assert strides["0.weight"] == module[0].weight.stride()
    assert read_back(graph).residents == graph.residents


def test_every_operand_says_its_layout_and_integers_their_range() -> None:
    model = models.load("bert_2x128", 1)
    document = document_of_program(Program(measured(traced(model), model.module, model.inputs, model.targets), ""))
    operands = [argument for operator in document["operators"] for argument in operator["args"] if argument]
    operands = [argument for argument in operands if isinstance(argument, dict) and "ref" in argument]
    assert operands and all({"shape", "dtype"} <= operand.keys() for operand in operands)
    residents = {resident["id"]: resident for resident in document["residents"]}
    tokens = model.inputs[0]
    assert (residents["input"]["low"], residents["input"]["high"]) == (int(tokens.min()), int(tokens.max()))
    assert "low" not in residents["loss"]


def test_a_plan_of_a_linux_board_has_its_program(tmp_path: Path, capsys: Said) -> None:
    out, beside = tmp_path / "plan", tmp_path / "beside.json"
    method = ("--method", "store_all", "--out", str(out))
    assert poet_plan("--model", "digits_cnn_small", "--profile", "a72", *method) == 0
    assert "program.json" in capsys.readouterr().out
    program = read_program(out / "program.json")
    planned = read_graph(out / "graph.json")
    steps = [Step(Action.COMPUTE, node.id) for node in planned.nodes]
    assert [step.target for step in program.steps(steps)] == [operator.id for operator in program.graph.operators]
    graph = ("graph", "--model", "digits_cnn_small", "--out", str(tmp_path / "g.json"), "--program", str(beside))
    assert poet_plan(*graph, "--board", "rpi4b") == 0
    assert read_program(beside).graph.operators == program.graph.operators
    assert poet_plan(*graph, "--board", "nrf52840") == 2
    assert "only Linux boards run one" in capsys.readouterr().err
    assert poet_plan("--model", "digits_cnn_small", "--profile", "m4", *method) == 0
    assert not (out / "program.json").exists()


def test_what_is_not_atens_has_no_program() -> None:
    @torch.library.custom_op("poet_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    graph = traced(models.load("digits_cnn_small", 1))
    foreign = replace(graph.operators[1], target=torch.ops.poet_test.twice.default)
    program = Program(replace(graph, operators=(graph.operators[0], foreign)), "")
    assert "poet_test::twice" in str(program.why_unwritable())
    assert str(program.why_unwritable()).startswith(foreign.id)
    with pytest.raises(FaultError, match=r"<object.*no place in a program"):
        encoded([object()])


Spoil = Callable[[dict[str, Any]], object]


def operator(document: dict[str, Any], index: int) -> dict[str, Any]:
    found: dict[str, Any] = document["operators"][index]
    return found


def nested(depth: int) -> list[Any]:
    entry: list[Any] = []
    for _ in range(depth):
        entry = [entry]
    return entry


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda d: d.update(format="poet-graph/1"), "not a poet-program/1"),
        (lambda d: d.pop("operators"), '"operators" is missing'),
        (lambda d: operator(d, 0).update(op="aten::no_such.default"), "conv1: there is no operator aten::no_such"),
        (lambda d: operator(d, 0).update(op="aten::__class__.default"), "there is no operator aten::__class__"),
        (lambda d: operator(d, 0).update(op="aten::convolution.__init__"), "there is no operator"),
        (lambda d: operator(d, 0).update(op="os::system.default"), "there is no operator os::system"),
        (lambda d: operator(d, 0).update(op="aten::from_file.default"), "opens a file"),
        (lambda d: operator(d, 0)["args"].append(1), "has no such arguments"),
        (lambda d: operator(d, 0).update(kwargs={"nothing": 1}), "has no such arguments"),
        (lambda d: operator(d, 0).update(kwargs={"input": 1}), "has no such arguments"),
        (lambda d: operator(d, 0)["args"][0].update(ref="relu1"), "names 'relu1', which does not stand before it"),
        (lambda d: operator(d, 0)["args"][0].update(shape=[1]), "another layout"),
        (lambda d: operator(d, 0)["args"][0].update(views=[{"op": "aten::t.default", "args": []}]), "cannot be seen"),
        (lambda d: operator(d, 0)["args"][0].update(views=[{"op": "aten::zero_.default", "args": []}]), "no view"),
        (lambda d: operator(d, 0).update(args=[{"eval": "1 + 1"}]), "is no argument"),
        (lambda d: operator(d, 0).update(args=[{"dtype": "load"}]), "there is no dtype 'load'"),
        (lambda d: operator(d, 0).update(after=["relu1"]), "names relu1"),
        (lambda d: operator(d, 0).update(updates=["nothing"]), "names nothing"),
        (lambda d: operator(d, 0).update(outputs=[None] * 9), "has not 9 results"),
        (lambda d: operator(d, 1).update(id="conv1"), "two operators"),
        (lambda d: operator(d, 0)["outputs"][0].update(id="input"), "two tensors"),
        (lambda d: operator(d, 0)["outputs"][0].update(bytes=-1), "must be a whole number of bytes"),
        (lambda d: operator(d, 0)["outputs"][0].update(shape=["4"]), "not whole numbers"),
        (lambda d: operator(d, 0)["outputs"][0].update(resident="nothing"), "which is no resident"),
        (lambda d: operator(d, 0).update(writes=[{"argument": 3}]), "none of its operands"),
        (lambda d: operator(d, 0).update(random=1), "neither true nor false"),
        (lambda d: d["residents"][0].update(kind="weight"), "it must be one of parameter"),
        (lambda d: d["residents"][0].update(low=3), "not a range"),
        (lambda d: d["residents"][0].update(bytes=4), '"bytes" is 4, but [4, 1, 3, 3] of torch.float32 takes 144'),
        (lambda d: d["residents"][0].update(shape=[10**30]), "PyTorch has no plain tensor"),
        (lambda d: d["residents"][0].update(dtype="quint8"), "PyTorch has no plain tensor"),
        (lambda d: d["residents"][0].update(dtype="_inductor"), "there is no dtype '_inductor'"),
        (lambda d: operator(d, 0)["outputs"][0].update(bytes=4), 'conv1: "bytes" is 4, but'),
        (lambda d: operator(d, 0)["outputs"][0].update(resident=[1]), "lives in [1], which is no resident"),
        (lambda d: operator(d, 0).update(writes=5), '"writes" is missing or not a list'),
        (lambda d: operator(d, 0).update(args=[nested(900)]), "nested more than 32 deep"),
        (lambda d: operator(d, 0).update(args=[{"complex": [10**400, 0]}]), "is larger than any float"),
        (lambda d: d.update(graph_hash="é"), "\"graph_hash\" is 'é'; it must be 16 hex digits"),
        (lambda d: d.update(graph_hash="0 boot=1"), "must be 16 hex digits"),
        (lambda d: operator(d, 0).update(id="x\n    open('INJECTED', 'w')"), "cannot be printed"),
        (lambda d: d.update(loss=1), "is no {"),
    ],
)
def test_a_damaged_program_is_refused_in_one_line(spoil: Spoil, complaint: str, tmp_path: Path) -> None:
    document = copy.deepcopy(DOCUMENT)
    spoil(document)
    path = tmp_path / "program.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UserError) as caught:
        read_program(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


DOCUMENT = document_of_program(Program(traced(models.load("digits_cnn_small", 1)), "0" * 16))


def test_damaged_constants_are_refused() -> None:
    document = document_of_program(Program(traced(zoo_model("constants")), ""))
    constant = next(resident for resident in document["residents"] if resident["kind"] == "constant")
    for damage in (constant["data"][4:], "!", None, document["model"]):
        constant["data"] = damage
        with pytest.raises(FaultError, match=r"\"data\" is"):
            program_from_document(document)


@pytest.mark.parametrize(
    "argument",
    [
        [1, 2.0, None, True, "mean", [], [torch.bool]],
        *(torch.float64, torch.strided, torch.channels_last, torch.device("cpu")),
        *(1 - 2j, float("inf"), float("-inf"), complex(float("inf"), 0.5)),
        Blank((2, 3), (1, 2), torch.int64),
    ],
)
def test_plain_arguments_come_back(argument: object) -> None:
    assert decoded(json.loads(json.dumps(encoded(argument))), "") == argument
    found = decoded(encoded(float("nan")), "")
    assert found != found
    with pytest.raises(FaultError, match="here: "):
        decoded({"ref": "conv1"}, "here")


def test_every_overload_of_a_traced_step_is_found_by_its_name(tmp_path: Path) -> None:
    model = models.load("digits_cnn", 1)
    graph = traced(model)
    write_program(Program.of_plan(graph, lower_for_linux(graph, True)), tmp_path / "program.json")
    for one, other in zip(graph.operators, read_program(tmp_path / "program.json").graph.operators, strict=True):
        assert one.target is other.target
    assert operator_named("aten::add.Tensor", "") is torch.ops.aten.add.Tensor


def test_updates_inside_the_step_come_back_and_bad_ones_are_refused(tmp_path: Path) -> None:
    graph = traced(models.load("digits_cnn", 1))
    parameters = [*graph.gradients][:2]
    graph = graph.updating([OptimizerUpdate(f"{name}..update", name, 4 * k) for k, name in enumerate(parameters)])
    program = Program(graph, "0" * 16)
    write_program(program, tmp_path / "program.json")
    found = read_program(tmp_path / "program.json")
    assert found.graph.optimizer_updates == graph.optimizer_updates
    assert found.graph.left_gradients.keys() == graph.gradients.keys() - {*parameters}
    document = document_of_program(program)
    first, second = document["optimizer_updates"]
    for damaged, words in (
        ([first, first], "two operators of this name"),
        ([first, {**second, "parameter": first["parameter"]}], "which has no gradient of its own"),
        ([{**first, "parameter": "input"}], "which has no gradient of its own"),
        ([{**first, "workspace_bytes": -1}], "whole number of bytes"),
        (["all"], "an update is not a JSON object"),
    ):
        with pytest.raises(FaultError, match=words):
            program_from_document({**document, "optimizer_updates": damaged})
