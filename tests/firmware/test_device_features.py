# SPDX-License-Identifier: Apache-2.0
"""The verbs `extract`, `keep` and `kept`, on the test board: what they move, and what they refuse."""

from __future__ import annotations

import ctypes as c

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.firmware import core as fw
from tests.support.firmware.device import Device, boot

SAMPLES, SIZE = 4, 32
BYTES = 4 * SAMPLES * SIZE
# 0 batch, 1 labels, 2 loss, 3 weights, 4 features: relu(batch), of which the step counts labels in range.
RESIDENTS = [
    *((0, BYTES, fw.INPUT), (BYTES, 4 * SAMPLES, fw.TARGET), (BYTES + 16, 4, fw.LOSS)),
    *((BYTES + 20, 4, fw.PARAMETER), (BYTES + 24, BYTES, fw.FEATURE)),
]
Row = NDArray[np.float32]


def net_on_features(at_once: int = SAMPLES) -> fw.Net:
    head = fw.Net(
        nodes=[(fw.NLL_LOSS, [SAMPLES, SIZE], [4, 1], [2], 0)],
        values=[],
        residents=RESIDENTS,
        steps=[(fw.COMPUTE, 0, [])],
        arena_bytes=0,
    )
    extraction = fw.Net(
        nodes=[(fw.RELU, [at_once * SIZE], [1 + 0], [0], 0), (fw.RELU, [at_once * SIZE], [0], [1 + 4], 0)],
        values=[(4 * at_once * SIZE, None)],
        residents=RESIDENTS,
        steps=[(fw.COMPUTE, 0, [0]), (fw.COMPUTE, 1, []), (fw.FREE, 0, 0)],
        arena_bytes=4 * at_once * SIZE,
        graph_hash=7,
    )
    head.extract_by(extraction, SAMPLES, at_once)
    return head


# After them: 5 a sample, 6 scores, 7 its features.
OWN = [
    *((2 * BYTES + 24, 4 * SIZE, fw.INPUT), (2 * BYTES + 24 + 4 * SIZE, 4 * SIZE, fw.OUTPUT)),
    (2 * BYTES + 24 + 8 * SIZE, 4 * SIZE, fw.FEATURE),
]


def net_that_infers() -> fw.Net:
    """Scores are what a relu makes of the features."""

    def of(sample: int, own: int) -> fw.Net:
        return fw.Net(
            nodes=[(fw.RELU, [SIZE], [sample], [6], 0)],
            values=[],
            residents=[*RESIDENTS, *OWN[:own]],
            steps=[(fw.COMPUTE, 0, [])],
            arena_bytes=0,
            graph_hash=8 + own,
        )

    net = net_on_features()
    net.infer_by(of(5, 2))
    net.extract_by(net.extraction[0], SAMPLES, SAMPLES, of(7, 3))
    return net


def device_with(core: c.CDLL, net: fw.Net) -> Device:
    device = boot(core, net, noise=True)
    device.keep = (device.keep, net)
    return device


def put(device: Device, index: int, array: NDArray[np.generic]) -> None:
    content = array.tobytes()
    for at in range(0, len(content), 128):
        device.ok(f"put {index} {at} {content[at : at + 128].hex()}")


def get(device: Device, index: int, count: int = BYTES) -> bytes:
    steps = range(0, count, 128)
    return b"".join(bytes.fromhex(device.ok(f"get {index} {at} {min(128, count - at)}")["data"]) for at in steps)


def batch(seed: int) -> Row:
    return np.random.default_rng(seed).standard_normal((SAMPLES, SIZE)).astype("<f4")


@pytest.mark.parametrize("at_once", [4, 2, 1])
def test_features_of_each_sample_lie_at_its_place(core: c.CDLL, at_once: int) -> None:
    device = device_with(core, net_on_features(at_once))
    greeting = device.ok("hello")
    assert greeting["features"] == f"{fw.SCHEDULE_HASH:016x}"
    samples = batch(1)
    put(device, 0, samples)
    device.window_edges()
    for first in range(0, SAMPLES, at_once):
        device.ok(f"extract {first} 0")
        assert device.window_edges() == [1, 0]
    assert get(device, 4) == np.maximum(samples, 0).tobytes()
    assert get(device, 0) == samples.tobytes()  # exchanged, and back


def test_kept_samples_make_another_batch(core: c.CDLL) -> None:
    device = device_with(core, net_on_features())
    room = int(device.ok("hello")["room"])
    taken = BYTES + 24 + 2 * BYTES  # residents, and the arena of what makes features
    assert room == (int(device.ok("hello")["ram_bytes"]) - taken) // (4 * SIZE + 4 + 4)
    first, second = batch(2), batch(3)
    labels = np.arange(SAMPLES, dtype="<i4")
    for number, samples in enumerate((first, second)):
        put(device, 0, samples)
        put(device, 1, labels + 10 * number)
        device.ok("extract 0 0")
        numbers = range(SAMPLES * number, SAMPLES * (number + 1))
        assert device.ok(f"keep 0 {' '.join(map(str, numbers))}")["samples"] == str(SAMPLES)
    assert device.ok(f"keep 1 {room - 1}")["samples"] == "1"  # the last place of all
    put(device, 4, np.zeros_like(first))
    assert device.ok("kept 0 6 1 5")["samples"] == "3"
    assert device.ok("kept 3 0")["samples"] == "1"
    both = np.maximum(np.concatenate([first, second]), 0)
    assert get(device, 4) == both[[6, 1, 5, 0]].tobytes()
    assert get(device, 1, 16) == np.array([12, 1, 11, 0], "<i4").tobytes()
    assert device.ok(f"kept 0 {room - 1}")["samples"] == "1"
    assert get(device, 4)[: 4 * SIZE] == both[5].tobytes()


def test_what_is_not_kept_is_told(core: c.CDLL) -> None:
    device = device_with(core, net_on_features())
    room = int(device.ok("hello")["room"])
    put(device, 0, batch(4))
    device.ok("extract 0 0")
    assert device.ask("kept 0 3").startswith("err -9")  # noise that no record is
    device.ok("keep 0 3")
    device.ok("kept 0 3")
    for missing in (f"keep 0 {room}", f"kept 0 {room}"):
        assert device.ask(missing).startswith("err -9 no card, no label on it")
    for wrong in ("keep 4 0", "keep 0 0 1 2 3 4", "keep 0 x", "keep", "kept 3 3 3"):
        assert device.ask(wrong).startswith("err -1"), wrong
    for wrong in ("extract 4 0", "extract 0 2", "extract", "extract 0 0 0"):
        assert device.ask(wrong).startswith("err -1"), wrong
    record = c.cast(device.server.store.records, c.POINTER(c.c_uint8))
    place = 3 * device.server.store.record_bytes
    for at in (0, 4, device.server.store.record_bytes - 1):
        record[place + at] ^= 1
        assert device.ask("kept 0 3").startswith("err -9"), at
        record[place + at] ^= 1
    device.ok("kept 0 3")


def test_samples_beyond_the_ram_lie_on_the_card(core: c.CDLL) -> None:
    """Batch, features and scores are those of samples in RAM, whatever else is read of the card meanwhile."""
    device = device_with(core, net_that_infers())
    card = fw.Card(4096)
    device.insert(card)
    room = int(device.ok("hello")["room"])
    samples, labels = batch(8), np.arange(SAMPLES, dtype="<i4")
    put(device, 0, samples)
    put(device, 1, labels)
    device.ok("extract 0 0")
    device.window_edges()
    blocks = 3  # features, a label, a check
    last = room + (4096 - 2048) // blocks - 1
    answer = device.ok(f"keep 0 {room - 1} {room} {room + 1} {last}")
    assert device.window_edges() == [1, 0] and int(answer["ticks"]) > 0
    expected = np.maximum(samples, 0)
    put(device, 4, np.zeros_like(samples))
    put(device, 1, np.full(SAMPLES, 9, "<i4"))
    device.ok(f"kept 0 {last} {room + 1} {room - 1} {room}")
    assert get(device, 4) == expected[[3, 2, 0, 1]].tobytes()
    assert get(device, 1, 16) == labels[[3, 2, 0, 1]].tobytes()
    for place, number in enumerate((room - 1, room, room + 1, last)):
        assert device.ok(f"infer {number}")["scores"] == expected[place].tobytes().hex()
    assert get(device, 1, 16) == labels[[3, 2, 0, 1]].tobytes()
    assert device.ask(f"kept 0 {last + 1}").startswith("err -1")
    assert device.ask(f"kept 0 {room + 2}").startswith("err -9")  # never kept
    card.content[(4096 - blocks) * 512] ^= 1
    assert device.ask(f"kept 0 {room}").startswith("err -9")
    assert device.ask(f"infer {room}").startswith("err -9")
    device.ok(f"kept 0 {room + 1}")
    device.server.store.seed += 1  # what a new start has
    assert device.ask(f"kept 0 {room + 1}").startswith("err -9")


def test_a_sample_of_before_a_reset_is_none(core: c.CDLL) -> None:
    device = device_with(core, net_on_features())
    device.ok("hello")
    put(device, 0, batch(5))
    device.ok("extract 0 0")
    device.ok("keep 0 0")
    device.server.store.seed += 1  # what a new start has
    assert device.ask("kept 0 0").startswith("err -9")


def test_the_trace_of_the_last_run_is_read(core: c.CDLL) -> None:
    device = device_with(core, net_on_features())
    device.ok("hello")
    device.ok("put 1 0 " + "00000000" * 4)
    device.ok("extract 0 1")
    assert len(device.ok("times 0 2")["ticks"].split(",")) == 2
    device.ok("step 3f800000 1")
    assert len(device.ok("times 0 1")["ticks"].split(",")) == 1
    assert device.ask("times 0 2").startswith("err -1")
    device.ok("extract 0 0")
    assert device.ask("times 0 1").startswith("err -9")


def test_an_inference_is_of_a_sample_that_was_put_or_is_kept(core: c.CDLL) -> None:
    device = device_with(core, net_that_infers())
    room = int(device.ok("hello")["room"])
    taken = 2 * BYTES + 24 + 12 * SIZE
    assert room == (int(device.ok("hello")["ram_bytes"]) - max(taken, 3 * BYTES + 24)) // (4 * SIZE + 4 + 4)
    samples = batch(6)
    put(device, 0, samples)
    device.ok("extract 0 0")
    device.ok("keep 0 5 6 7 8")
    for place in range(SAMPLES):
        expected = np.maximum(samples[place], 0).tobytes()
        put(device, 5, samples[place])
        device.window_edges()
        by_sample, by_features = device.ok("infer"), device.ok(f"infer {5 + place}")
        assert device.window_edges() == [1, 0] * 2
        assert by_sample["scores"] == by_features["scores"] == expected.hex()
    assert device.ask("infer 4").startswith("err -9")
    for wrong in ("infer x", "infer 5 6"):
        assert device.ask(wrong).startswith("err -1"), wrong
    assert get(device, 4) == np.maximum(samples, 0).tobytes()


def test_a_build_that_infers_from_no_features_says_so(core: c.CDLL) -> None:
    net = net_that_infers()
    net.extraction[1].infer = None
    device = device_with(core, net)
    device.ok("hello")
    put(device, 0, batch(7))
    device.ok("extract 0 0")
    device.ok("keep 0 0")
    assert device.ask("infer 0").startswith("err -8")


@pytest.mark.parametrize("at_once", [0, 3])
def test_a_plan_that_does_not_divide_the_batch_is_refused(core: c.CDLL, at_once: int) -> None:
    net = net_on_features()
    net.extraction[1].at_once = at_once
    device = device_with(core, net)
    assert "features" not in device.ok("hello")
    assert device.ask("extract 0 0").startswith("err -7")


def test_a_build_without_features_says_so(core: c.CDLL) -> None:
    plain = fw.Net(
        nodes=[(fw.NLL_LOSS, [SAMPLES, SIZE], [0, 1], [2], 0)],
        values=[],
        residents=RESIDENTS[:3],
        steps=[(fw.COMPUTE, 0, [])],
        arena_bytes=0,
    )
    device = device_with(core, plain)
    assert "room" not in device.ok("hello")
    for verb in ("extract 0 0", "keep 0 0", "kept 0 0"):
        assert device.ask(verb).startswith("err -8"), verb
