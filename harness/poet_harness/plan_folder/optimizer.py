# SPDX-License-Identifier: Apache-2.0
"""Which optimiser a graph ends with, in the words of ``torch.optim``, and where its state lies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from poet_profiles.firmware.operators import descends, parse_params
from poet_profiles.graph import Operation

UNITS_IN_ONE = 1e9  # `momentum_nano` and its like
ADAM, FACTORS = "adam", "adam_factors"
ADAM_SLOTS = ("exp_avg", "exp_avg_sq")
ADAM_DEFAULTS = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}

Option = float | bool | tuple[float, float]


@dataclass(frozen=True)
class TorchOptimizer:
    """An optimiser.

    Attributes
    ----------
    name : str
        Of the class in ``torch.optim``.
    options : mapping of str to number or pair of numbers
        What that class is given besides the learning rate, by keyword; defaults are left out.
    state : mapping of str to mapping
        For each parameter, by its id, the id of each tensor of its state by ``torch.optim``'s name
        (``momentum_buffer``; ``step``, ``exp_avg``, ``exp_avg_sq``). All are whole tensors; that of ``step``, a whole
        number, is one for all parameters.
    clip_value : float or None
        What each element of a gradient is kept within, as ``torch.nn.utils.clip_grad_value_`` does.
    """

    name: str = "SGD"
    options: Mapping[str, Option] = field(default_factory=dict)
    state: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    clip_value: float | None = None

    @property
    def tensors(self) -> dict[str, str]:
        """Ids of all tensors of its state, by the names they have in a file: ``PARAMETER.momentum_buffer``."""
        return {f"{parameter}.{slot}": id for parameter, slots in self.state.items() for slot, id in slots.items()}

    def words(self, learning_rate: float | None = None) -> str:
        """As in Python: ``SGD(lr=0.1, momentum=0.9)``."""
        rate: dict[str, Option] = {} if learning_rate is None else {"lr": learning_rate}
        options = ", ".join(f"{keyword}={_word(value)}" for keyword, value in {**rate, **self.options}.items())
        clipped = "" if self.clip_value is None else f", gradients within +-{self.clip_value:g}"
        return f"{self.name}({options}){clipped}"


def _word(value: Option) -> str:
    if isinstance(value, tuple):
        return f"({value[0]:g}, {value[1]:g})"
    return str(value) if isinstance(value, bool) else f"{value:g}"


def optimizer_of(operations: Iterable[Operation], names: Mapping[str, str]) -> TorchOptimizer:
    """What the updates among a graph's operations make up.

    Parameters
    ----------
    names : mapping of str to str
        The id in the network of each tensor of the graph, which may be a part of that.
    """
    listed = list(operations)
    updates = [operation for operation in listed if descends(operation.op)]
    params = parse_params(updates[0].params) if updates else {}
    is_adam = bool(updates) and (updates[0].op == ADAM or bool(params.get(ADAM)))
    slots = ADAM_SLOTS if is_adam else ("momentum_buffer",)
    state: dict[str, dict[str, str]] = {}
    for update in updates:
        changed = update.results or update.operands[1:]
        count = len(changed)
        tensors = count // (1 + len(slots)) if is_adam or parse_params(update.params).get("momentum_nano") else count
        rows = (changed[first : first + tensors] for first in range(0, count, tensors))
        for parameter, *states in zip(*rows, strict=True):
            if states:
                of_slots = zip(slots, states, strict=True)
                state[names.get(parameter, parameter)] = {slot: names.get(id, id) for slot, id in of_slots}
    if is_adam:
        factors = next(operation for operation in listed if operation.op == FACTORS)
        steps = {"step": factors.operands[0]}
        return _adam(factors, params, {parameter: {**steps, **own} for parameter, own in state.items()})
    options: dict[str, Option] = {
        "momentum": params.get("momentum_nano", 0) / UNITS_IN_ONE,
        "weight_decay": _float(params.get("decay_f32", 0)),
        "nesterov": bool(params.get("nesterov", 0)),
    }
    return TorchOptimizer("SGD", _given(options), state, _clip(params))


def _adam(factors: Operation, own: Mapping[str, int], state: Mapping[str, Mapping[str, str]]) -> TorchOptimizer:
    common = parse_params(factors.params)
    options: dict[str, Option] = {
        "betas": (common["beta1_nano"] / UNITS_IN_ONE, common["beta2_nano"] / UNITS_IN_ONE),
        "eps": _float(own["eps_f32"]),
        "weight_decay": _float(common["decay_f32"] or own["decay_f32"]),
    }
    name = "AdamW" if common["decay_f32"] else "Adam"
    given = {keyword: value for keyword, value in options.items() if value != ADAM_DEFAULTS[keyword]}
    return TorchOptimizer(name, given, state, _clip(own))


def _given(options: Mapping[str, Option]) -> dict[str, Option]:
    return {keyword: value for keyword, value in options.items() if value}


def _clip(params: Mapping[str, int]) -> float | None:
    return _float(params["clip_f32"]) if params.get("clip_f32") else None


def _float(bits: int) -> float:
    """Of a parameter that is the bits of a f32, with the fewest digits that give it: 0.01, and not 0.00999999978."""
    return float(str(np.int32(bits).view(np.float32)))
