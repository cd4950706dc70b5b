# SPDX-License-Identifier: Apache-2.0
"""Trained weights as files that PyTorch loads: the model's ``state_dict``, and the optimiser's state beside it."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from poet_profiles.errors import UserError
from poet_profiles.files.arrays import safetensors

from ..data.weights import StateTable
from ..plan_folder.plan import Plan

if TYPE_CHECKING:
    from ..card.reading import Weights

Array = NDArray[Any]

SUFFIX = ".safetensors"
STEP = "step"


def check_suffix(out: Path) -> None:
    """Refuse a file that no reader would take for safetensors."""
    if out.suffix != SUFFIX:
        raise UserError(f"{out}: trained weights are written as {SUFFIX}; name the file so")


def optimizer_path(out: Path) -> Path:
    """Where the optimiser's state goes: ``net.optimizer.safetensors`` beside ``net.safetensors``."""
    return out.with_name(f"{out.stem}.optimizer{out.suffix}")


def trained_files(
    out: Path, plan: Plan, state: StateTable, weights: Weights, learning_rate: float | None = None
) -> dict[Path, bytes]:
    """The contents of ``out``, and, of an optimiser that has a state, of the file beside it.

    Parameters
    ----------
    learning_rate : float, optional
        Of the last step, if it is known: no board keeps it.
    """
    metadata = {
        "graph": plan.graph_hash,
        "step": str(weights.step),
        "optimizer": plan.optimizer.words(learning_rate),
    }
    files = {out: _safetensors(state.state_dict(weights.tensors, weights.step), metadata)}
    if plan.optimizer.state:
        own = {name: weights.tensors[id] for name, id in plan.optimizer.tensors.items()}
        files[optimizer_path(out)] = _safetensors(own, metadata)
    return files


def torch_optimizer_state(plan: Plan, state: StateTable, weights: Weights, learning_rate: float) -> bytes:
    """What ``torch.save`` writes of the optimiser's ``state_dict``, for ``torch.optim``'s ``load_state_dict``.

    Parameters are numbered as ``module.parameters()`` has them, the frozen ones too.

    Raises
    ------
    UserError
        If PyTorch is not installed, or the plan does not know the order of the parameters.
    """
    try:
        import torch
    except ImportError:
        raise UserError(
            f"a state of torch.optim needs PyTorch; the {SUFFIX} file beside the weights does not"
        ) from None
    if not state.parameters:
        raise UserError("the plan does not say how torch.optim numbers the parameters; plan again from the model")
    optimizer, tensors = plan.optimizer, weights.tensors
    blank = [torch.nn.Parameter(torch.empty(0)) for _ in state.parameters]
    made = getattr(torch.optim, optimizer.name)(blank, lr=learning_rate, **optimizer.options)
    held = {
        number: {slot: _slot(slot, tensors[id]) for slot, id in optimizer.state[name].items()}
        for number, name in enumerate(state.parameters)
        if name in optimizer.state
    }
    content = BytesIO()
    torch.save({**made.state_dict(), "state": held}, content)
    return content.getvalue()


def _slot(name: str, array: Array) -> Any:
    """PyTorch counts steps in a number of f32."""
    import torch

    return torch.tensor(float(array.item())) if name == STEP else torch.from_numpy(array.copy())


def _safetensors(tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    contents = {name: np.ascontiguousarray(tensor).reshape(tensor.shape) for name, tensor in tensors.items()}
    return safetensors(contents, metadata)
