# SPDX-License-Identifier: Apache-2.0
"""What a refusal says, against what brute force says of the RAM that it names."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import count

import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import NoScheduleError, OptimiseOptions, Progress, optimise
from poet_planner.solve.optimise import _Run
from poet_planner.solve.options import Refused
from poet_profiles.errors import NO_SCHEDULE, NOT_FOUND
from poet_profiles.graph import Graph, Node, Value
from poet_profiles.graph.sizes import smallest_ram_bytes

from benchmarks.planner.layered import layered_graph
from tests.support.graphs.blocks import UNPLACEABLE, graph_of
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
        (20_480, "c needs 296.9 KB by itself, so 20 KB cannot do; 297 KB do"),
        (10, "c needs 304104 bytes by itself, so 10 bytes cannot do; 304104 bytes do"),
        (304_100, "c needs 304104 bytes by itself, so 304100 bytes cannot do; 304104 bytes do"),
    ],
)
def test_the_node_that_is_too_large_comes_first_and_all_is_in_one_unit(ram: int, said: str) -> None:
    """What is needed is rounded down, and what does is rounded up: taken as --ram, it does."""
    assert smallest_ram_bytes(LARGE) == 304_104
    assert str(refusal(LARGE, ram)) == said
    assert optimise(LARGE, 297 * 1024, None, OptimiseOptions(time_limit_s=1.0)).peak_bytes <= 297 * 1024


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("input..int8", "input on int8"),
        ("conv..operand0", "a copy that conv reads"),
        ("cat..padded1", "cat (padded1)"),
        ("conv", "conv"),
    ],
)
def test_a_node_is_named_by_what_the_user_wrote(id: str, words: str) -> None:
    graph = Graph("large", (Node(id, 1.0, 1.0, (Value(id, 147_460),)),), resident_bytes=100)
    assert str(refusal(graph, 20_480)).startswith(f"{words} needs 144.1 KB by itself")


def test_it_is_said_before_any_search() -> None:
    notes: list[str] = []

    def hear(progress: Progress) -> None:
        notes.append(progress.note)

    with pytest.raises(NoScheduleError):
        optimise(LARGE, 20_480, None, OptimiseOptions(time_limit_s=1.0, progress=hear))
    assert notes[0].startswith("c needs 296.9 KB by itself, so 20 KB cannot do; looking for ")


def test_too_little_time_is_said_as_such() -> None:
    lack = refusal(LARGE, 400_000, 2.5)
    assert str(lack) == "computing every node once takes 3 s, so 2.5 s cannot do; in 390.6 KB a step of 3 s was found"
    assert (lack.impossible_below_s, lack.possible_s) == (3.0, 3.0)
    assert lack.possible_bytes is None, "no RAM does within 2.5 s"


@pytest.mark.parametrize("seed", range(8))
def test_the_ram_that_is_named_does_and_none_exists_below_what_is_impossible(seed: int) -> None:
    graph = either_graph(seed)
    deadline_s = 1.2 * store_all_schedule(graph).time_s
    for ram in (smallest_ram_bytes(graph) - 4, smallest_ram_bytes(graph)):
        if math.isfinite(least_energy(graph, ram, deadline_s)):
            continue
        lack = refusal(graph, ram, deadline_s)
        enough = re.search(r"(\d+) bytes do within", str(lack))
        assert enough and int(enough[1]) == lack.possible_bytes
        assert optimise(graph, lack.possible_bytes, deadline_s, OptimiseOptions(time_limit_s=2.0))
        assert not math.isfinite(least_energy(graph, lack.impossible_below_bytes - 4, deadline_s))
        is_certain = ram < smallest_ram_bytes(graph)
        assert (f"so {ram} bytes cannot do" in str(lack)) == is_certain
        assert str(lack).count("(") <= 1


def proven(graph: Graph, ram: int) -> int:
    """Whether a refusal is an answer, by its exit code."""
    lack = refusal(graph, ram)
    assert lack.document() | {"message": ""} == {
        "status": lack.status,
        "message": "",
        "exit_code": lack.exit_code,
        "impossible_below_bytes": lack.impossible_below_bytes,
        "possible_bytes": lack.possible_bytes,
        "impossible_below_s": lack.impossible_below_s,
        "possible_s": lack.possible_s,
    }
    return lack.exit_code


def test_what_is_not_proven_has_an_exit_code_of_its_own() -> None:
    """Twenty bytes fit every moment of the schedule, but no offsets."""
    assert proven(LARGE, 20_480) == NO_SCHEDULE
    graph = graph_of(UNPLACEABLE)
    assert proven(graph, 20) == NOT_FOUND
    lack = refusal(graph, 20)
    assert lack.status is Refused.NO_OFFSETS
    assert str(lack).startswith("schedules fit 20 bytes, but for none that was tried were offsets found there; ")
    assert lack.possible_bytes is not None and lack.impossible_below_bytes == 20
    assert optimise(graph, lack.possible_bytes, None, OptimiseOptions(time_limit_s=2.0)).arena_bytes > 20


def test_no_number_depends_on_the_clock_or_on_the_ram_that_was_asked_for() -> None:
    graph = layered_graph(40, 5, 0)
    smallest = smallest_ram_bytes(graph)
    found = set()
    for ram in (smallest // 2, smallest - 4):
        for tick_s in (0.0, 100.0):
            clock = map(float, count(0, tick_s)).__next__
            with pytest.raises(NoScheduleError) as caught:
                optimise(graph, ram, None, OptimiseOptions(time_limit_s=2.0, clock=clock))
            found.add((caught.value.impossible_below_bytes, caught.value.possible_bytes))
    assert len(found) == 1


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_last_resort_of_a_search_that_found_nothing_is_a_sound_schedule(
    seed: int, dma: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its energy is none of the search for time, and it is the one that a refusal in less RAM calls possible."""
    monkeypatch.setattr(_Run, "_work_in_stages", lambda run: None)
    graph = replace(either_graph(seed), dma=dma)
    lack = refusal(graph, graph.resident_bytes)
    assert lack.possible_bytes is not None
    for ram in (lack.possible_bytes, lack.possible_bytes + 400):
        made = optimise(graph, ram, None, OptimiseOptions(time_limit_s=1.0))
        assert verify(graph, made).faults == ()
        assert made.peak_bytes <= ram
    assert refusal(graph, lack.possible_bytes - 4).possible_bytes == lack.possible_bytes
