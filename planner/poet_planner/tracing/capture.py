"""Loss and gradients of a module as one flat ATen graph, by `make_fx` over fake tensors.

No decomposition table is given, so that convolution, batch norm, layer norm and attention stay whole: the operators
are those that eager PyTorch runs, which is what makes the graph's results equal to eager's bit for bit.
"""

from __future__ import annotations

import copy
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from poet_profiles.errors import UserError
from torch import Tensor, nn
from torch._C._autograd import _get_sequence_nr
from torch._functorch import config as functorch_config
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.fx import GraphModule
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.utils.stateless import _reparametrize_module

from poet_planner.tracing.checkpointing import without_checkpointing
from poet_planner.tracing.ir import Kind
from poet_planner.tracing.refusals import rebound_buffers
from poet_planner.tracing.unfit import refuse_unfit_loss

Run = Callable[[nn.Module, Sequence[Tensor], Sequence[Tensor]], Tensor]
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Captured:
    """A flat graph and what its placeholders and outputs are.

    The graph returns the loss, then the gradient of each of ``trained``, then what the step put in the place of each
    of the buffers ``rebound``. A node's ``meta["custom"]`` holds ``module`` (the path) and ``backward``.
    """

    graph: GraphModule
    placeholders: tuple[tuple[str, Kind], ...]
    trained: tuple[str, ...]
    rebound: tuple[str, ...]


def capture(module: nn.Module, inputs: Sequence[Tensor], targets: Sequence[Tensor], run: Run) -> Captured:
    """Trace one training step.

    Parameters
    ----------
    module : nn.Module
        In the mode (train or eval) that is wanted.
    inputs, targets : sequences of Tensor
        The tensors of a batch. Only shapes and types of them matter.
    run : callable
        The loss of ``module`` for tensors in the places of these, a scalar.

    A module that looks at its data to choose its path (as Hugging Face's do, to warn of padding) is traced along the
    path that the example takes, with a warning. The module itself stays as it is.

    Raises
    ------
    UserError
        If no parameter needs a gradient, the loss is not a scalar, or an operator's shape depends on data.
    """
    module = _without_side_effects(module)
    parameters = dict(module.named_parameters())
    buffers = dict(module.named_buffers())
    trained = tuple(name for name, parameter in parameters.items() if parameter.requires_grad)
    if not trained:
        raise UserError("the model has no parameter that needs a gradient; there is nothing to train")
    placeholders = (
        *((name, Kind.PARAMETER) for name in parameters),
        *((name, Kind.BUFFER) for name in buffers),
        *((name, Kind.INPUT) for name in _numbered("input", len(inputs))),
        *((name, Kind.TARGET) for name in _numbered("target", len(targets))),
    )
    state_count = len(parameters) + len(buffers)
    rebound: dict[str, Tensor] = {}

    def step(*flat: Tensor) -> list[Tensor | None]:
        state = {name: tensor for (name, _), tensor in zip(placeholders, flat[:state_count], strict=False)}
        given = flat[state_count : state_count + len(inputs)]
        wanted = flat[state_count + len(inputs) :]
        where = _Where()
        storages = {name: tensor.untyped_storage()._cdata for name, tensor in state.items()}
        with _reparametrize_module(module, state, tie_weights=True), where.watching(module):
            value = run(module, given, wanted)
            refuse_unfit_loss(value)
            where.watch_backward(value)
            gradients = torch.autograd.grad(value, [state[name] for name in trained], allow_unused=True)
            rebound.clear()
            rebound.update(rebound_buffers(module, state, storages))
        return [value, *gradients, *rebound.values()]

    flat = (*parameters.values(), *buffers.values(), *inputs, *targets)
    try:
        graph = _flat_graph(step, flat)
        return Captured(graph, placeholders, trained, tuple(rebound))
    except (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException) as error:
        raise UserError(
            f"{error.func}: what it returns depends on its data; it has no place in a fixed graph"
        ) from error


def _flat_graph(step: Callable[..., list[Tensor | None]], flat: Sequence[Tensor]) -> GraphModule:
    try:
        return _make_fx(step, flat)
    except GuardOnDataDependentSymNode as error:
        cause = next((line for line in str(error).splitlines() if line.startswith("Caused by")), "")
        _LOG.warning("the model looks at its data to choose its path; the graph follows the example batch. %s", cause)
    with (
        functorch_config.patch(fake_tensor_propagate_real_tensors=True),
        _quiet("torch.fx.experimental.symbolic_shapes"),
    ):
        return _make_fx(step, flat)


@contextmanager
def _quiet(logger_name: str) -> Iterator[None]:
    logger = logging.getLogger(logger_name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _make_fx(step: Callable[..., list[Tensor | None]], flat: Sequence[Tensor]) -> GraphModule:
    with fx_traceback.preserve_node_meta(), torch.enable_grad(), without_checkpointing():
        return make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)(*flat)


def _without_side_effects(module: nn.Module) -> nn.Module:
    """A copy that shares parameters and buffers, so that a module that keeps what it computed keeps no fake tensor."""
    shared = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    try:
        return copy.deepcopy(module, shared)
    except RuntimeError:  # It holds a computed tensor, which cannot be copied.
        return module


def _numbered(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}{index}" for index in range(count)]


class _Where:
    """Which module every traced node belongs to, forward and backward.

    Forward, hooks follow the modules. Each autograd node carries a sequence number that grows as the forward pass
    proceeds; so a backward node belongs to the module that was running when its number was drawn.
    """

    def __init__(self) -> None:
        self._stack = [""]
        self._numbers: list[int] = []
        self._paths: list[str] = []

    @contextmanager
    def watching(self, module: nn.Module) -> Iterator[None]:
        handles = []
        for path, child in module.named_modules():
            handles.append(child.register_forward_pre_hook(self._entering(path)))
            handles.append(child.register_forward_hook(self._left, always_call=True))
        self._mark()
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def watch_backward(self, loss: Tensor) -> None:
        seen: set[Any] = set()
        pending: list[Any] = [loss.grad_fn]
        while pending:
            node = pending.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            pending += [child for child, _ in node.next_functions]
            last = bisect_right(self._numbers, node._sequence_nr()) - 1
            node.register_prehook(_announcing(self._paths[last] if last >= 0 else ""))
        _announce("", backward=True)

    def _entering(self, path: str) -> Callable[..., None]:
        def enter(*_: Any) -> None:
            self._stack.append(path)
            self._mark()

        return enter

    def _left(self, *_: Any) -> None:
        self._stack.pop()
        self._mark()

    def _mark(self) -> None:
        self._numbers.append(_get_sequence_nr())
        self._paths.append(self._stack[-1])
        _announce(self._stack[-1], backward=False)


def _announcing(path: str) -> Callable[..., None]:
    return lambda *_: _announce(path, backward=True)


def _announce(path: str, backward: bool) -> None:
    fx_traceback.current_meta["custom"] = {"module": path, "backward": backward}
