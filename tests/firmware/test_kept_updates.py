# SPDX-License-Identifier: Apache-2.0
"""Updates of kept tensors, tile by tile: bits of gradient and descent as two operators, in whole blocks to the card."""

from __future__ import annotations

import ctypes as c
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.firmware.host_operators import Array, CArguments, Operators, params_array
from tests.support.firmware.operator_references import REFERENCES, Draw
from tests.support.firmware.operator_shapes import CONFIGURATIONS, Params, descent_of
from tests.support.levels import examples

RATE = 0.125
BLOCK = 512
WRITE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_uint32, c.c_void_p, c.c_uint32)


class CSink(c.Structure):
    _fields_ = (("context", c.c_void_p), ("write", WRITE))


def gradients_of(
    operators: Operators, name: str, p: Params, inputs: Sequence[Array]
) -> tuple[list[Array], Sequence[Array]]:
    """As one operator makes them, all at once, in their weights' shapes; and the weights."""
    gy, x, *weights = inputs
    if name == "conv2d_update":
        gradients = operators.run("conv2d_backward_weight", {key: p[key] for key in p if key != "tile"}, [gy, x])
    elif name == "linear_update":
        product = {"b": 1, "m": p["n"], "k": p["m"], "n": p["k"], "ta": 1, "tb": 0}
        gradients = operators.run("matmul", product, [gy, x])
        if p["bias"]:
            gradients += operators.run("sum_rows", {"m": p["m"], "n": p["n"]}, [gy])
    else:
        gradients, weights = [gy.view(np.uint8)], [x]
    shaped = (gradient.view(np.float32) for gradient in gradients)
    return [gradient.reshape(weight.shape) for gradient, weight in zip(shaped, weights, strict=True)], weights


def separately(operators: Operators, name: str, p: Params, inputs: tuple[Array, ...]) -> list[bytes]:
    """The gradient as one operator, and `sgd` or `sgd_general` after it."""
    after = []
    for gradient, weight in zip(*gradients_of(operators, name, p, inputs), strict=True):
        [new] = operators.run(*descent_of(p, weight.size), [gradient, weight], RATE)
        after.append(new.tobytes())
    return after


def through_sink(operators: Operators, name: str, p: Params, inputs: Sequence[Array]) -> list[bytes]:
    """What the operator writes to a card; whole blocks, but for the end of each output."""
    sizes = operators.sizes(name, p)
    written: list[bytes] = [b""] * sizes.outputs
    states = sizes.outputs * 2 // 3 if p.get("adam") else sizes.outputs // 2 if p.get("momentum_nano") else 0

    def write(_context: int, output: int, data: int, count: int) -> int:
        assert len(written[output]) % BLOCK == 0 < count
        assert not any(written[output + 1 : sizes.outputs - states])
        written[output] += c.string_at(data, count)
        return 0

    sink = CSink(None, WRITE(write))
    given_ = [np.array(array, order="C") for array in inputs]
    workspace = np.full(sizes.workspace_bytes + 64, 0xFF, np.uint8)
    arguments = CArguments(
        params_array(name, p),
        (c.c_void_p * 12)(*[array.ctypes.data for array in given_]),
        (c.c_void_p * 6)(),
        workspace.ctypes.data,
        RATE,
        c.addressof(sink),
    )
    assert operators.table[name].run(c.byref(arguments)) == 0
    assert (workspace[sizes.workspace_bytes :] == 0xFF).all()
    return written


UPDATES = ("conv2d_update", "linear_update", "sgd_update")


@pytest.mark.parametrize("name", UPDATES)
def test_tiles_have_the_bits_of_the_whole(operators: Operators, name: str) -> None:
    @settings(max_examples=examples(120), deadline=None, derandomize=True)
    @given(CONFIGURATIONS[name], st.integers(0, 2**16))
    def equal(params: Params, seed: int) -> None:
        inputs = REFERENCES[name](params, Draw(seed)).inputs
        expected = separately(operators, name, params, inputs)
        assert [output.tobytes() for output in operators.run(name, params, inputs, RATE)] == expected
        assert through_sink(operators, name, params, inputs) == expected

    equal()


FACTORS = np.array([0.01, 0.3, 0.98, 0.1, 0.9, 0.1], np.float32)  # of Adam: its operator in RAM is given the same


@pytest.mark.parametrize("adam", [0, 1], ids=["momentum", "adam"])
@pytest.mark.parametrize("name", UPDATES)
def test_states_have_the_bits_of_a_descent_in_ram(operators: Operators, name: str, adam: int) -> None:
    """Whole, and with weights and states from the card, as far as tiles are whole blocks."""
    rows = {"conv2d_update": "k", "linear_update": "n"}

    @settings(max_examples=examples(80), deadline=None, derandomize=True)
    @given(CONFIGURATIONS[name], st.integers(0, 2**16), st.sampled_from([0, 1]), st.sampled_from([0.0, 0.25]))
    def equal(params: Params, seed: int, nesterov: int, amount: float) -> None:
        bits = int(np.float32(amount).view(np.int32))
        moves = {"adam": 1, "eps_f32": bits} if adam else {"momentum_nano": 900_000_000, "nesterov": nesterov}
        descent = {"momentum_nano": 0, "nesterov": 0, "decay_f32": bits, "clip_f32": bits, **moves}
        inputs = REFERENCES[name](params, Draw(seed)).inputs
        gradients, weights = gradients_of(operators, name, params, inputs)
        draw = np.random.default_rng(seed)
        slots = [[np.abs(draw.standard_normal(w.shape)).astype(np.float32) for w in weights] for _ in range(1 + adam)]
        shared = [FACTORS] * adam
        after = [
            operators.run(*descent_of(descent, given_[1].size), [*shared, *given_], RATE)
            for given_ in zip(gradients, weights, *slots, strict=True)
        ]
        expected = [part.tobytes() for parts in zip(*after, strict=True) for part in parts]
        given_ = [*inputs, *(state for slot in slots for state in slot), *shared]
        assert through_sink(operators, name, {**params, **descent}, given_) == expected
        count = params[rows[name]] if name in rows else 0
        if count and (params["tile"] == count or params["tile"] * weights[0].nbytes // count % BLOCK == 0):
            assert through_sink(operators, f"streamed_{name}", {**params, **descent}, given_) == expected

    equal()


LAYERS: list[tuple[str, Mapping[str, int]]] = [
    ("conv2d_update", {"n": 1, "c": 16, "h": 8, "w": 8, "k": 32, "r": 3, "s": 3, "sh": 2, "sw": 2, "ph": 1, "pw": 1,
                       "g": 1, "bias": 0, "tile": 14}),
    ("conv2d_update", {"n": 2, "c": 64, "h": 4, "w": 4, "k": 64, "r": 3, "s": 3, "sh": 1, "sw": 1, "ph": 1, "pw": 1,
                       "g": 1, "bias": 1, "tile": 3}),
    ("linear_update", {"m": 8, "k": 128, "n": 96, "bias": 0, "tile": 16}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "params"), LAYERS)
def test_layers_of_many_tiles(operators: Operators, name: str, params: Params) -> None:
    inputs = REFERENCES[name](params, Draw(7)).inputs
    assert through_sink(operators, name, params, inputs) == separately(operators, name, params, inputs)


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_of_the_card_ends_the_update(operators: Operators, failing: int) -> None:
    name, params = LAYERS[0]
    calls = []

    def write(_context: int, _output: int, _data: int, _count: int) -> int:
        calls.append(None)
        return -5 if len(calls) > failing else 0

    sink = CSink(None, WRITE(write))
    inputs = [np.ascontiguousarray(array) for array in REFERENCES[name](params, Draw(7)).inputs]
    workspace = np.zeros(operators.sizes(name, params).workspace_bytes, np.uint8)
    arguments = CArguments(
        params_array(name, params),
        (c.c_void_p * 12)(*[array.ctypes.data for array in inputs]),
        (c.c_void_p * 6)(),
        workspace.ctypes.data,
        RATE,
        c.addressof(sink),
    )
    assert operators.table[name].run(c.byref(arguments)) == -5
    assert len(calls) == failing + 1
