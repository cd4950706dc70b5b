"""The training graph of a model for a board, not costed yet."""

from __future__ import annotations

from poet_profiles.boards import Board

from poet_planner.graph import Graph


def training_graph(model: str, batch: int | None, board: Board) -> Graph:
    """Trace a model and lower it for a board.

    Parameters
    ----------
    model : str
        Name of a built-in model, or ``module:callable``.
    batch : int, optional
        Samples in a step; default is the model's own.

    Raises
    ------
    UserError
        If there is no such model, or it cannot be traced.
    """
    from poet_planner import models
    from poet_planner.lowering import lower_for_firmware, lower_for_linux
    from poet_planner.tracing import trace

    loaded = models.load(model, batch)
    traced = trace(loaded.module, loaded.inputs, loaded.targets, loaded.loss, loaded.name)
    lower = lower_for_linux if board.kind == "linux" else lower_for_firmware
    return lower(traced, board.dma_overlap)
