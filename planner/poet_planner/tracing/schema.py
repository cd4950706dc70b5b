# SPDX-License-Identifier: Apache-2.0
"""What an ATen operator does with memory: from its schema, and in tables where the schema is silent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten

# Schemas call their results fresh, yet they share the argument's storage.
_UNDECLARED_VIEWS = frozenset(
    {
        aten._unsafe_view.default,
        aten.unsafe_chunk.default,
        aten.unsafe_split.Tensor,
        aten.unsafe_split_with_sizes.default,
    }
)

ALLOCATIONS = frozenset(
    {
        aten.empty.memory_format,
        aten.empty_like.default,
        aten.empty_strided.default,
        aten.new_empty.default,
        aten.new_empty_strided.default,
        aten.empty_permuted.default,
    }
)

# Arguments of which the CPU kernels read nothing but shape and strides.
_SHAPE_ONLY: dict[str, tuple[str, ...]] = {
    "aten::empty_like": ("self",),
    "aten::new_empty": ("self",),
    "aten::new_empty_strided": ("self",),
    "aten::zeros_like": ("self",),
    "aten::ones_like": ("self",),
    "aten::full_like": ("self",),
    "aten::new_zeros": ("self",),
    "aten::new_ones": ("self",),
    "aten::new_full": ("self",),
    "aten::rand_like": ("self",),
    "aten::randn_like": ("self",),
    "aten::fill": ("self",),
    "aten::zero": ("self",),
    "aten::copy": ("self",),
    "aten::copy_": ("self",),
    "aten::fill_": ("self",),
    "aten::zero_": ("self",),
    "aten::bernoulli_": ("self",),
    "aten::uniform_": ("self",),
    "aten::normal_": ("self",),
    "aten::rrelu_with_noise": ("noise",),
    "aten::max_pool2d_with_indices_backward": ("self",),
    "aten::max_pool3d_with_indices_backward": ("self",),
    "aten::adaptive_max_pool2d_backward": ("self",),
    "aten::avg_pool2d_backward": ("self",),
    "aten::avg_pool3d_backward": ("self",),
    "aten::_adaptive_avg_pool2d_backward": ("self",),
    "aten::nll_loss_backward": ("self",),
    "aten::nll_loss2d_backward": ("self",),
}

# Arguments that kernels write although their schemas do not say so; only when the named flag is set.
_HIDDEN_WRITES: dict[OpOverload, tuple[tuple[str, ...], str]] = {
    aten.native_batch_norm.default: (("running_mean", "running_var"), "training"),
}


def bound_arguments(target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Every argument of the schema by name, defaults filled in."""
    bound: dict[str, Any] = {}
    for index, argument in enumerate(target._schema.arguments):
        if index < len(args) and not argument.kwarg_only:
            bound[argument.name] = args[index]
        elif argument.name in kwargs:
            bound[argument.name] = kwargs[argument.name]
        else:
            bound[argument.name] = argument.default_value
    return bound


def position(target: OpOverload, name: str) -> int:
    """Place of an argument in the schema."""
    return [argument.name for argument in target._schema.arguments].index(name)


def is_view(target: OpOverload) -> bool:
    """Whether its results share the storage of its first argument, which it does not write."""
    if target in _UNDECLARED_VIEWS:
        return True
    returns = target._schema.returns
    aliases = [result.alias_info for result in returns]
    return bool(returns) and all(alias is not None and not alias.is_write for alias in aliases)


def view_in_place(target: OpOverload) -> OpOverload | None:
    """The view operator of which it is the in-place form (`transpose_`): the tensor is seen that way from then on."""
    if torch.Tag.inplace_view not in target.tags:
        return None
    packet = getattr(aten, target._schema.name.removeprefix("aten::")[:-1], None)
    names = packet.overloads() if packet is not None else ()
    # `transpose_` has an overload of another name than `transpose`.
    views = (overload for name in names if is_view(overload := getattr(packet, name)))
    return next((view for view in views if _arguments(view) == _arguments(target)), None)


def only_checks(target: OpOverload) -> bool:
    """Whether it neither yields nor writes anything, like a check that may raise an error."""
    return not target._schema.returns and not declared_writes(target)


def shape_only(target: OpOverload) -> tuple[str, ...]:
    """Names of the arguments whose data are never read."""
    return _SHAPE_ONLY.get(target._schema.name, ())


def declared_writes(target: OpOverload) -> tuple[int | str, ...]:
    """Positions, or names of keyword-only ones, of the arguments that the schema says are written."""
    return tuple(
        argument.name if argument.kwarg_only else index
        for index, argument in enumerate(target._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )


def aliased_write(target: OpOverload, result: int) -> int | str | None:
    """The written argument that a result is, by position or name; None if the result is a tensor of its own."""
    returns = target._schema.returns
    alias = returns[result].alias_info if result < len(returns) else None
    if alias is None:
        return None
    for index, argument in enumerate(target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.before_set & alias.before_set:
            return argument.name if argument.kwarg_only else index
    return None


def hidden_writes(target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, ...]:
    """Positions of the arguments that are written although the schema does not say so."""
    names, flag = _HIDDEN_WRITES.get(target, ((), ""))
    bound = bound_arguments(target, args, kwargs)
    if not names or not bound[flag]:
        return ()
    return tuple(position(target, name) for name in names if bound[name] is not None)


def written_placeholders(graph: GraphModule) -> set[int]:
    """The placeholders of a traced step, by number, that it writes: themselves, or through views of them."""
    of = {node: number for number, node in enumerate(graph.graph.find_nodes(op="placeholder"))}
    written = set()
    for node in graph.graph.nodes:
        if not isinstance(node.target, OpOverload):
            continue
        arguments = {**dict(enumerate(node.args)), **node.kwargs}
        for place in (*declared_writes(node.target), *hidden_writes(node.target, node.args, node.kwargs)):
            written |= {of[one] for one in tree_leaves(arguments.get(place)) if isinstance(one, Node) and one in of}
        seen = node.args[0] if node.args else None
        if isinstance(seen, Node) and seen in of and not is_fresh(node.target):
            of[node] = of[seen]
    return written


def is_fresh(target: OpOverload) -> bool:
    """Whether its results have storages of their own."""
    return not is_view(target) and all(result.alias_info is None for result in target._schema.returns)


def has_shape_of_data(target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the shape of its results depends on the numbers in its operands."""
    if torch.Tag.dynamic_output_shape not in target.tags:
        return False
    bound = bound_arguments(target, args, kwargs)
    if target._schema.name == "aten::index":  # by numbers it takes as many as there are
        return any(one is not None and one.dtype in (torch.bool, torch.uint8) for one in bound["indices"])
    return bound.get("output_size") is None


def is_pure(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operator does nothing but yield its results."""
    return (
        isinstance(target, OpOverload)
        and bool(target._schema.returns)
        and not target._schema.is_mutable
        and not hidden_writes(target, args, kwargs)
        and torch.Tag.nondeterministic_seeded not in target.tags
    )


def unread(target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, ...]:
    """Positions of the optional tensors that the kernel never looks at.

    A batch norm's gradient needs the running statistics or the batch's, never both.
    """
    if target is not aten.native_batch_norm_backward.default:
        return ()
    train = bound_arguments(target, args, kwargs)["train"]
    names = ("running_mean", "running_var") if train else ("save_mean", "save_invstd")
    return tuple(position(target, name) for name in names)


def is_random(target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether it draws from the random generator."""
    if torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    return bool(bound_arguments(target, args, kwargs).get("dropout_p", 1.0))


def out_of_place(target: OpOverload) -> OpOverload | None:
    """The overload that yields what an in-place one writes into its first argument, if ATen has it."""
    name = target._schema.name.removeprefix("aten::")
    packet = getattr(aten, name[:-1], None) if name.endswith("_") and not name.endswith("__") else None
    overload = getattr(packet, target._overloadname, None)
    if overload is None:
        return None
    return overload if _arguments(target) == _arguments(overload) else None


def _arguments(target: OpOverload) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in target._schema.arguments]
