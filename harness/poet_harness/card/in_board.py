# SPDX-License-Identifier: Apache-2.0
"""A card that is in a board: prepared, looked at and read through the board's serial line."""

from __future__ import annotations

import sys

import numpy as np
from poet_profiles.errors import NO_DEVICE, UserError
from poet_profiles.graph.kept import BATCH_KINDS, TRAINED_KINDS
from poet_profiles.protocol.status import Status

from ..data.batches import Array, TrainingData
from ..plan_folder.plan import Plan
from ..protocol.device import Device, Restored
from ..protocol.link import DeviceError
from .batch_count import check_batch_count
from .reading import Weights

MOST_LINE_BYTES = 1024 * 1024  # a minute and a half at 1 Mbaud
SAMPLE_BYTES = 224  # one line
NO_RECORD = "no commit"


class CardInBoard:
    """What a plan keeps on the card of a board.

    Parameters
    ----------
    device : Device
        The board, flashed with the plan.
    plan : Plan
        One that keeps tensors on the card.
    """

    def __init__(self, device: Device, plan: Plan) -> None:
        self._device = device
        self._plan = plan
        self._where = device.link.name
        self._weight_bytes = sum(tensor.bytes for tensor in plan.tensors if tensor.kind not in BATCH_KINDS)

    def restore(self) -> Restored:
        """Let the newest committed weights count."""
        return self._device.restore(self._weight_bytes)

    def restore_or_prepare(self, data: TrainingData) -> Restored:
        """The same, or, on a card that holds no weights at all, put the initial ones and the batches there.

        Raises
        ------
        DeviceError
            If the card has another plan's.
        UserError
            If that is too much for the serial line.
        """
        try:
            return self.restore()
        except DeviceError as error:
            if error.number != Status.E_ABSENT or NO_RECORD not in error.text:
                raise
        self._prepare(data)
        return self.restore()

    def _put_batches(self, batches: list[dict[int, bytes]]) -> None:
        for number, batch in enumerate(batches):
            for index, content in batch.items():
                self._device.put(index, content, at=number * len(content))

    def _prepare(self, data: TrainingData) -> None:
        empty = {index: bytes(one.bytes) for index, one in enumerate(self._plan.tensors) if one.kind in BATCH_KINDS}
        batches = (data.batches or [empty]) if self._plan.keeps_batches else []
        parts = [data.weights, *batches]
        size = sum(len(content) for part in parts for content in part.values())
        if size > MOST_LINE_BYTES:
            raise UserError(
                f"{self._where}: the card holds nothing of this plan, and {size:,} bytes are too many for the serial "
                "line; put the card into this computer and prepare it with poet-harness card",
                NO_DEVICE,
            )
        print(f"{self._where}: preparing the card over the line, {size:,} bytes", file=sys.stderr)
        self._device.batches(len(batches))
        for index, content in data.weights.items():
            self._device.put(index, content)
        self._put_batches(batches)
        self._device.commit(0)

    def check(self, restored: Restored, data: TrainingData, steps: int) -> None:
        """Make sure that the card has the batches of the data: how many, and how the one begins that is read next.

        Slow memory is given them again.
        """
        if not (self._plan.keeps_batches and data.batches):
            return
        if restored.lasting is not None:
            self._device.batches(len(data.batches))
            self._put_batches(data.batches)
            return
        count = restored.batches or 0
        check_batch_count(f"{self._where}: the card", count, len(data.batches), steps)
        if restored.step >= steps:
            return
        number = restored.step % count
        for index, content in data.batches[number].items():
            sample = content[:SAMPLE_BYTES]
            if self._device.get(index, len(sample), at=number * len(content)) != sample:
                raise UserError(
                    f"{self._where}: the card's batch {number} of {self._plan.tensors[index].id} is not that of the "
                    "data; give the data that the card was prepared with"
                )

    def weights(self) -> Weights:
        """Read the committed weights."""
        size = sum(tensor.bytes for tensor in self._plan.tensors if tensor.kind in TRAINED_KINDS)
        if size > MOST_LINE_BYTES:
            raise UserError(
                f"{size:,} bytes are too many for the serial line; put the card into this computer and read it with "
                "poet-harness weights --card"
            )
        step = self.restore().step
        tensors = tensors_in(self._device, self._plan, TRAINED_KINDS)
        return Weights(step, self._plan.whole(tensors), fell_back=False)


def committed_weights(device: Device, plan: Plan) -> Weights:
    """What a board's card has committed of a plan, read through the board, whose RAM then holds the same.

    Raises
    ------
    UserError
        If it has committed nothing of this plan, or it is too much for the line.
    """
    try:
        if plan.card is not None:
            return CardInBoard(device, plan).weights()
        step = device.restore().step
    except DeviceError as error:
        if error.number != Status.E_ABSENT:
            raise UserError(f"{device.link.name}: the card cannot be read, {error}", NO_DEVICE) from None
        raise UserError(
            f"{device.link.name}: its card holds no trained weights of this plan ({error.text}); train with "
            "poet-harness run --commit-every, or let run write them: --trained"
        ) from None
    return Weights(step, plan.whole(tensors_in(device, plan, TRAINED_KINDS)), fell_back=False)


def tensors_in(device: Device, plan: Plan, kinds: tuple[str, ...]) -> dict[str, Array]:
    """Tensors of some kinds as the board has them, in RAM and on the card, by their ids in the graph."""
    return {
        tensor.id: np.frombuffer(device.get(index, tensor.bytes), plan.type_of(tensor)).reshape(tensor.shape)
        for index, tensor in enumerate(plan.tensors)
        if tensor.kind in kinds
    }
