# SPDX-License-Identifier: Apache-2.0
"""The tensors in what a model is called with: tuples, lists, dicts and objects of tensors and of fixed values."""

from __future__ import annotations

import copy
from collections import ChainMap, UserDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Any, NoReturn

import torch
from poet_profiles.errors import UserError
from torch import Tensor

_FIXED = (bool, int, float, complex, str, bytes, Enum, slice, range, torch.dtype, torch.device, torch.memory_format)


class Touched(BaseException):
    """Somebody has looked at what an `Unread` stands for, at a path."""


class Unread:
    """Stands for a value that is no tensor: of its type alone may be asked, all else ends in `Touched`."""

    __slots__ = ("_kind", "_path")

    def __init__(self, kind: type, path: str) -> None:
        object.__setattr__(self, "_kind", kind)
        object.__setattr__(self, "_path", path)

    def __getattribute__(self, name: str) -> Any:
        kind = object.__getattribute__(self, "_kind")
        if name == "__class__":
            return kind
        if not hasattr(kind, name) and not kind.__dictoffset__:
            raise AttributeError(name)
        raise Touched(object.__getattribute__(self, "_path"))


def _touched(unread: Any, *_: Any, **__: Any) -> NoReturn:
    raise Touched(object.__getattribute__(unread, "_path"))


_OWN = ("__new__", "__init__", "__getattribute__", "__doc__", "__init_subclass__", "__class_getitem__")
_OPERATORS = {name for kind in (int, float, str, bytes, list, dict, set) for name in vars(kind) if name not in _OWN}
for _name in (*_OPERATORS, "__bytes__", "__call__", "__complex__", "__dir__", "__fspath__", "__next__", "__setattr__"):
    if _name.startswith("__"):
        setattr(Unread, _name, _touched)


@dataclass
class Parts:
    """What a nest is made of.

    Attributes
    ----------
    form
        Containers with their keys in order, ``...`` where a tensor is, None where there is none; it can be hashed.
    tensors : list of Tensor
        In order.
    values : dict
        By path, all that holds no tensor, each as large as may be.
    """

    form: Any
    tensors: list[Tensor] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)


def parts_of(nested: Any, where: str = "the batch") -> Parts:
    """Take a nest apart; what is no container that poet knows is a value."""
    if isinstance(nested, Tensor):
        return Parts(..., [nested])
    parts = [(key, parts_of(part, where + key)) for key, part in _held(nested)]
    tensors = [tensor for _, part in parts for tensor in part.tensors]
    if not tensors:
        return Parts(None, [], {where: nested})
    values = {path: value for _, part in parts for path, value in part.values.items()}
    return Parts((type(nested), tuple((key, part.form) for key, part in parts)), tensors, values)


def other_nest(now: Any, was: Any, where: str = "the batch") -> str | None:
    """Where a tensor, or what holds some, has come to or gone from a form, in words; the order does not matter."""
    if isinstance(now, tuple) and isinstance(was, tuple):
        ours, theirs = dict(now[1]), dict(was[1])
        found = (other_nest(ours.get(key), theirs.get(key), where + key) for key in {**theirs, **ours})
        return next(filter(None, found), None)
    return None if now is was else f"{where} {_FORM[type(now)]} now, and {_FORM[type(was)]} in the example"


_FORM = {type(...): "is a tensor", tuple: "holds tensors", type(None): "is no tensor"}


def _held(nested: Any) -> list[tuple[str, Any]]:
    """What a container holds, and what a path to it ends with."""
    if type(nested) is Unread or isinstance(nested, str):
        return []
    elements = [(f"[{key!r}]", nested[key]) for key in _keys(nested)]
    return elements + [(f".{name}", getattr(nested, name)) for name in _names(nested)]


def _keys(nested: Any) -> Iterable[Any]:
    """By what a container has its elements."""
    return nested if isinstance(nested, Mapping) else range(len(nested)) if isinstance(nested, list | tuple) else ()


def _names(nested: Any) -> list[str]:
    """The attributes that an object is made of: fields, and whatever else was set; of a container, those beside it."""
    if isinstance(nested, type):
        return []
    own = getattr(nested, "__dict__", {})
    if isinstance(nested, SimpleNamespace | list | tuple | Mapping):
        held = _HOLDING if isinstance(nested, UserDict | ChainMap) else ()
        same = _tensors_of(nested)
        return [] if own is nested else [name for name in own if name not in held and id(own[name]) not in same]
    return [*dict.fromkeys([*(one.name for one in fields(nested)), *own])] if is_dataclass(nested) else []


def _tensors_of(nested: Any) -> dict[int, Any]:
    """By what a container has each of its own tensors: an attribute may be one of them."""
    return {id(nested[key]): key for key in _keys(nested) if isinstance(nested[key], Tensor)}


# Where these have their elements.
_HOLDING = ("data", "maps")


def tensors_in(nested: Any, where: str = "the batch") -> list[Tensor]:
    """All tensors, in order.

    Raises
    ------
    UserError
        If something else than tensors, fixed values and containers of them is there; it is found at ``where``.
    """
    found: list[Tensor] = []
    _changed(nested, found.append, where, {})
    return found


def with_tensors(nested: Any, tensors: Iterable[Tensor]) -> Any:
    """The same nest with other tensors in their places; containers are new ones, too."""
    others = iter(tensors)
    return _changed(nested, lambda _: next(others), "the batch", {})


def with_values(nested: Any, values: Mapping[str, Any]) -> Any:
    """The same nest with other values at some paths (`parts_of`)."""
    return _changed(nested, lambda tensor: tensor, "the batch", values)


def fixed_in(nested: Any) -> Any:
    """What of it is the same for all batches, as plain data: containers and fixed values, a tensor's place empty."""
    if isinstance(nested, Tensor) or type(nested) is Unread:
        return ...
    if isinstance(nested, list | tuple):
        return [fixed_in(part) for part in nested]
    if isinstance(nested, Mapping):
        return {key: fixed_in(part) for key, part in nested.items()}
    names = _names(nested)
    return {name: fixed_in(getattr(nested, name)) for name in names} if names else nested


def orders_in(fixed: Any) -> tuple[Any, ...]:
    """The keys of all dicts of what `fixed_in` gives, in order: tensors come in it, and dicts are equal in any."""
    if isinstance(fixed, dict):
        return (*fixed, *map(orders_in, fixed.values()))
    return tuple(map(orders_in, fixed)) if isinstance(fixed, list) else ()


def apart(tensors: Iterable[Tensor], others: Iterable[Tensor]) -> list[Tensor]:
    """The tensors, those copied that share memory with ``others`` or with each other: a tensor given twice is two."""
    taken = {tensor.untyped_storage()._cdata for tensor in others}
    separate = []
    for tensor in tensors:
        if tensor.layout is not torch.strided:  # refused later, by name
            separate.append(tensor)
            continue
        storage = tensor.untyped_storage()
        alone = storage._cdata not in taken and storage.nbytes() == tensor.nbytes
        taken.add(storage._cdata)
        separate.append(tensor if alone else tensor.detach().clone())
    return separate


def _changed(nested: Any, change: Callable[[Tensor], Any], where: str, values: Mapping[str, Any]) -> Any:
    if where in values:
        return values[where]
    if type(nested) is Unread:
        return nested
    if isinstance(nested, Tensor):
        return change(nested)
    if nested is None or isinstance(nested, _FIXED):
        return nested
    names = _names(nested)
    if isinstance(nested, list | tuple | Mapping):
        parts = {key: _changed(nested[key], change, f"{where}[{key!r}]", values) for key in _keys(nested)}
        beside = {}
        for name in names:
            with suppress(UserError):  # of a type that only this container knows: it stays
                beside[name] = _changed(getattr(nested, name), change, f"{where}.{name}", values)
        return _anew(nested, parts, beside, where)
    if names or isinstance(nested, SimpleNamespace):
        other = copy.copy(nested)
        for name in names:
            part = _changed(getattr(nested, name), change, f"{where}.{name}", values)
            object.__setattr__(other, name, part)
        return other
    raise UserError(
        f"{where} is of type {type(nested).__name__}; inputs and targets of a Model may be tensors, None, numbers, "
        "flags, texts, and tuples, lists, dicts and dataclasses of these"
    )


def _anew(nested: Any, parts: Mapping[Any, Any], beside: Mapping[str, Any], where: str) -> Any:
    """Another list, tuple or mapping of the same type, with other parts and attributes."""
    kind, other = type(nested), None
    try:
        if isinstance(nested, tuple):
            other = tuple.__new__(kind, [*parts.values()]) if hasattr(nested, "_fields") else kind([*parts.values()])
        else:
            other = copy.copy(nested)
        same = _tensors_of(nested)
        alike = {name: parts[same[id(one)]] for name, one in getattr(nested, "__dict__", {}).items() if id(one) in same}
        for name, part in {**beside, **alike}.items():  # first: one of them may be the dict that has the elements
            object.__setattr__(other, name, part)
        for key, part in () if isinstance(nested, tuple) else parts.items():
            other[key] = part
        if getattr(nested, "__dict__", None) is nested:  # its keys are its attributes, too
            other.__dict__ = other
    except Exception:  # whatever a type of the user's raises
        raise UserError(
            f"{where} is a {kind.__name__}, of which no other can be made; give a plain dict, list or tuple"
        ) from None
    return other
