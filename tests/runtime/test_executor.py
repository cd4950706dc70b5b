# SPDX-License-Identifier: Apache-2.0
"""Any schedule of the contract gives eager's results; a fault planted in the executor, or in a schedule, is caught."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from poet_planner import models
from poet_planner.models import Model
from poet_profiles.errors import UserError
from poet_profiles.schedule import Action, Step
from poet_runtime.executor import Execution, execute, residents_of, store_all_steps
from poet_runtime.traced_graph import TracedGraph, TracedOperator
from torch import Tensor

from tests.support.graphs.breaches import BREACHES
from tests.support.networks.eager import SEED, differences, eager_step, traced
from tests.support.networks.zoo import ZOO, zoo_model

pytestmark = pytest.mark.usefixtures("one_thread")

BUILT_IN = {"digits_cnn": 2, "resnet18_cifar_w4": 2, "mlperf_ds_cnn": 1, "gpt_small": 1, "transformer": 1, "unet": 1}


def load(name: str) -> Model:
    return zoo_model(name) if name in ZOO else models.load(name, BUILT_IN[name])


class RandomSchedule:
    """Operators in a random topological order; values freed, recomputed and paged at random in between."""

    def __init__(self, graph: TracedGraph, seed: int, restless: float = 0.5) -> None:
        self._graph = graph
        self._random = random.Random(seed)
        self._restless = restless
        self._maker = {id: operator for operator in graph.operators for id in operator.values}
        self._held: set[str] = set()
        self._paged: set[str] = set()
        self._computed: set[str] = set()
        self.steps: list[Step] = []
        self.recomputed = 0
        waiting = list(graph.operators)
        while waiting:
            operator = self._random.choice([op for op in waiting if self._ready(op)][:6])
            waiting.remove(operator)
            self._compute(operator)
            self._disturb()

    def _ready(self, operator: TracedOperator) -> bool:
        makers = {self._maker[id].id for id in self._graph.inputs(operator)}
        return makers | set(operator.after) <= self._computed

    def _do(self, action: Action, target: str) -> None:
        self.steps.append(Step(action, target))

    def _compute(self, operator: TracedOperator) -> None:
        for id in self._graph.inputs(operator):
            if id not in self._held:
                self._bring_back(id)
        for id in operator.values:
            if id in self._held:
                self._free(id)
        self._do(Action.COMPUTE, operator.id)
        self.recomputed += operator.id in self._computed
        self._computed.add(operator.id)
        self._held.update(operator.values)

    def _bring_back(self, id: str) -> None:
        if id in self._paged and self._random.random() < 0.5:
            self._do(Action.PAGE_IN, id)
            self._held.add(id)
        else:
            self._compute(self._maker[id])

    def _free(self, id: str) -> None:
        self._do(Action.FREE, id)
        self._held.remove(id)

    def _disturb(self) -> None:
        results = {ref.source for ref in (self._graph.loss, *self._graph.gradients.values())}
        for id in sorted(self._held - results):
            if self._random.random() > self._restless * 0.3 or not self._maker[id].recomputable:
                continue
            if self._random.random() < 0.5 and id not in self._paged:
                self._do(Action.PAGE_OUT, id)
                self._paged.add(id)
            self._free(id)


def differing(model: Model, graph: TracedGraph, steps: list[Step]) -> list[str]:
    torch.manual_seed(SEED)
    found = execute(graph, residents_of(graph, model.module, model.inputs, model.targets), steps)
    return differences(model, eager_step(model), found)


@pytest.mark.parametrize("name", [*BUILT_IN, *ZOO])
def test_random_schedules_equal_eager(name: str) -> None:
    model = load(name)
    graph = traced(model)
    schedules = [RandomSchedule(graph, seed, 0.3 if len(graph.operators) > 60 else 1.5) for seed in range(4)]
    assert sum(schedule.recomputed for schedule in schedules) > 2
    assert any(step.do is Action.PAGE_IN for schedule in schedules for step in schedule.steps)
    for schedule in schedules:
        assert differing(model, graph, schedule.steps) == []


def test_peak_is_what_the_store_all_schedule_holds() -> None:
    model = models.load("digits_cnn")
    graph = traced(model)
    held = peak = 0
    sizes = {id: 0 if value.resident else value.bytes for id, value in graph.values.items()}
    values = {operator.id: operator.values for operator in graph.operators}
    for step in store_all_steps(graph):
        held += sum(sizes[id] for id in values[step.target]) if step.do is Action.COMPUTE else -sizes[step.target]
        peak = max(peak, held)
    result = execute(graph, residents_of(graph, model.module, model.inputs, model.targets))
    assert result.peak_bytes == peak


def no_generator_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def careless(self: Execution, operator: TracedOperator, again: bool) -> Iterator[None]:
        yield

    monkeypatch.setattr(Execution, "_generator", careless)


def batch_norm_updates_again(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Execution._run

    def careless(self: Execution, operator: TracedOperator) -> None:
        computed = self._computed
        if operator.updates:
            self._computed = computed - {operator.id}
        run(self, operator)
        self._computed = computed

    monkeypatch.setattr(Execution, "_run", careless)


def last_place_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = Execution._hold

    def careless(self: Execution, id: str, tensor: Tensor) -> None:
        if id == "log_softmax.backward":
            first = tensor.view(-1)[:1]
            first.copy_(torch.nextafter(first, torch.tensor(torch.inf)))
        hold(self, id, tensor)

    monkeypatch.setattr(Execution, "_hold", careless)


def page_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    page_out = Execution._page_out

    def careless(self: Execution, id: str) -> None:
        page_out(self, id)
        if self._pages[id].is_floating_point():
            self._pages[id] *= 1.0000001

    monkeypatch.setattr(Execution, "_page_out", careless)


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (no_generator_restored, "random"),
        (batch_norm_updates_again, "resnet18_cifar_w4"),
        (last_place_wrong, "digits_cnn"),
        (page_damaged, "digits_cnn"),
    ],
)
def test_planted_faults_are_caught(
    fault: Callable[[pytest.MonkeyPatch], None], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(name)
    graph = traced(model)
    schedule = RandomSchedule(graph, seed=1, restless=0.9)
    assert differing(model, graph, schedule.steps) == []
    fault(monkeypatch)
    assert differing(model, graph, schedule.steps) != []


@pytest.mark.parametrize(("spoil", "complaint"), BREACHES)
def test_a_schedule_that_breaks_the_contract_is_refused(
    spoil: Callable[[list[Step]], list[Step]], complaint: str
) -> None:
    model = load("digits_cnn")
    graph = traced(model)
    computes = [step for step in store_all_steps(graph) if step.do is Action.COMPUTE]
    with pytest.raises(UserError, match=complaint):
        execute(graph, residents_of(graph, model.module, model.inputs, model.targets), spoil(computes))


def test_random_operators_keep_their_order() -> None:
    model = zoo_model("random")
    graph = traced(model)
    draws = [operator.id for operator in graph.operators if operator.random]
    with pytest.raises(UserError, match=f"compute {draws[1]}: {draws[0]} has to be computed before it"):
        execute(graph, residents_of(graph, model.module, model.inputs, model.targets), [Step(Action.COMPUTE, draws[1])])
