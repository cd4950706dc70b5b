"""From any PyTorch module to its joint forward and backward graph, and that graph executed under a schedule.

capture (make_fx) → fold (views, aliases, versions) → split → prune → naming; each is a file, and ``ir`` is what they
make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from poet_planner.tracing.capture import capture
from poet_planner.tracing.fold import fold
from poet_planner.tracing.ir import TracedGraph
from poet_planner.tracing.naming import name as named
from poet_planner.tracing.prune import prune
from poet_planner.tracing.split import split


def trace(
    module: nn.Module,
    inputs: Sequence[Tensor],
    targets: Sequence[Tensor],
    loss: Callable[..., Tensor],
    name: str,
) -> TracedGraph:
    """The training step ``loss(module(*inputs), *targets)`` and its gradients as a graph.

    Raises
    ------
    UserError
        If the module cannot be traced; the message says why.
    """
    return named(prune(split(fold(capture(module, inputs, targets, loss), name))))
