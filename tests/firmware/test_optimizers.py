# SPDX-License-Identifier: Apache-2.0
"""Optimisers as the firmware's operators, over twenty steps: as near as rounding to ``torch.optim``.

Bit for bit they are the reference of `poet-plan reference`, and what the emulated cores compute.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from poet_harness.plan_folder.optimizer import optimizer_of
from poet_planner.graph.optimizer import Method, Optimizer
from poet_planner.lowering import lower_for_firmware
from poet_planner.torch_reference.updates import Updates
from poet_planner.tracing import trace
from poet_profiles.firmware.operators import OPERATORS, parse_params
from poet_profiles.graph import Operation
from torch import nn

from tests.support.firmware.host_operators import Operators

STEPS, RATE, DIGITS = 20, 0.01, 1e-6

# Each with the same in ``torch.optim``'s words, as the harness names it.
CASES = {
    "decay and clip": (Optimizer(weight_decay=0.01, clip_value=0.5), "SGD(weight_decay=0.01), gradients within +-0.5"),
    "momentum": (Optimizer(momentum=0.9), "SGD(momentum=0.9)"),
    "clipped momentum": (Optimizer(momentum=0.5, clip_value=5.0), "SGD(momentum=0.5), gradients within +-5"),
    "nesterov": (
        Optimizer(momentum=0.9, nesterov=True, weight_decay=1e-4, clip_value=0.2),
        "SGD(momentum=0.9, weight_decay=0.0001, nesterov=True), gradients within +-0.2",
    ),
    "adam": (Optimizer(Method.ADAM), "Adam()"),
    "adam, L2": (
        Optimizer(Method.ADAM, weight_decay=0.1, betas=(0.8, 0.99), clip_value=0.5),
        "Adam(betas=(0.8, 0.99), weight_decay=0.1), gradients within +-0.5",
    ),
    "adamw": (Optimizer(Method.ADAMW, weight_decay=0.01, eps=1e-3), "AdamW(eps=0.001, weight_decay=0.01)"),
}

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

Arrays = dict[str, np.ndarray]
Run = Callable[[str, dict[str, int], list[np.ndarray], float], list[np.ndarray]]


def updates(optimizer: Optimizer, features: int) -> list[Operation]:
    """The operators that end the step of a fully connected layer, in the order of its graph."""
    layer = nn.Linear(features, features)
    x, target = torch.zeros(2, features), torch.zeros(2, features)
    graph = lower_for_firmware(trace(layer, (x,), (target,), nn.MSELoss(), "layer"), optimizer=optimizer)
    lasting = {resident.id for resident in graph.residents if resident.kind in ("parameter", "state")}
    found = [node.operation for node in graph.nodes if node.operation]
    return [one for one in found if one.op == "adam_factors" or lasting.intersection(one.results)]


def gradients(features: int) -> Iterator[Arrays]:
    random = np.random.default_rng(1)
    for _ in range(STEPS):
        yield {
            "weight.grad": random.standard_normal((features, features), np.float32),
            "bias.grad": random.standard_normal(features, np.float32),
        }


def trained(operations: list[Operation], features: int, run: Run) -> Arrays:
    """Parameters and state after twenty steps, which the operators change in place."""
    random = np.random.default_rng(0)
    tensors: Arrays = {
        "weight": random.standard_normal((features, features), np.float32),
        "bias": random.standard_normal(features, np.float32),
        "optimizer.step": np.zeros(1, np.uint32),
    }
    for id in {id for operation in operations for id in operation.operands} - tensors.keys():
        tensors[id] = np.zeros_like(tensors[id.partition(".")[0]]) if "." in id.strip(".") else np.zeros(6, np.float32)
    for given in gradients(features):
        tensors |= given
        for one in operations:
            outputs = run(one.op, parse_params(one.params), [tensors[id] for id in one.operands], RATE)
            tensors |= {
                id: output.view(tensors[id].dtype).reshape(tensors[id].shape)
                for id, output in zip(one.results, outputs, strict=True)
            }
    return tensors


@pytest.mark.parametrize(("optimizer", "words"), CASES.values(), ids=CASES)
def test_twenty_steps_are_pytorchs(optimizer: Optimizer, words: str, operators: Operators) -> None:
    operations = updates(optimizer, 63)
    found = trained(operations, 63, operators.run)
    beside = trained([], 63, operators.run)
    named = optimizer_of(operations, {})
    assert named.words() == words
    parameters = {id: nn.Parameter(torch.from_numpy(beside[id].copy())) for id in ("weight", "bias")}
    ours = {id: torch.from_numpy(beside[id].copy()) for id in parameters}
    theirs = getattr(torch.optim, named.name)(parameters.values(), lr=RATE, **named.options)
    reference = Updates(optimizer, RATE)
    for given in gradients(63):
        for id, parameter in parameters.items():
            parameter.grad = torch.from_numpy(given[f"{id}.grad"].copy())
            reference.apply(id, ours[id], torch.from_numpy(given[f"{id}.grad"]))
        if named.clip_value is not None:
            nn.utils.clip_grad_value_(parameters.values(), named.clip_value)
        theirs.step()
    for id, parameter in parameters.items():
        assert found[id].tobytes() == ours[id].numpy().tobytes(), "the reference has other bits"
        exact = parameter.detach().numpy()
        assert np.abs(found[id] - exact).max() <= DIGITS * np.abs(exact).max()
        for slot, tensor in named.state.get(id, {}).items():
            state = theirs.state[parameter][slot].detach().numpy()
            assert np.abs(found[tensor] - state).max() <= DIGITS * np.abs(state).max(), slot


@pytest.fixture(scope="module", params=["cortex-m4f", "cortex-m0plus"])
def board(request: pytest.FixtureRequest, core_with: Callable[..., Any]) -> Any:
    pytest.importorskip("unicorn", reason="the emulator is not installed")
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("no arm-none-eabi-gcc")
    return core_with(request.param, "poet_operators")


def run_on(board: Any, op: str, params: dict[str, int], given: list[np.ndarray], rate: float) -> list[np.ndarray]:
    board.free()
    sizes = OPERATORS[op].sizes(params)
    inputs = [board.place(np.ascontiguousarray(array)) for array in given]
    in_place = op != "adam_factors"
    outputs = inputs[-len(sizes.outputs) :] if in_place else [board.place(size) for size in sizes.outputs]
    values = board.words([params[name] for name in OPERATORS[op].params])
    bits = int(np.float32(rate).view(np.uint32))
    arguments = board.words([values, board.words(inputs), board.words(outputs), 0, bits, 0, 0])
    assert board.call(f"poet_{op}_run", arguments)[0] == 0
    return [
        np.frombuffer(board.machine.read_memory(at, size), np.uint8)
        for at, size in zip(outputs, sizes.outputs, strict=True)
    ]


@pytest.mark.parametrize("case", ["nesterov", "adam, L2", "adamw"])
def test_the_emulated_cores_compute_the_same_bits(case: str, board: Any, operators: Operators) -> None:
    operations = updates(CASES[case][0], 3)
    on_host, on_board = (trained(operations, 3, one) for one in (operators.run, partial(run_on, board)))
    assert {id: array.tobytes() for id, array in on_board.items()} == {
        id: array.tobytes() for id, array in on_host.items()
    }


def test_roots_are_the_nearest_on_every_core(board: Any, operators: Operators) -> None:
    """By an instruction or by integers: Adam on squares that stay, so that a weight becomes -1 / sqrt(square)."""
    bits = np.random.default_rng(2).integers(0x7F800000, size=2000, dtype=np.uint32)
    bits[:8] = 0, 1, 2, 0x007FFFFF, 0x00800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000
    squares, ones, zeros = bits.view(np.float32), np.ones(2000, np.float32), np.zeros(2000, np.float32)
    factors = np.array([1, 0, 1, 0, 1, 0], np.float32)
    params = {"size": 2000, "eps_f32": 0, "decay_f32": 0, "clip_f32": 0}
    with np.errstate(divide="ignore"):
        expected = (zeros - ones / np.sqrt(squares)).tobytes()
    for run in (operators.run, partial(run_on, board)):
        assert run("adam", params, [factors, zeros, zeros, ones, squares], RATE)[0].tobytes() == expected
