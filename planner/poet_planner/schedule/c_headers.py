# SPDX-License-Identifier: Apache-2.0
"""The C headers of a plan (docs/SPEC.md, section 5): constant tables that the firmware's schedule runner walks."""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from struct import iter_unpack
from typing import TYPE_CHECKING, Any

from poet_profiles.card.layout import FIRST_BLOCK, CardLayout, blocks_of, card_layout, lay_out
from poet_profiles.constants import CONSTANTS_FILE
from poet_profiles.errors import UserError
from poet_profiles.graph import Constant, Graph, Node, Refusal, Resident, Uses
from poet_profiles.graph.file import graph_hash
from poet_profiles.graph.once import once_a_graph
from poet_profiles.graph.sizes import aligned, constant_bytes
from poet_profiles.operators import OPERATORS, S8, parse_params
from poet_profiles.schedule import Action, Schedule, Step
from poet_profiles.schedule.file import schedule_hash
from poet_profiles.whole_file import write_whole

from poet_planner.schedule.extraction import Extraction, plans_beside
from poet_planner.schedule.firmware_tables import paged_values, tables_for_all, tables_of
from poet_planner.schedule.inference import Inference, ram_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

Constants = Mapping[str, "NDArray[Any]"]

MODEL_HEADER = "poet_model.h"
SCHEDULE_HEADER = "poet_schedule.h"
CONSTANTS_HEADER = "poet_constants.h"
NO_PAGE = "0u, POET_NO_PAGE"
NO_CHECK = "POET_NO_CHECK"

MOST_REFUSALS = 3
_LARGEST_INDEX = 65_535
# sizeof of each structure and index on a 32-bit core.
_STRUCT_BYTES = {"model": 96, "node": 12, "value": 12, "resident": 12, "constant": 8, "param": 4, "operand": 2}
_STRUCT_BYTES |= {"kept": 20, "schedule": 48, "step": 8, "offset": 4}
_SHARED = ("resident", "constant", "kept")
_USES = {Uses.CPU: "POET_USES_CPU", Uses.BUS: "POET_USES_BUS", Uses.BOTH: "POET_USES_BOTH"}
_ACTIONS = {
    Action.COMPUTE: "POET_COMPUTE",
    Action.PAGE_IN: "POET_PAGE_IN",
    Action.PAGE_OUT: "POET_PAGE_OUT",
    Action.FREE: "POET_FREE",
}


def write_headers(
    graph: Graph,
    schedule: Schedule,
    folder: Path,
    constants: Constants | None = None,
    inference: Inference | None = None,
    extraction: Extraction | None = None,
) -> None:
    """Write `poet_model.h`, `poet_schedule.h` and, for a graph with constants, `poet_constants.h`.

    Parameters
    ----------
    constants : mapping of str to array, optional
        The data of the graph's constants, by id.
    inference : Inference, optional
        Beside the training step.
    extraction : Extraction, optional
        Likewise, of features.

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
    refusals = _together(node.refused for node in graph.nodes if node.refused)
    if refusals:
        more = f"; and {len(refusals) - MOST_REFUSALS} more" if len(refusals) > MOST_REFUSALS else ""
        return "; ".join(refusals[:MOST_REFUSALS]) + more
    missing = sorted({node.operation.op for node in graph.nodes if node.operation} - OPERATORS.keys())
    return f"the firmware lacks {', '.join(missing)}" if missing else None


def _together(refusals: Iterable[Refusal]) -> list[str]:
    """One line for each place and cure, with all that is lacking there."""
    lacking: dict[tuple[str, str], dict[str, None]] = {}
    for refusal in refusals:
        lacking.setdefault((refusal.where, refusal.cure), {})[refusal.lacks] = None
    return [f"{where}: the firmware has no {', '.join(lacks)}; {cure}" for (where, cure), lacks in lacking.items()]


def words_for_both(graph: Graph, inference: Inference | None, constants: Constants) -> bytes:
    """The table of constants of a training step and of what is beside it: `constant_words`."""
    if inference is None:
        return constant_words(graph, constants)
    return constant_words(inference.graph, {**constants, **inference.constants})


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

    Plans beside them share the tables of residents and constants.
    """
    counts, bytes_beside = _counts(graph, schedule), 0
    for plan in plans_beside(inference, extraction).values():
        beside = _counts(plan.graph, plan.schedule)
        counts |= {what: beside.pop(what) for what in _SHARED}
        bytes_beside += _bytes_of(beside)
    return _bytes_of(counts) + bytes_beside


def _bytes_of(counts: Mapping[str, int]) -> int:
    return sum(aligned(max(count, 1) * _STRUCT_BYTES[what]) for what, count in counts.items())


def _counts(graph: Graph, schedule: Schedule) -> dict[str, int]:
    """How many entries each table has."""
    offsets = _Table()
    _step_rows(graph, schedule, offsets)
    return _model_counts(graph) | {"schedule": 1, "step": len(schedule.steps), "offset": len(offsets.entries)}


@once_a_graph
def _model_counts(graph: Graph) -> dict[str, int]:
    """Those of the model alone."""
    params, operands = _Table(), _Table()
    numbers = _operand_numbers(graph)
    for node in graph.nodes:
        _node_row(node, numbers, params, operands)
    return {
        **{"model": 1, "node": len(graph.nodes), "value": len(_value_numbers(graph)), "resident": len(graph.residents)},
        **{"constant": len(graph.constants), "kept": len(graph.kept)},
        **{"param": len(params.entries), "operand": len(operands.entries)},
    }


def model_header(
    graph: Graph,
    schedule: Schedule,
    words: bytes = b"",
    inference: Inference | None = None,
    extraction: Extraction | None = None,
) -> str:
    """Text of `poet_model.h`. It depends on the schedule through its pages alone.

    Parameters
    ----------
    words : bytes
        The table of constants.
    inference : Inference, optional
        Beside the training step.
    extraction : Extraction, optional
        Likewise.
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
            *(["#define POET_BUILT_S8"] if has_integers(graph, inference, extraction) else []),
            "",
            model_tables(graph, schedule, words, "poet_built", inference, extraction),
            "#endif",
            "",
        )
    )


def has_integers(graph: Graph, inference: Inference | None = None, extraction: Extraction | None = None) -> bool:
    """Whether the image needs operators on int8, which are left out of others."""
    graphs = (graph, *(plan.graph for plan in plans_beside(inference, extraction).values()))
    return any(node.operation and node.operation.op.endswith(S8) for one in graphs for node in one.nodes)


def model_tables(
    graph: Graph,
    schedule: Schedule,
    words: bytes,
    prefix: str,
    inference: Inference | None = None,
    extraction: Extraction | None = None,
) -> str:
    """C text of a model, and of those beside it, as constant tables whose names begin with ``prefix``."""
    layout = card_layout(graph) or lay_out((), (), 0)
    plans = plans_beside(inference, extraction)
    longest = [graph, *(plan.graph for plan in plans.values())][-1]
    tables = [
        _lasting_tables(graph, layout, longest, prefix),
        _model_tables(graph, layout, schedule, words, prefix, prefix),
    ]
    for name, plan in plans.items():  # they read of the card what lies there for the training
        tables.append(_model_tables(plan.graph, layout, plan.schedule, words, f"{prefix}_{name}", prefix))
    return "\n".join(tables)


def _lasting_tables(graph: Graph, layout: CardLayout, longer: Graph, prefix: str) -> str:
    """What stays where it is: of the longer of two graphs that begin alike."""
    residents = [_resident_row(resident) for resident in longer.residents]
    return "\n".join(
        (
            _array("poet_resident", f"{prefix}_residents", residents, "{0}"),
            _array("poet_constant", f"{prefix}_constants", [_constant_row(one) for one in longer.constants], "{0}"),
            _array("poet_kept", f"{prefix}_kept", _kept_rows(graph, layout), "{0}"),
        )
    )


def _model_tables(graph: Graph, layout: CardLayout, schedule: Schedule, words: bytes, prefix: str, lasting: str) -> str:
    """``lasting`` begins the names of the tables of what stays where it is."""
    words = words[: constant_bytes(graph)]
    values = _value_numbers(graph)
    numbers = _operand_numbers(graph)
    params = _Table()
    operands = _Table()
    nodes = [_node_row(node, numbers, params, operands) for node in graph.nodes]
    pages = _pages(graph, schedule)
    sizes = {value.id: aligned(value.bytes) for node in graph.nodes for value in node.values}
    _check_index("values, residents, constants and kept tensors", len(numbers))
    _check_index("parameters", len(params.entries))
    _check_index("operands", len(operands.entries))
    _check_index("nodes", len(nodes))
    return "\n".join(
        (
            _array("poet_node", f"{prefix}_nodes", nodes, "{0}"),
            _array(
                "poet_value",
                f"{prefix}_values",
                [f"{{{sizes[id]}u, {pages.get(id, NO_PAGE)}}}" + remark(id) for id in values],
                "{0}",
            ),
            _array("int32_t", f"{prefix}_params", params.rows(), "0"),
            _array("uint16_t", f"{prefix}_operands", operands.rows("u"), "0"),
            f"static const poet_model {prefix}_model = {{",
            f"    .graph_hash = UINT64_C(0x{graph_hash(graph)}),",
            f"    .resident_bytes = {graph.resident_bytes}u,",
            f"    .node_count = {len(nodes)}u,",
            f"    .value_count = {len(values)}u,",
            f"    .resident_count = {len(graph.residents)}u,",
            f"    .param_count = {len(params.entries)}u,",
            f"    .operand_count = {len(operands.entries)}u,",
            f"    .micro_batches = {graph.micro_batches}u,",
            f"    .nodes = {prefix}_nodes,",
            f"    .values = {prefix}_values,",
            f"    .residents = {lasting}_residents,",
            f"    .params = {prefix}_params,",
            f"    .operands = {prefix}_operands,",
            f"    .constant_count = {len(graph.constants)}u,",
            f"    .constant_bytes = {len(words)}u,",
            f"    .constant_crc = 0x{crc32(words):08x}u,",
            f"    .constants = {lasting}_constants,",
            f"    .constant_words = {f'{lasting}_constant_words' if words else '0'},",
            f"    .kept_count = {len(graph.kept)}u,",
            f"    .unit_count = {len(layout.units)}u,",
            f"    .check_count = {layout.checks}u,",
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
            f"#define POET_BUILT_LIVE_COUNT {tables.live_count}",
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
    tables = [_schedule_tables(graph, schedule, prefix)]
    for name, plan in plans_beside(inference, extraction).items():
        tables.append(_schedule_tables(plan.graph, plan.schedule, f"{prefix}_{name}"))
    return "\n".join(tables)


def _schedule_tables(graph: Graph, schedule: Schedule, prefix: str) -> str:
    offsets = _Table()
    tables = tables_of(graph, schedule)
    rows = _step_rows(graph, schedule, offsets)
    return "\n".join(
        (
            _array("poet_step", f"{prefix}_steps", rows, "{0}"),
            _array("uint32_t", f"{prefix}_offsets", offsets.rows("u"), "0"),
            f"static const poet_schedule {prefix}_schedule = {{",
            f"    .graph_hash = UINT64_C(0x{schedule.graph_hash}),",
            f"    .hash = UINT64_C(0x{schedule_hash(schedule)}),",
            f"    .peak_bytes = {schedule.peak_bytes}u,",
            f"    .arena_bytes = {schedule.arena_bytes}u,",
            f"    .step_count = {len(rows)}u,",
            f"    .offset_count = {len(offsets.entries)}u,",
            f"    .live_count = {tables.live_count}u,",
            f"    .page_count = {tables.page_count}u,",
            f"    .steps = {prefix}_steps,",
            f"    .offsets = {prefix}_offsets,",
            "};",
            "",
        )
    )


class _Table:
    """Short integer lists one after another, equal ones stored once."""

    def __init__(self) -> None:
        self.entries: list[int] = []
        self._places: dict[tuple[int, ...], int] = {}

    def place(self, integers: Iterable[int]) -> int:
        """Index of the list's first integer in the table."""
        key = tuple(integers)
        if key not in self._places:
            self._places[key] = len(self.entries)
            self.entries += key
        return self._places[key]

    def rows(self, suffix: str = "") -> list[str]:
        """The integers as C, 16 a line."""
        lines = (self.entries[start : start + 16] for start in range(0, len(self.entries), 16))
        return [", ".join(f"{integer}{suffix}" for integer in line) for line in lines]


def _value_numbers(graph: Graph) -> dict[str, int]:
    """Place of each value in the value table; a value of 0 bytes has none (its tensor is a resident)."""
    ids = (value.id for node in graph.nodes for value in node.values if value.bytes)
    return {id: index for index, id in enumerate(ids)}


def _operand_numbers(graph: Graph) -> dict[str, int]:
    """Reference number of each tensor: values, residents, constants, kept tensors."""
    values = _value_numbers(graph)
    lasting = [*(resident.id for resident in graph.residents), *(constant.id for constant in graph.constants)]
    lasting += [kept.id for kept in graph.kept]
    return values | {id: len(values) + index for index, id in enumerate(lasting)}


def _node_row(node: Node, numbers: dict[str, int], params: _Table, operands: _Table) -> str:
    if node.operation is None:
        return "{0}" + remark(node.id)
    operation = node.operation
    refs = [numbers[id] for id in (*operation.operands, *operation.results)]
    keys = OPERATORS[operation.op].params
    configuration = parse_params(operation.params)
    return (
        f"{{{OPERATORS[operation.op].code}u, {len(operation.operands)}u, {len(operation.results)}u, "
        f"{_USES[node.uses]}, {params.place(configuration[key] for key in keys)}u, {operands.place(refs)}u, "
        f"{node.workspace_bytes}u}}" + remark(f"{node.id}: {operation.op} {operation.params}")
    )


def _resident_row(resident: Resident) -> str:
    kind = f"POET_RESIDENT_{resident.kind.upper()}"
    return f"{{{resident.offset}u, {resident.bytes}u, {kind}}}" + remark(resident.id)


def _constant_row(constant: Constant) -> str:
    return f"{{{constant.offset}u, {constant.bytes}u}}" + remark(constant.id)


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


def _pages(graph: Graph, schedule: Schedule) -> dict[str, str]:
    """First block and number of each value that the schedule pages, handed out consecutively in the graph's order."""
    paged = paged_values(schedule)
    pages: dict[str, str] = {}
    free = 0
    for node in graph.nodes:
        for value in node.values:
            if value.id in paged:
                pages[value.id] = f"{free}u, {len(pages)}u"
                free += blocks_of(value.bytes)
    return pages


def _step_rows(graph: Graph, schedule: Schedule, offsets: _Table) -> list[str]:
    values = _value_numbers(graph)
    nodes = {node.id: index for index, node in enumerate(graph.nodes)}
    return [_step_row(step, graph.nodes[nodes[step.target]], nodes[step.target], offsets)
            if step.do is Action.COMPUTE else _transfer_row(step, values) for step in schedule.steps]  # fmt: skip


def _step_row(step: Step, node: Node, index: int, offsets: _Table) -> str:
    places = [step.offsets[value.id] for value in node.values if value.bytes]
    if node.workspace_bytes:
        if step.workspace_offset is None:
            raise ValueError(f"compute {node.id} has no workspace offset")
        places.append(step.workspace_offset)
    return f"{{{_ACTIONS[step.do]}, 0u, {index}u, {offsets.place(places)}u}}" + remark(node.id)


def _transfer_row(step: Step, values: dict[str, int]) -> str:
    """A value of 0 bytes may be freed, which the firmware passes over; the rows stay those of schedule.json."""
    place = step.offsets[step.target] if step.do is Action.PAGE_IN else 0
    value = f"{values[step.target]}u" if step.target in values else "POET_NO_VALUE"
    return f"{{{_ACTIONS[step.do]}, 0u, {value}, {place}u}}" + remark(step.target)


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


def _check_index(what: str, count: int) -> None:
    if count > _LARGEST_INDEX:
        raise UserError(f"{count} {what} are more than the firmware's 16-bit tables hold; plan a smaller model")
