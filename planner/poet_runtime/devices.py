# SPDX-License-Identifier: Apache-2.0
"""What of a step depends on where it runs: the CPU, or a GPU by CUDA."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from poet_profiles.errors import UserError
from torch import Tensor

from poet_runtime import peak
from poet_runtime.peak import Peak
from poet_runtime.traced_graph import Blank


class Cpu:
    """The CPU.

    Attributes
    ----------
    name : str
        As PyTorch has it.
    kind : str
        As autocast has it.
    """

    name = "cpu"
    kind = "cpu"

    def random_state(self) -> Tensor:
        """State of the generator that operators draw from."""
        return torch.get_rng_state()

    def set_random_state(self, state: Tensor) -> None:
        """Let operators draw from there on."""
        torch.set_rng_state(state)

    def kept_randomness(self) -> AbstractContextManager[None]:
        """Within, random numbers may be drawn; afterwards nobody sees that."""
        return torch.random.fork_rng(devices=[])

    def clock(self) -> Callable[[], int]:
        """Nanoseconds, of the thread that computes if it is one: what else runs on the computer then costs nothing."""
        return time.thread_time_ns if torch.get_num_threads() == 1 else time.perf_counter_ns

    def marker(self) -> Callable[[], Any]:
        """What a timed step calls before and after each operator; :meth:`marked_ns` makes times of it."""
        return self.clock()

    def marked_ns(self, marks: Sequence[Any]) -> list[int]:
        """Nanoseconds of the marks, from any beginning."""
        return [*marks]

    def allocations(self) -> AbstractContextManager[Peak]:
        """As :func:`poet_runtime.peak.allocations`."""
        return peak.allocations()

    def untouched(self, layouts: Iterable[Blank]) -> dict[Blank, Tensor]:
        """Tensors whose data nobody reads or writes: no page of their memory is ever handed out."""
        return {layout: _mapped(layout) for layout in layouts}

    def described(self) -> str:
        """What decides the times of operators, beside the processor's name."""
        return f"{torch.get_num_threads()} threads, {self.clock().__name__}"


class Gpu(Cpu):
    """A GPU by CUDA.

    Raises
    ------
    UserError
        If there is none.
    """

    kind = "cuda"

    def __init__(self, name: str) -> None:
        if not torch.cuda.is_available():
            raise UserError(f"{name}: this PyTorch ({torch.__version__}) sees no GPU; move model and batch to the CPU")
        self.name = name

    def random_state(self) -> Tensor:
        return torch.cuda.get_rng_state(self.name)

    def set_random_state(self, state: Tensor) -> None:
        torch.cuda.set_rng_state(state, self.name)

    def kept_randomness(self) -> AbstractContextManager[None]:
        return torch.random.fork_rng(devices=[self.name])

    def clock(self) -> Callable[[], int]:
        """Nanoseconds once all that was begun is done."""

        def synchronised_ns() -> int:
            torch.cuda.synchronize(self.name)
            return time.perf_counter_ns()

        return synchronised_ns

    def marker(self) -> Callable[[], Any]:
        """Events of the step's stream: the host does not wait for them, for it would not wait in training either."""

        def mark() -> torch.cuda.Event:
            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            event.record(torch.cuda.current_stream(self.name))
            return event

        return mark

    def marked_ns(self, marks: Sequence[Any]) -> list[int]:
        torch.cuda.synchronize(self.name)
        return [round(marks[0].elapsed_time(mark) * 1e6) for mark in marks]

    @contextmanager
    def _allocations(self) -> Iterator[Peak]:
        seen = Peak()
        torch.cuda.synchronize(self.name)
        torch.cuda.reset_peak_memory_stats(self.name)
        before = torch.cuda.memory_allocated(self.name)
        yield seen
        torch.cuda.synchronize(self.name)
        seen.bytes = torch.cuda.max_memory_allocated(self.name) - before

    def allocations(self) -> AbstractContextManager[Peak]:
        """The caching allocator's own count."""
        return self._allocations()

    def untouched(self, layouts: Iterable[Blank]) -> dict[Blank, Tensor]:
        """Views of one piece of memory, as large as the largest of them."""
        layouts = [*layouts]
        most = max((_elements(layout) * layout.dtype.itemsize for layout in layouts), default=0)
        scratch = torch.empty(-(-most // 16) * 16, dtype=torch.uint8, device=self.name)
        return {
            layout: torch.empty(0, dtype=layout.dtype, device=self.name).set_(
                scratch.untyped_storage(), 0, layout.shape, layout.stride
            )
            for layout in layouts
        }

    def described(self) -> str:
        return f"{torch.cuda.get_device_name(self.name)}, CUDA {torch.version.cuda}"


def device_named(name: str) -> Cpu:
    """The device that PyTorch calls so."""
    kind = torch.device(name).type
    if kind == "cpu":
        return Cpu()
    if kind == "cuda":
        return Gpu(name)
    raise UserError(f"{name}: poet trains on the CPU, or on a GPU by CUDA; move model and batch there")


def laid_out(layout: Blank, device: torch.device | str, number: float = 0) -> Tensor:
    """A tensor of a layout that holds one number throughout."""
    flat = torch.full((_elements(layout),), number, dtype=layout.dtype, device=device)
    return flat.as_strided(layout.shape, layout.stride)


def _mapped(layout: Blank) -> Tensor:
    if 0 in layout.shape:
        return torch.empty_strided(layout.shape, layout.stride, dtype=layout.dtype)
    flat = torch.frombuffer(mmap.mmap(-1, _elements(layout) * layout.dtype.itemsize), dtype=layout.dtype)
    return flat.as_strided(layout.shape, layout.stride)


def _elements(layout: Blank) -> int:
    """From the first to the last."""
    if 0 in layout.shape:
        return 0
    return 1 + sum((extent - 1) * step for extent, step in zip(layout.shape, layout.stride, strict=True))
