# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the firmware's tests."""

from __future__ import annotations

import pytest

from tests.support.firmware.core import core, host_firmware, host_program
from tests.support.firmware.host_operators import Operators, build

__all__ = ["core", "host_firmware", "host_program", "operators"]


@pytest.fixture(scope="session")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Operators:
    """The operators in firmware/src/ops, built for this machine."""
    return build(tmp_path_factory.mktemp("operators") / "operators.so")
