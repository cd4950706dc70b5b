# SPDX-License-Identifier: Apache-2.0
"""Batches of more than tensors: what is no tensor counts where the step looks at it."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import poet_planner
import pytest
import torch
from poet_planner.torch_step.step import PlannedStep
from poet_profiles.errors import UserError
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

LABELS = torch.tensor([0, 2, 1, 0])


@dataclass
class Sample:
    image: Tensor
    path: str
    scale: float = 2.0


class Pair(NamedTuple):
    image: Tensor
    path: str


class Side(Enum):
    LEFT = 1
    RIGHT = 2


class Reads(nn.Module):
    """Makes of a batch what its function does."""

    def __init__(self, read: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.fc, self.read = nn.Linear(6, 3), read

    def forward(self, batch: Any) -> Tensor:
        y: Tensor = self.fc(self.read(batch))
        return y


def image() -> Tensor:
    return torch.randn(4, 6)


class Attributes(dict[str, Any]):
    """A dict whose keys are its attributes, as many programs have it."""

    def __init__(self, **given: Any) -> None:
        super().__init__(given)
        self.__dict__ = self


class Listed(list[Tensor]):
    """What can have attributes."""


def beside(batch: Any, **attributes: Any) -> Any:
    vars(batch).update(attributes)
    return batch


def of(image: Tensor, **_: Any) -> Tensor:
    return image


def within(text: str) -> int:
    try:
        return len(text)
    except Exception:
        return 7


UNREAD: dict[str, tuple[Callable[[Any], Tensor], Callable[[int], Any]]] = {
    "file names": (lambda b: b["image"], lambda n: {"image": image(), "path": [f"{n}_{k}" for k in range(n)]}),
    "what poet does not know": (
        lambda b: b["image"],
        lambda n: {"image": image(), "path": Path(str(n)), "ids": np.arange(n), "day": date(2026, 1, 1 + n)},
    ),
    "asked for its methods": (
        lambda b: {k: v.to("cpu") if hasattr(v, "to") else v for k, v in b.items()}["image"],
        lambda n: UserDict(image=image(), path=str(n), id=n),
    ),
    "asked for its type": (
        lambda b: {k: v.to("cpu") if isinstance(v, Tensor) else v for k, v in b.items()}["image"],
        lambda n: {"image": image(), "meta": {"id": n, "names": [n] * n}},
    ),
    "given by name": (lambda b: of(**b), lambda n: {"path": str(n), "image": image()}),
    "a dataclass": (lambda b: b.image * b.scale, lambda n: Sample(image(), str(n))),
    "a named tuple": (lambda b: b.image, lambda n: Pair(image(), str(n))),
    "a namespace": (lambda b: b.image, lambda n: SimpleNamespace(image=image(), path=str(n))),
    "a tensor that is an attribute": (
        lambda b: b["image"] * b.mask,
        lambda n: beside(UserDict(image=image()), mask=torch.full((1,), float(n))),
    ),
    "a list": (lambda b: b[0], lambda n: [image(), str(n), float(n)]),
}
READ: dict[str, tuple[Callable[[Any], Tensor], Callable[[int], Any]]] = {
    "a factor": (lambda b: b.image * b.scale, lambda n: Sample(image(), "", float(n))),
    "a flag": (
        lambda b: b["image"] if b["flip"] is True else -b["image"],
        lambda n: {"image": image(), "flip": n == 2},
    ),
    "None": (
        lambda b: b["image"] if b["a"] is None else -b["image"],
        lambda n: {"image": image(), "a": "" if n else None},
    ),
    "one of few": (
        lambda b: b["image"] if b["side"] is Side.LEFT else -b["image"],
        lambda n: {"image": image(), "side": Side.LEFT if n == 2 else Side.RIGHT},
    ),
    "a text that the example is not": (
        lambda b: b["image"] * (2 if b["path"] in {"2"} else 1),
        lambda n: {"image": image(), "path": str(n)},
    ),
    "an attribute of a dict": (lambda b: b.image * b.scale, lambda n: Attributes(image=image(), scale=float(n))),
    "an attribute beside a list": (lambda b: b[0] * b.scale, lambda n: beside(Listed([image()]), scale=float(n))),
    "what a dataclass sets by itself": (lambda b: b.image * b.scale, lambda n: beside(Sample(image(), ""), scale=n)),
    "a length": (lambda b: b["image"] * within(b["path"]), lambda n: {"image": image(), "path": "a" * n}),
    "a key": (
        lambda b: b["image"] * (2 if "a" in b else 1),
        lambda n: {"image": image(), **({"a": 1} if n == 2 else {})},
    ),
}


def steps_are_eagers(read: Callable[[Any], Tensor], batch: Callable[[int], Any], **options: Any) -> PlannedStep:
    module = Reads(read)
    step = poet_planner.compile(module, cross_entropy, (batch(0), LABELS), quiet=True, **options)
    for number in range(4):
        given = batch(number)
        module.zero_grad()
        cross_entropy(module(given), LABELS).backward()  # type: ignore[no-untyped-call]
        expected = module.fc.weight.grad
        module.zero_grad()
        step(given, LABELS)
        assert expected is not None and module.fc.weight.grad is not None
        assert torch.equal(expected, module.fc.weight.grad)
    return step


@pytest.mark.parametrize("kind", UNREAD)
def test_what_the_step_does_not_look_at_may_be_anything(kind: str) -> None:
    assert steps_are_eagers(*UNREAD[kind], on_change="refuse").report.steps == 4


@pytest.mark.parametrize("kind", READ)
def test_what_the_step_looks_at_is_eagers_each_time(kind: str) -> None:
    report = steps_are_eagers(*READ[kind]).report
    assert report.retraced or report.steps < 4


def test_a_message_names_the_key() -> None:
    def batch(**more: Any) -> dict[str, Any]:
        return {"image": image(), "mask": None, "scale": 2.0, **more}

    step = poet_planner.compile(
        Reads(lambda b: b["image"] * b["scale"]), cross_entropy, (batch(), LABELS), quiet=True, on_change="refuse"
    )
    for wrong, words in (
        (batch(scale=3.0), r"the batch\[0\]\['scale'\] is 3.0, and was 2.0 when compiled"),
        (batch(mask=image()), r"another nesting .*: the batch\[0\]\['mask'\] is a tensor now, and is no tensor in"),
        ({}, r"the batch\[0\] is no tensor now, and holds tensors in the example; compile for it"),
    ):
        with pytest.raises(UserError, match=words):
            step(wrong, LABELS)
    reads_day, given = Reads(lambda b: b["image"] * b["day"].year), batch(day=date(2026, 1, 1))
    with pytest.raises(UserError, match=r"the batch\[0\]\['day'\] is of type date"):
        poet_planner.compile(reads_day, cross_entropy, (given, LABELS), quiet=True)
