# SPDX-License-Identifier: Apache-2.0
"""Whatever text stands in a file, it is refused in one line or is text: nothing of it is executed, drawn or a path.

Two kinds of text. What cannot be printed is refused by the readers of JSON, wherever it stands. What can be is an id
like any other: it goes through plans, pictures, pages, C and the agent, and comes out as it went in.
"""

from __future__ import annotations

import builtins
import csv
import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from poet_harness.data.batches import read_training_data
from poet_harness.plan_folder.plan import read_plan
from poet_harness.verbs.console import wide_console
from poet_profiles.boards import Board as Board_
from poet_profiles.boards import load_board
from poet_profiles.cells import load_cell
from poet_profiles.errors import UserError
from poet_profiles.files.arrays import npz, read_arrays
from poet_profiles.graph.file import read_graph
from poet_profiles.plan_folder.summary import read_summary
from poet_profiles.profile import read_profile
from poet_profiles.schedule.file import read_schedule
from poet_profiles.shipped import SHIPPED
from poet_runtime.program import read_program
from rich.table import Table

from tests.runtime.agent.test_verbs import Board
from tests.support import ROOT
from tests.support.programs import exit_code

UNPRINTABLE = ("a\n    canary()", "\r", "\f", "\0", "\x1b[2J", "\u2028", "\u202e", "\ud800", "\x7f")
PRINTABLE = (
    "'+canary()+'", '"', "\\", "*/ canary() /*", "//", "??/", "{}{0.__class__}", "%s%n", "$x$", r"$\frac{", "$(canary)",
    "`canary`", "../../canary", "/canary", "</script><script>canary()</script>", "[/bold]", "[red]", "# canary()", ";",
    "=canary()", "é", "", " ", "x" * 10_000,
)  # fmt: skip


class Canary:
    """Sees what is executed, started, or written outside of a folder while it is watching."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.seen: list[str] = []
        builtins.canary = self._called  # type: ignore[attr-defined]
        sys.addaudithook(self._hook)

    def _called(self) -> None:
        self.seen.append("canary()")

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        if event in ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen"):
            self.seen.append(f"{event} {arguments[0]}")
        elif event == "open" and isinstance(arguments[0], str) and "canary" in arguments[0]:
            if not Path(arguments[0]).resolve().is_relative_to(self.folder):
                self.seen.append(f"open {arguments[0]}")
        elif event in ("exec", "compile") and "canary" in str(getattr(arguments[0], "co_names", arguments[0])):
            self.seen += [f"{event} {arguments[0]}"] * (event == "exec" or not _is_a_module(arguments[1]))


def _is_a_module(source: object) -> bool:
    """A library's, that has the word: where there is no bytecode yet, its first import compiles it."""
    return str(source).endswith(".py") and Path(str(source)).is_file()


CANARY = Canary()


@pytest.fixture(autouse=True)
def nothing_is_executed(tmp_path: Path) -> Iterator[None]:
    CANARY.folder, CANARY.seen = tmp_path.resolve(), []
    yield
    CANARY.folder = None
    assert CANARY.seen == []


def places(entry: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], bool]]:
    """The way to each text of a document, one of every kind; and whether it is a key there."""
    if isinstance(entry, str):
        yield path, False
    for key, child in entry.items() if isinstance(entry, dict) else enumerate(entry) if isinstance(entry, list) else ():
        if isinstance(entry, dict):
            yield (*path, key), True
        yield from places(child, (*path, key))


def kinds_of_places(document: Any) -> list[tuple[tuple[Any, ...], bool]]:
    """One of each kind: places that differ only in the number of a list's entry are alike."""
    alike = {}
    for path, is_key in places(document):
        alike.setdefault((tuple("*" if isinstance(part, int) else part for part in path), is_key), (path, is_key))
    return [*alike.values()]


def replaced(document: Any, path: tuple[Any, ...], is_key: bool, text: str) -> Any:
    key, *rest = path
    changed = dict(document) if isinstance(document, dict) else list(document)
    if rest:
        changed[key] = replaced(document[key], tuple(rest), is_key, text)
    elif is_key:
        changed[text] = changed.pop(key)
    else:
        changed[key] = text
    return changed


def some(index: int) -> tuple[str, ...]:
    """Some of the texts, others at each place: all of them take long."""
    return (
        *(UNPRINTABLE[(index + step) % len(UNPRINTABLE)] for step in (0, 4)),
        *(PRINTABLE[(2 * index + step) % len(PRINTABLE)] for step in (0, 1, 11)),
    )


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A plan for the firmware, and one for a Linux board."""
    from poet_planner.cli import main

    made = {}
    for profile in ("m4", "a72"):
        made[profile] = tmp_path_factory.mktemp("plans") / profile
        options = ("--model", "digits_cnn_small", "--profile", profile, "--method", "store_all")
        assert exit_code(main, "poet-plan", *options, "--out", made[profile]) == 0
    return made


@pytest.mark.parametrize(
    ("board", "name", "read"),
    [
        ("m4", "graph.json", read_graph),
        ("a72", "graph.json", read_graph),
        ("m4", "schedule.json", read_schedule),
        ("m4", "summary.json", read_summary),
        ("a72", "program.json", read_program),
    ],
)
def test_every_text_of_a_json_file_is_refused_in_one_line_or_read(
    board: str, name: str, read: Callable[[Path], Any], plans: dict[str, Path], tmp_path: Path
) -> None:
    document = json.loads((plans[board] / name).read_text())
    path = tmp_path / name
    found = kinds_of_places(document)
    assert len(found) > 10
    for index, (way, is_key) in enumerate(found):
        for text in some(index):
            path.write_text(json.dumps(replaced(document, way, is_key, text)))
            try:
                read(path)
            except UserError as error:
                assert "\n" not in str(error) and error.exit_code == 2
                assert error.printed.isprintable()
            else:
                assert text.isprintable(), (way, text)


def renamed(document: Any, names: dict[str, str]) -> Any:
    """With other ids, wherever they stand; what the formats themselves say stays."""
    if isinstance(document, dict):
        kept = ("format", "kind", "op", "params", "dtype", "do", "graph_hash", "crc32", "data", "status", "argument")
        return {
            (names.get(key, key) if way_of_ids(document) else key): value if key in kept else renamed(value, names)
            for key, value in document.items()
        }
    if isinstance(document, list):
        return [renamed(item, names) for item in document]
    return names.get(document, document) if isinstance(document, str) else document


def way_of_ids(document: dict[str, Any]) -> bool:
    """Whether the keys of an object are ids: gradients, offsets, what is taken over."""
    return "id" not in document and "format" not in document and not document.keys() & {"do", "ref", "of", "blank"}


def ids_of(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        if isinstance(document.get("id"), str):
            yield document["id"]
        for value in document.values():
            yield from ids_of(value)
    elif isinstance(document, list):
        for item in document:
            yield from ids_of(item)


def hostile_plan(plan: Path, folder: Path) -> dict[str, str]:
    """The same plan with every id and name changed into something hostile; the new ids by the old ones."""
    from poet_profiles.graph.file import graph_hash

    folder.mkdir()
    files = {name: json.loads((plan / name).read_text()) for name in ("graph.json", "schedule.json")}
    if (plan / "program.json").exists():
        files["program.json"] = json.loads((plan / "program.json").read_text())
    old = dict.fromkeys(id for document in files.values() for id in ids_of(document))
    hostile = [text for text in PRINTABLE if text.strip()]
    names = {id: f"{hostile[index % len(hostile)]}{index}" for index, id in enumerate(old)}
    for name, document in files.items():
        changed = renamed(document, names)
        for key in ("name", "graph", "model"):
            if key in changed:
                changed[key] = "".join(hostile[:-1])
        (folder / name).write_text(json.dumps(changed))
    hash = graph_hash(read_graph(folder / "graph.json"))
    for name in files.keys() - {"graph.json"}:
        document = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**document, "graph_hash": hash}))
    return names


def test_hostile_ids_go_through_plan_pictures_page_and_c(
    plans: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from poet_planner.cli import main

    given = tmp_path / "given"
    names = hostile_plan(plans["m4"], given)
    assert exit_code(main, "poet-plan", "verify", given / "graph.json", given / "schedule.json") == 0
    headers = []
    for name, graph in (("plain", plans["m4"] / "graph.json"), ("out", given / "graph.json")):
        options = ("--ram", "216KB", "--method", "store_all", "--out", tmp_path / name, "--verbose")
        assert exit_code(main, "poet-plan", "--graph", graph, *options) == 0, capsys.readouterr().err
        headers.append(preprocessed(tmp_path / name))
    assert headers[0] == headers[1], "but for hashes, a compiler sees nothing of an id"
    assert exit_code(main, "poet-plan", "report", tmp_path / "out", "--out", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text()
    assert page.count("<script") == page.count("</script>") == 2
    printed = capsys.readouterr()
    assert all(line.isprintable() for line in (printed.out + printed.err).splitlines())
    assert {path.name for path in tmp_path.iterdir()} == {"given", "plain", "out", "page.html"}
    assert set(names.values()) >= {node.id for node in read_graph(tmp_path / "out" / "graph.json").nodes}


def preprocessed(plan: Path) -> str:
    """Both headers of a plan as a compiler sees them that knows trigraphs, without hashes; no warning."""
    CANARY.folder, folder = None, CANARY.folder
    try:
        done = subprocess.run(
            ["cc", "-E", "-P", "-std=c99", "-trigraphs", "-Wall", "-Wextra", "-Werror", "-x", "c", "-"],
            input='#include "poet_model.h"\n#include "poet_schedule.h"\n', text=True, capture_output=True,
            env={"PATH": os.environ["PATH"], "CPATH": f"{plan}:{ROOT / 'firmware/include'}"}, check=False,
        )  # fmt: skip
    finally:
        CANARY.folder = folder
    assert (done.returncode, done.stderr) == (0, "")
    return re.sub(r"0x[0-9a-f]{16}u?l*", "HASH", done.stdout, flags=re.IGNORECASE)


def test_an_agent_runs_a_program_of_hostile_ids_and_gives_the_same_bits(plans: dict[str, Path], tmp_path: Path) -> None:
    hostile_plan(plans["a72"], tmp_path / "given")
    found = []
    for plan in (plans["a72"], tmp_path / "given"):
        board = Board(tmp_path)
        with board.agent:
            for name in ("program.json", "schedule.json"):
                assert "err" not in board.load(json.loads((plan / name).read_text()))
            assert "err" not in board.ask("place 1 1") and "err" not in board.ask("workspaces 0 5")
            found.append([board.ask(f"step 3c23d70a {trace}")["loss"] for trace in (0, 1, 0)])
            found[-1] += [board.ask(f"get {index} 0 4")["data"] for index in range(3)]
    assert found[0] == found[1]


def test_every_text_of_a_profile_is_refused_in_one_line_or_read(tmp_path: Path) -> None:
    header, row = (line.split(",") for line in (SHIPPED / "m4.csv").read_text().splitlines()[:2])
    path = tmp_path / "profile.csv"
    for index, column in enumerate(header):
        for text in UNPRINTABLE[:-2] + PRINTABLE:
            for cells in ([header, [*row[:index], text, *row[index + 1 :]]], [[*header, text], [*row, text]]):
                with path.open("w", newline="") as file:
                    csv.writer(file).writerows(cells)
                try:
                    read_profile(path)
                except UserError as error:
                    assert error.printed.isprintable()
                else:
                    assert text.isprintable(), (column, text)


@pytest.mark.parametrize(("kind", "name"), [("boards", "nrf52840"), ("boards", "rpi4b"), ("cells", "lipo500")])
def test_every_text_of_a_board_or_a_cell_is_refused_in_one_line_or_harmless(
    kind: str, name: str, tmp_path: Path
) -> None:
    board_files = runpy.run_path(str(ROOT / "firmware/platforms/baremetal/builder/board_files.py"))
    document = tomllib.loads((SHIPPED / kind / f"{name}.toml").read_text())
    path = tmp_path / f"{name}.toml"
    made = set()
    for way, is_key in kinds_of_places(document):
        for text in UNPRINTABLE[:-2] + PRINTABLE:
            path.write_text(toml_of(replaced(document, way, is_key, text)))
            try:
                read = load_board(str(path)) if kind == "boards" else load_cell(str(path))
            except UserError as error:
                assert error.printed.isprintable() and error.printed.startswith(str(path))
                continue
            assert text.isprintable()
            if isinstance(read, Board_) and read.chip is not None:
                made.add(tuple(board_files[part](read.model_dump()) for part in ("header", "linker_script")))
    assert len(made) == (name == "nrf52840"), "nothing of a text is in what the compiler and the linker read"


def toml_of(document: dict[str, Any]) -> str:
    """As TOML, in inline tables."""

    def text(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{json.dumps(key)} = {text(one)}" for key, one in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(text, value)) + "]"
        return json.dumps(value).replace("\x7f", "\\u007f")

    return "".join(f"{json.dumps(key)} = {text(value)}\n" for key, value in document.items())


def test_every_text_of_a_data_file_is_refused_in_one_line_or_read(plans: dict[str, Path], tmp_path: Path) -> None:
    """Names of arrays, and what tables of names say, in the data and beside the plan."""
    from poet_planner.cli import main

    data = tmp_path / "data.npz"
    assert exit_code(main, "poet-plan", "data", "--model", "digits_cnn_small", "--steps", 1, "--out", data) == 0
    plan = read_plan(plans["m4"])
    arrays = {**plan.names, **read_arrays(data, "poet-plan data")}
    arrays["..frozen"] = np.array([["conv1.weight", "00000000"]])
    given = tmp_path / "given.npz"
    read = 0
    for name, array in arrays.items():
        for text in [text for text in (*UNPRINTABLE, *PRINTABLE) if text != "\ud800"]:
            changes = [{**{other: arrays[other] for other in arrays if other != name}, text: array}]
            if array.dtype.kind == "U":
                changes += [{**arrays, name: spoilt} for spoilt in spoilt_texts(array, text)]
            for changed in changes:
                given.write_bytes(npz(changed))
                try:
                    table = read_training_data(given, plan, 1).state
                    table.check_steps(1)
                    table.state_dict(arrays, 1)
                except UserError as error:
                    assert error.printed.isprintable() and error.printed.startswith(str(given)), error.printed
                else:
                    read += 1
    assert read > 10


def spoilt_texts(array: np.ndarray[Any, Any], text: str) -> Iterator[np.ndarray[Any, Any]]:
    """The table with a text in one place of each column, and in other shapes."""
    for column in np.ndindex(array.shape[1:]):
        spoilt = array.astype(object)
        spoilt[(0, *column)] = text
        yield spoilt.astype(str)
    yield np.array(text)
    yield np.array([text])
    yield np.array([[text]])


def test_a_terminal_shows_the_text_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """An operator, a label of a recording or a device's name may look like markup of what prints the tables."""
    table = Table("[/bold]", title="[red]")
    table.add_row("[/x] :smile: [link=x]")
    wide_console().print(table)
    printed = capsys.readouterr().out
    assert all(text in printed for text in ("[/bold]", "[red]", "[/x] :smile: [link=x]"))
