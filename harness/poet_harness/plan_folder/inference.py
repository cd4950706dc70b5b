# SPDX-License-Identifier: Apache-2.0
"""What the harness needs of the inference in a plan's folder: where its tensors are, and what it is to cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph, Resident
from poet_profiles.graph.file import read_graph
from poet_profiles.json_file import read_json
from poet_profiles.losses import OF_CLASSES, OF_NUMBERS, Loss
from poet_profiles.schedule.file import read_schedule, schedule_hash

from .page_blocks import page_blocks

FOLDER = "inference"
FILES = (f"{FOLDER}/graph.json", f"{FOLDER}/schedule.json")


@dataclass(frozen=True)
class Inference:
    """One sample in evaluation mode.

    Attributes
    ----------
    schedule_hash : str
    first : int
        The index of its first input in the protocol; the other inputs and the output follow.
    inputs : tuple of Resident
    output : Resident
    energy_j, time_s, peak_bytes
        Predictions.
    page_blocks : int
        Blocks of the card that it pages to, from the page area's begin on, as the training does.
    loss : Loss or None
        How the training's loss reads the output, where the plan's summary says it.
    classes : tuple of str
        Names of the classes that the output has scores for; empty where the summary has none.
    """

    schedule_hash: str
    first: int
    inputs: tuple[Resident, ...]
    output: Resident
    energy_j: float
    time_s: float
    peak_bytes: int
    page_blocks: int = 0
    loss: Loss | None = None
    classes: tuple[str, ...] = ()

    @property
    def class_axis(self) -> int:
        """The axis of the output that has one a class, where it has classes."""
        named = None if self.loss is None else self.loss.class_axis
        return len(self.output.shape) - 1 if named is None else named


def read_inference(folder: Path, training: Graph) -> Inference | None:
    """The inference beside a training step; None if there is none.

    Raises
    ------
    UserError
        If its files are not those of this plan.
    """
    graph_path, schedule_path = (folder / name for name in FILES)
    if not graph_path.is_file() or not schedule_path.is_file():
        return None
    graph, schedule = read_graph(graph_path), read_schedule(schedule_path)
    begin = len(training.residents)
    own = graph.residents[begin:]
    if graph.residents[:begin] != training.residents or [one.kind for one in own[-1:]] != ["output"]:
        raise UserError(f"{graph_path}: belongs to another plan than the graph.json above it; plan again")
    return Inference(
        schedule_hash(schedule),
        begin + len(training.kept),
        own[:-1],
        own[-1],
        schedule.energy_j,
        schedule.time_s,
        schedule.peak_bytes,
        page_blocks(graph, schedule),
        *_said(folder / "summary.json", schedule.graph_hash, own[-1]),
    )


def _said(path: Path, graph_hash: str, output: Resident) -> tuple[Loss | None, tuple[str, ...]]:
    """What the summary says of an inference's output: the loss that reads it, and the names of its classes."""
    summary = read_json(path) if path.is_file() else {}
    said = summary.get("inference") if isinstance(summary, dict) else None
    if not isinstance(said, dict) or said.get("graph_hash") != graph_hash:
        return None, ()
    loss, classes = said.get("loss"), said.get("classes", [])
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise UserError(f"{path}: inference.classes: are no names; plan again")
    if loss is None:
        return None, tuple(classes)
    axes = range(1, len(output.shape))
    name, axis = (loss.get(key) for key in ("name", "class_axis")) if isinstance(loss, dict) else (None, None)
    fits = axis in axes if name in [*OF_CLASSES] else name in [*OF_NUMBERS] and axis is None
    if not isinstance(name, str) or not fits:
        raise UserError(f"{path}: inference.loss: is none that the harness knows; plan again")
    return Loss(name, axis), tuple(classes)
