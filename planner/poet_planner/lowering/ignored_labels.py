# SPDX-License-Identifier: Apache-2.0
"""No row has an ignored label on a board.

There it ends in an error, so what asks for one, and the count of the others, is known beforehand.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import torch
from poet_runtime.traced_graph import Ref, TracedGraph, TracedOperator

from poet_planner.lowering.rewriting import CLONE, Rewriting

aten = torch.ops.aten
_NLL = aten.nll_loss_forward.default


def with_every_row(traced: TracedGraph) -> TracedGraph:
    """The same graph, in which no label is compared with the ignored one."""
    ignored = {(o.args[1].source, o.args[4]) for o in traced.operators if o.target is _NLL and o.args[4] < 0}
    counting = _Counting(traced, ignored)
    for operator in traced.operators:
        counting.take(operator)
    rewritten = counting.graph()
    read = {ref.source for operator in rewritten.operators for ref in operator.refs}
    return rewritten if read.isdisjoint({*counting.masks, *counting.counts}) else traced


class _Counting(Rewriting):
    """``masks`` are values that are everywhere true, or nowhere; ``counts`` how many rows are."""

    def __init__(self, traced: TracedGraph, ignored: set[tuple[str, Any]]) -> None:
        super().__init__(traced)
        self._ignored = ignored
        self.masks: dict[str, bool] = {}
        self.counts: dict[str, int] = {}

    def take(self, operator: TracedOperator) -> None:
        refs = [one.source if isinstance(one, Ref) else one for one in operator.args]
        mask = self.masks.get(str(refs[0])) if refs else None
        if operator.target is aten.eq.Scalar and tuple(refs) in self._ignored:
            self.masks[self._drop(operator)] = False
        elif operator.target is aten.bitwise_not.default and mask is not None:
            self.masks[self._drop(operator)] = not mask
        elif operator.target is aten.sum.default and mask is not None:
            self.counts[self._drop(operator)] = int(mask) * prod(operator.args[0].shape)
        elif operator.target is aten.masked_fill.Scalar and self.masks.get(str(refs[1])) is False:
            self.operators.append(replace(operator, target=CLONE, args=operator.args[:1]))
        elif operator.target is aten.div.Tensor and refs[1] in self.counts:
            args = (operator.args[0], self.counts[refs[1]])
            self.operators.append(replace(operator, target=aten.div.Scalar, args=args))
        else:
            self.operators.append(operator)

    def _drop(self, operator: TracedOperator) -> str:
        (id,) = operator.values
        del self.values[id]
        return id
