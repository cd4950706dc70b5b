# SPDX-License-Identifier: Apache-2.0
"""A data set of a user, of any size (docs/SPEC.md, section 8).

It is arrays in a file or folder, or what a callable returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import UserError
from .files.arrays import native, read_arrays
from .program.users_code import users_code
from .program.users_module import module_of
from .quantised import TYPES, Normalising

Array = NDArray[Any]
Choices = tuple[int | None, int | None]
Rows = Callable[[NDArray[np.int64]], dict[int, Array]]

AT_ONCE = 4096  # samples that are looked at together, so that a set larger than the RAM can be checked
LETTERS = {"input": "x", "target": "y"}
CURE = "give arrays x and y, x_train and y_train, or the ids of the plan's tensors"


@dataclass(frozen=True)
class Samples:
    """So many samples.

    ``rows`` takes their numbers, and gives the rows by the tensor's index in the plan.
    Floating-point rows are f32; labels are of the plan's type; integers that are to be normalised are as they were.
    Where the whole set lies in arrays, ``arrays`` has them as they were given, by the same index.
    """

    name: str
    count: int
    rows: Rows
    arrays: Mapping[int, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class SampleSets:
    """What there is to train on, to validate with, and to test with once."""

    train: Samples
    validation: Samples | None
    test: Samples | None = None


@dataclass(frozen=True)
class BatchTensor:
    """A tensor of a batch: its index in the protocol, and what of it is one sample's.

    ``ignored`` is a number beside those to choose from that is left out wherever one is read.
    """

    index: int
    id: str
    kind: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    choices: int | None
    ignored: int | None = None


def read_sets(source: str, tensors: Sequence[BatchTensor], normalising: Normalising | None = None) -> SampleSets:
    """Read a data set, and hold it against the tensors.

    Names, types, shapes, and all numbers of arrays are looked at.

    Parameters
    ----------
    source : str
        An .npz, a folder with .npy (which stay there, mapped into memory), or ``module:callable``, which returns a
        ``torch.utils.data.Dataset``, a pair of arrays, or a dict with ``train`` and ``validation`` of these.
    normalising : Normalising or None
        With it, u8, i8 and i16 may stand where the tensors are f32.

    Raises
    ------
    UserError
        With the array's name, what it is, and what is read.
    """
    as_bytes = [tensor.id for tensor in tensors if tensor.dtype.name in TYPES]
    if normalising is not None and as_bytes:
        raise UserError(f"--scale: the plan reads the bytes of {as_bytes[0]} as they are; leave it out")
    reading = _Reading(source, tensors, normalising)
    path = Path(source)
    if path.is_dir():
        return reading.of_named_arrays({file.stem: mapped(file) for file in sorted(path.glob("*.npy"))})
    if path.suffix == ".npz" or path.is_file():
        return reading.of_named_arrays(read_arrays(path, "numpy.savez"))
    if ":" in source:
        made = _made(source)
        with users_code(source):
            return reading.of_object(made)
    raise UserError(
        f"{source}: no such file or folder; give an .npz, a folder with x.npy and y.npy, or module:callable"
    )


def mapped(path: Path) -> Array:
    """A .npy, which stays in its file."""
    try:
        return native(np.load(path, mmap_mode="r"))
    except (OSError, ValueError):  # whose words advise to run whatever code is there
        raise UserError(f"{path}: not a .npy of numbers; write it with numpy.save") from None


def _made(source: str) -> object:
    module, attribute = module_of(source)
    make = getattr(module, attribute, None)
    if not callable(make):
        raise UserError(f"{source}: {module.__name__} has no callable {attribute}; give module:callable")
    with users_code(source):
        return make()


@dataclass(frozen=True)
class _Reading:
    source: str
    tensors: Sequence[BatchTensor]
    normalising: Normalising | None

    def of_named_arrays(self, arrays: Mapping[str, Array]) -> SampleSets:
        """x and y, or x_train and x_val, or the same by the tensors' ids."""
        split = any(name.endswith("_train") for name in arrays)
        train = self._named(arrays, "_train" if split else "")
        assert train is not None
        return SampleSets(train, *(self._named(arrays, ending, required=False) for ending in ("_val", "_test")))

    def _named(self, arrays: Mapping[str, Array], ending: str, required: bool = True) -> Samples | None:
        chosen: dict[str, Array] = {}
        for tensor in self.tensors:
            names = [*dict.fromkeys((f"{tensor.id}{ending}", self._name(tensor, ending)))]
            found = next((name for name in names if name in arrays), None)
            if found is None and required:
                there = ", ".join(arrays) or "nothing"
                raise UserError(f"{self.source}: has no {' or '.join(names)}, it has {there}; {CURE}")
            if found is not None:
                chosen[found] = arrays[found]
        if not chosen:
            return None
        if len(chosen) < len(self.tensors):
            raise UserError(f"{self.source}: has only some of the arrays that end in {ending}; {CURE}")
        return self._of_arrays(chosen)

    def _name(self, tensor: BatchTensor, ending: str) -> str:
        """What a user calls it: x or y, or by its id where there are several of these."""
        alone = sum(other.kind == tensor.kind for other in self.tensors) == 1
        return f"{LETTERS[tensor.kind] if alone else tensor.id}{ending}"

    def of_object(self, made: object) -> SampleSets:
        if isinstance(made, Mapping):
            if "train" not in made:
                raise UserError(f"{self.source}: returned a dict without train; its keys are train and validation")
            validation, test = (
                None if made.get(name) is None else self._of_one(made[name], ending)
                for name, ending in (("validation", "_val"), ("test", "_test"))
            )
            return SampleSets(self._of_one(made["train"], "_train"), validation, test)
        return SampleSets(self._of_one(made, ""), None)

    def _of_one(self, made: object, ending: str) -> Samples:
        if isinstance(made, tuple | list):
            if len(made) != len(self.tensors):
                taken = ", ".join(self._name(tensor, "") for tensor in self.tensors)
                count = len(self.tensors)
                raise UserError(f"{self.source}: returned {len(made)} arrays, a step takes {count}: {taken}")
            names = (self._name(tensor, ending) for tensor in self.tensors)
            return self._of_arrays({name: _as_array(array) for name, array in zip(names, made, strict=True)})
        if not (hasattr(made, "__len__") and hasattr(made, "__getitem__")):
            raise UserError(
                f"{self.source}: returned {type(made).__name__}; return a Dataset with __len__ and __getitem__, a pair "
                "of arrays, or a dict with train and validation of these"
            )
        return self._of_dataset(made, ending)

    def _of_arrays(self, arrays: Mapping[str, Array]) -> Samples:
        """Of an array for each tensor, in their order, by the user's names."""
        counts = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
        if len(set(counts.values())) > 1:
            lengths = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise UserError(f"{self.source}: the arrays do not belong together: {lengths} long")
        count = next(iter(counts.values()))

        def rows(numbers: NDArray[np.int64]) -> dict[int, Array]:
            return {
                tensor.index: self._stored(tensor, array[numbers], name, numbers)
                for tensor, (name, array) in zip(self.tensors, arrays.items(), strict=True)
            }

        # All numbers are looked at before the first step: training may take days.
        for begin in range(0, max(count, 1), AT_ONCE):
            rows(np.arange(begin, min(begin + AT_ONCE, count)))
        indices = (tensor.index for tensor in self.tensors)
        return Samples(self.source, count, rows, dict(zip(indices, arrays.values(), strict=True)))

    def _of_dataset(self, dataset: Any, ending: str) -> Samples:
        def rows(numbers: NDArray[np.int64]) -> dict[int, Array]:
            with users_code(self.source):
                items = [dataset[int(number)] for number in numbers]
                if not all(isinstance(item, tuple | list) and len(item) == len(self.tensors) for item in items):
                    raise UserError(f"{self.source}: its samples are no tuples of {len(self.tensors)}: (x, y)")
                stacked = [np.stack([_as_array(part) for part in column]) for column in zip(*items, strict=True)]
            return {
                tensor.index: self._stored(tensor, array, self._name(tensor, ending), numbers)
                for tensor, array in zip(self.tensors, stacked, strict=True)
            }

        count = len(dataset)
        if count:
            rows(np.array([0, count - 1]))
        return Samples(self.source, count, rows)

    def _stored(self, tensor: BatchTensor, array: Array, name: str, numbers: NDArray[np.int64]) -> Array:
        """Rows as they are kept; ``numbers`` are theirs, for messages."""
        where = f"{self.source}: {name}"
        whole = tensor.dtype.kind in "iu"
        quantised = not whole and array.dtype.name in TYPES
        fits = np.issubdtype(array.dtype, np.integer) if whole else quantised or array.dtype == tensor.dtype
        if not fits or array.shape[1:] != tensor.shape:
            wanted = "whole numbers" if whole else f"{tensor.dtype.name} (or {', '.join(TYPES)} with --scale)"
            shape = ", ".join(map(str, ("samples", *tensor.shape)))
            raise UserError(
                f"{where}: is {array.dtype} of shape {array.shape}, the plan reads {wanted} of shape ({shape})"
            )
        if quantised:
            return self._quantised(tensor, array, where)
        if whole:
            refuse_choices(where, array, tensor.dtype, (tensor.choices, tensor.ignored), numbers)
        else:
            refuse_numbers(where, array, ~np.isfinite(array), "training needs finite numbers", numbers)
        return np.ascontiguousarray(array, dtype=tensor.dtype)

    def _quantised(self, tensor: BatchTensor, array: Array, where: str) -> Array:
        if self.normalising is None:
            raise UserError(f"{where}: is {array.dtype}, the plan reads {tensor.dtype.name}; say --scale and --shift")
        channels = len(self.normalising.scales)
        if channels > 1 and (not tensor.shape or tensor.shape[0] != channels):
            raise UserError(f"{where}: --scale or --shift have {channels} channels, a sample's shape is {tensor.shape}")
        return np.ascontiguousarray(array)


def _as_array(part: object) -> Array:
    """An array of what a Dataset or a callable gives: tensors, arrays, numbers."""
    detach = getattr(part, "detach", None)
    return native(np.asarray(part if detach is None else detach().cpu().numpy()))


def refuse_choices(
    where: str, array: Array, dtype: np.dtype[Any], choices: Choices, rows: NDArray[np.int64] | None = None
) -> None:
    """Make sure that all numbers are among those to choose from.

    ``rows`` are as in `refuse_numbers`.
    """
    bounds, (count, ignored) = np.iinfo(dtype), choices
    low, high = (bounds.min, bounds.max) if count is None else (0, count - 1)
    wrong = (array < low) | (array > high)
    if ignored is not None:
        wrong &= array != ignored
    more = "" if ignored is None else f", and {ignored}"
    refuse_numbers(where, array, wrong, f"the plan knows {low} to {high}{more}", rows)


def refuse_numbers(
    where: str, array: Array, wrong: NDArray[np.bool_], why: str, rows: NDArray[np.int64] | None = None
) -> None:
    """Make sure that no number is wrong.

    Parameters
    ----------
    rows : array of int, optional
        What the message calls the rows along the first axis; their places if not given.
    """
    if wrong.any():
        place = tuple(int(index) for index in np.argwhere(wrong)[0])
        named = place if rows is None else (int(rows[place[0]]), *place[1:])
        others = int(wrong.sum()) - 1
        more = f" and {others} more" if others else ""
        raise UserError(f"{where}: {array[place]} at {shape_text(named)}{more}; {why}")


def shape_text(extents: tuple[object, ...]) -> str:
    """As people write a shape."""
    return "(" + ", ".join(str(extent) for extent in extents) + ")"
