# SPDX-License-Identifier: Apache-2.0
"""Trained weights by their names in a model's ``state_dict``: read from a file, and held against a model.

A file is of safetensors, what ``torch.save`` wrote, or an .npz, whatever its name; shards stand in an index.
"""

from __future__ import annotations

import re
import sys
import warnings
from argparse import Namespace
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from poet_profiles.errors import UserError

from .arrays import read_arrays
from .first_bytes import JSON, NPZ, SAFETENSORS, TORCH, content_of
from .json_file import read_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAVE = "torch.save(model.state_dict(), …)"
# What is looked for in a folder, in this order.
IN_FOLDERS = (
    *("model.safetensors", "*.safetensors.index.json", "*.safetensors", "pytorch_model.bin", "*.bin.index.json"),
    *("*.ckpt", "*.pt", "*.pth", "*.npz"),
)
# What torch.compile puts into names, at the beginning or in the middle.
COMPILED = "_orig_mod."
# How deep in a checkpoint tensors are looked for; what it calls optimizer… is never the weights.
MOST_DEPTH = 3
OPTIMIZER = "optim"
# What NumPy has of the types that safetensors has, by its names; not bfloat16, nor floats of 8 bits and fewer.
NUMPYS = frozenset({"BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "F32", "F64"})
# Batch norm's count of batches: no result depends on it, and older files lack it.
COUNTER = "num_batches_tracked"
# By how much of it a mean in f32 of some hundred equal numbers may differ from them.
ROUNDING = 1e-5
SURPLUS = "is surplus, there is no such tensor"
QUANTISED = "is of a quantised network ({}); give the weights from before, --frozen int8 quantises frozen layers"
# Names that tell in what form others keep a network, and what is said of it.
FORMS = (
    ("_packed_params|fake_quant|activation_post_process|quant_state", QUANTISED),
    (r"\.(zero_point|qweight|qzeros|SCB|absmax)$", QUANTISED),
    (r"\.(momentum_buffer|exp_avg|exp_avg_sq|max_exp_avg_sq)$", "is an optimiser's state ({}); give the weights"),
    (r"\.lora_\w+\.", "is an adapter ({}); merge it into its network, and write " + SAVE),
    (
        r"(weight|bias)_(orig|mask|g|v)$|\bparametrizations\.",
        "has parametrisations ({}); remove them, and write " + SAVE,
    ),
)


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
        known = array is not None and array.size == 1 and array.dtype.kind in "iuf" and abs(array.item()) < inf
        return round(array.item()) if known and array is not None else None


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
    path = _in_folder(path) if path.is_dir() else path
    content = content_of(path)
    file = _shards(path) if content == JSON else _read(path, content, set(names))
    return _named_as_the_model(file, set(names))


def _in_folder(folder: Path) -> Path:
    found = next(filter(None, (sorted(folder.glob(pattern)) for pattern in IN_FOLDERS)), [])
    if len(found) != 1:
        several = " and ".join(file.name for file in found)
        raise UserError(f"{folder}: is a folder with {several or 'no file of weights'}; name the file")
    return found[0]


def _read(path: Path, content: str, names: set[str]) -> WeightsFile:
    if content == NPZ:
        return WeightsFile(path, read_arrays(path, "numpy.savez"), {})
    if content == SAFETENSORS:
        return _safetensors(path)
    if content == TORCH:
        return _torch_file(path, names)
    raise UserError(f"{path}: is {content}; weights are .safetensors, .npz, or what {SAVE} writes")


def _shards(path: Path) -> WeightsFile:
    """What an index names, ``model.safetensors.index.json``: each tensor from the file that it says."""
    document = read_json(path)
    places = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(places, dict) or any(Path(str(name)).name != name for name in places.values()):
        raise UserError(f"{path}: is JSON, and no index of files with weights; name the file with the weights")
    shards = {name: path.with_name(name) for name in sorted(set(places.values()))}
    if lacking := [name for name, shard in shards.items() if not shard.is_file()]:
        raise UserError(f"{path}: names {', '.join(lacking)}, which {'is' if len(lacking) == 1 else 'are'} not there")
    arrays: dict[str, NDArray[Any]] = {}
    others: dict[str, str] = {}
    for name, shard in shards.items():
        part = _read(shard, content_of(shard), set())
        arrays |= {key: array for key, array in part.arrays.items() if places.get(key, name) == name}
        others |= {key: kind for key, kind in part.others.items() if places.get(key, name) == name}
    return WeightsFile(path, arrays, others)


def fitting(file: WeightsFile, wanted: Mapping[str, Wanted], what: str) -> WeightsFile:
    """A file that holds the weights of a model, all of them and nothing else, each number finite, of the model's types.

    Counts of batches may be missing, and are not looked at. Numbers may be stored wider than the model has them, as
    what averages weights does: f64 where it has f32, which standard error tells where it loses digits, and whole
    numbers as floats.

    Parameters
    ----------
    wanted : mapping of str to Wanted
        By name. Of several names of one tensor a file need have one.
    what : str
        The model, for the message.

    Raises
    ------
    UserError
        With one line for each difference; in one or two, if it is of a known kind.
    """
    file = _of_the_models_types(file, wanted)
    lacking, other = dict(_lacking(file, wanted)), [*_of_another_kind(file, wanted)]
    surplus = [name for name in sorted({*file.arrays, *file.others} - wanted.keys()) if not is_counter(name)]
    if not (lacking or surplus or other):
        return file
    for pattern, words in FORMS:
        if name := next((name for name in surplus if re.search(pattern, name)), ""):
            raise UserError(f"{file.path}: {words.format(name)}")
    if not (lacking or surplus) and all(re.match("is (b?float16|BF16), not float32", words) for _, words in other):
        cure = f"where the model is made, take it with load_state_dict, which widens it, and {SAVE} it"
        raise UserError(f"{file.path}: {other[0][0]}: {other[0][1]}", lines=[cure])
    differing = lacking or dict.fromkeys(surplus, SURPLUS)
    head = "" if other else _small_part([*wanted], differing)
    if head and 2 * len(surplus) <= len(wanted):
        one = next(iter(differing))
        cure = f"where the model is made, take the rest with load_state_dict(…, strict=False), and {SAVE} it"
        raise UserError(f"{file.path}: fits {what} but for {head}: {one} {differing[one]}", lines=[cure])
    found = [*lacking.items(), *((name, SURPLUS) for name in surplus), *other]
    lines = [f"{name}: {words}" for name, words in found]
    count = "1 difference" if len(lines) == 1 else f"{len(lines)} differences"
    if surplus and 2 * len(lacking) > len(wanted):
        lines.append(f"if these are other names of the same: write {SAVE} of the model itself")
    raise UserError(f"{file.path}: holds other weights than {what}: {count}", lines=lines)


def is_rounding(found: NDArray[Any], wanted: NDArray[Any]) -> bool:
    """Whether numbers differ by no more than a mean of equal ones does from them."""
    import numpy as np

    return np.array_equal(found, wanted) or (
        wanted.dtype.kind == "f" and found.shape == wanted.shape and np.allclose(found, wanted, ROUNDING, 0.0)
    )


def _of_the_models_types(file: WeightsFile, wanted: Mapping[str, Wanted]) -> WeightsFile:
    import numpy as np

    arrays, rounded = dict(file.arrays), []
    for name, array in file.arrays.items():
        if name not in wanted or array.dtype.kind != "f" or is_counter(name):
            continue
        dtype = np.dtype(wanted[name].type)
        whole = dtype.kind in "iu" and is_rounding(array, np.rint(array)) and bool((np.abs(array) < 2**53).all())
        if not whole and (dtype.kind != "f" or array.dtype.itemsize <= dtype.itemsize):
            continue
        with np.errstate(over="ignore"):  # what is then infinite is refused
            arrays[name] = np.rint(array).astype(np.int64) if whole else array.astype(dtype)
        rounded += [name] if not whole and not np.array_equal(array, arrays[name], equal_nan=True) else []
    if rounded:
        more = f" and {len(rounded) - 1} more" if len(rounded) > 1 else ""
        print(f"{file.path}: {rounded[0]}{more}: rounded to the model's {wanted[rounded[0]].type}", file=sys.stderr)
    return replace(file, arrays=arrays)


def by_source(file: WeightsFile, wanted: Mapping[str, Wanted]) -> dict[str, NDArray[Any]]:
    """The arrays of a file that was found to fit, by what they are."""
    return {tensor.source: file.arrays[name] for name, tensor in wanted.items() if name in file.arrays}


def _small_part(wanted: list[str], differing: Collection[str]) -> str:
    """The module that has all names that differ, or these, if they are the model's last: less than half of it."""
    parts = [name.split(".")[:-1] for name in differing]
    inside = ".".join(one[0] for one in takewhile(lambda one: len({*one}) == 1, zip(*parts, strict=False)))
    names = [name for name in wanted if not is_counter(name)]
    if 2 * len(differing) > len(names):
        return ""
    return inside or (", ".join(differing) if names[-len(differing) :] == [*differing] else "")


def _lacking(file: WeightsFile, wanted: Mapping[str, Wanted]) -> Iterator[tuple[str, str]]:
    sources = {tensor.source for name, tensor in wanted.items() if name in file.arrays or name in file.others}
    for name, tensor in wanted.items():
        if tensor.source not in sources and not is_counter(name):
            yield name, f"is missing, {tensor.type} of shape {tensor.shape}"
        if name in file.arrays and file.arrays[name].shape != tensor.shape and not is_counter(name):
            yield name, f"has shape {file.arrays[name].shape}, not {tensor.shape}"


def _of_another_kind(file: WeightsFile, wanted: Mapping[str, Wanted]) -> Iterator[tuple[str, str]]:
    import numpy as np

    first: dict[str, str] = {}
    for name, tensor in wanted.items():
        if is_counter(name):
            continue
        if name in file.others:
            yield name, f"is {file.others[name]}, not {tensor.type}"
        if name not in file.arrays:
            continue
        array = file.arrays[name]
        if not _fits(array.dtype, np.dtype(tensor.type)):
            yield name, f"is {array.dtype}, not {tensor.type}"
        elif array.dtype.kind == "f" and not (finite := np.isfinite(array)).all():
            place = tuple(int(index) for index in np.argwhere(~finite)[0])
            others = int((~finite).sum()) - 1
            yield name, f"is not finite: {array[place]} at {place}" + (f" and {others} more" if others else "")
        other = first.setdefault(tensor.source, name)
        if not np.array_equal(array, file.arrays[other], equal_nan=array.dtype.kind == "f"):
            yield name, f"holds other numbers than {other}, and both are one tensor"


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
        raise UserError(f"{path}: is a damaged .safetensors ({error}); write or copy it again") from None
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
    import numpy as np

    try:
        import torch
    except ImportError:
        raise UserError(
            f"{path}: only PyTorch reads this, and it is not installed; write it as .safetensors where it is"
        ) from None
    core: Any = np._core  # type: ignore[attr-defined]
    # Beside weights checkpoints hold options, and numbers of NumPy's: no code, which PyTorch does not know.
    plain = [Namespace, core.multiarray.scalar, np.dtype, *{type(np.dtype(code)) for code in "?bhilqBHILQefd"}]
    try:
        # Of a path PyTorch looks at the name: what ends in .safetensors is no pickle for it.
        with path.open("rb") as file, warnings.catch_warnings(), torch.serialization.safe_globals(plain):
            warnings.simplefilter("ignore")  # of other pickles than its own, which it then refuses
            held = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged file makes zipfile and the unpickler raise
        # PyTorch's words advise to run whatever code is there.
        code = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"{code[1]} in it is code" if code else "it is damaged, or another program's"
        raise UserError(f"{path}: PyTorch reads no plain weights there ({reason}); write {SAVE}") from None
    named = _weights_in(path, held, names)
    arrays = {name: array for name, thing in named.items() if (array := _array(thing)) is not None}
    others = {name: _kind(thing) for name, thing in named.items() if name not in arrays}
    return WeightsFile(path, arrays, others)


def _weights_in(path: Path, held: Any, names: set[str]) -> dict[str, Any]:
    """Of what a checkpoint holds, the tensors with the model's names; the most of all where none has any."""
    sets = {place: _renamed(things, _new_names(things, names)) for place, things in _sets(held, ())}
    if isinstance(held, dict) and {"state", "param_groups"} <= held.keys():
        raise UserError(f"{path}: is an optimiser's state; give the weights")
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
    from torch import Tensor, equal

    def same(first: Any, second: Any) -> bool:
        tensors = isinstance(first, Tensor) and isinstance(second, Tensor)
        return first is second or (tensors and first.dtype == second.dtype and equal(first, second))

    return all(same(one[name], other.get(name)) for name in names & one.keys())


def _array(thing: Any) -> NDArray[Any] | None:
    """What NumPy has of such a tensor, if it has such."""
    import torch

    if isinstance(thing, torch.Tensor) and thing.layout == torch.strided and not (thing.is_quantized or thing.is_meta):
        with suppress(TypeError):
            array: NDArray[Any] = thing.detach().resolve_conj().resolve_neg().numpy()
            return array
    return None


def _kind(thing: Any) -> str:
    import torch

    if isinstance(thing, torch.Tensor) and (thing.layout != torch.strided or thing.is_meta):
        return "without numbers" if thing.is_meta else str(thing.layout).removeprefix("torch.")
    return str(getattr(thing, "dtype", type(thing).__name__)).removeprefix("torch.")
