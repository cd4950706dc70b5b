# SPDX-License-Identifier: Apache-2.0
"""A module with weights from a file in it."""

from __future__ import annotations

from pathlib import Path

import torch
from poet_profiles.files.weights_file import Wanted, is_counter, read_weights, refuse_differences
from torch import Tensor, nn


def load_weights(module: nn.Module, path: Path, name: str) -> None:
    """Put weights into a module: every tensor of its ``state_dict``, frozen ones too.

    A count of batches (``num_batches_tracked``) that the file lacks stays as it is.

    Raises
    ------
    UserError
        If the file cannot be read, or differs from the module in names, shapes or types, or holds a number that is not
        finite: with one line for each difference. The module is then as it was.
    """
    tensors = {name: tensor for name, tensor in module.state_dict(keep_vars=True).items() if isinstance(tensor, Tensor)}
    first: dict[int, str] = {}
    wanted = {
        name: Wanted(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), first.setdefault(id(tensor), name))
        for name, tensor in tensors.items()
    }
    file = read_weights(path, wanted)
    refuse_differences(file, wanted, name)
    with torch.no_grad():
        for name, tensor in tensors.items():
            if is_counter(name):
                if (count := file.counter(name)) is not None:
                    tensor.fill_(count)
            elif name in file.arrays:
                tensor.copy_(torch.from_numpy(file.arrays[name]))
