# SPDX-License-Identifier: Apache-2.0
"""What micro-batches cost: cycles of a whole batch on the emulated core, kernels, runner, additions and update."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.c_library import write_library
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.training_data import training_data
from poet_profiles.boards import load_board

from tests.support import ROOT, needs

pytestmark = needs.emulator

FIRMWARE = ROOT / "firmware"
MODEL, BATCH = "digits_cnn", 24
PROGRAM = """
#include <string.h>
#include "net.h"
static poet learner;
static uint64_t ram[(NET_RAM_BYTES + 7) / 8];
int32_t begin_net(void) { return poet_begin(&learner, &net, ram, sizeof ram, 0, 0); }
int32_t run_batch(const uint8_t *inputs, const uint8_t *targets)
{
    int32_t status = POET_GATHERED;
    for (uint32_t sample = 0; status == POET_GATHERED; sample += NET_BATCH) {
        memcpy(poet_input(&learner, 0), inputs + sample * NET_INPUT_BYTES, NET_BATCH * NET_INPUT_BYTES);
        memcpy(poet_target(&learner, 0), targets + sample * NET_TARGET_BYTES, NET_BATCH * NET_TARGET_BYTES);
        status = poet_train(&learner, 0.05f);
    }
    return status;
}
"""


@pytest.fixture(scope="module")
def cycles(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], int]:
    """Of a batch in so many parts, every tensor kept, in RAM as large as it takes."""
    from benchmarks.firmware.emulated_core import EmulatedCore

    data = training_data(MODEL, 1, 0, BATCH)
    whole = TrainingStep(MODEL, BATCH)

    @cache
    def counted(parts: int) -> int:
        board, folder = load_board("nrf52840"), tmp_path_factory.mktemp(f"parts{parts}")
        step = whole.in_micro_batches(parts)
        graph = step.graph(board)
        write_library("net", graph, store_all_schedule(graph), step.constants(graph), data, folder)
        (folder / "program.c").write_text(PROGRAM)
        sources = [folder / "program.c", folder / "src/net.c", folder / "src/net_data.S"]
        sources += [source for part in ("runtime", "library", "kernels", "ops") for source in _sources(part)]
        includes = [folder / "src", FIRMWARE / "src/kernels"]
        core = EmulatedCore(board.core or "", sources, ["begin_net", "run_batch"], folder, includes)
        assert core.call("begin_net")[0] == 0
        status, taken = core.call("run_batch", core.place(data["input"][0]), core.place(data["target"][0]))
        assert status == 0
        return taken

    return counted


def _sources(part: str) -> list[Path]:
    return sorted((FIRMWARE / "src" / part).glob("*.c"))


def test_three_parts_take_at_most_two_percent_more_cycles_than_the_whole_batch(cycles: Callable[[int], int]) -> None:
    """They need 172 KB in place of 426."""
    assert cycles(1) < cycles(3) <= 1.02 * cycles(1)
