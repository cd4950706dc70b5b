# SPDX-License-Identifier: Apache-2.0
"""Schedules made by hypothesis come back from their files as they were, with offsets as the page of formats says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_profiles.graph import Graph, Node, Value
from poet_profiles.schedule import Action, Objective, Schedule, Status, Step
from poet_profiles.schedule.file import document_of_schedule, schedule_from_document

from tests.support.levels import examples

costs = st.floats(0, 1e6)
sizes = st.integers(0, 1 << 30)
names = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs",), exclude_characters="."), min_size=1, max_size=4
)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    steps = draw(
        st.lists(
            st.builds(
                Step, st.sampled_from(Action), names, st.dictionaries(names, sizes, max_size=3), st.none() | sizes
            ),
            max_size=8,
        )
    )
    deadline = draw(st.none() | costs)
    counts = [draw(sizes) for _ in range(3)]
    figures = [draw(costs) for _ in range(3)]
    objective = draw(st.sampled_from(Objective))
    bound_s = draw(costs) if objective is Objective.TIME else None
    return Schedule(
        draw(st.text()), "0123456789abcdef", counts[0], deadline, tuple(steps), figures[0], figures[1], counts[1],
        counts[2], draw(st.sampled_from(Status)), figures[2], draw(costs), objective, bound_s,
    )  # fmt: skip


@settings(max_examples=examples(150), deadline=None)
@given(schedules())
def test_schedule_round_trip(schedule: Schedule) -> None:
    assert schedule_from_document(json.loads(json.dumps(document_of_schedule(schedule)))) == schedule


@pytest.mark.parametrize(
    ("outputs", "place"),
    [
        ((Value("a", 4),), {"offset": 0}),
        ((Value("a", 4), Value("a.mask", 0)), {"offset": 0}),
        ((Value("a.mask", 4),), {"offsets": {"a.mask": 0}}),
        ((Value("a", 0), Value("a.mask", 4)), {"offsets": {"a.mask": 0}}),
        ((Value("a", 0),), {}),
    ],
)
def test_one_offset_is_that_of_the_value_named_like_its_node(
    outputs: tuple[Value, ...], place: dict[str, object]
) -> None:
    """docs/SPEC.md, section 4; the verifier takes what is read back."""
    graph = Graph("g", (Node("a", 1.0, 1.0, outputs),))
    document = json.loads(json.dumps(document_of_schedule(store_all_schedule(graph))))
    assert document["steps"][0] == {"do": "compute", "node": "a", **place}
    assert verify(graph, schedule_from_document(document)).sound
