# SPDX-License-Identifier: Apache-2.0
"""Which parameters of a model learn, said in its name.

Of ``my:make[4,*.bias]`` those of layer 4 learn, and all biases.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

from poet_profiles.errors import UserError
from torch import nn

_NAME = re.compile(r"(?P<model>.+?)\[(?P<trained>[^\[\]]+)\]")


def of_name(name: str) -> tuple[str, tuple[str, ...]]:
    """A model's name, and the patterns after it; none: what learns is as the model has it."""
    match = _NAME.fullmatch(name)
    if match is None:
        return name, ()
    return match["model"], tuple(pattern.strip() for pattern in match["trained"].split(","))


def matching(module: nn.Module, patterns: Sequence[str], name: str) -> frozenset[str]:
    """Parameters that a pattern names: by a layer that they lie in, or with ``*`` and ``?``.

    What the module itself has frozen stays so.

    Raises
    ------
    UserError
        If a pattern names none.
    """
    found: set[str] = set()
    names = [path for path, parameter in module.named_parameters() if parameter.requires_grad]
    for pattern in patterns:
        named = {path for path in names if fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern}.*")}
        if not named:
            raise UserError(f"{name}: nothing that may be trained is of {pattern}; there are {', '.join(names)}")
        found |= named
    return frozenset(found)


def train_only(module: nn.Module, learns: Collection[str]) -> None:
    """Freeze all other parameters.

    A norm of which nothing learns keeps its running statistics, too.
    """
    for path, parameter in module.named_parameters():
        parameter.requires_grad_(path in learns)
    for layer in module.modules():
        own = [*layer.parameters(recurse=False)]
        if getattr(layer, "running_mean", None) is not None and own and not any(one.requires_grad for one in own):
            layer.eval()
