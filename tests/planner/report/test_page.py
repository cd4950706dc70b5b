# SPDX-License-Identifier: Apache-2.0
"""`poet-plan report`: the page as a real browser shows it, and what its table says of a plan."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from poet_planner import plan
from poet_planner.planning.pipeline import prepare, verified
from poet_planner.planning.request import Request
from poet_planner.report.caveats import cautions
from poet_planner.report.evictions import absences
from poet_planner.report.page import page_text
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.timeline import CostTerm, timeline
from poet_planner.schedule.verify import verify
from poet_profiles.errors import BAD_INPUT
from poet_profiles.graph import Graph, Node, PageCost, Value
from poet_profiles.plan_folder.summary import MoreRam, read_summary
from poet_profiles.schedule import Action, Schedule, Status, Step

from tests.support.programs import Said, poet_plan

if TYPE_CHECKING:
    from playwright.sync_api import Page

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
TITLE = "<b>& $x$ </script>"
FORWARD = ("</script><i>", *(f"net.{k}.relu" for k in range(1, 6)))


def network() -> Graph:
    """Six operators forwards and back; their ids are what a page must not trip over."""
    page = PageCost(0.3, 3.0, 0.2, 2.0)
    nodes = [
        Node(id, 1.0, 1.0, (Value(id, 400, page),), (FORWARD[k - 1],) if k else ()) for k, id in enumerate(FORWARD)
    ]
    above = FORWARD[-1]
    for id in reversed(FORWARD):
        inputs = tuple(dict.fromkeys((above, id)))
        above = f"{id}.backward"
        nodes.append(Node(above, 1.0, 1.0, (Value(above, 40),), inputs, backward=True))
    return Graph(TITLE, tuple(nodes), resident_bytes=64, allocates=True)


def with_absences() -> Schedule:
    """The first value is paged, the second computed again from it."""
    first, second, *others = FORWARD
    steps = [
        *(Step(Action.COMPUTE, first), Step(Action.COMPUTE, second)),
        *(Step(Action.PAGE_OUT, first), Step(Action.FREE, first)),
        *(Step(Action.COMPUTE, others[0]), Step(Action.FREE, second)),
        *(Step(Action.COMPUTE, id) for id in others[1:]),
    ]
    above = None
    for id in reversed(FORWARD):
        if id == second:
            steps += [Step(Action.PAGE_IN, first), Step(Action.COMPUTE, second)]
        steps.append(Step(Action.COMPUTE, f"{id}.backward"))
        steps += [Step(Action.FREE, value) for value in (above, id) if value is not None]
        above = f"{id}.backward"
    schedule = replace(store_all_schedule(GRAPH), steps=tuple(steps), ram_budget_bytes=2000)
    found = verify(GRAPH, schedule)
    figures = {name: getattr(found, name) for name in ("energy_j", "time_s", "peak_bytes", "arena_bytes")}
    return replace(schedule, **figures, bound_j=12.0, gap=1 - 12.0 / found.energy_j, status=Status.FEASIBLE)


GRAPH = network()
SCHEDULE = with_absences()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan that recomputes and pages, in whose folder lies its report."""
    out = tmp_path_factory.mktemp("plan")
    price = MoreRam(2048, 512, 9.5, 0.25)
    verified(prepare(Request(GRAPH, ram=SCHEDULE.ram_budget_bytes)), SCHEDULE, more_ram=price).write(out)
    assert report(out, out / "report.html") == 0
    return out


def report(folder: Path, out: Path) -> int:
    return poet_plan("report", folder, "--out", out)


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Page]:
    """The report in a browser that is offline. What it asks for, and what goes wrong, is in its ``said``."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        if os.environ.get("CI"):
            pytest.fail("no browser: debian-packages-tests.txt names one")
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        context = opened.new_context(viewport={"width": 1300, "height": 900}, offline=True)
        shown = context.new_page()
        said: list[str] = []
        shown.on("console", lambda message: said.append(message.text))
        shown.on("pageerror", lambda error: said.append(str(error)))
        shown.on("request", lambda request: said.append(request.url))
        url = (folder / "report.html").as_uri()
        shown.goto(url)
        assert said == [url]
        yield shown
        assert said == [url], "an error, or something fetched"
        opened.close()


def test_the_browser_shows_the_summary_and_the_rows_of_the_plan(page: Page, folder: Path) -> None:
    summary = read_summary(folder / "summary.json")
    assert page.title() == page.locator("h1").inner_text() + ": a plan by poet"
    assert "<b>&" in page.title() and page.locator("h1 b").count() == 0
    figures = page.locator("#summary").inner_text()
    assert f"{summary.recomputes} recomputation" in figures and f"{summary.page_ins} transfer" in figures
    assert (
        "512 B more RAM would save 25 % of the energy: 9.5 J with --ram 2KB."
        in page.locator(".caution").all_inner_texts()
    )
    rows = [row.split("\t") for row in page.locator("#absences tbody").inner_text().splitlines()]
    first, second = FORWARD[:2]
    why = f"{FORWARD[-1]}.backward: RAM would be 104 B over the budget there"
    assert rows == [
        [first, "paged in", "400 B", "2.3 s", "10.3 s", "5 J", "12.5 mJ/B", second, why],
        [second, "recomputed", "400 B", "3.3 s", "10.5 s", "1 J", "2.5 mJ/B", f"{second}.backward", why],
    ]


@pytest.mark.parametrize("name", ["schedule", "scaled"])
def test_hovering_tells_the_step_under_the_pointer(page: Page, folder: Path, name: str) -> None:
    """In the middle of each compute's cell the page names that operator, twice: as the column and as the step."""
    page.set_checked("#to-scale", name == "scaled")
    assert page.locator("#schedule").is_visible() == (name == "schedule")
    cells = page.locator(f"#{name} svg [id*=PatchCollection_1] path, #{name} svg [id*=PatchCollection_1] use")
    seen = set()
    for index in range(cells.count()):
        cells.nth(index).scroll_into_view_if_needed()
        box = cells.nth(index).bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        column, step = page.locator("#tip").inner_text().splitlines()
        operator = re.fullmatch(r"(.*): (not )?in RAM", column)
        assert operator is not None
        assert step.startswith(f"computed {operator[1]}: ")
        seen.add(operator[1])
    assert seen == {node.id for node in GRAPH.nodes}


def test_hovering_over_ram_and_energy_tells_both(page: Page) -> None:
    page.locator("#ram svg").scroll_into_view_if_needed()
    page.locator("#ram svg").hover()
    assert re.search(r"at [\d.]+ m?s, for .*; RAM [\d.]+ K?B", page.locator("#tip").inner_text())
    page.mouse.move(2, 2)
    assert not page.locator("#tip").is_visible()


def test_each_absence_says_what_it_costs_and_what_it_makes_room_for() -> None:
    first, second = FORWARD[:2]
    paged, again = absences(GRAPH, SCHEDULE, timeline(GRAPH, SCHEDULE))
    assert (paged.how, paged.target, paged.bytes) == (CostTerm.PAGE_IN, first, 400)
    assert (again.how, again.target, again.bytes) == (CostTerm.RECOMPUTE, second, 400)
    assert paged.energy_j == 3.0 + 2.0
    assert again.energy_j == 1.0
    # The page-out ends after both computes; the page-in begins when all others of either pass have been computed.
    assert (paged.from_s, paged.to_s) == (pytest.approx(2.3), pytest.approx(2.3 + 8))
    # Four results of the forward pass, and the first gradient.
    assert (paged.fullest_bytes, paged.fullest_at) == (64 + 4 * 400 + 40, f"{FORWARD[-1]}.backward")
    assert (again.fullest_bytes, again.fullest_at) == (paged.fullest_bytes, paged.fullest_at)
    assert (paged.needed_by, again.needed_by) == (second, f"{second}.backward")


def test_without_absences_it_says_so() -> None:
    made = plan(GRAPH, ram="100%", method="store_all")
    page = page_text(made.graph, made.schedule, made.store_all, made.summary)
    assert "Nothing is recomputed or paged." in page and 'id="absences"' not in page


def test_what_is_no_plan_is_refused_and_nothing_is_written(folder: Path, tmp_path: Path, capsys: Said) -> None:
    def refused(name: str, change: dict[str, object]) -> str:
        document = json.loads((folder / name).read_text()) | change
        (tmp_path / name).write_text(json.dumps(document))
        assert report(tmp_path, tmp_path / "report.html") == BAD_INPUT
        assert not (tmp_path / "report.html").exists()
        shutil.copy(folder / name, tmp_path / name)
        [line] = capsys.readouterr().err.splitlines()
        return line

    assert report(tmp_path, tmp_path / "report.html") == BAD_INPUT
    for name in ("graph.json", "schedule.json", "summary.json"):
        shutil.copy(folder / name, tmp_path / name)
    capsys.readouterr()
    assert "plan again" in refused("schedule.json", {"energy_j": 1.0})
    assert "another plan" in refused("summary.json", {"energy_j": 1.0})
    assert "nodes: " in refused("summary.json", {"nodes": None})


def test_cautions_are_those_of_the_summary(folder: Path) -> None:
    summary = read_summary(folder / "summary.json")
    sound = replace(summary, more_ram=None, gap=0.0)
    assert cautions(sound) == []
    for change, words in (
        ({"gap": 0.2}, "up to 20 % less energy"),
        ({"excluded_bytes": 2048}, "2.0 KB of parameters"),
        ({"energy_sensed": False}, "no sensor"),
        ({"energy_share": {"emulated": 1.0}}, "100 % emulated"),
        ({"wear": replace(summary.wear, life_steps=4321.0)}, "4,300 steps"),
        ({"firmware": ("a", "b")}, "2 builds"),
    ):
        [said] = cautions(replace(sound, **change))
        assert words in said
    assert cautions(replace(sound, energy_share={"measured": 1.0})) == []
