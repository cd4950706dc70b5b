# SPDX-License-Identifier: Apache-2.0
"""A frozen convolution and the ReLU after it become one node.

Nothing of a frozen layer is saved for a way back but the ReLU's result. So the convolution's own need not be a value:
it is clipped where it lies, and the largest activations of a frozen part are in RAM once instead of twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace

from poet_profiles.firmware.steps import only_step

from poet_planner.lowering.operators.draft import Draft


def with_clipped_convolutions(drafts: Iterable[Draft], constants: Collection[str]) -> list[Draft]:
    """The same nodes, where a ReLU alone reads a convolution whose weight is one of the constants."""
    nodes = {draft.id: draft for draft in drafts}
    readers = Counter(operand for draft in nodes.values() for operand in draft.operands)
    makers = {value.id: draft for draft in nodes.values() for value in draft.values}
    for relu in [draft for draft in nodes.values() if only_step(draft.params) == "relu"]:
        (operand,) = relu.operands
        before = makers.get(operand)
        if before is None or before.op != "conv2d" or readers[operand] != 1 or before.operands[1] not in constants:
            continue
        del nodes[before.id]
        nodes[relu.id] = replace(
            relu,
            op="conv2d_relu",
            params=before.params,
            operands=before.operands,
            workspace_bytes=before.workspace_bytes,
        )
    return list(nodes.values())
