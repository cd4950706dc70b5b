# SPDX-License-Identifier: Apache-2.0
"""Cuts that limit the RAM between the event points: what a stage costs at least, given what is in RAM around it.

The energy of a stage, and prices for what it finds in RAM, fails to leave there or to compute, and has on the card, are
together at least the cost of the cheapest way through the stage at those prices (`stage`). The prices are chosen so
that a point of the LP violates that most: the Lagrangian dual of the stage, by Kelley's method.
docs/optimiser/relaxation.md has the proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem, inputs_of, node_need, others
from poet_planner.solve.milp.linear_model import Rows
from poet_planner.solve.relaxation.model import Relaxation
from poet_planner.solve.relaxation.stage_path import MOST_VALUES, Prices, Stage, cheapest
from poet_planner.solve.time_budget import TimeBudget

ROUNDS = 25
# A violation within this share of the most that is possible does.
NEAR = 0.1
LITTLE = 1e-6
# Least violation of a cut, in units of the model; and as a share of the stage's energy.
VIOLATION = 1e-3
VIOLATION_SHARE = 1e-4


@dataclass(frozen=True)
class Scene:
    """A stage at a point of the LP.

    A node that is computed for its own sake or for what comes later makes a value of no bytes, which the end wants.

    Attributes
    ----------
    stage : without the page-ins of what the point does not have on the card
    in_energy : (k,) with those, too
    before, out : (k,) columns of "in RAM at the beginning, though not of the base", and of "paged out"; -1: none
    wanted : values wanted in the end
    after : their columns: in RAM in the end, or computed
    maker_energy : (k,) of computing the node that yields the value
    energy_columns : whose costs are the energy of the stage
    """

    stage: Stage
    in_energy: Floats
    before: Ints
    out: Ints
    wanted: Ints
    after: Ints
    maker_energy: Floats
    energy_columns: Ints


class StageCuts:
    """Finds the cuts of a relaxation's stages that a point violates."""

    def __init__(self, problem: Problem, relaxation: Relaxation) -> None:
        self._problem = problem
        self._relaxation = relaxation
        self._need = node_need(problem)

    def separate(self, upper: Floats, point: Floats, most: float, budget: TimeBudget) -> Rows:
        """Violated cuts, one a stage at most.

        Parameters
        ----------
        upper : (columns,) what is 0 here is left out
        point : (columns,)
        most : float
            By which a cut may be violated, in units of the model.
        budget : TimeBudget
            Asked before each stage.
        """
        rows = Rows()
        for t in range(len(self._relaxation.columns.compute)):
            if budget.expired:
                break
            self._cut(self.scene(t, upper, point), point, most, rows)
        return rows

    def scene(self, t: int, upper: Floats, point: Floats) -> Scene:
        """Stage t: up to event point t, or to the end of the schedule."""
        problem, columns = self._problem, self._relaxation.columns
        padded, usable = np.append(point, 0.0), np.append(upper, 0.0) > 0.5
        computable = usable[columns.compute[t]]
        computable[columns.event_points[t : t + 1]] = False
        goal, kept, last = self._end(t, padded)
        ends = np.append(goal, kept)
        aims = np.nonzero(computable & ~self._makers(computable, ends) & (padded[columns.compute[t]] > LITTLE))[0]
        values = self._concerned(computable, aims, ends)
        makers = np.unique(problem.producer[values])
        nodes = np.union1d(makers[computable[makers]], aims)
        base, spare = self._beginning(t)

        def with_aims(of_values: np.ndarray, of_an_aim: float) -> np.ndarray:
            return np.append(of_values, np.full(len(aims), of_an_aim, dtype=of_values.dtype))

        page_in = np.where(usable[columns.page_in[t, values]], columns.page_in[t, values], -1)
        out = np.where(page_in >= 0, columns.page_out[values], -1)
        in_energy = np.where(page_in >= 0, problem.in_energy[values] * self._relaxation.scale, np.inf)
        own = [np.arange(problem.own[j], problem.own[j + 1]) for j in nodes]
        made = np.array([_set(values, of) for of in own], dtype=np.int64)
        made[np.isin(nodes, aims)] |= np.int64(1) << (len(values) + np.arange(len(aims)))
        unseen = np.array([problem.size[of[~np.isin(of, values)]].sum() for of in own], dtype=np.int64)
        stage = Stage(
            size=with_aims(problem.size[values], 0),
            in_energy=with_aims(np.where(padded[out] > LITTLE, in_energy, np.inf), np.inf),
            node_energy=problem.node_energy[nodes] * self._relaxation.scale,
            inputs=np.array([_set(values, inputs_of(problem, int(j))) for j in nodes], dtype=np.int64),
            own=made,
            workspace=problem.workspace[nodes] + unseen,
            base=_set(values, base),
            spare=np.int64(spare),
            goal=_set(values, goal),
            last=np.int64(last),
            budget=np.int64(problem.budget),
        )
        at_end = np.nonzero(np.isin(values, kept))[0]
        kept_columns = columns.keep[t, values[at_end]] if t < len(columns.keep) else at_end
        return Scene(
            stage,
            in_energy=with_aims(in_energy, np.inf),
            before=with_aims(self._before(t, values, base, usable), -1),
            out=with_aims(out, -1),
            wanted=np.append(at_end, len(values) + np.arange(len(aims))),
            after=np.append(kept_columns, columns.compute[t, aims]),
            maker_energy=with_aims(problem.node_energy[problem.producer[values]], 0.0),
            energy_columns=np.concatenate([columns.compute[t, nodes], page_in[page_in >= 0], [columns.repeated[t]]]),
        )

    def _end(self, t: int, padded: Floats) -> tuple[Ints, Ints, int]:
        """At event point t: the inputs of its node, what the point keeps beside, the bytes that its compute takes."""
        problem, columns = self._problem, self._relaxation.columns
        if t == len(columns.event_points):
            nothing = np.zeros(0, dtype=np.int64)
            return nothing, nothing, 0
        node = int(columns.event_points[t])
        own = np.arange(problem.own[node], problem.own[node + 1])
        goal = self._held(inputs_of(problem, node))
        kept = np.setdiff1d(np.nonzero(padded[columns.keep[t]] > LITTLE)[0], np.append(goal, own))
        return goal, kept, int(problem.size[own].sum() + problem.workspace[node])

    def _held(self, values: Ints) -> Ints:
        return values[self._problem.size[values] > 0]

    def _beginning(self, t: int) -> tuple[Ints, int]:
        """What is in RAM for certain when stage t begins, and the bytes left for others."""
        problem = self._problem
        if t == 0:
            return np.zeros(0, dtype=np.int64), problem.budget
        node = int(self._relaxation.columns.event_points[t - 1])
        return np.nonzero(~others(problem, node))[0], problem.budget - int(self._need[node])

    def _before(self, t: int, values: Ints, base: Ints, usable: Flags) -> Ints:
        """Columns of the values that may be in RAM when stage t begins, though not of the base; -1: may not."""
        if t == 0:
            return np.full(len(values), -1, dtype=np.int64)
        keep = self._relaxation.columns.keep[t - 1, values]
        possible = ~np.isin(values, base) & usable[keep]
        return np.where(possible, keep, -1)

    def _makers(self, computable: Flags, ends: Ints) -> Flags:
        """(n,): nodes that may serve to make ``ends``."""
        problem = self._problem
        wanted: Flags = np.zeros(len(problem.size), dtype=np.bool_)
        wanted[ends] = True
        makers: Flags = np.zeros(len(computable), dtype=np.bool_)
        for j in np.nonzero(computable)[0][::-1]:
            if wanted[problem.own[j] : problem.own[j + 1]].any():
                makers[j] = True
                wanted[self._held(inputs_of(problem, int(j)))] = True
        return makers

    def _concerned(self, computable: Flags, aims: Ints, ends: Ints) -> Ints:
        """The values that may serve to make ``ends`` and to compute ``aims``: the largest, where those are too many.

        What is left out counts as always there.
        """
        problem = self._problem
        for_aims = [self._held(inputs_of(problem, int(j))) for j in aims]
        ends = np.unique(np.concatenate([ends, *for_aims]))
        makers = np.nonzero(self._makers(computable, ends))[0]
        values = np.unique(np.concatenate([ends, *(self._held(inputs_of(problem, int(j))) for j in makers)]))
        largest = np.argsort(-problem.size[values], kind="stable")[: max(0, MOST_VALUES - len(aims))]
        return np.sort(values[largest])

    def _cut(self, scene: Scene, point: Floats, most: float, rows: Rows) -> None:
        """Append the cut at the prices that make the most of the point, if it violates that.

        Kelley's method: the least cost is concave in the prices, and each way through the stage bounds it.
        """
        if len(scene.stage.size) > MOST_VALUES:
            return
        padded = np.append(point, 0.0)
        energy = float(self._relaxation.model.cost[scene.energy_columns] @ point[scene.energy_columns])
        begin = np.nonzero(padded[scene.before] > LITTLE)[0]
        paged = np.nonzero((padded[scene.out] > LITTLE) & (padded[scene.out] < 1 - LITTLE))[0]
        charged = np.concatenate([padded[scene.before[begin]], 1 - padded[scene.after], padded[scene.out[paged]]])
        charged = charged.clip(0.0, 1.0)
        parts = [len(begin), len(begin) + len(scene.wanted)]
        cap = energy + most
        price = np.where(charged < 0.5, cap, 0.0)
        master = _Master(charged, cap)
        least = max(VIOLATION, VIOLATION_SHARE * energy)
        best: tuple[Prices, float] | None = None
        best_violation = least
        for _ in range(ROUNDS):
            prices = _prices(scene, begin, paged, *np.split(price, parts))
            way = cheapest(scene.stage, prices)
            cost = min(way.cost, cap)
            violation = cost - float(charged @ price) - energy
            if violation > best_violation:
                best, best_violation = (prices, cost), violation
            if not way.exact or not np.isfinite(way.cost):
                break
            met = np.concatenate([_bits(way.begin, begin), ~_bits(way.end, scene.wanted), _bits(way.paged, paged)])
            most_possible, price = master.after(met, way.cost - float(price[met].sum()))
            if most_possible - energy <= max(least, best_violation / (1 - NEAR)):
                break
        if best is not None:
            self._write(scene, *self._strengthened(scene, *best, padded, cap), rows)

    def _strengthened(
        self, scene: Scene, prices: Prices, least: float, padded: Floats, most: float
    ) -> tuple[Prices, float]:
        """The prices that make no difference at the point, set so that the cut says as much as it can elsewhere.

        Each in turn: missing in the end what the point has there is charged as little as leaves the least cost as it
        is; what the point finds in RAM is charged as much as that rises with it, by ``most`` at most; what is
        forbidden so far is allowed at the lowest price that leaves it. What is dearest to make comes first.

        Returns
        -------
        tuple of Prices and float
            The prices, and what every way costs at least.
        """
        stage = scene.stage
        begin, end, paging = prices.begin.copy(), prices.end.copy(), prices.paging.copy()
        prices = Prices(begin, prices.wanted, end, paging)
        for k in np.nonzero(padded[scene.after] > 1 - LITTLE)[0]:
            price, end[k] = end[k], 0.0
            end[k] = min(price, least - cheapest(stage, prices, least).cost)
        order = np.argsort(-scene.maker_energy, kind="stable")
        order = order[scene.before[order] >= 0]
        for v in order[np.isfinite(begin[order]) & (padded[scene.before[order]] > 1 - LITTLE)]:
            price, begin[v] = begin[v], np.inf
            more = max(0.0, cheapest(stage, prices, least + most).cost - least)
            begin[v], least = price + more, least + more
        for v in order[np.isinf(begin[order])]:
            begin[v] = 0.0
            begin[v] = least - cheapest(stage, prices, least).cost
        stage = stage._replace(in_energy=stage.in_energy.copy())
        for v in np.nonzero((scene.out >= 0) & np.isinf(stage.in_energy))[0]:
            stage.in_energy[v], paging[v] = scene.in_energy[v], 0.0
            paging[v] = least - cheapest(stage, prices, least).cost
        return prices, least

    def _write(self, scene: Scene, prices: Prices, least: float, rows: Rows) -> None:
        """Append the cut."""
        weight = np.zeros(len(self._relaxation.model.cost) + 1)
        weight[scene.energy_columns] = self._relaxation.model.cost[scene.energy_columns]
        weight[scene.after] -= prices.end
        weight[scene.before[scene.before >= 0]] += prices.begin[scene.before >= 0]
        weight[scene.out[scene.out >= 0]] += prices.paging[scene.out >= 0]
        columns = np.nonzero(weight)[0]
        rows.add(columns.tolist(), weight[columns].tolist(), least - float(prices.end.sum()), np.inf)


class _Master:
    """Which prices are best as far as the ways found so far tell."""

    def __init__(self, charged: Floats, cap: float) -> None:
        import highspy

        columns = 1 + len(charged)
        self._highs = highspy.Highs()  # type: ignore[no-untyped-call]
        self._highs.setOptionValue("output_flag", False)
        self._highs.addVars(columns, np.zeros(columns), np.full(columns, cap))
        self._highs.changeColsCost(columns, np.arange(columns, dtype=np.int32), np.append(-1.0, charged))

    def after(self, met: Flags, energy: float) -> tuple[float, Floats]:
        """With one more way, of ``energy``, that pays the prices ``met``: the most that is possible, and the prices."""
        entries = np.append(0, 1 + np.nonzero(met)[0]).astype(np.int32)
        weights = np.append(-1.0, np.ones(len(entries) - 1))
        self._highs.addRow(-energy, np.inf, len(entries), entries, weights)
        self._highs.run()
        price = np.maximum(np.array(self._highs.getSolution().col_value)[1:], 0.0)
        return -self._highs.getInfo().objective_function_value, price


def _prices(scene: Scene, begin: Ints, paged: Ints, begin_price: Floats, end: Floats, paging_price: Floats) -> Prices:
    """The prices of each value from those of what the point has at the beginning and on the card."""
    of_begin = np.full(len(scene.before), np.inf)
    of_begin[begin] = begin_price
    of_paging = np.zeros(len(scene.before))
    of_paging[paged] = paging_price
    return Prices(of_begin, scene.wanted, end.copy(), of_paging)


def _set(values: Ints, members: Ints) -> np.int64:
    """Those of ``members`` that are among ``values``, as bits."""
    return np.int64(sum(1 << int(bit) for bit in np.nonzero(np.isin(values, members))[0]))


def _bits(values: int, of: Ints) -> Flags:
    """Which of ``of`` are in the set."""
    flags: Flags = (np.int64(values) >> of & 1).astype(np.bool_)
    return flags
