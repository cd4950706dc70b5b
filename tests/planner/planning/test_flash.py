# SPDX-License-Identifier: Apache-2.0
"""What a plan puts into flash is counted, written with it, and refused where it does not fit."""

from __future__ import annotations

import json
from binascii import crc32
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from poet_planner import plan
from poet_planner.graph.optimizer import Optimizer
from poet_planner.models import Model
from poet_planner.planning.budget import plan_ram_bytes
from poet_planner.planning.pipeline import prepare, verified
from poet_planner.planning.request import Request
from poet_planner.report.caveats import cautions
from poet_planner.schedule.c_headers import table_bytes
from poet_planner.schedule.data import MADE_BYTES, plan_data
from poet_planner.schedule.flash import refuse_beyond_flash, refuse_beyond_room
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve import NoScheduleError, OptimiseOptions
from poet_profiles.boards import Board, load_board
from poet_profiles.errors import UserError
from poet_profiles.graph import Constant, Graph, Node, Operation, Resident, Value
from poet_profiles.graph.constants import read_constants, write_constants
from poet_profiles.graph.file import read_graph, write_graph
from poet_profiles.graph.sizes import smallest_ram_bytes
from poet_profiles.shipped import SHIPPED
from safetensors.numpy import load_file
from torch import nn

from tests.support import ROOT

WORDS = 50_000
DATA = {"w": np.arange(WORDS, dtype="<f4")}


def frozen(data: np.ndarray) -> Graph:
    """One operator that reads a constant."""
    operation = Operation("pointwise", f"size={WORDS} steps=relu(y0,x0)", ("w",), ("y",))
    return Graph(
        "frozen",
        (Node("y", 1.0, 1.0, (Value("y", 4 * WORDS),), operation=operation),),
        resident_bytes=4,
        residents=(Resident("loss", "loss", 4, 0, ()),),
        constants=(Constant("w", data.nbytes, 0, data.shape, f"{crc32(data.tobytes()):08x}"),),
    )


def with_flash(room: int) -> Board:
    board = load_board("nrf52840")
    return board.model_copy(update={"flash_bytes": board.flash_reserved_bytes + room})


def test_a_byte_too_many_is_refused_and_named() -> None:
    graph = frozen(DATA["w"])
    schedule = store_all_schedule(graph)
    needed = 4 * WORDS + table_bytes(graph, schedule)
    refuse_beyond_flash(graph, schedule, with_flash(needed))
    with pytest.raises(UserError, match=rf"^frozen: {4 * WORDS} B of constants .* are 4 B more than nrf52840's flash"):
        refuse_beyond_flash(graph, schedule, with_flash(needed - 4))


def test_a_sketch_keeps_the_plan_and_its_frozen_weights_in_ram() -> None:
    """And leaves them room where no RAM is asked for."""
    graph = frozen(DATA["w"])
    schedule, board = store_all_schedule(graph), load_board("nano-33-ble")
    document = len(plan_data(graph, schedule, DATA))
    needed = schedule.peak_bytes + document + MADE_BYTES
    assert 4 * WORDS < document < 4 * WORDS + 512

    def of(ram: int) -> Board:
        return board.model_copy(update={"ram_bytes": ram})

    refuse_beyond_room(graph, schedule, of(needed + 128))
    with pytest.raises(UserError, match=r"more than nano-33-ble has beside the step; give --ram \d+, or"):
        refuse_beyond_room(graph, schedule, of(needed - 128))
    assert plan_ram_bytes(of(needed + 1024), graph) >= schedule.peak_bytes > plan_ram_bytes(of(needed - 128), graph)


def test_where_the_flash_is_not_known_nothing_is_refused() -> None:
    graph = frozen(DATA["w"])
    for board in (None, load_board("native"), with_flash(0).model_copy(update={"flash_bytes": 0})):
        refuse_beyond_flash(graph, store_all_schedule(graph), board)


def test_a_plan_that_the_flash_does_not_hold_is_refused_before_it_is_sought(tmp_path: Path) -> None:
    graph = frozen(DATA["w"])
    wider = replace(graph.constants[0], bytes=2**20, shape=(2**18,))
    write_graph(replace(graph, constants=(wider,)), tmp_path / "graph.json")
    with pytest.raises(UserError, match="take a board with more flash or a smaller frozen part"):
        plan(tmp_path / "graph.json", board="nrf52840")


def test_data_beside_a_graph_go_into_its_plan(tmp_path: Path) -> None:
    graph = frozen(DATA["w"])
    write_graph(graph, tmp_path / "graph.json")
    options = OptimiseOptions(time_limit_s=1.0)
    without = plan(tmp_path / "graph.json", board="nrf52840", options=options)
    assert without.why_no_headers == "the data of its constants are not there (constants.safetensors beside the graph)"
    write_constants(DATA, tmp_path, "0" * 16)
    made = plan(tmp_path / "graph.json", board="nrf52840", options=options)
    made.write(tmp_path / "plan")
    assert np.array_equal(load_file(tmp_path / "plan/constants.safetensors")["w"], DATA["w"])
    assert read_graph(tmp_path / "plan/graph.json").constants == graph.constants
    assert json.loads((tmp_path / "plan/summary.json").read_text())["constant_bytes"] == 4 * WORDS
    assert {path.name for path in (tmp_path / "plan").glob("*.h")} == {
        "poet_constants.h", "poet_model.h", "poet_schedule.h"
    }  # fmt: skip
    write_constants({"w": DATA["w"] + 1}, tmp_path, "0" * 16)
    with pytest.raises(UserError, match="w is not that of the graph beside it"):
        plan(tmp_path / "graph.json", board="nrf52840")


def small_board(folder: Path, room: int) -> str:
    """A file of the nRF52840 with less flash."""
    board = load_board("nrf52840")
    text = (SHIPPED / "boards" / "nrf52840.toml").read_text()
    folder.mkdir()
    path = folder / "nrf52840.toml"
    size = board.flash_reserved_bytes + room
    text = text.replace("flash_bytes = 1_048_576", f"flash_bytes = {size}")
    path.write_text(text.replace("flash_end = 0x0010_0000", f"flash_end = {size}"))
    assert load_board(str(path)).usable_flash_bytes == room
    return str(path)


def test_what_flash_has_no_room_for_lies_on_the_card(tmp_path: Path) -> None:
    options = OptimiseOptions(time_limit_s=1.0)
    model = "tests.support.networks.own:frozen_backbone"
    whole = plan(model, profile="nrf52840", options=options)
    assert not whole.graph.kept
    tables = table_bytes(whole.graph, whole.store_all)
    weights = {constant.id: constant.bytes for constant in whole.graph.constants}
    largest = max(weights, key=lambda id: weights[id])
    board = small_board(tmp_path / "small", tables + sum(weights.values()) - 4)
    made = plan(model, profile="nrf52840", board=board, options=options)
    assert made.why_no_headers is None
    assert "2.2 KB of frozen weights for which the flash has no room lie on the card" in made.form.note
    on_card = {kept.id: kept.bytes for kept in made.graph.kept if kept.kind == "constant"}
    assert on_card == {largest: weights[largest]}
    assert {constant.id for constant in made.graph.constants} == weights.keys() - {largest}
    made.write(tmp_path / "plan")
    beside = read_constants(tmp_path / "plan/constants.safetensors", made.graph)
    assert beside[largest].nbytes == weights[largest]
    asked = {"profile": "nrf52840", "board": board, "parameters": "resident", "options": options}
    early = plan(model, gradients="early", **asked)
    assert early.form.layout.early_updates and {kept.id for kept in early.graph.kept} == {largest}
    with pytest.raises(UserError, match=r"leave .* out, so that the rest can lie on the card, take a board"):
        plan(model, paging=False, **asked)


def test_files_of_an_earlier_plan_with_constants_are_removed(tmp_path: Path) -> None:
    options = OptimiseOptions(time_limit_s=1.0)
    graph = frozen(DATA["w"])
    write_graph(graph, tmp_path / "graph.json")
    write_constants(DATA, tmp_path, "0" * 16)
    plan(tmp_path / "graph.json", board="nrf52840", options=options).write(tmp_path / "plan")
    plain = replace(graph, constants=(), residents=(*graph.residents, Resident("w", "input", 4 * WORDS, 4, (WORDS,))))
    plain = replace(plain, resident_bytes=4 + 4 * WORDS)
    plan(plain, ram=10**6, options=options).write(tmp_path / "plan")
    assert not (tmp_path / "plan/constants.safetensors").exists()
    assert not (tmp_path / "plan/poet_constants.h").exists()


class _Sum(nn.Module):
    """Adds a frozen tensor, which nothing reads in tiles."""

    def __init__(self) -> None:
        super().__init__()
        self.large = nn.Parameter(torch.ones(1, 8, 192, 192))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + self.large).mean((2, 3))


@pytest.mark.parametrize(
    ("body", "x", "words"),
    [
        (_Sum(), torch.ones(1, 8, 1, 1), "body.add reads the frozen body.large of 1179648 bytes whole"),
        (nn.Linear(65536, 8), torch.ones(1, 65536), "body reads the frozen body.weight of 2097152 bytes in tiles"),
    ],
    ids=["whole", "a row"],
)
def test_frozen_weights_that_the_ram_has_no_room_for_are_named(body: nn.Module, x: torch.Tensor, words: str) -> None:
    body.requires_grad_(False)
    module = nn.Sequential()
    module.add_module("body", body)
    module.add_module("head", nn.Linear(8, 2))
    network = Model("job", module, (x,), (torch.tensor([0]),), nn.functional.cross_entropy)
    with pytest.raises(NoScheduleError, match=rf"; {words} from the card: take a smaller layer") as refused:
        plan(network, profile="nrf52840", options=OptimiseOptions(time_limit_s=1.0))
    assert refused.value.impossible_below_bytes > load_board("nrf52840").usable_ram_bytes


@pytest.mark.parametrize("parameters", ["auto", "resident"])
def test_frozen_weights_on_the_card_take_nothing_else_there(parameters: str) -> None:
    request = Request(
        *("finetune_cnn_small", "nrf52840", with_flash(60_000)),
        parameters=parameters,
        optimizer=Optimizer(momentum=0.9, weight_decay=0.01),
    )
    prepared = prepare(request)
    made = verified(prepared, prepared.store_all)
    assert {kept.kind for kept in made.graph.kept} == {"constant"}
    assert {"parameter", "state", "input", "target", "gradient"} <= {one.kind for one in made.graph.residents}
    assert made.form.note.endswith("of frozen weights for which the flash has no room lie on the card")
    assert made.summary.wear.committed_bytes == 0
    assert made.why_no_inference is None and made.inference is not None
    assert made.inference.graph.kept == made.graph.kept
    in_flash = prepare(Request("finetune_cnn_small", "nrf52840", optimizer=Optimizer(momentum=0.9, weight_decay=0.01)))
    assert not in_flash.graph.kept
    assert [(one.id, one.bytes) for one in sorted(made.graph.residents, key=lambda one: one.id)] == [
        (one.id, one.bytes) for one in sorted(in_flash.graph.residents, key=lambda one: one.id)
    ]


def test_where_they_leave_no_room_for_gradients_these_are_values() -> None:
    request = Request("finetune_cnn_small", "nrf52840", with_flash(60_000), ram=40_000)
    fits = prepare(request)
    assert fits.step.layout.constants_on_card and fits.step.layout.resident_gradients
    least = smallest_ram_bytes(fits.graph)
    tight = prepare(replace(request, ram=least - 4))
    assert tight.step.layout.constants_on_card and not tight.step.layout.resident_gradients
    assert smallest_ram_bytes(tight.graph) <= least - 4
    parts = prepare(replace(request, ram=smallest_ram_bytes(tight.graph) - 4, micro_batches=2))
    assert parts.fits and parts.step.layout.constants_on_card and parts.note.endswith("on the card, in 2 micro-batches")


def test_what_lies_in_slow_memory_is_said_and_counted() -> None:
    """Up to its last page, and that it ends with the power."""
    slow = load_board(str(ROOT / "tests/support/emulation/nrf52840-memory.toml"))
    board = slow.model_copy(update={"name": "nrf52840"})  # whose rows the profile has
    request = Request("digits_cnn_small", batch=4, profile="nrf52840", board=board, parameters="card")
    form = prepare(request)
    made = verified(form, form.store_all)
    taken = made.summary.wear.slow_memory_bytes
    assert taken > 1024 * 1024 + 2 * made.summary.kept_bytes
    assert "commits alone go to the card beside it" in " ".join(cautions(made.summary))
    assert board.memory is not None
    for room, refused in ((taken, False), (taken - 1, True)):
        small = board.model_copy(update={"memory": board.memory.model_copy(update={"bytes": room})})
        with pytest.raises(UserError, match=f"takes {taken} B of slow memory") if refused else nullcontext():
            refuse_beyond_room(form.graph, form.store_all, small)
