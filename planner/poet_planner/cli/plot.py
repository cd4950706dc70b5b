# SPDX-License-Identifier: Apache-2.0
"""`poet-plan plot`: pictures of a sweep's points, of a training's epochs, and of a detector's curve."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from poet_profiles.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from poet_planner.comparison.sweep_table import Point


# An option, the names that it was given, and the points' field that it is about.
Names = Sequence[tuple[str, str | None, str]]


class Kind(StrEnum):
    """What is drawn."""

    ENERGY_VS_RAM = "energy-vs-ram"
    OVERHEAD_LOG = "overhead-log"
    ENERGY_VS_DEADLINE = "energy-vs-deadline"
    OVERHEAD_MAP = "overhead-map"
    TRAINING = "training"
    DETECTION = "detection"


def plot(
    points: Annotated[
        Path,
        typer.Argument(help="points.csv of `poet-plan sweep`, a compare.csv, an epochs.csv, or a curve of `eval`."),
    ],
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
    """Draw a sweep, a training, or a detector's curve as PNG and SVG.

    energy-vs-ram and overhead-log: a curve a method; energy-vs-deadline: the same by deadline; overhead-map: poet's
    overhead for each RAM and deadline; training: the learning curve of `poet-harness train --folder`, from its
    epochs.csv; detection: recall by false accepts, of `poet-harness eval --curve`.

        poet-plan plot sweep/points.csv --figure overhead-log --methods optimal,rotor,checkmate
        poet-plan plot training/epochs.csv --figure training
    """
    from poet_profiles.files.whole_file import check_writable

    from poet_planner.report.figures import save

    folder = points.parent if out is None else out
    paths = [folder / f"{figure.value}.{ending}" for ending in ("png", "svg")]
    names = (("--methods", methods, "method"), ("--models", models, "model"), ("--boards", boards, "board"))
    drawn = _of_a_run(figure, points, names) or _draw(figure, _chosen(points, names))
    for path in paths:
        check_writable(path)
    for path in paths:
        save(drawn, path)
    print(f"wrote {', '.join(str(path) for path in paths)}")


def _of_a_run(figure: Kind, table: Path, names: Names) -> Figure | None:
    """Of one training or evaluation; None: of a sweep."""
    from poet_planner.report.detection_curve import detection_curve
    from poet_planner.report.learning_curve import learning_curve, read_epochs

    if figure not in (Kind.TRAINING, Kind.DETECTION):
        return None
    for option, given, _ in names:
        if given is not None:
            raise UserError(f"{option} {given}: says nothing of a {figure.value}; leave it out")
    return detection_curve(table) if figure is Kind.DETECTION else learning_curve(read_epochs(table))


def _chosen(path: Path, names: Names) -> list[Point]:
    from poet_planner.comparison.sweep_table import read_points

    points = read_points(path)
    for option, given, field in names:
        points = _only(points, option, given, field)
    if not points:
        raise UserError(f"{path}: has no points to draw")
    return points


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
    from poet_planner.comparison.pictures.overhead_map import overhead_map

    figures = {
        Kind.ENERGY_VS_RAM: energy_vs_ram,
        Kind.OVERHEAD_LOG: overhead_log,
        Kind.ENERGY_VS_DEADLINE: energy_vs_deadline,
        Kind.OVERHEAD_MAP: overhead_map,
    }
    return figures[kind](points)
