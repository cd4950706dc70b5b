# SPDX-License-Identifier: Apache-2.0
"""The network that the device is sold with, for `poet-plan --model wake:network`.

Its weights come with the package `pymicro-wakeword` and stay there. `WAKE_MODEL` names another one of its networks.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from poet_planner.models import Model
from poet_profiles.errors import UserError
from tflite_torch import Window
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

SOLD = os.environ.get("WAKE_MODEL", "hey_jarvis")
UNIT = 10 / 256  # of the front end's numbers


def sold(name: str = SOLD) -> Path:
    """The file of a network.

    Raises
    ------
    UserError
        If the package that has it is not installed.
    """
    found = find_spec("pymicro_wakeword")
    if found is None or found.origin is None:
        raise UserError("the networks come with the package pymicro-wakeword: pip install pymicro-wakeword==2.5.0")
    return Path(found.origin).parent / "models" / f"{name}.tflite"


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
