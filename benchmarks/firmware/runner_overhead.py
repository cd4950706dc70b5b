# SPDX-License-Identifier: Apache-2.0
"""What share of a training step's cycles the schedule runner takes, beside kernels and page checks.

    .venv/bin/python -m benchmarks.firmware.runner_overhead [PLAN ...]

PLAN is a folder written by poet-plan; without one, the demo's network is run with every tensor kept. Each schedule runs
twice on the emulated core, the second time with operators, checks and transfers that do nothing. Transfers cost nothing
in both, so that the share is larger than on a board. The clock is looked at after each call, as the harness does; *at
once* is the share without that. One more run returns between two calls (`poet_runner_next`); *returning* is what that
adds to the whole step. Exits 1 if the runner's share exceeds 0.5 %, or returning adds more than 0.5 %, on the
Cortex-M4F or the Cortex-M0+. Plans with tensors kept on the card are not run: they need a card that answers.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from poet_profiles.graph.file import read_graph
from poet_profiles.schedule.calls import calls_of
from poet_profiles.schedule.file import read_schedule
from rich.console import Console
from rich.table import Table

from benchmarks.firmware.emulated_core import FIRMWARE, HERE, OPERATOR_SOURCES, EmulatedCore

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


@dataclass(frozen=True)
class Cycles:
    """Of a whole step and of the runner alone, with a look at the clock after each call and without; by pieces."""

    step: int
    runner: int
    step_at_once: int
    runner_at_once: int
    pieces: int


def measure(core: str, plan: Path, build: Path) -> Cycles:
    """On a core of that name."""
    runtime = FIRMWARE / "src" / "runtime"
    included = {"runner.c", "pager.c"}  # runner_overhead.c includes these
    sources = [HERE / "runner_overhead.c", *(file for file in runtime.glob("*.c") if file.name not in included)]
    sources += OPERATOR_SOURCES
    functions = ["clear_ram", "run_schedule", "run_at_once", "run_by_pieces", "check_schedule"]
    emulated = EmulatedCore(core, sources, functions, build, [plan.resolve()])
    cycles = {}
    for name, call in {
        "check": ("check_schedule",),
        "step": ("run_schedule", 0),
        "runner": ("run_schedule", 1),
        "step_at_once": ("run_at_once", 0),
        "runner_at_once": ("run_at_once", 1),
        "pieces": ("run_by_pieces",),
    }.items():
        emulated.call("clear_ram")  # weights that a step has trained take soft floats longer
        status, cycles[name] = emulated.call(*call)
        if status != 0:
            sys.exit(f"runner_overhead: {plan}: {name} ended with {status}")
    check = cycles.pop("check")
    return Cycles(**{name: count - check for name, count in cycles.items()})


def main() -> int:
    heads = ("core", "plan", "calls", "cycles", "runner's", "each", "share", "each at once", "share", "returning")
    table = Table(*heads, title="schedule runner (emulated)")
    worst = returning = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        plans = [Path(argument) for argument in sys.argv[1:]] or [plain_plan(folder)]
        for core in ("cortex-m4f", "cortex-m0plus"):
            for plan in plans:
                calls = len(calls_of(read_graph(plan / "graph.json"), read_schedule(plan / "schedule.json")))
                cycles = measure(core, plan, folder / "build")
                share, at_once = cycles.runner / cycles.step, cycles.runner_at_once / cycles.step_at_once
                worst = max(worst, share)
                returning = max(returning, cycles.pieces / cycles.step - 1)
                name = plan.name if sys.argv[1:] else "all kept"
                table.add_row(
                    *(core, name, str(calls), f"{cycles.step:,}", f"{cycles.runner:,}"),
                    *(f"{cycles.runner / calls:.0f}", f"{share:.3%}"),
                    *(f"{cycles.runner_at_once / calls:.0f}", f"{at_once:.3%}"),
                    f"{cycles.pieces / cycles.step - 1:+.3%}",
                )
    Console().print(table)
    return int(worst > LIMIT or returning > RETURNING_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
