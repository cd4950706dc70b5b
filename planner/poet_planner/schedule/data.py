# SPDX-License-Identifier: Apache-2.0
"""A plan as data, `plan.bin`, for boards that load it (docs/SPEC.md, section 5).

Its structures are those of the C headers, little-endian. What is read of them,
firmware/boards/sketch/load_verbs.c says.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterator
from struct import pack, pack_into
from typing import TYPE_CHECKING

from poet_profiles.card.layout import FIRST_BLOCK, blocks_of, card_layout, lay_out
from poet_profiles.firmware.operators import OPERATORS
from poet_profiles.graph import Graph
from poet_profiles.graph.kept import CONSTANT
from poet_profiles.graph.sizes import constant_bytes
from poet_profiles.plan_folder.beside import Extraction, Inference, plans_beside
from poet_profiles.schedule import Schedule
from poet_profiles.schedule.calls import pages_of
from poet_profiles.schedule.file import schedule_hash

from poet_planner.schedule.c_calls import CallTables, Program, call_tables
from poet_planner.schedule.c_headers import PLAN_FORMAT, words_for_both
from poet_planner.schedule.firmware_tables import tables_for_all

if TYPE_CHECKING:
    from poet_planner.schedule.c_headers import Constants

MAGIC = b"POETPLAN"
BESIDE = ("extraction", "inference", "feature_inference")  # a bit each, and their order
KINDS = ("parameter", "gradient", "state", "input", "target", "loss", CONSTANT, "output", "feature", "history")
NO_CHECK = 0xFFFF
PAGE_CALL = 0xFE
SIZE_AT = 12  # of the document, in its head
# What the board makes behind it on a 32-bit core: models and schedules of four programs, two plans, an extraction, a
# part of a trace.
MADE_BYTES = 4 * (64 + 56) + 2 * 8 + 16 + 512


def plan_data(
    graph: Graph,
    schedule: Schedule,
    constants: Constants,
    inference: Inference | None = None,
    extraction: Extraction | None = None,
) -> bytes:
    """The document that `load` sends, of a step and the plans beside it."""
    beside = plans_beside(inference, extraction)
    plans = [(graph, schedule), *((plan.graph, plan.schedule) for plan in beside.values())]
    tables, words = call_tables(plans, with_steps=False), words_for_both(graph, inference, constants)
    longest = plans[-1][0].residents
    parts = [
        _head(graph, schedule, inference, extraction, (len(longest), len(tables.params.entries), len(words))),
        b"".join(_program(*plan, program, words) for plan, program in zip(plans, tables.programs, strict=True)),
        b"".join(pack("<IIB3x", one.offset, one.bytes, 1 + KINDS.index(one.kind)) for one in longest),
        b"".join(_kept(graph)),
        pack(f"<{len(tables.params.entries)}i", *tables.params.entries),
        words,
        *(part for program in tables.programs for part in _calls(tables, program)),
    ]
    document = bytearray(b"".join(part + bytes(-len(part) % 8) for part in parts))
    pack_into("<I", document, SIZE_AT, len(document))
    return bytes(document)


def _head(
    graph: Graph,
    schedule: Schedule,
    inference: Inference | None,
    extraction: Extraction | None,
    lengths: tuple[int, int, int],
) -> bytes:
    residents, params, constants = lengths
    layout, needs = card_layout(graph) or lay_out((), (), 0), tables_for_all(graph, schedule, inference, extraction)
    bits = sum(1 << BESIDE.index(name) for name in plans_beside(inference, extraction))
    of_samples = (extraction.samples, extraction.at_once) if extraction else (0, 0)
    return pack(
        "<8s8I10H4x",
        *(MAGIC, PLAN_FORMAT, 0, bits, constants),
        *(layout.bits, layout.home_blocks, layout.batches_block - FIRST_BLOCK, layout.batch_blocks),
        *(residents, len(graph.kept), len(layout.units), layout.checks),
        *(graph.micro_batches, params, needs.page_count, *of_samples, layout.commit_each),
    )


def _program(graph: Graph, schedule: Schedule, program: Program, words: bytes) -> bytes:
    held, pages = words[: constant_bytes(graph)], pages_of(graph, schedule)
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    return pack(
        "<2Q6I3H2x",
        *(int(schedule.graph_hash, 16), int(schedule_hash(schedule), 16)),
        *(graph.resident_bytes, len(held), crc32(held), graph.resident_bytes + schedule.arena_bytes),
        *(sum(blocks_of(sizes[id]) for id in pages), len(program.rows)),
        *(len(graph.residents), len(program.words.entries), len(pages)),
    )


def _kept(graph: Graph) -> Iterator[bytes]:
    layout = card_layout(graph) or lay_out((), (), 0)
    bits = dict(zip((place.id for place in layout.units), layout.first_bits, strict=True))
    checks = {place.id: number for number, place in enumerate((*layout.units, *layout.constants))}
    blocks = {place.id: place.block - FIRST_BLOCK for place in (*layout.units, *layout.constants, *layout.batch)}
    for one in graph.kept:
        places = (one.bytes, blocks[one.id], one.rows, bits.get(one.id, 0), checks.get(one.id, NO_CHECK))
        yield pack("<4IHBx", *places, 1 + KINDS.index(one.kind))


def _calls(tables: CallTables, program: Program) -> tuple[bytes, bytes]:
    """Calls, which name operators by their codes, and words."""
    codes = [OPERATORS[op].code for op in tables.operators.values()]
    rows = ((row[0] if row[0] >= PAGE_CALL else codes[row[0]], *row[1:]) for row in program.rows)
    entries = program.words.entries
    return b"".join(pack("<BBBBHH", *row) for row in rows), pack(f"<{len(entries)}I", *entries)
