# SPDX-License-Identifier: Apache-2.0
"""Writing a card: to a device in place, to an image file whole or not at all; and reading back what was written."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from poet_profiles.card.layout import BLOCK_BYTES, CARD_UNIT_BYTES, LABEL, LABEL_BLOCK, RECORD_BLOCKS
from poet_profiles.errors import NO_DEVICE, UserError
from poet_profiles.files.whole_file import replacing
from poet_profiles.program.stopping import heed

from ..target.held_image import held_image
from .contents import CardContents, Piece
from .places import CardPlace, open_exclusively
from .reading import CardReader, padded_bytes

LEAST_IMAGE_BYTES = 64 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024
EMPTY = bytes(BLOCK_BYTES)
LABEL_CONTENT = LABEL.ljust(BLOCK_BYTES, b"\0")


@dataclass(frozen=True)
class Written:
    """What was done. ``past_cache`` says whether the check read the medium, not the computer's memory."""

    bytes: int
    past_cache: bool


Progress = Callable[[str, int, int], None]
"""Called with what is done, and how many bytes of how many are."""


def write_card(place: CardPlace, contents: CardContents, image_bytes: int | None, progress: Progress) -> Written:
    """Prepare a card, and verify it.

    An image file is written beside its place and moved there when it is verified. A device loses its label first and
    gets it last.

    Parameters
    ----------
    image_bytes : int, optional
        Size of the image file, rounded up to 512 KiB. If not given: that of the one that is there, or else 64 MiB; more
        if the plan needs it.

    Raises
    ------
    UserError
        If the card is too small, cannot be written, or does not give back what was written.
    """
    needed = contents.blocks * BLOCK_BYTES
    if place.is_device:
        _refuse_small(place.path, place.bytes, needed)
        handle = open_exclusively(place)
        try:
            return _written(handle, place.path, contents, progress)
        finally:
            os.close(handle)
    size = image_bytes or max(place.bytes or LEAST_IMAGE_BYTES, needed)
    size += -size % CARD_UNIT_BYTES
    _refuse_small(place.path, size, needed)
    place.path.parent.mkdir(parents=True, exist_ok=True)
    with held_image(place.path):
        if not place.exists and place.path.stat().st_size:
            raise UserError(f"{place.path}: another poet-harness run made this card meanwhile; name another image")
        return _write_image(place.path.resolve(), size, contents, progress)


def _refuse_small(path: Path, size: int, needed: int) -> None:
    if size < needed:
        raise UserError(f"{path}: has {size:,} bytes, the plan needs {needed:,}; use a larger card, or fewer --batches")


def _write_image(path: Path, size: int, contents: CardContents, progress: Progress) -> Written:
    try:
        with replacing(path) as (handle, temporary):
            os.truncate(handle, size)
            return _written(handle, temporary, contents, progress)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); name another place") from None


def _written(handle: int, path: Path, contents: CardContents, progress: Progress) -> Written:
    try:
        for block in (LABEL_BLOCK, *RECORD_BLOCKS):
            _put(handle, block, EMPTY)
        os.fsync(handle)
        done = 0
        for piece in contents.pieces:
            _write_piece(handle, piece)
            done += len(piece.content)
            progress("writing", done, contents.bytes)
        os.fsync(handle)
        past_cache = _verify(handle, path, contents, progress)
        _put(handle, LABEL_BLOCK, LABEL_CONTENT)
        os.fsync(handle)
        with CardReader(path) as reader:
            if reader.read(LABEL_BLOCK, BLOCK_BYTES) != LABEL_CONTENT:
                raise UserError(f"{path}: the label is not what was written; the card is defective", NO_DEVICE)
    except OSError as error:
        raise UserError(f"{path}: the card failed ({error.strerror}); use another", NO_DEVICE) from None
    return Written(contents.bytes, past_cache)


def _write_piece(handle: int, piece: Piece) -> None:
    content = memoryview(piece.content)
    for begin in range(0, len(content), CHUNK_BYTES):
        heed()
        chunk = content[begin : begin + CHUNK_BYTES]
        padding = bytes(-len(chunk) % BLOCK_BYTES)
        _put(handle, piece.block + begin // BLOCK_BYTES, bytes(chunk) + padding)


def _put(handle: int, block: int, data: bytes) -> None:
    """Whole blocks."""
    place = block * BLOCK_BYTES
    while data:
        count = os.pwrite(handle, data, place)
        data, place = data[count:], place + count


def _verify(handle: int, path: Path, contents: CardContents, progress: Progress) -> bool:
    """Read every piece, and the blocks that were emptied; whether the cache had no part in it."""
    with suppress(OSError, AttributeError):  # a hint, which not every system knows
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    with CardReader(path) as reader:
        done = 0
        for piece in contents.pieces:
            heed()
            read = reader.read(piece.block, padded_bytes(len(piece.content)))
            data, padding = read[: len(piece.content)], read[len(piece.content) :]
            if zlib.crc32(data) != zlib.crc32(piece.content) or any(padding):
                raise UserError(
                    f"{path}: {piece.name}, at block {piece.block}, is not what was written; the card is defective, or "
                    "smaller than it says: use another",
                    NO_DEVICE,
                )
            done += len(piece.content)
            progress("verifying", done, contents.bytes)
        return reader.past_cache
