# SPDX-License-Identifier: Apache-2.0
"""The calls of a plan, and of what is beside it, as the firmware's tables: one of operators and one of parameters."""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from struct import pack

from poet_profiles.errors import UserError
from poet_profiles.firmware.operators import OPERATORS
from poet_profiles.firmware.steps import KINDS, POINTWISE, Step, alone, steps_of
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule
from poet_profiles.schedule.calls import PAGE_IN, PAGE_OUT, Call, calls_of

_PAGES = {PAGE_IN: 0xFE, PAGE_OUT: 0xFF}
_WORKSPACE, _WAITS, _CHANGES = 1, 2, 4
_LARGEST_INDEX = 65_535


class Lists:
    """Short integer lists one after another, equal ones stored once."""

    def __init__(self) -> None:
        self.entries: list[int] = []
        self._places: dict[tuple[int, ...], int] = {}

    def place(self, integers: Iterable[int]) -> int:
        """Index of the list's first integer in the table."""
        key = tuple(integers)
        if key not in self._places:
            self._places[key] = len(self.entries)
            self.entries += key
        return self._places[key]

    def rows(self, suffix: str = "") -> list[str]:
        """The integers as C, 16 a line."""
        lines = (self.entries[start : start + 16] for start in range(0, len(self.entries), 16))
        return [", ".join(f"{integer}{suffix}" for integer in line) for line in lines]


@dataclass
class Program:
    """The calls of one schedule. A row is a call's structure, in its order."""

    calls: Sequence[Call]
    rows: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    words: Lists = field(default_factory=Lists)


@dataclass
class CallTables:
    """Programs that share operators and parameters."""

    programs: list[Program]
    operators: dict[str, str]  # rows of the firmware's table, and which operator each is of
    params: Lists = field(default_factory=Lists)

    def crc(self, program: Program) -> int:
        """CRC-32 of what a schedule refers to: calls, words, parameters."""
        data = b"".join(pack("<BBBBHH", *row) for row in program.rows)
        data += pack(f"<{len(program.words.entries)}I", *program.words.entries)
        return crc32(data + pack(f"<{len(self.params.entries)}i", *self.params.entries))


def call_tables(plans: Iterable[tuple[Graph, Schedule]], with_steps: bool = True) -> CallTables:
    """The tables of plans that lie side by side, ``with_steps`` that have rows of their own.

    Raises
    ------
    UserError
        If they are too large for the tables' indices.
    """
    programs = [Program(calls_of(graph, schedule)) for graph, schedule in plans]
    calls = [(program, call, _alone(call) if with_steps else None) for program in programs for call in program.calls]
    named = {_operator(call, step): call.op for _, call, step in calls if call.op not in _PAGES}
    tables = CallTables(programs, dict(sorted(named.items(), key=lambda item: (OPERATORS[item[1]].code, item[0]))))
    numbers = {row: number for number, row in enumerate(tables.operators)}
    for program, call, step in calls:
        number = _PAGES[call.op] if call.op in _PAGES else numbers[_operator(call, step)]
        own = (call.params[0], *call.params[3:]) if step else call.params
        program.rows.append(_row(call, number, tables.params.place(own), program.words))
    for program in programs:
        _check_index("words", len(program.words.entries))
    _check_index("parameters", len(tables.params.entries))
    return tables


def _operator(call: Call, step: Step | None) -> str:
    """Its row: of one step, that of the step, so that no other is linked."""
    if step:
        kind = KINDS[step.name]
        return f"POET_STEP_ROW({step.name}, {kind.operands}, {kind.numbers})"
    return f"POET_OPERATOR_ROW({call.op.upper()}, {call.op})"


def _alone(call: Call) -> Step | None:
    return alone([*steps_of(call.params[2:])]) if call.op == POINTWISE else None


def _row(call: Call, number: int, params: int, words: Lists) -> tuple[int, int, int, int, int, int]:
    page = call.op in _PAGES
    flags = _WORKSPACE * (call.workspace is not None) | _WAITS * call.waits | _CHANGES * call.changes
    counts = (0, 0) if page else (len(call.inputs), len(call.outputs))
    return (number, *counts, flags, params, words.place(call.words))


def _check_index(what: str, count: int) -> None:
    if count > _LARGEST_INDEX:
        raise UserError(f"{count} {what} are more than the firmware's 16-bit tables hold; plan a smaller model")
