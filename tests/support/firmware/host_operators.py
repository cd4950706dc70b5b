# SPDX-License-Identifier: Apache-2.0
"""The firmware's operators, compiled for the host with the firmware's own flags and called through ctypes."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from poet_profiles.firmware.compiled_operators import CSizes, StatusError
from poet_profiles.firmware.operators import OPERATORS

from tests.support import ROOT

FIRMWARE = ROOT / "firmware"
WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wpedantic"]
FLAGS = [*WARNINGS, "-O2", "-ffp-contract=off", f"-I{FIRMWARE / 'include'}"]
SOURCES = [
    *(path for part in ("kernels", "ops") for path in sorted((FIRMWARE / "src" / part).glob("*.c"))),
    FIRMWARE / "src" / "runtime" / "operator_set.c",
]

Array = npt.NDArray[np.generic]


class COperator(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint8),
        ("param_count", ctypes.c_uint8),
        ("sizes", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(CSizes))),
        ("run", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)),
    )


class COperatorSet(ctypes.Structure):
    _fields_ = (("operators", ctypes.POINTER(COperator)), ("count", ctypes.c_size_t))


class CArguments(ctypes.Structure):
    _fields_ = (
        ("params", ctypes.POINTER(ctypes.c_int32)),
        ("inputs", ctypes.POINTER(ctypes.c_void_p)),
        ("outputs", ctypes.POINTER(ctypes.c_void_p)),
        ("workspace", ctypes.c_void_p),
        ("learning_rate", ctypes.c_float),
        ("sink", ctypes.c_void_p),
        ("source", ctypes.c_void_p),
    )


def params_array(name: str, params: Mapping[str, int]) -> ctypes.Array[ctypes.c_int32]:
    """Parameters in the operator's order."""
    values = OPERATORS[name].values(params)
    return (ctypes.c_int32 * len(values))(*values)


class Operators:
    """Every operator of a shared library, by name."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        every = COperatorSet.in_dll(library, "poet_all_operators")
        names = {operator.code: name for name, operator in OPERATORS.items()}
        self.table = {names[operator.code]: operator for operator in every.operators[: every.count]}

    def sizes(self, name: str, params: Mapping[str, int]) -> CSizes:
        """What `sizes` reports; raises StatusError where it refuses."""
        sizes = CSizes()
        status = self.table[name].sizes(params_array(name, params), ctypes.byref(sizes))
        if status < 0:
            raise StatusError(status)
        return sizes

    def run(
        self,
        name: str,
        params: Mapping[str, int],
        inputs: Sequence[Array],
        learning_rate: float = 0.0,
        over: int | None = None,
    ) -> list[npt.NDArray[np.uint8]]:
        """Outputs as bytes. Buffers are as large as `sizes` says, and new outputs start out filled with NaNs.

        With ``over``, the first output lies in the place of that input.
        """
        sizes = self.sizes(name, params)
        given = [np.array(array, order="C") for array in inputs]
        assert [array.nbytes for array in given] == list(sizes.input_bytes[: sizes.inputs])
        if sizes.in_place:
            outputs = [array.reshape(-1).view(np.uint8) for array in given[-sizes.outputs :]]
        else:
            outputs = [np.full(size, 0xFF, np.uint8) for size in sizes.output_bytes[: sizes.outputs]]
            if over is not None:
                outputs[0] = given[over].reshape(-1).view(np.uint8)
        workspace = np.full(sizes.workspace_bytes, 0xFF, np.uint8)
        arguments = CArguments(
            params_array(name, params),
            (ctypes.c_void_p * 12)(*[array.ctypes.data for array in given]),
            (ctypes.c_void_p * 6)(*[array.ctypes.data for array in outputs]),
            workspace.ctypes.data,
            learning_rate,
            None,
            None,
        )
        status = self.table[name].run(ctypes.byref(arguments))
        if status < 0:
            raise StatusError(status)
        return outputs


def build(library: Path) -> Operators:
    """Compiles the firmware's operators for this machine."""
    subprocess.run(["gcc", *FLAGS, "-shared", "-fPIC", *map(str, SOURCES), "-o", str(library)], check=True)
    return Operators(ctypes.CDLL(str(library)))
