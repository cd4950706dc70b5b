# SPDX-License-Identifier: Apache-2.0
"""What of a step exists a tile at a time, as its nodes' names say."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import dropwhile, groupby

from poet_profiles.graph import Graph, Node, Value
from poet_profiles.plan_folder.summary import TiledValue

from poet_planner.report.module_groups import Group
from poet_planner.report.quantities import bytes_text

OF_A_TILE = re.compile(r"(.+)\.\.(band|tile|filters)(\d+)")

OF_A_CHAIN = re.compile(r"\.\.(begun|band|tile|filters|rows|held|sums)\d")


@dataclass(frozen=True)
class Chain(Group):
    """Operators that are computed tile by tile: the first, the last, and how many tiles."""

    tiles: int


def tiled_values(graph: Graph, whole: Graph) -> tuple[TiledValue, ...]:
    """Values of the ``whole`` step of which ``graph`` has tiles alone, the largest first."""
    there, tiles = set[str](), defaultdict[str, list[Value]](list)
    for value in (value for node in graph.nodes for value in node.values):
        there.add(value.id)
        if (made := OF_A_TILE.fullmatch(value.id)) is not None:
            tiles[made[1]].append(value)
    gone = [value for node in whole.nodes for value in node.values if value.id in tiles and value.id not in there]
    return tuple(
        TiledValue(value.id, value.bytes, len(tiles[value.id]), max(one.bytes for one in tiles[value.id]))
        for value in sorted(gone, key=lambda value: -value.bytes)
    )


def tiles_text(values: tuple[TiledValue, ...], most: int = 3) -> str:
    """The largest of them in words, each with its tiles."""
    told = [
        f"{one.value} ({bytes_text(one.bytes)}, in {one.tiles} of {bytes_text(one.tile_bytes)})"
        for one in values[:most]
    ]
    return ", ".join([*told, *["…"] * (len(values) > most)])


def chains(nodes: list[Node]) -> list[Chain]:
    """Runs of neighbours that are computed tile by tile."""
    found = []
    for _, run in groupby(enumerate(nodes), key=lambda pair: (".." in pair[1].id.lstrip("."), pair[1].backward)):
        places = [*dropwhile(lambda pair: OF_A_CHAIN.search(pair[1].id) is None, run)]
        made = [of for _, node in places if (of := OF_A_TILE.search(node.id)) is not None]
        tiles, end = {of[3] for of in made}, places[-1][0] + 1 if places else 0
        if len(tiles) > 1:  # the last tile of what is gathered bears the whole's name
            last = [one.id for one in nodes[end : end + 1] if any(of.id.startswith(f"{one.id}..") for _, of in places)]
            names = [re.split(r"\.\.|\.backward", id)[0] for id in (*(of[1] for of in made), *last)]
            words = " … ".join(dict.fromkeys((names[0], names[-1])))
            found.append(Chain(words, places[0][0], end + len(last), len(tiles)))
    return found
