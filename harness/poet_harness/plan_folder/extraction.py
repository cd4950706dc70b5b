# SPDX-License-Identifier: Apache-2.0
"""What the harness needs of the plan that makes features, beside a head's step, and what that is to cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.file import read_graph
from poet_profiles.json_file import read_json
from poet_profiles.schedule import Schedule
from poet_profiles.schedule.file import read_schedule, schedule_hash

from .page_blocks import page_blocks

FOLDER = "features"
FILES = (f"{FOLDER}/graph.json", f"{FOLDER}/schedule.json")
INFERENCE_FILES = ("feature_inference/graph.json", "feature_inference/schedule.json")
FEATURE = "feature"


@dataclass(frozen=True)
class Extraction:
    """Features of the first samples of a batch.

    Attributes
    ----------
    schedule_hash : str
    samples : int
        In a batch of the head's step.
    at_once : int
        Of how many it makes the features.
    energy_j, time_s, peak_bytes
        Predictions.
    page_blocks : int
        Blocks of the card that it pages to, from the page area's begin on, as the training does.
    infers : bool
        Whether an inference from the features of one sample is beside it.
    """

    schedule_hash: str
    samples: int
    at_once: int
    energy_j: float
    time_s: float
    peak_bytes: int
    page_blocks: int = 0
    infers: bool = False


def read_extraction(folder: Path, head: Graph) -> Extraction | None:
    """What makes features beside a head's step; None of a whole step.

    Raises
    ------
    UserError
        If its files are missing, or are not those of this plan.
    """
    features = [one for one in head.residents if one.kind == FEATURE]
    if not features:
        return None
    graph_path, schedule_path = (folder / name for name in FILES)
    graph, schedule = read_graph(graph_path), read_schedule(schedule_path)
    summary = read_json(folder / "summary.json")
    said = summary.get("features") if isinstance(summary, dict) else None
    at_once = said.get("at_once") if isinstance(said, dict) else None
    samples = features[0].shape[0] if features[0].shape else 0
    is_this = isinstance(said, dict) and said.get("graph_hash") == schedule.graph_hash
    if graph.residents != head.residents or not is_this or not isinstance(at_once, int) or samples % max(1, at_once):
        raise UserError(f"{graph_path}: belongs to another plan than the graph.json above it; plan again")
    blocks, inference = page_blocks(graph, schedule), _inference(folder, graph)
    return Extraction(
        schedule_hash(schedule),
        samples,
        at_once,
        schedule.energy_j,
        schedule.time_s,
        schedule.peak_bytes,
        max(blocks, 0 if inference is None else page_blocks(*inference)),
        inference is not None,
    )


def _inference(folder: Path, extraction: Graph) -> tuple[Graph, Schedule] | None:
    """That from the features of one sample."""
    graph_path, schedule_path = (folder / name for name in INFERENCE_FILES)
    if not graph_path.is_file() or not schedule_path.is_file():
        return None
    graph = read_graph(graph_path)
    if graph.residents[: len(extraction.residents)] != extraction.residents:
        raise UserError(f"{graph_path}: belongs to another plan than the graph.json above it; plan again")
    return graph, read_schedule(schedule_path)
