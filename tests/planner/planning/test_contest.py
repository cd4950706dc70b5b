# SPDX-License-Identifier: Apache-2.0
"""The contest of a step's forms: what is tried, planned, said of it, and refused."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
import torch
from poet_planner import Model, NoScheduleError, OptimiseOptions, Optimizer, optimise, plan
from poet_planner.graph.layout import GRADIENTS_EARLY, GRADIENTS_PAGED, GRADIENTS_RESIDENT, MemoryLayout
from poet_planner.graph.streaming import Streaming
from poet_planner.planning import contest
from poet_planner.planning.bench import Bench
from poet_planner.planning.contest import Contest
from poet_planner.planning.families import FAMILIES, Family, usual_layout
from poet_planner.planning.form import Form
from poet_planner.planning.method import OPTIMAL
from poet_planner.planning.pipeline import prepare, verified
from poet_planner.planning.request import Request
from poet_planner.report import pictures
from poet_planner.report.quantities import energy_text, share_text
from poet_planner.report.table import rows
from poet_planner.schedule.c_library import why_no_library
from poet_planner.schedule.firmware_tables import tables_at_most, tables_of
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.options import Refused
from poet_profiles.errors import BAD_INPUT, NO_SCHEDULE, NOT_FOUND, UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.file import graph_hash
from poet_profiles.plan_folder.summary import Summary
from poet_profiles.schedule import Schedule
from poet_profiles.shipped import shipped_profile
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from tests.support import ROOT

BOARD, SMALL = "nrf52840", "digits_cnn_small"
QUICK = OptimiseOptions(time_limit_s=2.0)
BRIEF = replace(QUICK, time_limit_s=1.0)
IN_RAM, IN_PARTS, IN_BANDS, IN_SEGMENTS, IN_TILES, CONSTANTS, CARD, _ = FAMILIES
# Of a batch of four, by the options that ask for it.
FORMS: tuple[dict[str, Any], ...] = (
    *({"gradients": gradients} for gradients in ("resident", "paged", "early")),
    *({"micro_batches": count} for count in (2, 4)),
    {"parameters": "card"},
)


def normed() -> Model:
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    return Model("normed", module, (torch.randn(4, 1, 8, 8),), (torch.randint(10, (4,)),), cross_entropy)


def autoencoder() -> Model:
    """Its 3,704 weights, and their gradients, are 29 of the MKR1000's 32 KB."""
    widths = (48, 32, 8, 32, 48)
    layers = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), nn.ReLU())]
    x = torch.randn(4, 48)
    return Model("autoencoder", nn.Sequential(*layers[:-1]), (x,), (x.clone(),), mse_loss)


def chosen(network: str | Model, profile: str = BOARD, **asked: Any) -> Form:
    return Contest(Bench(Request(network, profile, **asked))).choose()


def numbers(layouts: Any) -> list[tuple[int | None, int | None, int, int | None]]:
    of = [(one.card_above_bytes, one.streaming) for one in layouts]
    return [(above, way.above_bytes, way.tile_bytes, way.slices_above_bytes) for above, way in of]


def refusal(ram: int | str, **form: Any) -> NoScheduleError:
    with pytest.raises(NoScheduleError) as caught:
        plan(SMALL, profile=BOARD, ram=ram, options=BRIEF, **form)
    return caught.value


def test_on_the_card_the_least_ram_comes_first_and_then_more_slices() -> None:
    """The order decides between equally good plans; stated sizes leave only slices to choose."""
    bench = Bench(Request("digits_cnn", BOARD))
    assert [numbers(level) for level in CARD.levels(bench)] == [
        [(256, 4096, 4096, sliced), (256, 16384, 8192, sliced), (256, 65536, 8192, sliced), (256, None, 8192, sliced)]
        for sliced in (None, 65536, 32768, 16384)
    ]
    form = Form(bench.step(MemoryLayout(card_above_bytes=256)), 0)
    few, many = (
        replace(form, step=replace(form.step, graph=replace(form.graph, nodes=form.graph.nodes[:1] * count)))
        for count in (100, 101)
    )
    fewer, fine, tiles, batch, states = (partial(refinement.layouts, bench) for refinement in CARD.refinements)
    assert numbers(fewer(form)) == [(2048, None, 8192, None)]
    assert (numbers(fine(few)), numbers(fine(many))) == ([(256, None, 8192, 4096)], [])
    assert numbers(tiles(form)) == [(256, None, 16384, None), (256, None, 32768, None)]
    assert list(batch(form)) == [MemoryLayout(card_above_bytes=256, batch_on_card=False)]
    assert list(states(form)) == [], "plain descent has none"
    stated = Bench(Request("digits_cnn", BOARD, card_above="1KB", stream_above="64KB"))
    levels = [numbers(level) for level in CARD.levels(stated)]
    assert levels == [[(1024, 65536, 8192, sliced)] for sliced in (None, 65536, 32768, 16384)]
    assert [*CARD.refinements[0].layouts(stated, form), *CARD.refinements[1].layouts(stated, few)] == []


@pytest.mark.parametrize(
    ("profile", "gradients", "usual"),
    [
        (BOARD, "auto", GRADIENTS_RESIDENT),
        ("a72", "auto", GRADIENTS_PAGED),
        ("a72", "resident", GRADIENTS_RESIDENT),
        (BOARD, "paged", GRADIENTS_PAGED),
    ],
)
def test_gradients_are_values_where_the_board_allocates_them(profile: str, gradients: str, usual: MemoryLayout) -> None:
    assert usual_layout(Bench(Request("digits_cnn", profile, gradients=gradients))) == usual


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({}, None),
        ({"paging": False}, "for models on microcontrollers that have a card"),
        ({"profile": "a72"}, "for models on microcontrollers that have a card"),
        ({"optimizer": Optimizer("adam")}, None),
    ],
)
def test_what_keeps_parameters_off_the_card(asked: dict[str, Any], why: str | None) -> None:
    bench = Bench(Request("digits_cnn", **{"profile": BOARD, **asked}))
    found = CARD.why_not(bench, None)
    assert found is None if why is None else why in (found or "")


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"tiles": "off"}, "--tiles off"),
        ({"gradients": "paged"}, "--gradients paged"),
        ({"tiles": "off", "gradients": "paged"}, "--tiles off"),
        ({}, None),
    ],
)
def test_what_forbids_bands_is_named(asked: dict[str, Any], why: str | None) -> None:
    bench = Bench(Request(SMALL, BOARD, **asked))
    assert IN_BANDS.why_not(bench, Form(bench.step(GRADIENTS_RESIDENT), 0)) == why


def test_what_all_parameters_in_ram_are_said_to_need_is_enough_for_them() -> None:
    form = chosen(SMALL, ram="11.6KB")
    said = re.search(r"no form of the step that was tried needs less than (\d+\.\d) KB, and the budget is", form.note)
    assert said is not None and form.graph.kept
    assert not chosen(SMALL, ram=f"{float(said[1]) + 0.1} KB").graph.kept


def test_a_new_form_is_one_entry_of_a_list() -> None:
    """Small tiles from the card, the batch in RAM: tried where nothing else fits."""
    mine = MemoryLayout(card_above_bytes=64, streaming=Streaming(256, 1024), batch_on_card=False)
    entry = Family("small tiles", lambda bench: [[mine]], note=lambda form, *_: f"{form.layout.words}, in small tiles")
    bench = Bench(Request("cnn_40k", "mkr1000", ram="28KB"))
    ours = Contest(bench, (IN_RAM, entry))
    assert ours.choose().layout == mine and ours.chosen.fits
    assert ours.chosen.note == "--parameters card, in small tiles"
    assert not Contest(bench, (IN_RAM,)).choose().fits
    outcome = ours.plan(OPTIMAL, BRIEF)
    assert verified(outcome.form, outcome.schedule, contest=outcome.table).schedule.peak_bytes <= 28 * 1024
    assert [row.why_out for row in outcome.table if row.found_j is None] == ["does not fit 28.0 KB"] * 3


@pytest.mark.parametrize(
    ("network", "options", "line"),
    [
        (normed(), {"micro_batches": 2}, "--micro-batches 2: 1 normalises by the statistics of the whole batch"),
        (SMALL, {"micro_batches": 3}, "--micro-batches 3: does not divide the batch of 4; it is one"),
        (SMALL, {"micro_batches": 0}, "--micro-batches 0: a batch is at least one part"),
        (SMALL, {"micro_batches": "two"}, "--micro-batches two: give a whole number, at least 1"),
        (
            SMALL,
            {"micro_batches": 2, "parameters": "excluded"},
            "--micro-batches 2: with --parameters excluded sums of gradients are not in RAM; leave one out",
        ),
        (
            SMALL,
            {"micro_batches": 2, "gradients": "early"},
            "--micro-batches 2: gradients are sums that outlive a part, so --gradients early frees nothing",
        ),
        (
            SMALL,
            {"micro_batches": 2, "profile": "a72"},
            "--micro-batches 2: a Linux board adds up what you call it for: plan with --batch 2, and call",
        ),
        (SMALL, {"gradients": "early", "profile": "a72"}, "--gradients early: a graph for rpi4b ends"),
        (SMALL, {"gradients": "paged", "parameters": "card"}, "--gradients paged: with --parameters card"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(network: str | Model, options: dict[str, object], line: str) -> None:
    with pytest.raises(UserError) as refused:
        plan(network, options=QUICK, **{"profile": BOARD, **options})  # type: ignore[arg-type]
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == BAD_INPUT


def test_a_refusal_for_ram_names_the_least_number_of_parts_that_fits() -> None:
    with pytest.raises(NoScheduleError, match=r"; --micro-batches 4 fits$"):
        plan(SMALL, profile=BOARD, ram="14KB", micro_batches=1, parameters="resident", options=QUICK)


def test_micro_batches_are_taken_where_they_are_cheaper_and_it_is_said() -> None:
    form = chosen(SMALL, ram="20KB")
    count = form.layout.micro_batches
    assert count > 1
    assert form.graph.micro_batches == count
    assert form.note.startswith(f"{count} micro-batches of {4 // count}: ")
    assert form.note.endswith("gradients are those of the batch but for rounding; --micro-batches 1 forbids it")


def test_what_a_rival_lacks_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Early updates in 192 KB are proven impossible; the words of that refusal would take as long as the plan."""
    monkeypatch.setattr(sys.modules["poet_planner.solve.optimise"], "what_would_do", lambda *_: pytest.fail("asked"))
    made = plan("digits_cnn", profile="m4", ram="192KB", tiles="off", options=OptimiseOptions(capped=False))
    early = next(row for row in made.summary.contest if row.gradients == "early")
    assert early.why_out == "no schedule was found" and made.schedule.gap == 0
    lowered = made.form.step.graph
    with pytest.raises(pytest.fail.Exception, match="asked"):
        optimise(lowered, lowered.resident_bytes + 4)


def test_no_micro_batches_where_the_whole_fits_or_samples_are_coupled() -> None:
    whole = chosen(SMALL)
    assert (whole.graph.micro_batches, whole.note, whole.rivals) == (1, "", ())
    assert chosen(normed(), ram="8KB").graph.micro_batches == 1
    assert chosen(SMALL, ram="20KB", micro_batches=1).graph.micro_batches == 1


def test_weights_that_fill_the_ram_stay_there_with_early_updates() -> None:
    """244 KB with early updates and nothing recomputed; with all gradients 315 KB at least."""
    made = plan("cnn_40k", profile=BOARD, options=QUICK)
    assert made.form.layout == GRADIENTS_EARLY
    assert made.summary.energy_j <= 0.31e-3
    assert (made.summary.page_ins, made.summary.recomputes, made.summary.kept_bytes) == (0, 0, 0)
    assert (made.why_no_headers, made.why_no_inference) == (None, None)


@pytest.mark.parametrize(
    ("network", "batch", "board", "ram", "parts"),
    [
        ("watch:network", 8, "mkr1000", None, 8),
        ("finetune_cnn", 8, BOARD, "64KB", 4),
        (SMALL, 4, "mkr1000", "20KB", 4),
        (autoencoder(), None, "mkr1000", None, 1),
    ],
)
def test_networks_train_in_a_ram_in_which_their_whole_batch_with_all_gradients_does_not(
    network: str | Model, batch: int | None, board: str, ram: str | None, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parameters in RAM, without a page, as a library too.

    The watch by plain SGD: momentum is 7 KB more.
    """
    monkeypatch.syspath_prepend(ROOT / "firmware" / "examples" / "watch")
    asked: dict[str, Any] = {"batch": batch, "profile": board, "ram": ram, "options": QUICK, "paging": False}
    asked["features"] = "whole"
    made = plan(network, **asked)
    assert made.summary.micro_batches == parts
    assert (made.form.layout == GRADIENTS_EARLY) == (parts == 1)
    assert (made.summary.page_ins, made.summary.kept_bytes, made.why_no_headers) == (0, 0, None)
    with pytest.raises(NoScheduleError):
        plan(network, micro_batches=1, gradients="resident", parameters="resident", **asked)


def test_the_table_has_every_form_and_the_bound_is_that_of_all() -> None:
    """A plan in parts is compared with the whole batch in unlimited RAM."""
    made = plan(SMALL, profile=BOARD, ram="20KB", options=QUICK)
    summary = made.summary
    first, *others = summary.contest
    assert (first.micro_batches, first.found_j, first.why_out) == (summary.micro_batches, summary.energy_j, "")
    forms = [f"--gradients {kind}" for kind in ("resident", "paged", "early")] + ["2 micro-batches", "4 micro-batches"]
    assert {row.form for row in summary.contest if " bands" not in row.form} == {*forms}
    assert others and all(row.why_out for row in others)
    assert all((row.needs_bytes > 20 * 1024) == row.why_out.startswith("does not fit 20") for row in summary.contest)
    bounded = [row for row in summary.contest if row.bound_j is not None]
    assert all(row.bound_j <= (row.found_j or row.bound_j) * (1 + 1e-9) for row in bounded if row.bound_j is not None)
    least_j = min(row.bound_j + row.runner_j for row in bounded if row.bound_j is not None)
    assert summary.forms_gap == pytest.approx(max(0.0, 1 - least_j / (summary.energy_j + first.runner_j)))
    whole = plan(SMALL, profile=BOARD, micro_batches=1, ram="1MB", options=QUICK)
    assert [row.form for row in whole.summary.contest] == ["--gradients resident"]
    assert summary.plain_energy_j == pytest.approx(whole.summary.energy_j)
    assert summary.overhead == pytest.approx(summary.energy_j / whole.summary.energy_j - 1)


def test_a_form_that_turns_out_to_cost_less_is_the_plan_and_is_named() -> None:
    """As if the short searches had taken another form for the cheapest."""
    ours = Contest(Bench(Request(SMALL, BOARD, ram="22KB")))
    cheapest = ours.choose()
    ours.chosen = replace(cheapest.rivals[0], rivals=(replace(cheapest, rivals=()),), note="another note")
    notes: list[str] = []
    outcome = ours.plan(OPTIMAL, replace(QUICK, progress=lambda state: notes.append(state.note)))
    words = f"{cheapest.layout.micro_batches} micro-batches"
    assert outcome.form.layout == cheapest.layout
    assert outcome.form.note == f"{words} turned out to cost less: {energy_text(outcome.schedule.energy_j)}"
    assert {note.startswith(f"{words}, planned beside") for note in notes} == {True, False}


def test_parts_are_held_against_the_whole_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its energy is in the picture, its fitted share is said, with a cure."""
    header, *shipped = shipped_profile("mkr1000").read_text().splitlines(keepends=True)
    profile = tmp_path / "no_parts.csv"
    profile.write_text(header + "".join(row for row in shipped if "n=2 c=" not in row))
    in_parts, whole = (plan(SMALL, profile=profile, micro_batches=k, ram="1MB", options=QUICK) for k in (2, 1))
    figures = {}
    monkeypatch.setattr(pictures, "save", lambda figure, path: figures.update({path.name: figure}))
    in_parts.draw(tmp_path)
    assert figures["energy.png"].axes[0].texts[0].get_text() == energy_text(whole.summary.energy_j)
    assert in_parts.summary.plain_energy_j == pytest.approx(whole.summary.energy_j)
    assert in_parts.summary.energy_j > 1.1 * whole.summary.energy_j
    assert in_parts.summary.plain_fitted == pytest.approx(whole.summary.energy_share["fitted"])
    assert whole.summary.plain_fitted is None

    def remark(summary: Summary) -> str:
        return next(remark for name, _, remark in rows(summary) if name == "  fitted")

    of_whole = f"of the whole batch {share_text(whole.summary.energy_share['fitted'])}"
    fitted = in_parts.summary.energy_share["fitted"]
    assert fitted > whole.summary.energy_share["fitted"] + 0.1
    cure = "poet-harness profile --graph, with this plan's graph.json, makes rows of them"
    assert remark(in_parts.summary) == f"{of_whole}; {cure}"
    assert "profile" not in remark(replace(in_parts.summary, plain_fitted=fitted - 0.09))
    other = remark(replace(in_parts.summary, plain_fitted=1.0, energy_share={"fitted": 0.0}))
    assert other.endswith("with the graph.json of --micro-batches 1, makes rows of them")
    assert not any("of the whole batch" in remark for _, _, remark in rows(whole.summary))


def test_what_is_impossible_and_what_is_possible_are_the_least_of_all_forms() -> None:
    """Each held against what is said of a form when it alone is asked for."""
    ours = refusal("2KB")
    assert (ours.status, ours.exit_code) == (Refused.IMPOSSIBLE, NO_SCHEDULE)
    single = [refusal("2KB", **form) for form in FORMS]
    assert ours.impossible_below_bytes <= min(one.impossible_below_bytes for one in single)
    assert ours.possible_bytes is not None
    assert ours.possible_bytes <= min(one.possible_bytes or 0 for one in single)
    assert plan(SMALL, profile=BOARD, ram=ours.possible_bytes, options=BRIEF).summary.energy_j > 0
    for ram in ("1KB", ours.impossible_below_bytes - 4):
        again = refusal(ram)
        assert again.possible_bytes == ours.possible_bytes
        assert again.impossible_below_bytes == ours.impossible_below_bytes


def test_where_the_chosen_form_has_none_another_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where only the least of all forms has one; none found is not called impossible."""

    def none_without_card(graph: Graph, *limits: Any, **more: Any) -> Schedule:
        if graph.kept:
            return optimise(graph, *limits, **more)
        raise NoScheduleError("none", Refused.NOT_FOUND, 0, 10**6)

    def none(*_: Any, **more: Any) -> Schedule:
        raise NoScheduleError("none", Refused.NO_OFFSETS, 0, 10**6)

    monkeypatch.setattr(contest, "optimise", none_without_card)
    made = plan(SMALL, profile=BOARD, ram="20KB", options=BRIEF)
    assert made.graph.kept and made.form.note.startswith("--parameters card: ")
    assert "no schedule was found" in {row.why_out for row in made.summary.contest}
    monkeypatch.setattr(contest, "optimise", none)
    with pytest.raises(NoScheduleError, match="for none that was tried were offsets found") as caught:
        plan(SMALL, profile=BOARD, ram="20KB", options=BRIEF)
    assert caught.value.exit_code == NOT_FOUND


def test_a_deadline_that_no_form_keeps_is_one_number_for_all() -> None:
    made = plan(SMALL, profile=BOARD, options=BRIEF)
    words = r"^computing every node once takes .* cannot do; in .* was found$"
    with pytest.raises(NoScheduleError, match=words) as lack:
        plan(SMALL, profile=BOARD, deadline="0.5x", options=BRIEF)
    assert (lack.value.exit_code, lack.value.possible_bytes) == (NO_SCHEDULE, None)
    shortest_s = lack.value.possible_s
    assert shortest_s is not None and lack.value.impossible_below_s <= shortest_s <= made.summary.time_s
    assert plan(SMALL, profile=BOARD, deadline=1.001 * shortest_s, options=BRIEF).summary.time_s > 0


@pytest.mark.parametrize(
    ("asked", "kinds"),
    [
        ({"ram": 20_000}, {"parameter", "input", "target"}),
        ({"parameters": "card", "gradients": "early"}, {"parameter"}),
    ],
    ids=["auto", "card"],
)
def test_a_plan_on_the_card_lacks_nothing(asked: dict[str, Any], kinds: set[str]) -> None:
    form = prepare(Request("cnn_40k", "mkr1000", **asked))
    made = verified(form, form.store_all)
    assert {tensor.kind for tensor in made.graph.kept} == kinds
    assert made.inference is not None and why_no_library(made.graph) is None


def test_adam_without_room_takes_the_card() -> None:
    kept = prepare(Request("cnn_40k", "mkr1000", optimizer=Optimizer("adam"))).graph.kept
    assert {tensor.kind for tensor in kept} >= {"parameter", "state"}


FACTS: tuple[Callable[..., Any], ...] = (graph_hash, store_all_schedule, tables_at_most, tables_of)


@contextmanager
def counted() -> Iterator[list[tuple[str, Graph]]]:
    """Every run of one of those functions, and the graph that it was about."""
    codes: dict[CodeType, str] = {inspect.unwrap(fact).__code__: fact.__name__ for fact in FACTS}
    ran: list[tuple[str, Graph]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in codes:
            ran.append((codes[frame.f_code], frame.f_locals["graph"]))

    sys.setprofile(note)
    try:
        yield ran
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (SMALL, {"profile": BOARD}),
        (SMALL, {"profile": BOARD, "ram": "60%"}),
        (SMALL, {"profile": "a72", "ram": "90%"}),
        (SMALL, {"profile": "m4", "parameters": "excluded"}),
        ("cnn_40k", {"profile": "mkr1000", "parameters": "card", "ram": "60KB"}),
    ],
)
def test_a_plan_computes_what_it_knows_of_a_graph_at_most_twice(
    model: str, given: dict[str, Any], tmp_path: Path
) -> None:
    with counted() as ran:
        plan(model, **given, options=OptimiseOptions(time_limit_s=0.3, capped=False)).write_files(tmp_path)
    assert {name for name, _ in ran} >= {"graph_hash", "store_all_schedule"}
    distinct: list[Graph] = []
    for _, graph in ran:
        if graph not in distinct:
            distinct.append(graph)
    for fact in FACTS:
        for graph in distinct:
            times = sum(name == fact.__name__ and other == graph for name, other in ran)
            assert times <= 2, f"{fact.__name__} of {graph.name} with {len(graph.nodes)} nodes: {times} times"


def test_states_alone_lie_on_the_card_where_that_is_cheaper() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(256, 20), nn.ReLU(), nn.Linear(20, 4))
    model = Model("wide", network, (torch.rand(4, 256),), (torch.randint(4, (4,)),), cross_entropy)
    asked = Request(model, "nrf52840", optimizer=Optimizer("adam"), ram=64_000)
    form, all_away = prepare(asked), prepare(replace(asked, parameters="card"))
    assert {kept.kind for kept in form.graph.kept} == {"state"}
    assert form.fits and form.found_j < all_away.found_j
    assert "of the optimizer's state lie on the card" in form.note
