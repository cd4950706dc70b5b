# SPDX-License-Identifier: Apache-2.0
"""Ways in which the computes of `digits_cnn` break the contract, and what is said of each."""

from __future__ import annotations

from collections.abc import Callable

from poet_profiles.schedule import Action, Step

BREACHES: list[tuple[Callable[[list[Step]], list[Step]], str]] = [
    (lambda steps: steps[1:], "not in RAM"),
    (lambda steps: steps[:-1], "never computes"),
    (lambda steps: [steps[0], *steps], "in RAM already"),
    (lambda steps: [Step(Action.PAGE_IN, "conv1"), *steps], "never been paged out"),
    (lambda steps: [Step(Action.FREE, "conv1"), *steps], "free conv1: it is not in RAM"),
    (lambda steps: [Step(Action.PAGE_OUT, "conv1"), *steps], "page_out conv1: it is not in RAM"),
    (lambda steps: [steps[0], Step(Action.PAGE_OUT, "conv1"), Step(Action.PAGE_IN, "conv1")], "in RAM already"),
    (lambda steps: [Step(Action.COMPUTE, "conv9"), *steps], "no such operator"),
]
