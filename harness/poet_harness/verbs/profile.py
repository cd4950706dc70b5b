# SPDX-License-Identifier: Apache-2.0
"""``poet-harness profile``: measure operators and page transfers on a board, into a profile CSV."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .flash import flashed_image
from .option_groups import Connection
from .options import Json, connection_option, measured_option, results_option

if TYPE_CHECKING:
    from poet_profiles.boards import Board
    from poet_profiles.profile import ProfileWriter
    from rich.console import Console

    from ..data.batches import TrainingData
    from ..plan_folder.plan import Plan
    from ..profiling.configurations import Configuration
    from ..profiling.network import Network
    from ..profiling.outcome import Outcome
    from ..profiling.profiler import Profiler
    from ..training.trainer import Trainer

NAME = "profile"
MOST_NAMED = 5
MOST_DRIFT = 0.02
MOST_OPEN = 0.1


@dataclass(frozen=True)
class Wanted:
    """What is measured, and how well."""

    graph: Annotated[
        list[Path] | None, measured_option(help="Benchmark what this poet-graph/1 needs; may be given several times.")
    ] = None
    model: Annotated[
        list[str] | None, measured_option("--model", "-m", help="The same for a model that poet-plan knows.")
    ] = None
    plan: Annotated[
        Path | None,
        measured_option(
            help="Folder of a plan, whose operators are timed in place: on a microcontroller, where it is flashed, in "
            "training steps on --data; on a Linux board, in steps on random data.",
            exists=True,
            file_okay=False,
        ),
    ] = None
    data: Annotated[Path | None, measured_option(help="For --plan: .npz with parameters and batches.")] = None
    steps: Annotated[int, measured_option(min=1, help="For --plan: training steps, one batch each.")] = 10
    learning_rate: Annotated[float, measured_option("--lr", min=0.0, help="For --plan: learning rate.")] = 0.01
    configs: Annotated[Path | None, measured_option(help="CSV with columns op and params, or a graph .json.")] = None
    quick: Annotated[bool, measured_option("--quick", help="One window each, no confidence interval.")] = False
    pages: Annotated[bool, measured_option("--pages/--no-pages", help="Page transfers too.")] = True


def command(
    connection: Connection,
    asked: Wanted,
    image: Annotated[Path | None, connection_option(help="Firmware for --emulate; built if not given.")] = None,
    format_card: Annotated[
        bool, connection_option("--format-card", help="Label the card for poet. What it holds is lost.")
    ] = False,
    out: Annotated[Path | None, results_option("--out", "-o", help="Profile to write; BOARD.csv if not given.")] = None,
    resume: Annotated[bool, results_option("--resume", help="Go on with the rows that the file already has.")] = False,
    as_json: Json = False,
) -> None:
    """Measure time and energy of operators and page transfers on a board.

    Rows are on disk as they come: after Ctrl-C, a crash or a cable pulled out, --resume goes on where it stopped.
    Without --graph, --model, --configs or --plan: what the built-in models need that fit a microcontroller, and a grid
    from which a planner can fit other shapes.

    For experiments there are --card-pauses SEED (docs/emulation.md) and --threads N (docs/linux_boards.md), too.
    """
    from contextlib import ExitStack
    from dataclasses import asdict

    from poet_profiles.boards import load_board
    from poet_profiles.errors import UserError
    from poet_profiles.profile import ProfileWriter
    from poet_profiles.program.json_output import print_json

    from ..card.image import prepared_image
    from ..firmware import build
    from ..measuring.measure import Effort
    from ..profiling.agent_profiler import AgentProfiler, fit_pages
    from ..profiling.board_profiler import BoardProfiler
    from ..training.trainer import Trainer
    from .console import wide_console

    plan = asked.plan
    description = load_board(connection.board)
    on_agent = description.kind == "linux" and image is None
    _check(asked, description, on_agent, image)
    target_path = out or Path(f"{description.name}.csv")
    effort = Effort(fewest=1, most=1) if asked.quick else Effort()
    if not resume and target_path.is_file() and target_path.stat().st_size:
        raise UserError(f"{target_path}: exists already; --resume goes on with it, --out names another file")
    training = _read_training(plan, asked.data, asked.steps) if plan is not None and asked.data is not None else None
    with ProfileWriter(target_path) as profile:
        networks = _networks(description, plan, asked.model or []) if on_agent else []
        chosen = _chosen(description, asked, on_agent)
        if image is None and connection.takes_image(description):
            image = flashed_image(plan, description) if plan is not None else build(description)
        with ExitStack() as opening:
            card = connection.card
            if image is not None and training is not None:
                card = opening.enter_context(prepared_image(card, *training, asked.steps))
            target = opening.enter_context(connection.open(description, image, card))
            is_agent = target.device.hello.is_agent
            if networks and not is_agent:
                raise UserError(
                    f"{target.device.link.name}: is no poet-agent, and runs no --model and no --plan of a Linux board; "
                    "start poet-agent there"
                )
            wanted = _wanted(description, chosen, is_agent, asked.pages)
            if any(item.uses_card for item in (*wanted, *chosen)) and (format_card or target.fresh_card):
                target.device.format()
            measuring = (target.device, target.meter, description, effort)
            profiler: Profiler = AgentProfiler(*measuring, networks) if is_agent else BoardProfiler(*measuring)
            in_place = 0
            if training is not None:
                trainer = Trainer(target.device, target.meter, training[0])
                in_place = _train(trainer, profiler, profile, *training, asked.learning_rate)
            outcome = _with_progress(profiler, wanted, networks, profile)
            outcome.written += in_place
            source, meter_words = target.meter.source, target.meter.identity
            fits = fit_pages(profile, description) if is_agent and outcome.written else []
    if as_json:
        words = {"profile": str(target_path), "source": source, "meter": meter_words}
        print_json({**words, **asdict(outcome), "page_fits": [fit._asdict() for fit in fits]})
    else:
        _report(wide_console(), target_path, outcome, f"{source}, {meter_words}")
        for fit in fits:
            wide_console().print(fit.words)


def _check(asked: Wanted, board: Board, on_agent: bool, image: Path | None) -> None:
    """Refuse what does not go together."""
    from poet_profiles.errors import UserError

    from ..protocol.device import check_learning_rate

    if (asked.plan is None) != (asked.data is None) and not on_agent:
        raise UserError("--plan and --data go together: a plan is trained on batches (make them with poet-plan data)")
    if asked.data is not None and on_agent:
        raise UserError(f"--data: {board.name} is profiled on random data; leave it out")
    if asked.plan is not None and image is not None:
        raise UserError(f"--image: --plan runs the image in {asked.plan}; leave one of them out")
    check_learning_rate(asked.learning_rate)


def _read_training(plan: Path, data: Path, steps: int) -> tuple[Plan, TrainingData]:
    from ..data.batches import read_training_data
    from ..plan_folder.plan import read_plan

    schedule = read_plan(plan)
    return schedule, read_training_data(data, schedule, steps)


def _train(
    trainer: Trainer, profiler: Profiler, profile: ProfileWriter, plan: Plan, data: TrainingData, learning_rate: float
) -> int:
    from poet_profiles.errors import UserError
    from poet_profiles.program.stopping import Stopped
    from rich.console import Console
    from rich.progress import Progress

    from ..profiling.in_place import profile_in_place

    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("in place", total=len(data.batches))
        try:
            return profile_in_place(
                trainer, profiler, profile, plan, data, learning_rate, lambda _: progress.update(task, advance=1)
            )
        except Stopped as stopped:
            words = f"{stopped}; {profile.path} keeps what was measured, --resume goes on"
            raise UserError(words, stopped.exit_code) from None


def _graphs_of(plan: Path) -> list[Path]:
    """Of the training step, and of an inference beside it."""
    beside = plan / "inference" / "graph.json"
    return [plan / "graph.json", *([beside] if beside.is_file() else [])]


def _chosen(board: Board, asked: Wanted, on_agent: bool) -> list[Configuration]:
    """What is asked for by name; an agent runs models and plans whole."""
    from ..profiling.configurations import from_file, from_graph, from_model

    graphs = [*(asked.graph or []), *(_graphs_of(asked.plan) if asked.plan is not None and not on_agent else [])]
    chosen = [item for path in graphs for item in from_graph(path)]
    chosen += [item for name in ([] if on_agent else asked.model or []) for item in from_model(name, board.name)]
    if asked.configs is not None:
        chosen += from_file(asked.configs)
    return list(dict.fromkeys(chosen))


def _wanted(board: Board, chosen: list[Configuration], is_agent: bool, pages: bool) -> list[Configuration]:
    from ..profiling.agent_profiler import page_sizes

    wanted = [*chosen, *page_sizes()] if is_agent else chosen or _standard(board)
    if board.storage == "none" or not pages:
        wanted = [item for item in wanted if not item.is_page]
    return wanted


def _networks(board: Board, plan: Path | None, models: list[str]) -> list[Network]:
    """What an agent runs whole steps of."""
    from rich.console import Console

    from ..profiling.network import from_plan, network_of_model

    networks = [] if plan is None else [from_plan(plan)]
    for name in models:
        with Console(stderr=True).status(f"tracing {name} with poet-plan"):
            networks.append(network_of_model(name, board.name))
    return networks


def _standard(board: Board) -> list[Configuration]:
    """The grid, and on a microcontroller the built-in models too; a Linux board's graphs name PyTorch's operators."""
    from poet_profiles.errors import UserError
    from rich.console import Console

    from ..profiling.configurations import from_fitting_models
    from ..profiling.grid import grid

    if board.kind != "microcontroller":
        return grid()
    console = Console(stderr=True)
    try:
        with console.status(f"asking poet-plan which models fit {board.name}"):
            models = from_fitting_models(board.name)
    except UserError as error:
        console.print(f"only the grid is measured, no built-in models: {error}", markup=False, soft_wrap=True)
        models = []
    return list(dict.fromkeys([*models, *grid()]))


def _with_progress(
    profiler: Profiler, wanted: list[Configuration], networks: list[Network], profile: ProfileWriter
) -> Outcome:
    from poet_profiles.errors import UserError
    from poet_profiles.program.stopping import Stopped
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        total = 1 + len(wanted) + sum(1 + len(network.places) for network in networks)
        task = progress.add_task("idle power", total=total)

        def began(item: Configuration) -> None:
            progress.update(task, advance=1, description=f"{item.op:24}")

        try:
            outcome = profiler.run(wanted, profile, began)
        except Stopped as stopped:
            words = f"{stopped}; {profile.path} keeps what was measured, --resume goes on"
            raise UserError(words, stopped.exit_code) from None
        progress.update(task, completed=total, description="done")
    return outcome


def _report(console: Console, path: Path, outcome: Outcome, source: str) -> None:
    console.print(f"{path}: {outcome.written} rows written, {source}")
    if outcome.resets:
        console.print(f"the board was reset {outcome.resets} times; what it was measuring was measured again")
    if abs(outcome.drift) > MOST_DRIFT:
        console.print(
            f"the first operator took {outcome.drift:+.1%} time or energy when measured again at the end: does the "
            "board grow hot, or change its clock? Fix its clock or cool it, and profile again"
        )
    if outcome.temperatures_c:
        coolest_c, hottest_c = outcome.temperatures_c
        if coolest_c == hottest_c:
            words = (
                f"{coolest_c:.1f} degrees Celsius throughout; if they stand still, a board that grows hot is not seen"
            )
        else:
            words = f"{coolest_c:.1f} to {hottest_c:.1f} degrees Celsius"
        console.print(f"the board's own sensors showed {words}")
    _list(
        console,
        outcome.unsteady,
        "rows drifted each time they were measured; fix the clock (cpufreq's governor performance) or cool the board",
    )
    _list(
        console,
        outcome.past_the_meter,
        "page rows are refused: a card draws at least 5 mA, so its current passes the meter by. Feed the card from the "
        "wire behind the meter (nRF52840-DK: from the SoC's side of P22, not from VDD of the Arduino header; "
        "docs/boards.md, Wiring), then --resume",
    )
    _list(
        console,
        outcome.coarse,
        "rows have a power (above the sleeping board's) of fewer than 20 steps of the meter, and rough energies: set "
        "the sensor's shunt, or take a finer meter (docs/meters.md)",
    )
    if outcome.through_cache:
        console.print(
            "pages went through the kernel's cache, each flushed and dropped: the folder's file system takes no direct "
            "transfers; name a folder on the disk that pages are to go to (poet-agent --pages), and profile again"
        )
    if outcome.below_idle:
        console.print(
            f"{len(outcome.below_idle)} rows have an energy of 0, since the board drew less in them than asleep, the "
            f"first: {outcome.below_idle[0].op} {outcome.below_idle[0].params}"
        )
    for closing in outcome.closings:
        energy = "" if closing.energy is None else f", and {closing.energy:.1%} of its energy"
        console.print(f"{closing.network}: its rows add up to {closing.time:.1%} of the whole step's time{energy}")
        if abs(closing.time - 1) > MOST_OPEN:
            console.print(
                "that is far from the whole: does something else run on the board? End it, give poet-agent fewer "
                "--threads than processors, and profile again"
            )
    _list(console, outcome.skipped, "configurations cannot run on this board")


def _list(console: Console, entries: list[tuple[Configuration, str]], what: str) -> None:
    """The first few configurations, each with its reason; nothing if there are none."""
    if not entries:
        return
    console.print(f"{len(entries)} {what}:")
    for item, reason in entries[:MOST_NAMED]:
        console.print(f"  {item.op} {item.params}: {reason}")
    if len(entries) > MOST_NAMED:
        console.print(f"  and {len(entries) - MOST_NAMED} more")
