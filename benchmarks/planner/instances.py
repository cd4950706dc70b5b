# SPDX-License-Identifier: Apache-2.0
"""What is planned: suites of instances, each a graph, a RAM budget, a deadline, and whether there is storage."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.instance import Problem as SearchProblem
from poet_planner.solve.instance import build_problem
from poet_profiles.graph import Graph
from poet_profiles.graph.file import read_graph
from poet_profiles.graph.sizes import smallest_ram_bytes

from benchmarks.planner.layered import layered_graph

PAPER_GRAPHS = Path(__file__).parent / "paper-graphs"
PROTOTYPES = Path(__file__).parent / "prototypes.csv"
NETWORKS = ("linear", "transformer", "vgg16_cifar", "vgg16", "resnet18", "resnet18_cifar", "bert", "resnet50")
BOARDS = ("m0", "m4", "a72")
SHARES = ("90%", "75%", "60%", "50%", "40%", "30%", "20%", "smallest")

LAYERED_NODES = (500, 1000, 2000)
LAYERED_WIDTHS = {"narrow": 4, "wide": 50}

# Which built-in models are traced for which shipped profile.
TRACED = {
    "m0": ("digits_cnn_small", "mlperf_autoencoder", "mlperf_ds_cnn", "mlperf_resnet8"),
    "m4": (
        *("digits_cnn", "mlperf_autoencoder", "mlperf_ds_cnn", "mlperf_mobilenet_v1", "mlperf_resnet8"),
        *("resnet18_cifar", "vgg16_cifar"),
    ),
    "a72": ("resnet18", "vgg16", "mobilenet_v2", "unet", "gpt_small", "bert_base", "resnet50"),
    "tx2": ("resnet18", "vgg16", "mobilenet_v2", "unet", "gpt_small", "bert_base", "resnet50"),
}

# A model, its batch and a profile, and the RAM: where starts that only recompute found nothing, and an order fits.
STEPS = (
    *(("resnet18_cifar-32.a72", "98873832B"), ("resnet18_cifar-32.a72", "97384180B")),
    *(("resnet18_cifar-64.a72", "101418208B"), ("resnet18_cifar-64.a72", "95831592B")),
)


# Where RAM holds three to ten large values and pages are dear: a model's batch of one on the nRF52840, and its RAM.
TIGHT = (
    *(("mlperf_resnet8", "40%"), ("mlperf_resnet8", "smallest")),
    *(("resnet18_cifar", "20%"), ("resnet18_cifar", "smallest")),
    *(("mlperf_resnet8.card", "board"), ("poet_resnet18.card", "board"), ("mlperf_mobilenet_v1.card", "board")),
)


@dataclass(frozen=True)
class Instance:
    """One problem to plan.

    Attributes
    ----------
    suite : str
        Which also says how ``graph`` is to be had.
    ram : str
        A share of the store-all schedule's peak, "smallest" for the largest working set, "board", or bytes ("100B").
    deadline : str
        A multiple of the store-all schedule's time ("2x"), or "none".
    """

    suite: str
    graph: str
    ram: str
    deadline: str
    paging: bool


@dataclass(frozen=True)
class Loaded:
    """An instance in figures."""

    graph: Graph
    ram_bytes: int
    deadline_s: float | None


def suite(name: str) -> list[Instance]:
    """The instances of a suite, in an order that does not change."""
    return list(SUITES[name]())


def load(instance: Instance) -> Loaded:
    """The instance's graph, bytes and seconds."""
    graph, board_bytes = _graph(instance.suite, instance.graph)
    store_all = store_all_schedule(graph)
    if instance.ram == "board":
        ram_bytes = board_bytes
    elif instance.ram == "smallest":
        ram_bytes = smallest_ram_bytes(graph)
    elif instance.ram.endswith("%"):
        ram_bytes = int(store_all.peak_bytes * float(instance.ram[:-1]) / 100)
    else:
        ram_bytes = int(instance.ram[:-1])
    deadline_s = None if instance.deadline == "none" else store_all.time_s * float(instance.deadline[:-1])
    return Loaded(graph, ram_bytes, deadline_s)


def load_problem(instance: Instance) -> SearchProblem:
    """The instance as the search sees it."""
    loaded = load(instance)
    return build_problem(loaded.graph, loaded.ram_bytes, loaded.deadline_s, instance.paging)


@cache
def _graph(suite_name: str, graph: str) -> tuple[Graph, int]:
    """The graph, and the RAM of the board it is for (0 where it is for none)."""
    if suite_name == "layered":
        nodes, shape = graph.split("-")
        return layered_graph(int(nodes), LAYERED_WIDTHS[shape], seed=0), 0
    if suite_name == "steps":
        model, batch, profile = graph.replace("-", ".").split(".")
        return _step(model, int(batch), profile), 0
    if suite_name == "traced":
        model, profile = graph.split(".")
        return _traced(model, profile)
    if suite_name == "tight":
        return _tight(*graph.split("."))
    return read_graph(PAPER_GRAPHS / f"{graph}.json"), 0


def _traced(model: str, profile: str) -> tuple[Graph, int]:
    """As `poet-plan --model MODEL --profile PROFILE` plans it, without parameters where they exceed the RAM."""
    from poet_planner.planning.pipeline import prepare
    from poet_planner.planning.request import Request

    prepared = prepare(Request(model, profile, parameters="resident", micro_batches=1))
    if prepared.graph.resident_bytes > prepared.budget_bytes:
        prepared = prepare(Request(model, profile, parameters="excluded", micro_batches=1))
    assert prepared.step.board is not None
    return prepared.graph, prepared.step.board.usable_ram_bytes


def _tight(model: str, parameters: str = "excluded") -> tuple[Graph, int]:
    from poet_planner.planning.pipeline import prepare
    from poet_planner.planning.request import Request

    prepared = prepare(Request(model, "nrf52840", parameters=parameters, micro_batches=1))
    return prepared.graph, prepared.budget_bytes


def _step(model: str, batch: int, profile: str) -> Graph:
    """A PyTorch step on a Linux board, whose gradients live until it ends."""
    from poet_planner.planning.pipeline import prepare
    from poet_planner.planning.request import Request

    return prepare(Request(model, profile, batch=batch, micro_batches=1)).graph


def _paper() -> Iterator[Instance]:
    names = [f"{network}.{board}" for network, board in product(NETWORKS, BOARDS)]
    for name, ram, deadline, paging in product(names, SHARES, ("2x", "1.2x"), (True, False)):
        yield Instance("paper", name, ram, deadline, paging)


def _prototypes() -> Iterator[Instance]:
    with PROTOTYPES.open(newline="") as file:
        for row in csv.DictReader(file):
            yield Instance("prototypes", row["graph"], row["ram"], row["deadline"], True)


def _layered() -> Iterator[Instance]:
    for nodes, shape, ram, paging in product(LAYERED_NODES, LAYERED_WIDTHS, ("90%", "80%", "60%"), (True, False)):
        yield Instance("layered", f"{nodes}-{shape}", ram, "none", paging)


def _traced_models() -> Iterator[Instance]:
    for profile, models in TRACED.items():
        for model, paging in product(models, (True, False)):
            yield Instance("traced", f"{model}.{profile}", "board", "none", paging)


def _steps() -> Iterator[Instance]:
    for graph, ram in STEPS:
        yield Instance("steps", graph, ram, "none", False)


def _tight_ones() -> Iterator[Instance]:
    for graph, ram in TIGHT:
        yield Instance("tight", graph, ram, "none", True)


SUITES = {
    **{"paper": _paper, "prototypes": _prototypes, "layered": _layered},
    **{"traced": _traced_models, "steps": _steps, "tight": _tight_ones},
}
