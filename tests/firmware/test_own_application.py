# SPDX-License-Identifier: Apache-2.0
"""A project outside the clone, with poet as a library, in C++ and as Arduino compiles: it builds, and trains."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from binascii import crc32
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from poet_harness.emulation import open_emulated_board
from poet_planner.graph.optimizer import Optimizer
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.c_library import write_library
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.training_data import initial_state, training_data
from poet_profiles.boards import load_board
from poet_profiles.firmware.operators import parse_params, way_of
from poet_profiles.firmware.steps import POINTWISE, alone, steps_in
from poet_profiles.graph import Graph, Operation, Resident
from poet_profiles.plan_folder.beside import Inference

from tests.support import ROOT
from tests.support.firmware.core import HostFirmware
from tests.support.firmware.crude_schedules import everything_paged
from tests.support.firmware.own_project import built, said_by, words
from tests.support.firmware.training_session import RATE, TrainingSession, answers_of

MODEL, BATCH, STEPS, MOMENTUM = "digits_cnn_small", 4, 4, 0.9
SECOND = "finetune_cnn_small"  # most of it is frozen, and lies in flash
BOARD = load_board("nrf52840")


def inference_of(net: Graph) -> Inference:
    """Beside a step of the first network, every activation paged, too."""
    lowered = training_step(MODEL, BATCH).inference(net)
    return Inference(lowered.graph, everything_paged(lowered.graph), lowered.data)


@dataclass(frozen=True)
class Application:
    """What was built, and the two networks in it."""

    folder: Path
    net: Graph
    second: Graph

    @property
    def image(self) -> Path:
        return self.folder / ".pio/build/nrf52840/firmware.elf"


def parameters(graph: Graph) -> list[Resident]:
    """They lie one after the other, and the application looks at them as one."""
    found = [resident for resident in graph.residents if resident.kind == "parameter"]
    assert [one.offset for one in found] == [sum(one.bytes for one in found[:place]) for place in range(len(found))]
    return found


def batches_of(name: str, model: str, batch: int, steps: int) -> str:
    data = training_data(model, steps, 0, batch)
    input, target = data["input"], data["target"]
    rows = [f"    {{{words(input[step].tobytes())}, {words(target[step].tobytes())}}}," for step in range(steps)]
    sizes = f"unsigned char input[{input[0].nbytes}], target[{target[0].nbytes}];"
    return "\n".join((f"static const struct {{ {sizes} }} {name}_batches[] = {{", *rows, "};"))


def batches_header(net: Graph, second: Graph) -> str:
    return "\n".join(
        (
            f"#define NET_PARAMETER_BYTES {sum(one.bytes for one in parameters(net))}u",
            f"#define SECOND_PARAMETER_BYTES {sum(one.bytes for one in parameters(second))}u",
            f"#define RATE {RATE!r}f",
            batches_of("net", MODEL, BATCH, STEPS),
            batches_of("second", SECOND, 1, 1),
            "",
        )
    )


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Application:
    """Built once: no -std, so that the compiler is in GNU mode."""
    folder = tmp_path_factory.mktemp("application")
    step, other = training_step(MODEL, BATCH), training_step(SECOND, 1)
    net, second = step.graph(BOARD, optimizer=Optimizer(momentum=MOMENTUM)), other.graph(BOARD)
    libraries = folder / "libraries"
    initial = initial_state(MODEL, 0, BATCH)
    write_library("net", net, everything_paged(net), {}, initial, libraries / "net", inference_of(net))
    initial, constants = initial_state(SECOND, 0, 1), other.constants(second)
    write_library("second", second, store_all_schedule(second), constants, initial, libraries / "second")
    (folder / "src").mkdir()
    shutil.copy(ROOT / "tests/support/firmware/application.cpp", folder / "src")
    (folder / "src/batches.h").write_text(batches_header(net, second))
    (folder / "src/mode.c").write_text("#ifdef __STRICT_ANSI__\n#error not in GNU mode\n#endif\nextern int mode;\n")
    built(folder, "net", "second")
    return Application(folder, net, second)


def inferred(firmware: HostFirmware, net: Graph, folder: Path) -> dict[str, int]:
    """What the application says of an inference on the first sample after all steps, from a run by the protocol."""
    folder.mkdir()
    write_headers(net, store_all_schedule(net), folder, {}, inference_of(net))
    session = TrainingSession(net, MODEL, BATCH, STEPS)
    sample = training_data(MODEL, STEPS, 0, BATCH)["input"][0][:1].tobytes()
    puts = [f"put {len(net.residents)} {at} {sample[at : at + 128].hex()}" for at in range(0, len(sample), 128)]
    program = firmware.link(folder / "poet", "-I", str(folder))
    answers = answers_of(program, folder / "card.img", [*session.requests, "format", *puts, "infer"])
    scores = bytes.fromhex(answers[-1]["scores"])
    return {"scores": crc32(scores), "class": int(np.frombuffer(scores, "<f4").argmax())}


def reference(firmware: HostFirmware, graph: Graph, model: str, batch: int, steps: int, folder: Path) -> int:
    """What the application says of a network after so many steps, from a run by the protocol."""
    folder.mkdir()
    write_headers(graph, store_all_schedule(graph), folder, training_step(model, batch).constants(graph))
    session = TrainingSession(graph, model, batch, steps)
    answers = answers_of(firmware.link(folder / "poet", "-I", str(folder)), folder / "card.img", session.requests)
    tensors = session.tensors(answers)
    loss = int(session.steps(answers)[-1]["loss"], 16)
    return crc32(b"".join(tensors[one.id] for one in parameters(graph)), loss)


def test_it_trains_is_reset_and_goes_on_with_the_bits_of_a_run_by_the_protocol(
    application: Application, host_firmware: HostFirmware, tmp_path: Path
) -> None:
    first = reference(host_firmware, application.net, MODEL, BATCH, 1, tmp_path / "first")
    last = reference(host_firmware, application.net, MODEL, BATCH, STEPS, tmp_path / "last")
    other = reference(host_firmware, application.second, SECOND, 1, 1, tmp_path / "other")
    with open_emulated_board(BOARD, application.image, tmp_path / "card.img") as emulated:
        said = said_by(emulated)
        assert said.pop("between") > 2 * len(application.net.nodes)
        assert said == {"born": 16_000_000, "first": first, "steps": 3, "end": 0}
        emulated.reset()
        said = said_by(emulated)
    del said["between"]
    shown = inferred(host_firmware, application.net, tmp_path / "inferred")
    assert said == {"born": 16_000_000, **shown, "last": last, "other": other, "still": last, "steps": STEPS, "end": 0}


def listing(image: Path) -> str:
    command = ["arm-none-eabi-objdump", "--disassemble", "--no-show-raw-insn", str(image)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_no_product_is_fused_with_a_sum(application: Application, tmp_path: Path) -> None:
    """In no operator of the library, linked or not."""
    (library,) = application.folder.glob(".pio/build/nrf52840/lib*/libfirmware.a")
    fused = re.compile(r"\tvfn?m[as]\.f32\t")
    code = listing(library)
    assert code.count("_run>:") > 80
    assert not fused.findall(code)
    source = tmp_path / "fused.c"
    source.write_text("float f(float a, float b, float c);\nfloat f(float a, float b, float c) { return a * b + c; }\n")
    machine = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
    subprocess.run(["arm-none-eabi-gcc", *machine, "-O2", "-c", source, "-o", tmp_path / "fused.o"], check=True)
    assert fused.findall(listing(tmp_path / "fused.o"))


def globals_of(objects: Iterator[Path]) -> set[str]:
    names = set()
    for path in objects:
        with path.open("rb") as file:
            for symbol in ELFFile(file).get_section_by_name(".symtab").iter_symbols():
                if symbol["st_info"]["bind"] != "STB_LOCAL" and symbol["st_shndx"] != "SHN_UNDEF":
                    names.add(symbol.name)
    return names


def test_the_library_names_nothing_without_its_prefix(application: Application) -> None:
    build = application.folder / ".pio/build/nrf52840"
    core = globals_of(path for path in build.glob("lib*/firmware/**/*.o"))
    assert len(core) > 200
    assert not {name for name in core if not name.startswith("poet_")}
    assert globals_of(build.glob("lib*/second/**/*.o")) == {"second", "second_initial", "second_constant_words"}


def row_of(operation: Operation) -> str:
    """What is linked of an operator: of a step alone its own row."""
    step = alone([*steps_in(parse_params(operation.params))]) if operation.op == POINTWISE else None
    return f"{step.name}_step" if step else operation.op


def test_only_what_the_networks_need_is_linked(application: Application) -> None:
    graphs = (application.net, application.second, inference_of(application.net).graph)
    operations = [node.operation for graph in graphs for node in graph.nodes if node.operation]
    needed = {row_of(operation) for operation in operations}
    with application.image.open("rb") as file:
        symbols = {symbol.name for symbol in ELFFile(file).get_section_by_name(".symtab").iter_symbols()}
    linked = {
        name.removeprefix("poet_").removesuffix("_run") for name in symbols if re.fullmatch(r"poet_\w+_run", name)
    }
    assert linked == needed
    shapes = [parse_params(operation.params) for operation in operations]
    assert ("poet_winograd_sum" in symbols) == ("winograd" in map(way_of, shapes))
    assert "poet_depthwise_convolution" not in symbols and "depthwise" not in map(way_of, shapes)


SEVENTEEN = "digits_cnn"  # its training step has 17 operators
FLASH_BYTES = 73 * 1024
EVERYTHING = """\
#include <net.h>
#include <poet/poet.h>
#include <poet/sdcard.h>

extern const poet_spi spi;
extern void *ram;
static poet_sdcard card;
static poet_block_device device;
static poet trainer;

int main(void)
{
    int status = poet_sdcard_init(&card, &spi, &device);
    if (status == POET_OK) {
        status = poet_begin(&trainer, &net, ram, NET_RAM_BYTES, &device, 0);
    }
    if (status == POET_OK) {
        status = poet_restore(&trainer);
    }
    return status == POET_OK ? poet_train(&trainer, 0.1f) + poet_commit(&trainer) : status;
}
"""


def linked_bytes(map_text: str) -> dict[str, int]:
    """Flash that each object of a map takes: its code and constants, and what is copied to RAM."""
    memory = map_text[map_text.index("Linker script and memory map") :]
    line = re.compile(r"^ (\.(?:text|rodata|data)\S*)\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S+)$", re.MULTILINE)
    found: dict[str, int] = {}
    for _, size, file in line.findall(memory):
        found[file] = found.get(file, 0) + int(size, 16)
    return found


def test_17_operators_take_at_most_73_kb(application: Application, tmp_path: Path) -> None:
    """The whole core that a training needs, the card's driver, and what it takes of the compiler's libraries."""
    graph = training_step(SEVENTEEN, 1).graph(BOARD)
    assert len({row_of(node.operation) for node in graph.nodes if node.operation}) == 17
    write_library("net", graph, store_all_schedule(graph), {}, None, tmp_path / "net")
    assert "POET_KERNELS(winograd)" in (tmp_path / "net/src/net.c").read_text()
    (tmp_path / "main.c").write_text(EVERYTHING)
    (core,) = (application.folder / ".pio/build/nrf52840").glob("lib*/libfirmware.a")
    machine = json.loads((ROOT / "firmware/platforms/baremetal/chips/nrf52840.json").read_text())["machine_flags"]
    flags = ["-O2", "-ffunction-sections", "-fdata-sections", "-nostartfiles", "-Wl,--gc-sections", "-Wl,-e,main"]
    flags += [f"-Wl,-Map={tmp_path / 'map'}", "-Wl,--defsym=spi=0", "-Wl,--defsym=ram=0"]
    folders = [f"-I{folder}" for folder in (ROOT / "firmware/include", tmp_path / "net/src")]
    sources = [tmp_path / "main.c", tmp_path / "net/src/net.c"]
    command = ["arm-none-eabi-gcc", *machine, *flags, *folders, *map(str, (*sources, core)), f"-o{tmp_path / 'elf'}"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    sizes = linked_bytes((tmp_path / "map").read_text())
    own = sum(size for file, size in sizes.items() if ".a(" in file)
    assert own > FLASH_BYTES // 2
    assert own <= FLASH_BYTES
