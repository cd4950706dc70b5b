# SPDX-License-Identifier: Apache-2.0
"""The training graph of a model for a board, not costed yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from poet_profiles.boards import Board
from poet_profiles.errors import FaultError, UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.validation import check_graph

if TYPE_CHECKING:
    from poet_runtime.traced_graph import TracedGraph

    from poet_planner.models import Model


def training_graph(
    model: str, batch: int | None, board: Board, resident_gradients: bool = True, momentum: float = 0.0
) -> Graph:
    """Trace a model and lower it for a board.

    Parameters
    ----------
    model : str
        Name of a built-in model, or ``module:callable``.
    batch : int, optional
        Samples in a step; default is the model's own.
    resident_gradients : bool
        Whether gradients have places of their own in RAM; False, on a microcontroller: they are values like others.
    momentum : float
        Of the gradient descent that ends a step on a microcontroller.

    Raises
    ------
    UserError
        If there is no such model, or it cannot be traced, or a Linux board is given momentum, or the
        firmware has no such momentum.
    """
    from poet_planner.lowering import lower_for_firmware, lower_for_linux

    if board.kind == "linux":
        if momentum:
            raise UserError(f"--momentum: a graph for {board.name} ends before gradient descent; leave it out")
        graph = lower_for_linux(_rehearsed(model, batch), board.dma_overlap)
    else:
        graph = lower_for_firmware(_tried(model, batch), board.dma_overlap, resident_gradients, momentum)
    try:
        check_graph(graph)
    except FaultError as fault:
        raise UserError(f"{model}: poet made a wrong graph of it ({fault}); report this as a bug") from None
    return graph


@cache
def traced_model(model: str, batch: int | None) -> TracedGraph:
    """The traced training step of a model."""
    from poet_planner import models
    from poet_planner.tracing import trace

    loaded = models.load(model, batch)
    return trace(loaded.module, loaded.inputs, loaded.targets, loaded.loss, loaded.name)


@cache
def _tried(model: str, batch: int | None) -> TracedGraph:
    """The same, once it has run on its example: labels out of range, or mixed types, show in no shape."""
    import torch
    from poet_runtime.executor import execute, residents_of

    with _running(model, batch) as loaded, torch.random.fork_rng(devices=[]):
        traced = traced_model(model, batch)
        execute(traced, residents_of(traced, loaded.module, loaded.inputs, loaded.targets))
    return traced


@cache
def _rehearsed(model: str, batch: int | None) -> TracedGraph:
    """The same with the storages and temporaries that PyTorch's kernels allocate, read off a run of the step here."""
    from poet_runtime.measured_sizes import measured

    with _running(model, batch) as loaded:
        return measured(traced_model(model, batch), loaded.module, loaded.inputs, loaded.targets)


@contextmanager
def _running(model: str, batch: int | None) -> Iterator[Model]:
    """A model of which a step is run within."""
    from poet_planner import models
    from poet_planner.tracing import in_eagers_words

    loaded = models.load(model, batch)
    with in_eagers_words(loaded.name, lambda: loaded.loss(loaded.module(*loaded.inputs), *loaded.targets)):
        yield loaded
