# SPDX-License-Identifier: Apache-2.0
"""Moves values between RAM and a file while the step computes: one thread, one transfer at a time.

A step hands over a transfer and goes on; where it needs the outcome, it waits. That is the single bus of the schedule
semantics (docs/SPEC.md, section 4). What goes wrong in the background is raised by the next wait.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread

import torch
from poet_profiles.errors import UserError
from poet_profiles.program.closing import Closing
from torch import Tensor

from poet_runtime.direct_file import ALIGNMENT, DirectFile


@dataclass
class Traffic:
    """What has been moved: bytes and seconds of transfers, and seconds that steps waited for them."""

    out_bytes: int = 0
    in_bytes: int = 0
    busy_s: float = 0.0
    waited_s: float = 0.0


@dataclass
class PagePlace:
    """Where a value lies among the pages, and the layout and device that it had when it was paged out."""

    id: str
    offset: int
    size: int
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] | None = None
    dtype: torch.dtype = torch.uint8
    device: torch.device | None = None


@dataclass
class _Job:
    place: PagePlace
    data: Tensor
    out: bool
    done: Event


class Pager(Closing):
    """A page file in a folder, and the thread that serves it; close it, or use it as a context manager.

    Parameters
    ----------
    folder : Path
        Where the file is; it has no name there, and goes with the program.
    """

    def __init__(self, folder: Path) -> None:
        self.traffic = Traffic()
        self._folder = folder
        self._process = os.getpid()
        self._places: list[PagePlace] = []
        self._numbers: dict[str, int] = {}
        self._file: DirectFile | None = None
        self._thread: Thread | None = None
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._pending: dict[int, Event] = {}
        self._error: BaseException | None = None

    @property
    def note(self) -> str:
        """What is not as it should be, for the user to read; empty if all is well."""
        if self._file is None or self._file.direct:
            return ""
        return (
            f"{self._folder}: refuses transfers past the kernel's cache, so each is flushed and dropped there, "
            "which takes longer; choose a folder on a disk of its own"
        )

    @property
    def size_bytes(self) -> int:
        """Room that the pages take in the file."""
        return sum(_whole_blocks(place.size) for place in self._places)

    def slot(self, id: str, size: int) -> int:
        """The number of a value's place of so many bytes; it is made before the file is opened."""
        if id not in self._numbers:
            if self._file is not None:
                raise ValueError(f"{id}: the page file is open already")
            self._numbers[id] = len(self._places)
            self._places.append(PagePlace(id, self.size_bytes, size))
        return self._numbers[id]

    def open(self) -> None:
        """Reserve the file and start the thread, unless they are there; in a forked process, its own.

        The parent's thread is not in the child, and the parent still uses the file. Pages live within a step, so
        between two steps nothing is lost.

        Raises
        ------
        UserError
            If there is no room, or no file can be made in the folder.
        """
        if self._file is not None and self._process != os.getpid():
            self._file.close()
            self._file = self._thread = None
            self._jobs, self._pending, self._error = SimpleQueue(), {}, None
        if self._file is None and self._places:
            self._process = os.getpid()
            path = self._folder / f".poet-pages-{self._process}-{id(self):x}"
            self._file = DirectFile(path, self.size_bytes)
            self._thread = Thread(target=_serve, args=(self, self._jobs), name="poet-pager", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the thread and give the file's room back."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def page_out(self, slot: int, tensor: Tensor) -> None:
        """Begin to copy a value to its place; the tensor is held until that is done."""
        place = self._places[slot]
        place.shape, place.stride, place.dtype = tuple(tensor.shape), tensor.stride(), tensor.dtype
        size = extent(place.shape, place.stride) * tensor.element_size()
        if size > place.size:
            raise UserError(f"page out {place.id}: it has {size} B, and a place of {place.size} B")
        begin = tensor.storage_offset() * tensor.element_size()
        data = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage(), begin, (size,), (1,))
        self._begin(slot, _Job(place, data, True, Event()))

    def page_in(self, slot: int) -> Tensor:
        """Begin to read a value; its data are there once it has been waited for."""
        place = self._places[slot]
        if place.stride is None:
            raise UserError(f"page in {place.id}: it has never been paged out")
        data = torch.empty(extent(place.shape, place.stride) * place.dtype.itemsize, dtype=torch.uint8)
        self._begin(slot, _Job(place, data, False, Event()))
        return torch.empty(0, dtype=place.dtype).set_(data.untyped_storage(), 0, place.shape, place.stride)

    def wait(self, slot: int) -> None:
        """Wait until a value's transfers are done."""
        done = self._pending.pop(slot, None)
        if done is not None:
            started = time.perf_counter()
            done.wait()
            self.traffic.waited_s += time.perf_counter() - started
        if self._error is not None:
            raise self._error

    def drain(self) -> None:
        """Wait for all transfers; raises as `wait`."""
        for slot in [*self._pending]:
            self.wait(slot)

    def abandon(self) -> None:
        """Wait for all transfers whatever comes of them, so that another step can begin."""
        for done in self._pending.values():
            done.wait()
        self._pending.clear()
        self._error = None

    def _begin(self, slot: int, job: _Job) -> None:
        self._pending[slot] = job.done
        self._jobs.put(job)

    def _carry_out(self, job: _Job) -> None:
        """One transfer, in the thread; none after one that went wrong."""
        if self._error is not None or self._file is None:
            return
        started = time.perf_counter()
        place, traffic = job.place, self.traffic
        try:
            if job.out:
                self._file.write(place.offset, job.data)
                traffic.out_bytes += len(job.data)
            else:
                self._file.read(place.offset, job.data)
                traffic.in_bytes += len(job.data)
        except OSError as error:
            what = "out" if job.out else "in"
            self._error = UserError(f"{self._folder}: cannot page {what} {place.id} ({error.strerror or error})")
        except Exception as error:
            # Its frames hold the tensor.
            self._error = error.with_traceback(None)
        traffic.busy_s += time.perf_counter() - started


def _serve(pager: Pager, jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        pager._carry_out(job)
        done = job.done
        # The last to hold a tensor must not be a thread that waits for another.
        del job
        done.set()


def _whole_blocks(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def extent(shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """Elements from the first to the last."""
    if 0 in shape:
        return 0
    return 1 + sum((length - 1) * step for length, step in zip(shape, stride, strict=True))
