# SPDX-License-Identifier: Apache-2.0
"""The verb `infer`, on the test board: where its sample is put, what it answers, and what it leaves alone."""

from __future__ import annotations

import ctypes as c

import numpy as np
import pytest

from tests.support.firmware import core as fw
from tests.support.firmware.device import Device, boot

SIZE = 128
BYTES = 4 * SIZE
# 0 batch, 1 labels, 2 loss, 3 weights; 4 sample, 5 scores.
RESIDENTS = [
    *((0, BYTES, fw.INPUT), (BYTES, 16, fw.TARGET), (BYTES + 16, 4, fw.LOSS)),
    *((BYTES + 20, BYTES, fw.PARAMETER), (2 * BYTES + 20, BYTES, fw.INPUT), (3 * BYTES + 20, BYTES, fw.OUTPUT)),
]
PAGED = [
    *((fw.COMPUTE, 0, [0]), (fw.PAGE_OUT, 0, 0), (fw.FREE, 0, 0), (fw.PAGE_IN, 0, 0)),
    *((fw.COMPUTE, 1, [BYTES, 2 * BYTES]), (fw.FREE, 0, 0), (fw.COMPUTE, 2, [])),
]
PLAIN = [(fw.COMPUTE, 0, [0]), (fw.COMPUTE, 1, [BYTES, 2 * BYTES]), (fw.FREE, 0, 0), (fw.COMPUTE, 2, [])]


def net_with_inference(steps: list[tuple[int, int, object]]) -> fw.Net:
    """A "loss" that counts labels in range; and relu(relu(sample) + weights)."""
    net = fw.Net(
        nodes=[(fw.RELU, [SIZE], [1], [0], 0), (fw.NLL_LOSS, [4, 32], [0, 2], [3], 0)],
        values=[(BYTES, None)],
        residents=RESIDENTS[:4],
        steps=[(fw.COMPUTE, 0, [0]), (fw.COMPUTE, 1, [])],
        arena_bytes=BYTES,
    )
    inference = fw.Net(
        nodes=[
            (fw.RELU, [SIZE], [2 + 4], [0], 0),
            (fw.ADD, [SIZE], [0, 2 + 3], [1], BYTES),
            (fw.RELU, [SIZE], [1], [2 + 5], 0),
        ],
        values=[(BYTES, 5), (BYTES, None)],
        residents=RESIDENTS,
        steps=steps,
        arena_bytes=3 * BYTES,
        graph_hash=7,
    )
    net.infer_by(inference)
    return net


def device_with(core: c.CDLL, net: fw.Net) -> Device:
    device = boot(core, net, noise=True)
    device.keep = (device.keep, net)
    return device


def put(device: Device, index: int, array: np.ndarray) -> None:
    content = array.astype("<f4").tobytes()
    for at in range(0, len(content), 128):
        device.ok(f"put {index} {at} {content[at : at + 128].hex()}")


@pytest.mark.parametrize("steps", [PLAIN, PAGED], ids=["plain", "paged"])
def test_scores_of_what_was_put(core: c.CDLL, steps: list[tuple[int, int, object]]) -> None:
    device = device_with(core, net_with_inference(steps))
    if steps is PAGED:
        device.insert(fw.Card(fw.PAGE_AREA + 64))
    assert device.ok("hello")["inference"] == f"{fw.SCHEDULE_HASH:016x}"
    sample, weights = np.random.default_rng(2).standard_normal((2, SIZE)).astype(np.float32)
    put(device, 3, weights)
    put(device, 4, sample)
    device.window_edges()
    answer = device.ok("infer")
    assert device.window_edges() == [1, 0]
    expected = np.maximum(np.maximum(sample, 0) + weights, 0)
    assert answer["scores"] == expected.tobytes()[:128].hex()
    seen = b"".join(bytes.fromhex(device.ok(f"get 5 {at} 128")["data"]) for at in range(0, BYTES, 128))
    assert seen == expected.tobytes()
    assert (answer["page_ins"], answer["page_outs"]) == (("1", "1") if steps is PAGED else ("0", "0"))
    assert int(answer["ticks"]) >= 0
    kept = b"".join(bytes.fromhex(device.ok(f"get 3 {at} 128")["data"]) for at in range(0, BYTES, 128))
    assert kept == weights.tobytes()


def test_training_goes_on_after_it(core: c.CDLL) -> None:
    device = device_with(core, net_with_inference(PLAIN))
    device.ok("hello")
    put(device, 0, np.ones(SIZE))
    device.ok("put 1 0 " + "00000000" * 4)
    before = device.ok("step 3f800000 1")
    device.ok("infer")
    assert device.ask("times 0 1").startswith("err -9")  # its arena lay where the trace was
    assert device.ok("step 3f800000 0")["loss"] == before["loss"]


def test_what_is_refused(core: c.CDLL) -> None:
    device = device_with(core, net_with_inference(PAGED))
    device.ok("hello")
    assert device.ask("infer").startswith("err -9")  # there is no card
    assert device.ask("infer x").startswith("err -1")
    assert device.ask("infer 1").startswith("err -8")  # of features
    assert device.ask("get 6 0 4").startswith("err -1")
    assert device.ask(f"put 4 {BYTES - 4} 0000000000000000").startswith("err -1")


def test_a_build_without_inference(core: c.CDLL) -> None:
    net = net_with_inference(PLAIN)
    net.built.inference = None
    device = device_with(core, net)
    assert "inference" not in device.ok("hello")
    assert device.ask("infer") == "err -8 no inference in this build"
    assert device.ask("get 4 0 4").startswith("err -1")


def test_a_damaged_inference_is_not_followed(core: c.CDLL) -> None:
    net = net_with_inference(PLAIN)
    net.inference.schedule.graph_hash += 1
    device = device_with(core, net)
    device.ok("hello")
    assert device.ask("infer").startswith("err -3")
    assert device.ask("get 4 0 4").startswith("err -1")
    assert device.ask("step 3f800000 0").startswith("ok")
