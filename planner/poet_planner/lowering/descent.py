"""The optimiser's step at the end of a training step on the firmware: gradient descent, with momentum or without."""

from __future__ import annotations

from math import prod

import torch
from poet_profiles.operators import params_key

from poet_planner.graph import Node, Operation, Value
from poet_planner.lowering.draft import done, homes
from poet_planner.lowering.rules import NANO
from poet_planner.tracing.ir import Kind, TracedGraph, TracedResident

ORDERING_NODE = "gradients"


def velocities(traced: TracedGraph) -> list[TracedResident]:
    """The state of descent with momentum: one tensor for each parameter that has a gradient; zeros begin."""
    parameters = (resident for resident in traced.residents if resident.id in traced.gradients)
    return [
        TracedResident(_velocity(parameter.id), Kind.BUFFER, parameter.bytes, parameter.shape, torch.float32)
        for parameter in parameters
    ]


def descent(traced: TracedGraph, makers: set[str], momentum: float) -> list[Node]:
    """One update a parameter, behind a node of no cost that follows every gradient and the loss.

    So nothing that reads a weight is computed for the first time, or needed again, after the weight has changed. The
    node needs no gradient in RAM: it waits for gradients that are in residents, and for the ``makers`` of the others.
    """
    ends = [ref.source for ref in (*traced.gradients.values(), traced.loss) if traced.values[ref.source].resident]
    ends += sorted(done(maker) for maker in makers)
    order = _node(ORDERING_NODE, tuple(dict.fromkeys(ends)), None)
    shapes = {resident.id: resident.shape for resident in traced.residents}
    updates = [
        _node(
            f"{parameter}.sgd",
            (ORDERING_NODE, *(() if traced.values[gradient.source].resident else (gradient.source,))),
            _update(parameter, homes(traced, (gradient.source,))[0], prod(shapes[parameter]), momentum),
        )
        for parameter, gradient in traced.gradients.items()
    ]
    return [order, *updates]


def _update(parameter: str, gradient: str, size: int, momentum: float) -> Operation:
    if not momentum:
        return Operation("sgd", params_key("sgd", {"size": size}), (gradient, parameter), (parameter,))
    params = params_key("sgd_momentum", {"size": size, "momentum_nano": round(momentum * NANO)})
    velocity = _velocity(parameter)
    return Operation("sgd_momentum", params, (gradient, parameter, velocity), (parameter, velocity))


def _node(id: str, inputs: tuple[str, ...], operation: Operation | None) -> Node:
    return Node(
        id=id,
        time_s=0.0,
        energy_j=0.0,
        values=(Value(id, 0),),
        inputs=inputs,
        recomputable=False,
        backward=True,
        operation=operation,
    )


def _velocity(parameter: str) -> str:
    return f"{parameter}.velocity"
