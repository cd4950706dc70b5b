# SPDX-License-Identifier: Apache-2.0
"""The user's optimiser inside a step: it updates each parameter by itself, as soon as the schedule says so.

An update is the optimiser's own `step()`, shown that parameter alone. So bits, state, learning rates and schedulers are
those of an ordinary step, for every optimiser whose update of one parameter asks nothing of the others.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from poet_profiles.errors import UserError
from poet_runtime.devices import device_named
from poet_runtime.executor import accumulate
from torch import Tensor, nn, optim
from torch.optim import lr_scheduler
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

# Each takes a parameter's update from its gradient, its state and its group alone.
KNOWN = (
    optim.SGD,
    optim.Adam,
    optim.AdamW,
    optim.Adamax,
    optim.NAdam,
    optim.RAdam,
    optim.RMSprop,
    optim.Adagrad,
    optim.Adadelta,
    optim.ASGD,
    optim.Rprop,
)
# What makes other kernels of an update, whose bits may differ, or wants autograd.
OTHER_KERNELS = ("foreach", "fused", "capturable", "differentiable")
_LEAVE_OUT = "leave optimizer= out, and call its step() after poet's"
_AGAIN = "call poet_planner.compile again"
_ROUNDS = 3


@dataclass(frozen=True)
class UpdateCost:
    """What the update of a parameter takes: seconds, and bytes while it runs, the optimiser's state left out."""

    time_s: float
    workspace_bytes: int


class InnerOptimizer:
    """An optimiser that a step calls, parameter by parameter.

    Raises
    ------
    UserError
        If its updates cannot be taken one by one, or would not have the bits of its own step.
    """

    def __init__(self, optimizer: optim.Optimizer) -> None:
        kind = type(optimizer)
        if kind not in KNOWN:
            known = ", ".join(known.__name__ for known in KNOWN)
            raise UserError(
                f"optimizer: poet cannot take the step of {kind.__name__} parameter by parameter; it can of {known}; "
                f"{_LEAVE_OUT}"
            )
        self.name = kind.__name__
        self._optimizer = optimizer
        self._step = kind.step
        self._parameters: Mapping[str, Tensor] = {}
        self._groups: dict[int, dict[str, Any]] = {}
        self._updated = 0
        self._costs: dict[object, UpdateCost] = {}
        self._refuse()

    def refuse_strangers(self, modules: Sequence[nn.Module]) -> None:
        """Refuse an optimiser that holds what is no parameter of the modules: its own step would update that, too."""
        known = {id(parameter) for module in modules for parameter in module.parameters()}
        strangers = [p for group in self._optimizer.param_groups for p in group["params"] if id(p) not in known]
        if strangers:
            raise UserError(
                f"optimizer: it holds a parameter of shape {tuple(strangers[0].shape)} that is none of the module's; "
                f"{_LEAVE_OUT}"
            )

    def holds(self, parameter: Tensor) -> bool:
        """Whether it updates a parameter."""
        return any(parameter is own for group in self._optimizer.param_groups for own in group["params"])

    def cost(self, parameter: Tensor) -> UpdateCost:
        """Of the update of a parameter, tried on a copy of it with an optimiser of the same settings."""
        group = self._grouped()[id(parameter)]
        key = id(group), parameter.shape, parameter.stride(), parameter.dtype
        if key not in self._costs:
            self._costs[key] = self._measured(parameter, group)
        return self._costs[key]

    def _measured(self, parameter: Tensor, group: Mapping[str, Any]) -> UpdateCost:
        twin = nn.Parameter(parameter.detach().clone())
        kind: Callable[..., optim.Optimizer] = type(self._optimizer)
        optimizer = kind([twin], lr=1e-3)
        optimizer.param_groups[0].update((key, copy.copy(value)) for key, value in group.items() if key != "params")
        twin.grad = torch.zeros_like(twin)
        optimizer.step()  # The first makes the state, which stays.
        device = device_named(str(parameter.device))
        with device.allocations() as peak:
            optimizer.step()
        clock = device.clock()
        times_ns = []
        for _ in range(_ROUNDS):
            started = clock()
            optimizer.step()
            times_ns.append(clock() - started)
        return UpdateCost(median(times_ns) * 1e-9, peak.bytes)

    @contextmanager
    def step(self, parameters: Mapping[str, Tensor], left: Mapping[str, Tensor]) -> Iterator[None]:
        """Within, `update` may be called for each of these parameters, by id.

        ``left`` are the parameters whose gradients the step leaves.

        Raises
        ------
        UserError
            If the optimiser does not hold one, holds one of those left, or anything that it holds has a gradient
            already: nothing has been changed then. If something goes wrong within; the line says whether parameters
            have been updated before it.
        """
        self._refuse()
        self._groups = self._grouped()
        for name, parameter in parameters.items():
            if id(parameter) not in self._groups:
                raise UserError(f"optimizer: it does not hold {name} any more; {_AGAIN}")
        for name, parameter in left.items():
            if id(parameter) in self._groups:
                raise UserError(f"optimizer: it holds {name} now, and did not when compiled; {_AGAIN}")
        self._refuse_gradients({id(parameter): name for name, parameter in parameters.items()})
        self._parameters = parameters
        self._updated = 0
        groups = self._optimizer.param_groups
        try:
            yield
        except UserError as error:
            if not self._updated:
                raise
            raise UserError(
                f"{error}; {self._updated} of {len(parameters)} parameters have been updated already: go on from a "
                "checkpoint"
            ) from None
        finally:
            self._optimizer.param_groups = groups
            self._parameters = {}

    def update(self, name: str, gradient: Tensor) -> None:
        """Update a parameter in place; its gradient is forgotten."""
        parameter = self._parameters[name]
        accumulate(parameter, gradient)
        self._optimizer.param_groups = [{**self._groups[id(parameter)], "params": [parameter]}]
        self._optimizer.step()
        parameter.grad = None
        self._updated += 1

    def _grouped(self) -> dict[int, dict[str, Any]]:
        return {id(parameter): group for group in self._optimizer.param_groups for parameter in group["params"]}

    def _refuse_gradients(self, names: Mapping[int, str]) -> None:
        """Refuse gradients that are there: the optimiser's own step would use them, on whichever parameter."""
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    name = names.get(id(parameter), f"a parameter of shape {tuple(parameter.shape)} that it holds")
                    raise UserError(
                        f"optimizer: {name} has a gradient already, and a step with the optimizer inside adds to none; "
                        "call optimizer.zero_grad(set_to_none=True) before"
                    )

    def _refuse(self) -> None:
        """Refuse what makes the updates other than those of the optimiser's own step over all parameters."""
        if type(self._optimizer).step is not self._step or not self._has_own_step():
            raise UserError(
                f"optimizer: its step() has been replaced, and poet would call it for each parameter; {_LEAVE_OUT}"
            )
        for group in self._optimizer.param_groups:
            for setting in OTHER_KERNELS:
                if group.get(setting):
                    raise UserError(
                        f"optimizer: {self.name} has {setting}=True, and poet takes the plain update; leave "
                        f"{setting} out"
                    )
        own: tuple[Mapping[int, Callable[..., Any]], ...] = (
            self._optimizer._optimizer_step_pre_hooks,
            self._optimizer._optimizer_step_post_hooks,
            _global_optimizer_pre_hooks,
            _global_optimizer_post_hooks,
        )
        if any(own):
            raise UserError(f"optimizer: hooks around its step() would run for each parameter; {_LEAVE_OUT}")

    def _has_own_step(self) -> bool:
        """Whether its step is its class's, which a learning-rate scheduler wraps only to see whether it is called."""
        step = vars(self._optimizer).get("step")
        if step is None:
            return True
        code = getattr(step, "__code__", None)
        wrapped = getattr(step, "__wrapped__", None)
        return code is not None and code.co_filename == lr_scheduler.__file__ and wrapped is self._step
