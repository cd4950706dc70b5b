# SPDX-License-Identifier: Apache-2.0
"""Built-in models by name; ``module:callable`` for any other."""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from poet_profiles.errors import UserError
from poet_profiles.program.users_code import users_code
from poet_profiles.program.users_module import module_of
from poet_runtime.nested import tensors_in
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from poet_planner.graph.streaming import MOST_SLICES
from poet_planner.models import frozen, mobilenet, resnet, tiny, transformer, unet, vgg
from poet_planner.models.digits import cnn_40k, digits_batches, digits_cnn
from poet_planner.models.trained import matching, of_name, train_only
from poet_planner.models.weights import load_weights

_SEED = 0
_MODEL = "a poet_planner.Model (docs/first_step.md makes one)"


@dataclass(frozen=True)
class Model:
    """What there is to train: ``loss(module(*inputs), *targets)``, a scalar.

    Attributes
    ----------
    name : str
        For messages and files.
    module : torch.nn.Module
    inputs, targets : tuple
        An example batch: tensors, fixed values (None, numbers, flags, texts), and tuples, lists, dicts and dataclasses
        of these.
    loss : callable
        Of the module's output and the targets.
    classes : tuple of str
        Names of the classes that the output has scores for, for a program that shows them. Empty: they have none.

    Raises
    ------
    UserError
        If a part is of another type, or two classes have one name.
    """

    name: str
    module: nn.Module
    inputs: tuple[Any, ...]
    targets: tuple[Any, ...]
    loss: Callable[..., Tensor]
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.module, nn.Module):
            raise UserError(f"{self.name}: module is {_kind(self.module)}; it must be a torch.nn.Module")
        for name, given in (("inputs", self.inputs), ("targets", self.targets)):
            if not isinstance(given, tuple | list):
                raise UserError(f"{self.name}: {name} is {_kind(given)}; it must be a tuple, (x,) for one tensor")
            tensors_in(given, f"{self.name}: {name}")
        if not callable(self.loss):
            raise UserError(
                f"{self.name}: loss is {_kind(self.loss)}; it must be a function of the output and the targets"
            )
        if not isinstance(self.classes, tuple | list):
            raise UserError(f"{self.name}: classes is {_kind(self.classes)}; it must be a tuple of names")
        for place, name in enumerate(self.classes):
            if not isinstance(name, str) or not name.isprintable() or not name:
                raise UserError(f"{self.name}: class {place} is {name!r}; it must be a printable name")
            if name in self.classes[:place]:
                raise UserError(f"{self.name}: two classes have the name {name!r}")


Batch = tuple[tuple[Any, ...], tuple[Any, ...]]
Example = Callable[[int], Batch]
Batches = Callable[[int, int, int], Iterator[tuple[Tensor, Tensor]]]


@dataclass(frozen=True)
class _Entry:
    batch: int
    build: Callable[[], nn.Module]
    example: Example
    loss: Callable[..., Tensor] = cross_entropy
    batches: Batches | None = None


def _images(channels: int, height: int, width: int, classes: int) -> Example:
    return lambda batch: ((torch.randn(batch, channels, height, width),), (torch.randint(classes, (batch,)),))


def _pixels(side: int, classes: int) -> Example:
    return lambda batch: ((torch.randn(batch, 3, side, side),), (torch.randint(classes, (batch, side, side)),))


def _sequences(size: transformer.Size, classes: int) -> Example:
    ids = (size.positions,)
    return lambda batch: ((torch.randint(size.vocabulary, (batch, *ids)),), (torch.randint(classes, (batch,)),))


def _shifted(size: transformer.Size) -> Example:
    def example(batch: int) -> Batch:
        ids = torch.randint(size.vocabulary, (batch, size.positions + 1))
        return (ids[:, :-1].contiguous(),), (ids[:, 1:].contiguous(),)

    return example


def _repeated(features: int) -> Example:
    def example(batch: int) -> Batch:
        x = torch.randn(batch, features)
        return (x,), (x.clone(),)

    return example


_CIFAR = _images(3, 32, 32, 10)
_IMAGENET = _images(3, 224, 224, 1000)
_DIGITS = _images(1, 8, 8, 10)

_ENTRIES: dict[str, _Entry] = {
    "digits_cnn": _Entry(24, digits_cnn, _DIGITS, batches=digits_batches),
    "digits_cnn_small": _Entry(4, lambda: digits_cnn(4), _DIGITS, batches=digits_batches),
    "cnn_40k": _Entry(1, cnn_40k, _DIGITS, batches=digits_batches),
    "finetune_cnn": _Entry(8, frozen.finetune_cnn, _DIGITS, batches=digits_batches),
    "finetune_cnn_small": _Entry(2, frozen.finetune_cnn_small, _DIGITS, batches=digits_batches),
    "vgg16": _Entry(1, lambda: vgg.vgg16(224, 1000, dropout=True), _IMAGENET),
    "vgg16_cifar": _Entry(1, lambda: vgg.vgg16(32, 10), _CIFAR),
    "vgg16_cifar_w16": _Entry(1, lambda: vgg.vgg16(32, 10, 16, 1024), _CIFAR),
    "poet_resnet18": _Entry(1, resnet.poet_resnet18, _CIFAR),
    "resnet18": _Entry(1, resnet.resnet18, _IMAGENET),
    "resnet18_cifar": _Entry(1, resnet.resnet18_cifar, _CIFAR),
    "resnet50": _Entry(1, resnet.resnet50, _IMAGENET),
    "mobilenet_v2": _Entry(1, lambda: mobilenet.mobilenet_v2(1000), _IMAGENET),
    "unet": _Entry(1, lambda: unet.UNet(3, 2), _pixels(128, 2)),
    "bert_base": _Entry(1, lambda: transformer.Bert(transformer.BERT_BASE), _sequences(transformer.BERT_BASE, 2)),
    "bert_base_16": _Entry(
        1, lambda: transformer.Bert(transformer.BERT_BASE_16), _sequences(transformer.BERT_BASE_16, 2)
    ),
    "bert_2x128": _Entry(1, lambda: transformer.Bert(transformer.BERT_2X128), _sequences(transformer.BERT_2X128, 2)),
    "transformer": _Entry(1, lambda: transformer.Bert(transformer.TWO_LAYERS), _sequences(transformer.TWO_LAYERS, 2)),
    "gpt_small": _Entry(
        1,
        lambda: transformer.Gpt(transformer.GPT_SMALL),
        _shifted(transformer.GPT_SMALL),
        transformer.next_token_loss,
    ),
    "mlperf_resnet8": _Entry(1, resnet.resnet8, _CIFAR),
    "mlperf_ds_cnn": _Entry(1, tiny.ds_cnn, _images(1, *tiny.SPECTROGRAM, tiny.KEYWORDS)),
    "mlperf_mobilenet_v1": _Entry(1, lambda: mobilenet.mobilenet_v1(0.25, 2), _images(3, 96, 96, 2)),
    "mobilenet_v1_last_block": _Entry(1, lambda: frozen.mobilenet_v1_last_block(0.25, 2), _images(3, 96, 96, 2)),
    "mlperf_autoencoder": _Entry(8, tiny.autoencoder, _repeated(tiny.ANOMALY_FEATURES), mse_loss),
}
# Narrow variants: NAME_wN has N channels in its first stage, and the rest in proportion.
_WIDTHS: dict[str, Callable[[int], nn.Module]] = {
    "digits_cnn": digits_cnn,
    "resnet18": resnet.resnet18,
    "resnet18_cifar": resnet.resnet18_cifar,
    "vgg16_cifar": lambda width: vgg.vgg16(32, 10, width, 64 * width),
}


def names() -> list[str]:
    """Names of the built-in models."""
    return sorted(_ENTRIES)


def trained_bytes(name: str) -> list[int]:
    """Bytes of each of a built-in model's trained parameters, counted without making them."""
    return [parameter.nbytes for parameter in _parameters(name) if parameter.requires_grad]


def frozen_bytes(name: str) -> int:
    """Bytes of a built-in model's parameters that are not trained."""
    return sum(parameter.nbytes for parameter in _parameters(name) if not parameter.requires_grad)


def least_ram_bytes(name: str, batch: int | None = None) -> int:
    """What a step of a built-in model has in RAM at least, however it is cut, counted without computing anything.

    A convolution or a linear layer has a slice of what it reads and one of what it makes, other layers a slice of what
    they make. The network's input is read whole, and a layer norm makes a whole value.
    """
    entry, least = _entry(name), 0
    with torch.device("meta"), torch.no_grad():
        module = entry.build()
        inputs, _ = entry.example(batch or entry.batch)
        given = {id(tensor) for tensor in inputs}

        def sliced(tensor: Tensor) -> int:
            return 4 * tensor.numel() // (1 if id(tensor) in given else MOST_SLICES)

        def look(layer: nn.Module, read: tuple[Any, ...], made: Any) -> None:
            nonlocal least
            if not isinstance(made, Tensor) or any(True for _ in layer.children()):
                return
            is_dense = isinstance(layer, nn.Conv2d | nn.Linear)
            whole = 4 * made.numel() if isinstance(layer, nn.LayerNorm) else sliced(made)
            least = max(least, whole + sum(map(sliced, read)) * is_dense)

        for layer in module.modules():
            layer.register_forward_hook(look)
        module(*inputs)
    return least


def _parameters(name: str) -> list[nn.Parameter]:
    with torch.device("meta"):
        module = _entry(name).build()
    _train_what_is_named(module, name)
    return list(module.parameters())


def load(name: str, batch: int | None = None, seed: int = _SEED, weights: Path | None = None) -> Model:
    """A model with a batch of examples; the same name, batch and seed give the same numbers every time.

    Parameters
    ----------
    name : str
        Of a built-in model; of a narrow variant, as ``resnet18_cifar_w2`` (two channels in the first stage instead of
        64); or ``module:callable``: the callable takes the batch size (None for its own choice) and
        returns a :class:`Model`. With ``[4,*.bias]`` after it, only these parameters learn.
    batch : int, optional
        Examples in a batch; None for the model's own.
    weights : Path, optional
        Of the module, instead of those that it is made with (:func:`poet_planner.models.weights.load_weights`).

    Raises
    ------
    UserError
        If there is no such model, or the batch is not positive, or the weights are not the module's.
    """
    if batch is not None and batch < 1:
        raise UserError(f"batch {batch}: a batch has at least one example")
    model = _made(of_name(name)[0], batch, seed)
    _train_what_is_named(model.module, name)
    if weights is not None:
        load_weights(model.module, weights, name)
    return model


def _train_what_is_named(module: nn.Module, name: str) -> None:
    if patterns := of_name(name)[1]:
        train_only(module, matching(module, patterns, name))


def _made(name: str, batch: int | None, seed: int) -> Model:
    if ":" in name:
        return _imported(name, batch, seed)
    entry = _entry(name)
    with users_code(name if batch is None else f"{name} with batch {batch}"), _seeded(seed):
        module = entry.build()
        inputs, targets = entry.example(batch or entry.batch)
    return Model(name, module, inputs, targets, entry.loss)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """All generators that a factory may draw from; afterwards they go on as if nothing had been."""
    drawn, numpys = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(drawn)
        np.random.set_state(numpys)


def load_batches(name: str, steps: int, seed: int, batch: int | None = None) -> Iterator[Batch]:
    """Inputs and targets of a model, a batch a step; the seed decides which.

    Real data for the digit classifiers (which needs scikit-learn); random numbers of the right shapes for other
    built-in models; for a user's own the examples that it comes with when it is made anew, from another seed each time.
    """
    if ":" in name:
        yield from _own_batches(name, steps, seed, batch)
        return
    entry = _entry(name)
    make = entry.batches or partial(_random_batches, entry.example)
    for inputs, targets in make(batch or entry.batch, steps, seed):
        yield (inputs,), (targets,)


def _own_batches(name: str, steps: int, seed: int, batch: int | None) -> Iterator[Batch]:
    """One line is said if all have the numbers of the model's own example: then the seed decides nothing."""
    first, differ = tensors_in(load(name, batch).inputs), False
    for step in range(steps):
        model = load(name, batch, seed=_SEED + 1 + seed * steps + step)
        differ = differ or not all(map(torch.equal, first, tensors_in(model.inputs)))
        yield model.inputs, model.targets
    if not differ:
        print(
            f"poet-plan: {name} gives the same inputs each time, whatever the seed: all batches are equal; "
            "seed nothing in it, or give samples of your own in a file",
            file=sys.stderr,
        )


def _random_batches(example: Example, batch: int, steps: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        batches = [example(batch) for _ in range(steps)]
    for (inputs,), (targets,) in batches:
        yield inputs, targets


def _entry(name: str) -> _Entry:
    name, _ = of_name(name)
    base, _, width = name.rpartition("_w")
    if base in _WIDTHS and width.isdecimal() and int(width):
        return replace(_ENTRIES[base], build=partial(_WIDTHS[base], int(width)))
    if name not in _ENTRIES:
        near = get_close_matches(name, _ENTRIES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names())}, or module:callable"
        raise UserError(f"no model {name!r}; {hint}")
    return _ENTRIES[name]


def _imported(name: str, batch: int | None, seed: int) -> Model:
    make = _factory(name)
    with users_code(name), _seeded(seed):
        model = make(batch)
    if not isinstance(model, Model):
        raise UserError(f"{name} returned {_kind(model)}; it must return {_MODEL}")
    return model


def _factory(name: str) -> Callable[[int | None], object]:
    module, attribute = module_of(name)
    if not hasattr(module, attribute):
        near = get_close_matches(attribute, vars(module), n=1)
        hint = f"did you mean {near[0]}?" if near else "give module:callable, importable from here"
        raise UserError(f"{name}: {module.__name__} has no {attribute}; {hint}")
    make = getattr(module, attribute)
    wanted = f"a function of the batch size (None: its own choice) that returns {_MODEL}"
    if isinstance(make, nn.Module | Model) or (isinstance(make, type) and issubclass(make, nn.Module)):
        what = f"the class {make.__name__}" if isinstance(make, type) else f"{_kind(make)} already"
        raise UserError(f"{name} is {what}; give module:callable, the callable {wanted}")
    if not callable(make):
        raise UserError(f"{name} is no callable, but {_kind(make)}; give module:callable, importable from here")
    if not _takes_a_batch_size(make):
        raise UserError(f"{name} cannot be called with a batch size; it must be {wanted}")
    return make  # type: ignore[no-any-return]


def _takes_a_batch_size(make: Callable[..., object]) -> bool:
    try:
        inspect.signature(make).bind(None)
    except TypeError:
        return False
    except ValueError:  # Nobody knows what it takes.
        return True
    return True


def _kind(thing: object) -> str:
    name = type(thing).__name__
    return "None" if thing is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
