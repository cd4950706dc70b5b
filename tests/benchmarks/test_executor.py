# SPDX-License-Identifier: Apache-2.0
"""The comparison of planned steps with eager PyTorch says what it measures, and the greedy choice keeps its budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import poet_planner as poet
import pytest
import torch
from poet_planner import models
from poet_planner.schedule.verify import verify
from poet_planner.torch_step import profile_here
from poet_runtime.devices import Cpu
from torch.nn.functional import cross_entropy

from benchmarks.executor import parts
from benchmarks.executor.greedy import greedy_steps
from benchmarks.executor.measuring import Row, compared
from benchmarks.executor.networks import NETWORKS, checkpoint_every_block, network
from benchmarks.executor.parts import AT_CHECKPOINTS_PEAK
from benchmarks.executor.table import missed, table
from benchmarks.executor.variants import checkpointed, eager, greedy, offloaded, planned, trained, updating


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
