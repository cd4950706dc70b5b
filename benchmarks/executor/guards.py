# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.executor.guards`: what it costs to look at Python's state before each call, and to trace again.

The CPU time of a check is beside that of eager PyTorch's step, at batch 4 on one thread; both are the least of some
rounds. 1 if a check takes more than 1 % of the step, or a trace after 20 changed momenta of ResNet-18 more than 4 s.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import poet_planner
import torch
from poet_planner.models.resnet import resnet18
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.planner.torch_step.networks import Llama

MOST_SHARE = 0.01
MOST_AGAIN_S = 4.0


def main() -> int:
    """Print a line for each network."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    words = torch.randint(512, (4, 64))
    images = torch.randn(4, 3, 64, 64), torch.randint(10, (4,))
    missed = measured("ResNet-18", resnet18(classes=10), images, momenta)
    return int(measured("Llama, 3 layers", Llama(), (words, words.roll(-1, 1)), epsilons) or missed)


def measured(name: str, module: nn.Module, batch: tuple[Tensor, Tensor], change: Callable[[nn.Module], None]) -> bool:
    """Print what a check and a trace take; whether it is more than it may be."""
    with poet_planner.compile(module, cross_entropy, batch, quiet=True) as step:
        guard = step.planned.guard
        check_s = least_s(guard.changed, 100)
        eager_s = least_s(lambda: cross_entropy(module(batch[0]), batch[1]).backward(), 1)
        step(*batch)
        change(module)
        plan = step.plan
        again_s = least_s(lambda: step(*batch), 1, rounds=1)
        kept = step.plan is plan and step.report.retraced == 1
    print(
        f"{name}: {len(guard)} values in {check_s * 1e6:.0f} us, {check_s / eager_s:.2%} of eager's "
        f"{eager_s * 1e3:.0f} ms; traced again and taken in {again_s:.1f} s, plan {'kept' if kept else 'LOST'}"
    )
    return not kept or check_s > MOST_SHARE * eager_s or again_s > MOST_AGAIN_S


def least_s(run: Callable[[], object], count: int, rounds: int = 7) -> float:
    """CPU seconds of a call."""
    readings = []
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(count):
            run()
        readings.append((time.process_time() - started) / count)
    return min(readings)


def momenta(module: nn.Module) -> None:
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = 0.05


def epsilons(module: nn.Module) -> None:
    for part in module.modules():
        if hasattr(part, "eps"):
            part.eps = 1e-5


if __name__ == "__main__":
    raise SystemExit(main())
