# SPDX-License-Identifier: Apache-2.0
"""``poet-harness weights``: trained weights off a board, or off its card, as a file that PyTorch loads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .flash import flashed_image
from .options import Emulate, Json, Plan, Port

if TYPE_CHECKING:
    from ..card.reading import Weights
    from ..plan_folder import plan as plans

NAME = "weights"


def command(
    plan: Plan,
    out: Annotated[Path, typer.Option("--out", "-o", help=".safetensors: the trained model's state_dict.")],
    # None in the environment: without --board it is a card in this computer that is read.
    board: Annotated[
        str | None, typer.Option("--board", "-b", help="Board whose card is read, through its serial line.")
    ] = None,
    port: Port = None,
    emulate: Emulate = False,
    card: Annotated[
        Path | None,
        typer.Option(help="Without --board: the card, in this computer (/dev/sdb), or its image. With it: the image."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help=".npz that training began with (poet-plan data), if it had other unused tensors than the plan."
        ),
    ] = None,
    optimizer_state: Annotated[
        Path | None, typer.Option(help=".pt: the optimiser's state as well, for torch.optim's load_state_dict.")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option("--lr", min=0.0, help="That --optimizer-state is to have: no board keeps it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the weights that a card has committed: parameters, running statistics and counts, by PyTorch's names.

    They are those of the last poet-harness run --commit-every, of every step where a plan keeps parameters on the card,
    or of poet_commit in a program of your own. The optimiser's state, if it has any, goes into a second file, named
    NET.optimizer.safetensors beside NET.safetensors.
    """
    from poet_profiles.errors import UserError
    from poet_profiles.files.arrays import read_arrays
    from poet_profiles.files.whole_file import check_writable, write_whole
    from poet_profiles.program.json_output import print_json

    from ..data.weights import state_table
    from ..plan_folder.plan import read_plan
    from ..training.trained_files import check_suffix, torch_optimizer_state, trained_files

    check_suffix(out)
    if (optimizer_state is None) != (learning_rate is None):
        raise UserError("--optimizer-state and --lr: go together, since no board keeps the learning rate")
    schedule = read_plan(plan)
    if schedule.documents:
        raise UserError(f"{plan}: is for a Linux board, which keeps no weights; poet-harness run --trained writes them")
    for path in (out, optimizer_state):
        if path is not None:
            check_writable(path)
    state = state_table(data or plan, read_arrays(data, "poet-plan data") if data else {}, schedule)
    read = _off_card(card, schedule) if board is None else _off_board(board, port, emulate, card, plan, schedule)
    state.check_steps(read.step)
    files = trained_files(out, schedule, state, read, learning_rate)
    if optimizer_state is not None and learning_rate is not None:
        files[optimizer_state] = torch_optimizer_state(schedule, state, read, learning_rate)
    for path, content in files.items():
        write_whole(path, content)
    if read.fell_back:
        typer.echo(f"poet-harness: the newest weights are damaged; these are those of step {read.step}", err=True)
    if not (schedule.names or data):
        typer.echo(f"poet-harness: {plan}: knows no state_dict; the names are those of the graph's tensors", err=True)
    for name in state.unkept:
        typer.echo(f"poet-harness: {name}: as at the beginning: only PyTorch follows how a step changes it", err=True)
    if as_json:
        print_json({"files": [str(path) for path in files], "graph_hash": schedule.graph_hash, "step": read.step})
        return
    others = "".join(f"; {path}: the optimiser's state" for path in [*files][1:])
    print(f"{out}: {len(state.sources)} tensors after step {read.step}, graph {schedule.graph_hash}{others}")


def _off_card(card: Path | None, plan: plans.Plan) -> Weights:
    from poet_profiles.errors import UserError

    from ..card.places import card_place
    from ..card.reading import CardReader, weights_on
    from ..target.held_image import held_image

    if card is None:
        raise UserError(
            "weights off what? name the board that has them with --board, or a card or its image with --card"
        )
    place = card_place(card)
    if not place.exists:
        raise UserError(f"{place.path}: no such file")
    with held_image(place.path, shared=True), CardReader(place.path) as reader:
        return weights_on(reader, place.path, plan)


def _off_board(
    name: str, port: str | None, emulate: bool, card: Path | None, folder: Path, plan: plans.Plan
) -> Weights:
    from poet_profiles.boards import load_board
    from poet_profiles.errors import UserError

    from ..card.in_board import committed_weights
    from ..target.connect import connect, takes_image
    from ..training.ready import make_ready

    board = load_board(name)
    runs_here = takes_image(board, port, emulate)
    if runs_here != (card is not None):
        reason = "a board that runs here has an image" if runs_here else "a real board has its own"
        raise UserError(f"--card: {reason}; {'name it' if runs_here else 'leave it out, or leave out --board'}")
    if card is not None and not card.exists():
        raise UserError(f"{card}: no such file")
    image = flashed_image(folder, board) if runs_here else None
    with connect(board, port, image=image, emulate=emulate, meter="nominal", card=card) as target:
        make_ready(target.device, plan)
        return committed_weights(target.device, plan)
