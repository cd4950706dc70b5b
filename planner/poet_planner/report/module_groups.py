# SPDX-License-Identifier: Apache-2.0
"""Operators grouped by the module that they belong to: how the pictures of long networks are labelled."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby

from poet_profiles.firmware.operators import OPTIMIZERS
from poet_profiles.graph import Node

# The least share of all operators that a group has: so much room its label takes.
LEAST_SHARE = 0.016
UPDATES = "updates"


@dataclass(frozen=True)
class Group:
    """Operators ``first`` to ``end`` (exclusive) of a list, all of the module ``name``."""

    name: str
    first: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.first


def module_groups(nodes: list[Node]) -> list[Group]:
    """Neighbours of one module and pass, as deep in the network's structure as there is room for.

    Operators that stand alone between modules belong to no group, or to that around them. ``nodes`` have ids such as
    ``layer1.0.conv2.backward_weight``, in the order in which they are drawn.
    """
    deepest = max((len(_path(node.id)) for node in nodes), default=0)
    levels = [_groups(nodes, depth) for depth in range(deepest, 0, -1)]
    most = max((_covered(groups) for groups in levels), default=0)
    return next((groups for groups in levels if 2 * _covered(groups) > most), [])


def module_of(id: str, depth: int) -> str:
    """The first parts of an operator's id, ``depth`` at most."""
    return "".join(_path(id)[:depth]).lstrip(".") or id


def in_words(id: str) -> str:
    """An id as axes have it, ``conv1.weight, update``: without the two dots before what poet adds to an operator."""
    return ", ".join(part for part in id.split("..") if part) or id


def _groups(nodes: list[Node], depth: int) -> list[Group]:
    """Runs of one module and pass, joined where a few operators of others stand between them."""
    least = max(2.0, LEAST_SHARE * len(nodes))
    groups: list[Group] = []
    last: tuple[str, bool] | None = None
    first = 0
    for key, members in groupby(nodes, key=lambda node: (_name(node, depth), node.backward)):
        run = Group(key[0], first, first + sum(1 for _ in members))
        first = run.end
        if key == last and run.first - groups[-1].end < least:
            groups[-1] = Group(run.name, groups[-1].first, run.end)
        elif run.size > 1 and 4 * run.size >= least:
            groups.append(run)
            last = key
    return [group for group in groups if group.size >= least]


def _name(node: Node, depth: int) -> str:
    """Updates stand together, in an order that no module has."""
    is_update = node.operation is not None and node.operation.op in OPTIMIZERS
    return UPDATES if is_update else module_of(node.id, depth)


def _covered(groups: list[Group]) -> int:
    return sum(group.size for group in groups if group.name != UPDATES)


def _path(id: str) -> list[str]:
    """Its parts, each with the dots before it."""
    return re.findall(r"\.*[^.]+", id) or [id]
