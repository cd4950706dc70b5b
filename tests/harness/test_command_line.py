"""``poet-harness`` as a program: exit codes, one-line errors, and an interrupted run that goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from poet_profiles.profile import read_profile
from simulated_device import SimulatedDevice, serve

PROGRAM = [sys.executable, "-c", "from poet_harness.cli import main; main()"]


def heed_ctrl_c() -> None:
    """In the child: a shell that starts the tests in the background lets them, and what they start, ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.parametrize("verb", ["profile", "flash", "run", "energy", "boards", "meters", "doctor"])
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
    configs.write_text("op,params\n" + "".join(f"relu,size={size}\n" for size in range(1, 10)))
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


def test_ctrl_c_keeps_what_was_measured_and_resume_goes_on(tmp_path: Path) -> None:
    configs, out = tmp_path / "c.csv", tmp_path / "p.csv"
    configs.write_text("op,params\n" + "".join(f"relu,size={size}\n" for size in range(1, 60)))
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
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
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
