# SPDX-License-Identifier: Apache-2.0
"""Trained weights by their names in a model's ``state_dict``: read from a file, and held against a model.

A file is .safetensors, what ``torch.save`` wrote (.pt, .pth, .ckpt, .pth.tar), or an .npz.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, TypeVar

from poet_profiles.errors import UserError

from .arrays import read_arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The last two of PyTorch's are Lightning's, and that of checkpoints which are called .pth.tar.
KINDS = (".safetensors", ".pt", ".pth", ".ckpt", ".tar", ".npz")
# What torch.compile puts into names, at the beginning or in the middle.
COMPILED = "_orig_mod."
# How deep in a checkpoint tensors are looked for; what it calls optimizer… is never the weights.
MOST_DEPTH = 3
OPTIMIZER = "optim"
# What NumPy has of the types that safetensors has, by its names; not bfloat16, nor floats of 8 bits and fewer.
NUMPYS = frozenset({"BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "F32", "F64"})
# Batch norm's count of batches: no result depends on it, and older files lack it.
COUNTER = "num_batches_tracked"


@dataclass(frozen=True)
class WeightsFile:
    """What a file holds.

    Attributes
    ----------
    path : Path
    arrays : mapping of str to array
        By name.
    others : mapping of str to str
        What NumPy knows no type for, by name: how PyTorch calls it.
    """

    path: Path
    arrays: Mapping[str, NDArray[Any]]
    others: Mapping[str, str]

    def counter(self, name: str) -> int | None:
        """What the file says of a count of batches; None where it says nothing that can be one."""
        array = self.arrays.get(name)
        return int(array.item()) if array is not None and array.size == 1 and array.dtype.kind in "iu" else None


@dataclass(frozen=True)
class Wanted:
    """A tensor of a model: its shape, NumPy's name of its type, and what it is, of names of one and the same tensor."""

    shape: tuple[int, ...]
    type: str
    source: str


def is_counter(name: str) -> bool:
    """Whether that is the name of a batch norm's count of batches."""
    return name.rpartition(".")[2] == COUNTER


def read_weights(path: Path, names: Collection[str] = ()) -> WeightsFile:
    """Read weights, without running any code that a file may bring.

    Parameters
    ----------
    names : collection of str
        Those of the model. They say which of a checkpoint's tensors are its weights. What wrappers put before all names
        of a file (``module.`` of DataParallel, ``model.`` of Lightning) is left out where the model has none of them.

    Raises
    ------
    UserError
        If the file cannot be read, is of another kind, holds several sets of weights with the model's names, or needs
        PyTorch where there is none.
    """
    if path.suffix not in KINDS:
        raise UserError(f"{path}: weights are {', '.join(KINDS[:-1])} or {KINDS[-1]}, by the end of the file's name")
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    if path.suffix == ".npz":
        arrays = read_arrays(path, "numpy.savez")
        return _named_as_the_model(WeightsFile(path, arrays, {}), set(names))
    if path.suffix == ".safetensors":
        return _named_as_the_model(_safetensors(path), set(names))
    return _torch_file(path, set(names))


def refuse_differences(file: WeightsFile, wanted: Mapping[str, Wanted], what: str) -> None:
    """Make sure that a file holds the weights of a model, all of them and nothing else, each number finite.

    Counts of batches may be missing, and are not looked at.

    Parameters
    ----------
    wanted : mapping of str to Wanted
        By name. Of several names of one tensor a file need have one.
    what : str
        The model, for the message.

    Raises
    ------
    UserError
        With one line for each difference.
    """
    lines = [*_missing_or_surplus(file, wanted), *_of_another_kind(file, wanted)]
    if lines:
        count = "1 difference" if len(lines) == 1 else f"{len(lines)} differences"
        raise UserError(f"{file.path}: holds other weights than {what}: {count}", lines=lines)


def by_source(file: WeightsFile, wanted: Mapping[str, Wanted]) -> dict[str, NDArray[Any]]:
    """The arrays of a file that was found to fit, by what they are."""
    return {tensor.source: file.arrays[name] for name, tensor in wanted.items() if name in file.arrays}


def _missing_or_surplus(file: WeightsFile, wanted: Mapping[str, Wanted]) -> Iterator[str]:
    held = {*file.arrays, *file.others}
    sources = {tensor.source for name, tensor in wanted.items() if name in held}
    for name, tensor in wanted.items():
        if tensor.source not in sources and not is_counter(name):
            yield f"{name}: is missing, {tensor.type} of shape {tensor.shape}"
    for name in sorted(held - wanted.keys()):
        if not is_counter(name):
            yield f"{name}: is surplus, there is no such tensor"


def _of_another_kind(file: WeightsFile, wanted: Mapping[str, Wanted]) -> Iterator[str]:
    import numpy as np

    first: dict[str, str] = {}
    for name, tensor in wanted.items():
        if is_counter(name):
            continue
        if name in file.others:
            yield f"{name}: is {file.others[name]}, not {tensor.type}"
        if name not in file.arrays:
            continue
        array = file.arrays[name]
        if array.shape != tensor.shape:
            yield f"{name}: has shape {array.shape}, not {tensor.shape}"
        if not _fits(array.dtype, np.dtype(tensor.type)):
            yield f"{name}: is {array.dtype}, not {tensor.type}"
        elif array.dtype.kind == "f" and not (finite := np.isfinite(array)).all():
            place = tuple(int(index) for index in np.argwhere(~finite)[0])
            others = int((~finite).sum()) - 1
            yield f"{name}: is not finite: {array[place]} at {place}" + (f" and {others} more" if others else "")
        other = first.setdefault(tensor.source, name)
        if not np.array_equal(array, file.arrays[other], equal_nan=array.dtype.kind == "f"):
            yield f"{name}: holds other numbers than {other}, and both are one tensor"


def _fits(found: Any, wanted: Any) -> bool:
    """Whole numbers of any size are whole numbers."""
    return bool(found == wanted or (found.kind in "iu" and wanted.kind in "iu"))


def _safetensors(path: Path) -> WeightsFile:
    from safetensors import SafetensorError, safe_open

    arrays, others = {}, {}
    try:
        with safe_open(path, "numpy") as file:
            for name in file.keys():  # noqa: SIM118
                held = str(file.get_slice(name).get_dtype())
                if held in NUMPYS:
                    arrays[name] = file.get_tensor(name)
                else:
                    others[name] = held
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: no safetensors file ({error})") from None
    return WeightsFile(path, arrays, others)


def _named_as_the_model(file: WeightsFile, names: set[str]) -> WeightsFile:
    new = _new_names([*file.arrays, *file.others], names)
    return replace(file, arrays=_renamed(file.arrays, new), others=_renamed(file.others, new))


def _new_names(held: Collection[str], names: set[str]) -> dict[str, str]:
    """By each name in a file, that without what wrappers put there, if any is then the model's."""
    new = {name: name if name in names else name.replace(COMPILED, "") for name in held}
    while not names.intersection(new.values()):
        heads = {short.partition(".")[0] for short in new.values()}
        if len(heads) != 1 or not all("." in short for short in new.values()):
            break
        new = {name: short.partition(".")[2] for name, short in new.items()}
    # Two names that became one would lose a tensor.
    if len(set(new.values())) < len(new) or not names.intersection(new.values()):
        return {name: name for name in held}
    return new


Held = TypeVar("Held")


def _renamed(held: Mapping[str, Held], new: Mapping[str, str]) -> dict[str, Held]:
    return {new[name]: thing for name, thing in held.items()}


def _torch_file(path: Path, names: set[str]) -> WeightsFile:
    try:
        import torch
    except ImportError:
        raise UserError(
            f"{path}: only PyTorch reads this, and it is not installed; write it as .safetensors where it is"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other pickles than its own, which it then refuses
            held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged file makes zipfile and the unpickler raise
        code = re.search(r"[Uu]nsupported (?:global: )?GLOBAL (\S+)", str(error))
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        if isinstance(error, UnpicklingError):  # its words advise to run whatever code is there
            reason = "torch.save wrote none of it"
        raise UserError(
            f"{path}: PyTorch reads no plain weights there ({f'{code[1]} in it is code' if code else reason}); write "
            "torch.save(model.state_dict(), …)"
        ) from None
    named = _weights_in(path, held, names)
    arrays = {
        name: tensor.detach().resolve_conj().resolve_neg().numpy()
        for name, tensor in named.items()
        if _is_plain(tensor)
    }
    others = {name: _kind(thing) for name, thing in named.items() if name not in arrays}
    return WeightsFile(path, arrays, others)


def _weights_in(path: Path, held: Any, names: set[str]) -> dict[str, Any]:
    """Of what a checkpoint holds, the tensors with the model's names; the most of all where none has any."""
    sets = {place: _renamed(things, _new_names(things, names)) for place, things in _sets(held, ())}
    if not sets:
        found = ", ".join(map(str, held)) if isinstance(held, dict) else type(held).__name__
        raise UserError(f"{path}: holds no state_dict, but {found}; write torch.save(model.state_dict(), …)")
    most = max(len(names & things.keys()) for things in sets.values())
    if not most:
        return max(sets.values(), key=len)
    fitting = {place: things for place, things in sets.items() if len(names & things.keys()) == most}
    first = next(iter(fitting.values()))
    if any(not _are_equal(first, others, names) for others in fitting.values()):
        places = ["".join(f"[{name!r}]" for name in place) for place in fitting]
        raise UserError(
            f"{path}: holds several weights of the model, with other numbers: {' and '.join(map(str, places))}; write "
            f"one of them into a file of its own: torch.save(torch.load(…){places[-1]}, …)"
        )
    return first


def _sets(held: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every mapping of names to tensors in a checkpoint, and where in it."""
    import torch

    if not isinstance(held, dict) or len(place) > MOST_DEPTH:
        return
    things = {name: thing for name, thing in held.items() if isinstance(name, str)}
    if any(isinstance(thing, torch.Tensor) for thing in things.values()):
        yield place, things
    for name, thing in things.items():
        if not name.startswith(OPTIMIZER):
            yield from _sets(thing, (*place, name))


def _are_equal(one: Mapping[str, Any], other: Mapping[str, Any], names: set[str]) -> bool:
    import torch

    for name in names & one.keys():
        first, second = one[name], other.get(name)
        if first is second:
            continue
        if not (isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor) and first.dtype == second.dtype):
            return False
        if not torch.equal(first, second):
            return False
    return True


def _is_plain(thing: Any) -> bool:
    """Whether NumPy has such a tensor."""
    import torch

    if not isinstance(thing, torch.Tensor) or thing.layout != torch.strided or thing.is_quantized or thing.is_meta:
        return False
    try:
        torch.empty(0, dtype=thing.dtype).numpy()
    except TypeError:
        return False
    return True


def _kind(thing: Any) -> str:
    import torch

    if isinstance(thing, torch.Tensor) and (thing.layout != torch.strided or thing.is_meta):
        return "without numbers" if thing.is_meta else str(thing.layout).removeprefix("torch.")
    return str(getattr(thing, "dtype", type(thing).__name__)).removeprefix("torch.")
