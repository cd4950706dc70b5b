# SPDX-License-Identifier: Apache-2.0
"""What a step leaves in Python for others to read.

These are attributes, elements of dicts and lists, variables and globals: what hangs on model and loss before the step
is compared with what hangs on them after it.
"""

from __future__ import annotations

import gc
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import is_
from types import CellType, FunctionType, ModuleType
from typing import Any

import torch
from poet_profiles.errors import UserError
from poet_runtime.nested import Touched, Unread, parts_of, tensors_in, with_tensors
from poet_runtime.traced_graph import Kept
from torch import Tensor, nn

from poet_planner.tracing.snapshot import (
    MODULE_DICTS,
    attributes_of,
    base_of,
    held_in,
    is_a,
    items_of,
    joined,
    reachable,
    slots_of,
)

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, ModuleType)
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_MOST = 10_000
_WHERE = "keep it in an attribute, a dict, a list, a variable or a global"


class Before:
    """What hangs on the parts of a step before it is taken.

    ``state`` are its parameters and buffers.
    """

    def __init__(self, state: Iterable[Tensor], *parts: object) -> None:
        self._parts = parts
        self._state = {id(tensor): tensor for tensor in state}
        self._owners = {id(thing): thing for _, thing in reachable(*parts)}
        self._values = {(id(owner), place.key): place.value for owner in self._owners.values() for place in _of(owner)}

    def left(self, takes_numbers: bool) -> list[tuple[Kept, list[Tensor]]]:
        """The places that the step has put something in, and the tensors there.

        Raises
        ------
        UserError
            If it has left what a plan cannot, or with ``takes_numbers`` a number.
        """
        found = []
        for path, owner in reachable(*self._parts):
            for place in _of(owner) if id(owner) in self._owners and not is_a(owner, Tensor) else ():
                value, was = place.value, self._values.get((id(owner), place.key), self)
                if not (value is was or (place.key == _ALL and _alike(value, was))):
                    name = f"{path}{place.name}" if place.name[:1] in "[ " else joined(path, place.name)
                    tensors = self._tensors(value, name, place.put is not None, takes_numbers)
                    if tensors is not None and place.put is not None:
                        nest = with_tensors(value, itertools.repeat(_NO_DATA)) if tensors else value
                        get = partial(_now, owner, place.key)
                        found.append((Kept(name, place.container, place.key[1], get, place.put, nest, ()), tensors))
        return found

    def _tensors(self, value: Any, name: str, can_put: bool, takes_numbers: bool) -> list[Tensor] | None:
        """Those that stand there; None where nothing is to be done."""
        if id(value) in self._owners and id(value) not in self._state:
            return [] if can_put else None
        if is_a(value, *_NUMBERS) or (takes_numbers and type(value) in (int, float)):
            raise UserError(f"the step leaves in {name} a number that it takes out of a tensor; keep it a tensor")
        parts = parts_of(value)
        if any(not tensor.is_leaf and tensor.retains_grad for tensor in parts.tensors):
            raise UserError(f"the step keeps {name} with retain_grad(), and a plan has no gradient there")
        if parts.tensors and not can_put:
            raise UserError(f"the step leaves a tensor in {name}; {_WHERE}")
        strange = [one for one in parts.values.values() if not is_a(one, *_PLAIN)]
        if any(map(self._leads_to_a_tensor, strange)):
            raise UserError(f"the step leaves a tensor in {name}, within an object ({type(value).__name__}); {_WHERE}")
        return parts.tensors if can_put and all(map(_is_known, strange)) else None

    def _leads_to_a_tensor(self, thing: object) -> bool:
        """Whether what the step has made leads to a tensor, or to what only the batch knows."""
        pending, seen = deque([thing]), set(self._owners)
        while pending and len(seen) < len(self._owners) + _MOST:
            one = pending.popleft()
            if type(one) is Unread:
                raise Touched(object.__getattribute__(one, "_path"))
            if is_a(one, Tensor):
                return True
            if id(one) not in seen and not is_a(one, type, ModuleType, FunctionType, nn.Module):
                seen.add(id(one))
                pending.extend(gc.get_referents(one))
        return False


@dataclass(frozen=True)
class _Place:
    key: tuple[str, Any]
    value: Any
    name: str  # the end of its path
    container: Any
    put: Callable[[Any], object] | None


_ALL = ("all", None)
_NO_DATA = torch.empty(0)


def _of(owner: Any) -> Iterator[_Place]:
    """What hangs on a thing."""
    base = base_of(owner)
    if base is not None and issubclass(base, dict):
        for key, value in held_in(owner, base):
            yield _Place(("item", key), value, f"[{key!r}]", owner, partial(base.__setitem__, owner, key))
    elif base is list and any(is_a(one, Tensor) for one in held_in(owner, list)):
        # It is filled anew, with as many as there are.
        yield _Place(_ALL, held_in(owner, list), "", owner, partial(list.__setitem__, owner, slice(None)))
    elif base is not None:
        for number, one in enumerate(held_in(owner, base)):
            put = partial(list.__setitem__, owner, number) if base is list else None
            yield _Place(("item", number), one, f" ({base.__name__})" if put is None else f"[{number}]", owner, put)
    elif is_a(owner, CellType):
        for _, value in items_of(owner):
            yield _Place(("cell", None), value, "", owner, partial(setattr, owner, "cell_contents"))
    elif is_a(owner, FunctionType):
        for name, value in items_of(owner):
            if owner.__globals__.get(name, owner) is value:
                yield _Place(("global", name), value, name, owner.__globals__, partial(_set, owner.__globals__, name))
    elif is_a(owner, type):
        for name, value in items_of(owner):
            yield _Place(("class", name), value, name, owner, partial(setattr, owner, name))
    own = attributes_of(owner) or {}
    for name, value in [*own.items()]:
        if not (name in MODULE_DICTS and is_a(owner, nn.Module)):
            yield _Place(("attribute", name), value, name, own, partial(_set, own, name))
    for name, slot, value in slots_of(owner):
        yield _Place(("slot", name), value, name, owner, partial(slot.__set__, owner))


def _is_known(value: Any) -> bool:
    try:
        return not tensors_in(value)
    except UserError:
        return False


def _set(names: dict[str, Any], name: str, value: Any) -> None:
    names[name] = value


def _now(owner: Any, key: tuple[str, Any]) -> Any:
    return next(place.value for place in _of(owner) if place.key == key)


def _alike(one: Any, other: Any) -> bool:
    return is_a(other, list) and len(one) == len(other) and all(map(is_, one, other))
