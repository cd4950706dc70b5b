# SPDX-License-Identifier: Apache-2.0
"""What is asked for: a network, what it costs, the board, the limits, and where things may lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from poet_profiles.boards import Board, load_board
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.file import read_graph
from poet_profiles.shipped import profile_names, shipped_profile

from poet_planner.graph.layout import Gradients, Parameters
from poet_planner.graph.optimizer import PLAIN, Optimizer
from poet_planner.planning.calibration import Calibration, Frozen
from poet_planner.planning.training_graph import TrainingStep, training_step
from poet_planner.report.quantities import size_bytes

if TYPE_CHECKING:
    import pandas as pd

    from poet_planner.costs.cost_model import CostModel
    from poet_planner.features.cut import Cut
    from poet_planner.graph.layout import MemoryLayout
    from poet_planner.models import Model
    from poet_planner.planning.costed_step import CostedStep

Profiles = str | Path | Sequence[str | Path]
Choice = TypeVar("Choice", bound=StrEnum)


AUTO_PARTS = "auto"
WHOLE = "whole"  # of --features: one step does all


@dataclass(frozen=True)
class Request:
    """What is asked for, as it was given, and what its names stand for: each looked up once.

    Attributes are the parameters of `poet_planner.plan`. The board may also be one that is described already. Without
    a profile nothing has a cost: see `refuse_without_costs`.

    Raises
    ------
    UserError
        If something asked for does not go together, or is not understood.
    """

    network: Model | Graph | str | Path
    profile: Profiles | None = None
    board: str | Board | None = None
    batch: int | None = None
    ram: int | str | None = None
    deadline: float | str | None = None
    parameters: str = Parameters.AUTO
    gradients: str = Gradients.AUTO
    micro_batches: int | str = AUTO_PARTS
    card_above: int | str | None = None
    stream_above: int | str | None = None
    optimizer: Optimizer = PLAIN
    weights: str | Path | None = None
    frozen: str | None = None
    calibrate: str | Path | None = None
    paging: bool = True
    early_updates: bool = True  # whether auto may choose them: nothing is paged in such a step
    features: int | str = WHOLE
    cut: Cut | None = None  # where the step has been divided, and its head is what is asked for: see `on_features`

    def __post_init__(self) -> None:
        if isinstance(self.network, Graph | Path):
            own = None if self.optimizer.is_plain else self.optimizer.words
            others = {"--profile": self.profile, "--batch": self.batch, own or "--momentum": own}
            of_weights = {"--weights": self.weights, "--frozen": self.frozen, "--calibrate": self.calibrate}
            refuse_beside_a_graph({**others, **of_weights})
        calibration(self.frozen, self.calibrate)
        named(Parameters, self.parameters, "--parameters")
        named(Gradients, self.gradients, "--gradients")
        if self.features not in (AUTO_PARTS, WHOLE) and not str(self.features).isdecimal():
            raise UserError(f"--features {self.features}: give auto, whole, or how many samples have room in RAM")
        if self.parameters in (Parameters.EXCLUDED, Parameters.CARD) and self.gradients != Gradients.AUTO:
            excluded = self.parameters == Parameters.EXCLUDED
            why = "they are not in RAM" if excluded else "most are part of an update"
            raise UserError(f"--gradients {self.gradients}: with --parameters {self.parameters} {why}; leave it out")
        self._refuse_parts()
        if self.card_above is not None:
            size_bytes(self.card_above, "--card-above", "2KB")
        if self.stream_above is not None:
            size_bytes(self.stream_above, "--stream-above", "64KB")

    def _refuse_parts(self) -> None:
        """Refuse micro-batches that are no number, or cannot be beside what else is asked for."""
        option = f"--micro-batches {self.micro_batches}"
        if self.micro_batches != AUTO_PARTS and not str(self.micro_batches).isdecimal():
            raise UserError(f"{option}: give a whole number, at least 1, or {AUTO_PARTS}")
        if self.parts == 0:
            raise UserError(f"{option}: a batch is at least one part; give 1 or more")
        if (self.parts or 1) == 1:
            return
        if isinstance(self.network, Graph | Path):
            raise UserError(f"{option}: --graph already says in how many parts a batch goes through it; leave it out")
        if self.parameters == Parameters.CARD:
            raise UserError(
                f"{option}: with parameters on the card gradients are part of an update; leave it out, or give "
                "--parameters resident"
            )
        if self.parameters == Parameters.EXCLUDED:
            raise UserError(f"{option}: with --parameters excluded sums of gradients are not in RAM; leave one out")
        if self.gradients not in (Gradients.AUTO, Gradients.RESIDENT):
            raise UserError(
                f"{option}: gradients are sums that outlive a part, so --gradients {self.gradients} frees nothing; "
                "leave one of both out"
            )

    @property
    def kept_samples(self) -> int | None:
        """For how many samples' features there is to be room in RAM; None: for as many as there happens to be."""
        return int(self.features) if str(self.features).isdecimal() else None

    @property
    def parts(self) -> int | None:
        """In how many micro-batches a batch is to go through the network; None: in as many as are best."""
        return None if self.micro_batches == AUTO_PARTS else int(self.micro_batches)

    def refuse_without_costs(self) -> None:
        """Refuse a model without a profile."""
        if self.training_step is not None and not self.profile:
            names = ", ".join(profile_names())
            raise UserError(f"nothing to plan: give --profile (a CSV file, or one of {names}) or --graph; see --help")

    @cached_property
    def costed_graph(self) -> Graph | None:
        """The graph that is given with its costs, if one is."""
        if isinstance(self.network, Path):
            return read_graph(self.network)
        return self.network if isinstance(self.network, Graph) else None

    @cached_property
    def training_step(self) -> TrainingStep | None:
        """The model's, traced when that is first wanted; None: a graph is given. Raises as `TrainingStep`."""
        if isinstance(self.network, Graph | Path):
            return None
        weights = None if self.weights is None else Path(self.weights)
        make = training_step if isinstance(self.network, str) else TrainingStep
        step = make(self.network, self.batch, weights, calibration=calibration(self.frozen, self.calibrate))
        return step if self.cut is None else step.on_features(self.cut)

    def on_features(self, cut: Cut) -> Request:
        """The same of the head's step, on what a cut keeps of each sample; what has been looked up is known."""
        assert self.training_step is not None
        head = replace(self, cut=cut)
        known = {name: getattr(self, name) for name in ("target_board", "cost_model")}
        head.__dict__.update(known, training_step=self.training_step.on_features(cut))
        return head

    @cached_property
    def steps(self) -> dict[MemoryLayout, CostedStep]:
        """Those of `costed_step`, by layout: each is made once."""
        return {}

    @cached_property
    def target_board(self) -> Board | None:
        """The board that is named, or else the profile's; None: a graph that names none."""
        if isinstance(self.board, Board):
            return self.board
        if self.board or not self._profiles:
            return load_board(self.board) if self.board else None
        return load_board(_only_board(*next(iter(self._profiles.items()))))

    @cached_property
    def cost_model(self) -> CostModel | None:
        """What the board's operators cost; its fits are made once. None: nothing has a cost."""
        from poet_planner.costs.cost_model import CostModel

        board = self.target_board
        if board is None or not self._profiles:
            return None
        runner_s = board.runner_cycles / board.clock_hz if board.kind == "microcontroller" else 0.0
        card = board.storage_block_bytes, board.dma_overlap, board.smallest_page_bytes
        return CostModel(self._rows, *card, board.fpu, runner_s)

    @cached_property
    def _rows(self) -> pd.DataFrame:
        """The board's, of all profiles: of a row that several have the first one's is taken."""
        import pandas as pd

        assert self.target_board is not None
        name = self.target_board.name
        own = {path: table[table["board"] == name] for path, table in self._profiles.items()}
        for path, table in own.items():
            if table.empty:
                raise UserError(f"{path}: no row of board {name}; profile it first or name another --board")
        return pd.concat(own.values(), ignore_index=True)

    @cached_property
    def _profiles(self) -> dict[Path, pd.DataFrame]:
        from poet_profiles.profile import read_profile

        profiles = self.profile or ()
        paths = [profile_path(str(one)) for one in ([profiles] if isinstance(profiles, str | Path) else profiles)]
        return {path: read_profile(path) for path in paths}


def calibration(frozen: str | None, samples: str | Path | None) -> Calibration | None:
    """What ``--frozen`` and ``--calibrate`` ask for; raises a `UserError` if they do not go together."""
    if frozen is None:
        if samples is not None:
            raise UserError(f"--calibrate {samples}: its samples are for --frozen int8; give that, too")
        return None
    named(Frozen, frozen, "--frozen")
    return Calibration(None if samples is None else Path(samples))


def refuse_beside_a_graph(others: Mapping[str, object]) -> None:
    """Raise a `UserError` if an option was given, not None, that says what a costed graph already says."""
    for option, given in others.items():
        if given is not None:
            raise UserError(f"--graph already holds the training step and its costs: leave {option} out")


def named(choices: type[Choice], name: str, option: str) -> Choice:
    """The choice of that name; raises a `UserError` if there is none."""
    try:
        return choices(name)
    except ValueError:
        raise UserError(f"{option} {name}: there are {', '.join(choices)}") from None


def profile_path(name: str) -> Path:
    """The profile at a path, or the shipped one of that name (``m4``, also written ``profiles/m4.csv``)."""
    path = Path(name)
    if path.is_file():
        return path
    if path.stem in profile_names() and name in (path.stem, path.name, f"profiles/{path.stem}.csv"):
        return shipped_profile(path.stem)
    raise UserError(f"no profile {name}: neither a file nor one of the shipped {', '.join(profile_names())}")


def _only_board(path: Path, rows: pd.DataFrame) -> str:
    boards = sorted(set(rows["board"]))
    if len(boards) != 1:
        found = ", ".join(boards) or "no board at all"
        raise UserError(f"{path}: holds {found}; name one with --board")
    return str(boards[0])
