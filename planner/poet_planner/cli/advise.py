# SPDX-License-Identifier: Apache-2.0
"""`poet-plan advise`: what to train, and how, for the least energy."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from poet_profiles.errors import NO_SCHEDULE, UserError
from poet_profiles.program.stopping import Stopped

from poet_planner.cli.option_groups import (
    BoardOptions,
    Calibrate,
    FrozenLayers,
    Json,
    LimitOptions,
    ModelName,
    Weights,
    network_option,
    training_option,
)
from poet_planner.cli.tables import TableForm, print_table
from poet_planner.planning.request import AUTO_PARTS, Request

if TYPE_CHECKING:
    from poet_planner.advice.candidates import Step, Steps


@dataclass(frozen=True)
class CandidateOptions:
    """What is tried."""

    train: Annotated[
        list[str] | None,
        network_option(
            help="Also try these parameters: layers and patterns with commas between, as 4,*.bias; again for more."
        ),
    ] = None
    batch: Annotated[
        list[int] | None, network_option(min=1, help="Batch size; again for more.", show_default="2 8 24")
    ] = None
    clip_value: Annotated[
        float | None, training_option(help="Keep each element of a gradient within ± this, in every step.")
    ] = None


def advise(
    model: ModelName,
    board: BoardOptions,
    limits: LimitOptions,
    candidates: CandidateOptions,
    weights: Weights = None,
    frozen: FrozenLayers = None,
    calibrate: Calibrate = None,
    as_json: Json = False,
    form: TableForm = None,
) -> None:
    """Say what each way to train a network costs on a board: RAM, flash, energy and time of a step, or why it cannot.

    Ways are the last layers, the first and the last, the biases, all; each in three batches, with momentum and with
    Adam, and with plain gradient descent where these do not fit. An energy is that of poet-plan, or says that it is a
    bound: no plan takes less.

        poet-plan advise --model digits_cnn --board nrf52840
        poet-plan advise --model my_module:make --board mkr1000 --train "conv3,*.bias" --batch 4

    Exit codes: 0 done, 2 bad input, 3 no way fits.
    """
    from poet_profiles.program.json_output import print_json

    from poet_planner.advice.candidates import BATCHES, Steps
    from poet_planner.advice.report import step_record, table_of_steps

    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # PyTorch's threads, while they have nothing to do
    request = Request(
        *(model, board.profile or _shipped(board.board), board.board),
        **asdict(limits),
        features=AUTO_PARTS,
        weights=weights,
        frozen=frozen,
        calibrate=calibrate,
    )
    request.refuse_without_costs()
    steps = Steps(model, request, candidates.clip_value, tuple(candidates.train or ()))
    costed = _costed(steps, tuple(candidates.batch or BATCHES))
    if as_json:
        print_json([step_record(step) for step in costed])
    else:
        print_table(table_of_steps(costed), form)
    if not any(step.cost for step in costed):
        raise UserError("none of these ways fits: take a smaller --batch, or another board", NO_SCHEDULE)


def _shipped(board: str | None) -> list[str] | None:
    """A board's own profile, where poet has one."""
    from poet_profiles.shipped import profile_names

    return [board] if board in profile_names() else None


def _costed(steps: Steps, batches: tuple[int, ...]) -> list[Step]:
    from rich.console import Console
    from rich.progress import track

    most = 2 * len(steps.sets) * len(batches)
    try:
        return [*track(steps.all(batches), "costing", most, console=Console(stderr=True))]
    except Stopped as stopped:
        raise UserError(f"{stopped}; nothing was written", stopped.exit_code) from None
