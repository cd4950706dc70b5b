# SPDX-License-Identifier: Apache-2.0
"""`poet-plan plot`: pictures of a sweep's points."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from poet_profiles.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from poet_planner.comparison.sweep_table import Point


class Kind(StrEnum):
    """What is drawn."""

    ENERGY_VS_RAM = "energy-vs-ram"
    OVERHEAD_LOG = "overhead-log"
    ENERGY_VS_DEADLINE = "energy-vs-deadline"
    OVERHEAD_MAP = "overhead-map"
    MAX_BATCH = "max-batch"


def plot(
    points: Annotated[Path, typer.Argument(help="points.csv of `poet-plan sweep`, or a compare.csv.")],
    figure: Annotated[Kind, typer.Option(help="What to draw.")] = Kind.ENERGY_VS_RAM,
    methods: Annotated[
        str | None, typer.Option(help="Only these: a,b (names of `poet-plan methods`). Default is all in the file.")
    ] = None,
    models: Annotated[str | None, typer.Option(help="Only these: a,b.")] = None,
    boards: Annotated[str | None, typer.Option(help="Only these: a,b.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the picture; default is that of the points.")
    ] = None,
) -> None:
    """Draw a sweep as PNG and SVG.

    energy-vs-ram and overhead-log: a curve a method; energy-vs-deadline: the same by deadline; overhead-map: poet's
    overhead for each RAM and deadline; max-batch: the largest batch of each method in the same RAM.
    """
    from poet_profiles.whole_file import check_writable

    from poet_planner.comparison.sweep_table import read_points
    from poet_planner.report.figures import save

    folder = points.parent if out is None else out
    paths = [folder / f"{figure.value}.{ending}" for ending in ("png", "svg")]
    chosen = read_points(points)
    for option, names, field in (
        ("--methods", methods, "method"),
        ("--models", models, "model"),
        ("--boards", boards, "board"),
    ):
        chosen = _only(chosen, option, names, field)
    if not chosen:
        raise UserError(f"{points}: has no points to draw")
    for path in paths:
        check_writable(path)
    drawn = _draw(figure, chosen)
    for path in paths:
        save(drawn, path)
    print(f"wrote {', '.join(str(path) for path in paths)}")


def _only(points: list[Point], option: str, names: str | None, field: str) -> list[Point]:
    """The points of the names in a list, which must all be in the file."""
    if names is None:
        return points
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    there = list(dict.fromkeys(getattr(point, field) for point in points))
    for name in wanted or [""]:
        if name not in there:
            raise UserError(f"{option} {names}: no points of {name!r}; there are {', '.join(there)}")
    return [point for point in points if getattr(point, field) in wanted]


def _draw(kind: Kind, points: list[Point]) -> Figure:
    from poet_planner.comparison.pictures.energy_vs_deadline import energy_vs_deadline
    from poet_planner.comparison.pictures.energy_vs_ram import energy_vs_ram, overhead_log
    from poet_planner.comparison.pictures.max_batch import max_batch
    from poet_planner.comparison.pictures.overhead_map import overhead_map

    figures = {
        Kind.ENERGY_VS_RAM: energy_vs_ram,
        Kind.OVERHEAD_LOG: overhead_log,
        Kind.ENERGY_VS_DEADLINE: energy_vs_deadline,
        Kind.OVERHEAD_MAP: overhead_map,
        Kind.MAX_BATCH: max_batch,
    }
    return figures[kind](points)
