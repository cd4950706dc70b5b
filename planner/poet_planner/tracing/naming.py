# SPDX-License-Identifier: Apache-2.0
"""Ids that people can read: where in the model an operator comes from, and what it is for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from poet_runtime.traced_graph import Kind, Ref, TracedGraph, TracedOperator, TracedValue, map_refs, poets_own

_USERS = (Kind.PARAMETER, Kind.BUFFER)

_OUTPUT_NAMES: dict[str, tuple[str, ...]] = {
    "aten::max_pool2d_with_indices": ("", "indices"),
    "aten::max_pool3d_with_indices": ("", "indices"),
    "aten::adaptive_max_pool2d": ("", "indices"),
    "aten::native_batch_norm": ("", "mean", "invstd"),
    "aten::native_layer_norm": ("", "mean", "rstd"),
    "aten::native_group_norm": ("", "mean", "rstd"),
    "aten::nll_loss_forward": ("", "total_weight"),
    "aten::nll_loss2d_forward": ("", "total_weight"),
    "aten::_scaled_dot_product_flash_attention_for_cpu": ("", "logsumexp"),
}
_SHORT = {
    "aten::nll_loss_forward": "nll_loss",
    "aten::nll_loss2d_forward": "nll_loss",
    "aten::native_batch_norm": "batch_norm",
    "aten::native_layer_norm": "layer_norm",
    "aten::native_group_norm": "group_norm",
    "aten::max_pool2d_with_indices": "max_pool2d",
    "aten::_scaled_dot_product_flash_attention_for_cpu": "attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": "attention_backward",
    "aten::_log_softmax_backward_data": "log_softmax_backward",
    "aten::_softmax_backward_data": "softmax_backward",
    "aten::nll_loss2d_backward": "nll_loss_backward",
    "aten::embedding_dense_backward": "embedding_backward",
    "aten::max_pool2d_with_indices_backward": "max_pool2d_backward",
}


def name(graph: TracedGraph, others: Iterable[str] = ()) -> TracedGraph:
    """The same graph with readable ids, no two of them alike, and none like the ``others`` but the user's names."""
    names = _Names((*others, *(resident.id for resident in graph.residents if resident.kind in _USERS)))
    resident_ids = {
        resident.id: names.fresh(resident.id.removeprefix(poets_own("")))
        for resident in graph.residents
        if resident.kind not in _USERS
    }
    gradient_of = {ref.source: parameter for parameter, ref in graph.gradients.items()}
    operator_ids = _operator_ids(graph, gradient_of, names)
    source_ids = dict(resident_ids)
    for operator in graph.operators + graph.bookkeeping:
        source_ids.update(_value_ids(operator, operator_ids[operator.id], gradient_of, names))

    def rename(ref: Ref) -> Ref:
        return replace(ref, source=source_ids.get(ref.source, ref.source))

    def renamed(operator: TracedOperator) -> TracedOperator:
        return replace(
            operator,
            id=operator_ids[operator.id],
            args=map_refs(operator.args, rename),
            kwargs=map_refs(operator.kwargs, rename),
            outputs=tuple(None if id is None else source_ids[id] for id in operator.outputs),
            writes=tuple(replace(write, value=source_ids[write.value]) for write in operator.writes),
            after=tuple(operator_ids[id] for id in operator.after),
            updates=tuple(resident_ids.get(id, id) for id in operator.updates),
        )

    def renamed_value(value: TracedValue) -> TracedValue:
        resident = None if value.resident is None else resident_ids[value.resident]
        return replace(value, id=source_ids[value.id], resident=resident)

    return replace(
        graph,
        operators=tuple(renamed(operator) for operator in graph.operators),
        bookkeeping=tuple(renamed(operator) for operator in graph.bookkeeping),
        values={source_ids[id]: renamed_value(value) for id, value in graph.values.items()},
        residents=tuple(replace(r, id=resident_ids.get(r.id, r.id)) for r in graph.residents),
        gradients={parameter: rename(ref) for parameter, ref in graph.gradients.items()},
        loss=rename(graph.loss),
        kept=tuple(replace(kept, refs=tuple(map(rename, kept.refs))) for kept in graph.kept),
        constants={resident_ids[id]: data for id, data in graph.constants.items()},
    )


class _Names:
    """Ids that are taken, those that the user gave from the start."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def fresh(self, wanted: str) -> str:
        """``wanted``, with a number after it where that is taken; taken from now on."""
        id, count = wanted, 1
        while id in self._taken:
            count += 1
            id = f"{wanted}_{count}"
        self._taken.add(id)
        return id


def _operator_ids(graph: TracedGraph, gradient_of: dict[str, str], names: _Names) -> dict[str, str]:
    forward = Counter(operator.module for operator in graph.operators if not operator.backward)
    parents = {parent for operator in graph.operators for parent in _parents(operator.module)}
    ids: dict[str, str] = {}
    books = {operator.id for operator in graph.bookkeeping}
    for operator in graph.operators + graph.bookkeeping:
        alone = forward[operator.module] == 1 and operator.module not in parents and operator.id not in books
        ids[operator.id] = names.fresh(_wanted(operator, alone, gradient_of))
    return ids


def _parents(module: str) -> Iterator[str]:
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


def _wanted(operator: TracedOperator, alone: bool, gradient_of: dict[str, str]) -> str:
    """The id that fits an operator best; ``alone`` where its module has no child and no other operator forward."""
    short = _short(operator)
    prefix = f"{operator.module}." if operator.module else ""
    if operator.updates and not operator.values:
        return operator.updates[0].removeprefix(poets_own("")) + ".update"
    if not operator.backward:
        return operator.module if alone and operator.module else prefix + short
    if short == "ones_like" and not operator.module:
        return "loss.backward"
    parameters = [gradient_of[id] for id in operator.values if id in gradient_of]
    if parameters:
        owner, dot, leaf = parameters[0].rpartition(".")
        several = len(parameters) == len(operator.values) or operator.id.endswith(".parameters")
        return f"{owner}{dot}backward_{leaf}" if several else f"{owner}{dot}backward"
    if operator.id.endswith(".parameters"):
        return f"{prefix}backward_weight"
    if operator.id.endswith(".input") or (short == "mm" and alone):
        return f"{prefix}backward_input"
    if short.endswith("_backward"):
        return f"{operator.module}.backward" if alone and operator.module else f"{prefix}{short[:-9]}.backward"
    return f"{prefix}backward_{short}"


def _short(operator: TracedOperator) -> str:
    schema_name = operator.target._schema.name
    return _SHORT.get(schema_name, schema_name.partition("::")[2].strip("_"))


def _value_ids(operator: TracedOperator, id: str, gradient_of: dict[str, str], names: _Names) -> dict[str, str]:
    """The main value is called like its operator, every other one as it is known."""
    known = _OUTPUT_NAMES.get(operator.target._schema.name, ())
    ids: dict[str, str] = {}
    for index, output in enumerate(operator.outputs):
        if output is None:
            continue
        if index < len(known) and known[index]:
            ids[output] = names.fresh(f"{id}.{known[index]}")
        elif not ids:
            ids[output] = id
        else:
            leaf = gradient_of[output].rpartition(".")[2] if output in gradient_of else str(index)
            ids[output] = names.fresh(f"{id}.{leaf}")
    for index, write in enumerate(operator.writes):
        ids[write.value] = names.fresh(f"{id}.written{index}") if ids else id
    return ids
