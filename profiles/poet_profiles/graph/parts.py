# SPDX-License-Identifier: Apache-2.0
"""A network's tensors that a graph has in parts: parameters whose operators were cut into several (docs/SPEC.md, 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any

from poet_profiles.errors import FaultError
from poet_profiles.graph.model import Graph, Kept, Resident

if TYPE_CHECKING:
    from numpy.typing import NDArray

Tensor = Resident | Kept


def name_of(tensor: Tensor) -> str:
    """The tensor's id in the network: its own, or that of what it is a part of."""
    return tensor.part.of if tensor.part else tensor.id


def whole_shapes(tensors: Iterable[Tensor]) -> dict[str, tuple[int, ...]]:
    """Shapes of the network's tensors by their id in it, those in parts among them."""
    shapes: dict[str, tuple[int, ...]] = {}
    for tensor in tensors:
        end = tuple(end for _, end in _extents(tensor)) if tensor.part else tensor.shape
        shapes[name_of(tensor)] = tuple(map(max, end, shapes.get(name_of(tensor), end)))
    return shapes


def cut_from(tensor: Tensor, whole: NDArray[Any]) -> NDArray[Any]:
    """What a tensor is of the network's, ``whole``; any axes before its own, such as steps, stay whole."""
    part: NDArray[Any] = whole[_place(tensor)] if tensor.part else whole
    return part


def joined(tensors: Iterable[Tensor], arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Arrays by id, with each network's tensor whole in the place of its parts.

    Parameters
    ----------
    arrays : mapping of str to array
        By id: all parts of a tensor or none. Axes before the tensor's own, such as steps, are the parts' own.
    """
    import numpy as np

    given = [tensor for tensor in tensors if tensor.id in arrays]
    shapes = whole_shapes(given)
    parts = {tensor.id for tensor in given if tensor.part}
    wholes = {id: array for id, array in arrays.items() if id not in parts}
    for tensor in given:
        if tensor.part:
            array = arrays[tensor.id]
            before = array.shape[: array.ndim - len(tensor.shape)]
            whole = wholes.setdefault(name_of(tensor), np.empty((*before, *shapes[name_of(tensor)]), array.dtype))
            whole[_place(tensor)] = array
    return wholes


def check_parts(graph: Graph) -> None:
    """Whether parts fill their tensors, without overlap."""
    tensors: tuple[Tensor, ...] = (*graph.residents, *graph.kept)
    parts: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        if tensor.part:
            if len(tensor.part.start) != len(tensor.shape) or 4 * prod(tensor.shape) != tensor.bytes:
                raise FaultError(f'{tensor.id}: its "part" and its bytes do not go with its shape')
            parts.setdefault(tensor.part.of, []).append(tensor)
    for tensor in tensors:
        if tensor.id in parts:
            raise FaultError(f"{tensor.id} is there whole and in parts")
    for id, own in parts.items():
        if len({len(part.shape) for part in own}) > 1:
            raise FaultError(f"the parts of {id} have different numbers of axes")
    shapes = whole_shapes(tensors)
    for id, own in parts.items():
        overlap = any(_meet(one, other) for one, other in combinations(own, 2))
        if overlap or sum(part.bytes for part in own) != 4 * prod(shapes[id]) or len({part.kind for part in own}) > 1:
            raise FaultError(f"the parts of {id} do not make one whole tensor")


def _place(tensor: Tensor) -> Any:
    """What an array of the whole tensor is indexed with."""
    return (..., *(slice(*extent) for extent in _extents(tensor)))


def _extents(tensor: Tensor) -> list[tuple[int, int]]:
    """Where a part begins and ends, along each axis."""
    assert tensor.part is not None
    return [(start, start + extent) for start, extent in zip(tensor.part.start, tensor.shape, strict=True)]


def _meet(one: Tensor, other: Tensor) -> bool:
    pairs = zip(_extents(one), _extents(other), strict=True)
    return all(a < d and c < b for (a, b), (c, d) in pairs)
