# SPDX-License-Identifier: Apache-2.0
"""Why there is no schedule within the limits, in words: first what is certain before any search, then what would do."""

from __future__ import annotations

from math import ceil, floor, inf

from poet_profiles.graph import Graph

from poet_planner.solve.feasibility.minimum_ram import Bracket, with_possible_deadline
from poet_planner.solve.instance import WORD, Problem, busy_s, working_set_bytes
from poet_planner.solve.options import NoScheduleError
from poet_planner.solve.search.incumbent import Incumbent

KB = 1024


def certain_refusal(graph: Graph, problem: Problem) -> str:
    """What rules out every schedule before any search: one node, or too little time. Empty: neither does."""
    asked, needed = _asked_bytes(graph, problem), _needed_bytes(graph, problem)
    if needed > asked:
        unit = _unit(asked, needed)
        return f"{_largest(graph, problem)} {_at_least(needed, unit)} by itself, so {_text(asked, unit)} cannot do"
    if busy_s(problem) > problem.deadline:
        return f"computing every node once takes {busy_s(problem):.6g} s, so {problem.deadline:.6g} s cannot do"
    return ""


def no_schedule(graph: Graph, problem: Problem, bracket: Bracket, fastest: Incumbent | None) -> NoScheduleError:
    """The error that names a RAM and a time that are enough, as far as they are known.

    Parameters
    ----------
    bracket : Bracket
        Of the RAM of `with_possible_deadline`.
    fastest : Incumbent or None
        `fastest_schedule`.
    """
    asked, needed = _asked_bytes(graph, problem), _needed_bytes(graph, problem)
    enough, too_small = (graph.resident_bytes + size for size in (bracket.feasible_bytes, bracket.infeasible_bytes))
    unit = _unit(asked, needed)
    ram = _text(asked, unit)
    fact = certain_refusal(graph, problem)
    if not fact:
        found = "fits" if problem.budget <= bracket.infeasible_bytes else "was found in"
        fact = f"no schedule {found} {ram}{_within(problem)}"
    known = f"{_at_most(enough, unit)} are known to do{_within(with_possible_deadline(problem))}"
    if bracket.is_close:
        known += ", and hardly less"
    elif too_small > max(asked, needed - WORD):
        known += f", {_at_least(too_small, unit)} are proven too small (--time-limit narrows that)"
    if fastest is not None:
        known += f"; in {ram} the shortest step found takes {fastest.time:.6g} s"
    return NoScheduleError(f"{fact}; {known}", enough, inf if fastest is None else fastest.time, too_small)


def _asked_bytes(graph: Graph, problem: Problem) -> int:
    return graph.resident_bytes + problem.budget


def _needed_bytes(graph: Graph, problem: Problem) -> int:
    """Of the node with the largest working set, with what is resident."""
    return graph.resident_bytes + int(working_set_bytes(problem).max(initial=0))


def _largest(graph: Graph, problem: Problem) -> str:
    """That node in words; one that computes nothing stands for an end that values live to see."""
    node = graph.nodes[int(working_set_bytes(problem).argmax())]
    is_end = node.operation is None and node.workspace_bytes == sum(value.bytes for value in node.values) == 0
    return "what lives until the end (gradients) needs" if is_end else f"{node.id} needs"


def _within(problem: Problem) -> str:
    return "" if problem.deadline == inf else f" within {problem.deadline:.6g} s"


def _unit(asked: int, needed: int) -> int:
    """Bytes in the unit of all amounts of a message: KB, where tenths of them tell these two apart."""
    return KB if asked >= KB and abs(needed - asked) >= KB else 1


def _text(amount: float, unit: int) -> str:
    return f"{amount} bytes" if unit == 1 else f"{amount / unit:.1f}".removesuffix(".0") + " KB"


def _at_least(amount: int, unit: int) -> str:
    """Rounded down: so much is certainly needed."""
    return _text(amount if unit == 1 else floor(10 * amount / unit) / 10 * unit, unit)


def _at_most(amount: int, unit: int) -> str:
    """Rounded up: so much certainly does."""
    return _text(amount if unit == 1 else ceil(10 * amount / unit) / 10 * unit, unit)
