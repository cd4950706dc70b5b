# SPDX-License-Identifier: Apache-2.0
"""The firmware as a program on this computer, under ASan and UBSan."""

from __future__ import annotations

import binascii
import os
import random
import re
import subprocess
from pathlib import Path

import pytest
from poet_runtime.agent.system import temperature_mc


def talk(program: Path, stream: bytes, *arguments: str) -> list[str]:
    done = subprocess.run([str(program), *arguments], input=stream, capture_output=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return done.stdout.decode().splitlines()


def frame(sequence: int, body: str) -> bytes:
    text = f">{sequence:04x} {body}".encode()
    return text + b"*%04x\n" % binascii.crc_hqx(text, 0xFFFF)


def test_a_session_with_a_new_card(host_program: Path, tmp_path: Path) -> None:
    card = tmp_path / "card.img"
    bodies = ["hello", "page in 4096 2 sequential", "format", "page out 4096 2 scattered", "page in 4096 2 scattered"]
    stream = b"".join(frame(number, body) for number, body in enumerate(bodies))
    lines = talk(host_program, stream, "--card", str(card), "--ram", "8192")
    answers = [line.split("*")[0].split(" ", 1)[1] for line in lines if " ack" not in line]
    assert "board=host firmware=test" in answers[0]
    assert "ram_bytes=8192" in answers[0]
    assert answers[1].startswith("err -9")
    assert answers[2] == "ok blocks=524288"
    assert all(answer.startswith("ok ticks=") for answer in answers[3:])
    assert card.read_bytes()[:12] == b"POET CARD 1\n"


@pytest.mark.parametrize(("size", "repeats"), [(512, 64), (40_000, 8)])
def test_pages_go_to_the_disk_and_come_back_from_there(
    host_program: Path, tmp_path: Path, size: int, repeats: int
) -> None:
    """The kernel counts what each process really had from storage and gave to it."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True).stdout
    if kind.strip() in ("tmpfs", "ramfs"):
        pytest.skip("the folder for temporary files is in RAM")
    command = [str(host_program), "--card", str(tmp_path / "card.img")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin and program.stdout
        counted = []
        for number, body in enumerate(("hello", "format", f"page in {size} {repeats} sequential")):
            program.stdin.write(frame(number, body))
            program.stdin.flush()
            assert b" ok " in [program.stdout.readline() for _ in range(2)][1]
            io = Path(f"/proc/{program.pid}/io").read_text().split()
            counted.append({name: int(io[io.index(f"{name}:") + 1]) for name in ("read_bytes", "write_bytes")})
        program.stdin.close()
    # A page-in benchmark first writes what it is going to read.
    for name in ("read_bytes", "write_bytes"):
        assert counted[2][name] - counted[1][name] >= size * repeats


def test_the_window_line_is_a_file_such_as_a_gpios(host_program: Path, tmp_path: Path) -> None:
    line = tmp_path / "value"
    os.mkfifo(line)
    reader = os.open(line, os.O_RDWR | os.O_NONBLOCK)
    stream = frame(0, "hello") + frame(1, "bench 14 3 4 4") + frame(2, "idle 1000")
    talk(host_program, stream, "--window", str(line))
    assert os.read(reader, 100) == b"0" + 2 * b"10"
    os.close(reader)


def test_clock_and_temperature_are_the_kernels(host_program: Path, tmp_path: Path) -> None:
    for name, content in {
        f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq": 1_800_000
        for cpu in range(os.sysconf("SC_NPROCESSORS_CONF"))
    }.items():
        _write(tmp_path / name, content)
    for zone, millidegrees in enumerate((41_250, 63_500, -4_000)):
        _write(tmp_path / f"class/thermal/thermal_zone{zone}/temp", millidegrees)
    stream = frame(0, "hello") + frame(1, "bench 14 1 4 4")
    assert " cpu_khz=1800000 temperature_mc=63500*" in talk(host_program, stream, "--sysfs", str(tmp_path))[-1]
    assert "cpu_khz" not in talk(host_program, stream, "--sysfs", str(tmp_path / "none"))[-1]


# Zones by number: type and content; None is a folder, which cannot be read, as ENODATA cannot.
ZONES: dict[str, tuple[dict[int, tuple[str, object]], int | None]] = {
    "the first without data": ({0: ("iwlwifi_1", None), 1: ("acpitz", 63500)}, 63500),
    "one in between": ({0: ("", 41000), 1: ("", None), 2: ("", 63500)}, 63500),
    "a gap, and more than ten": ({0: ("", 41000), 3: ("", 42000), 12: ("", 63500)}, 63500),
    "empty, words, parts": ({0: ("", ""), 1: ("", "n/a"), 2: ("", "41.5"), 3: ("", "70000 mC"), 4: ("", 41000)}, 41000),
    "no temperatures": ({0: ("", -256000), 1: ("", -274000), 2: ("", 0), 3: ("", 2147483647), 4: ("", 10**20)}, None),
    "frost": ({0: ("", -4000), 1: ("", -273200)}, -4000),
    "not ASCII": ({0: ("", "\udcff\udcfe"), 1: ("\udcff", 41000)}, 41000),
    "an ACPI zone that never moves": ({0: ("acpitz", 105000), 1: ("x86_pkg_temp", 48000)}, 48000),
    "a Jetson, its PMIC at 100": ({0: ("CPU-therm", 41000), 1: ("GPU-therm", 43000), 2: ("PMIC-Die", 100000)}, 41000),
    "a processor's zone without data": ({0: ("cpu-thermal", None), 1: ("gpu-thermal", 43000)}, 43000),
    "none": ({}, None),
}


@pytest.mark.parametrize("case", sorted(ZONES))
def test_the_program_and_the_agent_show_the_temperature_of_the_zones_that_work(
    host_program: Path, tmp_path: Path, case: str
) -> None:
    zones, wanted = ZONES[case]
    for number, (kind, content) in zones.items():
        zone = tmp_path / f"class/thermal/thermal_zone{number}"
        zone.mkdir(parents=True)
        (zone / "type").write_text(f"{kind}\n", errors="surrogateescape")
        if content is None:
            (zone / "temp").mkdir()
        else:
            (zone / "temp").write_text(f"{content}\n", errors="surrogateescape")
    assert _shown(host_program, tmp_path) == temperature_mc(tmp_path) == wanted


def test_an_amd_processor_has_its_temperature_from_its_driver(host_program: Path, tmp_path: Path) -> None:
    for number, (name, inputs) in enumerate((("nvme", (81000,)), ("k10temp", (55000, 57250, 0)), ("iwlwifi_1", ()))):
        chip = tmp_path / f"class/hwmon/hwmon{number}"
        for place, content in enumerate(inputs, 1):
            _write(chip / f"temp{place}_input", content)
        chip.mkdir(parents=True, exist_ok=True)
        (chip / "name").write_text(f"{name}\n")
    _write(tmp_path / "class/thermal/thermal_zone0/temp", 27800)
    assert _shown(host_program, tmp_path) == temperature_mc(tmp_path) == 57250


def _shown(host_program: Path, sysfs: Path) -> int | None:
    answer = talk(host_program, frame(0, "hello") + frame(1, "bench 14 1 4 4"), "--sysfs", str(sysfs))[-1]
    found = re.search(r"temperature_mc=(-?\d+)", answer)
    return int(found[1]) if found else None


def _write(path: Path, content: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{content}\n")


def test_without_a_card(host_program: Path) -> None:
    assert "err -9" in talk(host_program, frame(1, "hello") + frame(2, "format"))[-1]


def test_every_operator_of_the_build_benchmarks_cleanly(host_program: Path, tmp_path: Path) -> None:
    from poet_harness.profiling.grid import TRANSFERS
    from poet_profiles.firmware.operators import OPERATORS

    from benchmarks.firmware.size_report import configurations

    stream = frame(0, "hello") + frame(1, "format")
    for number, operator in enumerate(OPERATORS.values(), 2):
        values = " ".join(map(str, next(configurations(operator.name, operator.params))))
        stream += frame(number, f"bench {operator.code} 2 {values}")
    card = str(tmp_path / "card.img")
    answers = [line for line in talk(host_program, stream, "--card", card) if " ack" not in line][2:]
    assert len(answers) == len(OPERATORS)
    for name, answer in zip(OPERATORS, answers, strict=True):
        assert (" err -8 " if name in TRANSFERS else " ok ticks=") in answer, f"{name}: {answer}"


def test_noise_and_valid_frames_around_nonsense(host_program: Path) -> None:
    source = random.Random(4)
    words = [
        *("hello", "bench", "put", "get", "step", "times", "page", "in"),
        *("idle", "0", "1", "7", "-1", "4294967296", "", "ff"),
    ]
    stream = b""
    for number in range(600):
        body = " ".join(source.choices(words, k=source.randrange(1, 8)))
        stream += frame(number, body) if number % 3 else source.randbytes(source.randrange(700))
    talk(host_program, stream + b"\n" + frame(0xFFFF, "hello"))


def test_wrong_arguments_end_in_one_line(host_program: Path) -> None:
    for arguments in (["--card"], ["--ram", "12kB"], ["--what", "1"], ["--window", "/no/such/file"]):
        done = subprocess.run([str(host_program), *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
