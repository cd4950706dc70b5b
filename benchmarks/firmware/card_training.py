# SPDX-License-Identifier: Apache-2.0
"""Networks larger than the board, all of whose weights are trained: parameters on the emulated board's card.

    .venv/bin/python -m benchmarks.firmware.card_training [--seconds 60] [--steps 20] [--long] [--out DIR] [MODEL ...]

Each network is planned from the shipped profile, trained in place for a profile of its own, and planned again with
that. Then it trains on an emulated board. `--long` adds networks of which a step takes minutes: they train two. After
each step this is compared:

- loss and all weights with the same kernels on this computer, where everything lies in RAM and nothing is recomputed:
  every bit;
- loss (relative) and all weights (absolute) with a step of PyTorch from the same weights: within 1e-4. Where a weight
  is farther off, most likely an input of a ReLU is zero but for rounding. Then PyTorch's own step must move at least
  half as far, from weights that are each moved by at most eight roundings;
- energy and time of each step but the traced one with the prediction: within 2 %; peak RAM of each: to the byte.

RAM in all is what the firmware takes as the linker placed it (stack, data, tables), the resident tensors, and the arena
up to its highest address. *page-all* is what the simplest policy takes. Exits 1 if anything is off, larger than the
board, or takes more than its goal.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from poet_harness.card.image import prepared_image
from poet_harness.card.reading import weights_in
from poet_harness.data.batches import TrainingData, read_training_data
from poet_harness.firmware import build
from poet_harness.plan_folder.plan import Plan, read_plan
from poet_harness.profiling.configurations import TRANSFERS
from poet_harness.protocol.device import Device
from poet_harness.target.connect import connect
from poet_harness.training.trainer import ObservedStep, Trainer
from poet_planner import models
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.boards import Board, load_board
from poet_profiles.graph import Resident
from poet_profiles.graph.file import read_graph
from poet_profiles.graph.parts import cut_from, joined, name_of
from poet_profiles.profile import read_profile
from rich.console import Console
from rich.table import Table

from benchmarks.firmware.finetuning import call
from benchmarks.firmware.training import RAM_BEGIN, end_of_firmware


@dataclass(frozen=True)
class Case:
    """Of a model: its board, the most energy of a step, whether a step takes the emulator long, and how many steps are
    traced in place: training fills with zeros, and floating point in software is quicker on them.
    """

    board: str
    goal_j: float
    long: bool = False
    traced_steps: int = 1


CASES = {
    "mlperf_resnet8": Case("nrf52840", 0.17),
    "poet_resnet18": Case("nrf52840", 0.60),
    "mlperf_mobilenet_v1": Case("nrf52840", 0.60),
    "bert_2x128": Case("nrf52840", 0.72),
    "cnn_40k": Case("mkr1000", 0.13, traced_steps=5),
    "vgg16_cifar_w16": Case("nrf52840", 4.0, long=True),
    "resnet18_cifar": Case("nrf52840", 20.5, long=True),
}
LONG_STEPS = 2
LEARNING_RATE = 0.01
PYTORCH_TOLERANCE = 1e-4
DRAWS = 24
EIGHT_ROUNDINGS = 2.0**-21
PREDICTION_TOLERANCE = 0.02
KEPT_KINDS = ("parameter", "state")

Tensors = dict[str, NDArray[np.float32]]
Arrays = dict[str, NDArray[Any]]
MOST_ROUNDS = 3
HOST_RAM_BYTES = 1 << 30


@dataclass(frozen=True)
class Trained:
    """``losses`` of the steps; ``weights`` before the first and after each."""

    losses: list[float]
    weights: list[Tensors]


@dataclass(frozen=True)
class OffPyTorch:
    """``loss`` relative, ``weights`` absolute. ``undecided``: of the steps with a weight beyond the tolerance, how many
    PyTorch's own rounding explains; ``unexplained``: how many it does not.
    """

    loss: float
    weights: float
    undecided: int
    unexplained: int


@dataclass(frozen=True)
class OnBoard:
    """The same on the emulated board, what was observed there, and the RAM that the firmware takes."""

    trained: Trained
    observed: list[ObservedStep]
    firmware_bytes: int
    stack_bytes: int


def make_plan(folder: Path, model: str, case: Case, seconds: int, steps: int) -> None:
    """Data, a plan from the shipped profile, a profile in place, the plan from that, and the firmware."""
    planning = ["--model", model, "--parameters", "card"]
    search = ["--time-limit", str(seconds)]
    emulated = ["--board", case.board, "--emulate", "--plan", "plan"]
    training = ["--data", "data.npz", "--lr", str(LEARNING_RATE), "--steps", str(min(steps, case.traced_steps))]
    profiles = ["--profile", "own.csv", "--profile", case.board]
    call(folder, "poet-plan", "data", "--model", model, "--steps", str(steps), "--out", "data.npz")
    call(folder, "poet-plan", *planning, *search, "--profile", case.board, "--out", "plan")
    for _ in range(MOST_ROUNDS):
        call(folder, "poet-harness", "flash", *emulated)
        call(folder, "poet-harness", "profile", *emulated, *training, "--quick", "--resume", "--out", "own.csv")
        call(folder, "poet-plan", *planning, *search, *profiles, "--out", "plan")
        if has_rows_of(folder):
            break
    call(folder, "poet-plan", *planning, *profiles, "--method", "page_all", "--out", "page-all")


def has_rows_of(folder: Path) -> bool:
    """Whether the profile in place has all of the plan's operators: another profile may lead to another form."""
    rows = read_profile(folder / "own.csv")
    known = set(zip(rows["op"], rows["params"], strict=True))
    operations = (node.operation for node in read_graph(folder / "plan/graph.json").nodes if node.operation)
    return all((one.op, one.params) in known for one in operations if one.op not in TRANSFERS)


def on_board(board: Board, headers: Path, plan: Plan, data: TrainingData, steps: int) -> OnBoard:
    image = build(board, headers)
    with (
        prepared_image(None, plan, data, steps) as card,
        connect(board, image=image, emulate=True, card=card) as target,
    ):
        assert card is not None
        trainer = Trainer(target.device, target.meter, plan)
        trained = Trained([], [dict(weights_in(card, plan).tensors)])

        def done(step: ObservedStep) -> None:
            trained.losses.append(step.loss)
            trained.weights.append(dict(weights_in(card, plan).tensors))

        observed = trainer.train(data, LEARNING_RATE, done=done)
        return OnBoard(trained, observed, end_of_firmware(image) - RAM_BEGIN, target.device.stack())


def unlimited(board: Board, folder: Path, model: str, arrays: Arrays, steps: int) -> Trained:
    """Everything in RAM and whole, on this computer."""
    step = training_step(model, None)
    graph = step.graph(board)
    write_headers(graph, store_all_schedule(graph), folder, step.constants(graph))
    host = load_board("native").model_copy(update={"ram_bytes": HOST_RAM_BYTES})
    trained = Trained([], [])
    with connect(host, image=build(host, folder)) as target:
        device = target.device
        for index, resident in enumerate(graph.residents):
            if resident.kind in (*KEPT_KINDS, "constant"):
                device.put(index, cut_from(resident, arrays[name_of(resident)]).tobytes())
        trained.weights.append(weights_of(device, graph.residents))
        for number in range(steps):
            for index, resident in enumerate(graph.residents):
                if resident.kind in ("input", "target"):
                    device.put(index, np.ascontiguousarray(arrays[resident.id][number]).tobytes())
            bits = device.step(LEARNING_RATE, trace=False, expected_s=60.0).loss_bits
            trained.losses.append(float(np.array(bits, np.uint32).view(np.float32)))
            trained.weights.append(weights_of(device, graph.residents))
    return trained


def weights_of(device: Device, residents: tuple[Resident, ...]) -> Tensors:
    """Whole, by their names in the network."""
    parts = {
        resident.id: np.frombuffer(device.get(index, resident.bytes), np.float32).reshape(resident.shape)
        for index, resident in enumerate(residents)
        if resident.kind in KEPT_KINDS
    }
    return joined(residents, parts)


def off_pytorch(model: str, arrays: Arrays, trained: Trained) -> OffPyTorch:
    """Each step against a step of PyTorch from the same weights."""
    losses, weights, beyond = [], [], {True: 0, False: 0}
    for number, loss in enumerate(trained.losses):
        before = trained.weights[number]
        batch = {name: arrays[name][number] for name in ("input", "target")}
        exact_loss, exact = pytorch_step(model, before, batch)
        losses.append(abs(loss / exact_loss - 1))
        weights.append(largest_difference(trained.weights[number + 1], exact))
        if weights[-1] > PYTORCH_TOLERANCE:
            beyond[weights[-1] / 2 <= own_spread(model, before, batch, exact)] += 1
    return OffPyTorch(max(losses), max(weights), undecided=beyond[True], unexplained=beyond[False])


def own_spread(model: str, weights: Tensors, batch: Arrays, exact: Tensors) -> float:
    """How far PyTorch's step moves at most where each weight before it moves by at most eight roundings."""
    random = np.random.default_rng(0)

    def moved(array: NDArray[np.float32]) -> NDArray[np.float32]:
        return (array * (1 + EIGHT_ROUNDINGS * random.uniform(-1, 1, array.shape))).astype(np.float32)

    draws = ({name: moved(array) for name, array in weights.items()} for _ in range(DRAWS))
    return max(largest_difference(pytorch_step(model, draw, batch)[1], exact) for draw in draws)


def pytorch_step(model: str, weights: Tensors, batch: Arrays) -> tuple[float, Tensors]:
    """Loss of a step, and the weights after it."""
    loaded = models.load(model)
    module = loaded.module.train()
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    optimizer = torch.optim.SGD(module.parameters(), LEARNING_RATE)
    with torch.no_grad():
        for name, array in weights.items():
            state[name].copy_(torch.from_numpy(array.copy()))
    loss = loaded.loss(module(torch.from_numpy(batch["input"])), torch.from_numpy(batch["target"]).long())
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.item(), {name: state[name].detach().numpy() for name in weights}


def largest_difference(found: Tensors, exact: Tensors) -> float:
    return max(float(np.abs(found[name] - exact[name]).max()) for name in found)


def differing(ours: Trained, theirs: Trained) -> list[str]:
    """What has another bit than the host has: losses, and weights after a step."""
    losses = [f"loss {n}" for n, pair in enumerate(zip(ours.losses, theirs.losses, strict=True)) if len({*pair}) > 1]
    return losses + [
        f"{name} after {number}"
        for number, pair in enumerate(zip(ours.weights, theirs.weights, strict=True))
        for name in {**pair[0], **pair[1]}
        if name not in pair[0] or name not in pair[1] or pair[0][name].tobytes() != pair[1][name].tobytes()
    ]


def off_prediction(plan: Plan, observed: list[ObservedStep]) -> float:
    """How far energy and time of an untraced step are off at most."""
    pairs = [
        pair
        for step in observed
        if not step.actions
        for pair in ((step.report.work_s, plan.schedule.time_s), (step.energy_j or 0.0, plan.schedule.energy_j))
    ]
    return max(abs(seen / predicted - 1) for seen, predicted in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(CASES))
    parser.add_argument("--seconds", type=int, default=60, help="to plan for, each time")
    parser.add_argument(
        "--steps", type=int, default=20, help=f"to train; networks of --long train {LONG_STEPS} at most"
    )
    parser.add_argument("--long", action="store_true", help="networks of which a step takes minutes, too")
    parser.add_argument("--out", type=Path, help="where to keep the plans; those that are there are taken")
    options = parser.parse_args()
    table = Table(
        *("model", "board", "kept", "RAM in all", "firmware", "stack", "energy, J", "goal", "page-all", "gap"),
        *("time, s", "off prediction", "loss, weights off PyTorch", "steps rounding decides", "other bits"),
        title=f"all weights trained, {options.steps} steps, of --long {LONG_STEPS} (emulated)",
    )
    good = True
    with tempfile.TemporaryDirectory() as scratch:
        for model in options.models or [name for name, case in CASES.items() if options.long or not case.long]:
            case = CASES[model]
            board = load_board(case.board)
            steps = min(options.steps, LONG_STEPS) if case.long else options.steps
            folder = (options.out or Path(scratch)).resolve() / model
            if not (folder / "page-all" / "summary.json").exists():
                folder.mkdir(parents=True, exist_ok=True)
                make_plan(folder, model, case, options.seconds, steps)
            plan = read_plan(folder / "plan")
            data = read_training_data(folder / "data.npz", plan, steps)
            arrays = dict(np.load(folder / "data.npz"))
            found = on_board(board, folder / "plan", plan, data, steps)
            other_bits = differing(found.trained, unlimited(board, Path(scratch), model, arrays, steps))
            pytorch = off_pytorch(model, arrays, found.trained)
            prediction = off_prediction(plan, found.observed)
            last = found.observed[-1]
            energy_j = last.energy_j or 0.0
            summary, policy = (
                json.loads((folder / name / "summary.json").read_text()) for name in ("plan", "page-all")
            )
            used = found.firmware_bytes + summary["resident_bytes"] + summary["arena_bytes"]
            good &= not other_bits and pytorch.loss <= PYTORCH_TOLERANCE and not pytorch.unexplained
            good &= prediction <= PREDICTION_TOLERANCE
            good &= used <= board.ram_bytes and energy_j <= case.goal_j
            table.add_row(
                *(model, case.board, f"{summary['kept_bytes']:,}", f"{used:,} of {board.ram_bytes:,}"),
                *(
                    f"{found.firmware_bytes:,}",
                    f"{found.stack_bytes:,}",
                    f"{energy_j:.4f}",
                    f"{case.goal_j:g}",
                    f"{policy['energy_j']:.3f}",
                ),
                *(f"{summary['gap']:.1%}", f"{last.report.work_s:.3f}", f"{prediction:.2%}"),
                f"{pytorch.loss:.0e}, {pytorch.weights:.0e}",
                *(f"{pytorch.undecided}, other {pytorch.unexplained}", other_bits[0] if other_bits else "none"),
            )
    Console(width=220).print(table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
