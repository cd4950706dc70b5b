# SPDX-License-Identifier: Apache-2.0
"""What a plan says of smaller batches, held against plans of those batches."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from poet_planner import Model, plan
from poet_planner.graph.optimizer import Optimizer
from poet_planner.planning import pipeline
from poet_planner.planning.budget import beside_a_program
from poet_planner.planning.contest import Contest
from poet_planner.planning.smaller_batch import SmallerBatches
from poet_planner.report.caveats import cautions
from poet_planner.report.table import smaller_batch_text
from poet_planner.solve import NoScheduleError, OptimiseOptions
from poet_profiles.boards import load_board
from poet_profiles.plan_folder.summary import ContestRow, Summary
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

Loss = Callable[..., Tensor]
BRIEF = OptimiseOptions(time_limit_s=0.5)
BATCH, RAM = 12, 34 * 1024


class Net(nn.Module):
    """Three convolutions, of which the last has the norm that is given."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        convolutions = [nn.Conv1d(inputs, 8, 5, padding=2) for inputs in (3, 8, 8)]
        pieces = [nn.Sequential(one, nn.Tanh()) for one in convolutions]
        self.body, self.norm = nn.Sequential(*pieces), norm
        self.head = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.body(x)))  # type: ignore[no-any-return]


def contrast(scores: Tensor, targets: Tensor) -> Tensor:
    """A loss that holds each sample against all others."""
    return cross_entropy(scores @ scores.T, torch.arange(len(targets)))


def batch_norm() -> nn.Module:
    return nn.BatchNorm1d(8)


def model(batch: int, norm: Callable[[], nn.Module] = batch_norm, loss: Loss = cross_entropy) -> Model:
    torch.manual_seed(0)
    return Model("net", Net(norm()), (torch.randn(batch, 3, 24),), (torch.arange(batch) % 4,), loss)


def summary_of(batch: int, **asked: object) -> Summary:
    network = asked.pop("network", None) or model(batch)
    return plan(network, profile="nrf52840", options=BRIEF, **{"ram": RAM, **asked}).summary  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole() -> Summary:
    return summary_of(BATCH)


def others(summary: Summary) -> list[ContestRow]:
    return [row for row in summary.contest if row.form.startswith("--batch")]


def is_plain(summary: Summary) -> bool:
    return summary.recomputes == summary.page_ins == summary.page_outs == 0


def test_a_plan_of_each_batch_that_is_named_costs_what_is_said(whole: Summary) -> None:
    summary = whole
    half, largest = others(summary)
    assert [half.samples, summary.contest[0].samples] == [BATCH // 2, BATCH]
    planned = {row.samples: summary_of(row.samples or 0) for row in (half, largest)}
    for row in (half, largest):
        assert row.found_j is not None and row.samples is not None
        assert planned[row.samples].energy_j <= row.found_j * (1 + 1e-9)
        assert planned[row.samples].energy_j >= 0.97 * row.found_j
        assert row.found_j / row.samples < summary.energy_j / BATCH
    assert is_plain(planned[largest.samples]) and largest.found_j == largest.least_j  # type: ignore[index]
    assert not is_plain(summary_of((largest.samples or 0) + 1))
    said = smaller_batch_text(summary)
    assert f"with --batch {largest.samples}, the largest with nothing paged or recomputed" in said
    assert "no micro-batches, since norm normalises by the statistics of the whole batch" in said
    assert said[2:] in cautions(summary)[0]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"network": model(BATCH, nn.Identity, contrast)}, "something couples samples"),
        ({"network": model(BATCH, nn.Identity), "micro_batches": 1}, "since --micro-batches 1"),
        ({"gradients": "resident"}, "since --gradients resident"),
        ({"ram": "72%"}, "norm normalises"),
    ],
)
def test_it_says_what_keeps_a_batch_whole(asked: dict[str, object], reason: str) -> None:
    summary = summary_of(BATCH, **asked)
    assert others(summary) and reason in smaller_batch_text(summary)


@pytest.mark.parametrize(
    ("network", "ram"), [(model(BATCH, nn.Identity), RAM), (model(BATCH), "1MB"), (model(1), "95%")]
)
def test_it_says_nothing_where_a_plan_is_cheap_or_a_batch_is_one_sample(network: Model, ram: int | str) -> None:
    summary = summary_of(BATCH, network=network, ram=ram)
    assert others(summary) == [] and smaller_batch_text(summary) == ""


def test_the_largest_batch_is_that_of_a_look_at_each() -> None:
    wholes = [
        pipeline.chosen_contest(pipeline.Bench(pipeline.Request(model(BATCH), "nrf52840", ram=ram)), pipeline.OPTIMAL)
        for ram in ("8KB", "34KB")
    ]
    needs = {size: least_bytes(wholes[0].with_batch(size)) for size in range(1, BATCH)}
    for whole in wholes:
        fit = [size for size, count in needs.items() if count <= whole.chosen.budget_bytes]
        assert SmallerBatches(whole).largest() == max(fit, default=0)


def least_bytes(contest: Contest) -> int:
    return min(form.store_all.ram_budget_bytes for form in contest.in_ram())


def test_a_refusal_names_a_batch_that_has_a_schedule() -> None:
    with pytest.raises(NoScheduleError, match=r"; --batch \d+ fits") as refusal:
        summary_of(BATCH, ram="16KB")
    batch = int(str(refusal.value).rpartition("--batch ")[2].split()[0])
    assert is_plain(summary_of(batch, ram="16KB"))


def wide(batch: int) -> Model:
    """Parameters and their gradients are most of what it needs."""
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(48, 48), nn.ReLU()) for _ in range(4)]
    return Model("wide", nn.Sequential(*layers), (torch.randn(batch, 48),), (torch.arange(batch) % 48,), cross_entropy)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"optimizer": Optimizer(momentum=0.9, clip_value=0.2)}, "momentum"),
        ({"optimizer": Optimizer("adam")}, "--optimizer adam"),
        ({"gradients": "resident"}, None),
    ],
)
def test_a_refusal_names_the_nearest_batch_gradients_and_optimizer(asked: dict[str, Any], words: str | None) -> None:
    """Each is planned, and the next larger batch is not."""

    def fits(size: int, **asked: Any) -> bool:
        try:
            plan(wide(size), profile="nrf52840", options=BRIEF, ram="62KB", parameters="resident", **asked)
        except NoScheduleError:
            return False
        return True

    with pytest.raises(NoScheduleError) as refusal:
        plan(wide(64), profile="nrf52840", options=BRIEF, ram="62KB", parameters="resident", **asked)
    *_, named = re.findall(r"; --batch (\d+)( --gradients \w+)?( without [^()]*?)? fits", str(refusal.value))
    size, gradients = int(named[0]), named[1].rpartition(" ")[2] or "auto"
    assert named[2] == (f" without {words}" if words else "")
    without = {"optimizer": Optimizer(clip_value=asked["optimizer"].clip_value)} if words else {}
    assert fits(size, gradients=gradients, **without)
    assert not fits(size + 1, gradients=gradients, **without)


def pictures(side: int, filters: int, batch: int = 4, in_bytes: bool = False) -> Model:
    """Of few weights in a convolution, many behind it, and inputs that are large."""
    torch.manual_seed(side)
    layers = [nn.Conv2d(3, filters, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    net: nn.Module = nn.Sequential(*layers, nn.Linear(((side - 2) // 2) ** 2 * filters, 3))
    x = torch.rand(batch, 3, side, side)
    if in_bytes:
        net, x = nn.Sequential(FromBytes(), net), (255 * x).to(torch.uint8)
    return Model("pictures", net, (x,), (torch.arange(batch) % 3,), cross_entropy)


class FromBytes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.float() / 255


@pytest.mark.parametrize(
    ("side", "filters", "kilobytes", "asked", "named"),
    [
        (26, 4, 36, {"optimizer": Optimizer("adam")}, {"without --optimizer adam", "with inputs in bytes"}),
        (46, 2, 48, {}, {"with inputs in bytes", "with --parameters card"}),
        (46, 2, 60, {"tiles": "off"}, {"--tiles auto"}),
    ],
)
def test_a_refusal_says_what_no_tile_takes_and_each_lever_that_it_names_does(
    side: int, filters: int, kilobytes: int, asked: dict[str, Any], named: set[str]
) -> None:
    asked = {"profile": "nrf52840", "options": BRIEF, "ram": 1024 * kilobytes, "parameters": "resident", **asked}
    with pytest.raises(NoScheduleError) as refusal:
        plan(pictures(side, filters), **asked)
    said = str(refusal.value)
    parameters = sum(one.numel() * 4 for one in pictures(side, filters).module.parameters()) / 1024
    taken = {"parameters": parameters, "gradients": parameters, "inputs": 4 * 3 * side**2 / 1024}
    taken |= {"moments and statistics": 2 * parameters} if "optimizer" in asked else {}
    parts = re.search(r"no page and no tile takes ([^;]+)", said)
    assert parts
    told = {name: float(size) for size, name in re.findall(r"([\d.]+) KB of ([a-z ]+?)(?: and (?=\d)|,|$)", parts[1])}
    assert told == pytest.approx(taken, abs=0.2)
    assert plan(pictures(side, filters), **{**asked, "ram": refusal.value.possible_bytes})
    found = set()
    for batch, other in re.findall(r"; (--batch \d+|the same batch)( [^;]*)? fits", said):
        free = dict(asked)
        for words, option, value in (
            ("without --optimizer adam", "optimizer", Optimizer()),
            ("with --parameters card", "parameters", "card"),
            ("--tiles auto", "tiles", "auto"),
            ("--gradients early", "gradients", "early"),
            ("with inputs in bytes", "", None),
        ):
            if words in other:
                found |= {words} - {"--gradients early"}
                free |= {option: value} if option else {}
        size = int(batch.partition(" ")[2]) if batch.startswith("--") else 4
        assert plan(pictures(side, filters, size, "in bytes" in other), **free)
    assert found == named


def test_ram_that_the_board_lacks_is_no_advice(whole: Summary) -> None:
    board = load_board("nrf52840").model_copy(update={"ram_bytes": RAM + 8192})
    summary = summary_of(BATCH, ram=None, board=board)
    assert others(summary) and summary.more_ram is None
    more = whole.more_ram
    assert more is not None and more.beyond_board is None


@pytest.mark.parametrize(("name", "ram"), [("nrf52840", 229_376), ("mkr1000", None), ("rpi5", None)])
def test_a_library_leaves_an_eighth_of_a_chips_ram_to_its_program(name: str, ram: int | None) -> None:
    asked = pipeline.Request(model(2), "nrf52840")
    board = load_board(name)
    assert beside_a_program(asked, board).ram == ram
    assert ram is None or ram <= min(board.usable_ram_bytes, board.ram_bytes * 7 // 8)
    assert beside_a_program(replace(asked, ram="9KB"), board).ram == "9KB"


def test_weights_that_have_no_room_in_flash_are_in_ram_in_no_batch() -> None:
    board = load_board("nrf52840").model_copy(update={"flash_bytes": 155_000})
    network = model(BATCH)
    frozen = nn.Linear(72, 72).requires_grad_(False)
    network.module.body = nn.Sequential(nn.Flatten(), frozen, nn.Unflatten(1, (3, 24)), network.module.body)
    summary = summary_of(BATCH, network=network, board=board, features="whole")
    assert others(summary) == []
