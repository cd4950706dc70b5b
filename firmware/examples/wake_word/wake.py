# SPDX-License-Identifier: Apache-2.0
"""The network that the device is sold with, of pymicro-wakeword; or that of `WAKE_MODEL`."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from poet_planner.models import Model
from tflite_torch import Window
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

SOLD = os.environ.get("WAKE_MODEL", "hey_jarvis")
UNIT = 10 / 256  # of the front end's numbers, all below 670 of it: int16 holds them exactly


def sold(name: str = SOLD) -> Path:
    """The file of a network, in the package."""
    return Path(str(files("pymicro_wakeword"))) / "models" / f"{name}.tflite"


def numbers(x: NDArray[np.int16]) -> Tensor:
    """What the network reads."""
    return torch.from_numpy(x.astype(np.float32) * np.float32(UNIT))


def loss(scores: Tensor, there: Tensor) -> Tensor:
    """Of one score a window, which says whether the word is there."""
    return binary_cross_entropy_with_logits(scores[:, 0], there)


def network(batch: int | None) -> Model:
    """All layers learn. With the last ones alone it does not learn another word (README)."""
    module = Window(sold()).eval()
    x = torch.randn(batch or 2, 40, module.frames).abs() * 8
    return Model("wake", module, (x,), (torch.randint(2, (len(x),)).float(),), loss, ("something else", "hello sesame"))
