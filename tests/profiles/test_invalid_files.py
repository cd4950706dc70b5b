# SPDX-License-Identifier: Apache-2.0
"""Every bad graph and schedule in tests/invalid ends in one line that names the file, what is wrong, and where."""

from __future__ import annotations

from pathlib import Path

import pytest
from poet_profiles.errors import BAD_INPUT, UserError
from poet_profiles.graph.file import read_graph
from poet_profiles.schedule.file import read_schedule

from tests.support import ROOT
from tests.support.programs import Said, poet_plan

INVALID = ROOT / "tests" / "invalid"

GRAPHS = {
    "band_missing": "node p: y has but elements 0 to 2 of each plane",
    "bytes_and_outputs": "node a has both",
    "bytes_of_shape": 'resident conv1.weight: "bytes" is 4, but "shape" is [4, 1, 3, 3]: 144 bytes',
    "card_above_energy": "node a: the card takes more than the node does",
    "change_beside": "node metric must stand before ready",
    "change_reads_elsewhere": "add an edge a -> ready",
    "change_recomputable": 'say "recomputable": false',
    "change_takes_ram": "node step changes a parameter or a state; such a node takes no RAM",
    "change_without_ordering": "must stand after one node without op",
    "constant_dtype": "constant c: \"dtype\" is 'u16'; it must be one of f32, i32, i8, u8",
    "constant_crc": "constant c: \"crc32\" is '12AB34CD'",
    "constant_is_changed": "node b: result c is no resident and no value of the node",
    "constants_overlap": "constant d: offset 4 overlaps",
    "constant_twice": "id w is a resident's and a constant's",
    "cycle": "cycle: ",
    "duplicate_node": "node id a is there twice",
    "duplicate_value": "value id a is there twice",
    "empty_operand": "node b: a has no bytes and is no resident",
    "fractional_bytes": 'node a: "bytes" is 4.5',
    "huge_number": 'node a: "time_s" is inf',
    "infinite": "Infinity is not a JSON number",
    "is_a_list": "not a JSON object",
    "key_twice": "'bytes' is there twice",
    "malformed_edge": "edge ['a']",
    "micro_batches_added_again": "node w.grad..added must add a value to the sum w.grad",
    "micro_batches_allocates": '"micro_batches" is 2; a graph with "allocates" has 1',
    "micro_batches_overwritten": "node w.grad..added must add a value to the sum w.grad",
    "micro_batches_statistics": "node bn1..update reads g, which is of one micro-batch",
    "micro_batches_sum_is_read": "2 nodes of each micro-batch name the sum w.grad",
    "micro_batches_zero": '"micro_batches" is 0; it must be a whole number, at least 1',
    "missing_energy": 'node a lacks "energy_j"',
    "negative_page_cost": 'node a: "page_in_energy_j" is -1',
    "negative_time": 'node a: "time_s" is -1.0',
    "nested": "nested more than 32 deep",
    "no_nodes": '"nodes" is empty',
    "not_json": "line 3: not JSON",
    "not_text": "not a JSON in UTF-8",
    "params_are_words": "node b: \"params\" is 'x'; those of fetch are 'size=…'",
    "resident_kind": "resident w",
    "residents_overlap": "resident x: offset 4 overlaps",
    "residents_too_small": "the residents end at 8",
    "operand_bytes": "linear_rows k=3 n=1 of=4 at=0 bias=0: x must have 12 bytes, it has 8",
    "source": "\"source\" is 'emulated+guessed'; it must be one of measured, emulated, published, or several",
    "text_cost": "node a: \"time_s\" is 'fast'",
    "tiles_exchanged": "node y..tile1: its tiles do not follow each other",
    "unknown_node": "no node c",
    "unknown_operand": "node b: operand v",
    "unknown_params": "node b: \"params\" is 'sze=5'; those of fetch are 'size=…'",
    "unprintable_id": r"'a\n\x1b[2J' has a character that cannot be printed",
    "unknown_value": "no node yields a value c",
    "wrong_format": "poet-graph/9",
    "utf_16": "it is UTF-16, or no text at all; save it as UTF-8",
    "wrong_order": "node a stands before its input b",
}
SCHEDULES = {
    "graph_hash": "\"graph_hash\" is '12AB'; it must be 16 hex digits",
    "missing_energy": '"energy_j" is None',
    "negative_offset": 'step 0: "offset" is -4',
    "no_node": 'step 0: "node" is None',
    "no_steps": '"steps" is missing',
    "unknown_action": "'swap'",
    "unknown_status": "'great'",
    "wrong_format": "not a poet-schedule/1",
}


def test_every_bad_file_has_its_expectation() -> None:
    assert {path.stem for path in INVALID.glob("graph_*")} == {f"graph_{name}" for name in GRAPHS}
    assert {path.stem for path in INVALID.glob("schedule_*")} == {f"schedule_{name}" for name in SCHEDULES}


@pytest.mark.parametrize("name", GRAPHS)
def test_bad_graph_is_refused_in_one_line(name: str) -> None:
    path = INVALID / f"graph_{name}.json"
    with pytest.raises(UserError) as caught:
        read_graph(path)
    _check_line(caught.value, path, GRAPHS[name])


@pytest.mark.parametrize("name", SCHEDULES)
def test_bad_schedule_is_refused_in_one_line(name: str) -> None:
    path = INVALID / f"schedule_{name}.json"
    with pytest.raises(UserError) as caught:
        read_schedule(path)
    _check_line(caught.value, path, SCHEDULES[name])


def _check_line(error: UserError, path: Path, expected: str) -> None:
    line = str(error)
    assert line.startswith(f"{path}: ")
    assert expected in line
    assert "\n" not in line
    assert error.exit_code == BAD_INPUT


def test_the_command_line_prints_the_line_and_exits_with_its_code(capsys: Said) -> None:
    assert poet_plan("--graph", INVALID / "graph_cycle.json", "--ram", "1KB") == BAD_INPUT
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.count("\n") == 1
    assert "a -> b -> a" in streams.err or "b -> a -> b" in streams.err
