# SPDX-License-Identifier: Apache-2.0
"""Files of each format with something changed in them: refused in one line, or as good as any other."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from poet_planner import models
from poet_planner.lowering import lower_for_firmware
from poet_planner.report.summary import summarise
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve.instance import build_problem
from poet_planner.tracing import trace
from poet_profiles.errors import BAD_INPUT, UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.file import document_of_graph, graph_from_document, read_graph
from poet_profiles.plan_folder.summary import Summary, read_summary
from poet_profiles.schedule import Schedule
from poet_profiles.schedule.file import document_of_schedule, read_schedule
from poet_runtime.program import Program, document_of_program, program_from_document, read_program

from tests.support.levels import examples

JSON_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 1, 4, 2**31, 2**63, 2**64, 10**400, 0.5, -0.0, 1e308, "", "conv1", "relu1", "\0", "x=1"]),
    st.sampled_from(["quint8", "int64", "aten::t.default", {"ref": "conv1"}, [[[0]]], [10**30], "\ud800", "0" * 16]),
    st.lists(
        st.one_of(st.none(), st.integers(-1, 9), st.text(max_size=3), st.lists(st.integers(), max_size=2)), max_size=3
    ),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@pytest.fixture(scope="module")
def documents() -> dict[str, dict[str, Any]]:
    model = models.load("digits_cnn_small", 1)
    graph = lower_for_firmware(trace(model.module, model.inputs, model.targets, model.loss, model.name))
    step = trace(model.module, model.inputs, model.targets, model.loss, model.name)
    schedule = store_all_schedule(graph)
    return {
        "graph": document_of_graph(graph),
        "schedule": document_of_schedule(schedule),
        "summary": json.loads(json.dumps(summarise(graph, schedule, schedule).document())),
        "program": json.loads(json.dumps(document_of_program(Program(step, "0" * 16)))),
    }


def places(entry: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a document."""
    if path:
        yield path
    children = entry.items() if isinstance(entry, dict) else enumerate(entry) if isinstance(entry, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


@st.composite
def change(draw: st.DrawFn, document: dict[str, Any]) -> dict[str, Any]:
    """Something left out, replaced, doubled, or put where something else was."""
    changed = copy.deepcopy(document)
    ways = list(places(document))
    for _ in range(draw(st.integers(1, 2))):
        *way, last = draw(st.sampled_from(ways))
        parent = changed
        try:
            for key in way:
                parent = parent[key]
            what = draw(st.sampled_from(["remove", "replace", "replace", "double", "swap"]))
            if what == "remove":
                del parent[last]
            elif what == "double" and isinstance(parent, list):
                parent.insert(last, copy.deepcopy(parent[last]))
            elif what == "swap" and isinstance(parent, list):
                other = draw(st.integers(0, len(parent) - 1))
                parent[last], parent[other] = parent[other], parent[last]
            else:
                parent[last] = draw(JSON_VALUES)
        except (KeyError, IndexError, TypeError):
            continue  # What was there is gone already.
    return changed


def graph_is_sound(graph: Graph, _documents: dict[str, dict[str, Any]]) -> bool:
    build_problem(graph, 2**20, None)
    comes_back = graph_from_document(json.loads(json.dumps(document_of_graph(graph)))) == graph
    return comes_back and verify(graph, store_all_schedule(graph)).sound


def program_comes_back(program: Program, _documents: dict[str, dict[str, Any]]) -> bool:
    document = json.loads(json.dumps(document_of_program(program)))
    return document_of_program(program_from_document(document)) == document


def summary_is_whole(summary: Summary, documents: dict[str, dict[str, Any]]) -> bool:
    return summary.document().keys() == documents["summary"].keys()


def schedule_is_judged(schedule: Schedule, documents: dict[str, dict[str, Any]]) -> bool:
    report = verify(graph_from_document(documents["graph"]), schedule)
    return report.sound == (not report.faults)


@pytest.mark.parametrize(
    ("kind", "read", "is_handled"),
    [
        ("graph", read_graph, graph_is_sound),
        ("schedule", read_schedule, schedule_is_judged),
        ("summary", read_summary, summary_is_whole),
        ("program", read_program, program_comes_back),
    ],
)
@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_a_changed_file_is_refused_in_one_line_or_as_good_as_any_other(
    kind: str,
    read: Callable[[Path], Any],
    is_handled: Callable[[Any, dict[str, dict[str, Any]]], bool],
    data: st.DataObject,
    documents: dict[str, dict[str, Any]],
    tmp_path: Path,
) -> None:
    path = tmp_path / f"{kind}.json"
    path.write_text(json.dumps(data.draw(change(documents[kind]))))
    try:
        given_back = read(path)
    except UserError as error:
        assert str(error).startswith(f"{path}: ")
        assert "\n" not in str(error)
        assert error.exit_code == BAD_INPUT
        return
    assert is_handled(given_back, documents)
