# SPDX-License-Identifier: Apache-2.0
"""``poet-harness train`` against the simulated device: samples, order, rates, what is kept and gone on from."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from poet_harness.cli import app
from poet_harness.data.samples import read_samples
from poet_harness.data.weights import AFTER_STEPS, StateTable
from poet_harness.plan_folder.plan import read_plan
from poet_harness.protocol.link import DeviceResetError
from poet_harness.training import evaluation
from poet_harness.training.evaluation import Evaluation
from poet_harness.training.feeding import Order, OverTheLine
from poet_harness.training.rates import Rates
from poet_harness.verbs import train
from poet_profiles.errors import UserError
from poet_profiles.files.locks import held
from poet_profiles.quantised import read_normalising
from poet_profiles.samples import Samples
from safetensors import safe_open
from typer.testing import CliRunner

from tests.support.harness.simulated_device import SimulatedDevice, serve
from tests.support.harness.tiny_plan import board, write_plan
from tests.support.programs import Said, poet_harness

COUNT, BATCH, EPOCHS = 9, 2, 3
PER_EPOCH = COUNT // BATCH
STEPS = EPOCHS * PER_EPOCH
X = np.arange(1, COUNT + 1, dtype=np.float32)
FILES = ("run.json", "checkpoint.npz", "epochs.csv")


@dataclass
class Recording(SimulatedDevice):
    """Writes down the batch of each step and its rate; does something to the harness at the steps of given numbers."""

    batches: list[list[float]] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    moments: dict[int, Callable[[], None]] = field(default_factory=dict)
    done: int = 0

    def _step(self, rate: str, trace: str) -> str:
        self.batches.append(np.frombuffer(self.residents[-1], "<f4").tolist())
        before = np.frombuffer(self.residents[0], "<f4").copy()
        answer = super()._step(rate, trace)
        self.rates.append(float(np.frombuffer(self.residents[0], "<f4")[0] - before[0]))
        self.done += 1
        self.moments.pop(self.done, lambda: None)()
        return answer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A plan whose batch is two numbers, its parameters, and a data set of nine."""
    plan = write_plan(tmp_path / "plan")
    np.savez(plan / "set.npz", x=X)
    return plan


def arguments(folder: Path, url: str, *more: str) -> list[str]:
    given = ["train", "--board", "nrf52840", "--meter", "nominal", "--port", url, "--plan", str(folder)]
    given += ["--data", str(folder / "data.npz"), "--samples", str(folder / "set.npz"), "--lr", "0.25"]
    return [*given, "--epochs", str(EPOCHS), *more]


def run(folder: Path, device: SimulatedDevice, *more: str) -> Any:
    with serve(device) as url:
        return CliRunner().invoke(app, arguments(folder, url, *more))


def weights_of(folder: Path) -> list[float]:
    return list(np.load(folder / "checkpoint.npz")["w"])


def test_each_sample_comes_once_an_epoch_in_another_order(folder: Path) -> None:
    device = board(Recording)
    result = run(folder, device, "--shuffle", "7")
    assert result.exit_code == 0, result.output
    assert "9 samples are 4 batches of 2; 1 are left out in each epoch, others in each" in result.stderr
    epochs = np.array(device.batches).reshape(EPOCHS, -1)
    assert all(len(set(epoch)) == 2 * PER_EPOCH and set(epoch) <= set(X) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == EPOCHS
    assert len({frozenset(set(X) - set(epoch)) for epoch in epochs}) > 1
    again = board(Recording)
    run(folder, again, "--shuffle", "7")
    assert again.batches == device.batches
    other = board(Recording)
    run(folder, other, "--shuffle", "8")
    assert other.batches != device.batches


def test_without_a_seed_the_samples_come_as_they_stand(folder: Path) -> None:
    device = board(Recording)
    result = run(folder, device)
    assert np.array(device.batches).reshape(EPOCHS, -1).tolist() == [X[:-1].tolist()] * EPOCHS
    assert "always the last ones; --shuffle takes turns" in result.stderr


def test_the_folder_has_a_row_an_epoch_and_the_weights(folder: Path) -> None:
    kept = folder / "run"
    device = board(Recording)
    result = run(folder, device, "--folder", str(kept), "--out", str(folder / "o.csv"), "--json")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in kept.iterdir()) == sorted(FILES)
    rows, steps = pd.read_csv(kept / "epochs.csv"), pd.read_csv(folder / "o.csv")
    steps = steps[steps["do"] == "step"].reset_index()
    groups = steps.groupby(steps.index // PER_EPOCH)
    assert list(rows["epoch"]) == [1, 2, 3]
    np.testing.assert_allclose(rows["loss"], groups["loss"].mean(), rtol=1e-12)
    np.testing.assert_allclose(rows["energy_j"], groups["observed_energy_j"].sum(), rtol=1e-12)
    np.testing.assert_allclose(rows["time_s"], groups["observed_time_s"].sum(), rtol=1e-12)
    assert set(rows["source"]) == {"emulated"}
    assert weights_of(kept) == [1 + 0.25 * STEPS, 2 + 0.25 * STEPS]
    assert [row["epoch"] for row in json.loads(result.stdout)["epochs"]] == [1, 2, 3]


@pytest.mark.parametrize("when", [1, PER_EPOCH, PER_EPOCH + 2, STEPS - 1])
def test_after_ctrl_c_the_same_training_goes_on(folder: Path, when: int, capsys: Said) -> None:
    options = ["--shuffle", "3", "--schedule", "cosine", "--warmup", "2"]
    whole, first, second = board(Recording), board(Recording), board(Recording)
    run(folder, whole, *options, "--folder", str(folder / "whole"))
    first.moments[when] = lambda: (os.kill(os.getpid(), signal.SIGINT), time.sleep(0.02))[1]  # type: ignore[func-returns-value]
    with serve(first) as url:
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        code = poet_harness(*arguments(folder, url, *options, "--folder", str(folder / "cut")))
        signal.signal(signal.SIGINT, before)
    assert code == 130
    assert f"after {when} steps; --resume goes on after step {when}" in capsys.readouterr().err.replace("\n", " ")
    result = run(folder, second, *options, "--folder", str(folder / "cut"), "--resume")
    assert result.exit_code == 0, result.output
    assert [*first.batches, *second.batches] == whole.batches
    assert [*first.rates, *second.rates] == whole.rates
    assert weights_of(folder / "cut") == weights_of(folder / "whole")
    # The simulated loss counts from the last reset, and a traced step has another energy: the rest is the same.
    same = ["epoch", "steps", "samples", "learning_rate"]
    tables = [pd.read_csv(folder / name / "epochs.csv")[same] for name in ("whole", "cut")]
    pd.testing.assert_frame_equal(tables[0], tables[1])


class LostError(Exception):
    """The harness itself is gone."""


def test_after_a_cut_in_mid_epoch_the_same_training_goes_on_from_the_last_epoch(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from poet_harness.training.epochs import Epochs

    whole, first, second = board(Recording), board(Recording), board(Recording)
    run(folder, whole, "--shuffle", "3", "--folder", str(folder / "whole"))
    train = Epochs.train

    def cut(self: Epochs, trainer: Any, commit_every: int, source: str, done: Any) -> None:
        def lost(step: Any) -> None:
            if step.number == PER_EPOCH + 1:
                raise LostError
            done(step)

        train(self, trainer, commit_every, source, lost)

    with monkeypatch.context() as patch:
        patch.setattr(Epochs, "train", cut)
        result = run(folder, first, "--shuffle", "3", "--folder", str(folder / "cut"))
    assert isinstance(result.exception, LostError)
    result = run(folder, second, "--shuffle", "3", "--folder", str(folder / "cut"), "--resume")
    assert result.exit_code == 0, result.output
    assert second.batches == whole.batches[PER_EPOCH:]
    assert weights_of(folder / "cut") == weights_of(folder / "whole")
    assert list(pd.read_csv(folder / "cut" / "epochs.csv")["epoch"]) == [1, 2, 3]


def test_a_run_that_is_cut_before_its_first_checkpoint_begins_anew(folder: Path) -> None:
    failing = board(Recording)
    failing.fails_at = 1
    assert run(folder, failing, "--folder", str(folder / "run")).exit_code == 1
    assert (folder / "run" / "run.json").is_file()
    device = board(Recording)
    result = run(folder, device, "--folder", str(folder / "run"), "--resume")
    assert result.exit_code == 0, result.output
    assert len(device.batches) == STEPS


@pytest.mark.parametrize("requests", [10, 20, 28])
def test_a_board_that_is_reset_goes_on_from_the_last_epoch(folder: Path, requests: int) -> None:
    clean = board(Recording)
    run(folder, clean, "--shuffle", "3", "--folder", str(folder / "clean"))
    rough = board(Recording, resets_after=[requests])
    result = run(folder, rough, "--shuffle", "3", "--folder", str(folder / "rough"))
    assert result.exit_code == 0, result.output
    assert rough.boot == 2
    assert weights_of(folder / "rough") == weights_of(folder / "clean")
    assert len(rough.batches) <= STEPS + PER_EPOCH
    assert all(batch in clean.batches for batch in rough.batches)


def test_a_step_that_the_card_ends_keeps_those_before_it(folder: Path) -> None:
    device = board(Recording)
    device.fails_at = PER_EPOCH + 2
    result = run(folder, device, "--folder", str(folder / "run"))
    assert "training failed" in str(result.exception)
    assert int(np.load(folder / "run" / "checkpoint.npz")["..step"]) == PER_EPOCH + 1


def test_more_epochs_may_be_asked_for_later(folder: Path) -> None:
    kept = str(folder / "run")
    run(folder, board(), "--folder", kept)
    device = board(Recording)
    result = run(folder, device, "--folder", kept, "--resume", "--epochs", str(EPOCHS + 1))
    assert result.exit_code == 0, result.output
    assert len(device.batches) == PER_EPOCH
    result = run(folder, board(), "--folder", kept, "--resume", "--epochs", str(EPOCHS + 1))
    assert "has 16 steps already; ask for more --epochs" in str(result.exception)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shuffle", "4"], "shuffle was None, is 4 now"),
        (["--warmup", "1"], "warmup was 0, is 1 now"),
        (["--lr", "0.5"], "learning_rate was 0.25, is 0.5 now"),
        (["--schedule", "cosine"], "schedule was constant, is cosine now"),
    ],
)
def test_another_training_does_not_go_on_from_a_folder(folder: Path, options: list[str], message: str) -> None:
    kept = str(folder / "run")
    run(folder, board(), "--folder", kept)
    result = run(folder, board(), "--folder", kept, "--resume", *options)
    assert message in str(result.exception)


def test_another_data_set_or_other_weights_do_not_go_on_from_a_folder(folder: Path) -> None:
    kept = str(folder / "run")
    run(folder, board(), "--folder", kept)
    np.savez(folder / "set.npz", x=X + 1)
    assert "samples_check was" in str(run(folder, board(), "--folder", kept, "--resume").exception)
    np.savez(folder / "set.npz", x=X)
    np.savez(folder / "data.npz", w=np.array([1, 3], "f4"))
    assert "initial was" in str(run(folder, board(), "--folder", kept, "--resume").exception)


def test_a_folder_says_what_is_wrong_with_it(folder: Path) -> None:
    kept = folder / "run"
    assert "holds no training" in str(run(folder, board(), "--folder", str(kept), "--resume").exception)
    run(folder, board(), "--folder", str(kept))
    assert "holds a training already" in str(run(folder, board(), "--folder", str(kept)).exception)
    (kept / "epochs.csv").write_text("epoch\n1\n")
    more = ["--folder", str(kept), "--resume", "--epochs", "5"]
    assert "epochs.csv: cannot be read" in str(run(folder, board(), *more).exception)
    np.savez(kept / "checkpoint.npz", w=np.zeros(3, "f4"))
    assert "is no checkpoint of this plan" in str(run(folder, board(), *more).exception)
    (kept / "run.json").write_text("[]")
    assert "is not of format poet-run/1" in str(run(folder, board(), *more).exception)


def test_a_folder_is_one_runs_from_its_beginning_to_its_end(folder: Path) -> None:
    kept, device, seen = folder / "run", board(Recording), []

    def look() -> None:
        handle = os.open(kept, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(handle)
        seen.append(sorted(path.name for path in kept.iterdir()))

    device.moments |= {1: look, STEPS: look}
    assert run(folder, device, "--folder", str(kept)).exit_code == 0
    assert seen == [["run.json"], sorted(FILES)]
    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    with held(kept, ""):
        for options in ([], ["--resume", "--epochs", "5"]):
            result = run(folder, board(), "--folder", str(kept), *options)
            assert str(result.exception).startswith(f"{kept}: another command writes there")
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before


def test_a_checkpoint_of_another_training_is_refused_beside_this_ones_settings(folder: Path) -> None:
    kept, other = folder / "run", folder / "other"
    run(folder, board(), "--folder", str(kept))
    run(folder, board(), "--folder", str(other), "--lr", "0.5")
    shutil.copy(other / "checkpoint.npz", kept)
    more = ["--folder", str(kept), "--resume", "--epochs", str(EPOCHS + 1)]
    assert "checkpoint.npz: is of another training than run.json" in str(run(folder, board(), *more).exception)
    arrays = dict(np.load(kept / "checkpoint.npz"))
    del arrays["..settings"]  # as before there was one
    np.savez(kept / "checkpoint.npz", **arrays)
    assert run(folder, board(), *more).exit_code == 0


def test_what_a_killed_run_left_goes_with_the_next_one(folder: Path) -> None:
    run(folder, board(), "--folder", str(folder / "run"))
    (folder / "run" / ".poet-a1b2c3d4").write_bytes(bytes(100))
    run(folder, board(), "--folder", str(folder / "run"), "--resume", "--epochs", str(EPOCHS + 1))
    assert sorted(path.name for path in (folder / "run").iterdir()) == sorted(FILES)


@pytest.mark.parametrize("options", [["--port", "socket://127.0.0.1:1"], ["--resume"], ["--trained", "x.txt"]])
def test_a_run_that_is_refused_leaves_no_folder(folder: Path, options: list[str]) -> None:
    result = run(folder, board(), "--folder", str(folder / "new" / "run"), *options)
    assert isinstance(result.exception, UserError)
    assert not (folder / "new").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--resume"], "name it with --folder"),
        (["--schedule", "linear"], "there are constant, step, cosine"),
        (["--warmup", "12"], "the training has 12 steps in all"),
        (["--shift", "1"], "says nothing without --scale"),
        (["--scale", "x"], "is no number that f32 holds"),
        (["--scale", "1e39"], "is no number that f32 holds"),
        (["--scale", "1/0"], "is no number that f32 holds"),
        (["--scale", "1,0"], "a scale of 0"),
        (["--scale", "1,2", "--shift", "1,2,3"], "--scale has 2 numbers, --shift 3"),
    ],
)
def test_options_that_do_not_fit_together_are_one_line(folder: Path, options: list[str], message: str) -> None:
    result = run(folder, board(), *options)
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)


def test_rates_are_those_of_pytorchs_schedulers() -> None:
    per_epoch, epochs, warmup = 4, 30, 5
    steps = per_epoch * epochs
    parameter = torch.nn.Parameter(torch.zeros(1))

    def rates(schedule: str, warm: int) -> list[float]:
        made = Rates(0.3, schedule, warm, steps, per_epoch, every=7, factor=0.2)
        return [made(step) for step in range(steps)]

    def pytorchs(make: Callable[[Any], Any], every: int = 1) -> list[float]:
        optimizer = torch.optim.SGD([parameter], lr=0.3)
        scheduler, found = make(optimizer), []
        for step in range(steps):
            found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if (step + 1) % every == 0:
                scheduler.step()
        return found

    schedulers = torch.optim.lr_scheduler
    assert rates("constant", 0) == [0.3] * steps
    stepped = pytorchs(lambda optimizer: schedulers.StepLR(optimizer, 7, 0.2), per_epoch)
    assert rates("step", 0) == pytest.approx(stepped, rel=1e-12)
    cosine = pytorchs(lambda optimizer: schedulers.CosineAnnealingLR(optimizer, steps))
    assert rates("cosine", 0) == pytest.approx(cosine, rel=1e-9)

    def warm_cosine(optimizer: Any) -> Any:
        first = schedulers.LinearLR(optimizer, 1 / warmup, 1.0, warmup - 1)
        second = schedulers.CosineAnnealingLR(optimizer, steps - warmup)
        return schedulers.SequentialLR(optimizer, [first, second], [warmup])

    assert rates("cosine", warmup) == pytest.approx(pytorchs(warm_cosine), rel=1e-9)


def test_the_board_is_given_each_steps_rate(folder: Path) -> None:
    device = board(Recording)
    run(folder, device, "--schedule", "step", "--every", "1", "--factor", "0.5", "--warmup", "2")
    assert device.rates == [0.125, *[0.25] * 3, *[0.125] * 4, *[0.0625] * 4]


@dataclass
class Numbered:
    """A data set as PyTorch has them, of numbers."""

    values: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: int) -> tuple[torch.Tensor]:
        return (torch.tensor(self.values[place]),)


MADE: dict[str, Any] = {
    "numbered": lambda: Numbered(X),
    "arrays": lambda: (X,),
    "tensors": lambda: [torch.from_numpy(X).requires_grad_()],
    "sets": lambda: {"train": (X,), "validation": Numbered(X[:4])},
    "endless": lambda: iter(X),
    "pairs": lambda: (X, X),
    "broken": lambda: 1 / 0,
    "torn": lambda: Numbered(np.array([1, np.nan], "f4")),
    "no_train": lambda: {"training": (X,)},
    "number": 3,
}


def __getattr__(name: str) -> Any:
    """What a test names as ``module:callable`` of this module."""
    if name.startswith("make_"):
        return MADE[name.removeprefix("make_")]
    raise AttributeError(name)


@pytest.mark.parametrize("name", ["numbered", "arrays", "tensors", "sets", "folder", "train.npz", "named.npz"])
def test_a_data_set_is_the_same_wherever_it_comes_from(folder: Path, name: str) -> None:
    (folder / "folder").mkdir()
    np.save(folder / "folder" / "x.npy", X)
    np.savez(folder / "train.npz", x_train=X, x_val=X[:4])
    np.savez(folder / "named.npz", input=X)
    source = f"{__name__}:make_{name}" if name in MADE else str(folder / name)
    sets = read_samples(source, read_plan(folder), None)
    assert sets.train.count == COUNT
    [rows] = sets.train.rows(np.array([3, 0, 8])).values()
    assert (rows.tolist(), rows.dtype) == ([4, 1, 9], np.float32)
    assert (sets.validation is None) == (name not in ("sets", "train.npz"))
    if sets.validation is not None:
        assert sets.validation.count == 4


def test_a_users_set_reads_its_own_files_and_is_split_the_same_each_time(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file changes the folder, and draws; poet's folder, numbers and later imports are as they were."""
    text = (
        "import os, random\nimport numpy as np\nos.chdir('rows')\norder = np.random.permutation(9)\n"
        "class Rows:\n    def __len__(self): return 9\n"
        "    def __getitem__(self, row): return (np.load(f'{order[row]}.npy'),)\n"
        "def make():\n    random.shuffle(order)\n    return Rows()\n"
    )
    found = []
    for name in ("once", "again"):
        (tmp_path / name / "rows").mkdir(parents=True)
        (tmp_path / name / f"{name}_rows.py").write_text(text)
        for row in range(9):
            np.save(tmp_path / name / "rows" / f"{row}.npy", np.float32(row))
        monkeypatch.chdir(tmp_path / name)
        before = np.random.get_state()[1].tolist()
        sets = read_samples(f"{name}_rows:make", read_plan(folder), None)
        found += [rows.tolist() for rows in sets.train.rows(np.arange(9)).values()]
        assert Path.cwd() == tmp_path / name
        assert np.random.get_state()[1].tolist() == before
    assert sorted(found[0]) == [*range(9)] != found[0] == found[1]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("make_endless", "returned list_iterator|returned generator|returned .*; return a Dataset"),
        ("make_pairs", "returned 2 arrays, a step takes 1: x"),
        ("make_broken", "raised ZeroDivisionError: division by zero"),
        ("make_torn", r": x: nan at \(1\); training needs finite numbers"),
        ("make_no_train", "a dict without train"),
        ("make_number", "has no callable"),
        ("nothing", "has no callable nothing"),
    ],
)
def test_what_a_callable_returns_is_told_in_one_line(folder: Path, source: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_samples(f"{__name__}:{source}", read_plan(folder), None)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"z": X}, "has no input or x, it has z"),
        ({"x": X.astype("f8")}, r"is float64 of shape \(9,\), the plan reads float32"),
        ({"x": X[:, None]}, r"is float32 of shape \(9, 1\), the plan reads float32 .* of shape \(samples\)"),
        ({"x": X[:1]}, "has 1 samples, a batch takes 2"),
        ({"x": X[:0]}, "has 0 samples, a batch takes 2"),
        ({"x": np.where(X == 5, np.inf, X)}, r"x: inf at \(4\)"),
        ({"input": np.where(X == 5, np.inf, X)}, r"input: inf at \(4\)"),
        ({"x": X.astype("u1")}, "is uint8, the plan reads float32; say --scale and --shift"),
        ({"x": X.astype("i4")}, "is int32"),
        ({"x_train": X, "x_val": X[:, None]}, r"x_val: is float32 of shape \(9, 1\)"),
    ],
)
def test_a_data_set_that_does_not_fit_the_plan_is_one_line(folder: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(folder / "set.npz", **arrays)
    with pytest.raises(UserError, match=message):
        read_samples(str(folder / "set.npz"), read_plan(folder), None)


def test_a_place_that_is_none_is_one_line(folder: Path) -> None:
    for source, message in (
        (folder / "none", "no such file or folder"),
        ("no_module_of_that:name", "give module:callable, importable from here"),
        (":name", "give module:callable"),
    ):
        with pytest.raises(UserError, match=message):
            read_samples(str(source), read_plan(folder), None)
    (folder / "folder").mkdir()
    (folder / "folder" / "x.npy").write_bytes(b"no numbers")
    with pytest.raises(UserError, match=r"x\.npy: not a \.npy of numbers"):
        read_samples(str(folder / "folder"), read_plan(folder), None)


def test_an_order_is_a_function_of_seed_and_step_alone() -> None:
    order = Order(1000, 7, 5)
    ahead = order(5 * order.steps_per_epoch + 3)
    again = Order(1000, 7, 5)
    assert [again(step).tolist() for step in range(5 * order.steps_per_epoch + 4)][-1] == ahead.tolist()
    assert order.left_out == 1000 % 7


def test_the_counter_of_a_batch_norm_is_known_after_any_number_of_steps() -> None:
    name = "bn.num_batches_tracked"
    table = StateTable({name: name}, {name: "+1"}, {name: np.array(7, np.int32)})
    table.check_steps(1000)
    found = [table.state_dict({}, steps)["bn.num_batches_tracked"] for steps in (0, 2, 3, 1000)]
    assert [int(count) for count in found] == [7, 9, 10, 1007]
    assert {count.dtype for count in found} == {np.dtype(np.int64)}
    other = StateTable({"n": "n"}, {}, {f"n{AFTER_STEPS}": np.arange(3)})
    with pytest.raises(UserError, match="--steps asks for 3"):
        other.check_steps(3)


@dataclass
class Normalises:
    """What stands for a board that takes small integers: an f32 tensor, and the numbers that each request brings."""

    tensor: np.ndarray
    requests: int = 0
    hello: Any = field(default_factory=lambda: SimpleNamespace(is_agent=False))

    def put_scaled(self, index: int, data: bytes, number: str, shift: float, scale: float, at: int = 0) -> None:
        numbers = np.frombuffer(data, {"u8": "u1", "i8": "i1", "i16": "<i2"}[number]).astype("f4")
        self.tensor[at : at + len(numbers)] = (numbers - np.float32(shift)) * np.float32(scale)
        self.requests += 1


@pytest.mark.parametrize("kind", ["uint8", "int8", "int16"])
@pytest.mark.parametrize(("scale", "shift", "requests"), [("1/3", None, 1), ("1/3,2,0.1", "4", 6), ("7", "1,2,3", 6)])
def test_each_channels_numbers_go_with_its_own_pair(kind: str, scale: str, shift: str | None, requests: int) -> None:
    bounds = np.iinfo(kind)
    x = np.random.default_rng(1).integers(bounds.min, bounds.max, (4, 3, 5, 2), kind, endpoint=True)
    normalising = read_normalising(scale, shift)
    assert normalising is not None
    feed = OverTheLine(Samples("x", 4, lambda numbers: {0: x[numbers]}), Order(4, 2, None), normalising)
    given = Normalises(np.zeros(x[:2].size, "f4"))
    feed(given, 1)  # type: ignore[arg-type]
    assert given.requests == requests
    assert given.tensor.tobytes() == normalising(x[2:]).tobytes()
    pairs = list(zip(normalising.shifts, normalising.scales, strict=True)) * (1 if len(normalising.scales) == 3 else 3)
    by_hand = [
        [(np.float32(q) - np.float32(b)) * np.float32(a) for q in x[3, c].flat] for c, (b, a) in enumerate(pairs)
    ]
    assert given.tensor[x[0].size :].tobytes() == np.array(by_hand, "f4").tobytes()


def test_channels_have_to_be_those_of_the_samples(folder: Path) -> None:
    np.savez(folder / "set.npz", x=X.astype("u1"))
    with pytest.raises(UserError, match="--scale or --shift have 2 channels, a sample's shape is"):
        read_samples(str(folder / "set.npz"), read_plan(folder), read_normalising("1,2", None))


def test_the_best_weights_are_kept_though_the_board_is_reset_in_a_validation(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Any] = [3, DeviceResetError(), 5, 5]

    def known(device: Any, *arguments: Any, **options: Any) -> Evaluation:
        answer = answers.pop(0)
        if isinstance(answer, DeviceResetError):
            raise answer
        return Evaluation(answer, 9, 9, 1e-3, None, 100, np.zeros(1, "f4"))

    monkeypatch.setattr(evaluation, "evaluate", known)
    monkeypatch.setattr(train, "_validation", lambda *_: Samples("held", 9, lambda numbers: {2: X[numbers]}))
    device = board(Recording)
    result = run(folder, device, "--validate", "--folder", str(folder / "run"))
    assert result.exit_code == 0, result.output
    assert not answers
    assert len(device.batches) == STEPS + PER_EPOCH
    rows = pd.read_csv(folder / "run" / "epochs.csv")
    assert list(rows["right"]) == [3, 5, 5]
    assert rows["inference_energy_j"].isna().all()
    with safe_open(folder / "run" / "best.safetensors", "numpy") as file:
        assert file.metadata()["step"] == str(2 * PER_EPOCH)
        assert file.get_tensor("w").tolist() == [1 + 0.25 * 2 * PER_EPOCH, 2 + 0.25 * 2 * PER_EPOCH]
    answers += [7]
    result = run(
        folder, board(), "--validate", "--folder", str(folder / "run"), "--resume", "--epochs", str(EPOCHS + 1)
    )
    assert result.exit_code == 0, result.output
    assert "epoch 4: loss" in result.stderr.replace("\n", " ")
    assert "7 of 9 right (77.8%)" in result.stderr.replace("\n", " ")
    assert list(pd.read_csv(folder / "run" / "epochs.csv")["right"]) == [3, 5, 5, 7]


def test_a_plan_without_an_inference_is_not_validated(folder: Path) -> None:
    result = run(folder, board(), "--validate")
    assert "--validate: the plan has no inference" in str(result.exception)


def told(*figures: tuple[int | None, float | None]) -> Callable[..., Evaluation]:
    """Stands for a board's validations: right answers and loss of each."""
    left = list(figures)

    def known(*_: Any, **__: Any) -> Evaluation:
        right, loss = left.pop(0)
        return Evaluation(right, 9, 9, 1e-3, None, 100, np.zeros(1, "f4"), loss=loss)

    return known


def validated(monkeypatch: pytest.MonkeyPatch, *figures: tuple[int | None, float | None]) -> None:
    monkeypatch.setattr(evaluation, "evaluate", told(*figures))
    monkeypatch.setattr(train, "_validation", lambda *_: Samples("held", 9, lambda numbers: {2: X[numbers]}))


LOSSES = (0.9, 0.5, 0.6, 0.45, 0.48, 0.47, 0.46)


@pytest.mark.parametrize(
    ("options", "epochs", "words"),
    [
        (["--patience", "1"], 3, "the validation loss has not fallen since epoch 2, where it was 0.5000"),
        (["--patience", "2"], 6, "the validation loss has not fallen since epoch 4, where it was 0.4500"),
        (
            ["--patience", "2", "--min-delta", "0.1"],
            4,
            "the validation loss has not fallen by more than 0.1 since epoch 2, where",
        ),
        (["--patience", "4"], 7, None),
    ],
)
def test_patience_ends_a_training_and_no_resume_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], epochs: int, words: str | None
) -> None:
    validated(monkeypatch, *((None, loss) for loss in LOSSES))
    given = ["--validate", "--epochs", str(len(LOSSES)), *options, "--folder", str(folder / "run")]
    device = board(Recording)
    result = run(folder, device, *given)
    assert result.exit_code == 0, result.output
    assert len(device.batches) == epochs * PER_EPOCH
    rows = pd.read_csv(folder / "run" / "epochs.csv")
    assert list(rows["validation_loss"]) == list(LOSSES[:epochs])
    assert set(rows["validated"]) == {9}
    assert rows[["right", "labels"]].isna().all(axis=None)
    if words is None:
        return
    assert words in " ".join(result.stderr.split())
    again = run(folder, board(), *given, "--resume")
    assert f"has ended: {words}" in str(again.exception)
    assert "ask for more --patience" in str(again.exception)
    validated(monkeypatch, *((None, loss) for loss in LOSSES[epochs:]))
    more = run(folder, board(), *given, "--resume", "--patience", "5")
    assert more.exit_code == 0, more.output
    assert list(pd.read_csv(folder / "run" / "epochs.csv")["validation_loss"]) == list(LOSSES)


def test_patience_is_told_from_the_rows_whoever_wrote_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each epoch by a command of its own ends where one command does."""
    for epoch in range(1, 4):
        validated(monkeypatch, (None, LOSSES[epoch - 1]))
        given = ["--validate", "--epochs", str(epoch), "--patience", "1", "--folder", str(folder / "run")]
        assert run(folder, board(), *given, *(["--resume"] if epoch > 1 else [])).exit_code == 0
    result = run(folder, board(), *given, "--resume", "--epochs", "4")
    assert "has ended: the validation loss has not fallen since epoch 2" in str(result.exception)


def test_without_validation_patience_looks_at_the_training_loss(folder: Path) -> None:
    device = board(Recording)
    result = run(folder, device, "--patience", "1", "--min-delta", "100")
    assert result.exit_code == 0, result.output
    assert len(device.batches) == 2 * PER_EPOCH
    assert "ended: the loss has not fallen by more than 100 since epoch 1" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("best", "figures", "epoch"),
    [
        ([], ((3, 0.9), (5, 0.7), (5, 0.6)), 2),
        (["--best", "right"], ((3, 0.9), (5, 0.7), (5, 0.6)), 2),
        (["--best", "loss"], ((3, 0.9), (5, 0.6), (7, 0.6)), 2),
        ([], ((None, 0.9), (None, 0.5), (None, 0.8)), 2),
    ],
)
def test_the_best_epoch_is_by_right_answers_or_by_loss(
    folder: Path, monkeypatch: pytest.MonkeyPatch, best: list[str], figures: tuple[tuple[int | None, float]], epoch: int
) -> None:
    validated(monkeypatch, *figures)
    given = ["--validate", *best, "--folder", str(folder / "run")]
    assert run(folder, board(), *given).exit_code == 0
    with safe_open(folder / "run" / "best.safetensors", "numpy") as file:
        assert file.metadata()["step"] == str(epoch * PER_EPOCH)
    other = ["--best", "right" if best == ["--best", "loss"] else "loss"]
    result = run(folder, board(), "--validate", *other, "--folder", str(folder / "run"), "--resume", "--epochs", "9")
    assert "run.json: best was" in str(result.exception)


def test_a_folder_of_the_last_release_goes_on(folder: Path) -> None:
    kept = folder / "run"
    run(folder, board(), "--folder", str(kept))
    rows = pd.read_csv(kept / "epochs.csv").drop(columns=["validated", "validation_loss"])
    rows.to_csv(kept / "epochs.csv", index=False)
    result = run(folder, board(), "--folder", str(kept), "--resume", "--epochs", str(EPOCHS + 1))
    assert result.exit_code == 0, result.output
    assert len(pd.read_csv(kept / "epochs.csv")) == EPOCHS + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--min-delta", "0.1"], "--min-delta: says nothing without --patience"),
        (["--best", "f1"], "--best f1: there are right, loss"),
        (["--best", "loss"], "--best loss: says nothing without --validate and --folder"),
    ],
)
def test_options_of_validation_that_say_nothing_are_refused(folder: Path, options: list[str], message: str) -> None:
    assert message in str(run(folder, board(), *options).exception)
