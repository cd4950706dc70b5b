"""What a traced step cannot follow, found while tracing: each ends in one line that names it and the cure."""

from __future__ import annotations

from collections.abc import Mapping

from poet_profiles.errors import UserError
from torch import Tensor, nn


def rebound_buffers(module: nn.Module, state: Mapping[str, Tensor], storages: Mapping[str, int]) -> dict[str, Tensor]:
    """The buffers in whose place a step has put another tensor, and that tensor.

    Parameters
    ----------
    state : mapping of str to Tensor
        The tensors that stood for parameters and buffers when the step began, by name.
    storages : mapping of str to int
        The address of the storage that each had then.

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
            if parameter is not None and all(parameter is not known for known in state.values()):
                raise UserError(f"forward replaces the parameter {prefix}{leaf}; write into it under torch.no_grad()")
        for leaf, buffer in child._buffers.items():
            name = prefix + leaf
            if buffer is None or name not in state or buffer is state[name]:
                continue
            old = state[name]
            if buffer.requires_grad:
                raise UserError(f"forward keeps in the buffer {name} what needs a gradient; detach() it first")
            if (buffer.shape, buffer.dtype) != (old.shape, old.dtype):
                raise UserError(
                    f"forward changes the buffer {name} from shape {tuple(old.shape)}, {old.dtype} to "
                    f"{tuple(buffer.shape)}, {buffer.dtype}; give it the last shape and type from the start"
                )
            rebound[name] = buffer
    return rebound
