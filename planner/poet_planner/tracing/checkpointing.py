# SPDX-License-Identifier: Apache-2.0
"""Switches `torch.utils.checkpoint` off: what to recompute is the planner's to decide, and the gradients are the same.

Traced as it is, a checkpointed block would be in the graph twice, and a dropout in it would draw a second mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from torch.utils import checkpoint

# What surrounds a call: from PyTorch 2.14 on the second.
_GENERATORS = ("_checkpoint_without_reentrant_generator", "_checkpoint_without_reentrant_generator_impl")


@contextmanager
def without_checkpointing() -> Iterator[None]:
    """Within, a checkpointed function is simply called."""
    with ExitStack() as within:
        within.enter_context(patch.object(checkpoint, "CheckpointFunction", _PlainCall))
        for name in filter(vars(checkpoint).__contains__, _GENERATORS):
            within.enter_context(patch.object(checkpoint, name, _nothing_around_the_call))
        yield


class _PlainCall:
    @staticmethod
    def apply(function: Any, preserve: bool, *args: Any) -> Any:
        return function(*args)


def _nothing_around_the_call(*_args: Any, **_kwargs: Any) -> Iterator[None]:
    yield
