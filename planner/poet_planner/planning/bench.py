# SPDX-License-Identifier: Apache-2.0
"""A bench: what a request's names stand for, and the step in each layout, each made once."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poet_profiles.boards import Board, load_board
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.constants import CONSTANTS_FILE, read_constants
from poet_profiles.graph.file import graph_hash, read_graph
from poet_profiles.graph.kept import kept_constants
from poet_profiles.graph.state_names import read_names
from poet_profiles.shipped import profile_names, shipped_profile

from poet_planner.graph.layout import MemoryLayout, Tiles
from poet_planner.planning.costed_step import CostedStep, without_paging, without_parameters
from poet_planner.planning.request import Request, calibration
from poet_planner.planning.training_graph import TrainingStep, training_step

if TYPE_CHECKING:
    from poet_planner.costs.cost_model import CostModel
    from poet_planner.features.cut import Cut


class Bench:
    """Where the forms of one step are made.

    ``whole`` is that of the whole step, where this is of the head's; ``cut`` is where the head begins: on what is kept
    of each sample.
    """

    def __init__(self, request: Request, whole: Bench | None = None, cut: Cut | None = None) -> None:
        self.request = request
        self.cut = cut
        self._whole = whole
        self._lowered: dict[MemoryLayout, Graph] = {}
        self._steps: dict[MemoryLayout, CostedStep] = {}

    def head(self, cut: Cut) -> Bench:
        """The bench of the head's step, on what a cut keeps of each sample."""
        return Bench(self.request, self, cut)

    def with_batch(self, samples: int, ram: int | str | None) -> Bench:
        """The bench of the same step on fewer samples, with the same costs, for the RAM budget ``ram``."""
        if self._whole is not None:
            assert self.cut is not None
            return self._whole.with_batch(samples, ram).head(self.cut)
        request, network = replace(self.request, ram=ram), self.request.network
        if isinstance(network, str):
            request = replace(request, batch=samples)
        elif not isinstance(network, Graph | Path):
            from poet_planner.tracing.micro_batches import first_samples

            request = replace(request, network=first_samples(network, samples))
        smaller = Bench(request)
        smaller.board, smaller.costs = self.board, self.costs
        return smaller

    def asked(self, request: Request) -> Bench:
        """The bench of the same step on the same board, of which something else is asked for."""
        other = Bench(request)
        other.board, other.costs, other.training_step = self.board, self.costs, self.training_step
        return other

    def step(self, layout: MemoryLayout) -> CostedStep:
        """The step that is asked for, in a layout.

        Raises
        ------
        UserError
            If something that is asked for is not to be had, the model cannot be traced, or the profile lacks the rows
            that are needed.
        """
        if layout not in self._steps:
            self._steps[layout] = self._made(layout)
        return self._steps[layout]

    def lowered(self, layout: MemoryLayout) -> Graph:
        """The model's step in a layout, before it is costed; raises as `TrainingStep.graph`."""
        assert self.board is not None
        if layout not in self._lowered:
            self._lowered[layout] = self._part(layout).graph(self.board, self.request.optimizer, layout)
        return self._lowered[layout]

    @cached_property
    def given(self) -> Graph | None:
        """The graph that is given with its costs, if one is."""
        network = self.request.network
        if isinstance(network, Path):
            return read_graph(network)
        return network if isinstance(network, Graph) else None

    @cached_property
    def training_step(self) -> TrainingStep | None:
        """The model's step, which traces when that is first wanted; None: a graph is given."""
        if self._whole is not None:
            assert self.cut is not None and self._whole.training_step is not None
            return self._whole.training_step.on_features(self.cut)
        request = self.request
        if isinstance(request.network, Graph | Path):
            return None
        weights = None if request.weights is None else Path(request.weights)
        make = training_step if isinstance(request.network, str) else TrainingStep
        ranges = calibration(request.frozen, request.calibrate)
        return make(request.network, request.batch, weights, calibration=ranges, stream=request.stream)

    @cached_property
    def board(self) -> Board | None:
        """The board that is named, or else the profile's; None: a graph that names none."""
        if self._whole is not None:
            return self._whole.board
        named = self.request.board
        if isinstance(named, Board):
            return named
        if named or not self._profiles:
            return load_board(named) if named else None
        return load_board(_only_board(*next(iter(self._profiles.items()))))

    @cached_property
    def costs(self) -> CostModel | None:
        """What the board's operators cost; its fits are made once. None: nothing has a cost."""
        from poet_planner.costs.cost_model import CostModel

        if self._whole is not None:
            return self._whole.costs
        board = self.board
        if board is None or not self._profiles:
            return None
        runner_s = board.runner_cycles / board.clock_hz if board.kind == "microcontroller" else 0.0
        card = board.storage_block_bytes, board.dma_overlap, board.smallest_page_bytes
        return CostModel(self._rows(board.name), *card, board.has_assembly, runner_s)

    @property
    def is_for_a_microcontroller(self) -> bool:
        """Whether a model is planned for one."""
        return self.request.is_model and self.board is not None and self.board.kind == "microcontroller"

    def _made(self, layout: MemoryLayout) -> CostedStep:
        step = self._of_graph(layout) if self.training_step is None else self._of_model(layout)
        if not self.request.paging:
            step = replace(step, graph=without_paging(step.graph))
        if layout.counts_parameters:
            return step
        graph = without_parameters(step.graph)
        excluded_bytes = step.graph.resident_bytes - graph.resident_bytes
        return replace(step, graph=graph, constants={}, excluded_bytes=excluded_bytes)

    def _of_graph(self, layout: MemoryLayout) -> CostedStep:
        """The data of its constants, and the names, lie beside its file, if at all."""
        graph, network = self.given, self.request.network
        assert graph is not None
        step = CostedStep(graph, layout, self.board)
        if not isinstance(network, Path):
            return step
        folder = network.parent
        wanted = (graph.constants or kept_constants(graph)) and (folder / CONSTANTS_FILE).is_file()
        constants = read_constants(folder / CONSTANTS_FILE, graph) if wanted else {}
        return replace(step, constants=constants, names=read_names(folder, graph_hash(graph)))

    def _of_model(self, layout: MemoryLayout) -> CostedStep:
        board, costs, step = self.board, self.costs, self._part(layout)
        assert board is not None
        graph = self.lowered(layout)
        costed = None if costs is None else costs.apply(graph)
        if costed is not None:
            if board.storage == "none" or layout.early_updates:
                costed = replace(costed, graph=without_paging(costed.graph))
            graph = costed.graph
        program = step.program(graph) if board.kind == "linux" else None
        made = CostedStep(graph, layout, board, costed, step.constants(graph), program, step.names())
        return replace(made, training_step=step, costs=costs, in_tiles=self.request.tiles != Tiles.OFF)

    def _part(self, layout: MemoryLayout) -> TrainingStep:
        """The step on one part of the batch, of as many as the layout has."""
        step, count = self.training_step, layout.micro_batches
        assert step is not None and self.board is not None
        if self.board.kind == "linux" and count > 1:
            raise UserError(
                f"--micro-batches {count}: a Linux board adds up what you call it for: plan with "
                f"--batch {step.samples // count}, and call the step {count} times"
            )
        return step.in_micro_batches(count).in_segments(layout.segments)

    def _rows(self, board: str) -> list[dict[str, Any]]:
        """The board's, of all profiles: of a row that several have the first one's is taken."""
        own = {path: [row for row in rows if row["board"] == board] for path, rows in self._profiles.items()}
        for path, rows in own.items():
            if not rows:
                raise UserError(f"{path}: no row of board {board}; profile it first or name another --board")
        return [*itertools.chain(*own.values())]

    @cached_property
    def _profiles(self) -> dict[Path, list[dict[str, Any]]]:
        from poet_profiles.profile import profile_rows

        profiles = self.request.profile or ()
        paths = [profile_path(str(one)) for one in ([profiles] if isinstance(profiles, str | Path) else profiles)]
        return {path: profile_rows(path) for path in paths}


def profile_path(name: str) -> Path:
    """The profile at a path, or the shipped one of that name.

    That of ``m4`` is also written ``profiles/m4.csv``.
    """
    path = Path(name)
    if path.is_file():
        return path
    if path.stem in profile_names() and name in (path.stem, path.name, f"profiles/{path.stem}.csv"):
        return shipped_profile(path.stem)
    raise UserError(f"no profile {name}: neither a file nor one of the shipped {', '.join(profile_names())}")


def _only_board(path: Path, rows: list[dict[str, Any]]) -> str:
    boards = sorted({row["board"] for row in rows})
    if len(boards) != 1:
        found = ", ".join(boards) or "no board at all"
        raise UserError(f"{path}: holds {found}; name one with --board")
    return str(boards[0])
