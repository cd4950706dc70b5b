# SPDX-License-Identifier: Apache-2.0
"""What cannot be traced as it is: models that are lazy, compiled, or not on the CPU, …, and losses that are none."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from poet_profiles.errors import UserError
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

# Layers that ask for their data, or compute outside of PyTorch's operators; what to write instead.
_INSTEAD: dict[type[nn.Module], str] = {
    nn.CrossMapLRN2d: "use LocalResponseNorm",
    nn.AdaptiveLogSoftmaxWithLoss: "use Linear and CrossEntropyLoss",
    nn.CTCLoss: "train with CrossEntropyLoss, a label for each step in time",
}


def refuse_unfit(name: str, module: nn.Module, batch: Iterable[Tensor], device: str = "cpu") -> None:
    """Raise a UserError that says what to do, unless everything is a dense tensor on the device and plain PyTorch."""
    for path, child in module.named_modules():
        where = f"{name}: module {path}" if path else name
        if isinstance(child, torch.jit.ScriptModule):
            raise UserError(f"{where} is scripted (torch.jit); give the module that it was made from")
        if isinstance(child, torch._dynamo.OptimizedModule) or child._compiled_call_impl is not None:
            raise UserError(
                f"{where} is compiled (torch.compile); give the module itself, poet traces what it computes"
            )
        if isinstance(child, nn.DataParallel | nn.parallel.DistributedDataParallel):
            raise UserError(f"{where} is spread over devices ({type(child).__name__}); give its .module")
        for kind, cure in _INSTEAD.items():
            if isinstance(child, kind):
                raise UserError(f"{where} is of a kind that cannot be traced ({kind.__name__}); {cure}")
    named = [*module.named_parameters(), *module.named_buffers()]
    for path, tensor in named:
        if is_lazy(tensor):
            raise UserError(f"{name}: {path} has no shape yet; call the model once on an example before you return it")
    for path, tensor in named:
        _refuse_unfit_tensor(name, path, tensor, device)
    refuse_unfit_batch(name, batch, device)


def refuse_unfit_batch(name: str, batch: Iterable[Tensor], device: str = "cpu") -> None:
    """Raise a UserError that says what to do, unless a batch is of dense tensors on the device, of a sample at least.

    The first tensor that has axes says how many samples there are: another may be empty, as the boxes of pictures
    without any.
    """
    batch = [*batch]
    for tensor in batch:
        _refuse_unfit_tensor(name, "the batch", tensor, device)
        if type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__:
            raise UserError(
                f"{name}: the batch is a {type(tensor).__name__}, which computes in a way of its own; give a plain "
                "tensor"
            )
        if tensor.requires_grad:
            raise UserError(
                f"{name}: an input or a target requires a gradient, and a plan gives those of parameters only; "
                "detach() it"
            )
    if next((tensor.shape[0] for tensor in batch if tensor.dim()), 1) == 0:
        raise UserError(
            f"{name}: a batch without samples has no step to plan; leave it out (DataLoader: drop_last=True)"
        )


def _refuse_unfit_tensor(name: str, path: str, tensor: Tensor, device: str) -> None:
    place = "the CPU" if device == "cpu" else device
    if tensor.device.type == "meta":
        raise UserError(f"{name}: {path} has no data (device meta); make it on {place}")
    if str(tensor.device) != device:
        raise UserError(
            f"{name}: {path} is on {tensor.device}; move the model and its batch to {place}: .to({device!r})"
        )
    if tensor.is_nested:
        raise UserError(f"{name}: {path} is a nested tensor; give a dense one: .to_padded_tensor(0.0)")
    if tensor.layout is not torch.strided:
        kind = "a sparse tensor" if "sparse" in str(tensor.layout) else "no plain tensor"
        raise UserError(f"{name}: {path} is {kind} ({tensor.layout}); give a dense one: .to_dense()")
    if tensor.is_quantized:
        raise UserError(f"{name}: {path} is quantised ({tensor.dtype}); training needs floating-point numbers")


def refuse_unfit_loss(value: object) -> None:
    """Raise a UserError that says what to do, unless a loss is one number that depends on a parameter."""
    if not isinstance(value, Tensor):
        kind = type(value).__name__
        raise UserError(f"the loss is of type {kind}; it must be a tensor of one number, from which gradients come")
    if value.numel() != 1:
        raise UserError(f"the loss has shape {tuple(value.shape)}; it must be a scalar (take its mean)")
    if value.is_complex():
        raise UserError("the loss is complex; it must be a real number (take its abs())")
    if not value.requires_grad:
        raise UserError(
            "the loss depends on no parameter that needs a gradient; look for detach(), no_grad() or whole numbers"
        )


def refuse_unfit_output(value: object) -> None:
    """Raise a UserError unless an output is one dense tensor of single-precision numbers."""
    if not isinstance(value, Tensor):
        raise UserError(f"the model returns a {type(value).__name__}; an inference yields one tensor")
    if value.dtype is not torch.float32:
        raise UserError(f"the model returns numbers of type {value.dtype}; an inference yields torch.float32")
