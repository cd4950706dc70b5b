# SPDX-License-Identifier: Apache-2.0
"""Batches that are more than tensors side by side: nested ones, fixed values, and a tensor that is given twice."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from poet_planner.models import Model
from poet_profiles.errors import UserError
from poet_runtime.executor import execute, residents_of, train_step
from poet_runtime.nested import fixed_in, tensors_in, with_tensors
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from tests.support.networks.eager import SEED, differences, eager_step, traced


@dataclass(frozen=True)
class Sides:
    left: Tensor
    right: Tensor | None = None
    scale: float = 1.0


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


class Joined(nn.Module):
    """Adds up all tensors that it is given, whatever holds them, and scales where a number says so."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 4)

    def forward(self, *given: Any, **named: Any) -> Tensor:
        total = sum(tensors_in(given), torch.zeros(8, 6))
        return self.last(total * (2.0 if "double" in str(fixed_in(given)) else 1.0))


def x() -> Tensor:
    return torch.randn(8, 6)


BATCHES: dict[str, Callable[[], tuple[Any, ...]]] = {
    "None and a flag": lambda: (x(), None, True),
    "a number and a text": lambda: (x(), 3, "double"),
    "a dict": lambda: ({"left": x(), "right": x()},),
    "other dicts": lambda: (OrderedDict(b=x(), a=x()), defaultdict(list, c=x())),
    "lists in tuples": lambda: ([x(), (x(), [x(), None])],),
    "a dataclass": lambda: (Sides(x(), x(), 0.5), Sides(x())),
    "a named tuple": lambda: (Pair(x(), x()),),
    "a namespace": lambda: (SimpleNamespace(a=x(), b=SimpleNamespace(), c="double"),),
}


def model(inputs: tuple[Any, ...], targets: tuple[Any, ...] | None = None, loss: Any = None) -> Model:
    return Model("joined", Joined(), inputs, targets or (torch.arange(8) % 4,), loss or functional.cross_entropy)


@pytest.mark.parametrize("name", BATCHES)
def test_a_nested_batch_gives_eagers_numbers_and_so_does_the_next(name: str) -> None:
    torch.manual_seed(0)
    given = model(BATCHES[name]())
    graph = traced(given)
    for batch in (given.inputs, BATCHES[name]()):
        step = Model("joined", given.module, batch, given.targets, given.loss)
        expected = eager_step(step)
        torch.manual_seed(SEED)
        assert (
            differences(step, expected, execute(graph, residents_of(graph, given.module, batch, given.targets))) == []
        )


def test_nested_targets() -> None:
    def loss(output: Tensor, target: dict[str, Any]) -> Tensor:
        return functional.cross_entropy(output, target["labels"], label_smoothing=target["smoothing"])

    given = model((x(),), ({"labels": torch.arange(8) % 4, "smoothing": 0.1},), loss)
    graph = traced(given)
    found = execute(graph, residents_of(graph, given.module, given.inputs, given.targets))
    assert differences(given, eager_step(given), found) == []


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        ((x(), False), "other values"),
        ((x(), None), "other values"),
        ((x(),), "other values"),
        (([x()], True), "other values"),
        ((x()[:4], True), r"input has shape \(4, 6\) .* traced for \(8, 6\)"),
        ((x().double(), True), r"float64; the graph was traced for .*float32"),
    ],
)
def test_a_step_that_the_graph_is_not_of_is_refused(inputs: tuple[Any, ...], complaint: str) -> None:
    given = model((x(), True))
    graph = traced(given)
    with pytest.raises(UserError, match=complaint):
        train_step(graph, given.module, inputs, given.targets)


@pytest.mark.parametrize("alike", [lambda x: x, lambda x: x[:], lambda x: x.view(6, 8).view(8, 6)])
def test_a_tensor_given_twice_is_two(alike: Callable[[Tensor], Tensor]) -> None:
    """An autoencoder's example may be its own target; another step's batch and target may differ."""
    images = x()
    given = Model("auto", nn.Linear(6, 6), (images,), (alike(images),), functional.mse_loss)
    graph = traced(given)
    step = Model("auto", given.module, (x(),), (x(),), functional.mse_loss)
    found = execute(graph, residents_of(graph, step.module, step.inputs, step.targets))
    assert differences(step, eager_step(step), found) == []


def test_parts_of_one_tensor_take_no_more_than_they_show() -> None:
    ids = torch.randn(8, 12)
    graph = traced(model((ids[:, :6], ids[:, 6:])))
    assert {r.id: r.bytes for r in graph.residents if r.kind == "input"} == {"input0": 192, "input1": 192}


@pytest.mark.parametrize("thing", [object(), {1, 2}, "numpy"])
def test_what_cannot_be_looked_into_is_refused(thing: Any) -> None:
    if thing == "numpy":
        thing = x().numpy()
    with pytest.raises(UserError, match=r"joined: inputs\[0\]\['a'\] is of type .*; inputs and targets of a Model"):
        model(({"a": thing},))


@pytest.mark.parametrize("thing", [MappingProxyType({"a": torch.ones(2)}), pack_sequence([torch.ones(2, 1)] * 2)])
def test_what_cannot_be_made_anew_is_refused_or_made(thing: Any) -> None:
    try:
        assert type(with_tensors(thing, tensors_in(thing))) is PackedSequence
    except UserError as refusal:
        assert "is a mappingproxy, of which no other can be made; give a plain dict" in str(refusal)


def test_other_tensors_take_the_places_and_nothing_else_changes() -> None:
    nested = ({"a": x(), "b": [None, Sides(x(), None, 2.0)]}, 3)
    others = [x(), x()]
    changed = with_tensors(nested, others)
    assert all(one is other for one, other in zip(tensors_in(changed), others, strict=True))
    assert fixed_in(changed) == fixed_in(nested)
    assert not any(one is other for one, other in zip(tensors_in(nested), others, strict=True))
