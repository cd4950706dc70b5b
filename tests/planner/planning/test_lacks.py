# SPDX-License-Identifier: Apache-2.0
"""What a plan on the card lacks is said before it is sought, and no cure is named that is refused in turn."""

from __future__ import annotations

import pytest
from poet_planner.graph.layout import MemoryLayout
from poet_planner.graph.optimizer import Optimizer
from poet_planner.planning.pipeline import plan, prepare, verified
from poet_planner.planning.request import Request
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.c_library import why_no_library
from poet_planner.schedule.lacks import lacks
from poet_planner.solve import NoScheduleError, OptimiseOptions
from poet_profiles.boards import load_board


@pytest.mark.parametrize(
    ("asked", "lacked", "kinds"),
    [
        ({"ram": 20_000}, ("momentum", "Adam", "epochs", "library"), {"parameter", "input", "target"}),
        ({"parameters": "card"}, ("momentum", "Adam", "library"), {"parameter"}),
    ],
    ids=["auto", "card"],
)
def test_a_plan_on_the_card_says_what_it_lacks(
    asked: dict[str, object], lacked: tuple[str, ...], kinds: set[str]
) -> None:
    prepared = prepare(Request("cnn_40k", "mkr1000", **asked))  # type: ignore[arg-type]
    lost = f"trained parameters lie on the card: no {', '.join(lacked)}"
    assert lost in prepared.note and "--parameters resident" not in prepared.note
    made = verified(prepared, prepared.store_all)
    assert made.summary.document()["lacks"] == lacked
    assert {tensor.kind for tensor in made.graph.kept} == kinds
    assert made.inference is not None
    assert why_no_library(made.graph) == f"{lost}; more --ram, a smaller --batch or frozen layers leave room for " + (
        "them in RAM"
    )


def test_batches_on_the_card_train_over_no_epochs() -> None:
    graph = training_step("digits_cnn_small", 1).graph(load_board("mkr1000"), layout=MemoryLayout(card_above_bytes=64))
    assert {tensor.kind for tensor in graph.kept} == {"parameter", "input", "target"}
    assert lacks(graph) == ("momentum", "Adam", "epochs", "library")


def test_a_plan_in_ram_lacks_nothing() -> None:
    prepared = prepare(Request("digits_cnn_small", "mkr1000"))
    assert verified(prepared, prepared.store_all).summary.lacks == ()


def test_momentum_without_room_is_refused_with_a_cure_that_works() -> None:
    momentum = Optimizer(momentum=0.9)
    with pytest.raises(NoScheduleError, match=r"; the card has no --momentum 0\.9: leave it out, so that .*$") as one:
        plan("cnn_40k", profile="mkr1000", optimizer=momentum, options=OptimiseOptions(time_limit_s=1.0))
    assert one.value.impossible_below_bytes > load_board("mkr1000").usable_ram_bytes
    assert prepare(Request("cnn_40k", "mkr1000")).graph.kept
    assert not prepare(Request("cnn_40k", "mkr1000", optimizer=momentum, ram="2MB")).graph.kept
