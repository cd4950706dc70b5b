# SPDX-License-Identifier: Apache-2.0
"""What a traced step cannot follow, found while tracing: each ends in one line that names it and the cure."""

from __future__ import annotations

import pickle
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import is_
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import torch
from poet_profiles.errors import UserError
from poet_runtime.nested import other_nest, parts_of
from poet_runtime.traced_graph import Written
from torch import Tensor, fx, nn
from torch._C._autograd import _get_sequence_nr
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule
from torch.fx import traceback as fx_traceback
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.modules import module as hooks_on_every_module
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from poet_planner.tracing import schema
from poet_planner.tracing.saved import WantsSavedError
from poet_planner.tracing.snapshot import generators
from poet_planner.tracing.written import written_at

aten = torch.ops.aten
_GENERATORS = ("PyTorch's random generator", "Python's random generator", "NumPy's random generator")


NUMBER_TAKEN = "takes a number out of a tensor and goes on with it; keep it a tensor"
_WAY_CHOSEN = (
    "looks at its data to choose its way; a plan always takes the same: compute both and choose with torch.where"
)


class NeedsDataError(Exception):
    """The step asks a question about its data, and tracing has no data."""


class DrawsError(Exception):
    """The step draws from a generator that a plan does not draw from; the argument is its name."""


class Where(Protocol):
    """The path of the module that is running, and whether none is."""

    def __call__(self) -> str: ...

    @property
    def is_outside(self) -> bool: ...


@dataclass(frozen=True)
class Asked:
    """What one trace of a step is asked beside the step."""

    # What to say of each question that the step asks about its data, if the answer matters, is put here, in order.
    questions: list[str] = field(default_factory=list)
    # The question, by number, that gets the wrong answer: whether the step is another one then tells whether the answer
    # matters.
    flipped: int | None = None
    protected: frozenset[int] = frozenset()  # storages that it must not write: they are the user's own
    lets_go: bool = False  # what autograd saves


def storages(tensors: Iterable[Tensor]) -> frozenset[int]:
    """The addresses of what tensors lie in."""
    return frozenset(tensor.untyped_storage()._cdata for tensor in tensors)


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operator of a step while it is traced.

    A question about what depends neither on the tensors of the step nor on a random number has one answer for good: it
    is given and forgotten.

    Parameters
    ----------
    path : Where
    flat : sequence of Tensor
        Parameters, buffers and batch.
    drawn : dict of str to str
        What the step does first after a draw from a generator, or a seed, is put here, by the generator's name.
    loss : object
        What is called with the model's results.
    """

    def __init__(
        self, path: Where, asked: Asked, flat: Sequence[Tensor], drawn: dict[str, str], loss: object = None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._path = path
        self._loss = getattr(loss, "__name__", type(loss).__name__)
        self.written: dict[int, Written] = {}  # by the sequence number of what has a gradient
        self._asked = asked
        # Weak references keep an address from being another storage's later.
        self._references = [_reference(tensor.untyped_storage()) for tensor in flat]
        self._dependent = set(storages(flat))
        self._untrue: set[int] = set()
        self._drawn = drawn
        self._states = _generators_states()
        self._line = ""
        self.number_taken_at = ""  # where a number has last been taken out of a tensor

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self._note_place()
        if kwargs.get("generator") not in (None, torch.default_generator):
            raise UserError(
                f"{here(self._path())} draws from a torch.Generator of its own; a plan draws from PyTorch's: leave "
                "generator= out"
            )
        if func is aten._pack_padded_sequence.default:
            raise UserError(f"{here(self._path())} packs sequences; pad the sequences, and mask the loss")
        given = _tensors((args, kwargs))
        if self._asked.protected:
            self._refuse_to_write(func, args, kwargs)
        depends = torch.Tag.nondeterministic_seeded in func.tags or not self._dependent.isdisjoint(storages(given))
        if depends and schema.has_shape_of_data(func, args, kwargs):
            raise UserError(f"{here(self._path())}: {depends_on_data(f'the shape of what {func} returns')}")
        if func is aten.equal.default:
            return self._answer(torch.equal, args, depends)
        if func is aten._local_scalar_dense.default:
            (tensor,) = args
            if tensor.dtype is torch.bool or not (depends and isinstance(tensor, FakeTensor)):
                return self._answer(Tensor.item, args, depends)
            self.number_taken_at = here(self._path())
        results = func(*args, **kwargs)
        if results is None and func._schema.is_mutable:
            raise UserError(
                f"{here(self._path())} calls {func}, which writes into its arguments and returns nothing; call what "
                "returns a new tensor (of a custom_op, mutates_args=())"
            )
        made = (*_tensors(results), *(given if func._schema.is_mutable else ()))
        if depends:
            self._note(made, self._dependent)
        if not self._untrue.isdisjoint(storages(given)):
            self._note(made, self._untrue)
        return results

    def note_untrue(self, tensor: Tensor) -> None:
        """It stands in the place of what autograd saved, and has other numbers."""
        for kind in (self._dependent, self._untrue):
            self._note([tensor], kind)

    def _note_place(self) -> None:
        """Let the operator's node know the user's line; at each new line, see whether a generator has come further."""
        frame = _users_frame()
        line = _line(frame)
        custom = {"written": Written(), **fx_traceback.current_meta.get("custom", {}), "line": line}
        if frame is not None or not custom.get("backward"):
            text = self._loss if frame is None and self._path.is_outside else written_at(frame)
            custom["written"] = Written(text, line, self._path.is_outside)
            # The node of what has a gradient has been made, just before.
            self.written.setdefault(_get_sequence_nr() - 1, custom["written"])
        fx_traceback.current_meta["custom"] = custom
        if line != self._line:
            self._line = line
            states = _generators_states()
            for name in states.keys() - self._drawn.keys():
                if states[name] != self._states.get(name):
                    self._drawn[name] = here(self._path())

    def _note(self, tensors: Iterable[Tensor], kind: set[int]) -> None:
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage._cdata not in kind:
                self._references.append(_reference(storage))
                kind.add(storage._cdata)

    def _refuse_to_write(self, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        arguments: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        places = (*schema.declared_writes(func), *schema.hidden_writes(func, args, kwargs))
        if not self._asked.protected.isdisjoint(storages(_tensors([arguments.get(place) for place in places]))):
            raise UserError(
                f"{here(self._path())} writes into a parameter, a buffer or the batch, but not while it is traced; a "
                "plan cannot follow that"
            )

    def _answer(self, question: Callable[..., Any], tensors: Sequence[Tensor], depends: bool) -> Any:
        if any(isinstance(tensor, FakeTensor) for tensor in tensors):
            raise NeedsDataError
        if not self._untrue.isdisjoint(storages(tensors)):
            raise WantsSavedError
        with torch.utils._python_dispatch._disable_current_modes():
            answer = question(*tensors)
        if not depends:
            return answer
        questions = self._asked.questions
        words = NUMBER_TAKEN if not isinstance(answer, bool) else _WAY_CHOSEN
        questions.append(f"{here(self._path())} {words}")
        if len(questions) - 1 != self._asked.flipped:
            return answer
        return not answer if isinstance(answer, bool) else answer + 1


def _reference(storage: torch.UntypedStorage) -> StorageWeakRef:
    return StorageWeakRef(storage)  # type: ignore[no-untyped-call]


def _tensors(tree: Any) -> list[Tensor]:
    """All that lie in one storage."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor) and leaf.layout is torch.strided]


def _generators_states() -> dict[str, bytes]:
    # Within torch.func a state would be a tensor of its.
    with torch.utils._python_dispatch._disable_current_modes(), temporarily_clear_interpreter_stack():
        return {name: pickle.dumps(state) for name, (state, _) in generators().items()}


def here(path: str) -> str:
    """The module that is running, and the line of the user's own code."""
    return _at(path, _line(_users_frame()))


def _at(path: str, line: str) -> str:
    return f"{path or 'the model'} ({line})" if line else path or "the model"


def _users_frame() -> FrameType | None:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_name != "taken":
        frame = frame.f_back
        if _is_users_code(frame.f_code.co_filename):
            return frame
    return None


def _line(frame: FrameType | None) -> str:
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def raised_at(error: BaseException) -> str:
    """The line of the user's own code that an error comes from, as the beginning of a message."""
    line = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if _is_users_code(file):
            line = f"{Path(file).name}:{trace.tb_lineno}: "
        trace = trace.tb_next
    return line


_OTHERS_CODE = (
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    str(Path(torch.__file__).parent),
    str(Path(__file__).parent),
    "<",
)


def _is_users_code(file: str) -> bool:
    return not file.startswith(_OTHERS_CODE)


def refuse_hooks_on_gradients(module: nn.Module, loss: object) -> None:
    """Refuse hooks that PyTorch calls while it computes gradients: nobody can know whether they change something."""
    everywhere = hooks_on_every_module
    if everywhere._global_backward_hooks or everywhere._global_backward_pre_hooks:
        raise UserError("a backward hook on all modules would not be called in a plan; remove it before planning")
    parts = [("", module), *([("loss", loss)] if isinstance(loss, nn.Module) else [])]
    for root, part in parts:
        for path, child in part.named_modules(prefix=root):
            if child._backward_hooks or child._backward_pre_hooks:
                raise UserError(
                    f"{path or 'the model'} has a backward hook, which a plan would not call; remove it, and do what "
                    "it does with the gradients after train_step"
                )
        for path, parameter in part.named_parameters(prefix=root):
            if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
                raise UserError(
                    f"{path} has a hook on its gradient, which a plan would not call; remove it, and do what it does "
                    "with grad after train_step"
                )


def refuse_changes_from_step_to_step(
    start: Mapping[str, object], once: Mapping[str, object], twice: Mapping[str, object]
) -> None:
    """Refuse a step that keeps books in Python.

    ``start``, ``once`` and ``twice`` are the plain state before, after one step and after two.

    Raises
    ------
    UserError
    DrawsError
    """
    for name in _GENERATORS:
        if start.get(name) != once.get(name):
            raise DrawsError(name)
    changed = [name for name in {**once, **twice} if once.get(name, ...) != twice.get(name, ...)]
    if changed:
        cure = "count in a buffer (register_buffer), or outside of the step"
        if changed[0].startswith("the length of "):
            cure = "keep only what is new in it (clear() it first, or make a new list)"
        raise UserError(f"the step changes {changed[0]} each time it is taken, which a plan would not; {cure}")


def refuse_what_was_kept(second: GraphModule) -> None:
    """Refuse a step that reads what the one before it has kept."""
    kept = next((node for node in second.graph.nodes if isinstance(_constant(second, node), FakeTensor)), None)
    if kept is not None:
        user = next(iter(kept.users), kept)
        raise UserError(
            f"{module_of(user)} reads a tensor that it has kept from an earlier step or made at its first call; make "
            "it in __init__, and register_buffer what changes from step to step"
        )


def refuse_another_step(first: GraphModule, second: GraphModule) -> None:
    """Refuse a step that is another one the second time."""
    node = difference(first, second)
    if node is not None:
        raise UserError(
            f"{module_of(node)} does something else the second time it is called; a plan repeats one step: take out "
            "what depends on a counter, the time or Python's random numbers"
        )


def refuse_answers_that_matter(
    first: GraphModule, questions: Sequence[str], otherwise: Callable[[int], GraphModule | None]
) -> None:
    """Refuse a step that goes another way where its data are others.

    ``otherwise`` gives the step, traced with the other answer to one question; None where it stops with an error then.
    """
    for number, words in enumerate(questions):
        other = otherwise(number)
        if other is not None and difference(first, other) is not None:
            raise UserError(words)


def refuse_numbers(graph: GraphModule) -> None:
    """Refuse a step over fake tensors that goes on with a number out of one."""
    for node in graph.graph.find_nodes(op="call_function", target=aten._local_scalar_dense.default):
        if node.users:
            raise UserError(f"{module_of(node)} {NUMBER_TAKEN}")


def difference(first: GraphModule, second: GraphModule) -> fx.Node | None:
    """The first node in which two traced steps differ."""
    places: dict[fx.Node, int] = {}
    pairs: Iterable[tuple[fx.Node | None, fx.Node | None]] = zip_longest(first.graph.nodes, second.graph.nodes)
    for index, (one, other) in enumerate(pairs):
        if one is None or other is None:
            return one or other
        places[one] = places[other] = index
        if one.op != other.op or _arguments(one, places) != _arguments(other, places):
            return other
        if one.op == "get_attr":
            if not _same(_constant(first, one), _constant(second, other)):
                return other
        elif one.op != "placeholder" and one.target is not other.target and one.target != other.target:
            return other
    return None


def _arguments(node: fx.Node, places: Mapping[fx.Node, int]) -> str:
    return repr(fx.map_arg((node.args, node.kwargs), lambda argument: _Place(places[argument])))


class _Place(int):
    def __repr__(self) -> str:
        return f"%{int(self)}"


def _constant(graph: GraphModule, node: fx.Node) -> Any:
    return getattr(graph, str(node.target)) if node.op == "get_attr" else None


def _same(one: Any, other: Any) -> bool:
    if one is other or isinstance(one, FakeTensor) or isinstance(other, FakeTensor):
        return one is other
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return (
            one.dtype == other.dtype and one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())
        )
    return one is other


def module_of(node: fx.Node) -> str:
    """The module that an operator of a step belongs to, and the line of the user's own code."""
    custom = node.meta.get("custom") or {}
    return _at(custom.get("module", ""), custom.get("line", ""))


def depends_on_data(what: str) -> str:
    """What is wrong with a result that is of another shape, or steers the step another way, with other data; a cure."""
    return (
        f"{what} depends on its data, and a plan is the same for all data; choose with torch.where, or compute it "
        "once, outside of the step, and give the model the result (a graph's self-loops: add them to edge_index)"
    )


def refuse_writes(batch: Any, example: Any, given: Iterable[Tensor]) -> None:
    """Refuse a step that has put something into its batch, where nobody would find it.

    ``given`` are the tensors that stood in the places of the example's.

    Raises
    ------
    UserError
        If so.
    """
    now, was = parts_of(batch), parts_of(example)
    place = other_nest(now.form, was.form)
    if place is not None or now.values.keys() != was.values.keys() or not all(map(is_, now.tensors, given)):
        raise UserError(
            f"forward writes into its batch{f' ({place})' if place else ''}; have it write into a copy (batch = "
            "dict(batch)), and keep what others read in an attribute"
        )


def rebound_buffers(module: nn.Module, state: Mapping[str, Tensor], storages: Mapping[str, int]) -> dict[str, Tensor]:
    """The buffers in whose place a step has put another tensor, and that tensor.

    ``state`` are the tensors that stood for parameters and buffers when the step began, by name; ``storages`` are the
    addresses of the storages that they had then.

    Raises
    ------
    UserError
        If the step has given a parameter or a buffer what the next step cannot start from.
    """
    for name, tensor in state.items():
        if tensor.untyped_storage()._cdata != storages[name]:
            raise UserError(f"forward assigns {name}.data; write into it instead, under torch.no_grad(): copy_(...)")
    rebound = {}
    for path, child in module.named_modules():
        prefix = f"{path}." if path else ""
        for leaf, parameter in child._parameters.items():
            if parameter is None or any(parameter is known for known in state.values()):
                continue
            if prefix + leaf in state:
                raise UserError(f"forward replaces the parameter {prefix}{leaf}; write into it under torch.no_grad()")
            raise UserError(f"forward makes the parameter {prefix}{leaf}; make it in __init__, or keep a plain tensor")
        for leaf, buffer in child._buffers.items():
            name = prefix + leaf
            old = state.get(name)
            if buffer is old or buffer is None:
                continue
            if old is None:
                raise UserError(f"forward makes the buffer {name}; make it in __init__, or keep a plain tensor")
            if buffer.requires_grad:
                raise UserError(f"forward keeps in the buffer {name} what needs a gradient; detach() it first")
            if (buffer.shape, buffer.dtype) != (old.shape, old.dtype):
                raise UserError(
                    f"forward changes the buffer {name} from shape {tuple(old.shape)}, {old.dtype} to "
                    f"{tuple(buffer.shape)}, {buffer.dtype}; give it the last shape and type from the start"
                )
            rebound[name] = buffer
    return rebound
