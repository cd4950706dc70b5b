# SPDX-License-Identifier: Apache-2.0
"""A training run of a graph whose parameters and batches may lie on the card, as the requests that a host sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray
from poet_planner.torch_reference.training_data import training_data
from poet_profiles.graph import Graph
from poet_profiles.graph.kept import kept_constants
from poet_profiles.graph.parts import cut_from, name_of

from tests.support.firmware.training_session import CHUNK, RATE_BITS


class CardSession:
    """Requests that put a network's data where its graph wants them, train, and read the weights.

    A batch in RAM is put before its step, batches on the card once, and so are ``constants`` that lie there; every
    other step is traced.
    """

    def __init__(
        self, graph: Graph, model: str, batch: int, steps: int, constants: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        self.tensors = [*graph.residents, *graph.kept]
        self.index = {tensor.id: place for place, tensor in enumerate(self.tensors)}
        self.weights = [tensor for tensor in self.tensors if tensor.kind in ("parameter", "state")]
        on_card = {tensor.id for tensor in graph.kept}
        data = training_data(model, steps, 0, batch)
        batches = steps if "input" in on_card else 0
        self.requests = ["hello", "format", *([f"batches {batches}"] if on_card else [])]
        for tensor in self.weights:
            given = name_of(tensor) in data  # or a velocity
            first = cut_from(tensor, data[name_of(tensor)]).tobytes() if given else bytes(tensor.bytes)
            self.put(tensor.id, first)
        for constant in kept_constants(graph):
            self.put(constant.id, (constants or {})[constant.id].tobytes())
        for name in on_card & {"input", "target"}:
            self.put(name, data[name].tobytes())
        if on_card:
            self.requests.append("commit 0")
        for number in range(steps):
            for part in range(graph.micro_batches):
                for name in {"input", "target"} - on_card:
                    size = self.tensors[self.index[name]].bytes
                    self.put(name, data[name][number].tobytes()[part * size : (part + 1) * size])
                of_part = f" {part}" if graph.micro_batches > 1 else ""
                self.requests.append(f"step {RATE_BITS} {number % 2}{of_part}")
        self.gets = [
            f"get {self.index[tensor.id]} {offset} {min(CHUNK, tensor.bytes - offset)}"
            for tensor in self.weights
            for offset in range(0, tensor.bytes, CHUNK)
        ]
        self.requests += self.gets

    def put(self, name: str, data: bytes) -> None:
        """No line reaches over the end of a batch."""
        size = self.tensors[self.index[name]].bytes
        for start in range(0, len(data), size):
            for offset in range(start, start + size, CHUNK):
                part = data[offset : min(offset + CHUNK, start + size)]
                self.requests.append(f"put {self.index[name]} {offset} {part.hex()}")

    def found(self, answers: Sequence[dict[str, str]]) -> dict[str, bytes]:
        """The weights that the answers hold, the last of all requests."""
        found = {tensor.id: b"" for tensor in self.weights}
        for request, answer in zip(self.gets, answers[-len(self.gets) :], strict=True):
            found[self.tensors[int(request.split()[1])].id] += bytes.fromhex(answer["data"])
        return found

    def steps(self, answers: Sequence[dict[str, str]]) -> list[dict[str, str]]:
        """The answers to the training steps."""
        return [answer for request, answer in zip(self.requests, answers, strict=False) if request.startswith("step")]
