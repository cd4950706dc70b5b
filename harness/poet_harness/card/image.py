# SPDX-License-Identifier: Apache-2.0
"""The card image of a board that runs here: prepared where there is none, else checked against plan and data."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poet_profiles.card.layout import BLOCK_BYTES, CardLayout
from poet_profiles.errors import UserError

from ..data.batches import TrainingData
from ..plan_folder.plan import Plan
from ..target.held_image import held_image
from .batch_count import check_batch_count
from .contents import CardContents, laid_out
from .places import CardPlace, card_place
from .reading import CardReader, padded_bytes, record_on
from .writing import write_card


@contextmanager
def prepared_image(path: Path | None, plan: Plan, data: TrainingData, steps: int) -> Iterator[Path | None]:
    """An image that holds the plan's weights and the batches of the data; of a plan that keeps none there, ``path``.

    Parameters
    ----------
    path : Path, optional
        The image to take, or to make; one for the time being if not given.
    steps : int
        That are to be trained in all.

    Raises
    ------
    UserError
        If there is an image already that is not prepared for this plan and these data.
    """
    if plan.card is None:
        yield path
        return
    contents = laid_out(plan, plan.card, data)
    with tempfile.TemporaryDirectory(prefix="poet-") as folder:
        place = card_place(path or Path(folder) / "card.img")
        if place.exists:
            with held_image(place.path, shared=True):
                _check(place, plan, plan.card, contents, steps)
        else:
            write_card(place, contents, None, lambda *_: None)
        yield place.path


def _check(place: CardPlace, plan: Plan, layout: CardLayout, contents: CardContents, steps: int) -> None:
    anew = "prepare another one with poet-harness card"
    with CardReader(place.path) as reader:
        record = record_on(reader, place.path, plan)
        check_batch_count(f"{place.path}:", record.batches, contents.record.batches, steps)
        needed = BLOCK_BYTES * (layout.page_block(record.batches) + plan.page_blocks)
        if place.bytes < needed:
            raise UserError(f"{place.path}: has {place.bytes:,} bytes, the plan needs {needed:,}; {anew}")
        # What a step has changed is another than in the data; where none commits, each run begins with the data's.
        trained = len(layout.units) if record.step or not plan.commits_steps else 0
        if record.checks[trained:] != contents.record.checks[trained:]:
            what = "frozen" if trained else "initial"
            raise UserError(f"{place.path}: holds other {what} weights than plan and data; {anew}")
        compare_batches(reader, place.path, layout, contents, min(steps, record.batches))


def compare_batches(reader: CardReader, path: Path, layout: CardLayout, contents: CardContents, count: int) -> None:
    """Make sure that the first batches on a card are those of the data."""
    for piece in contents.pieces:
        if not layout.batches_block <= piece.block < layout.page_block(count):
            continue
        content = reader.read(piece.block, padded_bytes(len(piece.content)))
        if content[: len(piece.content)] != piece.content:
            raise UserError(f"{path}: {piece.name} is not that of the data; prepare another one with poet-harness card")
