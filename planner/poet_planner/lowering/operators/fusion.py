# SPDX-License-Identifier: Apache-2.0
"""Neighbouring elementwise operators become one node.

What they hand over is never in RAM. A group takes in the one that makes an operand of it, where nothing else needs
that operand in between. Two of one quick step each stay apart: whole tensors take fewer cycles than blocks. No join
may raise the most memory that storing everything takes, nor the largest that one node takes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from math import prod

import numpy as np
from poet_profiles.firmware.operators import OPERATORS, params_key, parse_params
from poet_profiles.firmware.steps import POINTWISE, SPREAD, Step, only_step

from poet_planner.lowering.operators.draft import Draft
from poet_planner.lowering.operators.groups import Group, group_of, joined, read_by

SLACK = 200
_ACTIVATIONS = ("relu", "tanh", "sigmoid", "gelu", "silu", "hardswish", "hardsigmoid", "leaky_relu", "hardtanh")
ADD_ROWS = "add_rows"
_ALONE = {"add", "sub", "mul", "mulc", "clampc", *_ACTIVATIONS, *(f"{name}_backward" for name in _ACTIVATIONS)}


def with_joined_groups(drafts: list[Draft], lasting: Collection[str]) -> list[Draft]:
    """The same nodes, in which groups have taken in what they can.

    ``lasting`` values stay to the end.
    """
    if all(draft.op != POINTWISE for draft in drafts):
        return drafts
    joining = _Joining(drafts, lasting)
    for place in range(len(drafts)):
        while joining.takes_in(place):
            pass
    return _with_spreads([draft for draft in joining.drafts if draft is not None], lasting)


class _Joining:
    """Nodes in order, those taken in left out, and the bytes that are alive at each when everything is stored."""

    def __init__(self, drafts: list[Draft], lasting: Collection[str]) -> None:
        self.drafts: list[Draft | None] = list(drafts)
        self._groups = [_as_group(draft) for draft in drafts]
        self._bytes = {value.id: value.bytes for draft in drafts for value in draft.values}
        self._made = {value.id: place for place, draft in enumerate(drafts) for value in draft.values}
        self._readers: dict[str, list[int]] = defaultdict(list)
        for place, draft in enumerate(drafts):
            for id in dict.fromkeys(draft.operands):
                self._readers[id].append(place)
        self._lasting = frozenset(lasting)
        self._alive = np.zeros(len(drafts) + 1, dtype=np.int64)
        for id, size in self._bytes.items():
            self._alive[self._made[id] : self._last(id) + 1] += size
        self._workspace = np.array([*(draft.workspace_bytes for draft in drafts), 0])
        self._most = _with_slack(int((self._alive + self._workspace).max()))
        self._most_of_one = _with_slack(max(self._needs(draft) for draft in drafts))

    def takes_in(self, place: int) -> bool:
        """Whether the group there has taken in one that makes an operand of it."""
        draft = self.drafts[place]
        if draft is None or self._groups[place] is None:
            return False
        makers = {self._made[id] for id in draft.operands if id in self._made}
        return any(self._joins(maker, place) for maker in sorted(makers, reverse=True))

    def _joins(self, maker: int, place: int) -> bool:
        before, after = self.drafts[maker], self.drafts[place]
        first, second = self._groups[maker], self._groups[place]
        if before is None or after is None or first is None or second is None or first.size != second.size:
            return False
        if (_is_quick(before) and _is_quick(after)) or before.traced.backward != after.traced.backward:
            return False
        if any(maker < reader < place for id in before.results for reader in self._readers[id]):
            return False
        kept = [id for id in before.results if self._is_needed_beside(id, place)]
        names = dict(zip(before.results, first.outputs, strict=True))
        group = joined(first, second, names, [names[id] for id in kept])
        params = group.params()
        if params is None:
            return False
        values = (*after.values, *(value for value in before.values if value.id in kept))
        draft = replace(
            after,
            op=POINTWISE,
            params=params_key(POINTWISE, params),
            operands=group.inputs,
            results=(*after.results, *kept),
            values=values,
            workspace_bytes=OPERATORS[POINTWISE].sizes(params).workspace,
            recomputable=before.recomputable and after.recomputable,
        )
        if not self._fits(maker, place, draft, kept):
            return False
        self.drafts[maker], self.drafts[place] = None, draft
        self._groups[place] = group
        for id in dict.fromkeys((*before.operands, *after.operands)):
            self._readers[id] = sorted(
                {*self._readers[id]} - {maker, place} | ({place} if id in group.inputs else set())
            )
        self._made |= dict.fromkeys(kept, place)
        return True

    def _is_needed_beside(self, id: str, place: int) -> bool:
        """Whether another node needs a value, or it has a place of its own."""
        return not self._bytes.get(id) or id in self._lasting or any(reader != place for reader in self._readers[id])

    def _fits(self, maker: int, place: int, draft: Draft, kept: Collection[str]) -> bool:
        """Counts the bytes that are alive with the join, and keeps them if they are not too many."""
        before = self.drafts[maker]
        assert before is not None
        alive = self._alive[maker : place + 1].copy()
        for id in before.results:
            alive[: len(alive) - (id in kept)] -= self._bytes.get(id, 0)
        for id in dict.fromkeys(before.operands):
            if id in self._bytes and (last := self._last(id)) < place:
                alive[last + 1 - maker :] += self._bytes[id]
        workspace = self._workspace[maker : place + 1].copy()
        workspace[0], workspace[-1] = 0, draft.workspace_bytes
        if int((alive + workspace)[1:].max()) > self._most or self._needs(draft) > self._most_of_one:
            return False
        self._alive[maker : place + 1], self._workspace[maker : place + 1] = alive, workspace
        return True

    def _last(self, id: str) -> int:
        return len(self.drafts) if id in self._lasting else max(self._readers[id], default=self._made[id])

    def _needs(self, draft: Draft) -> int:
        read = sum(self._bytes.get(id, 0) for id in dict.fromkeys(draft.operands))
        return read + sum(value.bytes for value in draft.values) + draft.workspace_bytes


def _with_slack(size: int) -> int:
    """A register more is no reason against a join."""
    return size + size // SLACK


def _with_spreads(drafts: list[Draft], lasting: Collection[str]) -> list[Draft]:
    """Copies that repeat a small tensor, made by the groups that read them."""
    readers: dict[str, list[Draft]] = defaultdict(list)
    for draft in drafts:
        for id in dict.fromkeys(draft.operands):
            readers[id].append(draft)
    nodes = {draft.id: draft for draft in drafts}
    for copy in drafts:
        spread = _spread_of(copy)
        if spread is None or copy.results[0] in lasting:
            continue
        made = [_spreading(nodes[reader.id], copy, spread) for reader in readers[copy.results[0]]]
        if made and None not in made:
            nodes |= {draft.id: draft for draft in made if draft is not None}
            del nodes[copy.id]
    return list(nodes.values())


def _spreading(reader: Draft, copy: Draft, spread: Step) -> Draft | None:
    """The reading group with the copy's work as its first step; None if it is no such group, or would not fit."""
    if reader.op != POINTWISE or copy.operands[0] in reader.operands:
        return None
    group = group_of(parse_params(reader.params), reader.operands)
    if 4 * group.size != copy.values[0].bytes:
        return None
    group = read_by(group, copy.results[0], spread)
    inputs = tuple(copy.operands[0] if id == copy.results[0] else id for id in group.inputs)
    params = replace(group, inputs=inputs).params()
    if params is None:
        return None
    workspace = OPERATORS[POINTWISE].sizes(params).workspace
    key = params_key(POINTWISE, params)
    return replace(reader, params=key, operands=inputs, workspace_bytes=workspace)


def _spread_of(draft: Draft) -> Step | None:
    """The step that does a copy's work, if it repeats elements, and then all of them, in order."""
    if draft.op != "strided_copy" or len(draft.values) != 1 or not draft.values[0].bytes:
        return None
    p = parse_params(draft.params)
    axes = [(p[f"d{axis}"], p[f"s{axis}"]) for axis in range(4) if p[f"d{axis}"] > 1]
    own = [place for place, (_, step) in enumerate(axes) if step]
    first, end = (own[0], own[-1] + 1) if own else (0, 0)
    dense = all(axes[place][1] == prod(extent for extent, _ in axes[place + 1 : end]) for place in range(first, end))
    count = prod(extent for extent, _ in axes[first:end])
    if not dense or p["offset"] or count != p["size"] or len(own) == len(axes):
        return None
    return Step(SPREAD, "", (), (prod(extent for extent, _ in axes[end:]), count))


def _is_quick(draft: Draft) -> bool:
    """Whether it runs over whole tensors at once, and in the place of one that it reads."""
    return draft.op == ADD_ROWS or only_step(draft.params) in _ALONE


def _as_group(draft: Draft) -> Group | None:
    """What a node computes as steps, if it is elementwise."""
    if draft.refused:
        return None
    if draft.op == POINTWISE:
        return group_of(parse_params(draft.params), draft.operands)
    if draft.op == ADD_ROWS:
        p = parse_params(draft.params)
        steps = (Step(SPREAD, "s0", ("x1",), (1, p["n"])), Step("add", "s1", ("x0", "s0")))
        return Group(p["m"] * p["n"], tuple(draft.operands), steps, ("s1",))
    return None
