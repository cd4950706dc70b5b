# SPDX-License-Identifier: Apache-2.0
"""Which form of a step is planned where its store-all schedule does not fit, and what is refused in one line."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from poet_planner.graph.layout import GRADIENTS_EARLY
from poet_planner.models import Model
from poet_planner.planning.choose import choose_layout
from poet_planner.planning.method import OPTIMAL
from poet_planner.planning.pipeline import plan, planned
from poet_planner.planning.request import Request
from poet_planner.report import pictures
from poet_planner.report.quantities import energy_text, share_text
from poet_planner.report.summary import Summary, rows
from poet_planner.solve import NoScheduleError, OptimiseOptions
from poet_profiles.errors import BAD_INPUT, UserError
from poet_profiles.shipped import shipped_profile
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from tests.support import ROOT

BOARD = "nrf52840"
QUICK = OptimiseOptions(time_limit_s=2.0)


def normed() -> Model:
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    return Model("normed", module, (torch.randn(4, 1, 8, 8),), (torch.randint(10, (4,)),), cross_entropy)


@pytest.mark.parametrize(
    ("network", "options", "line"),
    [
        (normed(), {"micro_batches": 2}, "--micro-batches 2: 1 normalises by the statistics of the whole batch"),
        (
            "digits_cnn_small",
            {"micro_batches": 3},
            "--micro-batches 3: does not divide the batch of 4; it is one",
        ),
        ("digits_cnn_small", {"micro_batches": 0}, "--micro-batches 0: a batch is at least one part"),
        ("digits_cnn_small", {"micro_batches": "two"}, "--micro-batches two: give a whole number, at least 1"),
        (
            "digits_cnn_small",
            {"micro_batches": 2, "parameters": "card"},
            "--micro-batches 2: with parameters on the card gradients are part of an update; leave it out, or give",
        ),
        (
            "digits_cnn_small",
            {"micro_batches": 2, "parameters": "excluded"},
            "--micro-batches 2: with --parameters excluded sums of gradients are not in RAM; leave one out",
        ),
        (
            "digits_cnn_small",
            {"micro_batches": 2, "gradients": "early"},
            "--micro-batches 2: gradients are sums that outlive a part, so --gradients early frees nothing",
        ),
        (
            "digits_cnn_small",
            {"micro_batches": 2, "profile": "a72"},
            "--micro-batches 2: a Linux board adds up what you call it for: plan with --batch 2, and call",
        ),
        (
            "digits_cnn_small",
            {"gradients": "early", "profile": "a72"},
            "--gradients early: a graph for rpi4b ends",
        ),
        (
            "digits_cnn_small",
            {"gradients": "early", "parameters": "card"},
            "--gradients early: with --parameters card",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(network: str | Model, options: dict[str, object], line: str) -> None:
    with pytest.raises(UserError) as refusal:
        plan(network, options=QUICK, **{"profile": BOARD, **options})  # type: ignore[arg-type]
    assert str(refusal.value).startswith(line)
    assert "\n" not in str(refusal.value)
    assert refusal.value.exit_code == BAD_INPUT


def test_a_refusal_for_ram_names_the_least_number_of_parts_that_fits() -> None:
    with pytest.raises(NoScheduleError, match=r"; --micro-batches 2 fits$"):
        plan("digits_cnn_small", profile=BOARD, ram="17KB", micro_batches=1, parameters="resident", options=QUICK)


def test_micro_batches_are_taken_where_they_are_cheaper_and_it_is_said() -> None:
    chosen = choose_layout(Request("digits_cnn_small", BOARD, ram="20KB"))
    count = chosen.step.layout.micro_batches
    assert count > 1
    assert chosen.graph.micro_batches == count
    assert chosen.note.startswith(f"{count} micro-batches of {4 // count}: ")
    assert chosen.note.endswith("gradients are those of the batch but for rounding; --micro-batches 1 forbids it")


def test_no_micro_batches_where_the_whole_fits_or_samples_are_coupled() -> None:
    whole = choose_layout(Request("digits_cnn_small", BOARD))
    assert (whole.graph.micro_batches, whole.note, whole.rivals) == (1, "", ())
    coupled = choose_layout(Request(normed(), BOARD, ram="8KB"))
    assert coupled.graph.micro_batches == 1
    forbidden = choose_layout(Request("digits_cnn_small", BOARD, ram="20KB", micro_batches=1))
    assert forbidden.graph.micro_batches == 1


def test_weights_that_fill_the_ram_stay_there_with_early_updates() -> None:
    """244 KB with early updates and nothing recomputed; with all gradients 315 KB at least."""
    made = plan("cnn_40k", profile=BOARD, options=QUICK)
    assert made.residency.step.layout == GRADIENTS_EARLY
    assert made.summary.energy_j <= 0.31e-3
    assert (made.summary.page_ins, made.summary.recomputes, made.summary.kept_bytes) == (0, 0, 0)
    assert (made.why_no_headers, made.why_no_inference) == (None, None)


def autoencoder() -> Model:
    """Its 3,704 weights, and their gradients, are 29 of the MKR1000's 32 KB."""
    widths = (48, 32, 8, 32, 48)
    layers = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), nn.ReLU())]
    x = torch.randn(4, 48)
    return Model("autoencoder", nn.Sequential(*layers[:-1]), (x,), (x.clone(),), mse_loss)


@pytest.mark.parametrize(
    ("network", "batch", "board", "ram", "parts"),
    [
        ("watch:network", 8, "mkr1000", None, 8),
        ("finetune_cnn", 8, "nrf52840", "64KB", 4),
        ("digits_cnn_small", 4, "mkr1000", "20KB", 4),
        (autoencoder(), None, "mkr1000", None, 1),
    ],
)
def test_networks_train_in_a_ram_in_which_their_whole_batch_with_all_gradients_does_not(
    network: str | Model, batch: int | None, board: str, ram: str | None, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parameters in RAM, without a page, as a library too. The watch by plain SGD: momentum is 7 KB more."""
    monkeypatch.syspath_prepend(ROOT / "firmware" / "examples" / "watch")
    asked: dict[str, Any] = {"batch": batch, "profile": board, "ram": ram, "options": QUICK, "paging": False}
    asked["features"] = "whole"
    made = plan(network, **asked)
    assert made.summary.micro_batches == parts
    assert (made.residency.step.layout == GRADIENTS_EARLY) == (parts == 1)
    assert (made.summary.page_ins, made.summary.kept_bytes, made.why_no_headers) == (0, 0, None)
    with pytest.raises(NoScheduleError):
        plan(network, micro_batches=1, gradients="resident", parameters="resident", **asked)


def test_the_bound_is_that_of_all_forms() -> None:
    """A plan in parts is held against the other forms; figures are compared with the whole batch in unlimited RAM."""
    made = plan("digits_cnn_small", profile=BOARD, ram="20KB", options=QUICK)
    summary = made.summary
    first, *others = summary.batch_forms
    assert (first.micro_batches, first.energy_j) == (summary.micro_batches, summary.energy_j)
    assert others
    assert all(form.bound_j <= (form.energy_j or form.bound_j) * (1 + 1e-9) for form in summary.batch_forms)
    cost_j = summary.energy_j + first.runner_j
    least_j = min(form.bound_j + form.runner_j for form in summary.batch_forms)
    assert summary.forms_gap == pytest.approx(max(0.0, 1 - least_j / cost_j))
    whole = plan("digits_cnn_small", profile=BOARD, micro_batches=1, ram="1MB", options=QUICK)
    assert summary.plain_energy_j == pytest.approx(whole.summary.energy_j)
    assert summary.overhead == pytest.approx(summary.energy_j / whole.summary.energy_j - 1)


def test_a_form_that_turns_out_to_cost_less_is_the_plan_and_is_named() -> None:
    """As if the short searches had taken another form for the cheapest: progress and note say which one is meant."""
    request = Request("digits_cnn_small", BOARD, ram="22KB")
    cheapest = choose_layout(request)
    other = replace(cheapest.rivals[0], rivals=(replace(cheapest, rivals=()),), note="another note")
    notes: list[str] = []
    options = replace(QUICK, progress=lambda state: notes.append(state.note))
    best, schedule = planned(request, other, OPTIMAL, options)
    words = f"{cheapest.step.layout.micro_batches} micro-batches"
    assert best.step.layout == cheapest.step.layout
    assert best.note == f"{words} turned out to cost less: {energy_text(schedule.energy_j)}"
    assert {note.startswith(f"{words}, planned beside") for note in notes} == {True, False}


def test_parts_are_held_against_the_whole_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its energy is in the picture. Which share of it is fitted is said, and what to do if that is another one."""
    header, *shipped = shipped_profile("mkr1000").read_text().splitlines(keepends=True)
    profile = tmp_path / "no_parts.csv"
    profile.write_text(header + "".join(row for row in shipped if "n=2 c=" not in row))
    in_parts, whole = (
        plan("digits_cnn_small", profile=profile, micro_batches=count, ram="1MB", options=QUICK) for count in (2, 1)
    )
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
