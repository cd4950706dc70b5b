# SPDX-License-Identifier: Apache-2.0
"""The steps of ``pointwise``, as words of the firmware and as text.

See docs/SPEC.md, section 1: ``add(r0,x0,x1);mulc(y0,r0,0.5)`` adds two inputs in a register, and makes half of that
the output. Names, codes and kinds stand in the firmware's ``steps.def``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from poet_profiles.shipped import FIRMWARE

POINTWISE = "pointwise"
SPREAD, SUM, COPY, FLOAT, SELECT, WIDEN = "spread", "sum", "copy", "float", "select", "widen"
ADDITION = "add(y0,x0,x1)"
REGISTERS, MOST_INPUTS, MOST_OUTPUTS = 8, 12, 4
MOST_WORDS = 38  # of the firmware's 46, so that a line of the protocol holds them
BLOCK = 64
_PLACES = {"r": (0, REGISTERS), "x": (REGISTERS, MOST_INPUTS), "y": (REGISTERS + MOST_INPUTS, MOST_OUTPUTS)}
_STEP = re.compile(r"^POET_STEP\((\d+), \w+, (\w+), (\w+), (\d+),", re.MULTILINE)
_TEXT = re.compile(r"(\w+)\(([^()]*)\)")


class Kind(NamedTuple):
    """What a step reads.

    ``operands`` are places beside its result, unless it ``reads_y``, too.
    """

    name: str
    code: int
    operands: int
    numbers: int
    reads_y: bool
    flops: int


@dataclass(frozen=True)
class Step:
    """``y = name(sources, numbers)``; places are such as ``r0``, ``x0`` and ``y0``."""

    name: str
    y: str
    sources: tuple[str, ...]
    numbers: tuple[float, ...] = ()


def _kinds() -> dict[str, Kind]:
    found = {}
    for code, name, kind, flops in _STEP.findall((FIRMWARE / "include" / "poet" / "steps.def").read_text()):
        base, _, numbers = kind.partition("_")
        operands = 2 if base in ("binary", "paired", "ternary", "derivative") else 1
        own = {SPREAD: 2, SUM: 1}.get(name, 0)
        found[name] = Kind(name, int(code), operands, int(numbers or own), base == "ternary", int(flops))
    return found


KINDS = _kinds()
_BY_CODE = {kind.code: kind for kind in KINDS.values()}


def words_of(steps: Iterable[Step]) -> tuple[int, ...]:
    """The firmware's words.

    Raises
    ------
    ValueError
        If there is no such step or place.
    """
    return tuple(word for step in steps for word in _words(step))


def steps_of(words: Sequence[int]) -> Iterator[Step]:
    """Inverse of :func:`words_of`."""
    at = 0
    while at < len(words):
        code, *places = (words[at] & 0xFFFFFFFF).to_bytes(4, "little")
        kind = _BY_CODE[code]
        y, *sources = (_name(place) for place in places[: 1 + kind.operands])
        numbers = words[at + 1 : at + 1 + kind.numbers]
        read = numbers if kind.name == SPREAD else (f32_of_word(word) for word in numbers)
        yield Step(kind.name, y, tuple(sources), tuple(read))
        at += 1 + kind.numbers


def text_of(steps: Iterable[Step]) -> str:
    """Steps as they stand in a key."""
    return ";".join(f"{step.name}({','.join((step.y, *step.sources, *_numbers(step)))})" for step in steps)


def parsed(text: str) -> Iterator[Step]:
    """Inverse of :func:`text_of`.

    Raises
    ------
    ValueError
        If it is no text of steps.
    """
    for part in text.split(";"):
        found = _TEXT.fullmatch(part)
        kind = KINDS.get(found[1]) if found else None
        y, *rest = found[2].split(",") if found else [""]
        if kind is None or len(rest) != kind.operands + kind.numbers:
            raise ValueError(f"{part!r} is no step")
        as_number = int if kind.name == SPREAD else float
        numbers = tuple(as_number(number) for number in rest[kind.operands :])
        yield Step(kind.name, y, tuple(rest[: kind.operands]), numbers)


def steps_in(params: Mapping[str, int]) -> Iterator[Step]:
    """Steps among the parameters of a ``pointwise``."""
    return steps_of([params[f"word{place}"] for place in range(params["words"])])


def only_step(key: str) -> str:
    """The name of a group's step, if it has no other; else empty."""
    steps = key.partition(" steps=")[2]
    return "" if ";" in steps else steps.partition("(")[0]


def alone(steps: Sequence[Step]) -> Step | None:
    """The only step, of x0, and x1, to y0: the firmware has a row of it, with none of a group."""
    names = ("y0", "x0", "x1")
    step, *others = steps
    kind = KINDS[step.name]
    whole = not (others or kind.reads_y or step.name in (SPREAD, SUM, WIDEN))
    return step if whole and (step.y, *step.sources) == names[: 1 + kind.operands] else None


def as_step(op: str, params: str) -> tuple[str, str]:
    """Operator and key of an older profile's row.

    Of what is a step now they are the step's, of any other row its own.
    """
    kind = KINDS.get({"hardtanh": "clampc", "scale": "mulc", "scale_by": "mulc"}.get(op, op))
    with suppress(ArithmeticError, ValueError):
        size, *words = (int(number) for number in re.findall(r"=(-?\d+)", params))
        numbers = [words[0] / 1e9 / words[1]] if op == "scale" and words[1:] else map(f32_of_word, words)
        step = Step(kind.name if kind else "", "y0", ("x0", "x1")[: kind.operands if kind else 0], tuple(numbers))
        if kind and len(step.numbers) == kind.numbers:
            return POINTWISE, f"size={size} steps={text_of([step])}"
    return op, params


def pointwise_params(size: int, steps: Iterable[Step]) -> dict[str, int]:
    """Parameters of a ``pointwise``, the words among them."""
    words = words_of(steps)
    return {"size": size, "words": len(words), **{f"word{place}": word for place, word in enumerate(words)}}


def _words(step: Step) -> Iterator[int]:
    kind = KINDS[step.name]
    a, b = (*step.sources, *step.sources)[: max(2, kind.operands)]
    yield _signed(bytes((kind.code, *(_place(name) for name in (step.y, a, b)))))
    for number in step.numbers:
        yield int(number) if step.name == SPREAD else _signed(struct.pack("<f", number))


def _place(name: str) -> int:
    first, count = _PLACES.get(name[:1], (0, 0))
    number = int(name[1:])
    if not 0 <= number < count:
        raise ValueError(f"{name!r} is no place of a step")
    return first + number


def _name(place: int) -> str:
    for letter, (first, count) in _PLACES.items():
        if first <= place < first + count:
            return f"{letter}{place - first}"
    raise ValueError(f"{place} is no place of a step")


def _signed(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def f32_of_word(word: int) -> float:
    """The number whose bits are a parameter."""
    (number,) = struct.unpack("<f", word.to_bytes(4, "little", signed=True))
    return float(number)


def _numbers(step: Step) -> Iterator[str]:
    return (str(int(one)) if step.name == SPREAD else _shortest(one) for one in step.numbers)


def _shortest(number: float) -> str:
    """The fewest digits that give the same f32."""
    bits = struct.pack("<f", number)
    texts = (f"{number:.{digits}g}" for digits in range(1, 10))
    found = next((text for text in texts if struct.pack("<f", float(text)) == bits), "nan")
    return repr(float(found)).removesuffix(".0")
