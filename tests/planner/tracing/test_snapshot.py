# SPDX-License-Identifier: Apache-2.0
"""Whatever a container's class does, it holds afterwards what it held: traced, compiled or refused."""

from __future__ import annotations

import array
import weakref
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import poet_planner
import pytest
import torch
from poet_planner.tracing import trace
from poet_planner.tracing.snapshot import Snapshot
from poet_profiles.errors import UserError
from torch import Tensor, nn
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.nn.functional import cross_entropy


class Frozen(OrderedDict):  # type: ignore[type-arg]
    """As diffusers' configurations: what is to fill it again raises, what empties it does not."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.is_frozen = True

    def __setitem__(self, key: Any, value: Any) -> None:
        if hasattr(self, "is_frozen"):
            raise RuntimeError("You cannot use __setitem__ on a Frozen instance.")
        super().__setitem__(key, value)

    def _forbidden(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("You cannot use this on a Frozen instance.")

    update = pop = setdefault = _forbidden  # type: ignore[assignment]


class Sorted(list):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(list.__iter__(self)))

    def extend(self, _: Any) -> None:
        raise TypeError("sorted")


class Lazy(OrderedDict):  # type: ignore[type-arg]
    """Looks a value up when it is asked for."""

    def items(self) -> Any:
        raise ImportError("no module for this entry")

    values = items

    def copy(self) -> Any:
        raise TypeError("its constructor wants other arguments")


class Mirrored(dict):  # type: ignore[type-arg]
    """Keeps each entry as an attribute, too; what is missing is made."""

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self.__dict__[key] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self[name] = found = Mirrored()
        return found


class Boxed(dict):  # type: ignore[type-arg]
    @property
    def __module__(self) -> Any:  # type: ignore[override]
        return self

    def clear(self) -> None:
        raise PermissionError("boxed")


class Without(set):  # type: ignore[type-arg]
    def clear(self) -> None:
        raise TypeError("a set for good")

    def __contains__(self, _: object) -> bool:
        return False


class Slotted:
    __slots__ = ("__dict__", "count", "never")

    def __init__(self) -> None:
        self.count = 1
        self.beside = [1]


class OnlySlots:
    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items = {"a": 1}


class Proxy:
    """As one of a request that is not there."""

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("working outside of a request")


class Silent:
    """Answers nobody."""

    def __getattribute__(self, name: str) -> Any:
        raise KeyError(name)


class NotDict:
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise ValueError("no attributes here")


class Unequal:
    def __eq__(self, _: object) -> bool:
        raise ArithmeticError("not comparable")

    def __hash__(self) -> int:
        return 1

    def __str__(self) -> str:
        raise UnicodeError("no name")


class Pair(NamedTuple):
    first: list[int]
    second: dict[str, int]


@dataclass
class Data:
    numbers: list[int] = field(default_factory=lambda: [3, 1])
    named: dict[str, Any] = field(default_factory=lambda: {"b": 1, "a": 2})


@dataclass(frozen=True)
class FrozenData:
    numbers: tuple[int, ...] = (3, 1)
    named: dict[str, Any] = field(default_factory=lambda: {"b": 1})


def rotated() -> OrderedDict[str, int]:
    made = OrderedDict(a=1, b=2, c=3)
    made.move_to_end("a")
    return made


class Held:
    """The target of a weak reference."""


HELD = Held()
ZOO: dict[str, Callable[[], Any]] = {
    "dict": lambda: {"b": 1, "a": [2]},
    "list": lambda: [3, 1, [2]],
    "set": lambda: {3, 1, 2},
    "deque": lambda: deque([3, 1, 2], maxlen=3),
    "tuple": lambda: ([1], {"a": 2}),
    "named tuple": lambda: Pair([1], {"a": 2}),
    "ordered dict": rotated,
    "default dict": lambda: defaultdict(list, b=[1], a=[2]),
    "counter": lambda: Counter("abca"),
    "chain map": lambda: ChainMap({"a": 1}, {"b": 2}),
    "user dict": lambda: UserDict({"b": 1, "a": 2}),
    "user list": lambda: UserList([3, 1]),
    "proxy of a mapping": lambda: MappingProxyType({"b": 1}),
    "namespace": lambda: SimpleNamespace(b=1, a=[2]),
    "weak values": lambda: weakref.WeakValueDictionary({"a": HELD}),
    "frozen": lambda: Frozen({"b": 1, "a": 2}),
    "sorted list": lambda: Sorted([3, 1, 2]),
    "lazy": lambda: Lazy(b=1, a=2),
    "mirrored": lambda: Mirrored(b=1, a=2),
    "boxed": lambda: Boxed(b=1, a=2),
    "set without clear": lambda: Without({1, 2}),
    "slots and attributes": Slotted,
    "slots": OnlySlots,
    "proxy": lambda: [Proxy()],
    "silent": lambda: [Silent()],
    "no attributes": lambda: [NotDict()],
    "NaN as a key": lambda: {float("nan"): 1, "b": float("nan")},
    "keys that cannot be compared": lambda: {Unequal(): 1},
    "immutable dict of torch": lambda: immutable_dict({"b": 1, "a": 2}),
    "immutable list of torch": lambda: immutable_list([3, 1]),
    "data class": Data,
    "frozen data class": FrozenData,
    "partial": lambda: partial(max, [1, 2], key=None),
    "array": lambda: np.arange(6.0).reshape(2, 3)[:, ::2],
    "masked array": lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
    "array of objects": lambda: np.array([1, "a"], object),
    "bytes": lambda: bytearray(b"abc"),
    "numbers": lambda: array.array("f", [1, 2]),
    "tensors": lambda: {"a": torch.ones(2), "b": [torch.zeros(1)]},
    "module dict": lambda: nn.ModuleDict({"b": nn.Linear(1, 1), "a": nn.Identity()}),
}


def printed(thing: Any) -> Any:
    """All that a thing holds, as deep as it goes, read by nobody's own methods."""
    kind = type(thing)
    base = next((one for one in (OrderedDict, dict, list, tuple, set, deque) if issubclass(kind, one)), None)
    try:
        attributes = object.__getattribute__(thing, "__dict__")
    except Exception:
        attributes = None
    slots = [
        (name, printed(place.__get__(thing)))
        for each in kind.__mro__
        for name, place in vars(each).items()
        if each.__module__ == __name__ and type(place).__name__ == "member_descriptor" and name in ("count", "items")
    ]
    beside = [printed(attributes) if type(attributes) is dict and attributes is not thing else None, slots]
    if base is not None and issubclass(base, dict):
        return kind, [(id(key), printed(value)) for key, value in base.items(thing)], beside
    if base is not None:
        held = [*base.__iter__(thing)]
        return kind, {*held} if base is set else [printed(value) for value in held], beside
    if issubclass(kind, np.ndarray):
        return kind, np.ndarray.tobytes(thing)
    if issubclass(kind, Tensor):
        return kind, thing.detach().numpy().tobytes()
    if issubclass(kind, bytearray | array.array | float):
        return kind, bytes(thing) if not issubclass(kind, float) else repr(thing)
    if beside != [None, []]:
        return kind, beside
    return (kind, thing) if issubclass(kind, int | str | bool) else (kind, id(thing))


class Net(nn.Module):
    def __init__(self, held: Any) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.held = held
        self.change: Callable[[Any], object] = lambda _: None

    def forward(self, x: Tensor) -> Tensor:
        self.change(self.held)
        return self.fc(x)  # type: ignore[no-any-return]


BATCH = torch.ones(2, 3), torch.tensor([0, 1])


@pytest.mark.parametrize("name", ZOO)
def test_what_a_module_holds_is_afterwards_what_it_was(name: str) -> None:
    net = Net(ZOO[name]())
    before = printed(net)
    with poet_planner.compile(net, cross_entropy, example=BATCH, quiet=True) as step:
        assert printed(net) == before
        step(*BATCH)
    trace(net, BATCH[:1], BATCH[1:], cross_entropy, "net")
    net.zero_grad()
    assert printed(net) == before


def add(held: Any) -> None:
    """Change what is held, past whatever its class forbids."""
    for base in (dict, list, set, deque):
        if issubclass(type(held), base):
            into: Any = OrderedDict if issubclass(type(held), OrderedDict) else base
            match base.__name__:
                case "dict":
                    into.clear(held)
                    into.__setitem__(held, "new", len(held))
                case "set":
                    into.add(held, "new")
                case _:
                    into.append(held, "new")
            return
    match held:
        case UserDict() | ChainMap():
            held["new"] = held.pop(next(iter(held.maps[0] if isinstance(held, ChainMap) else held)))
        case UserList():
            held.reverse()
        case bytearray() | array.array():
            held += held[:1]
        case np.ndarray():
            held += 1
        case SimpleNamespace() | Data() | Slotted():
            held.__dict__["new"] = [1]
            for value in vars(held).values():
                isinstance(value, list) and value.append(9)
        case _:
            held.items["b"] = 2
            held.items = {"a": held.items}


CHANGED = [
    name
    for name in ZOO
    if name
    not in {
        *("tuple", "named tuple", "proxy of a mapping", "weak values", "proxy", "silent", "no attributes", "partial"),
        *("frozen data class", "array of objects", "module dict"),
    }
]


@pytest.mark.parametrize("name", CHANGED)
def test_what_a_step_changes_is_put_back(name: str) -> None:
    net = Net(ZOO[name]())
    before = printed(net.held)
    net.change = add
    snapshot = Snapshot(net)
    net(BATCH[0])
    assert printed(net.held) != before
    snapshot.restore()
    assert printed(net.held) == before
    for loss in (cross_entropy, lambda scores, _: scores):
        with suppress(UserError):  # a step that changes nothing from its second time on is planned
            poet_planner.compile(net, loss, example=BATCH, quiet=True)
        assert printed(net.held) == before


def test_one_fault_leaves_the_rest_put_back() -> None:
    class Fixed:
        __slots__ = ("value",)

    net = Net({"a": 1})
    net.first, net.fixed = [1], Fixed()
    net.fixed.value = 1
    snapshot = Snapshot(net)
    snapshot._undo.insert(0, partial(setattr, object(), "a", 1))
    net.first.append(2)
    net.fixed.value = 2
    net.held.clear()
    with torch.no_grad():
        net.fc.weight.zero_()
    with pytest.raises(AttributeError):
        snapshot.restore()
    assert (net.first, net.fixed.value, net.held) == ([1], 1, {"a": 1})
    assert net.fc.weight.abs().sum() > 0
