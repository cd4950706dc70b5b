# SPDX-License-Identifier: Apache-2.0
"""``poet-harness card``: prepare a card for a plan that keeps tensors on it, or say what one holds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Json

if TYPE_CHECKING:
    from ..card.places import CardPlace
    from ..card.reading import CardReader, Held
    from ..plan_folder.plan import Plan

NAME = "card"


def command(
    card: Annotated[Path, typer.Argument(help="Image file, or the block device of the whole card (/dev/sdb).")],
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Folder written by poet-plan.", exists=True, file_okay=False)
    ] = None,
    data: Annotated[Path | None, typer.Option(help=".npz with parameters and batches (poet-plan data).")] = None,
    batches: Annotated[
        int | None, typer.Option(min=1, help="Batches to put there; all of --data if not given.")
    ] = None,
    size_mib: Annotated[
        int | None, typer.Option(min=1, help="Size of the image file in MiB, if not as needed.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Overwrite what the card holds without asking.")] = False,
    read: Annotated[bool, typer.Option("--read", help="Write nothing: say what the card holds, and check it.")] = False,
    weights: Annotated[
        Path | None,
        typer.Option(help="Weights to begin with, instead of those of --data: .safetensors, .pt, .pth or .npz."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Prepare a card: label, initial weights, batches, and the record by which a board begins with them.

    What was written is read back and compared. An image file is written whole or not at all; a device has its label
    only when everything else is there. With --read, nothing is written: label, step and graph are shown, the weights
    and batches of --plan checked; with --data the batches are compared, too. poet-harness weights writes the weights to
    a file.
    """
    from poet_profiles.errors import UserError

    from ..card.places import card_place, refuse_own_input
    from ..plan_folder.plan import read_plan

    schedule = read_plan(plan) if plan is not None else None
    place = card_place(card)
    if read:
        for option, given in (
            ("--batches", batches),
            ("--size-mib", size_mib),
            ("--yes", yes),
            ("--weights", weights),
        ):
            if given:
                raise UserError(f"{option}: belongs to writing; leave it out, or leave out --read")
        if data is not None and schedule is None:
            raise UserError("--data: to compare a card's batches with it, poet needs --plan, too")
        _read(place, schedule, data, as_json)
        return
    if plan is None or schedule is None or data is None:
        raise UserError(f"{card}: to prepare it, poet needs --plan and --data; to see what it holds, add --read")
    refuse_own_input(card, {"--data": data, "--weights": weights}, plan)
    _write(place, schedule, data, weights, batches, size_mib, yes, as_json)


def _write(
    place: CardPlace,
    plan: Plan,
    data: Path,
    weights: Path | None,
    batches: int | None,
    size_mib: int | None,
    yes: bool,
    as_json: bool,
) -> None:
    from poet_profiles.errors import UserError
    from poet_profiles.program.json_output import print_json
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    from ..card.contents import card_contents
    from ..card.places import refuse_in_use
    from ..card.writing import write_card

    if size_mib is not None and place.is_device:
        raise UserError("--size-mib: is for image files; a device has its own size")
    refuse_in_use(place)
    contents = card_contents(data, plan, batches, weights)
    if place.exists and not yes:
        _confirm(place)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("writing", total=contents.bytes)

        def done(what: str, count: int, total: int) -> None:
            progress.update(task, description=what, completed=count, total=total)

        written = write_card(place, contents, size_mib * 2**20 if size_mib is not None else None, done)
    record = contents.record
    if as_json:
        print_json(
            {
                "card": str(place.path),
                "graph_hash": record.graph_hash,
                "bytes": written.bytes,
                "batches": record.batches,
                "card_bytes_needed": contents.blocks * 512,
                "verified": "past the cache" if written.past_cache else "through the cache",
            }
        )
        return
    how = "read back from it" if written.past_cache else "read back, perhaps from this computer's memory"
    print(
        f"{place.path}: graph {record.graph_hash}, {len(record.checks)} tensors and {record.batches} batches, "
        f"{written.bytes:,} bytes, verified ({how})"
    )


def _confirm(place: CardPlace) -> None:
    from poet_profiles.errors import UserError

    print(f"{place.words}: all that it holds will be lost. Type yes to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != "yes":
        raise UserError(f"{place.path}: not confirmed, nothing was written; type yes, or give --yes")


def _read(place: CardPlace, plan: Plan | None, data: Path | None, as_json: bool) -> None:
    from poet_profiles.errors import UserError
    from poet_profiles.program.json_output import print_json

    from ..card.reading import CardReader, check_batches, look_at, weights_on
    from ..target.held_image import held_image

    if not place.exists:
        raise UserError(f"{place.path}: no such file")
    with held_image(place.path, shared=True), CardReader(place.path) as reader:
        held = look_at(reader)
        found = weights_on(reader, place.path, plan) if plan is not None else None
        batches = check_batches(reader, place.path, plan) if plan is not None and plan.card is not None else None
        if plan is not None and data is not None:
            _compare(reader, place, plan, data, batches or 0)
    if found is not None and found.fell_back:
        print(
            f"poet-harness: {place.path}: the newest weights are damaged; these are those of step {found.step}",
            file=sys.stderr,
        )
    if as_json:
        checked = None if found is None else {"graph_hash": plan.graph_hash if plan else None, "step": found.step}
        print_json({"card": str(place.path), **_document(held), "checked": checked, "batches_checked": batches})
        return
    for line in _told(held):
        print(f"{place.path}: {line}")
    if found is not None:
        print(f"{place.path}: the weights of step {found.step} are whole: {len(found.tensors)} tensors")
    if batches is not None:
        print(f"{place.path}: {batches} batches are whole{' and those of the data' if data is not None else ''}")


def _compare(reader: CardReader, place: CardPlace, plan: Plan, data: Path, found: int) -> None:
    from ..card.batch_count import check_batch_count
    from ..card.contents import card_contents
    from ..card.image import compare_batches

    contents = card_contents(data, plan)
    given = contents.record.batches
    check_batch_count(f"{place.path}:", found, given, max(found, given))
    if plan.card is not None:
        compare_batches(reader, place.path, plan.card, contents, found)


def _document(held: Held) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "labelled": held.labelled,
        "records": [
            None
            if record is None
            else {**asdict(record), "second": sum(record.second), "checks": [f"{check:08x}" for check in record.checks]}
            for record in held.records
        ],
        "slots": [None if slot is None else asdict(slot) for slot in held.slots],
    }


def _told(held: Held) -> list[str]:
    records = [
        f"record {record.sequence}: step {record.step}, graph {record.graph_hash}, {len(record.second)} units, "
        f"{record.batches} batches"
        for record in held.records
        if record is not None
    ]
    commits = [
        f"commit {slot.sequence}: step {slot.step}, graph {slot.graph_hash}, {slot.bytes:,} bytes"
        for slot in held.slots
        if slot is not None
    ]
    older = ["has a record of an older version of poet"] if held.older else []
    return ["has poet's label" if held.labelled else "has no label of poet's", *older, *records, *commits]
