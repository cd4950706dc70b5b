# SPDX-License-Identifier: Apache-2.0
"""A step whose operators read a kept tensor from the card themselves: bits, checks, errors of the card."""

from __future__ import annotations

import ctypes as c
import struct
import zlib

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.firmware.core import (
    BLOCK,
    COMMIT,
    COMPUTE,
    FETCH,
    FREE,
    INPUT,
    PAGE_AREA,
    PARAMETER,
    RELU,
    STREAMED_EMBEDDING,
    STREAMED_EMBEDDING_UPDATE,
    Card,
    Net,
)
from tests.support.firmware.device import Device, boot

TOKENS, WORDS, WIDTH, TILE = 6, 19, 128, 4  # the last tile has three rows
Y_BYTES, W_BYTES = 4 * TOKENS * WIDTH, 4 * WORDS * WIDTH
WORKSPACE = 512 + 2 * 4 * TILE * WIDTH
RATE = np.float32(0.05)
STEP = "step 50000000 0"
BATCHES = 2
SHAPE = [TOKENS, WORDS, WIDTH]
Floats = NDArray[np.float32]

# Values: 0 tokens, 1 y, 2 relu(y), which serves as y's gradient. Kept tensors: 3 tokens (batches), 4 w (unit 0).
NET = Net(
    nodes=[
        (FETCH, [TOKENS], [3], [0], 0),
        (STREAMED_EMBEDDING, SHAPE, [4, 0], [1], 0),
        (RELU, [TOKENS * WIDTH], [1], [2], 0),
        (STREAMED_EMBEDDING_UPDATE, [*SHAPE, TILE], [2, 0, 4], [4], WORKSPACE),
        (COMMIT, [1], [], [], 0),
    ],
    values=[(4 * TOKENS, None), (Y_BYTES, None), (Y_BYTES, None)],
    residents=[],
    steps=[
        (COMPUTE, 0, [0]),
        (COMPUTE, 1, [32]),
        (COMPUTE, 2, [32 + Y_BYTES]),
        (FREE, 1, 0),
        (COMPUTE, 3, [32 + 2 * Y_BYTES]),
        (FREE, 0, 0),
        (FREE, 2, 0),
        (COMPUTE, 4, []),
    ],
    arena_bytes=32 + 2 * Y_BYTES + WORKSPACE,
    kept=[(4 * TOKENS, INPUT, None), (W_BYTES, PARAMETER, 0)],
)
BLOCKS = PAGE_AREA + NET.layout.batch_block + BATCHES * NET.layout.batch_blocks + 8
HOME = PAGE_AREA + NET.layout.rows[1][1]


def tokens(batch: int) -> NDArray[np.int32]:
    drawn = np.random.default_rng(batch).integers(0, WORDS, TOKENS).astype(np.int32)
    drawn[-1] = drawn[0]  # one occurs twice at least
    return drawn


def after(steps: int) -> Floats:
    """The table by numpy: float32, gradients of equal tokens summed in their order."""
    w: Floats = np.random.default_rng(7).standard_normal((WORDS, WIDTH)).astype(np.float32)
    for step in range(steps):
        at = tokens(step % BATCHES)
        gradient = np.zeros_like(w)
        for token, row in zip(at, np.maximum(w[at], 0), strict=True):
            gradient[token] += row
        w = w - RATE * gradient
    return w


def prepared(dma: bool) -> Card:
    card = Card(BLOCKS, dma)

    def write(block: int, data: bytes) -> None:
        card.content[block * BLOCK : block * BLOCK + len(data)] = data

    write(HOME, after(0).tobytes())
    for batch in range(BATCHES):
        write(PAGE_AREA + NET.layout.rows[0][1] + batch * NET.layout.batch_blocks, tokens(batch).tobytes())
    head = b"POET RECORD 1\n\0\0" + struct.pack("<IIQIIIII", 1, 60, NET.model.graph_hash, 0, BATCHES, 1, 1, 0)
    body = head + struct.pack("<I", zlib.crc32(after(0).tobytes()))
    write(16, body + struct.pack("<I", zlib.crc32(body)))
    return card


def start(core: c.CDLL, card: Card) -> Device:
    device = boot(core, NET, noise=True)
    device.insert(card)
    device.ok("hello")
    assert device.ok("restore")["step"] == "0"
    return device


def table(device: Device) -> bytes:
    return b"".join(bytes.fromhex(device.ok(f"get 1 {at} 128")["data"]) for at in range(0, W_BYTES, 128))


@pytest.mark.parametrize("dma", [False, True])
def test_streaming_gives_the_bits_of_the_same_arithmetic(core: c.CDLL, dma: bool) -> None:
    device = start(core, prepared(dma))
    for step in range(1, 4):
        assert device.ok(STEP)["committed"] == str(step)
        assert table(device) == after(step).tobytes()


@pytest.mark.parametrize("dma", [False, True])
def test_weights_that_changed_on_the_card_are_not_trained_on(core: c.CDLL, dma: bool) -> None:
    unused = next(word for word in range(WORDS) if word not in tokens(0))
    card = prepared(dma)
    device = start(core, card)
    card.content[HOME * BLOCK + 4 * WIDTH * unused + 9] ^= 0x40  # a row that the forward pass does not read
    assert "err -7" in device.ask(STEP)
    card.content[HOME * BLOCK + 4 * WIDTH * unused + 9] ^= 0x40
    assert device.ok(STEP)["committed"] == "1"
    assert table(device) == after(1).tobytes()


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("fault", ["fail_reads", "fail_writes"])
def test_a_step_whose_transfer_failed_can_be_asked_for_again(core: c.CDLL, fault: str, dma: bool) -> None:
    card = prepared(dma)
    device = start(core, card)
    setattr(card, fault, 10_000)
    device.ok(STEP)
    count = 10_000 - int(getattr(card, fault))
    assert count >= 5
    for transfer in range(count):
        card = prepared(dma)
        device = start(core, card)
        setattr(card, fault, transfer)
        assert "err -5" in device.ask(STEP)
        setattr(card, fault, None)
        done = int(device.ok(STEP)["committed"])
        assert done in (1, 2)
        assert table(device) == after(done).tobytes()
