# SPDX-License-Identifier: Apache-2.0
"""A plan as a library for PlatformIO and Arduino, which an application trains by itself (docs/own_application.md)."""

from __future__ import annotations

import json
import re
from binascii import crc32
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Any

from poet_profiles.errors import UserError
from poet_profiles.files.whole_file import write_whole
from poet_profiles.firmware.arduino import library_properties
from poet_profiles.firmware.operators import OPERATORS, kernels_of, parse_params
from poet_profiles.graph import Graph, Kept, Operation, Resident
from poet_profiles.graph.kept import BATCH_KINDS, FEATURE
from poet_profiles.graph.model import number_bytes
from poet_profiles.plan_folder.beside import Extraction, Inference, Stream, plans_beside, ram_bytes
from poet_profiles.schedule import Schedule
from poet_profiles.schedule.file import schedule_hash

from poet_planner.schedule.c_headers import (
    PLAN_FORMAT,
    model_tables,
    remark,
    schedule_tables,
    steps_of_graphs,
    table_bytes,
    title,
    why_no_headers,
    words_for_both,
)
from poet_planner.schedule.c_names import why_no_name
from poet_planner.schedule.firmware_tables import FirmwareTables, tables_for_all

if TYPE_CHECKING:
    from numpy.typing import NDArray

Arrays = Mapping[str, "NDArray[Any]"]

_LASTING = ("parameter", "state")
# What a call takes of the stack at most, but for interrupts, hooks and the card's driver: 2,416 bytes on a Cortex-M0+,
# 2,072 on an M4F (gcc 12 -O2).
STACK_BYTES = 2560
MAKER_CALLS = ("check", "make", "begin", "go_on")  # of a poet_feature_maker, in its order
_PLAIN = frozenset(ascii_letters + digits + " _-+.,:/()")


def check_name(name: str) -> None:
    """Refuse what is no name for a network (:func:`why_no_name`)."""
    reason = why_no_name(name)
    if reason:
        raise UserError(f"--library {name}: {reason}")


def why_no_library(graph: Graph) -> str | None:
    """What keeps an application from training the graph by itself, or None."""
    features = [resident.id for resident in graph.residents if resident.kind == FEATURE]
    read = {id for node in graph.nodes for id in (node.operation.operands if node.operation else ())}
    if len(features) > 1 or (features and read & {one.id for one in graph.residents if one.kind == "input"}):
        return "a program keeps one tensor of a sample, and this step reads more; plan with --features whole"
    return why_no_headers(graph)


def write_library(
    name: str,
    graph: Graph,
    schedule: Schedule,
    constants: Arrays,
    initial: Arrays | None,
    folder: Path,
    inference: Inference | None = None,
    classes: Sequence[str] = (),
    extraction: Extraction | None = None,
) -> tuple[int, int]:
    """Write ``library.json``, ``library.properties``, and in ``src`` header, tables and data of a network.

    Returns what plan and tables take of a chip's RAM, data and tables of its flash, in bytes.

    Parameters
    ----------
    constants : mapping of str to array
        The data of the graph's constants, by id.
    initial : mapping of str to array, optional
        What parameters and states begin with, by id; a state that is not there begins with zeros. None: all do.
    inference : Inference, optional
        Beside the training step.
    classes : sequence of str
        Names of the classes that the inference has scores for, if they have any.
    extraction : Extraction, optional
        What makes features, likewise.

    Raises
    ------
    UserError
        If an application cannot train the graph, a name is refused, or the data are not the graph's, or there are more
        or fewer classes than scores.
    """
    check_name(name)
    reason = why_no_library(graph)
    if reason:
        raise UserError(f"--library {name}: {graph.name}: {reason}")
    batch_bytes = sum(one.bytes for one in _kept_batch(graph))
    schedule = replace(schedule, arena_bytes=max(schedule.arena_bytes, batch_bytes))  # it lies there before a step
    classes = _classes(graph, inference, classes)
    data = {f"{name}_constant_words": words_for_both(graph, inference, constants)}
    data[f"{name}_initial"] = b"" if initial is None else initial_bytes(graph, initial)
    data = {symbol: content for symbol, content in data.items() if content}
    files: dict[str, str | bytes] = {
        "library.json": json.dumps(_manifest(name, graph, schedule), indent=2) + "\n",
        "library.properties": library_properties(_manifest(name, graph, schedule), depends="poet"),
        f"src/{name}.h": _header(name, graph, schedule, classes, inference, extraction),
        f"src/{name}.c": _source(name, graph, schedule, data, classes, inference, extraction),
        f"src/{name}_data.S": _data(graph, schedule, data),
        **{f"src/{symbol}.bin": content for symbol, content in data.items()},
    }
    for path, text in files.items():
        write_whole(folder / path, text)
    taken = ram_bytes(graph, schedule, inference, extraction)
    taken += tables_for_all(graph, schedule, inference, extraction).bytes
    return taken, sum(map(len, data.values())) + table_bytes(graph, schedule, inference, extraction)


def initial_bytes(graph: Graph, arrays: Arrays) -> bytes:
    """Parameters and states one after the other, in the order of the graph's residents, without the zeros at the end.

    An optimiser's states begin with zeros and stand after all others: they would double or triple the flash.

    Raises
    ------
    UserError
        If a parameter is missing, or one of them has another size.
    """
    content = bytearray()
    for resident in graph.residents:
        if resident.kind not in _LASTING:
            continue
        if resident.id not in arrays and resident.kind == "state":
            content += bytes(resident.bytes)
            continue
        found = arrays[resident.id].tobytes() if resident.id in arrays else b""
        if len(found) != resident.bytes:
            raise UserError(f"{graph.name}: {resident.id} has {len(found)} bytes to begin with, not {resident.bytes}")
        content += found
    words = -(-len(content.rstrip(b"\0")) // 4)
    return bytes(content[: 4 * words])


def _classes(graph: Graph, inference: Inference | None, classes: Sequence[str]) -> Sequence[str]:
    """Those that an application has use for: without an inference it has no scores."""
    if inference is None or not classes:
        return ()
    count = inference.class_count
    if len(classes) != count:
        raise UserError(f"{graph.name}: has names for {len(classes)} classes, and scores for {count}; name each class")
    return classes


def _manifest(name: str, graph: Graph, schedule: Schedule) -> dict[str, Any]:
    return {
        "name": name,
        "version": f"1.0.0+{schedule_hash(schedule)}",
        "description": f"Training of {graph.name}, as poet-plan planned it",
        "frameworks": "*",
        "platforms": "*",
        "headers": f"{name}.h",
        # The assembler looks for data where the compiler looks for headers.
        "build": {"includeDir": "src", "srcDir": "src", "flags": ["-Isrc"]},
    }


def _header(
    name: str,
    graph: Graph,
    schedule: Schedule,
    classes: Sequence[str],
    inference: Inference | None,
    extraction: Extraction | None,
) -> str:
    big = name.upper()
    batch = _batch(graph)
    residents = inference.graph.residents if inference else graph.residents
    sizes = {
        f"{big}_RAM_BYTES": ram_bytes(graph, schedule, inference, extraction),
        f"{big}_STACK_BYTES": STACK_BYTES,
        f"{big}_BATCH": batch,
        f"{big}_MICRO_BATCHES": graph.micro_batches,
        **{f"{big}_{one.kind.upper()}_BYTES": one.bytes // batch for one in reversed(_samples(graph))},
        **({f"{big}_FEATURE_BYTES": extraction.sample_bytes} if extraction else {}),
        **(_inference_sizes(big, inference.own(graph)) if inference else {}),
        **(_stream_sizes(big, graph, inference.stream) if inference and inference.stream else {}),
        **({f"{big}_CLASS_COUNT": len(classes)} if classes else {}),
    }
    numbers = _identifiers((resident.id for resident in residents), name)
    return "\n".join(
        (
            title(graph, schedule),
            f"#ifndef {big}_H",
            f"#define {big}_H",
            "",
            "#include <poet.h>",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            f"extern const poet_network {name};",
            "",
            "/* Stack: of a call, at most, on a Cortex-M at -O2; interrupts, hooks and the card's driver come on top.",
            " * Batch: samples of a call of poet_train; inputs, features and target: of one sample. */",
            *(f"#define {key} {size}u" for key, size in sizes.items()),
            "",
            *([f"extern const char *const {name}_classes[{big}_CLASS_COUNT];", ""] if classes else []),
            "/* For poet_tensor. */",
            "enum {",
            *(
                f"    {number} = {place},{remark(resident.id)}"
                for place, (number, resident) in enumerate(zip(numbers, residents, strict=True))
            ),
            "};",
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            "#endif",
            "",
        )
    )


def _inference_sizes(big: str, own: tuple[Resident, ...]) -> dict[str, int]:
    """Of the first input, and how many numbers the output has."""
    return {f"{big}_SAMPLE_BYTES": own[0].bytes, f"{big}_OUTPUT_COUNT": own[-1].bytes // 4}


def _stream_sizes(big: str, graph: Graph, stream: Stream) -> dict[str, int]:
    """Of the columns of a call, and after how many calls it has heard a window."""
    return {
        f"{big}_STREAM_BYTES": stream.graph.residents[len(graph.residents)].bytes,
        f"{big}_STREAM_CALLS": stream.calls,
    }


def _source(
    name: str,
    graph: Graph,
    schedule: Schedule,
    data: Mapping[str, bytes],
    classes: Sequence[str],
    inference: Inference | None,
    extraction: Extraction | None,
) -> str:
    tables = tables_for_all(graph, schedule, inference, extraction)
    stream = inference.stream if inference else None
    plans = plans_beside(inference, extraction)
    nodes = (*graph.nodes, *(node for plan in plans.values() for node in plan.graph.nodes))
    kernels = _kernels(node.operation for node in nodes if node.operation)
    kernels += ["card"] if graph.kept or tables.page_count else []
    steps = steps_of_graphs(graph, inference, extraction, of_groups=True)
    kernels += ["micro_batches"] if graph.micro_batches > 1 else []
    words, initial = (data.get(f"{name}_{what}", b"") for what in ("constant_words", "initial"))
    return "\n".join(
        (
            title(graph, schedule),
            f'#include "{name}.h"',
            "",
            '#include "poet/operator.h"',
            *(['#include "poet/keeping.h"'] if graph.kept else []),
            *(['#include "poet/feature_maker.h"'] if extraction else []),
            "",
            *(f"extern const uint32_t {symbol}[]; /* {name}_data.S */" for symbol in data),
            "",
            *(f"POET_KERNELS({kernel})" for kernel in kernels),
            *(f"POET_STEPS({step})" for step in steps),
            *([""] if kernels else []),
            f"#if POET_PLAN_FORMAT != {PLAN_FORMAT}",
            '#error "made by another version of poet: plan again"',
            "#endif",
            "",
            model_tables(graph, words, name, inference, extraction),
            schedule_tables(graph, schedule, name, inference, extraction),
            f"static poet_page {name}_pages[{tables.page_count + 1}]; /* C has no empty arrays */",
            *_record_tables(name, graph, tables),
            f"static const poet_tables {name}_tables = {{",
            *([f"    .checks = {name}_checks, .homes = {name}_homes,"] if graph.kept else []),
            f"    .pages = {name}_pages}};",
            "",
            f"static const poet_plan {name}_train = {{&{name}_model, &{name}_schedule}};",
            *([_plan(name, "inference")] if inference else []),
            *([_plan(name, "stream")] if stream else []),
            *(_feature_maker(name, extraction) if extraction else []),
            *_class_table(name, classes),
            f"const poet_network {name} = {{",
            f"    .train = &{name}_train,",
            f"    .infer = {f'&{name}_inference' if inference else '0'},",
            f"    .tables = &{name}_tables,",
            f"    .initial = {f'{name}_initial' if initial else '0'},",
            f"    .initial_bytes = {len(initial)}u,",
            f"    .initial_crc = 0x{crc32(initial):08x}u,",
            f"    .batch = {_batch(graph)}u,",
            f"    .ram_bytes = {ram_bytes(graph, schedule, inference, extraction)}u,",
            f"    .owner = 0x{crc32(name.encode()):08x}u,",
            *([f"    .keeping = &{name}_keeping,"] if graph.kept else []),
            *([f"    .maker = &{name}_maker,"] if extraction else []),
            *([f"    .stream = &{name}_stream,", f"    .stream_calls = {stream.calls}u,"] if stream else []),
            "};",
            "",
        )
    )


def _plan(name: str, beside: str) -> str:
    return f"static const poet_plan {name}_{beside} = {{&{name}_{beside}_model, &{name}_{beside}_schedule}};"


def _feature_maker(name: str, extraction: Extraction) -> list[str]:
    infer = f"&{name}_feature_inference" if extraction.inference else "0"
    return [
        *([_plan(name, "feature_inference")] if extraction.inference else []),
        f"static const poet_extraction {name}_extraction = {{",
        f"    {{&{name}_extraction_model, &{name}_extraction_schedule}},",
        f"    {extraction.samples}u, {extraction.at_once}u, {infer}}};",
        f"static const poet_feature_maker {name}_maker = {{",
        f"    &{name}_extraction, {', '.join(f'poet_feature_maker_{call}' for call in MAKER_CALLS)}}};",
    ]


def _record_tables(name: str, graph: Graph, tables: FirmwareTables) -> list[str]:
    """What a network needs that has tensors on the card."""
    calls = [f"poet_keeping_{call}" for call in ("open", "restore", "commit")]
    calls += ["poet_keeping_sample", "poet_keeping_give"] if _kept_batch(graph) else ["0", "0"]
    if not tables.check_count:
        return []
    return [
        f"static poet_check {name}_checks[{tables.check_count}];",
        f"static uint32_t {name}_homes[POET_HOME_WORDS({tables.bit_count}u) + 1u];",
        f"static poet_record {name}_record;",
        f"static const poet_keeping {name}_keeping = {{",
        f"    &{name}_record, {', '.join(calls)}}};",
    ]


def _class_table(name: str, classes: Sequence[str]) -> list[str]:
    if not classes:
        return []
    rows = (f"    {_text(one)}," for one in classes)
    return [f"const char *const {name}_classes[{name.upper()}_CLASS_COUNT] = {{", *rows, "};"]


def _text(words: str) -> str:
    """A string in C, in UTF-8; what could mean something to a compiler is a number there."""
    bytes = words.encode()
    return '"' + "".join(chr(byte) if chr(byte) in _PLAIN else f"\\{byte:03o}" for byte in bytes) + '"'


def _kernels(operations: Iterable[Operation]) -> list[str]:
    """Those that operators need and the core links only where they are named: as POET_KERNELS calls them."""
    every = (kernels_of(one.op, parse_params(one.params)) for one in operations if one.op in OPERATORS)
    return sorted(set().union(*every))


def _data(graph: Graph, schedule: Schedule, data: Mapping[str, bytes]) -> str:
    """Assembly that takes the data in. With other data it has another CRC, and is built anew."""
    lines = [title(graph, schedule)]
    for symbol, content in data.items():
        lines += [
            f"/* {symbol}.bin: {len(content)} bytes, CRC-32 {crc32(content):08x} */",
            f'    .section .rodata.{symbol},"a"',
            "    .balign 4",
            f"    .global {symbol}",
            f"{symbol}:",
            f'    .incbin "{symbol}.bin"',
            "",
        ]
    lines += ["#ifdef __linux__", '    .section .note.GNU-stack,"",%progbits', "#endif", ""]
    return "\n".join(lines)


def _samples(graph: Graph) -> list[Resident | Kept]:
    """First input, and first target, as far as there are any: where poet_input and poet_target point."""
    firsts: dict[str, Resident | Kept] = {}
    tensors: tuple[Resident | Kept, ...] = (*graph.residents, *graph.kept)
    for tensor in tensors:
        if tensor.kind in BATCH_KINDS:
            firsts.setdefault(tensor.kind, tensor)
    return [firsts[kind] for kind in ("target", "input") if kind in firsts]


def _kept_batch(graph: Graph) -> list[Kept]:
    return [one for one in graph.kept if one.kind in BATCH_KINDS]


def _batch(graph: Graph) -> int:
    """Samples in a step: the first axis of the input. 1 where the tensors of a batch cannot be cut so."""
    samples = _samples(graph)
    batch = samples[-1].shape[0] if samples and samples[-1].shape else 1
    return batch if all(one.bytes % (number_bytes(one.dtype) * batch) == 0 for one in samples) else 1


def _identifiers(ids: Iterable[str], name: str) -> list[str]:
    """A name in C for each tensor; where two would be equal, the later one gets a number."""
    used: set[str] = set()
    found = []
    for id in ids:
        plain = f"{name}_tensor_{re.sub(r'[^A-Za-z0-9]', '_', id)}"
        one, number = plain, 1
        while one in used:
            number += 1
            one = f"{plain}_{number}"
        used.add(one)
        found.append(one)
    return found
