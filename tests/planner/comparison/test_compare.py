# SPDX-License-Identifier: Apache-2.0
"""The picture of a comparison: one method that costs a hundred times as much hides no other."""

from __future__ import annotations

from pathlib import Path

from poet_planner.comparison.compare import Setting, Subject, write_picture

from tests.support.graphs.chains import training_chain
from tests.support.graphs.sweep_points import sweep_point


def test_a_bar_that_is_far_longer_is_cut_and_its_figure_stands(tmp_path: Path) -> None:
    overheads = {"optimal": 0.1, "dtr": 0.5, "page_all": 98.3}
    points = [sweep_point(method, 0.5, overhead) for method, overhead in overheads.items()]
    setting = Setting(Subject(training_chain(3), "chain"), 10**6, None)
    write_picture(setting, points, tmp_path / "compare.svg")
    text = (tmp_path / "compare.svg").read_text()
    assert "→ 99.3 times" in text
    assert "+10 %" in text and "→ +10 %" not in text and "→ +50 %" not in text
    # Half of them are a hundred times as cheap as the others: those are no exceptions.
    many = {"optimal": 0.001, "dtr": 0.001, "rotor": 0.09, "revolve": 0.3, "capuchin": 0.4}
    write_picture(setting, [sweep_point(name, 0.5, more) for name, more in many.items()], tmp_path / "many.svg")
    assert "→" not in (tmp_path / "many.svg").read_text()
    write_picture(setting, points[:2], tmp_path / "two.svg")
    assert "→" not in (tmp_path / "two.svg").read_text()
