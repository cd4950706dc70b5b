# SPDX-License-Identifier: Apache-2.0
"""Takes the sources for the chip of the board that a project is built for, or for the host."""

from SCons.Script import Import

Import("env")
chip = env.BoardConfig().get("build.mcu") if env.get("BOARD") else None  # noqa: F821
env.Replace(SRC_FILTER=["-<*>", *(["+<cortex_m/>", f"+<{chip}/>"] if chip else ["+<host/>"])])  # noqa: F821
