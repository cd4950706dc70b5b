# SPDX-License-Identifier: Apache-2.0
"""Kernels of products: the planner names those that a core enters, and without them the bits are the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_profiles.kernels import kernels_of
from poet_profiles.operators import ACCUMULATE, GENERAL_UPDATE, OPERATORS, S8

from tests.firmware.test_ops_on_boards import BENCHMARKED, run_on
from tests.support.firmware.host_operators import SOURCES
from tests.support.firmware.operator_shapes import CONFIGURATIONS, Params

pytest.importorskip("unicorn", reason="the emulator is not installed")
from unicorn.arm_const import UC_ARM_REG_R0

from benchmarks.firmware.emulated_core import EmulatedCore

pytestmark = pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="no arm-none-eabi-gcc")

PREFIX = "poet_kernel_"
OWN = {"depthwise", "small_planes", "winograd"}  # no kernels of products
SINGLE, ELSE = "poet_depthwise_padded_multiply", "poet_gemm_multiply"  # that is asked, and what follows its refusal
PRODUCTS = [
    name
    for name in OPERATORS
    if not name.endswith(S8) and any(product in name for product in ("conv2d", "linear", "matmul"))
]
WHOLE = [name for name in PRODUCTS if not name.startswith("streamed")]
PLAIN = [name for name in WHOLE if not name.endswith((ACCUMULATE, GENERAL_UPDATE))]  # the others have their kernels


# Kernels that drawn shapes seldom meet: the last columns of an input gradient's phase with a single tap.
SELDOM: Params = {"n": 1, "c": 5, "h": 7, "w": 6, "k": 3, "r": 5, "s": 1, "sh": 3, "sw": 1, "ph": 0, "pw": 0}
SELDOM |= {"g": 1, "bias": 0}


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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cores")


@pytest.fixture(scope="module")
def watched(folder: Path) -> Iterator[WatchedCore]:
    core = WatchedCore(EmulatedCore("cortex-m4f", SOURCES, ["poet_operators"], folder / "all"))
    assert len(core.kernels) == len(list(SOURCES[0].parent.glob("kernel_*.c")))
    with core.core.watched(core.enter):
        yield core


@pytest.fixture(scope="module")
def bare(folder: Path) -> EmulatedCore:
    """Without any of them."""
    sources = [
        path
        for path in SOURCES
        if not path.name.startswith("kernel_") and path.stem not in ("operators", "operator_set")
    ]
    keep = [f"poet_{name}_{what}" for name in PRODUCTS for what in ("run", "sizes")]
    return EmulatedCore("cortex-m4f", sources, keep, folder / "none")


def check(watched: WatchedCore, bare: EmulatedCore, name: str, params: Params) -> None:
    watched.clear()
    results = run_on(watched.core, name, params, 0)
    named = kernels_of(name, params) - OWN
    if name in WHOLE:
        assert watched.kernels_entered() == named
    else:
        assert watched.kernels_entered() <= named
    assert run_on(bare, name, params, 0) == results


@pytest.mark.parametrize("name", PRODUCTS)
def test_kernels_that_are_entered_are_those_that_are_named(watched: WatchedCore, bare: EmulatedCore, name: str) -> None:
    @settings(max_examples=30 if name in WHOLE else 10, deadline=None, derandomize=True)
    @given(CONFIGURATIONS[name])
    def agree(params: Params) -> None:
        check(watched, bare, name, params)

    agree()


def test_benchmarked_shapes_enter_the_named_kernels(watched: WatchedCore, bare: EmulatedCore) -> None:
    check(watched, bare, "conv2d_backward_input", SELDOM)
    for case in BENCHMARKED:
        if case.macs < 3_000_000:
            check(watched, bare, case.op, dict(case.params))


def test_every_kernel_is_named_for_some_shape() -> None:
    named = set(kernels_of("conv2d_backward_input", SELDOM))

    @settings(max_examples=2500, deadline=None, derandomize=True)
    @given(st.sampled_from(PLAIN).flatmap(lambda name: st.tuples(st.just(name), CONFIGURATIONS[name])))
    def collect(case: tuple[str, Params]) -> None:
        named.update(kernels_of(*case))

    collect()
    files = {path.stem.removeprefix("kernel_") for path in SOURCES if path.stem.startswith("kernel_")}
    assert named == {*files, *OWN, "depthwise_padded"}
