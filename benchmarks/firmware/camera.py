# SPDX-License-Identifier: Apache-2.0
"""RAM of an inference of the camera network of arXiv 2604.23012, whole and in bands of rows."""

from __future__ import annotations

import torch
from poet_planner.lowering.memory.in_place import with_taking_over, without_taking_over
from poet_planner.lowering.tiles.rows import with_bands
from poet_planner.models import Model
from poet_planner.planning.families import bands_of
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


class Bytes(nn.Module):
    """Pictures of bytes as numbers from 0 to 1."""

    def forward(self, x: Tensor) -> Tensor:
        return x.float() / 255


def _model(name: str, front: tuple[nn.Module, ...], x: Tensor) -> Model:
    torch.manual_seed(0)
    first = (nn.Conv2d(3, 4, 3), nn.LeakyReLU(0.1), nn.MaxPool2d(2))
    second = (nn.Conv2d(4, 8, 3), nn.LeakyReLU(0.1), nn.Flatten(), nn.Linear(8 * 29 * 29, 3))
    net = nn.Sequential(*front, *first, *second)
    return Model(name, net, (x,), (torch.arange(len(x)) % 3,), cross_entropy)


def f32(batch: int | None) -> Model:
    """Pictures of 64x64 in f32, as the paper has them."""
    return _model("camera_f32", (), torch.rand(batch or 6, 3, 64, 64, generator=torch.Generator().manual_seed(0)))


def u8(batch: int | None) -> Model:
    """The same pictures in bytes, as a camera gives them."""
    shape, drawn = (batch or 6, 3, 64, 64), torch.Generator().manual_seed(0)
    return _model("camera_u8", (Bytes(),), torch.randint(0, 256, shape, generator=drawn, dtype=torch.uint8))


def main() -> None:
    """Print input, output and arena of one sample, in bytes."""
    for make in (f32, u8):
        step = TrainingStep(make(None))
        graph = step.inference(step.graph(load_board("nrf52840"))).graph
        own = sum(one.bytes for one in graph.residents if one.id.startswith("inference."))

        def arena_bytes(graph: Graph) -> int:
            return store_all_schedule(graph).arena_bytes

        plain = without_taking_over(graph)
        banded = min(arena_bytes(with_taking_over(with_bands(plain, bands))) for bands in bands_of(graph))
        print(f"{make.__name__}: {own + arena_bytes(graph):,} B whole, {own + banded:,} B in bands")


if __name__ == "__main__":
    main()
