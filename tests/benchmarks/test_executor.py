# SPDX-License-Identifier: Apache-2.0
"""The comparison of planned steps with eager PyTorch says what it measures, and the greedy choice keeps its budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import poet_planner as poet
import pytest
import torch
from poet_planner import models
from poet_planner.schedule.verify import verify
from poet_planner.torch_step import profile_here
from poet_runtime.devices import Cpu
from torch._functorch import config as functorch
from torch.nn.functional import cross_entropy

from benchmarks.executor import parts
from benchmarks.executor.greedy import greedy_steps
from benchmarks.executor.knapsack import WithinPeak
from benchmarks.executor.measuring import Row, compared
from benchmarks.executor.networks import NETWORKS, checkpoint_every_block, network
from benchmarks.executor.parts import AT_CHECKPOINTS_PEAK
from benchmarks.executor.table import missed, table, without_outdone
from benchmarks.executor.variants import (
    BUDGETED,
    POET,
    budgeted,
    by_hand,
    checkpointed,
    eager,
    greedy,
    offloaded,
    planned,
    trained,
    updating,
)


@pytest.fixture(autouse=True)
def _one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(profile_here, "cache_folder", lambda name: tmp_path / name)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_bits_and_bytes_of_every_way_are_seen(tmp_path: Path) -> None:
    model = models.load("mlperf_ds_cnn", 8)
    module, batch = model.module, (model.inputs[0], model.targets[0])
    ways = [
        eager(module, batch),
        planned(module, batch, None, None, 1.0),
        greedy(module, batch, 75),
        offloaded(module, batch, tmp_path),
    ]
    rows = compared(ways, rounds=1, device=Cpu())
    assert [row.different for row in rows] == ["", "", "", ""]
    assert rows[2].peak_bytes <= 0.76 * rows[1].peak_bytes
    assert rows[2].recomputations > 0
    assert all(abs(row.peak_bytes - (row.planned_bytes or 0)) <= 0.02 * row.peak_bytes for row in rows[1:3])
    assert rows[3].peak_bytes < rows[0].peak_bytes
    lines = table(rows).splitlines()
    assert len(lines) == 2 + len(rows)
    assert len({line.count("|") for line in lines}) == 1


def layered() -> tuple[torch.nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Softmax(1))]
    return torch.nn.Sequential(*layers), (torch.randn(512, 32), torch.randint(32, (512,)))


def test_slices_are_compared_with_those_taken_by_hand() -> None:
    module, batch = layered()
    ways = [eager(module, batch), by_hand(module, batch, 4), planned(module, batch, None, None, 1.0, slices=4)]
    rows = compared(ways, rounds=1, device=Cpu())
    assert rows[1].different.startswith("loss")
    assert (rows[2].name, rows[2].different) == ("keep all, 4 slices", "")
    assert rows[2].peak_bytes <= rows[1].peak_bytes < rows[0].peak_bytes
    assert compared([ways[0], replace(ways[2], like="")], rounds=1, device=Cpu())[1].different


def test_of_a_sweep_the_budgets_are_left_out_that_another_beats() -> None:
    def row(name: str, time_s: float, peak_bytes: int) -> Row:
        return Row(name, time_s, 1.0, time_s, peak_bytes, "")

    rows = [
        *(row("eager", 1.0, 90), row(f"{BUDGETED} 0.9, dp", 1.1, 80), row(f"{BUDGETED} 0.5, dp", 1.3, 60)),
        *(row(f"{BUDGETED} 0.1, dp", 1.4, 70), row(f"{BUDGETED} 0.1, poet", 1.4, 70), row("plan 50%", 1.4, 85)),
    ]
    assert without_outdone(rows) == [rows[number] for number in (0, 1, 2, 4, 5)]
    assert without_outdone([*rows, rows[1]]) == [rows[number] for number in (0, 1, 2, 4, 5, 1)]


def test_poet_solves_the_budget_of_a_compiled_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its plan computes twice may be computed again, and the step's gradients stay."""
    answers = []

    def noted(self: WithinPeak, *given: Any) -> Any:
        answers.append(solve(self, *given))
        return answers[-1]

    solve = WithinPeak.__call__
    monkeypatch.setattr(WithinPeak, "__call__", noted)
    module, batch = layered()
    torch._dynamo.reset()
    with functorch.patch(activation_memory_budget=1.0, activation_memory_budget_solver="dp"):
        variant = budgeted(module, batch, 0.7, POET, 1.0)
        loss = variant.take()
    expected = cross_entropy(module(batch[0]), batch[1])
    expected.backward()
    assert torch.allclose(loss, expected)
    for one, other in zip(variant.module.parameters(), module.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-6)
    ((saved, again),) = answers
    assert saved
    assert again


def test_with_the_optimiser_every_way_takes_its_step() -> None:
    model = models.load("vgg16_cifar_w4", 2)
    batch = model.inputs[0], model.targets[0]
    theirs, ours = compared(
        [trained(model.module, batch), updating(model.module, batch, None, 1.0)], rounds=1, device=Cpu()
    )
    assert (theirs.different, ours.different) == ("", "")
    assert ours.peak_bytes < theirs.peak_bytes


def test_what_is_missed_is_said() -> None:
    one = Row("eager", 1.0, 1.0, 1.0, 100 << 20, "")
    checkpoint = replace(one, name="checkpoint, 4 blocks", time_s=1.4, peak_bytes=40 << 20, different="buffers")
    plan = replace(
        checkpoint, name=AT_CHECKPOINTS_PEAK, time_s=1.1, different="", planned_bytes=40 << 20, planned_s=1.1
    )
    rows = [one, checkpoint, plan]
    assert [[*missed(row, rows)] for row in rows] == [[], [], []]
    for change, words in (
        ({"different": "loss"}, ["bits"]),
        ({"peak_bytes": 41 << 20}, ["peak +2.5% off", "above checkpoint's peak"]),
        ({"planned_s": 0.9}, ["predicted time -18.2% off"]),
        ({"planned_s": 0.9, "paged_bytes": 1}, []),
        ({"time_s": 1.21, "planned_s": 1.2}, ["more than 50% of checkpoint's extra time"]),
        ({"name": "greedy 50%", "planned_s": 0.9}, []),
        ({"name": "keep all"}, ["more than 3% above eager"]),
    ):
        assert [*missed(replace(plan, **change), rows)] == words
    assert [*missed(replace(plan, peak_bytes=51 << 20, planned_bytes=51 << 20), rows, with_optimizer=True)] == [
        "not below 50% of eager's peak",
        "above checkpoint's peak",
    ]
    kept = replace(plan, name="keep all", peak_bytes=40 << 20)
    assert [*missed(kept, rows, with_optimizer=True)] == []
    assert "| bits |" in table([one, replace(plan, different="loss")])


def test_a_part_has_its_rows_and_says_which_there_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.load("mlperf_ds_cnn", 8)
    batch = model.inputs[0], model.targets[0]
    monkeypatch.setattr(parts, "network", lambda *_: (model.module, batch))
    monkeypatch.setattr(parts, "checkpointed", lambda module, batch: eager(module, batch, "checkpoint"))
    absent: list[str] = []
    part = parts.TableSpec("mlperf_ds_cnn", 8, shares=(80, 1), checkpoint=True)
    names = [variant.name for variant in part.variants(1.0, tmp_path, absent, Cpu())]
    assert names == ["eager", "keep all", "plan 80%", "greedy 80%", "checkpoint", AT_CHECKPOINTS_PEAK]
    assert [reason.partition(":")[0] for reason in absent] == ["plan 1%", "greedy 1%"]
    assert len({part.name for part in parts.PARTS}) == len(parts.PARTS)


def test_the_greedy_choice_is_a_schedule_of_the_contract() -> None:
    model = models.load("mlperf_ds_cnn", 8)
    kept = poet.compile(model.module, cross_entropy, example=(model.inputs[0], model.targets[0]), quiet=True).planned
    graph, store_all = kept.graph, kept.schedule
    whole = kept.report.plain_peak_bytes
    assert greedy_steps(graph, 0) is None
    for share in (1.0, 0.8, 0.7):
        steps = greedy_steps(graph, int(share * whole))
        assert steps is not None
        report = verify(graph, replace(store_all, steps=tuple(steps)))
        assert report.peak_bytes - graph.resident_bytes <= share * whole
        # The totals are those of the store-all schedule; the steps keep the contract.
        assert all(" is stated as " in fault for fault in report.faults)


def test_checkpointing_updates_running_statistics_twice() -> None:
    """Why its buffers are not eager's."""
    module, batch = network("mobilenet_v2", 1)
    one, other = compared([eager(module, batch), checkpointed(module, batch)], rounds=1, device=Cpu())
    assert (one.different, other.different) == ("", "buffers")


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_has_blocks_to_recompute(name: str) -> None:
    with torch.device("meta"):
        module = NETWORKS[name]()
    assert checkpoint_every_block(module) == {"resnet18": 8, "vgg16": 5, "mobilenet_v2": 17, "bert4": 4}[name]
    assert network("bert4", 2)[1][0].shape == (2, 128)
