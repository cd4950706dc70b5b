# SPDX-License-Identifier: Apache-2.0
"""What the page for programs of your own has: a program that compiles and drops no error, and lines for Zephyr."""

from __future__ import annotations

import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
import torch
from poet_harness.arduino_library import write_arduino_library
from poet_planner import models
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.c_library import write_library
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.training_data import initial_state
from poet_profiles.boards import load_board

from tests.support import ROOT

# What `poet-plan --library net` writes, as far as the page's program sees it, and what is the reader's own.
NET = """
#include <poet/poet.h>
#include <string.h>
#define NET_RAM_BYTES 64u
#define NET_BATCH 2u
#define NET_INPUT_BYTES 4u
#define NET_TARGET_BYTES 4u
extern "C" const poet_network net;
int may_format();
const void *sample(uint32_t i);
const void *label(uint32_t i);
"""
# Zephyr's own targets, as far as the page's lines name them, with its flags for the nRF5340.
ZEPHYR = """
cmake_minimum_required(VERSION 3.20)
project(zephyr C CXX ASM)
add_library(zephyr_interface INTERFACE)
target_compile_options(zephyr_interface INTERFACE
    -mcpu=cortex-m33 -mthumb -mabi=aapcs -mfpu=fpv5-sp-d16 -mfloat-abi=hard -Os -ffreestanding -fno-common -fno-pic
    -fno-asynchronous-unwind-tables -fno-reorder-functions -fno-defer-pop -fno-strict-overflow -fno-omit-frame-pointer
    $<$<COMPILE_LANGUAGE:C>:-std=c99> -Wall -Wextra -Werror)
add_library(app STATIC main.c)
target_link_libraries(app PRIVATE zephyr_interface)
"""


# Of a batch of zeros, each with the label 0.
ON_A_COMPUTER = """
#include <net.h>
#include <poet.h>
#include <stdio.h>
static poet trainer;
static uint32_t ram[(NET_RAM_BYTES + 3u) / 4u];
int main(void)
{
    int status = poet_begin(&trainer, &net, ram, sizeof ram, NULL, NULL);
    status = status ? status : poet_train(&trainer, 0.1f);
    printf("%.9g", (double)poet_loss(&trainer));
    return status;
}
"""


def write_libraries(folder: Path) -> None:
    step, name = training_step("digits_cnn_small", 4), "net"
    graph = step.graph(load_board("nrf52840"))
    initial = initial_state("digits_cnn_small", 0, 4)
    write_library(name, graph, store_all_schedule(graph), {}, initial, folder / "libraries" / name)
    write_arduino_library(folder / "libraries")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_the_pages_line_for_a_computer_builds_a_program_that_trains(tmp_path: Path) -> None:
    write_libraries(tmp_path)
    (tmp_path / "main.c").write_text(ON_A_COMPUTER)
    page = (ROOT / "docs" / "own_application.md").read_text()
    line = page[page.index("    gcc -O2") :].split("\n\n", 1)[0]
    subprocess.run(["bash", "-c", f"{textwrap.dedent(line)} && ./main > loss"], cwd=tmp_path, check=True)
    model = models.load("digits_cnn_small", 4, seed=0)
    with torch.no_grad():
        expected = model.loss(model.module(torch.zeros_like(model.inputs[0])), torch.zeros_like(model.targets[0]))
    assert float((tmp_path / "loss").read_text()) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.skipif(
    not all(map(shutil.which, ("cmake", "arm-none-eabi-gcc"))), reason="needs cmake and arm-none-eabi-gcc"
)
def test_the_pages_lines_for_zephyr_build_an_archive(tmp_path: Path) -> None:
    write_libraries(tmp_path)
    page = (ROOT / "docs" / "own_application.md").read_text()
    lines = page[page.index("    file(GLOB sources") :].split("\n\n", 1)[0]
    (tmp_path / "CMakeLists.txt").write_text(ZEPHYR + textwrap.dedent(lines) + "\n")
    (tmp_path / "main.c").write_text("#include <net.h>\nint main(void) { return net.batch == NET_BATCH; }\n")
    tools = [f"-DCMAKE_{language}_COMPILER=arm-none-eabi-gcc" for language in ("C", "CXX", "ASM")]
    generic = ["-DCMAKE_SYSTEM_NAME=Generic", "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"]
    for command in (["cmake", *tools, *generic, "-B", "build", "."], ["cmake", "--build", "build"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    listed = ["arm-none-eabi-nm", "--defined-only", str(tmp_path / "build" / "liblearning.a")]
    symbols = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
    assert {"poet_begin", "poet_train", "net", "net_initial"} <= set(symbols)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_the_pages_program_compiles_without_a_warning(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "own_application.md").read_text()
    program = page[page.index("    #include <net.h>") :].split("\n\n[", 1)[0]
    (tmp_path / "net.h").write_text(NET)
    (tmp_path / "main.cpp").write_text(textwrap.dedent(program))
    includes = [f"-I{path}" for path in (tmp_path, ROOT / "firmware/include", ROOT / "firmware/boards/include")]
    command = ["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *includes, tmp_path / "main.cpp"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
