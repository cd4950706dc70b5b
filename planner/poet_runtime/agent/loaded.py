# SPDX-License-Identifier: Apache-2.0
"""What a host has loaded: a program with random data, and perhaps a schedule of it."""

from __future__ import annotations

import json
import zlib
from functools import cached_property
from typing import Any

from poet_profiles.errors import FaultError
from poet_profiles.protocol.status import Status
from torch import Tensor

from poet_runtime.agent.calls import Call, call_in_step, text_of
from poet_runtime.agent.operands import random_residents
from poet_runtime.agent.placement import PlainStep
from poet_runtime.agent.server import RefusedError
from poet_runtime.program import program_from_document

MOST_BYTES = 1 << 28


class Upload:
    """A document that arrives part by part, compressed by gzip."""

    def __init__(self) -> None:
        self._data = bytearray()

    def add(self, at: int, part: bytes) -> int:
        """Take a part, and say how many bytes there are; offset 0 begins a new document."""
        if at == 0:
            self._data.clear()
        if at != len(self._data):
            raise RefusedError(Status.E_ORDER, f"{len(self._data)} bytes are here, the part begins at {at}")
        if at + len(part) > MOST_BYTES:
            raise RefusedError(Status.E_FULL, f"more than {MOST_BYTES} bytes")
        self._data += part
        return len(self._data)

    def end(self, crc: int) -> Any:
        """The document, if all of it arrived."""
        if zlib.crc32(self._data) != crc:
            raise RefusedError(Status.E_CORRUPT, "the checksum is another one")
        unpacker = zlib.decompressobj(wbits=31)
        try:
            text = unpacker.decompress(self._data, MOST_BYTES)
            document = json.loads(text)
        except (zlib.error, ValueError, RecursionError):
            raise RefusedError(Status.E_CORRUPT, "no JSON in gzip") from None
        self._data.clear()
        return document


class Loaded:
    """A program, its data, and the schedule under which it steps.

    Raises
    ------
    RefusedError
        If the document is no program that this PyTorch can run.
    """

    def __init__(self, document: Any) -> None:
        try:
            self.program = program_from_document(document)
        except FaultError as fault:
            raise RefusedError(Status.E_UNSUPPORTED, str(fault)) from None
        self.residents: dict[str, Tensor] = random_residents(self.program.graph)
        self._call: tuple[int, Call] | None = None

    @cached_property
    def plain_step(self) -> PlainStep:
        """The program's step, everything kept."""
        return PlainStep(self.program.graph, self.residents)

    def call(self, index: int) -> Call:
        """An operator's call as the step makes it."""
        if not 0 <= index < len(self.program.graph.operators):
            raise RefusedError(Status.E_ARGUMENT, f"the program has no operator {index}")
        if self._call is None or self._call[0] != index:
            self._call = None
            self._call = index, call_in_step(self.program.graph, self.residents, index)
        return self._call[1]

    def text(self, index: int) -> str:
        """The same as JSON."""
        return text_of(self.program.graph.operators[index], self.call(index))
