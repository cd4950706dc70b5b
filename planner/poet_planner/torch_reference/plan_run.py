# SPDX-License-Identifier: Apache-2.0
"""Training steps under a plan for a Linux board, from its folder alone, as the board's agent takes them."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from poet_profiles.errors import UserError
from poet_profiles.files.arrays import read_arrays
from poet_profiles.plan_folder import PROGRAM_FILE
from poet_profiles.schedule.file import read_schedule
from poet_runtime.compiled_step import CompiledStep, compile_steps
from poet_runtime.pager import Pager, Traffic
from poet_runtime.peak import allocations
from poet_runtime.program import Program, read_program
from poet_runtime.traced_graph import Kind, TracedResident
from torch import Tensor

from poet_planner.graph.optimizer import PLAIN, Optimizer
from poet_planner.torch_reference.updates import Updates

LOSS = "loss"
TOLERANCE = 1.02  # of what is allocated beside what is planned
_EVERY_STEP = (Kind.INPUT, Kind.TARGET)
_GIVEN = (*_EVERY_STEP, Kind.PARAMETER, Kind.BUFFER)


@dataclass(frozen=True)
class PlanRun:
    """What came of training steps."""

    # ``loss``, shape (steps,), and ``PARAMETER.grad``, shape (steps, …), as :func:`reference_run` has them.
    arrays: dict[str, NDArray[Any]]
    times_s: tuple[float, ...]  # seconds of each step
    # peak_bytes, planned_peak_bytes: what PyTorch allocated at once in the last step, beside parameters, buffers and
    # the batch; and the compiled step's own count.
    peak_bytes: int
    planned_peak_bytes: int
    traffic: Traffic  # pages of all steps
    note: str  # what the user should know, or empty


def plan_run(
    folder: Path, data: Path, learning_rate: float, optimizer: Optimizer = PLAIN, page_folder: Path | None = None
) -> PlanRun:
    """Train with the batches of a data file, one step each.

    ``folder`` is of a plan for a Linux board: ``program.json`` and ``schedule.json``; ``data`` is what `poet-plan data`
    wrote for the same model. Pages wait on the disk of ``page_folder``, by default the system's folder for temporary
    files.

    Raises
    ------
    UserError
        If the folder holds no such plan, the data are another model's, a page cannot be moved, or a loss is infinite or
        no number.
    """
    program = _program(folder)
    schedule = read_schedule(folder / "schedule.json")
    if schedule.graph_hash != program.graph_hash:
        raise UserError(f"{folder}: {PROGRAM_FILE} and schedule.json are of two graphs; plan again")
    arrays = read_arrays(data, "poet-plan data")
    graph = program.graph
    residents = {r.id: _first(r, arrays, data) for r in graph.residents if r.kind in _GIVEN} | graph.constants
    batches = {r.id: r for r in graph.residents if r.kind in _EVERY_STEP}
    with Pager(page_folder or Path(tempfile.gettempdir())) as pager:
        run = _Run(residents, Updates(optimizer, learning_rate))
        step = compile_steps(graph, program.steps(schedule.steps), pager, update=run.update)
        count = min(len(arrays[id]) for id in batches) if batches else 0
        for number in range(count):
            residents.update((id, _tensor(resident, arrays[id][number])) for id, resident in batches.items())
            run.take(step, observed=number == count - 1)
        return PlanRun(
            arrays={name: np.stack(steps) for name, steps in run.left.items()},
            times_s=tuple(run.times_s),
            peak_bytes=run.peak_bytes,
            planned_peak_bytes=step.peak_bytes,
            traffic=pager.traffic,
            note="; ".join(filter(None, (pager.note, _beyond(run.peak_bytes, step.peak_bytes)))),
        )


def _beyond(seen_bytes: int, planned_bytes: int) -> str:
    """What to say where kernels allocate more than those that the plan was measured with."""
    if seen_bytes <= TOLERANCE * planned_bytes:
        return ""
    return (
        f"{seen_bytes / planned_bytes - 1:.1%} more memory than planned: with {torch.get_num_threads()} threads, this "
        "processor and this PyTorch other kernels run than were measured; profile and plan with these, or set --threads"
    )


class _Run:
    """Training under a compiled step; ``residents`` go on from step to step."""

    def __init__(self, residents: dict[str, Tensor], updates: Updates) -> None:
        self._residents = residents
        self._updates = updates
        self.left: dict[str, list[NDArray[Any]]] = {LOSS: []}
        self.times_s: list[float] = []
        self.peak_bytes = 0

    def take(self, step: CompiledStep, observed: bool) -> None:
        tensors = [self._residents[id] for id in step.residents]
        started = time.perf_counter()
        if observed:
            with allocations() as peak:
                loss, gradients, contents = step.run(tensors)
            self.peak_bytes = peak.bytes
        else:
            loss, gradients, contents = step.run(tensors)
        self.times_s.append(time.perf_counter() - started)
        self._updates.check_loss(loss, len(self.left[LOSS]))
        self.left[LOSS].append(loss.numpy().copy())
        for id, content in zip(step.updates, contents, strict=True):
            self._residents[id].copy_(content)
        for name, gradient in zip(step.gradients, gradients, strict=True):
            self.update(name, gradient)

    def update(self, name: str, gradient: Tensor) -> None:
        """One step down, after the compiled step or, where the program says so, within."""
        self.left.setdefault(f"{name}.grad", []).append(gradient.numpy().copy())
        self._updates.apply(name, self._residents[name], gradient)


def _program(folder: Path) -> Program:
    path = folder / PROGRAM_FILE
    if not path.is_file():
        raise UserError(f"{folder}: has no {PROGRAM_FILE}; plan for a Linux board, with a profile of one")
    return read_program(path)


def _first(resident: TracedResident, arrays: dict[str, NDArray[Any]], data: Path) -> Tensor:
    """What a resident starts from."""
    if resident.id not in arrays:
        raise UserError(f"{data}: lacks {resident.id}; write it with `poet-plan data` for the model that was planned")
    array = arrays[resident.id]
    one = array[0] if resident.kind in _EVERY_STEP and len(array) else array
    if one.shape != resident.shape:
        raise UserError(
            f"{data}: {resident.id} has shape {one.shape}, the plan's has {resident.shape}; write it with `poet-plan "
            "data` for the model and batch that were planned"
        )
    return _tensor(resident, one)


def _tensor(resident: TracedResident, array: NDArray[Any]) -> Tensor:
    contiguous = torch.from_numpy(np.ascontiguousarray(array)).to(resident.dtype).reshape(resident.shape)
    if resident.stride is None:
        return contiguous.clone()
    return torch.empty_strided(resident.shape, resident.stride, dtype=resident.dtype).copy_(contiguous)
