# SPDX-License-Identifier: Apache-2.0
"""Reads of data by the instructions that make them, as an emulated core comes to each.

Unicorn's own hook of reads is of no use on a core with IT blocks: after a conditional load that it sees, instructions
are lost (unicorn 2.1.4). Its hook of instructions is sound, and does not see those whose condition fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import capstone
from capstone import arm_const
from unicorn import arm_const as registers

WIDTHS = {
    arm_const.ARM_INS_LDR: 4,
    arm_const.ARM_INS_LDRB: 1,
    arm_const.ARM_INS_LDRSB: 1,
    arm_const.ARM_INS_LDRH: 2,
    arm_const.ARM_INS_LDRSH: 2,
    arm_const.ARM_INS_LDRD: 4,
    arm_const.ARM_INS_LDM: 4,
    arm_const.ARM_INS_LDMDB: 4,
    arm_const.ARM_INS_VLDR: 4,
    arm_const.ARM_INS_VLDMIA: 4,
    arm_const.ARM_INS_VLDMDB: 4,
    arm_const.ARM_INS_TBB: 1,
    arm_const.ARM_INS_TBH: 2,
}
DOUBLES = range(arm_const.ARM_REG_D0, arm_const.ARM_REG_D31 + 1)
WORD = 0xFFFFFFFF


class Load(NamedTuple):
    """So many reads of one width, one after another, from base + (index << shift) + offset on.

    ``base`` and ``index`` are registers; without one, the number is in ``offset``.
    """

    base: int | None
    index: int | None
    shift: int
    offset: int
    count: int
    width: int

    def reads(self, engine: Any) -> Iterator[tuple[int, int]]:
        """Address and bytes of each, with the registers as they are."""
        base = 0 if self.base is None else engine.reg_read(self.base)
        index = 0 if self.index is None else engine.reg_read(self.index)
        first = base + (index << self.shift) + self.offset
        for place in range(self.count):
            yield first + place * self.width & WORD, self.width


class Loads:
    """Looks at Thumb instructions, at each once."""

    def __init__(self) -> None:
        self._decoder = capstone.Cs(capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS)
        self._decoder.detail = True
        self._known: dict[int, Load | None] = {}

    def at(self, engine: Any, address: int, size: int) -> Load | None:
        """What the instruction loads; None if it loads nothing but from the stack."""
        if address not in self._known:
            [instruction] = self._decoder.disasm(bytes(engine.mem_read(address, size)), address)
            self._known[address] = _load(instruction)
        return self._known[address]


def _load(instruction: capstone.CsInsn) -> Load | None:
    width = WIDTHS.get(instruction.id)
    if width is None:
        return None
    operands = instruction.operands
    memory = next((operand.mem for operand in operands if operand.type == arm_const.ARM_OP_MEM), None)
    named = [operand.reg for operand in operands if operand.type == arm_const.ARM_OP_REG]
    if memory is None:
        base, *loaded = named
        count = _words(loaded)
        downwards = instruction.id in (arm_const.ARM_INS_LDMDB, arm_const.ARM_INS_VLDMDB)
        offset = -4 * count if downwards else 0
        return _from(base, None, 0, offset, count, width, instruction)
    shift = next(operand.shift.value for operand in operands if operand.type == arm_const.ARM_OP_MEM)
    count = 1 if instruction.id in (arm_const.ARM_INS_TBB, arm_const.ARM_INS_TBH) else _words(named)
    offset = 0 if instruction.post_index else memory.disp
    return _from(memory.base, memory.index or None, shift or memory.lshift, offset, count, width, instruction)


def _words(loaded: list[int]) -> int:
    return sum(2 if register in DOUBLES else 1 for register in loaded)


def _from(
    base: int, index: int | None, shift: int, offset: int, count: int, width: int, instruction: capstone.CsInsn
) -> Load | None:
    if base == arm_const.ARM_REG_SP:
        return None
    own = None if index is None else _register(index)
    if base != arm_const.ARM_REG_PC:
        return Load(_register(base), own, shift, offset, count, width)
    ahead = instruction.address + 4
    table = instruction.id in (arm_const.ARM_INS_TBB, arm_const.ARM_INS_TBH)
    return Load(None, own, shift, offset + (ahead if table else ahead & ~3), count, width)


def _register(number: int) -> int:
    """Unicorn's number of one of capstone's registers."""
    name = capstone.Cs(capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB).reg_name(number)
    return int(getattr(registers, f"UC_ARM_REG_{name.upper()}"))
