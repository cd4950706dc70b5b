# SPDX-License-Identifier: Apache-2.0
"""A forward pass of a window becomes one of its newest columns; what came before is in RAM.

A value has a time axis if the input's runs through it: so many columns in a window, of which the last few are new in
each call. Convolutions and pools read a few columns more than they give: what is older is a *history*, to which new
columns are appended. Where the time axis ends, in a mean or a linear layer over all columns, the whole window is such
a history, and what follows is computed as ever. Which axis that is, and whether an operator gives each column from that
column alone, is found by looking, since what does so has many names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import lcm, prod
from typing import Any

import poet_runtime.histories
import torch
from poet_profiles.errors import UserError
from poet_profiles.schedule import Action, Step
from poet_runtime.executor import Execution
from poet_runtime.traced_graph import (
    Kind,
    Ref,
    TracedGraph,
    TracedOperator,
    TracedResident,
    TracedValue,
    View,
    map_refs,
    row_major,
    through,
)
from torch import Tensor

from poet_planner.lowering.operators.draft import added
from poet_planner.lowering.operators.rules import aten_name, each
from poet_planner.lowering.rewrites.row_major import with_rows_in_order
from poet_planner.tracing.schema import bound_arguments

aten = torch.ops.aten
_SHAPED = (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.expand.default)
_POOLS = (aten.max_pool2d_with_indices.default, aten.avg_pool2d.default)
_CLOSE = 1e-5  # of a probe, relative to its largest number
TOLERANCE = 1e-6  # of the answers of a window and of a stream, likewise
assert poet_runtime.histories.__doc__  # the import registers the operator


@dataclass(frozen=True)
class Stream:
    """``graph`` reads so many new ``columns``; after ``calls`` it has heard a whole window."""

    graph: TracedGraph
    columns: int
    calls: int


@dataclass(frozen=True)
class _Time:
    """Of a value: its axis, the columns of a window, and how many of the input's each stands for."""

    axis: int
    length: int
    step: int


@dataclass(frozen=True)
class _Seen:
    """An operand with a time axis: column i of ``length`` is the value's ``first + step * i``.

    The ``before`` first views keep the axis; slices of it are left out of them.
    """

    axis: int
    length: int
    first: int
    step: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class _Windows:
    """An operator reads ``span`` columns for each that it gives, ``stride`` further for the next."""

    length: int
    span: int
    stride: int


def streamed(traced: TracedGraph, axis: int, data: Mapping[str, Tensor]) -> Stream:
    """The forward pass of one sample as a stream's.

    Parameters
    ----------
    traced : TracedGraph
        As `trace_forward` makes it.
    axis : int
        Of the input, counted from its first or its last.
    data : mapping of str to Tensor
        Parameters and buffers, by id: with them both passes have to give the same.

    Raises
    ------
    UserError
        If there is no such axis, or some part reads the whole window for each column, or one at its edges.
    """
    traced = with_rows_in_order(traced)
    inputs = [one for one in traced.residents if one.kind is Kind.INPUT]
    if len(inputs) != 1:
        raise UserError(f"--stream {axis}: {traced.name} has {len(inputs)} inputs, and a stream is one; leave it out")
    shape = inputs[0].shape
    if not -len(shape) < axis < len(shape) or axis == 0 or shape[axis] < 2:
        raise UserError(f"--stream {axis}: no axis of columns; the input has the shape {list(shape)}, samples first")
    streaming = _Streaming(traced, inputs[0], axis % len(shape), f"--stream {axis}")
    stream = streaming.stream()
    _refuse_other_answers(traced, stream, streaming, data)
    return stream


class _Streaming:
    """``times`` are values with a time axis, ``_of_window`` others that hang on the input.

    ``histories`` are what is remembered, by what it is of.
    """

    def __init__(self, traced: TracedGraph, x: TracedResident, axis: int, option: str) -> None:
        self._traced = traced
        self.input = x
        self._option = option
        self.shapes = {id: value.shape for id, value in traced.values.items()}
        self.shapes |= {resident.id: resident.shape for resident in traced.residents}
        self.times = {x.id: _Time(axis, x.shape[axis], 1)}
        self._ways: dict[str, _Windows | None] = {}  # of operators that keep the axis; None: column by column
        self._of_window: set[str] = set()
        for operator in traced.operators:
            self._look(operator)
        if traced.loss.source in self.times:
            raise UserError(
                f"{option}: {traced.name} has an answer for each column, and a stream has one; leave it out"
            )
        self.columns = lcm(*(time.step for time in self.times.values()))
        if self.columns >= x.shape[axis]:
            raise UserError(f"{option}: {traced.name} reads no column twice; leave it out")
        self._values = dict(traced.values)
        self._operators: list[TracedOperator] = []
        self.histories: dict[tuple[Any, ...], Ref] = {}
        self.residents: list[TracedResident] = []
        self.ranges = dict(traced.int8_ranges)

    def stream(self) -> Stream:
        for operator in self._traced.operators:
            self._operators.append(self._of_new(operator))
        residents = [self._resized(one) for one in self._traced.residents]
        outputs = [one for one in residents if one.kind is Kind.OUTPUT]
        residents = [*(one for one in residents if one.kind is not Kind.OUTPUT), *self.residents, *outputs]
        graph = replace(self._traced, operators=tuple(self._operators), values=self._values, residents=tuple(residents))
        graph = replace(graph, int8_ranges=self.ranges)
        return Stream(graph, self.columns, -(-self.times[self.input.id].length // self.columns))

    def _new(self, id: str) -> int:
        """Columns of a call."""
        return self.columns // self.times[id].step

    def _resized(self, resident: TracedResident) -> TracedResident:
        """The input, and an output that still has a time axis."""
        made = next((one.id for one in self._traced.values.values() if one.resident == resident.id), resident.id)
        if made not in self.times:
            return resident
        shape = _with(resident.shape, self.times[made].axis, self._new(made))
        return replace(resident, shape=shape, bytes=resident.dtype.itemsize * prod(shape))

    # What keeps the time axis

    def _look(self, operator: TracedOperator) -> None:
        seen = [(ref, one) for ref in operator.refs if (one := self._seen(ref)) is not None]
        rest = {ref.source for ref in operator.refs} & (self.times.keys() | self._of_window)
        if not seen:
            self._of_window.update(operator.values if rest else ())
            return
        if any(self._seen(ref) is None for ref in operator.refs if ref.source in rest):
            self._refuse(operator, "combines each column with what comes of the whole window")
        ref, one = seen[0]
        steps = {self.times[other.source].step * each_one.step for other, each_one in seen}
        windows = self._windows(operator, one)
        if windows is None and len(steps) == 1 and len({each_one.length for _, each_one in seen}) == 1:
            places = self._by_column(operator, one.length)
            if places is not None:
                self._ways[operator.id] = None
                self.times |= {id: _Time(axis, one.length, *steps) for id, axis in places.items()}
                return
        if windows is not None and windows.length > 1:
            self._ways[operator.id] = windows
            step = self.times[ref.source].step * one.step * windows.stride
            self.times |= dict.fromkeys(operator.values, _Time(one.axis, windows.length, step))
            return
        if windows is None and self._keeps_columns(operator, ref, one):
            self._refuse(operator, _why(operator, steps))
        self._of_window.update(operator.values)

    def _refuse(self, operator: TracedOperator, why: str) -> None:
        where = self._traced.layers.get(operator.module, "")
        name = f"{operator.module or operator.id} ({where})" if where else operator.id
        raise UserError(
            f"{self._option}: {self._traced.name}: {name} {why}; the network cannot stream, leave {self._option} out"
        )

    def _windows(self, operator: TracedOperator, one: _Seen) -> _Windows | None:
        """Of a convolution or a pool over the time axis."""
        if operator.target is not aten.convolution.default and operator.target not in _POOLS:
            return None
        given = bound_arguments(operator.target, operator.args, operator.kwargs)
        x: Ref = operator.args[0]
        is_pool = operator.target in _POOLS
        extents = x.shape[-2:] if is_pool else x.shape[2:]
        place = one.axis - len(x.shape) + len(extents)
        if place < 0 or given.get("transposed"):
            return None
        kernel = each(given["kernel_size"], extents) if is_pool else given["weight"].shape[2:]
        stride = each(given["stride"] or given["kernel_size"] if is_pool else given["stride"], extents)[place]
        dilation = each(given.get("dilation", [1]), extents)[place]
        if each(given["padding"], extents)[place]:
            self._refuse(operator, "pads its input along time, where a stream has no edges")
        if given.get("ceil_mode"):
            self._refuse(operator, "has ceil_mode, and a stream has no edges")
        span = dilation * (kernel[place] - 1) + 1
        return _Windows((one.length - span) // stride + 1, span, stride)

    def _by_column(self, operator: TracedOperator, length: int) -> dict[str, int] | None:
        """The time axis of each result, if each column comes from that column alone: by trying fewer."""
        if operator.updates or operator.random or operator.writes or length < 2:
            return None
        places: dict[str, int] = {}
        # The first column is like the others, or above, or below them: a maximum so far is that of some column.
        for first, (start, fewer) in product((1.0, 9.0, 0.01), ((1, length - 1), (0, length - 1), (length // 2, 1))):
            try:
                runs = self._tried(operator, first, start, fewer)
            except Exception:  # whatever PyTorch raises: it names the number of columns
                return None
            for made, full, part in zip(operator.outputs, *runs, strict=True):
                if made is None:
                    continue
                axes = [axis for axis in range(full.dim()) if full.shape == _with(tuple(part.shape), axis, length)]
                axes = [axis for axis in axes if part.shape[axis] == fewer and places.get(made, axis) == axis]
                axes = [axis for axis in axes if _close(full.narrow(axis, start, fewer), part)]
                if not axes:
                    return None
                places[made] = axes[0]
        return places

    def _keeps_columns(self, operator: TracedOperator, ref: Ref, one: _Seen) -> bool:
        """Whether there are as many results as columns, and not by chance: in their place, or fewer of fewer."""
        shapes = [self.shapes[id] for id in operator.values if one.length in self.shapes[id]]
        if any(len(shape) == len(ref.shape) and shape[one.axis] == one.length for shape in shapes):
            return True
        try:
            whole, part = self._tried(operator, 1, 1, one.length - 1)
        except Exception:  # likewise
            return bool(shapes)
        return bool(shapes) and any(one.shape != other.shape for one, other in zip(whole, part, strict=True))

    def _tried(self, operator: TracedOperator, first: float, start: int, fewer: int) -> list[list[Tensor]]:
        """Results of drawn columns, and of some of them; of each operand the first column is multiplied."""
        generator = torch.Generator().manual_seed(0)
        whole: dict[int, Tensor] = {}
        for ref in operator.refs:
            drawn = torch.rand(ref.shape, generator=generator)
            drawn = 0.5 + drawn if ref.dtype.is_floating_point else drawn.round()
            one = self._seen(ref)
            if one is not None and ref.dtype.is_floating_point:
                drawn.narrow(one.axis, 0, 1).mul_(first)
            whole[id(ref)] = drawn.to(ref.dtype)

        def cut(ref: Ref) -> Tensor:
            one = self._seen(ref)
            return whole[id(ref)] if one is None else whole[id(ref)].narrow(one.axis, start, fewer)

        def run(see: Callable[[Ref], Tensor]) -> list[Tensor]:
            args, kwargs = map_refs((operator.args, operator.kwargs), see)
            made = operator.target(*args, **kwargs)
            results = made if isinstance(made, tuple | list) else [made]
            return [one.nan_to_num(0, 0, 0) for one in results]  # not all are defined for all

        return [run(lambda ref: whole[id(ref)]), run(cut)]

    def _seen(self, ref: Ref) -> _Seen | None:
        """The operand's time axis; None if it has none, or a view ends it."""
        time = self.times.get(ref.source)
        if time is None:
            return None
        marked, axes = _marked(self.shapes[ref.source], time), [time.axis]
        for view in ref.views:
            marked = through([view], marked)
            axes = _varying(marked)
            if len(axes) != 1:
                return None
        columns = marked.movedim(axes[0], 0).flatten(1)[:, 0]
        step = int(columns[1] - columns[0])
        if step < 1 or (columns.diff() != step).any():
            return None
        return _Seen(axes[0], len(columns), int(columns[0]), step, tuple(marked.shape))

    # What is computed of new columns

    def _of_new(self, operator: TracedOperator) -> TracedOperator:
        if operator.id in self._ways:
            windows = self._ways[operator.id]
            new = self._new(operator.values[0])

            def read(ref: Ref) -> Ref:
                one = self._seen(ref)
                if one is None:
                    return ref
                if windows is None:
                    return self._columns(operator, ref, one, one.length - new, new)
                first = (windows.length - new) * windows.stride
                return self._columns(operator, ref, one, first, (new - 1) * windows.stride + windows.span)

            for id in operator.values:
                value, time = self._values[id], self.times[id]
                shape = _with(value.shape, time.axis, self._new(id))
                size = value.dtype.itemsize * prod(shape)
                self._values[id] = replace(value, shape=shape, stride=row_major(shape), bytes=size)
        else:

            def read(ref: Ref) -> Ref:
                return self._window(operator, ref) if ref.source in self.times else ref

        return replace(operator, args=map_refs(operator.args, read), kwargs=map_refs(operator.kwargs, read))

    def _columns(self, reader: TracedOperator, ref: Ref, one: _Seen, first: int, count: int) -> Ref:
        """Some columns of an operand, from the first on."""
        length = self.times[ref.source].length
        low = one.first + one.step * first
        kept = max(length - low, self._new(ref.source))
        held, axis = self._held(reader, ref, len(ref.views), kept)
        start = low - (length - kept)
        end = start + one.step * (count - 1) + 1
        if (start, end, one.step) == (0, held.shape[axis], 1):
            return held
        return _with_views(held, [View(aten.slice.Tensor, (axis, start, end, one.step))])

    def _window(self, reader: TracedOperator, ref: Ref) -> Ref:
        """The whole window of an operand that is read as a whole, or whose views end the time axis."""
        length = self.times[ref.source].length
        parts = (replace(ref, views=ref.views[:views]) for views in range(len(ref.views) + 1))
        seen = [(part, one) for part in parts if (one := self._seen(part)) is not None]
        part, one = seen[-1]
        kept = len(part.views)
        rest = ref.views[kept:]
        if rest and rest[0].target is aten.select.int:
            axis, place = rest[0].args
            if axis % len(one.shape) == one.axis:
                place %= one.length
                held = self._columns(reader, part, one, place, one.length - place)
                return _with_views(held, [replace(rest[0], args=(axis, 0)), *rest[1:]])
        held, axis = self._held(reader, ref, kept, length)
        cut = []
        if (one.first, one.step, one.length) != (0, 1, length):
            cut = [View(aten.slice.Tensor, (axis, one.first, one.first + one.step * (one.length - 1) + 1, one.step))]
        return _with_views(held, [*cut, *rest])

    def _held(self, reader: TracedOperator, ref: Ref, views: int, kept: int) -> tuple[Ref, int]:
        """The last columns of a value through some views, without slices of time; and their axis."""
        source, new = ref.source, self._new(ref.source)
        time = self.times[source]
        shape = _with(self.shapes[source], time.axis, new)
        fresh = Ref(source, (), shape, row_major(shape), ref.dtype)
        marked, axis = _marked(self.shapes[source], time), time.axis
        for view in ref.views[:views]:
            before, marked = marked, through([view], marked)
            if _is_cut(view, before, marked, axis):
                continue
            (axis,) = _varying(marked)
            if view.target in _SHAPED:
                view = View(view.target, (list(_with(tuple(marked.shape), axis, new)),))
            fresh = _with_views(fresh, [view])
        if kept == new:
            return fresh, axis
        key = (source, str(fresh.views), kept)
        if key not in self.histories:
            self.histories[key] = self._history(reader, fresh, axis, kept)
        return self.histories[key], axis

    def _history(self, reader: TracedOperator, fresh: Ref, axis: int, kept: int) -> Ref:
        id, shape = added(f"{fresh.source}", f"history{len(self.histories)}"), _with(fresh.shape, axis, kept)
        made, size = added(id, "now"), fresh.dtype.itemsize * prod(shape)
        if fresh.source in self.ranges:
            self.ranges[made] = self.ranges[fresh.source]
        self.residents.append(TracedResident(id, Kind.HISTORY, size, shape, fresh.dtype))
        self._values[made] = TracedValue(made, size, shape, fresh.dtype, row_major(shape), resident=id)
        target = torch.ops.poet.shift.default
        args = (fresh, Ref(id, (), shape, row_major(shape), fresh.dtype), axis)
        shift = TracedOperator(made, target, args, {}, (made,), False, reader.module, recomputable=False)
        self._operators.append(shift)
        return Ref(made, (), shape, row_major(shape), fresh.dtype)


def _why(operator: TracedOperator, steps: Collection[int]) -> str:
    """Its columns cannot be kept for the next window."""
    if len(steps) > 1:
        return f"joins columns that stand for {' and for '.join(map(str, sorted(steps)))} of the input's"
    if "pad" in aten_name(operator):
        return "pads its input along time, where a stream has no edges"
    if torch.Tag.pointwise in operator.target.tags:
        return "treats each column by its place in the window"
    return "takes the columns of the whole window at once"


def _refuse_other_answers(traced: TracedGraph, stream: Stream, of: _Streaming, data: Mapping[str, Tensor]) -> None:
    """Both on random columns, with no parameter zero: what hangs on a column's place in the window gives others."""
    drawn = torch.Generator().manual_seed(1)
    data = {
        id: one + 0.1 * torch.rand(one.shape, generator=drawn) if one.dtype == torch.float32 else one
        for id, one in data.items()
    }
    x, axis = of.input, of.times[of.input.id].axis
    total = stream.calls * stream.columns + 2 * stream.columns
    columns = torch.randn(_with(x.shape, axis, total), generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    if not x.dtype.is_floating_point:
        columns = columns.abs() * 50 if x.dtype.itemsize < 4 else columns > 0  # large ones may be no tokens
    columns = columns.to(x.dtype)
    held = {one.id: torch.zeros(one.shape, dtype=one.dtype) for one in of.residents}
    for start in range(0, total, stream.columns):
        new = {**held, x.id: columns.narrow(axis, start, stream.columns)}
        found = _answer(stream.graph, {**data, **new}, held)
        end = start + stream.columns
        if end >= stream.calls * stream.columns:
            window = columns.narrow(axis, end - x.shape[axis], x.shape[axis])
            expected = _answer(traced, {**data, x.id: window}, {})
            if not _close(found, expected, TOLERANCE * 10):
                raise UserError(
                    f"{of._option}: {traced.name}: its answer hangs on where in the window a column is, so that it "
                    f"cannot stream; leave {of._option} out"
                )


class _InOrder(Execution):
    """All lies row by row, as the views of a stream expect."""

    def _call(self, operator: TracedOperator, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        made = super()._call(operator, args, kwargs)
        return [
            one if one is None else one.contiguous() for one in (made if isinstance(made, tuple | list) else [made])
        ]


def _answer(traced: TracedGraph, data: Mapping[str, Tensor], held: dict[str, Tensor]) -> Tensor:
    """What a graph makes; ``held`` takes what it remembers."""
    given = {**traced.frozen, **data}
    execution = _InOrder(traced, {id: one.contiguous() for id, one in given.items()})
    for operator in traced.operators:
        execution.step(Step(Action.COMPUTE, operator.id))
    held |= {
        str(traced.values[id].resident): one
        for id, one in execution.values.items()
        if traced.values[id].resident in held
    }
    return execution.result().loss


def _marked(shape: Sequence[int], time: _Time) -> Tensor:
    """Each element's column."""
    extents = [time.length if axis == time.axis else 1 for axis in range(len(shape))]
    return torch.arange(time.length).view(extents).expand(tuple(shape)).contiguous()


def _varying(marked: Tensor) -> list[int]:
    """Axes along which columns differ."""
    return [axis for axis, extent in enumerate(marked.shape) if extent > 1 and marked.diff(dim=axis).any()]


def _is_cut(view: View, before: Tensor, after: Tensor, axis: int) -> bool:
    """Whether a view leaves out columns alone; both tensors are of each element's column."""
    numbers = torch.arange(before.numel()).view(before.shape)
    seen = through([view], numbers)
    if seen.dim() != before.dim() or _varying(after) != [axis]:
        return False
    places = torch.searchsorted(*(one.movedim(axis, 0).flatten(1)[:, 0].contiguous() for one in (before, after)))
    return torch.equal(seen, numbers.index_select(axis, places))


def _with_views(ref: Ref, views: Sequence[View]) -> Ref:
    """The operand, seen through views more."""
    tensor = through(views, torch.empty_strided(ref.shape, ref.stride, device="meta"))
    return replace(ref, views=(*ref.views, *views), shape=tuple(tensor.shape), stride=tuple(tensor.stride()))


def _with(shape: Sequence[int], axis: int, extent: int) -> tuple[int, ...]:
    return (*shape[:axis], extent, *shape[axis % len(shape) + 1 :])


def _close(one: Tensor, other: Tensor, allowed: float = _CLOSE) -> bool:
    if not one.dtype.is_floating_point:
        return torch.equal(one, other)
    return bool((one - other).abs().amax() <= allowed * max(1.0, float(other.abs().amax())))
