# SPDX-License-Identifier: Apache-2.0
"""The exact methods at the paper's limit of ten minutes: `python -m benchmarks.evaluation exact` makes `exact.csv`.

Checkmate, its LP rounding and Algorithm 1 on the networks of Figure 3, on the m4. A row has what the solver proved of
its own model, too: of Algorithm 1's, or of the LP in nine tenths of the RAM; neither bounds all schedules. It names its
computer, since a limit in seconds is worth what that does in them.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from poet_planner.comparison.code_version import code_version
from poet_planner.comparison.methods import checkmate, poet_ilp
from poet_planner.comparison.methods.stages import Answer
from poet_planner.comparison.pictures.method_styles import style_of
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions
from poet_planner.solve.options import NoScheduleError, Refused
from poet_profiles.errors import UserError
from poet_profiles.schedule import Schedule

from benchmarks.evaluation.markdown import percent, table
from benchmarks.evaluation.records import read_rows, write_rows
from benchmarks.evaluation.results import HERE, NONE_EXISTS, NOT_RUN, TIME
from benchmarks.evaluation.subjects import paper_subject

PATH = HERE / "exact.csv"
NETWORKS = ("resnet18_cifar", "vgg16_cifar", "bert")
BOARD = "m4"
SHARES = (0.75, 0.5, 0.2)
METHODS: dict[str, Callable[..., Schedule]] = {
    "checkmate": checkmate.schedule,
    "checkmate_lp": checkmate.schedule_rounded,
    "poet_ilp": poet_ilp.schedule,
}
WORDS = {
    Refused.IMPOSSIBLE: NONE_EXISTS,
    Refused.NOT_FOUND: TIME,
    Refused.NO_OFFSETS: TIME,
    Refused.NOT_RUN: NOT_RUN,
}
LIMIT_S = 600.0
SOLVER = "highs"


@dataclass(frozen=True)
class Row:
    """What a method made of a network in a share of its store-all schedule's RAM.

    ``overhead`` is of the schedule, ``bound`` of what the solver proved, both above the store-all schedule's energy;
    ``gap`` is the share of the energy that lies between them. ``seconds`` has stating and offsets, too.
    """

    model: str
    board: str
    ram_share: float
    ram_budget_bytes: int
    method: str
    solver: str
    solver_version: str
    time_limit_s: float
    seconds: float
    status: str
    overhead: float | None
    bound: float | None
    gap: float | None
    code_version: str
    machine: str
    note: str

    @property
    def place(self) -> tuple[str, float, str]:
        return self.model, self.ram_share, self.method


def places() -> list[tuple[str, float, str]]:
    """Of every row, in order."""
    return [(model, share, method) for model in NETWORKS for share in SHARES for method in METHODS]


def exact_row(model: str, share: float, method: str, limit_s: float) -> Row:
    """Plan one."""
    subject = paper_subject(model, BOARD)
    plain = subject.store_all
    ram = int(share * plain.peak_bytes)
    answers: list[Answer] = []
    schedule, status, note = None, "feasible", ""
    began_s = time.perf_counter()
    try:
        schedule = METHODS[method](
            subject.graph, ram, None, OptimiseOptions(time_limit_s=limit_s, solver=SOLVER), told=answers.append
        )
    except NoScheduleError as lack:
        status, note = WORDS[lack.status], str(lack)
    seconds = time.perf_counter() - began_s
    if schedule is not None and (faults := verify(subject.graph, schedule).faults):
        raise UserError(f"{model}, {method}: the verifier refuses the schedule: {faults[0]}")
    # A method that asks no solver has the store-all schedule.
    first = answers[0] if answers else None
    bound = None if first is None or first.bound == float("-inf") else _of_plain(method, first.bound, plain)
    overhead = None if schedule is None else schedule.energy_j / plain.energy_j - 1
    gap = None if bound is None or overhead is None else (overhead - bound) / (1 + overhead)
    return Row(
        *(model, BOARD, share, ram, method, SOLVER, version("highspy"), limit_s, round(seconds, 1), status),
        *(overhead, bound, gap, code_version(), machine(), note),
    )


def machine() -> str:
    """What the computer calls its processor."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        if names:
            return f"{names[0]}, {len(names)} cores"
    return platform.processor() or platform.machine()


def _of_plain(method: str, bound: float, plain: Schedule) -> float:
    """Above the store-all schedule; Checkmate's is in seconds, which are proportional to energies on these graphs."""
    return bound / (plain.energy_j if method == "poet_ilp" else plain.time_s) - 1


def run_exact(limit_s: float = LIMIT_S, path: Path = PATH, plan: Callable[..., Row] = exact_row) -> None:
    """Make the rows that the table lacks: of another limit, or by other code, they are made anew."""
    asked = limit_s, code_version(), version("highspy")
    known = {row.place: row for row in read_rows(path, Row)}
    for number, place in enumerate(places(), 1):
        row = known.get(place)
        if row is None or (row.time_limit_s, row.code_version, row.solver_version) != asked:
            known[place] = plan(*place, limit_s)
            write_rows([known[one] for one in places() if one in known], Row, path)
            print(f"{number} of {len(places())}: {known[place].status}, {known[place].seconds:g} s", flush=True)


def facts(rows: Sequence[Row]) -> dict[str, str]:
    """What the page says of it: what has no row was not run."""
    of = {row.place: row for row in rows}
    header = ["network", "RAM, %", *(style_of(method).label for method in METHODS)]
    lines = [
        [model, percent(share), *(_cell(of.get((model, share, method))) for method in METHODS)]
        for model in NETWORKS
        for share in SHARES
    ]
    return {
        "table": table(header, lines),
        "run": str(len(of)),
        "wanted": str(len(places())),
        "limit": _each(f"{row.time_limit_s:g} s" for row in rows),
        "solver": _each(f"{row.solver} {row.solver_version}" for row in rows),
        "machine": _each(row.machine for row in rows),
    }


def _each(words: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(words)) or NOT_RUN


def _cell(row: Row | None) -> str:
    """What was added, what is proven, and in how long."""
    if row is None:
        return NOT_RUN
    added = row.status if row.overhead is None else _digits(row.overhead)
    proven = "" if row.bound is None else f" \u2265 {_digits(row.bound)}"
    return f"{added}{proven} ({row.seconds:.0f} s)"


def _digits(share: float) -> str:
    """In per cent; a digit more than `percent` has, since bounds lie close."""
    return f"{100 * share:.4g}"
