# SPDX-License-Identifier: Apache-2.0
"""A signal at any moment: what was there by then is on disk, the exit code says which, and the work can go on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from poet_harness.training.results import Results
from poet_profiles.profile import read_profile
from poet_profiles.program.stopping import Stopped, acted_upon, finishing, heed, listening, undisturbed
from safetensors import safe_open

from tests.support.harness.simulated_device import SimulatedDevice, serve
from tests.support.harness.tiny_plan import STEPS, board, write_plan
from tests.support.programs import Said, poet_harness

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PROGRAM = [sys.executable, "-c", "from poet_harness.cli import main; main()"]


@dataclass
class Signalling(SimulatedDevice):
    """Sends signals to this process while it works on the requests of given numbers, counted from 0."""

    moments: dict[int, signal.Signals] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)

    def _answer(self, words: list[str]) -> str:
        number = len(self.carried_out)
        answer = super()._answer(words)
        if number in self.moments:
            self.before = self.before or self.carried_out[:-1]
            os.kill(os.getpid(), self.moments.pop(number))
            time.sleep(0.02)
        return answer


@pytest.fixture(autouse=True)
def _heard() -> Iterator[None]:
    """Signals are received here also where whoever runs the tests ignores some, as `nohup` and shells do."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_process_of_users_code_ends_by_a_signal() -> None:
    """As `multiprocessing.Pool` ends its own: by SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with listening():
        if not (child := os.fork()):
            with suppress(BaseException):
                os.kill(os.getpid(), signal.SIGTERM)
                signal.pause()
            os._exit(7)
        assert os.waitpid(child, 0) == (child, signal.SIGTERM)


def run_arguments(folder: Path, url: str) -> list[str]:
    files = ["--out", str(folder / "o.csv"), "--save", str(folder / "s.npz")]
    given = ["run", "--board", "nrf52840", "--meter", "nominal", "--port", url, "--plan", str(folder)]
    return [*given, "--data", str(folder / "data.npz"), "--steps", str(STEPS), *files]


def profile_arguments(folder: Path, url: str) -> list[str]:
    given = ["profile", "--board", "nrf52840", "--meter", "nominal", "--port", url, "--quick"]
    return [*given, "--configs", str(folder / "c.csv"), "--out", str(folder / "p.csv")]


def requests_of_a_whole_run(folder: Path) -> list[str]:
    device = board()
    with serve(device) as url:
        assert poet_harness(*run_arguments(folder, url)) == 0
    for name in ("o.csv", "s.npz"):
        (folder / name).unlink()
    return device.carried_out


def steps_on_disk(folder: Path) -> list[int]:
    if not (folder / "o.csv").exists():
        assert not (folder / "s.npz").exists()
        return []
    table = pd.read_csv(folder / "o.csv")
    steps = list(table["training_step"][table["do"] == "step"])
    assert np.load(folder / "s.npz")["loss"].shape == (len(steps),)
    return steps


def test_run_keeps_every_step_that_was_done_at_twenty_moments(tmp_path: Path) -> None:
    folder = write_plan(tmp_path / "plan")
    whole = requests_of_a_whole_run(folder)
    chosen = random.Random(1)
    for moment in sorted(chosen.sample(range(len(whole)), 20)):
        number = chosen.choice(SIGNALS)
        device = board(Signalling, moments={moment: number})
        with serve(device) as url:
            code = poet_harness(*run_arguments(folder, url))
        assert code == 128 + number, (moment, whole[moment])
        # The step under way, whose trace and gradients come after it, is brought to its end.
        assert steps_on_disk(folder) == list(range(sum(line.startswith("step") for line in whole[: moment + 1])))
        for name in ("o.csv", "s.npz"):
            (folder / name).unlink(missing_ok=True)


def test_a_second_signal_cuts_the_step_under_way_and_keeps_those_before(tmp_path: Path, capsys: Said) -> None:
    folder = write_plan(tmp_path / "plan")
    whole = requests_of_a_whole_run(folder)
    third = [place for place, line in enumerate(whole) if line.startswith("step")][2]
    device = board(Signalling, moments={third: signal.SIGINT, third + 1: signal.SIGINT})
    with serve(device) as url:
        assert poet_harness(*run_arguments(folder, url)) == 130
    assert steps_on_disk(folder) == [0, 1]
    assert capsys.readouterr().err.splitlines()[-1] == "poet-harness: interrupted (SIGINT) after 2 steps"


def test_a_step_that_is_finished_for_a_signal_is_committed_where_steps_are(tmp_path: Path) -> None:
    folder = write_plan(tmp_path / "plan")
    whole = requests_of_a_whole_run(folder)
    second = [place for place, line in enumerate(whole) if line.startswith("step")][1]
    device = board(Signalling, moments={second: signal.SIGTERM})
    with serve(device) as url:
        assert poet_harness(*run_arguments(folder, url), "--commit-every", "4") == 143
    assert device.committed is not None
    assert device.committed[0] == 2
    assert steps_on_disk(folder) == [0, 1]


def test_profile_keeps_every_row_at_twenty_moments_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("op,params\n" + "".join(f"fill,size={n} value_nano=0\n" for n in range(1, 12)))
    whole = SimulatedDevice()
    with serve(whole) as url:
        assert poet_harness(*profile_arguments(tmp_path, url)) == 0
    complete = read_profile(tmp_path / "p.csv").drop(columns="taken_at")
    (tmp_path / "p.csv").unlink()
    chosen = random.Random(2)
    # The last two requests measure the first operator again, for drift.
    for count, moment in enumerate(chosen.sample(range(len(whole.carried_out) - 2), 20)):
        number = chosen.choice(SIGNALS)
        device = board(Signalling, moments={moment: number})
        with serve(device) as url:
            assert poet_harness(*profile_arguments(tmp_path, url)) == 128 + number
        windows = [line for line in device.before if line.startswith(("bench", "idle"))]
        kept = len(read_profile(tmp_path / "p.csv")) if (tmp_path / "p.csv").exists() else 0
        assert kept == len(windows) // 2
        if count % 5 == 0:
            with serve(SimulatedDevice()) as url:
                assert poet_harness(*profile_arguments(tmp_path, url), "--resume") == 0
            pd.testing.assert_frame_equal(read_profile(tmp_path / "p.csv").drop(columns="taken_at"), complete)
        (tmp_path / "p.csv").unlink(missing_ok=True)


def test_a_signal_while_results_are_written_changes_nothing_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = write_plan(tmp_path / "plan")
    rename = Path.replace

    def replace_slowly(self: Path, target: Path) -> Path:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.02)
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replace_slowly)
    with serve(board()) as url:
        assert poet_harness(*run_arguments(folder, url)) == 130
    assert steps_on_disk(folder) == list(range(STEPS))


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_results_are_written_leaves_the_weights_on_disk_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: signal.Signals
) -> None:
    folder = write_plan(tmp_path / "plan")
    write = Results.write

    def signalled(results: Results, *arguments: object) -> None:
        signal.raise_signal(number)
        write(results, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Results, "write", signalled)
    with serve(board()) as url:
        weights = ["--trained", str(folder / "w.safetensors")]
        assert poet_harness(*run_arguments(folder, url), *weights) == 128 + number
    assert steps_on_disk(folder) == list(range(STEPS))
    with safe_open(folder / "w.safetensors", "numpy") as file:
        assert file.metadata()["step"] == str(STEPS)


def test_what_is_undisturbed_is_not_ended_and_what_is_finishing_only_by_a_second_signal() -> None:
    with listening():
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT) or signal.SIG_DFL)
        reached = []
        with pytest.raises(Stopped, match="SIGTERM"):
            with undisturbed():
                signal.raise_signal(signal.SIGTERM)
                signal.raise_signal(signal.SIGTERM)
                reached.append("undisturbed")
            reached.append("after it")
        with pytest.raises(Stopped):
            heed()
        acted_upon()
        heed()
        with pytest.raises(Stopped):
            with finishing() as stopping:
                assert not stopping()
                signal.raise_signal(signal.SIGTERM)
                assert stopping()
                reached.append("finished")
            reached.append("after it")
        acted_upon()
        with pytest.raises(Stopped), finishing():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            reached.append("after the second")
        acted_upon()
    assert reached == ["undisturbed", "finished"]


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with listening():
            signal.raise_signal(signal.SIGHUP)
            heed()
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", SIGNALS[:2])
def test_a_program_that_waits_for_a_silent_board_ends_at_once(tmp_path: Path, number: signal.Signals) -> None:
    folder = write_plan(tmp_path / "plan")
    with serve(SimulatedDevice(), to_device=lambda data: b"") as url:
        process = subprocess.Popen(
            [*PROGRAM, *run_arguments(folder, url)],
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
        )
        time.sleep(1.5)
        process.send_signal(number)
        _, errors = process.communicate(timeout=300)
    assert process.returncode in (128 + number, -number)  # the latter where it had hardly begun
    assert "Traceback" not in errors
