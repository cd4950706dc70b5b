# SPDX-License-Identifier: Apache-2.0
"""Which rows there are. The rows of a part are measured side by side in a process of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from poet_planner.torch_step.profile_here import HOST
from poet_profiles.errors import UserError
from poet_runtime.devices import Cpu

from benchmarks.executor.measuring import peak_bytes
from benchmarks.executor.networks import network
from benchmarks.executor.variants import (
    POET,
    Variant,
    budgeted,
    by_hand,
    checkpointed,
    eager,
    greedy,
    offloaded,
    planned,
    saved_on_host,
    trained,
    updating,
)

AT_CHECKPOINTS_PEAK = "plan at checkpoint's peak"
# Each wants a process: torch.compile recompiles earlier functions under the last budget that was set.
BUDGETS = tuple(tenths / 10 for tenths in range(9, 0, -1))
SOLVERS = ("dp", "dynamic_memory_budget_dp", POET)


@dataclass(frozen=True)
class TableSpec:
    """Rows of a table, of which the first is eager PyTorch.

    Attributes
    ----------
    network, batch : str, int
        What takes the steps; the table is named after both.
    shares : tuple of int
        Per cent of plain training's peak: of plans, and of the greedy choice.
    paged : tuple of int
        Shares of plans that page; with them goes offloading of every saved tensor.
    checkpoint : bool
        Whether there is checkpointing of every block, and a plan at its peak.
    by_hand : tuple of int
        In how many slices a batch is accumulated by hand.
    sliced : tuple of int
        Shares of plans in as many slices as poet takes.
    budget, solver : float, str
        An `activation_memory_budget` and what solves it, which is then the only other row.
    optimizer : bool
        Whether all rows take the optimiser's step, poet's inside.
    """

    network: str
    batch: int
    shares: tuple[int, ...] = ()
    paged: tuple[int, ...] = ()
    checkpoint: bool = False
    by_hand: tuple[int, ...] = ()
    sliced: tuple[int, ...] = ()
    budget: float | None = None
    solver: str = "dp"
    optimizer: bool = False

    @property
    def table(self) -> str:
        return f"{self.network}, batch {self.batch}{', with the optimiser' if self.optimizer else ''}"

    @property
    def name(self) -> str:
        """Of its file."""
        budget = "" if self.budget is None else f"-budget-{self.budget:g}-{self.solver}"
        return f"{self.network}-{self.batch}{'-optimizer' if self.optimizer else ''}{budget}"

    def variants(self, seconds: float, folder: Path, absent: list[str], device: Cpu) -> Iterator[Variant]:
        """The rows' ways to take a step, planned for so many seconds each.

        Pages go to the folder; from a GPU, to its host's memory. Rows that there cannot be go to ``absent``, with why.
        """
        pages: Path | str = folder if device.kind == "cpu" else HOST

        def tried(name: str, make: Callable[[], Variant]) -> Iterator[Variant]:
            try:
                yield make()
            except UserError as error:
                absent.append(f"{name}: {error}")

        module, batch = network(self.network, self.batch, device.name)
        if self.optimizer:
            yield trained(module, batch)
            for ram in (None, *(f"{share}%" for share in self.shares)):
                yield from tried(f"plan {ram}", partial(updating, module, batch, ram, seconds))
            return
        yield eager(module, batch)
        if self.budget is not None:
            yield budgeted(module, batch, self.budget, self.solver, seconds)
            return
        yield planned(module, batch, None, None, seconds)
        for share in self.shares:
            yield from tried(f"plan {share}%", partial(planned, module, batch, f"{share}%", None, seconds))
        for count in self.by_hand:
            yield by_hand(module, batch, count)
        for share in self.sliced:
            name = f"plan {share}%"
            yield from tried(name, partial(planned, module, batch, f"{share}%", None, seconds, slices="auto"))
        for share in self.paged:
            yield from tried(f"plan {share}%, pages", partial(planned, module, batch, f"{share}%", pages, seconds))
        for share in self.shares:
            yield from tried(f"greedy {share}%", partial(greedy, module, batch, share))
        if self.checkpoint:
            theirs = checkpointed(module, batch)
            peak = peak_bytes(theirs, device)
            yield theirs
            yield from tried(
                AT_CHECKPOINTS_PEAK, partial(planned, module, batch, peak, None, seconds, AT_CHECKPOINTS_PEAK)
            )
        if self.paged:
            yield offloaded(module, batch, folder) if device.kind == "cpu" else saved_on_host(module, batch)


PARTS = (
    TableSpec("resnet18", 8),
    TableSpec("resnet18", 64, shares=(70, 50), paged=(50,), checkpoint=True),
    TableSpec("vgg16", 8, optimizer=True, shares=(40, 28)),
    TableSpec("vgg16", 32, checkpoint=True, by_hand=(2, 4, 8), sliced=(70,)),
    TableSpec("mobilenet_v2", 8, shares=(70, 50, 35), paged=(35,), checkpoint=True),
    TableSpec("bert4", 8, shares=(70, 50, 35), paged=(35,), checkpoint=True, by_hand=(2, 4, 8), sliced=(45, 33)),
    *(
        TableSpec(*of, budget=budget, solver=solver)
        for of in (("resnet18", 64), ("mobilenet_v2", 8), ("bert4", 8))
        for solver in SOLVERS
        for budget in BUDGETS
    ),
)
GPU_PARTS = (
    TableSpec("resnet18", 512, shares=(70, 50), paged=(50,), checkpoint=True),
    TableSpec("vgg16", 512, checkpoint=True),
    TableSpec("mobilenet_v2", 256, shares=(70, 50), paged=(50,), checkpoint=True),
    TableSpec("bert4", 128, shares=(70, 50), paged=(50,), checkpoint=True),
)
QUICK = (
    TableSpec("vgg16", 8, optimizer=True, shares=(40,)),
    TableSpec("mobilenet_v2", 8, shares=(50,), checkpoint=True),
)
