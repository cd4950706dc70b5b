# SPDX-License-Identifier: Apache-2.0
"""A watch that is worn by somebody else, on the other wrist: its recordings, its network, and what it knew before.

    python watch.py pretrain                                       # make pretrained.safetensors anew
    python watch.py recordings --user 9 --out build/recordings.c   # what the simulated sensor plays
    poet-plan --model watch:network --profile nrf52840 ...
    python watch.py samples --out build/samples.npz                # for --calibrate: what it was pretrained on

The recordings are those of Burns and others (arXiv 1802.01489): ten people, both arms, seven shoulder exercises, six
axes at 50 Hz. They come with the package `seglearn` 1.2.5 (BSD-3-Clause) and stay there; nothing of it is imported.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from poet_planner.models import Model
from poet_profiles.errors import UserError
from poet_profiles.files.whole_file import write_whole
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

HERE = Path(__file__).parent
PRETRAINED = HERE / "pretrained.safetensors"

EXERCISES = ("PEN", "ABD", "FEL", "IR", "ER", "TRAP", "ROW")
LEFT, RIGHT = 0, 1
# The watch's sensor: 25 Hz, 16 bits, six axes. A power of two as its unit makes numbers of its words without rounding.
RATE_HZ = 25
UNIT = 1 / 1024
# Rotations have about three times the spread of accelerations.
AXES = np.array([1, 1, 1, 3, 3, 3])
WINDOW, HOP = 64, 16
# The network has never seen these people.
NEW_USERS = (9, 10)
# Windows of each exercise that a new user labels: all together are under three minutes of movement.
LABELLED = 8
# Of the network's modules, those that `last_layers` leaves as they are.
FROZEN = 4


@dataclass(frozen=True)
class Recording:
    """One person's exercise on one arm.

    Attributes
    ----------
    samples : array of int16, shape (samples, 6)
        As the watch's sensor hands them out, in `UNIT`.
    """

    user: int
    side: int
    exercise: int
    samples: NDArray[np.int16]

    def windows(self, begin: float = 0.0, end: float = 1.0) -> NDArray[np.int16]:
        """Overlapping windows from that share of the recording to that, shape (windows, 6, 1, WINDOW)."""
        part = self.samples[int(begin * len(self.samples)) : int(end * len(self.samples))]
        starts = range(0, len(part) - WINDOW + 1, HOP)
        return np.array([part[start : start + WINDOW].T[:, None] for start in starts], np.int16).reshape(
            -1, 6, 1, WINDOW
        )


@cache
def recordings() -> tuple[Recording, ...]:
    """All of them, at the watch's rate: a sample is the mean of two.

    Raises
    ------
    UserError
        If the package that has them is not installed.
    """
    found = find_spec("seglearn")
    if found is None or not found.submodule_search_locations:
        raise UserError("the watch's recordings come with the package seglearn: pip install seglearn==1.2.5")
    path = Path(found.submodule_search_locations[0]) / "data" / "watch_dataset.npy"
    table = np.load(path, allow_pickle=True).item()
    rows = zip(table["subject"], table["side"], table["y"], table["X"], strict=True)
    return tuple(Recording(int(user), int(side), int(y), _sensed(x)) for user, side, y, x in rows)


def _sensed(recorded: NDArray[np.float64]) -> NDArray[np.int16]:
    halved = recorded[: len(recorded) // 2 * 2].reshape(-1, 2, 6).mean(axis=1) / AXES
    return np.rint(np.clip(halved / UNIT, -(2**15), 2**15 - 1)).astype(np.int16)


def windows_of(
    chosen: Callable[[Recording], bool], begin: float = 0.0, end: float = 1.0
) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
    """Windows of some recordings, and the exercise of each."""
    parts = [(each.windows(begin, end), each.exercise) for each in recordings() if chosen(each)]
    labels = [np.full(len(windows), exercise, np.int32) for windows, exercise in parts]
    return np.concatenate([windows for windows, _ in parts]), np.concatenate(labels)


def labelled_by(user: int) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
    """What a new user shows to the watch on his left arm: windows of the first half of each recording."""
    windows, labels = windows_of(lambda each: each.user == user and each.side == LEFT, 0.0, 0.5)
    draw = np.random.default_rng(user)
    some = [draw.choice(np.flatnonzero(labels == exercise), LABELLED, replace=False) for exercise in range(7)]
    kept = np.concatenate(some)
    return windows[kept], labels[kept]


def tested_with(user: int) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
    """What the watch is to recognise later: windows of the second half."""
    return windows_of(lambda each: each.user == user and each.side == LEFT, 0.5, 1.0)


def numbers(windows: NDArray[np.int16]) -> Tensor:
    """What the network reads."""
    return torch.from_numpy(windows.astype(np.float32) * np.float32(UNIT))


def untrained() -> nn.Sequential:
    """1,807 weights; a window is an image of one row."""

    def halving(channels: int, filters: int, width: int) -> tuple[nn.Module, nn.Module]:
        conv = nn.Conv2d(channels, filters, (1, width), stride=(1, 2), padding=(0, width // 2))
        nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
        nn.init.zeros_(conv.bias)  # type: ignore[arg-type]
        return conv, nn.ReLU()

    layers = (*halving(6, 8, 5), *halving(8, 16, 5), *halving(16, 16, 3))
    return nn.Sequential(*layers, nn.AvgPool2d((1, 8)), nn.Flatten(), nn.Linear(16, len(EXERCISES)))


def pretrained() -> nn.Sequential:
    """What the watch is sold with."""
    module = untrained()
    module.load_state_dict(load_file(PRETRAINED))
    return module


def network(batch: int | None) -> Model:
    """The pretrained network, as `poet-plan --model` asks for it, and a batch of random numbers."""
    x, y = torch.randn(batch or 8, 6, 1, WINDOW), torch.randint(len(EXERCISES), (batch or 8,))
    return Model("watch", pretrained(), (x,), (y,), cross_entropy, EXERCISES)


def last_layers(batch: int | None) -> Model:
    """The same, of which the first two convolutions stay as they are, and may be on int8."""
    model = network(batch)
    for layer in list(model.module.children())[:FROZEN]:
        layer.requires_grad_(False)
    return model


def accuracy(module: nn.Module, windows: NDArray[np.int16], labels: NDArray[np.int32]) -> float:
    """Share of windows whose exercise has the highest score."""
    with torch.no_grad():
        found = module(numbers(windows)).argmax(dim=1)
    return float((found == torch.from_numpy(labels)).float().mean())


def pretrain(seed: int = 4, epochs: int = 25, batch: int = 32) -> nn.Sequential:
    """Train on the right arms of the eight people who are not new."""
    torch.manual_seed(seed)
    module = untrained()
    windows, labels = windows_of(lambda each: each.side == RIGHT and each.user not in NEW_USERS)
    x, y = numbers(windows), torch.from_numpy(labels).long()
    optimizer = torch.optim.Adam(module.parameters(), lr=2e-3)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for start in range(0, len(x) - batch + 1, batch):
            chosen = order[start : start + batch]
            optimizer.zero_grad()
            cross_entropy(module(x[chosen]), y[chosen]).backward()
            optimizer.step()
        rate.step()
    print(f"right on {accuracy(module, windows, labels):.1%} of what it was trained on")
    return module


def write_samples(path: Path, every: int = 16) -> None:
    """Some of the windows that the network was trained on, and their exercises, as `poet-plan` takes samples."""
    windows, labels = windows_of(lambda each: each.side == RIGHT and each.user not in NEW_USERS)
    np.savez(path, input=numbers(windows[::every]).numpy(), target=labels[::every])


def recordings_c(user: int) -> str:
    """What the simulated sensor plays (src/sensor.h): the windows that the user labels, and what he does later."""
    windows, labels = labelled_by(user)
    shown = [(window[:, 0].T, int(label)) for window, label in zip(windows, labels, strict=True)]
    later = [
        (each.samples[len(each.samples) // 2 :], each.exercise)
        for each in recordings()
        if each.user == user and each.side == LEFT
    ]
    lines = ['#include "sensor.h"']
    for name, parts in (("shown", shown), ("later", later)):
        for number, (samples, _) in enumerate(parts):
            rows = ", ".join("{" + ", ".join(map(str, sample)) + "}" for sample in samples)
            lines.append(f"static const int16_t {name}_{number}[][SENSOR_AXES] = {{{rows}}};")
        table = ", ".join(f"{{{name}_{number}, {len(part)}, {label}}}" for number, (part, label) in enumerate(parts))
        lines += [f"const sensor_recording sensor_{name}[] = {{{table}}};"]
        lines += [f"const uint32_t sensor_{name}_count = {len(parts)};"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("pretrain", help="train with the others, and write pretrained.safetensors")
    played = verbs.add_parser("recordings", help="write what the simulated sensor plays, as C")
    played.add_argument("--user", type=int, choices=NEW_USERS, default=NEW_USERS[0])
    played.add_argument("--out", type=Path, required=True)
    sampled = verbs.add_parser("samples", help="write windows that it was trained on, as .npz")
    sampled.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    if asked.verb == "recordings":
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(asked.out, recordings_c(asked.user))
        return
    if asked.verb == "samples":
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        write_samples(asked.out)
        return
    torch.set_num_threads(1)
    module = pretrain()
    save_file({name: tensor.contiguous() for name, tensor in module.state_dict().items()}, PRETRAINED)
    for user in NEW_USERS:
        print(f"user {user}, left arm: {accuracy(module, *tested_with(user)):.1%} right")


if __name__ == "__main__":
    main()
