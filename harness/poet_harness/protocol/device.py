# SPDX-License-Identifier: Apache-2.0
"""The verbs of docs/SPEC.md, section 6, with types: a device under test as the rest of the harness sees it."""

from __future__ import annotations

import base64
import math
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from poet_profiles.errors import NO_DEVICE, UserError
from poet_profiles.protocol.f32 import f32_bits, f32_of_bits
from poet_profiles.protocol.frame import LONG_LINE, MAX_LINE, SHORT_LINE, bytes_in_line
from poet_profiles.protocol.status import Status

from .link import LONG_LINES, DeviceError, DeviceResetError, Link, SilentDeviceError, TimedAnswer, Values
from .start import Start, read_start

PROTOCOL = "2"
FRAMEWORK = ("torch", "threads", "device", "allocator", "governor", "ram_disk")
SHORTEST_CHUNK_BYTES = 7
FIRST_CHUNK_BYTES = 14  # its line fits a USB block
LONG_LINE_ATTEMPTS = 3
STEPS_PER_LINE = 24
SAMPLES_PER_LINE = 24
NUMBER_BYTES = {"u8": 1, "i8": 1, "i16": 2}
NO_SET = "no data set"
HELLO_ATTEMPTS = 6
# Of a card that the board reads through before it answers; a slower one is asked again.
CARD_BYTES_A_SECOND = 500_000
# In one line of `load`: of an agent's program or schedule, and of a plan to a sketch, by its line in the protocol.
LOAD_BYTES, LOAD_LINE = 336, 48
TEXT_PER_LINE = 400
COLDEST_MC = -273_150
SMALLEST_NORMAL = 2.0**-126  # of a f32; below it bits are lost


@dataclass(frozen=True)
class Hello:
    """What a device says of itself. ``model`` and ``schedule`` are hashes, zeros for none.

    ``regulator`` is ``dcdc`` or ``ldo``, what feeds the core, and empty where there is no choice. ``framework`` is what
    the agent of a Linux board says of PyTorch and of the processor, on which times and bits depend; firmware says none.
    ``machine`` is the agent's kind of processor as Python names it. ``line`` is the longest line that the device takes.
    ``inference`` is the hash of the schedule beside the training's, empty for none, ``features`` that of what makes
    features, and ``room`` for how many samples the board's RAM keeps them. ``ram_disk`` is where an agent's pages lie,
    if it is RAM. ``loads`` says that plans are loaded as data, by a sketch.
    """

    board: str
    firmware: str
    boot: str
    ticks_hz: int
    ram_bytes: int
    model: str
    schedule: str
    regulator: str = ""
    framework: tuple[str, ...] = ()
    machine: str = ""
    line: int = MAX_LINE
    inference: str = ""
    features: str = ""
    room: int = 0
    ram_disk: str = ""
    loads: bool = False
    start: Start = field(default_factory=Start)

    @property
    def is_agent(self) -> bool:
        """Whether this is a Linux board under PyTorch, and not poet's firmware."""
        return bool(self.framework)

    @property
    def build(self) -> str:
        """Identity of what runs on the device, as it goes into a profile."""
        return ", ".join((self.firmware, *self.framework))


@dataclass(frozen=True)
class Timing:
    """Device time of one window: ``work_s`` for ``repeats`` calls, and the host's clock around it.

    ``host_start_s`` is NaN where a lost acknowledgement leaves it unknown.
    ``cpu_hz`` and ``temperature_c`` are what the board's own sensors showed at the window's end; None without sensors.
    ``direct`` says that page transfers passed by the cache of the board's kernel, where it has one.
    """

    work_s: float
    repeats: int
    bytes: int
    workspace_bytes: int
    checksum: str
    host_start_s: float
    host_end_s: float
    cpu_hz: float | None = None
    temperature_c: float | None = None
    direct: bool = True


@dataclass(frozen=True)
class Placed:
    """A program's plain step on an agent: ``work_s`` for all ``repeats`` of it, by one window.

    ``between_s`` is the time between operators, where each was timed in its place; 0 otherwise.
    """

    timing: Timing
    between_s: float


@dataclass(frozen=True)
class StepReport:
    """One training step: the loss's bits, page transfers, and the host's clock around it.

    ``peak_bytes`` is known of what allocates as it runs, a Linux board; None of firmware. ``host_start_s`` is NaN where
    a lost acknowledgement leaves it unknown. ``committed`` is the number of steps that count from now on, of a model
    that keeps tensors on the card; None of another. Where these lie in slow memory they end with the power: ``lasting``
    of them do not.
    """

    work_s: float
    peak_bytes: int | None
    page_ins: int
    page_outs: int
    loss_bits: int
    host_start_s: float
    host_end_s: float
    committed: int | None = None
    lasting: int | None = None


@dataclass(frozen=True)
class InferenceReport:
    """One inference: page transfers, the first bytes of the scores, and the host's clock."""

    work_s: float
    page_ins: int
    page_outs: int
    scores: bytes
    host_start_s: float
    host_end_s: float


@dataclass(frozen=True)
class Restored:
    """Weights that were committed: by how many training steps, and how many batches lie beside them on the card.

    ``batches`` is None of a model that keeps none there. Of slow memory, which may have lost the batches, ``lasting``
    are what does not end with the power.
    """

    step: int
    batches: int | None
    lasting: int | None = None


@dataclass(frozen=True)
class HeldSet:
    """A data set on the card: how many samples, and the check of all, 8 hex digits."""

    samples: int
    check: str


class Device:
    """A board that speaks the protocol. Opens with ``hello``.

    Raises
    ------
    UserError
        With exit code 4, if nothing answers or the device speaks another protocol.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self._reported: str | None = None  # the boot whose failure has been printed
        self.hello = self.greet()
        self._chunk_bytes = FIRST_CHUNK_BYTES
        self._longest_chunk_bytes = bytes_in_line(self.hello.line)

    def greet(self) -> Hello:
        """Say ``hello``: after that the device serves the other verbs."""
        values = self.link.request("hello", attempts=HELLO_ATTEMPTS).values
        if "protocol" not in values:
            # The kept answer of an earlier session whose last sequence number was the same: ask under the next one.
            values = self.link.request("hello").values
        if values.get("protocol") != PROTOCOL:
            raise UserError(
                f"{self.link.name}: the device speaks protocol {values.get('protocol')}, this harness {PROTOCOL}; "
                "flash the firmware of this version",
                NO_DEVICE,
            )
        self.hello = Hello(
            board=values["board"],
            firmware=values["firmware"],
            boot=values["boot"],
            ticks_hz=values.number("ticks_hz", least=1),
            ram_bytes=values.number("ram_bytes"),
            model=values["model"],
            schedule=values["schedule"],
            regulator=values.get("regulator", ""),
            framework=tuple(f"{name} {values[name]}" for name in FRAMEWORK if "torch" in values and name in values),
            machine=values.get("machine", ""),
            line=min(values.number("line", least=SHORT_LINE, default=MAX_LINE), LONG_LINE),
            inference=values.get("inference", ""),
            features=values.get("features", ""),
            room=values.number("room", default=0),
            ram_disk=values.get("ram_disk", ""),
            loads=values.get("loads") == "1",
            start=read_start(values),
        )
        self._tell_of_failure()
        return self.hello

    def _tell_of_failure(self) -> None:
        """One line, once, about a firmware that gave up: it looks like a loss of power otherwise."""
        hello = self.hello
        if hello.start.is_failure and self._reported != hello.boot:
            self._reported = hello.boot
            count = f" ({hello.start.failures} times since its power came)" if hello.start.failures > 1 else ""
            print(f"{self.link.name}: the board restarted: {hello.start.words}{count}", file=sys.stderr)

    def bench(self, code: int, repeats: int, params: Sequence[int], expected_s: float = 0.0) -> Timing:
        """Run an operator ``repeats`` times inside one window."""
        words = " ".join(str(value) for value in params)
        return self._timing(self._ask(f"bench {code} {repeats} {words}".rstrip(), expected_s), repeats)

    def page(self, direction: str, count: int, repeats: int, pattern: str, expected_s: float = 0.0) -> Timing:
        """Transfer ``count`` bytes ``repeats`` times, ``in`` from or ``out`` to the card, inside one window."""
        return self._timing(self._ask(f"page {direction} {count} {repeats} {pattern}", expected_s), repeats)

    def load(self, document: bytes) -> None:
        """Give an agent a program, or a schedule of the program that it has: JSON, by gzip; or a sketch a plan."""
        size = min(LOAD_BYTES, (self.hello.line - LOAD_LINE) // 4 * 3)
        for at in range(0, len(document), size):
            part = base64.b64encode(document[at : at + size]).decode()
            self._ask(f"load {at} {part}")
        values = self._ask(f"load end {zlib.crc32(document):08x}").values
        self.hello = replace(self.hello, model=values["model"], schedule=values["schedule"])

    def forget(self) -> None:
        """Have a sketch forget the plan that it loaded."""
        self._ask("load 0 ")

    def about(self) -> Values:
        """What a sketch says of its board."""
        return self._ask("about").values

    def call(self, repeats: int, call: str, expected_s: float = 0.0) -> Timing:
        """Run one exact call ``repeats`` times inside one window: JSON, or ``@N`` for the program's operator N."""
        return self._timing(self._ask(f"call {repeats} {call}", expected_s), repeats)

    def text(self, index: int) -> str:
        """The call of the program's operator ``index`` as JSON."""
        text, length = "", 1
        while len(text) < length:
            values = self._ask(f"text {index} {len(text)}").values
            text, length = text + values["text"], values.number("length")
        return text

    def place(self, repeats: int, trace: bool, expected_s: float = 0.0) -> Placed:
        """Run the program's plain step; with ``trace`` each operator is timed in its place (:meth:`times`)."""
        answer = self._ask(f"place {repeats} {int(trace)}", expected_s)
        return Placed(self._timing(answer, repeats), answer.values.number("between", default=0) / self.hello.ticks_hz)

    def workspaces(self, operators: int, expected_s: float = 0.0) -> list[int]:
        """Bytes that the kernel of each of a program's operators allocates on the board, beside its results."""
        return self._of_each("workspaces", "bytes", operators, expected_s)

    def idle(self, duration_s: float) -> Timing:
        """Sleep inside one window."""
        answer = self._ask(f"idle {round(duration_s * self.hello.ticks_hz)}", duration_s)
        return self._timing(answer, 1)

    def put(self, index: int, data: bytes, at: int = 0) -> None:
        """Write a whole resident tensor, or one on the card; ``at`` is where a batch begins among all of them."""
        done = 0
        while done < len(data):
            part = data[done : done + self._chunk_bytes]
            if self._transfer(f"put {index} {at + done} {part.hex()}", len(data)):
                done += len(part)

    def put_scaled(self, index: int, data: bytes, number: str, shift: float, scale: float, at: int = 0) -> None:
        """Write small integers into a resident tensor, which has them as f32: ``(q - shift) * scale``.

        Parameters
        ----------
        number : str
            Their type: ``u8``, ``i8`` or ``i16``, little-endian.
        at : int
            Index of the first of them in the tensor.
        """
        size, done = NUMBER_BYTES[number], 0
        pair = f"{f32_bits(shift)} {f32_bits(scale)}"
        while done < len(data):
            part = data[done : done + max(size, self._chunk_bytes // size * size)]
            if self._transfer(f"scaled {index} {at + done // size} {number} {pair} {part.hex()}", len(data)):
                done += len(part)

    def put_block(self, block: int, data: bytes) -> None:
        """Write one block of the card, after the plan's pages."""
        done = 0
        while done < len(data):
            part = data[done : done + self._chunk_bytes]
            if self._transfer(f"block {block} {done} {part.hex()}", len(data)):
                done += len(part)

    def sample_set(self, block: int) -> HeldSet | None:
        """The data set that begins at a block of the card; None if there is none for the built model."""
        try:
            values = self._ask(f"set {block}").values
        except DeviceError as error:
            if error.number != Status.E_ABSENT or NO_SET not in error.text:
                raise
            return None
        return HeldSet(values.number("samples"), values["check"])

    def samples(self, block: int, numbers: Sequence[int]) -> None:
        """Make a batch of samples of the set that begins at a block."""
        for place in range(0, len(numbers), SAMPLES_PER_LINE):
            part = numbers[place : place + SAMPLES_PER_LINE]
            self._ask(f"samples {block} {place} {' '.join(map(str, part))}")

    def get(self, index: int, count: int, at: int = 0) -> bytes:
        """Read ``count`` bytes, as `put` writes them."""
        data = bytearray()
        while len(data) < count:
            part = min(self._chunk_bytes, count - len(data))
            if answer := self._transfer(f"get {index} {at + len(data)} {part}", count):
                data += answer.values.data("data")
        return bytes(data)

    def batches(self, count: int) -> None:
        """Say how many batches the card is to hold, before they and the tensors of a first record are put there."""
        self._ask(f"batches {count}")

    def step(self, learning_rate: float, trace: bool, expected_s: float = 0.0, part: int | None = None) -> StepReport:
        """Run one training step; with ``trace``, one window around each call.

        Parameters
        ----------
        part : int, optional
            Which micro-batch is to be done, of a model that has several.
        """
        of_part = "" if part is None else f" {part}"
        return self._run(f"step {f32_bits(learning_rate)} {int(trace)}{of_part}", expected_s)

    def extract(self, first: int, expected_s: float = 0.0) -> StepReport:
        """Make the features of samples of the batch, from the place ``first`` on; there is no loss."""
        return self._run(f"extract {first} 0", expected_s)

    def keep(self, place: int, numbers: Sequence[int]) -> StepReport:
        """Keep what the step reads of the batch's samples from a place on, under at most `SAMPLES_PER_LINE` numbers."""
        return self._run(f"keep {place} {' '.join(map(str, numbers))}", 0.0)

    def kept(self, place: int, numbers: Sequence[int]) -> StepReport:
        """The other way: a `DeviceError` of E_ABSENT, and no batch, if one of them is not kept."""
        return self._run(f"kept {place} {' '.join(map(str, numbers))}", 0.0)

    def _run(self, text: str, expected_s: float) -> StepReport:
        answer = self._ask(text, expected_s)
        values = answer.values
        return StepReport(
            work_s=values.number("ticks") / self.hello.ticks_hz,
            peak_bytes=values.number("peak") if "peak" in values else None,
            page_ins=values.number("page_ins"),
            page_outs=values.number("page_outs"),
            loss_bits=values.number("loss", 16, default=0),
            host_start_s=answer.acknowledged_s,
            host_end_s=answer.answered_s,
            committed=values.number("committed") if "committed" in values else None,
            lasting=values.number("lasting") if "lasting" in values else None,
        )

    def infer(self, expected_s: float = 0.0, kept_as: int | None = None) -> InferenceReport:
        """Run one inference on what was put in its input, or on the features that are kept under a number."""
        answer = self._ask("infer" if kept_as is None else f"infer {kept_as}", expected_s)
        values = answer.values
        return InferenceReport(
            work_s=values.number("ticks") / self.hello.ticks_hz,
            page_ins=values.number("page_ins"),
            page_outs=values.number("page_outs"),
            scores=values.data("scores"),
            host_start_s=answer.acknowledged_s,
            host_end_s=answer.answered_s,
        )

    def times(self, steps: int) -> list[float]:
        """Seconds of each call of the last training step; on an agent, of whatever was timed last."""
        return [count / self.hello.ticks_hz for count in self._of_each("times", "ticks", steps)]

    def peaks(self, steps: int) -> list[int]:
        """Most bytes in RAM during each step of an agent's schedule, residents included."""
        return self._of_each("peaks", "bytes", steps)

    def commit(self, step: int) -> bool:
        """Keep weights and state on the card, under the number of training steps that made them.

        Returns whether they outlive the power, which those in slow memory do beside a card or flash alone.
        """
        return bool(self._ask(f"commit {step}").values.number("lasts", default=1))

    def restore(self, weight_bytes: int = 0) -> Restored:
        """Check the newest committed weights, of so many bytes, and read back those that belong into RAM."""
        values = self._ask("restore", weight_bytes / CARD_BYTES_A_SECOND).values
        batches, lasting = (values.number(key) if key in values else None for key in ("batches", "lasting"))
        return Restored(values.number("step"), batches, lasting)

    def stack(self) -> int:
        """Most stack used since boot, in bytes."""
        return self._ask("stack").values.number("bytes")

    def format(self) -> int:
        """Label the card for paging, and return how many blocks it has."""
        return self._ask("format").values.number("blocks")

    def _of_each(self, verb: str, key: str, steps: int, expected_s: float = 0.0) -> list[int]:
        """A number of each call or step, asked for line by line."""
        numbers: list[int] = []
        while len(numbers) < steps:
            count = min(STEPS_PER_LINE, steps - len(numbers))
            numbers += self._ask(f"{verb} {len(numbers)} {count}", expected_s).values.numbers(key)
        return numbers

    def _transfer(self, text: str, tensor_bytes: int) -> TimedAnswer | None:
        """A request with a long line in it, twice as long as the last; None where it never arrives whole."""
        shortest = self._chunk_bytes == SHORTEST_CHUNK_BYTES
        try:
            expected_s = tensor_bytes / CARD_BYTES_A_SECOND
            answer = self._ask(text, expected_s, attempts=None if shortest else LONG_LINE_ATTEMPTS)
        except SilentDeviceError:
            if shortest:
                raise
            if self._longest_chunk_bytes == bytes_in_line(self.hello.line) and self._chunk_bytes > FIRST_CHUNK_BYTES:
                print(f"{self.link.name}: going on with shorter lines: {LONG_LINES}", file=sys.stderr)
            self._longest_chunk_bytes = self._chunk_bytes = max(SHORTEST_CHUNK_BYTES, self._chunk_bytes // 2)
            return None
        self._chunk_bytes = min(2 * self._chunk_bytes, self._longest_chunk_bytes)
        return answer

    def _ask(self, text: str, expected_s: float = 0.0, attempts: int | None = None) -> TimedAnswer:
        try:
            return self.link.request(text, expected_s, attempts, max(self.hello.line, MAX_LINE))
        except DeviceResetError:
            raise DeviceResetError(self.greet().start.words) from None

    def _timing(self, answer: TimedAnswer, repeats: int) -> Timing:
        values = answer.values
        return Timing(
            work_s=values.number("ticks") / self.hello.ticks_hz,
            repeats=values.number("repeats", default=repeats),
            bytes=values.number("bytes", default=0),
            workspace_bytes=values.number("workspace", default=0),
            checksum=values.get("checksum", ""),
            host_start_s=answer.acknowledged_s,
            host_end_s=answer.answered_s,
            cpu_hz=_scaled(values, "cpu_khz", 1e3),
            temperature_c=_scaled(values, "temperature_mc", 1e-3),
            direct=values.get("direct", "1") == "1",
        )


def check_learning_rate(rate: float) -> None:
    """Refuse a learning rate that is no finite number above 0, or 0, or that a f32 cannot hold."""
    try:
        taken = f32_of_bits(f32_bits(rate))
    except OverflowError:
        taken = math.inf
    if not 0 <= taken < math.inf or (rate > 0 and taken < SMALLEST_NORMAL):
        raise UserError(f"--lr {rate:g}: the board takes learning rates from {SMALLEST_NORMAL:.2g} to 3.4e38, and 0")


def _scaled(values: Values, name: str, unit: float) -> float | None:
    return values.number(name, least=COLDEST_MC) * unit if name in values else None
