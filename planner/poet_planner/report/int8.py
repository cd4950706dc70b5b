# SPDX-License-Identifier: Apache-2.0
"""What of a plan is on int8, and how far its answers are from those of f32."""

from __future__ import annotations

from dataclasses import dataclass

from poet_profiles.graph import Graph

from poet_planner.report.quantities import bytes_text

_ON_INT8 = ("conv2d_s8", "linear_s8")
_IN_F32 = ("conv2d", "conv2d_relu", "linear", "matmul")
_WEIGHT = 1  # among the operands of all of these


@dataclass(frozen=True)
class Int8Validation:
    """The model's forward pass on samples, frozen layers on int8, beside its own in f32.

    ``score_error`` is the norm of the difference, relative. ``same_answers`` is the share of samples whose highest
    score is the same one, ``right`` and ``right_f32`` those where it is the target's; None where outputs are no scores
    of classes, or targets no classes.
    """

    samples: int
    score_error: float
    same_answers: float | None
    right: float | None
    right_f32: float | None

    def __str__(self) -> str:
        said = f"scores of {self.samples} samples"
        if self.same_answers is not None:
            said += f": same answers for {self.same_answers:.2%}"
        if self.right is not None:
            said += f", right {self.right:.2%} (f32 {self.right_f32:.2%})"
        return said


@dataclass(frozen=True)
class Int8Report:
    """Layers on int8, of all that are frozen; their weights beside f32's; the samples that ranges are from.

    ``samples`` is None where PyTorch quantised the model, ``validation`` where nobody asked.
    """

    layers: int
    frozen_layers: int
    weight_bytes: int
    f32_weight_bytes: int
    samples: int | None
    validation: Int8Validation | None = None

    @property
    def row(self) -> tuple[str, str, str]:
        """For the summary's table."""
        ranges = "as PyTorch quantised them" if self.samples is None else f"ranges from {self.samples} samples"
        weights = f"weights {bytes_text(self.weight_bytes)} (f32 {bytes_text(self.f32_weight_bytes)})"
        return "frozen, int8", f"{self.layers} of {self.frozen_layers} layers", f"{weights}, {ranges}"


def int8_report(graph: Graph, samples: int | None) -> Int8Report | None:
    """Of a graph's nodes, without validation; None if nothing is on int8."""
    constants = {constant.id: constant for constant in graph.constants}
    layers = [
        node.operation
        for node in graph.nodes
        if node.operation and not node.backward and node.operation.op in _ON_INT8 + _IN_F32
        if node.operation.operands[_WEIGHT] in constants
    ]
    on_int8 = [layer for layer in layers if layer.op in _ON_INT8]
    if not on_int8:
        return None
    weights = {layer.operands[_WEIGHT]: constants[layer.operands[_WEIGHT]].bytes for layer in on_int8}
    others = {id: constants[id].bytes for layer in on_int8 for id in layer.operands[_WEIGHT + 1 :] if id in constants}
    elements = sum(weights.values())
    return Int8Report(
        layers=len(on_int8),
        frozen_layers=len(layers),
        weight_bytes=elements + sum(others.values()),
        f32_weight_bytes=4 * elements + sum(others.values()) // 2,  # a bias, where int8 has a start and a scale
        samples=samples,
    )
