# SPDX-License-Identifier: Apache-2.0
"""The firmware's random numbers on this computer, so that PyTorch can be given a board's dropout masks.

Threefry-2x32 with 20 rounds; what stands for key and counter is in docs/SPEC.md, section 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

NANO = 1_000_000_000
_PARITY = np.uint32(0x1BD11BDA)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))

Words = NDArray[np.uint32]


def kept(seed: int, step: int, stream: int, size: int, probability: float) -> NDArray[np.float32]:
    """What the firmware's ``bernoulli`` yields: 1 with the probability, else 0, for each of ``size`` elements."""
    pairs = np.arange(-(-size // 2), dtype=np.uint32)
    words = np.stack(threefry((seed, step), np.full_like(pairs, stream), pairs), axis=1).ravel()[:size]
    limit = np.uint64((round(probability * NANO) << 32) // NANO)
    return (words < limit).astype(np.float32)


def threefry(key: tuple[int, int], first: Words, second: Words) -> tuple[Words, Words]:
    """Two words of random bits for each counter, whose words are ``first`` and ``second``."""
    keys = [np.array([word], np.uint32) for word in key]
    keys.append(_PARITY ^ keys[0] ^ keys[1])
    x, y = first + keys[0], second + keys[1]
    for four in range(1, 6):
        for by in _ROTATIONS[(four - 1) % 2]:
            x = x + y
            y = (y << np.uint32(by) | y >> np.uint32(32 - by)) ^ x
        x = x + keys[four % 3]
        y = y + keys[(four + 1) % 3] + np.uint32(four)
    return x, y


class BoardRandom(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is entered, PyTorch's ``bernoulli_``, which dropout draws by, draws what the board draws in a step.

    ``seed`` and ``step`` are the generator's state on the board.
    """

    def __init__(self, seed: int, step: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seed = seed
        self._step = step
        self._streams = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.ops.aten.bernoulli_.float:
            return func(*args, **(kwargs or {}))
        mask, probability = (*args, 0.5)[:2]
        drawn = kept(self._seed, self._step, self._streams, mask.numel(), probability)
        self._streams += 1
        return mask.copy_(torch.from_numpy(drawn).reshape(mask.shape))
