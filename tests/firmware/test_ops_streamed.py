# SPDX-License-Identifier: Apache-2.0
"""Operators that read their weights from the card tile by tile: the bits of the whole operators, errors, alignment."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatch

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from poet_profiles.firmware.operators import parse_params

from tests.support.firmware.host_operators import Array, Operators, StatusError
from tests.support.firmware.operator_references import REFERENCES, Draw
from tests.support.firmware.operator_shapes import CONFIGURATIONS, descent_of
from tests.support.firmware.operators_on_card import run_on_card
from tests.support.levels import examples

Params = dict[str, int]
Inputs = tuple[Array, ...]


def _conv(op: str) -> Callable[[Operators, Params, Inputs], list[bytes]]:
    def run(operators: Operators, params: Params, inputs: Inputs) -> list[bytes]:
        plain = {name: value for name, value in params.items() if name != "tile"}
        return [output.tobytes() for output in operators.run(op, plain, inputs)]

    return run


def _conv_update(operators: Operators, params: Params, inputs: Inputs) -> list[bytes]:
    gy, x, *weights = inputs
    return _updated(operators, params, _conv("conv2d_backward_weight")(operators, params, (gy, x)), weights)


def _updated(operators: Operators, p: Params, gradients: list[bytes], weights: list[Array]) -> list[bytes]:
    return [
        operators.run(
            *descent_of(p, weight.size), (np.frombuffer(gradient, np.float32).reshape(weight.shape), weight), 0.125
        )[0].tobytes()
        for gradient, weight in zip(gradients, weights, strict=True)
    ]


def _linear(operators: Operators, p: Params, inputs: Inputs) -> list[bytes]:
    params = {name: p[name] for name in ("m", "k", "n", "bias")}
    return [operators.run("linear", params, inputs)[0].tobytes()]


def _linear_backward_input(operators: Operators, p: Params, inputs: Inputs) -> list[bytes]:
    params = {"b": 1, "m": p["m"], "k": p["n"], "n": p["k"], "ta": 0, "tb": 0}
    return [operators.run("matmul", params, inputs)[0].tobytes()]


def _linear_update(operators: Operators, p: Params, inputs: Inputs) -> list[bytes]:
    gy, x, *weights = inputs
    params = {"b": 1, "m": p["n"], "k": p["m"], "n": p["k"], "ta": 1, "tb": 0}
    gradients = [operators.run("matmul", params, (gy, x))[0].tobytes()]
    if p["bias"]:
        gradients += [operators.run("sum_rows", {"m": p["m"], "n": p["n"]}, (gy,))[0].tobytes()]
    return _updated(operators, p, gradients, weights)


def _sgd_update(operators: Operators, p: Params, inputs: Inputs) -> list[bytes]:
    gradient, *weights = inputs
    return _updated(operators, p, [gradient.tobytes()], weights)


def _embedding(operators: Operators, params: Params, inputs: Inputs) -> list[bytes]:
    return [operators.run("embedding", params, inputs)[0].tobytes()]


def _embedding_update(operators: Operators, p: Params, inputs: Inputs) -> list[bytes]:
    params = {name: p[name] for name in ("m", "v", "d")}
    gradient = operators.run("embedding_backward", params, inputs[:2])[0].tobytes()
    return _updated(operators, p, [gradient], [inputs[2]])


def _accumulating(op: str) -> Callable[[Operators, Params, Inputs], list[bytes]]:
    """By the operator that has all weights in RAM."""

    def run(operators: Operators, p: Params, inputs: Inputs) -> list[bytes]:
        if op == "streamed_linear_backward_input_accumulate":
            p = {"b": 1, "m": p["m"], "k": p["n"], "n": p["k"], "ta": 0, "tb": 0}
            return [operators.run("matmul_accumulate", p, inputs)[0].tobytes()]
        return _conv(op.removeprefix("streamed_"))(operators, p, inputs)

    return run


WHOLE = {
    "streamed_conv2d": _conv("conv2d"),
    "streamed_conv2d_backward_input": _conv("conv2d_backward_input"),
    "streamed_conv2d_update": _conv_update,
    "streamed_linear": _linear,
    "streamed_linear_backward_input": _linear_backward_input,
    "streamed_linear_update": _linear_update,
    "streamed_sgd_update": _sgd_update,
    "streamed_embedding": _embedding,
    "streamed_embedding_update": _embedding_update,
    **{name: _accumulating(name) for name in CONFIGURATIONS if fnmatch(name, "streamed_*_accumulate")},
}


def test_every_streamed_operator_is_here() -> None:
    assert set(WHOLE) == {name for name in CONFIGURATIONS if name.startswith("streamed_")}


@pytest.mark.parametrize("overlaps", [False, True], ids=["in turn", "overlapping"])
@pytest.mark.parametrize("name", WHOLE)
def test_bits_are_those_of_the_whole_operator(operators: Operators, name: str, overlaps: bool) -> None:
    most_tiles = 0

    @settings(max_examples=examples(80), deadline=None, derandomize=True)
    @given(CONFIGURATIONS[name], st.integers(0, 2**16))
    def equal(params: Params, seed: int) -> None:
        nonlocal most_tiles
        inputs = REFERENCES[name](params, Draw(seed)).inputs
        card, outputs = run_on_card(operators, name, params, inputs, 0.125, overlaps=overlaps)
        assert [output.tobytes() for output in outputs] == WHOLE[name](operators, params, inputs)
        most_tiles = max(most_tiles, len(card.reads))
        if card.rows:
            tokens = inputs[1].tolist()
            assert [offset for offset, _ in card.reads] == [
                4 * params["d"] * token for token in (dict.fromkeys(tokens) if "update" in name else tokens)
            ]
        else:
            ends = np.cumsum([count for _, count in card.reads]).tolist()
            assert [offset for offset, _ in card.reads] == [0, *ends[:-1]]
            assert ends[-1] == len(next(iter(card.inputs.values())))

    equal()
    assert most_tiles >= 3


@pytest.mark.parametrize("name", WHOLE)
def test_an_error_of_the_card_ends_the_operator(operators: Operators, name: str) -> None:
    @settings(max_examples=examples(25), deadline=None, derandomize=True)
    @given(CONFIGURATIONS[name], st.booleans())
    def ends(params: Params, overlaps: bool) -> None:
        inputs = REFERENCES[name](params, Draw(1)).inputs
        calls = run_on_card(operators, name, params, inputs, 0.125, overlaps=overlaps)[0].calls
        assume(calls <= 40)
        for call in range(calls):
            with pytest.raises(StatusError) as failed:
                run_on_card(operators, name, params, inputs, 0.125, overlaps=overlaps, fails_at=call)
            assert failed.value.status == -5

    ends()


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("streamed_linear", {"m": 1, "k": 33, "n": 70, "bias": 0, "tile": 64}),
        ("streamed_linear_update", {"m": 1, "k": 64, "n": 70, "bias": 0, "tile": 3}),
        ("streamed_conv2d", parse_params("n=1 c=8 h=4 w=4 k=64 r=3 s=3 sh=1 sw=1 ph=1 pw=1 g=1 bias=0 tile=8")),
    ],
)
def test_tiles_that_split_a_block_are_refused(operators: Operators, name: str, params: Params) -> None:
    with pytest.raises(StatusError) as refused:
        operators.sizes(name, params)
    assert refused.value.status == -1
