# SPDX-License-Identifier: Apache-2.0
"""What a training step can change on a module, its loss and its batch, and the way back; nothing has to be copyable.

Looked at is what hangs on them: attributes, containers, objects and classes of the user's own, variables that the
user's functions have closed over, and globals that they name. Installed packages' code keeps its secrets.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn

Undo = Callable[[], object]
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
_CONTAINERS = (list, tuple, dict, set, deque)


class Snapshot:
    """The state of a step's parts, to be put back; ``data`` says whether that of the tensors is kept, too."""

    def __init__(self, *parts: object, data: bool = True) -> None:
        self._undo: list[Undo] = [put for _, put in generators().values()]
        for _, thing in _reachable(*parts):
            self._undo += _undo_tensor(thing, data) if isinstance(thing, Tensor) else _undo(thing)

    def restore(self) -> None:
        """Put everything back."""
        for undo in self._undo:
            undo()


def plain_state(*parts: object) -> dict[str, object]:
    """By path, all numbers, flags and texts, how long containers are, and how far generators have come.

    A tensor is a tensor, whatever it holds.
    """
    state: dict[str, object] = {name: repr(value) for name, (value, _) in generators().items()}
    for path, thing in _reachable(*parts):
        generator = _generator(thing)
        if generator is not None:
            state[path] = repr(generator[0])
        for name, value in _items(thing):
            plain = isinstance(value, _PLAIN)
            state[_joined(path, name)] = value if plain else Tensor if isinstance(value, Tensor) else type(value)
        if isinstance(thing, _CONTAINERS):
            state[f"the length of {path}"] = len(thing)
    return state


def _reachable(*parts: object) -> Iterator[tuple[str, Any]]:
    """Everything with a state that hangs on the parts, once, and the path to it."""
    seen: set[int] = set()
    pending: list[tuple[str, object]] = [("", part) for part in reversed(parts)]
    while pending:
        path, thing = pending.pop()
        if id(thing) in seen or not _has_state(thing):
            continue
        seen.add(id(thing))
        yield path, thing
        children = [(_joined(path, name), child) for name, child in _items(thing)]
        children.append((type(thing).__qualname__, type(thing)))
        pending += reversed(children)


def _has_state(thing: object) -> bool:
    if isinstance(thing, (nn.Module, *_CONTAINERS, partial, CellType, MethodType, Tensor)):
        return True
    if _generator(thing) is not None:
        return True
    return hasattr(thing, "__dict__") and _is_users(thing if isinstance(thing, type | FunctionType) else type(thing))


def _is_users(thing: type | FunctionType) -> bool:
    """Whether a class or a function is no installed package's."""
    file = getattr(sys.modules.get(thing.__module__ or ""), "__file__", None) or ""
    installed = "site-packages" in file or "dist-packages" in file
    root = (thing.__module__ or "").partition(".")[0]
    return (not installed and root not in sys.stdlib_module_names) or root == "__main__"


def _items(thing: Any) -> Iterable[tuple[str, object]]:
    """What one thing holds, and under which names."""
    if isinstance(thing, nn.Module):
        return _module_items(thing)
    if isinstance(thing, dict):
        return [(str(key), value) for key, value in thing.items()]
    if isinstance(thing, list | tuple | deque):
        return [(str(index), value) for index, value in enumerate(thing)]
    if isinstance(thing, CellType):
        return [("", thing.cell_contents)] if _is_full(thing) else []
    if isinstance(thing, MethodType):
        return [("", thing.__self__), ("", thing.__func__)]
    if isinstance(thing, partial):
        return [("", thing.func), ("", thing.args), ("", thing.keywords)]
    if isinstance(thing, FunctionType):
        return [*_function_items(thing)] if _is_users(thing) else []
    if isinstance(thing, type):
        return [(name, value) for name, value in vars(thing).items() if not name.startswith("__")]
    return (
        []
        if isinstance(thing, Tensor) or _generator(thing)
        else vars(thing).items()
        if hasattr(thing, "__dict__")
        else []
    )


def _module_items(module: nn.Module) -> Iterator[tuple[str, object]]:
    for name, value in vars(module).items():
        yield from value.items() if name in ("_parameters", "_buffers", "_modules") else ((name, value),)


def _function_items(function: FunctionType) -> Iterator[tuple[str, object]]:
    yield from zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    yield from vars(function).items()
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_full(cell: CellType) -> bool:
    try:
        return bool([cell.cell_contents])
    except ValueError:
        return False


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


def generators() -> dict[str, tuple[object, Undo]]:
    """PyTorch's, Python's and NumPy's own: the state of each, and what puts it back."""
    found = {"PyTorch's random generator": _generator(torch.default_generator)}
    state = random.getstate()
    found["Python's random generator"] = (state, partial(random.setstate, state))
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state = numpy.random.get_state()
        found["NumPy's random generator"] = (state, partial(numpy.random.set_state, state))
    return {name: pair for name, pair in found.items() if pair}


def _generator(thing: Any) -> tuple[object, Undo] | None:
    """The state of a source of numbers, and what puts it back."""
    if isinstance(thing, torch.Generator):
        data = thing.get_state()
        return data.numpy().tobytes(), partial(thing.set_state, data)
    if isinstance(thing, random.Random):
        return thing.getstate(), partial(thing.setstate, thing.getstate())
    if isinstance(thing, itertools.count):
        return thing, _nothing
    if type(thing).__module__.startswith("numpy.random"):
        bits = getattr(thing, "bit_generator", None) or getattr(thing, "_bit_generator", None)
        return (bits.state, partial(setattr, bits, "state", bits.state)) if bits is not None else None
    return None


def _undo(thing: Any) -> Iterator[Undo]:
    generator = _generator(thing)
    if generator is not None:
        yield generator[1]
    elif isinstance(thing, nn.Module):
        for one in (vars(thing), *(value for value in vars(thing).values() if isinstance(value, dict))):
            yield partial(_refill, one, one.copy(), one.update)
    elif isinstance(thing, list | deque):
        yield partial(_refill, thing, list(thing), thing.extend)
    elif isinstance(thing, set | dict):
        yield partial(_refill, thing, thing.copy(), thing.update)
    elif isinstance(thing, CellType):
        if _is_full(thing):
            yield partial(setattr, thing, "cell_contents", thing.cell_contents)
    elif isinstance(thing, type):
        yield partial(_reassign, thing, {name: value for name, value in _items(thing) if isinstance(value, _PLAIN)})
    elif isinstance(thing, FunctionType):
        names = {name: value for name, value in _items(thing) if isinstance(value, _PLAIN)}
        yield partial(thing.__globals__.update, names.items() & thing.__globals__.items())
    elif not isinstance(thing, tuple | MethodType | partial):
        yield partial(_refill, vars(thing), vars(thing).copy(), vars(thing).update)


def _undo_tensor(tensor: Tensor, data: bool) -> Iterator[Undo]:
    shown, gradient = tensor.data, tensor.grad if tensor.is_leaf else None
    if data and tensor.layout is torch.strided:
        for storage in (shown.untyped_storage(), *([gradient.untyped_storage()] if gradient is not None else [])):
            yield partial(storage.copy_, storage.clone())  # type: ignore[no-untyped-call]
    needed = tensor.requires_grad

    def restore() -> None:
        if tensor.data_ptr() != shown.data_ptr():
            tensor.data = shown
        if tensor.is_leaf:
            tensor.requires_grad_(needed)
            tensor.grad = gradient

    yield restore


def _reassign(owner: type, kept: dict[str, object]) -> None:
    for name, value in kept.items():
        if vars(owner).get(name) is not value:
            setattr(owner, name, value)


def _refill(container: Any, kept: Any, fill: Callable[[Any], object]) -> None:
    container.clear()
    fill(kept)


def _nothing() -> None:
    pass
