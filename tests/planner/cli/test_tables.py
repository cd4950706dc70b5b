# SPDX-License-Identifier: Apache-2.0
"""Tables as other programs read them, read back by such programs."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from markdown_it import MarkdownIt
from poet_planner.cli.tables import Form, table_text

from tests.support.programs import Said, poet_plan

HEADER = ["method", "above, %", "why"]
ROWS = [["store_all", "50%", 'a "b", c'], ["x|y", "", "~ \u221an \\ {1}"]]


def test_markdown_is_a_table_of_the_same_cells() -> None:
    tokens = MarkdownIt().enable("table").parse(table_text(HEADER, ROWS, Form.MARKDOWN))
    cells = [token.children or [] for token in tokens if token.type == "inline"]
    assert ["".join(part.content for part in cell) for cell in cells] == [*HEADER, *ROWS[0], *ROWS[1]]


def test_csv_is_a_table_of_the_same_cells() -> None:
    assert [*csv.reader(io.StringIO(table_text(HEADER, ROWS, Form.CSV)))] == [HEADER, *ROWS]


def test_latex_has_a_row_a_line_and_no_character_that_means_something_else() -> None:
    text = table_text(HEADER, ROWS, Form.LATEX)
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    cells = [re.split(r" (?<!\\)& ", line.removesuffix(r" \\")) for line in lines]
    assert [[re.sub(r"\\(?=[_%{}&#$])", "", cell) for cell in row] for row in cells[:2]] == [HEADER, ROWS[0]]
    assert not re.search(r"(?<!\\)[_%#$~]", text)


@pytest.mark.parametrize("form", [*Form])
def test_the_table_alone_is_on_standard_output(form: Form, capsys: Said) -> None:
    assert poet_plan("methods", "--json") == 0
    methods = json.loads(capsys.readouterr().out)
    assert poet_plan("methods", "--table", form) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == len(methods) + {"markdown": 2, "latex": 6, "csv": 1}[form]
    assert "a plan depends on" in printed.err
    assert poet_plan("methods", "--table", form, "--json") == 2
