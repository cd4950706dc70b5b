# SPDX-License-Identifier: Apache-2.0
"""A module with weights from a file in it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from poet_profiles.files.weights_file import Wanted, WeightsFile, fitting, is_counter, read_weights
from torch import Tensor, nn


def load_weights(module: nn.Module, path: Path, name: str) -> None:
    """Put weights into a module: every tensor of its ``state_dict``, frozen ones too.

    Where the module, or what it wraps, is of transformers, its own conversion gives the file the module's names.
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
    if {*file.arrays} != {*wanted}:
        file = _converted(module, file) or file
    file = fitting(file, wanted, name)
    with torch.no_grad():
        for name, tensor in tensors.items():
            if is_counter(name):
                if (count := file.counter(name)) is not None:
                    tensor.fill_(count)
            elif name in file.arrays:
                tensor.copy_(torch.from_numpy(file.arrays[name]))


def _converted(module: nn.Module, file: WeightsFile) -> WeightsFile | None:
    """By the names that the library which saved a file has while it runs; None where it is of no such library."""
    place, part = next((pair for pair in module.named_modules() if hasattr(pair[1], "save_pretrained")), ("", None))
    if part is None or file.others:
        return None
    library: Any = type(part)
    state = {name: torch.from_numpy(array) for name, array in file.arrays.items()}
    with suppress(Exception):  # other libraries have other arguments, and other files
        given = {"config": part.config, "state_dict": state, "ignore_mismatched_sizes": True}
        loaded, told = library.from_pretrained(None, **given, output_loading_info=True)
        kept = {name: one.numpy() for name, one in loaded.state_dict().items() if name not in told["missing_keys"]}
        kept |= {name: np.zeros(shape, np.float32) for name, shape, _ in told["mismatched_keys"]}
        named = {f"{place}.{name}".removeprefix("."): array for name, array in kept.items()}
        return replace(file, arrays=named | {name: file.arrays[name] for name in told["unexpected_keys"]})
    return None
