# SPDX-License-Identifier: Apache-2.0
"""Cycle table: what an instruction costs on each core, from the cores' manuals, as prefix sums over an image.

Sources
-------
Cortex-M4: "Cortex-M4 Technical Reference Manual" r0p1 (Arm DDI 0439B), section 3.3.1 (instruction set summary),
"Load/store timings" after it and section 7.2.3 (FPU instruction set). Cortex-M0+: "Cortex-M0+ Technical
Reference Manual" r0p1 (Arm DDI 0484C), section 3.3, with the single-cycle multiplier.

Of the Cortex-M33 Arm publishes no times: it has the Cortex-M4's.

The table is static: no bus contention between CPU and DMA, no early exit of a division. A taken branch costs a pipeline
refill wherever it leads. What a chip's flash adds is counted beside it (counter.py): the SAMD21's cache misses; the
nRF52840's instruction cache is taken to hit always. docs/emulation.md holds the table against published measurements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Raised whenever a number below, or a chip's flash, changes: profiles carry it.
TABLE_VERSION = 2


@dataclass(frozen=True)
class Instruction:
    """One disassembled instruction: mnemonic without width suffix, and its operands as text."""

    mnemonic: str
    operands: str


@dataclass(frozen=True)
class Core:
    """How one core is timed.

    Attributes
    ----------
    name : str
        As in the board's file.
    refill : int
        Cycles from a taken branch to its target's first instruction, without what the flash adds.
    entry, exit : int
        Cycles to enter and to leave an interrupt handler.
    frame_bytes : int
        What entering one takes from the stack.
    cost : callable
        (instruction, the one before it, the one after it) to cycles without refill.
    """

    name: str
    refill: int
    entry: int
    exit: int
    frame_bytes: int
    cost: Callable[[Instruction, Instruction | None, Instruction | None], int]

    @property
    def version(self) -> str:
        """What a profile says about where its times come from."""
        return f"{self.name} cycles {TABLE_VERSION}"


FP_REGISTER = re.compile(r"\bs\d+\b")
CORE_REGISTER = re.compile(r"\b(?:r\d+|sb|sl|fp|ip|sp|lr)\b")
ADDRESS = re.compile(r"\[[^\]]*\]")


def _listed(operands: str) -> int:
    """Number of registers between the braces of a load or store multiple."""
    return operands[operands.index("{") :].count(",") + 1


def _starts(mnemonic: str, *prefixes: str) -> bool:
    return mnemonic.startswith(prefixes)


def _is_single_load(instruction: Instruction) -> bool:
    return _starts(instruction.mnemonic, "ldr", "vldr") and not _starts(instruction.mnemonic, "ldrd", "ldrex")


def _address_registers(instruction: Instruction) -> list[str]:
    bracket = ADDRESS.search(instruction.operands)
    return CORE_REGISTER.findall(bracket.group()) if bracket else []


def _overlap(instruction: Instruction, before: Instruction | None) -> int:
    """Cycles that a load or store gains or loses by what stands before it (DDI 0439B, "Load/store timings").

    A load overlaps with the load or store after it, unless it fetches that one's address. An address that the
    instruction before has computed costs a cycle more: it is not forwarded.
    """
    if before is None:
        return 0
    result = CORE_REGISTER.match(before.operands)
    is_address = result is not None and result.group() in _address_registers(instruction)
    if _is_single_load(before):
        return 0 if is_address else -1
    computes = not _starts(
        before.mnemonic, "str", "stm", "vst", "cmp", "cmn", "tst", "teq", "push", "b", "cb", "v", "it"
    )
    return 1 if is_address and computes else 0


def _cortex_m4_fpu(instruction: Instruction, before: Instruction | None, after: Instruction | None) -> int:
    """DDI 0439B, table 7-1, and its note: a result that the next instruction consumes costs one cycle more."""
    mnemonic = instruction.mnemonic
    if _starts(mnemonic, "vldm", "vstm", "vpush", "vpop"):
        return 1 + _listed(instruction.operands)
    if _starts(mnemonic, "vldr"):
        return 2 + _overlap(instruction, before)
    if _starts(mnemonic, "vstr"):
        return 2 + _overlap(instruction, before)
    if _starts(mnemonic, "vdiv", "vsqrt"):
        cycles = 14
    elif _starts(mnemonic, "vmla", "vmls", "vfma", "vfms", "vnmla", "vnmls", "vfnma", "vfnms"):
        cycles = 3
    elif _starts(mnemonic, "vmov", "vmrs", "vmsr"):
        return 2 if instruction.operands.count(",") == 3 else 1
    else:
        cycles = 1
    return cycles + (1 if _consumes_result(instruction, after) else 0)


def _consumes_result(instruction: Instruction, after: Instruction | None) -> bool:
    if after is None or not after.mnemonic.startswith("v"):
        return False
    result = FP_REGISTER.match(instruction.operands)
    if result is None:
        return False
    read = FP_REGISTER.findall(after.operands)
    accumulates = _starts(after.mnemonic, "vmla", "vmls", "vfma", "vfms", "vnmla", "vnmls", "vfnma", "vfnms")
    stores = _starts(after.mnemonic, "vstr", "vstm", "vpush", "vcmp")
    return result.group() in (read if accumulates or stores else read[1:])


def _cortex_m4(instruction: Instruction, before: Instruction | None, after: Instruction | None) -> int:
    """DDI 0439B, table 3-1. Division takes 2 to 12 cycles: 7."""
    mnemonic = instruction.mnemonic
    if mnemonic.startswith("v"):
        return _cortex_m4_fpu(instruction, before, after)
    if _starts(mnemonic, "ldm", "stm", "push", "pop"):
        return 1 + _listed(instruction.operands)
    if _starts(mnemonic, "ldrd", "strd"):
        return 3
    if _starts(mnemonic, "ldr"):
        return 2 + _overlap(instruction, before)
    if _starts(mnemonic, "str"):
        address = 2 if len(_address_registers(instruction)) == 2 else 1
        return max(1, address + _overlap(instruction, before))
    if _starts(mnemonic, "sdiv", "udiv"):
        return 7
    if _starts(mnemonic, "tbb", "tbh"):
        return 2
    if _starts(mnemonic, "dsb", "dmb", "isb", "mrs", "msr"):
        return 2
    return 1


def _cortex_m0plus(instruction: Instruction, _before: Instruction | None, _after: Instruction | None) -> int:
    """DDI 0484C, table 3-1. Branches: what is left of their cost when the refill of one cycle is taken off."""
    mnemonic = instruction.mnemonic
    if _starts(mnemonic, "push", "stm", "ldm"):
        return 1 + _listed(instruction.operands)
    if _starts(mnemonic, "pop"):
        return (2 if "pc" in instruction.operands else 1) + _listed(instruction.operands)
    if _starts(mnemonic, "ldr", "str"):
        return 2
    if mnemonic == "bl":
        return 2
    if _starts(mnemonic, "dsb", "dmb", "isb", "mrs", "msr"):
        return 3
    return 1


# Refill: on the M4 "P", 1 to 3 cycles by alignment and target width; on the M0+ one cycle. Interrupts: 12 in and 10 out
# (M4, its frame has room for the FPU's registers), 15 and 13 (M0+).
CORES = {
    "cortex-m4f": Core("cortex-m4f", refill=2, entry=12, exit=10, frame_bytes=104, cost=_cortex_m4),
    "cortex-m0plus": Core("cortex-m0plus", refill=1, entry=15, exit=13, frame_bytes=32, cost=_cortex_m0plus),
}


def _strip(mnemonic: str) -> str:
    """Mnemonic without width and type: ``vadd.f32`` is ``vadd``."""
    return mnemonic.split(".")[0]


def prefix_sums(core: Core, code: Iterable[tuple[int, bytes]], begin: int, end: int) -> NDArray[np.uint32]:
    """Cycles before each halfword of an address range.

    Parameters
    ----------
    core : Core
        Whose table to use.
    code : iterable of (int, bytes)
        Address and bytes of every run of instructions; what lies between the runs is data.
    begin, end : int
        The range covered.

    Returns
    -------
    array of uint32, ((end - begin) / 2 + 1,)
        ``sums[(b - begin) / 2] - sums[(a - begin) / 2]`` is the cost of the instructions in ``[a, b)``.
    """
    import capstone

    engine = capstone.Cs(capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS)
    engine.skipdata = True
    costs = np.zeros((end - begin) // 2 + 1, np.uint32)
    for address, data in code:
        listing = [
            (place, Instruction(_strip(mnemonic), operands))
            for place, _, mnemonic, operands in engine.disasm_lite(data, address)
        ]
        for index, (place, instruction) in enumerate(listing):
            before = listing[index - 1][1] if index else None
            after = listing[index + 1][1] if index + 1 < len(listing) else None
            # Charged after the instruction's first halfword: a sum up to its end then holds all of it.
            costs[(place - begin) // 2 + 1] = core.cost(instruction, before, after)
    return np.cumsum(costs, dtype=np.uint32)
