# SPDX-License-Identifier: Apache-2.0
"""What `machine.py` and the peripherals share with the C: the structures of native/machine.h."""

from __future__ import annotations

import ctypes
from typing import Any

from unicorn import arm_const, unicorn_const
from unicorn.unicorn_py3 import unicorn as engine_binding
from unicorn.unicorn_py3.unicorn import UcContext

from .counter import Counter

SLEEPS_KEPT = 4096
INTERRUPTS = 4


class EngineState(ctypes.Structure):
    """``struct engine`` of native/machine.h: Unicorn's functions."""

    FUNCTIONS = ("emu_start", "reg_read", "reg_write", "mem_read", "mem_write", "context_save", "context_restore")
    _fields_ = [("handle", ctypes.c_void_p), *((name, ctypes.c_void_p) for name in FUNCTIONS)]


class RegisterNumbers(ctypes.Structure):
    """``struct registers``."""

    NAMES = ("SP", "LR", "PC", "XPSR", "PRIMASK", "FPSCR")
    _fields_ = [(name, ctypes.c_int) for name in NAMES]


class Sleep(ctypes.Structure):
    """``struct sleep``."""

    _fields_ = [("begin", ctypes.c_uint64), ("end", ctypes.c_uint64)]


PENDING_AT = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64))


class Interrupt(ctypes.Structure):
    """``struct interrupt``."""

    _fields_ = [("peripheral", ctypes.c_void_p), ("pending_at", PENDING_AT), ("number", ctypes.c_uint32)]


class NvicState(ctypes.Structure):
    """``struct nvic``."""

    _fields_ = [("enabled", ctypes.c_uint32)]


class MachineState(ctypes.Structure):
    """``struct machine`` of native/machine.h."""

    _fields_ = [
        ("engine", EngineState),
        ("registers", RegisterNumbers),
        ("counter", ctypes.POINTER(Counter)),
        ("before_handler", ctypes.c_void_p),
        ("nvic", ctypes.POINTER(NvicState)),
        ("interrupts", Interrupt * INTERRUPTS),
        ("interrupt_count", ctypes.c_uint32),
        ("ram_begin", ctypes.c_uint32),
        ("ram_end", ctypes.c_uint32),
        ("entry_table", ctypes.c_uint32),
        ("frame_bytes", ctypes.c_uint32),
        ("entry_cycles", ctypes.c_uint32),
        ("exit_cycles", ctypes.c_uint32),
        ("in_handler", ctypes.c_uint8),
        ("reset_wanted", ctypes.c_uint8),
        ("pause_wanted", ctypes.c_uint8),
        ("failed", ctypes.c_uint8),
        ("spi_checked", ctypes.c_uint8),
        ("serial_checked", ctypes.c_uint8),
        ("fault", ctypes.c_uint32),
        ("sleep_count", ctypes.c_uint32),
        ("sleeps", Sleep * SLEEPS_KEPT),
    ]


LOAD = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)
STORE = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)


class PageState(ctypes.Structure):
    """``struct page``."""

    _fields_ = [
        ("machine", ctypes.POINTER(MachineState)),
        ("base", ctypes.c_uint32),
        ("peripheral_base", ctypes.c_uint32),
        ("peripheral", ctypes.c_void_p),
        ("load", ctypes.c_void_p),
        ("store", ctypes.c_void_p),
        ("load_in_python", LOAD),
        ("store_in_python", STORE),
    ]


RAN, WANTED, FAULT, SLEEPS, VECTOR = range(5)  # enum machine_outcome


def machine_state(engine: Any, counter: Counter, before_handler: UcContext) -> MachineState:
    """A state that knows the engine. Keeps no reference to what it is given: the caller must."""
    state = MachineState(counter=ctypes.pointer(counter), before_handler=before_handler.context)
    state.engine.handle = engine._uch
    for name in EngineState.FUNCTIONS:
        setattr(state.engine, name, ctypes.cast(getattr(engine_binding.uclib, f"uc_{name}"), ctypes.c_void_p))
    for name in RegisterNumbers.NAMES:
        setattr(state.registers, name, getattr(arm_const, f"UC_ARM_REG_{name}"))
    return state


def map_page(engine: Any, begin: int, size: int, load: Any, store: Any, page: PageState) -> None:
    """Map a page of registers that C looks at first. Keeps no reference to `page`."""
    where = ctypes.c_void_p(ctypes.addressof(page))
    status = engine_binding.uclib.uc_mmio_map(
        engine._uch,
        ctypes.c_uint64(begin),
        ctypes.c_size_t(size),
        ctypes.cast(load, ctypes.c_void_p),
        where,
        ctypes.cast(store, ctypes.c_void_p),
        where,
    )
    if status != unicorn_const.UC_ERR_OK:
        raise engine_binding.UcError(status)
