# SPDX-License-Identifier: Apache-2.0
"""Moves values between a GPU and pinned memory of its host while the step computes, on a stream of its own.

It stands in for `Pager` where the step runs on a GPU. Without one, a test runs it with streams that do nothing before
they are waited for.

The host only begins transfers. What orders them are events: a transfer begins after what the step's stream has been
given so far, for its operand is made there, or its memory was used there before; and what reads a value, or gives its
memory to another, waits on the step's stream for the transfer.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from poet_runtime.pager import PagePlace, Traffic, extent

_ALIGNMENT = 512


class Streams(Protocol):
    """What of `torch.cuda` is used."""

    def pinned(self, size: int) -> Tensor:
        """So many bytes of the host, which the GPU reads and writes by itself."""

    def copy(self, into: Tensor, data: Tensor) -> Any:
        """Begin a copy after all that the step's stream has been given; the event of its end."""

    def wait(self, done: Any) -> None:
        """Let what the step's stream is given from now on begin after an event."""

    def finish(self) -> None:
        """Wait, on the host, until all copies are done."""


class CudaStreams:
    """Those of a GPU: the step's is the current one, and one is for copies."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._copies: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def pinned(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def copy(self, into: Tensor, data: Tensor) -> Any:
        self._copies.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._copies):
            into.copy_(data, non_blocking=True)
        return self._copies.record_event()

    def wait(self, done: Any) -> None:
        torch.cuda.current_stream(self._device).wait_event(done)

    def finish(self) -> None:
        self._copies.synchronize()


class PinnedPager:
    """Pages in pinned memory of the host; its methods are those of :class:`poet_runtime.pager.Pager`."""

    note = ""

    def __init__(self, streams: Streams) -> None:
        self.traffic = Traffic()
        self._streams = streams
        self._places: list[PagePlace] = []
        self._numbers: dict[str, int] = {}
        self._memory: Tensor | None = None
        self._pending: dict[int, Any] = {}

    def slot(self, id: str, size: int) -> int:
        """The number of a value's place of so many bytes; it is made before the memory is taken."""
        if id not in self._numbers:
            if self._memory is not None:
                raise ValueError(f"{id}: the pinned memory is there already")
            last = self._places[-1] if self._places else PagePlace("", 0, 0)
            self._numbers[id] = len(self._places)
            self._places.append(PagePlace(id, -(-(last.offset + last.size) // _ALIGNMENT) * _ALIGNMENT, size))
        return self._numbers[id]

    def open(self) -> None:
        """Take the pinned memory."""
        if self._memory is None and self._places:
            self._memory = self._streams.pinned(self._places[-1].offset + self._places[-1].size)

    def close(self) -> None:
        """Give it back."""
        self._streams.finish()
        self._memory = None

    def page_out(self, slot: int, tensor: Tensor) -> None:
        """Begin to copy a value to its place; it must not be freed before it has been waited for."""
        place = self._places[slot]
        place.shape, place.stride = tuple(tensor.shape), tensor.stride()
        place.dtype, place.device = tensor.dtype, tensor.device
        size = extent(place.shape, place.stride) * tensor.element_size()
        begin = tensor.storage_offset() * tensor.element_size()
        data = torch.empty(0, dtype=torch.uint8, device=place.device)
        self._begin(slot, self._host(place, size), data.set_(tensor.untyped_storage(), begin, (size,), (1,)))
        self.traffic.out_bytes += size

    def page_in(self, slot: int) -> Tensor:
        """Begin to read a value; its data are there for what is begun once it has been waited for."""
        place = self._places[slot]
        assert place.stride is not None, f"{place.id} has never been paged out"
        size = extent(place.shape, place.stride) * place.dtype.itemsize
        data = torch.empty(size, dtype=torch.uint8, device=place.device)
        self._begin(slot, data, self._host(place, size))
        self.traffic.in_bytes += size
        value = torch.empty(0, dtype=place.dtype, device=place.device)
        return value.set_(data.untyped_storage(), 0, place.shape, place.stride)

    def wait(self, slot: int) -> None:
        """Let the step go on after a value's transfers; the host does not wait."""
        done = self._pending.pop(slot, None)
        if done is not None:
            self._streams.wait(done)

    def drain(self) -> None:
        """Let the step go on after all transfers."""
        for slot in [*self._pending]:
            self.wait(slot)

    def abandon(self) -> None:
        """Wait for all transfers, so that another step can begin."""
        self._streams.finish()
        self._pending.clear()

    def _begin(self, slot: int, into: Tensor, data: Tensor) -> None:
        self._pending[slot] = self._streams.copy(into, data)

    def _host(self, place: PagePlace, size: int) -> Tensor:
        assert self._memory is not None and size <= place.size
        return self._memory[place.offset : place.offset + size]
