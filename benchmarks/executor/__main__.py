# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.executor`: planned steps against eager PyTorch and what it has to save memory with."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from poet_profiles.errors import UserError

from benchmarks.executor.measuring import Row, compared, without_page_faults
from benchmarks.executor.networks import NETWORKS, network
from benchmarks.executor.variants import Variant, checkpointed, eager, greedy, offloaded, planned

MIB = 1 << 20


def main() -> None:
    """Compare, and print a table for each network."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.executor", description=__doc__)
    parser.add_argument("networks", nargs="*", default=[*NETWORKS], help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--shares", type=int, nargs="*", default=[70, 50, 35], help="per cent of plain training's peak")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each plan")
    parser.add_argument("--pages", type=Path, help="folder for pages: plans that page, and offloading, as well")
    parser.add_argument("--only-plans", action="store_true", help="leave PyTorch's own ways out")
    parser.add_argument("--json", type=Path, help="file for the rows, a line each")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    without_page_faults()
    for name in asked.networks:
        if name not in NETWORKS:
            parser.error(f"no network {name}; there are {', '.join(NETWORKS)}")
        rows = compared(_variants(name, asked), asked.rounds)
        print(f"\n{name}, batch {asked.batch}, {asked.threads} threads, median of {asked.rounds}\n\n{table(rows)}")
        if asked.json:
            with asked.json.open("a") as lines:
                lines.writelines(
                    json.dumps({"network": name, "batch": asked.batch, **asdict(row)}) + "\n" for row in rows
                )


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown; times beside the first row's."""
    lines = [
        "| | CPU ms | | least wall ms | peak MiB | planned MiB | planned ms | again | paged MiB | not eager's bits |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        planned_mib = "" if row.planned_bytes is None else f"{row.planned_bytes / MIB:.2f}"
        planned_ms = "" if row.planned_s is None else f"{row.planned_s * 1e3:.1f}"
        lines.append(
            f"| {row.name} | {row.cpu_s * 1e3:.1f} | {row.cpu_s / rows[0].cpu_s - 1:+.1%} | {row.wall_s * 1e3:.1f} | "
            f"{row.peak_bytes / MIB:.2f} | {planned_mib} | {planned_ms} | {row.recomputations or ''} | "
            f"{f'{row.paged_bytes / MIB:.1f}' if row.paged_bytes else ''} | {row.different} |"
        )
    return "\n".join(lines)


def _variants(name: str, asked: argparse.Namespace) -> list[Variant]:
    module, x, y = network(name, asked.batch)
    variants = [planned(module, x, y, None, None, asked.seconds)]
    pages = [None] if asked.pages is None else [None, asked.pages]
    for share in asked.shares:
        for folder in pages:
            try:
                variants.append(planned(module, x, y, f"{share}%", folder, asked.seconds))
            except UserError as error:
                print(f"{name}, {share} %: {error}", flush=True)
    if not asked.only_plans:
        for share in asked.shares:
            try:
                variants.append(greedy(module, x, y, share))
            except UserError as error:
                print(f"{name}, greedy {share} %: {error}", flush=True)
        variants.append(checkpointed(module, x, y))
        if asked.pages is not None:
            variants.append(offloaded(module, x, y, asked.pages))
    return [eager(module, x, y), *variants]


if __name__ == "__main__":
    main()
