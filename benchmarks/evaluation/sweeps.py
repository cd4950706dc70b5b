# SPDX-License-Identifier: Apache-2.0
"""The sweeps that the paper's figures, tables and claims rest on, as data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from poet_planner.comparison.compare import Setting, Subject
from poet_planner.comparison.registry import METHODS, method_named
from poet_planner.comparison.sweep import settings_of
from poet_planner.solve import OptimiseOptions
from poet_profiles.errors import UserError

from benchmarks.evaluation.subjects import paper_subject, traced_subject

HERE = Path(__file__).parent
BOARDS = ("m0", "m4", "a72", "tx2")
RAMS = ("90%", "75%", "60%", "50%", "40%", "30%", "20%", "smallest")
# All but those of parts of a batch: the paper's graphs are of whole ones.
EVERY = tuple(method.name for method in METHODS if not method.in_parts)
ALL = ",".join(EVERY)
# All methods but the MILPs.
QUICK = ",".join(name for name in EVERY if name not in ("checkmate", "checkmate_lp", "poet_ilp"))
# Table 3: the RAM of POET in that of POFO.
TABLE_3_RATIO = 285_873 / 311_808


@dataclass(frozen=True)
class Sweep:
    """Models x boards x RAM budgets x deadlines x methods.

    Attributes
    ----------
    name : str
        Of the command; the table is ``name.csv`` with underscores.
    methods : str
        As ``poet-plan sweep --methods``; the optimiser always plans, too.
    rams, deadlines : tuple of str
        As `settings_of` takes them.
    time_limit_s : float
        For each method at a point.
    subject : callable
        The subject of a model and a board.
    more_rams : callable
        Bytes that depend on the subject, beside ``rams``.
    """

    name: str
    models: tuple[str, ...]
    boards: tuple[str, ...]
    methods: str
    rams: tuple[str, ...] = RAMS
    deadlines: tuple[str, ...] = ("none",)
    time_limit_s: float = 10.0
    subject: Callable[[str, str], Subject] = paper_subject
    more_rams: Callable[[Subject, Sequence[str]], list[int]] = lambda _subject, _rams: []

    @property
    def path(self) -> Path:
        """Of the table."""
        return HERE / f"{self.name.replace('-', '_')}.csv"

    def settings(self) -> list[Setting]:
        """Every problem of it."""
        settings: list[Setting] = []
        for model in self.models:
            for board in self.boards:
                subject = self.subject(model, board)
                rams = [*self.rams, *(str(ram) for ram in self.more_rams(subject, self.rams))]
                settings += settings_of(subject, rams, self.deadlines)
        return settings


def below_pofo(subject: Subject, rams: Sequence[str]) -> list[int]:
    """The printed ratio of what POFO's plan for each of the budgets really takes."""
    pofo, budgets = method_named("pofo_time"), []
    for setting in settings_of(subject, rams, ["none"]):
        try:
            plan = pofo.schedule(subject.graph, setting.ram_bytes, None, OptimiseOptions())
        except UserError:
            continue  # in so little RAM it has none
        budgets.append(int(plan.peak_bytes * TABLE_3_RATIO))
    return budgets


SWEEPS = (
    Sweep("figure-3", ("resnet18_cifar", "vgg16_cifar", "bert"), BOARDS, f"{ALL},optimal_alone"),
    Sweep(
        "figure-4",
        ("vgg16_cifar",),
        ("m4", "a72", "a72-dma", "tx2-dma", "m4-computes", "a72-computes"),
        "rematerialization_only,paging_only",
        rams=("50%", "smallest"),
        deadlines=("1x", "1.002x", "1.01x", "1.05x", "1.2x", "1.4x", "1.8x"),
    ),
    Sweep(
        "figure-5",
        ("resnet18_cifar",),
        ("a72",),
        "capuchin,capuchin_energy,capuchin_page_first,msps,msps_no_release,dtr,dtr_no_release",
        rams=(
            *("90%", "75%", "60%", "50%", "40%", "30%", "25%", "22.5%", "20%", "18%", "17%", "16%", "15%", "14.5%"),
            *("13.5%", "smallest"),
        ),
    ),
    Sweep(
        "below-dtr",
        ("resnet18_cifar",),
        ("m4", "a72", "tx2", "tx2-4gflops", "tx2-1.6gflops"),
        "dtr",
        rams=("20%", "16.25%", "15%", "14.5%"),
    ),
    Sweep("table-3", ("resnet18_cifar",), ("tx2", "tx2-dma"), "pofo_time", more_rams=below_pofo),
    Sweep("nrf52840", ("resnet18_cifar", "mlperf_resnet8"), ("nrf52840",), ALL, subject=traced_subject),
    Sweep("m4-traced", ("resnet18_cifar", "mlperf_resnet8"), ("m4",), ALL, subject=traced_subject),
    # For notebooks/03_energy_pareto.ipynb; what needs minutes for each point is left out.
    Sweep("energy-pareto", ("resnet18_cifar",), ("m4",), QUICK, deadlines=("1.002x", "1.01x", "2x")),
)
