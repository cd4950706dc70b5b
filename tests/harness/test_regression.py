# SPDX-License-Identifier: Apache-2.0
"""``poet-harness diff``: what is more expensive, what is left out, and which files it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from math import sqrt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from poet_harness.regression import Verdict, compare_files
from poet_profiles.errors import UserError
from poet_profiles.profile import ProfileRow, ProfileWriter

from tests.support.programs import Said, poet_harness

RELU = ProfileRow(
    **{
        "board": "nrf52840",
        "op": "pointwise",
        "params": "size=64 steps=relu(y0,x0)",
        "dtype": "f32",
        "time_s": 1e-3,
        "time_s_std": 0.0,
    },
    **{"energy_j": 1e-5, "energy_j_std": 0.0, "idle_power_w": 3e-3, "bytes": 256, "workspace_bytes": 0, "repeats": 9},
    **{"slice": 1.0, "source": "measured", "meter": "ppk2 1", "voltage_v": 3.0, "firmware": "a1", "taken_at": "now"},
    where="loop",
)
IDLE = replace(RELU, op="idle", params="", time_s=0.1, energy_j=0.0)


def profile(path: Path, *rows: ProfileRow) -> Path:
    with ProfileWriter(path) as writer:
        for row in rows:
            writer.append(row)
    return path


def verdicts(first: Path, second: Path, limit: float = 0.02) -> dict[tuple[str, str], str]:
    return {
        (change.row, change.quantity): change.verdict.value for change in compare_files(first, second, limit).changes
    }


def command(capsys: Said, *arguments: object) -> tuple[int, str]:
    return poet_harness("diff", *arguments), capsys.readouterr().out


def test_a_cost_is_higher_beyond_limit_and_spread_together(tmp_path: Path) -> None:
    first = profile(tmp_path / "a.csv", replace(RELU, time_s=1.0, time_s_std=0.03, energy_j=1.0))
    # Twice the deviation of the difference is 0.1, the limit 0.02: beyond 1.12 is more expensive, below 0.88 cheaper.
    for number, (time_s, expected) in enumerate(
        [(1.119, "same"), (1.121, "more expensive"), (0.881, "same"), (0.879, "cheaper")]
    ):
        second = profile(tmp_path / f"{number}.csv", replace(RELU, time_s=time_s, time_s_std=0.04, energy_j=1.021))
        found = verdicts(first, second)
        key = "pointwise size=64 steps=relu(y0,x0)"
        assert found == {(key, "time_s"): expected, (key, "energy_j"): "more expensive"}


costs = st.floats(1e-6, 1.0)


@given(st.lists(st.tuples(costs, costs, costs, costs), min_size=1, max_size=5), st.floats(0, 0.5))
def test_the_rule_holds_for_any_rows_and_turns_round_with_the_files(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float, float, float, float]], limit: float
) -> None:
    folder = tmp_path_factory.mktemp("profiles")
    sides = [
        profile(
            folder / f"{side}.csv",
            *(
                replace(RELU, params=f"size={n} steps=relu(y0,x0)", time_s=row[side], time_s_std=row[2 + side] / 9)
                for n, row in enumerate(rows)
            ),
        )
        for side in (0, 1)
    ]
    there, back = (verdicts(*files, limit) for files in (sides, sides[::-1]))
    for n, (a, b, deviation_a, deviation_b) in enumerate(rows):
        key = (f"pointwise size={n} steps=relu(y0,x0)", "time_s")
        spread = 2 * sqrt((deviation_a / 9) ** 2 + (deviation_b / 9) ** 2)
        margin = (b - a) - (limit * a + spread)
        if abs(margin) > 1e-6 * (a + b):  # the file has seven digits
            assert (there[key] == "more expensive") == (margin > 0)
        # What is more expensive one way is not so the other way as well, and cheaper there if the limit is none.
        assert not (there[key] == "more expensive" and back[key] == "more expensive")
        if limit == 0:
            assert (there[key] == "more expensive") == (back[key] == "cheaper")


def test_of_the_sleeping_board_the_power_counts_and_not_how_long_it_was_watched(tmp_path: Path) -> None:
    first = profile(tmp_path / "a.csv", IDLE)
    second = profile(tmp_path / "b.csv", replace(IDLE, time_s=5.0, idle_power_w=3.1e-3))
    assert verdicts(first, second) == {("idle", "idle_power_w"): "more expensive"}


def test_rows_of_one_file_and_rows_that_are_not_alike_are_listed(tmp_path: Path) -> None:
    rows = [replace(RELU, params=f"size={size} steps=relu(y0,x0)") for size in (1, 2, 3, 4)]
    first = profile(tmp_path / "a.csv", *rows[:3], IDLE)
    changed = (replace(rows[1], slice=0.5, time_s=9.0), replace(rows[2], where="place", time_s=9.0))
    compared = compare_files(first, profile(tmp_path / "b.csv", *changed, rows[3], IDLE), 0.02)
    assert compared.only_first == ("pointwise size=1 steps=relu(y0,x0)",)
    assert compared.only_second == ("pointwise size=4 steps=relu(y0,x0)",)
    assert compared.left_out == {
        "pointwise size=2 steps=relu(y0,x0)": "slice 1 against 0.5",
        "pointwise size=3 steps=relu(y0,x0)": "taken in the loop against in the place",
    }
    assert [change.row for change in compared.changes] == ["idle"]


def test_rows_of_another_dtype_are_left_out(tmp_path: Path) -> None:
    """One profile has rows of int8, the other none, or of f16."""
    first = profile(tmp_path / "a.csv", RELU, replace(RELU, op="map_s8", params="size=64", dtype="s8"), IDLE)
    others = (replace(RELU, dtype="f16"), replace(RELU, op="map_s8", params="size=64", dtype="s8", time_s=9.0), IDLE)
    compared = compare_files(first, profile(tmp_path / "b.csv", *others), 0.02)
    assert compared.left_out == {"pointwise size=64 steps=relu(y0,x0)": "dtype f32 against f16"}
    assert {change.row for change in compared.changes} == {"map_s8 size=64", "idle"}


def test_what_else_differs_is_said(tmp_path: Path) -> None:
    measured = profile(tmp_path / "c.csv", RELU)
    other = profile(tmp_path / "d.csv", replace(RELU, voltage_v=3.3, firmware="b2"))
    assert compare_files(measured, other, 0.02).notes == (
        "firmware: a1 in the first, b2 in the second",
        "voltage: 3.0 in the first, 3.3 in the second",
        "rows with a single reading, whose spread is not known: 1; the limit alone decides there",
    )


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (RELU, replace(RELU, board="mkr1000"), "board nrf52840, .* mkr1000"),
        (RELU, replace(RELU, source="emulated"), "source measured, .* emulated"),
        (RELU, replace(RELU, op="gelu"), "no row in common"),
    ],
)
def test_files_that_cannot_be_compared_are_refused(
    first: ProfileRow, second: ProfileRow, words: str, tmp_path: Path
) -> None:
    files = [profile(tmp_path / name, row) for name, row in (("a.csv", first), ("b.csv", second))]
    with pytest.raises(UserError, match=words) as refused:
        compare_files(files[0], files[1], 0.02)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("energy_j,energy_j_std", "energy_mj,energy_mj_std", "a.csv:1: energy_j: column is missing"),
        ("1e-05", "much", "a.csv:2: energy_j: 'much' is not a number"),
    ],
)
def test_other_units_and_damage_are_refused(old: str, new: str, words: str, tmp_path: Path) -> None:
    path = profile(tmp_path / "a.csv", RELU)
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(UserError, match=words):
        compare_files(path, path, 0.02)


def test_the_exit_code_is_one_where_the_second_costs_more(tmp_path: Path, capsys: Said) -> None:
    first = profile(tmp_path / "a.csv", RELU, IDLE)
    second = profile(tmp_path / "b.csv", replace(RELU, energy_j=1.05e-5), IDLE)
    code, output = command(capsys, first, second)
    assert code == 1
    assert "1 more expensive (energy 1), 0 cheaper, 2 the same" in output
    assert "+5.00%" in output
    assert "time, ms" not in output
    assert "time, ms" in command(capsys, first, second, "--all")[1]
    assert command(capsys, second, first)[0] == 0
    assert command(capsys, first, second, "--limit", "6%")[0] == 0
    code, output = command(capsys, first, second, "--json")
    document = json.loads(output)
    assert code == 1
    assert document["more_expensive"] == 1
    [more_expensive] = [change for change in document["changes"] if change["verdict"] == Verdict.MORE_EXPENSIVE]
    assert more_expensive["quantity"] == "energy_j"
    assert more_expensive["relative"] == pytest.approx(0.05)
