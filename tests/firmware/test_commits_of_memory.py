# SPDX-License-Identifier: Apache-2.0
"""What lies in memory that forgets is committed to a device that lasts, whatever is cut."""

from __future__ import annotations

import ctypes as c

import pytest

from tests.firmware import test_kept_tensors as kept
from tests.support.firmware import core as fw
from tests.support.firmware.cut_card import TEARS as CARD_TEARS
from tests.support.firmware.cut_card import BlockCard
from tests.support.firmware.device import Device, boot
from tests.support.firmware.flash import TEARS as FLASH_TEARS
from tests.support.firmware.flash import Flash

STEP = f"step {kept.RATE_BITS} 0"
NETS = {"each step": kept.training_net(), "each third step": kept.training_net(commit_each=3)}


class Memory:
    """A card's place in the test board, which is memory here; ``lasting`` has its commits."""

    def __init__(self, core: c.CDLL, lasting: Flash | BlockCard | None) -> None:
        self.content = c.create_string_buffer(b"\xa5" * fw.BLOCK * kept.CARD_BLOCKS * 2)
        self.device, self._lasting = fw.BlockDevice(), lasting
        assert core.poet_memory_init(self.content, len(self.content), c.byref(self.device)) == fw.OK
        self.device.lasting = None if lasting is None else c.addressof(lasting.device)


def started(core: c.CDLL, lasting: Flash | BlockCard | None, net: fw.Net) -> Device:
    """A board whose power has come."""
    device = boot(core, net, noise=True)
    device.insert(Memory(core, lasting))  # type: ignore[arg-type]
    device.ok("hello")
    return device


def put(device: Device, tensor: int, content: bytes, at: int = 0) -> None:
    for begin in range(0, len(content), 200):
        device.ok(f"put {tensor} {at + begin} {content[begin : begin + 200].hex()}")


def give_batches(device: Device) -> None:
    device.ok(f"batches {kept.BATCHES}")
    for batch in range(kept.BATCHES):
        put(device, 1, kept.draw(10 + batch).tobytes(), batch * kept.BYTES)


def prepare(device: Device) -> dict[str, str]:
    give_batches(device)
    for tensor, seed in ((0, 2), (2, 1), (3, 4), (4, 3)):
        put(device, tensor, kept.draw(seed).tobytes())
    return device.ok("commit 0")


def flash() -> Flash:
    return Flash(6 * 4096, 4096)


def labelled(core: c.CDLL, lasting: Flash | BlockCard) -> Flash | BlockCard:
    if isinstance(lasting, Flash):
        assert core.poet_pager_format(c.byref(lasting.device)) == fw.OK
    return lasting


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("place", ["flash", "card"])
def test_a_cut_anywhere_in_a_commit_leaves_the_old_one_or_the_new_one(core: c.CDLL, place: str, name: str) -> None:
    net = NETS[name]

    def new() -> Flash | BlockCard:
        return labelled(core, flash() if place == "flash" else BlockCard(fw.PAGE_AREA))

    def count(lasting: Flash | BlockCard) -> int:
        return lasting.operations if isinstance(lasting, Flash) else lasting.writes

    def trained(device: Device, steps: int) -> None:
        for _ in range(steps):
            device.ok(STEP)

    lasting = new()
    device = started(core, lasting, net)
    assert prepare(device)["lasts"] == "1"
    trained(device, 2)
    assert device.ok("commit 2")["lasts"] == "1"
    assert device.ok(STEP)["lasting"] == "2"
    before = count(lasting)
    device.ok("commit 3")
    tears = FLASH_TEARS if place == "flash" else CARD_TEARS
    for number, cut in enumerate(range(before, count(lasting))):
        lasting, torn = new(), tears[number % len(tears)]
        device = started(core, lasting, net)
        prepare(device)
        trained(device, 2)
        device.ok("commit 2")
        trained(device, 1)
        lasting.cut, lasting.torn = cut, torn
        assert device.ask("commit 3").startswith("err")
        assert lasting.dead
        lasting.power_up()
        device = started(core, lasting, net)
        resumed = int(device.ok("restore")["step"])
        assert resumed in ((2, 3) if torn in ("whole", "written, but not reported") else (2,)), (cut, torn)
        assert kept.weights(device) == kept.bits(kept.expected_after(resumed))
        give_batches(device)
        trained(device, 4 - resumed)
        assert kept.weights(device) == kept.bits(kept.expected_after(4))
        device.ok("commit 4")


def test_what_does_not_last_is_said(core: c.CDLL) -> None:
    net = NETS["each step"]
    device = started(core, None, net)
    assert prepare(device)["lasts"] == "0"
    assert device.ok(STEP)["lasting"] == "0"
    assert device.ok("commit 1")["lasts"] == "0"
    assert device.ok("restore")["step"] == "1", "it has forgotten nothing yet"
    plain = started(core, None, fw.Net([], [], [(0, 400, fw.PARAMETER)], [], 0))
    assert plain.ask("commit 1").startswith(f"err {fw.E_ABSENT}")
    other = BlockCard(fw.PAGE_AREA + 8)
    other.content[16 * fw.BLOCK : 17 * fw.BLOCK] = kept.record(1, 0, 0, kept.expected_after(0))
    plain.insert(Memory(core, other))  # type: ignore[arg-type]
    assert plain.ask("commit 1").startswith(f"err {fw.E_TAKEN}")
    plain.ok("format")
    assert plain.ok("commit 1")["lasts"] == "1"
