# SPDX-License-Identifier: Apache-2.0
"""Takes the sources for the chip of the board that a project is built for, or for the host."""

from SCons.Script import Import

Import("env")
folders = env.BoardConfig().get("build.folders") if env.get("BOARD") else ["host"]  # noqa: F821
env.Replace(SRC_FILTER=["-<*>", *(f"+<{folder}/>" for folder in folders)])  # noqa: F821
