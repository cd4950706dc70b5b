# SPDX-License-Identifier: Apache-2.0
"""What a training step only reads lies in the chip's flash: parameters that are not trained, buffers that stay."""

from __future__ import annotations

from dataclasses import replace

from poet_runtime.traced_graph import Kind, TracedGraph


def with_frozen(traced: TracedGraph) -> TracedGraph:
    """The same graph with everything frozen among its constants.

    Parameters that are not trained, and that no operator reads, are left out: a board has no use for them.
    """
    read = {ref.source for operator in traced.operators for ref in operator.refs}
    residents = []
    for resident in traced.residents:
        if resident.id in traced.frozen:
            residents.append(replace(resident, kind=Kind.CONSTANT))
        elif resident.kind is not Kind.PARAMETER or resident.id in traced.changed | read:
            residents.append(resident)
    return replace(traced, residents=tuple(residents), constants={**traced.constants, **traced.frozen})
