# SPDX-License-Identifier: Apache-2.0
"""Views become `strided_copy`, their gradients `strided_copy_backward`: firmware kernels against PyTorch."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from poet_planner.lowering.operators.strided_copies import copied, strided_operator
from poet_runtime.traced_graph import Ref, TracedOperator, View

from tests.support import needs
from tests.support.firmware.host_operators import Operators
from tests.support.levels import examples

aten = torch.ops.aten

pytestmark = needs.gcc


def view_of(draw: st.DrawFn, tensor: torch.Tensor) -> View:
    """Some view operator that fits the tensor."""
    axis = draw(st.integers(0, tensor.dim() - 1))
    extent = tensor.shape[axis]
    other = draw(st.integers(0, tensor.dim() - 1))
    start = draw(st.integers(0, extent - 1))
    return draw(
        st.sampled_from(
            [
                View(aten.transpose.int, (axis, other)),
                View(aten.slice.Tensor, (axis, start, extent, draw(st.integers(1, 3)))),
                View(aten.unsqueeze.default, (axis,)),
                *([View(aten.select.int, (axis, start))] if tensor.dim() > 1 else []),
                *([View(aten.expand.default, ([3, *tensor.shape[1:]],))] if tensor.shape[0] == 1 else []),
            ]
        )
    )


@st.composite
def views(draw: st.DrawFn) -> tuple[torch.Tensor, Ref, torch.Tensor]:
    """A tensor, an operand that looks at it, and what the operand should see."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    tensor = torch.arange(float(np.prod(shape))).reshape(shape)
    seen, chain = tensor, []
    for _ in range(draw(st.integers(0, 4))):
        chain.append(view_of(draw, seen))
        seen = chain[-1].target(seen, *chain[-1].args)
    return tensor, Ref("source", tuple(chain), tuple(seen.shape), seen.stride(), seen.dtype), seen


@settings(max_examples=examples(150), deadline=None)
@given(case=views())
def test_copy_holds_what_the_view_shows(operators: Operators, case: tuple[torch.Tensor, Ref, torch.Tensor]) -> None:
    tensor, view, seen = case
    lowered = copied(view, tensor.shape, "copy")
    assume(lowered is not None)
    assert lowered is not None
    (copy,) = operators.run(lowered.op, lowered.params, [tensor.numpy()])
    assert np.array_equal(copy.view(np.float32), seen.contiguous().numpy().ravel())


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_gradient_of_a_selection_goes_back_to_its_place(
    operators: Operators, shape: list[int], data: st.DataObject
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    index = data.draw(st.integers(0, shape[axis] - 1))
    for target, where in (
        (aten.select_backward.default, (axis, index)),
        (aten.slice_backward.default, (axis, index, shape[axis], 2)),
    ):
        view = torch.empty(shape).select(*where) if len(where) == 2 else aten.slice.Tensor(torch.empty(shape), *where)
        gradient = torch.arange(1.0, view.numel() + 1).reshape(view.shape)
        ref = Ref("gradient", (), tuple(gradient.shape), gradient.stride(), gradient.dtype)
        operator = TracedOperator("back", target, (ref, shape, *where), {}, ("back",), backward=True, module="")
        lowered = strided_operator(operator, gradient.shape)
        assert lowered is not None
        (back,) = operators.run(lowered.op, lowered.params, [gradient.numpy()])
        assert np.array_equal(back.view(np.float32), target(gradient, shape, *where).numpy().ravel())
