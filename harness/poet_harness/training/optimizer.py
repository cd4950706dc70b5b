# SPDX-License-Identifier: Apache-2.0
"""Which optimiser a graph ends with, in the words of ``torch.optim``, and where its state lies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from poet_profiles.graph import Operation
from poet_profiles.operators import parse_params

UNITS_IN_ONE = 1e9  # `momentum_nano` and its like
MOMENTUM = "sgd_momentum"


@dataclass(frozen=True)
class Optimizer:
    """An optimiser.

    Attributes
    ----------
    name : str
        Of the class in ``torch.optim``.
    options : mapping of str to float
        What that class is given besides the learning rate, by keyword; defaults are left out.
    state : mapping of str to mapping
        For each parameter, by its id, the id of each tensor of its state by ``torch.optim``'s name
        (``momentum_buffer``). All are whole tensors.
    """

    name: str = "SGD"
    options: Mapping[str, float] = field(default_factory=dict)
    state: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def tensors(self) -> dict[str, str]:
        """Ids of all tensors of its state, by the names they have in a file: ``PARAMETER.momentum_buffer``."""
        return {f"{parameter}.{slot}": id for parameter, slots in self.state.items() for slot, id in slots.items()}

    def words(self, learning_rate: float | None = None) -> str:
        """As in Python: ``SGD(lr=0.1, momentum=0.9)``."""
        rate = {} if learning_rate is None else {"lr": learning_rate}
        return f"{self.name}({', '.join(f'{name}={value:g}' for name, value in {**rate, **self.options}.items())})"


def optimizer_of(operations: Iterable[Operation], names: Mapping[str, str]) -> Optimizer:
    """What the updates among a graph's operations make up; without state for any other than descent with momentum.

    Parameters
    ----------
    names : mapping of str to str
        The id in the network of each tensor of the graph, which may be a part of that.
    """
    descents = [operation for operation in operations if operation.op == MOMENTUM]
    if not descents:
        return Optimizer()
    pairs = [(descent.operands[1], descent.operands[2]) for descent in descents]
    state = {names.get(parameter, parameter): {"momentum_buffer": names.get(id, id)} for parameter, id in pairs}
    return Optimizer("SGD", {"momentum": parse_params(descents[0].params)["momentum_nano"] / UNITS_IN_ONE}, state)
