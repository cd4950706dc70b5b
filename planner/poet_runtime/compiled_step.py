# SPDX-License-Identifier: Apache-2.0
"""A schedule compiled into one straight-line Python function, a statement a step.

The function costs hardly more than eager PyTorch: constants are bound once, views are written where they are read, and
reference counting frees what a step frees. What `executor.Execution` checks while it runs is checked here beforehand,
and the results are the same bit for bit. `CompiledStep.source` is the function's text. It holds numbers
and names of ATen's operators and parameters, and nothing that a graph's author wrote: ids and texts lie in tables.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any

import torch
from poet_profiles.errors import UserError
from poet_profiles.schedule import Action, Step
from torch import Tensor
from torch._ops import OpOverload

from poet_runtime.devices import device_named
from poet_runtime.executor import MADE, StepResult, copied, storage_bytes
from poet_runtime.pager import Pager
from poet_runtime.pinned_pager import PinnedPager
from poet_runtime.traced_graph import Blank, Kind, OptimizerUpdate, Ref, TracedGraph, TracedOperator, Write

aten = torch.ops.aten
AnyPager = Pager | PinnedPager

# The name of results that nobody reads.
SPARE = "_"


@dataclass(frozen=True)
class CompiledStep:
    """A training step that is ready to run.

    Attributes
    ----------
    source : str
        Text of the generated function; in it ``r3`` is the fourth of ``residents``.
    function : callable
        Takes the residents in the order of ``residents``, and returns the loss, the gradients in the order of
        ``gradients``, and what takes the place of ``updates``.
    residents, gradients, updates : tuples of str
        Ids of residents; of parameters whose gradients it leaves; of buffers and others that the step changes.
    kept : tuple of str
        Paths of what it leaves in Python, one for each tensor; they come after the contents of updates.
    peak_bytes : int
        The most that values, workspaces and the new contents of buffers hold at once, in the graph's sizes.
    operators : tuple of str
        Ids in the order in which the function computes them; a joined one is called like its halves, with a ``+``.
    halves : dict
        What each joined one is made of, by its id.
    times_ns : list
        Clock readings of the last run, one before and one after each of ``operators`` of a timed step, or each step of
        a traced one.
    """

    source: str
    function: Callable[..., tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]]
    residents: tuple[str, ...]
    gradients: tuple[str, ...]
    updates: tuple[str, ...]
    peak_bytes: int
    operators: tuple[str, ...]
    times_ns: list[Any]
    halves: dict[str, tuple[str, ...]]
    pager: AnyPager | None = None
    kept: tuple[str, ...] = ()

    def run(self, tensors: Sequence[Tensor]) -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Call the function in the gradient modes that it sets itself, and leave the mode as it was.

        Raises
        ------
        UserError
            If a page could not be moved. Buffers are then as they were.
        """
        self.times_ns.clear()
        if self.pager is not None:
            self.pager.open()
        mode = torch.is_grad_enabled()
        try:
            return self.function(*tensors)
        except BaseException:
            if self.pager is not None:
                self.pager.abandon()
            raise
        finally:
            torch._C._set_grad_enabled(mode)

    def result(self, graph: TracedGraph, residents: Mapping[str, Tensor]) -> StepResult:
        """As :func:`poet_runtime.executor.execute` has it; ``residents`` have the constants that the graph has not."""
        given = {**residents, **graph.constants}
        missing = [id for id in self.residents if id not in given]
        if missing:
            raise UserError(f"{graph.name}: no tensor for {', '.join(missing)}; give every resident one")
        loss, gradients, contents = self.run([given[id] for id in self.residents])
        updates = dict(zip(self.updates, contents[: len(self.updates)], strict=True))
        buffers = {resident.id for resident in graph.residents if resident.kind is Kind.BUFFER}
        return StepResult(
            loss=loss,
            gradients=dict(zip(self.gradients, gradients, strict=True)),
            buffers={id: tensor for id, tensor in updates.items() if id in buffers},
            peak_bytes=self.peak_bytes,
            written={id: tensor for id, tensor in updates.items() if id not in buffers},
        )


def compile_steps(
    graph: TracedGraph,
    steps: Iterable[Step],
    pager: AnyPager | None = None,
    timed: bool = False,
    limit_bytes: float | None = None,
    clock: Callable[[], Any] = time.perf_counter_ns,
    update: Callable[[str, Tensor], None] | None = None,
    traced: bool = False,
) -> CompiledStep:
    """Compile a schedule's steps over the graph's operators and values.

    Halves of one backward kernel that stand side by side become one call, unless that would exceed a limit.

    Parameters
    ----------
    limit_bytes : float, optional
        What values and workspaces may take in all where halves are joined; default is the peak that the steps have
        with halves apart.
    pager : Pager, optional
        Where paged values go.
    timed : bool
        Whether the function reads the clock around each operator.
    clock : callable
        The clock, in nanoseconds; or another mark of the time, as of :meth:`poet_runtime.devices.Cpu.marker`.
    update : callable, optional
        Takes the optimiser's update of a parameter, in place; given are its id and its gradient.
    traced : bool
        Whether it reads the clock around each step. Nothing overlaps then: halves stay apart, and a transfer is waited
        for where it begins.

    Raises
    ------
    UserError
        If a step breaks the contract (docs/SPEC.md, section 4), as :func:`poet_runtime.executor.execute` says it.
    """
    if graph.optimizer_updates and update is None:
        raise UserError(f"{graph.name}: its schedule has the optimiser's updates within, and there is no optimiser")
    instructions = [*_checked(graph, steps, pager is not None)]
    if not traced:
        limit = _peak_bytes(graph, instructions) if limit_bytes is None else limit_bytes
        instructions = [*_joined(graph, instructions, limit)]
    return _Writer(graph, instructions, pager, clock if timed or traced else None, update, traced).compiled()


@dataclass(frozen=True)
class _Compute:
    """An operator's turn; ``again`` says that it has been computed before; ``halves`` are those of a joined one."""

    operator: TracedOperator
    again: bool = False
    halves: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Move:
    """A step with a value; ``for_good`` marks the free of a result that nothing brings back: it lives on."""

    do: Action
    value: str
    for_good: bool = False


@dataclass(frozen=True)
class _Update:
    """The optimiser's turn with a parameter."""

    update: OptimizerUpdate


_Instruction = _Compute | _Move | _Update


def _checked(graph: TracedGraph, steps: Iterable[Step], can_page: bool) -> Iterator[_Instruction]:
    """The steps as instructions, once each keeps the contract."""
    operators = {operator.id: operator for operator in graph.operators}
    steps = list(steps)
    results = {id for id, value in graph.values.items() if value.resident is not None}
    last_free = _last_frees(steps, operators, results)
    held: set[str] = set()
    paged: set[str] = set()
    computed: set[str] = set()
    updates = {update.id: update for update in graph.optimizer_updates}
    updated: set[str] = set()

    def need(value: str, doing: str) -> None:
        if value not in held:
            raise UserError(f"{doing} {value}: it is not in RAM")

    for number, step in enumerate(steps):
        target = step.target
        if step.do is Action.COMPUTE and target in updates:
            if target in computed:
                raise UserError(f"compute {target}: it may be computed only once")
            update = updates[target]
            need(graph.gradients[update.parameter].source, f"compute {target} needs")
            yield _Update(update)
            computed.add(target)
            updated.add(update.parameter)
            continue
        if step.do is Action.COMPUTE:
            operator = operators.get(target)
            if operator is None:
                raise UserError(f"compute {target}: the graph has no such operator")
            if target in computed and not operator.recomputable:
                raise UserError(f"compute {target}: it may be computed only once")
            for before in operator.after:
                if before not in computed:
                    raise UserError(f"compute {target}: {before} has to be computed before it")
            for value in operator.values:
                if value in held:
                    raise UserError(f"compute {target}: its value {value} is in RAM already")
            for value in graph.inputs(operator):
                need(value, f"compute {target} needs")
            for ref in operator.refs:
                if ref.source in updated:
                    raise UserError(f"compute {target}: it reads {ref.source}, which has been updated")
            yield _Compute(operator, target in computed)
            computed.add(target)
            held.update(operator.values)
            continue
        if step.do is not Action.FREE and not can_page:
            raise UserError(f"the schedule pages {target}, and there is no file to page to")
        if step.do is Action.PAGE_IN:
            if target in held:
                raise UserError(f"page_in {target}: it is in RAM already")
            if target not in paged:
                raise UserError(f"page_in {target}: it has never been paged out")
            held.add(target)
        else:
            need(target, step.do.value)
            (held.remove if step.do is Action.FREE else paged.add)(target)
        yield _Move(step.do, target, last_free.get(target) == number)
    left = [id for id in (*operators, *updates) if id not in computed]
    if left:
        raise UserError(f"the schedule never computes {left[0]} ({len(left)} operators left out)")


def _last_frees(steps: Sequence[Step], operators: Mapping[str, TracedOperator], results: set[str]) -> dict[str, int]:
    """Where each result is freed and not brought back: a plan may free a gradient once the optimiser has used it."""
    frees: dict[str, int] = {}
    for number, step in enumerate(steps):
        if step.do is Action.FREE and step.target in results:
            frees[step.target] = number
        elif step.do is Action.PAGE_IN:
            frees.pop(step.target, None)
        elif step.do is Action.COMPUTE and step.target in operators:
            for value in operators[step.target].values:
                frees.pop(value, None)
    return frees


def _peak_bytes(graph: TracedGraph, instructions: Iterable[_Instruction]) -> int:
    """The most that is allocated at once, in the graph's sizes."""
    instructions = [*instructions]
    ledger = _Ledger(graph, instructions)
    for instruction in instructions:
        ledger.carry_out(instruction)
    return ledger.peak_bytes


class _Ledger:
    """What is allocated while instructions are carried out; results and new contents of buffers stay.

    So do the generator's states before the operators that draw again, and its own meanwhile.
    """

    def __init__(self, graph: TracedGraph, instructions: Sequence[_Instruction]) -> None:
        self._bytes = {id: value.bytes for id, value in graph.values.items()}
        self._resident_bytes = {resident.id: resident.bytes for resident in graph.residents}
        self._updated: set[str] = set()
        states = len(_drawn_again(instructions))
        # A GPU's generator has a few bytes, on the host.
        each_bytes = torch.get_rng_state().nbytes if graph.device == "cpu" else 0
        self.held_bytes = (states + 1) * each_bytes if states else 0
        self.peak_bytes = 0

    def needed_bytes(self, operator: TracedOperator) -> int:
        """What is allocated while an operator runs now."""
        return self.held_bytes + operator.workspace_bytes + sum(self._bytes[value] for value in operator.values)

    def carry_out(self, instruction: _Instruction) -> None:
        if isinstance(instruction, _Compute):
            for resident in set(instruction.operator.updates) - self._updated:
                self._updated.add(resident)
                self.held_bytes += self._resident_bytes[resident]
            self.peak_bytes = max(self.peak_bytes, self.needed_bytes(instruction.operator))
            self.held_bytes += sum(self._bytes[value] for value in instruction.operator.values)
        elif isinstance(instruction, _Update):
            self.peak_bytes = max(self.peak_bytes, self.held_bytes + instruction.update.workspace_bytes)
        elif instruction.do is Action.PAGE_IN:
            self.held_bytes += self._bytes[instruction.value]
            self.peak_bytes = max(self.peak_bytes, self.held_bytes)
        elif instruction.do is Action.FREE and not instruction.for_good:
            self.held_bytes -= self._bytes[instruction.value]


def _joined(graph: TracedGraph, instructions: list[_Instruction], limit_bytes: float) -> Iterator[_Instruction]:
    """The same with adjacent halves of one kernel as one operator, where that keeps within a limit.

    What is freed between them is freed before the whole call, or after it if that reads it.
    """
    ledger = _Ledger(graph, instructions)
    pending = deque(instructions)
    while pending:
        instruction = pending.popleft()
        if isinstance(instruction, _Compute):
            between = [*takewhile(_is_free, pending)]
            other = pending[len(between)] if len(between) < len(pending) else None
            whole = _whole(instruction.operator, other.operator) if isinstance(other, _Compute) else None
            if whole is not None and isinstance(other, _Compute):
                read = {*graph.inputs(whole)}
                early = [free for free in between if isinstance(free, _Move) and free.value not in read]
                freed = sum(graph.values[free.value].bytes for free in early if not free.for_good)
                if ledger.needed_bytes(whole) - freed <= limit_bytes:
                    for _ in (*between, other):
                        pending.popleft()
                    late = [free for free in between if free not in early]
                    joined = _Compute(whole, halves=(*_parts(instruction), *_parts(other)))
                    pending.extendleft(reversed([*early, joined, *late]))
                    continue
        ledger.carry_out(instruction)
        yield instruction


def _is_free(instruction: _Instruction) -> bool:
    return isinstance(instruction, _Move) and instruction.do is Action.FREE


def _parts(compute: _Compute) -> tuple[str, ...]:
    return compute.halves or (compute.operator.id,)


def _whole(one: TracedOperator, other: TracedOperator) -> TracedOperator | None:
    """The one call that two halves come from; None where they are no halves of the same."""
    mask = _MASKS.get(one.target)
    if mask is None or one.target is not other.target or one.kwargs or other.kwargs:
        return None
    if any(both for both in map(all, zip(one.args[mask], other.args[mask], strict=True))):
        return None
    args: list[Any] = []
    for index, (mine, its) in enumerate(zip(one.args, other.args, strict=True)):
        if index == mask:
            args.append([first or second for first, second in zip(mine, its, strict=True)])
        elif isinstance(mine, Blank) or mine == its:
            args.append(its)
        elif isinstance(its, Blank):
            args.append(mine)
        else:
            return None
    return replace(
        one,
        id=f"{one.id}+{other.id}",
        args=tuple(args),
        outputs=tuple(mine or its for mine, its in zip(one.outputs, other.outputs, strict=True)),
        # A whole call computes one half after the other, with what both leave in RAM.
        workspace_bytes=max(one.workspace_bytes, other.workspace_bytes),
    )


def _mask_place(target: OpOverload) -> int:
    return [argument.name for argument in target._schema.arguments].index("output_mask")


# The kernels that tracing splits, and the place of the mask that says which gradients are wanted.
_MASKS = {
    target: _mask_place(target)
    for target in (
        aten.convolution_backward.default,
        aten.native_layer_norm_backward.default,
        aten.native_group_norm_backward.default,
        aten.native_batch_norm_backward.default,
    )
}


def _drawn_again(instructions: Iterable[_Instruction]) -> list[str]:
    """Ids of the random operators that are computed again."""
    again = (one.operator for one in instructions if isinstance(one, _Compute) and one.again)
    return [*dict.fromkeys(operator.id for operator in again if operator.random)]


class _Writer:
    """Writes the function. Its names: r residents, v values, u new contents of residents, g generator states."""

    def __init__(
        self,
        graph: TracedGraph,
        instructions: list[_Instruction],
        pager: AnyPager | None,
        clock: Callable[[], Any] | None,
        update: Callable[[str, Tensor], None] | None,
        traced: bool,
    ) -> None:
        self._graph = graph
        self._instructions = instructions
        self._pager = pager
        self._device = device_named(graph.device)
        self._timed = clock is not None
        self._traced = traced
        taken = [resident.id for resident in graph.residents if resident.kind not in MADE]
        self._residents = {id: f"r{number}" for number, id in enumerate(taken)}
        self._values = {id: f"v{number}" for number, id in enumerate(graph.values)}
        self._updates: dict[str, str] = {}
        self._times: list[int] = []
        self._globals: dict[str, Any] = {
            "grad_mode": torch._C._set_grad_enabled,
            "copied": copied,
            "fresh": partial(torch.empty_strided, device=graph.device),
            "own": _own,
            "get_state": self._device.random_state,
            "set_state": self._device.set_random_state,
            "now": clock,
            "update": update,
            "mark": self._times.append,
        }
        if pager is not None:
            self._globals |= {
                "page_out": pager.page_out,
                "page_in": pager.page_in,
                "wait": pager.wait,
                "drain": pager.drain,
            }
        self._constants: dict[int, str] = {}
        self._blanks: dict[Blank, str] = {}
        self._states = {id: f"g{number}" for number, id in enumerate(_drawn_again(instructions))}
        self._lines: list[str] = []
        self._backward: bool | None = None
        self._coming: set[str] = set()
        self._leaving: set[str] = set()

    def compiled(self) -> CompiledStep:
        for instruction in self._instructions:
            if isinstance(instruction, _Compute):
                self._compute(instruction.operator, instruction.again)
            elif isinstance(instruction, _Update):
                self._update_by_optimizer(instruction.update)
            elif self._traced:
                self._mark()
                self._move(instruction)
                self._wait(instruction.value, self._coming, self._leaving)
                self._mark()
            else:
                self._move(instruction)
        self._timed = False
        for operator in self._graph.bookkeeping:
            self._compute(operator, again=False)
        if self._pager is not None:
            self._line("drain()")
            self._pager.open()
        loss = self._operand(self._graph.loss)
        gradients = [self._operand(ref) for ref in self._graph.left_gradients.values()]
        kept = [self._operand(ref) for one in self._graph.kept for ref in one.refs]
        self._line(f"return {loss}, {_tuple(gradients)}, {_tuple([*self._updates.values(), *kept])}")
        untouched = self._device.untouched(self._blanks)
        self._globals |= {name: untouched[layout] for layout, name in self._blanks.items()}
        source = self._source()
        exec(compile(source, "<training step>", "exec"), self._globals)
        computes = [
            one.operator.id if isinstance(one, _Compute) else one.update.id
            for one in self._instructions
            if not isinstance(one, _Move)
        ]
        return CompiledStep(
            source=source,
            function=self._globals["step"],
            residents=tuple(self._residents),
            gradients=tuple(self._graph.left_gradients),
            updates=tuple(self._updates),
            peak_bytes=_peak_bytes(self._graph, self._instructions),
            operators=tuple(computes),
            times_ns=self._times,
            halves={
                one.operator.id: one.halves for one in self._instructions if isinstance(one, _Compute) and one.halves
            },
            pager=self._pager,
            kept=tuple(kept.path for kept in self._graph.kept for _ in kept.refs),
        )

    def _source(self) -> str:
        taken = "".join(f"    {name},\n" for name in self._residents.values())
        return f"def step(\n{taken}):\n" + "".join(f"    {line}\n" for line in self._lines)

    def _line(self, statement: str) -> None:
        self._lines.append(statement)

    def _move(self, move: _Move) -> None:
        id, name = move.value, self._values[move.value]
        if move.do is Action.FREE:
            if not move.for_good:
                self._wait(id, self._coming, self._leaving)
                self._delete(name)
            return
        slot = self._slot(id)
        if move.do is Action.PAGE_OUT:
            self._line(f"page_out({slot}, {name})")
            self._leaving.add(id)
        else:
            self._line(f"{name} = page_in({slot})")
            self._coming.add(id)
            self._leaving.discard(id)

    def _delete(self, name: str) -> None:
        if self._lines and self._lines[-1].startswith("del "):
            self._lines[-1] += f", {name}"
        else:
            self._line(f"del {name}")

    def _wait(self, id: str, *transfers: set[str]) -> None:
        under_way = [of for of in transfers if id in of]
        for of in under_way:
            of.remove(id)
        if under_way:
            self._line(f"wait({self._slot(id)})")

    def _slot(self, id: str) -> int:
        assert self._pager is not None
        value = self._graph.values[id]
        # What tracing knows of a kernel's private memory may be less than what a rehearsal has measured.
        shown = 1 + sum((extent - 1) * step for extent, step in zip(value.shape, value.stride, strict=True))
        return self._pager.slot(id, max(value.bytes, shown * value.dtype.itemsize))

    def _compute(self, operator: TracedOperator, again: bool) -> None:
        for id in self._graph.inputs(operator):
            self._wait(id, self._coming)
        if operator.backward is not self._backward:
            self._backward = operator.backward
            self._line(f"grad_mode({not operator.backward})")
        if self._is_new_contents(operator):
            name = f"u{len(self._updates)}"
            self._updates[operator.updates[0]] = name
            statement = f"{name} = {self._operand(operator.args[1])}"
        else:
            copies = {write.argument: self._copy(operator, write) for write in operator.writes}
            statement = self._assigned(operator, self._call(operator, again, copies))
        state = self._states.get(operator.id)
        if state is not None and again:
            # The same numbers again, and then the generator goes on from where it was.
            self._line("later = get_state()")
            self._line(f"set_state({state})")
        elif state is not None:
            self._line(f"{state} = get_state()")
        self._mark()
        self._line(statement)
        self._settle(operator)
        self._mark()
        if state is not None and again:
            self._line("set_state(later)")

    def _update_by_optimizer(self, update: OptimizerUpdate) -> None:
        gradient = self._graph.gradients[update.parameter]
        self._wait(gradient.source, self._coming)
        self._mark()
        self._line(f"update({self._constant(update.parameter)}, {self._operand(gradient)})")
        self._mark()

    def _mark(self) -> None:
        if self._timed:
            self._line("mark(now())")

    def _settle(self, operator: TracedOperator) -> None:
        """Let results have storages of their own, and nothing live that nobody reads."""
        if SPARE in self._lines[-1].partition(" = ")[0].split(", "):
            self._line(f"del {SPARE}")
        for id in operator.values:
            if self._graph.values[id].resident is not None:
                self._line(f"{self._values[id]} = own({self._values[id]})")

    def _is_new_contents(self, operator: TracedOperator) -> bool:
        """Whether an operator does nothing but make a value the next contents of a resident."""
        if (
            operator.target is not aten.copy_.default
            or len(operator.updates) != 1
            or operator.updates[0] in self._updates
        ):
            return False
        old, contents = operator.args[:2]
        same = (old.shape, old.stride, old.dtype) == (contents.shape, contents.stride, contents.dtype)
        return same and contents.source in self._graph.values and not old.views

    def _assigned(self, operator: TracedOperator, call: str) -> str:
        names = [None if id is None else self._values[id] for id in operator.outputs]
        returns = len(operator.target._schema.returns)
        if not any(names):
            return call
        if returns == 1:
            return f"{names[0]} = {call}"
        names += [None] * (returns - len(names))
        if names.count(None) == returns - 1:
            (place,) = (index for index, name in enumerate(names) if name is not None)
            return f"{names[place]} = {call}[{place}]"
        return f"{', '.join(name or SPARE for name in names)} = {call}"

    def _call(self, operator: TracedOperator, again: bool, copies: dict[int | str, str]) -> str:
        def written(key: int | str, argument: Any) -> str:
            if key in copies:
                return copies[key]
            if isinstance(argument, Ref) and argument.source in operator.updates:
                return "None" if again else self._viewed(self._update(argument.source), argument)
            return self._operand(argument)

        args = [written(index, argument) for index, argument in enumerate(operator.args)]
        args += [f"{name}={written(name, argument)}" for name, argument in operator.kwargs.items()]
        return f"{self._operator(operator.target)}({', '.join(args)})"

    def _copy(self, operator: TracedOperator, write: Write) -> str:
        """A statement that makes the tensor which an operator writes; what the operator sees of it."""
        key = write.argument
        argument = operator.args[key] if isinstance(key, int) else operator.kwargs[key]
        name = self._values[write.value]
        if isinstance(argument, Blank):
            dtype = self._constant(argument.dtype)
            self._line(f"{name} = fresh({argument.shape}, {argument.stride}, dtype={dtype})")
            return name
        self._line(f"{name} = copied({self._name(argument.source)})")
        return self._viewed(name, argument)

    def _update(self, resident: str) -> str:
        """The name of a resident's next contents, which start out as its present ones."""
        if resident not in self._updates:
            name = f"u{len(self._updates)}"
            self._updates[resident] = name
            self._line(f"{name} = {self._residents[resident]}.clone()")
        return self._updates[resident]

    def _name(self, source: str) -> str:
        return self._residents[source] if source in self._residents else self._values[source]

    def _viewed(self, name: str, ref: Ref) -> str:
        for view in ref.views:
            rest = [self._operand(argument) for argument in view.args]
            rest += [f"{key}={self._operand(argument)}" for key, argument in view.kwargs.items()]
            name = f"{self._operator(view.target)}({', '.join([name, *rest])})"
            if view.index is not None:
                name += f"[{view.index}]"
        return name

    def _operand(self, argument: Any) -> str:
        if isinstance(argument, Ref):
            return self._viewed(self._name(argument.source), argument)
        if isinstance(argument, Blank):
            return self._blank(argument)
        if isinstance(argument, list):
            return f"[{', '.join(map(self._operand, argument))}]"
        if isinstance(argument, tuple):
            return _tuple([*map(self._operand, argument)])
        if argument is None or isinstance(argument, bool | int):
            return repr(argument)
        if isinstance(argument, float) and math.isfinite(argument):
            return repr(argument)
        return self._constant(argument)

    def _operator(self, target: OpOverload) -> str:
        name = f"{target._schema.name.replace('::', '_').removeprefix('aten_')}_{target._overloadname}"
        self._globals[name] = target._op
        return name

    def _constant(self, thing: Any) -> str:
        name = self._constants.setdefault(id(thing), f"c{len(self._constants)}")
        self._globals[name] = thing
        return name

    def _blank(self, layout: Blank) -> str:
        """The name of memory that nobody touches, so that it is not allocated anew wherever it stands."""
        return self._blanks.setdefault(layout, f"b{len(self._blanks)}")


def _tuple(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _own(tensor: Tensor) -> Tensor:
    """A result in a storage of its own size; mse_loss returns its mean at the front of one as large as its input."""
    return tensor.clone() if storage_bytes(tensor) > tensor.nbytes else tensor
