# SPDX-License-Identifier: Apache-2.0
"""Kernels of products: the host names those that an emulated core enters, and without them the bits are the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from poet_profiles.firmware.operators import kernels_of, parse_params

from tests.firmware.test_ops_on_boards import run_on
from tests.support.firmware.host_operators import SOURCES

pytest.importorskip("unicorn", reason="the emulator is not installed")
from unicorn.arm_const import UC_ARM_REG_R0

from benchmarks.firmware.emulated_core import EmulatedCore

pytestmark = pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="no arm-none-eabi-gcc")

PREFIX = "poet_kernel_"
OWN = {"depthwise", "small_planes", "winograd"}  # no kernels of products
SINGLE, ELSE = "poet_depthwise_padded_multiply", "poet_gemm_multiply"  # that is asked, and what follows its refusal
# Small ones that together enter every kernel, and one of each kind of operator.
SHAPES = (
    ("conv2d", "n=1 c=3 h=2 w=2 k=5 r=1 s=1 sh=2 sw=2 ph=0 pw=0 g=1 bias=1"),
    ("conv2d", "n=1 c=3 h=2 w=2 k=3 r=1 s=3 sh=1 sw=2 ph=0 pw=1 g=1 bias=0"),
    ("conv2d", "n=1 c=3 h=3 w=3 k=3 r=1 s=3 sh=2 sw=1 ph=0 pw=0 g=1 bias=1"),
    ("conv2d_relu", "n=4 c=4 h=2 w=2 k=3 r=3 s=3 sh=1 sw=1 ph=1 pw=1 g=1 bias=1"),
    ("conv2d_accumulate", "n=1 c=3 h=3 w=3 k=3 r=1 s=3 sh=2 sw=1 ph=0 pw=0 g=1 bias=0"),
    ("conv2d_backward_input", "n=1 c=6 h=4 w=7 k=4 r=3 s=3 sh=2 sw=2 ph=0 pw=0 g=1 bias=0"),
    ("conv2d_backward_input", "n=1 c=5 h=6 w=9 k=2 r=3 s=3 sh=2 sw=2 ph=0 pw=0 g=1 bias=1"),
    ("conv2d_backward_input", "n=1 c=1 h=2 w=3 k=1 r=1 s=3 sh=2 sw=2 ph=0 pw=0 g=1 bias=0"),
    ("conv2d_backward_input", "n=1 c=1 h=4 w=4 k=1 r=1 s=1 sh=1 sw=1 ph=0 pw=0 g=1 bias=0"),
    ("conv2d_backward_input", "n=1 c=4 h=2 w=7 k=1 r=1 s=1 sh=2 sw=2 ph=0 pw=0 g=1 bias=1"),
    ("conv2d_backward_input", "n=1 c=5 h=3 w=9 k=1 r=2 s=1 sh=2 sw=1 ph=0 pw=0 g=1 bias=1"),
    ("conv2d_backward_input", "n=1 c=6 h=3 w=8 k=2 r=3 s=3 sh=1 sw=1 ph=0 pw=0 g=1 bias=0"),
    ("conv2d_backward_input", "n=1 c=4 h=9 w=5 k=1 r=3 s=3 sh=1 sw=1 ph=0 pw=1 g=1 bias=1"),
    ("conv2d_backward_weight", "n=4 c=7 h=2 w=2 k=6 r=3 s=2 sh=2 sw=1 ph=1 pw=0 g=1 bias=0"),
    ("conv2d_backward_weight", "n=1 c=1 h=2 w=3 k=4 r=2 s=2 sh=2 sw=2 ph=0 pw=0 g=1 bias=0"),
    ("conv2d_backward_weight", "n=1 c=1 h=2 w=8 k=1 r=2 s=1 sh=1 sw=1 ph=0 pw=0 g=1 bias=0"),
    ("conv2d_backward_weight", "n=1 c=5 h=2 w=8 k=5 r=3 s=3 sh=2 sw=2 ph=1 pw=1 g=5 bias=1"),
    ("conv2d_update", "n=1 c=8 h=6 w=8 k=8 r=3 s=3 sh=1 sw=1 ph=0 pw=1 g=1 bias=1 tile=4"),
    ("streamed_conv2d", "n=1 c=8 h=3 w=9 k=17 r=1 s=1 sh=1 sw=1 ph=0 pw=0 g=1 bias=1 tile=16"),
    ("streamed_conv2d_backward_input", "n=1 c=8 h=3 w=9 k=17 r=1 s=1 sh=1 sw=1 ph=0 pw=0 g=1 bias=1 tile=16"),
    ("linear", "m=5 k=9 n=7 bias=1"),
    ("linear_accumulate", "m=2 k=9 n=3 bias=0"),
    ("linear_update", "m=6 k=17 n=5 bias=1 tile=3"),
    ("matmul", "b=2 m=4 k=2 n=5 ta=0 tb=0"),
    ("matmul", "b=1 m=4 k=2 n=5 ta=1 tb=0"),
    ("matmul", "b=1 m=1 k=2 n=16 ta=1 tb=0"),
    ("matmul", "b=1 m=5 k=2 n=4 ta=1 tb=0"),
)


class WatchedCore:
    """A core with all kernels that tells which ones it has entered."""

    def __init__(self, core: EmulatedCore) -> None:
        self.core = core
        self.kernels = {at & ~1: name.removeprefix(PREFIX) for name, at in core._symbols.items() if PREFIX in name}
        self.single, self.other = core.address(SINGLE) & ~1, core.address(ELSE) & ~1
        self.clear()

    def clear(self) -> None:
        self.entered: set[str] = set()
        self.asked: list[list[int]] = []

    def enter(self, address: int, _size: int) -> None:
        if address in self.kernels:
            self.entered.add(self.kernels[address])
        if address == self.single:
            self.asked.append(self.arguments())
        elif address == self.other and self.asked and self.asked[-1] == self.arguments():
            self.asked.pop()

    def arguments(self) -> list[int]:
        return [self.core.machine._engine.reg_read(UC_ARM_REG_R0 + place) for place in range(4)]

    def kernels_entered(self) -> set[str]:
        return self.entered | ({"depthwise_padded"} if self.asked else set())


def test_kernels_that_are_entered_are_those_that_are_named(
    core_with: Callable[..., EmulatedCore], tmp_path: Path
) -> None:
    """On a core with all kernels; one without any of them computes the same bits."""
    watched = WatchedCore(core_with("cortex-m4f", "poet_operators"))
    files = {path.stem.removeprefix("kernel_") for path in SOURCES if path.stem.startswith("kernel_")}
    assert {*watched.kernels.values()} == files
    rest = [path for path in SOURCES if "kernel_" not in path.stem and path.stem not in ("operators", "operator_set")]
    keep = [f"poet_{name}_{what}" for name in {op for op, _ in SHAPES} for what in ("run", "sizes")]
    bare = EmulatedCore("cortex-m4f", rest, keep, tmp_path / "none")
    every = set()
    with watched.core.watched(watched.enter):
        for op, key in SHAPES:
            watched.clear()
            named = kernels_of(op, parse_params(key))
            results = run_on(watched.core, op, parse_params(key), 0)
            assert watched.kernels_entered() == named - OWN, (op, key)
            assert run_on(bare, op, parse_params(key), 0) == results, (op, key)
            every |= named
    assert every == {*files, *OWN, "depthwise_padded"}
