# SPDX-License-Identifier: Apache-2.0
"""A training step with a page, on both boards: right, the same to the bit, and safe against what cards do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from poet_harness.emulation import open_emulated_board
from poet_profiles.boards import load_board

from tests.support.emulation.emulated_board import BOARDS, Line
from tests.support.emulation.paged_step import GRADIENT, RATE_BITS, W, expected, get, put_all, random_data, step

Opener = Callable[[str], Line]


@pytest.fixture
def open_step(step_images: dict[str, Path], tmp_path: Path) -> Iterator[Opener]:
    """A board with the paged step built in, a labelled card, and its data in place."""
    opened = []

    def open_board(name: str) -> Line:
        emulated = open_emulated_board(load_board(name), step_images[name], tmp_path / f"{name}-{len(opened)}.img")
        emulated.serial.timeout = 60
        opened.append(emulated)
        line = Line(emulated)
        line.values("hello")
        line.values("format")
        put_all(line, random_data())
        return line

    yield open_board
    for emulated in opened:
        emulated.close()


@pytest.mark.parametrize("name", BOARDS)
def test_a_paged_step_is_right(open_step: Opener, name: str) -> None:
    line = open_step(name)
    loss, gradient, weights = expected(random_data())
    assert step(line) == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose(get(line, GRADIENT), gradient, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(get(line, W), weights, rtol=1e-6)


def test_both_boards_agree_to_the_bit(open_step: Opener) -> None:
    lines = [open_step(name) for name in BOARDS]
    losses = [[step(line) for _ in range(3)] for line in lines]
    assert losses[0] == losses[1]
    assert losses[0][2] < losses[0][1] < losses[0][0]
    assert get(lines[0], W).tobytes() == get(lines[1], W).tobytes()


@pytest.mark.parametrize("name", BOARDS)
def test_a_page_that_the_card_spoils_is_never_used(open_step: Opener, name: str) -> None:
    line = open_step(name)
    line.emulated.card.faults.silent_corruptions = 1
    first = get(line, W).tobytes()
    loss = step(line)  # read again: the second time it is right
    assert loss == pytest.approx(expected(random_data())[0], rel=1e-5)
    put_all(line, random_data())
    line.emulated.card.faults.silent_corruptions = 100
    assert line.ask(f"step {RATE_BITS} 0").startswith("err -7")
    line.emulated.card.faults.silent_corruptions = 0
    assert get(line, W).tobytes() == first, "weights changed by a step that failed"
    assert step(line) == loss


@pytest.mark.parametrize("fault", [{"removed": True}, {"full": True}, {"write_error_after": 2}])
@pytest.mark.parametrize("name", BOARDS)
def test_a_card_that_fails_ends_the_step_and_leaves_the_weights(
    open_step: Opener, name: str, fault: dict[str, object]
) -> None:
    line = open_step(name)
    before = get(line, W).tobytes()
    for key, value in fault.items():
        setattr(line.emulated.card.faults, key, value)
    code = {"removed": "-9", "full": "-6", "write_error_after": "-5"}[next(iter(fault))]
    assert line.ask(f"step {RATE_BITS} 0").startswith(f"err {code}")
    assert get(line, W).tobytes() == before
    for key in fault:
        setattr(line.emulated.card.faults, key, None if key == "write_error_after" else False)
    assert step(line) == pytest.approx(expected(random_data())[0], rel=1e-5)


@pytest.mark.parametrize("name", BOARDS)
def test_power_lost_at_any_write_leaves_a_whole_step(open_step: Opener, name: str) -> None:
    line = open_step(name)
    line.values("commit 0")
    card = line.emulated.card
    before = card.blocks_written
    start = get(line, W).tobytes()
    step(line)
    line.values("commit 1")
    writes = card.blocks_written - before
    trained = get(line, W).tobytes()
    assert trained != start

    for cut in range(writes):
        line = open_step(name)
        line.values("commit 0")
        line.emulated.card.faults.cut_after_writes = cut
        whole = train_until_the_lights_go_out(line)
        line.values("hello")
        put_all(line, random_data(seed=9))
        resumed = int(line.values("restore")["step"])
        assert get(line, W).tobytes() == (trained if resumed else start), f"cut at write {cut}"
        assert resumed or not whole, "a commit that was answered is lost"


def train_until_the_lights_go_out(line: Line) -> bool:
    """A step and a commit; whether the commit was answered. The power fails somewhere on the way."""
    for request in (f"step {RATE_BITS} 0", "commit 1"):
        try:
            answer = line.ask(request, patience_s=0.05)
        except TimeoutError:
            return False
        if not answer.startswith("ok"):
            return False
    return True


def test_a_transfer_overlaps_compute_where_the_bus_works_alone(open_step: Opener) -> None:
    # Emulated time, the same in every run. Traced, a step is serial; untraced, the nRF52840's page-out runs beside the
    # operator after it.
    saved = {}
    for name in BOARDS:
        line = open_step(name)
        together = int(line.values(f"step {RATE_BITS} 0")["ticks"])
        line.values(f"step {RATE_BITS} 1")
        ticks = [int(word) for word in line.values("times 0 9")["ticks"].split(",")]
        saved[name] = 1 - together / sum(ticks)
    assert saved["nrf52840"] > 0.05
    assert abs(saved["mkr1000"]) < 0.05
