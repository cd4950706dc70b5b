# SPDX-License-Identifier: Apache-2.0
"""``poet-harness eval``: how well the network on a board does, and what an inference costs there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from poet_profiles.amounts import PRECISE, energy_text, loss_text, time_text

from .flash import flashed_image
from .option_groups import Connection, Detecting
from .options import Json, Plan, Scale, Shift, results_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from poet_profiles.boards import Board
    from poet_profiles.quantised import Normalising
    from poet_profiles.samples import Samples
    from rich.table import Table

    from ..meters.meter import Meter
    from ..plan_folder import plan as plans
    from ..target.connect import Target
    from ..training.classes import ClassFigures
    from ..training.detection import Detection
    from ..training.evaluation import Evaluation

NAME = "eval"
NO_COMMIT = "; commit some with poet-harness run --commit-every, or give --weights"


def command(
    connection: Connection,
    plan: Plan,
    detecting: Detecting,
    samples: Annotated[
        str,
        typer.Option(
            help="Data set: .npz with x and y (or x_val and y_val), a folder with x.npy and y.npy, or module:callable."
        ),
    ],
    weights: Annotated[
        Path | None,
        typer.Option(help="Weights: .safetensors, .pt, .pth, .npz; or a file of poet-plan data, or a plan's library."),
    ] = None,
    restore: Annotated[bool, typer.Option("--restore", help="Take the weights that the board's card keeps.")] = False,
    scale: Scale = None,
    shift: Shift = None,
    save: Annotated[Path | None, results_option(help=".npz: the scores of each sample.")] = None,
    per_class: Annotated[
        bool, results_option("--per-class", help="Recall, precision and F1 of each class, too.")
    ] = False,
    confusion: Annotated[
        Path | None, results_option(help="CSV: how often each label, a row, got each answer, a column.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Infer over a data set on the board: loss, accuracy, time and energy of an inference.

    The network is in evaluation mode, and the board computes sample by sample. Energies are of the first 50.

        poet-harness eval -b nrf52840 --emulate --plan plan --samples set.npz --weights w.npz
        poet-harness eval -b nrf52840 --plan plan --samples set.npz --restore --per-class
        poet-harness eval -b nrf52840 --plan plan --samples set.npz --restore --false-accepts 5/1000 --curve curve.csv
    """
    from contextlib import ExitStack

    from poet_profiles.boards import load_board
    from poet_profiles.errors import NO_DEVICE, UserError
    from poet_profiles.files.arrays import npz
    from poet_profiles.files.whole_file import write_whole
    from poet_profiles.plan_folder.files import PLAN_FILES
    from poet_profiles.program.json_output import print_json
    from poet_profiles.protocol.status import Status
    from poet_profiles.quantised import read_normalising

    from ..card.contents import for_inferences
    from ..card.image import prepared_image
    from ..data.samples import read_samples
    from ..protocol.link import DeviceError, DeviceResetError
    from ..training.classes import class_figures, confusion_csv
    from ..training.classes import confusion as counted
    from ..training.detection import Detector, heights_of, read_bound
    from ..training.results import check_results

    if (weights is None) == (not restore):
        raise UserError("eval: says nothing without weights; give --weights FILE, or --restore for the card's")
    read = [Path(samples), weights, connection.card, *(plan / name for name in PLAN_FILES)]
    check_results([(save, 0), (confusion, 0), (detecting.curve, 0)], read)
    most = None if detecting.false_accepts is None else read_bound(detecting.false_accepts, detecting.hop)
    board = load_board(connection.board)
    schedule = _evaluable(plan, weights, connection, board)
    names = _class_names(schedule, "--per-class" if per_class else "--confusion") if per_class or confusion else ()
    heights = heights_of(schedule, detecting.detect) if detecting.is_asked() else None
    normalising = read_normalising(scale, shift)
    sets = read_samples(samples, schedule, normalising, least=1)
    tensors = None if weights is None else _tensors(weights, schedule, plan)
    with ExitStack() as opening:
        image, card = None, connection.card
        if connection.takes_image(board):
            image = flashed_image(plan, board)
            if tensors is not None:
                card = opening.enter_context(prepared_image(card, schedule, for_inferences(schedule, tensors), 0))
        target = opening.enter_context(connection.open(board, image, card))
        meter, where = target.meter, target.device.link.name
        try:
            found, idle_power_w = _evaluated(target, schedule, sets.validation or sets.train, normalising, tensors)
        except DeviceResetError as error:
            raise UserError(f"{where}: the board was reset, and its weights are lost: {error}", NO_DEVICE) from None
        except DeviceError as error:
            cure = NO_COMMIT if restore and error.number == Status.E_ABSENT else ""
            raise UserError(f"{where}: {error}{cure}", NO_DEVICE) from None
    if save is not None:
        write_whole(save, npz({"scores": found.scores}))
    matrix = counted(found.answers, len(names)) if names and found.answers else None
    if confusion is not None and matrix is not None:
        write_whole(confusion, confusion_csv(matrix, names))
    figures = class_figures(matrix, names) if per_class and matrix is not None else []
    detections = []
    if heights is not None:
        detector = Detector(heights, found, detecting.hop)
        detections += [] if detecting.threshold is None else [detector.at(detecting.threshold)]
        detections += [] if most is None else [detector.within(most)]
        if detecting.curve is not None:
            write_whole(detecting.curve, detector.curve_csv(meter.source))
    if as_json:
        print_json(_document(schedule, found, meter.source, idle_power_w, figures, detections))
    else:
        _show(schedule, found, meter, idle_power_w, figures, detections)


def _evaluable(folder: Path, weights: Path | None, connection: Connection, board: Board) -> plans.Plan:
    """The plan in a folder; a `UserError` if a board cannot infer by it with these weights."""
    from poet_profiles.errors import UserError

    from ..plan_folder.plan import read_plan

    plan = read_plan(folder)
    if plan.documents:
        raise UserError(f"{folder}: is for a Linux board; evaluate its model in PyTorch, with what run --trained wrote")
    if plan.inference is None:
        raise UserError(f"{folder}: has no inference; poet-plan says why when it plans")
    if plan.commits_steps and weights is not None and (connection.card or not connection.takes_image(board)):
        raise UserError(
            f"--weights {weights}: the plan keeps its weights on the card, and those there would be lost; give "
            "--restore for them, or prepare another card with these (poet-harness card --weights) and give --restore"
        )
    return plan


def _class_names(plan: plans.Plan, option: str) -> tuple[str, ...]:
    from poet_profiles.errors import UserError

    from ..training.classes import class_names
    from ..training.evaluation import counts_right_answers

    assert plan.inference is not None
    if not counts_right_answers(plan):
        raise UserError(f"{option}: the plan's targets are no classes that its inference has scores for; leave it out")
    return class_names(plan.inference)


def _tensors(weights: Path, plan: plans.Plan, folder: Path) -> dict[int, bytes]:
    """What the file gives the board, by the tensors' indices."""
    from poet_profiles.files.arrays import read_arrays
    from poet_profiles.files.first_bytes import NPZ, content_of
    from poet_profiles.graph.parts import name_of

    from ..data.batches import read_training_data
    from ..data.initial_weights import of_library, with_weights
    from ..data.weights import TABLE, state_table

    if (weights / "library.json").is_file():
        return of_library(weights, plan)
    if weights.is_file() and content_of(weights) == NPZ and TABLE in read_arrays(weights, "poet-plan data"):
        return read_training_data(weights, plan, 0).weights
    arrays, _ = with_weights(weights, state_table(folder, {}, plan), plan)
    return {
        index: arrays[name_of(tensor)].astype(plan.type_of(tensor)).tobytes()
        for index, tensor in enumerate(plan.tensors)
        if name_of(tensor) in arrays
    }


def _evaluated(
    target: Target,
    plan: plans.Plan,
    samples: Samples,
    normalising: Normalising | None,
    tensors: dict[int, bytes] | None,
) -> tuple[Evaluation, float]:
    """What came of it, and the power of the sleeping board."""
    from functools import partial

    from poet_profiles.errors import UserError
    from rich.console import Console
    from rich.progress import Progress

    from ..card.contents import for_inferences
    from ..card.in_board import CardInBoard
    from ..training.evaluation import evaluate, weights_not_finite
    from ..training.metering import Metering
    from ..training.ready import make_ready

    device = target.device
    make_ready(device, plan)
    if target.fresh_card:
        device.format()
    metering = Metering(target.meter)
    metering.measure_idle(device)
    card = None if plan.card is None else CardInBoard(device, plan)
    if card is not None and tensors is not None:
        card.restore_or_prepare(for_inferences(plan, tensors))
    if tensors is None:
        (card or device).restore()
        # A file's numbers were looked at; what a card has may have been committed by older firmware.
        if count := weights_not_finite(device, plan):
            raise UserError(f"{device.link.name}: the weights have {count} values that are no numbers; train anew")
    for index, content in (tensors or {}).items():
        if not plan.commits_steps:
            device.put(index, content)
    with Progress(console=Console(stderr=True)) as progress:
        advance = partial(progress.advance, progress.add_task("evaluating", total=samples.count))
        found = evaluate(device, metering, plan, samples, normalising=normalising, done=lambda _: advance())
    return found, metering.idle_power_w


def _document(
    plan: plans.Plan,
    found: Evaluation,
    source: str,
    idle_power_w: float,
    figures: Sequence[ClassFigures],
    detections: Sequence[Detection],
) -> dict[str, object]:
    from dataclasses import asdict

    assert plan.inference is not None
    return {
        "source": source,
        "graph_hash": plan.graph_hash,
        "inference_hash": plan.inference.schedule_hash,
        "samples": found.count,
        "loss": found.loss,
        "labels": found.labels,
        "correct": found.correct,
        "accuracy": found.accuracy,
        "time_s": found.time_s,
        "energy_j": found.energy_j,
        "predicted_time_s": plan.inference.schedule.time_s,
        "predicted_energy_j": plan.inference.schedule.energy_j,
        "predicted_peak_bytes": plan.inference.schedule.peak_bytes,
        "idle_power_w": idle_power_w,
        "unmetered": list(found.unmetered),
        **({"classes": [asdict(one) for one in figures]} if figures else {}),
        **({"detection": [asdict(one) for one in detections]} if detections else {}),
    }


def _show(
    plan: plans.Plan,
    found: Evaluation,
    meter: Meter,
    idle_power_w: float,
    figures: Sequence[ClassFigures],
    detections: Sequence[Detection],
) -> None:
    from .console import wide_console

    console = wide_console()
    console.print(_table(plan, found, meter.source))
    if figures:
        console.print(_class_table(figures, meter.source))
    for one in detections:
        accepted = f"{one.false_accepts} false accepts, {one.rate:.3g} {one.unit}"
        console.print(f"above {one.threshold:.6g}: {one.found} of {one.there} found, {one.recall:.1%}; {accepted}")
    console.print(f"energies are those above the idle power, {idle_power_w * 1e3:.4g} mW{meter.steps}")
    if found.unmetered:
        console.print(f"energy unknown of {len(found.unmetered)} inferences, the first: {found.unmetered[0]}")


def _table(plan: plans.Plan, found: Evaluation, source: str) -> Table:
    from rich.table import Table

    assert plan.inference is not None
    predicted = plan.inference.schedule
    table = Table("", "predicted", "observed", title=f"Inference, one sample of {found.count} ({source})")
    right = "no classes" if found.accuracy is None else f"{found.correct} of {found.labels}, {found.accuracy:.1%}"
    if found.loss is not None:
        table.add_row("loss", "", loss_text(found.loss))
    table.add_row("right", "", right)
    table.add_row("time", time_text(predicted.time_s, PRECISE), time_text(found.time_s, PRECISE))
    seen = "" if found.energy_j is None else energy_text(found.energy_j, PRECISE)
    table.add_row("energy", energy_text(predicted.energy_j, PRECISE), seen)
    table.add_row("peak RAM", f"{predicted.peak_bytes:,}", "")
    return table


def _class_table(figures: Sequence[ClassFigures], source: str) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table("class", "labels", "recall", "precision", "F1", title=f"Answers by class ({source})")
    for one in figures:
        shares = ("" if share is None else f"{share:.1%}" for share in (one.recall, one.precision))
        table.add_row(escape(one.name), f"{one.count}", *shares, "" if one.f1 is None else f"{one.f1:.3f}")
    return table
