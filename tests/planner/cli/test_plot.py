# SPDX-License-Identifier: Apache-2.0
"""`poet-plan plot`: pictures from a file of points, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from poet_planner.cli import app
from poet_planner.cli.plot import Kind
from poet_planner.comparison.sweep_table import write_points
from poet_profiles.errors import UserError
from typer.testing import CliRunner

from tests.support.graphs.sweep_points import sweep_point


@pytest.fixture
def points(tmp_path: Path) -> Path:
    path = tmp_path / "points.csv"
    batches = [sweep_point("optimal", 1.0, batch / 100, batch=batch, model=f"net{batch}") for batch in (1, 2)]
    write_points(
        [
            sweep_point("optimal", 0.5, 0.1, 0.05, deadline_s=15.0, deadline_of_plain=1.5, batch=1),
            sweep_point("dtr", 0.5, 0.2, deadline_s=15.0, deadline_of_plain=1.5, batch=2, graph_hash="h"),
            *batches,
        ],
        path,
    )
    return path


def plot(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["plot", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("figure", [kind for kind in Kind if kind not in (Kind.TRAINING, Kind.DETECTION)])
def test_each_figure_is_written_as_png_and_svg_and_twice_the_same(figure: Kind, points: Path, tmp_path: Path) -> None:
    printed = plot(points, "--figure", figure.value)
    png, svg = (points.with_name(f"{figure.value}.{ending}") for ending in ("png", "svg"))
    assert str(png) in printed
    assert png.read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    again = tmp_path / "again"
    plot(points, "--figure", figure.value, "--out", again)
    assert (again / svg.name).read_bytes() == svg.read_bytes()


def test_chosen_methods_alone_are_drawn(points: Path, tmp_path: Path) -> None:
    plot(points, "--out", tmp_path / "all")
    plot(points, "--methods", "optimal", "--models", "net", "--out", tmp_path / "ours")
    sizes = [len((tmp_path / name / "energy-vs-ram.svg").read_text()) for name in ("all", "ours")]
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--methods", "optimal,revolve"), "no points of 'revolve'; there are optimal, dtr"),
        (("--boards", "m0"), "no points of 'm0'; there are m4"),
        (("--models", ","), "no points of ''; there are net"),
    ],
)
def test_names_that_the_file_lacks_are_refused(arguments: tuple[str, str], fault: str, points: Path) -> None:
    with pytest.raises(UserError, match=fault):
        plot(points, *arguments)


def test_a_file_that_is_no_table_of_points_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match="no table of"):
        plot(path)
