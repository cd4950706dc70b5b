# SPDX-License-Identifier: Apache-2.0
"""``poet-harness run`` against the simulated device: what goes on the board, what comes back, what is compared."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from poet_harness.cli import app
from poet_harness.data.batches import read_training_data
from poet_harness.meters.meter import Mark, MeterError, Window
from poet_harness.meters.nominal import NominalMeter
from poet_harness.plan_folder.plan import read_plan
from poet_harness.training.observed import ObservedStep
from poet_harness.training.trainer import Trainer
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from typer.testing import CliRunner

from tests.support.harness.made_plans import write_summary
from tests.support.harness.simulated_device import TICKS_HZ, SimulatedDevice, serve
from tests.support.harness.tiny_plan import (
    BATCHES,
    GRAPH,
    HASH,
    SCHEDULE,
    SCHEDULE_HASH,
    STEPS,
    TICKS,
    board,
    write_plan,
)
from tests.support.harness.trained import device_at, end_in_step, trained


@pytest.fixture
def plan_folder(tmp_path: Path) -> Path:
    return write_plan(tmp_path / "plan")


def train(device: SimulatedDevice, folder: Path, **options: Any) -> list[ObservedStep]:
    return trained(device, folder, STEPS, 0.25, **options)[1]


def test_every_batch_reaches_the_board_and_every_gradient_comes_back(plan_folder: Path) -> None:
    device = board()
    observed = train(device, plan_folder)
    assert [step.gradients["w.grad"].tolist() for step in observed] == [[row.sum()] for row in BATCHES]
    assert [step.loss for step in observed] == pytest.approx([1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5])
    assert np.frombuffer(device.residents[0], dtype="<f4").tolist() == [1.0 + 0.25 * STEPS, 2.0 + 0.25 * STEPS]


def test_a_reset_in_the_middle_changes_no_result(plan_folder: Path) -> None:
    clean = train(board(), plan_folder)
    rough = train(board(resets_after=[7, 15, 20]), plan_folder)
    assert [step.loss for step in rough] == [step.loss for step in clean]
    assert [step.gradients["w.grad"].tolist() for step in rough] == [
        step.gradients["w.grad"].tolist() for step in clean
    ]


def test_with_commits_a_reset_repeats_only_what_came_after_the_last_one(plan_folder: Path) -> None:
    clean = train(board(), plan_folder)
    device = board(resets_after=[16])
    rough = train(device, plan_folder, commit_every=2)
    assert [step.loss for step in rough] == [step.loss for step in clean]
    assert np.frombuffer(device.residents[0], dtype="<f4").tolist() == [1.0 + 0.25 * STEPS, 2.0 + 0.25 * STEPS]
    steps = [request for request in device.carried_out if request.startswith("step")]
    assert STEPS < len(steps) < 2 * STEPS


class FailingMeter(NominalMeter):
    """Does something to the recording of the second step."""

    recordings = 0

    def __init__(self, spoil: Callable[[Window], Window]) -> None:
        super().__init__(load_board("nrf52840"))
        self._spoil = spoil

    def end(self, marks: Sequence[Mark]) -> list[Window]:
        self.recordings += 1
        windows = super().end(marks)
        return [self._spoil(window) for window in windows] if self.recordings == 3 else windows  # the first is asleep


def cable_loose(_: Window) -> Window:
    raise MeterError("cable loose")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (cable_loose, "cable loose"),
        (lambda window: replace(window, samples=1000, lost=2), "0.20% of the samples lost"),
        (lambda window: replace(window, duration_s=0.998 * window.duration_s), "where the device counted 0.004000 s"),
    ],
)
def test_training_goes_on_when_the_meter_loses_a_step(
    plan_folder: Path, spoil: Callable[[Window], Window], reason: str
) -> None:
    plan = read_plan(plan_folder)
    with serve(board()) as url:
        device = device_at(url)
        trainer = Trainer(device, FailingMeter(spoil), plan)
        observed = trainer.train(read_training_data(plan_folder / "data.npz", plan, STEPS), learning_rate=0.25)
    assert [step.energy_j is None for step in observed] == [False, True, False, False, False]
    [line] = trainer.metering.unmetered
    assert reason in line


def test_constants_are_put_again_when_training_resumes(plan_folder: Path) -> None:
    graph = {**GRAPH, "residents": [*GRAPH["residents"]]}
    graph["residents"][1] = {"id": "c", "kind": "constant", "bytes": 4, "offset": 8, "shape": [1]}
    (plan_folder / "graph.json").write_text(json.dumps(graph))
    np.savez(plan_folder / "data.npz", w=np.zeros(2, "f4"), c=np.array([7.0], "f4"), input=BATCHES)
    device = board()
    device.committed = (4, bytes(8))
    train(device, plan_folder, resume=True)
    assert any(request.startswith("put 1 0 ") for request in device.carried_out)
    assert not any(request.startswith("put 0 0 ") for request in device.carried_out)


def test_resume_begins_after_the_committed_step(plan_folder: Path) -> None:
    device = board()
    device.committed = (3, np.array([5.0, 6.0], dtype="<f4").tobytes())
    observed = train(device, plan_folder, resume=True)
    assert [step.number for step in observed] == [3, 4]
    assert observed[0].actions
    assert np.frombuffer(device.residents[0], dtype="<f4").tolist() == [5.5, 6.5]
    with pytest.raises(UserError, match=r"no commit of this model.*leave --resume out"):
        train(board(), plan_folder, resume=True)


def test_a_reset_before_the_first_commit_does_not_bring_back_an_earlier_runs_weights(plan_folder: Path) -> None:
    clean = train(board(), plan_folder)
    device = board(resets_after=[7])
    device.committed = (3, np.array([50.0, 60.0], dtype="<f4").tobytes())
    rough = train(device, plan_folder, commit_every=STEPS)
    assert [step.loss for step in rough] == [step.loss for step in clean]
    assert np.frombuffer(device.residents[0], dtype="<f4").tolist() == [1.0 + 0.25 * STEPS, 2.0 + 0.25 * STEPS]


def test_a_reset_while_weights_are_restored_counts_as_one(plan_folder: Path) -> None:
    device = board(resets_after=[1, 3])
    device.committed = (3, np.array([5.0, 6.0], dtype="<f4").tobytes())
    observed = train(device, plan_folder, resume=True)
    assert device.boot == 3
    assert [step.number for step in observed] == [3, 4]
    with pytest.raises(UserError, match="reset 4 times"):
        train(board(resets_after=[1, 3, 5, 7], committed=device.committed), plan_folder, resume=True)


def arguments(folder: Path, *more: str) -> list[str]:
    given = ["run", "--plan", str(folder), "--data", str(folder / "data.npz"), "--steps", str(STEPS)]
    return [*given, "--board", "nrf52840", "--meter", "nominal", *more]


def test_resuming_what_is_done_leaves_the_files_alone(plan_folder: Path) -> None:
    out = plan_folder / "observed.csv"
    device = board()
    with serve(device) as url:
        CliRunner().invoke(app, arguments(plan_folder, "--port", url, "--out", str(out), "--commit-every", str(STEPS)))
        before = out.read_bytes()
        again = CliRunner().invoke(app, arguments(plan_folder, "--port", url, "--out", str(out), "--resume"))
    assert "exists already" in str(again.exception)
    assert out.read_bytes() == before
    with pytest.raises(UserError, match=f"{STEPS} steps are committed already"):
        train(board(committed=device.committed), plan_folder, resume=True)


def test_what_was_observed_is_kept_when_training_fails(plan_folder: Path) -> None:
    out, saved = plan_folder / "observed.csv", plan_folder / "saved.npz"
    device = board()
    device.fails_at = 3
    with serve(device) as url:
        options = ["--port", url, "--out", str(out), "--save", str(saved)]
        result = CliRunner().invoke(app, arguments(plan_folder, *options))
    assert "training failed" in str(result.exception)
    assert "--format-card" in str(result.exception)
    table = pd.read_csv(out)
    assert list(table["training_step"][table["do"] == "step"]) == [0, 1]
    assert np.load(saved)["loss"].shape == (2,)


@pytest.mark.parametrize(
    ("profiled", "warned"), [(["simulated-1"], False), ([], False), (["simulated-0"], True), (None, False)]
)
def test_costs_profiled_with_another_firmware_are_told(
    plan_folder: Path, profiled: list[str] | None, warned: bool
) -> None:
    if profiled is not None:
        write_summary(plan_folder, firmware=profiled)
    options = ["--plan", str(plan_folder), "--data", str(plan_folder / "data.npz"), "--board", "nrf52840"]
    with serve(board()) as url:
        result = CliRunner().invoke(app, ["run", "--port", url, "--meter", "nominal", *options])
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stderr.splitlines() if "simulated-0" in line and "simulated-1" in line]
    assert len(lines) == warned


def test_a_damaged_summary_is_one_line(plan_folder: Path) -> None:
    for content in ("{", "[]", '{"firmware": 5}'):
        (plan_folder / "summary.json").write_text(content)
        with pytest.raises(UserError, match=r"summary\.json: .*(not JSON|plan again)"):
            read_plan(plan_folder)


@pytest.mark.parametrize(
    ("step_w", "said"), [(2e-3, "3.6 mW (the meter shows steps of 2 mW)"), (0.0, "3.6 mW; nominal")]
)
def test_energies_are_told_as_finely_as_the_meter_shows_them(
    plan_folder: Path, monkeypatch: pytest.MonkeyPatch, step_w: float, said: str
) -> None:
    monkeypatch.setattr(NominalMeter, "power_step_w", step_w)
    with serve(board()) as url:
        result = CliRunner().invoke(app, arguments(plan_folder, "--port", url))
    assert f"above the idle power, {said}" in result.stdout


def test_the_verb_compares_every_action_and_saves_losses_and_gradients(plan_folder: Path) -> None:
    out, saved = plan_folder / "observed.csv", plan_folder / "saved.npz"
    options = ["--plan", str(plan_folder), "--data", str(plan_folder / "data.npz"), "--steps", str(STEPS)]
    options += ["--board", "nrf52840", "--meter", "nominal", "--out", str(out), "--save", str(saved)]
    with serve(board()) as url:
        result = CliRunner().invoke(app, ["run", "--port", url, *options])
    assert result.exit_code == 0, result.output
    assert "emulated" in result.stdout
    table = pd.read_csv(out)
    traced = table[(table["training_step"] == 0) & (table["do"] != "step")]
    assert list(traced["do"]) == ["compute", "page_out", "page_in"]  # neither the free nor what only orders
    assert list(traced["observed_time_s"]) == pytest.approx([ticks / TICKS_HZ for ticks in TICKS])
    assert list(traced["predicted_energy_j"]) == [1e-5, 4e-5, 3e-5]
    assert list(traced["predicted_peak_bytes"]) == [532] * 3
    rails, volt = load_board("nrf52840").rails_a, load_board("nrf52840").voltage_v
    above_idle_w = volt * (rails.cpu_active - rails.cpu_idle)
    assert list(table["idle_power_w"]) == pytest.approx([volt * (rails.cpu_idle + rails.storage_idle)] * len(table))
    assert traced["observed_energy_j"].iloc[0] == pytest.approx(above_idle_w * TICKS[0] / TICKS_HZ)
    assert not traced["observed_energy_j"].isna().any()
    whole = table[table["do"] == "step"]
    assert len(whole) == STEPS
    assert table["observed_peak_bytes"].isna().all()  # firmware allocates nothing
    untraced = whole[whole["training_step"] > 0]
    assert list(untraced["observed_energy_j"]) == pytest.approx([above_idle_w * sum(TICKS) / TICKS_HZ] * (STEPS - 1))
    arrays = np.load(saved)
    assert arrays["loss"].dtype == np.float32
    assert arrays["w.grad"].shape == (STEPS, 1)


def test_another_plan_on_the_board_is_refused(plan_folder: Path) -> None:
    with pytest.raises(UserError, match=rf"model has the hash {'f' * 16}, the plan's {HASH}; run poet-harness flash"):
        train(board(graph_hash="f" * 16), plan_folder)


def test_headers_without_a_schedules_hash_are_planned_again(plan_folder: Path) -> None:
    with pytest.raises(UserError, match="plan again, then flash"):
        train(board(schedule_hash="0" * 16), plan_folder)
    with pytest.raises(UserError, match=r"model has the hash 0{16}, .*; run poet-harness flash first"):
        train(board(graph_hash="0" * 16, schedule_hash="0" * 16), plan_folder)


class ForgetfulDevice(SimulatedDevice):
    """Its card says that it keeps what it is given, and does not."""

    def _commit(self, step: str) -> str:
        return "ok ticks=1000 bytes=8"


def test_a_card_that_gives_back_another_runs_weights_is_not_believed(plan_folder: Path) -> None:
    device = board()
    device.__class__ = ForgetfulDevice
    device.committed = (3, np.array([50.0, 60.0], dtype="<f4").tobytes())
    device.resets_after = [16]
    with pytest.raises(UserError, match="the weights after 3 steps, this run committed those after 2"):
        train(device, plan_folder, commit_every=2)


def test_interrupting_tells_from_where_to_go_on(plan_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end_in_step(monkeypatch, 3)
    for options, words in (
        ((), "after 3 steps"),
        (("--commit-every", "2"), "after 3 steps; --resume goes on after step 2"),
    ):
        with serve(board()) as url:
            result = CliRunner().invoke(app, arguments(plan_folder, "--port", url, *options))
        assert str(result.exception) == f"interrupted (SIGINT) {words}"


def test_another_schedule_of_the_same_graph_is_refused(plan_folder: Path) -> None:
    other = {**SCHEDULE, "steps": [*SCHEDULE["steps"][:3], *SCHEDULE["steps"][4:]]}
    (plan_folder / "schedule.json").write_text(json.dumps(other))
    with pytest.raises(
        UserError, match=rf"schedule has the hash {SCHEDULE_HASH}, the plan's .*; run poet-harness flash"
    ):
        train(board(), plan_folder)


LABELLED: dict[str, Any] = {
    **GRAPH,
    "edges": [*GRAPH["edges"], ["a", "loss"], ["copy", "loss"]],
    "nodes": [
        *GRAPH["nodes"],
        {
            **{"id": "copy", "time_s": 0, "energy_j": 0, "bytes": 8, "op": "strided_copy", "inputs": ["input"]},
            **{"params": "d0=1 d1=1 d2=1 d3=2 s0=0 s1=0 s2=0 s3=1 offset=0 size=2", "results": ["copy"]},
        },
        {
            **{"id": "loss", "time_s": 0, "energy_j": 0, "bytes": 4, "op": "nll_loss", "params": "m=2 n=10"},
            **{"inputs": ["a", "copy"], "results": ["loss"]},
        },
    ],
}


@pytest.mark.parametrize("kind", ["u1", "i4", "i8"])
def test_labels_travel_as_integers_of_32_bits(plan_folder: Path, kind: str) -> None:
    (plan_folder / "graph.json").write_text(json.dumps(LABELLED))
    np.savez(plan_folder / "data.npz", w=np.zeros(2, "f4"), input=BATCHES.astype(kind))
    data = read_training_data(plan_folder / "data.npz", read_plan(plan_folder), STEPS)
    assert [np.frombuffer(batch[2], dtype="<i4").tolist() for batch in data.batches] == BATCHES.tolist()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (BATCHES, r"input: is float32 of shape \(5, 2\), the plan reads whole numbers of shape \(steps, 2\)"),
        (BATCHES.astype("i4") + 1, r"input: 10 at \(4, 1\); the plan knows 0 to 9"),
        (BATCHES.astype("i8") - 1, r"input: -1 at \(0, 0\); the plan knows 0 to 9"),
        (BATCHES.astype("i8") + 2**40, r"the plan knows 0 to 9"),
        (BATCHES > 3, r"input: is bool .* whole numbers"),
    ],
)
def test_labels_that_there_are_not_are_one_line(plan_folder: Path, labels: Any, message: str) -> None:
    (plan_folder / "graph.json").write_text(json.dumps(LABELLED))
    np.savez(plan_folder / "data.npz", w=np.zeros(2, "f4"), input=labels)
    with pytest.raises(UserError, match=message):
        read_training_data(plan_folder / "data.npz", read_plan(plan_folder), STEPS)


def test_velocities_begin_at_zero_and_other_state_has_to_be_given(plan_folder: Path) -> None:
    graph: dict[str, Any] = json.loads(json.dumps(GRAPH))
    graph["resident_bytes"] = 36
    graph["residents"] += [
        {"id": name, "kind": "state", "bytes": 8, "offset": offset, "shape": [2]}
        for offset, name in ((20, "w.velocity"), (28, "running_var"))
    ]
    graph["nodes"].append(
        {
            **{"id": "w.sgd", "time_s": 0, "energy_j": 0, "bytes": 0, "op": "sgd_momentum"},
            **{"params": "size=2 momentum_nano=900000000", "inputs": ["w.grad", "w", "w.velocity"], "results": []},
        }
    )
    (plan_folder / "graph.json").write_text(json.dumps(graph))
    plan = read_plan(plan_folder)
    assert plan.optimizer.words() == "SGD(momentum=0.9)"
    assert plan.optimizer.tensors == {"w.momentum_buffer": "w.velocity"}
    with pytest.raises(UserError, match="running_var: no such array"):
        read_training_data(plan_folder / "data.npz", plan, STEPS)
    np.savez(plan_folder / "data.npz", w=np.zeros(2, "f4"), input=BATCHES, running_var=np.ones(2, "f4"))
    data = read_training_data(plan_folder / "data.npz", plan, STEPS)
    assert data.weights[3] == bytes(8)
    assert np.frombuffer(data.weights[4], "<f4").tolist() == [1, 1]


def without(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda arrays: arrays.pop(key)


def with_(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda arrays: arrays.update(changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("w"), "w: no such array"),
        (without("input"), "input: no such array"),
        (with_(w=np.zeros(3, "f4")), r"w: is float32 of shape \(3\), the plan reads float32 of shape \(2\)"),
        (with_(w=np.zeros((1, 2), "f4")), r"w: is float32 of shape \(1, 2\), the plan reads"),
        (with_(w=np.zeros(2)), r"w: is float64 of shape \(2\), the plan reads float32"),
        (with_(w=np.array([1, np.nan], "f4")), r"w: nan at \(1\); .* finite"),
        (with_(input=BATCHES[:2]), "input: holds 2 batches, --steps asks for 5"),
        (with_(input=BATCHES.astype("u1")), r"input: is uint8 of shape \(5, 2\), the plan reads float32"),
        (with_(input=BATCHES.astype("c8")), "input: is complex64"),
        (with_(input=BATCHES.astype("f8") * 1e300), "input: is float64"),
        (with_(input=np.where(BATCHES == 3, np.inf, BATCHES).astype("f4")), r"input: inf at \(1, 1\)"),
        (with_(input=BATCHES[..., None]), r"of shape \(5, 2, 1\), the plan reads float32 of shape \(steps, 2\)"),
        (with_(input=np.float32(1)), r"input: is float32 of shape \(\)"),
        (with_(input=np.array([None] * 5)), "not an .npz of arrays .*objects"),
        (with_(input=np.array(["a"] * 5)), "input: is <U1"),
    ],
)
def test_data_that_does_not_fit_the_plan_is_one_line(
    plan_folder: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    path = plan_folder / "data.npz"
    arrays = dict(np.load(path))
    change(arrays)
    np.savez(path, **arrays)
    with pytest.raises(UserError, match=message):
        read_training_data(path, read_plan(plan_folder), STEPS)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("graph.json", "{", "not JSON"),
        ("graph.json", json.dumps({**GRAPH, "format": "x"}), "not a poet-graph/1"),
        ("schedule.json", json.dumps({**SCHEDULE, "format": "x"}), "not a poet-schedule/1"),
        ("graph.json", json.dumps({key: GRAPH[key] for key in GRAPH if key != "residents"}), "residents: is missing"),
        ("graph.json", json.dumps({**GRAPH, "residents": [{**GRAPH["residents"][0], "shape": [3]}]}), "is 8, but .*12"),
        ("graph.json", json.dumps({**GRAPH, "residents": [{**GRAPH["residents"][0], "shape": []}]}), "w: 8 bytes are"),
        (
            "schedule.json",
            json.dumps({**SCHEDULE, "steps": [{"do": "compute", "node": "z"}]}),
            "step 0: z is missing from graph.json",
        ),
    ],
)
def test_a_damaged_plan_is_one_line(plan_folder: Path, name: str, content: str, message: str) -> None:
    (plan_folder / name).write_text(content)
    with pytest.raises(UserError, match=message):
        read_plan(plan_folder)


@pytest.mark.parametrize("content", [b"hello", b"PK\x03\x04torn"])
def test_data_that_is_not_an_npz_is_one_line(plan_folder: Path, content: bytes) -> None:
    (plan_folder / "data.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"not an \.npz"):
        read_training_data(plan_folder / "data.npz", read_plan(plan_folder), STEPS)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--out", "{0}"], "is a folder; name a file"),
        (["--save", "/proc/x.npz"], "cannot be written"),
        (["--out", "{0}/data.npz"], "is read, or written twice"),
        (["--save", "{0}/graph.json"], "is read, or written twice"),
        (["--out", "{0}/x", "--save", "{0}/../plan/x"], "is read, or written twice"),
        (["--out", "{0}/x", "--save", "{0}/x"], "is read, or written twice"),
        (["--lr", "1e39"], r"--lr 1e\+39: the board takes learning rates from 1.2e-38 to 3.4e38, and 0"),
        (["--lr", "1e-39"], "--lr 1e-39: the board takes learning rates"),
        (["--lr", "inf"], "--lr inf: is no finite number"),
    ],
)
def test_what_a_run_cannot_do_is_told_before_the_board_is_asked(
    plan_folder: Path, options: list[str], words: str
) -> None:
    given = [option.format(plan_folder) for option in options]
    result = CliRunner().invoke(app, arguments(plan_folder, "--port", "/dev/none", *given))
    assert re.search(words, str(result.exception))


def test_results_whose_folder_vanished_meanwhile_are_kept_elsewhere(
    plan_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "results"

    def vanished(self: Trainer, *given: Any, **options: Any) -> list[ObservedStep]:
        folder.write_text("a file by now")
        return whole(self, *given, **options)

    whole = Trainer.train
    monkeypatch.setattr(Trainer, "train", vanished)
    with serve(board()) as url:
        result = CliRunner().invoke(app, arguments(plan_folder, "--port", url, "--out", str(folder / "observed.csv")))
    assert result.exit_code == 0, result.output
    [line] = [line for line in result.stderr.splitlines() if "could not be written" in line]
    place = Path(line.rpartition(" ")[2])
    assert len(pd.read_csv(place)) > STEPS
    shutil.rmtree(place.parent)


def test_data_that_is_damaged_anywhere_is_one_line_or_right(plan_folder: Path) -> None:
    path, chosen = plan_folder / "data.npz", random.Random(5)
    whole, plan = path.read_bytes(), read_plan(plan_folder)
    right = read_training_data(path, plan, STEPS)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chosen.choice((1, 3, 20))):
            damaged[chosen.randrange(len(damaged))] ^= 1 << chosen.randrange(8)
        path.write_bytes(damaged[: chosen.choice((len(damaged), chosen.randrange(len(damaged))))])
        try:
            assert read_training_data(path, plan, STEPS) == right
        except UserError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 200


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there is something in a JSON document."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from places(entry, (*path, key))


@pytest.mark.parametrize("name", ["graph.json", "schedule.json"])
def test_a_plan_with_something_else_anywhere_is_one_line_or_read(plan_folder: Path, name: str) -> None:
    whole = {"graph.json": LABELLED, "schedule.json": SCHEDULE}[name]
    for path in places(whole):
        for wrong in (None, -1, "x", [], {}, [[]], 1e308):
            document = json.loads(json.dumps([whole]))
            place = document
            for key in (0, *path)[:-1]:
                place = place[key]
            place[(0, *path)[-1]] = wrong
            (plan_folder / name).write_text(json.dumps(document[0]))
            try:
                read_training_data(plan_folder / "data.npz", read_plan(plan_folder), STEPS)
            except UserError as error:
                assert "\n" not in str(error)


def test_a_program_reads_what_was_observed_as_json_and_nothing_else(plan_folder: Path) -> None:
    out = plan_folder / "observed.csv"
    with serve(board()) as url:
        result = CliRunner().invoke(app, arguments(plan_folder, "--port", url, "--out", str(out), "--json"))
    document = json.loads(result.stdout)
    assert document["graph_hash"] == HASH
    assert document["source"] == "emulated"
    found, table = pd.DataFrame(document["rows"]), pd.read_csv(out)
    assert list(found) == list(table)
    for column in ("training_step", "do", "observed_time_s", "observed_energy_j", "loss"):
        assert found[column].fillna(-1).tolist() == pytest.approx(table[column].fillna(-1).tolist()), column
