# SPDX-License-Identifier: Apache-2.0
"""Energy of NVIDIA's desktop GPUs through NVML (optional package ``nvidia-ml-py``).

A Jetson answers NotSupported: that is an error here, never an energy of zero.
"""

from __future__ import annotations

import importlib
from typing import Any

from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError

from .clocked import ClockedMeter

CURE = "pip install 'poet-edge[nvml]'"


def find() -> list[str]:
    """Indices of the GPUs that count their energy."""
    try:
        nvml = _started()
    except UserError:
        return []
    try:
        return [str(index) for index in range(nvml.nvmlDeviceGetCount()) if _counts(nvml, index)]
    except nvml.NVMLError:
        return []


def open_nvml(address: str, board: Board) -> ClockedMeter:
    """Open GPU number ``address``, or the only one. Each has a counter of its own; they are never added up.

    Raises
    ------
    UserError
        If the package or the driver is missing, there are several GPUs and none was named, or the GPU does not count
        its energy.
    """
    if address and not address.isdecimal():
        raise UserError(f"nvml: {address!r} is no number of a GPU; nvidia-smi lists them, from 0 on")
    nvml = _started()
    try:
        count = nvml.nvmlDeviceGetCount()
        if not address and count > 1:
            listed = ", ".join(f"{index} ({_name(nvml, index)})" for index in range(count))
            raise UserError(f"nvml: {count} GPUs: {listed}; name one as --meter nvml:NUMBER", NO_DEVICE)
        gpu = nvml.nvmlDeviceGetHandleByIndex(int(address or 0))
        nvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
        name = (
            _name(nvml, int(address or 0)) + (f", GPU {address} of {count}" if count > 1 else "") + _divided(nvml, gpu)
        )
    except (nvml.NVMLError, ValueError) as error:
        raise UserError(f"nvml: GPU {address or 0} does not give its energy: {error}", NO_DEVICE) from None

    def joules() -> float:
        try:
            return float(nvml.nvmlDeviceGetTotalEnergyConsumption(gpu)) * 1e-3
        except nvml.NVMLError as error:
            raise OSError(str(error)) from None

    # The counter moves about every 20 ms.
    return ClockedMeter(joules, True, f"NVML {name}", board.voltage_v, period_s=0.02)


def _name(nvml: Any, index: int) -> str:
    return str(nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(index)))


def _divided(nvml: Any, gpu: Any) -> str:
    """A GPU that is divided (MIG) has one counter for all of its instances: the others' work is in it."""
    try:
        current, _pending = nvml.nvmlDeviceGetMigMode(gpu)
    except nvml.NVMLError:
        return ""
    return ", all instances of it (MIG)" if current else ""


def _counts(nvml: Any, index: int) -> bool:
    try:
        nvml.nvmlDeviceGetTotalEnergyConsumption(nvml.nvmlDeviceGetHandleByIndex(index))
    except nvml.NVMLError:
        return False
    return True


def _started() -> Any:
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        raise UserError(f"nvml: the package nvidia-ml-py is not installed: {CURE}", NO_DEVICE) from None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise UserError(f"nvml: {error}", NO_DEVICE) from None
    return nvml
