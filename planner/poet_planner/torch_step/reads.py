# SPDX-License-Identifier: Apache-2.0
"""The Python state that a step reads: attributes of objects, code that runs, and its closures.

The step is taken once under watch. A class is watched from the moment that one of its objects is met: as a part of the
step, as an argument, in a container, or as what an attribute or a global holds.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FrameType, MappingProxyType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from poet_planner.torch_step.bytecode import STORE, Chain, Item, chains, uses
from poet_planner.torch_step.origin import Origin, has_state, origin_of_class, origin_of_code
from poet_planner.tracing.checkpointing import without_checkpointing
from poet_planner.tracing.snapshot import Snapshot, base_of, held_in, is_a

# Elements of a container that are looked at one by one.
MOST = 10_000
# In the place of a name: somebody has looked at the whole `__dict__`.
ALL = "*"
# Closures of one code, made with different variables, that are told apart.
_CLOSURES = 16


@dataclass
class Names:
    """Of one object, the attributes that are read before the step itself has written them.

    ``items`` are those that are read only for some elements, ``self.options["scale"]``.
    """

    thing: object
    read: set[str] = field(default_factory=set)
    items: dict[str, set[Item]] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Ran:
    """Code that ran: with which globals, and the variables that it had closed over, each time others."""

    code: CodeType
    names: dict[str, Any]
    closed_over: list[dict[str, object]] = field(default_factory=list)


@dataclass
class Reads:
    """What a step has read."""

    names: dict[int, Names] = field(default_factory=dict)  # by the identity of an object
    # By the identities of code and globals, for copies of one file are equal; without PyTorch's, Python's and poet's.
    ran: dict[tuple[int, int], Ran] = field(default_factory=dict)
    # The classes whose objects' reads are known. Of others, all counts.
    watched: set[type] = field(default_factory=set)

    def ran_of(self, code: CodeType, names: Mapping[str, Any]) -> Ran | None:
        """What is known of code with these globals, if it ran."""
        return self.ran.get((id(code), id(names)))


def reads_of(
    run: Callable[[], object],
    parts: Sequence[object],
    written: Sequence[Tensor],
    without_data: AbstractContextManager[None] | None,
) -> Reads:
    """What a step reads that is taken once; model, loss, batch and generators stay as they are.

    ``run`` takes the step; ``parts`` are what it is made of, ``written`` is what it writes. Within ``without_data`` the
    step computes nothing. One that asks for its data then is taken with them nevertheless.
    """
    before = Snapshot(*parts, data=False)
    try:
        if without_data is not None:
            reads = Reads()
            with suppress(Exception), without_data, _watching(reads, parts):
                run()
                return reads
            before.restore()
        reads = Reads()
        contents = [tensor.clone() for tensor in written]
        try:
            with _watching(reads, parts):
                run()
        finally:
            with torch.no_grad():
                for tensor, content in zip(written, contents, strict=True):
                    tensor.copy_(content)
        return reads
    finally:
        torch.clear_autocast_cache()
        before.restore()


@contextmanager
def _watching(reads: Reads, parts: Sequence[object]) -> Iterator[None]:
    """Within, what the code of this thread reads is noted; classes and the profiler are put back after it.

    Nothing is collected meanwhile: what the garbage collector calls, `gc.callbacks` and finalizers, is no part of the
    step, and would be noted as if it were.
    """
    watch = _Watch(reads)
    before = sys.getprofile()
    collects = gc.isenabled()
    gc.disable()
    try:
        watch.patch(nn.Module)
        watch.meet([*parts])
        with torch.enable_grad(), without_checkpointing():
            sys.setprofile(watch.called)
            yield
    finally:
        sys.setprofile(before if callable(before) else None)
        if before is not None and not callable(before):
            before.enable()  # It is cProfile's.
        watch.end()
        if collects:
            gc.enable()


class _Watch:
    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._patched: list[tuple[type, str, Any]] = []
        self._notes: set[object] = set()
        self._met: set[type] = set()
        self._holding: set[type] = set()
        self._seen: dict[int, object] = {}
        self._others: dict[int, CodeType] = {}

    def meet(self, thing: Any) -> None:
        """Watch the class of an object, and those of all that hangs on it."""
        pending = [thing]
        while pending:
            one = pending.pop()
            kind: Any = type(one)
            if kind not in self._met:
                self._met.add(kind)
                if has_state(kind):
                    self.patch(kind)
            if id(one) not in self._seen and (kind in self._holding or _holds(kind)):
                self._holding.add(kind)
                self._seen[id(one)] = one
                pending += _held_by(one)

    def patch(self, kind: Any) -> None:
        """Let a class note which attributes are read and written; one written in C cannot."""
        if kind.__getattribute__ in self._notes:
            self._reads.watched.add(kind)
            return
        get, put = kind.__getattribute__, kind.__setattr__
        noted, mine = self._noted, threading.get_ident()

        def read(thing: Any, name: str) -> Any:
            if threading.get_ident() != mine:
                return get(thing, name)
            names = noted(thing)
            caller = sys._getframe(1)
            if name == "__dict__" and origin_of_code(caller.f_code, caller.f_globals) is not Origin.PLATFORM:
                names.read.add(ALL)
            value = None
            try:
                value = get(thing, name)
            finally:
                use = uses(caller.f_code).get(caller.f_lasti)
                if name not in names.written and use is not None and counts_in_part(value, use):
                    names.items.setdefault(name, set()).add(use)
                elif name not in names.written:
                    names.read.add(name)
            self.meet(value)
            return value

        def write(thing: Any, name: str, value: Any) -> None:
            put(thing, name, value)
            if threading.get_ident() == mine:
                noted(thing).written.add(name)

        for name, note in (("__getattribute__", read), ("__setattr__", write)):
            try:
                own = kind.__dict__.get(name)
                type.__setattr__(kind, name, note)
            except TypeError:
                return
            self._patched.append((kind, name, own))
            self._notes.add(note)
        self._reads.watched.add(kind)

    def called(self, frame: FrameType, event: str, _: Any) -> None:
        """The profiler: note the code, and meet its arguments and what its globals hold."""
        code = frame.f_code
        if event != "call" or id(code) in self._others:
            return
        if origin_of_code(code, frame.f_globals) is Origin.PLATFORM:
            self._others[id(code)] = code
            return
        held = frame.f_locals
        ran = self._reads.ran_of(code, frame.f_globals)
        if ran is None:
            ran = self._reads.ran[id(code), id(frame.f_globals)] = Ran(code, frame.f_globals)
            for chain in chains(code):
                for value in _along(ran.names, chain):
                    self.meet(value)
        if code.co_freevars and len(ran.closed_over) < _CLOSURES:
            ran.closed_over.append({name: held[name] for name in code.co_freevars if name in held})
        for value in held.values():
            self.meet(value)

    def end(self) -> None:
        for kind, name, own in reversed(self._patched):
            if own is None:
                type.__delattr__(kind, name)
            else:
                type.__setattr__(kind, name, own)

    def _noted(self, thing: object) -> Names:
        names = self._reads.names.get(id(thing))
        if names is None:
            names = self._reads.names[id(thing)] = Names(thing)
        return names


def _along(names: Mapping[Any, Any], chain: Chain) -> Iterator[Any]:
    """What a chain leads to, as far as files, classes and dictionaries go."""
    for number, name in enumerate(chain):
        key = name.key if isinstance(name, Item) else name
        if key not in names:
            return
        yield names[key]
        names = names_of(names[key], chain[number + 1 :]) or {}


def names_of(value: Any, rest: Chain) -> Mapping[Any, Any] | None:
    """What the rest of a chain is looked up in, if that is all that counts: a file, a class or a dictionary."""
    if not rest:
        return None
    name = rest[0]
    if isinstance(name, Item):
        return ({} if name is STORE else value) if counts_in_part(value, name) else None
    if isinstance(value, ModuleType):
        return vars(value)
    if isinstance(value, type) and origin_of_class(value) is not Origin.PLATFORM:
        return next((base.__dict__ for base in value.__mro__ if name in base.__dict__), None)
    return None


def counts_in_part(thing: Any, use: Item) -> bool:
    """Whether nothing but an element of a container counts, or where it is only written into, not even that.

    So it is for Python's own containers alone: others do with it what they like.
    """
    own = type(thing).__module__ in ("builtins", "collections")
    return own and isinstance(thing, dict | list | set | deque if use is STORE else dict)


def dictionary(thing: Any) -> dict[str, Any]:
    """The attributes of an object, read without a word to its class."""
    try:
        # A thread's own attributes are not where other objects' are.
        own = vars(thing) if isinstance(thing, threading.local) else object.__getattribute__(thing, "__dict__")
    except Exception:  # a property of this name is the user's code
        return {}
    return own if type(own) is dict else {}


_CONTAINERS = (dict, list, tuple, deque, set, frozenset, MappingProxyType)


def _holds(kind: Any) -> bool:
    return issubclass(kind, (*_CONTAINERS, partial, MethodType, weakref.ref, ContextVar)) or has_state(kind)


def _held_by(thing: Any) -> list[Any]:
    """What hangs on an object directly."""
    kind: Any = type(thing)
    held = [*dictionary(thing).values()] if has_state(kind) else []
    base = base_of(thing)
    if base is not None or is_a(thing, MappingProxyType, frozenset):
        values = _values(thing, base)
        held += values if len(values) <= MOST else ()
    elif is_a(thing, partial):
        held += (thing.func, thing.args, thing.keywords)
    elif is_a(thing, MethodType):
        held.append(thing.__self__)
    elif is_a(thing, weakref.ref):
        held.append(thing())
    elif is_a(thing, ContextVar):
        held.append(thing.get(None))
    return held


def _values(container: Any, base: Any) -> list[Any]:
    if base is None:
        return [*(container.values() if is_a(container, MappingProxyType) else frozenset.__iter__(container))]
    return [value for _, value in held_in(container, base)] if issubclass(base, dict) else held_in(container, base)
