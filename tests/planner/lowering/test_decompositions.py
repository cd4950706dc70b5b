# SPDX-License-Identifier: Apache-2.0
"""Operators in parts, of drawn shapes: computed by PyTorch, and by the firmware's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_planner.lowering.firmware import in_parts
from poet_planner.lowering.rewrites.decompositions import _Taken
from poet_planner.tracing import trace
from poet_runtime.executor import execute, residents_of
from torch import Tensor, nn

from tests.support import needs
from tests.support.firmware.against_autograd import equals_autograd
from tests.support.firmware.host_operators import Operators
from tests.support.networks import zoo

Form = Callable[[Tensor], Any]
TOLERANCE = 2e-6


def every_other(x: Tensor) -> Tensor:
    return torch.arange(0, 2 * x.shape[1], 2) % x.shape[1]


def backwards(x: Tensor) -> Tensor:
    return torch.arange(x.shape[1] - 1, -1, -1)


def spread(index: Tensor, x: Tensor) -> Tensor:
    return index[None, :, None].expand(x.shape)


def written(write: Callable[[Tensor, Tensor], object]) -> Form:
    """What is left of a tensor after something has written into it."""

    def form(x: Tensor) -> Tensor:
        y = x * 1
        write(y, x)
        return y

    return form


def assigned(y: Tensor, x: Tensor) -> None:
    y[:, 1] = x[:, 0] * 3
    y[:, 1:3] += x[:, :2]
    y[..., 0] *= 2


def put(y: Tensor, x: Tensor) -> None:
    y[:, [0, 2]] = x[:, [1, 0]] * 3


def quantised(x: Tensor) -> Tensor:
    """The nearest row of a table that is trained with it."""
    table = torch.linspace(-1, 1, 5 * x.shape[1]).view(5, -1) * x.mean()
    return F.embedding(torch.cdist(x, table).argmin(1), table) + x


def unpooled(x: Tensor) -> Tensor:
    """With windows that share their maxima, and of signals and volumes."""
    y = F.max_unpool2d(*F.max_pool2d(x, 3, 2, 1, return_indices=True), (3, 3), (2, 2), (1, 1), x.shape[2:])
    rows = F.max_unpool1d(*F.max_pool1d(x[0], 2, return_indices=True), [2], output_size=x.shape[3:])
    volume = F.max_unpool3d(*F.max_pool3d(x[1:], (1, 1, 2), return_indices=True), (1, 1, 2), output_size=x.shape[1:])
    return y.sum() + rows * volume


def norm_without_running(x: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, training=True, eps=1e-11)


OF_THREE: dict[str, Form] = {
    "greatest": lambda x: x.amax(1),
    "greatest of two axes": lambda x: x.amax((0, 2)),
    "least": lambda x: x.amin(-1, keepdim=True),
    "greatest of all": lambda x: x.max(),
    "least of all": lambda x: x.min(),
    "greatest by place": lambda x: x.max(1)[0],
    "least by place": lambda x: x.min(0, keepdim=True)[0],
    "product": lambda x: x.prod(1),
    "running sum": lambda x: x.cumsum(1),
    "running count": lambda x: x * (x > 0).cumsum(1),
    "running log of sums": lambda x: x.logcumsumexp(1),
    "flip": lambda x: x.flip(0, 2),
    "roll": lambda x: x.roll((1, 2), (0, 2)),
    "rot90": lambda x: x.rot90(1, (1, 2)),
    "variance": lambda x: x.var(1),
    "deviation": lambda x: x.std((1, 2)),
    "mean and variance": lambda x: sum(torch.var_mean(x, 1)),
    "mean of axes apart": lambda x: x.mean((0, 2)),
    "norms": lambda x: sum(torch.linalg.vector_norm(x, p, dim=1) for p in (1, 2, 3, float("inf"))),
    "normalised": lambda x: F.normalize(x, dim=1),
    "log of sums": lambda x: x.logsumexp(1),
    "softmax along another axis": lambda x: x.softmax(1),
    "log softmax along another axis": lambda x: x.log_softmax(0),
    "linear upsampling": lambda x: F.interpolate(x, scale_factor=2, mode="linear"),
    "nearest upsampling": lambda x: F.interpolate(x, 7),
    "reflected": lambda x: F.pad(x, (1, 2), mode="reflect"),
    "padded by a number": lambda x: F.pad(x, (1, 2), value=3.0),
    "padded and cut": lambda x: F.pad(x, (-1, 2)),
    "uneven means": lambda x: F.adaptive_avg_pool1d(x, 2),
    "uneven maxima": lambda x: F.adaptive_max_pool1d(x, 2),
    "maxima of the last windows": lambda x: F.max_pool1d(x, 2, 2, ceil_mode=True),
    "means of the last windows": lambda x: F.avg_pool1d(x, 3, 2, ceil_mode=True),
    "rows by number": lambda x: x.index_select(1, every_other(x)),
    "rows by list": lambda x: x[:, every_other(x)],
    "elements by list": lambda x: x[[0, 1], [1, 0]],
    "gathered": lambda x: x.gather(1, spread(every_other(x), x)),
    "gathered by place": lambda x: x.gather(1, x.argmax(1, keepdim=True)),
    "marked by place": lambda x: x * F.one_hot(x.argmin(-1), x.shape[-1]),
    "added by number": lambda x: torch.zeros_like(x).index_add(1, every_other(x), x),
    "copied by number": lambda x: torch.zeros_like(x).index_copy(1, backwards(x), x),
    "filled by number": lambda x: x.index_fill(1, backwards(x)[:2], 2.0),
    "scattered": lambda x: torch.zeros_like(x).scatter(1, spread(backwards(x), x), x),
    "scattered and added": lambda x: torch.zeros_like(x).scatter_add(1, spread(every_other(x), x), x),
    "a row replaced": lambda x: x.select_scatter(x[:, 1] * 2, 1, 0),
    "rows replaced": lambda x: x.slice_scatter(x[:, 1:3] * 2, 1, 0, 2),
    "written through views": written(assigned),
    "written by list": written(put),
    "zeros written": written(lambda y, _: y[1:, 0].zero_()),
    "written in place": lambda x: (x * 2).add_(1).mul_(x).clamp_(-1, 1),
    "greatest two": lambda x: x.topk(2, 1)[0],
    "sorted": lambda x: x.sort(1, descending=True)[0],
    "median": lambda x: x.median(1)[0],
    "any": lambda x: x * (x > 0).any(1, keepdim=True) * (x > -2).all(1, keepdim=True),
    "mean of some": lambda x: (x * (x > 0)).sum(1) / (x > 0).sum(1).clamp(min=1),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "diagonals made": lambda x: torch.diag_embed(x[0]),
    "repeated": lambda x: x.repeat(2, 1, 3).repeat_interleave(2, 1),
    "cross product": lambda x: torch.linalg.cross(x[..., :1].expand(-1, -1, 3), x[..., :1].flip(0) + torch.eye(3)[0]),
    "products added": lambda x: torch.addbmm(x[0] @ x[0].T, x, x.mT) + torch.baddbmm(x @ x.mT, x, x.mT, alpha=2).sum(0),
    "bilinear layer": lambda x: F.bilinear(x[0], x[1], torch.ones(x.shape[2], x.shape[2]).tril()[None]),
    "smooth losses": lambda x: F.smooth_l1_loss(x, x.detach() * 0.5) + F.huber_loss(x, x.detach() * 0.7, delta=0.3),
    "log losses": lambda x: F.soft_margin_loss(x, x.detach().sign()) + F.poisson_nll_loss(x, x.detach().abs()),
    "weighted logits": lambda x: F.binary_cross_entropy_with_logits(
        x, x.detach().sigmoid(), pos_weight=torch.linspace(1, 3, x.shape[2])
    ),
    "entropy of each": lambda x: F.binary_cross_entropy(x.sigmoid(), x.detach().sigmoid() * 0.7, reduction="none"),
    "divergence": lambda x: F.kl_div(x.log_softmax(-1), (x.detach() * 0.5).softmax(-1), reduction="batchmean"),
    "cosine": lambda x: F.cosine_similarity(x, x.flip(0) * 0.7 + 0.1, dim=1),
    "margins": lambda x: F.triplet_margin_loss(x[0], x[1], x[1].roll(1, 0)),
    "margin of a ranking": lambda x: F.margin_ranking_loss(x[0], x[1], x[0].sign()),
    "shrunk": lambda x: F.softshrink(x) + F.hardshrink(x) + F.tanhshrink(x) + F.softsign(x),
    "softly shrunk": lambda x: F.logsigmoid(x) + F.celu(x),
    "hyperbolic": lambda x: torch.sinh(x) + torch.cosh(x) + torch.asinh(x) + torch.acosh(x.abs() + 1.5),
    "to other bases": lambda x: torch.log2(x.abs() + 1) + torch.log10(x.abs() + 1) + torch.exp2(x),
    "whole parts": lambda x: torch.trunc(x) * x + torch.frac(x) + torch.tan(x) + torch.hypot(x, x.flip(0) + 3),
    "order": lambda x: x.kthvalue(2, 1)[0] + x[0, 0].median(),
    "log of shares": lambda x: torch.logit(x.sigmoid()) + torch.logit(x.sigmoid(), 0.4),
    "numbers first": lambda x: torch.sub(1, x) * torch.true_divide(1, x * x + 1) + torch.atanh(x.tanh()) * x.fmod(0.3),
    "margins of classes": lambda x: F.multi_margin_loss(
        x[0], torch.arange(x.shape[1]) % 3, p=2, margin=0.7, weight=torch.linspace(1, 2, x.shape[2]), reduction="none"
    ),
    "margins of labels": lambda x: F.multilabel_margin_loss(
        x[0], torch.tensor([2, 0, -1, 1, 1])[: x.shape[2]].repeat(x.shape[1], 1), reduction="sum"
    ),
    "masked softmax": lambda x: (x @ x.mT).masked_fill((x @ x.mT).detach().triu(1) > 0, -1e9).softmax(-1),
}  # fmt: skip
OF_FOUR: dict[str, Form] = {
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bilinear, corners aligned": lambda x: F.interpolate(x, (7, 5), mode="bilinear", align_corners=True),
    "bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "nearest": lambda x: F.interpolate(x, (7, 5)) + F.interpolate(x, (7, 5), mode="nearest-exact"),
    "area": lambda x: F.interpolate(x, (3, 2), mode="area"),
    "reflected": lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"),
    "replicated": lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"),
    "around": lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"),
    "uneven means": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "uneven maxima": lambda x: F.adaptive_max_pool2d(x, (3, 2)),
    "means without padding": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "means of the last windows": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "sums of windows": lambda x: F.avg_pool2d(x, 3, 2, divisor_override=4),
    "maxima of the last windows": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "dilated maxima": lambda x: F.max_pool2d(x, 2, 1, dilation=2),
    "places of maxima": lambda x: F.max_pool2d(x, 2) * F.max_pool2d(x, 2, return_indices=True)[1],
    "unpooled": unpooled,
    "windows as columns": lambda x: F.fold(F.unfold(x, 2, padding=1) * 2, x.shape[-2:], 2, padding=1),
    "pixels shuffled": lambda x: F.pixel_shuffle(torch.cat([x] * 4, 1), 2),
    "volumes": lambda x: F.avg_pool3d(x, 2) + F.max_pool3d(x, 2),
    "norms": lambda x: F.instance_norm(x) + F.layer_norm(x, x.shape[2:], eps=1e-12) + norm_without_running(x),
}
SQUARE: dict[str, Form] = {
    "triangles": lambda x: x.tril() + x.triu(1),
    "diagonal": lambda x: x.diagonal() * x.trace() + x.diagonal_scatter(x.sum(0)),
    "diagonal filled": written(lambda y, _: y.fill_diagonal_(2.0)),
    "distances": lambda x: torch.cdist(x, x.flip(0) * 0.7),
    "nearest of a table": quantised,
    "rows": lambda x: torch.outer(x[0], x @ x[1]) + torch.kron(x, x[:1])[:, :1],
}
DRAWN = [
    *((form, st.tuples(*[st.integers(3, 5)] * 3), name) for name, form in OF_THREE.items()),
    *((form, st.tuples(*[st.integers(4, 6)] * 4), name) for name, form in OF_FOUR.items()),
    *((form, st.integers(3, 5).map(lambda n: (n, n)), name) for name, form in SQUARE.items()),
]


class Scaled(nn.Module):
    """A form of what a trained factor has scaled."""

    def __init__(self, form: Form, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.factor = nn.Parameter(1 + 0.1 * torch.randn(shape))
        self.form = form

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.form(x * self.factor)
        return y


def squares(y: Tensor, target: Tensor) -> Tensor:
    return ((y - target) ** 2).mean()


def in_parts_is_the_same(module: nn.Module, *inputs: Tensor) -> None:
    target = torch.randn(module(*inputs).shape)
    traced = trace(module, inputs, (target,), squares, "form")
    parts = in_parts(traced)
    taken = _Taken(parts)
    assert [str(one.target) for one in parts.operators if not taken._has_a_way(one)] == []
    given, found = (execute(one, residents_of(one, module, inputs, (target,))) for one in (traced, parts))
    pairs = [(given.loss, found.loss)]
    pairs += [(given.gradients[name], found.gradients[name]) for name in given.gradients]
    pairs += [(given.buffers[name], found.buffers[name]) for name in given.buffers]
    for one, other in pairs:
        assert (one - other).abs().max() <= TOLERANCE * one.abs().max()


@pytest.mark.parametrize(("form", "shapes", "name"), DRAWN, ids=[name for *_, name in DRAWN])
def test_parts_compute_the_same(form: Form, shapes: st.SearchStrategy[tuple[int, ...]], name: str) -> None:
    @given(shapes, st.integers(0, 999))
    @settings(max_examples=2, deadline=None)
    def check(shape: tuple[int, ...], seed: int) -> None:
        torch.manual_seed(seed)
        in_parts_is_the_same(Scaled(form, shape), torch.randn(shape))

    check()


def test_a_batch_norm_that_is_used_twice_leaves_its_statistics() -> None:
    in_parts_is_the_same(zoo.ZOO["shared batch norm"]().module, zoo.ZOO["shared batch norm"]().inputs[0])


def test_labels_are_compared() -> None:
    class Some(nn.Linear):
        def __init__(self) -> None:
            super().__init__(3, 2)
            self.table = nn.Parameter(torch.randn(5, 3))

        def forward(self, x: Tensor) -> Tensor:
            rows = super().forward(self.table[x])
            return rows * (x != -100)[:, None] + rows.cos() * (x >= 2)[:, None]

    in_parts_is_the_same(Some(), torch.tensor([2, 0, 1, 3]))


BY_KERNELS = [
    *("flip", "roll", "running sum", "softmax along another axis"),
    *("log softmax along another axis", "linear upsampling", "nearest upsampling", "reflected", "padded and cut"),
    *("uneven means", "means of the last windows", "rows by number", "rows by list", "gathered", "unfold"),
    *("added by number", "scattered and added", "mean of axes apart", "bilinear", "bicubic", "replicated"),
    *("means without padding", "sums of windows", "windows as columns", "pixels shuffled"),
    *("gathered by place", "places of maxima", "unpooled"),
]


@needs.gcc
@pytest.mark.parametrize("name", BY_KERNELS)
def test_parts_by_the_firmware(operators: Operators, name: str) -> None:
    shape = (2, 4, 3) if name in OF_THREE else (2, 4, 6, 5)
    torch.manual_seed(3)
    equals_autograd(Scaled((OF_THREE | OF_FOUR)[name], shape), torch.randn(shape), operators)
