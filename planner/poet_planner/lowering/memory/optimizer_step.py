# SPDX-License-Identifier: Apache-2.0
"""What changes parameters and state at the end of a training step on the firmware: running statistics, and the
optimiser."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import NamedTuple

import torch
from poet_profiles.errors import UserError
from poet_profiles.firmware.operators import OPERATORS, OPTIMIZERS, params_key, parse_params
from poet_profiles.graph import Graph, Node, Operation, Value
from poet_runtime.traced_graph import Kind, TracedGraph, TracedResident, poets_own

from poet_planner.graph.optimizer import Method, Optimizer
from poet_planner.lowering.operators.draft import homes
from poet_planner.lowering.operators.rules import Lowered, f32, nano

ORDERING_NODE = poets_own("gradients")
FACTORS = poets_own("adam_factors")
STEP_COUNTER = "optimizer.step"
WORD_BYTES = 4
SMALLEST_NORMAL_BITS = 0x00800000


def optimizer_states(traced: TracedGraph, optimizer: Optimizer) -> list[TracedResident]:
    """The state of an optimiser, which begins with zeros: tensors for each parameter that has a gradient.

    Those of a kind lie together, in the parameters' order, as the parameters and their gradients do. Adam's steps are
    counted, too.
    """
    parameters = [resident for resident in traced.residents if resident.id in traced.gradients]
    states = [
        TracedResident(f"{parameter.id}.{slot}", Kind.BUFFER, parameter.bytes, parameter.shape, torch.float32)
        for slot in _slots(optimizer)
        for parameter in parameters
    ]
    counter = TracedResident(STEP_COUNTER, Kind.BUFFER, WORD_BYTES, (1,), torch.int32)
    return [*states, counter] if optimizer.is_adam else states


def ends(traced: TracedGraph, statistics: dict[str, Lowered]) -> tuple[str, ...]:
    """Values that are there before anything changes: the gradients, the loss, and what updates of statistics read."""
    gradients = [gradient.source for gradient in traced.gradients.values()]
    read = [id for lowered in statistics.values() for id in _given(traced, lowered)]
    return tuple(dict.fromkeys((*gradients, traced.loss.source, *read)))


def changes(
    traced: TracedGraph, statistics: dict[str, Lowered], optimizer: Optimizer, others: Iterable[str] = ()
) -> list[Node]:
    """Updates of running statistics, by their node's id, and one update a parameter, all after a node of no cost.

    What Adam's updates have in common is a value before it. That node follows everything else: the `ends`, and
    ``others``, values of nodes that nothing reads. It has all in RAM that the updates read. So nothing that reads a
    weight is computed for the first time, or needed again, after the weight has changed; and nothing is left to be
    fetched between two updates, so that a card that fails leaves all of them undone.
    """
    factors = [_factors(optimizer)] if optimizer.is_adam else []
    given = [value.id for node in factors for value in node.values]
    order = _node(ORDERING_NODE, (*ends(traced, statistics), *given, *others), None)
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
            f"{parameter}.{'adam' if optimizer.is_adam else 'sgd'}",
            (ORDERING_NODE, *given, *(() if traced.values[gradient.source].resident else (gradient.source,))),
            _descent(parameter, homes(traced, (gradient.source,))[0], prod(shapes[parameter]), optimizer),
        )
        for parameter, gradient in traced.gradients.items()
    ]
    count = Operation("count_steps", params_key("count_steps", {"steps": 1}), (STEP_COUNTER,), (STEP_COUNTER,))
    counts = [_node(f"{STEP_COUNTER}.count", (ORDERING_NODE,), count)] if optimizer.is_adam else []
    return [*factors, order, *moves, *descents, *counts]


class Descent(NamedTuple):
    """The update of a parameter by its gradient."""

    gradient: str
    parameter: str
    states: tuple[str, ...]
    params: dict[str, int]  # of an update on the card, and a size


def descents_of(graph: Graph) -> dict[str, Descent]:
    """By their nodes' ids."""
    found = {}
    for node in graph.nodes:
        if node.operation and node.operation.op in OPTIMIZERS:
            is_adam = node.operation.op == "adam"
            gradient, parameter, *states = node.operation.operands[is_adam:]
            params = {**parse_params(node.operation.params), **({"adam": 1} if is_adam else {})}
            found[node.id] = Descent(gradient, parameter, tuple(states), params)
    return found


def _given(traced: TracedGraph, lowered: Lowered) -> tuple[str, ...]:
    residents = {resident.id for resident in traced.residents}
    return tuple(operand.source for operand in lowered.operands if operand.source not in residents)


def _slots(optimizer: Optimizer) -> tuple[str, ...]:
    """Names of a parameter's tensors of state, in the order in which its update takes them."""
    if optimizer.is_adam:
        return "exp_avg", "exp_avg_sq"
    return ("velocity",) if optimizer.momentum else ()


def _descent(parameter: str, gradient: str, size: int, optimizer: Optimizer) -> Operation:
    states = tuple(f"{parameter}.{slot}" for slot in _slots(optimizer))
    op, params = _update(size, optimizer)
    before = (FACTORS,) if optimizer.is_adam else ()
    return Operation(op, params_key(op, params), (*before, gradient, parameter, *states), (parameter, *states))


def _update(size: int, optimizer: Optimizer) -> tuple[str, dict[str, int]]:
    """The operator that does it with the least work."""
    clip = f32_parameter("--clip-value", optimizer.clip_value or 0.0)
    decay = f32_parameter("--weight-decay", optimizer.weight_decay)
    if optimizer.is_adam:
        own_decay = 0 if optimizer.method is Method.ADAMW else decay
        eps = f32_parameter("--eps", optimizer.eps)
        return "adam", {"size": size, "eps_f32": eps, "decay_f32": own_decay, "clip_f32": clip}
    momentum = {"size": size, "momentum_nano": _nano("--momentum", optimizer.momentum)}
    if optimizer.nesterov or decay or clip:
        nesterov = int(optimizer.nesterov)
        return "sgd_general", {**momentum, "decay_f32": decay, "clip_f32": clip, "nesterov": nesterov}
    return ("sgd_momentum", momentum) if optimizer.momentum else ("sgd", {"size": size})


def _factors(optimizer: Optimizer) -> Node:
    """What Adam's updates have in common."""
    beta1, beta2 = (_nano("--betas", beta) for beta in optimizer.betas)
    decay = optimizer.weight_decay if optimizer.method is Method.ADAMW else 0.0
    params = {"beta1_nano": beta1, "beta2_nano": beta2, "decay_f32": f32_parameter("--weight-decay", decay)}
    operation = Operation("adam_factors", params_key("adam_factors", params), (STEP_COUNTER,), (FACTORS,))
    [size] = OPERATORS["adam_factors"].sizes(params).outputs
    return replace(_node(FACTORS, (), operation, size), recomputable=True)


def _nano(option: str, fraction: float) -> int:
    found = nano(fraction)
    if found is None:
        raise UserError(f"{option} {fraction:g}: the firmware knows multiples of 1e-9; round it")
    return found


def f32_parameter(option: str, number: float) -> int:
    """A number as it stands among an operator's parameters.

    Raises
    ------
    UserError
        If it is above 0, and f32 has none so small or so large with all its digits.
    """
    bits = f32(number)
    if bits is None or (number > 0 and bits < SMALLEST_NORMAL_BITS):
        raise UserError(f"{option} {number:g}: the firmware knows numbers from 1.2e-38 to 3.4e38, and 0")
    return bits


def _node(id: str, inputs: tuple[str, ...], operation: Operation | None, bytes: int = 0) -> Node:
    return Node(
        id=id,
        time_s=0.0,
        energy_j=0.0,
        values=(Value(id, bytes),),
        inputs=inputs,
        recomputable=False,
        backward=True,
        operation=operation,
    )
