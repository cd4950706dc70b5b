# SPDX-License-Identifier: Apache-2.0
"""``poet-harness eval``: how well the network on a board does, and what an inference costs there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .flash import flashed_image
from .option_groups import Connection
from .options import Json, Plan, Scale, Shift
from .session import PLAN_FILES

if TYPE_CHECKING:
    from poet_profiles.quantised import Normalising
    from rich.table import Table

    from ..data.samples import Samples
    from ..plan_folder import plan as plans
    from ..target.connect import Target
    from ..training.evaluation import Evaluation

NAME = "eval"
NO_COMMIT = "; commit some with poet-harness run --commit-every, or give --weights"


def command(
    connection: Connection,
    plan: Plan,
    data: Annotated[
        str,
        typer.Option(
            "--data",
            "--samples",
            help="Data set: .npz with x and y (or x_val and y_val), a folder with x.npy and y.npy, or module:callable.",
        ),
    ],
    weights: Annotated[
        Path | None,
        typer.Option(help="Weights: .safetensors, .pt, .pth, .npz; or a file of poet-plan data, for those in it."),
    ] = None,
    restore: Annotated[bool, typer.Option("--restore", help="Take the weights that the board's card keeps.")] = False,
    scale: Scale = None,
    shift: Shift = None,
    save: Annotated[Path | None, typer.Option(help=".npz: the scores of each sample.")] = None,
    as_json: Json = False,
) -> None:
    """Infer over a data set on the board: accuracy, time and energy of an inference.

    The network is in evaluation mode, and the board computes sample by sample. Energies are of the first 50.
    """
    from contextlib import ExitStack

    from poet_profiles.boards import load_board
    from poet_profiles.errors import NO_DEVICE, UserError
    from poet_profiles.protocol.status import Status
    from poet_profiles.quantised import read_normalising
    from poet_profiles.whole_file import check_writable

    from ..data.samples import read_samples
    from ..plan_folder.plan import read_plan
    from ..protocol.link import DeviceError, DeviceResetError
    from .console import print_json, wide_console

    if (weights is None) == (not restore):
        raise UserError("eval: says nothing without weights; give --weights FILE, or --restore for the card's")
    if save is not None:
        read = [Path(data), weights, connection.card, *(plan / name for name in PLAN_FILES)]
        if save.resolve() in {path.resolve() for path in read if path is not None}:
            raise UserError(f"--save {save}: eval reads this file; name another")
        check_writable(save)
    description = load_board(connection.board)
    schedule = read_plan(plan)
    if schedule.documents:
        raise UserError(f"{plan}: is for a Linux board; evaluate its model in PyTorch, with what run --trained wrote")
    if schedule.inference is None:
        raise UserError(f"{plan}: has no inference; plan the model (not a graph) with --parameters resident")
    normalising = read_normalising(scale, shift)
    sets = read_samples(data, schedule, normalising, least=1)
    samples = sets.validation or sets.train
    tensors = None if weights is None else _tensors(weights, schedule, plan)
    with ExitStack() as opening:
        image = flashed_image(plan, description) if connection.takes_image(description) else None
        target = opening.enter_context(connection.open(description, image, connection.card))
        where = target.device.link.name
        try:
            found, idle_power_w = _evaluated(target, schedule, samples, normalising, tensors)
        except DeviceResetError as error:
            raise UserError(f"{where}: the board was reset, and its weights are lost: {error}", NO_DEVICE) from None
        except DeviceError as error:
            cure = NO_COMMIT if restore and error.number == Status.E_ABSENT else ""
            raise UserError(f"{where}: {error}{cure}", NO_DEVICE) from None
        source = target.meter.source
    if save is not None:
        _save(save, found)
    if as_json:
        print_json(_document(schedule, found, source, idle_power_w))
        return
    console = wide_console()
    console.print(_table(schedule, found, source))
    console.print(f"energies are those above the idle power, {idle_power_w * 1e3:.4g} mW{target.meter.steps}")
    if found.unmetered:
        console.print(f"energy unknown of {len(found.unmetered)} inferences, the first: {found.unmetered[0]}")


def _tensors(weights: Path, plan: plans.Plan, folder: Path) -> dict[int, bytes]:
    """What the file gives the board, by the tensors' indices."""
    from poet_profiles.arrays import read_arrays
    from poet_profiles.graph.parts import name_of

    from ..data.batches import read_training_data
    from ..data.initial_weights import with_weights
    from ..data.weights import TABLE, state_table

    if weights.suffix == ".npz" and weights.is_file() and TABLE in read_arrays(weights, "poet-plan data"):
        return read_training_data(weights, plan, 0).weights
    arrays, _ = with_weights(weights, state_table(folder, {}, plan), plan)
    return {
        index: arrays[name_of(tensor)].astype(plan.type_of(tensor)).tobytes()
        for index, tensor in enumerate(plan.residents)
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
    from poet_profiles.errors import UserError
    from rich.console import Console
    from rich.progress import Progress

    from ..measuring.idle import measure_idle
    from ..measuring.measure import Effort
    from ..training.evaluation import evaluate, weights_not_finite
    from ..training.trainer import make_ready

    device = target.device
    make_ready(device, plan)
    if target.fresh_card:
        device.format()
    idle = measure_idle(device, target.meter, Effort(fewest=1, most=1))
    idle_power_w = idle.energy_j / idle.time_s
    if tensors is None:
        device.restore()
        # A file's numbers were looked at; what a card has may have been committed by older firmware.
        if count := weights_not_finite(device, plan):
            raise UserError(f"{device.link.name}: the weights have {count} values that are no numbers; train anew")
    for index, content in (tensors or {}).items():
        device.put(index, content)
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("evaluating", total=samples.count)
        found = evaluate(
            device,
            target.meter,
            plan,
            samples,
            idle_power_w=idle_power_w,
            normalising=normalising,
            done=lambda count: progress.update(task, completed=count),
        )
    return found, idle_power_w


def _save(path: Path, found: Evaluation) -> None:
    from poet_profiles.arrays import npz
    from poet_profiles.whole_file import write_whole

    write_whole(path, npz({"scores": found.scores}))


def _document(plan: plans.Plan, found: Evaluation, source: str, idle_power_w: float) -> dict[str, object]:
    assert plan.inference is not None
    return {
        "source": source,
        "graph_hash": plan.graph_hash,
        "inference_hash": plan.inference.schedule_hash,
        "samples": found.count,
        "labels": found.labels,
        "correct": found.correct,
        "accuracy": found.accuracy,
        "time_s": found.time_s,
        "energy_j": found.energy_j,
        "peak_bytes": found.peak_bytes,
        "predicted_time_s": plan.inference.time_s,
        "predicted_energy_j": plan.inference.energy_j,
        "predicted_peak_bytes": plan.inference.peak_bytes,
        "idle_power_w": idle_power_w,
        "unmetered": list(found.unmetered),
    }


def _table(plan: plans.Plan, found: Evaluation, source: str) -> Table:
    from rich.table import Table

    assert plan.inference is not None
    predicted = plan.inference
    table = Table("", "predicted", "observed", title=f"Inference, one sample of {found.count} ({source})")
    right = "no classes" if found.correct is None else f"{found.correct} of {found.labels}, {found.accuracy:.1%}"
    table.add_row("right", "", right)
    table.add_row("time, ms", f"{predicted.time_s * 1e3:.4f}", f"{found.time_s * 1e3:.4f}")
    seen = "" if found.energy_j is None else f"{found.energy_j * 1e3:.4f}"
    table.add_row("energy, mJ", f"{predicted.energy_j * 1e3:.4f}", seen)
    table.add_row("peak RAM", f"{predicted.peak_bytes:,}", f"{found.peak_bytes:,}")
    return table
