# SPDX-License-Identifier: Apache-2.0
"""The core as an application calls it: a network of six tensors, in RAM that is noise, over a card that fails."""

from __future__ import annotations

import binascii
import ctypes as c
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray
from poet_harness.training.rates import Rates

from tests.support.firmware import core as fw
from tests.support.firmware.fenced import fenced

SIZE, BATCH = 160, 4
BYTES = 4 * SIZE
RATE = np.float32(0.5)
# Residents: 2 x, 3 gradient, 4 parameter, 5 state, 6 target, 7 loss. Values: 0 relu(x), 1 x + relu(x).
RESIDENTS = [
    (0, BYTES, fw.INPUT),
    (BYTES, BYTES, fw.GRADIENT),
    (2 * BYTES, BYTES, fw.PARAMETER),
    (3 * BYTES, 8, fw.STATE),
    (3 * BYTES + 8, 4 * BATCH, fw.TARGET),
    (3 * BYTES + 8 + 4 * BATCH, 4, fw.LOSS),
]
NODES = [
    (fw.RELU, [SIZE], [2], [0], 0),
    (fw.ADD, [SIZE], [2, 0], [1], BYTES),
    (fw.ADD, [SIZE], [1, 4], [3], BYTES),  # so that each step's gradient depends on the weights
    (fw.SGD, [SIZE], [3, 4], [4], 0),
]
VALUES = [(BYTES, 0), (BYTES, 2)]
PLAIN = [
    (fw.COMPUTE, 0, [0]),
    (fw.COMPUTE, 1, [BYTES, 2 * BYTES]),
    (fw.FREE, 0, 0),
    (fw.COMPUTE, 2, [2 * BYTES]),
    (fw.FREE, 1, 0),
    (fw.COMPUTE, 3, []),
]
PAGED = [
    *((fw.COMPUTE, 0, [0]), (fw.PAGE_OUT, 0, 0), (fw.FREE, 0, 0), (fw.PAGE_IN, 0, BYTES)),
    *((fw.COMPUTE, 1, [0, 2 * BYTES]), (fw.FREE, 0, 0), (fw.COMPUTE, 2, [2 * BYTES]), (fw.FREE, 1, 0)),
    (fw.COMPUTE, 3, []),
]
ARENA = 3 * BYTES
# Beside it: 2 to 7 as above, 8 the sample and 9 the scores of an inference. Values: 0 relu(sample), 1 relu(sample) + w.
OWN = [(0, BYTES, fw.INPUT), (BYTES, BYTES, fw.OUTPUT)]
INFERENCE = [(fw.RELU, [SIZE], [8], [0], 0), (fw.ADD, [SIZE], [0, 4], [1], BYTES), (fw.RELU, [SIZE], [1], [9], 0)]
INFERENCE_PLAIN = [(fw.COMPUTE, 0, [0]), (fw.COMPUTE, 1, [BYTES, 2 * BYTES]), (fw.FREE, 0, 0), (fw.COMPUTE, 2, [])]
INFERENCE_PAGED = [
    *((fw.COMPUTE, 0, [0]), (fw.PAGE_OUT, 0, 0), (fw.FREE, 0, 0), (fw.PAGE_IN, 0, 0)),
    *((fw.COMPUTE, 1, [BYTES, 2 * BYTES]), (fw.FREE, 0, 0), (fw.COMPUTE, 2, [])),
]
RAM = 3 * BYTES + 12 + 4 * BATCH + ARENA
PARAMETERS = np.random.default_rng(3).standard_normal(SIZE).astype(np.float32)
X = np.random.default_rng(4).standard_normal((BATCH, SIZE // BATCH)).astype(np.float32)


def fresh_card(dma: bool = False) -> fw.Card:
    return fw.Card(fw.PAGE_AREA + 64, dma)


@dataclass
class Application:
    """A network and a RAM of noise; nothing of it is begun."""

    core: c.CDLL
    steps: list[tuple[int, int, object]] = field(default_factory=lambda: PLAIN)
    nodes: list[object] = field(default_factory=lambda: NODES)
    card: fw.Card | None = None
    inference: list[tuple[int, int, object]] | None = None
    inference_nodes: list[object] = field(default_factory=lambda: INFERENCE)

    def __post_init__(self) -> None:
        self.net = fw.Net(nodes=self.nodes, values=VALUES, residents=RESIDENTS, steps=self.steps, arena_bytes=ARENA)
        self.initial = PARAMETERS.tobytes() + b"\1\2\3\4\5\6\7\0"
        held = c.create_string_buffer(self.initial, len(self.initial))
        self._held = held
        self.network = fw.Network(
            c.pointer(self.net.plan), None, c.pointer(self.net.tables), c.addressof(held), len(self.initial),
            binascii.crc32(self.initial), BATCH, self.ram_bytes,
        )  # fmt: skip
        if self.inference is not None:
            self.net.infer_by(beside(self.inference, self.inference_nodes))
            self.network.infer = c.pointer(self.net.inference.plan)
        self.poet = fw.Poet()
        self.ram = fenced(c.c_uint32, self.ram_bytes // 4)
        self.reset()
        for name in ("poet_input", "poet_target", "poet_tensor", "poet_infer_input", "poet_output"):
            getattr(self.core, name).restype = c.c_void_p
        self.core.poet_loss.restype = c.c_float
        self.core.poet_steps.restype = c.c_uint32

    @property
    def ram_bytes(self) -> int:
        """The larger of both needs."""
        return RAM if self.inference is None else RAM + 2 * BYTES

    def reset(self) -> None:
        """The power was gone: RAM is noise."""
        c.memset(self.ram, 0xC9, self.ram_bytes)
        c.memset(c.byref(self.poet), 0xC9, c.sizeof(fw.Poet))

    def begin(self, hooks: fw.Hooks | None = None) -> int:
        device = c.byref(self.card.device) if self.card is not None else None
        return self.core.poet_begin(
            c.byref(self.poet),
            c.byref(self.network),
            self.ram,
            self.ram_bytes,
            device,
            c.byref(hooks) if hooks else None,
        )

    def fill(self) -> None:
        for sample in range(BATCH):
            c.memmove(self.core.poet_input(c.byref(self.poet), sample), X[sample].tobytes(), X[sample].nbytes)

    def call(self, name: str) -> int:
        return getattr(self.core, name)(c.byref(self.poet))

    def train(self, name: str = "poet_train", rate: float = float(RATE)) -> int:
        return getattr(self.core, name)(c.byref(self.poet), c.c_float(rate))

    def tensor(self, number: int, count: int = SIZE) -> NDArray[np.float32]:
        return np.array((c.c_float * count).from_address(self.core.poet_tensor(c.byref(self.poet), number)))

    def weights(self) -> NDArray[np.float32]:
        return self.tensor(2)


def beside(steps: list[tuple[int, int, object]], nodes: list[object]) -> fw.Net:
    """An inference whose residents are the training's, with its own after them."""
    end = RAM - ARENA
    own = [(end + offset, count, kind) for offset, count, kind in OWN]
    residents = [*RESIDENTS, *own]
    return fw.Net(nodes=nodes, values=VALUES, residents=residents, steps=steps, arena_bytes=ARENA, graph_hash=7)


def scores(sample: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.maximum(np.maximum(sample, 0) + weights, 0)


def after(steps: int) -> NDArray[np.float32]:
    """The parameters after so many steps."""
    x, w = X.ravel(), PARAMETERS
    for _ in range(steps):
        w = w - RATE * ((x + np.maximum(x, 0)) + w)
    return w


def test_every_tensor_is_set_whatever_the_ram_held(core: c.CDLL) -> None:
    application = Application(core)
    assert application.begin() == fw.OK
    np.testing.assert_array_equal(application.weights(), PARAMETERS)
    assert application.tensor(3, 2).tobytes() == b"\1\2\3\4\5\6\7\0"
    for number, count in ((0, SIZE), (1, SIZE), (4, BATCH), (5, 1)):
        assert not application.tensor(number, count).any()
    assert core.poet_loss(c.byref(application.poet)) == 0
    assert core.poet_tensor(c.byref(application.poet), len(RESIDENTS)) is None
    application.network.initial = None
    application.reset()
    assert application.begin() == fw.OK
    assert not application.weights().any()


@pytest.mark.parametrize("count", [4, BYTES - 4, BYTES, BYTES + 4])
def test_what_is_not_stored_begins_with_zeros(core: c.CDLL, count: int) -> None:
    application = Application(core)
    application.network.initial_bytes = count
    application.network.initial_crc = binascii.crc32(application.initial[:count])
    assert application.begin() == fw.OK
    found = application.weights().tobytes() + application.tensor(3, 2).tobytes()
    assert found == application.initial[:count].ljust(BYTES + 8, b"\0")
    application.network.initial_bytes = BYTES + 12
    assert application.begin() == fw.E_CORRUPT


def calls_of(steps: list[tuple[int, int, object]]) -> list[tuple[int, int, object]]:
    """Frees are none."""
    return [step for step in steps if step[0] != fw.FREE]


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("steps", [PLAIN, PAGED], ids=["plain", "paged"])
def test_training_at_once_and_piece_by_piece(core: c.CDLL, steps: list[tuple[int, int, object]], dma: bool) -> None:
    application = Application(core, steps, card=fresh_card(dma))
    assert application.begin() == fw.OK
    application.fill()
    assert application.train() == fw.OK
    np.testing.assert_array_equal(application.weights(), after(1))
    assert application.train("poet_train_begin") == fw.MORE
    for name in ("poet_train", "poet_train_begin"):
        assert application.train(name) == fw.E_ORDER  # one is under way
    assert {application.call(name) for name in ("poet_commit", "poet_restore")} == {fw.E_ORDER}
    for _ in calls_of(steps)[1:]:
        assert application.call("poet_next") == fw.MORE
        assert application.call("poet_settle") == fw.OK
    assert application.call("poet_next") == fw.OK
    assert application.call("poet_next") == fw.E_ORDER
    np.testing.assert_array_equal(application.weights(), after(2))
    assert application.call("poet_steps") == 2


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("steps", [INFERENCE_PLAIN, INFERENCE_PAGED], ids=["plain", "paged"])
def test_an_inference_between_steps_sees_the_weights_and_changes_none(
    core: c.CDLL, steps: list[tuple[int, int, object]], dma: bool
) -> None:
    application = Application(core, PAGED, card=fresh_card(dma), inference=steps)
    assert application.begin() == fw.OK
    sample = np.random.default_rng(5).standard_normal(SIZE).astype(np.float32)
    for trained in range(3):
        c.memmove(core.poet_infer_input(c.byref(application.poet)), sample.tobytes(), BYTES)
        assert application.call("poet_infer") == fw.OK
        found = np.array((c.c_float * SIZE).from_address(core.poet_output(c.byref(application.poet))))
        np.testing.assert_array_equal(found, scores(sample, after(trained)))
        np.testing.assert_array_equal(application.tensor(7), found)
        np.testing.assert_array_equal(application.weights(), after(trained))
        application.fill()
        assert application.train() == fw.OK
    np.testing.assert_array_equal(application.weights(), after(3))
    assert application.call("poet_steps") == 3


def test_an_inference_in_the_middle_of_a_step_is_refused(core: c.CDLL) -> None:
    """It would compute where the step does."""
    application = Application(core, inference=INFERENCE_PLAIN)
    assert application.begin() == fw.OK
    application.fill()
    for done in range(len(calls_of(PLAIN))):
        assert application.train("poet_train_begin") == fw.MORE
        for _ in range(done):
            assert application.call("poet_next") == fw.MORE
        assert application.call("poet_infer") == fw.E_ORDER
        assert core.poet_infer_input(c.byref(application.poet)) is None
        assert core.poet_output(c.byref(application.poet)) is None
        assert core.poet_tensor(c.byref(application.poet), 7) is None
        assert core.poet_tensor(c.byref(application.poet), 2) is not None
        assert application.call("poet_stop") == fw.STOPPED
    assert application.train() == fw.OK
    np.testing.assert_array_equal(application.weights(), after(1))


def test_an_inference_can_be_given_up(core: c.CDLL) -> None:
    seen = []
    hooks = fw.Hooks(between=fw.BETWEEN(lambda *_: seen.append(0) or len(seen) < 2))
    application = Application(core, inference=INFERENCE_PLAIN)
    assert application.begin(hooks) == fw.OK
    assert application.call("poet_infer") == fw.STOPPED
    assert len(seen) == 2
    np.testing.assert_array_equal(application.weights(), PARAMETERS)


def test_a_network_without_inference(core: c.CDLL) -> None:
    application = Application(core)
    assert application.begin() == fw.OK
    assert application.call("poet_infer") == fw.E_ABSENT
    assert core.poet_infer_input(c.byref(application.poet)) is None
    assert core.poet_output(c.byref(application.poet)) is None


def test_what_begin_refuses_of_an_inference(core: c.CDLL) -> None:
    paged = Application(core, inference=INFERENCE_PAGED)
    assert paged.begin() == fw.E_ABSENT  # it wants a card
    other = Application(core, inference=INFERENCE_PLAIN)
    own = beside(INFERENCE_PLAIN, INFERENCE)
    own.model.residents[2].offset += 4
    other.net.inference.model.residents = own.model.residents
    assert other.begin() == fw.E_CORRUPT  # it knows other parameters
    training = [*INFERENCE[:2], (fw.SGD, [SIZE], [9, 4], [4], 0)]
    assert Application(core, inference=INFERENCE_PLAIN, inference_nodes=training).begin() == fw.E_CORRUPT
    short = Application(core, inference=INFERENCE_PLAIN)
    short.net.inference.schedule.ram_bytes += 1 << 16
    assert short.begin() == fw.E_MEMORY


def test_argmax_takes_the_first_of_equals(core: c.CDLL) -> None:
    for values in ([1.0], [0.0, 3.0, 3.0], [-2.0, -1.0, -1.0, -5.0], [4.0, 4.0]):
        assert core.poet_argmax((c.c_float * len(values))(*values), len(values)) == np.argmax(values)


def test_a_rate_that_would_spoil_the_weights_is_refused(core: c.CDLL) -> None:
    application = Application(core)
    assert application.begin() == fw.OK
    for rate in (float("nan"), float("inf"), -0.5):
        for name in ("poet_train", "poet_train_begin"):
            assert application.train(name, rate) == fw.E_ARGUMENT
    np.testing.assert_array_equal(application.weights(), PARAMETERS)
    assert application.call("poet_steps") == 0


def test_samples_lie_one_after_another(core: c.CDLL) -> None:
    application = Application(core)
    assert application.begin() == fw.OK
    application.fill()
    np.testing.assert_array_equal(application.tensor(0), X.ravel())
    target = [core.poet_target(c.byref(application.poet), sample) for sample in range(BATCH)]
    assert [place - target[0] for place in target] == [0, 4, 8, 12]
    for name in ("poet_input", "poet_target"):
        assert getattr(core, name)(c.byref(application.poet), BATCH) is None


def test_a_stopped_step_never_was(core: c.CDLL) -> None:
    application = Application(core, PAGED, card=fresh_card(dma=True))
    answers = iter([True, False])
    hooks = fw.Hooks(fw.HOOKS.ticks, fw.HOOKS.ticks_hz, fw.HOOKS.window, fw.BETWEEN(lambda *_: next(answers)))
    assert application.begin(hooks) == fw.OK
    application.fill()
    assert application.train() == fw.STOPPED
    assert application.train("poet_train_begin") == fw.MORE
    assert application.call("poet_next") == fw.MORE
    assert application.call("poet_stop") == fw.STOPPED
    assert application.call("poet_steps") == 0
    np.testing.assert_array_equal(application.weights(), PARAMETERS)


@pytest.mark.parametrize(("warm", "total"), [(0, 1), (0, 500), (20, 210), (7, 8)])
def test_rates_along_a_cosine_are_those_of_a_host(core: c.CDLL, warm: int, total: int) -> None:
    core.poet_cosine.restype = c.c_float
    core.poet_cosine.argtypes = (c.c_float, c.c_uint32, c.c_uint32, c.c_uint32)
    base = float(np.float32(0.05))
    host = Rates(base, "cosine", warm, total, steps_per_epoch=1)
    for step in range(total):
        np.testing.assert_array_max_ulp(np.float32(core.poet_cosine(base, step, warm, total)), np.float32(host(step)))
    assert core.poet_cosine(base, total, warm, total) == core.poet_cosine(base, 2**32 - 1, warm, total) == 0


def test_nothing_is_done_before_begin(core: c.CDLL) -> None:
    application = Application(core)
    application.network.initial_crc ^= 1
    assert application.begin() == fw.E_CORRUPT
    calls = ("poet_commit", "poet_restore", "poet_next", "poet_stop", "poet_settle")
    assert {application.call(name) for name in calls} == {fw.E_ORDER}
    assert (application.train(), application.train("poet_train_begin")) == (fw.E_ORDER, fw.E_ORDER)
    assert core.poet_input(c.byref(application.poet), 0) is None
    assert core.poet_tensor(c.byref(application.poet), 0) is None


def test_what_begin_refuses(core: c.CDLL) -> None:
    def begin(ram: int, ram_bytes: int, **options: object) -> int:
        application = Application(core, **options)  # type: ignore[arg-type]
        device = c.byref(application.card.device) if application.card is not None else None
        place = c.c_void_p(c.addressof(application.ram) + ram)
        return core.poet_begin(c.byref(application.poet), c.byref(application.network), place, ram_bytes, device, None)

    assert begin(0, RAM) == fw.OK
    assert begin(2, RAM) == fw.E_ARGUMENT
    assert begin(0, RAM - 4) == fw.E_MEMORY
    assert begin(0, RAM, steps=PAGED) == fw.E_ABSENT
    assert begin(0, RAM, card=fw.Card(fw.PAGE_AREA + 64, labelled=False)) == fw.E_ABSENT
    short = Application(core)
    short.network.initial_bytes -= 4
    assert short.begin() == fw.E_CORRUPT


def test_without_a_card_nothing_is_committed(core: c.CDLL) -> None:
    application = Application(core)
    assert application.begin() == fw.OK
    assert (application.call("poet_commit"), application.call("poet_restore")) == (fw.E_ABSENT, fw.E_ABSENT)


def test_after_a_reset_training_goes_on(core: c.CDLL) -> None:
    application = Application(core, PAGED, card=fresh_card())
    assert application.begin() == fw.OK
    assert application.call("poet_restore") == fw.E_ABSENT
    np.testing.assert_array_equal(application.weights(), PARAMETERS)
    application.fill()
    assert (application.train(), application.train(), application.call("poet_commit")) == (fw.OK, fw.OK, fw.OK)
    assert application.train() == fw.OK  # is lost
    application.reset()
    assert application.begin() == fw.OK
    assert application.call("poet_restore") == fw.OK
    assert application.call("poet_steps") == 2
    np.testing.assert_array_equal(application.weights(), after(2))
    application.fill()
    assert application.train() == fw.OK
    np.testing.assert_array_equal(application.weights(), after(3))


def test_a_power_cut_at_any_write_of_a_commit_loses_at_most_that_commit(core: c.CDLL) -> None:
    """The trained bits are those of a run without a cut, whenever it comes."""
    seen = set()
    for writes in range(8):
        card = fresh_card()
        application = Application(core, card=card)
        assert application.begin() == fw.OK
        application.fill()
        assert (application.train(), application.call("poet_commit"), application.train()) == (fw.OK, fw.OK, fw.OK)
        card.fail_writes = writes
        committed = application.call("poet_commit")
        assert committed in (fw.OK, fw.E_IO)
        card.fail_writes = None
        application.reset()
        assert application.begin() == fw.OK
        assert application.call("poet_restore") == fw.OK
        steps = application.call("poet_steps")
        assert steps == (2 if committed == fw.OK else 1)
        seen.add(steps)
        application.fill()
        while application.call("poet_steps") < 4:
            assert application.train() == fw.OK
        np.testing.assert_array_equal(application.weights(), after(4))
    assert seen == {1, 2}


def two_on(card: fw.Card, core: c.CDLL, owners: tuple[int, int] = (0, 0), second_graph: int = 99) -> list[Application]:
    """Two networks begun on one card, of two graphs or with two owners; both have trained a step."""
    both = [Application(core, card=card) for _ in range(2)]
    both[1].net.model.graph_hash = both[1].net.schedule.graph_hash = second_graph
    for application, owner in zip(both, owners, strict=True):
        application.network.owner = owner
        assert application.begin() == fw.OK
        application.fill()
        assert application.train() == fw.OK
    return both


SAME_GRAPH = 0x0123456789ABCDEF


@pytest.mark.parametrize(("owners", "graph"), [((0, 0), 99), ((1, 2), 99), ((1, 2), SAME_GRAPH)])
@pytest.mark.parametrize("commits", [1, 2, 3])
def test_two_networks_on_one_card_do_not_overwrite_each_other(
    core: c.CDLL, owners: tuple[int, int], graph: int, commits: int
) -> None:
    card = fresh_card()
    first, second = two_on(card, core, owners, graph)
    assert [first.call("poet_commit") for _ in range(commits)] == [fw.OK] * commits
    before = bytes(card.content)
    assert [second.call("poet_commit") for _ in range(2)] == [fw.E_TAKEN] * 2
    assert second.call("poet_restore") == fw.E_TAKEN
    assert card.content == before
    np.testing.assert_array_equal(second.weights(), after(1))
    first.reset()
    assert first.begin() == fw.OK
    assert (first.call("poet_restore"), first.call("poet_steps")) == (fw.OK, 1)
    assert core.poet_pager_format(c.byref(card.device)) == fw.OK  # takes the place on purpose
    assert second.call("poet_commit") == fw.OK
    assert (first.call("poet_commit"), first.call("poet_restore")) == (fw.E_TAKEN, fw.E_TAKEN)


def test_a_commit_without_an_owner_is_whose_graph_it_is(core: c.CDLL) -> None:
    """poet's own firmware has trained, or a poet from before there were owners; then the network is in a program."""
    card = fresh_card()
    first, second = two_on(card, core, (0, 7), SAME_GRAPH)
    assert first.call("poet_commit") == fw.OK
    assert (second.call("poet_restore"), second.call("poet_commit")) == (fw.OK, fw.OK)
    assert (first.call("poet_restore"), first.call("poet_commit")) == (fw.OK, fw.OK)


def test_the_place_is_taken_even_if_one_of_its_commits_is_damaged(core: c.CDLL) -> None:
    card = fresh_card()
    first, second = two_on(card, core)
    assert (first.call("poet_commit"), first.call("poet_commit")) == (fw.OK, fw.OK)
    for slot in (16, 1032):
        whole = bytes(card.content)
        card.content[slot * 512 + 20] ^= 1
        assert second.call("poet_commit") == fw.E_TAKEN
        assert (first.call("poet_restore"), first.call("poet_commit")) == (fw.OK, fw.OK)
        card.content[:] = whole
    for slot in (16, 1032):  # what nobody can restore is nobody's
        card.content[slot * 512 + 20] ^= 1
    assert second.call("poet_commit") == fw.OK


def test_a_first_commit_that_the_power_cuts_takes_no_place(core: c.CDLL) -> None:
    """Or the whole place, if its last write came to the card."""
    seen = set()
    for writes in range(4):
        card = fresh_card()
        first, second = two_on(card, core)
        card.fail_writes = writes
        committed = first.call("poet_commit")
        card.fail_writes = None
        seen.add(committed)
        assert second.call("poet_commit") == (fw.E_TAKEN if committed == fw.OK else fw.OK)
    assert seen == {fw.OK, fw.E_IO}


def test_three_networks_have_a_window_each(core: c.CDLL) -> None:
    """Two of them are the same one, in two windows: its commits do not meet either."""
    count = fw.PAGE_AREA + 64
    card = fw.Card(3 * count, labelled=False)
    windows, parts = [(c.c_uint64 * 4)() for _ in range(3)], [fw.BlockDevice() for _ in range(3)]
    whole, applications = card.device, []
    for place, (window, part) in enumerate(zip(windows, parts, strict=True)):
        opened = core.poet_block_window_open(window, c.byref(whole), place * count, count, c.byref(part))
        assert (opened, core.poet_pager_format(c.byref(part))) == (fw.OK, fw.OK)
        card.device = part
        applications.append(Application(core, PAGED, card=card))
        if place == 2:
            applications[2].net.model.graph_hash = applications[2].net.schedule.graph_hash = 99
        assert applications[place].begin() == fw.OK
        applications[place].fill()
        for _ in range(place + 1):
            assert (applications[place].train(), applications[place].call("poet_commit")) == (fw.OK, fw.OK)
    for place, application in enumerate(applications):
        application.reset()
        card.device = parts[place]
        assert application.begin() == fw.OK
        assert (application.call("poet_restore"), application.call("poet_steps")) == (fw.OK, place + 1)
        np.testing.assert_array_equal(application.weights(), after(place + 1))


@pytest.mark.parametrize("dma", [False, True])
def test_a_part_of_a_card_leaves_the_rest_alone(core: c.CDLL, dma: bool) -> None:
    first = 100
    card = fw.Card(first + fw.PAGE_AREA + 64 + 50, dma, labelled=False)
    card.content[:] = bytes([0xA5]) * len(card.content)
    before = bytes(card.content)
    window, part, whole = (c.c_uint64 * 4)(), fw.BlockDevice(), card.device
    opened = core.poet_block_window_open
    count = fw.PAGE_AREA + 64
    assert opened(window, c.byref(whole), first, count + 51, c.byref(part)) == fw.E_ARGUMENT
    assert opened(window, c.byref(whole), first, count, c.byref(part)) == fw.OK
    assert core.poet_pager_format(c.byref(part)) == fw.OK
    application = Application(core, PAGED, card=card)
    card.device = part
    assert application.begin() == fw.OK
    application.fill()
    assert (application.train(), application.call("poet_commit")) == (fw.OK, fw.OK)
    np.testing.assert_array_equal(application.weights(), after(1))
    end = (first + count) * 512
    assert card.content[: first * 512] == before[: first * 512]
    assert card.content[end:] == before[end:]
    assert card.content[first * 512 : first * 512 + 12] == b"POET CARD 1\n"
    one = c.create_string_buffer(513)
    for transfer in (part.read, part.write, *((part.start_read, part.start_write) if dma else ())):
        assert transfer(part.context, count - 1, c.addressof(one), 513) == fw.E_FULL
        assert transfer(part.context, 0xFFFFFFFF, c.addressof(one), 1) == fw.E_FULL
