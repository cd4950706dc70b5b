# SPDX-License-Identifier: Apache-2.0
"""Flash, RAM and stack of the firmware, by part.

    .venv/bin/python -m benchmarks.firmware.size_report [BOARD] [--plan PLAN [--card IMAGE]]

Builds the image (with the model and schedule in PLAN, a folder written by poet-plan), sums the linker's map by source
folder, and runs the image on the emulated board: every benchmark, paging, and with PLAN training and a commit. A plan
with parameters on the card needs the IMAGE that poet-harness card made for it; what is used is a copy. The most stack
that this used is found by painting.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from poet_harness.card.reading import CardReader, commits_on
from poet_harness.firmware import build
from poet_harness.plan_folder.plan import read_plan
from poet_harness.profiling.grid import TRANSFERS
from poet_harness.protocol.device import Device
from poet_harness.target.connect import connect
from poet_profiles.boards import Board, load_board
from poet_profiles.errors import UserError
from poet_profiles.firmware.operators import OPERATORS
from poet_profiles.firmware.steps import POINTWISE, Step, pointwise_params
from rich.console import Console
from rich.table import Table

INPUT_SECTION = re.compile(r"^ (\.[\w.*$]+|COMMON)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)(?:\s+(\S.*))?$", re.MULTILINE)
RESERVED_STACK = re.compile(r"^\.stack\s+0x[0-9a-f]+\s+0x([0-9a-f]+)", re.MULTILINE)
RAM_BEGIN = 0x20000000
LOADED_INTO_RAM = ".data"
PART = re.compile(r"/src/(\w+)/[^/]+\.o$|/(boards)/")

# Small configurations that every operator accepts; what a name does not say is 2.
SMALL = {
    "h": 5,
    "w": 5,
    "k": 4,
    "r": 3,
    "s": 3,
    "sh": 1,
    "sw": 1,
    "ph": 1,
    "pw": 1,
    "g": 1,
    "ta": 0,
    "kind": 0,
    "reverse": 0,
    "tb": 1,
    "size": 16,
}
SMALL |= {"value_nano": 1, "m": 3, "bias": 1, "nesterov": 1}
SMALL |= {"at": 0, "of": 16, "rows": 3, "top": 0}
SMALL |= dict.fromkeys(("reverse", "relu", "gy", "gh", "gc", "apart", "ignores"), 1)
WITHOUT_BIAS = ("conv2d_accumulate", "backward_input_rows")  # a sum so far has its bias already
# A convolution is summed in another way from 8 channels and filters on.
BY_WINOGRAD = {"h": 8, "w": 8, "c": 8, "k": 8}


def sizes_by_part(linker_map: str) -> dict[str, tuple[int, int]]:
    """Bytes of flash and of RAM of each part, from the map that the linker wrote."""
    _, _, used = linker_map.partition("Linker script and memory map")
    unfolded = re.sub(r"^( \.\S+)\n\s+", r"\1 ", used, flags=re.MULTILINE)
    flash: dict[str, int] = defaultdict(int)
    ram: dict[str, int] = defaultdict(int)
    for section, address, size, source in INPUT_SECTION.findall(unfolded):
        if section.startswith((".debug", ".comment", ".ARM.attributes")):
            continue
        part = _part(source)
        in_ram = int(address, 16) >= RAM_BEGIN
        if in_ram:
            ram[part] += int(size, 16)
        if not in_ram or section.startswith(LOADED_INTO_RAM):
            flash[part] += int(size, 16)
    if stack := RESERVED_STACK.search(used):
        ram["stack"] = int(stack[1], 16)
    return {part: (flash[part], ram[part]) for part in sorted({*flash, *ram})}


def _part(source: str) -> str:
    found = PART.search(source)
    if found:
        return found[1] or found[2]
    return {"main.o": "main", "built.o": "built model"}.get(Path(source).name, "compiler's library")


def copied(card: Path | None, plan: Path | None, folder: Path) -> Path | None:
    """A copy of the card that may be trained on and formatted; refused if the plan needs one prepared for it."""
    read = read_plan(plan) if plan else None
    keeps = read is not None and read.card is not None
    if card is None and keeps:
        raise UserError(f"{plan}: keeps parameters on the card; prepare one with poet-harness card, and add --card")
    if card is None:
        return None
    if read is not None and keeps:
        with CardReader(card) as reader:
            commits_on(reader, card, read)
    return Path(shutil.copy(card, folder))


def exercise(device: Device, plan: Path | None) -> None:
    """Use everything that the firmware can do."""
    graph = {} if plan is None else json.loads((plan / "graph.json").read_text())
    if not graph.get("kept"):
        device.format()
    if plan:
        train(device, graph)
    # After the training, as transfers go to where a card has its weights.
    for direction in ("out", "in"):
        device.page(direction, 5000, 2, "scattered")
    for name, operator in OPERATORS.items():
        for sizes in () if name in TRANSFERS else configurations(name, operator.params):
            device.bench(operator.code, 1, sizes)


def train(device: Device, graph: dict[str, Any]) -> None:
    """Two steps and a commit; without a card's batches on zeros, which are labels in range."""
    if graph.get("kept"):
        device.restore()
    else:
        for index, resident in enumerate(graph["residents"]):
            device.put(index, bytes(resident["bytes"]))
    for index in range(2):
        device.step(0.0, trace=bool(index), expected_s=60.0)
    device.link.request("commit 1")
    device.link.request("restore")


def configurations(name: str, params: tuple[str, ...]) -> Iterator[list[int]]:
    """Parameters for a run or two."""
    if name == POINTWISE:
        yield [*OPERATORS[name].values(pointwise_params(4, [Step("relu", "y0", ("x0",))]))]
        return
    is_convolution = "r" in params
    for changed in ({}, BY_WINOGRAD) if is_convolution else ({},):
        sizes = {**SMALL, **changed}
        if is_convolution:
            # all filters, which need not be whole blocks of the card; a band's gradient reads that band alone
            sizes |= {"tile": sizes["k"]} | ({"of": sizes["rows"]} if "rows" in params else {})
            sizes["bias"] = int(not name.endswith(WITHOUT_BIAS))
        elif "size" in params:
            sizes["tile"] = sizes["size"]
        if OPERATORS[name].descends:
            sizes |= {"momentum_nano": 0, "nesterov": 0, "adam": 1}
        yield [sizes.get(param, 2) for param in params]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("board", nargs="?", default="nrf52840")
    parser.add_argument("--plan", type=Path)
    parser.add_argument("--card", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="poet-") as folder:
        report(load_board(arguments.board), arguments.plan, copied(arguments.card, arguments.plan, Path(folder)))


def report(board: Board, plan: Path | None, card: Path | None) -> None:
    """Print the table of an image with this plan."""
    image = build(board, plan)
    table = Table("part", "flash, bytes", "RAM, bytes", title=f"{board.title}")
    parts = sizes_by_part(image.with_suffix(".map").read_text())
    for part, (flash, ram) in parts.items():
        table.add_row(part, f"{flash:,}", f"{ram:,}")
    table.add_section()
    table.add_row("all", *(f"{sum(column):,}" for column in zip(*parts.values(), strict=True)))
    with connect(board, image=image, emulate=True, card=card) as target:
        exercise(target.device, plan)
        table.add_row("most stack used (emulated)", "", f"{target.device.stack():,}")
        table.add_row("RAM for tensors", "", f"{target.device.hello.ram_bytes:,}")
    Console().print(table)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"size_report: {error}")
