# SPDX-License-Identifier: Apache-2.0
"""``poet-harness run`` with tensors on the card: whence it begins, what counts after a failure, what is read back."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from poet_harness.card import in_board
from poet_harness.card.contents import card_contents
from poet_harness.card.image import prepared_image
from poet_harness.card.places import card_place
from poet_harness.card.writing import write_card
from poet_harness.cli import app
from poet_harness.data.batches import read_training_data
from poet_harness.plan_folder.plan import read_plan
from poet_harness.training.observed import ObservedStep
from poet_profiles.card.layout import BLOCK_BYTES, RECORD_BLOCKS
from poet_profiles.card.record import decode_record, encode_record
from poet_profiles.errors import UserError
from poet_profiles.graph import Kept
from poet_profiles.graph.constants import write_constants
from poet_profiles.graph.file import graph_hash
from safetensors.numpy import load_file
from typer.testing import CliRunner

from tests.support.graphs.kept_graphs import kept_step
from tests.support.harness.kept_plan import B, KeptDevice, W, X, kept_board, write_data, write_kept_plan
from tests.support.harness.simulated_device import serve
from tests.support.harness.trained import trained

RATE = 0.25
LOSSES = [float(x.sum()) for x in X]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_kept_plan(tmp_path / "plan")


def begun(folder: Path, step: int, **changes: Any) -> KeptDevice:
    """A device whose card was prepared with the data, and trained so many steps."""
    device = kept_board(folder, **changes)
    device.on_card[2] = bytearray(X.tobytes())
    device.record = (step, (B + RATE * step).tobytes(), (W + RATE * step).tobytes())
    return device


def train(device: KeptDevice, folder: Path, **options: Any) -> list[ObservedStep]:
    return trained(device, folder, None, RATE, **options)[1]


def run(device: KeptDevice, folder: Path, *options: str) -> Result:
    with serve(device) as url:
        given = ["run", "--plan", str(folder), "--data", str(folder / "data.npz"), "--lr", str(RATE)]
        return CliRunner().invoke(app, [*given, "--board", "nrf52840", "--meter", "nominal", "--port", url, *options])


def test_an_empty_card_is_prepared_over_the_line_once(folder: Path) -> None:
    device = kept_board(folder)
    observed = train(device, folder)
    assert [step.loss for step in observed] == LOSSES
    assert device.on_card[2] == X.tobytes()
    puts = [request.split()[1] for request in device.carried_out if request.startswith("put")]
    assert puts == ["0", "1", "2", "2", "2"]
    assert device.record == (3, (B + 3 * RATE).tobytes(), (W + 3 * RATE).tobytes())


def test_the_line_is_for_small_models(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_board, "MOST_LINE_BYTES", 39)
    device = kept_board(folder)
    with pytest.raises(UserError, match=r"40 bytes are too many for the serial line; .*poet-harness card"):
        train(device, folder)
    assert not any(request.startswith(("put", "batches")) for request in device.carried_out)
    with pytest.raises(UserError, match="no commit of this model"):
        train(device, folder, resume=True)


def test_a_run_goes_on_only_if_asked_to(folder: Path) -> None:
    device = begun(folder, 1)
    with pytest.raises(UserError, match=r"holds the weights after 1 steps; .*--resume, .*poet-harness card"):
        train(device, folder)
    observed = train(device, folder, resume=True)
    assert [step.number for step in observed] == [1, 2]
    assert [step.loss for step in observed] == LOSSES[1:]
    with pytest.raises(UserError, match="3 steps are committed already"):
        train(device, folder, resume=True)


def test_batches_come_round_again(folder: Path) -> None:
    observed = train(begun(folder, 0), folder, steps=7)
    assert [step.loss for step in observed] == [*LOSSES, *LOSSES, LOSSES[0]]


def test_a_counter_must_be_known_as_far_as_training_goes(folder: Path) -> None:
    result = run(begun(folder, 0), folder, "--steps", "10")
    assert "steps: the data say what it is after 9 steps at most" in str(result.exception)
    assert run(begun(folder, 0), folder, "--steps", "9").exit_code == 0


def test_a_reset_costs_no_step(folder: Path) -> None:
    device = begun(folder, 0, resets_after=[7, 12])
    assert [step.loss for step in train(device, folder, steps=5)] == [*LOSSES, *LOSSES[:2]]
    assert device.boot == 3
    assert device.record is not None
    assert device.record[0] == 5


def test_a_step_whose_answer_is_lost_counts_once(folder: Path) -> None:
    saved, out = folder / "saved.npz", folder / "out.csv"
    device = begun(folder, 0, silent_at=1)
    result = run(device, folder, "--steps", "3", "--save", str(saved), "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "step 1 counts, but its loss is lost" in result.stderr
    np.testing.assert_array_equal(np.load(saved)["loss"], np.array([LOSSES[0], np.nan, LOSSES[2]], np.float32))
    assert "no gradient is ever whole" in result.stderr
    table = pd.read_csv(out)
    assert list(table["training_step"][table["do"] == "step"]) == [0, 2]
    assert device.record == (3, (B + 3 * RATE).tobytes(), (W + 3 * RATE).tobytes())


def test_weights_come_off_the_card_through_the_board(folder: Path) -> None:
    out = folder / "net.safetensors"
    given = ["weights", "--plan", str(folder), "--data", str(folder / "data.npz"), "--out", str(out)]
    for device, words in ((begun(folder, 2), ""), (kept_board(folder), "its card holds no trained weights")):
        with serve(device) as url:
            result = CliRunner().invoke(app, [*given, "--board", "nrf52840", "--port", url])
        assert words in str(result.exception)
        assert bool(words) == bool(result.exit_code)
    found = load_file(out)
    np.testing.assert_array_equal(found["layer.weight"], W + 2 * RATE)
    np.testing.assert_array_equal(found["layer.bias"], B + 2 * RATE)
    assert found["steps"] == 2


def test_a_card_is_prepared_with_weights_from_a_file(folder: Path) -> None:
    given = folder / "given.npz"
    np.savez(given, **{"layer.weight": W + 5, "layer.bias": B + 5, "steps": np.int64(0)})
    device = kept_board(folder)
    assert run(device, folder, "--steps", "1", "--weights", str(given)).exit_code == 0
    assert device.record == (1, (B + 5 + RATE).tobytes(), (W + 5 + RATE).tobytes())


def test_after_a_failure_the_committed_weights_are_written(folder: Path) -> None:
    out = folder / "net.safetensors"
    result = run(begun(folder, 0, breaks_at=2), folder, "--steps", "3", "--trained", str(out))
    assert "training failed" in str(result.exception)
    found = load_file(out)
    np.testing.assert_array_equal(found["layer.weight"], W + 2 * RATE)
    np.testing.assert_array_equal(found["layer.bias"], B + 2 * RATE)
    assert found["steps"] == 2


def test_the_card_of_another_model_is_left_alone(folder: Path) -> None:
    device = kept_board(folder, foreign=True)
    with pytest.raises(UserError, match=r"tensors of another model.*--format-card"):
        train(device, folder)
    assert not any(request.startswith(("put", "commit")) for request in device.carried_out)


def test_other_batches_than_the_datas_are_refused(folder: Path) -> None:
    write_data(folder, x=X + 1)
    with pytest.raises(UserError, match="card's batch 1 of x is not that of the data"):
        train(begun(folder, 1), folder, resume=True)
    write_data(folder, x=X[:2])
    with pytest.raises(UserError, match="card holds 3 batches, the data 2: step 2 would read another one"):
        train(begun(folder, 0), folder, steps=3)
    assert len(train(begun(folder, 0), folder, steps=2)) == 2


def test_a_board_that_counts_otherwise_is_not_believed(folder: Path) -> None:
    with pytest.raises(UserError, match="committed step 2, and was asked for 1"):
        train(begun(folder, 0, skips=1), folder)


def test_transfers_and_commits_get_no_rows_of_their_own(folder: Path, tmp_path: Path) -> None:
    """A transfer costs what a page does, and what a commit costs is another thing in each graph."""
    out = tmp_path / "own.csv"
    with serve(begun(folder, 0)) as url:
        given = ["--plan", str(folder), "--data", str(folder / "data.npz"), "--steps", "2", "--quick", "--no-pages"]
        board = ["--board", "nrf52840", "--meter", "nominal", "--port", url]
        result = CliRunner().invoke(app, ["profile", *board, *given, "--out", str(out)])
    assert result.exit_code == 0, result.output
    rows = pd.read_csv(out)
    assert set(rows["op"]) == {"idle", "pointwise", "sgd", "sgd_update"}
    assert all(rows["meter"][rows["op"] != "idle"].str.endswith(", in place"))


# --- images ---


def prepare(folder: Path, image: Path, size_bytes: int | None = None) -> None:
    contents = card_contents(folder / "data.npz", read_plan(folder))
    write_card(card_place(image), contents, size_bytes, lambda *_: None)


def change_record(image: Path, **changes: Any) -> None:
    with image.open("r+b") as file:
        file.seek(RECORD_BLOCKS[0] * BLOCK_BYTES)
        record = decode_record(file.read(BLOCK_BYTES))
        assert record is not None
        file.seek(RECORD_BLOCKS[0] * BLOCK_BYTES)
        file.write(encode_record(replace(record, **changes)))


def used(folder: Path, image: Path | None, steps: int = 3) -> Path:
    plan = read_plan(folder)
    data = read_training_data(folder / "data.npz", plan, None)
    with prepared_image(image, plan, data, steps) as path:
        assert path is not None
        assert path.exists()
        return path


def test_an_image_is_made_where_there_is_none(folder: Path, tmp_path: Path) -> None:
    prepare(folder, tmp_path / "by hand.img")
    assert used(folder, tmp_path / "new.img").read_bytes() == (tmp_path / "by hand.img").read_bytes()
    assert not used(folder, None).exists(), "one without a name is for the time being"


def test_an_image_is_checked_and_not_changed(folder: Path, tmp_path: Path) -> None:
    image = tmp_path / "card.img"
    prepare(folder, image)
    before = image.read_bytes()
    for changed, words in (
        ({"w": W + 1}, "other initial weights"),
        ({"x": np.concatenate([X[:2], X[2:] + 1])}, "batch 2 of x is not that of the data"),
        ({"x": X[:2]}, "holds 3 batches, the data 2"),
    ):
        write_data(folder, **changed)
        with pytest.raises(UserError, match=rf"card\.img: .*{words}.*poet-harness card"):
            used(folder, image)
    assert used(folder, image, steps=2)
    write_data(folder)
    used(folder, image, steps=300)
    assert image.read_bytes() == before


def test_a_trained_image_has_the_frozen_weights_of_the_plan(tmp_path: Path) -> None:
    step = kept_step()
    graph = replace(step, kept=(*step.kept, Kept("c", "constant", 8, (2,))))
    folder = write_kept_plan(tmp_path / "plan", graph)
    image = tmp_path / "card.img"
    frozen = np.array([1, 2], np.float32)
    write_constants({"c": frozen}, folder, graph_hash(graph))
    prepare(folder, image)
    change_record(image, step=4, checks=(1, 2, zlib.crc32(frozen.tobytes())))
    assert used(folder, image) == image
    write_constants({"c": frozen + 1}, folder, graph_hash(graph))
    with pytest.raises(UserError, match="other frozen weights"):
        used(folder, image)


def test_an_image_that_is_no_card_of_the_plan_is_refused(folder: Path, tmp_path: Path) -> None:
    image = tmp_path / "card.img"
    prepare(folder, image, 2**21)
    for changes, words in (
        ({"batches": 3000}, "has 2,097,152 bytes, the plan needs"),
        ({"graph_hash": "f" * 16}, "holds no weights of the graph .*; it holds: f{16}; prepare it"),
    ):
        change_record(image, **changes)
        with pytest.raises(UserError, match=words):
            used(folder, image)
    with image.open("r+b") as file:
        file.write(bytes(12))
    with pytest.raises(UserError, match="no label"):
        used(folder, image)


def test_a_trained_image_may_have_other_weights(folder: Path, tmp_path: Path) -> None:
    image = tmp_path / "card.img"
    prepare(folder, image)
    change_record(image, step=4, checks=(1, 2))
    assert used(folder, image) == image
