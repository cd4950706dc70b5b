# SPDX-License-Identifier: Apache-2.0
"""The training graph of a model for a board, not costed yet."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poet_profiles.boards import Board
from poet_profiles.errors import FaultError, UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.kept import kept_constants
from poet_profiles.graph.validation import check_graph

from poet_planner.graph.layout import GRADIENTS_RESIDENT, MemoryLayout
from poet_planner.graph.optimizer import PLAIN, Optimizer
from poet_planner.graph.streaming import FETCHED_WHOLE, Streaming
from poet_planner.planning.calibration import Calibration

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from poet_runtime.program import Program
    from poet_runtime.traced_graph import TracedGraph

    from poet_planner.features.cut import Cut
    from poet_planner.lowering import LoweredInference
    from poet_planner.lowering.rewrites.over_time import Stream
    from poet_planner.models import Model
    from poet_planner.tracing.capture import Way


class TrainingStep:
    """A model's training step: traced once, when that is first wanted, and lowered for any board.

    Parameters
    ----------
    model : str or Model
        Name of a built-in model, ``module:callable``, or the model itself, which stays as it is.
    batch : int, optional
        Samples in a step of a named model; default is the model's own.
    weights : Path, optional
        Of a named model; default are those that it is made with.
    micro_batches : int
        In how many parts a batch is to go through it, of which the model has one.
    whole : TrainingStep, optional
        The step on the whole batch, where the model has a part of it.
    calibration : Calibration, optional
        Frozen layers are to be on int8, and this has the ranges of their activations.
    segments : int
        In how many segments of their steps recurrent layers are computed.
    stream : int, optional
        The axis of the input along which an inference is to stream, too.

    Raises
    ------
    UserError
        If a batch size is given for a model that comes with its batch, or weights for one that comes with its own.
    """

    def __init__(
        self,
        model: str | Model,
        batch: int | None = None,
        weights: Path | None = None,
        micro_batches: int = 1,
        whole: TrainingStep | None = None,
        calibration: Calibration | None = None,
        segments: int = 1,
        stream: int | None = None,
    ) -> None:
        if not isinstance(model, str):
            for option, given, what in (("--batch", batch, "batch"), ("--weights", weights, "weights")):
                if given is not None:
                    raise UserError(f"{option} {given}: the model {model.name} comes with its own {what}; leave it out")
        self._model = model
        self._batch = batch
        self._weights = weights
        self._micro_batches = micro_batches
        self._whole = whole
        self._calibration = calibration
        self._segments = segments
        self._stream = stream
        self._in_segments: dict[int, TrainingStep] = {}
        self.alike: TrainingStep | None = None  # on the same batch, in the same modes, with its gradients and more
        self._cut: Cut | None = None
        self._uncut: TrainingStep | None = None  # that of the whole step, of which this is the head's
        self._parts: dict[int, TrainingStep] = {}
        self._ways: set[Way] = set()  # of its parts, and of itself
        self._as_values: dict[tuple[bool, Optimizer, int | None], Graph] = {}
        self._plain: dict[bool, Graph] = {}

    @property
    def on_int8(self) -> bool:
        """Whether frozen layers are to be on int8."""
        return self._calibration is not None

    @property
    def int8_samples(self) -> int | None:
        """How many samples the ranges of `int8_ranges` are from; None: there are none."""
        step = self.whole
        return None if step._calibration is None else step._calibration.samples(step.traced, step._model)

    @property
    def whole(self) -> TrainingStep:
        """The step on the whole batch."""
        return self._whole or self

    @property
    def name(self) -> str:
        return self._model if isinstance(self._model, str) else self._model.name

    @property
    def model(self) -> Model:
        """The model; a named one is made anew."""
        return self._load()

    @cached_property
    def samples(self) -> int:
        """Samples in a batch of the model."""
        from poet_planner.tracing.micro_batches import samples_of

        return samples_of(self._load())

    def in_micro_batches(self, count: int) -> TrainingStep:
        """The step on one of so many equal parts of its batch.

        Raises
        ------
        UserError
            If there are no such parts, or their gradients do not add up to the batch's.
        """
        from poet_planner.tracing.micro_batches import micro_batch

        if count == 1:
            return self
        if count not in self._parts:
            part = micro_batch(self._load(), self.traced, count, self._known_divisor(count))
            self._parts[count] = TrainingStep(part, micro_batches=count, whole=self)
        return self._parts[count]

    def _known_divisor(self, count: int) -> int | None:
        """What the loss of a part is divided by, if a step with all of this one's gradients says it."""
        from poet_planner.tracing.capture import Share

        if self.alike is None:
            return None
        try:
            loss = self.alike.in_micro_batches(count).model.loss
        except UserError:
            return None  # perhaps for a gradient that this step has not
        return loss.divisor if isinstance(loss, Share) else 1

    def in_segments(self, count: int) -> TrainingStep:
        """The step with recurrent layers in so many segments of their steps."""
        if count == 1:
            return self
        if count not in self._in_segments:
            self._in_segments[count] = TrainingStep(
                self._model,
                self._batch,
                self._weights,
                self._micro_batches,
                whole=self.whole,
                segments=count,
            )
        return self._in_segments[count]

    def on_features(self, cut: Cut) -> TrainingStep:
        """The head's step, on what a cut keeps of each sample."""
        step = TrainingStep(self._model, self._batch, self._weights, calibration=self._calibration, stream=self._stream)
        step._cut, step._uncut = cut, self
        return step

    @property
    def features_on_card(self) -> bool:
        """Whether a head's step has features on the card."""
        return self._cut is not None and self._cut.on_card

    def extraction(self, head: Graph, parts: int = 1, streaming: Streaming = FETCHED_WHOLE) -> Graph:
        """What makes the features of a batch, or of one of so many equal parts of it, beside the head's graph.

        Those of a part lie where the first samples of the batch have theirs; so does what they are made of.
        ``streaming`` says which constants on the card are read tile by tile.

        Raises
        ------
        UserError
            If there are no such parts, or operators read what lies on the card otherwise than the head does.
        """
        from poet_planner.features.parts import features_of
        from poet_planner.lowering import with_taking_over
        from poet_planner.lowering.memory.card import with_kept_constants

        assert self._cut is not None and self._uncut is not None
        whole = self._uncut.plain(head.dma)
        part = self._uncut.in_micro_batches(parts).plain(head.dma)
        if part.constants != whole.constants or not self._cut.once <= {node.id for node in part.nodes}:
            raise UserError(f"features: {parts} parts of a batch are not computed as the whole is")
        graph = features_of(part, self._cut, head)
        if head.kept:
            graph = with_kept_constants(graph, {kept.id: kept for kept in head.kept}, streaming)
        if graph.kept != head.kept:
            raise UserError("features: a frozen tensor on the card is read by rows and as a whole")
        graph = with_taking_over(graph)
        self._check(graph)
        return graph

    def inference_on_features(self, inference: Graph, head: Graph) -> Graph | None:
        """What an inference beside the head's step makes of features; None if it makes them otherwise than the step."""
        from poet_planner.features.parts import inference_on_features, makes_alike
        from poet_planner.lowering import lower_inference

        assert self._cut is not None and self._uncut is not None
        whole = self._uncut.plain(head.dma)
        data = self.constants(whole)
        alone = lower_inference(self.forward, whole, data)
        data = {**data, **alone.data}

        def contents(id: str) -> object:
            return (data[id].dtype.str, data[id].tobytes()) if id in data else id

        if not makes_alike(alone.graph, whole, self._cut, contents):
            return None
        graph = inference_on_features(inference, self._cut, head)
        if graph is not None:
            self._check(graph)
        return graph

    def plain(self, dma: bool) -> Graph:
        """In the firmware's operators, with plain gradient descent; lowered once."""
        from poet_planner.lowering import lower_for_firmware

        if dma not in self._plain:
            self._plain[dma] = lower_for_firmware(self.traced, dma)
        return self._plain[dma]

    def in_ram(self, dma: bool, resident_gradients: bool, optimizer: Optimizer) -> Graph:
        """In the firmware's operators, with parameters in RAM: all of the step, or the head's."""
        from poet_planner.lowering import lower_for_firmware

        graph = lower_for_firmware(self.traced, dma, resident_gradients, optimizer, self._micro_batches)
        if self._cut is None:
            return graph
        from poet_planner.features.parts import head_of

        return head_of(graph, self._cut)

    def graph(self, board: Board, optimizer: Optimizer = PLAIN, layout: MemoryLayout = GRADIENTS_RESIDENT) -> Graph:
        """The step lowered for a board, with what ends it on a microcontroller, in a memory layout.

        Raises
        ------
        UserError
            If there is no such model, or it cannot be traced, or the board has no such layout or optimiser.
        """
        from poet_planner.lowering.for_board import lowered

        graph = lowered(self, board, optimizer, layout)
        self._check(graph)
        return graph

    def _check(self, graph: Graph) -> None:
        try:
            check_graph(graph)
        except FaultError as fault:
            raise UserError(f"{self.name}: poet made a wrong graph of it ({fault}); report this as a bug") from None

    def constants(self, graph: Graph) -> dict[str, NDArray[Any]]:
        """Data of a graph's constants, and of frozen parameters and buffers by their own names, as a board has them.

        What has been folded into another layer is not on the board, but among the weights of the trained model.
        """
        constants = [*(constant.id for constant in graph.constants), *(kept.id for kept in kept_constants(graph))]
        if not constants:
            return {}
        wanted = dict.fromkeys((*constants, *self.traced.frozen))
        return {id: self._constant_data[id] for id in wanted}

    @cached_property
    def _constant_data(self) -> dict[str, NDArray[Any]]:
        from poet_planner.lowering.firmware import constant_data

        return constant_data(self.traced)

    def names(self) -> dict[str, NDArray[Any]]:
        """By which a board's tensors become the model's `state_dict`, and what of that is on no board.

        See :func:`poet_planner.tracing.state_table.unheld_state`.
        """
        return self._traced_and_named[1]

    def inference(self, graph: Graph, streaming: Streaming = FETCHED_WHOLE) -> LoweredInference:
        """A forward pass of one sample in evaluation mode, beside a graph of this step.

        ``streaming`` says what of the card is read tile by tile.

        Raises
        ------
        UserError
            If the module cannot be traced so, its output is not one tensor, or the first axis of inputs and output does
            not count samples.
        """
        from poet_planner.lowering import lower_inference
        from poet_planner.tracing.known_loss import known_loss
        from poet_planner.tracing.traced_loss import traced_loss

        lowered = lower_inference(self.forward, graph, self.constants(graph), streaming)
        try:
            check_graph(lowered.graph)
        except FaultError as fault:
            words = f"poet made a wrong graph of its inference ({fault}); report this as a bug"
            raise UserError(f"{self.name}: {words}") from None
        model = self.whole._load()
        sample = lowered.graph.residents[-1].shape[1:]
        loss = known_loss(model, sample) or traced_loss(model, sample)
        lowered = replace(lowered, loss=loss, classes=tuple(model.classes))
        if self.streamed is None:
            return lowered
        shared = replace(graph, constants=lowered.graph.constants)
        stream = lower_inference(self.streamed.graph, shared, {**self.constants(graph), **lowered.data}, streaming)
        self._check(stream.graph)
        return replace(lowered, stream=replace(stream, calls=self.streamed.calls))

    @cached_property
    def streamed(self) -> Stream | None:
        """The forward pass of the newest columns alone; None if nobody wants it. Raises a `UserError` if it cannot."""
        from poet_planner.lowering.rewrites.over_time import streamed

        if self.whole._stream is None:
            return None
        state = {id: tensor.detach() for id, tensor in self._load().module.state_dict().items()}
        return streamed(self.forward, self.whole._stream, state)

    def program(self, graph: Graph) -> Program:
        """What PyTorch runs of a graph of this step for a Linux board."""
        from poet_runtime.program import Program

        return Program.of_plan(self.rehearsed, graph)

    def in_slices(self, dma: bool, optimizer: Optimizer, above_bytes: int | None) -> Graph:
        """Likewise with gradients as values, those above a size in slices; lowered once."""
        from poet_planner.lowering import with_slices

        key = dma, optimizer, above_bytes
        if key not in self._as_values:
            self._as_values[key] = (
                self.in_ram(dma, False, optimizer)
                if above_bytes is None
                else with_slices(self.in_slices(dma, optimizer, None), above_bytes)
            )
        return self._as_values[key]

    @cached_property
    def traced(self) -> TracedGraph:
        """The step as PyTorch's operators, for no board."""
        return replace(self._traced_and_named[0], int8_ranges=self.int8_ranges)

    @cached_property
    def int8_ranges(self) -> dict[str, tuple[float, float]]:
        """The ranges of what is to be on int8, by id; empty: nothing is asked to be."""
        if self._whole is not None:
            return self._whole.int8_ranges
        if self._calibration is None:
            return {}
        return self._calibration.ranges(self._traced_and_named[0], self._model, self._batch)

    @cached_property
    def _traced_and_named(self) -> tuple[TracedGraph, dict[str, NDArray[Any]]]:
        return self._uncut._traced_and_named if self._uncut is not None else self._trace(self._segments)

    def _trace(self, segments: int) -> tuple[TracedGraph, dict[str, NDArray[Any]]]:
        from poet_planner.tracing import in_eagers_words, trace
        from poet_planner.tracing.same_as_eager import refuse_other_step
        from poet_planner.tracing.state_table import unheld_state

        model = self._load()
        # A part takes the way of the whole step, which was traced over its data.
        data = self._whole is None or not self._whole.traced.shown_by_fakes
        given = model.module, model.inputs, model.targets, model.loss, model.name
        traced = trace(*given, data=data, ways=self.whole._ways, segments=segments)
        with in_eagers_words(model.name, lambda: model.loss(model.module(*model.inputs), *model.targets)):
            refuse_other_step(model, traced)
        return traced, unheld_state(traced, model.module)

    @cached_property
    def forward(self) -> TracedGraph:
        """The forward pass of one sample as PyTorch's operators."""
        from poet_planner.tracing import trace_forward

        model = self._load()
        taken = (resident.id for resident in self.traced.residents)
        forward = trace_forward(model.module, model.inputs, model.name, taken, self._segments)
        if not self.int8_ranges:
            return forward
        frozen = {id: tensor for id, tensor in forward.frozen.items() if id not in self.traced.changed}
        forward = replace(forward, frozen=frozen)
        step = self.whole
        assert step._calibration is not None
        ranges = step._calibration.ranges_beside(forward, step.traced, step._model, step._batch)
        return replace(forward, int8_ranges=ranges)

    @cached_property
    def rehearsed(self) -> TracedGraph:
        """The step as PyTorch runs it, with the storages and temporaries of its kernels, read off a run of it."""
        from poet_runtime.measured_sizes import measured

        from poet_planner.tracing import in_eagers_words
        from poet_planner.tracing.recurrent import recurrent_operators

        model, traced = self._load(), self.traced
        if recurrent_operators(traced):
            traced, _ = self._trace(segments=0)
        with in_eagers_words(model.name, lambda: model.loss(model.module(*model.inputs), *model.targets)):
            return measured(traced, model.module, model.inputs, model.targets)

    def _load(self) -> Model:
        """A named model is made anew: what is kept of it is its graph. Its batch is as `trace` lays it out."""
        from poet_runtime.nested import apart, tensors_in, with_tensors

        from poet_planner import models

        model = self._model
        if isinstance(model, str):
            model = models.load(model, self._batch, weights=self._weights)
        batch = (model.inputs, model.targets)
        inputs, targets = with_tensors(batch, apart(tensors_in(batch), ()))
        return replace(model, inputs=inputs, targets=targets)


@cache
def training_step(
    model: str,
    batch: int | None,
    weights: Path | None = None,
    calibration: Calibration | None = None,
    stream: int | None = None,
) -> TrainingStep:
    """The step of a named model, traced once a process."""
    return TrainingStep(model, batch, weights, calibration=calibration, stream=stream)


def training_graph(model: str, batch: int | None, board: Board) -> Graph:
    """Trace a named model and lower it for a board: see :class:`TrainingStep`."""
    return training_step(model, batch).graph(board)
