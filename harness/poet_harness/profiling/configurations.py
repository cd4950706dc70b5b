# SPDX-License-Identifier: Apache-2.0
"""Which operator configurations and page sizes a profile should hold: from a graph, a model or a list."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from poet_profiles.errors import UserError
from poet_profiles.files.text_file import read_table, refuse_missing
from poet_profiles.firmware.operators import OPERATORS, params_key, parse_params
from poet_profiles.firmware.steps import as_step
from poet_profiles.graph.file import read_graph

PAGE_OPS = {"page_in": "in", "page_out": "out"}
PATTERNS = ("sequential", "scattered")
PAGE_GRANULE = 512
LARGE_PAGE = 16_384
# What the schedule runner does itself: a transfer costs what a page does, and a commit what it writes.
TRANSFERS = ("fetch", "store", "commit")
PLANNER = "poet-plan"
MOST_KEPT_BYTES = 16 << 20  # a step of a network with more on the card takes minutes: it is profiled in place


@dataclass(frozen=True)
class Configuration:
    """An operator, or ``page_in`` or ``page_out``, and the canonical key of its parameters."""

    op: str
    params: str

    @property
    def is_page(self) -> bool:
        return self.op in PAGE_OPS

    @property
    def uses_card(self) -> bool:
        """A transfer, or an operator with tensors on the card."""
        if self.op not in OPERATORS:
            return self.is_page
        sizes = OPERATORS[self.op].sizes(parse_params(self.params))
        return sizes.kept_outputs or sizes.kept_input is not None


def from_graph(path: Path) -> list[Configuration]:
    """Every operator configuration of a ``poet-graph/1``, and page transfers of its values' sizes."""
    graph = read_graph(path)
    operations = [node.operation for node in graph.nodes if node.operation]
    compute = [Configuration(one.op, one.params) for one in operations if one.op not in TRANSFERS]
    sizes = {value.bytes for node in graph.nodes for value in node.values}
    if not compute:
        raise UserError(f"{path}: nodes: none names an operator (op), so there is nothing to benchmark")
    sequential = {-(-size // PAGE_GRANULE) * PAGE_GRANULE for size in sizes if size > 0} | {PAGE_GRANULE, LARGE_PAGE}
    pages = [page(op, size, "sequential") for op in PAGE_OPS for size in sorted(sequential)]
    return _unique(_checked(path, compute), pages)


def from_file(path: Path) -> list[Configuration]:
    """A list of configurations: CSV with the columns ``op`` and ``params``, or a graph if the name ends in .json."""
    if path.suffix == ".json":
        return from_graph(path)
    import csv
    import io

    try:
        table = csv.DictReader(io.StringIO(read_table(path), newline=""))
        refuse_missing(path, table.fieldnames or (), ("op", "params"), "a list of configurations has these two")
        rows = list(table)
    except csv.Error as error:
        raise UserError(f"{path}: not a CSV in UTF-8: {error}") from None
    return _unique(_checked(path, (Configuration(*as_step(row["op"], row["params"] or "")) for row in rows)))


def from_model(name: str, board: str) -> list[Configuration]:
    """What a model that ``poet-plan`` knows needs, whole batch and micro-batches, from the graphs that it writes."""
    with tempfile.TemporaryDirectory(prefix="poet-") as folder:
        path = Path(folder) / "graph.json"
        run_planner("graph", "--model", name, "--board", board, "--out", str(path), "--parts", folder)
        return _unique(*(from_graph(path) for path in (path, *sorted(Path(folder).glob("graph-*.json")))))


def from_fitting_models(board: str) -> list[Configuration]:
    """What the built-in models of ``poet-plan`` need whose training fits the RAM of a microcontroller.

    Those with more than 16 MiB on the card are left out.
    """
    with tempfile.TemporaryDirectory(prefix="poet-") as folder:
        run_planner("models", "--board", board, "--graphs", folder)
        paths = sorted(Path(folder).glob("*.json"))
        return _unique(*(from_graph(path) for path in paths if _kept_bytes(path) <= MOST_KEPT_BYTES))


def _kept_bytes(path: Path) -> int:
    return sum(tensor.bytes for tensor in read_graph(path).kept)


def run_planner(*arguments: str) -> None:
    """Run ``poet-plan``: the harness shares no code with the planner, only files."""
    beside = Path(sys.executable).parent / PLANNER
    program = str(beside) if beside.exists() else shutil.which(PLANNER)
    if program is None:
        raise UserError(f"{PLANNER} is not installed here; give a graph made elsewhere with --graph")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"{PLANNER} {' '.join(arguments[:3])}: {done.stderr.strip() or 'failed'}")


def page(op: str, size: int, pattern: str) -> Configuration:
    """A page transfer of ``size`` bytes."""
    return Configuration(op, f"bytes={size} pattern={pattern}")


def _checked(path: Path, configurations: Iterable[Configuration]) -> Iterator[Configuration]:
    """Configurations whose operator and parameters the vocabulary knows; ``aten.*`` is for Linux boards."""
    for item in configurations:
        if item.is_page or item.op.startswith("aten."):
            yield item
            continue
        try:
            if params_key(item.op, parse_params(item.params)) != item.params:
                raise ValueError("not in the canonical order")
            OPERATORS[item.op].sizes(parse_params(item.params))
        except (KeyError, ValueError) as error:
            known = f"unknown operator {item.op!r}" if item.op not in OPERATORS else f"{item.op}: {error}"
            raise UserError(f"{path}: params: {item.params!r}: {known}") from None
        yield item


def _unique(*groups: Iterable[Configuration]) -> list[Configuration]:
    return list(dict.fromkeys(item for group in groups for item in group))
