# SPDX-License-Identifier: Apache-2.0
"""Trainings by PyTorch, an epoch at a time, with a metric after each.

None depends on a board. Trainings of one set and batch go together, by `torch.func.vmap` over their weights, with the
bits that each has in any company. What vmap refuses (batch norms in training mode, dropout) goes one by one. What is
frozen in front is computed once, on int8 as the board does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from poet_runtime.executor import Execution, store_all_steps, viewed
from poet_runtime.traced_graph import Kind
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from poet_planner.advice.goal import Metric
from poet_planner.graph.optimizer import Optimizer
from poet_planner.lowering.firmware import in_integers
from poet_planner.models.trained import train_only
from poet_planner.tracing.evaluating import evaluating

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poet_planner.advice.trained_sets import TrainedSet
    from poet_planner.models import Model
    from poet_planner.planning.training_graph import TrainingStep

SPLIT = 1 << 20  # beside a draw's number, where it holds back samples: no epoch has that number
HELD_BACK = 5  # one of so many samples of each class
_CHANGING = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd, nn.RNNBase)


@dataclass(frozen=True)
class Data:
    """Samples: tensors whose first axis counts them."""

    inputs: tuple[Tensor, ...]
    targets: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.targets[0])

    def rows(self, chosen: NDArray[np.int64]) -> Data:
        at = torch.from_numpy(chosen)
        return Data(tuple(one[at] for one in self.inputs), tuple(one[at] for one in self.targets))


@dataclass(frozen=True)
class Sets:
    """What is learned and validated with.

    Without samples to validate with each draw holds back others of the first; with ``groups``, a number a sample, whole
    groups.
    """

    train: Data
    validation: Data | None = None
    groups: NDArray[np.int64] | None = None

    def counts(self, draw: int) -> tuple[int, int]:
        """How many samples an epoch of a draw has, and how many validate it."""
        learned, held = self.split(draw)
        return len(learned), len(self.validation) if self.validation else len(held)

    def split(self, draw: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of the samples that a draw learns, and that it holds back: a fifth of each class."""
        everything = np.arange(len(self.train))
        if self.validation is not None:
            return everything, everything[:0]
        random, labels = np.random.default_rng([draw, SPLIT]), self.train.targets[0]
        is_class = labels.dim() == 1 and not labels.is_floating_point()
        classes = labels.numpy() if is_class else np.zeros(len(everything), np.int64)
        if self.groups is not None:
            held = np.flatnonzero(np.isin(self.groups, _held_back(self.groups, classes, random)))
        else:
            order = random.permutation(everything)
            of_class = (order[classes[order] == one] for one in np.unique(classes))
            held = np.concatenate([one[: round(len(one) / HELD_BACK)] for one in of_class])
        return np.setdiff1d(everything, held), np.sort(held)


def _held_back(groups: NDArray[np.int64], classes: NDArray[Any], random: np.random.Generator) -> list[int]:
    """Groups that come nearest to a fifth of each class, in a drawn order; of each class some are left to learn."""
    table = np.stack([np.bincount(groups[classes == one], minlength=groups.max() + 1) for one in np.unique(classes)], 1)
    left, lacking, held = table.sum(0), table.sum(0) / HELD_BACK, list[int]()
    for one in random.permutation(len(table)):
        rest = left - table[one]
        if rest.all() and (not held or abs(lacking - table[one]).sum() < abs(lacking).sum()):
            left, lacking, held = rest, lacking - table[one], [*held, int(one)]
    return held


class Key(NamedTuple):
    """Which training it is."""

    trained: TrainedSet
    batch: int
    optimizer: Optimizer
    rate: float
    draw: int


@dataclass
class _State:
    """Of a training: weights and two moments in rows, buffers of layers by name, and epochs."""

    rows: Tensor
    buffers: dict[str, Tensor]
    epochs: int = 0


class Curves:
    """Curves that were trained once, for any board and any race.

    Parameters
    ----------
    model : Model
        With the weights that each training begins with.
    sets : Sets
    metric : callable
    dtype : dtype
        Of weights and sums.
    traced : callable, optional
        The traced step of a set in a batch, for what is frozen on int8.

    Attributes
    ----------
    values : dict
        By training, the metric before the first epoch and after each.
    epochs : int
        How many have been trained here.
    """

    def __init__(
        self,
        model: Model,
        sets: Sets,
        metric: Metric,
        dtype: torch.dtype = torch.float32,
        traced: Callable[[TrainedSet, int], TrainingStep] | None = None,
    ) -> None:
        self.sets, self.metric, self._dtype = sets, metric, dtype
        self._model = replace(model, module=deepcopy(model.module).to(dtype))
        self.values: dict[Key, list[float]] = {}
        self.states: dict[Key, _State] = {}
        self.epochs = 0
        self._split, self._traced = cache(sets.split), traced
        self._trainer = cache(self._made)

    def begun(self, key: Key) -> list[float]:
        """The values of a training, at least that before its first epoch."""
        if key not in self.values:
            trainer = self._trainer(key.trained, key.batch if key.trained.int8 else 0)
            self.states[key] = trainer.start()
            self.values[key] = trainer.measured([key], [self.states[key]])
        return self.values[key]

    def put(self, key: Key, values: list[float], rows: Tensor, buffers: dict[str, Tensor]) -> None:
        """Go on with a training that was kept."""
        self.values[key], self.states[key] = values, _State(rows, buffers, len(values) - 1)

    def extend(self, keys: Sequence[Key]) -> None:
        """Train an epoch more of each of these, which have one set and batch."""
        for key in keys:
            self.begun(key)
        trainer = self._trainer(keys[0].trained, keys[0].batch if keys[0].trained.int8 else 0)

        def alike(key: Key) -> tuple[int, bool, float]:
            return len(self._split(key.draw)[0]), key.optimizer.is_adam, key.optimizer.momentum

        for _, some in groupby(sorted(keys, key=alike), lambda key: alike(key)[0]):
            together = [*some]
            states = [self.states[key] for key in together]
            trainer.epoch(together, states)
            for key, value in zip(together, trainer.measured(together, states), strict=True):
                self.values[key].append(value)
        self.epochs += len(keys)

    def _made(self, trained: TrainedSet, batch: int) -> _Trainer:
        step = None if self._traced is None or not batch else self._traced(trained, batch)
        return _Trainer(self._model, trained, self, self._dtype, step)


class _Trainer:
    """Trains one set of parameters."""

    def __init__(
        self, model: Model, trained: TrainedSet, curves: Curves, dtype: torch.dtype, step: TrainingStep | None
    ) -> None:
        module = deepcopy(model.module)
        train_only(module, trained.learns)
        self.curves, self.loss = curves, model.loss
        stages = _stages(module)
        front = next((at for at, stage in enumerate(stages) if _learns_or_changes(stage)), 0)
        first: nn.Module = nn.Sequential(*stages[:front])
        self.tail = nn.Sequential(*stages[front:]) if front else module
        if step is not None:
            first = _OnInt8(step, next(path for path, one in module.named_modules() if one is stages[front]))
        sets = curves.sets
        self.learned = _on(sets.train, first, front, dtype)
        self.beside = None if sets.validation is None else _on(sets.validation, first, front, dtype)
        self.weights = {path: one.detach() for path, one in self.tail.named_parameters() if one.requires_grad}
        self.buffers = dict(self.tail.named_buffers())
        self.sizes = [one.numel() for one in self.weights.values()]
        self.together = not any(isinstance(one, _CHANGING) and one.training for one in self.tail.modules())

    def start(self) -> _State:
        weights = torch.cat([one.flatten() for one in self.weights.values()])
        rows = torch.stack([weights, torch.zeros_like(weights), torch.zeros_like(weights)])
        return _State(rows, {path: one.clone() for path, one in self.buffers.items()})

    def epoch(self, keys: Sequence[Key], states: Sequence[_State]) -> None:
        """Train one more of each.

        A training alone goes twice, since kernels of one have other bits than those of many.
        """
        times = 2 if self.together and len(keys) == 1 else 1
        all_keys, all_states, batch = [*keys] * times, [*states] * times, keys[0].batch
        rows = torch.stack([one.rows for one in all_states], 1)
        orders = np.stack([self._order(key, one.epochs) for key, one in zip(all_keys, all_states, strict=True)])
        weights, update = self._named(rows[0]), _updates(all_keys, all_states, rows, orders.shape[1] // batch)
        for step, at in enumerate(range(0, orders.shape[1] - batch + 1, batch)):
            chosen = torch.from_numpy(orders[:, at : at + batch])
            inputs, targets = ([one[chosen] for one in part] for part in (self.learned.inputs, self.learned.targets))
            update(step, self._gradients(weights, inputs, targets, all_states, (keys[0].draw, step)))
        for number, state in enumerate(states):
            state.rows = rows[:, number].clone()
            state.epochs += 1

    def measured(self, keys: Sequence[Key], states: Sequence[_State]) -> list[float]:
        """The metric of each, in evaluation mode."""
        curves, made = self.curves, []
        with torch.no_grad(), evaluating(self.tail):
            for key, state in zip(keys, states, strict=True):
                asked = self.beside or self.learned.rows(curves._split(key.draw)[1])
                weights = {path: one[0] for path, one in self._named(state.rows[:1]).items()}
                outputs = functional_call(self.tail, {**weights, **state.buffers}, asked.inputs)
                made.append(float(curves.metric(outputs, *asked.targets)))
        return made

    def _order(self, key: Key, epoch: int) -> NDArray[np.int64]:
        """As a board has it with ``--shuffle`` and the draw's number."""
        learned = self.curves._split(key.draw)[0]
        return learned[np.random.default_rng([key.draw, epoch]).permutation(len(learned))]

    def _named(self, rows: Tensor) -> dict[str, Tensor]:
        parts = zip(torch.split(rows, self.sizes, 1), self.weights.items(), strict=True)
        return {path: part.view(-1, *one.shape) for part, (path, one) in parts}

    def _gradients(
        self, weights: dict[str, Tensor], inputs: list[Tensor], targets: list[Tensor], states: Sequence[_State], at: Any
    ) -> Tensor:
        def loss(weights: dict[str, Tensor], inputs: list[Tensor], targets: list[Tensor]) -> Tensor:
            return self.loss(functional_call(self.tail, weights, tuple(inputs)), *targets)

        if self.together:
            try:
                named = vmap(grad(loss))(weights, inputs, targets)
                return torch.cat([named[path].flatten(1) for path in self.weights], 1)
            except RuntimeError:  # an operator that it does not know
                self.together = False
        rows = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(hash(at) & 0xFFFFFFFF)
            for number, state in enumerate(states):
                own = {path: one[number].detach().requires_grad_() for path, one in weights.items()}
                given = [one[number] for one in inputs], [one[number] for one in targets]
                made = torch.autograd.grad(loss({**own, **state.buffers}, *given), [*own.values()])
                rows.append(torch.cat([one.flatten() for one in made]))
        return torch.stack(rows)


class _OnInt8(nn.Module):
    """What a stage reads where all before it is on int8, with a board's bits."""

    def __init__(self, step: TrainingStep, path: str) -> None:
        super().__init__()
        self._graph, self._state = in_integers(step.forward), step.model.module.state_dict()
        self._given = next(one.id for one in self._graph.residents if one.kind is Kind.INPUT)
        reader = next(one for one in self._graph.operators if f"{one.module}.".startswith(f"{path}."))
        own = {one.id for one in self._graph.residents}
        self._read = next(ref for ref in reader.refs if ref.source not in own)
        steps = [*store_all_steps(self._graph)]
        self._steps = steps[: next(at for at, one in enumerate(steps) if one.target == reader.id)]

    def forward(self, x: Tensor) -> Tensor:
        made = []
        for sample in x.float():
            execution = Execution(self._graph, {**self._state, self._given: sample[None]})
            for one in self._steps:
                execution.step(one)
            made.append(viewed(execution.values[self._read.source], self._read))
        return torch.cat(made).to(x.dtype)


def _updates(keys: Sequence[Key], states: Sequence[_State], rows: Tensor, steps: int) -> Any:
    """What changes weights and moments by the gradients of a step, as `torch.optim` does: ``rows`` of all trainings."""
    kinds = [key.optimizer for key in keys]
    bounds = [at for at in range(len(kinds) + 1) if at in (0, len(kinds)) or kinds[at] != kinds[at - 1]]
    rates = torch.tensor([[key.rate] for key in keys], dtype=rows.dtype)
    done = torch.tensor([[one.epochs * steps] for one in states])

    def update(step: int, gradients: Tensor) -> None:
        for begin, end in pairwise(bounds):
            of, (weights, first, second), rate = kinds[begin], rows[:, begin:end], rates[begin:end]
            own = gradients[begin:end]
            if of.clip_value is not None:
                own = own.clamp(-of.clip_value, of.clip_value)
            if not of.is_adam:
                first.mul_(of.momentum).add_(own)
                weights.sub_(rate * first)
                continue
            beta, other = of.betas
            counts = (done[begin:end] + step + 1).double()
            first.lerp_(own, 1 - beta)
            second.mul_(other).addcmul_(own, own, value=1 - other)
            scale = (second.sqrt() / (1 - other**counts).sqrt().to(rows.dtype)).add_(of.eps)
            weights.sub_((rate / (1 - beta**counts).to(rows.dtype)) * first / scale)

    return update


def _stages(module: nn.Module) -> list[nn.Module]:
    """The modules that run one after the other, as far as that is known."""
    if type(module) is not nn.Sequential:
        return [module]
    return [stage for child in module for stage in _stages(child)]


def _learns_or_changes(stage: nn.Module) -> bool:
    """Whether what it makes of a sample may be another in the next epoch."""
    learns = any(one.requires_grad for one in stage.parameters())
    return learns or any(isinstance(one, _CHANGING) and one.training for one in stage.modules())


def _on(data: Data, first: nn.Module, front: int, dtype: torch.dtype) -> Data:
    """Samples as the trained part reads them."""
    inputs, targets = (
        tuple(one.to(dtype) if one.is_floating_point() else one for one in part) for part in (data.inputs, data.targets)
    )
    with torch.no_grad():
        return Data((first(*inputs),) if front else inputs, targets)
