# SPDX-License-Identifier: Apache-2.0
"""A training step in a memory layout, with its costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from poet_profiles.boards import Board
from poet_profiles.graph import Graph, Node
from poet_profiles.graph.kept import FEATURE
from poet_profiles.graph.sizes import aligned
from poet_profiles.plan_folder.beside import stored_parts

from poet_planner.graph.layout import Bands, MemoryLayout
from poet_planner.planning.training_graph import TrainingStep

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from poet_runtime.program import Program

    from poet_planner.costs.cost_model import CostedGraph, CostModel
    from poet_planner.graph.streaming import Streaming
    from poet_planner.lowering import LoweredInference

_COUNTED_KINDS = ("input", "target", "loss", "constant")  # without parameters, as in the POET paper


@dataclass(frozen=True)
class CostedStep:
    """What is to be planned."""

    graph: Graph  # with costs, and with what is resident counted
    # Where things lie in it. A graph that was given with its costs says itself where gradients are.
    layout: MemoryLayout
    board: Board | None  # whose RAM it is planned for; None: a graph that names no board
    costed: CostedGraph | None = None  # what the costs rest on, where they come from a profile
    # The data of the graph's constants, by id, and frozen tensors of the model beside them. Empty if it is not known.
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    program: Program | None = None  # what PyTorch runs of it, for a Linux board
    # By which a board's tensors become the model's `state_dict`. Empty if it is not known.
    names: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    excluded_bytes: int = 0  # parameters, gradients and state that are left out of the RAM
    training_step: TrainingStep | None = None  # of the model that it was made of
    costs: CostModel | None = None  # those that its costs come from
    in_tiles: bool = True  # whether what is beside it may be

    def inference(self) -> LoweredInference | None:
        """The inference beside it, with its costs; None without a model or a profile. Raises as `TrainingStep`'s."""
        if self.training_step is None or self.costed is None or self.costs is None:
            return None
        lowered = self.training_step.inference(self.costed.graph, self.layout.streaming)
        stream = lowered.stream
        if stream is not None:
            stream = replace(stream, graph=self.costs.apply(stream.graph).graph)
        return replace(lowered, graph=self.costs.apply(lowered.graph).graph, stream=stream)

    def cut(self, graph: Graph, bands: Bands | None, tiles: int = 1) -> Graph:
        """The graph of what is beside it, in bands or in tiles, with its costs."""
        from poet_planner.lowering.memory.in_place import with_taking_over, without_taking_over
        from poet_planner.lowering.tiles.regions import with_tiles
        from poet_planner.lowering.tiles.rows import with_bands

        assert self.costs is not None
        graph = without_taking_over(graph)
        graph = with_tiles(graph, tiles) if bands is None else with_bands(graph, bands)
        return self.costs.apply(with_taking_over(graph)).graph

    @property
    def is_on_features(self) -> bool:
        """Whether it is a head's step."""
        return any(resident.kind == FEATURE for resident in self.graph.residents) and self.training_step is not None

    def read_cost(self) -> tuple[float, float]:
        """Time and energy of reading a sample's features from the card; 0 where none lie there."""
        on_card = self.training_step is not None and self.training_step.features_on_card
        return self.costs.reading(stored_parts(self.graph)) if on_card and self.costs else (0.0, 0.0)

    def extraction(self, parts: int, streaming: Streaming) -> Graph:
        """What makes features beside a head's step, with its costs: see `TrainingStep.extraction`."""
        assert self.training_step is not None and self.costed is not None and self.costs is not None
        return self.costs.apply(self.training_step.extraction(self.costed.graph, parts, streaming)).graph

    def inference_on_features(self, inference: Graph) -> Graph | None:
        """What the inference beside a head's step makes of features, with its costs; None if there is no such part."""
        assert self.training_step is not None and self.costed is not None and self.costs is not None
        graph = self.training_step.inference_on_features(inference, self.costed.graph)
        return None if graph is None else self.costs.apply(graph).graph


def without_paging(graph: Graph) -> Graph:
    """The same graph on a board without storage: rematerialization alone."""
    nodes = (replace(node, values=tuple(replace(value, page=None) for value in node.values)) for node in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


def without_parameters(graph: Graph) -> Graph:
    """The same graph with parameters, gradients and state in a region of their own, as the POET paper counts RAM.

    It has no residents, so that no firmware takes it for something it could run.
    """
    batch = sum(aligned(r.bytes) for r in graph.residents if r.kind in _COUNTED_KINDS)
    name, nodes = f"{graph.name}, parameters excluded", _statistics_at_once(graph)
    return replace(graph, name=name, nodes=nodes, resident_bytes=batch, residents=(), constants=())


def _statistics_at_once(graph: Graph) -> tuple[Node, ...]:
    """Nodes with every update of running statistics right after what it reads.

    Only a board that runs the step has to keep what they read until its end.
    """
    empty = {value.id for node in graph.nodes for value in node.values if value.bytes == 0}
    updates = [node for node in graph.nodes if node.operation and node.operation.op == "batch_norm_update"]
    if not updates:
        return graph.nodes
    at_once = {node.id: replace(node, inputs=tuple(id for id in node.inputs if id not in empty)) for node in updates}
    nodes = []
    for node in graph.nodes:
        if node.id in at_once:
            continue
        if node.operation is None:
            node = replace(node, inputs=tuple(id for id in node.inputs if id in empty))
        nodes.append(node)
        made = {value.id for value in node.values}
        nodes += [update for update in at_once.values() if made.intersection(update.inputs)]
    return tuple(nodes)
