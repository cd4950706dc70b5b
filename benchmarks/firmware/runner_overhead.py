# SPDX-License-Identifier: Apache-2.0
"""What share of a training step's cycles the schedule runner takes, beside kernels and page checks.

    .venv/bin/python -m benchmarks.firmware.runner_overhead [PLAN ...]

PLAN is a folder written by poet-plan; without one, the demo's network is run with every tensor kept. Each schedule runs
twice on the emulated core, the second time with operators, checks and transfers that do nothing. Transfers cost nothing
in both, so that the share is larger than on a board. A third run returns between two calls (`poet_runner_next`);
*returning* is what that adds to the whole step. Exits 1 if the runner's share exceeds 0.5 %, or
returning adds more than 0.5 %, on the Cortex-M4F or the Cortex-M0+.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from poet_profiles.graph.file import read_graph
from poet_profiles.schedule.calls import calls_of
from poet_profiles.schedule.file import read_schedule
from rich.console import Console
from rich.table import Table

from benchmarks.firmware.emulated_core import FIRMWARE, HERE, EmulatedCore

LIMIT = 0.005
RETURNING_LIMIT = 0.005


def plain_plan(folder: Path) -> Path:
    """The demo's network, every tensor kept."""
    from poet_planner.planning.training_graph import training_graph
    from poet_planner.schedule.c_headers import write_headers
    from poet_planner.schedule.store_all import store_all_schedule
    from poet_profiles.boards import load_board
    from poet_profiles.graph.file import write_graph
    from poet_profiles.schedule.file import write_schedule

    graph = training_graph("digits_cnn", None, load_board("nrf52840"))
    schedule = store_all_schedule(graph)
    write_headers(graph, schedule, folder)
    write_graph(graph, folder / "graph.json")
    write_schedule(schedule, folder / "schedule.json")
    return folder


def measure(core: str, plan: Path, build: Path) -> tuple[int, int, int]:
    """Cycles of a whole step, of the runner alone, and of a whole step done piece by piece."""
    runtime = FIRMWARE / "src" / "runtime"
    included = {"runner.c", "pager.c"}  # runner_overhead.c includes these
    sources = [HERE / "runner_overhead.c", *(file for file in runtime.glob("*.c") if file.name not in included)]
    sources += sorted((FIRMWARE / "src" / "ops").glob("*.c"))
    functions = ["clear_ram", "run_schedule", "run_by_pieces", "check_schedule"]
    emulated = EmulatedCore(core, sources, functions, build, [plan.resolve()])
    emulated.call("clear_ram")
    cycles = {}
    for name, call in {
        "step": ("run_schedule", 0),
        "runner": ("run_schedule", 1),
        "pieces": ("run_by_pieces",),
        "check": ("check_schedule",),
    }.items():
        status, cycles[name] = emulated.call(*call)
        if status != 0:
            sys.exit(f"runner_overhead: {plan}: {name} ended with {status}")
    return cycles["step"] - cycles["check"], cycles["runner"] - cycles["check"], cycles["pieces"] - cycles["check"]


def main() -> int:
    heads = ("core", "plan", "calls", "cycles", "runner's", "each", "share", "returning")
    table = Table(*heads, title="schedule runner (emulated)")
    worst = returning = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        plans = [Path(argument) for argument in sys.argv[1:]] or [plain_plan(folder)]
        for core in ("cortex-m4f", "cortex-m0plus"):
            for plan in plans:
                calls = len(calls_of(read_graph(plan / "graph.json"), read_schedule(plan / "schedule.json")))
                step, runner, pieces = measure(core, plan, folder / "build")
                worst = max(worst, runner / step)
                returning = max(returning, pieces / step - 1)
                name = plan.name if sys.argv[1:] else "all kept"
                table.add_row(
                    *(core, name, str(calls), f"{step:,}", f"{runner:,}", f"{runner / calls:.0f}"),
                    f"{runner / step:.3%}",
                    f"{pieces / step - 1:+.3%}",
                )
    Console().print(table)
    return int(worst > LIMIT or returning > RETURNING_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
