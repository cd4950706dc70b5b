# SPDX-License-Identifier: Apache-2.0
"""Profiling a Linux board under PyTorch: the agent itself, in this process, at the other end of a line with faults."""

from __future__ import annotations

import json
import platform
import random
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from poet_harness.cli import app
from poet_harness.measuring.measure import Effort
from poet_harness.meters.meter import Activity, Mark, Meter, Window
from poet_harness.plan_folder.plan import read_plan
from poet_harness.ports import open_port
from poet_harness.profiling.agent_profiler import OVERHEAD, AgentProfiler, Placement
from poet_harness.profiling.configurations import Configuration
from poet_harness.profiling.network import Network, PlacedOperator, from_plan
from poet_harness.protocol.device import Device
from poet_harness.protocol.link import Link, Patience
from poet_harness.target.connect import connect
from poet_harness.training.ready import make_ready
from poet_planner import models
from poet_planner.costs.cost_model import CostModel
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.training_data import reference_run, training_data, write_arrays
from poet_profiles.boards import load_board
from poet_profiles.errors import NO_DEVICE, UserError
from poet_profiles.graph.file import read_graph
from poet_profiles.profile import ProfileWriter, read_profile
from poet_profiles.schedule.file import write_schedule
from poet_runtime.agent.operands import random_residents
from poet_runtime.agent.placement import PlainStep
from poet_runtime.program import program_from_document
from safetensors.numpy import load_file
from typer.testing import CliRunner, Result

from tests.support.harness.served_agent import ServedAgent
from tests.support.harness.simulated_device import Line, Noise, clean, serve
from tests.support.networks.small_program import BATCH, MODEL, write_small_program
from tests.support.programs import poet_harness

pytestmark = pytest.mark.usefixtures("one_thread")

HOST = load_board("host")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    write_small_program(folder)
    return folder


def profile(plan: Path, out: Path, *options: str) -> Result:
    arguments = ["profile", "--board", "host", "--meter", "nominal", "--plan", str(plan), "--out", str(out), "--quick"]
    return CliRunner().invoke(app, [*arguments, *options], env={"COLUMNS": "400"})


def served(agent: ServedAgent, plan: Path, out: Path, *options: str, lines: tuple[Line, Line] = (clean, clean)) -> str:
    """What the harness prints, profiling an agent behind a line."""
    with serve(agent, *lines) as url:
        done = profile(plan, out, "--port", url, "--no-pages", *options)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def keys(path: Path) -> list[tuple[str, str]]:
    return [*read_profile(path)[["op", "params"]].itertuples(index=False, name=None)]


@pytest.fixture(scope="module")
def undisturbed(plan: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, int]:
    """The rows of a run that nothing disturbed, and how many bytes went to the board."""
    folder = tmp_path_factory.mktemp("whole")
    agent = ServedAgent(folder)
    assert "its rows add up to" in served(agent, plan, folder / "p.csv")
    return read_profile(folder / "p.csv"), agent.received_bytes


@pytest.fixture(scope="module")
def whole(undisturbed: tuple[pd.DataFrame, int]) -> pd.DataFrame:
    return undisturbed[0]


def test_every_operator_of_the_step_has_a_row_and_each_row_says_how_it_came_about(
    plan: Path, whole: pd.DataFrame
) -> None:
    graph = json.loads((plan / "graph.json").read_text())
    wanted = {(node["op"], node["params"]) for node in graph["nodes"] if "op" in node}
    rows = whole.set_index(["op", "params"])
    assert set(rows.index) == wanted | {("idle", ""), ("overhead", ""), ("step", f"graph={from_plan(plan).graph_hash}")}
    assert (rows["time_s"] > 0).all()
    assert set(rows["source"]) == {"measured"}
    assert set(rows["meter"]) == {"no sensor: energy by the power states of host.toml"}
    assert all("torch" in firmware and "threads" in firmware for firmware in rows["firmware"])
    operators = rows.loc[sorted(wanted)]
    assert set(operators["where"]) == {"place"}
    assert {json.loads(call)["op"].split("::")[0] for call in operators["call"]} == {"aten"}


def test_workspaces_are_the_boards_own_and_a_plan_is_made_with_them(plan: Path, whole: pd.DataFrame) -> None:
    graph = read_graph(plan / "graph.json")
    other = replace(graph, nodes=tuple(replace(node, workspace_bytes=10**6) for node in graph.nodes))
    planned = CostModel(whole).apply(other).graph
    rows = whole.set_index(["op", "params"])["workspace_bytes"]
    assert rows.max() > 0
    for node in planned.nodes:
        if node.operation is not None:
            assert node.workspace_bytes == rows[node.operation.op, node.operation.params]


def test_energies_without_a_sensor_are_the_board_files_powers(whole: pd.DataFrame) -> None:
    above_idle_w = HOST.voltage_v * (HOST.rails_a.cpu_active - HOST.rails_a.cpu_idle)
    computed = whole[whole["op"] != "idle"]
    assert computed["energy_j"].to_numpy() == pytest.approx(above_idle_w * computed["time_s"].to_numpy(), rel=1e-5)
    assert whole["idle_power_w"].to_numpy() == pytest.approx(HOST.voltage_v * HOST.rails_a.cpu_idle)


def test_the_closing_error_is_what_a_plan_would_add_up(plan: Path, whole: pd.DataFrame) -> None:
    graph = json.loads((plan / "graph.json").read_text())
    times = whole.set_index(["op", "params"])["time_s"]
    program = {operator["id"] for operator in json.loads((plan / "program.json").read_text())["operators"]}
    nodes = [node for node in graph["nodes"] if node["id"] in program]
    total_s = sum(times[node["op"], node["params"]] + times["overhead", ""] for node in nodes)
    last = whole.iloc[-1]
    assert last["op"] == "step"
    assert last["closing_time"] == pytest.approx(total_s / last["time_s"], rel=1e-5)
    assert whole["closing_time"].iloc[:-1].isna().all()
    assert whole["closing_energy"].isna().all(), "nobody has measured any energy"


def test_this_computer_is_profiled_by_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is traced by poet-plan, and the agent is started here; pages are those of the current folder's disk."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profile.py").write_text("raise RuntimeError('of the user')")  # PyTorch imports Python's own, later
    monkeypatch.setattr("poet_harness.profiling.agent_profiler.PAGE_SIZES", (4096, 65536, 2**20, 2**21))
    arguments = ["profile", "--board", "host", "--meter", "nominal", "--model", MODEL, "--quick", "--threads", "1"]
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    rows = read_profile(tmp_path / "host.csv")
    assert [*rows["op"]].count("page_in") == [*rows["op"]].count("page_out") == 4
    assert set(rows["source"]) == {"measured"}
    assert all(", threads 1, " in firmware for firmware in rows["firmware"])
    printed = json.loads(done.stdout)
    assert printed["closings"][0]["network"] == MODEL
    assert printed["written"] == len(rows)
    assert {path.name for path in tmp_path.iterdir()} == {"host.csv", "profile.py"}
    for options, words in (
        (["--port", "socket://x:1", "--threads", "2"], "--threads: is for the agent on this computer"),
        (["--data", "data.npz"], "--data: host is profiled on random data"),
        (["--emulate"], "only microcontrollers are emulated"),
    ):
        refused = CliRunner().invoke(app, ["profile", "--board", "host", "--out", "other.csv", *options])
        assert words in str(refused.exception)


def test_resets_and_a_line_that_loses_bytes_leave_the_same_rows(
    plan: Path, whole: pd.DataFrame, tmp_path: Path
) -> None:
    agent = ServedAgent(tmp_path, resets_before=(5, 41))
    noise = Noise(0.0006, seed=3), Noise(0.0006, seed=4)
    printed = served(agent, plan, tmp_path / "p.csv", lines=noise)
    assert keys(tmp_path / "p.csv") == [*whole[["op", "params"]].itertuples(index=False, name=None)]
    assert "the board was reset 2 times" in printed
    assert agent.verbs.count("hello") == 3
    assert noise[0].damaged and noise[1].damaged


SSH = """#!{python} -S
import os, select, socket
line, left = socket.create_connection(("127.0.0.1", {port})), {count}
while left:
    for end in select.select([0, line], [], [])[0]:
        data = os.read(0, left) if end == 0 else line.recv(4096)
        if not data:
            raise SystemExit
        if end == 0:
            line.sendall(data)
            left -= len(data)
        else:
            os.write(1, data)
"""


def test_an_ssh_connection_that_is_cut_ends_in_one_line_and_resume_goes_on(
    plan: Path, undisturbed: tuple[pd.DataFrame, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for ssh, whose first connection ends a little before the run does, and the agent with it."""
    whole, sent_bytes = undisturbed
    shim, out = tmp_path / "ssh", tmp_path / "p.csv"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for count, resumed in ((sent_bytes - 150, []), (2**30, ["--resume"])):
        with serve(ServedAgent(tmp_path)) as url:
            shim.write_text(SSH.format(python=sys.executable, port=url.rpartition(":")[2], count=count))
            shim.chmod(0o755)
            done = profile(plan, out, "--port", "ssh://pi@far", "--no-pages", *resumed)
        if not resumed:
            assert isinstance(done.exception, UserError)
            assert done.exception.exit_code == NO_DEVICE
            assert "the port is gone" in str(done.exception) and "with --resume" in str(done.exception)
            assert 1 < len(keys(out)) < len(whole), "it was cut in the middle of the rows"
    assert done.exit_code == 0, done.output
    assert sorted(keys(out)) == sorted(whole[["op", "params"]].itertuples(index=False, name=None))


def test_a_run_that_is_ended_goes_on_with_the_rows_that_are_there(
    plan: Path, whole: pd.DataFrame, tmp_path: Path
) -> None:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    out, codes = tmp_path / "p.csv", []
    given = ["profile", "--board", "host", "--meter", "nominal", "--plan", str(plan), "--out", str(out), "--quick"]
    agent = ServedAgent(tmp_path)
    served(agent, plan, tmp_path / "all.csv")
    for ends_at, resumed in ((len(agent.verbs) - 9, []), (None, ["--resume"])):
        with serve(ServedAgent(tmp_path, terminates_at=ends_at)) as url:
            codes.append(poet_harness(*given, "--no-pages", "--port", url, *resumed))
        if ends_at:
            first = read_profile(out)
            assert 1 < len(first) < len(whole), "it ended in the middle of the rows"
    signal.signal(signal.SIGTERM, before)
    assert codes == [128 + signal.SIGTERM, 0]
    assert keys(out) == [*whole[["op", "params"]].itertuples(index=False, name=None)]
    pd.testing.assert_frame_equal(read_profile(out).iloc[: len(first)], first)


def test_a_tensor_travels_in_long_lines_and_arrives_whole_over_a_line_that_loses_bytes(
    plan: Path, tmp_path: Path
) -> None:
    network = from_plan(plan)
    residents = json.loads((plan / "program.json").read_text())["residents"]
    sizes = [resident["bytes"] if resident["kind"] == "parameter" else 0 for resident in residents]
    index, size = max(enumerate(sizes), key=lambda entry: entry[1])
    data = random.Random(1).randbytes(size)
    for lines in ((clean, clean), (Noise(0.0001, seed=1), Noise(0.0001, seed=2))):
        agent = ServedAgent(tmp_path)
        with serve(agent, *lines) as url:
            device = Device(Link(open_port(url, 1), url, Patience(acknowledge_s=0.1, answer_s=0.5)))
            device.load(network.program)
            device.put(index, bytes(size))
            device.put(index, data)
            assert device.get(index, size) == data
            device.link.close()
        if lines[0] is clean:
            assert agent.verbs.count("get") == -(-size // 2014)


@pytest.fixture(scope="module")
def scheduled(plan: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan with a schedule, and data for three steps."""
    folder = tmp_path_factory.mktemp("scheduled")
    for name in ("graph.json", "program.json"):
        (folder / name).write_text((plan / name).read_text())
    write_schedule(store_all_schedule(read_graph(plan / "graph.json")), folder / "schedule.json")
    write_arrays(training_data(MODEL, 3, 0, BATCH), folder / "data.npz")
    return folder


def run(folder: Path, *options: str) -> Result:
    verb = "train" if "--samples" in options else "run"
    given = [verb, "--board", "host", "--meter", "nominal", "--plan", str(folder), "--data", str(folder / "data.npz")]
    return CliRunner().invoke(app, [*given, *options], env={"COLUMNS": "400"})


def test_an_agent_begins_with_weights_from_a_file_and_keeps_none(scheduled: Path, tmp_path: Path) -> None:
    given, out = tmp_path / "given.pt", tmp_path / "w.safetensors"
    torch.save(models.load(MODEL, seed=5).module.state_dict(), given)
    write_arrays(training_data(MODEL, 1, 0, BATCH, weights=given), tmp_path / "data.npz")
    found = []
    for options in (["--weights", str(given)], ["--data", str(tmp_path / "data.npz")]):
        with serve(ServedAgent(tmp_path)) as url:
            done = run(scheduled, "--port", url, "--steps", "1", "--lr", "0.1", "--trained", str(out), *options)
        assert done.exit_code == 0, done.output
        found.append(load_file(out))
    assert found[0].keys() == found[1].keys()
    assert all(np.array_equal(array, found[1][name]) for name, array in found[0].items())
    begun = np.load(scheduled / "data.npz")
    assert not all(np.allclose(array, begun[name], atol=1e-3) for name, array in found[0].items())
    done = CliRunner().invoke(app, ["weights", "--plan", str(scheduled), "--board", "host", "--out", str(out)])
    assert "which keeps no weights; poet-harness run --trained writes them" in str(done.exception)


@pytest.mark.parametrize(("resets", "rate"), [((), 0.0), ((60,), 0.0003)])
def test_a_plan_is_run_on_the_agent_with_the_bits_of_eager_pytorch(
    scheduled: Path, tmp_path: Path, resets: tuple[int, ...], rate: float
) -> None:
    agent = ServedAgent(tmp_path, resets_before=resets)
    out, saved, weights = (str(tmp_path / name) for name in ("o.csv", "s.npz", "w.safetensors"))
    files = ["--out", out, "--save", saved, "--trained", weights]
    with serve(agent, Noise(rate, seed=5), Noise(rate, seed=6)) as url:
        done = run(scheduled, "--port", url, "--steps", "3", "--lr", "0.1", *files)
    assert done.exit_code == 0, done.output
    assert agent.verbs.count("hello") == 1 + len(resets)
    found = np.load(tmp_path / "s.npz")
    expected = reference_run(MODEL, scheduled / "data.npz", 0.1)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert np.array_equal(found[name], array), name
    start = np.load(scheduled / "data.npz")
    for name, trained in load_file(tmp_path / "w.safetensors").items():
        assert trained == pytest.approx(start[name] - 0.1 * expected[f"{name}.grad"].sum(axis=0), abs=1e-6)
    rows = pd.read_csv(tmp_path / "o.csv")
    actions = len(json.loads((scheduled / "schedule.json").read_text())["steps"])
    assert [*rows["do"]].count("step") == 3
    assert len(rows) == actions + 3
    assert set(rows["source"]) == {"measured"}
    assert rows["observed_peak_bytes"].iloc[0] == rows["observed_peak_bytes"].iloc[1 : actions + 1].max()
    assert "no sensor: energy by the power states of host.toml" in done.output


def test_epochs_on_an_agent_that_is_started_anew_and_goes_on_have_the_same_bits(
    scheduled: Path, tmp_path: Path
) -> None:
    x = np.random.default_rng(1).integers(0, 17, (9, 1, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "small.npz", x=x, y=np.arange(9))
    np.savez(tmp_path / "set.npz", x=x.astype("f4") * np.float32(1 / 16), y=np.arange(9))
    found = {}
    for name, samples, resets, commands in (
        ("whole", ["set.npz"], (), (["--epochs", "2"],)),
        ("rough", ["small.npz", "--scale", "1/16"], (60,), (["--epochs", "1"], ["--epochs", "2", "--resume"])),
    ):
        for options in commands:
            given = ["--samples", str(tmp_path / samples[0]), *samples[1:], "--shuffle", "1", "--lr", "0.1"]
            given += [
                "--folder",
                str(tmp_path / name),
                "--trained",
                str(tmp_path / f"{name}-{len(options)}.safetensors"),
            ]
            with serve(ServedAgent(tmp_path, resets_before=() if "--resume" in options else resets)) as url:
                done = run(scheduled, "--port", url, *given, *options)
            assert done.exit_code == 0, done.output
        found[name] = load_file(tmp_path / f"{name}-{len(commands[-1])}.safetensors")
    assert all(np.array_equal(found["rough"][name], array) for name, array in found["whole"].items())
    with serve(ServedAgent(tmp_path)) as url:
        done = run(scheduled, "--port", url, "--samples", str(tmp_path / "set.npz"), "--epochs", "1", "--to-card")
    assert "--to-card: a Linux board has no card of poet's" in str(done.exception)


def test_what_an_agent_cannot_do_in_a_run_is_refused(scheduled: Path, plan: Path, tmp_path: Path) -> None:
    for options, words in (
        (["--board", "nrf52840", "--emulate"], "is for a Linux board, under PyTorch; plan with a profile of nrf52840"),
        (["--resume"], "--resume: host keeps no weights"),
        (["--commit-every", "2"], "--commit-every: host keeps no weights"),
        (["--port", "socket://x:1", "--threads", "2"], "--threads: is for the agent on this computer"),
        (["--steps", "4"], "holds 3 batches, --steps asks for 4"),
    ):
        assert words in str(run(scheduled, *options).exception)
    document = json.loads((scheduled / "program.json").read_text())
    inputs = next(resident for resident in document["residents"] if resident["kind"] == "input")
    folder = tmp_path / "other"
    shutil.copytree(scheduled, folder)
    for change, words in (
        ({"dtype": "bfloat16"}, "is of bfloat16, which no .npz holds"),
        ({"stride": [1]}, "does not lie in one piece"),
        (
            {"dtype": "float64", "bytes": 2 * inputs["bytes"]},
            "is float32 of shape (3, 4, 1, 8, 8), the plan reads float64",
        ),
    ):
        residents = [{**r, **change} if r["id"] == inputs["id"] else r for r in document["residents"]]
        (folder / "program.json").write_text(json.dumps({**document, "residents": residents}))
        assert words in str(run(folder).exception)
    (folder / "program.json").write_text(json.dumps({**document, "residents": [7]}))
    assert "its residents are none" in str(run(folder).exception)


def test_pages_in_ram_are_told_of_before_and_in_every_row(
    scheduled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's folder is where ``ram_disk`` is told that it is one."""
    monkeypatch.setattr("poet_runtime.agent.verbs.ram_disk", lambda folder: "zram0" if folder == tmp_path else "")
    (tmp_path / "c.csv").write_text("op,params\npage_out,bytes=4096 pattern=sequential\n")
    asked = ["--configs", str(tmp_path / "c.csv"), "--json"]
    with serve(ServedAgent(tmp_path)) as first:
        done = profile(scheduled, tmp_path / "p.csv", "--port", first, *asked)
    with serve(ServedAgent(tmp_path)) as second:
        trained = run(scheduled, "--port", second, "--steps", "1", "--out", str(tmp_path / "o.csv"))
    for told, url in ((done, first), (trained, second)):
        assert told.exit_code == 0, told.output
        assert f"{url}, --pages there: lies in RAM (zram0)" in told.stderr.splitlines()[0]
    assert json.loads(done.stdout)["meter"].endswith("pages in RAM (zram0)")
    rows = read_profile(tmp_path / "p.csv")
    assert (rows["op"] == "page_out").any()
    assert rows["meter"].str.endswith("pages in RAM (zram0)").all()
    assert rows["firmware"].str.endswith("ram_disk zram0").all()
    assert pd.read_csv(tmp_path / "o.csv")["firmware"].str.endswith("ram_disk zram0").all()


def test_a_plan_of_firmware_and_an_agent_do_not_go_together(scheduled: Path, tmp_path: Path) -> None:
    plan = read_plan(scheduled)
    with serve(ServedAgent(tmp_path)) as url:
        device = Device(Link(open_port(url, 1), url))
        with pytest.raises(UserError, match="runs poet-agent, and the plan is one for firmware"):
            make_ready(device, replace(plan, documents=()))
        make_ready(device, plan)
        assert (device.hello.model, device.hello.schedule) == (plan.graph_hash, plan.schedule_hash)
        device.hello = replace(device.hello, framework=())
        with pytest.raises(UserError, match="runs firmware, and the plan is one for PyTorch, by poet-agent"):
            make_ready(device, plan)
        device.link.close()


class SteadyMeter(Meter):
    """A sensor that shows 0.5 W asleep and 2.5 W at work, and needs short windows."""

    identity, voltage_v, shortest_window_s = "steady", 5.0, 0.001

    def begin(self) -> None:
        pass

    def end(self, marks: Sequence[Mark]) -> list[Window]:
        powers = {Activity.IDLE: 0.5}
        return [Window(m.device_s, m.device_s * powers.get(m.activity, 2.5), samples=10) for m in marks]


def test_with_a_sensor_energy_is_power_in_the_window_times_time_in_place(plan: Path, tmp_path: Path) -> None:
    agent = ServedAgent(tmp_path)
    network = from_plan(plan)
    with serve(agent) as url, ProfileWriter(tmp_path / "p.csv") as writer:
        device = Device(Link(open_port(url, 1), url))
        outcome = AgentProfiler(device, SteadyMeter(), HOST, Effort(fewest=1, most=1), [network]).run([], writer)
        device.link.close()
    rows = read_profile(tmp_path / "p.csv")
    computed = rows[rows["op"] != "idle"]
    assert computed["energy_j"].to_numpy() == pytest.approx(2.0 * computed["time_s"].to_numpy(), rel=1e-5)
    [closing] = outcome.closings
    assert closing.energy == pytest.approx(closing.time, rel=1e-5)
    assert agent.verbs.count("call") == 2 * len(network.places)
    assert (OVERHEAD.op, "") in keys(tmp_path / "p.csv")


@pytest.mark.skipif(platform.machine().startswith(("aarch64", "arm")), reason="this computer could be one")
def test_another_computer_at_the_port_is_not_taken_for_the_board(plan: Path, tmp_path: Path) -> None:
    with serve(ServedAgent(tmp_path)) as url, pytest.raises(UserError, match=r"is no rpi5 \(cortex-a76\)"):
        connect(load_board("rpi5"), url, meter="nominal")


def test_a_plan_that_is_none_of_an_agents_is_refused(plan: Path, tmp_path: Path) -> None:
    for name in ("graph.json", "program.json"):
        (tmp_path / name).write_text((plan / name).read_text())
    document = json.loads((plan / "program.json").read_text())
    for change, words in (
        ({"graph_hash": "0" * 16}, "belongs to another graph"),
        ({"operators": [*document["operators"][:-1], {"id": "other"}]}, "its operators are not the graph's"),
        ({"format": "poet-program/2"}, "not a poet-program/1"),
    ):
        (tmp_path / "program.json").write_text(json.dumps({**document, **change}))
        with pytest.raises(UserError, match=words):
            from_plan(tmp_path)
    (tmp_path / "program.json").unlink()
    with pytest.raises(UserError, match=r"program\.json: cannot be read"):
        from_plan(tmp_path)


def test_a_network_that_the_board_cannot_run_is_listed_and_the_rest_is_measured(plan: Path, tmp_path: Path) -> None:
    folder = tmp_path / "plan"
    folder.mkdir()
    (folder / "graph.json").write_text((plan / "graph.json").read_text())
    document = json.loads((plan / "program.json").read_text())
    document["operators"][0]["op"] = "aten::of_a_newer_pytorch.default"
    (folder / "program.json").write_text(json.dumps(document))
    printed = served(ServedAgent(tmp_path), folder, tmp_path / "p.csv")
    assert "there is no operator aten::of_a_newer_pytorch.default in this PyTorch" in printed
    assert keys(tmp_path / "p.csv") == [("idle", "")]


def test_operators_of_a_step_larger_than_the_boards_ram_are_measured_by_themselves(
    plan: Path, whole: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = program_from_document(json.loads((plan / "program.json").read_text())).graph
    needed = PlainStep(graph, random_residents(graph)).peak_bytes
    monkeypatch.setattr("poet_runtime.agent.system.available_bytes", lambda: needed - 1)
    monkeypatch.setattr("poet_runtime.agent.calls.store_all_steps", None)
    printed = served(ServedAgent(tmp_path), plan, tmp_path / "p.csv")
    assert f"the step needs {needed} B, of which {needed - 1} are free on the board" in printed
    rows = read_profile(tmp_path / "p.csv").set_index(["op", "params"])
    in_step = whole[~whole["op"].isin(["step", "overhead"])].set_index(["op", "params"])
    assert set(rows.index) == set(in_step.index) and set(rows["where"]) == {"loop"}
    assert rows["workspace_bytes"].to_dict() == in_step["workspace_bytes"].to_dict()
    costed = CostModel(rows.reset_index()).apply(read_graph(plan / "graph.json")).graph
    assert any(node.workspace_bytes for node in costed.nodes)
    for key, call in rows["call"].items():
        assert key[0] == "idle" or json.loads(call)["op"] == json.loads(in_step["call"][key])["op"]


def test_times_in_place_add_up_to_the_median_step() -> None:
    """Another operator is slow in each step, so that every median is 1 s and every step 6 s."""
    operators = tuple(PlacedOperator(Configuration(f"aten.{name}", ""), 0) for name in "abc")
    network = Network("net", "0" * 16, b"", operators)
    placement = Placement([[4.0, 1.0, 1.0], [1.0, 4.0, 1.0], [1.0, 1.0, 4.0]], workspaces_bytes=[0, 0, 0])
    assert [placement.measurement(network, item).time_s for item in network.places] == pytest.approx([2.0, 2.0, 2.0])
