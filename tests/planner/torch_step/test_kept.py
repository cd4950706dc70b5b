# SPDX-License-Identifier: Apache-2.0
"""What a step leaves in Python is eager PyTorch's after each call, or refused."""

from __future__ import annotations

import copy
import textwrap
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import poet_planner
import pytest
import torch
from poet_profiles.errors import UserError
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn.functional import cross_entropy

from tests.support import ROOT

_PAGE = (ROOT / "docs" / "pytorch.md").read_text(encoding="utf-8")
_TABLE = _PAGE.partition("## What a step leaves in Python")[2].partition("\n## ")[0].splitlines()
ROWS = {
    what: (code.strip("`"), after)
    for what, code, after in ([part.strip() for part in row.strip("|").split(" | ")] for row in _TABLE if "`" in row)
    if after != "after a call"
}
_SOURCE = """
def make():
    last, seen = None, {{}}

    def leave(self, x, h, y):
        {code}

    return leave, lambda: (last, seen, globals().get("LAST"))
"""


class Net(nn.Module):
    latest: Tensor | None = None

    def __init__(self, leave: Callable[..., object]) -> None:
        super().__init__()
        self.body, self.head, self.dropout = nn.Linear(6, 8), nn.Linear(8, 3), nn.Dropout(0.2)
        self.leave, self.recent = leave, deque[Tensor](maxlen=2)
        self.seen: dict[str, Tensor] = {}
        self.rows: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        h = self.dropout(self.body(x).tanh())
        y: Tensor = self.head(h)
        self.leave(self, x, h, y)
        return y


def batch(number: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(number)
    return torch.randn(4, 6, generator=generator), torch.randint(3, (4,), generator=generator)


def trained(code: str, ours: bool, looked: bool) -> list[Any]:
    """What there is to be read after each step."""
    names: dict[str, Any] = {"Normal": Normal, "__name__": "__main__"}
    exec(textwrap.dedent(_SOURCE).format(code=code), names)
    leave, others = names["make"]()
    torch.manual_seed(0)
    kind: Any = type("Net", (Net,), {})
    model = kind(leave)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    if looked:
        model(batch(9)[0])
    step = poet_planner.compile(model, cross_entropy, batch(0), quiet=True, on_change="refuse") if ours else None
    torch.manual_seed(1)
    found = []
    for number in range(3):
        optimizer.zero_grad()
        if step is None:
            x, labels = batch(number)
            cross_entropy(model(x), labels).backward()  # type: ignore[no-untyped-call]
        else:
            step(*batch(number))
        own = {name: value for name, value in vars(model).items() if name[0] != "_" and name != "leave"}
        found.append(plain([own, kind.latest, others()]))
        optimizer.step()
    return found


def plain(nest: Any) -> Any:
    if isinstance(nest, Tensor):
        return nest.detach().tolist()
    if isinstance(nest, dict):
        return {name: plain(value) for name, value in nest.items()}
    return [type(nest), *map(plain, nest)] if isinstance(nest, list | tuple | deque) else copy.copy(nest)


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize("what", ROWS)
def test_each_row_of_the_page(what: str, looked: bool) -> None:
    code, after = ROWS[what]
    if after == "eager's":
        assert trained(code, True, looked) == trained(code, False, looked)
        return
    assert after.startswith("refused")
    with pytest.raises(UserError, match=r"^Net: the (step|model) [^\n]*$"):
        trained(code, True, looked)


class Parts:
    """A loss that keeps its parts."""

    def __init__(self) -> None:
        self.parts: dict[str, Tensor] = {}

    def __call__(self, output: Tensor, labels: Tensor) -> Tensor:
        entropy, size = cross_entropy(output, labels), output.square().mean()
        self.parts = {"entropy": entropy, "size": size.detach()}
        return entropy + 0.1 * size


def test_parts_of_the_loss_are_eagers_for_every_shape() -> None:
    model, loss = Net(lambda *_: None).eval(), Parts()
    step = poet_planner.compile(model, loss, batch(0), quiet=True)
    for count in (4, 3, 4):
        x, labels = (part[:count] for part in batch(1))
        step(x, labels)
        found = loss.parts
        loss(model(x), labels)
        assert found.keys() == loss.parts.keys()
        assert all(torch.equal(found[name], loss.parts[name]) for name in found)


def test_the_bytes_are_in_the_plan() -> None:
    def peak(leave: Callable[..., object]) -> int:
        model = nn.Sequential(nn.Linear(6, 500), nn.Tanh(), nn.Linear(500, 500), nn.Tanh(), nn.Linear(500, 3))
        model[1].register_forward_hook(leave)
        with poet_planner.compile(model, cross_entropy, batch(0), quiet=True, ram="100%") as step:
            for number in range(2):
                step(*batch(number))
            assert step.report.peak_bytes is not None
            assert step.report.peak_bytes <= 1.02 * step.report.planned_peak_bytes
            return step.report.planned_peak_bytes

    seen: dict[str, Tensor] = {}
    assert peak(lambda module, x, y: seen.update(y=y)) > peak(lambda *_: None)


@pytest.mark.parametrize(
    "write",
    [
        lambda given, h: given.update(h=h),
        lambda given, h: given.update(x=h),
        lambda given, h: given["more"].append(h),
        lambda given, h: given.update(done=True),
        lambda given, h: given.pop("x"),
        lambda given, h: setattr(given["place"], "h", h),
    ],
)
def test_what_a_step_puts_into_its_batch_is_refused(write: Callable[[Any, Tensor], object]) -> None:
    class Writes(nn.Linear):
        def forward(self, given: Any) -> Tensor:
            h = super().forward(given["x"])
            write(given, h.detach())
            return h

    x, target = batch(0)
    given = {"x": x, "more": [x], "place": SimpleNamespace(y=x)}
    with pytest.raises(UserError, match="forward writes into its batch"):
        poet_planner.compile(Writes(6, 3), cross_entropy, (given, target), quiet=True)
    assert [*given] == ["x", "more", "place"] and len(given["more"]) == 1
