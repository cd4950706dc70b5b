# SPDX-License-Identifier: Apache-2.0
"""What every node of a graph costs in time and energy, from a profile (docs/costs.md).

A configuration that the profile holds costs what its row says. Any other is predicted by a model of its operator,

    cost = constant + FLOPs * per_flop + bytes * per_byte + the sum of loops * per_loop

(see `features` and `loops`) whose coefficients are not negative and minimise the squared relative error over the
profile's own rows of that operator; a row's prediction by a model fitted without it gives the error that is reported.
Each way of computing an operator has a model of its own, in which rows of similar ways and operators count little: they
say what a loop costs of which the others know nothing. An operator that adds to a sum so far and has no row is
predicted by the model of the one that does not, and one without results for a way back by that of the one with them.
Any other of which the profile has no row at all is predicted from FLOPs and bytes, by all compute rows. A page costs
``latency + blocks * per_block``, fitted on the page rows; a page takes whole blocks of the card. A configuration on
kept tensors without a row of its own costs what it consists of (see `card`): transfers, a weight gradient, a descent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from poet_profiles.errors import UserError
from poet_profiles.firmware.operators import (
    ACCUMULATE,
    INFER,
    OF_BANDS,
    OPTIMIZERS,
    ROWS,
    S8,
    parse_params,
)
from poet_profiles.graph import Graph, Node, PageCost, Value
from poet_profiles.graph.kept import COMMIT, FETCH
from poet_profiles.profile import NO_SENSOR, PLACE

from poet_planner.costs.card import CardWork, WeightTile, card_work
from poet_planner.costs.features import Features, features, has_features
from poet_planner.costs.fitting import fit_relative, left_out_error
from poet_planner.costs.loops import WINOGRAD

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

Profile = list[dict[str, Any]]

PAGE_IN = "page_in"
PAGE_OUT = "page_out"
# Rows that are no operators: the sleeping board, the time between two operators, a whole step.
IDLE = "idle"
OVERHEAD = "overhead"
STEP = "step"
ALL_OPERATORS = "(all operators)"
# Operators that compute the same, beside those that a name tells by its end.
ALIKE = {"conv2d": "conv2d_relu", "conv2d_relu": "conv2d", "linear": "matmul", "matmul": "linear"}
ALIKE["shift"] = "strided_copy"
# Columns of every model; those of a way's loops follow.
CONSTANT, FLOPS, BYTES, BLOCKS = "constant", "flops", "bytes", "blocks"
# What a row counts that is computed another way, or by a similar operator: so little that it hardly moves what the rows
# of the same way say, and enough to know what they leave open.
SIMILAR_WEIGHT = 0.03


class Basis(StrEnum):
    """What a node's cost rests on: a row of that source, or a model fitted on other rows."""

    MEASURED = "measured"
    EMULATED = "emulated"
    PUBLISHED = "published"
    FITTED = "fitted"


_BEST_FIRST = (Basis.MEASURED, Basis.EMULATED, Basis.PUBLISHED)


@dataclass(frozen=True)
class Fit:
    """A model of one operator's cost.

    ``time_error`` and ``energy_error`` are the mean relative errors of the rows' predictions by models fitted without
    them; None where one row is all there is.
    """

    name: str
    rows: int
    sources: tuple[str, ...]
    columns: tuple[str, ...]
    time: tuple[float, ...]
    energy: tuple[float, ...]
    time_error: float | None
    energy_error: float | None

    def predict(self, counts: Mapping[str, float]) -> tuple[float, float]:
        """Time in seconds and energy in joules of one configuration, or of one page."""
        factors = [counts.get(column, 0.0) for column in self.columns]
        return _dot(self.time, factors), _dot(self.energy, factors)


@dataclass(frozen=True)
class CostedGraph:
    """A graph with its costs, what each node's rests on, and the fitted models that were used, by name.

    ``predicted_j`` is what each of these predicts of a node's energy, by node and model.
    ``firmware`` are the builds that the profile's rows were taken with, none for published rows. ``senses`` is False
    where rows have energies that nobody measured: their times, multiplied by the powers of the board file.
    ``idle_power_w`` is what the sleeping board drew, which the energies do not contain: 0 for published rows, where
    nothing was subtracted, and None where the profile does not say.
    """

    graph: Graph
    basis: dict[str, Basis]
    fits: dict[str, Fit]
    predicted_j: Mapping[str, Mapping[str, float]]
    firmware: tuple[str, ...]
    senses: bool = True
    idle_power_w: float | None = None


class CostModel:
    """Costs of one board, from the rows of its profile.

    Parameters
    ----------
    profile : pandas.DataFrame or list of dict
        As :func:`poet_profiles.profile.read_profile` returns it, of one board, or its rows.
    block_bytes : int
        Size of a block of the board's storage; a page takes whole blocks.
    overlaps : bool
        Whether the board computes while its card transfers.
    smallest_page_bytes : int
        Smaller values are not paged, and smaller transfers left out of the fit: they take longer than their bytes say.
        Published costs of pages hold for every size.
    fpu : bool
        Whether the board's core has a floating-point unit, and so the firmware's kernels for it.
    runner_s : float
        What the firmware's runner takes for a call, which rows of a benchmark do not contain; those in place do, and to
        published ones nothing is added. Updates are one call together: theirs is left out.
    """

    def __init__(
        self,
        profile: pd.DataFrame | Profile,
        block_bytes: int = 512,
        overlaps: bool = False,
        smallest_page_bytes: int = 0,
        fpu: bool = False,
        runner_s: float = 0.0,
    ) -> None:
        self._fpu = fpu
        self._block_bytes = block_bytes
        self._overlaps = overlaps
        if not isinstance(profile, list):
            profile = cast(Profile, profile.to_dict("records"))
        rows = [_Row(*(row[name] for name in _Row._fields)) for row in profile]
        rows.sort(key=lambda row: _BEST_FIRST.index(Basis(row.source)))
        self._exact: dict[tuple[str, str], _Row] = {}
        for row in rows:
            self._exact.setdefault((row.op, row.params), row)
        between = self._exact.get((OVERHEAD, ""))
        self._between = (between.time_s, between.energy_j) if between else (0.0, 0.0)
        self._by_op: dict[str, list[_Row]] = {}
        for row in self._exact.values():
            if row.op not in (IDLE, OVERHEAD, STEP):
                self._by_op.setdefault(row.op, []).append(row)
        paged = {row.source for op in (PAGE_IN, PAGE_OUT) for row in self._by_op.get(op, ())}
        self._smallest_page_bytes = smallest_page_bytes if paged != {Basis.PUBLISHED.value} else 0
        self._known_fits: dict[str, Fit] = {}
        self._features: dict[str, list[tuple[_Row, Features]]] = {}
        self._fits: dict[str, Fit] = {}
        self._workspaces = _workspaces(profile)
        self._firmware = tuple(sorted({row["firmware"] for row in profile if row["source"] != Basis.PUBLISHED.value}))
        self._runner_s = runner_s if self._firmware else 0.0
        self._in_place = _in_place(profile)
        self._idle_power_w = _idle_power_w(profile)
        self._senses = not any(str(row["meter"]).startswith(NO_SENSOR) for row in profile)

    def apply(self, graph: Graph) -> CostedGraph:
        """Give every node its time and energy, and every value its page costs where the board has storage.

        A fetched value has none: it is on the card anyway. Where an agent has seen what PyTorch's kernels allocate on
        the board, a node's workspace is that, and not what the tracing computer's kernels take.

        Raises
        ------
        UserError
            If the profile has no row that a model could be fitted on, or none of an operator whose FLOPs are not known.
        """
        self._fits = {}
        basis: dict[str, Basis] = {}
        predicted_j = {}
        nodes = []
        for node in graph.nodes:
            cost = self._compute(graph, node)
            basis[node.id] = cost.basis
            predicted_j[node.id] = cost.predicted_j
            fetched = node.operation is not None and node.operation.op == FETCH
            values = tuple(replace(value, page=None if fetched else self._page(value)) for value in node.values)
            workspace = self._workspace(node) if graph.allocates else node.workspace_bytes
            own = {name: getattr(cost, name) for name in ("time_s", "energy_j", "card_time_s", "card_energy_j")}
            nodes.append(replace(node, **own, values=values, workspace_bytes=workspace))
        used = {name for of_node in predicted_j.values() for name in of_node} | {PAGE_IN, PAGE_OUT}
        fits = {name: fit for name, fit in sorted(self._fits.items()) if name in used}
        sources = {one.value for one in basis.values()} - {Basis.FITTED.value}
        sources |= {source for fit in fits.values() for source in fit.sources}
        costed = replace(graph, nodes=tuple(nodes), source="+".join(sorted(sources)))
        return CostedGraph(costed, basis, fits, predicted_j, self._firmware, self._senses, self._idle_power_w)

    def _compute(self, graph: Graph, node: Node) -> _Cost:
        if node.operation is None:
            return _Cost(0.0, 0.0, Basis.FITTED)
        op, params = node.operation.op, node.operation.params
        source = node.operation.operands[0] if node.operation.operands else ""
        changed = node.operation.results[0] if node.operation.results else ""
        work = card_work(graph, op, params, self._overlaps, source, changed)
        cost = self._operator(node.id, op, params) if work is None else self._on_card(node.id, op, params, work)
        if op == COMMIT:
            cost = cost.shared(parse_params(params)["steps"])
        runner = self._runner_share(cost, op, params)
        time_s, energy_j = cost.time_s * (1 + runner), cost.energy_j * (1 + runner)
        return cost._replace(time_s=time_s + self._between[0], energy_j=energy_j + self._between[1])

    def _runner_share(self, cost: _Cost, op: str, params: str) -> float:
        """What the runner adds to a call, which takes as much power as the call."""
        if not cost.time_s or op in OPTIMIZERS or (op, params) in self._in_place:
            return 0.0
        return self._runner_s / cost.time_s

    def _on_card(self, node: str, op: str, params: str, work: CardWork) -> _Cost:
        """Split a measured cost into compute and card.

        The card's part is the predicted cost of its transfers, or all of it for a pure transfer.
        """
        parts = self._sum(node, work)
        if (op, params) not in self._exact:
            return parts
        cost = self._operator(node, op, params)
        if not work.operators and not work.parts:
            return cost._replace(card_time_s=cost.time_s, card_energy_j=cost.energy_j)
        return cost._replace(
            card_time_s=min(cost.time_s, parts.card_time_s), card_energy_j=min(cost.energy_j, parts.card_energy_j)
        )

    def _workspace(self, node: Node) -> int:
        key = (node.operation.op, node.operation.params) if node.operation else ("", "")
        return self._workspaces.get(key, node.workspace_bytes)

    def _operator(self, node: str, op: str, params: str) -> _Cost:
        row = self._exact.get((op, params))
        if row is not None:
            return _Cost(row.time_s, row.energy_j, Basis(row.source))
        if not has_features(params):
            raise UserError(
                f"{node}: how many FLOPs {op} takes is not known, so that no fit can price it; "
                "use another layer, or add a row that was measured on the board to the profile "
                "(its op and params as `poet-plan graph` writes them)"
            )
        counted = features(op, params, self._fpu)
        fit = self._fit(op, counted)
        time_s, energy_j = fit.predict(_columns(counted))
        return _Cost(time_s, energy_j, Basis.FITTED, {fit.name: energy_j})

    def _sum(self, node: str, work: CardWork) -> _Cost:
        """An operator on the card whose parts the profile knows."""
        computed = [self._operator(node, *part) for part in work.operators]
        costs = {part: self._part(part) for part in set(work.parts)}
        parts = [costs[part].cost for part in work.parts]
        read = [self._transfer(PAGE_IN, size) for size in work.read_bytes]
        written = [self._transfer(PAGE_OUT, size) for size in work.written_bytes]
        times, energies = zip((0.0, 0.0), *(one[:2] for one in computed), *parts, strict=True)
        moves_s, moves_j = zip((0.0, 0.0), *read, *written, strict=True)
        arriving = [] if work.arriving is None else read[work.arriving :]
        hidden = sum(min(part[0], transfer[0]) for part, transfer in zip(parts, arriving, strict=False))
        card_s, card_j = max(0.0, sum(moves_s) - hidden), sum(moves_j)
        predicted_j = {PAGE_IN: sum(one[1] for one in read), PAGE_OUT: sum(one[1] for one in written)}
        for part in work.parts:
            _add(predicted_j, {costs[part].fit: costs[part].cost[1]})
        for one in computed:
            _add(predicted_j, one.predicted_j)
        return _Cost(sum(times) + card_s, sum(energies) + card_j, Basis.FITTED, predicted_j, card_s, card_j)

    def _part(self, part: WeightTile) -> _Part:
        """Of some rows of weights: what the model says, corrected by what it says of the whole."""
        counted = features(part.op, part.params, self._fpu, part.whole)
        fit = self._fit(part.op, counted)
        time_s, energy_j = fit.predict(_columns(counted))
        row = self._exact.get((part.op, part.whole))
        if row is not None:
            counted = features(part.op, part.whole, self._fpu)
            whole = self._fit(part.op, counted).predict(_columns(counted))
            time_s, energy_j = time_s * row.time_s / whole[0], energy_j * row.energy_j / whole[1]
        return _Part(fit.name, (time_s, energy_j))

    def reading(self, sizes: Iterable[int]) -> tuple[float, float]:
        """Time and energy of reading tensors from the card, one by one."""
        costs = [self._transfer(PAGE_IN, size) for size in sizes]
        return sum(time_s for time_s, _ in costs), sum(energy_j for _, energy_j in costs)

    def _transfer(self, op: str, size: int) -> tuple[float, float]:
        """Time and energy of moving so many bytes in or out."""
        if PAGE_IN not in self._by_op or PAGE_OUT not in self._by_op:
            raise UserError(
                "the profile has no page rows, so that nothing can lie on the card; profile the board's card"
            )
        return self._page_fit(op).predict({CONSTANT: 1.0, BLOCKS: float(self._blocks(size))})

    def _fit(self, op: str, counted: Features) -> Fit:
        """The model of the operator by that way, of similar rows if it has none, or else of all."""
        known = [name for name in _similar(op) if name in self._by_op]
        known.sort(key=lambda name: all(one.way != counted.way for _, one in self._counted(name)))
        name = f"{known[0]}, {counted.way}" if known and counted.way else known[0] if known else ALL_OPERATORS
        if name in self._known_fits:
            return self._used(name)
        rows = [(row, one) for like in known for row, one in self._counted(like) if _resemble(one, counted)]
        if not rows:
            return self._fit_of_all(op)
        own = [row.op == known[0] and one.way == counted.way for row, one in rows]
        weights = np.where(own, 1.0, SIMILAR_WEIGHT) if any(own) else np.ones(len(rows))
        self._known_fits[name] = _fitted(name, [row for row, _ in rows], [_columns(one) for _, one in rows], weights)
        return self._used(name)

    def _fit_of_all(self, op: str) -> Fit:
        if op.endswith(S8):
            raise UserError(
                f"the profile has no row of {op}, and what is on int8 costs what nothing else does; profile the board "
                "again, or the plan's graph.json with poet-harness profile --graph"
            )
        if ALL_OPERATORS not in self._known_fits:
            names = (name for name in self._by_op if name not in (PAGE_IN, PAGE_OUT) and not name.endswith(S8))
            rows = [row for name in names for row in self._by_op[name] if has_features(row.params)]
            if not rows:
                raise UserError(f"the profile has no row of {op} nor of any other operator; profile the board first")
            counts = [_columns(replace(features(row.op, row.params), loops={})) for row in rows]
            self._known_fits[ALL_OPERATORS] = _fitted(ALL_OPERATORS, rows, counts, np.ones(len(rows)))
        return self._used(ALL_OPERATORS)

    def _counted(self, op: str) -> list[tuple[_Row, Features]]:
        if op not in self._features:
            rows = [row for row in self._by_op[op] if has_features(row.params)]
            self._features[op] = [(row, features(op, row.params, self._fpu)) for row in rows]
        return self._features[op]

    def _used(self, name: str) -> Fit:
        return self._fits.setdefault(name, self._known_fits[name])

    def _page(self, value: Value) -> PageCost | None:
        if value.bytes < max(1, self._smallest_page_bytes):
            return None
        if PAGE_IN not in self._by_op or PAGE_OUT not in self._by_op:
            return None
        return PageCost(*self._transfer(PAGE_OUT, value.bytes), *self._transfer(PAGE_IN, value.bytes))

    def _page_fit(self, op: str) -> Fit:
        if op not in self._known_fits:
            rows = _sequential(self._by_op[op])
            rows = [row for row in rows if _page_bytes(row.params) >= self._smallest_page_bytes] or rows
            blocks = [{CONSTANT: 1.0, BLOCKS: float(self._blocks(_page_bytes(row.params)))} for row in rows]
            self._known_fits[op] = _fitted(op, rows, blocks, np.ones(len(rows)))
        return self._used(op)

    def _blocks(self, size: int) -> int:
        return -(-size // self._block_bytes)


def _similar(op: str) -> list[str]:
    """The operator, and those that compute nearly the same, what it can do without last."""
    whole = op.removesuffix(ROWS) if op in OF_BANDS else op
    plain = whole.removesuffix(ACCUMULATE).removesuffix(INFER)
    return list(dict.fromkeys((op, whole, plain, ALIKE.get(plain, plain))))


def _resemble(one: Features, other: Features) -> bool:
    return one.way == other.way or (one.products and other.products)


def _columns(counted: Features) -> dict[str, float]:
    """By Winograd's algorithm, the loops are all there is: beside others they would give up what a few filters cost."""
    if counted.way == WINOGRAD:
        return {**counted.loops}
    return {CONSTANT: counted.calls, FLOPS: counted.flops, BYTES: counted.bytes, **counted.loops}


def _workspaces(profile: Profile) -> dict[tuple[str, str], int]:
    """Of operators that an agent saw, in a step or by themselves, by op and params."""
    seen = (row for row in profile if row.get("where") == PLACE or row.get("call"))
    largest_last = sorted(seen, key=itemgetter("workspace_bytes"))
    return {(row["op"], row["params"]): int(row["workspace_bytes"]) for row in largest_last}


def _in_place(profile: Profile) -> frozenset[tuple[str, str]]:
    """Configurations that were timed in a step, runner included."""
    return frozenset((row["op"], row["params"]) for row in profile if row.get("where") == PLACE)


def _idle_power_w(profile: Profile) -> float | None:
    """The power that was subtracted from the energies: that of the sleeping board, by the best source."""
    if all(row["source"] == Basis.PUBLISHED.value for row in profile):
        return 0.0
    asleep = [row for row in profile if row["op"] == IDLE]
    powers = (row["idle_power_w"] for basis in _BEST_FIRST for row in asleep if row["source"] == basis.value)
    return next((float(power) for power in powers), None)


class _Row(NamedTuple):
    op: str
    params: str
    time_s: float
    energy_j: float
    source: str


class _Part(NamedTuple):
    """Time and energy of a part of an operator, by the model of that name."""

    fit: str
    cost: tuple[float, float]


class _Cost(NamedTuple):
    """``predicted_j`` is what each fit predicts of the energy.

    The card's time and energy are parts of the whole. What it moves while something is computed takes no time of it.
    """

    time_s: float
    energy_j: float
    basis: Basis
    predicted_j: Mapping[str, float] = MappingProxyType({})
    card_time_s: float = 0.0
    card_energy_j: float = 0.0

    def shared(self, steps: int) -> _Cost:
        """The mean of so many steps, of which one has it."""
        predicted_j = {name: joules / steps for name, joules in self.predicted_j.items()}
        mean = {name: getattr(self, name) / steps for name in ("time_s", "energy_j", "card_time_s", "card_energy_j")}
        return self if steps == 1 else self._replace(**mean, predicted_j=predicted_j)


def _add(sums: dict[str, float], more: Mapping[str, float]) -> None:
    for name, amount in more.items():
        sums[name] = sums.get(name, 0.0) + amount


def _page_bytes(params: str) -> int:
    try:
        return int(dict(pair.split("=", 1) for pair in params.split(" "))["bytes"])
    except (KeyError, ValueError):
        raise UserError(f"page row: {params!r} lacks bytes=…; correct the profile") from None


def _sequential(rows: list[_Row]) -> list[_Row]:
    """A value lies in consecutive blocks; scattered rows serve only where there are no others."""
    return [row for row in rows if row.params.endswith("pattern=sequential")] or rows


def _fitted(
    name: str, rows: Sequence[_Row], counts: Sequence[Mapping[str, float]], weights: NDArray[np.float64]
) -> Fit:
    """Rows that count less are said nothing about: neither how many there are, nor how well they are predicted."""
    columns = tuple(dict.fromkeys(column for one in counts for column in one))
    table = np.array([[one.get(column, 0.0) for column in columns] for one in counts])
    times = np.array([row.time_s for row in rows])
    energies = np.array([row.energy_j for row in rows])
    own = [row for row, weight in zip(rows, weights, strict=True) if weight == 1]
    return Fit(
        name=name,
        rows=len(own),
        sources=tuple(sorted({row.source for row in own})),
        columns=columns,
        time=fit_relative(table, times, weights),
        energy=fit_relative(table, energies, weights),
        time_error=left_out_error(table, times, weights),
        energy_error=left_out_error(table, energies, weights),
    )


def _dot(coefficients: Iterable[float], factors: Iterable[float]) -> float:
    return float(sum(c * f for c, f in zip(coefficients, factors, strict=True)))
