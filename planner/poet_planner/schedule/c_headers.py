# SPDX-License-Identifier: Apache-2.0
"""The C headers of a plan (docs/SPEC.md, section 5): constant tables that the firmware's schedule runner walks."""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from struct import iter_unpack
from typing import TYPE_CHECKING, Any

from poet_profiles.card.layout import FIRST_BLOCK, CardLayout, blocks_of, card_layout, lay_out
from poet_profiles.errors import UserError
from poet_profiles.files.whole_file import write_whole
from poet_profiles.firmware.operators import OPERATORS, family_of, parse_params
from poet_profiles.firmware.steps import KINDS, POINTWISE, alone, steps_in
from poet_profiles.graph import Graph, Operation, Resident
from poet_profiles.graph.constants import CONSTANTS_FILE
from poet_profiles.graph.file import graph_hash
from poet_profiles.graph.sizes import aligned, constant_bytes
from poet_profiles.plan_folder.beside import Extraction, Inference, plans_beside, ram_bytes
from poet_profiles.schedule import Schedule
from poet_profiles.schedule.calls import pages_of
from poet_profiles.schedule.file import schedule_hash

from poet_planner.schedule.c_calls import CallTables, Program, call_tables
from poet_planner.schedule.firmware_tables import tables_for_all

if TYPE_CHECKING:
    from numpy.typing import NDArray

Constants = Mapping[str, "NDArray[Any]"]

MODEL_HEADER = "poet_model.h"
SCHEDULE_HEADER = "poet_schedule.h"
STREAM = "stream"  # of plans beside a training
CONSTANTS_HEADER = "poet_constants.h"
NO_CHECK = "POET_NO_CHECK"

MOST_REFUSALS = 3
PLAN_FORMAT = 3
# sizeof of each structure and number on a 32-bit core.
_STRUCT_BYTES = {"model": 64, "resident": 12, "kept": 20}
_STRUCT_BYTES |= {"schedule": 56, "call": 8, "word": 4, "param": 4, "operator": 12}


def write_headers(
    graph: Graph,
    schedule: Schedule,
    folder: Path,
    constants: Constants | None = None,
    inference: Inference | None = None,
    extraction: Extraction | None = None,
) -> None:
    """Write `poet_model.h`, `poet_schedule.h` and, for a graph with constants, `poet_constants.h`.

    ``constants`` are the data of the graph's constants, by id; ``inference`` and ``extraction`` lie beside the training
    step.

    Raises
    ------
    UserError
        If the firmware lacks an operator of the graph, or the graph is too large for the tables' indices.
    """
    reason = why_no_headers(graph)
    if reason:
        raise UserError(f"{graph.name} has no C headers: {reason}")
    words = words_for_both(graph, inference, constants or {})
    if words:
        write_whole(folder / CONSTANTS_HEADER, constants_header(graph, schedule, words))
    write_whole(folder / MODEL_HEADER, model_header(graph, schedule, words, inference, extraction))
    write_whole(folder / SCHEDULE_HEADER, schedule_header(graph, schedule, inference, extraction))


def remove_headers(folder: Path) -> None:
    """Remove what an earlier plan left: beside a plan without headers the firmware would be built with it."""
    for name in (MODEL_HEADER, SCHEDULE_HEADER, CONSTANTS_HEADER):
        (folder / name).unlink(missing_ok=True)


def why_no_headers(graph: Graph, constants: Constants | None = None) -> str | None:
    """What keeps the firmware from running the graph, or None; with ``constants``, also if one of them is missing."""
    if graph.allocates:
        return "its board runs PyTorch"
    if not any(node.operation for node in graph.nodes):
        return "its nodes name no operators"
    if lacking := operators_lacking(graph):
        return lacking
    if constants is not None and any(constant.id not in constants for constant in graph.constants):
        return f"the data of its constants are not there ({CONSTANTS_FILE} beside the graph)"
    return None if graph.residents else "its parameters are excluded from RAM"


def operators_lacking(graph: Graph) -> str | None:
    """Which operators of the graph the firmware does not have, where, and what to do; None if it has all."""
    refusals = _together(graph)
    if refusals:
        more = f"; and {len(refusals) - MOST_REFUSALS} more" if len(refusals) > MOST_REFUSALS else ""
        return "; ".join(refusals[:MOST_REFUSALS]) + more
    missing = sorted({node.operation.op for node in graph.nodes if node.operation} - OPERATORS.keys())
    return f"the firmware lacks {', '.join(missing)}" if missing else None


def _together(graph: Graph) -> list[str]:
    """One line for each place, with all that the first cure helps; of gradients only where nothing else is lacking."""
    found: dict[str, tuple[bool, str, dict[str, None]]] = {}
    for node in graph.nodes:
        if node.refused:
            backward, cure, lacks = found.setdefault(node.refused.where, (node.backward, node.refused.cure, {}))
            if (node.backward, node.refused.cure) == (backward, cure):
                lacks[node.refused.lacks] = None
    return [f"{where}: the firmware has no {', '.join(lacks)}; {cure}" for where, (_, cure, lacks) in found.items()]


def words_for_both(graph: Graph, inference: Inference | None, constants: Constants) -> bytes:
    """The table of constants of a training step and of what is beside it: `constant_words`."""
    if inference is None:
        return constant_words(graph, constants)
    last = inference.stream.graph if inference.stream else inference.graph
    return constant_words(last, {**constants, **inference.constants})


def constant_words(graph: Graph, constants: Constants) -> bytes:
    """The table of constants as it lies in flash, empty for a graph without.

    Raises
    ------
    UserError
        If the data of a constant is missing, or is not that which the graph was made with.
    """
    table = bytearray(constant_bytes(graph))
    for constant in graph.constants:
        data = constants[constant.id].tobytes() if constant.id in constants else b""
        if len(data) != constant.bytes or f"{crc32(data):08x}" != constant.crc32:
            raise UserError(f"{graph.name}: the data of {constant.id} is not that of the graph; plan again")
        table[constant.offset : constant.offset + constant.bytes] = data
    return bytes(table)


def constants_header(graph: Graph, schedule: Schedule, words: bytes) -> str:
    """Text of `poet_constants.h`: the words of the table of constants."""
    numbers = [f"0x{word:08x}u" for (word,) in iter_unpack("<I", words)]
    lines = [", ".join(numbers[start : start + 8]) for start in range(0, len(numbers), 8)]
    return "\n".join(
        (
            title(graph, schedule),
            "#ifndef POET_BUILT_CONSTANTS_H",
            "#define POET_BUILT_CONSTANTS_H",
            "",
            "#include <stdint.h>",
            "",
            _array("uint32_t", "poet_built_constant_words", lines, "0"),
            "#endif",
            "",
        )
    )


def table_bytes(
    graph: Graph, schedule: Schedule, inference: Inference | None = None, extraction: Extraction | None = None
) -> int:
    """What the tables of model and schedule take of a 32-bit chip's flash, constants left out.

    Plans beside them share all tables but those of calls and words.
    """
    plans = _plans("", graph, schedule, inference, extraction).values()
    tables = call_tables(plans)
    counts = {
        **{"resident": max(len(one.residents) for one, _ in plans), "kept": len(graph.kept)},
        **{"param": len(tables.params.entries), "operator": len(tables.operators)},
    }
    each = (
        {"model": 1, "schedule": 1, "call": len(one.rows), "word": len(one.words.entries)} for one in tables.programs
    )
    return _bytes_of(counts) + sum(map(_bytes_of, each))


def _plans(
    prefix: str, graph: Graph, schedule: Schedule, inference: Inference | None, extraction: Extraction | None
) -> dict[str, tuple[Graph, Schedule]]:
    """A step and what is beside it, by the beginning of their tables' names."""
    beside = plans_beside(inference, extraction)
    return {prefix: (graph, schedule)} | {f"{prefix}_{name}": (one.graph, one.schedule) for name, one in beside.items()}


def _bytes_of(counts: Mapping[str, int]) -> int:
    return sum(aligned(max(count, 1) * _STRUCT_BYTES[what]) for what, count in counts.items())


def model_header(
    graph: Graph,
    schedule: Schedule,
    words: bytes = b"",
    inference: Inference | None = None,
    extraction: Extraction | None = None,
) -> str:
    """Text of `poet_model.h`.

    ``words`` is the table of constants.
    """
    layout = card_layout(graph) or lay_out((), (), 0)
    return "\n".join(
        (
            title(graph, schedule),
            "#ifndef POET_BUILT_MODEL_H",
            "#define POET_BUILT_MODEL_H",
            "",
            '#include "poet/model.h"',
            *([f'#include "{CONSTANTS_HEADER}"'] if words else []),
            "",
            f"#define POET_BUILT_CHECK_COUNT {layout.checks}",
            f"#define POET_BUILT_BIT_COUNT {layout.bits}",
            *(f"#define POET_BUILT_{family}" for family in families(graph, inference, extraction)),
            f"#define POET_BUILT_STEPS UINT64_C({_bits(steps_of_graphs(graph, inference, extraction)):#x})",
            "",
            model_tables(graph, words, "poet_built", inference, extraction),
            "#endif",
            "",
        )
    )


def families(graph: Graph, inference: Inference | None = None, extraction: Extraction | None = None) -> list[str]:
    """Families of operators that the image needs, and that are left out of others."""
    named = {operation.op for operation in _operations(graph, inference, extraction)}
    return sorted({family for op in named if (family := family_of(op))})


def steps_of_graphs(
    graph: Graph, inference: Inference | None = None, extraction: Extraction | None = None, of_groups: bool = False
) -> list[str]:
    """Names of the steps of `pointwise` that the image needs; or of those in groups alone."""
    keys = {one.params for one in _operations(graph, inference, extraction) if one.op == POINTWISE}
    found = [[*steps_in(parse_params(key))] for key in keys]
    return sorted({step.name for steps in found for step in steps if not of_groups or alone(steps) is None})


def _bits(steps: Iterable[str]) -> int:
    return sum(1 << KINDS[name].code for name in steps)


def _operations(graph: Graph, inference: Inference | None, extraction: Extraction | None) -> Iterator[Operation]:
    for one in (graph, *(plan.graph for plan in plans_beside(inference, extraction).values())):
        yield from (node.operation for node in one.nodes if node.operation)


def model_tables(
    graph: Graph,
    words: bytes,
    prefix: str,
    inference: Inference | None = None,
    extraction: Extraction | None = None,
) -> str:
    """C text of a model, and of those beside it, as constant tables whose names begin with ``prefix``."""
    layout = card_layout(graph) or lay_out((), (), 0)
    plans = plans_beside(inference, extraction)
    longest = [graph, *(plan.graph for name, plan in plans.items() if name != STREAM)][-1]
    tables = [
        _array("poet_resident", f"{prefix}_residents", [_resident_row(one) for one in longest.residents], "{0}"),
        _array("poet_kept", f"{prefix}_kept", _kept_rows(graph, layout), "{0}"),
        _model(graph, layout, words, prefix, prefix, f"{prefix}_residents"),
    ]
    for name, plan in plans.items():  # they read of the card what lies there for the training
        residents = f"{prefix}_residents"
        if name == STREAM:  # a table of its own, since it lies where that of an inference does
            residents = f"{prefix}_{name}_residents"
            tables.append(_array("poet_resident", residents, [_resident_row(one) for one in plan.graph.residents], ""))
        tables.append(_model(plan.graph, layout, words, f"{prefix}_{name}", prefix, residents))
    return "\n".join(tables)


def _model(graph: Graph, layout: CardLayout, words: bytes, prefix: str, lasting: str, residents: str) -> str:
    """``lasting`` begins the names of the tables, but that of ``residents``."""
    words = words[: constant_bytes(graph)]
    return "\n".join(
        (
            f"static const poet_model {prefix}_model = {{",
            f"    .graph_hash = UINT64_C(0x{graph_hash(graph)}),",
            f"    .resident_bytes = {graph.resident_bytes}u,",
            f"    .resident_count = {len(graph.residents)}u,",
            f"    .micro_batches = {graph.micro_batches}u,",
            f"    .residents = {residents},",
            f"    .constant_bytes = {len(words)}u,",
            f"    .constant_crc = 0x{crc32(words):08x}u,",
            f"    .constant_words = {f'{lasting}_constant_words' if words else '0'},",
            f"    .kept_count = {len(graph.kept)}u,",
            f"    .unit_count = {len(layout.units)}u,",
            f"    .check_count = {layout.checks}u,",
            *([f"    .commit_each = {layout.commit_each}u,"] if layout.commit_each > 1 else []),
            f"    .bit_count = {layout.bits}u,",
            f"    .home_blocks = {layout.home_blocks}u,",
            f"    .batch_block = {layout.batches_block - FIRST_BLOCK}u,",
            f"    .batch_blocks = {layout.batch_blocks}u,",
            f"    .kept = {lasting}_kept,",
            "};",
            "",
        )
    )


def schedule_header(
    graph: Graph, schedule: Schedule, inference: Inference | None = None, extraction: Extraction | None = None
) -> str:
    """Text of `poet_schedule.h`."""
    tables = tables_for_all(graph, schedule, inference, extraction)
    return "\n".join(
        (
            title(graph, schedule),
            "#ifndef POET_BUILT_SCHEDULE_H",
            "#define POET_BUILT_SCHEDULE_H",
            "",
            '#include "poet/schedule.h"',
            "",
            f"#define POET_BUILT_FORMAT {PLAN_FORMAT}",
            f"#define POET_BUILT_PAGE_COUNT {tables.page_count}",
            f"#define POET_BUILT_TABLE_BYTES {tables.bytes}",
            f"#define POET_BUILT_RAM_BYTES {ram_bytes(graph, schedule, inference, extraction)}",
            *(["#define POET_BUILT_INFERENCE"] if inference else []),
            *(_extraction_sizes(extraction) if extraction else ()),
            "",
            schedule_tables(graph, schedule, "poet_built", inference, extraction),
            "#endif",
            "",
        )
    )


def _extraction_sizes(extraction: Extraction) -> tuple[str, ...]:
    return (
        f"#define POET_BUILT_SAMPLES {extraction.samples}u",
        f"#define POET_BUILT_EXTRACTED {extraction.at_once}u",
        *(["#define POET_BUILT_FEATURE_INFERENCE"] if extraction.inference else []),
    )


def schedule_tables(
    graph: Graph,
    schedule: Schedule,
    prefix: str,
    inference: Inference | None = None,
    extraction: Extraction | None = None,
) -> str:
    """C text of a schedule, and of those beside it, as constant tables whose names begin with ``prefix``."""
    plans = _plans(prefix, graph, schedule, inference, extraction)
    tables = call_tables(plans.values())
    texts = [
        _array("poet_operator", f"{prefix}_operators", list(tables.operators), "{0}"),
        _array("int32_t", f"{prefix}_params", tables.params.rows(), "0"),
    ]
    for (name, (own_graph, own)), program in zip(plans.items(), tables.programs, strict=True):
        texts.append(_schedule(own_graph, own, tables, program, name, prefix))
    return "\n".join(texts)


def _schedule(graph: Graph, schedule: Schedule, tables: CallTables, program: Program, prefix: str, shared: str) -> str:
    """``shared`` begins the names of the tables of operators and parameters."""
    pages = pages_of(graph, schedule)
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    targets = ([schedule.steps[number].target for number in call.steps] for call in program.calls)
    calls = [
        "{" + ", ".join(map(str, row)) + "}" + remark(f"{call.op}: {', '.join(names)}")
        for row, call, names in zip(program.rows, program.calls, targets, strict=True)
    ]
    return "\n".join(
        (
            _array("poet_call", f"{prefix}_calls", calls, "{0}"),
            _array("uint32_t", f"{prefix}_words", program.words.rows("u"), "0"),
            f"static const poet_schedule {prefix}_schedule = {{",
            f"    .graph_hash = UINT64_C(0x{schedule.graph_hash}),",
            f"    .hash = UINT64_C(0x{schedule_hash(schedule)}),",
            f"    .operators = {shared}_operators,",
            f"    .calls = {prefix}_calls,",
            f"    .words = {prefix}_words,",
            f"    .params = {shared}_params,",
            f"    .crc = 0x{tables.crc(program):08x}u,",
            f"    .ram_bytes = {graph.resident_bytes + schedule.arena_bytes}u,",
            f"    .page_blocks = {sum(blocks_of(sizes[id]) for id in pages)}u,",
            f"    .call_count = {len(calls)}u,",
            f"    .word_count = {len(program.words.entries)}u,",
            f"    .param_count = {len(tables.params.entries)}u,",
            f"    .page_count = {len(pages)}u,",
            f"    .operator_count = {len(tables.operators)}u,",
            "};",
            "",
        )
    )


def _resident_row(resident: Resident) -> str:
    kind = f"POET_RESIDENT_{resident.kind.upper()}"
    return f"{{{resident.offset}u, {resident.bytes}u, {kind}}}" + remark(resident.id)


def _kept_rows(graph: Graph, layout: CardLayout) -> list[str]:
    """In the graph's order, each with its first block and with the places of its bits and its check in a record."""
    first_bits = dict(zip((place.id for place in layout.units), layout.first_bits, strict=True))
    checks = {place.id: f"{number}u" for number, place in enumerate((*layout.units, *layout.constants))}
    blocks = {place.id: place.block - FIRST_BLOCK for place in (*layout.units, *layout.constants, *layout.batch)}
    return [
        f"{{{kept.bytes}u, {blocks[kept.id]}u, {kept.rows}u, {first_bits.get(kept.id, 0)}u, "
        f"{checks.get(kept.id, NO_CHECK)}, POET_RESIDENT_{kept.kind.upper()}}}" + remark(kept.id)
        for kept in graph.kept
    ]


def _array(kind: str, name: str, rows: Sequence[str], empty: str) -> str:
    """A constant table; C has no empty arrays, so that an empty one holds one entry that nothing refers to."""
    lines = []
    for row in rows or [empty]:
        code, mark, remark = row.partition(" /* ")
        lines.append(f"    {code},{mark}{remark}")
    return "\n".join((f"static const {kind} {name}[] = {{", *lines, "};", ""))


def remark(text: str) -> str:
    return f" /* {_printable(text)} */"


def _printable(text: str) -> str:
    """Text that a C comment can hold: it opens and ends none, and no character of it is unseen or turns the line."""
    ascii_text = text.encode("ascii", "backslashreplace").decode()
    visible = "".join(character if character.isprintable() else "?" for character in ascii_text)
    return visible.replace("*/", "* /").replace("/*", "/ *")


def title(graph: Graph, schedule: Schedule) -> str:
    return (
        f"/* Generated by poet-plan; do not edit. Graph {_printable(graph.name)}, hash {schedule.graph_hash}.\n"
        f" * RAM budget {schedule.ram_budget_bytes} B, peak {schedule.peak_bytes} B, "
        f"predicted {schedule.energy_j:.6g} J in {schedule.time_s:.6g} s a step. */"
    )
