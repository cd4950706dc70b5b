# SPDX-License-Identifier: Apache-2.0
"""A program of one's own trains parameters that lie on the card with their states."""

from __future__ import annotations

import ctypes as c
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from poet_harness.emulation import open_emulated_board
from poet_planner.graph.layout import MemoryLayout
from poet_planner.graph.optimizer import Optimizer
from poet_planner.graph.streaming import Streaming
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.c_library import write_library
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.training_data import training_data
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph
from poet_profiles.plan_folder.beside import Inference

from tests.firmware.test_constants_on_the_card import Program
from tests.firmware.test_own_application import batches_of
from tests.support.firmware.card_session import CardSession
from tests.support.firmware.core import E_ABSENT, GATHERED, OK, PAGE_AREA, HostFirmware
from tests.support.firmware.cut_card import TEARS, BlockCard
from tests.support.firmware.own_project import built, said_by
from tests.support.firmware.training_session import RATE, answers_of

MODEL, BATCH, STEPS = "digits_cnn_small", 4, 3
STREAMING = Streaming(1024, 1024)
LAYOUT = MemoryLayout(card_above_bytes=256, streaming=STREAMING, batch_on_card=False)


class Trained:
    """The program, and what the protocol's program says of the card after so many steps."""

    def __init__(self, firmware: HostFirmware, folder: Path, layout: MemoryLayout = LAYOUT) -> None:
        step = training_step(MODEL, BATCH).in_micro_batches(layout.micro_batches)
        self.graph: Graph = step.graph(load_board("nrf52840"), layout=layout, optimizer=Optimizer("adam"))
        schedule, lowered = store_all_schedule(self.graph), step.inference(self.graph, STREAMING)
        inference = Inference(lowered.graph, store_all_schedule(lowered.graph), lowered.data)
        write_headers(self.graph, schedule, folder, {}, inference)
        write_library("net", self.graph, schedule, step.constants(self.graph), None, folder / "net", inference)
        self.protocol = firmware.link(folder / "poet", "-I", str(folder))
        self.own, self.folder = Program(folder / "net", folder / "net.so"), folder
        self.data = training_data(MODEL, STEPS, 0, BATCH)
        self.expected = {}
        for steps in range(STEPS + 1):
            session = CardSession(self.graph, MODEL, BATCH, steps or 1)
            prepared = session.requests.index("commit 0") + 1
            asked = session.requests if steps else [*session.requests[:prepared], *session.gets]
            self.expected[steps] = session.found(answers_of(self.protocol, folder / f"{steps}.img", asked))

    def card(self) -> BlockCard:
        """As it was prepared."""
        made = BlockCard(4 * PAGE_AREA)
        with (self.folder / "0.img").open("rb") as file:
            image = file.read(len(made.content))
        made.content[: len(image)] = image
        return made

    def train(self, number: int) -> int:
        for part in range(self.graph.micro_batches):
            for name in ("input", "target"):
                content = self.data[name][number].tobytes()
                size = len(content) // self.graph.micro_batches
                place = getattr(self.own.library, f"poet_{name}")(self.own.poet, 0)
                c.memmove(place, content[part * size :], size)
            status = int(self.own.library.poet_train(self.own.poet, c.c_float(RATE)))
            if status not in (OK, GATHERED):
                break
        return status

    def has(self, card: BlockCard, steps: int) -> bool:
        """Whether the card has what that many steps make of it."""
        image = self.folder / "read.img"
        image.write_bytes(bytes(card.content))
        return self.image_has(image, steps)

    def image_has(self, image: Path, steps: int) -> bool:
        """Likewise."""
        session = CardSession(self.graph, MODEL, BATCH, 1)
        answers = answers_of(self.protocol, image, ["hello", "restore", *session.gets])
        return answers[1]["step"] == str(steps) and session.found(answers) == self.expected[steps]


LAYOUTS = {
    "whole": LAYOUT,
    "in parts": replace(LAYOUT, micro_batches=2),
    "batch on the card": replace(LAYOUT, batch_on_card=True),
    "states alone, in parts": MemoryLayout(states_above_bytes=64, streaming=STREAMING, micro_batches=2),
}
TOGETHER = {"two steps together": replace(LAYOUT, commit_each=2)}


@pytest.fixture(scope="module")
def made(host_firmware: HostFirmware, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trained]:
    return cache(lambda name: Trained(host_firmware, tmp_path_factory.mktemp("trained"), (LAYOUTS | TOGETHER)[name]))


@pytest.fixture
def trained(made: Callable[[str], Trained], request: pytest.FixtureRequest) -> Trained:
    return made(getattr(request, "param", "whole"))


@pytest.mark.parametrize("trained", LAYOUTS, indirect=True)
def test_steps_have_the_protocols_bits_and_each_is_kept(trained: Trained) -> None:
    assert any(node.operation and "adam=1" in node.operation.params for node in trained.graph.nodes)
    assert any(kept.kind == "state" for kept in trained.graph.kept)
    own, card = trained.own, trained.card()
    assert own.begin(BlockCard(4 * PAGE_AREA)) == E_ABSENT
    assert own.begin(card) == OK
    for number in range(STEPS):
        assert trained.train(number) == OK
        assert own.call("poet_steps") == number + 1
        assert own.call("poet_commit") == OK, "each step has done so"
    assert own.call("poet_infer") == OK
    assert trained.has(card, STEPS)


@pytest.mark.parametrize("trained", LAYOUTS, indirect=True)
def test_an_error_or_a_cut_at_any_block_leaves_the_old_step_or_the_new_one(trained: Trained) -> None:
    own, card = trained.own, trained.card()
    assert own.begin(card) == OK and trained.train(0) == OK
    before, first = card.writes, bytes(card.content)
    assert trained.train(1) == OK
    for at in range(card.writes - before):
        card = trained.card()
        card.content[:] = first
        assert own.begin(card) == OK
        card.fail_writes = at
        assert trained.train(1) < 0
        card.fail_writes = None
        assert trained.train(1) == OK and own.call("poet_steps") == 2

        card.content[:], card.writes = first, 0
        assert own.begin(card) == OK
        card.cut, card.torn = at, TEARS[at % len(TEARS)]
        assert trained.train(1) < 0 and card.dead
        card.power_up()
        assert own.begin(card) == OK and own.call("poet_restore") == OK
        steps = own.call("poet_steps")
        assert steps in (1, 2)
        for number in range(steps, STEPS):
            assert trained.train(number) == OK
        assert at % 12 or trained.has(card, STEPS)


def test_a_cut_leaves_the_last_of_two_steps_that_are_kept_together(made: Callable[[str], Trained]) -> None:
    trained = made(*TOGETHER)
    own, card = trained.own, trained.card()
    assert own.begin(card) == OK and trained.train(0) == OK and trained.train(1) == OK
    assert trained.has(card, 2)
    for at in range(card.writes):
        for fault in ("fail_writes", "cut"):
            card = trained.card()
            assert own.begin(card) == OK
            card.torn = TEARS[at % len(TEARS)]
            setattr(card, fault, at)
            assert trained.train(0) < 0 or trained.train(1) < 0
            card.fail_writes = None
            card.power_up()
            assert fault == "fail_writes" or own.begin(card) == OK
            assert own.call("poet_restore") == OK
            steps = own.call("poet_steps")
            assert steps in (0, 2)
            for number in range(steps, STEPS):
                assert trained.train(number) == OK
            assert own.call("poet_commit") == OK
            assert at % 12 or trained.has(card, STEPS)


MAIN = """
#include <net.h>
#include <poet/board.h>
#include <poet/poet.h>
#include <string.h>

static poet trainer;
static uint32_t ram[(NET_RAM_BYTES + 3u) / 4u];
static poet_block_device card;

int main(void)
{
    poet_board_init();
    int status = poet_board_storage(&card);
    if (status == POET_OK) {
        status = poet_begin(&trainer, &net, ram, sizeof ram, &card, NULL);
    }
    if (status == POET_OK) {
        status = poet_restore(&trainer);
    }
    while (status == POET_OK && poet_steps(&trainer) < STEPS) {
        memcpy(poet_input(&trainer, 0), net_batches[poet_steps(&trainer)].input, sizeof net_batches[0].input);
        memcpy(poet_target(&trainer, 0), net_batches[poet_steps(&trainer)].target, sizeof net_batches[0].target);
        status = poet_train(&trainer, RATE);
    }
    if (status == POET_OK) {
        status = poet_commit(&trainer); /* what no step has */
    }
    for (const char *words = status == POET_OK ? "end 0\\n" : "end 1\\n"; *words != 0; words++) {
        poet_board_putchar(*words);
    }
    poet_board_flush();
    for (;;) {
    }
}
"""


def test_on_the_emulated_board_it_goes_on_from_cuts(made: Callable[[str], Trained], tmp_path: Path) -> None:
    """With three homes, and steps that no record counts yet."""
    trained = made(*TOGETHER)
    (tmp_path / "src").mkdir()
    (tmp_path / "libraries").mkdir()
    shutil.copytree(trained.folder / "net", tmp_path / "libraries" / "net")
    given = f"#define STEPS {STEPS}u\n#define RATE {RATE!r}f\n{batches_of('net', MODEL, BATCH, STEPS)}"
    (tmp_path / "src/main.c").write_text(given + MAIN)
    image, board = built(tmp_path, "net"), load_board("nrf52840")
    whole = 0
    for cut in (None, *range(12)):
        card = Path(shutil.copy(trained.folder / "0.img", tmp_path / "card.img"))
        with open_emulated_board(board, image, card) as emulated:
            emulated.card.faults.cut_after_writes = None if cut is None else 1 + cut * whole // 12
            assert said_by(emulated) == {"end": 0}, cut
            whole = whole or emulated.card.blocks_written
        assert trained.image_has(card, STEPS), cut
