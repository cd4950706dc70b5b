# SPDX-License-Identifier: Apache-2.0
"""`poet-plan` from the command line: what it writes, what it says, and how it ends."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from poet_planner.comparison.registry import METHODS
from poet_planner.comparison.sweep_table import read_points
from poet_planner.graph.layout import Gradients, MemoryLayout, Parameters
from poet_planner.planning.bench import Bench
from poet_planner.planning.contest import Contest
from poet_planner.planning.costed_step import CostedStep
from poet_planner.planning.method import Method, Option
from poet_planner.planning.request import Request
from poet_planner.report import pictures
from poet_planner.report.caveats import cautions
from poet_planner.report.table import origin_text, rows
from poet_planner.schedule.c_library import STACK_BYTES
from poet_planner.solve import Progress
from poet_profiles.boards import load_board
from poet_profiles.errors import BAD_INPUT, NO_SCHEDULE, NOT_FOUND
from poet_profiles.graph import Graph, Node, PageCost, Resident, Value
from poet_profiles.graph.file import read_graph, write_graph
from poet_profiles.graph.sizes import smallest_ram_bytes
from poet_profiles.plan_folder.summary import read_summary

from tests.support.graphs.blocks import UNPLACEABLE, graph_of
from tests.support.programs import Said, poet_plan

PAGE = PageCost(2.0, 2.0, 2.0, 2.0)


VOLUMES = """
import torch
from poet_planner import Model
from torch import nn


class Volumes(nn.Module):
    def __init__(self):
        super().__init__()
        self.filters = nn.Conv3d(1, 2, 2)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.filters(x).flatten(1))


def make(batch):
    x = torch.randn(2, 1, 2, 2, 3)
    return Model("volumes", Volumes(), (x,), (torch.tensor([0, 1]),), nn.functional.cross_entropy)
"""


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """Forward a, b, c, d and backward through them; the store-all schedule holds them all: 64 + 4 * 400 B."""
    names = "abcd"
    nodes = [
        Node(name, 1.0, 1.0, (Value(name, 400, PAGE),), (names[index - 1],) if index else ())
        for index, name in enumerate(names)
    ]
    for index in reversed(range(4)):
        above = "d" if index == 3 else f"{names[index + 1]}.grad"
        inputs = tuple(dict.fromkeys((above, names[index])))
        id = f"{names[index]}.grad"
        nodes.append(Node(id, 1.0, 1.0, (Value(id, 40, PAGE),), inputs, backward=True))
    path = tmp_path / "graph.json"
    write_graph(Graph("mirror", tuple(nodes), resident_bytes=64), path)
    return path


def test_plan_is_written_verified_and_summed_up(graph: Path, tmp_path: Path, capsys: Said) -> None:
    out = tmp_path / "plan"
    assert poet_plan("--graph", graph, "--ram", "75%", "--time-limit", 1, "--out", out, "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary == json.loads((out / "summary.json").read_text())
    assert summary["peak_bytes"] <= summary["ram_budget_bytes"] < summary["plain_peak_bytes"]
    parts = [summary[f"energy_{part}_j"] for part in ("compute", "recompute", "page_in", "page_out")]
    assert sum(parts) == pytest.approx(summary["energy_j"])
    assert summary["energy_j"] > summary["plain_energy_j"] == 8.0
    assert summary["bound_j"] <= summary["energy_j"]
    for picture in ("schedule.png", "ram.png", "energy.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
    assert poet_plan("verify", out / "graph.json", out / "schedule.json") == 0
    assert "is sound" in capsys.readouterr().out


def test_costs_of_a_graph_keep_their_source(
    graph: Path, tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    document = json.loads(graph.read_text())
    for source, said in (("emulated+published", "costs of the graph, emulated and published figures"), ("", None)):
        graph.write_text(json.dumps({**document, "source": source}))
        out = tmp_path / (source or "unknown")
        assert poet_plan("--graph", graph, "--ram", "100%", "--method", "store_all", "--out", out) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert (said in shown) if said else ("energy rests on" not in shown)
        known = "emulated and published figures" if source else "which does not say where they come from"
        assert origin_text(read_summary(out / "summary.json")) == f"costs: those of the graph, {known}"
        assert json.loads((out / "graph.json").read_text()).get("source", "") == source
        compared = tmp_path / f"{out.name}-compared"
        assert poet_plan("compare", "--graph", graph, "--ram", "100%", "--methods", "store_all", "--out", compared) == 0
        capsys.readouterr()
        assert {point.profile_source for point in read_points(compared / "compare.csv")} == {source}


def test_pictures_are_drawn_after_the_words(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    out = tmp_path / "plan"
    ask = "--graph", graph, "--ram", "100%", "--method", "store_all", "--out", out
    assert poet_plan(*ask) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"pictures: {out / 'schedule.png'}, ")

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(out / "schedule.png"))

    monkeypatch.setattr(pictures, "write_pictures", full)
    assert poet_plan(*ask) == BAD_INPUT
    said = capsys.readouterr()
    assert "verified; wrote" in said.out and "pictures: " not in said.out
    assert said.err.endswith("schedule.png: No space left on device\n")
    # Those of the plan before would be taken for this one's.
    assert not [*out.glob("*.png")]


def test_damaged_schedule_does_not_pass(graph: Path, tmp_path: Path, capsys: Said) -> None:
    out = tmp_path / "plan"
    assert poet_plan("--graph", graph, "--ram", "100%", "--method", "store_all", "--out", out) == 0
    document = json.loads((out / "schedule.json").read_text())
    del document["steps"][0]
    (out / "schedule.json").write_text(json.dumps(document))
    assert poet_plan("verify", out / "graph.json", out / "schedule.json") == BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1


def test_no_schedule_says_what_would_do(graph: Path, capsys: Said) -> None:
    assert poet_plan("--graph", graph, "--ram", "500", "--time-limit", 1) == NO_SCHEDULE
    line = capsys.readouterr().err.splitlines()[-1]
    assert "864" in line  # c, d, and the resident bytes


def test_a_refusal_is_a_document_for_programs(graph: Path, tmp_path: Path, capsys: Said) -> None:
    """What lives at once while c is computed: b, c, and the resident bytes."""
    ask = ("--graph", graph, "--time-limit", 1, "--json", "--out", tmp_path / "plan")
    assert poet_plan(*ask, "--ram", "500") == NO_SCHEDULE
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert said.err.splitlines()[-1] == f"poet-plan: {document['message']}"
    assert (document["status"], document["exit_code"]) == ("impossible", NO_SCHEDULE)
    assert document["impossible_below_bytes"] == document["possible_bytes"] == 864
    assert not (tmp_path / "plan").exists()
    assert poet_plan(*ask, "--ram", document["possible_bytes"]) == 0
    capsys.readouterr()
    assert poet_plan(*ask, "--ram", "1MB", "--deadline", "7s") == NO_SCHEDULE
    document = json.loads(capsys.readouterr().out)
    assert (document["impossible_below_s"], document["possible_s"]) == (8.0, 8.0)
    assert document["possible_bytes"] is None, "within 7 s no RAM does"
    assert poet_plan("--graph", graph, "--json", "--ram", "1KB", "--method", "store_all") == NO_SCHEDULE
    assert json.loads(capsys.readouterr().out)["possible_bytes"] == 1704


def test_a_step_without_offsets_is_not_called_impossible(tmp_path: Path, capsys: Said) -> None:
    file, out = tmp_path / "graph.json", tmp_path / "plan"
    write_graph(graph_of(UNPLACEABLE), file)
    ask = ("--graph", file, "--time-limit", 1, "--json", "--out", out)
    assert poet_plan(*ask, "--ram", 20) == NOT_FOUND
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == "no offsets" and document["impossible_below_bytes"] <= 20
    assert poet_plan(*ask, "--ram", document["possible_bytes"]) == 0


def test_operators_that_a_microcontroller_lacks_are_named_before_any_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    (tmp_path / "volumes.py").write_text(VOLUMES)
    monkeypatch.syspath_prepend(tmp_path)
    ask = ("--model", "volumes:make", "--profile", "nrf52840", "--time-limit", 1, "--out", tmp_path / "plan")

    def chosen(*_: object) -> None:
        raise AssertionError("a layout was looked for")

    with monkeypatch.context() as patched:
        patched.setattr("poet_planner.planning.contest.Contest.choose", chosen)
        assert poet_plan(*ask) == BAD_INPUT
    [line] = capsys.readouterr().err.splitlines()
    assert "filters (Conv3d, volumes.py:14): the firmware has no convolution of volumes; use Conv2d" in line
    assert not (tmp_path / "plan").exists()
    assert poet_plan(*ask, "--parameters", "excluded") == 0


def test_a_store_all_schedule_that_does_not_fit_says_what_it_needs(graph: Path, capsys: Said) -> None:
    assert poet_plan("--graph", graph, "--ram", "1KB", "--method", "store_all") == NO_SCHEDULE
    assert "1704 B" in capsys.readouterr().err
    assert poet_plan("--graph", graph, "--ram", "1MB", "--deadline", "7s", "--method", "store_all") == NO_SCHEDULE
    assert "8 s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "nothing to plan"),
        (["--graph", "no.json", "--ram", "1KB"], "no.json: cannot be read"),
        (["--profile", "no.csv"], "no profile no.csv"),
        (["--profile", "m4", "--model", "no_such_model"], "no_such_model"),
        (["--profile", "m4", "--board", "no_such_board"], "no_such_board"),
        (["--profile", "m4", "--board", "rpi4b", "--model", "digits_cnn"], "no row of board rpi4b"),
        (["graph", "--model", "digits_cnn", "--out", "x.json"], "--board"),
        (
            ["graph", "--board", "mkr1000", "--model", "digits_cnn_small", "--micro-batches", "3", "--out", "x.json"],
            "--micro-batches 3: does not divide the batch of 4",
        ),
        (["--profile", "a72", "--model", "digits_cnn", "--momentum", "0.9"], "leave it out"),
        (["--profile", "m4", "--parameters", "excluded", "--gradients", "paged"], "--gradients paged: with"),
        (["--profile", "m4", "--model", "digits_cnn", "--momentum", "1e-12"], "multiples of 1e-9"),
        (["--profile", "a72", "--model", "digits_cnn", "--parameters", "card"], "--parameters card is for models on"),
        (["--profile", "m4", "--optimizer", "adam", "--momentum", "0.9"], "--momentum 0.9: --optimizer adam has none"),
        (["--profile", "m4", "--betas", "0.9,0.99"], "--betas 0.9,0.99: --optimizer sgd has none"),
        (["--profile", "m4", "--optimizer", "adam", "--betas", "0.9"], "--betas 0.9: are two numbers"),
        (["--profile", "m4", "--optimizer", "adamw", "--betas", "0.9,1"], "--betas 0.9,1: both are from 0 to below 1"),
        (["--profile", "m4", "--optimizer", "adamw"], "--optimizer adamw: is adam without a weight decay"),
        (["--profile", "m4", "--nesterov"], "--nesterov: goes with momentum"),
        (["--profile", "m4", "--weight-decay", "-1"], "--weight-decay -1: is out of range"),
        (["--profile", "m4", "--clip-value", "0"], "--clip-value 0: is above 0"),
        (
            ["--profile", "m4", "--model", "digits_cnn_small", "--weight-decay", "1e-40"],
            "--weight-decay 1e-40: the firmware knows numbers from 1.2e-38",
        ),
        (["graph", "--model", "digits_cnn", "--board", "rpi4b", "--out", "x.json", "--optimizer", "adam"], "leave it"),
        (["--profile", "m4", "--model", "digits_cnn", "--card-above", "much"], "--card-above much: not an amount"),
        (["--profile", "m4", "--model", "digits_cnn", "--stream-above", "much"], "--stream-above much: not an amount"),
        (
            ["--profile", "m4", "--model", "digits_cnn", "--library", "my-net"],
            "--library my-net: not a name in C and C++",
        ),
    ],
)
def test_bad_input_ends_in_one_line(arguments: list[str], expected: str, capsys: Said) -> None:
    assert poet_plan(*arguments) == BAD_INPUT
    streams = capsys.readouterr()
    assert expected in streams.err
    assert streams.err.count("\n") == 1
    assert streams.out == ""


PAIRS = [(method, option) for method in METHODS for option in Option]


@pytest.mark.parametrize(("method", "option"), PAIRS, ids=[f"{method.name}-{option}" for method, option in PAIRS])
def test_an_option_that_a_method_does_not_take_is_refused_even_with_its_default(
    method: Method, option: Option, capsys: Said
) -> None:
    default = {Option.OBJECTIVE: "energy", Option.SEED: "0", Option.SOLVER: "highs", Option.TIME_LIMIT: "1"}[option]
    command = ("--graph", "no.json", "--method", method.name, f"--{option}", default)
    assert poet_plan(*command) == BAD_INPUT
    refused = f"poet-plan: --{option}: --method {method.name} takes none; leave one of the two out\n"
    said = capsys.readouterr().err
    assert said == refused if option not in method.takes else said.startswith("poet-plan: no.json: cannot be read")


@pytest.mark.parametrize("option", [("--momentum", "0.9"), ("--gradients", "paged"), ("--batch", "2")])
def test_a_graph_takes_no_option_of_a_model(option: tuple[str, str], graph: Path, capsys: Said) -> None:
    assert poet_plan("--graph", graph, "--ram", "75%", *option) == BAD_INPUT
    assert option[0] in capsys.readouterr().err


def test_graph_without_budget_asks_for_one(graph: Path, capsys: Said) -> None:
    assert poet_plan("--graph", graph) == BAD_INPUT
    assert "--ram" in capsys.readouterr().err


def test_shipped_profile_plans_a_model_and_writes_headers(tmp_path: Path, capsys: Said) -> None:
    out = tmp_path / "plan"
    arguments = ("--profile", "m4", "--model", "digits_cnn", "--ram", "224KB", "--time-limit", 1, "--json")
    assert poet_plan(*arguments, "--out", out) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["energy_share"]["measured"] == summary["energy_share"]["emulated"] == 0
    assert summary["energy_share"]["published"] > 0
    assert sum(summary["energy_share"].values()) == pytest.approx(1)
    assert summary["peak_bytes"] <= 224 * 1024 < summary["plain_peak_bytes"]
    assert f"0x{summary['graph_hash']}" in (out / "poet_model.h").read_text()
    assert (out / "poet_schedule.h").exists()


def test_parameters_are_left_out_only_where_that_is_asked_for_and_loudly(tmp_path: Path, capsys: Said) -> None:
    out = tmp_path / "plan"
    arguments = ("--profile", "m4", "--model", "mlperf_autoencoder", "--method", "store_all", "--out", out, "--json")
    assert poet_plan(*arguments, "--parameters", "excluded") == 0
    streams = capsys.readouterr()
    assert "NOT counted" in streams.err
    assert json.loads(streams.out)["excluded_bytes"] > 2_000_000
    assert not (out / "poet_model.h").exists()
    assert poet_plan(*arguments, "--parameters", "resident") == NO_SCHEDULE


def test_parameters_go_to_the_card_where_they_do_not_fit(tmp_path: Path, capsys: Said) -> None:
    """312 KB of parameters; the largest layer has 147 KB."""
    out = tmp_path / "plan"
    arguments = ("--profile", "m4", "--model", "mlperf_resnet8", "--out", out, "--json")
    assert poet_plan(*arguments, "--time-limit", 1) == 0
    streams = capsys.readouterr()
    assert "lie on the card" in streams.err
    summary = json.loads(streams.out)
    assert 250_000 < summary["kept_bytes"] < 312_168
    assert summary["excluded_bytes"] == 0
    assert summary["peak_bytes"] <= summary["ram_budget_bytes"] <= load_board("nrf52840").usable_ram_bytes
    graph = read_graph(out / "graph.json")
    assert all(kept.bytes > 256 for kept in graph.kept if kept.kind == "parameter")
    # Each parameter is written once, whole blocks each, and what stays in RAM with a record of all.
    written = 512 * sum(-(-kept.bytes // 512) for kept in graph.kept if kept.kind == "parameter")
    assert written < summary["wear"]["committed_bytes"] < written + 20_000
    life = summary["wear"]["life_steps"]
    assert life == pytest.approx(4e12 / (summary["wear"]["committed_bytes"] + summary["wear"]["paged_bytes"]))
    assert poet_plan(*arguments, "--card-above", "100KB", "--method", "store_all") == 3
    assert poet_plan(*arguments, "--parameters", "card", "--gradients", "paged") == BAD_INPUT
    assert "--gradients paged: with --parameters card" in capsys.readouterr().err


def test_headers_of_an_earlier_plan_do_not_stay_beside_one_that_has_none(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan"
    digits = ("--profile", "m4", "--model", "digits_cnn", "--ram", "110%")
    assert poet_plan(*digits, "--method", "store_all", "--out", out) == 0
    assert {path.name for path in out.glob("*.h")} == {"poet_model.h", "poet_schedule.h"}
    assert poet_plan("--graph", graph, "--ram", "100%", "--method", "store_all", "--out", out) == 0
    assert not list(out.glob("*.h"))


def test_a_plan_that_is_too_large_for_the_tables_leaves_an_earlier_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digits = ("--profile", "m4", "--model", "digits_cnn", "--ram", "110%")
    store_all = (*digits, "--method", "store_all", "--out", tmp_path)
    assert poet_plan(*store_all) == 0
    written = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    monkeypatch.setattr("poet_planner.schedule.c_calls._LARGEST_INDEX", 1)
    assert poet_plan(*store_all) == BAD_INPUT
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == written


def test_what_is_resident_in_a_graph_from_anywhere_is_not_guessed(graph: Path, tmp_path: Path, capsys: Said) -> None:
    assert poet_plan("--graph", graph, "--ram", "100%", "--method", "store_all", "--out", tmp_path / "plan") == 0
    printed = capsys.readouterr().out
    assert "as the graph has it" in printed
    assert "gradients" not in printed


def test_a_share_of_the_ram_is_of_the_graph_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients that become values lower the peak, but not the budget by which they fit."""

    def build(bench: Bench, layout: MemoryLayout) -> CostedStep:
        size = 0 if layout.resident_gradients else 50_000
        nodes = (
            Node("a", 1.0, 1.0, (Value("a", 30_000),)),
            Node("g", 1.0, 1.0, (Value("g", size),), ("a",)),
            Node("g.sgd", 1.0, 1.0, (Value("g.sgd", 0),), ("g",)),
            Node("h", 1.0, 1.0, (Value("h", size),)),
            Node("h.sgd", 1.0, 1.0, (Value("h.sgd", 0),), ("h",)),
        )
        residents = [Resident("w", "parameter", 100_000, 0, (25_000,))]
        residents += [Resident("w.grad", "gradient", 100_000, 100_000, (25_000,))] * layout.resident_gradients
        graph = Graph("g", nodes, 100_000 * len(residents), residents=tuple(residents))
        return CostedStep(graph, layout, None)

    def settled(gradients: Gradients) -> tuple[int, int]:
        parameters = Parameters.RESIDENT
        request = Request("g", "m4", ram="99.5%", parameters=parameters, gradients=gradients, micro_batches=1)
        one = Contest(Bench(request)).choose()
        return one.graph.resident_bytes, one.budget_bytes

    monkeypatch.setattr(Bench, "step", build)
    assert settled(Gradients.RESIDENT) == (200_000, 228_850)
    assert settled(Gradients.AUTO) == (100_000, 228_850)
    assert settled(Gradients.PAGED) == (100_000, 179_100)


def test_gradients_become_values_where_a_step_is_cheaper_so(tmp_path: Path, capsys: Said) -> None:
    """Beside them 216 KB have room for the demo's largest operator, but what is in their way goes to the card."""

    def energy_j(ram: str, gradients: str) -> float:
        arguments = ("--profile", "nrf52840", "--model", "digits_cnn", "--ram", ram, "--gradients", gradients)
        assert poet_plan(*arguments, "--time-limit", 1, "--json", "--out", tmp_path / "plan") == 0
        streams = capsys.readouterr()
        summary = json.loads(streams.out)
        assert ("--gradients resident" in streams.err) == (gradients == "auto" and not summary["resident_gradients"])
        return float(summary["energy_j"])

    resident_j = energy_j("216KB", "resident")
    assert energy_j("216KB", "auto") < 0.5 * resident_j
    # With room for everything they are resident: nothing is cheaper.
    energy_j("440KB", "auto")
    assert json.loads((tmp_path / "plan" / "summary.json").read_text())["resident_gradients"]


def test_gradients_become_values_where_they_do_not_fit(tmp_path: Path, capsys: Said) -> None:
    """DS-CNN's parameters and gradients alone leave too little of the nRF52840's 248 KB for its largest operator."""
    out = tmp_path / "plan"
    arguments = ("--profile", "m4", "--model", "mlperf_ds_cnn", "--time-limit", 1, "--out", out, "--json")
    assert poet_plan(*arguments) == 0
    streams = capsys.readouterr()
    assert "--gradients resident" in streams.err
    summary = json.loads(streams.out)
    assert not summary["resident_gradients"]
    assert summary["peak_bytes"] <= load_board("nrf52840").usable_ram_bytes
    assert (out / "poet_model.h").exists()
    assert poet_plan(*arguments, "--gradients", "resident", "--tiles", "off") == NO_SCHEDULE


def test_without_paging_nothing_is_paged(graph: Path, tmp_path: Path, capsys: Said) -> None:
    arguments = ("--graph", graph, "--ram", "75%", "--time-limit", 1, "--out", tmp_path / "plan", "--json")
    assert poet_plan(*arguments, "--no-paging") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["page_ins"] == summary["page_outs"] == 0 < summary["recomputes"]


def test_deadline_is_kept(graph: Path, tmp_path: Path, capsys: Said) -> None:
    arguments = ("--graph", graph, "--ram", "75%", "--time-limit", 1, "--out", tmp_path / "plan", "--json")
    assert poet_plan(*arguments, "--deadline", "1.4x") == 0
    assert json.loads(capsys.readouterr().out)["time_s"] <= 1.4 * 8


def test_folder_that_cannot_be_written_ends_in_one_line(graph: Path, tmp_path: Path, capsys: Said) -> None:
    (tmp_path / "file").write_text("")
    arguments = ("--graph", graph, "--ram", "100%", "--method", "store_all", "--out", tmp_path / "file" / "plan")
    assert poet_plan(*arguments) == BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1


def test_model_of_ones_own_is_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    (tmp_path / "own_model.py").write_text(
        "import torch\n"
        "from poet_planner.models import Model\n"
        "def tiny(batch):\n"
        "    torch.manual_seed(7)\n"
        "    module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))\n"
        "    inputs = (torch.randn(batch or 2, 6),)\n"
        "    targets = (torch.zeros(batch or 2, dtype=torch.int64),)\n"
        "    names = ('squat', 'lunge', 'rest')\n"
        "    return Model('tiny', module, inputs, targets, torch.nn.functional.cross_entropy, names)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "plan"
    network = ("--profile", "m0", "--model", "own_model:tiny", "--batch", 3)
    arguments = (*network, "--time-limit", 1, "--library", "own", "--out", out, "--json")
    assert poet_plan(*arguments) == 0
    printed = capsys.readouterr()
    assert "POET_GATHERED" not in printed.err
    assert "of 32 KB of RAM and 2" in printed.err and f"(of a call {STACK_BYTES} B at most)" in printed.err
    assert f"#define OWN_STACK_BYTES {STACK_BYTES}u" in (out / "own/src/own.h").read_text()
    summary = json.loads(printed.out)
    assert summary["graph"] == "tiny"
    assert 0 < summary["longest_pause_s"] < summary["time_s"]
    assert "/* linear: 0 */" in (out / "poet_schedule.h").read_text()
    import torch

    torch.manual_seed(7)  # the weights of the model go along
    first, second = torch.nn.Linear(6, 5), torch.nn.Linear(5, 3)
    tensors = (first.weight, first.bias, second.weight, second.bias)
    expected = b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)
    assert (out / "own/src/own_initial.bin").read_bytes() == expected
    assert '    "squat",\n    "lunge",\n    "rest",\n' in (out / "own/src/own.c").read_text()
    assert poet_plan(*arguments, "--micro-batches", 3) == 0
    assert "a batch is 3 calls of poet_train: all but the last give POET_GATHERED\n" in capsys.readouterr().err
    assert "#define OWN_MICRO_BATCHES 3u\n" in (out / "own/src/own.h").read_text()


def test_help_does_not_import_what_only_planning_needs() -> None:
    program = "import sys, poet_planner.cli; print([m for m in ('torch', 'pandas', 'pyomo', 'matplotlib', 'numpy') if m in sys.modules])"  # noqa: E501
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"


def test_a_plan_imports_no_tables(tmp_path: Path) -> None:
    """pandas takes half as long to import as PyTorch; neither that nor joblib is wanted."""
    arguments = ["--model", "digits_cnn_small", "--profile", "m4", "--ram", "100%", "--out", str(tmp_path / "plan")]
    program = f"import sys, poet_planner.cli; sys.argv[1:] = {arguments}; poet_planner.cli.app(standalone_mode=False)"
    program += "; sys.exit('pandas' in sys.modules or 'joblib' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)


def test_models_that_fit_a_board_are_listed_with_the_graphs_that_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    names = ["bert_base_16", "cnn_40k", "digits_cnn", "digits_cnn_small", "finetune_cnn_small", "resnet18"]
    monkeypatch.setattr("poet_planner.models.names", lambda: names)
    board = load_board("mkr1000")
    assert poet_plan("models", "--board", board.name, "--graphs", tmp_path) == 0
    fitting = capsys.readouterr().out.split()
    assert "digits_cnn_small" in fitting
    # A batch of 24 images: the operands of its largest node alone are 147,456 B.
    assert "digits_cnn" not in fitting
    parts = {path.stem for path in tmp_path.glob("*-*.json")}
    assert {"digits_cnn_small-2", "digits_cnn_small-4", "finetune_cnn_small-int8"} <= parts
    assert sorted({path.stem for path in tmp_path.glob("*.json")} - parts) == fitting
    assert poet_plan("graph", "--model", "digits_cnn_small", "--board", "rpi4b", "--parameters", "card", "--out",
               tmp_path / "g.json") == BAD_INPUT  # fmt: skip
    for name in (*fitting, *parts):
        assert smallest_ram_bytes(read_graph(tmp_path / f"{name}.json")) <= board.usable_ram_bytes


def test_the_graph_of_a_micro_batch_is_the_one_that_is_planned(tmp_path: Path, capsys: Said) -> None:
    step = ("--model", "digits_cnn_small", "--profile", "mkr1000", "--micro-batches", "2")
    assert poet_plan("graph", *step, "--out", tmp_path / "graph.json", "--parts", tmp_path) == 0
    assert sorted(path.stem for path in tmp_path.glob("graph-*.json")) == ["graph-2", "graph-4"]
    assert read_graph(tmp_path / "graph-2.json") == read_graph(tmp_path / "graph.json")
    assert poet_plan(*step, "--ram", "1MB", "--out", tmp_path / "plan") == 0
    written = read_graph(tmp_path / "graph.json")
    assert written.micro_batches == 2
    assert written == read_graph(tmp_path / "plan" / "graph.json")


def test_models_are_listed_with_the_homes_of_their_parameters(monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    names = ["bert_base", "digits_cnn_small", "finetune_cnn", "mlperf_resnet8", "poet_resnet18", "resnet18_cifar"]
    monkeypatch.setattr("poet_planner.models.names", lambda: names)
    assert poet_plan("models", "--json") == 0
    homes = {row["model"]: row["homes"] for row in json.loads(capsys.readouterr().out)}
    assert homes["digits_cnn_small"] == {"mkr1000": ["resident"], "nrf52840": ["resident"]}
    assert homes["mlperf_resnet8"] == homes["poet_resnet18"] == {"mkr1000": [], "nrf52840": ["card"]}
    assert homes["finetune_cnn"]["nrf52840"] == ["resident", "flash"]
    assert homes["bert_base"] == {"mkr1000": [], "nrf52840": []}
    assert homes["resnet18_cifar"] == {"mkr1000": [], "nrf52840": ["card"]}  # 45 MB


def test_what_never_fits_is_refused_before_it_is_traced(monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    def traced(*_: object) -> None:
        raise AssertionError("traced")

    monkeypatch.setattr("poet_planner.tracing.trace", traced)
    assert poet_plan("--model", "bert_base", "--profile", "nrf52840") == NO_SCHEDULE
    (line,) = capsys.readouterr().err.splitlines()
    assert "bert_base: one of its layers has 1572864 bytes" in line and "--ram" in line


def test_models_that_fit_are_told_for_microcontrollers_only(capsys: Said) -> None:
    assert poet_plan("models", "--board", "rpi4b") == BAD_INPUT
    assert "not a microcontroller" in capsys.readouterr().err
    assert poet_plan("models", "--graphs", "somewhere") == BAD_INPUT
    assert "--board" in capsys.readouterr().err


def test_what_is_being_written_is_written_before_a_signal_ends_it(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:

    write = pictures.write_pictures

    def terminated(*arguments: object) -> None:
        signal.raise_signal(signal.SIGTERM)
        write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(pictures, "write_pictures", terminated)
    out = tmp_path / "plan"
    assert poet_plan("--graph", graph, "--ram", "75%", "--time-limit", 1, "--out", out) == 128 + signal.SIGTERM
    assert {path.name for path in out.iterdir()} >= {"graph.json", "schedule.json", "summary.json", "ram.png"}
    assert poet_plan("verify", out / "graph.json", out / "schedule.json") == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_optimising_makes_the_best_so_far_the_plan(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """It comes with the first schedule, long before the time limit."""
    from poet_planner.cli import plan

    def received(state: Progress) -> None:
        if state.incumbent_j is not None:
            signal.raise_signal(number)

    monkeypatch.setattr(plan, "progress", lambda objective: nullcontext(received))
    out = tmp_path / "plan"
    assert poet_plan("--graph", graph, "--ram", "60%", "--time-limit", 600, "--out", out) == 0
    assert json.loads((out / "summary.json").read_text())["peak_bytes"] <= 0.6 * (64 + 4 * 400)


def test_where_a_plan_cannot_be_written_it_is_not_made(graph: Path, tmp_path: Path, capsys: Said) -> None:
    file = tmp_path / "file"
    file.write_text("somebody's")
    for out in (file, file / "below", Path("/proc/poet")):
        assert poet_plan("--graph", graph, "--ram", "75%", "--time-limit", 600, "--out", out) == BAD_INPUT
        [line] = capsys.readouterr().err.splitlines()
        assert "cannot be written" in line
    assert file.read_text() == "somebody's"


def test_what_placement_costs_is_a_line_and_a_field_of_the_summary(tmp_path: Path, capsys: Said) -> None:
    file, out = tmp_path / "graph.json", tmp_path / "plan"
    write_graph(graph_of(UNPLACEABLE, PageCost(0.25, 0.25, 0.25, 0.25)), file)
    arguments = ("--graph", file, "--time-limit", 1, "--out", out)

    assert poet_plan(*arguments, "--ram", 20) == 0

    line = next(line for line in capsys.readouterr().out.splitlines() if "placement costs" in line)
    assert "7.14 %" in line
    summary = read_summary(out / "summary.json")
    remark = "energy: the cheapest schedule found has no addresses in this RAM (proven)"
    assert ("placement costs", "7.14 %", remark) in rows(summary)
    assert f"Placement costs 7.14 % {remark}." in cautions(summary)
    placement = json.loads((out / "summary.json").read_text())["placement"]
    cost = {"cost": pytest.approx(1 / 14), "cheapest_j": 7.0}
    assert placement == {**cost, "proven": True, "tried": 1, "tried_proven": 1}

    assert poet_plan(*arguments, "--ram", 24, "--json") == 0
    assert json.loads(capsys.readouterr().out)["placement"] is None
