# SPDX-License-Identifier: Apache-2.0
"""The optimisation problem as arrays: a costed graph, a RAM budget and a deadline.

All parts of the optimiser work on this form. Ids come back only when a plan is written out as steps. Sizes are rounded
up to whole words of 4 bytes, as the schedule semantics count them (docs/SPEC.md, section 4).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from poet_profiles.graph import Graph, PageCost, Uses
from poet_profiles.graph.sizes import aligned
from poet_profiles.graph.validation import refuse_unsound

from poet_planner.graph.batch import nodes_of_batch
from poet_planner.solve.engine import Struct, struct

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Bits = npt.NDArray[np.uint64]

WORD = 4  # bytes
MOST_RAM_BYTES = 2**62  # a larger RAM counts as this one
ROUNDING = 1e-10  # sums of times in another order differ by less: relative; the verifier allows ten times as much


@struct
class Problem(Struct):
    """One instance. Nodes are numbered 0..n-1 in a topological order, values 0..m-1, those of a node side by side."""

    # node_time, node_energy: (n,) seconds, joules.
    node_time: Floats
    node_energy: Floats
    workspace: Ints  # (n,) bytes held while the node is computed, less those of its outputs that take over an input
    recomputable: Flags  # (n,)
    # uses_cpu, uses_bus: (n,) what the node is busy with; one of them at least.
    uses_cpu: Flags
    uses_bus: Flags
    output_start: Ints  # (n + 1,) the values of node j are ``output_start[j]:output_start[j + 1]``
    producer: Ints  # (m,) the node that makes a value
    size: Ints  # (m,) bytes
    taken: Flags  # (m,) whether the one node that needs the value takes over its place, and so ends its lifetime
    pageable: Flags  # (m,)
    # in_time, in_energy, out_time, out_energy: (m,) of a page transfer; 0 where not pageable.
    in_time: Floats
    in_energy: Floats
    out_time: Floats
    out_energy: Floats
    # input_start, input_value: the values that node j needs are ``input_value[input_start[j]:input_start[j + 1]]``.
    input_start: Ints
    input_value: Ints
    # use_start, use_node: the nodes that need value v are ``use_node[use_start[v]:use_start[v + 1]]``.
    use_start: Ints
    use_node: Ints
    budget: int  # bytes for values and workspace, without the resident tensors
    deadline: float  # seconds, with room for rounding; infinite if there is none
    dma: bool  # whether transfers overlap computes
    # (n,) whether the RAM is limited at the first compute of a node; (0,): it is limited at every event.
    is_event_point: Flags


def build_problem(graph: Graph, ram_bytes: int, deadline_s: float | None, paging: bool = True) -> Problem:
    """The arrays of ``graph``, with the costs of a whole batch.

    Compiled code does not check them, so an unsound graph is refused here. ``ram_bytes`` is all of the RAM, resident
    tensors included. Without ``paging`` the plan is as on a board without storage.

    Raises
    ------
    UserError
        If an id occurs twice, an edge leads back, a size or cost is not a number, …
    """
    refuse_unsound(graph)
    nodes = nodes_of_batch(graph)
    values = [value for node in nodes for value in node.values]
    index = {value.id: v for v, value in enumerate(values)}
    size = np.array([aligned(value.bytes) for value in values], dtype=np.int64)
    over = [sum(int(size[index[id]]) for id in node.takes_over) for node in graph.nodes]
    taken = np.zeros(len(values), dtype=np.bool_)
    taken[[index[id] for node in graph.nodes for id in node.takes_over.values()]] = True
    inputs = [sorted({index[id] for id in node.inputs}) for node in graph.nodes]
    users: list[list[int]] = [[] for _ in values]
    for j, needed in enumerate(inputs):
        for v in needed:
            users[v].append(j)
    pages = [value.page if paging and value.bytes > 0 else None for value in values]
    costs = [page or PageCost(0.0, 0.0, 0.0, 0.0) for page in pages]
    input_start, input_value = ragged(inputs)
    use_start, use_node = ragged(users)
    return Problem(
        node_time=np.array([node.time_s for node in nodes], dtype=np.float64),
        node_energy=np.array([node.energy_j for node in nodes], dtype=np.float64),
        workspace=np.array([aligned(node.workspace_bytes) for node in graph.nodes], dtype=np.int64) - over,
        recomputable=np.array([node.recomputable for node in graph.nodes], dtype=np.bool_),
        uses_cpu=np.array([node.uses is not Uses.BUS for node in graph.nodes], dtype=np.bool_),
        uses_bus=np.array([node.uses is not Uses.CPU for node in graph.nodes], dtype=np.bool_),
        output_start=np.cumsum([0, *(len(node.values) for node in graph.nodes)], dtype=np.int64),
        producer=np.array([j for j, node in enumerate(graph.nodes) for _ in node.values], dtype=np.int64),
        size=size,
        taken=taken,
        pageable=np.array([page is not None for page in pages], dtype=np.bool_),
        in_time=np.array([cost.in_time_s for cost in costs], dtype=np.float64),
        in_energy=np.array([cost.in_energy_j for cost in costs], dtype=np.float64),
        out_time=np.array([cost.out_time_s for cost in costs], dtype=np.float64),
        out_energy=np.array([cost.out_energy_j for cost in costs], dtype=np.float64),
        input_start=input_start,
        input_value=input_value,
        use_start=use_start,
        use_node=use_node,
        budget=min(ram_bytes, MOST_RAM_BYTES) - graph.resident_bytes,
        deadline=np.inf if deadline_s is None else deadline_s * (1 + ROUNDING),
        dma=graph.dma,
        is_event_point=np.zeros(0, dtype=np.bool_),
    )


def graph_size(problem: Problem) -> int:
    """Nodes, values and edges of the graph together."""
    return len(problem.node_time) + len(problem.input_value) + len(problem.size)


def busy_s(problem: Problem) -> float:
    """Seconds that computing every node once takes at least: with DMA, of the CPU or of the bus, whichever is more."""
    if not problem.dma:
        return float(problem.node_time.sum())
    return float(max(problem.node_time[used].sum() for used in (problem.uses_cpu, problem.uses_bus)))


def energy_unit_j(store_all_j: float, dearest_j: float) -> float:
    """What to measure energies in: E0, but a thousandth of ``dearest_j`` if that is more.

    So numbers stay small where computes cost nothing, or next to nothing beside pages.
    """
    return max(store_all_j, 1e-3 * dearest_j, 1e-300)


def dearest_page_j(problem: Problem) -> float:
    """The most energy that paging a value out and in takes."""
    return float((problem.in_energy + problem.out_energy).max(initial=0.0))


def inputs_of(problem: Problem, node: int) -> Ints:
    """The values that ``node`` needs."""
    return problem.input_value[problem.input_start[node] : problem.input_start[node + 1]]


def outside_working_set(problem: Problem, node: int) -> Flags:
    """The values that ``node`` neither needs nor makes. (m,)"""
    flags: Flags = np.ones(len(problem.size), dtype=np.bool_)
    flags[inputs_of(problem, node)] = False
    flags[problem.output_start[node] : problem.output_start[node + 1]] = False
    return flags


def working_set_bytes(problem: Problem) -> Ints:
    """Bytes of the working set of each node: its inputs, its outputs and its workspace. (n,)"""
    outputs = _sums(problem.size, problem.output_start)
    return problem.workspace + outputs + _sums(problem.size[problem.input_value], problem.input_start)


def _sums(entries: Ints, start: Ints) -> Ints:
    """The sum of ``entries[start[j]:start[j + 1]]`` for each j."""
    upto = np.append(0, np.cumsum(entries))
    sums: Ints = upto[start[1:]] - upto[start[:-1]]
    return sums


def zeros(count: int) -> Ints:
    """Whole numbers to be filled in. (count,)"""
    return np.zeros(count, dtype=np.int64)


def ragged(lists: list[list[int]]) -> tuple[Ints, Ints]:
    """Lists as ``start`` and ``entries``: list k is ``entries[start[k]:start[k + 1]]``."""
    start = np.cumsum([0, *(len(entries) for entries in lists)], dtype=np.int64)
    return start, np.array([entry for entries in lists for entry in entries], dtype=np.int64)
