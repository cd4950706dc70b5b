# SPDX-License-Identifier: Apache-2.0
"""Builds a project for one board, or for the host: ELF, HEX, BIN, a size report, and the upload command.

The project is poet's own firmware, or an application anywhere that has poet as a library (docs/own_application.md).
"""

import hashlib
import os
import sys
from pathlib import Path

from SCons.Script import Default, DefaultEnvironment

env = DefaultEnvironment()
project = Path(env.subst("$PROJECT_DIR"))
platform = Path(env.PioPlatform().get_dir()).resolve()
firmware = platform.parents[1]  # of poet's clone, wherever the project lies
board = env.BoardConfig() if env.get("BOARD") else None
sys.path.insert(0, str(platform / "builder"))
import board_files  # noqa: E402

COMMON_FLAGS = ["-O2", "-g", "-ffunction-sections", "-fdata-sections"]
# What no program here uses of C++, and what would link the unwinder and libstdc++.
CXX_FLAGS = ["-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"]


def source_identity(settings):
    """Twelve hex digits that change with any source file of an image, and with what the board's file says.

    Not with what a user builds in an example's folder.
    """
    digest = hashlib.sha256(settings.encode())
    for path in sorted(path for folder in ("boards", "include", "src") for path in (firmware / folder).rglob("*")):
        if path.suffix in {".c", ".h", ".def", ".ld"}:
            digest.update(path.relative_to(firmware.parent).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def define_settings(build_env, node):
    """Gives each setting to the files that name it alone, so that a change elsewhere does not rebuild everything."""
    text = node.srcnode().get_contents()
    named = [(name, value) for name, value in settings.items() if name.encode() in text]
    return build_env.Object(node, CPPDEFINES=[*build_env["CPPDEFINES"], *named]) if named else node


def write_board_files():
    """Header and linker script of the board into the build's folder; untouched where they say the same already."""
    folder = Path(env.subst("$BUILD_DIR")) / "board"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("board_settings.h", board_header), ("board.ld", board_files.linker_script(described))):
        if not (folder / name).is_file() or (folder / name).read_text() != text:
            (folder / name).write_text(text)
    return folder


described = board.get("poet") if board else {}
board_header = board_files.header(described) if board else ""
settings = {"POET_FIRMWARE_ID": env.StringifyMacro(source_identity(board_header))}
env.Append(CCFLAGS=COMMON_FLAGS, CXXFLAGS=CXX_FLAGS, LINKFLAGS=["-O2"], CPPPATH=[str(firmware / "include")])
env.AddBuildMiddleware(define_settings, "*.c")

model_dir = os.environ.get("POET_MODEL_DIR")
if model_dir:
    env.Append(CPPPATH=[str((project / model_dir).resolve())])
else:
    env.Append(CPPDEFINES=["POET_NO_MODEL"])

if os.environ.get("POET_KEEP") == "flash":
    env.Append(CPPDEFINES=[("POET_KEEP_FLASH", int(bool(described.get("memory"))))])

if board is None:
    env.Replace(CC="gcc", CXX="g++", AS="gcc", LINK="gcc", PROGNAME="poet", SIZETOOL=None)
    program = env.BuildProgram()
    Default([program])
else:
    prefix = "arm-none-eabi-"
    machine = board.get("build.machine_flags")
    made = write_board_files()
    env.Replace(
        CC=prefix + "gcc",
        CXX=prefix + "g++",
        AS=prefix + "gcc",
        AR=prefix + "gcc-ar",
        RANLIB=prefix + "gcc-ranlib",
        LINK=prefix + "gcc",  # g++ would ask for libstdc++
        OBJCOPY=prefix + "objcopy",
        SIZETOOL=prefix + "size",
        PROGNAME="firmware",
        PROGSUFFIX=".elf",
        SIZEPROGREGEXP=r"^(?:\.vectors|\.text|\.data|\.ARM\.exidx)\s+([0-9]+).*",
        SIZEDATAREGEXP=r"^(?:\.stack|\.data|\.bss|\.noinit)\s+([0-9]+).*",
        SIZECHECKCMD="$SIZETOOL -A -d $SOURCES",
        SIZEPRINTCMD="$SIZETOOL -B -d $SOURCES",
        LDSCRIPT_PATH=str(made / "board.ld"),
    )
    env.Append(
        CPPPATH=[*(str(firmware / "boards" / folder) for folder in board.get("build.folders")), str(made)],
        LIBPATH=[str(firmware / "boards")],  # where a linker script looks for what it includes
        CCFLAGS=machine,
        ASFLAGS=machine,
        # PlatformIO's own options stay after these; the map lies beside the image, also on a path with a space.
        LINKFLAGS=[
            *machine,
            "-nostartfiles",
            "-Wl,--gc-sections",
            "-Wl,--fatal-warnings",
            "-Wl,-Map=${TARGET.base}.map",
        ],
    )
    elf = env.BuildProgram()
    hexfile, binary = (
        env.Command(
            f"$BUILD_DIR/${{PROGNAME}}.{suffix}",
            elf,
            env.VerboseAction(f"$OBJCOPY -O {form} $SOURCE $TARGET", "Building $TARGET"),
        )
        for suffix, form in (("hex", "ihex"), ("bin", "binary"))
    )
    env.AddPlatformTarget(
        "size", elf, env.VerboseAction("$SIZEPRINTCMD", "Calculating size $SOURCE"), "Program size", "RAM and flash use"
    )
    command = env.GetProjectOption("upload_command", "")
    if not command:
        command = "@echo this board is uploaded to by poet-harness flash --board $BOARD && exit 1"
    image = binary if board.get("upload.image", "") == "bin" else hexfile
    upload = [env.VerboseAction(command, "Uploading $SOURCE")]
    if "$UPLOAD_PORT" in command:
        upload.insert(0, env.VerboseAction(env.AutodetectUploadPort, "Looking for the upload port..."))
    env.AddPlatformTarget("upload", image, upload, "Upload")
    Default([hexfile, binary, env.Alias("checkprogsize")])
