# SPDX-License-Identifier: Apache-2.0
"""The protocol's verbs and its retransmission, on the test board."""

from __future__ import annotations

import ctypes as c
import struct
import zlib
from collections.abc import Iterator

import numpy as np
import pytest

from tests.support.firmware import core as fw
from tests.support.firmware.device import Device, boot

SIZE = 128
BYTES = 4 * SIZE


@pytest.fixture
def device(core: c.CDLL) -> Iterator[Device]:
    device = boot(core)
    device.ok("hello")
    yield device


@pytest.fixture
def trained(core: c.CDLL) -> Iterator[Device]:
    """A device with a model whose "loss" counts the labels in range, and which pages one value."""
    net = fw.Net(
        nodes=[(fw.RELU, [SIZE], [1], [0], 0), (fw.NLL_LOSS, [4, 32], [0, 2], [3], 0)],
        values=[(BYTES, 5)],
        residents=[(0, BYTES, fw.INPUT), (BYTES, 16, fw.TARGET), (BYTES + 16, 4, fw.LOSS)],
        steps=[(fw.COMPUTE, 0, [0]), (fw.PAGE_OUT, 0, 0), (fw.FREE, 0, 0), (fw.PAGE_IN, 0, 0), (fw.COMPUTE, 1, [])],
        arena_bytes=BYTES,
    )
    device = boot(core, net)
    device.ok("hello")
    yield device


def test_hello(device: Device) -> None:
    answer = device.ok("hello")
    assert answer == {
        "protocol": "2", "board": "test", "firmware": "unknown", "boot": "00000001", "ticks_hz": "1000000",
        "ram_bytes": str(8 << 16), "model": "0" * 16, "schedule": "0" * 16,
    }  # fmt: skip


def test_hello_tells_why_the_board_started_as_far_as_it_can(device: Device) -> None:
    shown = fw.Start.in_dll(device.core, "test_start")
    for start, expected in (
        (fw.Start(b"pin", 0x10), {"start": "pin", "reset": "00000010"}),
        (
            fw.Start(b"fault", 4, b"ldo", 2, 0x1234, 0x5678, 0x10000),
            {
                "start": "fault", "reset": "00000004", "failures": "2", "pc": "00001234", "lr": "00005678",
                "status": "00010000", "regulator": "ldo",
            },
        ),
        (
            fw.Start(b"stall", 0x40, b"dcdc", 1, waited_for=1),
            {"start": "stall", "reset": "00000040", "failures": "1", "waited_for": "1", "regulator": "dcdc"},
        ),
    ):  # fmt: skip
        c.memmove(c.byref(shown), c.byref(start), c.sizeof(fw.Start))
        answer = device.ok("hello")
        assert {key: answer[key] for key in list(answer)[8:]} == expected
    c.memset(c.byref(shown), 0, c.sizeof(fw.Start))


def test_the_bootloader_is_entered_after_the_answer(device: Device) -> None:
    entries = c.c_uint32.in_dll(device.core, "test_bootloader_entries")
    entries.value = 0
    assert device.ask("bootloader now").startswith("err -1")
    assert entries.value == 0
    assert device.ok("bootloader") == {}
    assert entries.value == 1
    device.ok("stack")
    assert entries.value == 1


def test_before_hello_every_verb_is_told_of_the_reset(core: c.CDLL) -> None:
    device = boot(core)
    assert device.ask("stack") == "err -4 reset"
    device.ok("hello")
    assert device.ok("stack") == {"bytes": "0"}


def test_a_repeated_request_is_not_carried_out_again(device: Device) -> None:
    text = f">0200 bench {fw.RELU} 3 {SIZE}"
    first = device.raw(text)
    assert device.window_edges() == [1, 0]
    assert device.raw(text) == first
    assert device.window_edges() == []
    assert device.raw(text.replace("0200", "0201"))[1] != first[1]
    assert device.window_edges() == [1, 0]


def test_hello_is_never_answered_from_memory(device: Device) -> None:
    device.raw(">0300 stack")
    assert "protocol=2" in device.raw(">0300 hello")[1]


def test_bench_runs_inside_one_window_and_checks_its_output(device: Device) -> None:
    answer = device.ok(f"bench {fw.ADD} 5 {SIZE}")
    assert device.window_edges() == [1, 0]
    assert (answer["ticks"], answer["repeats"], answer["bytes"], answer["workspace"]) == (
        *("5", "5"), str(BYTES), str(BYTES),
    )  # fmt: skip
    random = 0x2545F491
    stream = []
    for _ in range(2 * SIZE):  # xorshift32, as a multiple of 2^-23 in [-1, 1)
        random ^= random << 13 & 0xFFFFFFFF
        random ^= random >> 17
        random ^= random << 5 & 0xFFFFFFFF
        stream.append(random)
    x = (np.array(stream) >> 8).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)
    expected = zlib.crc32((x[:SIZE] + x[SIZE:]).tobytes())
    assert int(answer["checksum"], 16) == expected
    assert device.ok(f"bench {fw.ADD} 1 {SIZE}")["checksum"] == answer["checksum"]


def test_bench_gives_labels_in_range_and_updates_in_place(device: Device) -> None:
    answer = device.ok(f"bench {fw.NLL_LOSS} 1 10 7")
    assert int(answer["checksum"], 16) == zlib.crc32(struct.pack("<f", 10.0))
    assert device.ok(f"bench {fw.SGD} 1 {SIZE}")["bytes"] == str(BYTES)


@pytest.mark.parametrize(
    ("request_", "number"),
    [
        *(("bench 7", -1), ("bench 7 0 4", -1), ("bench 7 1", -1), ("bench 7 1 4 4", -1), ("bench 7 1 0", -1)),
        *(("bench 7 1 99999999999", -1), ("bench 250 1 4", -8), ("bench 263 1 4", -8), ("bench 7 1 1000000", -2)),
        *(("page in 512 1 sequential", -9), ("page up 512 1 sequential", -1), ("page in 512 1 sequentially", -1)),
        *(("page in 512 1 scattered now", -1), ("idle", -1), ("idle -3", -1), ("format", -9)),
        *(("format all", -1), ("step 3d4ccccd 0", -9), ("step 3d4ccccd 2", -9), ("times 0 1", -9)),
        *(("times 0 25", -9), ("put 0 0 00", -9), ("get 0 0 4", -9), ("get 0 0 225", -9), ("hello there", -1)),
        *(("stacks", -8), ("", -8), ("nonsense 1 2", -8)),
    ],
)
def test_requests_that_make_no_sense(device: Device, request_: str, number: int) -> None:
    answer = device.ask(request_).split(" ", 2)
    assert answer[:2] == ["err", str(number)]
    assert answer[2]
    assert device.window_edges() == []


@pytest.mark.parametrize("order", ["sequential", "scattered"])
def test_page_benchmark(device: Device, order: str) -> None:
    card = fw.Card(fw.PAGE_AREA + 64)
    device.insert(card)
    out = device.ok(f"page out 1000 5 {order}")
    assert out == {"ticks": "5", "repeats": "5", "bytes": "1000"}
    places = [block - fw.PAGE_AREA for kind, block, _ in card.log if kind == "write"]
    assert (places == [0, 2, 4, 6, 8]) == (order == "sequential")
    assert len(set(places)) == 5 and all(0 <= place <= 62 for place in places)
    device.window_edges()
    device.ok(f"page in 1000 40 {order}")
    assert device.window_edges() == [1, 0]
    assert device.ask(f"page in {65 * 512} 1 {order}").startswith("err -6")
    assert device.ask(f"page in {1 << 20} 1 {order}").startswith("err -2")


@pytest.mark.parametrize("request_", [f"bench {fw.ADD} 1 {SIZE}", "page out 512 1 sequential"])
@pytest.mark.parametrize(
    ("sensors", "expected"),
    [
        ((False, False, 0, 0), {}),
        ((True, False, 1_500_000, 0), {"cpu_khz": "1500000"}),
        ((True, True, 600_000, -2_500), {"cpu_khz": "600000", "temperature_mc": "-2500"}),
    ],
)
def test_a_benchmark_tells_what_the_boards_sensors_show(
    device: Device, request_: str, sensors: tuple[bool, bool, int, int], expected: dict[str, str]
) -> None:
    device.insert(fw.Card(fw.PAGE_AREA + 64))
    shown = fw.Sensors.in_dll(device.core, "test_sensors")
    for field, value in zip(("has_clock", "has_temperature", "cpu_khz", "temperature_mc"), sensors, strict=True):
        setattr(shown, field, value)
    try:
        answer = device.ok(request_)
    finally:
        shown.has_clock = shown.has_temperature = False
    assert {key: answer[key] for key in ("cpu_khz", "temperature_mc") if key in answer} == expected


def test_an_unlabelled_card_is_formatted_only_on_request(device: Device) -> None:
    card = fw.Card(fw.PAGE_AREA + 64, labelled=False)
    device.insert(card)
    assert device.ask("page out 512 1 sequential").startswith("err -9")
    assert not any(card.content)
    assert device.ok("format") == {"blocks": str(fw.PAGE_AREA + 64)}
    device.ok("page out 512 1 sequential")


def test_a_card_pulled_out_and_put_back(device: Device) -> None:
    card = fw.Card(fw.PAGE_AREA + 64)
    device.insert(card)
    device.ok("page out 512 1 sequential")
    card.fail_writes = card.fail_reads = 0
    assert device.ask("page out 512 1 sequential").startswith("err -5")
    card.fail_writes = card.fail_reads = None
    device.ok("page out 512 1 sequential")


def test_idle(device: Device) -> None:
    assert int(device.ok("idle 5000")["ticks"]) == 5001
    assert device.window_edges() == [1, 0]


def test_put_and_get(trained: Device) -> None:
    data = bytes(range(200))
    assert trained.ok(f"put 0 100 {data.hex()}") == {"bytes": "200"}
    assert trained.ok("get 0 98 204")["data"] == (b"\0\0" + data + b"\0\0").hex()
    assert trained.ok("get 0 0 0") == {"data": ""}
    for wrong in ("put 0 511 0000", "put 3 0 00", "put 0 0 0", "put 0 0 0g", "put 0 0 AA", "get 0 512 1", "get 3 0 1"):
        assert trained.ask(wrong).startswith("err -1"), wrong
    assert trained.ok("get 0 98 204")["data"] == (b"\0\0" + data + b"\0\0").hex()


@pytest.mark.parametrize(
    "request_",
    [
        *("step 3d4ccccd", "step 3d4ccccd 2", "step 3d4ccccd 0 1", "step 3d4ccc 0", "step 3D4CCCCD 0"),
        *("step 7f800000 0", "step 7fc00000 0", "step bd4ccccd 0", "times 0 25", "get 0 0 225", "put 0", "commit"),
        "restore 1",
    ],
)
def test_requests_that_make_no_sense_to_a_model(trained: Device, request_: str) -> None:
    assert trained.ask(request_).startswith("err -1")


@pytest.mark.parametrize("request_", ["step 00000000 0", "times 0 1", "get 0 0 4", "put 0 0 00", "commit 1", "restore"])
def test_a_plan_that_does_not_fit_the_firmware_is_named(core: c.CDLL, request_: str) -> None:
    nodes = [(fw.ADD, [4], [0, 0], [1], 0)]  # no workspace
    net = fw.Net(nodes, [], [(0, 16, fw.INPUT), (16, 16, fw.GRADIENT)], [(fw.COMPUTE, 0, [])], 0)
    device = boot(core, net)
    device.ok("hello")
    assert (
        device.ask(request_) == "err -7 the built plan is damaged or does not fit this firmware's operators: plan again"
    )


def test_step_and_times(trained: Device) -> None:
    trained.insert(fw.Card(fw.PAGE_AREA + 64))
    trained.ok(f"put 1 0 {struct.pack('<4i', 0, 31, 5, 32).hex()}")
    trained.window_edges()
    answer = trained.ok("step 3d4ccccd 0")
    assert trained.window_edges() == [1, 0]
    assert struct.unpack(">f", bytes.fromhex(answer["loss"]))[0] == 3 - 1000
    assert (answer["page_ins"], answer["page_outs"]) == ("1", "1")
    assert trained.ask("times 0 4") == "err -9 the last step was not traced, or its trace was lost"
    answer = trained.ok("step 3d4ccccd 1")
    assert trained.window_edges() == [1, 0] * 4
    times = trained.ok("times 0 4")["ticks"].split(",")
    assert len(times) == 4 and sum(map(int, times)) == int(answer["ticks"])
    assert trained.ask("times 1 4").startswith("err -1")
    trained.ok("bench 7 1 4")  # uses the RAM in which the trace may be
    assert trained.ask("times 0 4").startswith("err -9")


def test_a_step_that_fails_says_where_and_why(trained: Device) -> None:
    assert trained.ask("step 00000000 0") == "err -9 no card, or no label on it"
    card = fw.Card(fw.PAGE_AREA + 64)
    trained.insert(card)
    card.fail_writes = 0
    assert trained.ask("step 00000000 0").startswith("err -5 call 1: ")
    card.fail_writes = None
    card.flips = 0
    card.content[:] = bytes(len(card.content))
    assert trained.ask("step 00000000 0").startswith("err -9")
    trained.ok("format")
    trained.ok("step 00000000 0")


def test_a_schedule_for_another_model_is_refused(core: c.CDLL) -> None:
    net = fw.Net([], [], [(0, 4, fw.INPUT)], [], 0)
    net.schedule.graph_hash = 5
    device = boot(core, net)
    assert device.ok("hello")["schedule"] == f"{fw.SCHEDULE_HASH:016x}"
    for request in ("step 00000000 0", "get 0 0 4", "put 0 0 00", "times 0 0"):
        assert device.ask(request) == "err -3 the built schedule was made for another graph than the built model"
