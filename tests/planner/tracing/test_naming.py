# SPDX-License-Identifier: Apache-2.0
"""Names that people give to parameters, buffers and submodules: whatever PyTorch allows, and poet's own words."""

from __future__ import annotations

import subprocess
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from poet_planner.graph.optimizer import Optimizer
from poet_planner.lowering import lower_for_firmware, lower_for_linux
from poet_planner.models import Model
from poet_planner.report.pictures import write_pictures
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions, optimise
from poet_planner.torch_reference.training_data import write_arrays
from poet_planner.tracing import trace
from poet_profiles.errors import UserError
from poet_profiles.files.arrays import read_arrays
from poet_profiles.graph import Graph, Node, PageCost
from poet_profiles.graph.file import read_graph, write_graph
from poet_profiles.graph.validation import check_graph
from poet_profiles.schedule import Step
from poet_runtime.executor import execute, residents_of
from poet_runtime.plan_steps import planned_steps
from poet_runtime.traced_graph import Kind, TracedGraph
from torch import Tensor, nn
from torch.nn import functional

from tests.support import ROOT
from tests.support.levels import examples
from tests.support.networks.eager import SEED, differences, eager_step

INCLUDE = ROOT / "firmware" / "include"
# What poet, ATen, torch.fx, numpy and C call things.
# fmt: off
WORDS = [
    "input", "target", "loss", "generator", "constant0", "input0", "gradients", "state", "step", "mean", "mean_2",
    "sub", "sub_1", "relu", "div", "convolution", "getitem", "grad", "weight", "bias", "update", "done", "operand0",
    "sgd", "velocity", "clone", "backward", "backward_weight", "indices", "invstd", "arg0_1", "file", "allow_pickle",
    "loss_2", "_tensor_constant0",
]
# fmt: on
ODD = (
    *("größe", "a b", 'say "x"', "a/b", "*/", "/*", "$x$", "[/red]"),
    *("a:b", "x\ty", "back\\slash", "名前", "l" * 300, "_"),
)
NAMES = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(ODD),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters=".\0"), min_size=1, max_size=8),
)


class Named(nn.Module):
    """Convolution, batch norm, a scale, a shift and a mean of its own, under the names that it is given."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self._names_ = names
        conv, norm, head, scale, shift, inner = names
        self.add_module(conv, nn.Conv2d(1, 4, 3))
        self.add_module(norm, nn.BatchNorm2d(4))
        self.add_module(head, nn.Linear(4, 3))
        self.register_parameter(scale, nn.Parameter(torch.full((4, 1, 1), 0.7)))
        self.register_buffer(shift, torch.full((1, 1, 1, 1), 0.13))
        self.get_submodule(conv).register_buffer(inner, torch.full((1, 1, 1, 1), 1.5), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        conv, norm, head, scale, shift, inner = self._names_
        convolution = getattr(self, conv)
        x = functional.relu(convolution((x - getattr(self, shift)) * getattr(convolution, inner)))
        x = functional.relu(getattr(self, norm)(x) * getattr(self, scale))
        return getattr(self, head)(x.mean((2, 3)))


def runnable(names: tuple[str, ...]) -> nn.Module:
    """What the firmware can run."""
    layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)]
    return nn.Sequential(OrderedDict(zip(names, layers, strict=True)))


def model(names: tuple[str, ...], build: Callable[[tuple[str, ...]], nn.Module] = Named) -> Model:
    torch.manual_seed(0)
    return Model("named", build(names), (torch.randn(3, 1, 5, 5),), (torch.arange(3),), functional.cross_entropy)


def allowed(names: tuple[str, ...]) -> bool:
    try:
        Named(names)
    except KeyError:  # Twice the same, or an attribute that a module has.
        return False
    return True


def traced(given: Model) -> TracedGraph:
    return trace(given.module, given.inputs, given.targets, given.loss, given.name)


def costed(graph: Graph) -> Graph:
    page = PageCost(1.0, 1.0, 1.0, 1.0)

    def with_costs(node: Node) -> Node:
        cost = 0.0 if node.operation is None else 1.0
        values = tuple(replace(value, page=page if value.bytes else None) for value in node.values)
        return replace(node, time_s=cost, energy_j=cost, values=values)

    return replace(graph, nodes=tuple(map(with_costs, graph.nodes)))


def assert_eagers_numbers(given: Model, graph: TracedGraph, steps: Iterable[Step] | None) -> None:
    expected = eager_step(given)
    torch.manual_seed(SEED)
    residents = residents_of(graph, given.module, given.inputs, given.targets)
    assert differences(given, expected, execute(graph, residents, steps)) == []


@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.tuples(*[NAMES] * 6))
@example(("input", "target", "loss", "mean", "relu", "generator"))
@example(("done", "update", "gradients", "input", "target", "loss"))
@example(("relu", "mean", "convolution", "sub", "mul", "operand0"))
def test_any_name_gives_eagers_numbers_and_sound_graphs(names: tuple[str, ...]) -> None:
    assume(allowed(names))
    given = model(names)
    graph = traced(given)
    own = {name for name, _ in (*given.module.named_parameters(), *given.module.named_buffers())}
    assert {r.id for r in graph.residents if r.kind in (Kind.PARAMETER, Kind.BUFFER)} == own
    assert_eagers_numbers(given, graph, None)
    for lowered in (lower_for_linux(graph, dma=False), lower_for_firmware(graph, optimizer=Optimizer(momentum=0.5))):
        check_graph(lowered)
        assert verify(lowered, store_all_schedule(lowered)).sound
    assert {gradient.id for gradient in lowered.residents if gradient.kind == "gradient"} == {
        f"{name}.grad" for name, _ in given.module.named_parameters()
    }


@pytest.mark.parametrize(
    "names",
    [
        ("input", "target", "loss", "mean", "relu", "generator"),
        ("*/", "/*", "$a$ $", "[/red]", "trigraph??/", 'quotes "%s" \\ ??/'),
        ("done", "größe", 'say "x"', "名前", "a/b", "l" * 300),
    ],
)
def test_such_a_model_is_planned_written_compiled_and_run(names: tuple[str, ...], tmp_path: Path) -> None:
    given = model(names, runnable)
    graph = traced(given)
    planned = costed(lower_for_firmware(graph))
    store_all = store_all_schedule(planned)
    schedule = optimise(planned, store_all.peak_bytes - 200, None, OptimiseOptions(time_limit_s=1.0))
    write_graph(planned, tmp_path / "graph.json")
    assert read_graph(tmp_path / "graph.json") == planned
    write_headers(planned, schedule, tmp_path)
    write_pictures(planned, schedule, store_all, tmp_path)
    (tmp_path / "both.c").write_text('#include "poet_model.h"\n#include "poet_schedule.h"\n')
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wno-unused"]
    subprocess.run(["cc", *strict, "-fsyntax-only", f"-I{INCLUDE}", tmp_path / "both.c"], check=True)
    plan = optimise(costed(lower_for_linux(graph, dma=False)), 10**6, None, OptimiseOptions(time_limit_s=1.0))
    steps = planned_steps(graph, lower_for_linux(graph, dma=False), plan.steps)
    assert_eagers_numbers(given, graph, steps)


def test_a_name_that_cannot_be_printed_is_in_no_file(tmp_path: Path) -> None:
    graph = traced(model(("new\nline", "b", "c", "d", "e", "f"), runnable))
    with pytest.raises(UserError, match="a character that cannot be printed; rename"):
        write_graph(lower_for_firmware(graph), tmp_path / "graph.json")
    assert not [*tmp_path.iterdir()]


def test_a_data_file_holds_arrays_of_any_name(tmp_path: Path) -> None:
    names = [name for name in (*WORDS, *ODD) if not name.startswith("l" * 300)]
    arrays = {name: np.full((1, 2), index, np.float32) for index, name in enumerate([*names, "module.npy"])}
    write_arrays(arrays, tmp_path / "data.npz")
    read = read_arrays(tmp_path / "data.npz", "poet-plan data")
    assert read.keys() == arrays.keys()
    assert all(np.array_equal(read[name], array) for name, array in arrays.items())
