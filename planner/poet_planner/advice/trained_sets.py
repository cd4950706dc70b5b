# SPDX-License-Identifier: Apache-2.0
"""Sets of parameters that may be trained, from the module tree."""

from __future__ import annotations

from dataclasses import dataclass, replace

from poet_profiles.errors import UserError
from torch import nn

from poet_planner.models.trained import matching

DEPTHS = 5  # of a network of many layers


@dataclass(frozen=True)
class TrainedSet:
    """Parameters that learn, the patterns that name them, and what people call them.

    With ``int8`` what is frozen before them is on int8.
    """

    name: str
    patterns: tuple[str, ...]
    learns: frozenset[str]
    int8: bool = False


def on_int8(sets: list[TrainedSet], module: nn.Module) -> list[TrainedSet]:
    """The same sets with what is frozen before them on int8, where the first layer is.

    Raises
    ------
    UserError
        If the layers do not simply follow each other, or none is frozen first.
    """
    first = next((path for path, _ in module.named_parameters()), "").rpartition(".")[0]
    behind = [one for one in sets if not any(path.rpartition(".")[0] == first for path in one.learns)]
    if type(module) is not nn.Sequential or not behind:
        raise UserError("--frozen int8: for an nn.Sequential of which the first layer is frozen; leave it out")
    return [replace(one, name=f"{one.name} on int8", int8=True) for one in behind]


def sets_of(module: nn.Module, more: tuple[str, ...] = (), name: str = "") -> list[TrainedSet]:
    """The sets that are tried; equal ones are one.

    They are the head; the last layers; biases, norms or the first layer beside the head; all. What the module itself
    has frozen stays so. Layers are in the order in which the module has them.

    Parameters
    ----------
    more : tuple of str
        Patterns of other sets, as after a model's name: ``4,*.bias``.
    name : str
        The model's, for messages.

    Raises
    ------
    UserError
        If a pattern names no parameter.
    """
    own = {path for path, parameter in module.named_parameters() if parameter.requires_grad}
    holding = {path.rpartition(".")[0] or path: None for path, _ in module.named_parameters() if path in own}
    layers = [*holding]
    if not layers:
        return []
    count, head = len(layers), layers[-1]
    kinds = {path: type(layer).__name__ for path, layer in module.named_modules()}
    norms = tuple(path for path in layers if "Norm" in kinds.get(path, ""))
    named: dict[str, tuple[str, ...]] = {"head": (head,)}
    depths = sorted({max(2, round(count * part / (DEPTHS + 1))) for part in range(1, DEPTHS + 1)})
    named |= {f"last {depth} of {count}": tuple(layers[-depth:]) for depth in depths if depth < count}
    named |= {"biases, head": ("*bias", head)} if any(path.endswith("bias") for path in own) else {}
    named |= {"norms, head": (*norms, head)} if norms else {}
    named |= {"first, head": (layers[0], head), "all": tuple(layers)}
    named |= {given: tuple(given.split(",")) for given in more}
    found: dict[frozenset[str], TrainedSet] = {}
    for words, patterns in named.items():
        learns = matching(module, patterns, name)
        if learns == own:
            patterns = ()
        found.setdefault(learns, TrainedSet("all" if learns == own else words, patterns, learns))
    return [*found.values()]
