# SPDX-License-Identifier: Apache-2.0
"""Plans beside a step's, within the same RAM: the inference, and what makes features."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import smallest_ram_bytes
from poet_profiles.plan_folder.beside import Extraction, Inference, PlanBeside, Stream
from poet_profiles.schedule import Schedule

from poet_planner.graph.batch import once_j
from poet_planner.graph.streaming import Streaming
from poet_planner.planning.costed_step import CostedStep, without_paging
from poet_planner.planning.families import LARGER_TILES_BYTES, STREAMED, TILES, bands_of
from poet_planner.schedule.c_headers import why_no_headers
from poet_planner.schedule.flash import refuse_beyond_room
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify

if TYPE_CHECKING:
    from poet_planner.lowering.inference import LoweredInference

SECONDS = 5.0


def plan_inference(step: CostedStep, training: Schedule, extraction: Extraction | None = None) -> Inference | str:
    """The inference beside a training step's schedule, or why there is none.

    Where everything fits at once nothing is cheaper. Otherwise the optimiser has a few seconds. Its inputs have
    places of their own, or share the batch's, or lie where gradients do: in this order, where there is no other way.
    """
    reason = why_no_headers(step.graph, step.constants)
    if reason is not None:
        return reason
    try:
        lowered = step.inference()
        if lowered is None:
            return "a costed graph has no model to make it of"
        from poet_planner.lowering.inference import in_gradients, sharing_inputs

        reason = why_no_headers(lowered.graph, {**step.constants, **lowered.data})
        if reason is not None:
            return reason
        with suppress(UserError):
            return _scheduled(step, lowered, training, extraction)
        has_gradients = any(one.kind == "gradient" for one in step.graph.residents)
        *ways, last = (sharing_inputs, in_gradients)[: 1 + has_gradients]
        for way in ways:
            with suppress(UserError):
                return _scheduled(step, _placed(lowered, step.graph, way), training, extraction)
        return _scheduled(step, _placed(lowered, step.graph, last), training, extraction, in_tiles=step.in_tiles)
    except UserError as refusal:
        return str(refusal).removeprefix(f"{step.graph.name}: ")


def _placed(lowered: LoweredInference, training: Graph, place: Callable[[Graph, Graph], Graph]) -> LoweredInference:
    stream = lowered.stream and replace(lowered.stream, graph=place(lowered.stream.graph, training))
    return replace(lowered, graph=place(lowered.graph, training), stream=stream)


def _scheduled(
    step: CostedStep,
    lowered: LoweredInference,
    training: Schedule,
    extraction: Extraction | None,
    in_tiles: bool = False,
) -> Inference:
    budget_bytes = training.ram_budget_bytes
    graph = _cut(step, _as_paged(step, lowered.graph), budget_bytes, in_tiles)
    schedule, stream, data = _schedule(graph, budget_bytes), None, lowered.data
    if lowered.stream is not None:
        newest = _as_paged(step, lowered.stream.graph)
        stream = Stream(newest, _schedule(newest, budget_bytes), lowered.stream.calls)
        _verify(stream, "the stream")
        data = {**data, **lowered.stream.data}
    inference = Inference(graph, schedule, data, lowered.loss, lowered.classes, stream)
    refuse_beyond_room(step.graph, training, step.board, inference, extraction)
    _verify(inference, "the inference")
    return inference


def _cut(step: CostedStep, graph: Graph, budget_bytes: int, in_tiles: bool) -> Graph:
    """The graph, or where it does not fit the cheapest that does: in bands, as the step is, or in tiles.

    Tiles are for nodes that are too large: what else does not fit may be paged.
    """
    if _fits(graph, budget_bytes):
        return graph
    in_bands = bands_of(graph) if step.layout.bands is not None else []
    ways = [_as_paged(step, step.cut(graph, bands)) for bands in in_bands]
    if in_tiles and smallest_ram_bytes(graph) > budget_bytes:
        ways += [_as_paged(step, step.cut(graph, None, tiles)) for tiles in TILES]
        graph = next((one for one in ways if smallest_ram_bytes(one) <= budget_bytes), graph)
    return min((one for one in ways if _fits(one, budget_bytes)), key=once_j, default=graph)


def with_inference(step: CostedStep, extraction: Extraction, inference: Inference, training: Schedule) -> Extraction:
    """What makes features, with the inference from those of one sample.

    None is added where there is none, or flash has no room for it. It spares a validation the frozen part, which is the
    same after each epoch.
    """
    graph = step.inference_on_features(inference.graph)
    if graph is None:
        return extraction
    graph = _as_paged(step, graph)
    beside = PlanBeside(graph, _schedule(graph, training.ram_budget_bytes))
    _verify(beside, "the inference")
    both = replace(extraction, inference=beside)
    try:
        refuse_beyond_room(step.graph, training, step.board, inference, both)
    except UserError:
        return extraction
    return both


def plan_extraction(step: CostedStep, budget_bytes: int) -> Extraction:
    """What makes features, of as many samples at once as fit.

    So they have the bits of a whole step, and the card is read least. Where not even the fewest fit without paging, the
    optimiser has a few seconds for them.

    Raises
    ------
    UserError
        If there is no such plan.
    """
    assert step.training_step is not None
    samples = step.training_step.samples
    graphs, at_once = _graphs(step, 1), samples
    for fewer in (count for count in range(samples - 1, 0, -1) if samples % count == 0):
        if any(_fits(graph, budget_bytes) for graph in graphs):
            break
        if graphs_of_fewer := _graphs(step, samples // fewer):
            graphs, at_once = graphs_of_fewer, fewer
    graph = min((graph for graph in graphs if _fits(graph, budget_bytes)), key=once_j, default=graphs[0])
    graph = _cut(step, graph, budget_bytes, step.in_tiles)
    extraction = Extraction(graph, _schedule(graph, budget_bytes), samples, at_once, None, *step.read_cost())
    _verify(extraction, "the features")
    return extraction


def _graphs(step: CostedStep, parts: int) -> list[Graph]:
    """In every way to read constants on the card, what needs the least RAM first; none if there are no such parts."""
    try:
        return [_as_paged(step, step.extraction(parts, streaming)) for streaming in _streamed(step)]
    except UserError:
        if parts == 1:
            raise
        return []


def _streamed(step: CostedStep) -> list[Streaming]:
    if not step.graph.kept:
        return [step.layout.streaming]
    tiled = (replace(one, tile_bytes=size) for one in STREAMED[1:] for size in LARGER_TILES_BYTES)
    return [*reversed(STREAMED), *tiled]


def _fits(graph: Graph, budget_bytes: int) -> bool:
    """Without a page."""
    return store_all_schedule(graph).ram_budget_bytes <= budget_bytes


def _as_paged(step: CostedStep, graph: Graph) -> Graph:
    """The graph with pages, if the step's has any."""
    paged = any(value.page for node in step.graph.nodes for value in node.values)
    return graph if paged else without_paging(graph)


def _schedule(graph: Graph, budget_bytes: int) -> Schedule:
    from poet_planner.solve import OptimiseOptions, optimise

    if _fits(graph, budget_bytes):
        return replace(store_all_schedule(graph), ram_budget_bytes=budget_bytes)
    return optimise(graph, budget_bytes, None, OptimiseOptions(time_limit_s=SECONDS, capped=False))


def _verify(beside: PlanBeside, what: str) -> None:
    report = verify(beside.graph, beside.schedule)
    if not report.sound:
        raise RuntimeError(f"{what} of {beside.graph.name} break the contract, a fault of poet's: {report.faults[0]}")
