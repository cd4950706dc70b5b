# SPDX-License-Identifier: Apache-2.0
"""How well the network on a board does: inferences over a data set, their accuracy, time and energy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from poet_profiles.errors import UserError
from poet_profiles.plan_folder.beside import Inference
from poet_profiles.program.stopping import heed
from poet_profiles.protocol.status import Status
from poet_profiles.quantised import TYPES, Normalising
from poet_profiles.samples import BatchTensor, Samples
from poet_profiles.traced_loss import TracedLoss

from ..card.in_board import tensors_in
from ..data.samples import batch_tensors
from ..plan_folder.plan import Plan
from ..protocol.device import Device, InferenceReport
from ..protocol.link import DeviceError
from .finite import count_not_finite
from .metering import Metering

Array = NDArray[Any]

Found = tuple[InferenceReport, float | None]
Metered = Callable[[Callable[[], InferenceReport]], Found]
THERE = 0.5  # of a target that says whether something is there
MOST_METERED = 50  # the same work each time; a meter that starts anew takes longer than a small network


@dataclass(frozen=True)
class Evaluation:
    """What came of a data set.

    Attributes
    ----------
    loss : float or None
        The training's loss; None where the plan does not say how that reads the scores.
    correct : int or None
        How often the highest score was the label's, or that of the highest share; None where targets are no classes of
        the scores.
    labels : int
        How many labels there are: one a sample, or one for each place of a sequence, without those left out.
    count : int
        Samples.
    time_s : float
        Mean of one inference, by the board's timer.
    energy_j : float or None
        Mean of one inference above the idle power, over the first of them; None where the meter saw none.
    scores : array, shape (count, …)
    unmetered : tuple of str
        Why energies are not known, one reason each.
    answers : pair of arrays or None
        The labels one after the other, and the class of the highest score for each; None without classes. Of a lone
        score 1 says that it is there.
    targets : tuple of arrays
        As they were given, one after the other.
    """

    correct: int | None
    labels: int
    count: int
    time_s: float
    energy_j: float | None
    scores: Array
    unmetered: tuple[str, ...] = ()
    loss: float | None = None
    answers: tuple[Array, Array] | None = None
    targets: tuple[Array, ...] = ()

    @property
    def accuracy(self) -> float | None:
        return self.correct / self.labels if self.correct is not None and self.labels else None


def evaluate(
    device: Device,
    metering: Metering,
    plan: Plan,
    samples: Samples,
    *,
    normalising: Normalising | None = None,
    kept_as: int | None = None,
    done: Callable[[int], None] = lambda _: None,
) -> Evaluation:
    """Let a board infer with the weights that it has, sample by sample.

    Parameters
    ----------
    device, metering
        A board that was flashed with the plan, and what says the energy that it draws.
    samples : Samples
        As `read_samples` reads them.
    normalising : Normalising, optional
        Of samples that are small integers.
    kept_as : int, optional
        The first number under which the board keeps the samples' features: these are inferred from.
    done : callable
        Called with the number of samples that are done.

    Raises
    ------
    Stopped
        On a signal.
    UserError
        If the plan or the board has no such inference, or a score is no number.
    """
    inference = ready_inference(device, plan)
    tensors, _ = batch_tensors(plan)
    label, targets = _label(tensors, inference), [tensor for tensor in tensors if tensor.kind == "target"]
    scores = np.empty((samples.count, *inference.output.shape[1:]), np.float32)
    wanted: list[Array] = []
    found: list[Array] = []
    given: list[list[Array]] = []
    reports: list[InferenceReport] = []
    energies_j: list[float | None] = []
    for number in range(samples.count):
        heed()
        rows = samples.rows(np.array([number]))
        if normalising:
            rows = {index: normalising(row) if row.dtype.name in TYPES else row for index, row in rows.items()}
        metered = metering.around if number < MOST_METERED else _unmetered
        answer = None if kept_as is None else _of_features(device, inference, metered, kept_as + number)
        if answer is None:
            inputs = [rows[tensor.index] for tensor in tensors if tensor.kind == "input"]
            *before, last = _calls(inputs, inference.own(plan.graph)[0].shape)
            for call in before:
                _put(device, plan, call)
                device.infer(inference.schedule.time_s)
            _put(device, plan, last)
            answer = metered(lambda: _inferred(device, inference))
        reports.append(answer[0])
        energies_j.append(answer[1])
        scores[number] = np.frombuffer(reports[-1].scores, "<f4").reshape(inference.output.shape)[0]
        if not np.isfinite(scores[number]).all():
            count = weights_not_finite(device, plan)
            why = "are those the weights?" if not count else f"the weights have {count} values that are no numbers"
            raise UserError(f"{device.link.name}: a score of sample {number} is no number: {why}")
        if label is not None:
            own, said = _answer(label, inference, rows[label.index], scores[number : number + 1])
            counted = own != label.ignored
            wanted.append(own[counted])
            found.append(said[counted])
        given.append([rows[target.index] for target in targets])
        done(number + 1)
    known_j = [energy_j for energy_j in energies_j if energy_j is not None]
    answers = (np.concatenate(wanted), np.concatenate(found)) if wanted else None
    all_targets = tuple(map(np.concatenate, zip(*given, strict=True)))
    return Evaluation(
        correct=None if answers is None else int((answers[0] == answers[1]).sum()),
        labels=0 if answers is None else len(answers[0]),
        count=samples.count,
        time_s=math.fsum(report.work_s for report in reports) / samples.count,
        energy_j=math.fsum(known_j) / len(known_j) if known_j else None,
        scores=scores,
        unmetered=tuple(metering.unmetered),
        loss=inference.loss.mean(scores, *all_targets) if inference.loss else None,
        answers=answers,
        targets=all_targets,
    )


def _put(device: Device, plan: Plan, inputs: list[Array]) -> None:
    for place, array in enumerate(inputs):
        device.put(len(plan.tensors) + place, array.tobytes())


def _calls(inputs: list[Array], shape: tuple[int, ...]) -> list[list[Array]]:
    """What each call of an inference is given of a sample: a stream's a few columns, the last call the newest."""
    x = inputs[0]
    axes = [axis for axis, extent in enumerate(shape) if extent != x.shape[axis]]
    if not axes:
        return [inputs]
    (axis,), new = axes, shape[axes[0]]
    first = -x.shape[axis] % new
    widths = [(first, 0) if place == axis else (0, 0) for place in range(x.ndim)]
    parts = np.split(np.pad(x, widths), (x.shape[axis] + first) // new, axis)
    return [[np.ascontiguousarray(part)] for part in parts]


def ready_inference(device: Device, plan: Plan) -> Inference:
    """The plan's inference; makes sure that the board was flashed with it."""
    if plan.inference is None:
        raise UserError(
            "the plan has no inference: poet-plan says why when it plans (a graph without its model, a Linux board, "
            "parameters on the card)"
        )
    if device.hello.inference != plan.inference.schedule_hash:
        found = device.hello.inference or "none"
        raise UserError(
            f"{device.link.name}: the board's inference has the hash {found}, the plan's "
            f"{plan.inference.schedule_hash}; run poet-harness flash first"
        )
    return plan.inference


def counts_right_answers(plan: Plan) -> bool:
    """Whether the plan's targets name classes that its inference has scores for, or say if what it scores is there."""
    return class_label(plan) is not None


def class_label(plan: Plan) -> BatchTensor | None:
    """The target that says which class is right; None where the plan has none."""
    return None if plan.inference is None else _label(batch_tensors(plan)[0], plan.inference)


def weights_not_finite(device: Device, plan: Plan) -> int:
    """How many values of the parameters in a board's RAM are infinite or no numbers."""
    return count_not_finite(tensors_in(device, plan, ("parameter",)).values())


def _answer(label: BatchTensor, inference: Inference, own: Array, scores: Array) -> tuple[Array, Array]:
    """The labels of a sample, and what its scores say."""
    if inference.is_lone:
        assert inference.loss is not None
        return (own > THERE).reshape(-1).astype(np.int32), (scores > inference.loss.boundary).reshape(-1)
    own = own if label.choices else own.argmax(inference.class_axis)
    return own.reshape(-1), scores.argmax(inference.class_axis).reshape(-1)


def _label(tensors: list[BatchTensor], inference: Inference) -> BatchTensor | None:
    """The target that names one of the scores' places for each of their rows, has a share for each, or is yes or no."""
    if inference.is_lone:
        lone = [tensor for tensor in tensors if tensor.kind == "target" and math.prod(tensor.shape) == 1]
        return lone[0] if len(lone) == 1 else None
    if isinstance(inference.loss, TracedLoss) and inference.loss.soft:
        row = inference.output.shape[1:]
        shares = [tensor for tensor in tensors if tensor.kind == "target" and tensor.shape == row]
        return shares[0] if len(shares) == 1 else None
    targets = [tensor for tensor in tensors if tensor.kind == "target" and tensor.choices]
    axis, shape = inference.class_axis, inference.output.shape
    found = targets[0] if len(targets) == 1 else None
    fits = found is not None and found.choices == shape[axis] and found.shape == (*shape[1:axis], *shape[axis + 1 :])
    return found if fits else None


def _unmetered(infer: Callable[[], InferenceReport]) -> tuple[InferenceReport, float | None]:
    return infer(), None


def _of_features(device: Device, inference: Inference, metered: Metered, number: int) -> Found | None:
    """Of those that are kept; None where they have been written over."""
    try:
        return metered(lambda: _inferred(device, inference, number))
    except DeviceError as error:
        if error.number != Status.E_ABSENT:
            raise
        return None


def _inferred(device: Device, inference: Inference, kept_as: int | None = None) -> InferenceReport:
    """With all scores, of which the answer has the first."""
    report = device.infer(inference.schedule.time_s, kept_as)
    begun, output = len(report.scores), len(inference.graph.residents) + len(inference.graph.kept) - 1
    rest = device.get(output, inference.output.bytes - begun, begun)
    return replace(report, scores=report.scores + rest)
