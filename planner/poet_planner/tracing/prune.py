# SPDX-License-Identifier: Apache-2.0
"""Leaves out what neither the loss, nor a gradient, nor a buffer needs, and what only keeps books.

An operator that draws random numbers stays, wanted or not: without it every later one would draw others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from poet_runtime.traced_graph import TracedGraph, TracedOperator


def prune(graph: TracedGraph) -> TracedGraph:
    """The same graph without dead operators, unused outputs set to None, bookkeeping set apart."""
    alive, needed = living(graph, graph.operators)
    kept = [
        replace(operator, outputs=tuple(id if id in needed else None for id in operator.outputs)) for operator in alive
    ]
    books = _bookkeeping(kept)
    operators = tuple(operator for operator in kept if operator.id not in books)
    bookkeeping = tuple(operator for operator in kept if operator.id in books)
    used = {id for operator in kept for id in operator.values}
    return replace(
        graph,
        operators=operators,
        bookkeeping=bookkeeping,
        values={id: value for id, value in graph.values.items() if id in used},
    )


def living(graph: TracedGraph, operators: Sequence[TracedOperator]) -> tuple[list[TracedOperator], set[str]]:
    """Those of the operators that something needs of the graph, and the ids of all that is read."""
    needed = {ref.source for ref in graph.results}
    kept: list[TracedOperator] = []
    for operator in reversed(operators):
        if operator.random or operator.updates or needed.intersection(operator.values):
            needed.update(ref.source for ref in operator.refs)
            kept.append(operator)
    kept.reverse()
    return kept, needed


def _bookkeeping(operators: list[TracedOperator]) -> set[str]:
    """Ids of the buffers' updates, and of what they are computed by, that nothing else in the step depends on."""
    makers = {id: operator for operator in operators for id in operator.values}
    users: dict[str, set[str]] = {}
    for operator in operators:
        for ref in operator.refs:
            users.setdefault(ref.source, set()).add(operator.id)
    books: set[str] = set()
    for operator in operators:
        if operator.updates and not operator.values:
            chain = _computing(operator, makers)
            ids = {member.id for member in chain}
            used = {user for member in chain for id in member.values for user in users.get(id, ())}
            if used <= ids and not any(member.random for member in chain):
                books |= ids
    return books


def _computing(operator: TracedOperator, makers: dict[str, TracedOperator]) -> list[TracedOperator]:
    """An operator and all that its operands come from."""
    chain: dict[str, TracedOperator] = {}
    pending = [operator]
    while pending:
        current = pending.pop()
        if current.id not in chain:
            chain[current.id] = current
            pending += [makers[ref.source] for ref in current.refs if ref.source in makers]
    return list(chain.values())
