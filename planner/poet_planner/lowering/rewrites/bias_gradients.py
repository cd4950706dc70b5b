# SPDX-License-Identifier: Apache-2.0
"""The gradient of a bias, where that of the weight beside it is not wanted, is a sum.

The operator that PyTorch has computes both. The same holds for a transposed convolution, and one of one place, whose
weight gradient the firmware gives without the bias's; and for a batch norm in training of which nobody wants the
input's gradient.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import torch
from poet_runtime.traced_graph import Ref, TracedGraph, TracedOperator

from poet_planner.lowering.operators.draft import added
from poet_planner.lowering.rewrites.one_place import is_of_one_place
from poet_planner.lowering.rewrites.rewriting import Rewriting
from poet_planner.tracing.schema import position

aten = torch.ops.aten
_BATCH_NORM = aten.native_batch_norm_backward.default
_LAYER_NORM = aten.native_layer_norm_backward.default
_CONVOLUTION = aten.convolution_backward.default
_TARGETS = (_CONVOLUTION, _BATCH_NORM, _LAYER_NORM, aten.native_group_norm_backward.default)


def with_sums_of_biases(traced: TracedGraph) -> TracedGraph:
    """The same graph with such gradients as sums of what comes from behind."""
    summing = _Summing(traced)
    return summing.by(dict.fromkeys(_TARGETS, summing.take))


class _Summing(Rewriting):
    def take(self, operator: TracedOperator, given: dict[str, Any]) -> bool:
        """The operator without what is a sum, and that sum."""
        mask, gy = list(given["output_mask"]), operator.args[0]
        of_one_place = operator.target is _CONVOLUTION and is_of_one_place(given)
        if mask[2] and (given.get("transposed") or of_one_place or not any(mask[:2])):
            self._sum(operator, gy, operator.target is _LAYER_NORM)
            mask[2] = False
        elif operator.target is _BATCH_NORM and given["train"] and not mask[0]:
            operator = self._as_in_evaluation(operator, given)
        if any(mask):
            args = list(operator.args)
            args[position(operator.target, "output_mask")] = mask
            outputs = tuple(id if wanted else None for id, wanted in zip(operator.outputs, mask, strict=True))
            self.operators.append(replace(operator, args=tuple(args), outputs=outputs))
        return True

    def _sum(self, operator: TracedOperator, gy: Ref, of_rows: bool) -> None:
        """Of rows, or of channels: then by planes first, so that nothing has to be copied in another order."""
        id = operator.outputs[2]
        assert id is not None
        shape, axes = self.values[id].shape, [*range(len(gy.shape) - len(self.values[id].shape))]
        if not of_rows:
            planes, size = [*range(2, len(gy.shape))], prod(gy.shape[2:])
            axes = [0] if size > 1 else [0, *planes]
            if size > 1:
                gy = self.emit(operator, "mean", gy.shape[:2], aten.mean.dim, gy, planes)
                gy = self.emit(operator, "planes", gy.shape, aten.mul.Tensor, gy, float(size))
        total = replace(operator, id=added(operator.id, "bias"), target=aten.sum.dim_IntList, args=(gy, axes))
        self.put(replace(total, kwargs={}), id, shape)

    def _as_in_evaluation(self, operator: TracedOperator, given: dict[str, Any]) -> TracedOperator:
        """By the batch's statistics as if they were running ones: weight and bias have an operator then."""
        args = list(operator.args)
        invstd, shape = given["save_invstd"], given["save_invstd"].shape
        squared = self.emit(operator, "squared", shape, aten.mul.Tensor, invstd, invstd)
        inverse = self.emit(operator, "inverse", shape, aten.reciprocal.default, squared)
        variance = self.emit(operator, "variance", shape, aten.sub.Tensor, inverse, given["eps"])
        new = {"running_mean": given["save_mean"], "running_var": variance, "train": False}
        for name, value in new.items():
            args[position(operator.target, name)] = value
        return replace(operator, args=tuple(args))
