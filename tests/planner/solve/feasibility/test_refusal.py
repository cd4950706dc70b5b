# SPDX-License-Identifier: Apache-2.0
"""What a refusal says, against what brute force says of the RAM that it names."""

from __future__ import annotations

import math
import re

import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve import NoScheduleError, OptimiseOptions, Progress, optimise
from poet_profiles.graph import Graph, Node, Value
from poet_profiles.graph.sizes import smallest_ram_bytes

from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.random_graphs import either_graph

LARGE = Graph(
    "large",
    (
        Node("a", 1.0, 1.0, (Value("a", 147_460),)),
        Node("b", 1.0, 1.0, (Value("b", 4_004),), ("a",)),
        Node("c", 1.0, 1.0, (Value("c", 300_000),), ("b",)),
    ),
    resident_bytes=100,
)


def refusal(graph: Graph, ram: int, deadline_s: float | None = None) -> NoScheduleError:
    with pytest.raises(NoScheduleError) as caught:
        optimise(graph, ram, deadline_s, OptimiseOptions(time_limit_s=2.0))
    return caught.value


@pytest.mark.parametrize(
    ("ram", "said"),
    [
        (20_480, "c needs 296.9 KB by itself, so 20 KB cannot do; 297 KB are known to do, and hardly less"),
        (10, "c needs 304104 bytes by itself, so 10 bytes cannot do; 304104 bytes are known to do, and hardly less"),
        (304_100, "c needs 304104 bytes by itself, so 304100 bytes cannot do; 304104 bytes are known to do, and"),
    ],
)
def test_the_node_that_is_too_large_comes_first_and_all_is_in_one_unit(ram: int, said: str) -> None:
    """What is needed is rounded down, and what does is rounded up: taken as --ram, it does."""
    assert smallest_ram_bytes(LARGE) == 304_104
    assert str(refusal(LARGE, ram)).startswith(said)
    assert optimise(LARGE, 297 * 1024, None, OptimiseOptions(time_limit_s=1.0)).peak_bytes <= 297 * 1024


def test_it_is_said_before_any_search() -> None:
    notes: list[str] = []

    def hear(progress: Progress) -> None:
        notes.append(progress.note)

    with pytest.raises(NoScheduleError):
        optimise(LARGE, 20_480, None, OptimiseOptions(time_limit_s=1.0, progress=hear))
    assert notes[0].startswith("c needs 296.9 KB by itself, so 20 KB cannot do; looking for ")


def test_too_little_time_is_said_as_such() -> None:
    lack = refusal(LARGE, 400_000, 2.5)
    assert str(lack).startswith("computing every node once takes 3 s, so 2.5 s cannot do; 297 KB are known to do")
    assert str(lack).endswith("in 390.6 KB the shortest step found takes 3 s")


@pytest.mark.parametrize("seed", range(8))
def test_the_ram_that_is_named_does_and_the_one_that_was_asked_for_does_not(seed: int) -> None:
    graph = either_graph(seed)
    deadline_s = 1.2 * store_all_schedule(graph).time_s
    for ram in (smallest_ram_bytes(graph) - 4, smallest_ram_bytes(graph)):
        if math.isfinite(least_energy(graph, ram, deadline_s)):
            continue
        lack = refusal(graph, ram, deadline_s)
        enough = re.search(r"(\d+) bytes are known to do within", str(lack))
        assert enough and int(enough[1]) == lack.smallest_ram_bytes
        assert math.isfinite(least_energy(graph, lack.smallest_ram_bytes, deadline_s))
        is_certain = ram < smallest_ram_bytes(graph)
        assert (f"so {ram} bytes cannot do" in str(lack)) == is_certain
        assert str(lack).count("(") <= 1
