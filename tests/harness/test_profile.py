# SPDX-License-Identifier: Apache-2.0
"""``poet-harness profile`` against the simulated device: noise, resets, resuming, slices, bad meters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result
from poet_harness.cli import app
from poet_harness.measuring.measure import Effort, Measurement, measure
from poet_harness.meters.meter import Activity, Mark, Meter, MeterError, Window
from poet_harness.meters.nominal import NominalMeter
from poet_harness.profiling.board_profiler import BoardProfiler
from poet_harness.profiling.configurations import Configuration, from_file, from_graph, from_model, page
from poet_harness.profiling.grid import grid
from poet_harness.profiling.outcome import Outcome
from poet_harness.profiling.slices import ram_bytes, slices
from poet_harness.protocol.device import Timing
from poet_harness.verbs.console import wide_console
from poet_harness.verbs.profile import _report
from poet_planner.costs.cost_model import CostModel
from poet_profiles.boards import load_board
from poet_profiles.errors import NO_DEVICE, UserError
from poet_profiles.firmware import operators as numbers
from poet_profiles.graph import Kept
from poet_profiles.graph.file import write_graph
from poet_profiles.profile import ProfileWriter, read_profile
from typer.testing import CliRunner

from tests.planner.lowering.tiles.test_mutations import in_parts
from tests.support.graphs.kept_graphs import kept_step
from tests.support.harness.simulated_device import TICKS_HZ, Noise, SimulatedDevice, serve
from tests.support.harness.trained import device_at

BOARD = load_board("nrf52840")
QUICK = Effort(fewest=1, most=1)
SOME = [
    *(Configuration("pointwise", f"size={size} steps=relu(y0,x0)") for size in (8, 16, 32)),
    Configuration("linear", "m=2 k=3 n=4 bias=1"),
    *(page(op, size, "sequential") for op in ("page_in", "page_out") for size in (512, 4096)),
]


def profile(url: str, path: Path, wanted: Sequence[Configuration], effort: Effort = QUICK) -> BoardProfiler:
    device = device_at(url)
    profiler = BoardProfiler(device, NominalMeter(BOARD), BOARD, effort)
    with ProfileWriter(path) as writer:
        profiler.run(wanted, writer)
    return profiler


def without_dates(path: Path) -> pd.DataFrame:
    return read_profile(path).drop(columns="taken_at")


def test_rows_hold_the_devices_time_and_the_meters_energy(tmp_path: Path) -> None:
    with serve(SimulatedDevice()) as url:
        profile(url, tmp_path / "p.csv", [page("page_in", 4096, "sequential")])
    row = read_profile(tmp_path / "p.csv").iloc[-1]
    assert row["time_s"] == pytest.approx((3000 + 40 * 4096) / TICKS_HZ, rel=1e-6)
    rails = BOARD.rails_a
    gross_w = BOARD.voltage_v * (rails.cpu_active + rails.storage_read)
    assert row["idle_power_w"] == pytest.approx(BOARD.voltage_v * (rails.cpu_idle + rails.storage_idle))
    assert row["energy_j"] + row["idle_power_w"] * row["time_s"] == pytest.approx(row["time_s"] * gross_w, rel=1e-6)
    idle = read_profile(tmp_path / "p.csv").iloc[0]
    assert (idle["op"], idle["energy_j"]) == ("idle", 0.0)
    assert (row["source"], row["firmware"], row["slice"]) == ("emulated", "simulated-1", 1)


def test_bands_of_a_graph_are_profiled_and_priced_by_their_rows(tmp_path: Path) -> None:
    graph, _ = in_parts()
    write_graph(graph, tmp_path / "graph.json")
    with serve(SimulatedDevice()) as url:
        profile(url, tmp_path / "p.csv", from_graph(tmp_path / "graph.json"))
    rows = read_profile(tmp_path / "p.csv")
    energies = dict(zip(zip(rows["op"], rows["params"], strict=True), rows["energy_j"], strict=True))
    nodes = [node for node in CostModel(rows).apply(graph).graph.nodes if node.operation]
    bands = [node for node in nodes if node.operation and node.operation.op in numbers.OF_BANDS]
    assert len(bands) > 20
    for node in nodes:
        assert node.operation is not None
        assert node.energy_j == energies[node.operation.op, node.operation.params]


def test_noise_and_three_resets_change_no_row(tmp_path: Path) -> None:
    with serve(SimulatedDevice()) as url:
        profile(url, tmp_path / "clean.csv", SOME)
    to_device, to_host = Noise(0.01, seed=3), Noise(0.01, seed=4)
    with serve(SimulatedDevice(resets_after=[4, 9, 12]), to_device, to_host) as url:
        outcome = profile(url, tmp_path / "rough.csv", SOME)._outcome
    assert outcome.resets == 3
    assert to_device.damaged > 0
    assert to_host.damaged > 0
    pd.testing.assert_frame_equal(without_dates(tmp_path / "clean.csv"), without_dates(tmp_path / "rough.csv"))


def test_a_board_that_keeps_resetting_is_given_up(tmp_path: Path) -> None:
    with (
        serve(SimulatedDevice(resets_after=list(range(1, 40)))) as url,
        pytest.raises(UserError, match=r"was reset .* times") as caught,
    ):
        profile(url, tmp_path / "p.csv", SOME)
    assert caught.value.exit_code == 4


def test_resume_measures_only_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    with serve(SimulatedDevice()) as url:
        profile(url, path, SOME)
    whole = without_dates(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]) + lines[4][:20])
    resumed = SimulatedDevice()
    with serve(resumed) as url:
        profile(url, path, SOME)
    pd.testing.assert_frame_equal(without_dates(path), whole)
    assert not any(request.startswith("bench 7 1 8") for request in resumed.carried_out)


def test_rows_of_another_board_or_source_are_not_taken_for_done(tmp_path: Path) -> None:
    path, wanted = tmp_path / "p.csv", SOME[:2]
    with serve(SimulatedDevice()) as url:
        profile(url, path, wanted)
    own = path.read_text()
    for other in (own.replace("nrf52840,", "mkr1000,"), own.replace(",emulated,", ",measured,")):
        path.write_text(other)
        with serve(SimulatedDevice()) as url:
            profile(url, path, wanted)
        rows = read_profile(path)
        assert len(rows) == 2 * (len(wanted) + 1)
        assert list(rows["op"]) == 2 * ["idle", *(item.op for item in wanted)]


@pytest.mark.parametrize(
    "item", ["page_in,bytes=512 pattern=sequential", "streamed_linear,m=1 k=128 n=4 bias=0 tile=2"]
)
def test_no_card_to_be_labelled_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, item: str) -> None:
    """A card is labelled for page transfers, and for operators with tensors on it."""
    monkeypatch.setattr(SimulatedDevice, "_format", lambda _: "err -9 no card, or no label on it")
    options = ["--board", "nrf52840", "--meter", "nominal", "--format-card", "--out", str(tmp_path / "p.csv")]
    configs = tmp_path / "c.csv"
    configs.write_text(f"op,params\n{item}\n")
    with serve(SimulatedDevice()) as url:
        result = CliRunner().invoke(app, ["profile", "--port", url, "--configs", str(configs), *options])
    assert isinstance(result.exception, UserError)
    assert str(result.exception) == "the board answers: no card, or no label on it (error -9)"
    assert result.exception.exit_code == NO_DEVICE


def test_a_board_that_slows_down_is_noticed(tmp_path: Path) -> None:
    simulated = SimulatedDevice()
    with serve(simulated) as url:
        device = device_at(url)
        profiler = BoardProfiler(device, NominalMeter(BOARD), BOARD, QUICK)
        with ProfileWriter(tmp_path / "p.csv") as writer:
            assert profiler.run(SOME, writer, lambda item: None).drift == 0
        with ProfileWriter(tmp_path / "hot.csv") as writer:
            hot = profiler.run(SOME, writer, lambda item: setattr(simulated, "slowness", 1 + SOME.index(item) / 10))
    assert hot.drift == pytest.approx(0.7, rel=0.01)
    assert hot.unsteady == []


class Sensors:
    """Clock and temperature that a test sets, or lets run through a list and stay at its end."""

    def __init__(self, *shown: tuple[int, int]) -> None:
        self.shown = list(shown)

    def __call__(self) -> tuple[int, int]:
        return self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]


def watched(path: Path, sensors: Sensors, wanted: Sequence[Configuration]) -> tuple[SimulatedDevice, Outcome]:
    simulated = SimulatedDevice(sensors=sensors)
    with serve(simulated) as url:
        device = device_at(url)
        with ProfileWriter(path) as writer:
            return simulated, BoardProfiler(device, NominalMeter(BOARD), BOARD, Effort(most=3)).run(wanted, writer)


@pytest.mark.parametrize(
    ("late", "words"),
    [((1_000_000, 50_000), "clock at 1000 MHz, at its fastest 1500 MHz"), ((1_500_000, 57_000), "57.0 at its last")],
)
def test_a_row_in_which_the_board_drifts_is_measured_again(tmp_path: Path, late: tuple[int, int], words: str) -> None:
    steady = (1_500_000, 50_000)
    # A warm-up and three windows: the clock falls, or the board grows warm, before the last; then all is steady.
    path = tmp_path / "once.csv"
    simulated, outcome = watched(path, Sensors(*[steady] * 3, late, steady), SOME[:1])
    assert outcome.unsteady == []
    row = read_profile(path).iloc[-1]
    assert (row["cpu_hz"], row["cpu_hz_std"], row["temperature_c"], row["temperature_c_std"]) == (1.5e9, 0, 50, 0)
    again = [request for request in simulated.carried_out if request.startswith("bench")]
    # Twice for the row and once more at the end of the run, each a warm-up and three windows.
    assert len(again) == 3 * 4
    assert outcome.temperatures_c == (50, max(50, late[1] / 1000))
    # If it drifts each time, the row is kept, shows it, and is reported.
    path = tmp_path / "always.csv"
    _, outcome = watched(path, Sensors(*[steady, steady, steady, late] * 9), SOME[:1])
    assert [(item, words in reason) for item, reason in outcome.unsteady] == [(SOME[0], True)]
    row = read_profile(path).iloc[-1]
    assert (row["cpu_hz_std"] > 0) == (late[0] != steady[0])
    assert (row["temperature_c_std"] > 0) == (late[1] != steady[1])


def test_a_clock_that_stays_behind_is_told_for_every_row(tmp_path: Path) -> None:
    fast, slow = (1_500_000, 50_000), (1_200_000, 80_000)
    simulated, outcome = watched(tmp_path / "p.csv", Sensors(*[fast] * 4, slow), SOME[:3])
    assert [item for item, _ in outcome.unsteady] == SOME[1:3]
    assert [request for request in simulated.carried_out if request.startswith("idle")][3:]  # it rested meanwhile
    assert list(read_profile(tmp_path / "p.csv")["cpu_hz"])[1:] == [1.5e9, 1.2e9, 1.2e9]
    assert outcome.temperatures_c == (50, 80)


def test_a_configuration_that_draws_less_than_the_sleeping_board_has_no_negative_energy(tmp_path: Path) -> None:
    meter = ScriptedMeter(Window(0.1, 1e-3, samples=10_000, period_s=1e-5), *[Window(0.01, 9e-5, 1000)] * 2)
    configuration = Configuration("pointwise", "size=8 steps=relu(y0,x0)")
    with serve(SimulatedDevice()) as url:
        device = device_at(url)
        with ProfileWriter(tmp_path / "p.csv") as writer:
            meter.matched = True
            outcome = BoardProfiler(device, meter, BOARD, QUICK).run([configuration], writer)
    assert outcome.below_idle == [configuration]
    assert read_profile(tmp_path / "p.csv").iloc[-1]["energy_j"] == 0


def test_what_does_not_fit_is_measured_on_the_largest_slice(tmp_path: Path) -> None:
    item = Configuration("pointwise", "size=4096 steps=relu_backward(y0,x0,x1)")
    with serve(SimulatedDevice(ram_bytes=3 * 4 * 1000)) as url:
        profile(url, tmp_path / "p.csv", [item])
    row = read_profile(tmp_path / "p.csv").iloc[-1]
    assert row["params"] == item.params
    assert row["bytes"] == 4 * 4096
    assert row["slice"] < 1
    with serve(SimulatedDevice(ram_bytes=10_000_000)) as url:
        profile(url, tmp_path / "whole.csv", [item])
    assert row["time_s"] == pytest.approx(read_profile(tmp_path / "whole.csv").iloc[-1]["time_s"], rel=1e-3)


@pytest.mark.parametrize("pattern", ["sequential", "scattered"])
def test_a_page_larger_than_the_ram_goes_through_the_largest_buffer(tmp_path: Path, pattern: str) -> None:
    simulated = SimulatedDevice(ram_bytes=10_000)
    with serve(simulated) as url:
        profile(url, tmp_path / "p.csv", [page("page_in", 32_768, pattern)])
    row = read_profile(tmp_path / "p.csv").iloc[-1]
    buffer = 19 * 512
    assert any(request.startswith(f"page in {buffer} ") for request in simulated.carried_out)
    assert (row["bytes"], row["slice"]) == (32_768, pytest.approx(buffer / 32_768))
    one_s = (3000 + 40 * buffer + 500 * (pattern == "scattered")) / TICKS_HZ
    assert row["time_s"] == pytest.approx(one_s * 32_768 / buffer, rel=1e-6)


def test_larger_pages_are_not_measured_once_more(tmp_path: Path) -> None:
    simulated = SimulatedDevice(ram_bytes=20_000)
    with serve(simulated) as url:
        profile(url, tmp_path / "p.csv", [page("page_in", size, "sequential") for size in (512, 32_768, 65_536)])
    requests = [request.split()[2] for request in simulated.carried_out if request.startswith("page in ")]
    assert requests == ["512"] * 2 + ["19968"] * 2  # a warm-up and a window
    rows = read_profile(tmp_path / "p.csv").iloc[-2:]
    assert rows["time_s"].iloc[1] == pytest.approx(2 * rows["time_s"].iloc[0], rel=1e-6)
    assert rows["slice"].tolist() == pytest.approx([19_968 / 32_768, 19_968 / 65_536])


@pytest.mark.parametrize(
    ("op", "key", "expected", "fraction"),
    [
        # Eight groups of two channels in and four out: as many whole groups as fit.
        ("conv2d", "n=1 c=16 h=8 w=8 k=32 r=3 s=3 sh=1 sw=1 ph=1 pw=1 g=8 bias=1", "c=10 k=20 g=5", 5 / 8),
        ("conv2d_backward_weight", "n=1 c=16 h=16 w=16 k=1 r=3 s=3 sh=1 sw=1 ph=1 pw=1 g=1 bias=0", "c=9", 9 / 16),
        ("embedding", "m=64 v=256 d=32", "d=19", 19 / 32),
        ("embedding_backward", "m=64 v=256 d=32", "d=19", 19 / 32),
        # A transposed copy: fewer columns of the source, and a shorter source.
        ("strided_copy", "d0=1 d1=1 d2=64 d3=64 s0=0 s1=0 s2=1 s3=64 offset=0 size=4096", "d3=48 size=3072", 48 / 64),
    ],
)
def test_what_is_cut_shrinks_in_proportion(op: str, key: str, expected: str, fraction: float) -> None:
    params = numbers.parse_params(key)
    largest = {**params, **numbers.parse_params(expected)}
    assert next(iter(slices(op, params, ram_bytes(op, largest)))) == (fraction, largest)
    cut = largest
    whole, part = numbers.OPERATORS[op].sizes(params), numbers.OPERATORS[op].sizes(cut)
    assert sum(part.outputs) == pytest.approx(fraction * sum(whole.outputs), rel=0.01)
    assert part.flops == pytest.approx(fraction * whole.flops, rel=0.01)


def test_the_grid_leaves_nothing_out_on_the_smallest_board() -> None:
    board = load_board("mkr1000")
    for item in grid():
        if not item.is_page:
            assert next(iter(slices(item.op, numbers.parse_params(item.params), board.usable_ram_bytes)), None), item


def test_the_first_slice_is_the_largest_along_its_axis() -> None:
    params = numbers.parse_params("n=8 c=4 h=8 w=8 k=4 r=3 s=3 sh=1 sw=1 ph=1 pw=1 g=1 bias=0")
    limit = ram_bytes("conv2d", {**params, "n": 5})
    fraction, cut = next(iter(slices("conv2d", params, limit)))
    assert (fraction, cut["n"]) == (5 / 8, 5)
    first_axis = [fraction for fraction, cut in slices("conv2d", params, limit) if (cut["k"], cut["c"]) == (4, 4)]
    assert first_axis[:3] == [5 / 8, 3 / 8, 1 / 8]
    assert all(ram_bytes("conv2d", cut) <= limit for _, cut in slices("conv2d", params, limit))


@pytest.mark.parametrize(("kilobytes", "found"), [(24, False), (32, True), (64, True), (96, True)])
@pytest.mark.parametrize("op", ["conv2d", "conv2d_backward_input", "conv2d_backward_weight"])
def test_a_slice_is_computed_by_the_same_algorithm(op: str, kilobytes: int, found: bool) -> None:
    params = numbers.parse_params("n=4 c=24 h=16 w=16 k=32 r=3 s=3 sh=1 sw=1 ph=1 pw=1 g=1 bias=0")
    parts = [cut for _, cut in slices(op, params, kilobytes * 1024)]
    assert numbers.is_winograd(params)
    assert all(map(numbers.is_winograd, parts))
    assert bool(parts) == found


def test_no_card_says_what_to_do(tmp_path: Path) -> None:
    with serve(SimulatedDevice(card=False)) as url, pytest.raises(UserError, match=r"--format-card.*--no-pages"):
        profile(url, tmp_path / "p.csv", SOME)
    assert len(read_profile(tmp_path / "p.csv")) == 5


class ScriptedMeter(Meter):
    """Returns prepared windows, or fails."""

    identity = "scripted"
    voltage_v = 3.0
    shortest_window_s = 0.01

    def __init__(self, *script: Window | MeterError) -> None:
        self._script = list(script)
        self.matched = False  # windows take the length that the device says, at their own power

    def begin(self) -> None:
        pass

    def end(self, marks: Sequence[Mark]) -> list[Window]:
        outcome = self._script.pop(0)
        if isinstance(outcome, MeterError):
            raise outcome
        if self.matched:
            device_s = marks[0].device_s
            outcome = replace(outcome, duration_s=device_s, energy_j=outcome.energy_j / outcome.duration_s * device_s)
        return [outcome]


def timing(repeats: int, _expected_s: float) -> Timing:
    return Timing(0.001 * repeats, repeats, 4, 0, "", 0.0, 0.0)


def test_a_window_with_lost_samples_is_measured_again() -> None:
    good = Window(0.01, 2e-5, samples=1000, period_s=1e-5)
    lossy = Window(0.01, 9e-5, samples=1000, lost=2, period_s=1e-5)
    short = Window(0.005, 9e-5, samples=500, period_s=1e-5)
    meter = ScriptedMeter(lossy, MeterError("no window"), short, good)
    assert measure(timing, Activity.COMPUTE, meter, QUICK).energy_j == pytest.approx(2e-6)


def test_a_meter_that_never_works_ends_the_run_with_its_reason() -> None:
    lossy = Window(0.01, 9e-5, samples=1000, lost=2, period_s=1e-5)
    with pytest.raises(UserError, match=r"scripted: 5 unusable recordings.*0\.20% of the samples lost"):
        measure(timing, Activity.COMPUTE, ScriptedMeter(*[lossy] * 9), QUICK)


def test_windows_are_repeated_until_the_interval_is_narrow() -> None:
    noisy = [Window(0.01, energy, samples=1000, period_s=1e-5) for energy in (1e-5, 2e-5, 3e-5)]
    steady = [Window(0.01, 2e-5, samples=1000, period_s=1e-5)] * 17
    result = measure(timing, Activity.COMPUTE, ScriptedMeter(*noisy, *steady), Effort())
    assert result.repeats == 20 * 10
    assert result.energy_j == pytest.approx(2e-6)
    assert result.energy_j_std > 0
    assert measure(timing, Activity.COMPUTE, ScriptedMeter(*steady), Effort()).repeats == 3 * 10


def test_the_grid_is_canonical_and_covers_every_operator() -> None:
    wanted = grid()
    elsewhere = {"fetch", "store", "commit"} | {op for op in numbers.OPERATORS if op.endswith(numbers.ACCUMULATE)}
    elsewhere -= {"conv2d_backward_input_accumulate", "matmul_accumulate"}  # tiles; single products
    elsewhere |= numbers.OF_BANDS - {"max_pool2d_rows", "max_pool2d_backward_rows", "matmul_rows"}  # plane by plane
    assert {item.op for item in wanted} == {*numbers.OPERATORS, "page_in", "page_out"} - elsewhere
    for item in wanted:
        if not item.is_page:
            assert numbers.params_key(item.op, numbers.parse_params(item.params)) == item.params


def test_a_graph_gives_its_operators_and_page_sizes(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    relu = {"time_s": 0, "energy_j": 0, "op": "pointwise", "params": "size=175 steps=relu(y0,x0)"}
    nodes = [
        {"id": "a", "bytes": 700, **relu},
        {"id": "b", "bytes": 0, **relu},
        {"id": "c", "outputs": [{"id": "c", "bytes": 2600}], **relu},
    ]
    path.write_text(json.dumps({"format": "poet-graph/1", "name": "x", "nodes": nodes, "edges": []}))
    wanted = from_graph(path)
    assert wanted.count(Configuration("pointwise", "size=175 steps=relu(y0,x0)")) == 1
    assert page("page_in", 1024, "sequential") in wanted
    assert page("page_out", 3072, "sequential") in wanted


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "{", "not JSON"),
        ("a.json", '{"format": "poet-graph/2"}', "not a poet-graph/1"),
        ("a.json", '{"format": "poet-graph/1", "nodes": [], "edges": []}', 'nodes" is empty'),
        ("a.csv", "op,params\nfill,n=4\n", "fill: 'size'"),
        ("a.csv", "op,params\nrulu,size=4\n", "unknown operator 'rulu'"),
        ("a.csv", "x,y\n1,2\n", "op, params: columns are missing"),
    ],
)
def test_a_bad_list_of_configurations_is_one_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        from_file(tmp_path / name)


def test_the_verb_writes_a_profile_and_refuses_to_overwrite_it(tmp_path: Path) -> None:
    configs = tmp_path / "c.csv"
    configs.write_text('op,params\npointwise,"size=8 steps=relu(y0,x0)"\npage_in,bytes=512 pattern=sequential\n')
    out = tmp_path / "p.csv"
    common = ["--board", "nrf52840", "--meter", "nominal", "--configs", str(configs), "--out", str(out), "--quick"]
    with serve(SimulatedDevice()) as url:
        result = CliRunner().invoke(app, ["profile", "--port", url, *common])
    assert result.exit_code == 0, result.output
    assert list(read_profile(out)["op"]) == ["idle", "pointwise", "page_in"]
    result = CliRunner().invoke(app, ["profile", "--port", "socket://127.0.0.1:1", *common])
    assert isinstance(result.exception, UserError)
    assert "--resume" in str(result.exception)


def test_the_standard_profile_is_the_models_that_fit_and_the_grid_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, shared = Configuration("pointwise", "size=77 steps=relu(y0,x0)"), grid()[0]
    asked = tmp_path / "asked"
    graph = {"format": "poet-graph/1", "nodes": [_node(item, bytes=308) for item in (model, shared)], "edges": []}
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    program = tmp_path / "poet-plan"
    huge = kept_step()
    huge = replace(huge, kept=(*huge.kept, Kept("table", "constant", 17 << 20, (17 << 18,))))
    write_graph(huge, tmp_path / "huge.json")
    copies = f'cp {tmp_path}/graph.json "$5/some_model.json"\ncp {tmp_path}/huge.json "$5"\n'
    program.write_text(f'#!/bin/sh\necho "$@" > {asked}\n{copies}')
    program.chmod(0o755)
    done, rows = _standard_profile(tmp_path, monkeypatch)
    assert done.exit_code == 0
    assert asked.read_text().split()[:4] == ["models", "--board", "nrf52840", "--graphs"]
    measured = list(zip(rows["op"], rows["params"], strict=True))
    assert measured[1:3] == [(model.op, model.params), (shared.op, shared.params)]
    assert {(item.op, item.params) for item in grid()} < set(measured)
    assert len(set(measured)) == len(measured)
    assert ("pointwise", "size=2 steps=mul(y0,x0,x1)") not in measured


def test_without_the_planner_the_standard_profile_is_the_grid_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, rows = _standard_profile(tmp_path, monkeypatch)
    assert done.exit_code == 0
    assert "only the grid is measured" in done.stderr
    assert "poet-plan is not installed here" in done.stderr
    assert len(rows) == 1 + len(grid())


def test_a_planner_that_fails_is_told_with_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "poet-plan"
    program.write_text("#!/bin/sh\necho torch is missing >&2\nexit 2\n")
    program.chmod(0o755)
    done, _ = _standard_profile(tmp_path, monkeypatch)
    assert done.exit_code == 0
    assert "torch is missing" in done.stderr


def _standard_profile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Result, pd.DataFrame]:
    """A quick profile without a choice, with only the programs in ``folder`` and the system's installed."""
    monkeypatch.setattr("sys.executable", str(folder / "python"))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    out = folder / "p.csv"
    with serve(SimulatedDevice()) as url:
        options = ["--board", "nrf52840", "--port", url, "--meter", "nominal", "--quick", "--out", str(out)]
        done = CliRunner().invoke(app, ["profile", *options])
    return done, read_profile(out)


def _node(item: Configuration, bytes: int) -> dict[str, object]:
    id = f"{item.op} {item.params}"
    return {"id": id, "time_s": 0, "energy_j": 0, "op": item.op, "params": item.params, "bytes": bytes}


def test_no_board_is_one_line_that_names_the_ways_out() -> None:
    result = CliRunner().invoke(app, ["profile", "--board", "nrf52840", "--out", "never-written.csv"])
    assert isinstance(result.exception, UserError)
    assert result.exception.exit_code == 4
    assert all(word in str(result.exception) for word in ("no port found", "ports seen", "--port", "--emulate"))


class SupplyMeter(NominalMeter):
    """A real meter in the supply line, which a card's current passes or does not."""

    source = "measured"

    def __init__(self, card_a: float) -> None:
        super().__init__(BOARD)
        chip_a = BOARD.rails_a.cpu_active
        self._current_a[Activity.IDLE] = BOARD.rails_a.cpu_idle
        self._current_a[Activity.PAGE_IN] = self._current_a[Activity.PAGE_OUT] = chip_a + card_a


@pytest.mark.parametrize(
    ("card_a", "source", "board", "written"),
    [
        (0.0, "measured", "nrf52840", False),
        (2.0e-3, "measured", "nrf52840", False),
        (25e-3, "measured", "nrf52840", True),
        (0.0, "emulated", "nrf52840", True),
        (0.0, "measured", "rpi4b", True),
    ],
)
def test_page_rows_without_the_cards_current_are_refused(
    tmp_path: Path, card_a: float, source: str, board: str, written: bool
) -> None:
    meter = SupplyMeter(card_a)
    meter.source = source
    pages = [item for item in SOME if item.is_page]
    with serve(SimulatedDevice(board=board)) as url, ProfileWriter(tmp_path / "p.csv") as writer:
        profiler = BoardProfiler(device_at(url), meter, load_board(board), QUICK)
        outcome = profiler.run(SOME, writer)
    ops = list(read_profile(tmp_path / "p.csv")["op"])
    assert ("page_in" in ops, "page_out" in ops) == (written, written)
    assert {"idle", "pointwise", "linear"} <= set(ops)
    assert [item for item, _ in outcome.past_the_meter] == ([] if written else pages)
    if not written:
        # The chip itself, awake, draws 2.3 mA more.
        assert outcome.past_the_meter[0][1] == f"{2.3 + card_a * 1e3:.1f} mA more than asleep"


def test_costs_in_place_without_the_cards_current_are_left_out(tmp_path: Path) -> None:
    measured = Measurement(1e-3, 0.0, 1e-3 * BOARD.voltage_v * 2e-3, 0.0, 1, 512, 0)
    costs = {item: measured for item in SOME}
    with serve(SimulatedDevice()) as url, ProfileWriter(tmp_path / "p.csv") as writer:
        profiler = BoardProfiler(device_at(url), SupplyMeter(0.0), BOARD, QUICK)
        assert profiler.take_over(costs, 1e-3, writer) == 4
    assert not {"page_in", "page_out"} & set(read_profile(tmp_path / "p.csv")["op"])


def test_rows_within_a_few_steps_of_the_meter_are_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Asleep the board draws 3.6 mW, awake 6.9 mW more, and with the card at work more than 80."""
    meter = NominalMeter(BOARD)
    meter.power_step_w = 2e-3
    with serve(SimulatedDevice()) as url, ProfileWriter(tmp_path / "p.csv") as writer:
        profiler = BoardProfiler(device_at(url), meter, BOARD, QUICK)
        outcome = profiler.run(SOME, writer)
    rows = read_profile(tmp_path / "p.csv")
    marked = {
        op for op, words in zip(rows["op"], rows["meter"], strict=True) if words.endswith(", fewer than 20 steps")
    }
    assert marked == {"idle", *(item.op for item in SOME if not item.is_page)}
    assert {item.op for item, _ in outcome.coarse} == marked
    assert dict((item.op, words) for item, words in outcome.coarse)["idle"] == "3.6 mW"
    _report(wide_console(), tmp_path / "p.csv", outcome, "measured")
    assert "fewer than 20 steps of the meter" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("temperatures_c", "words"),
    [((47.0, 52.5), "showed 47.0 to 52.5 degrees Celsius"), ((0.0, 0.0), "showed 0.0 degrees Celsius throughout; if")],
)
def test_a_sensor_that_stands_still_is_no_proof_of_a_cool_board(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], temperatures_c: tuple[float, ...], words: str
) -> None:
    _report(wide_console(), tmp_path / "p.csv", Outcome(temperatures_c=temperatures_c), "measured")
    assert words in capsys.readouterr().out


def test_refused_page_rows_name_the_wire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = Outcome(past_the_meter=[(SOME[4], "2.3 mA more than asleep")])
    _report(wide_console(), tmp_path / "p.csv", outcome, "measured")
    said = capsys.readouterr().out
    assert "1 page rows are refused" in said
    assert "P22" in said
    assert "page_in bytes=512 pattern=sequential: 2.3 mA more than asleep" in said


def test_a_program_reads_the_outcome_as_json_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text('op,params\npointwise,"size=8 steps=relu(y0,x0)"\naten.cos,size=8\n')
    files = ["--configs", str(tmp_path / "c.csv"), "--out", str(tmp_path / "new" / "p.csv")]
    with serve(SimulatedDevice()) as url:
        options = ["profile", "--board", "nrf52840", "--port", url, "--meter", "nominal", "--quick", "--json", *files]
        document = json.loads(CliRunner().invoke(app, options).stdout)
    assert document["written"] == len(read_profile(tmp_path / "new" / "p.csv")) == 2
    [[skipped, reason]] = document["skipped"]
    assert skipped == {"op": "aten.cos", "params": "size=8"}
    assert "not in the operator table" in reason


def test_a_model_is_profiled_for_each_number_of_micro_batches() -> None:
    wanted = from_model("digits_cnn_small", "mkr1000")
    assert {numbers.parse_params(item.params)["n"] for item in wanted if item.op == "conv2d"} == {4, 2, 1}
