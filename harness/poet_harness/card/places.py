# SPDX-License-Identifier: Apache-2.0
"""Where a card lies: a block device, or an image file. What may be overwritten, and what not."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from poet_profiles.card.layout import BLOCK_BYTES, LABEL
from poet_profiles.errors import NO_DEVICE, UserError

CHUNK_BYTES = 1024 * 1024
BEGINNING_BYTES = 4 * CHUNK_BYTES
PIECE_BYTES = 4096
MOUNTS = Path("/proc/self/mounts")
SWAPS = Path("/proc/swaps")
SYSTEM = Path("/sys/class/block")


@dataclass(frozen=True)
class CardPlace:
    """A card's place.

    Attributes
    ----------
    path : Path
    is_device : bool
        Whether it is a block device; else it is an image file, which need not be there yet.
    bytes : int
        Its size; 0 for an image that is not there.
    """

    path: Path
    is_device: bool
    bytes: int

    @property
    def exists(self) -> bool:
        return self.bytes > 0

    @property
    def words(self) -> str:
        """What it is, for one who is asked whether it may be overwritten."""
        if not self.is_device:
            return f"{self.path}, an image of {_size(self.bytes)}, {_content(self)}"
        name = self.path.resolve().name
        model = _line(SYSTEM / name / "device" / "model") or _line(SYSTEM / name / "device" / "name")
        removable = "removable" if _line(SYSTEM / name / "removable") == "1" else "not removable"
        described = ", ".join(word for word in (model, _size(self.bytes), removable, _content(self)) if word)
        return f"{self.path}, a block device ({described})"


def card_place(path: Path) -> CardPlace:
    """Look at a path.

    Raises
    ------
    UserError
        If it is neither a block device nor a file, nor the name of a file that could be made; if it is a partition.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.is_absolute() and path.parts[1:2] == ("dev",):
            raise UserError(f"{path}: there is no such device; is the card in the reader?", NO_DEVICE) from None
        return CardPlace(path, False, 0)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    if stat.S_ISREG(mode):
        return CardPlace(path, False, path.stat().st_size)
    if not stat.S_ISBLK(mode):
        raise UserError(f"{path}: is neither a block device nor an image file; name the card's device or a file")
    name = path.resolve().name
    if (SYSTEM / name / "partition").exists():
        raise UserError(f"{path}: is a partition; a board uses the whole card: name the device that it is part of")
    return CardPlace(path, True, _device_bytes(path))


def refuse_in_use(place: CardPlace) -> None:
    """Make sure that the system does not use a device, or a partition of it."""
    if not place.is_device:
        return
    if not MOUNTS.exists():
        raise UserError(f"{place.path}: only Linux says whether a device is in use; write an image, and copy that")
    device = place.path.resolve()
    for line in _lines(MOUNTS):
        source, _, rest = line.partition(" ")
        if _is_part(Path(_unescaped(source)), device):
            where = _unescaped(rest.partition(" ")[0])
            raise UserError(f"{place.path}: is mounted ({_unescaped(source)} on {where}); unmount it first")
    for line in _lines(SWAPS)[1:]:
        if _is_part(Path(_unescaped(line.split()[0])), device):
            raise UserError(f"{place.path}: is used for swapping; name another device")
    for holders in (SYSTEM / device.name).glob("**/holders"):
        for holder in holders.iterdir():
            raise UserError(f"{place.path}: is part of {holder.name}; name another device")


def refuse_own_input(card: Path, inputs: Mapping[str, Path | None], plan: Path) -> None:
    """Make sure that a card does not take the place of what it is made from.

    Parameters
    ----------
    inputs : mapping of str to Path or None
        Files by the option that names them.
    """
    for option, file in inputs.items():
        if file is not None and file.exists() and card.exists() and card.samefile(file):
            raise UserError(f"{card}: is the file of {option}, which would be lost; name another place for the card")
    if plan.resolve() in card.resolve().parents:
        raise UserError(f"{card}: lies in the plan's folder; name a place for the card outside of it")


def open_exclusively(place: CardPlace) -> int:
    """A file descriptor for writing a device; the kernel gives none while it uses the device itself."""
    try:
        return os.open(place.path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise UserError(f"{place.path}: the system uses it; unmount it first") from None
        cure = "; write an image, or run with the rights for it" if error.errno in (errno.EACCES, errno.EPERM) else ""
        raise UserError(f"{place.path}: cannot be written ({error.strerror}){cure}") from None


def _is_part(source: Path, device: Path) -> bool:
    """Whether one device is the other or a partition of it (sdb1, mmcblk0p1)."""
    if not source.is_absolute():
        return False
    source = source.resolve()
    separator = "p" if device.name[-1].isdigit() else ""
    return source.parent == device.parent and bool(
        re.fullmatch(rf"{re.escape(device.name)}({separator}\d+)?", source.name)
    )


def _unescaped(field: str) -> str:
    """A field of /proc/mounts, which writes a space as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _line(path: Path) -> str:
    return " ".join(_lines(path)).strip()


def _device_bytes(path: Path) -> int:
    try:
        with path.open("rb") as device:
            return device.seek(0, os.SEEK_END)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})", NO_DEVICE) from None


def _content(place: CardPlace) -> str:
    """In a word, what a card holds so far."""
    try:
        with place.path.open("rb") as card:
            first = card.read(BLOCK_BYTES)
            if first.startswith(LABEL):
                return "with poet's label"
            if first[510:512] == b"\x55\xaa":
                return "with a partition table or a file system"
            if not all(_is_blank(card, begin, count, first[:1]) for begin, count in _looked_at(place)):
                return "with data"
    except OSError:
        return "which cannot be read"
    return "empty where poet looked" if place.is_device else "empty"


def _is_blank(card: BinaryIO, begin: int, count: int, filler: bytes) -> bool:
    """Whether there are only zeros, or only ones, which is how flash is when it is erased."""
    card.seek(begin)
    return filler in (b"\0", b"\xff") and not card.read(count).strip(filler)


def _looked_at(place: CardPlace) -> Iterator[tuple[int, int]]:
    """Where, and how many bytes: a whole file. Of a device, which takes long to read: its beginning and its end, where
    partition tables, file systems and arrays have their marks, and a thousand pieces between them."""
    beginning = min(place.bytes, BEGINNING_BYTES) if place.is_device else place.bytes
    yield from ((begin, CHUNK_BYTES) for begin in range(0, beginning, CHUNK_BYTES))
    if place.is_device:
        yield max(0, place.bytes - CHUNK_BYTES), CHUNK_BYTES
        step = max(place.bytes // 1000, PIECE_BYTES)
        yield from ((begin, PIECE_BYTES) for begin in range(beginning, place.bytes, step))


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
