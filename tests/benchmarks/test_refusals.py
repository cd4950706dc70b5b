# SPDX-License-Identifier: Apache-2.0
"""The table of refusals, on two small networks."""

from __future__ import annotations

import pytest

from benchmarks.planner.refusals import NETWORKS, Network, Row, lines, row_of


@pytest.mark.parametrize("name", ["ecg", "digits_cnn_small"])
def test_what_refusals_call_possible_is(name: str) -> None:
    row = row_of(next(network for network in NETWORKS if network.model == name), 1.0, (10, 15))
    assert row.refused == 2
    assert row.holds and row.apart is not None and row.apart <= 0.1


def test_numbers_that_differ_and_plans_that_fail_do_not_hold() -> None:
    network = Network("ecg", "mkr1000")
    assert Row(network, 0, frozenset(), True).holds
    assert not Row(network, 2, frozenset({(10, 11), (10, 12)}), True).holds
    failed = Row(network, 1, frozenset({(10, None)}), False)
    assert not failed.holds and failed.apart == float("inf")
    *_, line = lines([failed])
    assert line.endswith("| NO |")
