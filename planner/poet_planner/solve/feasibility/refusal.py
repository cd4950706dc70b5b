# SPDX-License-Identifier: Apache-2.0
"""Why there is no schedule within the limits, in words: what is certain, then what does, then what is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, floor, inf

from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import aligned

from poet_planner.solve.feasibility.minimum_ram import CLOSE
from poet_planner.solve.instance import Problem, busy_s, working_set_bytes
from poet_planner.solve.options import NoScheduleError, Refused

KB = 1024
MORE_WORK = "--time-limit gives the search more work"
# What is there throughout by its kind, in words; others by the kind's own name.
STAYS = {"parameter": "parameters", "gradient": "gradients", "state": "moments and statistics", "input": "inputs"}
TOLD_FROM = 0.1  # of the RAM asked for: less is not what keeps a step from it
PARTS = frozenset({"", "rows", "band", "held", "begun", "sums", "filters", "tile"})  # in names that lowering adds


@dataclass(frozen=True)
class Known:
    """What is known of the limits of a graph, or of one of several forms of a step. Bytes include what is resident."""

    # asked_bytes, asked_s: the limits asked for; infinite seconds: no deadline.
    asked_bytes: int
    asked_s: float
    needed_bytes: int  # what the largest node needs by itself; ``largest`` names it
    largest: str
    computing_s: float  # what computing every node once takes
    impossible_below_bytes: int  # in less there is no schedule, as is proven
    possible_bytes: int | None = None  # in as much one was found
    possible_s: float | None = None  # the shortest time that was found within the RAM asked for
    form: str = ""  # which form of the step this is, in words; empty where there is only one
    staying: Mapping[str, int] = field(default_factory=dict)  # bytes that are there throughout, by their kind


def known_of(graph: Graph, problem: Problem) -> Known:
    """What is known before any search."""
    needed, staying = graph.resident_bytes + int(working_set_bytes(problem).max(initial=0)), Counter[str]()
    for one in graph.residents:
        staying[one.kind] += aligned(one.bytes)
    return Known(
        asked_bytes=graph.resident_bytes + problem.budget,
        asked_s=problem.deadline,
        needed_bytes=needed,
        largest=_largest(graph, problem),
        computing_s=busy_s(problem),
        impossible_below_bytes=needed,
        staying=staying,
    )


def certain_refusal(known: Known) -> str:
    """What rules out every schedule before any search: one node, or too little time. Empty: neither does."""
    unit = _unit(known)
    if known.needed_bytes > known.asked_bytes:
        needed, asked = _at_least(known.needed_bytes, unit), _text(known.asked_bytes, unit)
        return f"{known.largest} needs {needed} by itself{_in(known.form)}, so {asked} cannot do"
    if known.computing_s > known.asked_s:
        return f"computing every node once takes {known.computing_s:.6g} s, so {known.asked_s:.6g} s cannot do"
    return ""


def no_schedule(known: Known, lacks_offsets: bool = False, possible_form: str = "") -> NoScheduleError:
    """The error that says all that is known.

    ``lacks_offsets``: schedules were found that fit, and no offsets for them. ``possible_form`` is the form of the step
    that does with ``known.possible_bytes``, in words.
    """
    unit = _unit(known)
    fact, asked = certain_refusal(known), _text(known.asked_bytes, unit)
    is_proven = bool(fact) or known.asked_bytes < known.impossible_below_bytes
    status = Refused.IMPOSSIBLE if is_proven else Refused.NO_OFFSETS if lacks_offsets else Refused.NOT_FOUND
    if lacks_offsets and not is_proven:
        fact = f"schedules fit {asked}{_within(known)}, but for none that was tried were offsets found there"
    fact = fact or f"no schedule {'fits' if is_proven else 'was found in'} {asked}{_within(known)}"
    said = [fact, *_staying(known, unit)]
    lower, enough = known.impossible_below_bytes, known.possible_bytes
    if lower > max(known.needed_bytes, known.asked_bytes + 1):
        said.append(f"less than {_at_least(lower, unit)} is proven too little")
    if enough is not None and enough > known.asked_bytes:
        said.append(f"{_at_most(enough, unit)} do{_in(possible_form)}{_within(known)}")
    if known.possible_s is not None and known.possible_s > known.asked_s:
        said.append(f"in {asked} a step of {known.possible_s:.6g} s was found")
    is_open = enough is None or enough > CLOSE * max(lower, known.asked_bytes + 1)
    if status is not Refused.IMPOSSIBLE:
        said.append(f"whether {asked} do is not known: {MORE_WORK}")
    elif is_open and known.computing_s <= known.asked_s:
        said.append(f"what lies between is not known: {MORE_WORK}")
    return NoScheduleError("; ".join(said), status, lower, enough, known.computing_s, known.possible_s)


def _largest(graph: Graph, problem: Problem) -> str:
    """The node of the largest working set; one that computes nothing stands for an end that values live to see."""
    node = graph.nodes[int(working_set_bytes(problem).argmax())]
    is_end = node.operation is None and node.workspace_bytes == sum(value.bytes for value in node.values) == 0
    return "what lives until the end (gradients)" if is_end else _in_users_words(node.id)


def _staying(known: Known, unit: int) -> list[str]:
    """What no page and no tile takes from the RAM, largest first, where that is much and one node does not fit."""
    told = [(STAYS.get(kind, kind), size) for kind, size in known.staying.items()]
    told = sorted((one for one in told if one[1] >= TOLD_FROM * known.asked_bytes), key=lambda one: -one[1])
    if not told or known.needed_bytes <= known.asked_bytes:
        return []
    parts = " and ".join(", ".join(f"{_at_least(size, unit)} of {name}" for name, size in told).rsplit(", ", 1))
    return [f"of it no page and no tile takes {parts}"]


def _in_users_words(id: str) -> str:
    """A node by what the user wrote: what lowering adds to it stands behind two dots."""
    of, _, added = id.partition("..")
    if not added:
        return id
    if added.startswith("operand"):
        return f"a copy that {of} reads"
    if added.partition("..")[0].rstrip("0123456789.") in PARTS:
        return f"a part of {of}"
    return f"{of} on int8" if added == "int8" else f"{of} ({added})"


def _in(form: str) -> str:
    return f" ({form})" if form else ""


def _within(known: Known) -> str:
    return "" if known.asked_s == inf else f" within {known.asked_s:.6g} s"


def _unit(known: Known) -> int:
    """Bytes in the unit of all amounts of a message: KB, where what was asked for is a KB from all others."""
    others = (known.needed_bytes, known.impossible_below_bytes, known.possible_bytes)
    apart = all(abs(amount - known.asked_bytes) >= KB for amount in others if amount is not None)
    return KB if known.asked_bytes >= KB and apart else 1


def _text(amount: float, unit: int) -> str:
    return f"{amount} bytes" if unit == 1 else f"{amount / unit:.1f}".removesuffix(".0") + " KB"


def _at_least(amount: int, unit: int) -> str:
    """Rounded down: so much is certainly needed."""
    return _text(amount if unit == 1 else floor(10 * amount / unit) / 10 * unit, unit)


def _at_most(amount: int, unit: int) -> str:
    """Rounded up: so much certainly does."""
    return _text(amount if unit == 1 else ceil(10 * amount / unit) / 10 * unit, unit)
