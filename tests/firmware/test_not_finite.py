# SPDX-License-Identifier: Apache-2.0
"""A loss or a weight that is infinite or no number ends the step, and is never committed."""

from __future__ import annotations

import ctypes as c
import struct

import numpy as np
import pytest
from poet_profiles.protocol.f32 import f32_bits

from tests.firmware import test_kept_tensors as kept
from tests.firmware.test_kept_updates import FACTORS, LAYERS
from tests.firmware.test_library import PAGED, PLAIN, RATE, Application, after, fresh_card
from tests.support.firmware.core import ADD, BLOCK, COMPUTE, E_NOT_FINITE, LOSS, OK, PAGE_AREA, Net
from tests.support.firmware.cut_card import BlockCard
from tests.support.firmware.device import Device
from tests.support.firmware.host_operators import Operators, StatusError
from tests.support.firmware.operator_references import REFERENCES, Draw
from tests.support.firmware.operator_shapes import Params

NOT_FINITE = [float("nan"), -float("nan"), float("inf"), -float("inf")]
LARGEST = np.float32(3.0e38)
PARAMETER_NUMBER, STATE_NUMBER, LOSS_NUMBER = 2, 3, 5  # of the library's network


def put(application: Application, number: int, bits: bytes, at: int = 0) -> None:
    c.memmove(application.core.poet_tensor(c.byref(application.poet), number) + at, bits, len(bits))


@pytest.mark.parametrize("steps", [PLAIN, PAGED], ids=["plain", "paged"])
@pytest.mark.parametrize("bad", NOT_FINITE)
def test_such_a_loss_changes_nothing(core: c.CDLL, steps: list[tuple[int, int, object]], bad: float) -> None:
    application = Application(core, steps, card=fresh_card(dma=True))
    assert application.begin() == OK
    application.fill()
    assert application.train() == OK
    put(application, LOSS_NUMBER, struct.pack("<f", bad))
    assert application.train() == E_NOT_FINITE
    np.testing.assert_array_equal(application.weights(), after(1))
    assert application.call("poet_steps") == 1
    put(application, LOSS_NUMBER, struct.pack("<f", -LARGEST))
    assert application.train() == OK
    np.testing.assert_array_equal(application.weights(), after(2))


def test_a_step_under_way_ends_with_it(core: c.CDLL) -> None:
    application = Application(core)
    assert application.begin() == OK
    application.fill()
    assert application.train("poet_train_begin") > 0
    put(application, LOSS_NUMBER, struct.pack("<f", float("nan")))
    status = 1
    while status > 0:
        status = application.call("poet_next")
    assert status == E_NOT_FINITE
    assert application.call("poet_steps") == 0
    np.testing.assert_array_equal(application.weights(), after(0))


@pytest.mark.parametrize("bad", NOT_FINITE)
@pytest.mark.parametrize("place", [0, 639])
def test_a_commit_of_such_a_weight_leaves_every_byte_of_the_card(core: c.CDLL, bad: float, place: int) -> None:
    application = Application(core, card=fresh_card())
    assert application.begin() == OK
    application.fill()
    assert (application.train(), application.call("poet_commit")) == (OK, OK)
    before = bytes(application.card.content)
    put(application, PARAMETER_NUMBER, struct.pack("<f", bad), place // 4 * 4)
    assert application.call("poet_commit") == E_NOT_FINITE
    assert bytes(application.card.content) == before
    assert application.call("poet_restore") == OK
    np.testing.assert_array_equal(application.weights(), after(1))


def test_a_state_is_bits_and_is_committed_as_it_is(core: c.CDLL) -> None:
    application = Application(core, card=fresh_card())
    assert application.begin() == OK
    put(application, STATE_NUMBER, b"\xff" * 8)
    assert application.call("poet_commit") == OK
    put(application, STATE_NUMBER, bytes(8))
    assert application.call("poet_restore") == OK
    assert application.tensor(3, 2).tobytes() == b"\xff" * 8


# --- weights on the card ---


def committed(card: BlockCard) -> bytes:
    """All that the first record names: both records, its homes, constants and batches."""
    layout = kept.NET.layout
    homes = slice(PAGE_AREA * BLOCK, (PAGE_AREA + layout.home_blocks) * BLOCK)
    return bytes(card.content[: PAGE_AREA * BLOCK]) + bytes(card.content[homes])


def trains_on(device: Device) -> None:
    """The card gives its weights back, and the next steps have the bits that they should have."""
    assert device.ok("restore")["step"] == "0"
    assert kept.train(device) == kept.STEPS
    assert kept.weights(device) == kept.bits(kept.expected_after(kept.STEPS))


@pytest.mark.parametrize("dma", [False, True])
def test_a_gradient_that_overflows_ends_the_step_before_its_commit(core: c.CDLL, dma: bool) -> None:
    card = kept.prepared(dma)
    device = kept.start(core, card)
    device.ok("restore")
    before = committed(card)
    answer = device.ask(f"step {f32_bits(LARGEST)} 0")
    assert answer.startswith(f"err {E_NOT_FINITE} call ")
    assert answer.endswith(": a weight is infinite or no number")
    assert committed(card) == before
    trains_on(device)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_residents_that_are_no_numbers_are_not_committed(core: c.CDLL, bad: float) -> None:
    card = kept.prepared()
    device = kept.start(core, card)
    device.ok("restore")
    content = kept.draw(2)
    content[-1] = bad
    kept.put(device, 0, content.tobytes())
    before = bytes(card.content)
    assert device.ask("commit 7") == f"err {E_NOT_FINITE} a weight is infinite or no number"
    assert bytes(card.content) == before
    trains_on(device)


def with_loss(first: bool) -> Net:
    """The same training with a loss, the first number of w's gradient + w: it is known before w's update, or after."""

    def moved(operands: list[int]) -> list[int]:
        return [operand + (operand > 6) for operand in operands]  # the loss stands after the first resident

    nodes = [
        (op, params, moved(inputs), moved(outputs), workspace) for op, params, inputs, outputs, workspace in kept.NODES
    ]
    nodes.append((ADD, [1], [3, 0], [7], 4))
    update = next(place for place, step in enumerate(kept.SCHEDULE) if step[:2] == (COMPUTE, 6))
    steps = list(kept.SCHEDULE)
    steps.insert(update if first else update + 1, (COMPUTE, len(nodes) - 1, [5 * kept.BYTES]))
    return kept.training_net(steps, nodes=nodes, residents=[*kept.RESIDENTS, (kept.BYTES, 4, LOSS)])


@pytest.mark.parametrize("first", [True, False])
def test_an_infinite_loss_ends_the_step_before_its_commit(core: c.CDLL, first: bool) -> None:
    card, w = kept.prepared(), 3
    device = kept.start(core, card, with_loss(first))
    device.ok("restore")
    kept.put(device, w, np.full(kept.SIZE, LARGEST).tobytes())
    device.ok("commit 0")
    before = bytes(card.content)
    answer = device.ask(f"step {kept.RATE_BITS} 0")
    assert answer.startswith(f"err {E_NOT_FINITE} call ")
    assert answer.endswith(": the loss is infinite or no number")
    pages = (kept.CARD_BLOCKS - 8) * BLOCK
    home = slice(PAGE_AREA * BLOCK, (PAGE_AREA + 3) * BLOCK)  # of w, the one that does not count now
    same = [slice(0, home.start), slice(home.stop, pages)]
    assert all(card.content[part] == before[part] for part in same)
    assert (card.content[home] == before[home]) == first
    # The next step is not judged by this one's loss.
    device.ok("restore")
    kept.put(device, w, kept.draw(1).tobytes())
    device.ok("commit 0")
    device.ok(f"step {kept.RATE_BITS} 0")
    assert kept.tensor(device, 0).tobytes() == kept.expected_after(1)["r"].tobytes()


UPDATES: list[tuple[str, Params]] = [
    *LAYERS[1:],
    ("sgd_update", {"size": 300, "tile": 70}),
    ("streamed_embedding_update", {"m": 6, "v": 5, "d": 7}),
    ("sgd_update", {"size": 300, "tile": 70, "decay_f32": int(np.float32(0.5).view(np.int32))}),
    ("sgd_update", {"size": 300, "tile": 70, "adam": 1}),
]


@pytest.mark.parametrize(("name", "params"), UPDATES)
@pytest.mark.parametrize("bad", NOT_FINITE)
@pytest.mark.parametrize("place", [0, -1])
def test_every_update_notices_one_gradient_that_overflows(
    operators: Operators, name: str, params: Params, bad: float, place: int
) -> None:
    gradient, *others = REFERENCES[name](params, Draw(7)).inputs
    others += [np.ones(300, np.float32), np.ones(300, np.float32), FACTORS] if params.get("adam") else []
    assert operators.run(name, params, [gradient, *others], float(RATE))
    gradient.reshape(-1)[place] = bad
    with pytest.raises(StatusError, match=str(E_NOT_FINITE)):
        operators.run(name, params, [gradient, *others], float(RATE))
