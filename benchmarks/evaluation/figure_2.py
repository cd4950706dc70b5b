# SPDX-License-Identifier: Apache-2.0
"""The paper's Figure 2: an eight-layer network whose best schedule pages L5 and L6 and computes L2 and L3 again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from poet_planner.report.figures import COLOURS, HELD, LABELS, new_figure
from poet_planner.report.quantities import bytes_text, energy_text
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.timeline import CostTerm, Moment, timeline
from poet_profiles.graph import Graph
from poet_profiles.graph.file import read_graph
from poet_profiles.schedule import Action, Schedule
from poet_profiles.schedule.file import read_schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRAPH = Path(__file__).with_name("figure_2.graph.json")
SCHEDULE = Path(__file__).with_name("figure_2.schedule.json")
BACKWARD = "backward"
LETTERS = {
    CostTerm.COMPUTE: "F",
    BACKWARD: "B",
    CostTerm.RECOMPUTE: "R",
    CostTerm.PAGE_OUT: "out",
    CostTerm.PAGE_IN: "in",
}


@dataclass(frozen=True)
class Cell:
    """What happens to a layer in a timestep, both counted from 1; a timestep is a compute and what runs beside it."""

    timestep: int
    layer: int
    what: str


def instance() -> tuple[Graph, Schedule]:
    """The graph and its schedule."""
    graph = read_graph(GRAPH)
    return graph, read_schedule(SCHEDULE)


def cells(graph: Graph, schedule: Schedule) -> list[Cell]:
    """Computes and transfers; a transfer stands in the timestep during which it begins."""
    moments = timeline(graph, schedule)
    computes = [moment for moment in moments if moment.kind in (CostTerm.COMPUTE, CostTerm.RECOMPUTE)]
    found = []
    for moment in moments:
        if moment.kind is not CostTerm.FREE:
            backward = moment.kind is CostTerm.COMPUTE and moment.target.startswith("B")
            found.append(
                Cell(_timestep(moment, computes), int(moment.target[1:]), BACKWARD if backward else moment.kind)
            )
    return found


def held(graph: Graph, schedule: Schedule) -> set[tuple[int, int]]:
    """Timesteps and layers whose activation is in RAM during the step."""
    moments = timeline(graph, schedule)
    computes = [moment for moment in moments if moment.kind in (CostTerm.COMPUTE, CostTerm.RECOMPUTE)]
    inside, since = set(), dict[str, int]()
    for moment in moments:
        if not moment.target.startswith("L"):
            continue
        if moment.kind is CostTerm.FREE:
            last = _timestep(moment, computes) - 1
            inside |= {(step, int(moment.target[1:])) for step in range(since.pop(moment.target), last + 1)}
        elif moment.kind is not CostTerm.PAGE_OUT:
            since[moment.target] = _timestep(moment, computes)
    return inside


def _timestep(moment: Moment, computes: list[Moment]) -> int:
    """The compute during which a moment begins; beyond the last one where it comes after all."""
    return next(
        (number for number, one in enumerate(computes, 1) if moment.start_s < one.end_s - 1e-12), len(computes) + 1
    )


def draw() -> dict[str, Figure]:
    """Timesteps downwards, layers across, as the paper has it."""
    from matplotlib.patches import Patch, Rectangle

    graph, schedule = instance()
    marks = cells(graph, schedule)
    timesteps = max(cell.timestep for cell in marks)
    figure, (axis,) = new_figure(3.3, 4.3)
    for step, layer in held(graph, schedule):
        axis.add_patch(Rectangle((layer - 0.5, step - 0.5), 1, 1, facecolor=HELD))
    for cell in marks:
        kind = CostTerm.COMPUTE if cell.what == BACKWARD else CostTerm(cell.what)
        colour = COLOURS[kind]
        axis.add_patch(Rectangle((cell.layer - 0.5, cell.timestep - 0.5), 1, 1, facecolor=colour, edgecolor="white"))
        dark = kind in (CostTerm.COMPUTE, CostTerm.PAGE_IN)
        axis.text(
            *(cell.layer, cell.timestep, LETTERS[cell.what]),  # type: ignore[index]
            **{"ha": "center", "va": "center", "fontsize": 6.5, "color": "white" if dark else "black"},
        )
    axis.set(xlim=(0.5, 8.5), ylim=(timesteps + 0.5, 0.5))
    axis.set_xticks(range(1, 9), [f"L{layer}" for layer in range(1, 9)], fontsize=7)
    axis.set_yticks(range(1, timesteps + 1), [f"T{step}" for step in range(1, timesteps + 1)], fontsize=6)
    axis.tick_params(length=0)
    kinds = (CostTerm.RECOMPUTE, CostTerm.PAGE_OUT, CostTerm.PAGE_IN)
    entries = [Patch(facecolor=COLOURS[CostTerm.COMPUTE], label="F, B: forward, backward")]
    entries += [Patch(facecolor=COLOURS[kind], label=f"{LETTERS[kind]}: {LABELS[kind]}") for kind in kinds]
    entries.append(Patch(facecolor=HELD, label="activation in RAM"))
    figure.legend(handles=entries, loc="outside lower center", ncols=2, frameon=False, fontsize=7)
    return {"figure_2.png": figure}


def facts() -> dict[str, str]:
    """What the page says of it."""
    graph, schedule = instance()
    plain_j = sum(node.energy_j for node in graph.nodes)
    steps = {(cell.what, cell.layer): f"T{cell.timestep}" for cell in cells(graph, schedule)}
    return {
        "ram_bytes": str(schedule.ram_budget_bytes),
        "deadline": f"{1000 * (schedule.deadline_s or 0):.0f}ms",
        "out_5": steps[CostTerm.PAGE_OUT, 5],
        "out_6": steps[CostTerm.PAGE_OUT, 6],
        "in_6": steps[CostTerm.PAGE_IN, 6],
        "in_5": steps[CostTerm.PAGE_IN, 5],
        "again_2": steps[CostTerm.RECOMPUTE, 2],
        "again_3": steps[CostTerm.RECOMPUTE, 3],
        "timesteps": str(sum(step.do is Action.COMPUTE for step in schedule.steps)),
        "ram": bytes_text(schedule.ram_budget_bytes),
        "plain": bytes_text(store_all_schedule(graph).peak_bytes),
        "added": energy_text(schedule.energy_j - plain_j),
        "plain_energy": energy_text(plain_j),
    }
