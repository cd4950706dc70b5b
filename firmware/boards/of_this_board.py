# SPDX-License-Identifier: Apache-2.0
"""Takes the sources of the board that a project is built for, or of the host."""

from SCons.Script import Import

Import("env")
board = env.get("BOARD")  # noqa: F821
env.Replace(SRC_FILTER=["-<*>", *(["+<cortex_m/>", f"+<{board}/>"] if board else ["+<host/>"])])  # noqa: F821
