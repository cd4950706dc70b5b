# SPDX-License-Identifier: Apache-2.0
"""What the agent does for each verb of the protocol (docs/SPEC.md, section 6)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Self

import torch
from poet_profiles.protocol.status import Status

from poet_runtime.agent import system
from poet_runtime.agent.pages import PageBenchmark
from poet_runtime.agent.server import RefusedError, Verb
from poet_runtime.agent.window import WindowLine

PROTOCOL = 1
TICKS_HZ = 1_000_000_000
NO_HASH = "0" * 16
MOST_REPEATS = 1_000_000
MOST_PAGE_BYTES = 1 << 30
TIMES_PER_LINE = 24


class Agent:
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
    """

    def __init__(self, pages: Path, window: WindowLine, sysfs: Path = system.SYSFS, threads: int | None = None) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        self._boot = secrets.token_hex(4)
        self._pages = PageBenchmark(pages)
        self._window = window
        self._sysfs = sysfs
        self._times_ns: list[int] = []
        self.verbs: dict[str, Verb] = {
            "hello": self._hello,
            "idle": self._idle,
            "page": self._page,
            "times": self._times,
            "format": self._format,
            "stack": self._stack,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pages.close()

    def _hello(self, _: Sequence[str]) -> str:
        pairs = {
            "protocol": PROTOCOL,
            "board": "linux",
            "firmware": f"poet-agent-{_version()}",
            "boot": self._boot,
            "ticks_hz": TICKS_HZ,
            "ram_bytes": system.available_bytes(),
            "model": NO_HASH,
            "schedule": NO_HASH,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "device": "cpu",
            "allocator": "glibc",
            "governor": system.governor(self._sysfs),
        }
        return " ".join(f"{name}={value}" for name, value in pairs.items() if value != "")

    def _idle(self, arguments: Sequence[str]) -> str:
        [ticks] = _numbers(arguments, 1)
        with self._window.open():
            time.sleep(ticks / TICKS_HZ)
        return f"ticks={self._window.last_ns}"

    def _page(self, arguments: Sequence[str]) -> str:
        if len(arguments) != 4 or arguments[0] not in ("in", "out") or arguments[3] not in ("sequential", "scattered"):
            raise RefusedError(Status.E_ARGUMENT, "expected in|out bytes repeats sequential|scattered")
        size, repeats = _numbers(arguments[1:3], 2)
        if not 0 < size <= MOST_PAGE_BYTES or not 0 < repeats <= MOST_REPEATS:
            raise RefusedError(Status.E_ARGUMENT, f"{size} bytes, {repeats} times")
        self._pages.prepare(size)
        with self._window.open():
            self._times_ns = self._pages.run(arguments[0], size, repeats, arguments[3])
        return f"ticks={sum(self._times_ns)} repeats={repeats} bytes={size}{self._sensed()}"

    def _times(self, arguments: Sequence[str]) -> str:
        first, count = _numbers(arguments, 2)
        chosen = self._times_ns[first : first + min(count, TIMES_PER_LINE)]
        if not chosen:
            raise RefusedError(Status.E_ABSENT, "nothing was timed, or not so much")
        return "ticks=" + ",".join(map(str, chosen))

    def _format(self, _: Sequence[str]) -> str:
        """Pages go to a file of the agent's own: there is nothing to label."""
        return "blocks=0"

    def _stack(self, _: Sequence[str]) -> str:
        return "bytes=0"

    def _sensed(self) -> str:
        clock, temperature = system.clock_khz(self._sysfs), system.temperature_mc(self._sysfs)
        pairs = (("cpu_khz", clock), ("temperature_mc", temperature))
        return "".join(f" {name}={value}" for name, value in pairs if value is not None)


def _numbers(arguments: Sequence[str], count: int) -> list[int]:
    """Whole numbers, none negative."""
    if len(arguments) != count or not all(word.isascii() and word.isdigit() for word in arguments):
        raise RefusedError(Status.E_ARGUMENT, f"expected {count} whole numbers")
    return [int(word) for word in arguments]


def _version() -> str:
    try:
        return version("poet-edge")
    except PackageNotFoundError:
        return "uninstalled"
