# SPDX-License-Identifier: Apache-2.0
"""A training run as the requests that a host sends, and what the answers to them say."""

from __future__ import annotations

import binascii
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poet_planner.torch_reference.training_data import training_data
from poet_profiles.graph import Graph, Resident
from poet_profiles.protocol.f32 import f32_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 224
RATE = 0.05
SEEN = ("parameter", "state", "gradient", "loss")
RATE_BITS = f32_bits(RATE)

Arrays = Mapping[str, "NDArray[Any]"]


class TrainingSession:
    """Requests for ``steps`` steps, every other one traced, and for all tensors after them.

    On a model's own data, or on given ones: parameters by id, and a batch a step in ``input``, ``target`` and their
    like. Of a graph in micro-batches each is cut along its first axis.
    """

    def __init__(
        self, graph: Graph, model: str, batch: int, steps: int, data: Arrays | None = None, rate: float = RATE
    ) -> None:
        self._graph = graph
        self._index = {resident.id: place for place, resident in enumerate(graph.residents)}
        data = training_data(model, steps, 0, batch) if data is None else data
        self.requests = ["hello", "format"]
        for resident in graph.residents:
            if resident.kind in ("parameter", "state"):
                first = data[resident.id].tobytes() if resident.id in data else bytes(resident.bytes)  # a velocity
                self._put(resident.id, first)
        for step in range(steps):
            for part in range(graph.micro_batches):
                for resident in graph.residents:
                    if resident.kind in ("input", "target"):
                        first = part * resident.bytes
                        self._put(resident.id, data[resident.id][step].tobytes()[first : first + resident.bytes])
                of_part = f" {part}" if graph.micro_batches > 1 else ""
                self.requests.append(f"step {f32_bits(rate)} {step % 2}{of_part}")
        self._gets = [
            (resident, offset, min(CHUNK, resident.bytes - offset))
            for resident in self._seen()
            for offset in range(0, resident.bytes, CHUNK)
        ]
        self.requests += self.gets()

    def _put(self, name: str, content: bytes) -> None:
        self.requests += [
            f"put {self._index[name]} {offset} {content[offset : offset + CHUNK].hex()}"
            for offset in range(0, len(content), CHUNK)
        ]

    def _seen(self) -> list[Resident]:
        return [resident for resident in self._graph.residents if resident.kind in SEEN]

    def gets(self) -> list[str]:
        """Requests for every parameter, state, gradient and loss."""
        return [f"get {self._index[resident.id]} {offset} {count}" for resident, offset, count in self._gets]

    def tensors(self, answers: Sequence[dict[str, str]]) -> dict[str, bytes]:
        """What the answers to :meth:`gets`, the last of all, hold."""
        found = {resident.id: b"" for resident in self._seen()}
        for (resident, _, _), answer in zip(self._gets, answers[-len(self._gets) :], strict=True):
            found[resident.id] += bytes.fromhex(answer["data"])
        return found

    def steps(self, answers: Sequence[dict[str, str]]) -> list[dict[str, str]]:
        """The answers to the training steps."""
        return [answer for answer, request in zip(answers, self.requests, strict=False) if request.startswith("step")]


def values(answer: str) -> dict[str, str]:
    """Keys and values of an answer, which must be ``ok``."""
    assert answer.startswith("ok"), answer
    return dict(pair.split("=", 1) for pair in answer.split()[1:])


def frame(number: int, body: str) -> bytes:
    text = f">{number & 0xFFFF:04x} {body}".encode()
    return text + b"*%04x\n" % binascii.crc_hqx(text, 0xFFFF)


def answers_of(program: Path, card: Path, requests: Sequence[str]) -> list[dict[str, str]]:
    """What the program answers to requests, all of which must be carried out."""
    stream = b"".join(frame(number, body) for number, body in enumerate(requests))
    command = [str(program), "--card", str(card), "--ram", "1000000"]
    done = subprocess.run(command, input=stream, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    lines = [line.split("*")[0][6:] for line in done.stdout.decode().splitlines() if " ack*" not in line]
    assert len(lines) == len(requests)
    return [values(line) for line in lines]


def train(program: Path, card: Path, session: TrainingSession) -> tuple[list[dict[str, str]], dict[str, bytes]]:
    """Answers of the training steps, and every parameter, state, gradient and loss after the last."""
    answers = answers_of(program, card, session.requests)
    return session.steps(answers), session.tensors(answers)
