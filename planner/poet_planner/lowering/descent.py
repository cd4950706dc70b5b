# SPDX-License-Identifier: Apache-2.0
"""What changes parameters and state at the end of a training step on the firmware: running statistics, and gradient
descent, with momentum or without."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import torch
from poet_profiles.errors import UserError
from poet_profiles.graph import Node, Operation, Value
from poet_profiles.operators import params_key
from poet_runtime.traced_graph import Kind, TracedGraph, TracedResident, poets_own

from poet_planner.lowering.draft import homes
from poet_planner.lowering.rules import Lowered, nano

ORDERING_NODE = poets_own("gradients")


def velocities(traced: TracedGraph) -> list[TracedResident]:
    """The state of descent with momentum: one tensor for each parameter that has a gradient; zeros begin."""
    parameters = (resident for resident in traced.residents if resident.id in traced.gradients)
    return [
        TracedResident(_velocity(parameter.id), Kind.BUFFER, parameter.bytes, parameter.shape, torch.float32)
        for parameter in parameters
    ]


def ends(traced: TracedGraph, statistics: dict[str, Lowered]) -> tuple[str, ...]:
    """Values that are there before anything changes: the gradients, the loss, and what updates of statistics read."""
    gradients = [gradient.source for gradient in traced.gradients.values()]
    read = [id for lowered in statistics.values() for id in _given(traced, lowered)]
    return tuple(dict.fromkeys((*gradients, traced.loss.source, *read)))


def changes(
    traced: TracedGraph, statistics: dict[str, Lowered], momentum: float, others: Iterable[str] = ()
) -> list[Node]:
    """Updates of running statistics, by their node's id, and one update a parameter, all behind a node of no cost.

    That node follows everything else: the `ends`, and ``others``, values of nodes that nothing reads. It has all in RAM
    that the updates read. So nothing that reads a weight is computed for the first time, or needed again, after the
    weight has changed; and nothing is left to be fetched between two updates, so that a card that fails leaves all of
    them undone.
    """
    order = _node(ORDERING_NODE, (*ends(traced, statistics), *others), None)
    moves = [
        _node(
            id,
            (ORDERING_NODE, *_given(traced, lowered)),
            Operation(
                lowered.op,
                params_key(lowered.op, lowered.params),
                tuple(operand.source for operand in lowered.operands),
                lowered.results,
            ),
        )
        for id, lowered in statistics.items()
    ]
    shapes = {resident.id: resident.shape for resident in traced.residents}
    descents = [
        _node(
            f"{parameter}.sgd",
            (ORDERING_NODE, *(() if traced.values[gradient.source].resident else (gradient.source,))),
            _descent(parameter, homes(traced, (gradient.source,))[0], prod(shapes[parameter]), momentum),
        )
        for parameter, gradient in traced.gradients.items()
    ]
    return [order, *moves, *descents]


def _given(traced: TracedGraph, lowered: Lowered) -> tuple[str, ...]:
    residents = {resident.id for resident in traced.residents}
    return tuple(operand.source for operand in lowered.operands if operand.source not in residents)


def _descent(parameter: str, gradient: str, size: int, momentum: float) -> Operation:
    momentum_nano = nano(momentum)
    if momentum_nano is None:
        raise UserError(f"--momentum {momentum:g}: the firmware knows multiples of 1e-9; round it")
    if not momentum_nano:
        return Operation("sgd", params_key("sgd", {"size": size}), (gradient, parameter), (parameter,))
    params = params_key("sgd_momentum", {"size": size, "momentum_nano": momentum_nano})
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
