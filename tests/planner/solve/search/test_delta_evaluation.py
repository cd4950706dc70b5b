# SPDX-License-Identifier: Apache-2.0
"""Delta evaluation of random edits, against the full evaluation of the edited sequence."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.instance import Problem, build_problem, inputs_of
from poet_planner.solve.search import annealing
from poet_planner.solve.search.delta_evaluation import DeltaEvaluation, new_delta_evaluation
from poet_planner.solve.search.evaluation import EXTRAS, Evaluation, Workspace, evaluate, new_workspace

from tests.support.engine.edits import (
    CHANGES,
    DROPPED,
    EDITS,
    LAST,
    LEFT_OUT,
    PER_PLACE,
    clear_edits,
    evaluate_edits,
    index_touches,
    leave_out,
    live_before,
    next_use,
    put_in,
    room_for,
    take_back,
    write_edited,
)
from tests.support.graphs.paper_graphs import paper_graph
from tests.support.graphs.random_graphs import random_graph
from tests.support.graphs.taking_over import with_random_taking_over

MOST_NODES = 12
EDITED_SEQUENCES = 40
QUERIES = 8


def evaluated(problem: Problem, rng: random.Random) -> tuple[Workspace, Evaluation]:
    """The store-all schedule with recomputations and page-ins put in here and there."""
    n = len(problem.node_time)
    events: list[int] = []
    for node in range(n):
        events += [j for again in range(node) if rng.random() < 0.3 for j in recomputing(problem, again)]
        events += [n + v for v in range(problem.output_start[node]) if problem.pageable[v] and rng.random() < 0.15]
        events.append(node)
    w = new_workspace(problem, np.ones(1, dtype=np.uint64))
    result = evaluate(problem, np.array(events, dtype=np.int64), len(events), w)
    assert result.length >= n
    assert index_touches(problem, w, result.length)
    return w, result


def recomputing(problem: Problem, j: int) -> list[int]:
    """A recomputation of j, after those of what it takes over; nothing where one of them may not be repeated."""
    before = [recomputing(problem, int(problem.producer[v])) for v in inputs_of(problem, j) if problem.taken[v]]
    return [*chain.from_iterable(before), j] if problem.recomputable[j] and all(before) else []


def evaluated_at(
    seed: int, rng: random.Random, least: float, most: float, in_place: float = 0.0
) -> tuple[Problem, Workspace, Evaluation, Workspace]:
    """A random graph at a share of the store-all schedule's peak, and a workspace for comparisons.

    ``in_place``: the share of nodes that take over an input, if they may.
    """
    graph = with_random_taking_over(random_graph(seed, MOST_NODES), seed, in_place)
    problem = build_problem(graph, int(rng.uniform(least, most) * store_all_schedule(graph).peak_bytes), None)
    return problem, *evaluated(problem, rng), new_workspace(problem, np.ones(1, dtype=np.uint64))


def edit_at_random(problem: Problem, w: Workspace, length: int, t: DeltaEvaluation, rng: random.Random) -> None:
    """Events left out, put in (computes after the first of their node), moved; something put in and taken back."""
    n = len(problem.node_time)
    left_out: set[int] = set()
    for _ in range(rng.randint(1, 5)):
        keys = [place * PER_PLACE + LAST for place in range(length + 1)] + t.edit_key[: t.counters[EDITS]].tolist()
        key, place = rng.choice(keys), rng.randrange(length)
        what = rng.random()
        if what < 0.3 and place not in left_out:
            left_out.add(place)
            leave_out(t, place)
        elif what < 0.5 and place not in left_out:
            left_out.add(place)
            put_in(t, key, w.kept[place])
            leave_out(t, place)
        elif what < 0.9:
            computes = [j for j in range(n) if problem.recomputable[j] and w.first[j] < key // PER_PLACE]
            page_ins = (n + np.nonzero(problem.pageable)[0]).tolist()
            if computes + page_ins:
                put_in(t, key, rng.choice(computes + page_ins))
        else:
            put_in(t, key, 0)
            at = next(e for e in range(t.counters[EDITS]) if t.edit_event[e] == 0)
            take_back(t, at)


def remaining(w: Workspace, t: DeltaEvaluation, length: int) -> list[tuple[int, int, int]]:
    """Event, RAM and key of all that is not dropped."""
    left_out = {int(t.edit_place[e]) for e in range(t.counters[EDITS]) if t.edit_event[e] == LEFT_OUT}
    there = [(w.kept[k], t.memory[k], k * PER_PLACE + LAST) for k in range(length) if k not in left_out]
    edits = [e for e in range(t.counters[EDITS]) if t.edit_event[e] != LEFT_OUT]
    there += [(t.edit_event[e], t.edit_memory[e], t.edit_key[e]) for e in edits]
    return sorted(((int(a), int(b), int(c)) for a, b, c in there if b != DROPPED), key=lambda one: one[2])


def lacks_a_compute(problem: Problem, events: list[int]) -> bool:
    """Of any node at all, or before a page-in: only a full evaluation notices this."""
    n = len(problem.node_time)
    computed: set[int] = set()
    for event in events:
        if event >= n and int(problem.producer[event - n]) not in computed:
            return True
        computed.add(event)
    return any(j not in computed for j in range(n))


@pytest.mark.parametrize("seed", range(60))
def test_figures_ram_and_lifetimes_are_those_of_the_full_evaluation(seed: int) -> None:
    rng = random.Random(seed)
    problem, w, result, whole = evaluated_at(seed, rng, 0.5, 1.0, in_place=0.8 * (seed % 2))
    t = new_delta_evaluation(problem)
    compared = 0
    for _ in range(EDITED_SEQUENCES):
        clear_edits(w, t, result.length)
        edit_at_random(problem, w, result.length, t, rng)
        tried = evaluate_edits(problem, w, result, t)
        length = write_edited(w, t, result.length)
        expected = evaluate(problem, w.candidate, length, whole)
        if expected.length < 0:
            assert tried.length < 0 or lacks_a_compute(problem, w.candidate[:length].tolist())
            continue
        compared += 1
        assert tried.length == 1
        assert tried.energy == pytest.approx(expected.energy, rel=1e-12)
        assert tried.time == (0.0 if problem.dma else pytest.approx(expected.time, rel=1e-12))
        assert tried.overflow == expected.overflow
        there = remaining(w, t, result.length)
        assert [event for event, _, _ in there] == whole.kept[: expected.length].tolist()
        assert [memory for _, memory, _ in there] == whole.memory[: expected.length].tolist()
        assert index_touches(problem, whole, expected.length)
        for _ in range(QUERIES):
            place, v = rng.randrange(expected.length), rng.randrange(len(problem.size))
            key = there[place][2]
            touches = range(whole.touch_start[v], whole.touch_start[v + 1])
            before = [at for at in touches if whole.touch_place[at] < place]
            live = bool(before) and bool(whole.touch_live[before[-1]])
            assert live_before(w, t, key, v) == live
            if live:
                use = next(whole.touch_place[at] for at in touches if whole.touch_place[at] >= place)
                assert next_use(problem, w, t, key - 1, v) == there[use][2]
    assert compared > 0


def test_room_for_a_page_in_is_where_keeping_the_value_takes_no_byte_too_many() -> None:
    answers = set()
    for seed in range(40):
        problem, w, result, whole = evaluated_at(seed, random.Random(seed), 0.8, 1.1)
        t = new_delta_evaluation(problem)
        for place in w.extra[: w.counters[EXTRAS]].tolist():
            if w.kept[place] < len(problem.node_time) or w.memory[place] > problem.budget:
                continue
            clear_edits(w, t, result.length)
            room = room_for(problem, w, t, place)
            kept = np.delete(w.kept[: result.length], place)
            assert room == (evaluate(problem, kept, len(kept), whole).overflow <= result.overflow)
            answers.add(room)
    assert answers == {False, True}


@pytest.mark.parametrize("dma", [False, True])
def test_what_is_accepted_has_the_figures_of_the_full_evaluation(dma: bool) -> None:
    graph, plain = paper_graph("resnet18_cifar.m4")
    problem = replace(build_problem(graph, int(0.4 * plain.peak_bytes), 1.5 * plain.time_s), dma=dma)
    n = len(problem.node_time)
    random_state = np.array([5], dtype=np.uint64)
    w, other, whole = (new_workspace(problem, random_state) for _ in range(3))
    state = annealing.new_state(len(w.candidate))
    state.figures[: annealing.ENERGY_CAP] = 1
    state.figures[annealing.TEMPERATURE] = 1e-3 * problem.node_energy.sum()
    assert annealing.start_from(problem, w, state, np.arange(n), n)
    before = state.current[:n].tolist()
    for _ in range(20):
        annealing.anneal(problem, w, other, new_delta_evaluation(problem), new_delta_evaluation(problem), state, 100)
        current = state.current[: state.lengths[annealing.CURRENT_LENGTH]]
        expected = evaluate(problem, current, len(current), whole)
        assert expected.length == len(current)
        assert state.figures[annealing.ENERGY] == pytest.approx(expected.energy, rel=1e-12)
        assert state.figures[annealing.TIME] == pytest.approx(expected.time, rel=1e-12)
        assert state.figures[annealing.OVERFLOW] == expected.overflow
    assert current.tolist() != before


def test_more_edits_than_there_is_room_for_are_refused() -> None:
    problem = build_problem(random_graph(3, MOST_NODES), 1_000_000, None)
    w, result = evaluated(problem, random.Random(3))
    t = new_delta_evaluation(problem)
    clear_edits(w, t, result.length)
    assert sum(put_in(t, LAST, 0) for _ in range(PER_PLACE)) == LAST
    clear_edits(w, t, result.length)
    put = [put_in(t, place * PER_PLACE + LAST, 0) for _ in range(PER_PLACE // 2) for place in range(result.length)]
    assert not all(put)
    assert t.counters[EDITS] == len(t.edit_place)
    assert t.counters[CHANGES] == 0
