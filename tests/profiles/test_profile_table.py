# SPDX-License-Identifier: Apache-2.0
"""Profile tables: what is read is what was written, and every way a table can be wrong is reported with its place."""

from __future__ import annotations

import dataclasses
import math
import resource
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from poet_profiles.errors import BAD_INPUT, UserError
from poet_profiles.profile import ALL_COLUMNS, COLUMNS, ProfileRow, ProfileWriter, read_profile

ROW = ProfileRow(
    board="nrf52840",
    op="fetch",
    params="size=8",
    dtype="f32",
    time_s=1e-5,
    time_s_std=0.0,
    energy_j=1e-7,
    energy_j_std=1e-9,
    idle_power_w=0.0036,
    bytes=32,
    workspace_bytes=0,
    repeats=100,
    slice=1.0,
    source="emulated",
    meter="a meter, with a comma",
    voltage_v=3.0,
    firmware="abc",
    taken_at="2026-01-01T00:00:00+00:00",
)
SPECIFIED = (
    "board op params dtype time_s time_s_std energy_j energy_j_std idle_power_w bytes workspace_bytes repeats slice "
    "source meter voltage_v firmware taken_at cpu_hz cpu_hz_std temperature_c temperature_c_std"
)
YOUNGER = "where call closing_time closing_energy"


def written(path: Path, *rows: ProfileRow) -> Path:
    with ProfileWriter(path) as profile:
        for row in rows:
            profile.append(row)
    return path


def test_the_columns_are_those_of_the_specification() -> None:
    assert " ".join(COLUMNS) == SPECIFIED
    assert " ".join(ALL_COLUMNS) == f"{SPECIFIED} {YOUNGER}"


def test_a_profile_from_before_the_younger_columns_is_read_and_continued(tmp_path: Path) -> None:
    path = written(tmp_path / "p.csv", ROW)
    lines = [line.rsplit(",", 4)[0] for line in path.read_text().splitlines()]
    assert lines[0] == SPECIFIED.replace(" ", ",")
    path.write_text("\n".join(lines) + "\n")
    younger = dataclasses.replace(ROW, params="other", where="place", call='{"op":"x"}', closing_time=0.97)
    table = read_profile(written(path, younger))
    assert list(table.columns) == SPECIFIED.split()
    fresh = read_profile(written(tmp_path / "new.csv", younger)).iloc[0]
    assert (fresh["where"], fresh["call"], fresh["closing_time"]) == ("place", '{"op":"x"}', 0.97)
    assert math.isnan(fresh["closing_energy"])


@given(
    st.floats(0, 1e6, allow_subnormal=False),
    st.integers(0, 2**40),
    st.sampled_from(["emulated", "measured", "published"]),
)
def test_a_row_comes_back(tmp_path_factory: pytest.TempPathFactory, time_s: float, count: int, source: str) -> None:
    path = tmp_path_factory.mktemp("p") / "p.csv"
    written(path, dataclasses.replace(ROW, time_s=time_s, bytes=count, source=source))
    row = read_profile(path).iloc[0]
    assert row["time_s"] == pytest.approx(time_s, rel=1e-6)
    assert (row["bytes"], row["source"], row["meter"]) == (count, source, ROW.meter)


def test_pandas_reads_it_with_no_options(tmp_path: Path) -> None:
    row = dataclasses.replace(ROW, where="loop", call="{}")
    path = written(tmp_path / "p.csv", row, dataclasses.replace(row, op="store"))
    plain, checked = pd.read_csv(path), read_profile(path)
    pd.testing.assert_frame_equal(plain, checked, check_dtype=False)


def test_rows_are_on_disk_before_the_file_is_closed(tmp_path: Path) -> None:
    profile = ProfileWriter(tmp_path / "p.csv")
    profile.append(ROW)
    assert len(read_profile(tmp_path / "p.csv")) == 1
    profile.close()


def test_an_empty_key_stays_empty(tmp_path: Path) -> None:
    path = written(tmp_path / "p.csv", dataclasses.replace(ROW, op="idle", params=""))
    assert read_profile(path).iloc[0]["params"] == ""


def test_what_a_device_says_of_itself_is_written_so_that_it_can_be_read(tmp_path: Path) -> None:
    path = written(tmp_path / "p.csv", dataclasses.replace(ROW, meter="PPK2 \0\x1b[2J\n", firmware="é"))
    assert read_profile(path)[["meter", "firmware"]].to_numpy().tolist() == [[r"PPK2 \x00\x1b[2J\n", "é"]]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_last_line_is_repaired_and_the_rest_kept(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "p.csv", ROW, dataclasses.replace(ROW, op="store"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    with ProfileWriter(path) as profile:
        assert profile.done == {(ROW.board, "fetch", "size=8", "f32", ROW.source)}
        profile.append(dataclasses.replace(ROW, op="store"))
    assert path.read_bytes() == whole


def test_a_torn_header_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("board,op,par")
    written(path, ROW)
    assert len(read_profile(path)) == 1


def test_a_sensor_that_a_board_lacks_leaves_its_column_blank(tmp_path: Path) -> None:
    cold = dataclasses.replace(ROW, op="store", cpu_hz=1.5e9, cpu_hz_std=0.0, temperature_c=-5.5, temperature_c_std=0.1)
    rows = read_profile(written(tmp_path / "p.csv", ROW, cold))
    assert rows["cpu_hz"].isna().tolist() == [True, False]
    assert rows.iloc[1][["cpu_hz", "temperature_c", "temperature_c_std"]].tolist() == [1.5e9, -5.5, 0.1]


def test_further_columns_are_kept(tmp_path: Path) -> None:
    path = written(tmp_path / "p.csv", ROW)
    frame = read_profile(path).assign(room_c=21.5)
    frame.to_csv(path, index=False)
    written(path, dataclasses.replace(ROW, op="store"))
    again = read_profile(path)
    assert list(again["op"]) == ["fetch", "store"]
    assert list(again["room_c"]) == ["21.5", ""]
    path.write_text("\n" + path.read_text(encoding="utf-8"), encoding="utf-8")  # a line that editors leave
    assert list(read_profile(path)["op"]) == ["fetch", "store"]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("time_s", "abc", r"p\.csv:2: time_s: 'abc' is not a number"),
        ("time_s", "", r"p\.csv:2: time_s: '' is not a number"),
        ("energy_j", "-1", r"p\.csv:2: energy_j: -1 must not be negative"),
        ("energy_j", "nan", r"p\.csv:2: energy_j: nan must be finite"),
        ("time_s", "inf", r"p\.csv:2: time_s: inf must be finite"),
        ("bytes", "1.5", r"p\.csv:2: bytes: 1.5 is not a whole number"),
        ("source", "guessed", r"p\.csv:2: source: 'guessed' is none of measured, emulated, published"),
        ("op", "", r"p\.csv:2: op: is empty"),
        ("board", "../../x", r"p\.csv:2: board: '../../x' is no name of a board"),
        ("board", "/tmp/x.toml", r"p\.csv:2: board: '/tmp/x.toml' is no name of a board"),
        ("meter", "a\x1b[2J", r"p\.csv:2: meter: 'a\\x1b\[2J': a character in it cannot be printed"),
        ("slice", "x", r"p\.csv:2: slice: 'x'"),
        ("cpu_hz", "fast", r"p\.csv:2: cpu_hz: 'fast' is not a number"),
    ],
)
def test_a_bad_value_is_told_with_file_line_and_column(tmp_path: Path, column: str, value: str, message: str) -> None:
    path = written(tmp_path / "p.csv", ROW)
    pd.read_csv(path, dtype=str).assign(**{column: value}).to_csv(path, index=False)
    with pytest.raises(UserError, match=message) as caught:
        read_profile(path)
    assert caught.value.exit_code == BAD_INPUT
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("op", "dtype"), [("fetch", "s8"), ("add_s8", "f32")])
def test_a_row_of_another_type_than_its_operator_is_refused(tmp_path: Path, op: str, dtype: str) -> None:
    path = written(tmp_path / "p.csv", dataclasses.replace(ROW, op=op, dtype=dtype))
    with pytest.raises(UserError, match=f"p.csv:2: dtype: {op} is of .*, not of '{dtype}'"):
        read_profile(path)


def test_rows_of_operators_that_are_steps_now_are_read_as_those(tmp_path: Path) -> None:
    """A row of the step itself counts where both are there."""
    given = {
        "relu,size=8": "size=8 steps=relu(y0,x0)",
        "sub,size=8": "size=8 steps=sub(y0,x0,x1)",
        "scale,size=8 factor_nano=500000000 divisor=2": "size=8 steps=mulc(y0,x0,0.25)",
        "scale_by,size=8 factor_f32=1048576000": "size=8 steps=mulc(y0,x0,0.25)",
        "hardtanh,size=8 low_f32=0 high_f32=1086324736": "size=8 steps=clampc(y0,x0,0,6)",
        "leaky_relu_backward,size=8 slope_f32=1056964608": "size=8 steps=leaky_relu_backward(y0,x0,x1,0.5)",
        'pointwise,"size=8 steps=relu(y0,x0)"': "size=8 steps=relu(y0,x0)",
    }
    rows = "".join(f"b,{row},{at},1\n" for at, row in enumerate(given))
    (tmp_path / "p.csv").write_text(f"board,op,params,time_s,energy_j\n{rows}")
    found = read_profile(tmp_path / "p.csv").set_index("params")
    assert sorted(found.index) == sorted({*given.values()})
    assert (found.op == "pointwise").all() and found.time_s["size=8 steps=relu(y0,x0)"] == 6


def test_the_same_configuration_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "p.csv", ROW)
    path.write_text(path.read_text() + path.read_text().splitlines()[1] + "\n")
    with pytest.raises(UserError, match=r"p\.csv:3: params: same .* as line 2"):
        read_profile(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"p\.csv:1: board, op, params, time_s, energy_j: columns are missing"),
        (b"op,b,Time_s\n1,2,3\n", r"p\.csv:1: board, params, energy_j: columns are missing; a profile has at least"),
        (b"board,op,params,time_s\n", r"p\.csv:1: energy_j: column is missing"),
        (",".join(COLUMNS).encode() + b"\n1,2\n", r"p\.csv:2: op: the line has 2 fields"),
        (",".join(COLUMNS).encode() + b",op\n", "a column stands twice"),
        (b"\xff\xfe\x00", "not a CSV in UTF-8"),
        (",".join(COLUMNS).encode() + b'\n"x\n', "not a CSV in UTF-8"),
    ],
)
def test_what_is_not_a_profile_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "p.csv").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_profile(tmp_path / "p.csv")


def test_of_the_least_form_nothing_says_that_poet_measured_it(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("energy_j,Board,op,params,time_s\n2,mine,fetch,size=8,0.5\n3,mine,add_s8,size=8,0.5\n")
    before = path.read_bytes()
    rows = read_profile(path)
    assert [*rows.columns[:5]] == ["energy_j", "board", "op", "params", "time_s"]
    assert set(COLUMNS) <= set(rows.columns)
    assert [*rows["dtype"]] == ["f32", "s8"] and [*rows["energy_j"]] == [2, 3]
    assert set(rows["source"]) == {"published"} and set(rows["meter"]) == {"unknown"}
    assert (rows[["time_s_std", "energy_j_std", "idle_power_w"]] == 0).all(axis=None)
    assert (rows[["repeats", "slice"]] == 1).all(axis=None)
    with pytest.raises(UserError, match=r"dtype, time_s_std, .*: columns are missing; measured rows need them"):
        ProfileWriter(path)
    assert path.read_bytes() == before
    path.write_text("board,op,params,time_s,energy_j,source\nmine,fetch,size=8,0.5,2,measured\n")
    assert [*read_profile(path)["source"]] == ["measured"]


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        read_profile(tmp_path / "none.csv")


def test_two_writers_of_one_file_do_not_mix_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "p.csv"
    with ProfileWriter(path) as first:
        with pytest.raises(UserError, match="another run is writing this profile"):
            ProfileWriter(path)
        first.append(ROW)
        with pytest.raises(UserError, match="another run is writing this profile"):
            ProfileWriter(path)
    with ProfileWriter(path) as second:
        second.append(dataclasses.replace(ROW, params="size=9"))
    assert list(read_profile(path)["params"]) == ["size=8", "size=9"]


def test_a_writer_that_wrote_nothing_leaves_no_file(tmp_path: Path) -> None:
    written(tmp_path / "p.csv")
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize("content", [b"my notes\nwithout an end", b"notes", b"a,b\n1,2"])
def test_a_file_that_is_no_profile_is_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "notes.txt").write_bytes(content)
    with pytest.raises(UserError, match="columns are missing"):
        ProfileWriter(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_bytes() == content


def test_a_full_disk_keeps_the_rows_so_far_whole(tmp_path: Path) -> None:
    path = written(tmp_path / "p.csv", ROW)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with ProfileWriter(path) as profile:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 40, hard))
        try:
            with pytest.raises(UserError, match=r"could not be written: File too large.*--resume"):
                profile.append(dataclasses.replace(ROW, params="size=9"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert len(read_profile(path)) == 1
        profile.append(dataclasses.replace(ROW, params="size=10"))
    assert list(read_profile(path)["params"]) == ["size=8", "size=10"]
