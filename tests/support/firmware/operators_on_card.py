# SPDX-License-Identifier: Apache-2.0
"""Runs operators whose kept tensors lie on a card: reads come tile by tile, next versions go to a sink."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tests.support.firmware.host_operators import Array, CArguments, Operators, StatusError, params_array

BLOCK = 512
GUARD = 64
KEPT_INPUT, KEPT_OUTPUTS = 1, 2

_READ = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32
)
_WAIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_WRITE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)


_WRITE_ROW = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p
)


class _Source(ctypes.Structure):
    _fields_ = (("context", ctypes.c_void_p), ("overlaps", ctypes.c_bool), ("read", _READ), ("wait", _WAIT))


class _Sink(ctypes.Structure):
    _fields_ = (("context", ctypes.c_void_p), ("write", _WRITE), ("write_row", _WRITE_ROW))


@dataclass
class Card:
    """Kept inputs by number; with ``rows`` they lie by so many.

    A transfer that overlaps arrives at its end, and whoever reads it before finds NaNs. ``fails_at`` is the number of
    the call, counted over reads, waits and rows written, that gives ``status`` instead.
    """

    inputs: Mapping[int, bytes]
    rows: int = 0
    overlaps: bool = False
    fails_at: int | None = None
    status: int = -5
    calls: int = 0
    reads: list[tuple[int, int]] = field(default_factory=list)
    written: dict[int, bytearray] = field(default_factory=dict)
    written_rows: dict[int, bytes] = field(default_factory=dict)
    _under_way: tuple[int, bytes] | None = None

    def _failed(self) -> bool:
        self.calls += 1
        return self.calls - 1 == self.fails_at

    def read(self, _context: int, place: int, offset: int, data: int, count: int) -> int:
        """Starts a transfer of whole blocks."""
        whole = self.inputs[place]
        assert self._under_way is None
        row_bytes = len(whole) // max(1, self.rows)
        begin, end = offset % row_bytes, offset % row_bytes + count
        assert begin % BLOCK == 0
        assert begin < end <= row_bytes
        assert end % BLOCK == 0 or end == row_bytes
        if self._failed():
            return self.status
        self.reads.append((offset, count))
        ctypes.memset(data, 0xFF, count)
        self._under_way = (data, whole[offset : offset + count])
        if not self.overlaps:
            ctypes.memmove(*self._under_way, count)
        return 0

    def wait(self, _context: int) -> int:
        """Ends the transfer under way."""
        assert self._under_way is not None
        data, content = self._under_way
        self._under_way = None
        if self._failed():
            return self.status
        ctypes.memmove(data, content, len(content))
        return 0

    def write(self, _context: int, place: int, data: int, count: int) -> int:
        """Takes the next bytes of an output."""
        self.written.setdefault(place, bytearray()).extend(ctypes.string_at(data, count))
        return 0

    def write_row(self, _context: int, place: int, row: int, before: int, after: int) -> int:
        """Takes the next version of a row, once, and spoils the version before as a reading back would."""
        assert place == 0
        assert row not in self.written_rows
        (whole,) = self.inputs.values()
        count = len(whole) // self.rows
        assert ctypes.string_at(before, count) == whole[row * count :][:count]
        if self._failed():
            return self.status
        self.written_rows[row] = ctypes.string_at(after, count)
        ctypes.memmove(before, after, count)
        return 0

    def output(self, place: int) -> bytes:
        """A next version, the rows that did not change included."""
        if not self.rows:
            return bytes(self.written[place])
        (whole,) = self.inputs.values()
        count = len(whole) // self.rows
        return b"".join(self.written_rows.get(row, whole[row * count :][:count]) for row in range(self.rows))


def run_on_card(
    operators: Operators,
    name: str,
    params: Mapping[str, int],
    inputs: Sequence[Array],
    learning_rate: float = 0.0,
    *,
    overlaps: bool = False,
    fails_at: int | None = None,
    guard: int = GUARD,
) -> tuple[Card, list[npt.NDArray[np.uint8]]]:
    """The card after the operator, and its outputs. Raises StatusError where the operator fails.

    Every buffer has guard bytes after it, which stay as they are; a failed operator too writes nowhere else.
    """
    sizes = operators.sizes(name, params)
    kept = [sizes.kept_input] if sizes.kept & KEPT_INPUT else []
    card = Card({place: inputs[place].tobytes() for place in kept}, sizes.kept_rows, overlaps, fails_at)
    given = [np.array(array, order="C") for array in inputs]
    before = [array.tobytes() for array in given]
    lengths = [0 if sizes.kept & KEPT_OUTPUTS else size for size in sizes.output_bytes[: sizes.outputs]]
    guarded = [np.full(size + guard, 0xFF, np.uint8) for size in (*lengths, sizes.workspace_bytes)]
    source = _Source(None, overlaps, _READ(card.read), _WAIT(card.wait))
    sink = _Sink(None, _WRITE(card.write), _WRITE_ROW(card.write_row))
    addresses = [None if place in kept else array.ctypes.data for place, array in enumerate(given)]
    arguments = CArguments(
        params_array(name, params),
        (ctypes.c_void_p * 12)(*addresses),
        (ctypes.c_void_p * 6)(*[None if sizes.kept & KEPT_OUTPUTS else array.ctypes.data for array in guarded[:-1]]),
        guarded[-1].ctypes.data,
        learning_rate,
        ctypes.addressof(sink),
        ctypes.addressof(source),
    )
    status = operators.table[name].run(ctypes.byref(arguments))
    assert all((array[len(array) - guard :] == 0xFF).all() for array in guarded)
    assert [array.tobytes() for array in given] == before
    assert card._under_way is None
    if status < 0:
        raise StatusError(status)
    if sizes.kept & KEPT_OUTPUTS:
        outputs = [np.frombuffer(card.output(place), np.uint8) for place in range(sizes.outputs)]
    else:
        outputs = [array[: len(array) - guard] for array in guarded[:-1]]
    return card, outputs
