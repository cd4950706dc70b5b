# SPDX-License-Identifier: Apache-2.0
"""The folder of a training over epochs: what it was begun with, how far it is, and a row for each epoch."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from poet_profiles.errors import UserError
from poet_profiles.files.arrays import npz, read_arrays
from poet_profiles.files.json_file import read_json
from poet_profiles.files.whole_file import check_writable, write_whole
from poet_profiles.graph.kept import TRAINED_KINDS

if TYPE_CHECKING:
    from ..data.batches import TrainingData
    from ..plan_folder.plan import Plan

FORMAT = "poet-run/1"
SETTINGS_FILE = "run.json"
CHECKPOINT_FILE = "checkpoint.npz"
EPOCHS_FILE = "epochs.csv"
BEST_FILE = "best.safetensors"
# In the checkpoint, beside the tensors by their ids: no id is like these.
STEP, SETTINGS = "..step", "..settings"
LOSSES, ENERGIES, TIMES, FEATURES = "..losses", "..energies_j", "..times_s", "..features"


@dataclass(frozen=True)
class EpochRow:
    """What came of an epoch: mean loss of its steps, their time and energy in all.

    ``energy_j`` is that above the idle power, None if it is not known of every step. After the epoch, ``right`` of
    ``labels`` were what the network said of the ``validated`` samples, with time and energy of one inference, and
    ``validation_loss`` its loss there; None without. Of time and energy, ``features_…`` made features.
    """

    epoch: int
    steps: int
    samples: int
    learning_rate: float
    loss: float
    time_s: float
    energy_j: float | None
    source: str
    right: int | None = None
    labels: int | None = None
    inference_time_s: float | None = None
    inference_energy_j: float | None = None
    validated: int | None = None
    validation_loss: float | None = None
    features_time_s: float = 0.0
    features_energy_j: float | None = 0.0

    @property
    def accuracy(self) -> float | None:
        return None if self.right is None or not self.labels else self.right / self.labels


@dataclass(frozen=True)
class SeenStep:
    """Of one step: its loss, its energy above the idle power (NaN if unknown), its time; what features took of both."""

    loss: float
    energy_j: float
    time_s: float
    features_energy_j: float = 0.0
    features_time_s: float = 0.0


@dataclass(frozen=True)
class Progress:
    """How far a training is: what to go on from, and the steps of the epoch under way."""

    data: TrainingData
    seen: tuple[SeenStep, ...]


class RunFolder:
    """Files of a training.

    Parameters
    ----------
    path : Path
    plan : Plan
    settings : mapping
        What the training is, as JSON takes it. Two trainings with the same give the same bits.
    """

    def __init__(self, path: Path, plan: Plan, settings: Mapping[str, Any]) -> None:
        self.path = path
        self._plan = plan
        in_ram = {} if plan.commits_steps else dict(enumerate(plan.residents))  # else the card has the weights
        self._tensors = {index: tensor for index, tensor in in_ram.items() if tensor.kind in TRAINED_KINDS}
        self._settings = {"format": FORMAT, **settings}

    def begin(self, data: TrainingData, resume: bool) -> tuple[Progress, list[EpochRow]]:
        """Where the training begins: at its first step, or where an earlier command left it. Nothing is written yet.

        Raises
        ------
        UserError
            If the folder cannot be written; if it holds a training already and `resume` does not say to go on, or
            holds none and it does; if what it holds is another one, or is damaged.
        """
        settings, checkpoint = (self.path / name for name in (SETTINGS_FILE, CHECKPOINT_FILE))
        sizes = sum(tensor.bytes for tensor in self._tensors.values())
        if not resume:
            if checkpoint.exists():
                raise UserError(f"{self.path}: holds a training already; go on with --resume, or name another folder")
            check_writable(checkpoint, 2 * sizes)
            return Progress(data, ()), []
        if not settings.is_file():
            raise UserError(f"{self.path}: holds no training to go on with; leave --resume out")
        self._refuse_others(read_json(settings))
        check_writable(checkpoint, 2 * sizes)
        if not checkpoint.is_file():  # it was cut in its first epoch
            return Progress(data, ()), []
        return self._read(checkpoint, data), self._rows()

    def _refuse_others(self, found: object) -> None:
        path = self.path / SETTINGS_FILE
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise UserError(f"{path}: is not of format {FORMAT}; name another folder")
        for name in dict.fromkeys((*self._settings, *found)):
            was, value = found.get(name), self._settings.get(name)
            # More epochs change no step before them, but where the rate ends with the last.
            if name != "epochs" and was != value:
                raise UserError(f"{path}: {name} was {was}, is {value} now; a training goes on as it began")

    def keep_settings(self) -> None:
        """Write what the training is, once it begins."""
        self._write({self.path / SETTINGS_FILE: json.dumps(self._settings, indent=1) + "\n"})

    def keep_best(self, files: Mapping[Path, bytes]) -> None:
        """Write the best weights so far, each file whole or not at all."""
        self._write(files)

    def _write(self, files: Mapping[Path, str | bytes]) -> None:
        try:
            for path, content in files.items():
                write_whole(path, content)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written any more ({error.strerror})") from None

    def keep(self, progress: Progress, rows: Sequence[EpochRow]) -> None:
        """Write checkpoint and rows, each whole or not at all."""
        data = progress.data
        arrays: dict[str, Any] = {
            tensor.id: np.frombuffer(data.weights[index], self._plan.type_of(tensor)).reshape(tensor.shape)
            for index, tensor in self._tensors.items()
        }
        seen = np.array([list(asdict(step).values()) for step in progress.seen], float).reshape(
            -1, len(fields(SeenStep))
        )
        arrays |= {
            SETTINGS: np.array(self._digest()),
            STEP: np.array(data.step),
            LOSSES: seen[:, 0],
            ENERGIES: seen[:, 1],
            TIMES: seen[:, 2],
            FEATURES: seen[:, 3:],
        }
        self._write({self.path / EPOCHS_FILE: _as_csv(rows), self.path / CHECKPOINT_FILE: npz(arrays)})

    def _digest(self) -> str:
        """Of the settings; more epochs are the same training."""
        settings = {name: value for name, value in self._settings.items() if name != "epochs"}
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    def _read(self, path: Path, data: TrainingData) -> Progress:
        arrays = read_arrays(path, "poet-harness run --folder")
        # Older ones have none; run.json alone speaks for them.
        if SETTINGS in arrays and str(arrays[SETTINGS]) != self._digest():
            raise UserError(f"{path}: is of another training than {SETTINGS_FILE} beside it; name another folder")
        weights = dict(data.weights)
        try:
            for index, tensor in self._tensors.items():
                array = arrays[tensor.id]
                if (array.shape, array.dtype) != (tensor.shape, self._plan.type_of(tensor)):
                    raise KeyError(tensor.id)
                weights[index] = array.tobytes()
            features = arrays.get(FEATURES, np.zeros((len(arrays[LOSSES]), 2)))
            seen = zip(*(map(float, arrays[name]) for name in (LOSSES, ENERGIES, TIMES)), *features.T, strict=True)
            return Progress(
                replace(data, weights=weights, step=int(arrays[STEP])),
                tuple(SeenStep(*map(float, one)) for one in seen),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}: is no checkpoint of this plan ({error}); name another folder") from None

    def _rows(self) -> list[EpochRow]:
        path = self.path / EPOCHS_FILE
        try:
            return [_row(cells) for cells in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UserError(f"{path}: cannot be read ({error}); put it back, or name another folder") from None


def _as_csv(rows: Sequence[EpochRow]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(EpochRow)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()


def _row(cells: Mapping[str, str]) -> EpochRow:
    return EpochRow(
        epoch=int(cells["epoch"]),
        steps=int(cells["steps"]),
        samples=int(cells["samples"]),
        learning_rate=float(cells["learning_rate"]),
        loss=float(cells["loss"]),
        time_s=float(cells["time_s"]),
        energy_j=_number(cells["energy_j"]),
        source=cells["source"],
        right=_whole(cells["right"]),
        labels=_whole(cells["labels"]),
        inference_time_s=_number(cells["inference_time_s"]),
        inference_energy_j=_number(cells["inference_energy_j"]),
        validated=_whole(cells.get("validated", "")),  # older files have none of these two
        validation_loss=_number(cells.get("validation_loss", "")),
        features_time_s=float(cells.get("features_time_s", 0.0)),
        features_energy_j=_number(cells.get("features_energy_j", "0")),
    )


def _whole(text: str) -> int | None:
    return int(text) if text else None


def _number(text: str) -> float | None:
    return float(text) if text else None
