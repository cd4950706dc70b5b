# SPDX-License-Identifier: Apache-2.0
"""Steps that are compiled, traced again or taken while other threads use their models."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import poet_planner
import pytest
import torch
from poet_profiles.errors import UserError
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

X, LABELS = torch.randn(4, 6), torch.tensor([0, 2, 1, 0])


# What the tests keep for themselves lies where no step looks.
entered, done = threading.Event(), threading.Event()
wanted: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
results: SimpleQueue[Any] = SimpleQueue()


class Beside(nn.Module):
    """Lets another thread do something in the middle of its forward pass."""

    def __init__(self, patience_s: float = 0.0) -> None:
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(6, 8), nn.Tanh()), nn.Linear(8, 3)
        self.patience_s, self.twice = patience_s, False

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        if self.patience_s:
            entered.set()
            done.wait(self.patience_s)
        y: Tensor = self.head(x.sin() if self.twice else x)
        return y


@pytest.fixture(autouse=True)
def _another_thread() -> Iterator[None]:
    """It does what is `wanted` once a forward pass has been entered, and puts what comes of it in `results`."""

    def do() -> None:
        while (what := wanted.get()) is not None:
            entered.wait()
            done.clear()
            results.put(what())
            done.set()

    thread = threading.Thread(target=do)
    entered.clear()
    thread.start()
    yield
    wanted.put(None)
    thread.join()


def eagers(module: nn.Module) -> list[Tensor]:
    module.zero_grad()
    cross_entropy(module(X), LABELS).backward()  # type: ignore[no-untyped-call]
    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    module.zero_grad()
    return gradients


def test_steps_are_compiled_and_traced_again_in_two_threads_at_once() -> None:
    both = threading.Barrier(2)

    def each(module: Beside) -> bool:
        both.wait()
        with poet_planner.compile(module, cross_entropy, (X, LABELS), quiet=True) as step:
            both.wait()
            for module.twice in (True, False):
                expected = eagers(module)
                step(X, LABELS)
                found = [torch.zeros(0) if one.grad is None else one.grad for one in module.parameters()]
                if not all(map(torch.equal, found, expected)):
                    return False
        return True

    with ThreadPoolExecutor(2) as threads:
        assert [*threads.map(each, (Beside(), Beside()))] == [True, True]


@pytest.mark.parametrize("what", ["model", "part", "step"])
def test_who_calls_a_model_while_it_is_traced_waits(what: str) -> None:
    module = Beside(0.01)
    other = poet_planner.compile(module, cross_entropy, (X[:2], LABELS[:2]), quiet=True)
    calls: dict[str, Callable[[], Tensor]] = {
        "model": lambda: module(X),
        "part": lambda: module.body(X),
        "step": lambda: other(X[:2], LABELS[:2]),
    }
    expected = calls[what]().detach()
    entered.clear()
    wanted.put(calls[what])
    poet_planner.compile(module, cross_entropy, (X, LABELS), quiet=True).close()
    assert torch.equal(results.get(timeout=60).detach(), expected)


def test_planning_waits_for_who_is_in_the_model_already() -> None:
    module = Beside(0.2)
    expected = module(X).detach()
    entered.clear()
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(module, X)
        entered.wait()
        poet_planner.compile(module, cross_entropy, (X, LABELS), quiet=True).close()
        assert call.done()
        assert torch.equal(call.result().detach(), expected)


class Threaded(Beside):
    def forward(self, x: Tensor) -> Tensor:
        with ThreadPoolExecutor(1) as threads:
            y: Tensor = self.head(threads.submit(self.body, x).result())
        return y


def test_a_model_with_threads_of_its_own_is_refused_in_one_line() -> None:
    with pytest.raises(UserError, match="threads of its own; call one after the other"):
        poet_planner.compile(Threaded(), cross_entropy, (X, LABELS), quiet=True)


class Drawing(Beside):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * random.random()


def test_what_another_thread_draws_is_not_the_steps() -> None:
    drawn = []
    for _ in range(2):
        wanted.put(lambda: torch.randperm(50))
        poet_planner.compile(Beside(1.0), cross_entropy, (X, LABELS), quiet=True).close()
        drawn.append(results.get(timeout=60))
        entered.clear()
    assert not torch.equal(*drawn)
    with pytest.raises(UserError, match=r"Python's random .*\(if it is another thread that draws"):
        poet_planner.compile(Drawing(), cross_entropy, (X, LABELS), quiet=True)
