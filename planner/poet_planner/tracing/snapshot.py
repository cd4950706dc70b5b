# SPDX-License-Identifier: Apache-2.0
"""What a training step can change on a module, its loss and its batch, and the way back; nothing has to be copyable.

Looked at is what hangs on them: attributes, containers, objects and classes of the user's own, variables that the
user's functions have closed over, and globals that they name. Installed packages' code keeps its secrets.

None of it is asked. A subclass of a container may forbid changes, sort what it shows or import what it lists: what
it holds is read and moved by the methods of the built-in type that it is made of, and only what differs is moved.
"""

from __future__ import annotations

import array
import itertools
import random
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping, MutableSequence, MutableSet
from functools import partial
from types import CellType, CodeType, FunctionType, MemberDescriptorType, MethodType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Undo = Callable[[], object]
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
# A subclass before its base.
_CONTAINERS = (OrderedDict, dict, list, tuple, set, deque)
_BUFFERS = (np.ndarray, bytearray, array.array)
# Larger ones are data sets; a copy of one may not fit.
_MOST_BUFFER_BYTES = 64 << 10
MODULE_DICTS = ("_parameters", "_buffers", "_modules")
# Whoever wrote them, they are there to hold what others put in.
_HOLDERS = (MutableMapping, MutableSequence, MutableSet, SimpleNamespace)


class Snapshot:
    """The state of a step's parts, to be put back; ``data`` says whether that of the tensors is kept, too."""

    def __init__(self, *parts: object, data: bool = True) -> None:
        self._undo: list[Undo] = [put for _, put in generators().values()]
        for _, thing in reachable(*parts):
            self._undo += _undo_tensor(thing, data) if is_a(thing, Tensor) else _undo(thing)

    def restore(self) -> None:
        """Put everything back, whatever one of it raises; the first fault is raised at the end."""
        faults = []
        for undo in self._undo:
            try:
                undo()
            except Exception as fault:
                faults.append(fault)
        if faults:
            raise faults[0]


def plain_state(*parts: object) -> dict[str, object]:
    """By path, all numbers, flags and texts, how long containers are, and how far generators have come.

    A tensor is a tensor, whatever it holds.
    """
    state: dict[str, object] = {name: repr(value) for name, (value, _) in generators().items()}
    for path, thing in reachable(*parts):
        generator = _generator(thing)
        if generator is not None:
            state[path] = repr(generator[0])
        if _is_buffer(thing):
            state[path] = bytes(_bytes_of(thing))
        items = [*items_of(thing)]
        for name, value in items:
            state[joined(path, name)] = _shown(value)
        if base_of(thing) is not None:
            state[f"the length of {path}"] = len(items)
    return state


def _shown(value: object) -> object:
    """A plain value, or what another one is; NaN is NaN."""
    if is_a(value, float, complex):
        return repr(value)
    return value if is_a(value, *_PLAIN) else Tensor if is_a(value, Tensor) else type(value)


def reachable(*parts: object) -> Iterator[tuple[str, Any]]:
    """Everything with a state that hangs on the parts, once, and the path to it."""
    seen: set[int] = set()
    pending: list[tuple[str, object]] = [("", part) for part in reversed(parts)]
    while pending:
        path, thing = pending.pop()
        if id(thing) in seen or not _has_state(thing):
            continue
        seen.add(id(thing))
        yield path, thing
        children = [(joined(path, name), child) for name, child in items_of(thing)]
        children += [(joined(path, name), child) for name, child in _beside(thing)]
        children.append((type(thing).__qualname__, type(thing)))
        pending += reversed(children)


def is_a(thing: object, *kinds: type) -> bool:
    """Like `isinstance`, without asking the object for its class: a proxy answers as it likes."""
    return issubclass(type(thing), kinds)


def _has_state(thing: object) -> bool:
    if is_a(thing, nn.Module, *_CONTAINERS, *_BUFFERS, *_HOLDERS, partial, CellType, MethodType, Tensor):
        return True
    if _generator(thing) is not None:
        return True
    if is_a(thing, type, FunctionType):
        return _is_users(thing)
    return _is_users(type(thing)) and (attributes_of(thing) is not None or any(True for _ in slots_of(thing)))


def _is_users(thing: Any) -> bool:
    """Whether a class or a function is no installed package's."""
    module = _module_of(thing)
    file = str(getattr(sys.modules.get(module), "__file__", None) or "")
    installed = "site-packages" in file or "dist-packages" in file
    root = module.partition(".")[0]
    return (not installed and root not in sys.stdlib_module_names) or root == "__main__"


def _module_of(thing: Any) -> str:
    """Of a class or a function; a class may have put anything there."""
    found = type.__getattribute__(thing, "__module__") if isinstance(thing, type) else thing.__module__
    return found if isinstance(found, str) else ""


def base_of(thing: object) -> type | None:
    """The built-in type that a container is made of."""
    return next((base for base in _CONTAINERS if is_a(thing, base)), None)


def held_in(container: Any, base: Any) -> list[Any]:
    """What a container holds in its order; pairs, if it has keys."""
    return [*base.items(container)] if issubclass(base, dict) else [*base.__iter__(container)]


def attributes_of(thing: object) -> dict[str, Any] | None:
    """An object's own attributes."""
    try:
        found = object.__getattribute__(thing, "__dict__")
    except Exception:  # a property of this name is the user's code
        return None
    return found if type(found) is dict else None


def slots_of(thing: object) -> Iterator[tuple[str, Any, Any]]:
    """Attributes of an object that have a place of their own: name, descriptor and value."""
    for kind in type(thing).__mro__:
        for name, place in vars(kind).items() if "__slots__" in vars(kind) and _is_users(kind) else ():
            if type(place) is MemberDescriptorType:
                try:
                    yield name, place, place.__get__(thing)
                except AttributeError:
                    continue


def items_of(thing: Any) -> Iterable[tuple[str, object]]:
    """What one thing holds, and under which names."""
    base = base_of(thing)
    if is_a(thing, nn.Module):
        return _module_items(thing)
    if base is not None and issubclass(base, dict):
        return [(_name(key), value) for key, value in held_in(thing, base)]
    if base is not None:
        # A set has no order that could be given.
        return [("" if base is set else str(index), value) for index, value in enumerate(held_in(thing, base))]
    if is_a(thing, CellType):
        return [("", thing.cell_contents)] if _is_full(thing) else []
    if is_a(thing, MethodType):
        return [("", thing.__self__), ("", thing.__func__)]
    if is_a(thing, partial):
        return [("", thing.func), ("", thing.args), ("", thing.keywords)]
    if is_a(thing, FunctionType):
        return [*_function_items(thing)] if _is_users(thing) else []
    if is_a(thing, type):
        return [(name, value) for name, value in vars(thing).items() if not name.startswith("__")]
    return [] if is_a(thing, Tensor, *_BUFFERS) or _generator(thing) else _own(thing)


def _beside(thing: Any) -> Iterable[tuple[str, object]]:
    """Attributes of a container's, beside what it holds."""
    return _own(thing) if base_of(thing) is not None else []


def _own(thing: Any) -> list[tuple[str, object]]:
    slots = [(name, value) for name, _, value in slots_of(thing)]
    return [*((_name(name), value) for name, value in (attributes_of(thing) or {}).items()), *slots]


def _name(key: object) -> str:
    return str(key) if is_a(key, *_PLAIN) else type(key).__name__


def _module_items(module: nn.Module) -> Iterator[tuple[str, object]]:
    for name, value in (attributes_of(module) or {}).items():
        yield from value.items() if name in MODULE_DICTS else ((name, value),)


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


def joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


_nobodys_seeds = itertools.count(3_141_592_653)


def displace_generators() -> None:
    """Put PyTorch's, Python's and NumPy's own where no program's seed does: then a step that seeds one changes it.

    Each time elsewhere, lest other threads draw the same numbers again.
    """
    seed = next(_nobodys_seeds) % 2**32
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


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
    if is_a(thing, torch.Generator):
        data = thing.get_state()
        return data.numpy().tobytes(), partial(thing.set_state, data)
    if is_a(thing, random.Random) and not is_a(thing, random.SystemRandom):
        return thing.getstate(), partial(thing.setstate, thing.getstate())
    if is_a(thing, itertools.count):
        return thing, _nothing
    if _module_of(type(thing)).startswith("numpy.random"):
        bits = getattr(thing, "bit_generator", None) or getattr(thing, "_bit_generator", None)
        return (bits.state, partial(setattr, bits, "state", bits.state)) if bits is not None else None
    return None


def _undo(thing: Any) -> Iterator[Undo]:
    base, generator = base_of(thing), _generator(thing)
    if generator is not None:
        yield generator[1]
    elif _is_buffer(thing):
        yield partial(_rewrite, thing, bytes(_bytes_of(thing)))
    elif is_a(thing, CellType):
        if _is_full(thing):
            yield partial(setattr, thing, "cell_contents", thing.cell_contents)
    elif is_a(thing, type):
        names = {name: value for name, value in items_of(thing) if is_a(value, *_PLAIN, Tensor)}
        yield partial(_reassign, thing, names)
    elif is_a(thing, FunctionType):
        known = thing.__globals__
        names = {name: known[name] for name in _names(thing.__code__) if is_a(known.get(name, known), *_PLAIN, Tensor)}
        yield partial(known.update, names)
    elif not is_a(thing, MethodType, partial):
        if base is not None and base is not tuple:
            yield partial(_refill, thing, base, held_in(thing, base))
        attributes = attributes_of(thing)
        if attributes is not None:
            inner = [attributes[name] for name in MODULE_DICTS if name in attributes] if is_a(thing, nn.Module) else []
            for one in (attributes, *inner):
                yield partial(_refill, one, base_of(one), held_in(one, base_of(one)))
        for _, place, value in slots_of(thing):
            yield partial(_put, place, thing, value)


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


def _refill(container: Any, base: Any, kept: list[Any]) -> None:
    """Let a container hold what it held; what is there already stays untouched."""
    held = held_in(container, base)
    if issubclass(base, dict):
        if _same_pairs(held, kept):
            return
        mine = {id(key) for key, _ in kept}
        for key, _ in held:
            if id(key) not in mine:
                base.__delitem__(container, key)
        for key, value in kept:
            if base.get(container, key, held) is not value:
                base.__setitem__(container, key, value)
        if not _same_pairs(held_in(container, base), kept):  # another order
            base.clear(container)
            for key, value in kept:
                base.__setitem__(container, key, value)
    elif base is set:
        if {*map(id, held)} != {*map(id, kept)}:
            set.clear(container)
            set.update(container, kept)
    elif [*map(id, held)] != [*map(id, kept)]:
        base.clear(container)
        base.extend(container, kept)


def _put(place: Any, thing: Any, kept: object) -> None:
    if place.__get__(thing) is not kept:
        place.__set__(thing, kept)


def _same_pairs(one: list[Any], other: list[Any]) -> bool:
    return [(id(key), id(value)) for key, value in one] == [(id(key), id(value)) for key, value in other]


def _is_buffer(thing: Any) -> bool:
    """Whether it holds numbers in memory of its own, few enough to be kept."""
    if is_a(thing, np.ndarray):
        view = np.ndarray.view(thing, np.ndarray)
        return bool(view.dtype != object and view.flags.writeable and view.nbytes <= _MOST_BUFFER_BYTES)
    return is_a(thing, bytearray, array.array) and memoryview(thing).nbytes <= _MOST_BUFFER_BYTES


def _bytes_of(thing: Any) -> bytes:
    return np.ndarray.tobytes(thing) if is_a(thing, np.ndarray) else memoryview(thing).tobytes()


def _rewrite(thing: Any, kept: bytes) -> None:
    """Put a buffer's numbers back, if others are there now; of one whose length has changed, too."""
    if _bytes_of(thing) == kept:
        return
    if is_a(thing, np.ndarray):
        view = np.ndarray.view(thing, np.ndarray)
        view[...] = np.frombuffer(kept, view.dtype).reshape(view.shape)
    elif is_a(thing, bytearray):
        bytearray.__setitem__(thing, slice(None), kept)
    else:
        array.array.__setitem__(thing, slice(None), array.array(thing.typecode, kept))


def _nothing() -> None:
    pass
