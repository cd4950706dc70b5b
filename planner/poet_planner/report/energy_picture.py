# SPDX-License-Identifier: Apache-2.0
"""The picture of a plan's energy: beside that of the store-all schedule, and what it adds, by module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from poet_profiles.graph import Graph
from poet_profiles.plan_folder.summary import Summary
from poet_profiles.schedule import Schedule

from poet_planner.report.figures import COLOURS, HATCHES, INK, LABELS, kinds_of, new_figure, title
from poet_planner.report.module_groups import in_words, module_of
from poet_planner.report.quantities import energy_text, more_text, share_text
from poet_planner.schedule.timeline import CostTerm, Moment, energy_by_term

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Modules shown one by one; the rest are summed up.
MOST_MODULES = 14
LABEL_LENGTH = 24
# What the store-all schedule spends, too.
ONCE = (CostTerm.COMPUTE, CostTerm.CARD)


def energy_figure(
    graph: Graph, schedule: Schedule, moments: list[Moment], summary: Summary, origin: str = ""
) -> Figure:
    """Left: the energy of the plan beside that of the store-all schedule. Right: what the plan adds, if any, by module.

    ``summary`` says what the store-all schedule spends, ``origin`` where the costs come from.
    """
    added = energy_added(moments)
    store_all = {CostTerm.COMPUTE: summary.plain_energy_j - summary.plain_card_j, CostTerm.CARD: summary.plain_card_j}
    kinds = kinds_of(moments)
    figure, (total, *modules) = new_figure(8.5, max(3.0, 1.7 + 0.2 * len(added)), columns=2 if added else 1)
    _draw_total(total, store_all, energy_by_term(moments), kinds)
    for axis in modules:
        _draw_modules(axis, added, [kind for kind in kinds if kind not in ONCE])
    figure.legend(*total.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    figure.suptitle(title(graph, schedule, origin), fontsize=10, color=INK, parse_math=False)
    return figure


def energy_added(moments: list[Moment]) -> dict[str, dict[CostTerm, float]]:
    """Joules above computing everything once, by module and kind, the most expensive first; small modules as one."""
    depth = _depth(moments)
    modules: dict[str, dict[CostTerm, float]] = {}
    for moment in moments:
        if _adds(moment):
            _add(modules.setdefault(in_words(module_of(moment.node, depth)), {}), moment.terms_j)
    names = sorted(modules, key=lambda name: -sum(modules[name].values()))
    added = {name: modules[name] for name in names[:MOST_MODULES]}
    if others := names[MOST_MODULES:]:
        rest = added.setdefault(f"{len(others)} others", {})
        for name in others:
            _add(rest, modules[name])
    return added


def _adds(moment: Moment) -> bool:
    return moment.kind not in (CostTerm.COMPUTE, CostTerm.FREE) and moment.energy_j > 0


def _add(row: dict[CostTerm, float], more_j: dict[CostTerm, float]) -> None:
    for kind, joules in more_j.items():
        if joules:
            row[kind] = row.get(kind, 0.0) + joules


def _depth(moments: list[Moment]) -> int:
    """How deep to look into the network's structure for about as many modules as there is room for."""
    ids = {moment.node for moment in moments if _adds(moment)}
    fits = (depth for depth in range(4, 1, -1) if len({module_of(id, depth) for id in ids}) <= MOST_MODULES)
    return next(fits, 1)


def _draw_total(
    axis: Axes, store_all: Mapping[CostTerm, float], plan: Mapping[CostTerm, float], kinds: list[CostTerm]
) -> None:
    bars = {"store-all": store_all, "this plan": plan}
    store_all_j, plan_j = (sum(terms.values()) for terms in bars.values())
    unit, scale = _energy_unit(max(store_all_j, plan_j))
    left = [0.0, 0.0]
    for kind in kinds:
        widths = [terms.get(kind, 0.0) / scale for terms in bars.values()]
        axis.barh(
            [*bars], widths, left=left, height=0.6, color=COLOURS[kind], hatch=HATCHES.get(kind), edgecolor="white",
            linewidth=0, label=LABELS[kind],
        )  # fmt: skip
        left = [end + width for end, width in zip(left, widths, strict=True)]
    for place, joules in enumerate([store_all_j, plan_j]):
        more = f" ({more_text(joules / store_all_j - 1)})" if place and store_all_j else ""
        axis.annotate(
            energy_text(joules) + more, (0, place - 0.3), (2, 3), textcoords="offset points", fontsize=8, color=INK
        )
    axis.set_ylim(1.5, -0.7)
    axis.set_xlim(0, max(plan_j, store_all_j, 1e-30) / scale * 1.04)
    axis.set_xlabel(f"energy a step, {unit}", color=INK)


def _draw_modules(axis: Axes, added: dict[str, dict[CostTerm, float]], kinds: list[CostTerm]) -> None:
    sums = [sum(row.values()) for row in added.values()]
    unit, scale = _energy_unit(max(sums))
    ends = [0.0] * len(added)
    for kind in kinds:
        widths = [row.get(kind, 0.0) / scale for row in added.values()]
        axis.barh(
            range(len(added)), widths, left=ends, height=0.7, color=COLOURS[kind], hatch=HATCHES.get(kind),
            edgecolor="white", linewidth=0,
        )  # fmt: skip
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    for place, (end, joules) in enumerate(zip(ends, sums, strict=True)):
        share = share_text(joules / sum(sums))
        axis.annotate(share, (end, place), (3, 0), textcoords="offset points", va="center", fontsize=7, color=INK)
    names = [name if len(name) <= LABEL_LENGTH else f"…{name[1 - LABEL_LENGTH :]}" for name in added]
    axis.set_yticks(range(len(added)), names, fontsize=7, parse_math=False)
    axis.set_ylim(len(added) - 0.4, -0.6)
    axis.set_xlim(0, 1.18 * max(ends))
    axis.set_xlabel(f"above computing all once, {unit}, by module", color=INK)


def _energy_unit(joules: float) -> tuple[str, float]:
    for unit, scale in (("J", 1.0), ("mJ", 1e-3), ("µJ", 1e-6)):
        if joules >= scale:
            return unit, scale
    return "nJ", 1e-9
