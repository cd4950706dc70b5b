# SPDX-License-Identifier: Apache-2.0
"""Which globals, closures and containers a piece of code reads, as its bytecode says; nothing of it runs."""

from __future__ import annotations

import dis
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any


@dataclass(frozen=True)
class Item:
    """In the place of a name: an element of a dictionary, by a key that the code has written out."""

    key: Any


_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME")
_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
_NOTHING = ("CACHE", "PRECALL", "PUSH_NULL", "NOP", "EXTENDED_ARG")
_WRITING = ("append", "appendleft", "extend", "add", "update")
# What may stand in a key: loads, what makes one value of those before it, and what belongs to a call.
_LOADS = ("LOAD_CONST", "LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_DEREF", "LOAD_GLOBAL", "PUSH_NULL")
_MAKES_ONE = (
    *("CALL", "BINARY_OP", "BINARY_SUBSCR", "BUILD_STRING", "BUILD_TUPLE"),
    *("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"),
)
_OF_CALLS = ("PRECALL", "KW_NAMES")
_LOADS_CONTAINERS = (*_GLOBAL, *_ATTRIBUTE, "LOAD_DEREF")

# In the place of an element: nothing is read, something is put in.
STORE = Item(object())
Chain = tuple[str | Item, ...]


def chains(code: CodeType) -> Iterator[Chain]:
    """The global names that code reads, with what is read directly after each: ``("cfg", "model", Item("scale"))``."""
    chain: Chain = ()
    for step in dis.get_instructions(code):
        if step.opname in _ATTRIBUTE and chain:
            chain += (step.argval,)
        elif step.opname not in _NOTHING:
            if chain:
                yield chain
            chain = (step.argval,) if step.opname in _GLOBAL else ()
        if chain and step.offset in uses(code):
            yield (*chain, uses(code)[step.offset])
            chain = ()


def uses(code: CodeType) -> Mapping[int, Item]:
    """Where code loads a container, and how it uses that if it does not read it as a whole.

    It reads one element, or only writes into it: ``log[name] = value``, ``history.append(value)``.
    """
    if code not in _uses:
        steps = [*dis.get_instructions(code)]
        found: dict[int, Item] = {}
        for number, step in enumerate(steps):
            following = steps[number + 1 :]
            if step.opname not in _LOADS_CONTAINERS:
                continue
            if [one.opname for one in following[:2]] == ["LOAD_CONST", "BINARY_SUBSCR"]:
                found[step.offset] = Item(following[0].argval)
            elif _is_store(following):
                found[step.offset] = STORE
        _uses[code] = found
    return _uses[code]


_uses: dict[CodeType, Mapping[int, Item]] = {}


def _is_store(steps: Sequence[dis.Instruction]) -> bool:
    """Whether what has just been loaded is used up by writing into it."""
    above = 0
    for step in steps:
        if step.opname == "CACHE":
            continue
        if step.opname in _ATTRIBUTE and above == 0:
            return step.argval in _WRITING
        if step.opname == "STORE_SUBSCR":
            return above == 1
        effect = dis.stack_effect(step.opcode, step.arg if step.opcode >= dis.HAVE_ARGUMENT else None)
        made = {**dict.fromkeys(_LOADS, effect), **dict.fromkeys(_MAKES_ONE, 1), **dict.fromkeys(_OF_CALLS, 0)}
        made |= dict.fromkeys(_ATTRIBUTE, 1 + effect)
        if step.opname not in made or made[step.opname] - effect > above:
            return False
        above += effect
    return False


def closed_over(code: CodeType) -> Mapping[str, Collection[Item] | None]:
    """The variables of its closure that code reads, or hands on; of a container read only in part, the elements."""
    found: dict[str, set[Item] | None] = {}
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_DEREF", "LOAD_CLOSURE"):
            use, known = uses(code).get(step.offset), found.setdefault(step.argval, set())
            if use is None or known is None:
                found[step.argval] = None
            else:
                known.add(use)
    return found


def imports(code: CodeType) -> Iterator[str]:
    """The names of the files that code imports while it runs."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME")
