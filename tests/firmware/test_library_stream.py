# SPDX-License-Identifier: Apache-2.0
"""Streams and samples of whole numbers in a program built by the page's line, as PyTorch."""

from __future__ import annotations

import shutil
import subprocess
import textwrap
from binascii import crc32
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from poet_harness.arduino_library import write_arduino_library
from poet_harness.emulation import open_emulated_board
from poet_planner.models import Model
from poet_planner.planning.calibration import Calibration
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.c_library import write_library
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.boards import load_board
from poet_profiles.plan_folder.beside import Inference, Stream
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD

from tests.support import ROOT, needs
from tests.support.firmware.own_project import built as own_project
from tests.support.firmware.own_project import said_by, words

BINS, WINDOW, NEW, TRAINED_AFTER = 3, 17, 2, 14  # calls
BEGIN = """
static poet NAME_trainer;
static uint32_t NAME_ram[(NAME_RAM_BYTES + 3u) / 4u];

static int try_NAME(void)
{
    poet *p = &NAME_trainer;
    if (poet_begin(p, &NAME, NAME_ram, sizeof NAME_ram, NULL, NULL) != POET_OK)
        return 2;
"""
# Reads columns, writes a status and the scores of each call; after some calls it takes a step of rate zero.
HEARS = f"""
    for (int32_t call = 0; fread(poet_stream_input(p), NAME_STREAM_BYTES, 1, stdin) == 1; call++) {{
        const float status = (float)poet_stream(p);
        fwrite(&status, 4, 1, stdout);
        fwrite(poet_stream_output(p), 4, NAME_OUTPUT_COUNT, stdout);
        if (call == {TRAINED_AFTER} && (poet_input(p, 0) == NULL || poet_train(p, 0.0f) != POET_OK))
            return 3;
    }}
    return 0;
}}
"""
# Trains on a batch once, infers a sample, and hears the same sample: writes the loss and both scores.
LEARNS = f"""
    static unsigned char sample[NAME_SAMPLE_BYTES];
    for (uint32_t i = 0; i < NAME_BATCH; i++)
        if (fread(poet_input(p, i), NAME_INPUT_BYTES, 1, stdin) != 1 ||
            fread(poet_target(p, i), NAME_TARGET_BYTES, 1, stdin) != 1)
            return 3;
    if (poet_train(p, 0.1f) != POET_OK || fread(sample, sizeof sample, 1, stdin) != 1)
        return 4;
    const float loss = poet_loss(p);
    fwrite(&loss, 4, 1, stdout);
    memcpy(poet_infer_input(p), sample, sizeof sample);
    if (poet_infer(p) != POET_OK)
        return 5;
    fwrite(poet_output(p), 4, NAME_OUTPUT_COUNT, stdout);
    const uint32_t bytes = NAME_STREAM_BYTES / {BINS};
    for (uint32_t call = 0; call < NAME_STREAM_CALLS; call++) {{
        for (uint32_t bin = 0; bin < {BINS}; bin++) {{
            const unsigned char *row = sample + bin * NAME_STREAM_CALLS * bytes;
            memcpy((unsigned char *)poet_stream_input(p) + bin * bytes, row + call * bytes, bytes);
        }}
        if (poet_stream(p) != (call + 1 == NAME_STREAM_CALLS ? POET_OK : POET_MORE))
            return 6;
    }}
    fwrite(poet_stream_output(p), 4, NAME_OUTPUT_COUNT, stdout);
    return 0;
}}
"""
# The same on a board: it reads what is in its flash, and says a checksum of what it would write.
ON_BOARD = """
#include <NAME.h>
#include <poet/board.h>
#include <poet/crc32.h>
#include <string.h>

#define fread(to, size, count, file) (memcpy(to, given + taken, size), taken += (size), 1)
#define fwrite(from, size, count, file) (written = poet_crc32(written, from, (size) * (count)))
static const unsigned char given[] = GIVEN;
static uint32_t taken, written;
static void say(const char *word, uint32_t number)
{
    while (*word != 0)
        poet_board_putchar(*word++);
    for (int shift = 32; shift > 0; shift -= 4)
        poet_board_putchar("0123456789abcdef"[(number >> (shift - 4)) & 15u]);
    poet_board_putchar('\\n');
}
TRIED
int main(void)
{
    poet_board_init();
    const int status = try_NAME();
    say("written ", written);
    say("end ", (uint32_t)status);
    poet_board_flush();
    for (;;) {
    }
}
"""
CHOOSES = """
int main(int count, char **given)
{
    (void)count;
CASES
    return 1;
}
"""

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


class Scaled(nn.Module):
    """Of whole numbers with a scale, and a shift where they have no sign."""

    def __init__(self, dtype: torch.dtype, frozen: bool) -> None:
        super().__init__()
        self.scale, self.shift = (10 / 256, 0) if dtype == torch.int16 else (1 / 50, 128 * (dtype == torch.uint8))
        self.first = nn.Conv1d(BINS, 4, 4, stride=NEW).requires_grad_(not frozen)
        self.end = nn.Linear(4 * 8, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first((x.float() - self.shift) * self.scale)
        return self.end(x.relu().flatten(1))  # type: ignore[no-any-return]


def spotter() -> nn.Module:
    module = nn.Sequential(
        *(nn.Conv1d(BINS, 4, 3, stride=NEW), nn.ReLU(), nn.Conv1d(4, 4, 3, groups=4), nn.Conv1d(4, 5, 1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(5 * 6, 2)),
    )
    for parameter in module[0].parameters():
        parameter.requires_grad_(False)
    return module


def numbers(dtype: torch.dtype) -> Tensor:
    """Two samples to learn from, and one to hear."""
    low, high = (-900, 900) if dtype == torch.int16 else (torch.iinfo(dtype).min, torch.iinfo(dtype).max + 1)
    return torch.randint(low, high, (3, BINS, 18), generator=torch.Generator().manual_seed(0)).to(dtype)


WHOLE = {
    f"{dtype}_{'s8' if frozen else 'f32'}".removeprefix("torch."): (dtype, frozen)
    for dtype in (torch.int16, torch.int8, torch.uint8)
    for frozen in (False, True)
}


def write(name: str, module: nn.Module, x: Tensor, calibration: Calibration | None, libraries: Path) -> None:
    """A library of this network, which has a stream of its columns."""
    model = Model(name, module, (x,), (torch.tensor([1, 0]),), cross_entropy)
    step = TrainingStep(model, calibration=calibration, stream=2)
    graph = step.graph(load_board("nrf52840"))
    window = step.inference(graph)
    assert window.stream is not None
    stream = Stream(window.stream.graph, store_all_schedule(window.stream.graph), window.stream.calls)
    data = {**window.data, **window.stream.data}
    inference = Inference(window.graph, store_all_schedule(window.graph), data, stream=stream)
    initial = {id: tensor.detach().numpy() for id, tensor in module.state_dict().items()}
    write_library(name, graph, store_all_schedule(graph), step.constants(graph), initial, libraries / "net", inference)


def named(program: str, name: str) -> str:
    return program.replace("NAME_", f"{name.upper()}_").replace("NAME", name)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, nn.Module]]:
    """A program of all networks, one of which its first argument names; and these networks."""
    folder = tmp_path_factory.mktemp("program")
    torch.manual_seed(0)
    networks = {"net": spotter(), **{name: Scaled(*given) for name, given in WHOLE.items()}}
    write("net", networks["net"], torch.randn(2, BINS, WINDOW), None, folder / "libraries")
    for name, (dtype, frozen) in WHOLE.items():
        write(name, networks[name], numbers(dtype)[:2], Calibration() if frozen else None, folder / "libraries")
    write_arduino_library(folder / "libraries")
    program, cases = "#include <stdio.h>\n#include <string.h>\n", ""
    for name in networks:
        program += named("#include <NAME.h>\n" + BEGIN + (HEARS if name == "net" else LEARNS), name)
        cases += f'    if (strcmp(given[1], "{name}") == 0)\n        return try_{name}();\n'
    (folder / "main.c").write_text(program + CHOOSES.replace("CASES", cases))
    page = (ROOT / "docs" / "own_application.md").read_text()
    line = textwrap.dedent(page[page.index("    gcc -O2") :].split("\n\n", 1)[0])
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "main", networks


def learned_from(dtype: torch.dtype) -> bytes:
    """A batch with its labels, and a sample."""
    x, labels = numbers(dtype).numpy(), np.array([1, 0], np.int32)
    return b"".join(one.tobytes() for one in (x[0], labels[0], x[1], labels[1], x[2]))


def said(main: Path, name: str, given: bytes) -> NDArray[np.float32]:
    ran = subprocess.run([main, name], input=given, capture_output=True, check=False)
    assert ran.returncode == 0
    return np.frombuffer(ran.stdout, np.float32)


def test_a_stream_gives_the_scores_of_its_windows(built: tuple[Path, dict[str, nn.Module]]) -> None:
    main, networks = built
    calls = 30
    heard = torch.randn(BINS, NEW * calls)
    given = b"".join(heard[:, NEW * call : NEW * (call + 1)].numpy().tobytes() for call in range(calls))
    status, *scores = said(main, "net", given).reshape(calls, 3).T
    needed = -(-WINDOW // NEW)
    since = [call if call <= TRAINED_AFTER else call - TRAINED_AFTER - 1 for call in range(calls)]
    assert [one == 0 for one in status] == [one >= needed - 1 for one in since], "after a step it hears anew"
    with torch.no_grad():
        for call in np.flatnonzero(status == 0):
            end = NEW * (call + 1)
            expected = networks["net"](heard[None, :, end - WINDOW : end])[0].numpy()
            np.testing.assert_allclose([score[call] for score in scores], expected, atol=1e-6)


@pytest.mark.parametrize("name", WHOLE)
def test_samples_are_whole_numbers(name: str, built: tuple[Path, dict[str, nn.Module]]) -> None:
    """Loss and scores are PyTorch's, a stream's scores the window's; on int8 with its bits."""
    main, networks = built
    module, (dtype, frozen) = deepcopy(networks[name]), WHOLE[name]
    x = numbers(dtype)
    loss, *scores = said(main, name, learned_from(dtype))
    expected = cross_entropy(module(x[:2]), torch.tensor([1, 0]))
    expected.backward()  # type: ignore[no-untyped-call]
    SGD(module.parameters(), lr=0.1).step()
    with torch.no_grad():
        wanted = module(x[2:])[0].numpy()
    assert loss == pytest.approx(expected.item(), rel=0.05 if frozen else 1e-6)
    np.testing.assert_allclose(scores[:2], wanted, rtol=0, atol=(0.05 if frozen else 1e-6) * np.abs(wanted).max())
    np.testing.assert_allclose(scores[2:], scores[:2], rtol=0 if frozen else 1e-6, atol=0)


@needs.emulator_and_gcc
def test_a_board_hears_bytes_as_this_computer(built: tuple[Path, dict[str, nn.Module]], tmp_path: Path) -> None:
    """A step, an inference and a stream of frozen layers on int8 have the same bits."""
    main, networks = built
    name, given = "int16_s8", learned_from(torch.int16)
    write(name, networks[name], numbers(torch.int16)[:2], Calibration(), tmp_path / "libraries")
    program = ON_BOARD.replace("TRIED", BEGIN + LEARNS).replace("GIVEN", words(given))
    (tmp_path / "src").mkdir()
    (tmp_path / "src/main.c").write_text(named(program, name))
    image = own_project(tmp_path, "net")
    with open_emulated_board(load_board("nrf52840"), image, tmp_path / "card.img") as board:
        found = said_by(board)
    assert found == {"written": crc32(said(main, name, given).tobytes()), "end": 0}
