# SPDX-License-Identifier: Apache-2.0
"""A lowered step with its larger parameters, its batch, and what flash has no room for, on the card (docs/SPEC.md, 3).

A parameter becomes a value where it is read: a fetch makes it, which the plan may repeat instead of holding it. A
weight gradient becomes one node with its update, which writes the parameter's next version to the card, a tile after
the other. Where streaming is asked for, operators read large parameters tile by tile themselves, and no fetch needs
room for all of one. Nothing reads a next version in this step, so that no update has to wait for another. Small
parameters and what is a state stay in RAM and change at the end of the step, as they did. A constant is fetched like a
parameter; nothing writes it. The node that commits stands last.

Constants alone may lie there: the step is then as it was, but for what reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from poet_profiles.card.layout import BLOCK_BYTES
from poet_profiles.errors import UserError
from poet_profiles.firmware.operators import (
    DESCENT_PARAMS,
    OPERATORS,
    UPDATE,
    params_key,
    parse_params,
    rows_together,
)
from poet_profiles.firmware.steps import POINTWISE
from poet_profiles.graph import Constant, Graph, Kept, Node, Operation, Resident, Uses, Value
from poet_profiles.graph.kept import BATCH_KINDS, COMMIT, CONSTANT, FETCH, TRAINED_KINDS, commits_each_step
from poet_profiles.graph.parts import name_of
from poet_profiles.graph.sizes import aligned
from poet_runtime.traced_graph import poets_own

from poet_planner.graph.streaming import FETCHED_WHOLE, Streaming
from poet_planner.lowering.memory.in_place import without_taking_over
from poet_planner.lowering.memory.optimizer_step import FACTORS, ORDERING_NODE, Descent, descents_of
from poet_planner.lowering.memory.streamed import streamed, streamed_update, tile_rows
from poet_planner.lowering.memory.transposed_gradients import with_turned_gradients
from poet_planner.lowering.operators.draft import added, behind_one_another, done, region_bytes

COMMIT_NODE = poets_own("commit")


def with_parameters_on_the_card(
    graph: Graph,
    above_bytes: int,
    flash_bytes: int | None = None,
    streaming: Streaming = FETCHED_WHOLE,
    batch_on_card: bool = True,
    commit_each: int = 1,
) -> Graph:
    """The same step with parameters of more than ``above_bytes`` on the card.

    Nothing is computed in place any more: `with_taking_over` comes after.

    Parameters
    ----------
    graph : Graph
        As lowered for the firmware, with gradients as values.
    flash_bytes : int, optional
        Room for constants in flash: the largest that it has room for stay there.
    streaming : Streaming
        Which of them operators read tile by tile.
    batch_on_card : bool
        Whether inputs and targets lie there, too, and not in RAM.
    commit_each : int
        So many steps are made to count together.
    """
    graph = with_turned_gradients(without_taking_over(graph))
    in_flash = _constants_that_fit(graph, flash_bytes)
    batch_and_parameters = _large(graph, above_bytes, batch_on_card)
    step = _Step(graph, {**batch_and_parameters, **_beyond(graph, in_flash)}, streaming)
    for node in sorted(graph.nodes, key=lambda node: node.id != FACTORS):
        step.take(node)
    made = _on_card(graph, step, in_flash)
    return replace(made, nodes=(*made.nodes, _commit(step.nodes, commit_each))) if commits_each_step(made) else made


def with_constants_on_the_card(graph: Graph, flash_bytes: int, streaming: Streaming = FETCHED_WHOLE) -> Graph:
    """The same step with those constants on the card that flash has no room for, and everything else where it was.

    Nothing is computed in place any more: `with_taking_over` comes after.
    """
    in_flash = _constants_that_fit(graph, flash_bytes)
    return with_kept_constants(graph, _beyond(graph, in_flash), streaming)


def with_kept_constants(graph: Graph, kept: Mapping[str, Kept], streaming: Streaming) -> Graph:
    """The same step, or inference, with these of its constants on the card."""
    graph = without_taking_over(graph)
    step = _Step(graph, kept, streaming)
    for node in graph.nodes:
        step.take(node)
    return _on_card(graph, step, [constant for constant in graph.constants if constant.id not in kept])


def with_states_on_the_card(graph: Graph, above_bytes: int, tile_bytes: int, commit_each: int = 1) -> Graph:
    """The same step with the states of parameters of more than ``above_bytes`` on the card, and the rest where it was.

    An update reads and writes them tile by tile. `with_taking_over` comes after.
    """
    graph = without_taking_over(graph)
    sizes = {resident.id: resident.bytes for resident in graph.residents}
    descents = {id: one for id, one in descents_of(graph).items() if one.states and sizes[one.parameter] > above_bytes}
    away = {state for one in descents.values() for state in one.states}
    if not away:
        return graph
    nodes = [_by_tiles(node, descents.get(node.id), tile_bytes) for node in graph.nodes]
    residents = _placed(resident for resident in graph.residents if resident.id not in away)
    return replace(
        graph,
        nodes=(*nodes, _commit(nodes, commit_each)),
        resident_bytes=region_bytes(residents),
        residents=residents,
        kept=(*graph.kept, *(_kept(one, True) for one in graph.residents if one.id in away)),
    )


def _by_tiles(node: Node, descent: Descent | None, tile_bytes: int) -> Node:
    """An update whose states are on the card; its parameter and its gradient are in RAM."""
    if descent is None:
        return node
    op, size = f"streamed_sgd{UPDATE}", descent.params["size"]
    params = {"size": size, "tile": tile_rows(size, 4, tile_bytes), **_params_of(descent)}
    changed = (descent.parameter, *descent.states)
    factors = (FACTORS,) if params.get("adam") else ()
    return replace(
        node,
        workspace_bytes=OPERATORS[op].sizes(params).workspace,
        operation=Operation(op, params_key(op, params), (descent.gradient, *changed, *factors), changed),
        uses=Uses.BOTH,
    )


def _on_card(graph: Graph, step: _Step, in_flash: Iterable[Constant]) -> Graph:
    residents = _placed(resident for resident in graph.residents if resident.id not in step.kept)
    return replace(
        graph,
        nodes=tuple(step.nodes),
        resident_bytes=region_bytes(residents),
        residents=residents,
        kept=tuple(step.kept.values()),
        constants=behind_one_another(in_flash),
    )


def _large(graph: Graph, above_bytes: int, batch_on_card: bool) -> dict[str, Kept]:
    """Of the residents, larger parameters and perhaps the batch, as they are kept; a fetch is of whole words."""
    descents = descents_of(graph).values()
    trained = {one.parameter for one in descents}
    sizes = _sizes(graph.residents)
    beside = _beside(graph, {one.gradient: one.parameter for one in descents})
    states = {state: one.parameter for one in descents for state in one.states}
    kept = {
        resident.id: _kept(resident, resident.id in trained)
        for resident in graph.residents
        if (batch_on_card and resident.kind in BATCH_KINDS and resident.bytes % 4 == 0)
        or (resident.kind == "parameter" and sizes[beside.get(resident.id, resident.id)] > above_bytes)
    }
    # A state lies where its parameter does: one update changes both.
    return kept | {one.id: _kept(one, True) for one in graph.residents if states.get(one.id) in kept}


def _beyond(graph: Graph, in_flash: Iterable[Constant]) -> dict[str, Kept]:
    """The constants that are not in flash, as they are kept."""
    beyond = [one for one in graph.constants if one not in in_flash]
    return {one.id: Kept(one.id, CONSTANT, one.bytes, one.shape) for one in beyond}


class _Fused(NamedTuple):
    """An operator that makes gradients and writes the next versions of the parameters that they are of, in order.

    With ``streams`` it reads the first parameter from the card.
    """

    op: str
    params: dict[str, int]
    streams: bool = False


class _Step:
    """``nodes`` of the new graph so far, and what it has ``kept``, by id."""

    def __init__(self, graph: Graph, kept: Mapping[str, Kept], streaming: Streaming) -> None:
        self._streaming = streaming
        self._in_parts = graph.micro_batches > 1
        descents = descents_of(graph)
        self._descent = next((_params_of(one) for one in descents.values()), {})
        self.kept = dict(kept)
        self.nodes: list[Node] = []
        self._dropped = {id for id, one in descents.items() if one.parameter in self.kept}
        self._trains: dict[str, list[str]] = {}
        self._states: dict[str, tuple[str, ...]] = {}
        for one in descents.values():
            if one.parameter in self.kept:
                self._trains.setdefault(one.gradient, []).append(one.parameter)
                self._states[one.parameter] = one.states
        others = [node for node in graph.nodes if node.id != ORDERING_NODE and node.id not in self._dropped]
        self._readers = Counter(id for node in others for id in node.inputs)
        for id, rows in self._tables([node.operation for node in others if node.operation]).items():
            self.kept[id] = replace(self.kept[id], rows=rows)
        self._fetched: set[str] = set()
        self._written: list[str] = []

    def _tables(self, operations: list[Operation]) -> dict[str, int]:
        """Into how many rows streamed tensors are divided, by id: those of which a step touches the rows of its tokens.

        Embeddings alone read them, and at most one of them trains each, by plain descent: a decay changes every row.
        """
        above = self._streaming.above_bytes
        touched = (
            set()
            if self._descent
            else {
                self._trains[operation.results[0]][0]
                for operation in operations
                if operation.op == "embedding_backward" and self._are_for_one_update_each(operation.results)
            }
        )
        touched |= {id for id, kept in self.kept.items() if kept.kind == CONSTANT}
        read_whole = {id for one in operations for id in one.operands[one.op == "embedding" :]}
        return {
            table: parse_params(operation.params)["v"]
            for operation in operations
            if operation.op == "embedding" and above is not None
            for table in operation.operands[:1]
            if table in touched - read_whole and self.kept[table].bytes > above
        }

    def _are_for_one_update_each(self, gradients: tuple[str, ...]) -> bool:
        return all(len(self._trains.get(id, ())) == 1 and not self._readers[id] for id in gradients)

    def take(self, node: Node) -> None:
        """Add what stands for one node of the old graph."""
        if node.id in self._dropped:
            return
        if (parts := self._unclipped(node)) is not None:
            for part in parts:
                self.take(part)
            return
        if node.id == ORDERING_NODE:
            waited_for = (id for id in node.inputs if id not in self._trains or self._readers[id])
            self.nodes.append(replace(node, inputs=(*waited_for, *self._written)))
            return
        fused = self._fused(node)
        if fused is not None:
            self.nodes.append(self._updating(node, fused))
            return
        self.nodes.append(self._reading(node))
        sums = node.operation.results if self._in_parts and node.operation else ()
        for gradient in dict.fromkeys((*sums, *(value.id for value in node.values))):
            for parameter in self._trains.get(gradient, ()):
                self._update(node, gradient, parameter)

    def _unclipped(self, node: Node) -> tuple[Node, Node] | None:
        """A convolution that can be streamed and its ReLU, where they were one node, which is read whole alone."""
        operation = node.operation
        if operation is None or operation.op != "conv2d_relu":
            return None
        before, result = added(node.id, "before"), node.values[0]
        convolution = replace(operation, op="conv2d", results=(before,))
        if streamed(convolution, self.kept, self._streaming) is None:
            return None
        relu = Operation(POINTWISE, f"size={result.bytes // 4} steps=relu(y0,x0)", (before,), operation.results)
        return (
            replace(node, id=before, values=(Value(before, result.bytes),), operation=convolution),
            replace(node, inputs=(before,), workspace_bytes=0, operation=relu),
        )

    def _fused(self, node: Node) -> _Fused | None:
        """The operator that does both, where the gradients are there for one update each and for nothing else."""
        operation = node.operation
        if operation is None or operation.op not in ("conv2d_backward_weight", "matmul", "embedding_backward"):
            return None
        if not self._are_for_one_update_each(operation.results):
            return None
        params = parse_params(operation.params)
        parameter = self.kept[self._trains[operation.results[0]][0]]
        if operation.op == "embedding_backward":
            return _Fused("streamed_embedding_update", params, streams=True) if parameter.rows > 1 else None
        size, tile_bytes = parameter.bytes, self._streaming.tile_bytes
        params |= self._descent
        if operation.op == "conv2d_backward_weight":
            op = "conv2d" + UPDATE
            together = rows_together(op, params)
            params |= {"tile": tile_rows(params["k"], size // params["k"], tile_bytes, together)}
        elif _is_gradient_of_linear(params):
            op = "linear" + UPDATE
            rows, columns = params["m"], params["n"]
            params |= {"m": params["k"], "k": columns, "n": rows, "bias": 0}
            params |= {"tile": tile_rows(rows, 4 * columns, tile_bytes)}
        else:
            return None
        if streamed_update(op, params, size, self._streaming):
            return _Fused(f"streamed_{op}", params, streams=True)
        return _Fused(op, params)

    @property
    def _factors(self) -> tuple[str, ...]:
        """What Adam's updates have in common."""
        return (FACTORS,) if self._descent.get("adam") else ()

    def _updating(self, node: Node, fused: _Fused) -> Node:
        """The node of gradients, which their updates take in."""
        reading = self._reading(node)
        assert reading.operation is not None
        results = reading.operation.results
        parameters = tuple(self._trains[gradient][0] for gradient in results)
        slots = zip(*(self._states[parameter] for parameter in parameters), strict=True)
        states = tuple(state for slot in slots for state in slot)
        first = {parameters[0], *self._states[parameters[0]]}
        old = tuple(
            tensor if fused.streams and tensor in first else self._fetch(tensor, node)
            for tensor in (*parameters, *states)
        )
        fetched = (id for id in old if id not in self.kept)
        self._written.append(done(node.id))
        return replace(
            reading,
            inputs=tuple(dict.fromkeys((*reading.inputs, *fetched, *self._factors))),
            values=(
                *(value for value in node.values if value.id not in (*results, done(node.id))),
                Value(done(node.id), 0),
            ),
            workspace_bytes=OPERATORS[fused.op].sizes(fused.params).workspace,
            recomputable=False,
            operation=Operation(
                fused.op,
                params_key(fused.op, fused.params),
                (*reading.operation.operands, *old, *self._factors),
                (*parameters, *states),
            ),
            uses=Uses.BOTH,
        )

    def _update(self, node: Node, gradient: str, parameter: str) -> None:
        """Add a node that updates ``parameter`` by a gradient that another node has made."""
        changed, id = (parameter, *self._states[parameter]), added(parameter, "update")
        size, op = self.kept[parameter].bytes // 4, "sgd" + UPDATE
        params = {"size": size, "tile": tile_rows(size, 4, self._streaming.tile_bytes), **self._descent}
        streams = self._in_parts and streamed_update(op, params, 4 * size, self._streaming)
        op = f"streamed_{op}" if streams else op
        read = (gradient, *(changed if streams else [self._fetch(one, node) for one in changed]), *self._factors)
        inputs = (node.values[0].id if self._in_parts else gradient, *(id for id in read[1:] if id not in self.kept))
        self._written.append(id)
        self.nodes.append(
            Node(
                id=id,
                time_s=0.0,
                energy_j=0.0,
                values=(Value(id, 0),),
                inputs=inputs,
                workspace_bytes=OPERATORS[op].sizes(params).workspace,
                recomputable=False,
                backward=True,
                operation=Operation(op, params_key(op, params), read, changed),
                uses=Uses.BOTH,
            )
        )

    def _reading(self, node: Node) -> Node:
        """The node with what it reads of the card as values, but for what it streams."""
        operation = node.operation
        if operation is None:
            return node
        form = streamed(operation, self.kept, self._streaming)
        fetched = {
            id: self._fetch(id, node)
            for place, id in enumerate(operation.operands)
            if id in self.kept and (form is None or place != form.place)
        }
        operation = replace(operation, operands=tuple(fetched.get(id, id) for id in operation.operands))
        reading = replace(node, inputs=tuple(dict.fromkeys((*node.inputs, *fetched.values()))), operation=operation)
        if form is None:
            return reading
        return replace(
            reading,
            workspace_bytes=OPERATORS[form.op].sizes(form.params).workspace,
            operation=replace(operation, op=form.op, params=params_key(form.op, form.params)),
            uses=Uses.BOTH,
        )

    def _fetch(self, id: str, reader: Node) -> str:
        """The value that a kept tensor is in RAM; its node stands before the first that reads it."""
        value, size = added(id, "fetch"), self.kept[id].bytes
        if id not in self._fetched:
            self._fetched.add(id)
            self.nodes.append(
                Node(
                    id=value,
                    time_s=0.0,
                    energy_j=0.0,
                    values=(Value(value, size),),
                    backward=reader.backward,
                    operation=Operation(FETCH, params_key(FETCH, {"size": size // 4}), (id,), (value,)),
                    uses=Uses.BUS,
                )
            )
        return value


def _sizes(residents: tuple[Resident, ...]) -> dict[str, int]:
    """Bytes by id. A part that fills a block counts as the whole: what is large does not stay in RAM piece by piece."""
    wholes: Counter[str] = Counter()
    for resident in residents:
        wholes[name_of(resident)] += resident.bytes
    return {one.id: wholes[name_of(one)] if one.bytes >= BLOCK_BYTES else one.bytes for one in residents}


def _beside(graph: Graph, parameter: dict[str, str]) -> dict[str, str]:
    """By bias, the weights whose convolution makes both gradients: one node updates both, so they lie together.

    ``parameter`` is that of each gradient.
    """
    return {
        parameter[operation.results[1]]: parameter[operation.results[0]]
        for operation in (node.operation for node in graph.nodes)
        if operation and operation.op == "conv2d_backward_weight" and len(operation.results) == 2
        if parameter.keys() >= set(operation.results)
    }


def _params_of(descent: Descent) -> dict[str, int]:
    """How it descends, as an update's parameters say it; nothing, where it is plain."""
    return {name: number for name, number in descent.params.items() if name in DESCENT_PARAMS}


def _kept(resident: Resident, trained: bool) -> Kept:
    kind = CONSTANT if resident.kind == "parameter" and not trained else resident.kind
    return Kept(resident.id, kind, resident.bytes, resident.shape, resident.part, dtype=resident.dtype)


def _is_gradient_of_linear(product: dict[str, int]) -> bool:
    """Whether it is of the form gy^T x, both as a linear layer has them; of one row, either way is the same."""
    return product["b"] == 1 and (product["k"] == 1 or (product["ta"], product["tb"]) == (1, 0))


def _commit(nodes: list[Node], each: int) -> Node:
    """The node after the ordering node and all that change residents: the last of the step."""
    place = next(place for place, node in enumerate(nodes) if node.id == ORDERING_NODE)
    return Node(
        id=COMMIT_NODE,
        time_s=0.0,
        energy_j=0.0,
        values=(Value(COMMIT_NODE, 0),),
        inputs=tuple(value.id for node in nodes[place:] for value in node.values),
        recomputable=False,
        backward=True,
        operation=Operation(COMMIT, params_key(COMMIT, {"steps": each}), (), ()),
        uses=Uses.BOTH,
    )


def _constants_that_fit(graph: Graph, flash_bytes: int | None) -> tuple[Constant, ...]:
    """The largest constants that flash has room for, in the graph's order: so the fewest bytes have to be fetched.

    Those of int8 and int16 come first, as nothing fetches but words.
    """
    if flash_bytes is None:
        return graph.constants
    fitting: set[str] = set()
    for constant in sorted(graph.constants, key=lambda constant: (constant.dtype is None, -constant.bytes)):
        if aligned(constant.bytes) <= flash_bytes:
            flash_bytes -= aligned(constant.bytes)
            fitting.add(constant.id)
        elif constant.dtype is not None:
            raise UserError(
                f"{graph.name}: {constant.id}, of int{constant.dtype[1:]}, has no room in flash; a card gives words; "
                "use a board with more flash"
            )
    return tuple(constant for constant in graph.constants if constant.id in fitting)


def _placed(residents: Iterable[Resident]) -> tuple[Resident, ...]:
    """One after another, what outlives a step first: so it is one piece when it is committed."""
    return behind_one_another(sorted(residents, key=lambda resident: resident.kind not in TRAINED_KINDS))
