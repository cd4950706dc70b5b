# SPDX-License-Identifier: Apache-2.0
"""The engine: the compiled inner loops of the optimiser (`native/`), and the structs that it shares with Python.

A `Struct` is a dataclass of arrays, numbers and other structs, which C reads, and writes, in place. C has the same
fields, and says so: a field that was added on one side alone is an error when the struct is first used. A C function is
declared once, as `Function`, and takes structs, arrays and numbers:

    _evaluate = Function("evaluate", Ref, Ref, Int, Ref, returns=_Evaluation)
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

import numpy as np
import numpy.typing as npt
from poet_profiles.native import loaded

NATIVE = Path(__file__).with_name("native")
SOURCES = sorted(NATIVE.glob("*.[ch]"))

Int, Float, Flag, Ref = ctypes.c_int64, ctypes.c_double, ctypes.c_bool, ctypes.c_void_p

_TYPES = {"int64_t": Int, "double": Float, "bool": Flag, "uint64_t": ctypes.c_uint64}
_DTYPES = {"int64_t": np.int64, "double": np.float64, "bool": np.bool_, "uint64_t": np.uint64}
_SHAPES = {"array": ("_count",), "table": ("_rows", "_columns"), "scalar": ()}

Class = TypeVar("Class")


@dataclass_transform(frozen_default=True, eq_default=False)
def struct(kind: type[Class]) -> type[Class]:
    """A dataclass whose instances can be handed to C; its name in C is the same in small letters."""
    return dataclass(frozen=True, eq=False)(kind)


class Struct:
    """Base of what `struct` makes. Its arrays belong to it: whoever lets go of it ends what C knows of them."""

    @cached_property
    def _as_parameter_(self) -> ctypes.c_void_p:
        """The address of the C struct, which is made once; ctypes asks for it."""
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(self).__name__.lstrip("_")).lower()
        layout, kinds = _layout(name)
        own = [field.name for field in fields(self)]  # type: ignore[arg-type]
        if own != [*kinds]:
            odd = next(iter({*own} ^ kinds.keys()), "the order")
            raise ImportError(f"the engine's struct {name} and {type(self).__name__} differ: {odd}")
        made = layout()
        for field, (shape, c_type) in kinds.items():
            value = getattr(self, field)
            if shape == "scalar":
                setattr(made, field, getattr(value, "_as_parameter_", value))
                continue
            setattr(made, field, _address(value, _DTYPES[c_type], f"{name}.{field}"))
            for suffix, extent in zip(_SHAPES[shape], value.shape, strict=True):
                setattr(made, field + suffix, extent)
        self.__dict__["_made"] = made
        return ctypes.c_void_p(ctypes.addressof(made))

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: an address means nothing in another process, or to a copy."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


class Function:
    """A function of the engine.

    ``name`` is that in C. Of the ``arguments``, ``Ref`` is a struct, or an array by `ints`, `floats` or `flags`.
    """

    def __init__(self, name: str, *arguments: type[Any], returns: type[Any] | None = None) -> None:
        self._name, self._arguments, self._returns = name, arguments, returns

    @cached_property
    def _call(self) -> Callable[..., Any]:
        called = getattr(library(), self._name)
        called.argtypes, called.restype = self._arguments, self._returns
        return called

    def __call__(self, *arguments: object) -> Any:
        return self._call(*arguments)


def ints(array: npt.NDArray[np.int64]) -> ctypes.c_void_p:
    """The address of whole numbers, for a call of C: the array lives as long as its address."""
    return _address(array, np.int64, "an argument")


def floats(array: npt.NDArray[np.float64]) -> ctypes.c_void_p:
    """As `ints`, of 64-bit floats."""
    return _address(array, np.float64, "an argument")


def flags(array: npt.NDArray[np.bool_]) -> ctypes.c_void_p:
    """As `ints`, of flags."""
    return _address(array, np.bool_, "an argument")


def _address(array: npt.NDArray[Any], dtype: type[np.generic], what: str) -> ctypes.c_void_p:
    if array.dtype != dtype or not array.flags.c_contiguous or not array.flags.aligned:
        raise TypeError(f"{what} has to be a contiguous array of {dtype.__name__}, and is one of {array.dtype}")
    address = ctypes.c_void_p(array.ctypes.data)
    address.array = array  # type: ignore[attr-defined]
    return address


@cache
def _layout(name: str) -> tuple[type[ctypes.Structure], dict[str, tuple[str, str]]]:
    """A struct as ctypes has it; and shape and type of each field, as C says them."""
    text = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library(), f"{name}_fields"))).decode()
    kinds: dict[str, tuple[str, str]] = {}
    laid: list[tuple[str, type[Any]]] = []
    for line in text.splitlines():
        shape, *words, field = line.replace("const ", "").split()
        c_type = " ".join(words)
        kinds[field] = shape, c_type
        is_address = shape != "scalar" or c_type.endswith("*")
        laid.append((field, Ref if is_address else _TYPES[c_type]))
        laid += [(field + suffix, Int) for suffix in _SHAPES[shape]]
    return type(name, (ctypes.Structure,), {"_fields_": laid}), kinds


@cache
def library() -> ctypes.CDLL:
    """The library: that of the wheel if it is of these sources, else that of the cache, which is built if need be.

    Raises
    ------
    UserError
        If there is none and it cannot be built.
    """
    return loaded("the optimiser", "engine", NATIVE, SOURCES)
