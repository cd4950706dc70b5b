# SPDX-License-Identifier: Apache-2.0
"""The C headers, compiled and read back by a C compiler."""

from __future__ import annotations

import shutil
import struct
import subprocess
from binascii import crc32
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from poet_planner.schedule.c_headers import constant_words, table_bytes, write_headers
from poet_planner.schedule.inference import Inference
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.errors import UserError
from poet_profiles.graph import Constant, Graph, Kept, Node, Operation, Resident, Value
from poet_profiles.graph.file import graph_hash
from poet_profiles.schedule.file import schedule_hash

from tests.support import ROOT
from tests.support.graphs.kept_graphs import kept_step


def small_graph() -> Graph:
    """Two max-poolings one after another and a gradient, with a workspace and an ordering node."""
    pool = "n=1 c=1 h=4 w=4 r=2 s=2 sh=2 sw=2 ph=0 pw=0"
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
            Node(
                "relu",
                0.1,
                0.2,
                (Value("relu", 15),),
                ("pool",),
                operation=Operation("relu", "size=4", ("pool",), ("relu",)),
            ),
            Node(
                "grad",
                0.1,
                0.2,
                (Value("grad", 0),),
                ("relu", "pool.indices"),
                operation=Operation("max_pool2d_backward", pool, ("relu", "pool.indices"), ("w.grad",)),
            ),
            Node("gradients", 0, 0, (Value("gradients", 0),), ("grad",)),
            Node(
                "sgd",
                0.1,
                0.2,
                (Value("sgd", 0),),
                ("gradients",),
                recomputable=False,
                operation=Operation("sgd", "size=16", ("w.grad",), ("input",)),
            ),
        ),
        resident_bytes=128,
        residents=(
            Resident("input", "input", 64, 0, (1, 1, 4, 4)),
            Resident("w.grad", "gradient", 64, 64, (1, 1, 4, 4)),
        ),
    )


FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wconversion", f"-I{ROOT / 'firmware' / 'include'}"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_headers_compile_and_hold_the_graph(tmp_path: Path) -> None:
    graph = small_graph()
    schedule = store_all_schedule(graph)
    write_headers(graph, schedule, tmp_path)
    (tmp_path / "main.c").write_text(
        """
        #include <stdio.h>
        #include "poet_model.h"
        #include "poet_schedule.h"
        int main(void) {
            const poet_model *m = &poet_built_model;
            printf("%016llx\\n", (unsigned long long)m->graph_hash);
            for (unsigned i = 0; i < m->value_count; i++) printf("value %u\\n", (unsigned)m->values[i].bytes);
            for (unsigned i = 0; i < m->node_count; i++) {
                const poet_node *n = &m->nodes[i];
                printf("node %u ws %u:", n->op, (unsigned)n->workspace_bytes);
                for (unsigned k = 0; k < (unsigned)n->input_count + n->output_count; k++)
                    printf(" %u", m->operands[n->operands + k]);
                printf("; %d\\n", (int)m->params[n->params]);
            }
            for (unsigned i = 0; i < poet_built_schedule.step_count; i++)
                printf("step %u %u\\n", poet_built_schedule.steps[i].action, poet_built_schedule.steps[i].index);
            return 0;
        }
        """
    )
    program = tmp_path / "main"
    subprocess.run(["gcc", *FLAGS, f"-I{tmp_path}", str(tmp_path / "main.c"), "-o", str(program)], check=True)
    lines = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0] == graph_hash(graph)
    assert lines[1:4] == ["value 16", "value 4", "value 16"]
    assert lines[4] == "node 9 ws 6: 3 0 1; 1"
    assert lines[5] == "node 7 ws 0: 0 2; 4"
    assert lines[6] == "node 10 ws 0: 2 1 4; 1"
    assert lines[7].startswith("node 0 ws 0:;")
    assert lines[8] == "node 19 ws 0: 4 3; 16"
    assert lines[9:] == [
        "step 1 0",
        "step 1 1",
        "step 4 0",
        "step 1 2",
        "step 4 1",
        "step 4 2",
        "step 1 3",
        "step 1 4",
    ]


def frozen_graph(data: dict[str, NDArray[Any]]) -> Graph:
    """The small graph with constants; the ReLU reads the first of them instead of the pool."""
    small, places = small_graph(), {"w": 8, "table": 4}
    constants = tuple(
        Constant(id, array.nbytes, places[id], array.shape, f"{crc32(array.tobytes()):08x}")
        for id, array in data.items()
    )
    relu = replace(small.nodes[1], operation=Operation("relu", "size=4", ("w",), ("relu",)))
    return replace(small, nodes=(small.nodes[0], relu, *small.nodes[2:]), constants=constants)


DATA: dict[str, NDArray[Any]] = {"w": np.array([1, -2, 3, 4], "<f4"), "table": np.array([-7], "<i4")}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_constants_lie_where_the_graph_says(tmp_path: Path) -> None:
    graph = frozen_graph(DATA)
    write_headers(graph, store_all_schedule(graph), tmp_path, DATA)
    (tmp_path / "main.c").write_text(
        """
        #include <stdio.h>
        #include "poet_model.h"
        int main(void) {
            const poet_model *m = &poet_built_model;
            for (unsigned i = 0; i < m->constant_count; i++)
                printf("%u %u %u ", i, (unsigned)m->constants[i].offset, (unsigned)m->constants[i].bytes);
            printf("%08x %u", (unsigned)m->constant_crc, m->operands[m->nodes[1].operands]);
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
    # 3 values and 2 residents come before the first constant.
    assert text.split() == ["0", "8", "16", "1", "4", "4", f"{crc32(table):08x}", "5", *words]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
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
            for (unsigned i = 0; i < 2; i++) printf("%u %u\\n", m->nodes[i].uses, m->operands[m->nodes[i].operands]);
            printf("%u %u\\n", m->nodes[5].uses, m->operands[m->nodes[5].operands + 2]);
            return 0;
        }
        """
    )
    program = tmp_path / "main"
    subprocess.run(["gcc", *FLAGS, f"-I{tmp_path}", str(tmp_path / "main.c"), "-o", str(program)], check=True)
    lines = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0] == "4 2 3 3 7 4"
    assert lines[1:5] == ["1025 7 65535 4", "512 6 2 7", "1024 0 0 1", "4 10 65535 5"]
    # 5 values and a resident come before the first kept tensor; the fetches use the bus, the update both.
    assert lines[5:] == ["1 6", "1 8", "2 8"]


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
            Node("add", 0.1, 0.2, (Value("add", 16),), operation=Operation("add", "size=4", ("w", "in"), ("add",))),
            Node(
                "mul",
                0.1,
                0.2,
                (Value("mul", 0),),
                ("add",),
                operation=Operation("mul", "size=4", ("add", "own"), ("out",)),
            ),
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


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
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
            printf("%d %d ", m->residents == i->residents, m->constants == i->constants);
            printf("%u %u %u %u ", m->resident_count, i->resident_count, m->constant_count, i->constant_count);
            printf("%u %u %08x %08x ", (unsigned)m->constant_bytes, (unsigned)i->constant_bytes,
                   (unsigned)m->constant_crc, (unsigned)i->constant_crc);
            for (unsigned k = 0; k < 6; k++) printf("%u ", i->operands[k]);
            printf("%u %u %u ", POET_BUILT_RAM_BYTES, POET_BUILT_LIVE_COUNT, (unsigned)i->residents[3].offset);
            printf("%016llx %016llx", (unsigned long long)i->graph_hash,
                   (unsigned long long)poet_built_inference_schedule.hash);
            return 0;
        }
        """
    )
    program = tmp_path / "main"
    subprocess.run(["gcc", *FLAGS, f"-I{tmp_path}", str(tmp_path / "main.c"), "-o", str(program)], check=True)
    said = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.split()
    words = constant_words(inference.graph, {**DATA, **inference.constants})
    assert said[:8] == ["1", "1", "2", "4", "2", "3", "24", "40"]
    assert said[8:10] == [f"{crc32(words[:24]):08x}", f"{crc32(words):08x}"]
    # Values: 0 add. Residents: 1 input, 2 w.grad, 3 in, 4 out. Constants: 5 w, 6 table, 7 own.
    assert said[10:16] == ["5", "3", "0", "0", "7", "4"]
    assert said[16:19] == [str(max(128 + schedule.arena_bytes, 160 + 16)), "3", str(graph.resident_bytes + 16)]
    assert said[19:] == [graph_hash(inference.graph), schedule_hash(inference.schedule)]
    shared = table_bytes(graph, schedule, inference)
    alone = table_bytes(graph, schedule) + table_bytes(inference.graph, inference.schedule)
    # There is one empty table of kept tensors less, too.
    assert shared == alone - 12 * len(graph.residents) - 8 * len(graph.constants) - 20
