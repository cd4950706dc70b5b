# SPDX-License-Identifier: Apache-2.0
"""What the agent does for each verb of the protocol (docs/SPEC.md, section 6)."""

from __future__ import annotations

import base64
import binascii
import math
import platform
import secrets
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from zlib import crc32

import torch
from poet_profiles.errors import FaultError, UserError
from poet_profiles.files.ram_disk import ram_disk
from poet_profiles.program.closing import Closing
from poet_profiles.protocol.f32 import f32_of_bits
from poet_profiles.protocol.frame import LONG_LINE, bytes_in_line
from poet_profiles.protocol.status import Status
from poet_profiles.schedule.file import FORMAT as SCHEDULE_FORMAT
from torch import Tensor

from poet_runtime.agent import system
from poet_runtime.agent.calls import Call, call_from_text, tensors_in
from poet_runtime.agent.loaded import NO_HASH, Loaded, Upload
from poet_runtime.agent.operands import check_room
from poet_runtime.agent.server import RefusedError, Verb
from poet_runtime.agent.vocabulary import vocabulary_call
from poet_runtime.agent.window import WindowLine
from poet_runtime.page_benchmark import PageBenchmark

PROTOCOL = 2
TICKS_HZ = 1_000_000_000
MOST_GET_BYTES = bytes_in_line(LONG_LINE)
MOST_REPEATS = 1_000_000
MOST_PAGE_BYTES = 1 << 30
MOST_IDLE_S = 3600
TIMES_PER_LINE = 24
TEXT_PER_LINE = 400


class Agent(Closing):
    """A board that is this computer under PyTorch.

    Parameters
    ----------
    pages : Path
        Folder for the page file, on the disk that is to be measured.
    window : WindowLine
        Raised while something is measured.
    sysfs : Path
        Where the kernel shows clock, governor and temperature.
    threads : int, optional
        For PyTorch's operators; its own choice if not given.
    allocator : str
        What ``hello`` says of the C library's allocator.
    """

    def __init__(
        self,
        pages: Path,
        window: WindowLine,
        sysfs: Path = system.SYSFS,
        threads: int | None = None,
        allocator: str = "glibc",
    ) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        self._allocator = allocator
        self._boot = secrets.token_hex(4)
        self._pages = PageBenchmark(pages)
        self._window = window
        self._sysfs = sysfs
        self._folder = pages
        self._times_ns: list[int] = []
        self._peaks_bytes: list[int] = []
        self._upload = Upload()
        self._loaded: Loaded | None = None
        self.verbs: dict[str, Verb] = {
            "hello": self._hello,
            "idle": self._idle,
            "bench": self._bench,
            "page": self._page,
            "load": self._load,
            "call": self._call,
            "text": self._text,
            "place": self._place,
            "workspaces": self._workspaces,
            "put": self._put,
            "get": self._get,
            "step": self._step,
            "peaks": self._peaks,
            "times": self._times,
            "format": self._format,
            "stack": self._stack,
        }

    def close(self) -> None:
        """Close the page file, and unload what is loaded."""
        self._pages.close()
        self._unload()

    def _hello(self, _: Sequence[str]) -> str:
        pairs = {
            "protocol": PROTOCOL,
            "board": "linux",
            "firmware": f"poet-agent-{_version()}",
            "boot": self._boot,
            "ticks_hz": TICKS_HZ,
            "ram_bytes": system.available_bytes(),
            "line": LONG_LINE,
            **self._hashes(),
            "machine": platform.machine(),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "device": "cpu",
            "allocator": self._allocator,
            "governor": system.governor(self._sysfs),
            "ram_disk": ram_disk(self._folder),
        }
        return " ".join(f"{name}={value}" for name, value in pairs.items() if value != "")

    def _idle(self, arguments: Sequence[str]) -> str:
        [ticks] = _numbers(arguments, 1)
        if ticks > MOST_IDLE_S * TICKS_HZ:
            raise RefusedError(Status.E_ARGUMENT, f"at most {MOST_IDLE_S} s")
        with self._window.open():
            time.sleep(ticks / TICKS_HZ)
        return f"ticks={self._window.last_ns}"

    def _bench(self, arguments: Sequence[str]) -> str:
        code, repeats, *values = _numbers(arguments, max(2, len(arguments)))
        if not 0 < repeats <= MOST_REPEATS:
            raise RefusedError(Status.E_ARGUMENT, f"{repeats} times")
        return self._repeated(vocabulary_call(code, values), repeats)

    def _page(self, arguments: Sequence[str]) -> str:
        if len(arguments) != 4 or arguments[0] not in ("in", "out") or arguments[3] not in ("sequential", "scattered"):
            raise RefusedError(Status.E_ARGUMENT, "expected in|out bytes repeats sequential|scattered")
        size, repeats = _numbers(arguments[1:3], 2)
        if not 0 < size <= MOST_PAGE_BYTES or not 0 < repeats <= MOST_REPEATS:
            raise RefusedError(Status.E_ARGUMENT, f"{size} bytes, {repeats} times")
        try:
            self._pages.prepare(size)
        except UserError as error:
            raise RefusedError(Status.E_ABSENT, str(error)) from None
        try:
            with self._window.open():
                self._times_ns = self._pages.run(arguments[0], repeats, arguments[3])
        except UserError as error:
            raise RefusedError(Status.E_IO, str(error)) from None
        direct = int(self._pages.is_direct)
        return f"ticks={sum(self._times_ns)} repeats={repeats} bytes={size} direct={direct}{self._sensed()}"

    def _load(self, arguments: Sequence[str]) -> str:
        if len(arguments) != 2:
            raise RefusedError(Status.E_ARGUMENT, "expected OFFSET BASE64, or end CRC32")
        if arguments[0] != "end":
            [at] = _numbers(arguments[:1], 1)
            try:
                part = base64.b64decode(arguments[1], validate=True)
            except binascii.Error:
                raise RefusedError(Status.E_ARGUMENT, "no base64") from None
            return f"bytes={self._upload.add(at, part)}"
        try:
            document = self._upload.end(int(arguments[1], 16))
        except ValueError:
            raise RefusedError(Status.E_ARGUMENT, "expected a CRC-32 in hexadecimal") from None
        self._times_ns, self._peaks_bytes = [], []
        if isinstance(document, dict) and document.get("format") == SCHEDULE_FORMAT:
            self._program().schedule(document, self._folder)
        else:
            self._unload()
            self._loaded = Loaded(document)
        return " ".join(f"{name}={value}" for name, value in self._hashes().items())

    def _call(self, arguments: Sequence[str]) -> str:
        if len(arguments) != 2:
            raise RefusedError(Status.E_ARGUMENT, "expected repeats @INDEX, or repeats JSON")
        [repeats] = _numbers(arguments[:1], 1)
        if not 0 < repeats <= MOST_REPEATS:
            raise RefusedError(Status.E_ARGUMENT, f"{repeats} times")
        if arguments[1].startswith("@"):
            [index] = _numbers([arguments[1][1:]], 1)
            call = self._program().call(index)
        else:
            try:
                call = call_from_text(arguments[1])
            except FaultError as fault:
                raise RefusedError(Status.E_UNSUPPORTED, str(fault)) from None
        return self._repeated(call, repeats)

    def _text(self, arguments: Sequence[str]) -> str:
        index, at = _numbers(arguments, 2)
        text = self._program().text(index)
        return f"text={text[at : at + TEXT_PER_LINE]} length={len(text)}"

    def _place(self, arguments: Sequence[str]) -> str:
        repeats, trace = _numbers(arguments, 2)
        if not 0 < repeats <= MOST_REPEATS or trace not in (0, 1):
            raise RefusedError(Status.E_ARGUMENT, "expected repeats 0|1")
        step = self._program().plain_step
        run = step.run_timed if trace else step.run
        with self._window.open():
            for _ in range(repeats):
                run()
        between = f" between={step.between_ns}" if trace else ""
        self._times_ns = step.times_ns if trace else []
        return f"ticks={self._window.last_ns} repeats={repeats}{between}{self._sensed()}"

    def _workspaces(self, arguments: Sequence[str]) -> str:
        program = self._program()
        return f"bytes={_listed(program.workspaces_bytes, arguments)}"

    def _repeated(self, call: Call, repeats: int) -> str:
        """Time a call, once more beforehand: some kernels prepare themselves."""
        check_room(call.result_bytes(), "the results need")
        results = list(tensors_in(call()))
        size = sum(tensor.untyped_storage().nbytes() for tensor in results)
        with self._window.open():
            for _ in range(repeats):
                call()
        checksum = crc32(
            b"".join(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() for tensor in results)
        )
        return (
            f"ticks={self._window.last_ns} repeats={repeats} bytes={size} workspace=0 checksum={checksum:08x}"
            f"{self._sensed()}"
        )

    def _program(self) -> Loaded:
        if self._loaded is None:
            raise RefusedError(Status.E_ORDER, "no program is loaded")
        return self._loaded

    def _hashes(self) -> dict[str, str]:
        if self._loaded is None:
            return {"model": NO_HASH, "schedule": NO_HASH}
        return {"model": self._loaded.program.graph_hash, "schedule": self._loaded.schedule_hash}

    def _unload(self) -> None:
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None

    def _put(self, arguments: Sequence[str]) -> str:
        if len(arguments) != 3:
            raise RefusedError(Status.E_ARGUMENT, "expected INDEX offset hex")
        index, at = _numbers(arguments[:2], 2)
        try:
            data = bytes.fromhex(arguments[2])
        except ValueError:
            raise RefusedError(Status.E_ARGUMENT, "no hexadecimal") from None
        self._part(index, at, len(data)).copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        return f"bytes={len(data)}"

    def _get(self, arguments: Sequence[str]) -> str:
        index, at, count = _numbers(arguments, 3)
        if count > MOST_GET_BYTES:
            raise RefusedError(Status.E_ARGUMENT, f"at most {MOST_GET_BYTES} bytes")
        return f"data={self._part(index, at, count).numpy().tobytes().hex()}"

    def _part(self, index: int, at: int, count: int) -> Tensor:
        data = self._program().data(index)
        if count == 0 or at + count > len(data):
            raise RefusedError(Status.E_ARGUMENT, f"{count} bytes at {at} of {len(data)}")
        return data[at : at + count]

    def _step(self, arguments: Sequence[str]) -> str:
        rate, trace = _rate_and_trace(arguments)
        step = self._program().scheduled
        if step is None:
            raise RefusedError(Status.E_ORDER, "no schedule is loaded")
        step.warm_up(bool(trace))
        with self._window.open():
            (step.run_traced if trace else step.run)()
        if trace:
            step.observe()
        if not step.is_finite:
            raise RefusedError(Status.E_NOT_FINITE, "the loss is infinite or no number")
        step.keep(rate)
        self._times_ns, self._peaks_bytes = step.times_ns, step.peaks_bytes
        loss = int(step.loss.to(torch.float32).view(torch.int32).item()) & 0xFFFFFFFF
        return (
            f"ticks={self._window.last_ns} peak={step.peak_bytes} arena={step.peak_bytes - step.resident_bytes} "
            f"page_ins={step.page_ins} page_outs={step.page_outs} loss={loss:08x}"
        )

    def _peaks(self, arguments: Sequence[str]) -> str:
        return f"bytes={_listed(self._peaks_bytes, arguments)}"

    def _times(self, arguments: Sequence[str]) -> str:
        return f"ticks={_listed(self._times_ns, arguments)}"

    def _format(self, _: Sequence[str]) -> str:
        """Pages go to a file of the agent's own: there is nothing to label."""
        return "blocks=0"

    def _stack(self, _: Sequence[str]) -> str:
        return "bytes=0"

    def _sensed(self) -> str:
        clock, temperature = system.clock_khz(self._sysfs), system.temperature_mc(self._sysfs)
        pairs = (("cpu_khz", clock), ("temperature_mc", temperature))
        return "".join(f" {name}={value}" for name, value in pairs if value is not None)


def _listed(numbers: Sequence[int], arguments: Sequence[str]) -> str:
    """A part of what was observed."""
    first, count = _numbers(arguments, 2)
    chosen = numbers[first : first + min(count, TIMES_PER_LINE)]
    if not chosen:
        raise RefusedError(Status.E_ABSENT, "nothing was timed, or not so much")
    return ",".join(map(str, chosen))


def _numbers(arguments: Sequence[str], count: int) -> list[int]:
    """Whole numbers, none negative."""
    if len(arguments) != count or not all(word.isascii() and word.isdigit() for word in arguments):
        raise RefusedError(Status.E_ARGUMENT, f"expected {count} whole numbers")
    return [int(word) for word in arguments]


def _rate_and_trace(arguments: Sequence[str]) -> tuple[float, int]:
    expected = RefusedError(
        Status.E_ARGUMENT, "expected: step RATE 0|1, RATE the bits of a f32, finite and not negative"
    )
    if len(arguments) != 2 or arguments[1] not in ("0", "1"):
        raise expected
    try:
        rate = f32_of_bits(arguments[0])
    except ValueError:
        raise expected from None
    if not 0 <= rate < math.inf:
        raise expected
    return rate, int(arguments[1])


def _version() -> str:
    try:
        return version("poet-edge")
    except PackageNotFoundError:
        return "uninstalled"
