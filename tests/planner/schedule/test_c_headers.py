# SPDX-License-Identifier: Apache-2.0
"""The C headers, compiled and read back by a C compiler."""

from __future__ import annotations

import re
import struct
import subprocess
from binascii import crc32
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from poet_planner.schedule.c_headers import constant_words, write_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.errors import UserError
from poet_profiles.firmware.steps import POINTWISE, Step, words_of
from poet_profiles.graph import Constant, Graph, Kept, Node, Operation, Resident, Value
from poet_profiles.graph.file import graph_hash
from poet_profiles.plan_folder.beside import Inference
from poet_profiles.schedule import Action, Schedule
from poet_profiles.schedule.calls import Call
from poet_profiles.schedule.file import schedule_hash

from tests.support import ROOT, needs
from tests.support.firmware.crude_schedules import everything_paged, everything_recomputed
from tests.support.graphs.kept_graphs import kept_step, table_step
from tests.support.graphs.replayed_calls import faults_of


def node(id: str, bytes: int, operation: tuple[str, str, tuple[str, ...], tuple[str, ...]], *inputs: str) -> Node:
    return Node(id, 0.1, 0.2, (Value(id, bytes),), inputs, operation=Operation(*operation))


def small_graph() -> Graph:
    """Two max-poolings one after another and a gradient, with a workspace and an ordering node."""
    pool, read = "n=1 c=1 h=4 w=4 r=2 s=2 sh=2 sw=2 ph=0 pw=0", ("relu", "pool.indices")
    return Graph(
        "small */ graph",
        (
            Node(
                "pool",
                0.1,
                0.2,
                (Value("pool", 16), Value("pool.indices", 4)),
                operation=Operation("max_pool2d", pool, ("input",), ("pool", "pool.indices")),
                workspace_bytes=6,
            ),
            node("relu", 15, ("pointwise", "size=4 steps=relu(y0,x0)", ("pool",), ("relu",)), "pool"),
            node("grad", 0, ("max_pool2d_backward", pool, read, ("w.grad",)), *read),
            Node("gradients", 0, 0, (Value("gradients", 0),), ("grad",)),
            replace(node("sgd", 0, ("sgd", "size=16", ("w.grad",), ("input",)), "gradients"), recomputable=False),
        ),
        resident_bytes=128,
        residents=(
            Resident("input", "input", 64, 0, (1, 1, 4, 4)),
            Resident("w.grad", "gradient", 64, 64, (1, 1, 4, 4)),
        ),
    )


FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wconversion", f"-I{ROOT / 'firmware' / 'include'}"]


DUMP = """
#include <stdio.h>
#include "poet_model.h"
#include "poet_schedule.h"
static void dump(const poet_schedule *s)
{
    printf("%016llx %016llx", (unsigned long long)s->graph_hash, (unsigned long long)s->hash);
    printf(" %u %u", (unsigned)s->ram_bytes, (unsigned)s->page_blocks);
    printf(" %u %08x", (unsigned)s->page_count, (unsigned)s->crc);
    for (unsigned i = 0; i < s->operator_count; i++) printf(" %u", s->operators[i].code);
    for (unsigned i = 0; i < s->call_count; i++) {
        const poet_call *c = &s->calls[i];
        const unsigned page = c->op >= POET_PAGE_IN, count = page ? POET_PAGE_WORDS : c->inputs + c->outputs;
        printf("\\n%u %u %u %u", c->op, c->flags, c->inputs, c->outputs);
        for (unsigned k = 0; k < count + (c->flags & POET_WORKSPACE); k++)
            printf(" %u", (unsigned)s->words[c->words + k]);
        const int32_t *params = s->params + c->params;
        for (int k = 0; !page && k < poet_operator_params(&s->operators[c->op], params); k++)
            printf(" %d", (int)params[k]);
    }
    printf("\\n");
}
int main(void)
{
    dump(&poet_built_schedule);
    return 0;
}
"""


def compiled(folder: Path, source: str) -> str:
    """What a program says that includes the headers; it calls no operator, and so needs none."""
    (folder / "main.c").write_text(source)
    program = folder / "main"
    flags = [*FLAGS, "-Wl,--unresolved-symbols=ignore-all", "-no-pie", f"-I{folder}"]
    subprocess.run(["gcc", *flags, str(folder / "main.c"), "-o", str(program)], check=True)
    return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout


ROW = re.compile(r"POET_(?:OPERATOR_ROW\(\w+, (\w+)|STEP_ROW\((\w+), (\d))")


def calls_in(lines: list[str], header: str) -> list[Call]:
    """The compiled calls, decoded by docs/SPEC.md and the rows in the header."""
    rows = ROW.findall(header)
    calls = []
    for number, flags, inputs, outputs, *numbers in (map(int, line.split()) for line in lines):
        if number in (0xFE, 0xFF):
            calls.append(Call("in" if number == 0xFE else "out", (), inputs=tuple(numbers), waits=bool(flags & 2)))
            continue
        end = inputs + outputs
        op, step, operands = rows[number]
        size, *rest = numbers[end + (flags & 1) :]
        if step:
            word, *_ = words_of([Step(step, "y0", ("x0", "x1")[: int(operands)])])
            op, rest = POINTWISE, [1 + len(rest), word, *rest]
        calls.append(
            Call(
                op,
                (),
                params=(size, *rest),
                inputs=tuple(numbers[:inputs]),
                outputs=tuple(numbers[inputs:end]),
                workspace=numbers[end] if flags & 1 else None,
                waits=bool(flags & 2),
                changes=bool(flags & 4),
            )
        )
    return calls


@needs.gcc
@pytest.mark.parametrize("make", [store_all_schedule, everything_paged, everything_recomputed])
@pytest.mark.parametrize("graph", [small_graph(), kept_step(), table_step()], ids=lambda graph: graph.name)
def test_compiled_calls_meet_what_was_written_last(
    graph: Graph, make: Callable[[Graph], Schedule], tmp_path: Path
) -> None:
    schedule = make(graph)
    write_headers(graph, schedule, tmp_path)
    first, *calls = compiled(tmp_path, DUMP).splitlines()
    hash, own, ram, blocks, pages, *_ = first.split()
    assert (hash, own) == (graph_hash(graph), schedule_hash(schedule))
    assert int(ram) == graph.resident_bytes + schedule.arena_bytes
    paged = {step.target for step in schedule.steps if step.do is Action.PAGE_OUT}
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    assert (int(blocks), int(pages)) == (sum(-(-sizes[id] // 512) for id in paged), len(paged))
    assert faults_of(graph, schedule, calls_in(calls, (tmp_path / "poet_schedule.h").read_text())) == []


def frozen_graph(data: dict[str, NDArray[Any]]) -> Graph:
    """The small graph with constants; the ReLU reads the first of them instead of the pool."""
    small, places = small_graph(), {"w": 8, "table": 4}
    constants = tuple(
        Constant(id, array.nbytes, places[id], array.shape, f"{crc32(array.tobytes()):08x}")
        for id, array in data.items()
    )
    relu = replace(small.nodes[1], operation=Operation("pointwise", "size=4 steps=relu(y0,x0)", ("w",), ("relu",)))
    return replace(small, nodes=(small.nodes[0], relu, *small.nodes[2:]), constants=constants)


DATA: dict[str, NDArray[Any]] = {"w": np.array([1, -2, 3, 4], "<f4"), "table": np.array([-7], "<i4")}


@needs.gcc
def test_constants_lie_where_the_graph_says(tmp_path: Path) -> None:
    graph = frozen_graph(DATA)
    write_headers(graph, store_all_schedule(graph), tmp_path, DATA)
    (tmp_path / "main.c").write_text(
        """
        #include <stdio.h>
        #include "poet_model.h"
        int main(void) {
            const poet_model *m = &poet_built_model;
            printf("%08x", (unsigned)m->constant_crc);
            for (unsigned i = 0; i < m->constant_bytes / 4; i++) printf(" %08x", (unsigned)m->constant_words[i]);
            return 0;
        }
        """
    )
    program = tmp_path / "main"
    subprocess.run(["gcc", *FLAGS, f"-I{tmp_path}", str(tmp_path / "main.c"), "-o", str(program)], check=True)
    text = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    table = bytes(4) + DATA["table"].tobytes() + DATA["w"].tobytes()
    words = [f"{word:08x}" for (word,) in struct.iter_unpack("<I", table)]
    assert text.split() == [f"{crc32(table):08x}", *words]


@needs.gcc
def test_kept_tensors_lie_where_the_layout_says(tmp_path: Path) -> None:
    """By hand: homes of w and of the resident b, the same again, a constant, and a batch of x and t."""
    graph = kept_step()
    (w, x), table, t = graph.kept, Kept("table", "constant", 512), Kept("t", "target", 4)
    graph = replace(graph, kept=(replace(x, bytes=1025), table, replace(w, bytes=1024), t))
    write_headers(graph, store_all_schedule(graph), tmp_path)
    (tmp_path / "main.c").write_text(
        """
        #include <stdio.h>
        #include "poet_model.h"
        int main(void) {
            const poet_model *m = &poet_built_model;
            printf("%u %u %u ", m->kept_count, m->unit_count, m->check_count);
            printf("%u %u %u\\n", (unsigned)m->home_blocks, (unsigned)m->batch_block, (unsigned)m->batch_blocks);
            for (unsigned i = 0; i < m->kept_count; i++) {
                const poet_kept *k = &m->kept[i];
                printf("%u %u %u %u\\n", (unsigned)k->bytes, (unsigned)k->block, k->check, k->kind);
            }
            return 0;
        }
        """
    )
    program = tmp_path / "main"
    subprocess.run(["gcc", *FLAGS, f"-I{tmp_path}", str(tmp_path / "main.c"), "-o", str(program)], check=True)
    lines = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0] == "4 2 3 3 7 4"
    assert lines[1:] == ["1025 7 65535 4", "512 6 2 7", "1024 0 0 1", "4 10 65535 5"]


@pytest.mark.parametrize("data", [{}, {"w": DATA["w"]}, DATA | {"w": -DATA["w"]}, DATA | {"w": DATA["w"][1:]}])
def test_other_data_than_the_graphs_gets_no_headers(tmp_path: Path, data: dict[str, NDArray[Any]]) -> None:
    graph = frozen_graph(DATA)
    with pytest.raises(UserError, match="is not that of the graph; plan again"):
        write_headers(graph, store_all_schedule(graph), tmp_path, data)
    assert not list(tmp_path.iterdir())


def test_plain_schedule_counts_peak_and_places_tensors_apart() -> None:
    schedule = store_all_schedule(small_graph())
    assert schedule.peak_bytes == 128 + 16 + 4 + 16
    assert schedule.energy_j == pytest.approx(0.8)
    first = schedule.steps[0]
    assert first.workspace_offset is not None
    places = sorted([(first.offsets["pool"], 16), (first.offsets["pool.indices"], 4), (first.workspace_offset, 8)])
    assert all(start + size <= after for (start, size), (after, _) in pairwise(places))


def test_graph_with_unknown_operator_has_no_headers(tmp_path: Path) -> None:
    graph = Graph("g", (Node("n", 0, 0, (Value("n", 4),), operation=Operation("aten.erf", "size=1", (), ("n",))),))
    with pytest.raises(UserError, match=r"aten\.erf"):
        write_headers(graph, store_all_schedule(graph), tmp_path)


def with_inference(graph: Graph) -> Inference:
    """Beside a graph whose constant it reads, with one more that the graph lacks."""
    own = np.array([9, 8, 7, 6], "<f4")
    first = max((constant.offset + constant.bytes for constant in graph.constants), default=0)
    beside = Graph(
        "beside",
        (
            node("add", 16, ("pointwise", "size=4 steps=add(y0,x0,x1)", ("w", "in"), ("add",))),
            node("mul", 0, ("pointwise", "size=4 steps=mul(y0,x0,x1)", ("add", "own"), ("out",)), "add"),
        ),
        resident_bytes=graph.resident_bytes + 32,
        residents=(
            *graph.residents,
            Resident("in", "input", 16, graph.resident_bytes, (1, 4)),
            Resident("out", "output", 16, graph.resident_bytes + 16, (1, 4)),
        ),
        constants=(*graph.constants, Constant("own", 16, first, (4,), f"{crc32(own.tobytes()):08x}")),
    )
    return Inference(beside, store_all_schedule(beside), {"own": own})


@needs.gcc
def test_an_inference_shares_the_tables_of_what_stays(tmp_path: Path) -> None:
    graph = frozen_graph(DATA)
    schedule, inference = store_all_schedule(graph), with_inference(graph)
    write_headers(graph, schedule, tmp_path, DATA, inference)
    (tmp_path / "main.c").write_text(
        """
        #include <stdio.h>
        #include "poet_model.h"
        #include "poet_schedule.h"
        int main(void) {
            const poet_model *m = &poet_built_model, *i = &poet_built_inference_model;
            const poet_schedule *t = &poet_built_schedule, *s = &poet_built_inference_schedule;
            printf("%d %d %d ", m->residents == i->residents, t->operators == s->operators, t->params == s->params);
            printf("%u %u ", m->resident_count, i->resident_count);
            printf("%u %u %08x %08x ", (unsigned)m->constant_bytes, (unsigned)i->constant_bytes,
                   (unsigned)m->constant_crc, (unsigned)i->constant_crc);
            for (unsigned k = 0; k < 6; k++) printf("%u ", (unsigned)s->words[k]);
            printf("%u %u ", POET_BUILT_RAM_BYTES, (unsigned)i->residents[3].offset);
            printf("%016llx %016llx", (unsigned long long)i->graph_hash,
                   (unsigned long long)poet_built_inference_schedule.hash);
            return 0;
        }
        """
    )
    said = compiled(tmp_path, (tmp_path / "main.c").read_text()).split()
    words = constant_words(inference.graph, {**DATA, **inference.constants})
    assert said[:7] == ["1", "1", "1", "2", "4", "24", "40"]
    assert said[7:9] == [f"{crc32(words[:24]):08x}", f"{crc32(words):08x}"]
    # add reads w in flash and `in`, and its value is the arena's first; mul reads that and `own`, and writes `out`.
    arena = inference.graph.resident_bytes
    assert said[9:15] == [str(one) for one in (8 | 1, 128, arena, arena, 24 | 1, 144)]
    assert said[15:17] == [str(max(128 + schedule.arena_bytes, 160 + 16)), str(graph.resident_bytes + 16)]
    assert said[17:] == [graph_hash(inference.graph), schedule_hash(inference.schedule)]
