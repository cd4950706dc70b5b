# SPDX-License-Identifier: Apache-2.0
"""From a module, its loss and an example batch to a planned step (docs/pytorch.md)."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from poet_profiles.files.ram_disk import ram_disk, ram_disk_text
from poet_profiles.graph import Graph
from poet_profiles.graph.file import graph_hash
from poet_profiles.profile import read_profile
from poet_profiles.program.users_code import refuse_lack_of_memory
from poet_profiles.schedule import Action, Objective, Schedule
from poet_runtime.allocator import give_back
from poet_runtime.compiled_step import AnyPager, CompiledStep, compile_steps
from poet_runtime.devices import Cpu, device_named
from poet_runtime.executor import residents_of
from poet_runtime.measured_sizes import measured
from poet_runtime.nested import parts_of
from poet_runtime.pager import Pager
from poet_runtime.pinned_pager import CudaStreams, PinnedPager
from poet_runtime.program import Program
from poet_runtime.traced_graph import TracedGraph
from torch import Tensor, nn, optim

from poet_planner.costs.cost_model import CostModel
from poet_planner.lowering import lower_for_linux
from poet_planner.lowering.linux import STEP_NODE
from poet_planner.models import Model
from poet_planner.planning.bench import profile_path
from poet_planner.planning.costed_step import without_paging
from poet_planner.report.quantities import bytes_text, deadline_s, ram_bytes, time_text
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import NoScheduleError, OptimiseOptions, optimise
from poet_planner.solve.feasibility.minimum_ram import CLOSE
from poet_planner.solve.options import Refused
from poet_planner.torch_step.gradient_layouts import in_parameter_layouts
from poet_planner.torch_step.guard import Guard
from poet_planner.torch_step.inner_optimizer import InnerOptimizer
from poet_planner.torch_step.module_state import ModuleState
from poet_planner.torch_step.profile_here import HOST, costed_here
from poet_planner.torch_step.reads import reads_of
from poet_planner.torch_step.report import Report
from poet_planner.torch_step.slices import AUTO, WHOLE, Slices, Sums, counts_for, first_slice, sums_bytes
from poet_planner.torch_step.step import Planned, PlannedStep
from poet_planner.torch_step.structure import Structure, structure, with_arguments
from poet_planner.torch_step.updating import updating_inside
from poet_planner.torch_step.values import Values
from poet_planner.tracing import in_eagers_words, trace
from poet_planner.tracing.capture import Way, share, without_data
from poet_planner.tracing.micro_batches import common_divisor
from poet_planner.tracing.same_as_eager import Seen, refuse_other_results
from poet_planner.tracing.saved import let_go
from poet_planner.tracing.unfit import refuse_unfit_batch

RETRACE, REFUSE = "retrace", "refuse"
OWN_BYTES = 150 << 20
# Of the work of a plan, for a first one, in which operators are timed.
FIRST_SHARE = 0.3


def compile(
    model: nn.Module,
    loss: Callable[..., Tensor],
    example: Sequence[Any],
    *,
    ram: int | str | None = None,
    deadline: float | str | None = None,
    objective: str | None = None,
    pages: str | Path | None = None,
    profile: str | Path | None = None,
    optimizer: optim.Optimizer | None = None,
    slices: int | str = 1,
    options: OptimiseOptions | None = None,
    on_change: str = RETRACE,
    quiet: bool = False,
) -> PlannedStep:
    """Plan a training step and compile it: a function that stands for a forward and a backward pass.

        step = poet_planner.compile(model, loss, example=(x, y), ram="50%")
        for x, y in loader:
            optimizer.zero_grad()
            value = step(x, y)
            optimizer.step()

    ``step(x, y)`` leaves gradients, buffers and random generators as ``loss(model(x), y).backward()`` would, bit for
    bit, in less memory.

    Parameters
    ----------
    model : nn.Module
        On the CPU, or on one GPU, in the mode that it trains in; it stays as it is.
    loss : callable
        ``loss(model(x), y)`` is the loss, a scalar.
    example : sequence
        A batch: the model's input, and what the loss takes besides. A tuple in the place of either stands for several
        arguments.
    ram : int or str, optional
        What a step may allocate beside parameters, buffers, the batch and the optimiser's state: bytes, ``"1.2GB"``,
        or ``"50%"`` of what the step takes that keeps everything, gradients to its end. Default is no limit.
    deadline : float or str, optional
        Seconds of a step, ``"800ms"``, or ``"1.5x"`` of the step that keeps everything.
    objective : str, optional
        ``"time"`` or ``"energy"``. Default is energy with a ``profile`` of a board, else time.
    pages : str or Path, optional
        A folder on whose disk values may wait; from a GPU, ``"host"``: they wait in the host's memory. Default is to
        recompute only.
    profile : str or Path, optional
        What operators cost, by `poet-harness profile`. Default is to measure them here, and to keep that in the user's
        cache.
    optimizer : torch.optim.Optimizer, optional
        Its updates are taken inside the step, each as soon as may be, and the gradients go at once: call neither
        ``zero_grad()`` nor ``step()``. Parameters, state and schedulers are as with the optimiser's own ``step()``.
    slices : int or str
        In how many equal slices the batch goes through the step, whose gradients are added up as in ``for x, y in
        slices: (loss(model(x), y) / k).backward()``, bit for bit; a loss that is a sum is not divided. ``"auto"``: what
        is quickest within ``ram``.
    options : OptimiseOptions, optional
        Time limit (10 s), seed, solver.
    on_change : str
        What becomes of a call if something that the step reads in Python is not what it was: an attribute, a hook, a
        global. ``"retrace"``, the default, traces the step again; ``"refuse"`` says in one line what has changed.
    quiet : bool
        Whether to say nothing of what came out on standard error.

    Raises
    ------
    NoScheduleError
        If no plan keeps the limits, or none was found.
    UserError
        If the step cannot be traced or the model is none that poet can train; one line says why.
    """
    if objective not in (None, *Objective):
        raise UserError(f"objective {objective!r}: there are {', '.join(Objective)}")
    if not isinstance(example, tuple | list) or not example:
        raise UserError("example: give a tuple of the model's input and what the loss takes besides, (x, y)")
    if on_change not in (RETRACE, REFUSE):
        raise UserError(f"on_change {on_change!r}: there are {RETRACE}, {REFUSE}")
    if slices != AUTO and (type(slices) is not int or slices < 1):
        raise UserError(f"slices {slices!r}: give a whole number, at least 1, or {AUTO!r}")
    if slices != 1 and (optimizer is not None or profile is not None):
        other = "optimizer" if optimizer is not None else "profile"
        why = "its updates wait for all slices" if optimizer is not None else "it has no rows for sums of gradients"
        raise UserError(f"slices: do not go with {other}=, for {why}; leave one of them out")
    aim = Objective(objective or ("energy" if profile else "time"))
    wanted = options or OptimiseOptions(capped=False)
    device = _device(model, example)
    folder = _page_place(pages, device)
    in_ram = ram_disk(folder) if isinstance(folder, Path) else ""
    note = f"pages {ram_disk_text(str(folder), in_ram)}" if in_ram else ""
    if note and not quiet:
        print(f"poet: {note}", file=sys.stderr)
    if optimizer is not None and profile is not None:
        raise UserError("optimizer: the profile of a board has no rows for its updates; leave profile= out")
    inner = None if optimizer is None else InnerOptimizer(optimizer)
    if inner is not None:
        inner.refuse_strangers([part for part in (model, loss) if isinstance(part, nn.Module)])
    planner = _Planner(
        *(model, loss, ram, deadline, replace(wanted, objective=aim, paging=folder is not None), folder, profile),
        *(inner, quiet, device.name, note, slices),
    )
    refuse_unfit_batch(type(model).__name__, parts_of(example).tensors, device.name)
    if not quiet:
        share = "" if ram is None else f"{ram} of "
        limit = f"{share}what an eager step takes" if ram is None or "%" in str(ram) else bytes_text(ram_bytes(ram, 0))
        own = f"about {bytes_text(OWN_BYTES)} for libraries and the search"
        print(f"poet: {type(model).__name__}: compiling needs {limit}, and {own}", file=sys.stderr)
    return PlannedStep(example, planner.planned, (model, loss), retraces=on_change == RETRACE, quiet=quiet)


@dataclass(frozen=True)
class _Beside:
    """What a step allocates beside its values."""

    renewed_bytes: int  # new contents of buffers, beside the old until the step is over; sums of slices' gradients
    states_bytes: int  # at most, of a plan: the generator's states before what draws again

    @classmethod
    def values_of(cls, traced: TracedGraph, sums_bytes: int = 0) -> _Beside:
        renewed = {id for operator in traced.operators for id in operator.updates}
        random = sum(operator.random for operator in traced.operators)
        return cls(
            sum(resident.bytes for resident in traced.residents if resident.id in renewed) + sums_bytes,
            (random + 1) * torch.get_rng_state().nbytes if random and traced.device == "cpu" else 0,
        )


@dataclass
class _Planner:
    """Plans a step for one shape of batches after the other, and again where it is another one now."""

    model: nn.Module
    loss: Callable[..., Tensor]
    ram: int | str | None
    deadline: float | str | None
    options: OptimiseOptions
    folder: Path | str | None
    profile: str | Path | None
    optimizer: InnerOptimizer | None
    quiet: bool
    device: str
    note: str  # of the folder
    slices: int | str
    sums: Sums = field(default_factory=Sums)

    def planned(self, batch: Sequence[Any], known: Sequence[Planned] = (), change: str = "") -> Planned:
        """The step for a batch; given are plans of its shape, and in words why they do not serve any more."""
        try:
            return self._planned(batch, known, change)
        except Exception as error:
            refuse_lack_of_memory(type(self.model).__name__, error)
            raise

    def _planned(self, batch: Sequence[Any], known: Sequence[Planned], change: str) -> Planned:
        started = time.perf_counter()
        inputs, targets = _split(batch)
        slices = known[0].slices if known else WHOLE
        # A step that was traced before is traced again without data: nothing is computed where its plan is kept.
        data = not all(planned.traced.shown_by_fakes for planned in known) if known else self.slices in (1, AUTO)
        ways: set[Way] = set()
        first = first_slice((inputs, targets), slices.count)
        traced = self._traced(first, slices.divisor, data, ways)
        like, needs_data = structure(traced), not traced.shown_by_fakes

        def again(batch: Sequence[Any]) -> TracedGraph:
            return self._traced(first_slice(_split(batch), slices.count), slices.divisor, needs_data, ways)

        values = Values.of(batch, traced, again)
        give_back()
        kept = next((planned for planned in known if (planned.structure, planned.slices) == (like, slices)), None)
        if kept is not None:
            planned = self._kept(kept, traced, *first)
        elif self.slices == 1:
            planned = self._new(traced, like, inputs, targets)
        else:
            if slices.count > 1:
                traced = self._traced((inputs, targets), data=False)
            counts = counts_for((inputs, targets)) if self.slices == AUTO else [int(self.slices)]
            planned = self._quickest(traced, inputs, targets, counts)
        planned.values = values
        if not self.quiet:
            anew = f"{change}: traced again ({time.perf_counter() - started:.1f} s), " if change else ""
            print(f"poet: {traced.name}: {anew}{'plan kept' if kept else planned.report}", file=sys.stderr)
        return planned

    def _traced(
        self, batch: tuple[Any, Any], divisor: int = 1, data: bool = True, ways: set[Way] | None = None
    ) -> TracedGraph:
        name = type(self.model).__name__
        return trace(self.model, *batch, share(self.loss, divisor), name, self.device, data, ways, keeps=True)

    def _quickest(
        self, traced: TracedGraph, inputs: Any, targets: Any, counts: Sequence[int], any_does: bool = False
    ) -> Planned:
        """The quickest plan for as many slices as one of ``counts``, or the first; given is the step on the batch."""
        step = measured(traced, self.model, inputs, targets)
        plain_bytes = _plain_bytes(lower_for_linux(step, dma=False, resident_gradients=False), step)
        found: list[Planned] = []
        lacks: list[NoScheduleError] = []
        why_not = ""
        for count in counts:
            try:
                found.append(self._in_slices(traced, inputs, targets, count, plain_bytes))
            except NoScheduleError as lack:
                lacks.append(lack)
            except UserError as refusal:
                if count in (1, self.slices):
                    raise
                why_not = f"; {refusal}"
                break
            else:
                if any_does or not (found[-1].report.recomputations or found[-1].report.planned_out_bytes):
                    break
        if not found:
            raise min(lacks or [NoScheduleError(why_not)], key=lambda lack: lack.possible_bytes or math.inf).adding(
                why_not
            )
        found.sort(key=lambda planned: planned.report.planned_time_s)
        for other in found[1:]:
            other.close()
        return found[0]

    def _in_slices(self, traced: TracedGraph, inputs: Any, targets: Any, count: int, plain_bytes: int) -> Planned:
        slices = replace(WHOLE, plain_bytes=plain_bytes)
        if count > 1:
            model = Model(traced.name, self.model, inputs, targets, self.loss)
            with device_named(self.device).kept_randomness():
                divisor = common_divisor(f"slices={count}", model, count, traced)
            inputs, targets = first_slice((inputs, targets), count)
            traced = self._traced((inputs, targets), divisor)
            slices = Slices(count, divisor, plain_bytes, sums_bytes(traced))
        return self._new(traced, structure(traced), inputs, targets, slices)

    def _cure(self, traced: TracedGraph, inputs: Any, targets: Any) -> str:
        """How many slices do where the batch does not, as the end of a message; empty where none have been seen to."""
        counts = counts_for((inputs, targets))[1:]
        with suppress(UserError):
            planned = self._quickest(traced, inputs, targets, counts, any_does=True)
            planned.close()
            return f"; slices={planned.slices.count} does"
        return ""

    def _kept(self, planned: Planned, traced: TracedGraph, inputs: Sequence[Any], targets: Sequence[Any]) -> Planned:
        """The plan of a step with other numbers among its arguments: nothing is computed, and nothing allocated."""
        state = ModuleState(traced, self.model, self.loss)
        guard = self._guard(traced, state, inputs, targets, computes=False)
        traced = with_arguments(planned.traced, traced)
        compiled = self._compiled(
            traced, planned.graph, planned.schedule, planned.report.budget_bytes, planned.compiled.pager, planned.slices
        )
        return replace(planned, traced=traced, guard=guard, compiled=compiled, state=state)

    def _new(self, traced: TracedGraph, like: Structure, inputs: Any, targets: Any, slices: Slices = WHOLE) -> Planned:
        name, whole = traced.name, traced
        with in_eagers_words(name, lambda: self.loss(self.model(*inputs), *targets)):
            traced = measured(traced, self.model, inputs, targets)
            residents = residents_of(traced, self.model, inputs, targets)
        traced = in_parameter_layouts(traced, residents)
        state = ModuleState(traced, self.model, self.loss)
        guard = self._guard(traced, state, inputs, targets, computes=True)
        graph = lower_for_linux(traced, dma=self.folder is not None, resident_gradients=False)
        key = graph_hash(graph)
        beside = _Beside.values_of(traced, slices.sums_bytes)
        # A share of the memory is of the example's, whatever the shape of later batches.
        plain_bytes = slices.plain_bytes or _plain_bytes(graph, traced)
        budget = None if self.ram is None else self._budget(plain_bytes)
        updates = self._updates(slices)
        if updates is not None:
            graph, traced = updating_inside(graph, traced, dict(zip(state.ids, state.tensors(), strict=True)), updates)
        first: list[Schedule] = []
        limit_s = None

        def first_plan(graph: Graph) -> CompiledStep | None:
            options = replace(self.options, paging=False, time_limit_s=FIRST_SHARE * self.options.time_limit_s)
            try:
                first.append(self._schedule(graph, store_all_schedule(graph), beside, budget, None, options))
            except NoScheduleError as lack:
                if lack.status is Refused.IMPOSSIBLE and self.folder is None:
                    raise
                return None
            return self._compiled(traced, graph, first[0], budget, None, slices, timed=True, update=_nothing)

        try:
            graph = self._costed(graph, key, traced, residents, first_plan)
            store_all = store_all_schedule(graph)
            limit_s = deadline_s(self.deadline, store_all.time_s * slices.count)
            limit_s = None if limit_s is None else limit_s / slices.count
            rest_s = (1.0 - FIRST_SHARE if first else 1.0) * self.options.time_limit_s
            options = replace(self.options, starts=(*self.options.starts, *first), time_limit_s=rest_s)
            schedule = self._schedule(graph, store_all, beside, budget, limit_s, options)
        except NoScheduleError as lack:
            if budget is None or self.deadline is not None or self.optimizer is not None or self.slices != 1:
                raise
            raise lack.adding(self._cure(whole, inputs, targets)) from None
        with in_eagers_words(name, lambda: self.loss(self.model(*inputs), *targets)):
            self._refuse_other_results(traced, graph, schedule, budget, residents, inputs, targets, slices)
        compiled = self._compiled(traced, graph, schedule, budget, self._pager(schedule), slices)
        report = _report(graph, schedule, store_all.time_s, plain_bytes, compiled, budget, self.note, slices)
        return Planned(traced, like, guard, graph, schedule, compiled, state, report, updates, slices)

    def _updates(self, slices: Slices) -> InnerOptimizer | Sums | None:
        return self.sums if slices.count > 1 else self.optimizer

    def _refuse_other_results(
        self,
        traced: TracedGraph,
        graph: Graph,
        schedule: Schedule,
        budget: int | None,
        residents: dict[str, Tensor],
        inputs: Sequence[Any],
        targets: Sequence[Any],
        slices: Slices,
    ) -> None:
        """Compare the plan with eager PyTorch, which holds so much that it keeps within the budget, too."""
        limit_bytes = math.inf
        if budget is not None and traced.device == "cpu":
            gradients = sum(traced.values[ref.source].bytes for ref in traced.gradients.values())
            largest = max(_needs(graph).values())
            limit_bytes = max(budget - gradients - largest, largest / 2)
        seen, given = Seen(), (self.model, share(self.loss, slices.divisor), inputs, targets)
        with ExitStack() as until:
            pager = self._pager(schedule)
            if pager is not None:
                until.callback(pager.close)
            compiled = self._compiled(traced, graph, schedule, budget, pager, slices, update=seen)
            refuse_other_results(traced, residents, *given, step=(compiled, seen), limit_bytes=limit_bytes)

    def _guard(
        self, traced: TracedGraph, state: ModuleState, inputs: Sequence[Any], targets: Sequence[Any], computes: bool
    ) -> Guard:
        """Of what one step reads, taken once with its data or without."""

        def run() -> None:
            with let_go([*residents.values(), *state.tensors()]) if traced.lets_go else nullcontext():
                value = self.loss(self.model(*inputs), *targets)
            trained = [tensor for tensor in state.tensors() if tensor.requires_grad]
            torch.autograd.grad(value, trained, allow_unused=True)

        residents = residents_of(traced, self.model, inputs, targets)
        operators = (*traced.operators, *traced.bookkeeping)
        written = {id: residents[id] for operator in operators for id in operator.updates if id in residents}
        apart = None if computes else without_data(self.model, self.loss)
        with in_eagers_words(traced.name, run), device_named(self.device).kept_randomness():
            reads = reads_of(run, (self.model, self.loss, inputs, targets), [*written.values()], apart)
        # A buffer of the loss is no resident, but a constant.
        followed = [*self.model.parameters(), *self.model.buffers(), *traced.loss_parameters.values()]
        followed += traced.constants.values()
        kept = [one for one in traced.kept if one.refs]
        return Guard({"": self.model, "loss": self.loss}, state.slots, followed, reads, kept)

    def _budget(self, plain_bytes: int) -> int:
        assert self.ram is not None
        self.ram = ram_bytes(self.ram, plain_bytes)
        return self.ram

    def _costed(
        self,
        graph: Graph,
        key: str,
        traced: TracedGraph,
        residents: dict[str, Tensor],
        first_plan: Callable[[Graph], CompiledStep | None],
    ) -> Graph:
        if self.profile is None:
            return costed_here(graph, key, traced, residents, self.folder, first_plan)
        rows = read_profile(profile_path(str(self.profile)))
        names = sorted(set(rows["board"]))
        if len(names) != 1:
            found = ", ".join(names) or "no board at all"
            raise UserError(f"profile {self.profile}: holds {found}; give the profile of one board")
        board = load_board(names[0])
        costed = CostModel(rows, board.storage_block_bytes, board.dma_overlap).apply(graph).graph
        return costed if self.folder is not None else without_paging(costed)

    def _schedule(
        self,
        graph: Graph,
        store_all: Schedule,
        beside: _Beside,
        budget: int | None,
        limit_s: float | None,
        options: OptimiseOptions,
    ) -> Schedule:
        """The store-all schedule if it keeps the limits, for nothing takes less; a verified plan otherwise."""
        plain_bytes = store_all.peak_bytes - graph.resident_bytes + beside.renewed_bytes
        fits = budget is None or plain_bytes <= budget
        if fits and (limit_s is None or store_all.time_s <= limit_s):
            return store_all
        if limit_s is not None and limit_s < store_all.time_s:
            raise NoScheduleError(
                f"{graph.name}: no plan takes {time_text(limit_s)}: the step that keeps everything takes "
                f"{time_text(store_all.time_s)}, and none takes less",
                impossible_below_s=store_all.time_s,
                possible_s=store_all.time_s if fits else None,
            )
        base_bytes = graph.resident_bytes - beside.renewed_bytes - beside.states_bytes
        ram = store_all.peak_bytes if budget is None else base_bytes + budget
        try:
            schedule = optimise(graph, ram, limit_s, options)
            give_back()
        except NoScheduleError as lack:
            if budget is None:
                raise
            # A step that keeps everything draws nothing again, and needs no state for that.
            least = plain_bytes
            if lack.possible_bytes is not None:
                least = min(plain_bytes, lack.possible_bytes - base_bytes)
            below = lack.impossible_below_bytes - graph.resident_bytes + beside.renewed_bytes
            within = "" if limit_s is None else f" and takes no more than {time_text(limit_s)}"
            asked, status = f"allocates {bytes_text(budget)} a step{within}", Refused.IMPOSSIBLE
            if budget >= below:
                status = Refused.NO_OFFSETS if lack.status is Refused.NO_OFFSETS else Refused.NOT_FOUND
                asked = (
                    f"that {asked} was found within {self.options.time_limit_s:g} s "
                    "(options=OptimiseOptions(time_limit_s=…) gives it more)"
                )
            words = _too_little(graph, asked, least, below, lack.possible_s)
            raise NoScheduleError(words, status, below, least, lack.impossible_below_s, lack.possible_s) from None
        faults = verify(graph, schedule).faults
        if faults:
            raise RuntimeError(f"the plan of {graph.name} breaks the contract, a fault of poet's: {faults[0]}")
        return schedule

    def _pager(self, schedule: Schedule) -> AnyPager | None:
        """What a schedule needs to page, if it does."""
        if self.folder is None or all(step.do is not Action.PAGE_OUT for step in schedule.steps):
            return None
        return Pager(self.folder) if isinstance(self.folder, Path) else PinnedPager(CudaStreams(self.device))

    def _compiled(
        self,
        traced: TracedGraph,
        graph: Graph,
        schedule: Schedule,
        budget: int | None,
        pager: AnyPager | None,
        slices: Slices,
        timed: bool = False,
        update: Callable[[str, Tensor], None] | None = None,
    ) -> CompiledStep:
        """The step, with the optimiser's updates within, if it has one, or ``update`` in their place."""
        steps = Program.of_plan(traced, graph).steps(schedule.steps)
        updates = self._updates(slices)
        if update is None and updates is not None:
            update = updates.update
        limit_bytes = math.inf if budget is None else budget - slices.sums_bytes
        return compile_steps(traced, steps, pager, timed, limit_bytes, device_named(self.device).marker(), update)


def _device(model: nn.Module, example: Sequence[Any]) -> Cpu:
    """Where the model is; all the rest has to be there, too.

    Raises
    ------
    UserError
        If it is on a GPU that is not there, or elsewhere.
    """
    tensors = (*model.parameters(), *model.buffers(), *parts_of(example).tensors)
    return device_named(str(tensors[0].device)) if tensors and tensors[0].device.type != "meta" else Cpu()


def _page_place(pages: str | Path | None, device: Cpu) -> Path | str | None:
    """A folder on the CPU; pinned memory of its host on a GPU."""
    if pages is None:
        return None
    if device.kind != "cpu":
        if pages != HOST:
            raise UserError(f"pages {pages}: from a GPU, values wait in its host's memory; give pages={HOST!r}")
        return HOST
    folder = Path(pages)
    if not folder.is_dir():
        raise UserError(f"pages {folder}: is no folder; name one on the disk that values may wait on")
    return folder


def _too_little(graph: Graph, asked: str, least: int, below: int, shortest_s: float | None) -> str:
    """No plan, in the words of one who counts what a step allocates: what would do, and what it is that needs it.

    ``asked`` is what no plan does; ``least`` bytes do; less than ``below`` does not, as is proven.
    """
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    results = next((node.inputs for node in graph.nodes if node.id == STEP_NODE), ())
    needs = _needs(graph)
    largest = max(needs, key=lambda id: needs[id])
    message = f"{graph.name}: no plan {asked}"
    smallest = "the smallest that does is " if least <= CLOSE * below else ""
    message += f"; {smallest}{bytes_text(least)}{'' if smallest else ' does'}"
    if shortest_s is not None:
        message += f", or a deadline of {time_text(shortest_s)}"
    return message + (
        f"; what lives to the step's end takes {bytes_text(sum(sizes[id] for id in results))}, and {largest} takes "
        f"{bytes_text(needs[largest])} while it runs"
    )


def _plain_bytes(graph: Graph, traced: TracedGraph) -> int:
    """What a step allocates that keeps everything."""
    held = store_all_schedule(graph).peak_bytes - graph.resident_bytes
    return held + _Beside.values_of(traced).renewed_bytes


def _split(batch: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The arguments of the model, and what the loss takes besides."""
    return _arguments(batch[0]), tuple(value for part in batch[1:] for value in _arguments(part))


def _nothing(*_: object) -> None:
    pass


def _needs(graph: Graph) -> dict[str, int]:
    """Bytes of each operator while it runs."""
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    return {
        node.id: sum(sizes[id] for id in node.inputs) + sum(value.bytes for value in node.values) + node.workspace_bytes
        for node in graph.nodes
        if node.id != STEP_NODE
    }


def _arguments(part: Any) -> tuple[Any, ...]:
    """A tuple stands for several arguments; a named one is a single value."""
    return tuple(part) if isinstance(part, tuple) and not hasattr(part, "_fields") else (part,)


def _report(
    graph: Graph,
    schedule: Schedule,
    plain_time_s: float,
    plain_bytes: int,
    compiled: CompiledStep,
    budget: int | None,
    note: str,
    slices: Slices,
) -> Report:
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    actions = Counter(step.do for step in schedule.steps)
    moved = {
        do: sum(sizes[step.target] for step in schedule.steps if step.do is do)
        for do in (Action.PAGE_OUT, Action.PAGE_IN)
    }
    return Report(
        plain_peak_bytes=plain_bytes,
        plain_time_s=plain_time_s * slices.count,
        budget_bytes=budget,
        planned_peak_bytes=compiled.peak_bytes + slices.sums_bytes,
        planned_time_s=schedule.time_s * slices.count,
        recomputations=(actions[Action.COMPUTE] - len(graph.nodes)) * slices.count,
        planned_out_bytes=moved[Action.PAGE_OUT] * slices.count,
        planned_in_bytes=moved[Action.PAGE_IN] * slices.count,
        gap=schedule.gap,
        bound=(schedule.bound_s if schedule.bound_s is not None else schedule.bound_j) * slices.count,
        note="; ".join(filter(None, (note, compiled.pager.note if compiled.pager is not None else ""))),
        slices=slices.count,
    )
