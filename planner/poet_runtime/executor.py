# SPDX-License-Identifier: Apache-2.0
"""Runs a traced training step operator by operator, under any schedule of the contract.

The results are eager PyTorch's bit for bit, whatever the order, however often something is recomputed and whatever
goes to disk and back. Three rules make it so:

- a batch norm updates its running statistics when it is computed first; a recomputation runs without them;
- operators that draw random numbers are first computed in program order; the generator's state before each is kept
  and put back for a recomputation;
- the new contents of a buffer, or of what else the step writes, take its place when the step is over; until then every
  reader sees the old.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from poet_profiles.errors import UserError
from poet_profiles.schedule import Action, Step
from torch import Tensor, nn

from poet_runtime.devices import device_named
from poet_runtime.nested import fixed_in, orders_in, tensors_in
from poet_runtime.traced_graph import Blank, Kind, Ref, TracedGraph, TracedOperator, through


@dataclass(frozen=True)
class StepResult:
    """What a training step leaves: the loss, gradients by parameter, and the buffers that changed.

    ``written`` are the parameters, inputs and targets that the step itself wrote, as an embedding with ``max_norm``
    scales its rows. ``peak_bytes`` is the most that values' storages ever held at once, those in residents left out.
    """

    loss: Tensor
    gradients: dict[str, Tensor]
    buffers: dict[str, Tensor]
    peak_bytes: int
    written: dict[str, Tensor] = field(default_factory=dict)


def execute(graph: TracedGraph, residents: Mapping[str, Tensor], steps: Iterable[Step] | None = None) -> StepResult:
    """Run one training step.

    Parameters
    ----------
    graph : TracedGraph
    residents : mapping of str to Tensor
        Parameters, buffers, inputs and targets (:func:`residents_of`); none of them is changed.
    steps : iterable of Step, optional
        A schedule's steps over the graph's operators and values; the store-all schedule if left out. Pages go to a copy
        in RAM.

    Raises
    ------
    UserError
        If a step breaks the contract (docs/SPEC.md, section 4): an input that is not in RAM, a value that is there
        already, a page without a copy, random operators out of order, an operator never computed.
    """
    execution = Execution(graph, residents)
    for step in store_all_steps(graph) if steps is None else steps:
        execution.step(step)
    return execution.result()


def residents_of(
    graph: TracedGraph, module: nn.Module, inputs: Sequence[Any], targets: Sequence[Any]
) -> dict[str, Tensor]:
    """The tensors that a step starts from, by resident id.

    Raises
    ------
    UserError
        If the batch has another form than that which was traced: other shapes, other types, or other fixed values.
    """
    fixed = fixed_in((inputs, targets))
    if fixed != graph.fixed or orders_in(fixed) != orders_in(graph.fixed):
        raise UserError(f"{graph.name} was traced with other values, or another nesting, of its batch; trace it again")
    tensors: dict[str, Tensor] = {name: tensor.detach() for name, tensor in module.named_parameters()}
    tensors.update((name, tensor.detach()) for name, tensor in module.named_buffers())
    tensors.update((name, tensor.detach()) for name, tensor in graph.loss_parameters.items())
    given = {Kind.INPUT: iter(tensors_in(inputs)), Kind.TARGET: iter(tensors_in(targets))}
    for resident in graph.residents:
        if resident.kind in given:
            tensors[resident.id] = next(given[resident.kind])
        tensor = tensors.get(resident.id)
        if tensor is not None and (tuple(tensor.shape), tensor.dtype) != (resident.shape, resident.dtype):
            raise UserError(
                f"{graph.name}: {resident.id} has shape {tuple(tensor.shape)} and is {tensor.dtype}; "
                f"the graph was traced for {resident.shape} and {resident.dtype}"
            )
    return tensors


def train_step(
    graph: TracedGraph,
    module: nn.Module,
    inputs: Sequence[Any],
    targets: Sequence[Any],
    steps: Iterable[Step] | None = None,
) -> Tensor:
    """Run one step, leave what eager PyTorch's ``backward()`` would, and return the loss; an optimiser may follow.

    Gradients are added to those that are there; a parameter that takes no part keeps what it has. Buffers change, and
    so do parameters, inputs and targets where the step itself writes them.
    """
    residents = residents_of(graph, module, inputs, targets)
    result = execute(graph, residents, steps)
    leave(result, graph, module, residents)
    return result.loss


def leave(result: StepResult, graph: TracedGraph, module: nn.Module, residents: Mapping[str, Tensor]) -> None:
    """Let gradients, and what a step has written, be where eager PyTorch would leave them."""
    parameters = {**dict(module.named_parameters()), **graph.loss_parameters}
    with torch.no_grad():
        for name, gradient in result.gradients.items():
            accumulate(parameters[name], gradient)
        for name, contents in {**result.buffers, **result.written}.items():
            residents[name].copy_(contents)


def bookkept(graph: TracedGraph, residents: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The buffers that bookkeeping alone changes, such as counters of steps, after one more step."""
    execution = Execution(graph, residents)
    for operator in graph.bookkeeping:
        execution._run(operator)
    return dict(execution._updates)


def accumulate(parameter: Tensor, gradient: Tensor) -> None:
    """As autograd does; the layout, too, because sums over a gradient (a clipped norm) go in its order."""
    if parameter.grad is not None:
        parameter.grad += gradient
    elif has_gradients_layout(parameter, gradient.stride()):
        parameter.grad = gradient
    else:
        parameter.grad = torch.empty_strided(
            parameter.shape, gradients_layout(parameter), dtype=parameter.dtype, device=parameter.device
        ).copy_(gradient)


def gradients_layout(parameter: Tensor) -> tuple[int, ...]:
    """The strides that autograd gives a gradient that it copies: the parameter's, if that has no gaps."""
    return torch.empty_like(parameter, device="meta").stride()


def has_gradients_layout(parameter: Tensor, stride: Sequence[int]) -> bool:
    """Whether autograd keeps a gradient of these strides; an axis of one element never takes a step.

    As ``torch/csrc/autograd/utils/grad_layout_contract.h`` has it.
    """
    layout = zip(parameter.shape, stride, gradients_layout(parameter), strict=True)
    return all(extent == 1 or one == other for extent, one, other in layout)


def store_all_steps(graph: TracedGraph) -> Iterator[Step]:
    """Every operator once in program order, each value freed after its last use."""
    last_use = {id: operator.id for operator in graph.operators for id in operator.values}
    last_use.update((id, operator.id) for operator in graph.operators for id in graph.inputs(operator))
    dying: dict[str, list[str]] = {}
    for id, user in last_use.items():
        if graph.values[id].resident is None:
            dying.setdefault(user, []).append(id)
    for operator in graph.operators:
        yield Step(Action.COMPUTE, operator.id)
        for id in dying.get(operator.id, ()):
            yield Step(Action.FREE, id)


class Execution:
    """One training step under way."""

    def __init__(self, graph: TracedGraph, residents: Mapping[str, Tensor]) -> None:
        self._graph = graph
        self._device = device_named(graph.device)
        self._operators = {operator.id: operator for operator in graph.operators}
        self._residents = {**residents, **graph.constants}
        missing = [r.id for r in graph.residents if r.id not in self._residents and r.kind not in MADE]
        if missing:
            raise UserError(f"{graph.name}: no tensor for {', '.join(missing)}; give every resident one")
        self._values: dict[str, Tensor] = {}
        self._pages: dict[str, Tensor] = {}
        self._results: dict[str, Tensor] = {}
        self._computed: set[str] = set()
        self._generator_states: dict[str, Tensor] = {}
        self._updates: dict[str, Tensor] = {}
        self._held_bytes = 0
        self._peak_bytes = 0

    def step(self, step: Step) -> None:
        """Carry out one step of a schedule."""
        {
            Action.COMPUTE: self._compute,
            Action.FREE: self._free,
            Action.PAGE_OUT: self._page_out,
            Action.PAGE_IN: self._page_in,
        }[step.do](step.target)

    @property
    def values(self) -> dict[str, Tensor]:
        """What is in RAM, by id."""
        return dict(self._values)

    def result(self) -> StepResult:
        """What the step leaves, once everything has been computed."""
        left = [operator.id for operator in self._graph.operators if operator.id not in self._computed]
        if left:
            raise UserError(f"the schedule never computes {left[0]} ({len(left)} operators left out)")
        for operator in self._graph.bookkeeping:
            self._run(operator)
        results = {**self._results, **self._values}
        buffers = {resident.id for resident in self._graph.residents if resident.kind is Kind.BUFFER}
        return StepResult(
            loss=viewed(results[self._graph.loss.source], self._graph.loss),
            gradients={name: viewed(results[ref.source], ref) for name, ref in self._graph.gradients.items()},
            buffers={name: contents for name, contents in self._updates.items() if name in buffers},
            peak_bytes=self._peak_bytes,
            written={name: contents for name, contents in self._updates.items() if name not in buffers},
        )

    def _compute(self, id: str) -> None:
        operator = self._operators.get(id)
        if operator is None:
            raise UserError(f"compute {id}: the graph has no such operator")
        if id in self._computed and not operator.recomputable:
            raise UserError(f"compute {id}: it may be computed only once")
        for before in operator.after:
            if before not in self._computed:
                raise UserError(f"compute {id}: {before} has to be computed before it")
        for value in operator.values:
            if value in self._values:
                raise UserError(f"compute {id}: its value {value} is in RAM already")
        self._run(operator)
        self._computed.add(id)

    def _free(self, id: str) -> None:
        tensor = self._held(id, "free")
        if self._graph.values[id].resident is not None:
            self._results[id] = tensor  # A plan may free a gradient once the optimiser has used it.
        del self._values[id]
        self._held_bytes -= self._arena_bytes(id)

    def _page_out(self, id: str) -> None:
        self._pages[id] = copied(self._held(id, "page_out"))

    def _page_in(self, id: str) -> None:
        if id in self._values:
            raise UserError(f"page_in {id}: it is in RAM already")
        if id not in self._pages:
            raise UserError(f"page_in {id}: it has never been paged out")
        self._hold(id, copied(self._pages[id]))

    def _held(self, id: str, doing: str) -> Tensor:
        if id not in self._values:
            raise UserError(f"{doing} {id}: it is not in RAM")
        return self._values[id]

    def _hold(self, id: str, tensor: Tensor) -> None:
        if self._graph.values[id].resident is not None and storage_bytes(tensor) > tensor.nbytes:
            tensor = tensor.clone()  # mse_loss returns its mean at the front of a buffer as large as its input
        self._values[id] = tensor
        self._held_bytes += self._arena_bytes(id)
        self._peak_bytes = max(self._peak_bytes, self._held_bytes)

    def _arena_bytes(self, id: str) -> int:
        value = self._graph.values[id]
        return 0 if value.resident is not None else value.bytes

    def _run(self, operator: TracedOperator) -> None:
        again = operator.id in self._computed
        # As in eager: some kernels (LSTM's) keep less where no gradient is wanted.
        with torch.set_grad_enabled(not operator.backward), self._generator(operator, again):
            arguments: dict[int | str, Any] = dict(enumerate(operator.args))
            arguments.update(operator.kwargs)
            actual = {name: self._operand(argument) for name, argument in arguments.items()}
            for name, argument in arguments.items():
                if isinstance(argument, Ref) and argument.source in operator.updates:
                    actual[name] = None if again else self._updated(argument.source)
            copies = {write.argument: self._copy(arguments[write.argument]) for write in operator.writes}
            for name, copy in copies.items():
                actual[name] = viewed(copy, arguments[name])
            args = [actual[index] for index in range(len(operator.args))]
            results = self._call(operator, args, {name: actual[name] for name in operator.kwargs})
        if not isinstance(results, list | tuple):
            results = (results,)
        for id, tensor in zip(operator.outputs, results, strict=False):
            if id is not None:
                self._hold(id, tensor)
        for write in operator.writes:
            self._hold(write.value, copies[write.argument])

    def _call(self, operator: TracedOperator, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return operator.target(*args, **kwargs)

    @contextmanager
    def _generator(self, operator: TracedOperator, again: bool) -> Iterator[None]:
        """Keep the generator's state before a random operator; put it back for a recomputation, and only for that."""
        if not operator.random:
            yield
        elif not again:
            self._generator_states[operator.id] = self._device.random_state()
            yield
        else:
            now = self._device.random_state()
            self._device.set_random_state(self._generator_states[operator.id])
            try:
                yield
            finally:
                self._device.set_random_state(now)

    def _operand(self, argument: Any) -> Any:
        if isinstance(argument, Ref):
            return self._seen(argument)
        if isinstance(argument, Blank):
            return self._fresh(argument)
        if isinstance(argument, list | tuple):
            return type(argument)(self._operand(item) for item in argument)
        return argument

    def _seen(self, ref: Ref) -> Tensor:
        return viewed(self._source(ref), ref)

    def _source(self, ref: Ref) -> Tensor:
        if ref.source in self._residents:
            return self._residents[ref.source]
        return self._held(ref.source, "an operator needs")

    def _updated(self, resident: str) -> Tensor:
        """The resident's next contents, which start out as its present ones."""
        if resident not in self._updates:
            self._updates[resident] = self._residents[resident].clone()
        return self._updates[resident]

    def _copy(self, argument: Ref | Blank) -> Tensor:
        if isinstance(argument, Blank):
            return self._fresh(argument)
        return copied(self._source(argument))

    def _fresh(self, layout: Blank) -> Tensor:
        """Memory that nobody reads; the CPU's system hands out no page of it."""
        return torch.empty_strided(layout.shape, layout.stride, dtype=layout.dtype, device=self._graph.device)


def storage_bytes(tensor: Tensor) -> int:
    """What a tensor really occupies, which may be more than it shows."""
    return tensor.untyped_storage().nbytes()


def copied(tensor: Tensor) -> Tensor:
    """The same layout and numbers, in a storage of its own."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)


MADE = frozenset({Kind.GRADIENT, Kind.LOSS, Kind.OUTPUT, Kind.STATE})


def viewed(tensor: Tensor, argument: Ref | Blank) -> Tensor:
    """What an operand is of its source."""
    return through(argument.views, tensor) if isinstance(argument, Ref) else tensor
