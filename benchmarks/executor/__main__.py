# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.executor`: planned steps against eager PyTorch and what it has to save memory with."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from poet_profiles.files.whole_file import write_whole
from poet_runtime.devices import device_named

from benchmarks.executor.measuring import Row, compared, repeatable_bits, without_page_faults
from benchmarks.executor.parts import GPU_PARTS, PARTS, QUICK, TableSpec
from benchmarks.executor.table import missed, table, without_outdone


def main() -> int:
    """Measure each part in a process of its own, and print a table for each network; 1 if something was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.executor", description=__doc__)
    names, on_gpu = (", ".join(part.name for part in parts) for parts in (PARTS, GPU_PARTS))
    parser.add_argument("parts", nargs="*", help=f"default is all: {names}; with --device cuda, {on_gpu}")
    parser.add_argument("--quick", action="store_true", help="few rows, few rounds: whether it works at all")
    parser.add_argument("--rounds", type=int, help="steps of each way that are timed (15; --quick: 3)")
    parser.add_argument("--seconds", type=float, help="for each plan (10; --quick: 3)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", help="cuda: larger batches, pages in the memory of the GPU's host")
    parser.add_argument("--out", type=Path, default=Path("build/executor"), help="rows, a file each part; pages too")
    parser.add_argument("--resume", action="store_true", help="keep the parts that are in --out already")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    asked.rounds = asked.rounds or (3 if asked.quick else 15)
    asked.seconds = asked.seconds or (3.0 if asked.quick else 10.0)
    of_device = PARTS if device_named(asked.device).kind == "cpu" else GPU_PARTS
    known = {part.name: part for part in (QUICK if asked.quick else of_device)}
    unknown = [name for name in asked.parts if name not in known]
    if unknown:
        parser.error(f"no part {unknown[0]}; there are {', '.join(known)}")
    parts = [known[name] for name in asked.parts] or [*known.values()]
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.here:
        (part,) = parts
        _measure(part, asked)
        return 0
    failed = [part.name for part in parts if not _measured_apart(part, asked)]
    misses = _print_tables([part for part in parts if part.name not in failed], asked)
    for name in failed:
        print(f"{name}: its process ended with an error")
    print(f"{misses} missed" if misses else "nothing missed")
    return 1 if misses or failed else 0


def _file(part: TableSpec, asked: argparse.Namespace) -> Path:
    out: Path = asked.out
    return out / f"{part.name}{'-quick' if asked.quick else ''}.json"


def _measured_apart(part: TableSpec, asked: argparse.Namespace) -> bool:
    """Whether a process of its own, with costs of its own, has written the rows of a part."""
    file = _file(part, asked)
    if asked.resume and file.is_file():
        return True
    file.unlink(missing_ok=True)
    print(f"{part.name} …", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "benchmarks.executor", part.name, "--here", *(["--quick"] if asked.quick else [])]
    command += ["--rounds", str(asked.rounds), "--seconds", str(asked.seconds), "--threads", str(asked.threads)]
    command += ["--device", asked.device]
    with tempfile.TemporaryDirectory(dir=asked.out) as cache:
        ended = subprocess.run(
            [*command, "--out", str(asked.out)], env={**os.environ, "XDG_CACHE_HOME": str(Path(cache).resolve())}
        )
    return ended.returncode == 0 and file.is_file()


def _measure(part: TableSpec, asked: argparse.Namespace) -> None:
    torch.set_num_threads(asked.threads)
    without_page_faults()
    device = device_named(asked.device)
    if device.kind != "cpu":
        repeatable_bits()
    with tempfile.TemporaryDirectory(dir=asked.out) as pages:
        absent: list[str] = []
        rows = compared([*part.variants(asked.seconds, Path(pages), absent, device)], asked.rounds, device)
    document = {"rows": [asdict(row) for row in rows], "absent": absent}
    write_whole(_file(part, asked), json.dumps(document, indent=1) + "\n")


def _print_tables(parts: Sequence[TableSpec], asked: argparse.Namespace) -> int:
    """Print the rows of all parts, those of one table together; how many things were missed."""
    misses = 0
    for name in dict.fromkeys(part.table for part in parts):
        of_table = [part for part in parts if part.table == name]
        rows: list[Row] = []
        absent: list[str] = []
        for part in of_table:
            document = json.loads(_file(part, asked).read_text())
            found = [Row(**row) for row in document["rows"]]
            rows += found[1:] if rows else found
            absent += document["absent"]
        rows, with_optimizer = without_outdone(rows), of_table[0].optimizer
        device = device_named(asked.device)
        where = f"{asked.threads} threads" if device.kind == "cpu" else device.described()
        print(f"\n{name}, {where}, median of {asked.rounds}\n\n{table(rows, with_optimizer)}")
        print("".join(f"\nno row {reason}" for reason in absent))
        misses += sum(len([*missed(row, rows, with_optimizer)]) for row in rows)
        # Where the greedy choice ends, nothing of poet's has been missed.
        misses += sum(reason.startswith("plan") for reason in absent)
    print()
    return misses


if __name__ == "__main__":
    sys.exit(main())
