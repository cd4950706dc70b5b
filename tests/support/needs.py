# SPDX-License-Identifier: Apache-2.0
"""Marks of tests that need compilers or the emulator, and are skipped without them."""

from __future__ import annotations

import importlib.util
import shutil

import pytest


def _programs(*names: str) -> bool:
    return all(shutil.which(name) for name in names)


_EMULATOR = importlib.util.find_spec("unicorn") is not None and _programs("arm-none-eabi-gcc")

gcc = pytest.mark.skipif(not _programs("gcc"), reason="needs gcc")
emulator = pytest.mark.skipif(not _EMULATOR, reason="needs the emulator extra and arm-none-eabi-gcc")
emulator_and_gcc = pytest.mark.skipif(
    not (_EMULATOR and _programs("gcc")), reason="needs the emulator extra, arm-none-eabi-gcc and gcc"
)
