# SPDX-License-Identifier: Apache-2.0
"""A user's data set, of any size: arrays in a file or folder, or what a callable returns (docs/SPEC.md, section 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from poet_profiles.errors import UserError
from poet_profiles.files.arrays import read_arrays
from poet_profiles.graph.kept import BATCH_KINDS
from poet_profiles.program.users_code import users_code
from poet_profiles.program.users_module import module_of
from poet_profiles.quantised import TYPES, Normalising

from ..plan_folder.plan import Plan
from .batches import refuse_choices, refuse_numbers

Array = NDArray[Any]
Rows = Callable[[NDArray[np.int64]], dict[int, Array]]

AT_ONCE = 4096  # samples that are looked at together, so that a set larger than the RAM can be checked
LETTERS = {"input": "x", "target": "y"}
CURE = "give arrays x and y, x_train and y_train, or the ids of the plan's tensors"


@dataclass(frozen=True)
class Samples:
    """So many samples. ``rows`` takes their numbers, and gives the rows by the tensor's index in the plan.

    Floating-point rows are f32; labels are of the plan's type; integers that are to be normalised are as they were.
    Where the whole set lies in arrays, ``arrays`` has them as they were given, by the same index.
    """

    name: str
    count: int
    rows: Rows
    arrays: Mapping[int, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class SampleSets:
    """What there is to train on, and to validate with."""

    train: Samples
    validation: Samples | None


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


def batch_tensors(plan: Plan) -> tuple[list[BatchTensor], int]:
    """The tensors that each step is given, in the plan's order, and how many samples a batch has, in all its parts.

    Raises
    ------
    UserError
        If their first axes are not equally long: then no axis counts samples.
    """
    found = [(index, tensor) for index, tensor in enumerate(plan.tensors) if tensor.kind in BATCH_KINDS]
    extents = {tensor.shape[0] if tensor.shape else 0 for _, tensor in found}
    if len(extents) != 1 or not min(extents):
        named = ", ".join(f"{tensor.id} {list(tensor.shape)}" for _, tensor in found)
        raise UserError(
            f"--samples: the first axes of {named} are not of one length; prepare batches with poet-plan data"
        )
    return [
        BatchTensor(
            *(index, tensor.id, tensor.kind, tensor.shape[1:], plan.type_of(tensor)),
            *(plan.choices.get(tensor.id), plan.ignored.get(tensor.id)),
        )
        for index, tensor in found
    ], min(extents) * plan.micro_batches


def read_samples(source: str, plan: Plan, normalising: Normalising | None, least: int | None = None) -> SampleSets:
    """Read a data set, and hold what can be held against the plan: names, types, shapes, and all numbers of arrays.

    Parameters
    ----------
    source : str
        An .npz, a folder with .npy (which stay there, mapped into memory), or ``module:callable``, which returns a
        ``torch.utils.data.Dataset``, a pair of arrays, or a dict with ``train`` and ``validation`` of these.
    normalising : Normalising or None
        With it, u8, i8 and i16 may stand where the plan has f32.
    least : int, optional
        How many samples there must be; a batch if not given.

    Raises
    ------
    UserError
        With the array's name, what it is, and what the plan reads.
    """
    tensors, batch = batch_tensors(plan)
    reading = _Reading(source, tensors, normalising)
    path = Path(source)
    if path.is_dir():
        mapped = {file.stem: _mapped(file) for file in sorted(path.glob("*.npy"))}
        sets = reading.of_named_arrays(mapped)
    elif path.suffix == ".npz" or path.is_file():
        sets = reading.of_named_arrays(read_arrays(path, "numpy.savez"))
    elif ":" in source:
        made = _made(source)
        with users_code(source):
            sets = reading.of_object(made)
    else:
        raise UserError(
            f"{source}: no such file or folder; give an .npz, a folder with x.npy and y.npy, or module:callable"
        )
    if least is None and sets.train.count < batch:
        raise UserError(
            f"{source}: has {sets.train.count} samples, a batch takes {batch}; give more, or plan a smaller one"
        )
    if sets.train.count < (least or 0):
        raise UserError(f"{source}: holds no sample")
    return sets


def _mapped(path: Path) -> Array:
    try:
        array: Array = np.load(path, mmap_mode="r")
    except (OSError, ValueError):  # whose words advise to run whatever code is there
        raise UserError(f"{path}: not a .npy of numbers; write it with numpy.save") from None
    return array


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
        return SampleSets(train, self._named(arrays, "_val", required=False))

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
            validation = made.get("validation")
            return SampleSets(
                self._of_one(made["train"], "_train"), None if validation is None else self._of_one(validation, "_val")
            )
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
    array: Array = np.asarray(part if detach is None else detach().cpu().numpy())
    return array
