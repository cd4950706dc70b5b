# SPDX-License-Identifier: Apache-2.0
"""A refusal is of every form that a step may take, each held against what is said of it when it alone is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from poet_planner import NoScheduleError, plan
from poet_planner.planning import every_form
from poet_planner.solve import OptimiseOptions, optimise
from poet_planner.solve.options import Refused
from poet_profiles.errors import NO_SCHEDULE, NOT_FOUND
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

BOARD = "nrf52840"
QUICK = OptimiseOptions(time_limit_s=1.0)
# Of a batch of four, by the options that ask for it.
FORMS: tuple[dict[str, Any], ...] = (
    {"gradients": "resident"},
    {"gradients": "paged"},
    {"gradients": "early"},
    {"micro_batches": 2},
    {"micro_batches": 4},
    {"parameters": "card"},
)


def refusal(ram: int | str, **form: Any) -> NoScheduleError:
    with pytest.raises(NoScheduleError) as caught:
        plan("digits_cnn_small", profile=BOARD, ram=ram, options=QUICK, **form)
    return caught.value


def test_what_is_impossible_and_what_is_possible_are_the_least_of_all_forms() -> None:
    ours = refusal("2KB")
    assert (ours.status, ours.exit_code) == (Refused.IMPOSSIBLE, NO_SCHEDULE)
    single = [refusal("2KB", **form) for form in FORMS]
    assert ours.impossible_below_bytes <= min(one.impossible_below_bytes for one in single)
    assert ours.possible_bytes is not None
    assert ours.possible_bytes <= min(one.possible_bytes or 0 for one in single)
    assert plan("digits_cnn_small", profile=BOARD, ram=ours.possible_bytes, options=QUICK).summary.energy_j > 0
    for ram in ("1KB", ours.impossible_below_bytes - 4):
        again = refusal(ram)
        assert again.possible_bytes == ours.possible_bytes
        assert again.impossible_below_bytes == ours.impossible_below_bytes


def test_where_the_chosen_form_has_none_another_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where only the least of all forms has one; where none has, it is not called impossible."""
    refused: list[str] = []

    def none_without_card(graph: Graph, *limits: Any, **more: Any) -> Schedule:
        if graph.kept:
            return optimise(graph, *limits, **more)
        refused.append(graph.name)
        raise NoScheduleError("none", Refused.NOT_FOUND, 0, 10**6)

    def none(*_: Any) -> Schedule:
        raise NoScheduleError("none", Refused.NO_OFFSETS, 0, 10**6)

    monkeypatch.setattr(every_form, "optimise", none_without_card)
    monkeypatch.setattr("poet_planner.planning.pipeline.schedule_of", none)
    made = plan("digits_cnn_small", profile=BOARD, ram="20KB", options=QUICK)
    assert made.graph.kept and made.residency.note.startswith("--parameters card: ")
    monkeypatch.setattr(every_form, "optimise", none)
    with pytest.raises(NoScheduleError, match="for none that was tried were offsets found") as caught:
        plan("digits_cnn_small", profile=BOARD, ram="20KB", options=QUICK)
    assert caught.value.exit_code == NOT_FOUND


def test_a_deadline_that_no_form_keeps_is_one_number_for_all() -> None:
    made = plan("digits_cnn_small", profile=BOARD, options=QUICK)
    with pytest.raises(
        NoScheduleError, match=r"^computing every node once takes .* cannot do; in .* was found$"
    ) as lack:
        plan("digits_cnn_small", profile=BOARD, deadline="0.5x", options=QUICK)
    assert (lack.value.exit_code, lack.value.possible_bytes) == (NO_SCHEDULE, None)
    shortest_s = lack.value.possible_s
    assert shortest_s is not None and lack.value.impossible_below_s <= shortest_s <= made.summary.time_s
    assert plan("digits_cnn_small", profile=BOARD, deadline=1.001 * shortest_s, options=QUICK).summary.time_s > 0
