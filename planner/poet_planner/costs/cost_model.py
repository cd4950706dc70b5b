# SPDX-License-Identifier: Apache-2.0
"""What every node of a graph costs in time and energy, from a profile (docs/costs.md).

A configuration that the profile holds costs what its row says. Any other is predicted by a model of its operator,

    cost = constant + FLOPs * per_flop + bytes * per_byte + loops * per_loop

(see `features`) whose coefficients are not negative and minimise the squared relative error over the profile's own rows
of that operator; a row's prediction by a model fitted without it gives the error that is reported. Convolutions by
Winograd's algorithm have models of their own. An operator that adds to a sum so far and has no row is predicted by the
model of the one that does not, and one without results for a way back by that of the one with them. Any other of which
the profile has no row at all is predicted by the same model over all compute rows. A page transfer costs
``latency + blocks * per_block``, fitted on the page rows; a page takes whole blocks of the card. A configuration on
kept tensors without a row of its own costs what it consists of (see `card`): transfers, a weight gradient, a descent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph, Node, PageCost, Value
from poet_profiles.graph.kept import FETCH
from poet_profiles.operators import ACCUMULATE, INFER, S8
from poet_profiles.profile import NO_SENSOR, PLACE

from poet_planner.costs.card import CardWork, WeightTile, card_work
from poet_planner.costs.features import WINOGRAD, features, has_features, kind

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

PAGE_IN = "page_in"
PAGE_OUT = "page_out"
# Rows that are no operators: the sleeping board, the time between two operators, a whole step.
IDLE = "idle"
OVERHEAD = "overhead"
STEP = "step"
ALL_OPERATORS = "(all operators)"


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
    time: tuple[float, ...]
    energy: tuple[float, ...]
    time_error: float | None
    energy_error: float | None

    def predict(self, factors: Sequence[float]) -> tuple[float, float]:
        """Time in seconds and energy in joules of one configuration, or of one page."""
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
    profile : pandas.DataFrame
        As :func:`poet_profiles.profile.read_profile` returns it, of one board.
    block_bytes : int
        Size of a block of the board's storage; a page takes whole blocks.
    overlaps : bool
        Whether the board computes while its card transfers.
    smallest_page_bytes : int
        Smaller values are not paged, and smaller transfers left out of the fit: they take longer than their bytes say.
        Published costs of pages hold for every size.
    """

    def __init__(
        self, profile: pd.DataFrame, block_bytes: int = 512, overlaps: bool = False, smallest_page_bytes: int = 0
    ) -> None:
        self._block_bytes = block_bytes
        self._overlaps = overlaps
        rows = [_Row(*row) for row in profile[list(_Row._fields)].itertuples(index=False)]
        rows.sort(key=lambda row: _BEST_FIRST.index(Basis(row.source)))
        self._exact: dict[tuple[str, str], _Row] = {}
        for row in rows:
            self._exact.setdefault((row.op, row.params), row)
        between = self._exact.get((OVERHEAD, ""))
        self._between = (between.time_s, between.energy_j) if between else (0.0, 0.0)
        self._by_kind: dict[str, list[_Row]] = {}
        for row in self._exact.values():
            if row.op not in (IDLE, OVERHEAD, STEP):
                self._by_kind.setdefault(kind(row.op, row.params), []).append(row)
        paged = {row.source for op in (PAGE_IN, PAGE_OUT) for row in self._by_kind.get(op, ())}
        self._smallest_page_bytes = smallest_page_bytes if paged != {Basis.PUBLISHED.value} else 0
        self._known_fits: dict[str, Fit] = {}
        self._fits: dict[str, Fit] = {}
        self._workspaces = _workspaces(profile)
        self._firmware = tuple(sorted(set(profile["firmware"][profile["source"] != Basis.PUBLISHED.value])))
        self._idle_power_w = _idle_power_w(profile)
        self._senses = not any(str(meter).startswith(NO_SENSOR) for meter in profile["meter"])

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
        costed = replace(graph, nodes=tuple(nodes))
        return CostedGraph(costed, basis, fits, predicted_j, self._firmware, self._senses, self._idle_power_w)

    def _compute(self, graph: Graph, node: Node) -> _Cost:
        if node.operation is None:
            return _Cost(0.0, 0.0, Basis.FITTED)
        op, params = node.operation.op, node.operation.params
        source = node.operation.operands[0] if node.operation.operands else ""
        work = card_work(graph, op, params, self._overlaps, source)
        cost = self._operator(node.id, op, params) if work is None else self._on_card(node.id, op, params, work)
        return cost._replace(time_s=cost.time_s + self._between[0], energy_j=cost.energy_j + self._between[1])

    def _on_card(self, node: str, op: str, params: str, work: CardWork) -> _Cost:
        """Of a row's cost, the card takes what its transfers are predicted to take; all, if it does nothing else."""
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
        fit = self._fit(op, params)
        time_s, energy_j = fit.predict(features(op, params, _model_of(fit, op)))
        return _Cost(time_s, energy_j, Basis.FITTED, {fit.name: energy_j})

    def _sum(self, node: str, work: CardWork) -> _Cost:
        """An operator on the card whose parts the profile knows."""
        computed = [self._operator(node, *part) for part in work.operators]
        costs = {part: self._part(node, part) for part in set(work.parts)}
        parts = [costs[part] for part in work.parts]
        read = [self._transfer(PAGE_IN, size) for size in work.read_bytes]
        written = [self._transfer(PAGE_OUT, size) for size in work.written_bytes]
        times, energies = zip((0.0, 0.0), *(one[:2] for one in computed), *parts, strict=True)
        moves_s, moves_j = zip((0.0, 0.0), *read, *written, strict=True)
        arriving = [] if work.arriving is None else read[work.arriving :]
        hidden = sum(min(part[0], transfer[0]) for part, transfer in zip(parts, arriving, strict=False))
        card_s, card_j = max(0.0, sum(moves_s) - hidden), sum(moves_j)
        predicted_j = {PAGE_IN: sum(one[1] for one in read), PAGE_OUT: sum(one[1] for one in written)}
        for part, (_, energy_j) in zip(work.parts, parts, strict=True):
            _add(predicted_j, {self._fit(part.op, part.whole).name: energy_j})
        for one in computed:
            _add(predicted_j, one.predicted_j)
        return _Cost(sum(times) + card_s, sum(energies) + card_j, Basis.FITTED, predicted_j, card_s, card_j)

    def _part(self, node: str, part: WeightTile) -> tuple[float, float]:
        """Time and energy of some rows of weights: what the model says, corrected by what it says of the whole."""
        fit = self._fit(part.op, part.whole)
        op = _model_of(fit, part.op)
        costs = fit.predict(features(part.op, part.params, op, part.whole))
        row = self._exact.get((op, part.whole))
        if row is None:
            return costs
        whole = fit.predict(features(op, part.whole))
        return costs[0] * row.time_s / whole[0], costs[1] * row.energy_j / whole[1]

    def _transfer(self, op: str, size: int) -> tuple[float, float]:
        """Time and energy of moving so many bytes in or out."""
        if PAGE_IN not in self._by_kind or PAGE_OUT not in self._by_kind:
            raise UserError(
                "the profile has no page rows, so that nothing can lie on the card; profile the board's card"
            )
        return self._page_fit(op).predict((1.0, float(self._blocks(size))))

    def _fit(self, op: str, params: str) -> Fit:
        kinds = (kind(name, params) for name in (op, op.removesuffix(ACCUMULATE), op.removesuffix(INFER)))
        name = next((name for name in kinds if name in self._by_kind), ALL_OPERATORS)
        if name == ALL_OPERATORS and op.endswith(S8):
            raise UserError(
                f"the profile has no row of {op}, and what is on int8 costs what nothing else does; profile the board "
                "again, or the plan's graph.json with poet-harness profile --graph"
            )
        if name not in self._known_fits:
            rows = [row for row in self._by_kind.get(name) or self._compute_rows if has_features(row.params)]
            if not rows:
                raise UserError(f"the profile has no row of {op} nor of any other operator; profile the board first")
            self._known_fits[name] = _fitted(name, rows, [features(row.op, row.params) for row in rows])
        return self._used(name)

    def _used(self, name: str) -> Fit:
        return self._fits.setdefault(name, self._known_fits[name])

    @cached_property
    def _compute_rows(self) -> list[_Row]:
        kinds = (name for name in self._by_kind if name not in (PAGE_IN, PAGE_OUT) and not name.endswith(S8))
        return [row for name in kinds for row in self._by_kind[name]]

    def _page(self, value: Value) -> PageCost | None:
        if value.bytes < max(1, self._smallest_page_bytes):
            return None
        if PAGE_IN not in self._by_kind or PAGE_OUT not in self._by_kind:
            return None
        return PageCost(*self._transfer(PAGE_OUT, value.bytes), *self._transfer(PAGE_IN, value.bytes))

    def _page_fit(self, op: str) -> Fit:
        if op not in self._known_fits:
            rows = _sequential(self._by_kind[op])
            rows = [row for row in rows if _page_bytes(row.params) >= self._smallest_page_bytes] or rows
            blocks = [(1.0, float(self._blocks(_page_bytes(row.params)))) for row in rows]
            self._known_fits[op] = _fitted(op, rows, blocks)
        return self._used(op)

    def _blocks(self, size: int) -> int:
        return -(-size // self._block_bytes)


def _model_of(fit: Fit, op: str) -> str:
    """The operator on whose rows the model was fitted that predicts ``op``; itself where it was fitted on all."""
    return op if fit.name == ALL_OPERATORS else fit.name.removesuffix(WINOGRAD)


def _workspaces(profile: pd.DataFrame) -> dict[tuple[str, str], int]:
    """Of operators that an agent saw in a step, by op and params."""
    if "where" not in profile:
        return {}
    placed = profile[profile["where"] == PLACE].sort_values("workspace_bytes")
    keys = zip(placed["op"], placed["params"], strict=True)
    return {key: int(size) for key, size in zip(keys, placed["workspace_bytes"], strict=True)}


def _idle_power_w(profile: pd.DataFrame) -> float | None:
    """The power that was subtracted from the energies: that of the sleeping board, by the best source."""
    if set(profile["source"]) <= {Basis.PUBLISHED.value}:
        return 0.0
    asleep = profile[profile["op"] == IDLE]
    powers = (row for basis in _BEST_FIRST for row in asleep["idle_power_w"][asleep["source"] == basis.value])
    return next((float(power) for power in powers), None)


class _Row(NamedTuple):
    op: str
    params: str
    time_s: float
    energy_j: float
    source: str


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


def _fitted(name: str, rows: Sequence[_Row], table: Sequence[tuple[float, ...]]) -> Fit:
    matrix = np.array(table)
    times = np.array([row.time_s for row in rows])
    energies = np.array([row.energy_j for row in rows])
    return Fit(
        name=name,
        rows=len(rows),
        sources=tuple(sorted({row.source for row in rows})),
        time=fit_relative(matrix, times),
        energy=fit_relative(matrix, energies),
        time_error=_left_out_error(matrix, times),
        energy_error=_left_out_error(matrix, energies),
    )


def fit_relative(table: NDArray[np.float64], costs: NDArray[np.float64]) -> tuple[float, ...]:
    """Coefficients, none negative, of least squared relative error.

    Every choice of columns is solved without the sign constraint and the best solution without a negative coefficient
    kept, which is exact: at the optimum the constraint binds only on coefficients that are zero. Of equally good
    solutions the one with fewer columns is kept, later columns before the constant.

    Parameters
    ----------
    table : array, shape (rows, columns)
        Features of each row.
    costs : array, shape (rows,)
        In seconds or joules; rows of zero cost carry no relative error and are left out.
    """
    used = costs > 0
    columns = table.shape[1]
    best = np.zeros(columns)
    if not used.any():
        return tuple(best)
    weighted = table[used] / costs[used, None]
    least = float(used.sum())
    # Columns of one scale keep the small systems well conditioned.
    scale = np.maximum(np.abs(weighted).max(axis=0), np.finfo(float).tiny)
    for chosen in _subsets(columns):
        solution, *_ = np.linalg.lstsq(weighted[:, chosen] / scale[chosen], np.ones(len(weighted)), rcond=None)
        error = float(np.sum((weighted[:, chosen] / scale[chosen] @ solution - 1) ** 2))
        if (solution >= 0).all() and error < least - 1e-12:
            least = error
            best = np.zeros(columns)
            best[chosen] = solution / scale[chosen]
    return tuple(float(coefficient) for coefficient in best)


def _subsets(columns: int) -> Iterable[list[int]]:
    for size in range(1, columns + 1):
        for chosen in combinations(reversed(range(columns)), size):
            yield sorted(chosen)


def _left_out_error(table: NDArray[np.float64], costs: NDArray[np.float64]) -> float | None:
    """Mean relative error of each row's prediction by a model fitted on the others; None for a single row."""
    errors = []
    for index in range(len(costs)):
        others = np.arange(len(costs)) != index
        if not others.any() or not costs[index]:
            continue
        predicted = _dot(fit_relative(table[others], costs[others]), table[index])
        errors.append(abs(predicted - costs[index]) / costs[index])
    return float(np.mean(errors)) if errors else None


def _dot(coefficients: Iterable[float], factors: Iterable[float]) -> float:
    return float(sum(c * f for c, f in zip(coefficients, factors, strict=True)))
