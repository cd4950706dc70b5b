# SPDX-License-Identifier: Apache-2.0
"""One instance planned against the clock."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path

from poet_planner.comparison.registry import method_named
from poet_planner.report.placement import placement_report
from poet_planner.schedule.verify import verify
from poet_planner.solve import NoScheduleError, OptimiseOptions, Progress, Statistics, optimise
from poet_profiles.errors import UserError
from poet_profiles.schedule import Schedule, Status

from benchmarks.planner.instances import Instance, Loaded, load

WARM_UP = Instance("prototypes", "vgg16_cifar.m4", "55%", "1.5x", True)
MOMENTS_S = (2.0, 10.0, 60.0)
CLOCKS = {"wall": time.monotonic, "cpu": time.process_time}
METHODS = {"best": "optimal", "paper": "poet_ilp"}  # by what the column `formulation` says


@dataclass(frozen=True)
class Run:
    """How an instance is planned.

    Attributes
    ----------
    seconds : float
        The planner's time limit: of work, and of processor time.
    clock : str
        By which times are measured: "wall", or "cpu" for the planner's own processor time, which is what a busy machine
        leaves to be measured.
    """

    seconds: float
    clock: str
    formulation: str
    solver: str
    seed: int


@dataclass(frozen=True)
class Measurement:
    """A row of the results. Energies in joules, times in seconds of ``clock`` from the call of `optimise` on.

    Attributes
    ----------
    load : float
        The machine's load average (of one minute) when the run began; beyond its cores, times are longer than they
        would be on a quiet machine.
    status : str
        "optimal", "feasible"; "none" where the planner says that no schedule exists, or that Algorithm 1 gives none in
        the time; "error".
    note : str
        What the planner said about a missing schedule, what the verifier found, or what placement costs.
    commit : str
        What was measured; "+" after it where the planner's files had been changed since.
    """

    suite: str
    graph: str
    ram: str
    deadline: str
    paging: bool
    formulation: str
    solver: str
    seconds: float
    clock: str
    seed: int
    nodes: int
    ram_bytes: int
    deadline_s: float | None
    plain_energy_j: float
    status: str
    verified: bool
    first_feasible_s: float | None = None
    energy_2s_j: float | None = None
    energy_10s_j: float | None = None
    energy_60s_j: float | None = None
    energy_j: float | None = None
    bound_j: float | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0
    load: float = 0.0
    note: str = ""
    commit: str = ""


COLUMNS = [column.name for column in fields(Measurement)]


class _Listener:
    """Receives the progress of the planner, with the time by a clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started_s = clock()
        self.received: list[tuple[float, float]] = []

    def receive(self, progress: Progress) -> None:
        if progress.incumbent_j is not None:
            self.received.append((self.spent_s(), progress.incumbent_j))

    def spent_s(self) -> float:
        return self._clock() - self._started_s


def measure(instance: Instance, run: Run, ram_bytes: int | None = None) -> Measurement:
    """Plan one instance, in that RAM if it is given. A fault of the planner's is a row like any other."""
    warm_up()
    loaded = load(instance)
    in_more_ram = instance.ram == "smallest" and ram_bytes is None
    if ram_bytes is not None:
        loaded = replace(loaded, ram_bytes=ram_bytes)
    return _planned(instance, run, loaded, in_more_ram)


def _planned(instance: Instance, run: Run, loaded: Loaded, in_more_ram: bool) -> Measurement:
    """The row; if there is no schedule, that of the smallest RAM that the planner names, where that is asked for."""
    try:
        return _measured(instance, run, loaded)
    except UserError as refusal:
        if in_more_ram and isinstance(refusal, NoScheduleError) and (refusal.possible_bytes or 0) > loaded.ram_bytes:
            enough = replace(loaded, ram_bytes=refusal.possible_bytes)
            return _planned(instance, run, enough, in_more_ram=False)
        status = "none" if isinstance(refusal, NoScheduleError) else "error"
        return replace(_unanswered(instance, run, loaded), status=status, note=str(refusal))
    except Exception as fault:
        return replace(_unanswered(instance, run, loaded), status="error", note=f"{type(fault).__name__}: {fault}")


@cache
def warm_up() -> None:
    """Bring in everything that is imported once a process, by a plan that needs search, LP and MILP."""
    loaded = load(WARM_UP)
    optimise(loaded.graph, loaded.ram_bytes, loaded.deadline_s, OptimiseOptions(time_limit_s=5.0))


def _unanswered(instance: Instance, run: Run, loaded: Loaded) -> Measurement:
    """The row of an instance for which there is no schedule."""
    return Measurement(
        **asdict(instance),
        **asdict(run),
        nodes=len(loaded.graph.nodes),
        ram_bytes=loaded.ram_bytes,
        deadline_s=loaded.deadline_s,
        plain_energy_j=sum(node.energy_j for node in loaded.graph.nodes),
        status="none",
        verified=False,
        load=os.getloadavg()[0],
        commit=_commit(),
    )


@cache
def _commit() -> str:
    """Of the checkout that this file lies in, "+" after it if the planner differs; empty where it is none."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "../../planner")
        return git("rev-parse", "--short=7", "HEAD") + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return ""


def _measured(instance: Instance, run: Run, loaded: Loaded) -> Measurement:
    row = _unanswered(instance, run, loaded)
    wall, cpu = _Listener(time.perf_counter), _Listener(time.process_time)
    by_clock, statistics = (cpu if run.clock == "cpu" else wall), Statistics(CLOCKS[run.clock])
    options = OptimiseOptions(
        time_limit_s=run.seconds,
        seed=run.seed,
        solver=run.solver,
        paging=instance.paging,
        statistics=statistics,
        progress=by_clock.receive,
    )
    schedule = method_named(METHODS[run.formulation]).schedule(
        loaded.graph, loaded.ram_bytes, loaded.deadline_s, options
    )
    wall_s, cpu_s, spent_s = wall.spent_s(), cpu.spent_s(), by_clock.spent_s()
    report = verify(loaded.graph, schedule)
    energies = [_energy_at(moment_s, by_clock.received, schedule, spent_s, run.seconds) for moment_s in MOMENTS_S]
    return replace(
        row,
        status=schedule.status.value,
        verified=report.sound,
        first_feasible_s=by_clock.received[0][0] if by_clock.received else spent_s,
        energy_2s_j=energies[0],
        energy_10s_j=energies[1],
        energy_60s_j=energies[2],
        energy_j=schedule.energy_j,
        bound_j=schedule.bound_j,
        wall_s=wall_s,
        cpu_s=cpu_s,
        note="; ".join((*report.faults[:1], *_placement_costs(statistics, schedule))),
    )


def _placement_costs(statistics: Statistics, schedule: Schedule) -> list[str]:
    """By how much the schedule is above the cheapest one found, and what is proven; nothing if it is not above it."""
    cost = placement_report(statistics.unplaced, schedule.energy_j)
    if cost is None:
        return []
    proven = "proven" if cost.proven else "not proven"
    also = f"{cost.tried_proven} of {cost.tried} cheaper ones proven"
    return [f"placement costs {cost.cost:.4%} above {cost.cheapest_j:.7g} J, {proven}, {also}"]


def _energy_at(
    moment_s: float, received: list[tuple[float, float]], schedule: Schedule, spent_s: float, limit_s: float
) -> float | None:
    """Energy of the best schedule ``moment_s`` after the start; None if there was none, or the run was not that long.

    A schedule that the search held but whose offsets did not fit is not counted: no energy is below the final one.
    """
    if spent_s <= moment_s and (schedule.status is Status.OPTIMAL or limit_s >= moment_s):
        return schedule.energy_j
    if limit_s < moment_s:
        return None
    until = [energy_j for at_s, energy_j in received if at_s <= moment_s]
    return max(min(until), schedule.energy_j) if until else None
