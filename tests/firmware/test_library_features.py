# SPDX-License-Identifier: Apache-2.0
"""A program's own features: those of a batch made, kept in its memory, and trained on; the bits are a whole step's."""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.firmware import core as fw
from tests.support.firmware.fenced import fenced

BATCH, SIZE = 4, 40
BYTES = 4 * BATCH * SIZE
RATE = np.float32(0.5)
# 0 batch, 1 gradient, 2 parameter; 3 features of the head's step.
WHOLE = [(0, BYTES, fw.INPUT), (BYTES, BYTES, fw.GRADIENT), (2 * BYTES, BYTES, fw.PARAMETER)]
HEAD = [*WHOLE, (3 * BYTES, BYTES, fw.FEATURE)]
# After them: 4 sample, 5 scores, and 6 the features of a sample.
INFER = [*HEAD, (4 * BYTES, 4 * SIZE, fw.INPUT), (4 * BYTES + 4 * SIZE, 4 * SIZE, fw.OUTPUT)]
INFER_FEATURES = [*INFER, (4 * BYTES + 8 * SIZE, 4 * SIZE, fw.FEATURE)]
RAM = 4 * BYTES + 12 * SIZE + 2 * BYTES
X = np.random.default_rng(4).standard_normal((BATCH, SIZE)).astype(np.float32)


def whole() -> fw.Net:
    nodes = [(fw.RELU, [BATCH * SIZE], [1], [0], 0), (fw.ADD, [BATCH * SIZE], [0, 3], [2], BYTES), descent(1)]
    steps = [(fw.COMPUTE, 0, [0]), (fw.COMPUTE, 1, [BYTES]), (fw.FREE, 0, 0), (fw.COMPUTE, 2, [])]
    return fw.Net(nodes=nodes, values=[(BYTES, None)], residents=WHOLE, steps=steps, arena_bytes=2 * BYTES)


def descent(values: int) -> Any:
    return (fw.SGD, [BATCH * SIZE], [values + 1, values + 2], [values + 2], 0)


def in_two_parts(at_once: int) -> fw.Net:
    head = fw.Net(
        nodes=[(fw.ADD, [BATCH * SIZE], [3, 2], [1], BYTES), descent(0)],
        values=[],
        residents=HEAD,
        steps=[(fw.COMPUTE, 0, [0]), (fw.COMPUTE, 1, [])],
        arena_bytes=BYTES,
    )
    rows = at_once * SIZE
    extraction = fw.Net(
        nodes=[(fw.RELU, [rows], [1], [0], 0), (fw.RELU, [rows], [0], [1 + 3], 0)],
        values=[(4 * rows, None)],
        residents=HEAD,
        steps=[(fw.COMPUTE, 0, [0]), (fw.COMPUTE, 1, []), (fw.FREE, 0, 0)],
        arena_bytes=4 * rows,
        graph_hash=7,
    )
    infer = fw.Net(
        nodes=[(fw.RELU, [SIZE], [1 + 4], [0], 0), (fw.ADD, [SIZE], [0, 1 + 2], [1 + 5], 4 * SIZE)],
        values=[(4 * SIZE, None)],
        residents=INFER,
        steps=[(fw.COMPUTE, 0, [0]), (fw.COMPUTE, 1, [4 * SIZE]), (fw.FREE, 0, 0)],
        arena_bytes=8 * SIZE,
        graph_hash=8,
    )
    infer_features = fw.Net(
        nodes=[(fw.ADD, [SIZE], [6, 2], [5], 4 * SIZE)],
        values=[],
        residents=INFER_FEATURES,
        steps=[(fw.COMPUTE, 0, [0])],
        arena_bytes=4 * SIZE,
        graph_hash=9,
    )
    head.infer_by(infer)
    head.extract_by(extraction, BATCH, at_once, infer_features)
    return head


class Program:
    """A network in RAM that is noise."""

    def __init__(self, core: c.CDLL, net: fw.Net, begins: int = fw.OK, card: fw.Card | None = None) -> None:
        self.core, self.net = core, net
        self.network = fw.Network(c.pointer(net.plan), None, c.pointer(net.tables), None, 0, 0, BATCH, RAM)
        if net.built.inference:
            self.network.infer = net.built.inference
        if net.built.extraction:
            calls = (c.cast(getattr(core, f"poet_feature_maker_{name}"), c.c_void_p) for name in CALLS)
            self.maker = fw.FeatureMaker(net.built.extraction, *calls)
            self.network.maker = c.pointer(self.maker)
        self.poet = fw.Poet()
        self.ram = fenced(c.c_uint32, RAM // 4)
        for name in ("poet_input", "poet_tensor", "poet_features", "poet_output", "poet_infer_input"):
            getattr(core, name).restype = c.c_void_p
        core.poet_steps.restype = c.c_uint32
        self.hooks = fw.Hooks()
        device = None if card is None else c.byref(card.device)
        assert self.call("begin", c.byref(self.network), self.ram, RAM, device, c.byref(self.hooks)) == begins
        if begins == fw.OK:
            self.put(X)

    def call(self, name: str, *arguments: Any) -> Any:
        return getattr(self.core, f"poet_{name}")(c.byref(self.poet), *arguments)

    def train(self, name: str = "train") -> int:
        found: int = self.call(name, c.c_float(RATE))
        return found

    def put(self, rows: NDArray[np.float32]) -> None:
        for place, row in enumerate(rows):
            c.memmove(self.call("input", place), row.tobytes(), row.nbytes)

    def batch(self) -> bytes:
        return c.string_at(self.call("input", 0), BYTES)

    def weights(self) -> bytes:
        return c.string_at(self.call("tensor", 2), BYTES)

    def features(self) -> list[bytes]:
        return [c.string_at(self.call("features", place), 4 * SIZE) for place in range(BATCH)]


CALLS = ("check", "make", "begin", "go_on")


@pytest.mark.parametrize("at_once", [4, 2, 1])
def test_head_and_whole_step_have_the_same_bits(core: c.CDLL, at_once: int) -> None:
    one, two = Program(core, whole()), Program(core, in_two_parts(at_once))
    for _ in range(3):
        assert one.train() == two.train() == fw.OK
        assert one.weights() == two.weights()
    assert two.batch() == X.tobytes()
    assert two.train("train_features") == one.train() == fw.OK  # on features that no step has changed
    assert one.weights() == two.weights()
    assert two.call("steps") == one.call("steps") == 4


@pytest.mark.parametrize("at_once", [4, 2, 1])
def test_what_a_program_keeps_trains_what_whole_steps_do(core: c.CDLL, at_once: int) -> None:
    samples = np.random.default_rng(5).standard_normal((3 * BATCH, SIZE)).astype(np.float32)
    one, two = Program(core, whole()), Program(core, in_two_parts(at_once))
    kept: list[bytes] = []
    for first in range(0, len(samples), BATCH):
        two.put(samples[first : first + BATCH])
        assert two.call("extract") == fw.OK
        kept += two.features()
    assert kept == [np.maximum(row, 0).tobytes() for row in samples]
    assert not np.frombuffer(two.weights(), np.float32).any() and two.call("steps") == 0
    for order in (np.random.default_rng(seed).permutation(len(samples))[:BATCH] for seed in range(5)):
        one.put(samples[order])
        for place, number in enumerate(order):
            c.memmove(two.call("features", place), kept[number], 4 * SIZE)
        assert one.train() == two.train("train_features") == fw.OK
        assert one.weights() == two.weights()


@pytest.mark.parametrize("at_once", [4, 2])
def test_piece_by_piece_it_is_the_same(core: c.CDLL, at_once: int) -> None:
    one, two = Program(core, whole()), Program(core, in_two_parts(at_once))
    assert one.train() == fw.OK
    assert two.train("train_begin") == fw.MORE
    pieces = 0
    while (status := two.call("next")) == fw.MORE:
        pieces += 1
        assert two.train("train_features") == two.call("extract") == fw.E_ORDER
    assert status == fw.OK and pieces == BATCH // at_once * 2 + 1
    assert (one.weights(), two.batch(), two.call("steps")) == (two.weights(), X.tobytes(), 1)
    assert two.train("train_features_begin") == two.call("next") == fw.MORE
    assert two.call("next") == one.train() == fw.OK
    assert one.weights() == two.weights()


@pytest.mark.parametrize("pieces", range(5))
def test_a_step_can_be_stopped_while_features_are_made(core: c.CDLL, pieces: int) -> None:
    one, two = Program(core, whole()), Program(core, in_two_parts(2))
    assert two.train("train_begin") == fw.MORE
    for _ in range(pieces):
        assert two.call("next") == fw.MORE
    assert two.call("stop") == fw.STOPPED
    assert two.call("next") == fw.E_ORDER
    assert two.batch() == X.tobytes() and two.call("steps") == 0
    assert one.train() == two.train() == fw.OK
    assert one.weights() == two.weights()


def test_what_is_asked_between_two_pieces_ends_the_making_of_features(core: c.CDLL) -> None:
    program = Program(core, in_two_parts(2))
    asked: list[None] = []
    program.poet.hooks.between = fw.BETWEEN(lambda *_: asked.append(None) or len(asked) < 2)
    for name in ("train", "extract"):
        asked.clear()
        found = program.call(name, c.c_float(RATE)) if name == "train" else program.call(name)
        assert (found, len(asked), program.batch()) == (fw.STOPPED, 2, X.tobytes())


def test_an_inference_from_features_has_the_scores_of_the_sample(core: c.CDLL) -> None:
    program = Program(core, in_two_parts(4))
    assert program.train() == fw.OK
    kept, weights = program.features(), program.weights()
    for place, row in enumerate(X):
        c.memmove(program.call("infer_input"), row.tobytes(), row.nbytes)
        assert program.call("infer") == fw.OK
        expected = c.string_at(program.call("output"), 4 * SIZE)
        c.memset(program.call("output"), 0, 4 * SIZE)
        assert program.call("infer_features", kept[place]) == fw.OK
        assert c.string_at(program.call("output"), 4 * SIZE) == expected
    assert (program.features(), program.weights()) == (kept, weights)


def test_a_network_that_makes_none(core: c.CDLL) -> None:
    program = Program(core, whole())
    assert program.call("features", 0) is None
    assert program.call("extract") == program.train("train_features") == fw.E_ABSENT
    assert program.train("train_features_begin") == program.call("infer_features", bytes(4 * SIZE)) == fw.E_ABSENT
    net = in_two_parts(4)
    net.extraction[1].infer = None
    program = Program(core, net)
    assert program.call("infer_features", bytes(4 * SIZE)) == fw.E_ABSENT
    nothing = fw.Poet()
    for name in ("poet_extract", "poet_infer_features"):
        assert getattr(core, name)(c.byref(nothing), None) == fw.E_ORDER


def test_a_rate_that_is_none_changes_nothing(core: c.CDLL) -> None:
    program = Program(core, in_two_parts(2))
    for name in ("train", "train_features", "train_features_begin"):
        assert program.call(name, c.c_float(float("nan"))) == fw.E_ARGUMENT
    assert not np.frombuffer(program.weights(), np.float32).any()


def test_damaged_tables_are_refused(core: c.CDLL) -> None:
    net = in_two_parts(4)
    net.extraction[1].at_once = 3
    Program(core, net, fw.E_CORRUPT)
    net = in_two_parts(4)
    net.extraction[1].samples = 2  # not those of poet_input
    net.extraction[1].at_once = 1
    Program(core, net, fw.E_CORRUPT)
    net = in_two_parts(4)
    net.extraction[2].model.residents[6].bytes = 4  # a part of a sample's features
    Program(core, net, fw.E_CORRUPT)
    net = in_two_parts(4)
    net.extraction[2].model.residents[6].kind = fw.INPUT
    Program(core, net, fw.E_CORRUPT)


def test_features_on_the_card_outlive_a_reset_and_no_other_frozen_part(core: c.CDLL) -> None:
    samples = np.random.default_rng(5).standard_normal((3 * BATCH, SIZE)).astype(np.float32)
    card = fw.Card(fw.PAGE_AREA + 1 + 2 * len(samples))  # of a trace; of features, of their check
    one, two = Program(core, whole()), Program(core, in_two_parts(2), card=card)
    for first in range(0, len(samples), BATCH):
        two.put(samples[first : first + BATCH])
        assert two.call("extract") == fw.OK
        assert [two.call("keep_features", place, first + place) for place in range(BATCH)] == [fw.OK] * BATCH
    two = Program(core, in_two_parts(2), card=card)
    order = np.random.default_rng(1).permutation(len(samples))[:BATCH]
    one.put(samples[order])
    for _ in range(2):
        assert [two.call("kept_features", place, number) for place, number in enumerate(order.tolist())] == [
            fw.OK
        ] * BATCH
        assert one.train() == two.train("train_features") == fw.OK
        assert one.weights() == two.weights()
    assert two.call("keep_features", BATCH, 0) == two.call("keep_features", 0, len(samples)) == fw.E_ARGUMENT
    card.flips = 1
    assert two.call("kept_features", 0, 0) == fw.OK, "it is read again"
    two.net.built.extraction.contents.plan.model.contents.constant_crc ^= 1
    assert two.call("kept_features", 0, 0) == fw.E_ABSENT
    assert Program(core, in_two_parts(2)).call("kept_features", 0, 0) == fw.E_ABSENT
