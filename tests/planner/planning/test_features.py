# SPDX-License-Identifier: Apache-2.0
"""Where a step is cut in two, and why it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from poet_planner.models import Model
from poet_planner.planning.bench import Bench
from poet_planner.planning.features import where_to_cut
from poet_planner.planning.notes import mixing
from poet_planner.planning.pipeline import prepare, verified
from poet_planner.planning.request import Request
from poet_planner.report.quantities import energy_text
from poet_planner.schedule.c_library import why_no_library
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from poet_profiles.graph.kept import FEATURE
from poet_profiles.graph.sizes import smallest_ram_bytes
from poet_profiles.schedule import Action
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

from tests.support.networks.heads import badge_head, wide_head


class Centred(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class Noise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, 0.25)


def job(*layers: nn.Module) -> Model:
    """A frozen convolution, then other layers, and a head that is trained."""
    torch.manual_seed(0)
    body = nn.Sequential(*layers, nn.Conv1d(8, 8, 3), nn.AdaptiveAvgPool1d(1), nn.Flatten()).requires_grad_(False)
    module = nn.Sequential(body, nn.Linear(8, 3))
    return Model("job", module, (torch.randn(4, 8, 12),), (torch.zeros(4, dtype=torch.long),), cross_entropy)


def test_a_frozen_backbone_is_cut_off() -> None:
    found = where_to_cut(Bench(Request(badge_head(), "nrf52840")))
    assert found.cut is not None and found.cut.kept == ("mean",) and not found.mixing


@pytest.mark.parametrize(
    ("model", "note"),
    [
        (job(Centred()), "features are not kept: 0.0.mean mixes the samples of a batch"),
        (job(nn.BatchNorm1d(8)), "features are not kept: 0.0 is frozen, but in training mode; call eval() on it"),
    ],
    ids=["mixing", "training mode"],
)
def test_what_keeps_features_away_is_named(model: Model, note: str) -> None:
    found = where_to_cut(Bench(Request(model, "nrf52840")))
    assert found.cut is None and mixing(found.graph, found.mixing) == note


def test_what_draws_random_numbers_is_computed_in_each_epoch() -> None:
    found = where_to_cut(Bench(Request(job(nn.Conv1d(8, 8, 3), Noise()), "nrf52840")))
    assert found.cut is not None and found.cut.once == {"0.0"}


def test_a_step_with_nothing_frozen_stays_whole() -> None:
    assert where_to_cut(Bench(Request("digits_cnn_small", "nrf52840"))).cut is None


def test_options_with_which_no_features_are_kept_are_named_with_their_cost() -> None:
    """It is what the same request costs without them."""
    options = "--micro-batches 2"
    free = prepare(Request(badge_head(), "nrf52840", features="auto"))
    prepared = prepare(Request(badge_head(), "nrf52840", features="auto", micro_batches=2))
    assert not prepared.step.is_on_features and prepared.found_j > free.found_j
    assert prepared.note.startswith(f"features are not kept: {options} takes the whole step")
    cost = f"without {options} a step on features takes about {energy_text(free.found_j)} in the same RAM"
    assert cost in prepared.note


def test_a_head_on_features_trains_on_the_card() -> None:
    prepared = prepare(Request(badge_head(), "nrf52840", features="auto", parameters="card"))
    assert prepared.step.is_on_features and any(kept.kind == "parameter" for kept in prepared.graph.kept)
    made = verified(prepared, replace(prepared.store_all, ram_budget_bytes=prepared.budget_bytes))
    assert made.extraction is not None and made.extraction.graph.kept == prepared.graph.kept


def test_what_makes_features_fits_where_a_whole_batch_does_not() -> None:
    request = Request("finetune_cnn", "nrf52840", ram="48KB", features="auto")
    prepared = prepare(request)
    assert prepared.step.is_on_features and prepared.fits
    made = verified(prepared, replace(prepared.store_all, ram_budget_bytes=prepared.budget_bytes))
    assert made.extraction is not None and made.extraction.ram_bytes <= 48 * 1024
    assert not made.extraction.graph.kept and made.extraction.at_once == 2
    assert not any(step.do in (Action.PAGE_IN, Action.PAGE_OUT) for step in made.extraction.schedule.steps)
    assert smallest_ram_bytes(prepare(replace(request, features="whole", micro_batches=1)).graph) > 48 * 1024


def test_what_makes_features_goes_in_tiles_where_one_operator_has_no_room() -> None:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 1), nn.ReLU(), nn.AvgPool2d(16))
    module = nn.Sequential(body.requires_grad_(False), nn.Flatten(), nn.Linear(16, 3))
    model = Model("planes", module, (torch.randn(1, 1, 16, 16),), (torch.zeros(1, dtype=torch.long),), cross_entropy)
    request = Request(model, "nrf52840", ram=20_000, features="auto")
    prepared = prepare(request)
    assert prepared.step.is_on_features
    made = verified(prepared, replace(prepared.store_all, ram_budget_bytes=prepared.budget_bytes))
    assert made.extraction is not None and made.inference is not None
    largest = 4 * (16 + 8) * 16 * 16  # what the second convolution reads and writes
    assert max(made.extraction.ram_bytes, made.inference.ram_bytes) <= 20_000 < largest
    assert not prepare(replace(request, tiles="off")).step.is_on_features


def test_there_is_room_for_the_samples_that_are_asked_for() -> None:
    request = Request(wide_head(4), "nrf52840", features="auto")
    rooms = {}
    for asked in ("auto", 54):
        prepared = prepare(replace(request, features=asked))
        made = verified(prepared, replace(prepared.store_all, ram_budget_bytes=prepared.budget_bytes))
        assert made.extraction is not None and made.summary.features is not None
        assert sum(kept.bytes for kept in made.graph.kept) > 1_000_000  # frozen weights, read in tiles
        rooms[asked] = made.summary.features.room or 0
        row = 4 * 256 + 4 + 4  # features, a label and a check
        board = load_board("nrf52840")
        assert made.extraction.ram_bytes + rooms[asked] * row <= board.usable_ram_bytes
    assert rooms["auto"] < 54 <= rooms[54]


def test_features_that_the_ram_has_no_room_for_lie_on_the_card() -> None:
    prepared = prepare(Request(badge_head(), "nrf52840", features=100_000))
    made = verified(prepared, replace(prepared.store_all, ram_budget_bytes=prepared.budget_bytes))
    assert made.extraction is not None and made.summary.features is not None
    assert (made.summary.features.room or 0) < 100_000
    moved = prepared.step.costs.reading([256, 4, 4]) if prepared.step.costs else (0.0, 0.0)
    assert (made.summary.features.read_time_s, made.extraction.read_energy_j) == moved > (0.0, 0.0)


@pytest.mark.parametrize(
    ("model", "features", "words"),
    [
        ("digits_cnn_small", 9, "--features 9: a step has no frozen part that takes a tenth of its energy"),
        (badge_head(), 100_000, "--features 100000: features are not kept: what makes them has no room"),
        (job(Centred()), 9, "--features 9: features are not kept: 0.0.mean mixes the samples of a batch"),
        (badge_head(), "some", "--features some: give auto, whole, or how many"),
    ],
)
def test_features_that_cannot_be_are_refused(model: Model | str, features: object, words: str) -> None:
    with pytest.raises(UserError) as refused:
        prepare(Request(model, "nrf52840", features=features, paging=False))  # type: ignore[arg-type]
    assert str(refused.value).startswith(words)


def test_what_cannot_be_cut_is_planned_whole_with_a_note() -> None:
    prepared = prepare(Request(job(Centred()), "nrf52840", features="auto"))
    assert (
        not prepared.step.is_on_features
        and prepared.note == "features are not kept: 0.0.mean mixes the samples of a batch"
    )
    prepared = prepare(Request("digits_cnn_small", "nrf52840", features="auto"))
    assert not prepared.step.is_on_features and not prepared.note


class Twice(nn.Module):
    """Two frozen branches, which the head puts together by what is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = (nn.Sequential(nn.Conv1d(8, 8, 3), nn.ReLU()).requires_grad_(False) for _ in range(2))
        self.head = nn.Linear(8, 3)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head((self.left(x).mean(2) * self.scale) + self.right(x).mean(2))
        return found


def test_a_program_keeps_one_tensor_of_a_sample() -> None:
    prepared = prepare(Request(badge_head(), "nrf52840", features="auto"))
    assert why_no_library(prepared.graph) is None
    model = Model("two", Twice(), (torch.randn(4, 8, 12),), (torch.zeros(4, dtype=torch.long),), cross_entropy)
    prepared = prepare(Request(model, "nrf52840", features="auto"))
    assert sum(one.kind == FEATURE for one in prepared.graph.residents) == 2
    words = "a program keeps one tensor of a sample, and this step reads more; plan with --features whole"
    assert why_no_library(prepared.graph) == words
    assert why_no_library(prepare(Request(model, "nrf52840")).graph) is None
