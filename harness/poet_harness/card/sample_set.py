# SPDX-License-Identifier: Apache-2.0
"""A data set on the card of a board: laid out as docs/SPEC.md says, section 7, and sent there once."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from poet_profiles.card.layout import BLOCK_BYTES, FIRST_BLOCK
from poet_profiles.errors import UserError
from poet_profiles.plan_folder.beside import plans_beside
from poet_profiles.protocol.status import Status
from poet_profiles.quantised import TYPES, Normalising

from ..protocol.link import DeviceError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from poet_profiles.samples import Samples

    from ..plan_folder.plan import Plan
    from ..protocol.device import Device

MAGIC = b"POET SET 1\n".ljust(16, b"\0")
WORD = 0  # the type of numbers that stay as they are; those of TYPES follow
WORD_BYTES = CHECK_BYTES = 4  # a check is at a record's end
AT_ONCE = 256  # samples that are read of the set together


@dataclass(frozen=True)
class SampleSet:
    """What is to lie on the card.

    Parameters
    ----------
    plan : Plan
        After whose pages, those of its inference among them, it lies; one that has its batch in RAM.
    samples : Samples
    normalising : Normalising or None
        Of samples that are kept as small integers.
    """

    plan: Plan
    samples: Samples
    normalising: Normalising | None

    @property
    def block(self) -> int:
        """Where its header lies."""
        pages = FIRST_BLOCK if self.plan.card is None else self.plan.card.page_block(0)
        plans = (self.plan, *plans_beside(self.plan.inference, self.plan.extraction).values())
        return pages + max(plan.page_blocks for plan in plans)

    @property
    def total_bytes(self) -> int:
        """All that has to be sent."""
        return len(self.header) + self.samples.count * len(self.record(0))

    def records(self) -> Iterator[bytes]:
        """Each sample with its check, without the zeros after it."""
        for begin in range(0, self.samples.count, AT_ONCE):
            numbers = np.arange(begin, min(begin + AT_ONCE, self.samples.count))
            rows = self.samples.rows(numbers)
            for place, number in enumerate(numbers):
                yield _record(int(number), [rows[index][place] for index in sorted(rows)])

    def record(self, number: int) -> bytes:
        rows = self.samples.rows(np.array([number]))
        return _record(number, [rows[index][0] for index in sorted(rows)])

    @property
    def sample_blocks(self) -> int:
        return -(-len(self.record(0)) // BLOCK_BYTES)

    @cached_property
    def check(self) -> str:
        """CRC-32 of all numbers: a CRC over records with their own CRCs would be the same whatever is in them."""
        check = 0
        for record in self.records():
            check = crc32(record[:-CHECK_BYTES], check)
        return f"{check:08x}"

    @cached_property
    def header(self) -> bytes:
        """Of one block at most."""
        rows = self.samples.rows(np.array([0]))
        entries, channels = b"", b""
        for index in sorted(rows):
            kind, pairs = self._kind(rows[index])
            size = rows[index].nbytes // WORD_BYTES if kind == WORD else rows[index].size
            if kind == WORD and rows[index].nbytes % WORD_BYTES:
                raise UserError(f"--to-card: a sample of {rows[index].nbytes} bytes is not whole words of {WORD_BYTES}")
            entries += struct.pack("<4I", kind, size, len(channels) // 8, len(pairs))
            channels += b"".join(struct.pack("<2f", *pair) for pair in pairs)
        lengths = (self.samples.count, self.sample_blocks, int(self.check, 16), len(rows), len(channels) // 8)
        header = MAGIC + struct.pack("<5I", *lengths) + entries + channels
        header += struct.pack("<I", crc32(header))
        if len(header) > BLOCK_BYTES:
            raise UserError(f"--to-card: {len(channels) // 8} channels are too many; give one scale for all, or f32")
        return header

    def _kind(self, rows: NDArray[Any]) -> tuple[int, list[tuple[float, float]]]:
        """The type of a tensor's numbers, and shift and scale of each of its channels."""
        if self.normalising is None or rows.dtype.name not in TYPES:
            return WORD, [(0.0, 1.0)]
        pairs = list(zip(self.normalising.shifts, self.normalising.scales, strict=True))
        return 1 + TYPES.index(rows.dtype.name), pairs

    def send(self, device: Device, sent: Callable[[int], None]) -> None:
        """Write the set to the card in the board: the header last, so that a set which is cut is none.

        Parameters
        ----------
        sent : callable
            Of the bytes of each part that has been sent.
        """
        device.put_block(self.block, bytes(4))
        for number, record in enumerate(self.records()):
            self._send_record(device, number, record)
            sent(len(record))
        device.put_block(self.block, self.header)
        sent(len(self.header))
        if not self.is_on(device):
            raise UserError(f"{device.link.name}: the card does not give back the data set; use another card")

    def _send_record(self, device: Device, number: int, record: bytes) -> None:
        first = self.block + 1 + number * self.sample_blocks
        for place in range(0, len(record), BLOCK_BYTES):
            device.put_block(first + place // BLOCK_BYTES, record[place : place + BLOCK_BYTES])

    def is_on(self, device: Device) -> bool:
        """Whether the card in the board holds this set already."""
        held = device.sample_set(self.block)
        return held is not None and (held.samples, held.check) == (self.samples.count, self.check)

    def feed(self, device: Device, numbers: NDArray[np.int64]) -> None:
        """Make a batch on the board; samples that the card has damaged are sent once more.

        Raises
        ------
        DeviceError
            If the card does not give them back then either.
        """
        chosen = [int(number) for number in numbers]
        try:
            device.samples(self.block, chosen)
        except DeviceError as error:
            if error.number != Status.E_CORRUPT:
                raise
            for number in chosen:
                self._send_record(device, number, self.record(number))
            device.samples(self.block, chosen)


def _record(number: int, rows: list[NDArray[Any]]) -> bytes:
    """Each tensor's numbers, padded to whole words, and the CRC-32 of all, begun with the sample's number."""
    content = b"".join(part + bytes(-len(part) % 4) for part in (row.tobytes() for row in rows))
    return content + struct.pack("<I", crc32(content, number))
