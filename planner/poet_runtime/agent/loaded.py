# SPDX-License-Identifier: Apache-2.0
"""What a host has loaded: a program with random data, and perhaps a schedule of it."""

from __future__ import annotations

import zlib
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from poet_profiles.errors import FaultError, UserError
from poet_profiles.files.json_file import parsed
from poet_profiles.protocol.status import Status
from poet_profiles.schedule.file import schedule_from_document, schedule_hash
from torch import Tensor

from poet_runtime.agent import system
from poet_runtime.agent.calls import Call, call_apart, call_in_step, text_of
from poet_runtime.agent.operands import check_room, random_residents
from poet_runtime.agent.placement import PlainStep
from poet_runtime.agent.scheduled import ScheduledStep
from poet_runtime.agent.server import RefusedError
from poet_runtime.measured_sizes import rehearsed
from poet_runtime.program import program_from_document

MOST_BYTES = 1 << 28
SMALL_BYTES = 1 << 20
# Python takes some 100 bytes for each; a large network's program has a tenth of them.
MOST_OBJECTS = 1 << 20
NO_HASH = "0" * 16


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
        """The document, if all of it arrived, and the board has the RAM for it: few bytes may be many unpacked."""
        if zlib.crc32(self._data) != crc:
            raise RefusedError(Status.E_CORRUPT, "the checksum is another one")
        unpacker = zlib.decompressobj(wbits=31)
        try:
            # As bytes, as text, and as what is read from it.
            most_bytes = min(MOST_BYTES, max(SMALL_BYTES, system.available_bytes() // 4))
            text = unpacker.decompress(self._data, most_bytes)
            if unpacker.unconsumed_tail:
                raise RefusedError(Status.E_MEMORY, f"more than {most_bytes} bytes without gzip")
            if not unpacker.eof:
                raise FaultError("it ends too early")
            if sum(map(text.count, b",:[{")) > MOST_OBJECTS:
                raise RefusedError(Status.E_MEMORY, f"more than {MOST_OBJECTS} commas, colons and brackets")
            document = parsed(text)
        except (zlib.error, FaultError) as error:
            raise RefusedError(Status.E_CORRUPT, f"no JSON in gzip: {error}") from None
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
        check_room(sum(resident.bytes for resident in self.program.graph.residents), "its tensors need")
        self.residents: dict[str, Tensor] = random_residents(self.program.graph)
        self.scheduled: ScheduledStep | None = None
        self.schedule_hash = NO_HASH
        self._call: tuple[int, Call] | None = None

    @cached_property
    def plain_step(self) -> PlainStep:
        """The program's step, everything kept.

        Raises
        ------
        RefusedError
            If the board has not the RAM for it: the system would end the agent. If the step has an optimiser's updates
            within.
        """
        try:
            step = PlainStep(self.program.graph, self.residents)
        except UserError as error:
            raise RefusedError(Status.E_UNSUPPORTED, str(error)) from None
        check_room(step.peak_bytes, "the step needs")
        return step

    @cached_property
    def _has_room(self) -> bool:
        """Whether the board has the RAM for a plain step, or it is none that is asked of a board."""
        try:
            return bool(self.plain_step)
        except RefusedError as refused:
            return refused.status != Status.E_MEMORY

    @cached_property
    def workspaces_bytes(self) -> list[int]:
        """What the kernel of each operator allocates here beside its results, with the agent's number of threads.

        Raises
        ------
        RefusedError
            If the board has not the RAM for an operator by itself.
        """
        graph = self.program.graph
        sizes = {id: value.bytes for id, value in graph.values.items()}
        most = max((sum(sizes[id] for id in (*graph.inputs(one), *one.values)) for one in graph.operators), default=0)
        check_room(most, "an operator needs")
        return [operator.workspace_bytes for operator in rehearsed(self.program.graph, self.residents).operators]

    def call(self, index: int) -> Call:
        """An operator's call as the step makes it, or on other numbers where the board has not the RAM for a step."""
        if not 0 <= index < len(self.program.graph.operators):
            raise RefusedError(Status.E_ARGUMENT, f"the program has no operator {index}")
        if self._call is None or self._call[0] != index:
            self._call = None
            call = call_in_step if self._has_room else call_apart
            self._call = index, call(self.program.graph, self.residents, index)
        return self._call[1]

    def schedule(self, document: Any, folder: Path) -> None:
        """Take a schedule of the program, under which it steps from now on."""
        try:
            schedule = schedule_from_document(document)
        except FaultError as fault:
            raise RefusedError(Status.E_UNSUPPORTED, str(fault)) from None
        if schedule.graph_hash != self.program.graph_hash:
            raise RefusedError(Status.E_HASH, f"the schedule is for graph {schedule.graph_hash}")
        try:
            scheduled = ScheduledStep(self.program, self.residents, schedule, folder)
        except UserError as error:
            raise RefusedError(Status.E_UNSUPPORTED, str(error)) from None
        self.close()
        try:
            check_room(scheduled.needed_bytes, "a step under the schedule needs")
        except RefusedError:
            scheduled.close()
            raise
        self.scheduled, self.schedule_hash = scheduled, schedule_hash(schedule)

    def close(self) -> None:
        """Let the schedule go."""
        if self.scheduled is not None:
            self.scheduled.close()
            self.scheduled = None
            self.schedule_hash = NO_HASH

    def data(self, index: int) -> Tensor:
        """Bytes of a tensor, by its place among the program's residents.

        Raises
        ------
        RefusedError
            If it is not there: a gradient before the first step, or the generator's state.
        """
        residents = self.program.graph.residents
        id = residents[index].id if index < len(residents) else ""
        made = self.scheduled.results if self.scheduled is not None else {}
        tensor = self.residents.get(id, made.get(id))
        if tensor is None:
            raise RefusedError(Status.E_ABSENT, f"tensor {index} {id} has no data now")
        if not tensor.is_contiguous():
            raise RefusedError(Status.E_UNSUPPORTED, f"{id} is not contiguous")
        return tensor.detach().reshape(-1).view(torch.uint8)

    def text(self, index: int) -> str:
        """The same as JSON."""
        call = self.call(index)
        return text_of(self.program.graph.operators[index], call)
