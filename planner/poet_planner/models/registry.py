"""Built-in models by name; ``module:callable`` for any other."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

import torch
from poet_profiles.errors import UserError
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from poet_planner.models.digits import digits_batches, digits_cnn

_SEED = 0


@dataclass(frozen=True)
class Model:
    """What there is to train: ``loss(module(*inputs), *targets)``, a scalar.

    ``inputs`` and ``targets`` are an example batch.
    """

    name: str
    module: nn.Module
    inputs: tuple[Tensor, ...]
    targets: tuple[Tensor, ...]
    loss: Callable[..., Tensor]


Batches = Callable[[int, int, int], Iterator[tuple[Tensor, Tensor]]]


@dataclass(frozen=True)
class _Entry:
    batch: int
    build: Callable[[], nn.Module]
    example: Callable[[int], tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]
    loss: Callable[..., Tensor] = cross_entropy
    batches: Batches | None = None


def _images(
    channels: int, height: int, width: int, classes: int
) -> Callable[[int], tuple[tuple[Tensor], tuple[Tensor]]]:
    def example(batch: int) -> tuple[tuple[Tensor], tuple[Tensor]]:
        return (torch.randn(batch, channels, height, width),), (torch.randint(classes, (batch,)),)

    return example


_ENTRIES: dict[str, _Entry] = {
    "digits_cnn": _Entry(24, digits_cnn, _images(1, 8, 8, 10), batches=digits_batches),
    "digits_cnn_small": _Entry(4, lambda: digits_cnn(4), _images(1, 8, 8, 10), batches=digits_batches),
}


def names() -> list[str]:
    """Names of the built-in models."""
    return sorted(_ENTRIES)


def load(name: str, batch: int | None = None) -> Model:
    """A model with a batch of examples; the same name and batch give the same numbers every time.

    Parameters
    ----------
    name : str
        Of a built-in model, or ``module:callable``; the callable takes the batch size (None for its own choice) and
        returns a :class:`Model`.
    batch : int, optional
        Examples in a batch; None for the model's own.

    Raises
    ------
    UserError
        If there is no such model, or the batch is not positive.
    """
    if batch is not None and batch < 1:
        raise UserError(f"batch {batch}: a batch has at least one example")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        if ":" in name:
            return _imported(name, batch)
        entry = _entry(name)
        module = entry.build()
        inputs, targets = entry.example(batch or entry.batch)
        return Model(name, module, inputs, targets, entry.loss)


def load_batches(name: str, steps: int, seed: int, batch: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
    """Real training data of a built-in model, a batch a step; the seed decides their order.

    Raises
    ------
    UserError
        If the model comes without data.
    """
    entry = _entry(name)
    if entry.batches is None:
        raise UserError(f"{name} comes without data; those with data: {', '.join(_with_data())}")
    return entry.batches(batch or entry.batch, steps, seed)


def _with_data() -> list[str]:
    return [name for name in names() if _ENTRIES[name].batches]


def _entry(name: str) -> _Entry:
    if name not in _ENTRIES:
        near = get_close_matches(name, _ENTRIES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names())}, or module:callable"
        raise UserError(f"no model {name!r}; {hint}")
    return _ENTRIES[name]


def _imported(name: str, batch: int | None) -> Model:
    module_name, _, attribute = name.partition(":")
    try:
        build = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{name}: {error}; give module:callable, importable from here") from None
    model = build(batch)
    if not isinstance(model, Model):
        raise UserError(f"{name} returned {type(model).__name__}; it must return a poet_planner.models.Model")
    return model
