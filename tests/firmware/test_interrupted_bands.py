# SPDX-License-Identifier: Apache-2.0
"""Stops and power cuts in the midst of bands leave the weights before a step, or after it."""

from __future__ import annotations

import binascii
import ctypes as c
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import aligned
from poet_profiles.protocol.f32 import f32_bits
from poet_profiles.schedule import Schedule
from poet_profiles.schedule.calls import PAGE_IN, PAGE_OUT, calls_of, pages_of

from tests.planner.lowering.tiles.test_mutations import in_parts
from tests.support import needs
from tests.support.firmware import core as fw
from tests.support.firmware.crude_schedules import everything_paged
from tests.support.firmware.cut_card import TEARS, CutCard
from tests.support.firmware.device import Device, boot
from tests.support.firmware.fenced import fenced
from tests.support.firmware.flash import Flash
from tests.support.firmware.host_operators import COperatorSet, Operators
from tests.support.levels import examples

pytestmark = needs.gcc

KINDS = {"parameter": fw.PARAMETER, "gradient": fw.GRADIENT, "state": fw.STATE, "input": fw.INPUT}
KINDS |= {"target": fw.TARGET, "loss": fw.LOSS}
PARTS, RATE = 2, 0.05
Arrays = dict[str, NDArray[Any]]


class Planned(fw.Net):
    """A plan's tables, with the firmware's own operators."""

    def __init__(self, graph: Graph, schedule: Schedule, given: Arrays, operators: Operators) -> None:
        words = bytearray(max((one.offset + aligned(one.bytes) for one in graph.constants), default=0))
        for one in graph.constants:
            words[one.offset : one.offset + one.bytes] = given[one.id].tobytes()
        residents = [(one.offset, one.bytes, KINDS[one.kind]) for one in graph.residents]
        super().__init__([], [], residents, [], 0, constant_words=bytes(words), micro_batches=PARTS)
        every = COperatorSet.in_dll(operators.library, "poet_all_operators")
        names = [*operators.table]
        numbers = {PAGE_IN: fw.CALL_PAGE_IN, PAGE_OUT: fw.CALL_PAGE_OUT}
        numbers |= {name: place for place, name in enumerate(names)}
        calls, places, params = list[Any](), list[int](), list[int]()
        for call in calls_of(graph, schedule):
            flags = (call.workspace is not None) * fw.FLAG_WORKSPACE
            flags |= call.waits * fw.FLAG_WAITS | call.changes * fw.FLAG_CHANGES
            counts = (0, 0) if call.op in (PAGE_IN, PAGE_OUT) else (len(call.inputs), len(call.outputs))
            calls.append((numbers[call.op], *counts, flags, len(params), len(places)))
            places += call.words
            params += call.params
        self.calls = (fw.Call * len(calls))(*calls)
        self.words = (c.c_uint32 * len(places))(*places)
        self.params = (c.c_int32 * len(params))(*params)
        pages = pages_of(graph, schedule)
        sizes = {value.id: aligned(value.bytes) for node in graph.nodes for value in node.values}
        blocks = max((page.block + fw.blocks_of(sizes[id]) for id, page in pages.items()), default=0)
        self.model.resident_bytes = graph.resident_bytes
        self.schedule = fw.Schedule(
            *(self.model.graph_hash, fw.SCHEDULE_HASH, c.cast(every.operators, c.POINTER(fw.Operator)), self.calls),
            *(self.words, self.params, 0, graph.resident_bytes + schedule.arena_bytes, blocks),
            *(len(calls), len(places), len(params), len(pages), every.count),
        )
        self.seal()
        self.pages = fenced(fw.Page, len(pages))
        self.tables = fw.Tables(self.pages, self.checks, self.homes, self.trace)
        self.plan = fw.Plan(c.pointer(self.model), c.pointer(self.schedule))
        self.built = fw.Built(
            c.pointer(self.model), c.pointer(self.schedule), self.tables, None, None, c.pointer(fw.OPERATORS)
        )


@dataclass
class Step:
    """A step in bands of two samples, of which each is a part."""

    graph: Graph
    given: Arrays
    operators: Operators

    def samples(self, step: int, part: int) -> list[tuple[int, bytes]]:
        """Inputs and targets, by number."""
        draw = np.random.default_rng([step, part])
        found = []
        for place, one in enumerate(self.graph.residents):
            if one.kind == "input":
                found.append((place, draw.integers(0, 256, one.bytes, np.uint8).tobytes()))
            elif one.kind == "target":
                found.append((place, np.int32(draw.integers(3)).tobytes()))
        return found

    def lasting(self, *kinds: str) -> list[tuple[int, int]]:
        """Numbers and bytes of tensors of such kinds."""
        return [(place, one.bytes) for place, one in enumerate(self.graph.residents) if one.kind in kinds]

    def first(self) -> bytes:
        ids = [one.id for one in self.graph.residents if one.kind in ("parameter", "state")]
        return b"".join(self.given[id].tobytes() for id in ids)


@pytest.fixture(scope="module")
def step(operators: Operators) -> Step:
    return Step(*in_parts(), operators)


class Board:
    """A program that trains; its RAM is noise at first."""

    def __init__(self, core: c.CDLL, step: Step, device: Any, stops_at: int | None = None) -> None:
        self.core, self.step, self.device = core, step, device
        self.net = Planned(step.graph, store_all_schedule(step.graph), step.given, step.operators)
        initial, ram_bytes = step.first(), self.net.schedule.ram_bytes
        self.initial = c.create_string_buffer(initial, len(initial))
        self.network = fw.Network(
            *(c.pointer(self.net.plan), None, c.pointer(self.net.tables), c.addressof(self.initial), len(initial)),
            *(binascii.crc32(initial), 1, ram_bytes),
        )
        self.poet, self.ram, self.asked = fw.Poet(), fenced(c.c_uint32, ram_bytes // 4), 0
        c.memset(self.ram, 0xC9, ram_bytes)
        core.poet_tensor.restype = c.c_void_p
        self.hooks = fw.Hooks(between=fw.BETWEEN(lambda *_: self.goes_on(stops_at)))
        ram = (self.ram, ram_bytes, c.byref(device.device), c.byref(self.hooks))
        assert core.poet_begin(c.byref(self.poet), c.byref(self.network), *ram) == fw.OK

    def goes_on(self, stops_at: int | None) -> bool:
        self.asked += 1
        return self.asked - 1 != stops_at

    def call(self, name: str) -> int:
        return int(getattr(self.core, name)(c.byref(self.poet)))

    def train(self, number: int) -> int:
        """A batch, until something ends it."""
        status = fw.GATHERED
        for part in range(PARTS):
            if status == fw.GATHERED:
                for place, data in self.step.samples(number, part):
                    c.memmove(self.core.poet_tensor(c.byref(self.poet), place), data, len(data))
                status = self.core.poet_train(c.byref(self.poet), c.c_float(RATE))
        return status

    def tensors(self, *kinds: str) -> bytes:
        found = self.step.lasting(*kinds)
        return b"".join(c.string_at(self.core.poet_tensor(c.byref(self.poet), place), size) for place, size in found)


@pytest.mark.parametrize("medium", ["card", "flash"])
def test_a_stop_or_a_cut_after_any_call(core: c.CDLL, step: Step, medium: str) -> None:
    def device() -> Any:
        flash = Flash(8 * 4096, 4096)
        assert medium == "card" or core.poet_pager_format(c.byref(flash.device)) == fw.OK
        return fw.Card(fw.PAGE_AREA + 64) if medium == "card" else flash

    whole, after = Board(core, step, device()), []
    for number in range(2):
        assert whole.train(number) == fw.OK
        after.append((whole.tensors("parameter", "state"), whole.tensors("gradient", "loss")))
    assert len({step.first(), after[0][0], after[1][0]}) == 3
    calls, stopped = whole.asked // 2, 0
    for stops_at in range(calls):
        board = Board(core, step, device(), calls + stops_at)
        assert (board.train(0), board.call("poet_commit")) == (fw.OK, fw.OK)
        ended = board.train(1)
        assert (ended, board.tensors("parameter", "state")) in ((fw.STOPPED, after[0][0]), (fw.OK, after[1][0]))
        stopped += ended == fw.STOPPED
        again = Board(core, step, board.device)  # the power was gone
        assert again.call("poet_restore") == fw.OK
        assert again.tensors("parameter", "state") == after[0][0]
        for one in [again, *([board] if ended == fw.STOPPED else [])]:
            assert one.train(1) == fw.OK
            assert (one.tensors("parameter", "state"), one.tensors("gradient", "loss")) == after[1]
    assert stopped == calls > 100  # the only change of weights is the last call


class Trained:
    """A device that a host trains, all of whose values are paged."""

    def __init__(self, core: c.CDLL, step: Step, card: CutCard) -> None:
        self.step = step
        net = Planned(step.graph, everything_paged(step.graph), step.given, step.operators)
        self.device: Device = boot(core, net, noise=True)
        self.device.insert(card)
        self.device.ok("hello")

    def put(self, place: int, data: bytes) -> None:
        for offset in range(0, len(data), 200):
            self.device.ok(f"put {place} {offset} {data[offset : offset + 200].hex()}")

    def initialise(self) -> None:
        first = self.step.first()
        for place, size in self.step.lasting("parameter", "state"):
            self.put(place, first[:size])
            first = first[size:]
        self.device.ok("commit 0")

    def weights(self) -> bytes:
        found = b""
        for place, size in self.step.lasting("parameter", "state"):
            for offset in range(0, size, 200):
                found += bytes.fromhex(self.device.ok(f"get {place} {offset} {min(200, size - offset)}")["data"])
        return found

    def train(self, number: int) -> bool:
        """Whether a batch is made and committed."""
        for part in range(PARTS):
            for place, data in self.step.samples(number, part):
                self.put(place, data)
            if not self.device.ask(f"step {f32_bits(RATE)} 0 {part}").startswith("ok"):
                return False
        return self.device.ask(f"commit {number}").startswith("ok")


def test_a_cut_at_any_write_between_bands(core: c.CDLL, step: Step) -> None:
    card = CutCard(fw.PAGE_AREA + 4096)
    board = Trained(core, step, card)
    board.initialise()
    begun, before = card.writes, board.weights()
    assert board.train(1)
    after = board.weights()
    assert before == step.first() != after
    for cut in range(begun, card.writes, -(-(card.writes - begun) // examples(40))):
        torn = CutCard(fw.PAGE_AREA + 4096)
        board = Trained(core, step, torn)
        board.initialise()
        torn.cut, torn.torn = cut, TEARS[cut % len(TEARS)]
        assert not board.train(1)
        assert torn.dead
        torn.power_up()
        board = Trained(core, step, torn)
        done = board.device.ok("restore")["step"] == "1"
        assert board.weights() == (after if done else before)
        assert done or (board.train(1) and board.weights() == after)
