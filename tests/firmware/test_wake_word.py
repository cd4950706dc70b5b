# SPDX-License-Identifier: Apache-2.0
"""The wake word of firmware/examples: a public wheel's network learns its wearers' own word."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
from binascii import crc32
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from poet_harness.cli import app as harness
from poet_harness.emulation import open_emulated_board
from poet_planner.cli import app as planner
from poet_profiles.boards import load_board
from safetensors.torch import load_file

from benchmarks.firmware.watch import ROOT, Project
from tests.support import needs
from tests.support.harness.flashed import called

EXAMPLE = ROOT / "firmware/examples/wake_word"
MODULES = ("speech", "tflite_torch", "wake", "task", "write_back")
NETWORKS = {"alexa": "alexa", "hey_jarvis": "hey jarvis", "hey_mycroft": "hey mycroft", "okay_nabu": "okay nabu"}
PLAYED, WORDS = 20, 5
MODEL = ["--model", "wake:network", "--batch", "2"]
PLANNED = ["--gradients", "early", "--clip-value", "0.2", "--stream", "2", "--profile", "nrf52840"]
NATIVE = ["--board", "native"]

pytestmark = [
    needs.emulator_and_gcc,
    pytest.mark.skipif(
        not (shutil.which("espeak-ng") and shutil.which("flite")), reason="needs Debian's espeak-ng and flite"
    ),
]


@pytest.fixture(scope="module")
def example() -> Iterator[Any]:
    """The example's own modules."""
    runtime = pytest.importorskip("pymicro_wakeword")
    pytest.importorskip("tflite")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE)
        yield SimpleNamespace(runtime=runtime, **{name: importlib.import_module(name) for name in MODULES})
    for name in MODULES:
        sys.modules.pop(name)


@pytest.fixture(scope="module")
def folder(example: Any, builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Speech, a plan, this computer flashed with it, and the weights after two epochs there."""
    root = tmp_path_factory.mktemp("wake_word")
    build, plan = root / "build", root / "build/nrf52840"
    example.task.write(build, words=10, others=120, minutes=0.5, played=PLAYED)
    np.savez(build / "later.npz", **dict(zip("xy", example.task.heard(149, WORDS, 1.0, seed=3), strict=True)))
    with mock.patch.dict(os.environ, PLATFORMIO_BUILD_DIR=str(builds)):
        library = ["--library", "wake_net", "--time-limit", "1", "--out", plan]
        called(planner, *MODEL, *PLANNED, *library)
        called(planner, "data", *MODEL, "--steps", 1, "--out", build / "begin.npz")
        called(harness, "flash", *NATIVE, "--plan", plan)
        trained(build, build / "samples.npz", 2)
        yield root


def trained(build: Path, samples: Path, epochs: int) -> Path:
    """The weights after training on this computer."""
    given = ["--plan", build / "nrf52840", "--data", build / "begin.npz", "--samples", samples, "--scale", "10/256"]
    weights = samples.with_suffix(".safetensors")
    called(harness, "train", *NATIVE, *given, "--epochs", epochs, "--lr", 0.01, "--trained", weights)
    return weights


def off(example: Any, path: Path, module: Any, sounds: list[NDArray[np.int16]]) -> tuple[float, float]:
    """How far the runtime's probabilities are from PyTorch's at most, and the highest of them."""
    name = path.with_suffix(".json")
    if not name.exists():
        about = json.loads(example.wake.sold().with_suffix(".json").read_text())
        name.write_text(json.dumps(about | {"model": path.name}))
    runtime, furthest, highest = example.runtime.MicroWakeWord.from_config(name), 0.0, 0.0
    for sound in sounds:
        runtime.reset()
        answers = []
        for frame in sound:
            runtime.process_streaming_prob((frame * np.float32(example.wake.UNIT)).reshape(1, 1, -1))
            answers += [] if runtime._features else [runtime._probabilities[-1]]  # not yet the mean of some
        ends = [end for end in range(module.frames, len(sound) + 1) if end % 3 == 0]
        windows = np.stack([sound[end - module.frames : end].T for end in ends])
        with torch.no_grad():
            expected = module(example.wake.numbers(windows)).sigmoid()[:, 0].numpy()
        found = np.array(answers)[[end // 3 - 1 for end in ends]]
        furthest, highest = max(furthest, np.abs(found - expected).max()), max(highest, found.max())
    return furthest, highest


def test_each_network_of_the_wheel_is_read(example: Any) -> None:
    """As its own runtime computes it, on int8; each hears its word."""
    for name, word in NETWORKS.items():
        said = np.pad(0.3 * example.speech.say(word, "flite:slt"), (24000, 3000))
        path = example.wake.sold(name)
        furthest, highest = off(
            example, path, example.tflite_torch.Window(path).eval(), [example.speech.features(said)]
        )
        assert furthest <= 0.1
        assert highest > (0.5 if name != "okay_nabu" else 0.1)


def test_the_word_is_found_and_the_wheels_runtime_hears_it(example: Any, folder: Path) -> None:
    build = folder / "build"
    weights = build / "samples.safetensors"
    given = ["--plan", build / "nrf52840", "--samples", build / "later.npz", "--scale", "10/256", "--weights", weights]
    bound = ["--false-accepts", "2/hour", "--hop", example.task.HOP_S]
    document = json.loads(called(harness, "eval", *NATIVE, *given, *bound, "--json").stdout)
    (found,) = document["detection"]
    assert found["there"] == 2 * WORDS
    assert found["found"] >= 2 * WORDS - 1
    module = example.tflite_torch.Window(example.wake.sold()).eval()
    module.load_state_dict(load_file(weights))
    shown = example.wake.numbers(np.load(build / "samples.npz")["x_train"])
    written = build / "hello_sesame.tflite"
    written.write_bytes(example.write_back.write_back(example.wake.sold(), module, shown))
    speakers = example.task.Speakers(5, later=True)
    words = [speakers.word(voice)[0] for voice in example.task.WEARERS]
    furthest, highest = off(example, written, module, words)
    assert furthest <= 0.1
    assert highest > 0.9
    assert off(example, example.wake.sold(), example.tflite_torch.Window(example.wake.sold()).eval(), words)[1] < 0.1


def test_the_board_has_the_computers_bits_and_hears_the_word(example: Any, folder: Path) -> None:
    build, few = folder / "build", folder / "build/few.npz"
    samples = np.load(build / "samples.npz")
    np.savez(few, x=samples["x_train"][:PLAYED], y=samples["y_train"][:PLAYED])
    plan = ["--plan", build / "nrf52840", "--scale", "10/256"]
    sold = [*plan, "--samples", few, "--weights", build / "nrf52840/wake_net", "--save", build / "scores.npz"]
    called(harness, "eval", *NATIVE, *sold)
    module = example.tflite_torch.Window(example.wake.sold()).eval()
    with torch.no_grad():
        expected = module(example.wake.numbers(samples["x_train"][:PLAYED])).numpy()
    np.testing.assert_allclose(np.load(build / "scores.npz")["scores"], expected, rtol=1e-5, atol=1e-5)
    weights = load_file(trained(build, few, 1))
    shutil.copytree(EXAMPLE / "src", folder / "src")
    project = (EXAMPLE / "platformio.ini").read_text().replace("symlink://../..", f"symlink://{ROOT}/firmware")
    (folder / "platformio.ini").write_text(project.replace("-Wa,", "-DEPOCHS=1u -DTHRESHOLD=0.0f -Wa,"))
    made = Project(folder, "nrf52840")
    made.build()
    with open_emulated_board(load_board("nrf52840"), made.image, folder / "card.img") as board:
        board.card.faults.removed = True
        board.serial.timeout, said = 600, b""
        while b"end 0\n" not in said:
            byte = board.serial.read(1)
            assert byte, said
            said += byte
    steps, crc, *heard, _ = said.decode().splitlines()
    assert steps == f"steps {PLAYED // 2}"
    assert crc == f"weights {crc32(b''.join(weights[one.id].numpy().tobytes() for one in made.parameters))}"
    sound = np.frombuffer((build / "heard.i16").read_bytes(), "<i2").reshape(-1, example.speech.BINS)
    module.load_state_dict(weights)
    ends = range(150, len(sound) + 1, 3)
    with torch.no_grad():
        scores = module(example.wake.numbers(np.stack([sound[end - 149 : end].T for end in ends])))[:, 0]
    told, deaf = [], 0
    for end, score in zip(ends, scores.tolist(), strict=True):
        deaf = max(deaf - 1, 0)
        if score > 0 and not deaf:
            told, deaf = [*told, f"heard at ms {10 * end}"], 33
    assert heard == told
    assert told
