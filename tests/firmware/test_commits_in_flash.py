# SPDX-License-Identifier: Apache-2.0
"""Commits in flash: a power cut in every erase and every program, and how the units wear."""

from __future__ import annotations

import ctypes as c
import random

import numpy as np
import pytest

from tests.support.firmware import core as fw
from tests.support.firmware.flash import TEARS, Flash

BYTES = 5120
UNSTEADY = "unsteady"
NET = fw.Net([], [], [(0, BYTES // 2, fw.PARAMETER), (BYTES // 2, BYTES // 2, fw.STATE)], [], 0)
PAGE = 4096
# Size, unit, and units that a commit erases.
PLACES = {
    "nRF52840, 5 pages": (5 * PAGE, PAGE, 2),
    "nRF52840, 8 pages": (8 * PAGE, PAGE, 2),
    "SAM D21, 13 KB": (26 * 512, 512, 12),
    "NOR, 64 KB": (16 * PAGE, PAGE, 2),
    "FRAM, 13 KB": (26 * 512, 0, 0),
}


def tensors(step: int) -> bytes:
    return np.random.default_rng(step).standard_normal(BYTES // 4).astype(np.float32).tobytes()


class Keeper:
    """A program that commits, and restores after each start."""

    def __init__(self, core: c.CDLL, flash: Flash) -> None:
        self.core, self.flash = core, flash
        self.own = c.byref(flash.device), c.byref(NET.model), 0

    def commit(self, step: int) -> int:
        return int(self.core.poet_checkpoint_commit(*self.own, tensors(step), None, step, c.byref(c.c_uint32())))

    def restore(self) -> int:
        """The step that counts, checked; or the error."""
        found, step = c.create_string_buffer(BYTES), c.c_uint32()
        status = self.core.poet_checkpoint_restore(*self.own, found, None, c.byref(step), c.byref(c.c_uint32()))
        assert status != fw.OK or found.raw == tensors(step.value)
        return int(status) or step.value


def formatted(core: c.CDLL, place: str) -> Keeper:
    flash = Flash(*PLACES[place][:2])
    assert core.poet_pager_format(c.byref(flash.device)) == fw.OK
    return Keeper(core, flash)


@pytest.mark.parametrize("place", PLACES)
def test_a_cut_anywhere_leaves_the_old_commit_or_the_new_one(core: c.CDLL, place: str) -> None:
    whole = formatted(core, place)
    assert [whole.commit(step) for step in (1, 2)] == [fw.OK] * 2
    before = whole.flash.operations
    assert whole.commit(3) == fw.OK
    tears = [*TEARS, UNSTEADY] if whole.flash.unit else TEARS
    for cut in range(before, whole.flash.operations):
        for torn in tears if place == next(iter(PLACES)) else [tears[cut % len(tears)]]:
            keeper = formatted(core, place)
            flash = keeper.flash
            assert [keeper.commit(step) for step in (1, 2)] == [fw.OK] * 2
            flash.cut, flash.torn = cut, torn
            assert keeper.commit(3) != fw.OK
            assert flash.dead
            flash.power_up()
            resumed = keeper.restore()
            assert resumed in ((2, 3) if torn in ("whole", UNSTEADY) or not flash.unit else (2,))
            # The next commit is cut, too: until it is whole, the one that was said to count counts.
            flash.cut, flash.torn = flash.operations + cut % 80, "noise"
            assert keeper.commit(resumed + 1) != fw.OK
            flash.power_up()
            assert keeper.restore() == resumed
            assert [keeper.commit(resumed + more) for more in (1, 2)] == [fw.OK] * 2
            assert keeper.restore() == resumed + 2


@pytest.mark.parametrize("place", ["nRF52840, 5 pages", "SAM D21, 13 KB"])
def test_a_thousand_commits_with_cuts_anywhere(core: c.CDLL, place: str) -> None:
    keeper, draw = formatted(core, place), random.Random(5)
    flash, kept = keeper.flash, 0
    for step in range(1, 1001):
        if draw.random() < 0.3:
            flash.cut, flash.torn = flash.operations + draw.randrange(200), draw.choice([*TEARS, UNSTEADY])
        attempted = kept + 1
        if keeper.commit(attempted) == fw.OK:
            kept = attempted
            continue
        assert flash.dead, step
        flash.power_up()
        resumed = keeper.restore()
        assert resumed in (kept, attempted) if kept else resumed in (fw.E_ABSENT, attempted), step
        kept = max(resumed, 0)
    assert kept > 600


@pytest.mark.parametrize("place", [place for place, (_, unit, _) in PLACES.items() if unit])
def test_units_wear_alike(core: c.CDLL, place: str) -> None:
    keeper, (_, _, erases) = formatted(core, place), PLACES[place]
    keeper.flash.erases[:] = 0
    for step in range(1, 21):
        assert keeper.commit(step) == fw.OK
        assert keeper.flash.erases.sum() == erases * step
        used = keeper.flash.erases[1:][keeper.flash.erases[1:] > 0]
        assert keeper.flash.erases[0] == 0
        assert used.max() - used.min() <= 1
    assert len(used) >= len(keeper.flash.erases) - erases


def test_what_is_too_small_and_what_flash_cannot_keep_is_refused(core: c.CDLL) -> None:
    assert core.poet_pager_format(c.byref(Flash(2 * PAGE, PAGE).device)) == fw.E_FULL
    assert core.poet_pager_format(c.byref(Flash(5 * 512, 0).device)) == fw.E_FULL
    small = Flash(4 * PAGE, PAGE)
    assert core.poet_pager_format(c.byref(small.device)) == fw.OK
    assert Keeper(core, small).commit(1) == Keeper(core, small).restore() == fw.E_FULL
    large, pager = Flash(PAGE * 512, PAGE), fw.Pager()
    assert core.poet_pager_format(c.byref(large.device)) == fw.OK
    assert core.poet_pager_open(c.byref(pager), c.byref(large.device)) == fw.OK
    assert core.poet_pager_blocks(c.byref(pager)) == 0
    assert core.poet_pager_out(c.byref(pager), fw.PAGE_AREA, b"page", 4, c.byref(c.c_uint32())) == fw.E_FULL
    record = fw.Record()
    core.poet_record_init(c.byref(record), c.byref(NET.model), None, NET.checks, NET.homes)
    assert core.poet_record_load(c.byref(record), c.byref(large.device)) == fw.E_FULL
    part, window = fw.BlockDevice(), (c.c_uint32 * 8)()
    assert core.poet_block_window_open(window, c.byref(large.device), 8, 12, c.byref(part)) == fw.E_ARGUMENT
    assert core.poet_block_window_open(window, c.byref(large.device), 8, 40, c.byref(part)) == fw.OK
    assert core.poet_pager_format(c.byref(part)) == fw.OK
    assert [large.erases[0], *large.erases[1:7]] == [1, *[2] * 5, 1]
