# SPDX-License-Identifier: Apache-2.0
"""The firmware's operators, compiled for this computer and asked about shapes.

They go by codes and lists of parameters; `operators` has the names. firmware/recorder/recorded_products.c writes down
what an operator would compute.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from poet_profiles.shipped import FIRMWARE, SHIPPED

NAME = "operators"
RECORDER = FIRMWARE / "recorder" / "recorded_products.c"
# The recorder has others in their place, or includes them.
_REPLACED = {"depthwise", "depthwise_padded", "gemm", "gemm_add", "gemm_nt", "gradient_kernels", "im2col", "winograd"}
# It answers in microseconds: to compile it for speed takes longer than that ever saves.
COMPILE_FLAGS = (f"-I{FIRMWARE / 'include'}", "-O0")
MOST_KINDS = 1024
_RECORDING = threading.Lock()  # there is one recorder
KEPT_INPUT, KEPT_OUTPUTS = 1, 2
E_ARGUMENT = -1
_KIND = "door_number n height width started windows"
_GEMM = "rows columns channels k_rows taps a_row a_channel a_k_row a_tap b_column b_channel b_k_row b_tap out_row"
_GEMM += " out_column panels b_panel out_panel"
_FOUND = "times entered by_elements tile_rows in_place"
_LATER_SIZES = (
    "in_place kept kept_input kept_also kept_rows index_input index_bytes index_bound not_negative s8 starts scales"
    " takes_over"
)


class StatusError(ValueError):
    """Refusal or failure of an operator: a negative ``poet_status``."""

    def __init__(self, status: int) -> None:
        super().__init__("the firmware takes no such shape" if status == E_ARGUMENT else f"poet_status {status}")
        self.status = status


class CSizes(ctypes.Structure):
    """``poet_sizes`` of firmware/include/poet/operator.h."""

    _fields_ = (
        ("inputs", ctypes.c_uint32),
        ("outputs", ctypes.c_uint32),
        ("input_bytes", ctypes.c_uint32 * 12),
        ("output_bytes", ctypes.c_uint32 * 6),
        ("workspace_bytes", ctypes.c_uint32),
        *((name, ctypes.c_uint32) for name in _LATER_SIZES.split()),
    )


class Recorded(ctypes.Structure):
    """Products of one kind in a call, or what is beside them: ``entry`` of the recorder.

    There are so many ``times`` of them. The ``door`` is ``product`` or ``rows_by_rows`` (gemm.h); ``winograd``,
    ``winograd_gradient`` or ``depthwise``; or ``fill``, rows laid out in the workspace. Tiles of a product have
    ``tile_rows``, with results ``in_place`` or in a buffer.
    """

    _fields_ = tuple((name, ctypes.c_int32) for name in (*_KIND.split(), *_GEMM.split(), *_FOUND.split()))

    @property
    def door(self) -> str:
        return _names("poet_door_names")[int(self.door_number)]

    @property
    def kernels(self) -> list[str]:
        """Kernels that it enters; without one, loops in C compute it."""
        return [name for bit, name in enumerate(_names("poet_kernel_names")) if self.entered >> bit & 1]


class Blocks(NamedTuple):
    """Rows, columns, channels, filters and tiles that the firmware computes at a time."""

    tile: int
    few_rows: int
    vector_columns: int
    winograd_part: int
    winograd_tiles: int
    winograd_filters: int
    depthwise_columns: int


def sources() -> tuple[list[Path], list[Path]]:
    """Files of the library, and C files that the recorder includes or replaces."""
    operators = [
        *(path for part in ("kernels", "ops") for path in (FIRMWARE / "src" / part).glob("*.[ch]")),
        FIRMWARE / "src" / "runtime" / "operator_set.c",
    ]
    apart = [path for path in operators if path.suffix == ".c" and path.stem in _REPLACED]
    headers = (FIRMWARE / "include").rglob("*.*")
    return [*(path for path in operators if path not in apart), *headers, RECORDER], apart


def sizes(code: int, values: Sequence[int]) -> CSizes:
    """Sizes of an operator's tensors and workspace.

    Raises
    ------
    StatusError
        If the parameters make no sense.
    UserError
        As in `library`.
    """
    found = CSizes()
    _checked(library().poet_sizes_of(code, _integers(values), ctypes.byref(found)))
    return found


@cache
def recorded(code: int, values: tuple[int, ...], fpu: bool) -> tuple[Recorded, ...]:
    """Products of a call, in the order in which they begin; without ``fpu`` there is one kernel."""
    found, entries = sizes(code, values), _entries()
    most = max(found.workspace_bytes, *found.input_bytes, *found.output_bytes)
    with _RECORDING:
        begin = _zeros(2 * most)
        zeros = ctypes.c_void_p(begin), ctypes.c_void_p(begin + most)
        count = _checked(library().poet_record(code, _integers(values), fpu, *zeros, entries, len(entries)))
        if count > len(entries):
            raise RuntimeError(f"operator {code} {values} has more than {len(entries)} kinds of products")
        return tuple(Recorded.from_buffer_copy(one) for one in entries[:count])


@cache
def way_of(values: tuple[int, ...]) -> str:
    """Algorithm of a convolution: ``direct``, ``winograd``, ``depthwise`` or ``small_planes``."""
    return _names("poet_way_names")[_checked(library().poet_way_of(_integers(values)))]


@cache
def blocks() -> Blocks:
    """Block sizes, as the firmware's headers define them."""
    return Blocks(*(ctypes.c_int32 * len(Blocks._fields)).in_dll(library(), "poet_blocks"))


@cache
def library() -> ctypes.CDLL:
    """Library of the operators and their recorder, compiled if need be."""
    from poet_profiles.native import loaded  # an agent, which asks nothing, starts without it

    what = "what the planner asks of the firmware"
    made = loaded(what, NAME, SHIPPED, *sources(), COMPILE_FLAGS)
    if ctypes.c_int32.in_dll(made, "poet_entry_bytes").value != ctypes.sizeof(Recorded):
        raise ImportError("the recorder's entry and Recorded differ")
    return made


@cache
def _names(symbol: str) -> list[str]:
    return ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library(), symbol))).decode().split()


@cache
def _entries() -> ctypes.Array[Recorded]:
    return (Recorded * MOST_KINDS)()


_memory = mmap.mmap(-1, mmap.PAGESIZE)


def _zeros(size: int) -> int:
    """Address of so many bytes: zeros, or what operators made of them; unwritten pages take no place."""
    global _memory
    if size > len(_memory):
        _memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return ctypes.addressof(ctypes.c_char.from_buffer(_memory))


def _integers(values: Sequence[int]) -> ctypes.Array[ctypes.c_int32]:
    try:
        return (ctypes.c_int32 * len(values)).from_buffer(array("i", values))
    except OverflowError:
        raise StatusError(E_ARGUMENT) from None


def _checked(status: int) -> int:
    if status < 0:
        raise StatusError(status)
    return status
