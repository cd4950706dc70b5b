# SPDX-License-Identifier: Apache-2.0
"""Whether the Python state that a traced step has read is what it was: looked at before each call.

What is there is compared by identity first, which costs hardly more than reading it and calls nothing of the user's.
Only where that differs, types and values decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from operator import is_
from typing import Any

import numpy as np
import torch
from poet_runtime.traced_graph import Kept
from torch import Tensor
from torch.utils._device import DeviceContext

from poet_planner.torch_step.places import PLAIN, Fact, Places, Slot
from poet_planner.torch_step.reads import Reads


@dataclass(frozen=True)
class Change:
    """A place that holds something else, in words; ``plain`` if it is a number, a flag or a text."""

    words: str
    plain: bool = False


class Guard:
    """The state that a step has read, and whether it has changed.

    ``roots`` are model and loss, by what their paths begin with; ``slots`` are the parameters and buffers that the step
    reads and trains. ``followed`` are the tensors that it reads at each call: other numbers in them, or others in their
    places, are no change. Nor is what it leaves itself in the places ``kept``.
    """

    def __init__(
        self,
        roots: Mapping[str, object],
        slots: Iterable[Slot],
        followed: Iterable[Tensor],
        reads: Reads,
        kept: Iterable[Kept] = (),
    ) -> None:
        places = Places(roots, slots, reads, kept)
        ids = {id(tensor) for tensor in followed}
        others = {id(tensor): (path, tensor) for path, _, tensor in places.tensors if id(tensor) not in ids}
        self._groups = places.groups
        self._paths = [path for group in places.groups for path in group.paths]
        self._facts = [
            *places.facts,
            *(_contents(*other) for other in others.values()),
            Fact(settings, _setting_changed, settings()),
        ]
        self._holders = [(path, where) for path, where, tensor in places.tensors if id(tensor) in ids]
        self._reads = [(group.read, group.owner) for group in self._groups]
        self._quick = [fact.read for fact in self._facts]
        self._known = [fact.was for fact in self._facts]
        self._values = self._read()
        self._follow([tensor for _, _, tensor in places.tensors if id(tensor) in ids])

    def __len__(self) -> int:
        """How many values are compared."""
        return len(self._values)

    def place_of(self, tensor: Tensor) -> Callable[[], Tensor] | None:
        """What reads the place that a plain tensor has been found in."""
        places = zip(self._tensors, self._holders, strict=True)
        return next((where for found, (_, where) in places if found is tensor), None)

    def changed(self) -> Change | None:
        """The first place that holds something else."""
        return None if self._same() else self._difference()

    def _follow(self, tensors: list[Tensor]) -> None:
        """From now on these are the tensors in the places of those that are read at each call."""
        self._tensors = tensors
        self._unique = [*{id(tensor): tensor for tensor in tensors}.values()]
        self._described = [*map(_described, self._unique)]

    def _read(self) -> list[Any]:
        now: list[Any] = []
        for read, owner in self._reads:
            now += read(owner)
        return now

    def _same(self) -> bool:
        """Whether every place holds the same object as before; false more often than need be."""
        try:
            now = self._read()
            return (
                len(now) == len(self._values)
                and all(map(is_, now, self._values))
                and [read() for read in self._quick] == self._known
                and [_described(tensor) for tensor in self._unique] == self._described
            )
        except (LookupError, AttributeError):
            return False

    def _difference(self) -> Change | None:
        """The slow way: what differs by type or value. If nothing does, that is what is compared with from now on."""
        facts = [read() for read in self._quick]
        for fact, now, was in zip(self._facts, facts, self._known, strict=True):
            words = fact.describe(now, was) if now != was else None
            if words is not None:
                return Change(words, plain=fact.read is settings)
        values: list[Any] = []
        followed = {id(tensor) for tensor in self._tensors}
        for group in self._groups:
            try:
                found = [*group.read(group.owner)]
            except (LookupError, AttributeError):
                return Change(f"{group.gone()} is not there any more")
            for now in found:
                was, path = self._values[len(values)], self._paths[len(values)]
                if now is not was and not _alike(now, was, followed):
                    return Change(_value_changed(path, now, was), plain=_is_plain(now) and _is_plain(was))
                values.append(now)
        tensors = [where() for _, where in self._holders]
        change = self._other_tensors(tensors)
        if change is None:
            # What is equal stays: it may be a copy, which its own would not be compared with.
            self._known = [was if now == was else now for now, was in zip(facts, self._known, strict=True)]
            self._values = values
            self._follow(tensors)
        return change

    def _other_tensors(self, tensors: Sequence[Tensor]) -> Change | None:
        descriptions = {id(tensor): described for tensor, described in zip(self._unique, self._described, strict=True)}
        for (path, _), tensor, old in zip(self._holders, tensors, self._tensors, strict=True):
            for what, now, was in zip(_DESCRIPTION, _described(tensor), descriptions[id(old)], strict=True):
                if now != was:
                    words = (
                        f"{what} of {path} is {now}, and was {was}" if what else f"{path} has a hook on its gradient"
                    )
                    return Change(words, plain=isinstance(now, bool))
        first, before = _first_places(tensors), _first_places(self._tensors)
        for number, (now, was) in enumerate(zip(first, before, strict=True)):
            if now != was:
                one, other = self._holders[number][0], self._holders[min(now, was)][0]
                return Change(f"{one} and {other} are {'no longer' if was < now else 'now'} one tensor")
        return None


_DESCRIPTION = ("the shape", "the type", "the stride", "requires_grad", "the device", "")


def _described(tensor: Tensor) -> tuple[object, ...]:
    needed = tensor.requires_grad
    hooked = bool(needed and (tensor._backward_hooks or tensor._post_accumulate_grad_hooks))
    return tensor.shape, tensor.dtype, tensor.stride(), needed, tensor.device, hooked


def _first_places(tensors: Sequence[Tensor]) -> list[int]:
    """For each tensor, the first place that it is in."""
    first: dict[int, int] = {}
    return [first.setdefault(id(tensor), number) for number, tensor in enumerate(tensors)]


def _contents(path: str, tensor: Tensor) -> Fact:
    """A tensor that is not read at each call: how often it has been written."""
    return Fact(partial(_version, tensor), lambda *_: f"the numbers in {path} are others now", _version(tensor))


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _alike(now: Any, was: Any, followed: Collection[int]) -> bool:
    """The same type and value; the other zero is not the same, and one NaN is like another."""
    if isinstance(was, Tensor) and id(was) in followed:
        return isinstance(now, Tensor)
    if type(now) is not type(was):
        return False
    if isinstance(now, float):
        return (now == was and math.copysign(1, now) == math.copysign(1, was)) or (now != now and was != was)
    if isinstance(now, PLAIN):
        return bool(now == was)
    if isinstance(now, tuple):
        return len(now) == len(was) and all(_alike(*pair, followed) for pair in zip(now, was, strict=True))
    return isinstance(now, np.generic) and now.tobytes() == was.tobytes()


def _is_plain(value: Any) -> bool:
    return isinstance(value, (*PLAIN, Enum, np.generic))


def _value_changed(path: str, now: Any, was: Any) -> str:
    if _is_plain(now) or _is_plain(was):
        return f"{path} is {_shown(now)}, and was {_shown(was)}"
    kind = type(now).__name__
    return (
        f"{path} is another {kind} now" if type(now) is type(was) else f"{path} is {_shown(now)}, and was {_shown(was)}"
    )


def _shown(value: Any) -> str:
    text = repr(value) if _is_plain(value) else f"a {type(value).__name__}"
    return text if len(text) < 60 else f"{text[:57]}…"


def _autocast(kind: str) -> str:
    return str(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else "off"


def _function_modes() -> tuple[object, ...]:
    """Those that stand around the call; the default device is one, and is looked at by itself."""
    modes = torch.overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return tuple(mode for mode in modes if not isinstance(mode, DeviceContext))


_SETTINGS: Mapping[str, Callable[[], Any]] = {
    "the default dtype": torch.get_default_dtype,
    "the default device": torch.get_default_device,
    "inference mode": torch.is_inference_mode_enabled,
    "use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
    "its warn_only": torch._C._get_deterministic_algorithms_warn_only,
    "fill_uninitialized_memory": torch._C._get_deterministic_fill_uninitialized_memory,
    "the number of threads": torch.get_num_threads,  # which kernel is taken depends on it, and what that allocates
    "oneDNN": torch._C._get_mkldnn_enabled,
    "oneDNN's determinism": torch._C._get_mkldnn_deterministic,
    "NNPACK": torch._C._get_nnpack_enabled,
    "opt_einsum": torch.backends.opt_einsum._get_enabled,
    "opt_einsum's strategy": torch.backends.opt_einsum._get_strategy,
    "the fast path of attention": torch.backends.mha.get_fastpath_enabled,
    "cudnn.enabled": torch._C._get_cudnn_enabled,
    "cudnn.deterministic": torch._C._get_cudnn_deterministic,
    "cudnn.benchmark": torch._C._get_cudnn_benchmark,
    "flash attention": torch._C._get_flash_sdp_enabled,
    "memory-efficient attention": torch._C._get_mem_efficient_sdp_enabled,
    "plain attention": torch._C._get_math_sdp_enabled,
    "cuDNN's attention": torch._C._get_cudnn_sdp_enabled,
    "the order of attention's kernels": lambda: str(torch._C._get_sdp_priority_order()),
    "what hooks into saved tensors": partial(torch._C._autograd._top_saved_tensors_default_hooks, True),
    "the modes of functions": _function_modes,
    "autocast": partial(_autocast, "cpu"),
    "autocast on the GPU": partial(_autocast, "cuda"),
    # As PyTorch resolves it: other readers raise where old and new ways of setting it meet.
    **{
        f"the float32 precision of {backend}.{op}": partial(torch._C._get_fp32_precision_getter, backend, op)
        for backend in ("mkldnn", "cuda")
        for op in ("matmul", "conv", "rnn")
    },
}
_SETTINGS_READ = [*_SETTINGS.values()]


def settings() -> list[Any]:
    """What PyTorch is set to, where kernels or the memory that they take may depend on it."""
    return [read() for read in _SETTINGS_READ]


def _setting_changed(now: Sequence[Any], was: Sequence[Any]) -> str:
    name, one, other = next(each for each in zip(_SETTINGS, now, was, strict=True) if each[1] != each[2])
    return f"{name} is another now" if isinstance(one or other, tuple) else f"{name} is {one}, and was {other}"
