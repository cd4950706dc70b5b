# SPDX-License-Identifier: Apache-2.0
"""Whether what a refusal says of RAM is true: `python -m benchmarks.planner refusals`.

Each network is planned in eight budgets from a tenth of what its store-all schedule takes to all of it. Where it is
refused, a plan with the RAM that is called possible has to succeed with the same options, and no number may depend on
the budget that was asked for. That none exists in less than what is called impossible is for
`tests/planner/solve/feasibility/test_refusal.py` to show, by brute force on small graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from poet_planner import Model, NoScheduleError, OptimiseOptions, Optimizer, plan
from poet_planner.graph.optimizer import PLAIN
from poet_planner.models import load
from poet_profiles.shipped import shipped_profile

from benchmarks.planner import refused_networks as own

SHARES = (10, 20, 30, 45, 60, 75, 90, 100)  # of the store-all schedule's peak: %
CLOSE = 1.1
NUCLEO = "nucleo-f411re"


@dataclass(frozen=True)
class Network:
    """What is planned, for which board. The Nucleo has the costs of the nRF52840: no RAM depends on them."""

    model: str
    board: str
    optimizer: Optimizer = PLAIN

    @contextmanager
    def profile(self) -> Iterator[str]:
        if self.board != NUCLEO:
            yield self.board
            return
        with TemporaryDirectory() as folder:
            rows = shipped_profile("nrf52840").read_text(encoding="utf-8")
            file = Path(folder, "nucleo.csv")
            file.write_text(rows.replace("\nnrf52840,", f"\n{NUCLEO},"), encoding="utf-8")
            yield str(file)

    def load(self) -> Model:
        make = getattr(own, self.model, None)
        return make() if make else load(self.model)


NETWORKS = (
    Network("speakers", "nrf52840", Optimizer(momentum=0.9, clip_value=0.2)),
    Network("ecg", "mkr1000"),
    Network("residual", "nrf52840"),
    Network("wide", NUCLEO),
    Network("normed", "mkr1000"),
    Network("digits_cnn", "nrf52840"),
    Network("digits_cnn_small", "mkr1000"),
    Network("cnn_40k", "nrf52840"),
    Network("finetune_cnn_small", "mkr1000"),
    Network("mlperf_ds_cnn", NUCLEO),
    Network("mlperf_autoencoder", "nrf52840"),
    Network("mlperf_resnet8", NUCLEO),
)


@dataclass(frozen=True)
class Row:
    """What the refusals of a network said.

    Attributes
    ----------
    refused : int
        Of the eight budgets.
    said : set of (impossible_below_bytes, possible_bytes)
        One, if it is the same for every budget.
    does : bool
        Whether a plan with ``possible_bytes`` succeeds.
    """

    network: Network
    refused: int
    said: frozenset[tuple[int, int | None]]
    does: bool

    @property
    def apart(self) -> float | None:
        """By how much the two numbers differ: relative to the lower; None if nothing was refused."""
        return max((possible / below - 1 if possible else float("inf") for below, possible in self.said), default=None)

    @property
    def holds(self) -> bool:
        """Whether it is all true."""
        return self.does and len(self.said) <= 1


def row_of(network: Network, seconds: float, shares: Iterable[int] = SHARES) -> Row:
    """Plan a network in each budget until one is enough, and in the RAM that its refusals call possible."""
    model, said, refused = network.load(), set(), 0
    for share in shares:
        lack = _refusal(network, model, f"{share}%", seconds)
        if lack is None:
            break
        refused += 1
        said.add((lack.impossible_below_bytes, lack.possible_bytes))
    does = all(possible is not None and _refusal(network, model, possible, seconds) is None for _, possible in said)
    return Row(network, refused, frozenset(said), does)


def _refusal(network: Network, model: Model, ram: str | int, seconds: float) -> NoScheduleError | None:
    options = OptimiseOptions(time_limit_s=seconds)
    try:
        with network.profile() as profile:
            plan(model, profile=profile, optimizer=network.optimizer, ram=ram, features="whole", options=options)
    except NoScheduleError as lack:
        return lack
    return None


def lines(rows: Iterable[Row]) -> Iterator[str]:
    """The table, as Markdown."""
    yield "| network | board | refused, of 8 | impossible below, B | possible, B | apart | a plan in that RAM |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for row in rows:
        below, possible = (", ".join(sorted({str(pair[k]) for pair in row.said})) for k in (0, 1))
        apart = "" if row.apart is None else f"{row.apart:.1%}"
        done = "" if not row.said else "yes" if row.does else "NO"
        cells = (row.network.model, row.network.board, str(row.refused), below, possible, apart, done)
        yield f"| {' | '.join(cells)} |"


def refusals(
    seconds: Annotated[float, typer.Option(help="The time limit of each plan.")] = 1.0,
    only: Annotated[str | None, typer.Option(help="The network of this name alone.")] = None,
) -> None:
    """Plan twelve networks in eight budgets each, and print what their refusals say, and whether it is true."""
    rows = []
    for network in NETWORKS:
        if only in (None, network.model):
            rows.append(row_of(network, seconds))
            typer.echo([*lines(rows)][-1], err=True)
    typer.echo("\n".join(lines(rows)))
    close = sum((row.apart or 0.0) <= CLOSE - 1 for row in rows)
    typer.echo(f"\n{sum(row.holds for row in rows)} of {len(rows)} hold; at {close} the two differ by at most 10 %")
    if not all(row.holds for row in rows):
        raise typer.Exit(1)
