# SPDX-License-Identifier: Apache-2.0
"""A step with an operator that reads a kept tensor tile by tile: bits, checks, errors of the card."""

from __future__ import annotations

import ctypes as c
import struct
import zlib

import numpy as np
import pytest
from numpy.typing import NDArray
from poet_profiles.protocol.f32 import f32_bits

from tests.support.firmware import core as fw
from tests.support.firmware.device import Device, boot

INPUTS, OUTPUTS, TILE = 128, 19, 4  # the last tile has three rows
X_BYTES, W_BYTES, Y_BYTES = 4 * INPUTS, 4 * OUTPUTS * INPUTS, 4 * OUTPUTS
STEP = f"step {f32_bits(0.05)} 0"
BATCHES = 2
Floats = NDArray[np.float32]

# Values: 0 x, 1 y = w x. Kept tensors: 2 x (batches), 3 w (a constant), 4 the last y (unit 0).
NET = fw.Net(
    nodes=[
        (fw.FETCH, [INPUTS], [2], [0], 0),
        (fw.STREAMED_LINEAR, [1, INPUTS, OUTPUTS, 0, TILE], [0, 3], [1], 4 * TILE * INPUTS),
        (fw.STORE, [OUTPUTS], [1], [4], 0),
        (fw.COMMIT, [1], [], [], 0),
    ],
    values=[(X_BYTES, None), (Y_BYTES, None)],
    residents=[],
    steps=[
        (fw.COMPUTE, 0, [0]),
        (fw.COMPUTE, 1, [X_BYTES, X_BYTES + 80]),
        (fw.FREE, 0, 0),
        (fw.COMPUTE, 2, []),
        (fw.FREE, 1, 0),
        (fw.COMPUTE, 3, []),
    ],
    arena_bytes=X_BYTES + 80 + 4 * TILE * INPUTS,
    kept=[(X_BYTES, fw.INPUT, None), (W_BYTES, fw.CONSTANT, None), (Y_BYTES, fw.STATE, 0)],
)
BLOCKS = fw.PAGE_AREA + NET.layout.batch_block + BATCHES * NET.layout.batch_blocks + 8
W_BLOCK = fw.PAGE_AREA + NET.layout.rows[1][1]


def draw(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


W = draw(7, OUTPUTS, INPUTS)


def after(steps: int) -> Floats:
    """The last y by numpy: float32, added up in order."""
    x = draw(10 + (steps - 1) % BATCHES, INPUTS)
    y: Floats = np.zeros(OUTPUTS, np.float32)
    for k in range(INPUTS) if steps else ():
        y = y + x[k] * W[:, k]
    return y


def prepared(dma: bool) -> fw.Card:
    card = fw.Card(BLOCKS, dma)

    def write(block: int, data: bytes) -> None:
        card.content[block * fw.BLOCK : block * fw.BLOCK + len(data)] = data

    write(fw.PAGE_AREA + NET.layout.rows[2][1], after(0).tobytes())
    write(W_BLOCK, W.tobytes())
    for batch in range(BATCHES):
        place = fw.PAGE_AREA + NET.layout.rows[0][1] + batch * NET.layout.batch_blocks
        write(place, fw.checked(draw(10 + batch, INPUTS).tobytes(), batch))
    head = b"POET RECORD 2\n\0\0" + struct.pack("<IIQIIIII", 1, 64, NET.model.graph_hash, 0, BATCHES, 1, 2, 0)
    body = head + struct.pack("<II", zlib.crc32(after(0).tobytes()), zlib.crc32(W.tobytes()))
    write(16, body + struct.pack("<I", zlib.crc32(body)))
    return card


def start(core: c.CDLL, card: fw.Card) -> Device:
    device = boot(core, NET, noise=True)
    device.insert(card)
    device.ok("hello")
    assert device.ok("restore")["step"] == "0"
    return device


def result(device: Device) -> bytes:
    return bytes.fromhex(device.ok(f"get 2 0 {Y_BYTES}")["data"])


@pytest.mark.parametrize("dma", [False, True])
def test_streaming_gives_the_bits_of_the_same_arithmetic(core: c.CDLL, dma: bool) -> None:
    device = start(core, prepared(dma))
    for step in range(1, 4):
        assert device.ok(STEP)["committed"] == str(step)
        assert result(device) == after(step).tobytes()


@pytest.mark.parametrize("dma", [False, True])
def test_weights_that_changed_on_the_card_are_not_used(core: c.CDLL, dma: bool) -> None:
    card = prepared(dma)
    device = start(core, card)
    place = W_BLOCK * fw.BLOCK + W_BYTES - 1
    card.content[place] ^= 0x40
    assert "err -7" in device.ask(STEP)
    card.content[place] ^= 0x40
    assert device.ok(STEP)["committed"] == "1"
    assert result(device) == after(1).tobytes()


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("fault", ["fail_reads", "fail_writes"])
def test_a_step_whose_transfer_failed_can_be_asked_for_again(core: c.CDLL, fault: str, dma: bool) -> None:
    card = prepared(dma)
    device = start(core, card)
    setattr(card, fault, 10_000)
    device.ok(STEP)
    count = 10_000 - int(getattr(card, fault))
    assert count >= 2
    for transfer in range(count):
        card = prepared(dma)
        device = start(core, card)
        setattr(card, fault, transfer)
        assert "err -5" in device.ask(STEP)
        setattr(card, fault, None)
        done = int(device.ok(STEP)["committed"])
        assert done in (1, 2)
        assert result(device) == after(done).tobytes()
