# SPDX-License-Identifier: Apache-2.0
"""The places of Python's state that a step has read, found by a walk from model, loss and the functions that ran.

The walk goes along what was read only, so that what the step itself made, and what nobody looks at, drop out.
"""

from __future__ import annotations

import gc
import sys
import weakref
from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from poet_runtime.traced_graph import Kept
from torch import Tensor, nn
from torch.nn.modules import module as every_module

from poet_planner.torch_step.bytecode import STORE, Item, chains, closed_over, imports
from poet_planner.torch_step.origin import Origin, function_of, has_state, origin_of, origin_of_class, origin_of_code
from poet_planner.torch_step.reads import ALL, MOST, Ran, Reads, counts_in_part, dictionary, names_of
from poet_planner.tracing.snapshot import held_in, is_a

PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)
_CODE = (type, ModuleType, FunctionType, BuiltinFunctionType, property, staticmethod, classmethod, cached_property)
_TABLES = ("_parameters", "_buffers", "_modules")
_ARRAY_BYTES = 64 << 10

# (mapping, key, path) of a parameter or a buffer.
Slot = tuple[dict[str, Any], str, str]


@dataclass(frozen=True)
class Group:
    """Places with one owner: all are read at once.

    ``paths`` says how people call them; ``keys`` are those of a mapping.
    """

    read: Callable[[Any], Sequence[Any]]
    owner: Any
    paths: Sequence[str]
    keys: Sequence[Any] = ()

    def gone(self) -> str:
        """The first place that is not there any more."""
        missing = (path for key, path in zip(self.keys, self.paths, strict=False) if key not in self.owner)
        return next(missing, self.paths[0])


@dataclass(frozen=True)
class Fact:
    """What is compared as plain data: a length, the keys of a mapping, the class of an object.

    ``describe`` says in words how it differs, or None where that does not matter; ``was`` is what has been read first.
    """

    read: Callable[[], Any]
    describe: Callable[[Any, Any], str | None]
    was: Any


class Places:
    """All places, and what was found there.

    Attributes
    ----------
    groups : list of Group
    facts : list of Fact
    tensors : list of (str, callable, Tensor)
        Path of each place that holds a tensor, what reads it, and the tensor.
    """

    def __init__(
        self, roots: Mapping[str, object], slots: Iterable[Slot], reads: Reads, kept: Iterable[Kept] = ()
    ) -> None:
        self.groups: list[Group] = []
        self.facts: list[Fact] = []
        self.tensors: list[tuple[str, Callable[[], Any], Tensor]] = []
        self._reads = reads
        self._seen: dict[int, object] = {}
        self._known: dict[int, set[object]] = defaultdict(set)
        self._keyed: set[int] = set()
        self._kept: list[object] = []
        self._pending: deque[tuple[str, Any, Callable[[], Any]]] = deque()
        self._reached: set[Ran] = set()
        self._written: dict[int, set[object]] = defaultdict(set)
        for one in kept:
            self._kept.append(one.container)
            self._written[id(one.container)].add(one.name)
            self._known[id(one.container)].add(one.name)
        for path, root in roots.items():
            self._pending.append((path, root, partial(_itself, root)))
        for mapping, key, path in slots:
            self._place(mapping, [key], [path])
        for name, hooks in vars(every_module).items():
            if name.startswith("_global_") and isinstance(hooks, dict):
                self._pending.append(("the hooks on all modules", hooks, partial(_itself, hooks)))
        # What PyTorch's own layers call is the one part of its code that people replace.
        called = [name for name, value in vars(nn.functional).items() if callable(value)]
        self._fact(partial(_getter(called), vars(nn.functional)), partial(_function_changed, called))
        for ran in reads.ran.values():
            self._globals(ran.code, ran.names)
        self._walk()
        for function in self._other_functions():
            self._pending.append((function.__qualname__, function, partial(_itself, function)))
        self._walk()

    def _walk(self) -> None:
        while self._pending:
            path, thing, where = self._pending.popleft()
            if is_a(thing, Tensor):
                self.tensors.append((path, where, thing))
            elif not is_a(thing, *PLAIN, Enum) and id(thing) not in self._seen:
                self._seen[id(thing)] = thing
                self._look(path, thing, where)

    def _add(
        self,
        read: Callable[[Any], Sequence[Any]],
        owner: Any,
        paths: Sequence[str],
        keys: Sequence[Any] = (),
        follow: bool = True,
    ) -> None:
        """Take places on, and go on with what is there."""
        self.groups.append(Group(read, owner, paths, keys))
        if follow:
            for number, (path, value) in enumerate(zip(paths, read(owner), strict=True)):
                self._pending.append((path, value, partial(_nth, read, owner, number)))

    def _place(self, mapping: Any, names: Sequence[Any], paths: Sequence[str], follow: bool = True) -> None:
        """Take on some keys of a mapping."""
        known = self._known[id(mapping)]
        self._kept.append(mapping)
        new = [(name, path) for name, path in zip(names, paths, strict=True) if name not in known]
        if not new:
            return
        known.update(name for name, _ in new)
        keys, given = [name for name, _ in new], [path for _, path in new]
        self._add(_getter(keys, type(mapping)), mapping, given, keys, follow)

    def _fact(self, read: Callable[[], Any], describe: Callable[[Any, Any], str | None]) -> None:
        self.facts.append(Fact(read, describe, read()))

    def _look(self, path: str, thing: Any, where: Callable[[], Any]) -> None:
        kind: Any = type(thing)
        if id(thing) in self._written and is_a(thing, list, CellType):
            return
        if is_a(thing, dict):
            self._mapping(path, thing)
        elif is_a(thing, tuple):
            for number, value in enumerate(held_in(thing, tuple)[:MOST]):
                self._pending.append((f"{path}[{number}]", value, partial(_element, where, number)))
        elif is_a(thing, list, deque):
            self._sequence(path, thing)
        elif is_a(thing, set, frozenset):
            base = set if is_a(thing, set) else frozenset
            if base.__len__(thing) <= MOST:
                self._fact(lambda: frozenset(base.__iter__(thing)), lambda *_: f"{path} has other elements now")
                self._follow(path, *base.__iter__(thing))
        elif is_a(thing, CellType):
            self._add(_cell, thing, [path])
        elif is_a(thing, MethodType):
            self._follow(path, thing.__self__, thing.__func__)
        elif is_a(thing, partial):
            self._follow(path, thing.func, thing.args, thing.keywords)
        elif is_a(thing, weakref.ref):
            self._follow(path, thing())
        elif is_a(thing, ContextVar):
            self._add(_of_context, thing, [path])
        elif is_a(thing, FunctionType):
            self._function(path, thing)
        elif is_a(thing, BuiltinFunctionType):
            self._follow(path, thing.__self__)
        elif is_a(thing, MappingProxyType):
            self._fact(partial(tuple, thing), partial(_keys_changed, path))
            self._place(thing, [*thing], [f"{path}[{key!r}]" for key in thing])
        elif is_a(thing, bytearray, array):
            self._fact(partial(bytes, thing), lambda *_: f"{path} holds other numbers now")
        elif is_a(thing, np.ndarray):
            if thing.nbytes <= _ARRAY_BYTES and not thing.dtype.hasobject:
                self._fact(thing.tobytes, lambda *_: f"the numbers in {path} are others now")
        elif is_a(thing, ModuleType):
            if origin_of(str(getattr(thing, "__file__", None) or "")) is Origin.USER and thing.__name__ != "builtins":
                self._data(path, vars(thing))
        elif is_a(thing, type):
            if origin_of_class(thing) is Origin.USER and not issubclass(thing, nn.Module | Tensor | Enum):
                self._data(path, vars(thing), classes=True)
                self._of_class(thing, frozenset())
        elif has_state(kind):
            self._object(path, thing, kind)
        elif (function := function_of(thing)) is not None:
            self._follow(path, function)

    def _follow(self, path: str, *things: object) -> None:
        self._pending.extend((path, thing, partial(_itself, thing)) for thing in things)

    def _mapping(self, path: str, thing: dict[Any, Any]) -> None:
        if dict.__len__(thing) > MOST:
            self._fact(partial(dict.__len__, thing), partial(_length_changed, path))
            return
        self._keys(path, thing)
        self._place(thing, [*dict.keys(thing)], [_joined_key(path, key) for key in dict.keys(thing)])

    def _items(self, path: str, thing: Any, items: Collection[Item]) -> None:
        """Some elements of a dictionary."""
        keys = [item.key for item in items if item is not STORE]
        here = [key for key in keys if key in thing]
        if here:
            self._place(thing, here, [_joined_key(path, key) for key in here])
        if len(here) < len(keys):
            self._keys(path, thing)

    def _keys(self, path: str, thing: dict[Any, Any]) -> None:
        if id(thing) not in self._keyed:
            self._keyed.add(id(thing))
            self._kept.append(thing)
            written = self._written.get(id(thing), ())
            keys = partial(_keys_without, thing, written) if written else partial(tuple, dict.keys(thing))
            self._fact(keys, partial(_keys_changed, path))

    def _sequence(self, path: str, thing: Any) -> None:
        base = list if is_a(thing, list) else deque
        count = base.__len__(thing)
        self._fact(partial(base.__len__, thing), partial(_length_changed, path))
        if count <= MOST:
            self._add(_elements, thing, [f"{path}[{number}]" for number in range(count)])

    def _data(self, path: str, names: Mapping[str, Any], classes: bool = False) -> None:
        """All numbers, texts, containers and objects in a class or a file whose reads nobody can see."""
        data = [
            name
            for name, value in names.items()
            if not _is_dunder(name)
            and function_of(value) is None
            and (not isinstance(value, _CODE) or (classes and isinstance(value, type)))
        ]
        self._place(names, data, [_joined(path, name) for name in data])

    def _function(self, path: str, function: FunctionType) -> None:
        code = function.__code__
        if origin_of_code(code, function.__globals__) is not Origin.USER:
            inner = (value for cell in function.__closure__ or () for value in _cell(cell))
            self._follow(path, *(value for value in inner if isinstance(value, FunctionType)))
            return
        own = vars(function)
        self._keys(path, own)
        self._place(own, [*own], [_joined(path, name) for name in own])
        ran = self._reads.ran_of(code, function.__globals__)
        if ran is None:
            return
        self._reached.add(ran)
        self._add(_of_function, function, [f"the code of {path}", f"a default of {path}", f"a default of {path}"])
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self._variable(f"{name} of {path}", cell, closed_over(code).get(name, ()))

    def _variable(self, path: str, cell: CellType, items: Collection[Item] | None) -> None:
        """A variable of a closure, or of the container in it what counts."""
        (held,) = _cell(cell)
        if items is None or not all(counts_in_part(held, item) for item in items):
            self._pending.append((path, cell, partial(_itself, cell)))
        elif {*items} - {STORE}:
            self._add(_cell, cell, [path], follow=False)
            self._items(path, held, items)

    def _other_functions(self) -> list[FunctionType]:
        """Functions of the user's that ran, and that nothing has led to yet: they have defaults and closures, too."""
        wanted = {
            ran
            for ran in self._reads.ran.values()
            if ran not in self._reached
            and origin_of_code(ran.code, ran.names) is Origin.USER
            and (ran.code.co_name == "<lambda>" or ran.code.co_name[0] != "<")
        }
        if not wanted:
            return []
        functions = [one for one in gc.get_objects() if type(one) is FunctionType]
        found = [(one, self._reads.ran_of(one.__code__, one.__globals__)) for one in functions]
        return [one for one, ran in found if ran in wanted and _has_closed_over(one, ran.closed_over)]

    def _globals(self, code: CodeType, names: dict[str, Any]) -> None:
        users = origin_of_code(code, names) is Origin.USER
        file = Path(code.co_filename).name
        for chain in dict.fromkeys(chains(code)):
            owner: Any = names
            path = f"{file}:"
            for number, part in enumerate(chain):
                name = part.key if isinstance(part, Item) else part
                if name not in owner:
                    if isinstance(part, Item):
                        self._keys(path, owner)
                    break
                value = owner[name]
                if isinstance(value, type):
                    self._of_class(value, frozenset(), data=False)
                path += f"[{name!r}]" if isinstance(part, Item) else f" {name}" if owner is names else f".{name}"
                inner = names_of(value, chain[number + 1 :])
                if inner is not None and STORE in chain[number + 1 : number + 2]:
                    break
                if users or not isinstance(value, _CODE):
                    self._place(owner, [name], [path], follow=inner is None)
                    if inner is None and not isinstance(value, Tensor):
                        self._follow(path, value)
                elif inner is None and isinstance(value, FunctionType):
                    self._follow(path, value)
                if inner is None:
                    break
                owner = inner
        for name in imports(code):
            for absolute in (name, f"{names.get('__package__')}.{name}"):
                if absolute in sys.modules:
                    self._follow(absolute, sys.modules[absolute])

    def _object(self, path: str, thing: Any, kind: type) -> None:
        self._fact(partial(type, thing), partial(_class_changed, path))
        own = dictionary(thing)
        module = is_a(thing, nn.Module)
        tables = [own[name] for name in _TABLES if name in own] if module else []
        noted = self._reads.names.get(id(thing))
        if kind not in self._reads.watched and not module:
            read = {*own, *_slots(kind)}
        elif noted is None:
            return
        else:
            partly = {
                name
                for name, items in noted.items.items()
                if name in own and all(counts_in_part(own[name], item) for item in items)
            }
            read = {*noted.read, *(noted.items.keys() - partly), *(own if ALL in noted.read else ())}
            partly -= read
            for name in partly:
                self._items(_joined(path, name), own.get(name), noted.items[name])
                if noted.items[name] != {STORE}:
                    self._place(own, [name], [_joined(path, name)], follow=False)
        here = [name for name in own if name in read]
        if module:
            hooks = [name for name in here if name.endswith("_hooks") and own[name] == {}]
            here = [name for name in here if name not in hooks]
            if hooks:
                self.facts.append(
                    Fact(partial(_getter(hooks), own), partial(_hooks_changed, path, hooks), ({},) * len(hooks))
                )
        self._place(own, here, [_joined(path, name) for name in here])
        for table in tables:
            here = [name for name in table if name in read]
            self._place(table, here, [_joined(path, name) for name in here])
        for name in _slots(kind):
            if name in read and hasattr(thing, name):
                self._add(partial(_slot, name), thing, [_joined(path, name)])
        absent = frozenset(name for name in read if name not in own and name != ALL)
        given = self._of_class(kind, absent)
        self._absent(path, own, frozenset(name for name in absent if name not in given or not _is_kept(kind, name)))
        missing = absent.difference(given, *tables)
        for table in tables:
            self._absent(path, table, missing)

    def _absent(self, path: str, mapping: Mapping[str, Any], names: frozenset[str]) -> None:
        """None of these names may be there."""
        if names:
            self._kept.append(mapping)
            self._fact(partial(tuple, mapping), partial(_newly_set, path, names))

    def _of_class(self, kind: type, read: frozenset[str], data: bool = True) -> frozenset[str]:
        """Take on what a class and its bases gave, or their functions alone; the names of it that were read."""
        given = set()
        users = [base for base in kind.__mro__ if origin_of_class(base) is Origin.USER]
        for name in (*read, *(name for base in users for name in base.__dict__ if name not in read)):
            providers = [base for base in kind.__mro__ if name in base.__dict__]
            if not providers:
                continue
            given.add(name)
            base = providers[0]
            if name in self._known[id(base)] or not self._counts(base, name, read, data):
                continue
            self._known[id(base)].add(name)
            function = function_of(base.__dict__[name])
            self._place(base.__dict__, [name], [f"{base.__name__}.{name}"])
            if function is not None:
                self._follow(f"{base.__name__}.{name}", function)
            for earlier in kind.__mro__[: kind.__mro__.index(base)]:
                self._absent(earlier.__name__, earlier.__dict__, frozenset({name}))
        return frozenset(given & read)

    def _counts(self, base: type, name: str, read: frozenset[str], data: bool) -> bool:
        """Of the user's own classes, functions that ran, and all data; of a package's the data that were read.

        A `forward` counts whosever it is.
        """
        value, origin = base.__dict__[name], origin_of_class(base)
        function = function_of(value)
        if function is not None:
            ran = self._reads.ran_of(function.__code__, function.__globals__) is not None and origin is Origin.USER
            return ran or (name == "forward" and name in read)
        kind: Any = type(value)
        described = hasattr(kind, "__get__") and not has_state(kind)
        if isinstance(value, _CODE) or described or _is_dunder(name) or not data:
            return False
        return origin is Origin.USER or (origin is Origin.PACKAGE and name in read)


def _slots(kind: type) -> list[str]:
    found = []
    for base in kind.__mro__:
        names = base.__dict__.get("__slots__", ())
        names = (names,) if isinstance(names, str) else names
        found += [
            f"_{base.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
            for name in names
            if name not in ("__dict__", "__weakref__")
        ]
    return found


def _is_kept(kind: type, name: str) -> bool:
    """Whether a class itself puts a name beside its own: what `functools.cached_property` has computed once."""
    return isinstance(next(base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), cached_property)


def _has_closed_over(function: FunctionType, seen: Sequence[Mapping[str, object]]) -> bool:
    if not function.__code__.co_freevars:
        return True
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    now = {name: _cell(cell)[0] for name, cell in cells}
    return any(all(now.get(name) is value for name, value in one.items()) for one in seen)


def _getter(names: Sequence[Any], kind: Any = dict) -> Callable[[Any], Sequence[Any]]:
    """What reads some keys of a mapping; a class of the user's may make something new each time it is asked."""
    if issubclass(kind, dict) and kind.__getitem__ is not dict.__getitem__:
        return lambda mapping: [dict.__getitem__(mapping, name) for name in names]
    if len(names) == 1:
        (name,) = names
        return lambda mapping: (mapping[name],)
    return itemgetter(*names)


def _keys_without(thing: dict[Any, Any], written: Collection[object]) -> tuple[Any, ...]:
    return tuple(key for key in dict.keys(thing) if key not in written)


def _itself(thing: Any) -> Any:
    return thing


def _nth(read: Callable[[Any], Sequence[Any]], owner: Any, number: int) -> Any:
    return read(owner)[number]


def _element(where: Callable[[], Any], number: int) -> Any:
    return where()[number]


def _elements(thing: Any) -> list[Any]:
    return list.copy(thing) if is_a(thing, list) else [*deque.__iter__(thing)]


def _cell(cell: CellType) -> tuple[Any]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return (None,)


def _of_context(variable: ContextVar[Any]) -> tuple[Any]:
    try:
        return (variable.get(),)
    except LookupError:
        return (None,)


def _of_function(function: FunctionType) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _slot(name: str, thing: Any) -> tuple[Any]:
    return (getattr(thing, name, None),)


def _is_dunder(name: object) -> bool:
    return str(name).startswith("__") and str(name).endswith("__")


def _joined(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _joined_key(path: str, key: object) -> str:
    table = path.rpartition(".")
    return _joined(table[0], key) if table[2] in _TABLES else f"{path}[{key!r}]"


def _length_changed(path: str, now: int, was: int) -> str:
    return f"{path} has {now} elements now, and had {was}"


def _keys_changed(path: str, now: tuple[Any, ...], was: tuple[Any, ...]) -> str:
    new, gone = [key for key in now if key not in was], [key for key in was if key not in now]
    what = f"has {new[0]!r} now" if new else f"has no {gone[0]!r} any more" if gone else "is in another order now"
    return f"{path or 'the model'} {what}"


def _class_changed(path: str, now: type, was: type) -> str:
    return f"the class of {path or 'the model'} is {now.__name__} now, and was {was.__name__}"


def _hooks_changed(path: str, names: Sequence[str], now: Sequence[dict[Any, Any]], _: object) -> str:
    return f"{_joined(path, next(name for name, hooks in zip(names, now, strict=True) if hooks))} is no longer empty"


def _function_changed(names: Sequence[str], now: Sequence[Any], was: Sequence[Any]) -> str:
    name = next(name for name, *pair in zip(names, now, was, strict=True) if pair[0] is not pair[1])
    return f"torch.nn.functional.{name} is another function now"


def _newly_set(path: str, names: frozenset[str], now: tuple[str, ...], _: object) -> str | None:
    new = sorted(names.intersection(now))
    return f"{_joined(path, new[0])} is set now, and was the class's or missing" if new else None
