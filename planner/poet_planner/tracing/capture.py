# SPDX-License-Identifier: Apache-2.0
"""Loss and gradients of a module, or its output alone, as one flat ATen graph, by `make_fx`.

No decomposition table is given, so that convolution, batch norm, layer norm and attention stay whole: the operators
are those that eager PyTorch runs, which is what makes the graph's results equal to eager's bit for bit.
"""

from __future__ import annotations

import itertools
import linecache
import threading
from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from poet_profiles.errors import UserError
from poet_runtime.traced_graph import Kept, Kind, Written
from torch import Tensor, nn
from torch._C._autograd import _get_sequence_nr
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.fx import GraphModule, graph_module
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.utils._pytree import tree_map_only

from poet_planner.tracing import refusals
from poet_planner.tracing.checkpointing import without_checkpointing
from poet_planner.tracing.kept import Before
from poet_planner.tracing.recurrent import WholeLayers
from poet_planner.tracing.saved import WantsSavedError, let_go
from poet_planner.tracing.schema import is_pure, written_placeholders
from poet_planner.tracing.snapshot import Snapshot, displace_generators, plain_state
from poet_planner.tracing.unfit import refuse_unfit_loss, refuse_unfit_output

_SOURCES = graph_module._loader.eval_cache
Run = Callable[[nn.Module, Sequence[Tensor], Sequence[Tensor]], Tensor]
Loss = Callable[..., Tensor]
Way = tuple[object, ...]  # which operators a step calls, and where
Step = Callable[..., list[Tensor | None]]

# A training step has these beside its own batch and loss.
INFERENCE_INPUT = "inference.input"
INFERENCE_OUTPUT = "inference.output"
_NOTHING = Written()


@dataclass(frozen=True)
class Captured:
    """A flat graph and what its placeholders and outputs are.

    The graph returns the ``result`` (the loss, or the output of a forward pass), then the gradient of each of
    ``trained``, then what the step put in the place of each of the buffers ``rebound``, then the tensors in the places
    ``kept``, so many in each. A node's ``meta["custom"]``
    holds ``module`` (the path), ``backward`` and ``written``. ``loss_parameters`` are those of the loss alone, by the
    names that they have among the placeholders. ``shown_by_fakes`` says whether fake tensors alone would show the same,
    ``lets_go`` whether the step is the same with what autograd saves let go.
    """

    graph: GraphModule
    placeholders: tuple[tuple[str, Kind], ...]
    trained: tuple[str, ...]
    rebound: tuple[str, ...]
    loss_parameters: dict[str, Tensor]
    result: tuple[str, Kind]
    shown_by_fakes: bool
    lets_go: bool
    kept: tuple[tuple[Kept, int], ...] = ()


def capture(
    module: nn.Module,
    inputs: Sequence[Tensor],
    targets: Sequence[Tensor],
    run: Run,
    loss: Loss,
    data: bool = True,
    ways: set[Way] | None = None,
    segments: int = 0,
    keeps: bool = False,
) -> Captured:
    """Trace one training step.

    Parameters
    ----------
    module : nn.Module
        In the mode (train or eval) that is wanted.
    inputs, targets : sequences of Tensor
        The tensors of a batch. Only shapes and types of them get into the graph.
    run : callable
        The loss of ``module`` for tensors in the places of these, a scalar.
    loss : callable
        What ``run`` computes the loss with; it may be a module with parameters of its own.
    data : bool
        Whether the second trace is over these tensors; over fake ones it takes no memory.
    ways : set of Way, optional
        Of steps of the model that are the same each time, to which this one's is added. A step without ``data`` that
        goes one of them is not traced a second time.
    segments : int
        Above 0 recurrent layers are operators of poet's own, as the firmware has them, each over so many segments of
        its steps.
    keeps : bool
        Whether what it leaves in Python is wanted.

    The step is traced twice, to see that it is always the same: over fake tensors, and over these, so that a library
    that asks whether its tensors are fake is answered as in eager PyTorch. That takes the memory of a forward pass
    without gradients (:mod:`poet_planner.tracing.saved`), or where gradients are asked questions of an eager step.
    Module, loss and batch stay as they are.

    Raises
    ------
    UserError
        If no parameter needs a gradient, the loss is not a scalar, an operator's shape depends on data, or the step is
        none that can be repeated (:mod:`poet_planner.tracing.refusals`).
    """
    refusals.refuse_hooks_on_gradients(module, loss)
    snapshot = Snapshot(module, loss, inputs, targets, data=False)
    try:
        return _captured(module, inputs, targets, run, loss, snapshot, data, ways, segments, keeps)
    finally:
        snapshot.restore()


def capture_forward(
    module: nn.Module, inputs: Sequence[Tensor], run: Callable[..., Tensor], segments: int = 1
) -> Captured:
    """Trace a forward pass without gradients.

    ``module`` is in the mode that is wanted; it may have no parameter at all. Of ``inputs`` only shapes and types
    matter. ``run`` gives the output of ``module``, one tensor, for tensors in the places of these.

    Raises
    ------
    UserError
        As `capture`; or if the output is not one tensor.
    """
    snapshot = Snapshot(module, inputs, data=False)
    try:
        return _captured(
            module, inputs, (), lambda module, given, _: run(module, given), None, snapshot, segments=segments
        )
    finally:
        snapshot.restore()


def _captured(
    module: nn.Module,
    inputs: Sequence[Tensor],
    targets: Sequence[Tensor],
    run: Run,
    loss: Loss | None,
    snapshot: Snapshot,
    data: bool = True,
    ways: set[Way] | None = None,
    segments: int = 0,
    keeps: bool = False,
) -> Captured:
    """The step; without a loss the forward pass."""
    loss_parameters = own_parameters(loss, module)
    parameters = {**dict(module.named_parameters()), **loss_parameters}
    buffers = dict(module.named_buffers())
    trained = tuple(name for name, parameter in parameters.items() if parameter.requires_grad and loss is not None)
    if not trained and loss is not None:
        raise UserError("the model has no parameter that needs a gradient; there is nothing to train")
    placeholders = (
        *((name, Kind.PARAMETER) for name in parameters),
        *((name, Kind.BUFFER) for name in buffers),
        *((name, Kind.INPUT) for name in _numbered("input" if loss is not None else INFERENCE_INPUT, len(inputs))),
        *((name, Kind.TARGET) for name in _numbered("target", len(targets))),
    )
    state_count = len(parameters) + len(buffers)
    rebound: dict[str, Tensor] = {}
    drawn: dict[str, str] = {}
    kept: list[tuple[Kept, int]] = []

    def step(asked: refusals.Asked, *flat: Tensor) -> list[Tensor | None]:
        state = {name: tensor for (name, _), tensor in zip(placeholders, flat[:state_count], strict=False)}
        given = flat[state_count : state_count + len(inputs)]
        wanted = flat[state_count + len(inputs) :]
        where = _Where()
        before = Before(state.values(), module, loss) if keeps else None
        storages = {name: tensor.untyped_storage()._cdata for name, tensor in state.items()}
        with ExitStack() as within:
            within.enter_context(standing_in(module, loss, state, loss_parameters))
            within.enter_context(where.watching(module))
            within.enter_context(_autocast_cache())
            watch = within.enter_context(refusals.Watch(where, asked, flat, drawn, loss))
            if asked.lets_go:
                within.enter_context(let_go(flat, watch.note_untrue))
            if loss is None:
                within.enter_context(torch.no_grad())
            if segments:
                within.enter_context(WholeLayers(segments))
            try:
                value = run(module, given, wanted)
            except GuardOnDataDependentSymNode:
                raise UserError(f"{watch.number_taken_at} {refusals.NUMBER_TAKEN}") from None
            gradients: Sequence[Tensor | None] = ()
            if loss is None:
                refuse_unfit_output(value)
            else:
                refuse_unfit_loss(value)
                where.watch_backward(value, watch.written)
                gradients = torch.autograd.grad(value, [state[name] for name in trained], allow_unused=True)
            rebound.clear()
            rebound.update(refusals.rebound_buffers(module, state, storages))
        left = before.left(any(refusals.NUMBER_TAKEN in one for one in asked.questions)) if before else []
        if not kept:
            kept.extend((place, len(tensors)) for place, tensors in left)
        return [value, *gradients, *rebound.values(), *(tensor for _, tensors in left for tensor in tensors)]

    flat = (*parameters.values(), *buffers.values(), *inputs, *targets)
    lets_go = loss is not None
    parts = (module, loss, inputs, targets)
    given = step, flat, parts, snapshot, data, set() if ways is None else ways
    try:
        try:
            graph, shown_by_fakes = _undisturbed(partial(_repeatable, *given, lets_go), snapshot)
        except WantsSavedError:
            lets_go = False
            snapshot.restore()
            graph, shown_by_fakes = _undisturbed(partial(_repeatable, *given, lets_go), snapshot)
    except (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException) as error:
        raise UserError(
            f"{refusals.raised_at(error)}{refusals.depends_on_data(f'what {error.func} returns')}"
        ) from None
    except refusals.DrawsError as draws:
        name = str(draws)
        before = f", before {drawn[name]}," if name in drawn else ""
        raise UserError(
            f"the step draws from {name}, or seeds it{before} which a plan would not repeat; draw with PyTorch, and "
            f"seed outside of the step{_OR_ANOTHER * (threading.active_count() > 1)}"
        ) from None
    except (RuntimeError, TypeError) as error:
        if not any(words in str(error) for words in _WANTS_DATA):
            raise
        raise UserError(
            f"{refusals.raised_at(error)}the model takes the numbers out of a tensor (NumPy, text); leave them in the "
            "tensor, and look at them outside of the step"
        ) from None
    result = ("loss", Kind.LOSS) if loss is not None else (INFERENCE_OUTPUT, Kind.OUTPUT)
    found = graph, placeholders, trained, tuple(rebound), loss_parameters, result, shown_by_fakes, lets_go
    return Captured(*found, kept=tuple(kept))


_OR_ANOTHER = " (if it is another thread that draws: let it wait for poet)"


def _undisturbed(trace: Callable[[], tuple[GraphModule, bool]], snapshot: Snapshot) -> tuple[GraphModule, bool]:
    """Trace; again where numbers were drawn, which may have been another thread's doing."""
    for _ in range(_TRIES):
        try:
            return trace()
        except refusals.DrawsError:
            if threading.active_count() == 1:
                raise
            snapshot.restore()
    return trace()


_TRIES = 3
# How PyTorch says that something outside of it asks for a fake tensor's data.
_WANTS_DATA = (".numpy() is not supported for tensor subclasses", "passed to FakeTensor.__format__")


@dataclass(frozen=True)
class Share:
    """A part's share of the batch's loss."""

    loss: Loss
    divisor: int

    def __call__(self, output: Any, *targets: Any) -> Tensor:
        return self.loss(output, *targets) / self.divisor


def share(loss: Loss, divisor: int) -> Loss:
    """The loss itself where there is nothing to divide by."""
    return loss if divisor == 1 else Share(loss, divisor)


def own_parameters(loss: Loss | None, module: nn.Module) -> dict[str, Tensor]:
    """The parameters of a loss that is a module, without those that it shares with the model, by names of their own."""
    if not isinstance(loss, nn.Module):
        return {}
    prefix = "loss"
    while hasattr(module, prefix):
        prefix += "_"
    shared = {id(parameter) for parameter in module.parameters()}
    return {f"{prefix}.{name}": parameter for name, parameter in loss.named_parameters() if id(parameter) not in shared}


@contextmanager
def standing_in(
    module: nn.Module, loss: Loss | None, state: dict[str, Tensor], loss_parameters: dict[str, Tensor]
) -> Iterator[None]:
    """Within, each slot that holds a parameter or a buffer holds what stands for it, whatever its names are."""
    known = {**dict(module.named_parameters()), **dict(module.named_buffers()), **loss_parameters}
    stands = {id(tensor): state[name] for name, tensor in known.items()}
    slots: list[tuple[dict[str, Any], str, Any]] = [
        (held, key, tensor)
        for whole in (module, loss)
        if isinstance(whole, nn.Module)
        for part in whole.modules()
        for held in (part._parameters, part._buffers)
        for key, tensor in held.items()
        if id(tensor) in stands
    ]
    for held, key, tensor in slots:
        held[key] = stands[id(tensor)]
    try:
        yield
    finally:
        for held, key, tensor in slots:
            held[key] = tensor


@contextmanager
def without_data(module: nn.Module, loss: Loss) -> Iterator[None]:
    """Within, parameters and buffers are without data, and operators compute nothing."""
    loss_parameters = own_parameters(loss, module)
    state = {**dict(module.named_parameters()), **loss_parameters, **dict(module.named_buffers())}
    fake = _Fake([*state.values()])
    with (
        standing_in(module, loss, dict(zip(state, fake.flat, strict=True)), loss_parameters),
        fake.mode,
    ):
        yield


@contextmanager
def _autocast_cache() -> Iterator[None]:
    """Let `autocast` keep the weights that it has converted, as it does in eager PyTorch and `make_fx` forbids."""
    torch.set_autocast_cache_enabled(True)
    try:
        yield
    finally:
        torch.clear_autocast_cache()
        torch.set_autocast_cache_enabled(False)


def _repeatable(
    step: Step,
    flat: Sequence[Tensor],
    parts: Sequence[object],
    snapshot: Snapshot,
    data: bool,
    ways: set[Way],
    lets_go: bool,
) -> tuple[GraphModule, bool]:
    """The step's graph, once it is sure that it is the same for all steps and all data, and whether fakes show it."""
    displace_generators()
    start = plain_state(*parts)
    everything = range(len(flat))
    questions: list[str] = []
    fake = _Fake(flat)
    over_data = partial(_over_data, step, flat, lets_go)
    needs_data = False
    try:
        first = fake.graph(step)
        refusals.refuse_numbers(first)
    except refusals.NeedsDataError:
        needs_data = True
        snapshot.restore()
        displace_generators()
        start = plain_state(*parts)
        first = over_data(everything, refusals.Asked(questions))
    way = _way(first)
    if way in ways and not (data or needs_data):
        return first, True
    once = plain_state(*parts)
    written = written_placeholders(first)
    try:
        second = over_data(written) if data or needs_data else fake.graph(step)
    except RuntimeError as error:
        if "backward through the graph a second time" not in str(error):
            raise
        raise UserError(
            "the step goes back into the step before through what the model keeps; detach() what it keeps"
        ) from None
    refusals.refuse_changes_from_step_to_step(start, once, plain_state(*parts))
    refusals.refuse_what_was_kept(second)
    differs = refusals.difference(first, second) is not None
    if differs and not data:
        snapshot.restore()
        return _repeatable(step, flat, parts, snapshot, True, ways, lets_go)
    if differs:
        # Perhaps it asks whether its tensors are fake; and PyTorch's cache of fake results may hand out one tensor
        # where a kernel makes two. Then it is the same over data, time after time.
        snapshot.restore()
        questions.clear()
        first = over_data(written, refusals.Asked(questions))
        refusals.refuse_another_step(first, second)
        _one_mode(first)

    def otherwise(number: int) -> GraphModule | None:
        snapshot.restore()
        try:
            return over_data(everything, refusals.Asked([], number))
        except UserError:
            return GraphModule({}, torch.fx.Graph())
        except WantsSavedError:
            raise
        except Exception:
            return None

    refusals.refuse_answers_that_matter(first, questions, otherwise)
    ways.add(way)
    return first, not (differs or needs_data)


def _way(graph: GraphModule) -> Way:
    return tuple((node.op, node.target, refusals.module_of(node), len(node.users)) for node in graph.graph.nodes)


class _Fake:
    """A batch and the state of a model without data; two steps may start from the same."""

    def __init__(self, flat: Sequence[Tensor]) -> None:
        self.mode = FakeTensorMode(
            allow_fallback_kernels=True, allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True
        )
        self.flat = [self._fake(tensor) for tensor in flat]

    def _fake(self, tensor: Tensor) -> Tensor:
        # A Parameter, unlike a plain tensor, would leave its data behind.
        fake = self.mode.from_tensor(tensor.detach().requires_grad_(tensor.requires_grad))
        if isinstance(tensor, nn.Parameter):
            fake._is_param = True
        return fake

    def graph(self, step: Step) -> GraphModule:
        """What one step does."""
        with self.mode:
            return _traced(step, self.flat, refusals.Asked())


def _over_data(
    step: Step, flat: Sequence[Tensor], lets_go: bool, written: Container[int], asked: refusals.Asked | None = None
) -> GraphModule:
    """What it does with these tensors: of those that it writes, by number, with copies."""

    def stand_in(number: int, tensor: Tensor) -> Tensor:
        data = tensor.detach().clone() if number in written else tensor.detach()
        needs_grad = tensor.requires_grad
        return nn.Parameter(data, needs_grad) if isinstance(tensor, nn.Parameter) else data.requires_grad_(needs_grad)

    devices = {tensor.device for tensor in flat if tensor.device.type not in ("cpu", "meta")}
    with torch.random.fork_rng(devices=[*devices]):
        protected = [tensor for number, tensor in enumerate(flat) if number not in written]
        asked = replace(asked or refusals.Asked(), protected=refusals.storages(protected), lets_go=lets_go)
        return _traced(step, [*itertools.starmap(stand_in, enumerate(flat))], asked)


def _traced(step: Step, flat: Sequence[Tensor], asked: refusals.Asked) -> GraphModule:
    # Where a message looks for the user's line it goes no further than a function of this name.
    def taken(*flat: Tensor) -> list[Tensor | None]:
        return step(asked, *flat)

    with fx_traceback.preserve_node_meta(), torch.enable_grad(), without_checkpointing():
        known = {*_SOURCES}
        graph = make_fx(taken)(*flat)
    for name in _SOURCES.keys() - known:  # texts that nobody reads any more
        linecache.cache.pop(name, None)
        del _SOURCES[name]
    _drop_unread(graph)
    return graph


def _drop_unread(graph: GraphModule) -> None:
    """Take out what nobody reads: over fake tensors views are made that eager PyTorch leaves out, over data checks."""
    for node in reversed(graph.graph.nodes):
        if node.target is torch.ops.aten.detach.default:
            # The same numbers; hooks on what autograd saves are given one more, and eager PyTorch at times none.
            node.replace_all_uses_with(node.args[0])
        if node.op == "call_function" and not node.users and is_pure(node.target, node.args, node.kwargs):
            graph.graph.erase_node(node)


def _one_mode(graph: GraphModule) -> None:
    """Let the layouts of a step over data be fake tensors of one mode, as those of a step over fake tensors are."""
    mode = FakeTensorMode(allow_fallback_kernels=True)

    def layout(tensor: Tensor) -> Tensor:
        with mode:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)

    for node in graph.graph.nodes:
        if "val" in node.meta:
            node.meta["val"] = tree_map_only(Tensor, layout, node.meta["val"])


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

    def __call__(self) -> str:
        """The path of the module that is running."""
        return self._stack[-1]

    @property
    def is_outside(self) -> bool:
        """Whether no module of the model is running."""
        return len(self._stack) == 1

    def watch_backward(self, loss: Tensor, written: Mapping[int, Written]) -> None:
        """Let each gradient be its module's; ``written`` is what the user wrote, by the sequence number."""
        seen: set[Any] = set()
        numbers = [*written]
        pending: list[Any] = [loss.grad_fn]
        while pending:
            node = pending.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            pending += [child for child, _ in node.next_functions]
            number = node._sequence_nr()
            last = bisect_right(self._numbers, number) - 1
            # A node of a view that is written to is made after its operator.
            place = bisect_right(numbers, number) - 1
            what = written[numbers[place]] if place >= 0 else _NOTHING
            node.register_prehook(_announcing(self._paths[last] if last >= 0 else "", what))
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


def _announcing(path: str, written: Written) -> Callable[..., None]:
    return lambda *_: _announce(path, backward=True, written=written)


def _announce(path: str, backward: bool, written: Written = _NOTHING) -> None:
    fx_traceback.current_meta["custom"] = {"module": path, "backward": backward, "written": written}
