# SPDX-License-Identifier: Apache-2.0
"""What in a batch is no tensor counts where the step looks at it.

Whether it looks at a file name, say, a trace shows with something in its place that cannot be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
from poet_profiles.errors import UserError
from poet_runtime.nested import Parts, Touched, Unread, parts_of, tensors_in, with_values
from poet_runtime.traced_graph import TracedGraph

from poet_planner.torch_step.guard import Change
from poet_planner.torch_step.structure import structure

# Code asks who they are, and no stand-in is they.
_ASKED_FOR = (bool, type(None), Enum, type, torch.dtype, torch.device, torch.layout, torch.memory_format)


@dataclass
class Values:
    """What a step has seen of a batch's, by path: of those that it does not look at, the type."""

    seen: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, batch: Sequence[Any], traced: TracedGraph, again: Callable[[Any], TracedGraph]) -> Values:
        """What the step ``traced`` has seen of its batch; ``again`` traces it with another one."""
        values = parts_of(batch).values
        masks = {path: _mask(value, path) for path, value in values.items() if not isinstance(value, _ASKED_FOR)}
        while masks:
            try:
                if not _same(again(with_values(batch, masks)), traced):
                    masks.clear()
                break
            except Touched as path:
                del masks[str(path)]
            except UserError:
                masks.clear()
        return cls({path: value.__class__ if path in masks else repr(value) for path, value in values.items()})

    def changed(self, batch: Mapping[str, Any]) -> Change | None:
        """The first value that is another now."""
        for path, was in self.seen.items():
            value = batch[path]
            if (type(value) if isinstance(was, type) else repr(value)) != was:
                old = f"a {was.__name__}" if isinstance(was, type) else was
                return Change(f"{path} is {_short(repr(value))}, and was {_short(old)}", plain=True)
        return None


def readable(batch: Sequence[Any]) -> Sequence[Any]:
    """The batch, with what cannot be looked at in the place of objects that poet does not know."""
    masks = {}
    for path, value in parts_of(batch).values.items():
        try:
            tensors_in(value, path)
        except UserError:
            masks[path] = _mask(value, path)
    return with_values(batch, masks) if masks else batch


def touched(path: Touched, parts: Parts) -> UserError:
    """What to say where a step looks at such an object."""
    try:
        tensors_in(parts.values[str(path)], str(path))
    except UserError as refusal:
        return refusal
    raise path


def _mask(value: Any, path: str) -> Any:
    return value if type(value) is Unread else Unread(type(value), path)


def _same(one: TracedGraph, other: TracedGraph) -> bool:
    """Whether two steps are the same in every number, too."""

    def numbers(traced: TracedGraph) -> list[str]:
        return [repr((each.args, each.kwargs)) for each in (*traced.operators, *traced.bookkeeping)]

    return (
        structure(one) == structure(other)
        and numbers(one) == numbers(other)
        and all(map(torch.equal, one.constants.values(), other.constants.values()))
    )


def _short(text: str) -> str:
    return text if len(text) < 60 else f"{text[:57]}…"
