# SPDX-License-Identifier: Apache-2.0
"""``poet-harness`` as a program: exit codes, one-line errors, and an interrupted run that goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer.main
from poet_harness.cli import app
from poet_profiles.profile import read_profile

from tests.support.harness.simulated_device import SimulatedDevice, serve
from tests.support.harness.tiny_plan import write_plan
from tests.support.programs import Said, poet_harness

PROGRAM = [sys.executable, "-c", "from poet_harness.cli import main; main()"]


NO_METERS = {
    "": ["--meter: is empty"],
    "ppk3": ["no meter named 'ppk3'"],
    ":/dev/ttyACM0": ["no meter named ''"],
    "PPK2": ["no meter named 'PPK2'"],
    "recorded": ["recorded:FILE needs the trace's file name"],
    "recorded:": ["recorded:FILE needs the trace's file name"],
    "recorded:none.csv": ["there is no file 'none.csv'"],
    "nominal:5mA": ["there is only one; write --meter nominal"],
    "pmic:0": ["there is only one; write --meter pmic"],
    "lpm01a:": ["nothing stands after the colon"],
}


def heed_ctrl_c() -> None:
    """In the child: a shell that starts the tests in the background lets them, and what they start, ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def verbs() -> dict[str, Any]:
    return typer.main.get_command(app).commands  # type: ignore[attr-defined, no-any-return]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.parametrize(
    "verb",
    [
        *("profile", "flash", "bootloader", "card", "run", "train", "eval", "weights", "arduino", "diff"),
        *("battery", "energy", "boards", "meters", "doctor"),
    ],
)
def test_every_verb_explains_itself(verb: str) -> None:
    done = run(verb, "--help")
    assert done.returncode == 0
    assert verb in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["profile", "--board", "nrf52840"], 4, ["no port found", "ports seen", "--port", "--emulate"]),
        (["profile", "--board", "z80"], 2, ["no board named 'z80'", "nrf52840"]),
        (["profile", "--board", "nrf52840", "--port", "/dev/none"], 4, ["/dev/none", "cannot be opened"]),
        (["profile", "--board", "nrf52840", "--port", "ssh://"], 2, ["no host"]),
        (["energy", "--trace", "none.csv", "--windows", "none.csv"], 2, ["none.csv", "No such file"]),
        # Before firmware is built for the emulator, or a board is looked for.
        *(
            (["profile", "--board", "nrf52840", "--emulate", "--meter", name], 2, words)
            for name, words in NO_METERS.items()
        ),
    ],
)
def test_a_users_fault_is_one_line_and_a_code(
    arguments: list[str], code: int, words: list[str], tmp_path: Path
) -> None:
    done = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == code
    [line] = done.stderr.splitlines()
    assert all(word in line for word in words)
    assert done.stdout == ""


def test_run_shows_few_options_each_under_a_heading() -> None:
    shown = [option for option in verbs()["run"].params if not option.hidden]
    assert len(shown) <= 17
    panels = {option.rich_help_panel for option in shown}
    assert panels == {None, "Connection", "Training", "Results"}


@pytest.mark.parametrize("option", ["--port", "--emulate", "--meter", "--card-pauses", "--threads"])
def test_each_option_of_the_connection_is_one_and_has_an_environment_variable(option: str) -> None:
    found = [one for verb in verbs().values() for one in verb.params if option in one.opts]
    assert len(found) > 3
    assert {one.envvar for one in found} == {f"POET_{option[2:].upper().replace('-', '_')}"}
    assert len({one.help for one in found}) == 1


def test_the_environment_names_the_board_and_a_word_on_the_command_line_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POET_BOARD", "z80")
    assert "no board named 'z80'" in run("bootloader").stderr
    assert "no board named 'z81'" in run("bootloader", "--board", "z81").stderr


def test_a_wrong_option_is_code_2() -> None:
    done = run("profile", "--board", "nrf52840", "--nonsense")
    assert done.returncode == 2
    assert "nonsense" in done.stderr


def test_the_list_commands_end_well() -> None:
    assert "nrf52840" in run("boards").stdout
    assert "ppk2" in run("meters").stdout
    assert run("doctor").returncode == 0


def test_a_cable_pulled_out_keeps_what_was_measured_and_resume_goes_on(tmp_path: Path) -> None:
    configs, out = tmp_path / "c.csv", tmp_path / "p.csv"
    configs.write_text("op,params\n" + "".join(f"fill,size={size} value_nano=0\n" for size in range(1, 10)))
    options = ["--board", "nrf52840", "--meter", "nominal", "--configs", str(configs), "--out", str(out), "--quick"]
    simulated = SimulatedDevice()

    def pull(data: bytes) -> bytes:
        if len(simulated.carried_out) > 10:
            raise OSError("pulled out")
        return data

    with serve(simulated, pull) as url:
        done = run("profile", "--port", url, *options)
    assert done.returncode == 4
    assert "--resume" in done.stderr.splitlines()[-1]
    kept = len(read_profile(out))
    assert 2 < kept < 10
    with serve(SimulatedDevice()) as url:
        done = run("profile", "--port", url, *options, "--resume")
    assert done.returncode == 0
    assert len(read_profile(out)) == 10
    assert f"{10 - kept} rows written" in done.stdout


@pytest.mark.parametrize(("signal_", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_ctrl_c_or_a_kill_keeps_what_was_measured_and_resume_goes_on(
    signal_: signal.Signals, code: int, tmp_path: Path
) -> None:
    configs, out = tmp_path / "c.csv", tmp_path / "p.csv"
    configs.write_text("op,params\n" + "".join(f"fill,size={size} value_nano=0\n" for size in range(1, 60)))
    options = ["--board", "nrf52840", "--meter", "nominal", "--configs", str(configs), "--out", str(out), "--quick"]
    with serve(SimulatedDevice()) as url:
        process = subprocess.Popen(
            [*PROGRAM, "profile", "--port", url, *options],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=heed_ctrl_c,
        )
        deadline_s = time.monotonic() + 300
        while (not out.exists() or out.read_text().count("\n") < 5) and time.monotonic() < deadline_s:
            time.sleep(0.01)
        process.send_signal(signal_)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == code
    if signal_ is signal.SIGINT:
        assert "interrupted" in errors
        assert "--resume" in errors
    kept = read_profile(out)
    assert 3 < len(kept) < 60
    resumed = SimulatedDevice()
    with serve(resumed) as url:
        done = run("profile", "--port", url, *options, "--resume")
    assert done.returncode == 0
    assert len(read_profile(out)) == 60
    assert f"{60 - len(kept)} rows written" in done.stdout


@pytest.mark.parametrize("verb", ["boards", "meters", "doctor"])
def test_a_program_reads_lists_as_json_and_nothing_else(verb: str) -> None:
    entries = json.loads(run(verb, "--json").stdout)
    assert len(entries) > 3
    assert all(entry["name"] for entry in entries)


def test_both_programs_tell_one_version_and_offer_completion() -> None:
    planner = [sys.executable, "-c", "from poet_planner.cli import main; main()"]
    answers = [subprocess.run([*each, "--version"], capture_output=True, text=True) for each in (PROGRAM, planner)]
    assert [done.returncode for done in answers] == [0, 0]
    assert answers[0].stdout == answers[1].stdout == f"poet {version('poet-edge')}\n"
    assert "--install-completion" in run("--help").stdout


def test_output_that_nobody_reads_to_its_end_is_no_fault() -> None:
    process = subprocess.Popen([*PROGRAM, "doctor"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["profile", "--board", "host", "--configs", "folder"],
        ["profile", "--board", "host", "--configs", "binary"],
        ["profile", "--board", "host", "--graph", "missing.json"],
        ["profile", "--board", "host", "--graph", "binary"],
        ["profile", "--board", "host", "--graph", "list.json"],
        ["profile", "--board", "host", "--model", "no_such_model"],
        ["profile", "--board", "folder.toml"],
        ["profile", "--board", "binary.toml"],
        ["profile", "--board", "../../etc/passwd"],
        ["profile", "--board", "host", "--out", "folder"],
        ["profile", "--board", "host", "--out", "binary/p.csv"],
        ["profile", "--board", "host", "--out", "binary", "--resume"],
        ["profile", "--board", "nrf52840", "--emulate", "--image", "missing.elf", "--configs", "c.csv"],
        ["profile", "--board", "nrf52840", "--emulate", "--image", "binary", "--configs", "c.csv"],
        ["profile", "--board", "nrf52840", "--emulate", "--image", "folder", "--configs", "c.csv"],
        ["profile", "--board", "rpi4b", "--emulate", "--configs", "c.csv"],
        ["profile", "--board", "nrf52840", "--port", "socket://127.0.0.1:1", "--configs", "c.csv"],
        ["profile", "--board", "nrf52840", "--port", "nonsense://", "--configs", "c.csv"],
        ["profile", "--board", "nrf52840", "--port", "binary", "--configs", "c.csv"],
        ["profile", "--board", "nrf52840", "--port", "folder", "--configs", "c.csv"],
        ["profile", "--board", "nrf52840", "--plan", "folder", "--data", "missing.npz"],
        ["energy", "--trace", "folder", "--windows", "folder"],
        ["energy", "--trace", "binary", "--windows", "binary"],
        ["diff", "folder", "folder"],
        ["diff", "binary", "binary"],
        ["diff", "c.csv", "c.csv"],
        ["diff", "missing.csv", "c.csv"],
        ["diff", "c.csv", "c.csv", "--limit", "2"],
        ["battery", "--plan", "folder", "--cell", "cr123a"],
        ["battery", "--plan", "plan", "--cell", "cr123a"],
        ["battery", "--plan", "plan", "--cell", "binary.toml"],
        ["battery", "--plan", "plan", "--cell", "folder.toml"],
        ["flash", "--board", "nrf52840", "--plan", "folder"],
        ["flash", "--board", "nrf52840", "--plan", "plan"],
        ["run", "--board", "nrf52840", "--plan", "folder", "--data", "binary"],
        ["run", "--board", "nrf52840", "--plan", "plan", "--data", "folder"],
        ["run", "--board", "nrf52840", "--plan", "plan", "--data", "missing.npz"],
        ["run", "--board", "nrf52840", "--plan", "plan", "--data", "plan/data.npz", "--steps", "3", "--emulate"],
        ["run", "--board", "native", "--plan", "plan", "--data", "plan/data.npz", "--steps", "99"],
        ["run", "--board", "host", "--plan", "plan", "--data", "plan/data.npz"],
        ["flash", "--board", "host", "--plan", "plan"],
        ["run", "--board", "z80", "--plan", "plan", "--data", "plan/data.npz"],
    ],
)
def test_no_mistake_of_a_users_ends_in_a_traceback(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.toml").mkdir()
    for name in ("binary", "binary.toml"):
        (tmp_path / name).write_bytes(bytes(range(256)))
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "c.csv").write_text("op,params\nfill,size=4 value_nano=0\n")
    write_plan(tmp_path / "plan")
    assert poet_harness(*arguments) in (2, 4)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("poet-harness: ")
    assert len(captured.err.splitlines()) == 1


def test_a_traceback_is_shown_on_request(tmp_path: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "profile", "--board", "z80"],
        **{"capture_output": True, "text": True, "env": {**os.environ, "POET_DEBUG": "1"}, "cwd": tmp_path},
    )
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("poet-harness: no board named 'z80'")
