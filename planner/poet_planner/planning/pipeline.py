# SPDX-License-Identifier: Apache-2.0
"""From what is asked for to a verified plan.

`plan` is the whole way. It has three stages, which a caller that shows what goes on may call one by one: `prepare`
traces, costs and sets the limits; `Prepared.schedule` optimises; `Prepared.verified` replays and sums up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.schedule import Objective, Schedule
from poet_profiles.shipped import profile_names

from poet_planner.baselines.store_all import store_all_schedule
from poet_planner.graph.optimizer import PLAIN, Optimizer
from poet_planner.graph.streaming import Streaming
from poet_planner.planning.board_ram import plan_ram_bytes
from poet_planner.planning.card_form import ABOVE_BYTES, STREAMED, CardForms
from poet_planner.planning.flash import refuse_beyond_flash
from poet_planner.planning.inference import plan_inference
from poet_planner.planning.memory_policy import (
    Forms,
    Gradients,
    Parameters,
    Residency,
    choose_residents,
)
from poet_planner.planning.task import (
    ModelOnBoard,
    Profiles,
    Task,
    refuse_beside_a_graph,
    task_from_graph,
    without_paging,
)
from poet_planner.report.quantities import deadline_s, ram_bytes, size_bytes
from poet_planner.report.summary import MoreRam, Summary, summarise
from poet_planner.schedule.c_headers import why_no_headers
from poet_planner.schedule.inference import Inference
from poet_planner.schedule.verify import verify

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from poet_runtime.program import Program

    from poet_planner.models import Model
    from poet_planner.solve import OptimiseOptions, Statistics

PROGRAM_FILE = "program.json"
INFERENCE_FOLDER = "inference"

Policy = TypeVar("Policy", bound=StrEnum)


@dataclass(frozen=True)
class Plan:
    """A schedule that has been verified, and what it is worth.

    Attributes
    ----------
    graph : Graph
        What was planned, with its costs.
    schedule : Schedule
        The steps of the training step, with static offsets.
    store_all : Schedule
        The store-all schedule, to compare with: no recomputation, no paging, in as much RAM as it needs.
    summary : Summary
        Energy, time and RAM of both, the bound, and what the costs rest on.
    residency : Residency
        What is resident in RAM, or is not counted there, and why.
    why_no_headers : str or None
        What keeps the firmware from running the graph; None where it can.
    constants : mapping of str to array
        The data of the graph's constants, and frozen tensors of the model beside them, by id.
    program : Program or None
        What PyTorch runs of it, for a Linux board.
    why_no_program : str or None
        What keeps the program from being written to a file; None where it can.
    names : mapping of str to array
        By which a board's tensors become the model's `state_dict`; empty of a plan of a graph alone.
    inference : Inference or None
        A forward pass of one sample beside it, in the same RAM.
    why_no_inference : str or None
        What keeps there from being one; None where there is.
    """

    graph: Graph
    schedule: Schedule
    store_all: Schedule
    summary: Summary
    residency: Residency
    why_no_headers: str | None
    constants: Mapping[str, NDArray[Any]]
    program: Program | None = None
    why_no_program: str | None = None
    names: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    inference: Inference | None = None
    why_no_inference: str | None = None

    def write(self, folder: str | Path, time_to_scale: bool = False, svg: bool = False) -> None:
        """Write ``graph.json``, ``schedule.json``, C headers if there can be any, ``summary.json``, and pictures.

        A graph with constants has their data beside it, ``constants.safetensors``, one of a model its names,
        ``state_dict.npz``, and one for a Linux board its operators, ``program.json``. Graph and schedule of an
        inference are in the folder ``inference``. Headers, program, inference and pictures of an earlier plan are
        removed. Each file is written whole or not at all.

        Parameters
        ----------
        time_to_scale : bool
            Whether equal times are equally long in the picture of the schedule; or else each step has one row.
        svg : bool
            Whether the pictures are written as SVG, too.

        Raises
        ------
        UserError
            If the folder cannot be written, or the graph is too large for the headers' tables.
        """
        self.write_files(folder)
        self.draw(folder, time_to_scale, svg)

    def draw(self, folder: str | Path, time_to_scale: bool = False, svg: bool = False) -> None:
        """Write the pictures alone: see `write`."""
        from poet_planner.report.pictures import write_pictures

        write_pictures(self.graph, self.schedule, self.store_all, Path(folder), time_to_scale, svg)

    def write_files(self, folder: str | Path) -> None:
        """Write all but the pictures: see `write`."""
        import json

        from poet_profiles.constants import write_constants
        from poet_profiles.graph.file import write_graph
        from poet_profiles.schedule.file import write_schedule
        from poet_profiles.state_names import write_names
        from poet_profiles.whole_file import write_whole

        from poet_planner.report.pictures import remove_pictures
        from poet_planner.schedule.c_headers import remove_headers, write_headers

        folder = Path(folder)
        remove_headers(folder)
        remove_pictures(folder)
        constants = {**self.constants, **(self.inference.constants if self.inference else {})}
        write_constants(constants, folder, self.schedule.graph_hash)
        write_names(self.names, folder, self.schedule.graph_hash)
        write_graph(self.graph, folder / "graph.json")
        write_schedule(self.schedule, folder / "schedule.json")
        if self.why_no_headers is None:
            write_headers(self.graph, self.schedule, folder, self.constants, self.inference)
        for name in ("graph.json", "schedule.json"):
            (folder / INFERENCE_FOLDER / name).unlink(missing_ok=True)
        if self.inference is not None:
            (folder / INFERENCE_FOLDER).mkdir(exist_ok=True)
            write_graph(self.inference.graph, folder / INFERENCE_FOLDER / "graph.json")
            write_schedule(self.inference.schedule, folder / INFERENCE_FOLDER / "schedule.json")
        (folder / PROGRAM_FILE).unlink(missing_ok=True)
        if self.program is not None and self.why_no_program is None:
            from poet_runtime.program import write_program

            write_program(self.program, folder / PROGRAM_FILE)
        write_whole(folder / "summary.json", json.dumps(self.summary.document(), indent=1) + "\n")


@dataclass(frozen=True)
class Prepared:
    """A task with its limits.

    Attributes
    ----------
    residency : Residency
        The task, with what is resident in its graph, and the RAM budget.
    store_all : Schedule
        The store-all schedule.
    deadline_s : float or None
        None: no deadline.
    """

    residency: Residency
    store_all: Schedule
    deadline_s: float | None

    @property
    def graph(self) -> Graph:
        return self.residency.task.graph

    @property
    def is_short_of_ram(self) -> bool:
        """Whether the store-all schedule does not fit."""
        return self.store_all.peak_bytes > self.residency.budget_bytes

    def schedule(self, method: str, options: OptimiseOptions) -> Schedule:
        """A schedule within the limits, not verified yet: see `plan`."""
        from poet_planner.planning.methods import method_named

        return method_named(method).schedule(self.graph, self.residency.budget_bytes, self.deadline_s, options)

    def verified(
        self,
        schedule: Schedule,
        statistics: Statistics | None = None,
        endurance_bytes: int | None = None,
        more_ram: MoreRam | None = None,
    ) -> Plan:
        """The plan, once the schedule has been replayed by the contract alone.

        Parameters
        ----------
        statistics : Statistics, optional
            Those that the optimiser was given in its options: they go into the summary.
        endurance_bytes : int, optional
            What may be written to the card in all, for its life in the summary; default is the board file's.
        more_ram : MoreRam, optional
            What a little more RAM would save, for the summary.

        Raises
        ------
        RuntimeError
            If it breaks the contract: a fault of poet's.
        """
        report = verify(self.graph, schedule)
        if not report.sound:
            raise RuntimeError(
                f"the plan of {self.graph.name} breaks the contract, a fault of poet's: {report.faults[0]}"
            )
        residency, store_all = self.residency, self.store_all
        task, excluded_bytes = residency.task, residency.excluded_bytes
        refuse_beyond_flash(self.graph, schedule, task.board)
        inference = plan_inference(task, schedule)
        made, why_no_inference = (None, inference) if isinstance(inference, str) else (inference, None)
        summary = summarise(
            self.graph,
            schedule,
            store_all,
            task.costed,
            excluded_bytes,
            statistics,
            task.board,
            endurance_bytes,
            more_ram,
            made,
        )
        why_none = why_no_headers(self.graph, task.constants)
        program = task.program
        why_no_program = None if program is None else program.why_unwritable()
        return Plan(
            self.graph,
            schedule,
            store_all,
            summary,
            residency,
            why_none,
            task.constants,
            program,
            why_no_program,
            task.names,
            made,
            why_no_inference,
        )


def plan(
    network: Model | Graph | str | Path,
    *,
    profile: Profiles | None = None,
    board: str | None = None,
    batch: int | None = None,
    ram: int | str | None = None,
    deadline: float | str | None = None,
    parameters: str = "auto",
    gradients: str = "auto",
    card_above: int | str | None = None,
    stream_above: int | str | None = None,
    optimizer: Optimizer = PLAIN,
    weights: str | Path | None = None,
    paging: bool = True,
    objective: str | None = None,
    method: str = "optimal",
    options: OptimiseOptions | None = None,
) -> Plan:
    """Plan a training step of least energy, or time, within a RAM budget and a deadline, and verify the plan.

    A `KeyboardInterrupt` while it optimises makes the best schedule so far the plan, if there is one.

    Parameters
    ----------
    network : Model, str, Graph or Path
        What is trained: a model of your own (`poet_planner.Model`: a module, its loss and an example batch), which
        stays as it is; the name of a built-in model, or ``module:callable``; or a graph that has its costs already, as
        an object or as a file (poet-graph/1).
    profile : str or Path, or a sequence of these, optional
        What a model's operators cost: a CSV file, or the name of a shipped profile. Of several each adds what those
        before it lack. A costed graph takes none.
    board : str, optional
        Default is the profile's.
    batch : int, optional
        Samples in a step of a model given by name; default is the model's own.
    ram : int or str, optional
        RAM budget, resident tensors included: bytes; ``"256KB"`` (of 1024 bytes), or ``"50%"`` of the store-all
        schedule's peak. Default is the board's.
    deadline : float or str, optional
        Most time for a step: seconds; ``"800ms"``, or ``"1.5x"`` the store-all schedule's time. Default is none.
    parameters : str
        ``"resident"``: parameters, gradients and optimiser state count in RAM. ``"card"``: larger parameters, and the
        batch, lie on a microcontroller's card. ``"auto"``: in RAM, unless they would not fit there. ``"excluded"``:
        they do not count, as in the POET paper.
    gradients : str
        ``"resident"``: gradients have places of their own in RAM. ``"paged"``: they are values like activations; on a
        Linux board they live until the step ends. ``"auto"``: they are values on a Linux board, and have places on
        others, unless they would not fit or a step is cheaper without.
    card_above : int or str, optional
        The size up to which parameters stay in RAM where others lie on the card: bytes, or ``"2KB"``. Default is what
        makes the step cheaper: 2 KB or 256 bytes.
    stream_above : int or str, optional
        The size up to which parameters on the card are fetched whole; larger ones are read tile by tile. Default is
        what makes the step cheapest: none are, or those above 64, 16 or 4 KB.
    optimizer : Optimizer
        What ends a step on a microcontroller: `poet_planner.Optimizer(momentum=0.9)`; default is gradient descent.
    weights : str or Path, optional
        Those that a model given by name is to have: frozen ones are part of the plan. Default are its own.
    paging : bool
        False: as on a board without storage.
    objective : str, optional
        ``"energy"``, or ``"time"``: the seconds of all computes and transfers together. Default is that of ``options``.
    method : str
        ``"optimal"``, or a baseline of `poet_planner.planning.methods`: ``"store_all"``, ``"poet_ilp"``.
    options : OptimiseOptions, optional
        Time limit, seed, solver, objective, progress. Default is seed 0, HiGHS, energy, and an amount of work that
        takes one core some 7 s, whatever else the computer does.

    Returns
    -------
    Plan
        Verified; `Plan.write` writes it into a folder, for the firmware and for people.

    Raises
    ------
    NoScheduleError
        If no schedule keeps the limits, or none was found in time: it has the smallest RAM and the shortest time that
        would do. A baseline may raise a plain `UserError` with the exit code ``NO_SCHEDULE``.
    UserError
        If something asked for does not exist or does not go together: one line that names it, by the option of
        ``poet-plan``, and says the cure.
    KeyboardInterrupt
        If it comes before there is any schedule.
    """
    from poet_planner.solve import OptimiseOptions, Statistics

    prepared = prepare(
        network,
        profile=profile,
        board=board,
        batch=batch,
        ram=ram,
        deadline=deadline,
        parameters=parameters,
        gradients=gradients,
        card_above=card_above,
        stream_above=stream_above,
        optimizer=optimizer,
        weights=weights,
        paging=paging,
    )
    options = options or OptimiseOptions(capped=False)
    if objective is not None:
        options = replace(options, objective=objective_named(objective))
    if options.statistics is None:
        options = replace(options, statistics=Statistics())
    return prepared.verified(prepared.schedule(method, options), options.statistics)


def prepare(
    network: Model | Graph | str | Path,
    *,
    profile: Profiles | None = None,
    board: str | None = None,
    batch: int | None = None,
    ram: int | str | None = None,
    deadline: float | str | None = None,
    parameters: str = "auto",
    gradients: str = "auto",
    card_above: int | str | None = None,
    stream_above: int | str | None = None,
    optimizer: Optimizer = PLAIN,
    weights: str | Path | None = None,
    paging: bool = True,
) -> Prepared:
    """Trace, cost, choose what is resident, and set the limits: see `plan`."""
    forms = forms_of(network, profile, board, batch, optimizer, paging, card_above, stream_above, weights)
    if ram is None:
        forms.refuse_too_large()
    residency = choose_residents(
        forms,
        _policy(Parameters, parameters, "--parameters"),
        _policy(Gradients, gradients, "--gradients"),
        partial(_budget_bytes, ram=ram),
    )
    if ram is None:
        # The budget may be that of another form of the graph, with fewer values and so with shorter tables.
        own_bytes = _budget_bytes(residency.task, None)
        residency = replace(residency, budget_bytes=min(residency.budget_bytes, own_bytes))
    store_all = store_all_schedule(residency.task.graph)
    refuse_beyond_flash(residency.task.graph, store_all, residency.task.board)
    limit_s = None if deadline is None else deadline_s(deadline, store_all.time_s)
    return Prepared(residency, store_all, limit_s)


def forms_of(
    network: Model | Graph | str | Path,
    profile: Profiles | None = None,
    board: str | None = None,
    batch: int | None = None,
    optimizer: Optimizer = PLAIN,
    paging: bool = True,
    card_above: int | str | None = None,
    stream_above: int | str | None = None,
    weights: str | Path | None = None,
) -> Forms:
    """What makes the task in its forms; parameters are those of `plan`.

    Raises
    ------
    UserError
        As `plan`.
    """
    if isinstance(network, Graph | Path):
        own = None if optimizer.is_plain else optimizer.words
        refuse_beside_a_graph({"--profile": profile, "--batch": batch, own or "--momentum": own, "--weights": weights})
        read = task_from_graph(network, board)
        return Forms(lambda _: _with_paging(read, paging))
    if not profile:
        names = ", ".join(profile_names())
        raise UserError(f"nothing to plan: give --profile (a CSV file, or one of {names}) or --graph; see --help")
    model = ModelOnBoard(network, batch, profile, board, optimizer, None if weights is None else Path(weights))
    why_not_on_card = Forms.why_not_on_card
    if model.has_card and not optimizer.is_plain:
        why_not_on_card = f"{optimizer.words}: the firmware has none for parameters on the card; leave it out"
    return Forms(
        lambda resident_gradients: _with_paging(model.task(resident_gradients), paging),
        (lambda form: model.task(card_above_bytes=form.above_bytes, streaming=form.streaming))
        if model.has_card and paging and optimizer.is_plain
        else None,
        CardForms(
            ABOVE_BYTES if card_above is None else [size_bytes(card_above, "--card-above", "2KB")],
            STREAMED if stream_above is None else [Streaming(size_bytes(stream_above, "--stream-above", "64KB"))],
        ),
        model.refuse_too_large,
        why_not_on_card,
    )


def _with_paging(task: Task, paging: bool) -> Task:
    return task if paging else replace(task, graph=without_paging(task.graph))


def objective_named(name: str) -> Objective:
    """The objective of that name; raises a `UserError` if there is none."""
    return _policy(Objective, name, "--objective")


def _policy(policy: type[Policy], name: str, option: str) -> Policy:
    try:
        return policy(name)
    except ValueError:
        raise UserError(f"{option} {name}: there are {', '.join(policy)}") from None


def _budget_bytes(task: Task, ram: int | str | None) -> int:
    if ram is not None:
        return ram_bytes(ram, store_all_schedule(task.graph).peak_bytes)
    if task.board is None:
        raise UserError("the graph names no board: give the RAM budget, for example --ram 256KB or --ram 50%")
    return plan_ram_bytes(task.board, task.graph)
