# SPDX-License-Identifier: Apache-2.0
"""The folder of an advice, with each training as far as it went.

``advice.json`` has what curves depend on, which is no board; ``curves.pt`` values and weights, and ``curves.csv`` the
values for people.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poet_profiles.errors import UserError
from poet_profiles.files.arrays import read_arrays
from poet_profiles.files.json_file import read_json
from poet_profiles.files.whole_file import check_writable, write_whole
from poet_profiles.program.stopping import undisturbed

if TYPE_CHECKING:
    from poet_planner.advice.curves import Curves, Data, Key, Sets
    from poet_planner.models import Model

FORMAT = "poet-advice/1"
SETTINGS, CURVES, WEIGHTS = "advice.json", "curves.csv", "curves.pt"
COLUMNS = ("trained", "batch", "optimizer", "rate", "draw", "epoch", "value")


def digest(model: Model, sets: Sets, calibrate: Path | None = None) -> str:
    """Of weights and samples, those for int8 too."""
    found = hashlib.sha256()
    for array in () if calibrate is None else read_arrays(calibrate, "numpy.savez").values():
        found.update(array.tobytes())
    for name, tensor in model.module.state_dict().items():
        found.update(name.encode() + tensor.detach().cpu().numpy().tobytes())
    found.update(b"" if sets.groups is None else sets.groups.tobytes())
    for part in (sets.train, sets.validation):
        for tensor in () if part is None else (*part.inputs, *part.targets):
            found.update(tensor.numpy().tobytes())
    return found.hexdigest()


class AdviceFolder:
    """Where an advice is kept.

    Parameters
    ----------
    path : Path
    settings : dict
        What the curves depend on.
    resume : bool
        Whether to go on with what is there.

    Raises
    ------
    UserError
        If it cannot be written, holds an advice that is not to be gone on with, or another one.
    """

    def __init__(self, path: Path, settings: dict[str, Any], resume: bool) -> None:
        self.path, self._settings = path, {"format": FORMAT, **settings}
        check_writable(path / SETTINGS)
        there = (path / SETTINGS).exists()
        if there and not resume:
            raise UserError(f"{path}: holds an advice already; --resume goes on with it, or name another --out")
        if there:
            found = read_json(path / SETTINGS)
            if not isinstance(found, dict) or found.get("format") != FORMAT:
                raise UserError(f"{path / SETTINGS}: is not of format {FORMAT}; name another --out")
            for name, value in self._settings.items():
                if found.get(name) != value:
                    raise UserError(f"{path}: is of another {name}, and its curves are, too; name another --out")

    def load(self, curves: Curves, keys: Sequence[Key]) -> None:
        """Put what is kept of these trainings into the curves."""
        import torch

        if not (self.path / WEIGHTS).exists():
            return
        try:
            kept = torch.load(self.path / WEIGHTS, weights_only=True)
            for key in keys:
                if _name(key) in kept:
                    curves.put(key, *kept[_name(key)])
        except Exception:  # whatever a damaged file makes torch raise, whose words advise to run the code in it
            raise UserError(f"{self.path / WEIGHTS}: is damaged; name another --out") from None

    def save(self, curves: Curves) -> None:
        """Keep all that has been trained, each file whole."""
        import torch

        text, content = io.StringIO(), io.BytesIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for key, values in curves.values.items():
            cells = _name(key).split(",")
            writer.writerows([*cells, epoch, repr(value)] for epoch, value in enumerate(values))
        kept = {_name(key): (curves.values[key], one.rows, one.buffers) for key, one in curves.states.items()}
        torch.save(kept, content)
        with undisturbed():
            write_whole(self.path / SETTINGS, json.dumps(self._settings, indent=1) + "\n")
            write_whole(self.path / CURVES, text.getvalue())
            write_whole(self.path / WEIGHTS, content.getvalue())


def _name(key: Key) -> str:
    """A training by five cells without commas."""
    learns = key.trained.name.replace(",", " +")
    return f"{learns},{key.batch},{key.optimizer.words},{key.rate!r},{key.draw}"


def samples_file(sets: Sets, draw: int) -> bytes:
    """The samples as a draw has them, as an .npz for `poet-harness train`."""
    from poet_profiles.files.arrays import npz

    learned, held = sets.split(draw)
    parts: dict[str, Data] = {"train": sets.train.rows(learned)}
    parts["val"] = sets.validation or sets.train.rows(held)
    arrays = {
        f"{letter}_{name}": tensors[0].numpy()
        for name, data in parts.items()
        for letter, tensors in (("x", data.inputs), ("y", data.targets))
    }
    return npz(arrays)
