# SPDX-License-Identifier: Apache-2.0
"""The demo's other board: poet's sketch on a RISC-V core in QEMU, with slow memory.

The sketch's board is what the tests have: a double of an Arduino core, and QEMU's `virt`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("riscv64-unknown-elf-gcc", "qemu-system-riscv32")
MODEL, STEPS, LEARNING_RATE = "digits_cnn_small", "60", "0.1"


def show(run: Callable[..., None], say: Callable[[str], None], out: Path) -> Path:
    """Show board file, profile, plan and training by commands; where the losses are."""
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        sys.exit(f"demo: no {', no '.join(missing)}; ./install-debian-packages debian-packages-tests.txt installs them")
    sys.path.insert(0, str(ROOT))
    from poet_harness.arduino_library import write_arduino_library

    from tests.support.arduino import CORES, SLOW_MEMORY, built, running

    shutil.rmtree(out / "sketch", ignore_errors=True)
    (out / "riscv.csv").unlink(missing_ok=True)
    say("1. Compile the sketch, as an Arduino core does, and start it; every plan comes to it as data")
    core = CORES["rv32imafc"]
    image = built(core, write_arduino_library(out / "libraries").absolute(), (out / "sketch").absolute(), SLOW_MEMORY)
    os.environ["POET_BOARDS"] = str(out / "boards")
    graph, profile, plan, data = (str(out / name) for name in ("graph.json", "riscv.csv", "riscv", "riscv.npz"))
    with running(core, image, counted=True) as port:
        on = ("--board", "riscv", "--port", port)
        say("2. The board's file, from what the board says, and a profile of the network's operators")
        new = ("board", "new", "riscv", "--port", port, "--out", str(out / "boards"))
        run("poet-harness", *new, "--active-power", "80mW", "--idle-power", "20mW")
        run("poet-plan", "graph", "--model", MODEL, "--board", "riscv", "--out", graph)
        run("poet-harness", "profile", *on, "--graph", graph, "--quick", "--out", profile)
        say("3. A plan with parameters in slow memory, loaded and trained")
        run("poet-plan", "--profile", profile, "--model", MODEL, "--parameters", "card", "--out", plan)
        run("poet-plan", "data", "--model", MODEL, "--steps", STEPS, "--out", data)
        run("poet-harness", "flash", *on, "--plan", plan)
        steps = ("--plan", plan, "--data", data, "--steps", STEPS, "--lr", LEARNING_RATE)
        run("poet-harness", "run", *on, *steps, "--save", f"{plan}/losses.npz")
    return Path(plan, "losses.npz")
