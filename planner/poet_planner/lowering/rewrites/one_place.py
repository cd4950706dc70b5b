# SPDX-License-Identifier: Apache-2.0
"""A convolution whose kernel is as large as its input, without padding, is a product.

So are its two gradients, and a transposed convolution of one place. A sum goes over channels, rows and columns in the
convolution's order. With groups it is a product each, of one sample.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import torch
from poet_runtime.traced_graph import Blank, Ref, TracedGraph, TracedOperator, View

from poet_planner.lowering.operators.draft import added
from poet_planner.lowering.operators.rules import is_row_major, permuted, reshaped
from poet_planner.lowering.rewrites.rewriting import Rewriting

aten = torch.ops.aten
_FORWARD = aten.convolution.default
_BACKWARD = aten.convolution_backward.default


def with_products(traced: TracedGraph) -> TracedGraph:
    """The same graph with products in the place of such convolutions of row-major tensors."""
    rewriting = _Products(traced)
    return rewriting.by(dict.fromkeys((_FORWARD, _BACKWARD), rewriting.take))


def is_of_one_place(given: dict[str, Any]) -> bool:
    """Whether a convolution, or what computes its gradients, is a product."""
    x, w = given["input"], given["weight"]
    one_by_one = all(extent == 1 for extent in x.shape[2:])
    one = one_by_one if given["transposed"] else x.shape[2:] == w.shape[2:]
    plain = not any(given["padding"]) and not any(given["output_padding"]) and set(given["dilation"]) == {1}
    return one and plain and w.dtype == torch.float32 and (given["groups"] == 1 or x.shape[0] == 1)


class _Products(Rewriting):
    def take(self, operator: TracedOperator, given: dict[str, Any]) -> bool:
        """Rows are samples of a group each; plain weights have a row for each filter."""
        tensors = [given[name] for name in ("input", "weight", "grad_output") if name in given]
        row_major = all(isinstance(one, Blank) or is_row_major(one.shape, one.stride) for one in tensors)
        wanted_x, wanted_w, wanted_bias = given.get("output_mask", (False, False, False))
        if not row_major or not is_of_one_place(given) or wanted_bias:
            return False
        groups, w, transposed = given["groups"], given["weight"], given["transposed"]
        samples = given["input"].shape[0]

        def of_samples(name: str) -> Ref:
            return _matrices(given[name], groups, samples)

        def weights(turned: bool) -> Ref:
            matrices = _matrices(w, groups, w.shape[0] // groups)
            return _turned(matrices) if turned else matrices

        if operator.target is _FORWARD:
            self._product(operator, 0, of_samples("input"), weights(not transposed), given["bias"])
        if wanted_x:
            self._product(operator, 0, of_samples("grad_output"), weights(transposed))
        if wanted_w:
            rows, columns = ("input", "grad_output") if transposed else ("grad_output", "input")
            self._product(operator, 1, _turned(of_samples(rows)), of_samples(columns))
        return True

    def _product(self, operator: TracedOperator, place: int, a: Ref, c: Ref, bias: Ref | None = None) -> None:
        """One of an operator's results; it is read in its own shape."""
        id = operator.outputs[place]
        if id is None:
            return
        whole, shape = self.values[id].shape, (*a.shape[:-1], c.shape[-1])
        made = replace(operator, id=operator.id if place == 0 else added(operator.id, "weight"), kwargs={})
        if bias is not None and len(shape) == 2:
            self.put(replace(made, target=aten.addmm.default, args=(bias, a, c)), id, shape)
        elif bias is not None:
            product = self.emit(operator, "product", shape, aten.matmul.default, a, c)
            rows = reshaped(product, (shape[1], shape[0] * shape[2]))  # of one sample
            self.put(replace(made, target=aten.add.Tensor, args=(rows, bias)), id, rows.shape)
        else:
            self.put(replace(made, target=aten.matmul.default, args=(a, c)), id, shape)
        if self.values[id].shape != whole:
            self.views[id] = View(aten.view.default, (list(whole),))


def _matrices(x: Ref, groups: int, rows: int) -> Ref:
    """One matrix of so many rows, or one a group."""
    columns = prod(x.shape) // groups // rows
    return reshaped(x, (groups, rows, columns) if groups > 1 else (rows, columns))


def _turned(x: Ref) -> Ref:
    *stack, rows, columns = range(len(x.shape))
    return permuted(x, (*stack, columns, rows))
