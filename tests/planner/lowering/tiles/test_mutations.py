# SPDX-License-Identifier: Apache-2.0
"""A changed step in bands or tiles is refused, or gives every bit of the whole step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from poet_planner.graph.layout import Bands, MemoryLayout
from poet_planner.lowering import lower_for_firmware
from poet_planner.lowering.firmware import constant_data
from poet_planner.lowering.tiles.regions import with_tiles
from poet_planner.lowering.tiles.rows import with_bands
from poet_planner.models import Model
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.tracing import trace
from poet_profiles.boards import load_board
from poet_profiles.errors import FaultError
from poet_profiles.firmware.operators import params_key, parse_params
from poet_profiles.graph import Graph, Node, Operation
from poet_profiles.graph.validation import check_graph
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.planner.lowering.tiles.test_regions import Attention, Block, Bytes
from tests.planner.lowering.tiles.test_rows import NETWORKS, network
from tests.support import needs
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import run_step
from tests.support.levels import examples

pytestmark = needs.gcc

PLACES = ("at", "of", "top", "rows", "h", "own", "first", "filters", "size", "kept", "count", "offset", "s2", "sh")


def instead(graph: Graph, *pairs: tuple[Node, Node]) -> Graph:
    others = {old.id: new for old, new in pairs}
    return replace(graph, nodes=tuple(others.get(node.id, node) for node in graph.nodes))


def reading(graph: Graph, node: Node, names: dict[str, str]) -> Node:
    """The node with other operands."""
    operation = node.operation
    if operation is None:
        return replace(node, inputs=tuple(dict.fromkeys(names.get(id, id) for id in node.inputs)))
    operands = tuple(names.get(id, id) for id in operation.operands)
    values = {value.id for one in graph.nodes for value in one.values}
    order = (id for id in node.inputs if id not in operation.operands)
    inputs = dict.fromkeys((*(id for id in operands if id in values), *order))
    return replace(node, inputs=tuple(inputs), operation=replace(operation, operands=operands))


def other_parameter(graph: Graph, node: Node, operation: Operation, draw: Random) -> Graph | None:
    p = parse_params(operation.params)
    names = [name for name in PLACES if name in p]
    if not names:
        return None
    name = draw.choice(names)
    key = params_key(operation.op, {**p, name: p[name] + draw.choice((-2, -1, 1, 2))})
    return instead(graph, (node, replace(node, operation=replace(operation, params=key))))


def other_operand(graph: Graph, node: Node, operation: Operation, draw: Random) -> Graph | None:
    """A value of the same size that is there, of another band or what a sum has before this one."""
    before = graph.nodes[: graph.nodes.index(node)]
    sizes = {value.id: value.bytes for one in before for value in one.values}
    old = draw.choice(operation.operands) if operation.operands else ""
    same = [id for id, size in sizes.items() if size == sizes.get(old) and id != old]
    return instead(graph, (node, reading(graph, node, {old: draw.choice(same)}))) if same else None


def dropped(graph: Graph, node: Node, operation: Operation, draw: Random) -> Graph | None:
    """What reads the band reads what it goes on from."""
    sizes = {value.id: value.bytes for one in graph.nodes for value in one.values}
    names = {}
    for id in operation.results:
        alike = [one for one in operation.operands if one in sizes and sizes[one] == sizes.get(id)]
        if not alike:
            return None
        names[id] = alike[-1]
    nodes = (reading(graph, one, names) for one in graph.nodes if one is not node)
    return replace(graph, nodes=tuple(nodes))


def exchanged(graph: Graph, node: Node, operation: Operation, draw: Random) -> Graph | None:
    """Two bands read each other's operand."""
    alike = [one for one in graph.nodes if one is not node and one.operation and one.operation.op == operation.op]
    if not alike or not operation.operands:
        return None
    other = draw.choice(alike)
    assert other.operation is not None
    if len(other.operation.operands) != len(operation.operands):
        return None
    place = draw.randrange(len(operation.operands))
    one, two = operation.operands[place], other.operation.operands[place]
    return instead(graph, (node, reading(graph, node, {one: two})), (other, reading(graph, other, {two: one})))


MUTATIONS: tuple[Callable[[Graph, Node, Operation, Random], Graph | None], ...] = (
    other_parameter,
    other_operand,
    dropped,
    exchanged,
)


def whole_of(node: Node) -> str:
    return node.id.rpartition("..")[0] or node.id


def mutated(graph: Graph, count: int) -> Iterator[Graph]:
    """Of nodes that are one of several bands, or of several tiles, or gather them."""
    draw = Random(graph.name)
    names = Counter(whole_of(node) for node in graph.nodes)
    operators = [node for node in graph.nodes if node.operation]
    banded = [node for node in operators if "..tile" in node.id or "..gathered" in node.id]
    banded = banded or [node for node in operators if names[whole_of(node)] > 2]
    for _ in range(count):
        node = draw.choice(banded)
        assert node.operation is not None
        found = draw.choice(MUTATIONS)(graph, node, node.operation, draw)
        if found is not None and found != graph:
            yield found


def in_tiles() -> Iterator[tuple[str, nn.Module, Tensor, int]]:
    """Networks in tiles of rows or channels, each with a batch and a number of tiles."""
    first = (Bytes(), nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU())
    last = (nn.AdaptiveAvgPool2d(1), nn.Flatten())
    x = torch.randint(0, 256, (3, 3, 18, 18), dtype=torch.uint8)
    yield "attention", Attention(8, 2, True), torch.randn(2, 20, 8), 6
    yield "loss", nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 40)), torch.randn(9, 5), 5
    yield "residual", nn.Sequential(*first, Block(4, 16, 4, 1, True), *last, nn.Linear(4, 3)), x, 6
    yield "norms as they are", nn.Sequential(*first, Block(4, 16, 6, 2, False), *last).eval(), x[:1], 6


def refused_or_alike(
    name: str, network: tuple[nn.Module, Tensor, Tensor], cuts: Sequence[Callable[[Graph], Graph]], operators: Operators
) -> None:
    """Most changed steps are refused; each of the others gives every bit of the whole."""
    module, x, y = network
    module(x)
    traced = trace(module, (x,), (y,), cross_entropy, name)
    plain = lower_for_firmware(traced)
    given = {id: tensor.detach().numpy().copy() for id, tensor in module.state_dict().items()}
    given |= {**constant_data(traced), "input": x.numpy(), "target": y.numpy().astype(np.int32)}
    expected, refused = run_step(plain, given, operators), 0
    for cut in cuts:
        for changed in mutated(cut(plain), examples(60)):
            try:
                check_graph(changed)
                assert verify(changed, store_all_schedule(changed)).sound
            except FaultError:
                refused += 1
                continue
            found = run_step(changed, given, operators)
            assert [id for id, one in expected.items() if found[id].tobytes() != one.tobytes()] == []
    assert refused > examples(60) // 2


@pytest.mark.parametrize("name", NETWORKS)
def test_a_changed_step_is_refused_or_alike(name: str, operators: Operators) -> None:
    cuts = [partial(with_bands, bands=bands) for bands in (Bands(3, 1000, 1500), Bands(4, 0, 0))]
    refused_or_alike(name, network(NETWORKS[name]), cuts, operators)


def test_a_changed_step_in_tiles_is_refused_or_alike(operators: Operators) -> None:
    torch.manual_seed(0)
    for name, module, x, tiles in in_tiles():
        refused_or_alike(name, (module, x, torch.arange(len(x)) % 3), [partial(with_tiles, tiles=tiles)], operators)


def in_parts() -> tuple[Graph, dict[str, NDArray[Any]]]:
    """A step in bands that adds to sums in RAM, with a part of its batch."""
    module, x, y = network(NETWORKS["camera"])
    module(x)
    model = Model("parts", module, (torch.cat([x, x]),), (torch.cat([y, y]),), cross_entropy)
    step = TrainingStep(model).in_micro_batches(2)
    graph = step.graph(load_board("nrf52840"), layout=MemoryLayout(micro_batches=2, bands=Bands(3, 500, 500)))
    given = {id: tensor.detach().numpy().copy() for id, tensor in module.state_dict().items()}
    given |= {**step.constants(graph), "input": x.numpy(), "target": y.numpy().astype(np.int32)}
    sums = (one for one in graph.residents if one.kind in ("gradient", "loss"))
    return graph, given | {one.id: np.zeros(one.shape, np.float32) for one in sums}


def test_bands_in_another_order_are_refused_or_alike(operators: Operators) -> None:
    graph, given = in_parts()
    check_graph(graph)
    expected, draw, found = run_step(graph, given, operators), Random(0), Counter[bool]()
    whole = store_all_schedule(graph)
    nodes = {node.id: node for node in graph.nodes}
    for _ in range(examples(120)):
        computed = [step for step in whole.steps if step.do == "compute"]
        place = draw.randrange(len(computed))
        moved = computed.pop(place)
        computed.insert(max(0, place + draw.choice((-6, -2, -1, 1, 2, 6))), moved)
        frees = [step for step in whole.steps if step.do != "compute"]
        sound = verify(graph, replace(whole, steps=(*computed, *frees)), check_offsets=False)
        refused = any("is not in RAM" in fault for fault in sound.faults)
        found[refused] += 1
        if not refused:
            again = replace(graph, nodes=tuple(nodes[step.target] for step in computed))
            tensors = run_step(again, given, operators)
            assert [id for id, one in expected.items() if tensors[id].tobytes() != one.tobytes()] == []
    assert min(found[True], found[False]) > examples(120) // 10


def test_bands_that_add_to_a_sum_in_ram_wait_for_each_other() -> None:
    graph, _ = in_parts()
    adding = [node for node in graph.nodes if node.operation and node.operation.op == "matmul_accumulate_rows"]
    first, second, third = adding
    free = replace(second, inputs=tuple(id for id in second.inputs if id != first.values[0].id))
    both = replace(third, inputs=(*third.inputs, first.values[0].id))
    with pytest.raises(FaultError, match=r"no edge says that it adds to \S+ after the band before it"):
        check_graph(instead(graph, (second, free), (third, both)))
