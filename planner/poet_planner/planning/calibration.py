# SPDX-License-Identifier: Apache-2.0
"""`--frozen int8`: from which samples the ranges of frozen layers are taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from poet_profiles.errors import UserError

if TYPE_CHECKING:
    from poet_runtime.traced_graph import TracedGraph, TracedResident
    from torch import Tensor

    from poet_planner.models import Model

MOST_SAMPLES = 256  # of the model's own, where no file is given
MOST_BATCHES = 32
ROUNDING = 1e-3  # of a range: sums in f32 go in another order for another batch


class Frozen(StrEnum):
    """What frozen layers are made of, unless it is f32."""

    INT8 = "int8"


@dataclass(frozen=True)
class Calibration:
    """Samples of the model's own, or of a file as `poet-plan data --arrays` takes it."""

    path: Path | None = None

    def ranges(self, traced: TracedGraph, model: str | Model, batch: int | None) -> dict[str, tuple[float, float]]:
        """The ranges of all that is to be on int8, by id.

        Raises
        ------
        UserError
            If nothing is frozen, or it is quantised already, or the samples are not what the model takes.
        """
        from poet_planner.lowering.int8.frozen_int8 import ranges_of
        from poet_planner.lowering.int8.integers import has_integers

        if has_integers(traced):
            raise UserError(f"--frozen int8: {traced.name} is quantised already; leave it out")
        ranges = ranges_of(traced, self.batches(traced, model, batch))
        if not ranges:
            weights = [
                name for name, tensor in traced.frozen.items() if tensor.dim() > 1 and tensor.is_floating_point()
            ]
            if weights:
                raise UserError(
                    f"--frozen int8: 0 of {len(weights)} frozen weights are on int8: no convolution and no linear "
                    f"layer reads {weights[0]} as it is; leave the option out"
                )
            raise UserError(
                f"--frozen int8: nothing of {traced.name} is frozen, no convolution and no linear layer; call "
                "requires_grad_(False) and eval() on what is"
            )
        return ranges

    def ranges_beside(
        self, forward: TracedGraph, training: TracedGraph, model: str | Model, batch: int | None
    ) -> dict[str, tuple[float, float]]:
        """Those of a training step, by the ids of a forward pass of one sample.

        ``forward`` has frozen what the training does not change.

        Raises
        ------
        UserError
            If its frozen part is not that of the training: other operators, or other numbers.
        """
        from poet_planner.lowering.int8.frozen_int8 import ranges_of

        inputs, own = (_inputs(graph) for graph in (training, forward))
        names = {one.id: other.id for one, other in zip(inputs, own, strict=True)}
        ranges = {names.get(id, id): ends for id, ends in training.int8_ranges.items()}
        first = next(self.batches(training, model, batch))
        seen = ranges_of(forward, [{names[id]: tensor[:1] for id, tensor in first.items()}])
        for id, (low, high) in ranges.items():
            least, greatest = seen.get(id, (low - 1, high))
            slack = ROUNDING * (high - low)
            if least < low - slack or greatest > high + slack:
                raise UserError(f"in evaluation mode its frozen part is another, at {id}, than the ranges are for")
        return ranges

    def samples(self, traced: TracedGraph, model: str | Model) -> int:
        """How many there are."""
        inputs = _inputs(traced)
        if self.path is not None:
            return len(samples_of(self.path, inputs)[inputs[0].id])
        return inputs[0].shape[0] * (_steps(inputs[0].shape[0]) if isinstance(model, str) else 1)

    def batches(self, traced: TracedGraph, model: str | Model, batch: int | None) -> Iterator[dict[str, Tensor]]:
        """Tensors of the graph's inputs, by id, until every sample was among them."""
        from poet_runtime.nested import tensors_in

        from poet_planner import models

        inputs = _inputs(traced)
        size = inputs[0].shape[0]
        if self.path is not None:
            samples = samples_of(self.path, inputs)
            count = len(samples[inputs[0].id])
            for start in range(0, count, size):
                rows = [row % count for row in range(start, start + size)]  # the first ones fill the last batch
                yield {id: tensor[rows] for id, tensor in samples.items()}
            return
        own = models.load_batches(model, _steps(size), 0, batch) if isinstance(model, str) else [(model.inputs, ())]
        for given, _ in own:
            yield {resident.id: tensor for resident, tensor in zip(inputs, tensors_in(given), strict=True)}


def _steps(size: int) -> int:
    return min(MOST_BATCHES, -(-MOST_SAMPLES // size))


def _inputs(graph: TracedGraph) -> list[TracedResident]:
    from poet_runtime.traced_graph import Kind

    return [resident for resident in graph.residents if resident.kind is Kind.INPUT]


def samples_of(path: Path, residents: list[TracedResident]) -> dict[str, Tensor]:
    """The samples of a file as a graph's inputs and targets, by id, along the first axis.

    Raises
    ------
    UserError
        If they are not what the graph takes.
    """
    import torch

    from poet_planner.tracing.own_arrays import own_arrays

    arrays = own_arrays(path, residents)
    for resident in residents:
        if arrays[resident.id].ndim > len(resident.shape):  # batches
            arrays[resident.id] = arrays[resident.id].reshape(-1, *resident.shape[1:])
    counts = {len(array) for array in arrays.values()}
    if len(counts) != 1 or 0 in counts:
        raise UserError(f"{path}: the arrays do not belong together, or have no sample")
    return {one.id: torch.from_numpy(arrays[one.id]).to(one.dtype) for one in residents}
