# SPDX-License-Identifier: Apache-2.0
"""The tensors in what a model is called with: tuples, lists, dicts and dataclasses of tensors and of fixed values."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import torch
from poet_profiles.errors import UserError
from torch import Tensor

_FIXED = (bool, int, float, complex, str, bytes, Enum, slice, range, torch.dtype, torch.device, torch.memory_format)


def tensors_in(nested: Any, where: str = "the batch") -> list[Tensor]:
    """All tensors, in order.

    Raises
    ------
    UserError
        If something else than tensors, fixed values and containers of them is there; it is found at ``where``.
    """
    found: list[Tensor] = []
    _changed(nested, found.append, where)
    return found


def with_tensors(nested: Any, tensors: Iterable[Tensor]) -> Any:
    """The same nest with other tensors in their places; containers are new ones, too."""
    others = iter(tensors)
    return _changed(nested, lambda _: next(others), "the batch")


def fixed_in(nested: Any) -> Any:
    """What of it is the same for all batches, as plain data: containers and fixed values, a tensor's place empty."""
    if isinstance(nested, Tensor):
        return ...
    if isinstance(nested, list | tuple):
        return [fixed_in(part) for part in nested]
    if isinstance(nested, Mapping):
        return {key: fixed_in(part) for key, part in nested.items()}
    if is_dataclass(nested) and not isinstance(nested, type):
        return {field.name: fixed_in(getattr(nested, field.name)) for field in fields(nested)}
    return nested


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


def _changed(nested: Any, change: Callable[[Tensor], Any], where: str) -> Any:
    if isinstance(nested, Tensor):
        return change(nested)
    if nested is None or isinstance(nested, _FIXED):
        return nested
    if isinstance(nested, list | tuple):
        parts = [_changed(part, change, f"{where}[{index}]") for index, part in enumerate(nested)]
        return type(nested)(*parts) if hasattr(nested, "_fields") else type(nested)(parts)
    other: Any
    if isinstance(nested, Mapping):
        other = copy.copy(nested)
        for key, part in nested.items():
            other[key] = _changed(part, change, f"{where}[{key!r}]")
        return other
    if is_dataclass(nested) and not isinstance(nested, type):
        other = copy.copy(nested)
        for field in fields(nested):
            part = _changed(getattr(nested, field.name), change, f"{where}.{field.name}")
            object.__setattr__(other, field.name, part)
        return other
    raise UserError(
        f"{where} is of type {type(nested).__name__}; inputs and targets of a Model may be tensors, None, numbers, "
        "flags, texts, and tuples, lists, dicts and dataclasses of these"
    )
