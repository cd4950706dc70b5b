# SPDX-License-Identifier: Apache-2.0
"""The options of `poet-plan`, each declared once, in the groups of the help; a verb takes a group as one parameter."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from poet_profiles.errors import UserError
from poet_profiles.program.json_output import alone
from poet_profiles.schedule import Objective

from poet_planner.graph.layout import Gradients, Parameters, Tiles
from poet_planner.graph.optimizer import Method, Optimizer
from poet_planner.planning.calibration import Frozen
from poet_planner.planning.request import Request, refuse_beside_a_graph

EXPERT = "Expert"
DEFAULT_MODEL = "poet_resnet18"
RAMS = ("100%", "90%", "75%", "60%", "50%", "40%", "30%", "20%")
MODEL = "Built-in model (see `poet-plan models`), or module:callable"

network_option = partial(typer.Option, rich_help_panel="Network")
board_option = partial(typer.Option, rich_help_panel="Board")
limit_option = partial(typer.Option, rich_help_panel="Limits")
memory_option = partial(typer.Option, rich_help_panel="Memory")
training_option = partial(typer.Option, rich_help_panel="Training")
optimiser_option = partial(typer.Option, rich_help_panel="Optimiser")
output_option = partial(typer.Option, rich_help_panel="Output")
expert_option = partial(typer.Option, rich_help_panel=EXPERT)

ModelName = Annotated[str, network_option("--model", "-m", help=f"{MODEL}.")]
Batch = Annotated[int | None, network_option(min=1, help="Batch size; default is the model's own.")]
Weights = Annotated[
    Path | None, network_option(help="The model's weights, by name: .safetensors, .pt, .pth (state_dict) or .npz.")
]
FrozenLayers = Annotated[
    Frozen | None, network_option("--frozen", help="On a microcontroller: frozen layers on int8.", show_default="f32")
]
Calibrate = Annotated[
    Path | None,
    expert_option(help="Samples for the ranges of --frozen int8, as of data --arrays; default is the model's own."),
]
StreamAxis = Annotated[
    int | None,
    expert_option(
        "--stream",
        metavar="AXIS",
        min=1,
        help="An inference of a stream, too: of the newest columns along this axis of the input (samples are axis 0).",
    ),
]
BoardName = Annotated[str | None, board_option("--board", "-b", help="Board; default is the profile's.")]
KeptFeatures = Annotated[
    str,
    memory_option(
        "--features",
        metavar="N",
        help="Compute what a frozen part makes of a sample once, and keep it, with room for N samples in RAM, or on "
        "the card; auto: where that takes a tenth of a step; whole: in each step.",
    ),
]
LearningRate = Annotated[float, training_option("--lr", min=0.0, help="Learning rate of the optimizer.")]
Methods = Annotated[
    str, optimiser_option(help="all, or a,b (names of `poet-plan methods`); the optimiser is always among them.")
]
TimeLimit = Annotated[
    float,
    optimiser_option(
        min=0.1, help="Of each method at a point: seconds of processor time; of the optimiser also work, as for a plan."
    ),
]
Json = Annotated[bool, output_option("--json", callback=alone, help="Print JSON, for programs.")]


@dataclass(frozen=True)
class NetworkOptions:
    """What is trained."""

    model: Annotated[str | None, network_option("--model", "-m", help=f"{MODEL}.", show_default=DEFAULT_MODEL)] = None
    graph: Annotated[Path | None, network_option(help="Plan this costed graph (poet-graph/1), not a model.")] = None
    batch: Batch = None
    weights: Weights = None
    frozen: FrozenLayers = None
    calibrate: Calibrate = None

    @property
    def source(self) -> Path | str:
        """The graph's file, or the model's name; raises a `UserError` if both are given."""
        if self.graph is None:
            return self.model or DEFAULT_MODEL
        refuse_beside_a_graph({"--model": self.model})
        return self.graph


@dataclass(frozen=True)
class NetworksOptions:
    """Several things to train: each model in each batch size, or each graph."""

    model: Annotated[
        list[str] | None,
        network_option("--model", "-m", help=f"{MODEL}; again for more.", show_default=DEFAULT_MODEL),
    ] = None
    graph: Annotated[
        list[Path] | None, network_option(help="Plan this costed graph (poet-graph/1), not a model; again for more.")
    ] = None
    batch: Annotated[
        list[int] | None, network_option(min=1, help="Batch size; again for more. Default is the model's own.")
    ] = None
    weights: Weights = None
    frozen: FrozenLayers = None
    calibrate: Calibrate = None


@dataclass(frozen=True)
class BoardOptions:
    """Where it is trained, and what that costs."""

    profile: Annotated[
        list[str] | None,
        board_option(help="CSV file, or a shipped profile's name; repeat to fill in missing rows."),
    ] = None
    board: BoardName = None


@dataclass(frozen=True)
class BoardsOptions:
    """Several boards, each by each profile."""

    profile: Annotated[
        list[str] | None, board_option(help="CSV file, or a shipped profile's name; again for more.")
    ] = None
    board: Annotated[
        list[str] | None, board_option("--board", "-b", help="Board; again for more. Default is the profile's.")
    ] = None


@dataclass(frozen=True)
class LimitOptions:
    """What a step may take."""

    ram: Annotated[
        str | None,
        limit_option(
            help="RAM budget: 256KB (of 1024 bytes), or 50% of the store-all schedule's peak.",
            show_default="the board's",
        ),
    ] = None
    deadline: Annotated[
        str | None, limit_option(help="Time limit of a step: 2.5s, 1.5x the store-all schedule's time, or none.")
    ] = None


@dataclass(frozen=True)
class LimitsOptions:
    """Several limits, each RAM budget with each deadline."""

    ram: Annotated[
        list[str] | None,
        limit_option(help="RAM budget, or smallest; again for more.", show_default=" ".join(RAMS)),
    ] = None
    deadline: Annotated[
        list[str] | None, limit_option(help="Time limit of a step; again for more.", show_default="none")
    ] = None


@dataclass(frozen=True)
class MemoryOptions:
    """Where things lie."""

    parameters: Annotated[
        Parameters,
        memory_option(
            help="In RAM (resident), or the larger ones on the card; auto: on the card where they do not fit in RAM; "
            "excluded: not counted, as in the paper."
        ),
    ] = Parameters.AUTO
    gradients: Annotated[
        Gradients,
        memory_option(
            help="Keep all gradients in RAM for the whole step, page them like activations, or change each parameter "
            "as soon as its gradient is done (early); auto: what costs least."
        ),
    ] = Gradients.AUTO
    micro_batches: Annotated[
        str,
        memory_option(
            metavar="K",
            help="On a microcontroller: equal parts in which a batch goes through the network; gradients add up. auto: "
            "one, unless that does not fit and parts are cheaper.",
        ),
    ] = "auto"
    tiles: Annotated[
        Tiles, expert_option(help="On a microcontroller: what is too large a few rows at a time, where that is needed.")
    ] = Tiles.AUTO
    keep_each: Annotated[
        int,
        expert_option(
            metavar="N",
            min=1,
            help="Where each step is kept on the card: N together, for less energy; a reset loses at most N - 1 more.",
        ),
    ] = 1
    paging: Annotated[bool, expert_option(help="Whether values may be paged to storage.")] = True
    card_above: Annotated[
        str | None,
        expert_option(
            help="Parameters up to this size stay in RAM where others lie on the card.",
            show_default="2KB or 256, the cheaper",
        ),
    ] = None
    stream_above: Annotated[
        str | None,
        expert_option(
            help="Parameters on the card above this size are read tile by tile.",
            show_default="the cheapest of none, 64KB, 16KB and 4KB",
        ),
    ] = None


@dataclass(frozen=True)
class TrainingOptions:
    """What a step ends with."""

    optimizer: Annotated[Method, training_option(help="As in torch.optim; adamw: with decoupled decay.")] = Method.SGD
    momentum: Annotated[float, training_option(help="Momentum of sgd, 0 to 1.")] = 0.0
    weight_decay: Annotated[float, training_option(help="Weight decay of every parameter.")] = 0.0
    nesterov: Annotated[bool, expert_option("--nesterov", help="Nesterov's form of momentum.")] = False
    betas: Annotated[
        str | None, expert_option(metavar="B1,B2", help="Betas of adam and adamw.", show_default="0.9,0.999")
    ] = None
    eps: Annotated[float | None, expert_option(help="Epsilon of adam and adamw.", show_default="1e-8")] = None
    clip_value: Annotated[float | None, expert_option(help="Keep each element of a gradient within ± this.")] = None

    @property
    def chosen(self) -> Optimizer:
        """The optimizer that these options make up; raises a `UserError` if one is out of range, or of another."""
        return Optimizer(
            self.optimizer,
            self.momentum,
            self.nesterov,
            self.weight_decay,
            Optimizer.betas if self.betas is None else _pair(self.betas),
            Optimizer.eps if self.eps is None else self.eps,
            self.clip_value,
        )


@dataclass(frozen=True)
class SearchOptions:
    """What every search takes."""

    seed: Annotated[int, optimiser_option(min=0, help="Equal seeds give equal plans.")] = 0
    solver: Annotated[str, expert_option(help="MILP solver (see `poet-plan solvers`).")] = "highs"


@dataclass(frozen=True)
class OptimiserOptions:
    """Who plans, and for what."""

    method: Annotated[str, optimiser_option(metavar="NAME", help="Method that plans (see `poet-plan methods`).")] = (
        "optimal"
    )
    objective: Annotated[Objective, optimiser_option(help="Minimise energy, or time.")] = Objective.ENERGY
    time_limit: Annotated[
        float | None,
        optimiser_option(
            min=0.1,
            help="Effort: CPU seconds of one typical core.",
            show_default="work that takes one core some 7 s",
        ),
    ] = None


@dataclass(frozen=True)
class OutputOptions:
    """What is written of a plan, and said."""

    out: Annotated[Path, output_option("--out", "-o", help="Folder to write into.")] = Path("plan")
    library: Annotated[
        str | None,
        output_option(
            metavar="NAME", help="Also write a library, OUT/NAME, to train in your own program (PlatformIO, Arduino)."
        ),
    ] = None
    validate: Annotated[
        Path | None,
        expert_option(help="Samples, as of data --arrays: on them layers on int8 are compared with f32's answers."),
    ] = None
    as_json: Json = False
    verbose: Annotated[
        bool,
        expert_option(
            "--verbose",
            help="List the forms of the step, the fits behind the costs, and what each part of the search did.",
        ),
    ] = False


def request_of(
    network: NetworkOptions, board: BoardOptions, limits: LimitOptions, memory: MemoryOptions, training: TrainingOptions
) -> Request:
    """The request that the options of these groups make up; raises as `Request`."""
    return Request(
        network.source,
        batch=network.batch,
        weights=network.weights,
        frozen=network.frozen,
        calibrate=network.calibrate,
        optimizer=training.chosen,
        **asdict(board),
        **asdict(limits),
        **asdict(memory),
    )


def whole_batch(memory: MemoryOptions) -> MemoryOptions:
    """The same for verbs that plan one graph by many methods: a batch is in one part unless another number is given."""
    return replace(memory, micro_batches="1") if memory.micro_batches == "auto" else memory


def _pair(betas: str) -> tuple[float, float]:
    try:
        first, second = map(float, betas.split(","))
    except ValueError:
        raise UserError(f"--betas {betas}: are two numbers with a comma between, as 0.9,0.999") from None
    return first, second
