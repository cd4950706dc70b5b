# SPDX-License-Identifier: Apache-2.0
"""A module in evaluation mode for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Within, the module is in evaluation mode; afterwards each of its parts is in the mode that it was in."""
    before = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, training in before.items():
            part.training = training
