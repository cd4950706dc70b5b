# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the firmware's tests."""

from __future__ import annotations

from tests.support.firmware.core import core, host_firmware, host_program

__all__ = ["core", "host_firmware", "host_program"]
