# SPDX-License-Identifier: Apache-2.0
"""Files that people edit, as editors and spreadsheets write them, through each of their readers."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from poet_harness.meters.recorded import read_trace
from poet_harness.profiling.configurations import from_file
from poet_harness.regression import compare_files
from poet_planner.comparison.sweep_table import read_points
from poet_profiles.boards import load_board
from poet_profiles.cells import load_cell
from poet_profiles.errors import UserError
from poet_profiles.graph.file import read_graph
from poet_profiles.profile import ProfileWriter, read_profile
from poet_profiles.shipped import SHIPPED

M4 = (SHIPPED / "m4.csv").read_text(encoding="utf-8")


@dataclass(frozen=True)
class FileKind:
    """A kind of file: its usual content, and what reads it."""

    name: str
    content: str
    read: Callable[[Path], object]
    is_table: bool = True


NODE = {"id": "a", "time_s": 0, "energy_j": 0, "bytes": 4}
GRAPH = {"format": "poet-graph/1", "name": "g", "nodes": [NODE], "edges": []}
BOARD, CELL = (SHIPPED / name for name in ("boards/nrf52840.toml", "cells/cr123a.toml"))
KINDS = [
    FileKind("p.csv", M4, read_profile),
    FileKind("compared.csv", M4, lambda path: compare_files(path, path, 0.1)),
    FileKind("c.csv", 'op,params\npointwise,"size=4 steps=relu(y0,x0)"\n', from_file),
    FileKind("t.csv", "time_s,power_w\n0,1.5\n1,2.5\n2,1.5\n", lambda path: vars(read_trace(path, None))),
    FileKind(BOARD.name, BOARD.read_text(encoding="utf-8"), lambda path: load_board(str(path)), is_table=False),
    FileKind(CELL.name, CELL.read_text(encoding="utf-8"), lambda path: load_cell(str(path)), is_table=False),
    FileKind("g.json", json.dumps(GRAPH, indent=1), read_graph, is_table=False),
]
EACH = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


def same(one: Any, other: Any) -> bool:
    return bool(one.equals(other)) if isinstance(one, pd.DataFrame) else repr(one) == repr(other)


@EACH
def test_a_byte_order_mark_and_line_ends_change_nothing(tmp_path: Path, kind: FileKind) -> None:
    path = tmp_path / kind.name
    path.write_text(kind.content, encoding="utf-8")
    expected = kind.read(path)
    for content in ("\ufeff" + kind.content, kind.content.replace("\n", "\r\n")):
        path.write_bytes(content.encode())
        assert same(kind.read(path), expected)


@EACH
def test_another_encoding_is_named(tmp_path: Path, kind: FileKind) -> None:
    path = tmp_path / kind.name
    for content, words in (
        (kind.content.encode("utf-16"), "it is UTF-16"),
        (kind.content.encode("utf-16-be"), "it is UTF-16"),
        (kind.content.encode() + "# K\u00fchler\n".encode("cp1252"), r"byte 0xfc in line \d+; save it as UTF-8"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=words) as refused:
            kind.read(path)
        assert str(refused.value).startswith(f"{path}: ")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.is_table], ids=lambda kind: kind.name)
@pytest.mark.parametrize(("sign", "words"), [(";", "separated by semicolons"), ("\t", "separated by tabs")])
def test_other_separators_are_named(tmp_path: Path, kind: FileKind, sign: str, words: str) -> None:
    path = tmp_path / kind.name
    # As a spreadsheet does where decimals have commas.
    path.write_text(kind.content.replace(",", sign).replace(".", ","), encoding="utf-8")
    with pytest.raises(UserError, match=words):
        kind.read(path)


def test_a_sweeps_table_says_what_a_spreadsheet_did_to_it(tmp_path: Path) -> None:
    (tmp_path / "points.csv").write_text("model;board\nnet;m4\n")
    with pytest.raises(UserError, match="separated by semicolons"):
        read_points(tmp_path / "points.csv")


def test_a_profile_that_was_edited_in_a_spreadsheet_is_the_same_and_is_continued(tmp_path: Path) -> None:
    header, *rows = M4.splitlines()
    edited = tmp_path / "edited.csv"
    capitals = ", ".join(name.capitalize() for name in header.split(","))
    quoted = ",".join(f'"{cell} "' for cell in next(csv.reader(rows[:1])))
    blank = "," * header.count(",")
    edited.write_text("\ufeff" + "\n".join([capitals, quoted, blank, *rows[1:], blank, "", f" {blank} "]) + "\n")
    (tmp_path / "m4.csv").write_text(M4)
    assert read_profile(edited).equals(read_profile(tmp_path / "m4.csv"))
    with edited.open("a") as file:
        file.write("m4,torn")
    with ProfileWriter(tmp_path / "m4.csv") as whole:
        done = whole.done
    edited.write_text("\ufeff" + M4 + "m4,torn")
    with ProfileWriter(edited) as profile:
        assert profile.done == done


@pytest.mark.parametrize("number", ["1,5", "1,234.5", "1.234,5"])
def test_a_number_with_a_comma_is_named(tmp_path: Path, number: str) -> None:
    header, row, *_ = M4.splitlines()
    cells = [f'"{cell}"' for cell in next(csv.reader([row]))]
    cells[header.split(",").index("time_s")] = f'"{number}"'
    (tmp_path / "p.csv").write_text(f"{header}\n{','.join(cells)}\n")
    with pytest.raises(UserError, match=r"p\.csv:2: time_s: .* is not a number; write it with a point"):
        read_profile(tmp_path / "p.csv")
