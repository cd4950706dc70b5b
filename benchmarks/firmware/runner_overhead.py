# SPDX-License-Identifier: Apache-2.0
"""What share of a training step's cycles the schedule runner takes, beside kernels and page checks.

    .venv/bin/python -m benchmarks.firmware.runner_overhead [PLAN ...]

PLAN is a folder written by poet-plan; without one, the demo's network is run with every tensor kept. Each schedule runs
twice on the emulated core, the second time with operators, checks and transfers that do nothing. Transfers cost nothing
in both, so that the share is larger than on a board. Exits 1 if it exceeds 1 % on the Cortex-M4F or the Cortex-M0+.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.firmware.emulated_core import FIRMWARE, HERE, EmulatedCore

LIMIT = 0.01


def plain_plan(folder: Path) -> Path:
    """The demo's network, every tensor kept."""
    from poet_planner.baselines.store_all import store_all_schedule
    from poet_planner.planning.training_graph import training_graph
    from poet_planner.schedule.c_headers import write_headers
    from poet_profiles.boards import load_board
    from poet_profiles.schedule.file import write_schedule

    graph = training_graph("digits_cnn", None, load_board("nrf52840"))
    schedule = store_all_schedule(graph)
    write_headers(graph, schedule, folder)
    write_schedule(schedule, folder / "schedule.json")
    return folder


def measure(core: str, plan: Path, build: Path) -> tuple[int, int]:
    """Cycles of a whole step, and of the runner alone."""
    runtime = FIRMWARE / "src" / "runtime"
    included = {"runner.c", "pager.c"}  # runner_overhead.c includes these
    sources = [HERE / "runner_overhead.c", *(file for file in runtime.glob("*.c") if file.name not in included)]
    sources += sorted((FIRMWARE / "src" / "ops").glob("*.c"))
    emulated = EmulatedCore(core, sources, ["clear_ram", "run_schedule", "check_schedule"], build, [plan.resolve()])
    emulated.call("clear_ram")
    cycles = {}
    for name, call in {
        "step": ("run_schedule", 0),
        "runner": ("run_schedule", 1),
        "check": ("check_schedule",),
    }.items():
        status, cycles[name] = emulated.call(*call)
        if status != 0:
            sys.exit(f"runner_overhead: {plan}: {name} ended with {status}")
    return cycles["step"] - cycles["check"], cycles["runner"] - cycles["check"]


def main() -> int:
    table = Table("core", "plan", "steps", "cycles", "runner's", "each", "share", title="schedule runner (emulated)")
    worst = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        plans = [Path(argument) for argument in sys.argv[1:]] or [plain_plan(folder)]
        for core in ("cortex-m4f", "cortex-m0plus"):
            for plan in plans:
                steps = len(json.loads((plan / "schedule.json").read_text())["steps"])
                step, runner = measure(core, plan, folder / "build")
                worst = max(worst, runner / step)
                name = plan.name if sys.argv[1:] else "all kept"
                table.add_row(
                    *(core, name, str(steps), f"{step:,}", f"{runner:,}", f"{runner / steps:.0f}"),
                    f"{runner / step:.3%}",
                )
    Console().print(table)
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
