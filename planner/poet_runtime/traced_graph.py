# SPDX-License-Identifier: Apache-2.0
"""The traced training graph: one operator a node, weight and input gradients as nodes of their own.

A graph is made by :func:`poet_planner.tracing.trace`. Its operators stand in program order, which is a topological
order. What an operator yields are *values*: tensors with a storage of their own that live and die apart (batch-norm
statistics, pooling indices and logsumexp are values beside the main result). What is there all the time are
*residents*. Views and in-place aliases are folded: they are no operators and hold no memory, but a chain of
:class:`View` that every consumer applies to its own :class:`Ref`. An in-place operator makes a new value; where PyTorch
has the same operator out of place, the graph names that one.

In ``args`` and ``kwargs`` of an operator stand

- :class:`Ref` wherever it reads a tensor (also inside lists of tensors);
- :class:`Blank` wherever it looks at a tensor's shape alone, so that there is no data to keep in RAM
  (``max_pool2d_with_indices_backward``'s ``self``, ``nll_loss_backward``'s ``self``);
- plain Python values otherwise, exactly as ATen's schema has them.

Ids are for people: the path of the module, and the operator where the module has several (``conv1``, ``layer1.0.add``);
after it ``backward_weight``, ``backward_input``, ``backward`` or ``backward_NAME``. Residents are named by parameter
(``conv1.weight``), its gradient (``conv1.weight.grad``), buffer, ``input``, ``target`` (``input0``, ``input1`` … where
there are several) and ``loss``. A node's main value is named like the node, further ones ``NODE.indices``,
``NODE.mean``, … No two operators, values or residents share an id. Parameters and buffers keep the names that the user
gave them; whatever else would be called the same gets a number after its name (``input_2``).

PyTorch allows no empty part in a name: none starts with a dot or has two in a row. So poet's ids do where they must not
meet a user's name: those that live until `naming` alone start with a dot, and what a board's lowering adds to an
operator follows two dots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import torch
from torch._ops import OpOverload


@dataclass(frozen=True)
class View:
    """One view operator, applied to a tensor as its first argument; ``index`` picks from one that yields a list."""

    target: OpOverload
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    index: int | None = None


def through(views: Iterable[View], tensor: torch.Tensor) -> torch.Tensor:
    """A tensor, seen through a chain of views."""
    for view in views:
        result = view.target(tensor, *view.args, **view.kwargs)
        tensor = result if view.index is None else result[view.index]
    return tensor


@dataclass(frozen=True)
class Ref:
    """An operand: a value or a resident, seen through a chain of views, the first applied first.

    ``shape``, ``stride`` and ``dtype`` are those of the operand after its views.
    """

    source: str
    views: tuple[View, ...]
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Blank:
    """An operand of which only the layout matters: its data are never read."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Write:
    """An operator's argument that it writes: the executor gives it a copy, and the whole copy is the new ``value``.

    ``argument`` is its place in ``args`` or its name in ``kwargs``. Where it is a :class:`Blank`, the operator fills a
    fresh tensor.
    """

    argument: int | str
    value: str


@dataclass(frozen=True)
class TracedValue:
    """A tensor that an operator yields.

    ``bytes`` are those of its real storage. A value with a ``resident`` (a parameter's gradient, the loss) lives in
    that resident and takes no bytes of the arena.
    """

    id: str
    bytes: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    stride: tuple[int, ...]
    resident: str | None = None


class Kind(StrEnum):
    """What a resident is for; `state` is the executor's own, and a `buffer` is `state` too in poet-graph/1."""

    PARAMETER = "parameter"
    GRADIENT = "gradient"
    BUFFER = "buffer"
    INPUT = "input"
    TARGET = "target"
    LOSS = "loss"
    OUTPUT = "output"
    CONSTANT = "constant"
    STATE = "state"
    HISTORY = "history"


@dataclass(frozen=True)
class TracedResident:
    """A tensor that stays in RAM for the whole step; ``bytes`` and ``dtype`` are PyTorch's (labels take 8 bytes).

    ``stride`` is None where it is that of a contiguous tensor, or nobody asks.
    """

    id: str
    kind: Kind
    bytes: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    stride: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Written:
    """What of the user's own code an operator comes from; a gradient's is that of which it is the gradient.

    Attributes
    ----------
    text : str
        The expression, in one line; without a ``line`` the name of a loss that is PyTorch's.
    line : str
        As ``nets.py:12``; empty where all of the code is PyTorch's.
    in_loss : bool
        Whether it is outside of the model.
    """

    text: str = ""
    line: str = ""
    in_loss: bool = False


@dataclass(frozen=True)
class TracedOperator:
    """One ATen operator.

    Attributes
    ----------
    outputs : tuple of str or None
        Value ids in the order of the schema's returns; None for one that nobody uses.
    writes : tuple of Write
        Arguments that are written where the operator has no out-of-place form.
    module : str
        Path of the module whose forward or backward it is; empty for the loss and what stands outside of modules.
    after : tuple of str
        Operators whose first computation has to come before, although no value says so: those that use the random
        generator, in program order.
    updates : tuple of str
        Buffers that it changes, once: a recomputation leaves them alone. Readers see the state before the step.
    random : bool
        Whether it draws from the generator; a recomputation draws the same numbers again.
    workspace_bytes : int
        Most memory that its kernel allocates beside its outputs, measured.
    written : Written
        For messages.
    """

    id: str
    target: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[str | None, ...]
    backward: bool
    module: str
    writes: tuple[Write, ...] = ()
    after: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    random: bool = False
    recomputable: bool = True
    workspace_bytes: int = 0
    written: Written = field(default=Written(), compare=False)

    @property
    def values(self) -> tuple[str, ...]:
        """Ids of all values that it yields."""
        return tuple(id for id in self.outputs if id is not None) + tuple(write.value for write in self.writes)

    @cached_property
    def refs(self) -> tuple[Ref, ...]:
        """Operands in the order of the arguments."""
        return tuple(refs_in((self.args, self.kwargs)))


@dataclass(frozen=True)
class OptimizerUpdate:
    """The optimiser's update of one parameter as a step of the schedule, which uses up the parameter's gradient.

    ``workspace_bytes`` is what it allocates at most while it runs, the optimiser's state left out.
    """

    id: str
    parameter: str
    workspace_bytes: int = 0


@dataclass(frozen=True)
class Kept:
    """A place of Python's state that a step leaves something in.

    Attributes
    ----------
    path : str
        As people call it.
    container, name : object
        Where it is, and under which name there.
    get, put : callables
        What reads it, and what puts something there.
    nest : object
        What is left, with nothing in the places of its tensors; without tensors the thing itself.
    refs : tuple of Ref
        The tensors.
    """

    path: str
    container: Any
    name: Any
    get: Callable[[], Any]
    put: Callable[[Any], object]
    nest: Any
    refs: tuple[Ref, ...]


@dataclass(frozen=True)
class TracedGraph:
    """One training step: loss and gradient of every parameter that needs one. Or a forward pass alone.

    Attributes
    ----------
    operators : tuple of TracedOperator
        In program order.
    values : dict
        By id.
    residents : tuple of TracedResident
        Parameters, buffers, inputs, targets, constants, gradients, the loss, and ``generator``: its state before
        every operator that draws from it, kept for recomputations.
    gradients : dict
        By parameter, the value that is its gradient, perhaps seen through a view.
    loss : Ref
        The value that is the loss, or a view of it; of a forward pass alone, its output.
    constants : dict
        Data of the residents of kind constant.
    bookkeeping : tuple of TracedOperator
        Operators that update buffers from residents alone (batch norm's count of batches): run once when the step is
        over, outside of every schedule.
    fixed
        What of the batch is no tensor, and holds for every step (:func:`poet_runtime.nested.fixed_in`).
    loss_parameters : dict
        The very parameters of a loss that is a module with parameters of its own, by resident id.
    layers : dict
        The class of each module, by its path.
    frozen : dict
        The very parameters and buffers that an operator reads and no step changes, by resident id.
    without_gradient : frozenset of str
        Of `frozen`, parameters that ask for a gradient, and to which none comes.
    ranges : dict
        Least and greatest number in each integer resident of a rehearsed step, by id: other data have to stay within.
    int8_ranges : dict
        Least and greatest number of each value that is to be on int8, by id; empty: nothing is, or all is already.
    optimizer_updates : tuple of OptimizerUpdate
        Updates that the step itself takes; the gradients of other parameters are left for an optimiser after it.
    device : str
        Where all its tensors are, as PyTorch has it.
    kept : tuple of Kept
        What it leaves in Python beside gradients and buffers.
    shown_by_fakes : bool
        Whether a trace over fake tensors alone shows the same step.
    lets_go : bool
        Whether it is the same step where the backward pass reads zeros in the place of what autograd saves.
    """

    name: str
    operators: tuple[TracedOperator, ...]
    values: dict[str, TracedValue]
    residents: tuple[TracedResident, ...]
    gradients: dict[str, Ref]
    loss: Ref
    constants: dict[str, torch.Tensor]
    bookkeeping: tuple[TracedOperator, ...] = ()
    fixed: Any = None
    loss_parameters: dict[str, torch.Tensor] = field(default_factory=dict)
    layers: dict[str, str] = field(default_factory=dict)
    frozen: dict[str, torch.Tensor] = field(default_factory=dict)
    without_gradient: frozenset[str] = frozenset()
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    int8_ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    optimizer_updates: tuple[OptimizerUpdate, ...] = ()
    device: str = "cpu"
    kept: tuple[Kept, ...] = ()
    shown_by_fakes: bool = True
    lets_go: bool = False

    @property
    def results(self) -> tuple[Ref, ...]:
        """What is there when the step is over: the loss, what it has kept, and gradients."""
        return (self.loss, *(ref for kept in self.kept for ref in kept.refs), *self.left_gradients.values())

    @cached_property
    def changed(self) -> frozenset[str]:
        """Ids of the residents that a training step changes: what is trained, and what the step itself updates."""
        updated = (id for operator in (*self.operators, *self.bookkeeping) for id in operator.updates)
        return frozenset((*self.gradients, *updated))

    @cached_property
    def left_gradients(self) -> dict[str, Ref]:
        """Those of `gradients` that are there when the step is over."""
        used = {update.parameter for update in self.optimizer_updates}
        return {parameter: ref for parameter, ref in self.gradients.items() if parameter not in used}

    def updating(self, updates: Sequence[OptimizerUpdate]) -> TracedGraph:
        """The step with the optimiser's updates inside: the gradients that they use up live no longer than need be."""
        graph = replace(self, optimizer_updates=tuple(updates))
        results = {ref.source for ref in graph.results}
        used = {ref.source for ref in self.gradients.values()} - results
        values = {id: replace(value, resident=None) if id in used else value for id, value in self.values.items()}
        return replace(graph, values=values)

    def inputs(self, operator: TracedOperator) -> tuple[str, ...]:
        """Ids of the distinct values, residents left out, that an operator needs in RAM."""
        return tuple(dict.fromkeys(ref.source for ref in operator.refs if ref.source in self.values))


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(1, shape[axis + 1])
    return tuple(strides)


def poets_own(name: str) -> str:
    """Id of what is poet's and not the user's; until `naming`, of its residents and of the operators that serve one."""
    return f"..{name}"


def map_refs(arguments: Any, change: Callable[[Ref], Any]) -> Any:
    """The same nest of arguments with every operand replaced."""
    if isinstance(arguments, Ref):
        return change(arguments)
    if isinstance(arguments, dict):
        return {key: map_refs(value, change) for key, value in arguments.items()}
    if isinstance(arguments, tuple):
        return tuple(map_refs(value, change) for value in arguments)
    if isinstance(arguments, list):
        return [map_refs(value, change) for value in arguments]
    return arguments


def refs_in(arguments: Any) -> Iterator[Ref]:
    """All operands in a nest of arguments, in order."""
    if isinstance(arguments, Ref):
        yield arguments
    elif isinstance(arguments, dict):
        for value in arguments.values():
            yield from refs_in(value)
    elif isinstance(arguments, list | tuple):
        for value in arguments:
            yield from refs_in(value)
