# SPDX-License-Identifier: Apache-2.0
"""What PyTorch computes for each operator, in double precision, from inputs that a seed gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812
from poet_planner.torch_reference.board_random import kept
from poet_profiles.firmware.operators import OPERATORS
from torch import Tensor

from tests.support.firmware.groups_of_steps import computed
from tests.support.firmware.integer_references import INTEGER_REFERENCES, Operands
from tests.support.firmware.recurrent_references import RECURRENT_REFERENCES

Params = Mapping[str, int]
Array = npt.NDArray[np.generic]
NANO = 1e-9


@dataclass(frozen=True)
class Golden:
    """One golden vector: operands as the firmware takes them, and what it should give."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    learning_rate: float = 0.0


class Draw:
    """Random operands, held as doubles that are exact in single precision."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator).double()

    def labels(self, count: int, classes: int) -> Tensor:
        return torch.randint(classes, (count,), generator=self.generator)


Reference = Callable[[Params, Draw], Golden]


def _array(tensor: Tensor) -> Array:
    array: Array = tensor.detach().numpy()
    return array.astype(np.float32) if tensor.is_floating_point() else array


def _golden(inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], learning_rate: float = 0.0) -> Golden:
    labels = tuple(tensor if tensor.is_floating_point() else tensor.int() for tensor in inputs)
    return Golden(
        tuple(_array(tensor) if tensor.dtype != torch.uint8 else tensor.numpy() for tensor in labels),
        tuple(tensor.detach().numpy() for tensor in outputs),
        learning_rate,
    )


def _convolution(p: Params, draw: Draw) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor]:
    """x, w, b, y and a gradient of y, with autograd recording."""
    x = draw.normal(p["n"], p["c"], p["h"], p["w"]).requires_grad_()
    w = draw.normal(p["k"], p["c"] // p["g"], p["r"], p["s"]).requires_grad_()
    b = draw.normal(p["k"]).requires_grad_() if p["bias"] else None
    y = F.conv2d(x, w, b, (p["sh"], p["sw"]), (p["ph"], p["pw"]), 1, p["g"])
    return x, w, b, y, draw.normal(*y.shape)


def conv2d(p: Params, draw: Draw) -> Golden:
    x, w, b, y, _ = _convolution(p, draw)
    return _golden((x, w) if b is None else (x, w, b), (y,))


def conv2d_relu(p: Params, draw: Draw) -> Golden:
    x, w, b, y, _ = _convolution(p, draw)
    return _golden((x, w) if b is None else (x, w, b), (torch.relu(y),))


def conv2d_backward_input(p: Params, draw: Draw) -> Golden:
    x, w, _, y, gy = _convolution(p, draw)
    return _golden((gy, w), torch.autograd.grad(y, (x,), gy))


def conv2d_backward_weight(p: Params, draw: Draw) -> Golden:
    x, w, b, y, gy = _convolution(p, draw)
    return _golden((gy, x), torch.autograd.grad(y, (w,) if b is None else (w, b), gy))


def linear(p: Params, draw: Draw) -> Golden:
    x, w, b = draw.normal(p["m"], p["k"]), draw.normal(p["n"], p["k"]), draw.normal(p["n"])
    return _golden((x, w, b), (F.linear(x, w, b),)) if p["bias"] else _golden((x, w), (F.linear(x, w),))


def matmul(p: Params, draw: Draw) -> Golden:
    a, c = draw.normal(p["b"], p["m"], p["k"]), draw.normal(p["b"], p["k"], p["n"])
    stored = (a.mT if p["ta"] else a, c.mT if p["tb"] else c)
    return _golden(stored, (a @ c,))


def sum_rows(p: Params, draw: Draw) -> Golden:
    x = draw.normal(p["m"], p["n"])
    return _golden((x,), (x.sum(0),))


def _pooling(p: Params, draw: Draw) -> tuple[Tensor, tuple[int, int], tuple[int, int], tuple[int, int]]:
    x = draw.normal(p["n"], p["c"], p["h"], p["w"]).requires_grad_()
    return x, (p["r"], p["s"]), (p["sh"], p["sw"]), (p["ph"], p["pw"])


def _max_pool2d(p: Params, draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
    """x, y and the firmware's indices: the place in the window rather than PyTorch's place in the plane."""
    x, window, stride, padding = _pooling(p, draw)
    y, place = F.max_pool2d(x, window, stride, padding, return_indices=True)
    row = place // p["w"] - (torch.arange(y.shape[2])[:, None] * p["sh"] - p["ph"])
    column = place % p["w"] - (torch.arange(y.shape[3])[None, :] * p["sw"] - p["pw"])
    return x, y, (row * p["s"] + column).to(torch.uint8)


def max_pool2d(p: Params, draw: Draw) -> Golden:
    x, y, indices = _max_pool2d(p, draw)
    return _golden((x,), (y, indices))


def max_pool2d_infer(p: Params, draw: Draw) -> Golden:
    x, y, _ = _max_pool2d(p, draw)
    return _golden((x,), (y,))


def max_pool2d_backward(p: Params, draw: Draw) -> Golden:
    x, y, indices = _max_pool2d(p, draw)
    gy = draw.normal(*y.shape)
    return Golden((_array(gy), indices.numpy()), (torch.autograd.grad(y, (x,), gy)[0].numpy(),))


def avg_pool2d(p: Params, draw: Draw) -> Golden:
    x, window, stride, padding = _pooling(p, draw)
    return _golden((x,), (F.avg_pool2d(x, window, stride, padding),))


def avg_pool2d_backward(p: Params, draw: Draw) -> Golden:
    x, window, stride, padding = _pooling(p, draw)
    y = F.avg_pool2d(x, window, stride, padding)
    gy = draw.normal(*y.shape)
    return _golden((gy,), torch.autograd.grad(y, (x,), gy))


def nll_loss(p: Params, draw: Draw) -> Golden:
    scores, target = F.log_softmax(draw.normal(p["m"], p["n"]), 1), draw.labels(p["m"], p["n"])
    return _golden((scores, target), (F.nll_loss(scores, target).reshape(1),))


def nll_loss_backward(p: Params, draw: Draw) -> Golden:
    scores, target = draw.normal(p["m"], p["n"]).requires_grad_(), draw.labels(p["m"], p["n"])
    gradient = draw.normal(1)
    loss = F.nll_loss(scores, target).reshape(1)
    return _golden((gradient, target), torch.autograd.grad(loss, (scores,), gradient))


def fill(p: Params, draw: Draw) -> Golden:
    return _golden((), (torch.full((p["size"],), p["value_nano"] * NANO, dtype=torch.float64),))


def sgd(p: Params, draw: Draw) -> Golden:
    weight, gradient = draw.normal(p["size"]), draw.normal(p["size"])
    after = torch.nn.Parameter(weight.clone())
    after.grad = gradient.clone()
    torch.optim.SGD([after], lr=0.125).step()
    return _golden((gradient, weight), (after,), learning_rate=0.125)


def fetch(p: Params, draw: Draw) -> Golden:
    kept = draw.normal(p["size"])
    return _golden((kept,), (kept,))


store = fetch


def commit(p: Params, draw: Draw) -> Golden:
    return Golden((), ())


def _updated(
    p: Params, inputs: tuple[Tensor, ...], weights: tuple[Tensor, ...], gradients: tuple[Tensor, ...]
) -> Golden:
    after = [torch.nn.Parameter(weight.detach().clone()) for weight in weights]
    for parameter, gradient in zip(after, gradients, strict=True):
        parameter.grad = gradient.clone()
    if p.get("clip_f32"):
        torch.nn.utils.clip_grad_value_(after, _float(p["clip_f32"]))
    torch.optim.SGD(after, lr=0.125, weight_decay=_float(p.get("decay_f32", 0))).step()
    return _golden((*inputs, *weights), tuple(after), learning_rate=0.125)


def sgd_update(p: Params, draw: Draw) -> Golden:
    weight, gradient = draw.normal(p["size"]), draw.normal(p["size"])
    return _updated(p, (gradient,), (weight,), (gradient,))


def conv2d_update(p: Params, draw: Draw) -> Golden:
    x, w, b, y, gy = _convolution(p, draw)
    weights = (w,) if b is None else (w, b)
    return _updated(p, (gy, x), weights, torch.autograd.grad(y, weights, gy))


def linear_update(p: Params, draw: Draw) -> Golden:
    x, w, b = draw.normal(p["m"], p["k"]), draw.normal(p["n"], p["k"]), draw.normal(p["n"])
    weights = tuple(weight.requires_grad_() for weight in ((w, b) if p["bias"] else (w,)))
    y = F.linear(x, *weights)
    gy = draw.normal(p["m"], p["n"])
    return _updated(p, (gy, x), weights, torch.autograd.grad(y, weights, gy))


def streamed_linear_backward_input(p: Params, draw: Draw) -> Golden:
    x, w, gy = draw.normal(p["m"], p["k"]).requires_grad_(), draw.normal(p["n"], p["k"]), draw.normal(p["m"], p["n"])
    return _golden((gy, w), torch.autograd.grad(F.linear(x, w), (x,), gy))


def _added(golden: Golden, draw: Draw) -> Golden:
    """The same, added to a sum so far, the third input, of the same signs: so nothing cancels."""
    term = torch.from_numpy(golden.outputs[0])
    so_far = (term * draw.normal(*term.shape).abs()).float().double()
    with_sum = _golden((so_far,), (term + so_far,))
    inputs = (*golden.inputs[:2], *with_sum.inputs, *golden.inputs[2:])
    return replace(golden, inputs=inputs, outputs=with_sum.outputs)


def streamed_embedding_update(p: Params, draw: Draw) -> Golden:
    w, tokens = draw.normal(p["v"], p["d"]).requires_grad_(), draw.labels(p["m"], p["v"])
    gy = draw.normal(p["m"], p["d"])
    return _updated(p, (gy, tokens), (w,), torch.autograd.grad(F.embedding(tokens, w), (w,), gy))


def _batch_norm(p: Params, draw: Draw, eps: float) -> tuple[Tensor, ...]:
    """x, gamma, beta, y, mean and invstd."""
    x = (3 * draw.normal(p["n"], p["c"], p["size"]) + 1).float().double().requires_grad_()
    gamma, beta = draw.normal(p["c"]).requires_grad_(), draw.normal(p["c"]).requires_grad_()
    y, mean, invstd = torch.native_batch_norm(x, gamma, beta, None, None, True, 0.1, eps)
    return x, gamma, beta, y, mean, invstd


def batch_norm(p: Params, draw: Draw) -> Golden:
    x, gamma, beta, y, mean, invstd = _batch_norm(p, draw, p["eps_nano"] * NANO)
    return _golden((x, gamma, beta), (y, mean, invstd))


def batch_norm_backward(p: Params, draw: Draw) -> Golden:
    x, gamma, beta, y, mean, invstd = _batch_norm(p, draw, 1e-5)
    gy = draw.normal(*y.shape)
    return _golden((gy, x, gamma, mean, invstd), torch.autograd.grad(y, (x, gamma, beta), gy))


def batch_norm_update(p: Params, draw: Draw) -> Golden:
    eps = p["eps_nano"] * NANO
    x = 3 * draw.normal(p["count"], p["c"]) + 1
    running_mean, running_variance = draw.normal(p["c"]), draw.normal(p["c"]).square().float().double()
    mean, invstd = x.mean(0), 1 / torch.sqrt(x.var(0, unbiased=False) + eps)
    moved_mean, moved_variance = running_mean.clone(), running_variance.clone()
    F.batch_norm(x, moved_mean, moved_variance, None, None, True, p["momentum_nano"] * NANO, eps)
    return _golden((mean, invstd, running_mean, running_variance), (moved_mean, moved_variance))


def _layer_norm(p: Params, draw: Draw, eps: float) -> tuple[Tensor, ...]:
    """x, gamma, beta, y, mean and invstd."""
    x = (3 * draw.normal(p["m"], p["n"]) + 1).float().double().requires_grad_()
    gamma, beta = draw.normal(p["n"]).requires_grad_(), draw.normal(p["n"]).requires_grad_()
    y, mean, invstd = torch.native_layer_norm(x, (p["n"],), gamma, beta, eps)
    return x, gamma, beta, y, mean, invstd


def _group_norm(p: Params, draw: Draw, eps: float) -> tuple[Tensor, ...]:
    """The same."""
    x = (3 * draw.normal(p["n"], p["c"], p["size"]) + 1).float().double().requires_grad_()
    gamma, beta = draw.normal(p["c"]).requires_grad_(), draw.normal(p["c"]).requires_grad_()
    y, mean, invstd = torch.native_group_norm(x, gamma, beta, p["n"], p["c"], p["size"], p["g"], eps)
    return x, gamma, beta, y, mean, invstd


def _normalising(norm: Callable[[Params, Draw, float], tuple[Tensor, ...]]) -> tuple[Reference, Reference, Reference]:
    """Forward, backward to the input and backward to the weights."""

    def forward(p: Params, draw: Draw) -> Golden:
        x, gamma, beta, y, mean, invstd = norm(p, draw, p["eps_nano"] * NANO)
        return _golden((x, gamma, beta), (y, mean, invstd))

    def backward_input(p: Params, draw: Draw) -> Golden:
        x, gamma, _, y, mean, invstd = norm(p, draw, 1e-5)
        gy = draw.normal(*y.shape)
        return _golden((gy, x, gamma, mean, invstd), torch.autograd.grad(y, (x,), gy))

    def backward_weight(p: Params, draw: Draw) -> Golden:
        x, gamma, beta, y, mean, invstd = norm(p, draw, 1e-5)
        gy = draw.normal(*y.shape)
        return _golden((gy, x, mean, invstd), torch.autograd.grad(y, (gamma, beta), gy))

    return forward, backward_input, backward_weight


layer_norm, layer_norm_backward_input, layer_norm_backward_weight = _normalising(_layer_norm)
group_norm, group_norm_backward_input, group_norm_backward_weight = _normalising(_group_norm)


def embedding(p: Params, draw: Draw) -> Golden:
    w, tokens = draw.normal(p["v"], p["d"]), draw.labels(p["m"], p["v"])
    return _golden((w, tokens), (F.embedding(tokens, w),))


def embedding_backward(p: Params, draw: Draw) -> Golden:
    w, tokens = draw.normal(p["v"], p["d"]).requires_grad_(), draw.labels(p["m"], p["v"])
    gy = draw.normal(p["m"], p["d"])
    return _golden((gy, tokens), torch.autograd.grad(F.embedding(tokens, w), (w,), gy))


def pointwise(p: Params, draw: Draw) -> Golden:
    inputs = tuple(draw.normal(size // 4) for size in OPERATORS["pointwise"].sizes(p).inputs)
    return _golden(inputs, tuple(computed(p, inputs)))


def _gathered(p: Params, draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
    x = draw.normal(p["m"], p["v"], p["size"]).requires_grad_()
    index = draw.labels(p["m"] * p["d"] * p["size"], p["v"]).reshape(p["m"], p["d"], p["size"])
    if p["ignores"]:
        index[:, ::2] = p["ignored"]
    left_out = (index == p["ignored"]) & bool(p["ignores"])
    return x, index, x.gather(1, index.masked_fill(left_out, 0)).masked_fill(left_out, 0.0)


def gather(p: Params, draw: Draw) -> Golden:
    x, index, y = _gathered(p, draw)
    return _golden((x, index), (y,))


def gather_backward(p: Params, draw: Draw) -> Golden:
    x, index, y = _gathered(p, draw)
    gy = draw.normal(*y.shape)
    return _golden((gy, index), torch.autograd.grad(y, (x,), gy))


def add_rows(p: Params, draw: Draw) -> Golden:
    a, b = draw.normal(p["m"], p["n"]), draw.normal(p["n"])
    return _golden((a, b), (a + b,))


def mse_loss(p: Params, draw: Draw) -> Golden:
    x, target = draw.normal(p["size"]), draw.normal(p["size"])
    return _golden((x, target), (F.mse_loss(x, target).reshape(1),))


def mse_loss_backward(p: Params, draw: Draw) -> Golden:
    x, target, gradient = draw.normal(p["size"]).requires_grad_(), draw.normal(p["size"]), draw.normal(1)
    loss = F.mse_loss(x, target).reshape(1)
    return _golden((gradient, x, target), torch.autograd.grad(loss, (x,), gradient))


def sgd_momentum(p: Params, draw: Draw) -> Golden:
    """The second step, whose velocity is not zero."""
    after = torch.nn.Parameter(draw.normal(p["size"]))
    optimiser = torch.optim.SGD([after], lr=0.125, momentum=p["momentum_nano"] * NANO)
    after.grad = draw.normal(p["size"])
    optimiser.step()
    velocity = optimiser.state[after]["momentum_buffer"]
    before = (after.detach().clone(), velocity.clone())
    after.grad = draw.normal(p["size"])
    optimiser.step()
    return _golden((after.grad, *before), (after, velocity), learning_rate=0.125)


def _after(
    optimiser: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer],
    size: int,
    clip_f32: int,
    draw: Draw,
    before: int,
) -> tuple[dict[str, Tensor], Tensor, Tensor, dict[str, Tensor], Tensor]:
    """State and parameter after ``before`` steps, rounded to f32, a gradient, and state and parameter after it."""
    parameter = torch.nn.Parameter(draw.normal(size))
    stepping = optimiser([parameter])
    for _ in range(before):
        parameter.grad = draw.normal(size)
        stepping.step()
    state = stepping.state[parameter]
    with torch.no_grad():
        for tensor in (parameter, *(tensor for tensor in state.values() if tensor is not None and tensor.dim())):
            tensor.copy_(tensor.float().double())
    begin = {name: tensor.clone() for name, tensor in state.items() if tensor is not None}, parameter.detach().clone()
    gradient = draw.normal(size)
    parameter.grad = gradient.clone()
    if clip_f32:
        torch.nn.utils.clip_grad_value_([parameter], _float(clip_f32))
    stepping.step()
    return (*begin, gradient, state, parameter)


def sgd_general(p: Params, draw: Draw) -> Golden:
    """The third step, whose velocity is not zero."""
    options = {"momentum": p["momentum_nano"] * NANO, "weight_decay": _float(p["decay_f32"])}
    stepping = partial(torch.optim.SGD, lr=0.125, nesterov=bool(p["nesterov"]), **options)
    before, weight, gradient, after, parameter = _after(stepping, p["size"], p["clip_f32"], draw, 2)
    has_velocity = p["momentum_nano"] > 0
    velocities = [state["momentum_buffer"] for state in (before, after)] if has_velocity else []
    return _golden((gradient, weight, *velocities[:1]), (parameter, *velocities[1:]), learning_rate=0.125)


def _factors(beta1: float, beta2: float, decay: float, steps: int, rate: float) -> Tensor:
    root = math.sqrt(1 - beta2**steps)
    size = rate * root / (1 - beta1**steps)
    return torch.tensor([size, root, 1 - rate * decay, 1 - beta1, beta2, 1 - beta2], dtype=torch.float64)


def adam_factors(p: Params, draw: Draw) -> Golden:
    steps = int(draw.labels(1, 10 ** int(draw.labels(1, 8))))
    betas = p["beta1_nano"] * NANO, p["beta2_nano"] * NANO
    factors = _factors(*betas, _float(p["decay_f32"]), steps + 1, 0.125)
    return Golden((np.array([steps], np.uint32),), (factors.numpy(),), 0.125)


def adam(p: Params, draw: Draw) -> Golden:
    """The third step; without a decay of gradients, of AdamW."""
    eps, decay = _float(p["eps_f32"]), _float(p["decay_f32"])
    own_decay = 0.0 if decay else 0.25
    stepping = partial(
        torch.optim.Adam if decay else torch.optim.AdamW, lr=0.125, eps=eps, weight_decay=decay or own_decay
    )
    before, weight, gradient, after, parameter = _after(stepping, p["size"], p["clip_f32"], draw, 2)
    averages = [(state["exp_avg"], state["exp_avg_sq"]) for state in (before, after)]
    factors = _factors(0.9, 0.999, own_decay, 3, 0.125)
    return _golden((factors, gradient, weight, *averages[0]), (parameter, *averages[1]), learning_rate=0.125)


def count_steps(p: Params, draw: Draw) -> Golden:
    done = draw.labels(1, 2**31)
    after = np.minimum(done.numpy() + p["steps"], 2**31 - 1).astype(np.uint32)
    return Golden((done.numpy().astype(np.uint32),), (after,))


def _float(bits: int) -> float:
    return float(np.int32(bits).view(np.float32))


def _of_rows(function: Callable[[Tensor, int], Tensor]) -> tuple[Reference, Reference]:
    """Forward and backward of what is computed along each row; backward takes the result."""

    def forward(p: Params, draw: Draw) -> Golden:
        x = 8 * draw.normal(p["m"], p["n"])
        return _golden((x,), (function(x, 1),))

    def backward(p: Params, draw: Draw) -> Golden:
        x, gy = draw.normal(p["m"], p["n"]).requires_grad_(), draw.normal(p["m"], p["n"])
        y = function(x, 1)
        return _golden((gy, y), torch.autograd.grad(y, (x,), gy))

    return forward, backward


softmax, softmax_backward = _of_rows(F.softmax)
log_softmax, log_softmax_backward = _of_rows(F.log_softmax)


def binary_cross_entropy(p: Params, draw: Draw) -> Golden:
    x, target = _probabilities(p, draw)
    return _golden((x, target), (F.binary_cross_entropy(x, target).reshape(1),))


def binary_cross_entropy_backward(p: Params, draw: Draw) -> Golden:
    x, target = _probabilities(p, draw)
    gradient = draw.normal(1)
    loss = F.binary_cross_entropy(x.requires_grad_(), target).reshape(1)
    return _golden((gradient, x, target), torch.autograd.grad(loss, (x,), gradient))


def binary_cross_entropy_with_logits(p: Params, draw: Draw) -> Golden:
    x, target = 8 * draw.normal(p["size"]), draw.labels(p["size"], 2).double()
    return _golden((x, target), (F.binary_cross_entropy_with_logits(x, target).reshape(1),))


def _probabilities(p: Params, draw: Draw) -> tuple[Tensor, Tensor]:
    """Some of them close to 0, and what they should be: 0, 1 or between."""
    x = torch.sigmoid(3 * draw.normal(p["size"])).float().double()
    return x, torch.sigmoid(20 * draw.normal(p["size"])).float().double()


def bernoulli(p: Params, draw: Draw) -> Golden:
    generator = draw.labels(2, 2**31)
    seed, step = generator.tolist()
    return _golden((generator,), (torch.from_numpy(kept(seed, step, p["stream"], p["size"], p["keep_nano"] * NANO)),))


def advance(p: Params, draw: Draw) -> Golden:
    generator = draw.labels(2, 2**31)
    after = np.array([generator[0], generator[1] + p["steps"]], np.int64).astype(np.uint32)
    return Golden((generator.numpy().astype(np.uint32),), (after,))


def _view(p: Params, x: Tensor) -> Tensor:
    """PyTorch has no negative strides: where there is one, the view with the opposite stride, flipped."""
    extents, strides = ([p[f"{name}{axis}"] for axis in range(4)] for name in "ds")
    flipped = [axis for axis, stride in enumerate(strides) if stride < 0]
    start = p["offset"] + sum(strides[axis] * (extents[axis] - 1) for axis in flipped)
    return x.as_strided(extents, [*map(abs, strides)], start).flip(flipped)


def reduce(p: Params, draw: Draw) -> Golden:
    x = draw.normal(p["outer"], p["length"], p["inner"])
    return _golden((x,), (x.prod(1) if p["kind"] else x.amax(1),))


def scan(p: Params, draw: Draw) -> Golden:
    x = draw.normal(p["outer"], p["length"], p["inner"])
    along = (torch.cumsum, torch.logcumsumexp, torch.cumprod)[p["kind"]]
    return _golden((x,), (along(x.flip(1), 1).flip(1) if p["reverse"] else along(x, 1),))


def shift(p: Params, draw: Draw) -> Golden:
    x, held = draw.normal(p["rows"], p["count"]), draw.normal(p["rows"], p["kept"] + p["count"])
    return _golden((x, held), (torch.cat([held, x], 1)[:, p["count"] :],))


def strided_copy(p: Params, draw: Draw) -> Golden:
    x = draw.normal(p["size"])
    return _golden((x,), (_view(p, x).contiguous(),))


def strided_copy_backward(p: Params, draw: Draw) -> Golden:
    x = draw.normal(p["size"]).requires_grad_()
    y = _view(p, x)
    gy = draw.normal(*y.shape)
    return _golden((gy,), torch.autograd.grad(y, (x,), gy))


def _batch_norm_eval(p: Params, draw: Draw) -> tuple[Tensor, ...]:
    """x, gamma, beta, running mean, running variance and y."""
    x = (3 * draw.normal(p["n"], p["c"], p["size"]) + 1).float().double().requires_grad_()
    gamma, beta = draw.normal(p["c"]).requires_grad_(), draw.normal(p["c"]).requires_grad_()
    mean, variance = draw.normal(p["c"]), draw.normal(p["c"]).square().float().double()
    y = F.batch_norm(x, mean, variance, gamma, beta, training=False, eps=p["eps_nano"] * NANO)
    return x, gamma, beta, mean, variance, y


def batch_norm_eval(p: Params, draw: Draw) -> Golden:
    *inputs, y = _batch_norm_eval(p, draw)
    return _golden(tuple(inputs), (y,))


def batch_norm_eval_backward_input(p: Params, draw: Draw) -> Golden:
    x, gamma, _, _, variance, y = _batch_norm_eval(p, draw)
    gy = draw.normal(*y.shape)
    return _golden((gy, gamma, variance), torch.autograd.grad(y, (x,), gy))


def batch_norm_eval_backward_weight(p: Params, draw: Draw) -> Golden:
    x, gamma, beta, mean, variance, y = _batch_norm_eval(p, draw)
    gy = draw.normal(*y.shape)
    return _golden((gy, x, mean, variance), torch.autograd.grad(y, (gamma, beta), gy))


def _of_integers(reference: Callable[[Params, Draw], Operands]) -> Reference:
    def golden(p: Params, draw: Draw) -> Golden:
        inputs, output = reference(p, draw)
        return Golden(tuple(tensor.numpy() for tensor in inputs), (output.numpy(),))

    return golden


def _band(p: Params, draw: Draw) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """x, w, b, the band y of their convolution and a gradient of y; rows beyond the plane's are zeros."""
    x = draw.normal(p["c"], p["h"], p["w"]).requires_grad_()
    w = draw.normal(p["k"], p["c"], p["r"], p["s"]).requires_grad_()
    b = draw.normal(p["k"]).requires_grad_()
    end = p["top"] + (p["rows"] - 1) * p["sh"] + p["r"]
    rows = F.pad(x, (0, 0, -p["top"], end - p["h"]))  # below 0 rows are left out
    y = F.conv2d(rows[None], w, b if p["bias"] else None, (p["sh"], p["sw"]), (0, p["pw"]))[0]
    return x, w, b, y, draw.normal(*y.shape)


def conv2d_rows(p: Params, draw: Draw) -> Golden:
    x, w, b, y, _ = _band(p, draw)
    return _golden((x, w, b) if p["bias"] else (x, w), (y[p["first"] : p["first"] + p["filters"]],))


def conv2d_backward_input_rows(p: Params, draw: Draw) -> Golden:
    x, w, _, y, gy = _band(p, draw)
    return _golden((gy, w), torch.autograd.grad(y, (x,), gy))


def _columns(p: Params) -> slice:
    return slice(p["at"], p["at"] + p["size"])


def matmul_rows(p: Params, draw: Draw) -> Golden:
    a, w = draw.normal(p["k"]), draw.normal(p["k"], p["c"], p["of"])
    return _golden((a, w), (torch.einsum("k,kcs->cs", a, w[..., _columns(p)]),))


def matmul_accumulate_rows(p: Params, draw: Draw) -> Golden:
    a, x, so_far = draw.normal(p["m"]), draw.normal(p["c"], p["size"]), draw.normal(p["m"], p["c"], p["of"])
    made = so_far.clone()
    made[..., _columns(p)] += torch.einsum("m,cs->mcs", a, x)
    return _golden((a, x, so_far), (made,))


def linear_rows(p: Params, draw: Draw) -> Golden:
    x, w, so_far = draw.normal(p["k"]), draw.normal(p["n"], p["of"]), draw.normal(p["n"])
    b = (draw.normal(p["n"]),) if p["bias"] else ()
    return _golden((x, w, so_far, *b), (sum(b, so_far + w[:, p["at"] : p["at"] + p["k"]] @ x),))


def conv2d_backward_weight_rows(p: Params, draw: Draw) -> Golden:
    x, w, b, y, gy = _band(p, draw)
    given = (w, b) if p["bias"] else (w,)
    so_far = tuple(draw.normal(*one.shape) for one in given)
    made = torch.autograd.grad(y, given, gy)
    return _golden((gy, x, *so_far), tuple(one + more for one, more in zip(so_far, made, strict=True)))


def _pooled_band(p: Params, draw: Draw) -> tuple[Tensor, Tensor, Tensor, slice]:
    whole = {**p, "n": 1, "ph": 0, "pw": 0}
    x, y, places = _max_pool2d(whole, draw)
    return x, y[0], places[0], slice(p["at"], p["at"] + y.shape[2])


def max_pool2d_rows(p: Params, draw: Draw) -> Golden:
    x, maxima, places, band = _pooled_band(p, draw)
    y, at = draw.normal(p["c"], p["of"], maxima.shape[2]), draw.labels(p["c"] * p["of"] * maxima.shape[2], 256)
    at = at.to(torch.uint8).reshape(y.shape)
    inputs = (_array(x), _array(y), at.numpy().copy())
    y[:, band], at[:, band] = maxima.detach(), places
    return Golden(inputs, (y.numpy(), at.numpy()))


def max_pool2d_backward_rows(p: Params, draw: Draw) -> Golden:
    x, maxima, places, band = _pooled_band(p, draw)
    gy = draw.normal(p["c"], p["of"], maxima.shape[2])
    at = torch.zeros(gy.shape, dtype=torch.uint8)
    at[:, band] = places
    own = gy[:, band]
    given = own if p["own"] else gy
    return Golden((_array(given), at.numpy()), (torch.autograd.grad(maxima, (x,), own)[0].numpy(),))


def look_up_rows(p: Params, draw: Draw) -> Golden:
    whole = look_up({"size": p["c"] * p["h"] * p["w"]}, draw)
    planes = whole.outputs[0].reshape(p["c"], p["h"], p["w"])
    return Golden(whole.inputs, (planes[:, p["top"] : p["top"] + p["rows"]],))


def look_up(p: Params, draw: Draw) -> Golden:
    """The numbers of a table have no rounding."""
    x, table = draw.labels(p["size"], 256).to(torch.uint8), draw.normal(256)
    return Golden((x.numpy(), _array(table)), (_array(table[x.long()]),))


def _reference(name: str) -> Reference:
    """The function of that name; weights from the card change no result."""
    if name in INTEGER_REFERENCES:
        return _of_integers(INTEGER_REFERENCES[name])
    if name in RECURRENT_REFERENCES:
        return lambda p, draw: _golden(*RECURRENT_REFERENCES[name](p, draw.normal))
    if name.endswith("_accumulate"):
        term = _reference(name.removesuffix("_accumulate"))
        return lambda p, draw: _added(term(p, draw), draw)
    plain = name.removeprefix("streamed_")
    reference: Reference = globals()[name if name in globals() else plain]
    return reference


REFERENCES = {name: _reference(name) for name in OPERATORS}


def assert_close(outputs: list[npt.NDArray[np.uint8]], expected: tuple[Array, ...]) -> None:
    """Within 1e-5 of each tensor's largest magnitude; integers exactly."""
    assert len(outputs) == len(expected)
    for output, golden in zip(outputs, expected, strict=True):
        if golden.dtype.kind in "iu":
            assert np.array_equal(output.view(golden.dtype), golden.ravel())
        else:
            computed = output.view(np.float32).astype(np.float64)
            difference = np.abs(computed - golden.ravel()).max()
            assert difference <= 1e-5 * np.abs(golden).max(), (computed, golden)
