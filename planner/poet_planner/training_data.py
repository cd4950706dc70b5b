"""Arrays for a training run: what a board starts from, and what PyTorch's autograd makes of the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from poet_profiles.arrays import npz, read_arrays
from poet_profiles.errors import UserError
from poet_profiles.whole_file import write_whole

from poet_planner import models
from poet_planner.lowering.draws import generator_of
from poet_planner.lowering.firmware import constant_data
from poet_planner.state_table import state_table
from poet_planner.training_graph import traced_model

Arrays = dict[str, NDArray[Any]]

INPUT, TARGET, LOSS = "input", "target", "loss"
MOST_SEEDS = 2**31


def training_data(model: str, steps: int, seed: int, batch: int | None) -> Arrays:
    """Parameters, buffers and constants by name, ``input`` and ``target`` with a leading axis of steps, and the table
    by which trained weights become a `state_dict` again.

    Numbers are as the firmware stores them: f32, integers as i32.

    Raises
    ------
    UserError
        If there is no such model.
    """
    batches = list(models.load_batches(model, steps, seed, batch))
    module, traced = models.load(model, batch).module, traced_model(model, batch)
    # Buffers that a state_dict leaves out are on the board all the same.
    state = {**module.state_dict(), **dict(module.named_buffers()), **constant_data(traced)}
    arrays = {name: _as_stored(tensor.detach().numpy()) for name, tensor in state.items()}
    arrays |= state_table(traced, module, steps)
    generator = generator_of(traced)
    if generator is not None:
        arrays[generator] = np.array([seed % MOST_SEEDS, 0], np.int32)
    for name, tensors in zip((INPUT, TARGET), zip(*batches, strict=True), strict=True):
        arrays[name] = np.stack([_as_stored(tensor.numpy()) for tensor in tensors])
    return arrays


def reference_run(
    model: str, data: Path, learning_rate: float, momentum: float = 0.0, follow: Path | None = None
) -> Arrays:
    """Loss and gradients of gradient descent by PyTorch, a step a batch.

    Training is chaotic: rounding differences of 1e-7 in one step are 1e-1 some thirty steps later. To hold each step
    of a board against PyTorch, the weights must be the board's at every step. Dropout draws the board's masks.

    Parameters
    ----------
    follow : Path, optional
        What a board's run saved: weights are updated with its gradients instead of PyTorch's own.

    Returns
    -------
    dict
        ``loss``, shape (steps,), and ``PARAMETER.grad``, shape (steps, …).

    Raises
    ------
    UserError
        If ``data`` is not what :func:`training_data` made for this model.
    """
    import torch

    from poet_planner.board_random import BoardRandom
    from poet_planner.tracing.checkpointing import without_checkpointing

    arrays = _read(data)
    batch = arrays[INPUT].shape[1]
    loaded = models.load(model, batch)
    module = loaded.module
    state = {
        name: torch.from_numpy(arrays[name]).to(tensor.dtype)
        for name, tensor in module.state_dict().items()
        if name in arrays
    }
    try:
        module.load_state_dict(state)
    except RuntimeError:
        raise UserError(f"{data}: holds other parameters than {model} has; write it again with this model") from None
    generator = generator_of(traced_model(model, batch))
    generator_seed, first_step = (int(word) for word in arrays.get(generator or "", (0, 0)))
    followed = read_arrays(follow, "poet-harness run --save") if follow else None
    velocities: dict[str, Any] = {}
    observed: dict[str, list[NDArray[Any]]] = {LOSS: []}
    for step, (inputs, target) in enumerate(zip(arrays[INPUT], arrays[TARGET], strict=True)):
        module.zero_grad()
        with without_checkpointing(), BoardRandom(generator_seed, first_step + step):
            loss = loaded.loss(module(_as_given(inputs)), _as_given(target))
            loss.backward()  # type: ignore[no-untyped-call]
        observed[LOSS].append(loss.detach().numpy())
        for name, parameter in module.named_parameters():
            if parameter.grad is None:
                continue
            gradient = f"{name}.grad"
            observed.setdefault(gradient, []).append(parameter.grad.numpy().copy())
            update = (
                parameter.grad if followed is None else torch.from_numpy(_step_of(followed, gradient, step, follow))
            )
            # Products, sums and differences are rounded one after the other, as the firmware does.
            velocity = momentum * velocities.get(name, 0.0) + update.reshape(parameter.shape)
            velocities[name] = velocity
            parameter.data -= learning_rate * velocity
    return {name: np.stack(steps) for name, steps in observed.items()}


def write_arrays(arrays: Arrays, path: Path) -> None:
    """Write arrays as .npz, whole or not at all."""
    write_whole(path, npz(arrays))


def _as_stored(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.int32) if array.dtype == np.int64 else array


def _as_given(array: NDArray[Any]) -> Any:
    """A tensor as PyTorch wants it: labels and tokens are 64-bit integers there."""
    import torch

    return torch.from_numpy(array.astype(np.int64) if array.dtype == np.int32 else array)


def _step_of(arrays: Arrays, name: str, step: int, path: Path | None) -> NDArray[Any]:
    if name not in arrays or step >= len(arrays[name]):
        raise UserError(f"{path}: has no {name} of step {step}; run all the steps of the data with `poet-harness run`")
    gradient: NDArray[Any] = arrays[name][step]
    return gradient


def _read(path: Path) -> Arrays:
    arrays = read_arrays(path, "poet-plan data")
    for name in (INPUT, TARGET):
        if name not in arrays:
            raise UserError(f"{path}: lacks {name}; write it with `poet-plan data`")
    return arrays
