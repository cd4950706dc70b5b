# SPDX-License-Identifier: Apache-2.0
"""One operator of a program with the operands that it has in the step, and the same call as a line of JSON.

A call as JSON is an operator of a program (docs/SPEC.md, section 10) with tensors in place of references:

    {"op": "aten::relu.default", "args": [{"tensor": {"shape": [8, 64], "dtype": "float32", "low": -1.5, "high": 1.4}}]}

so that a board can measure it without the program. Its data are random within the range that the step showed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from poet_profiles.errors import FaultError
from poet_profiles.files.json_file import parsed
from torch import Tensor
from torch._ops import OpOverload

from poet_runtime.agent.operands import POSITIVE, SEED, random_tensor
from poet_runtime.executor import Execution, store_all_steps
from poet_runtime.measured_sizes import Apart
from poet_runtime.program import decoded, encoded, layout_document, layout_from_document, name_of, operator_named
from poet_runtime.traced_graph import Ref, TracedGraph, TracedOperator

DIGITS = 3


@dataclass(frozen=True)
class Call:
    """An operator and its arguments, tensors as they are handed to it."""

    target: OpOverload
    args: list[Any] = field(repr=False)
    kwargs: dict[str, Any] = field(repr=False)
    grad: bool = False

    def __call__(self) -> Any:
        with torch.set_grad_enabled(self.grad):
            return self.target(*self.args, **self.kwargs)

    def result_bytes(self) -> int:
        """What its results take, by their layouts alone; 0 where PyTorch tells these only from the data."""
        try:
            kwargs = _on_meta(self.kwargs)
            if any(argument.name == "device" for argument in self.target._schema.arguments):
                kwargs["device"] = "meta"
            results = self.target(*_on_meta(self.args), **kwargs)
        except Exception:  # Whatever an operator raises that has no such form.
            return 0
        return sum(tensor.untyped_storage().nbytes() for tensor in tensors_in(results))


def tensors_in(results: Any) -> Iterator[Tensor]:
    """All tensors that an operator gave."""
    if isinstance(results, Tensor):
        yield results
    elif isinstance(results, list | tuple):
        for item in results:
            yield from tensors_in(item)


def _on_meta(arguments: Any) -> Any:
    if isinstance(arguments, Tensor):
        return arguments.to("meta")
    if isinstance(arguments, dict):
        return {name: _on_meta(value) for name, value in arguments.items()}
    return [_on_meta(item) for item in arguments] if isinstance(arguments, list | tuple) else arguments


def call_in_step(graph: TracedGraph, residents: Mapping[str, Tensor], index: int) -> Call:
    """An operator's call as a step makes it: the step is run up to there."""
    run = _RunUpTo(graph, residents, graph.operators[index].id)
    with suppress(_ReachedError):
        for step in store_all_steps(graph):
            run.step(step)
    return run.reached()


def call_apart(graph: TracedGraph, residents: Mapping[str, Tensor], index: int) -> Call:
    """The same in the memory of one operator: numbers are others, as each before it is run by itself."""
    run = _ApartUpTo(graph, residents, graph.operators[index].id)
    with suppress(_ReachedError):
        run.taken(sized=False)
    return run.reached()


def text_of(operator: TracedOperator, call: Call) -> str:
    """A program's operator as JSON, with the ranges that its operands have in a call; without a space."""
    document = {"op": name_of(operator.target), "args": _described(operator.args, call.args)}
    if operator.kwargs:
        document["kwargs"] = _described(operator.kwargs, call.kwargs)
    return json.dumps(document, separators=(",", ":")).replace(" ", "\\u0020")


def call_from_text(text: str) -> Call:
    """A call from its JSON."""
    document = parsed(text.encode())
    if not isinstance(document, dict) or not isinstance(document.get("op"), str):
        raise FaultError('the call has no "op"')
    args, kwargs = document.get("args", []), document.get("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise FaultError('the call\'s "args" are no list, or its "kwargs" no object')
    target = operator_named(document["op"], "the call")
    generator = torch.Generator().manual_seed(SEED)
    actual = [_actual(argument, generator) for argument in args]
    return Call(target, actual, {name: _actual(value, generator) for name, value in kwargs.items()})


class _ReachedError(Exception):
    """The operator's call is there."""


class _RunUpTo(Execution):
    """Keeps the call of one operator, and ends before it."""

    def __init__(self, graph: TracedGraph, residents: Mapping[str, Tensor], wanted: str) -> None:
        super().__init__(graph, residents)
        self._wanted = wanted
        self._found: Call | None = None

    def reached(self) -> Call:
        """The call."""
        assert self._found is not None, f"{self._wanted} is in no step"
        return self._found

    def _call(self, operator: TracedOperator, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if operator.id == self._wanted:
            self._found = Call(operator.target, args, kwargs, not operator.backward)
            raise _ReachedError
        return super()._call(operator, args, kwargs)


class _ApartUpTo(_RunUpTo, Apart):
    """The same of a run of each operator by itself."""


def _described(argument: Any, actual: Any) -> Any:
    if isinstance(argument, Ref) and isinstance(actual, Tensor):
        return {"tensor": _tensor_document(actual)}
    if isinstance(argument, dict):
        return {name: _described(value, actual[name]) for name, value in argument.items()}
    if isinstance(argument, list | tuple):
        return [_described(item, seen) for item, seen in zip(argument, actual, strict=True)]
    return None if isinstance(argument, Ref) else encoded(argument)


def _tensor_document(tensor: Tensor) -> dict[str, Any]:
    document = layout_document(tuple(tensor.shape), tensor.dtype, tuple(tensor.stride()))
    if tensor.numel() and not tensor.is_complex():
        # Of a boolean PyTorch knows no range.
        low, high = (bound.item() for bound in torch.aminmax(tensor.byte() if tensor.dtype is torch.bool else tensor))
        document["low"], document["high"] = (
            float(f"{b:.{DIGITS}g}") if isinstance(b, float) else b for b in (low, high)
        )
    return document


def _actual(argument: Any, generator: torch.Generator) -> Any:
    """Arguments with random tensors in the place of their descriptions; the rest as a program has it."""
    if isinstance(argument, list):
        return [_actual(item, generator) for item in argument]
    if isinstance(argument, dict) and set(argument) in ({"tensor"}, {"blank"}):
        (described,) = argument.values()
        layout = layout_from_document(described, "a tensor of the call")
        limits = described.get("low", POSITIVE[0]), described.get("high", POSITIVE[1])
        if not all(isinstance(limit, int | float) for limit in limits) or limits[0] > limits[1]:
            raise FaultError(f'the call: "low" and "high" are {limits!r}')
        return random_tensor(layout.shape, layout.stride, layout.dtype, limits, generator)
    return decoded(argument, "the call")
