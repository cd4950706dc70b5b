# SPDX-License-Identifier: Apache-2.0
"""Who holds which weights of a training: the board's RAM, its card, or this computer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from poet_profiles.errors import NO_DEVICE, UserError
from poet_profiles.graph.kept import TRAINED_KINDS

from ..card.in_board import CardInBoard, tensors_in
from ..protocol.link import DeviceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..data.batches import TrainingData
    from ..plan_folder.plan import Plan
    from ..protocol.device import Device

LOST = "the board was cut off in a step, or was reset; its weights are lost"


class HeldWeights:
    """The weights of a training, by how many steps have made them.

    Attributes
    ----------
    data : TrainingData
        What a board that has lost its weights begins with again, unless its card has others.
    kept : int or None
        Steps of the weights that this run has committed to the card, or began with; None if there are none.
    in_ram : int or None
        Steps of those in the board's RAM; None while it works on them, or has lost them.
    """

    def __init__(self, device: Device, plan: Plan) -> None:
        self.data: TrainingData | None = None
        self.kept: int | None = None
        self.in_ram: int | None = None
        self._being_kept: int | None = None  # a reset meanwhile leaves open whether it is whole
        self._device = device
        self._plan = plan
        self.card = None if plan.card is None else CardInBoard(device, plan)

    def on_card(self) -> int:
        """Steps of the weights on the card, for a plan that keeps them there; else 0."""
        if self.card is None or not self._plan.commits_steps:
            return 0
        try:
            return self.card.restore().step
        except DeviceError:
            return 0

    def restore(self, resume: bool, steps: int) -> int:
        """Let the card give back what this run has kept or resumes.

        Returns how many steps made the weights to begin with.
        """
        assert self.data is not None
        begin, where = self._given_back(self.data, resume, steps), self._device.link.name
        if self.kept is None and (resume or self._plan.commits_steps):
            self.kept = begin
            if begin >= steps:
                raise UserError(f"{begin} steps are committed already; ask for more of them with --steps")
            if begin < self.data.step:
                raise UserError(
                    f"{where}: the card holds the weights after {begin} steps, and the folder goes on after "
                    f"{self.data.step}; give the card of that training"
                )
        if begin not in (self.data.step if self.kept is None else self.kept, self._being_kept):
            raise UserError(
                f"{where}: the card gives back the weights after {begin} steps, this run committed those after "
                f"{self.kept}; the card loses data: begin anew with another",
                NO_DEVICE,
            )
        if self.kept is not None:
            self.kept = begin
        return begin

    def _given_back(self, data: TrainingData, resume: bool, steps: int) -> int:
        card = self.card
        if card is None or not self._plan.commits_steps:
            if card is not None:
                card.restore_or_prepare(data)  # what is frozen
            return (card or self._device).restore().step if resume or self.kept is not None else data.step
        if self.kept is not None:
            restored = card.restore()
            if restored.lasting is not None:
                card.check(restored, data, steps)
            return restored.step
        restored = card.restore() if resume else card.restore_or_prepare(data)
        if restored.step and not resume:
            raise UserError(
                f"{self._device.link.name}: the card holds the weights after {restored.step} steps; go on from them "
                "with --resume, or prepare it anew with poet-harness card"
            )
        card.check(restored, data, steps)
        return restored.step

    def put(self, begin: int) -> None:
        """Give the board what it lacks of the weights after so many steps, and constants."""
        data = self.data
        assert data is not None
        in_ram = {index: content for index, content in data.weights.items() if index < len(self._plan.residents)}
        for index, content in (data.constants if self.kept is not None else {**data.constants, **in_ram}).items():
            self._device.put(index, content)
        self.in_ram = begin

    def begin_step(self, number: int) -> None:
        """Work on the weights, and commit them if the plan keeps them on the card."""
        self.in_ram = None
        if self._plan.commits_steps:
            self._being_kept = number + 1

    def end_step(self, number: int, committed: int | None, lasts: bool = True) -> None:
        """Note that a step is done, and what it has committed."""
        self.in_ram = number + 1
        if not self._plan.commits_steps:
            return
        each = self._plan.commit_each
        if committed != self._being_kept and (
            each == 1 or committed != max(self.kept or 0, (number + 1) // each * each)
        ):
            raise UserError(
                f"{self._device.link.name}: the board committed step {committed}, and was asked for "
                f"{self._being_kept}: does somebody else use it?",
                NO_DEVICE,
            )
        if lasts:
            self.kept = committed

    def commit(self, steps: int) -> bool:
        """Have the board commit the weights that it has in RAM; whether they last."""
        self._being_kept = steps
        lasts = self._device.commit(steps)
        if lasts:
            self.kept = steps
        return lasts

    def read(self) -> tuple[int, dict[str, NDArray[Any]]]:
        """Steps that made the weights in RAM, and these tensors; a `UserError` if it has none."""
        if self.in_ram is None:
            raise UserError(LOST)
        return self.in_ram, tensors_in(self._device, self._plan, TRAINED_KINDS)

    def begin_again_from(self, steps: int, tensors: dict[str, NDArray[Any]]) -> TrainingData:
        """Have a board that loses its weights begin with these."""
        assert self.data is not None
        residents = enumerate(self._plan.residents)
        read = {index: tensors[resident.id].tobytes() for index, resident in residents if resident.id in tensors}
        self.data = replace(self.data, weights={**self.data.weights, **read}, step=steps)
        return self.data
