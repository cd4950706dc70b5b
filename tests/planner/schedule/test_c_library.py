# SPDX-License-Identifier: Apache-2.0
"""A plan as a library: what it holds, what compilers say of it, and which names and graphs are refused."""

from __future__ import annotations

import re
import shutil
import subprocess
from binascii import crc32
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from poet_planner.graph.optimizer import Method, Optimizer
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.c_library import check_name, initial_bytes, write_library
from poet_planner.schedule.c_names import why_no_name
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.training_data import initial_state
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from poet_profiles.graph import Constant, Graph, Node, Operation, Resident, Value
from poet_profiles.plan_folder.beside import Inference

from tests.support import ROOT

INCLUDE = f"-I{ROOT / 'firmware' / 'include'}"
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
TABLE = np.array([1, -2, 3, 4, 5, 6, 7, 8], "<f4")
MODEL = "mlperf_ds_cnn"  # with batch norms, which have a state of their own
STEPS = [
    ROOT / f"firmware/src/{name}.c"
    for name in ("ops/pointwise", "kernels/mathematics", "kernels/shape", "kernels/steps")
]
INITIAL = {"a.b": np.array([1.5, -2.5], "<f4"), "a_b": np.array([7], "<i4")}


def small_graph() -> Graph:
    """Relu of a constant, added to the batch; parameter and state by names that are equal in C."""
    return Graph(
        "small",
        (
            Node(
                "relu",
                0.1,
                0.2,
                (Value("relu", 32),),
                operation=Operation("pointwise", "size=8 steps=relu(y0,x0)", ("table",), ("relu",)),
            ),
            Node(
                "add",
                0.1,
                0.2,
                (Value("add", 0),),
                ("relu",),
                operation=Operation("pointwise", "size=8 steps=add(y0,x0,x1)", ("relu", "input"), ("grad",)),
            ),
        ),
        resident_bytes=84,
        residents=(
            Resident("a.b", "parameter", 8, 0, (2,)),
            Resident("input", "input", 32, 8, (4, 2)),
            Resident("a_b", "state", 4, 40, (1,)),
            Resident("grad", "gradient", 32, 44, (8,)),
            Resident("b.more", "state", 8, 76, (2,)),
        ),
        constants=(Constant("table", 32, 0, (8,), f"{crc32(TABLE.tobytes()):08x}"),),
    )


def small_inference(graph: Graph) -> Inference:
    """Two scores of a sample."""
    first = graph.resident_bytes
    own = Resident("in", "input", 8, first, (1, 2)), Resident("out", "output", 8, first + 8, (1, 2))
    relu = Node(
        "relu",
        0.1,
        0.2,
        (Value("relu", 0),),
        operation=Operation("pointwise", "size=2 steps=relu(y0,x0)", ("in",), ("out",)),
    )
    beside = Graph("beside", (relu,), first + 16, residents=(*graph.residents, *own), constants=graph.constants)
    return Inference(beside, store_all_schedule(beside))


def convolution(channels: int, groups: int, padding: int) -> Graph:
    params = f"n=1 c={channels} h=8 w=8 k={channels} r=3 s=3 sh=1 sw=1 ph={padding} pw={padding} g={groups} bias=0"
    plane, weights = 256 * channels, 36 * channels * channels // groups
    operation = Operation("conv2d", params, ("x", "w"), ("y",))
    residents = (
        Resident("w", "parameter", weights, 0, (channels, channels // groups, 3, 3)),
        Resident("x", "input", plane, weights, (1, channels, 8, 8)),
        Resident("y", "gradient", plane, weights + plane, (1, channels, 8, 8)),
    )
    nodes = (Node("conv", 0.1, 0.2, (Value("conv", 0),), operation=operation),)
    return Graph("conv", nodes, resident_bytes=weights + 2 * plane, residents=residents)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    graph = small_graph()
    write_library("watch", graph, store_all_schedule(graph), {"table": TABLE}, INITIAL, tmp_path / "watch")
    return tmp_path / "watch"


def test_a_program_finds_tables_numbers_and_data(library: Path) -> None:
    """By a C compiler in both modes; the data are found beside the source."""
    main = library.parent / "main.c"
    main.write_text(
        r"""
        #include <stdio.h>
        #include <string.h>
        #include "watch.h"
        int main(void)
        {
            const poet_model *m = watch.train->model;
            const float *first = watch.initial;
            printf("%u %u %u ", watch.batch, watch.ram_bytes, WATCH_RAM_BYTES);
            printf("%u %u ", WATCH_BATCH, WATCH_INPUT_BYTES);
            printf("%d %d %d ", watch_tensor_a_b, watch_tensor_a_b_2, watch_tensor_b_more);
            printf("%u %08x %.1f %.1f ", watch.initial_bytes, watch.initial_crc, (double)first[0], (double)first[1]);
            printf("%u %u %d\n", m->constant_bytes, (unsigned)watch.train->schedule->operator_count,
                   memcmp(m->constant_words, (const float[]){1, -2, 3, 4, 5, 6, 7, 8}, 32));
            return 0;
        }
        """
    )
    sources = [main, library / "src/watch.c", library / "src/watch_data.S"]
    sources += STEPS
    for mode in ("-std=c99", "-std=gnu11"):
        folders = (INCLUDE, f"-I{library / 'src'}")
        program = library.parent / "program"
        subprocess.run(["gcc", mode, *WARNINGS, *folders, *map(str, sources), "-o", str(program)], check=True)
        said = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.split()
        initial = INITIAL["a.b"].tobytes() + INITIAL["a_b"].tobytes()  # the zeros after them are left out
        assert said[:3] == ["4", "116", "116"]
        assert said[3:8] == ["4", "8", "0", "2", "4"]
        assert said[8:12] == ["12", f"{crc32(initial):08x}", "1.5", "-2.5"]
        assert said[12:] == ["32", "2", "0"]


@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_its_header_is_one_of_cpp(library: Path, standard: str) -> None:
    header = str(library / "src/watch.h")
    subprocess.run(["g++", f"-std={standard}", "-fsyntax-only", *WARNINGS, INCLUDE, "-x", "c++", header], check=True)


def test_the_readmes_lines_are_cpp(tmp_path: Path) -> None:
    """Those of its section on a program of one's own, with the example's windows and any network's library."""
    graph = small_graph()
    target = Resident("target", "target", 16, graph.resident_bytes, (4,))
    graph = replace(graph, resident_bytes=target.offset + 16, residents=(*graph.residents, target))
    beside, names = small_inference(graph), ("PEN", "ABD")
    write_library("watch_net", graph, store_all_schedule(graph), {"table": TABLE}, INITIAL, tmp_path, beside, names)
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## In your own program\n")[2]
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("    ")]
    assert lines[0].strip().startswith("poet_begin(")
    program = tmp_path / "main.cpp"
    declared = """
        #include <poet/poet.h>
        #include <watch_net.h>
        #include "window.hpp"
        static poet learner;
        static poet_block_device card;
        static Window shown[WATCH_NET_BATCH], window;
        static uint32_t ram[WATCH_NET_RAM_BYTES / 4u], exercise[WATCH_NET_BATCH];
        static void show(const char *) {}
        int main()
        {
        """
    program.write_text(declared + "\n".join(lines) + "\n}\n")
    folders = (INCLUDE, f"-I{tmp_path / 'src'}", f"-I{ROOT / 'firmware/examples/watch/src'}")
    subprocess.run(["g++", "-std=c++11", "-fsyntax-only", *WARNINGS, *folders, str(program)], check=True)


@pytest.mark.parametrize("mode", ["-std=c99", "-std=gnu11"])
def test_its_classes_have_names(tmp_path: Path, mode: str) -> None:
    """Whatever they are made of, a compiler reads them as they stand."""
    names = ('"Kniebeuge"\\ 100% ??/', "größer: 跳 /* 7 */")
    graph = small_graph()
    beside = small_inference(graph)
    write_library("watch", graph, store_all_schedule(graph), {"table": TABLE}, INITIAL, tmp_path, beside, names)
    program, main = tmp_path / "program", tmp_path / "main.c"
    main.write_text(
        r"""
        #include <stdio.h>
        #include "watch.h"
        const float scores[WATCH_OUTPUT_COUNT] = {1, 2};
        int main(void)
        {
            for (unsigned i = 0; i < WATCH_CLASS_COUNT; i++) puts(watch_classes[i]);
            return 0;
        }
        """
    )
    sources = [main, tmp_path / "src/watch.c", tmp_path / "src/watch_data.S"]
    sources += STEPS
    folders = (INCLUDE, f"-I{tmp_path / 'src'}")
    subprocess.run(["gcc", mode, *WARNINGS, *folders, *map(str, sources), "-o", str(program)], check=True)
    assert subprocess.run([str(program)], capture_output=True, check=True).stdout.decode() == "\n".join((*names, ""))


def test_classes_are_those_of_the_scores(tmp_path: Path) -> None:
    graph = small_graph()
    parts = ("watch", graph, store_all_schedule(graph), {"table": TABLE}, INITIAL, tmp_path)
    with pytest.raises(UserError, match="small: has names for 3 classes, and scores for 2; name each class"):
        write_library(*parts, small_inference(graph), ("one", "two", "three"))
    assert not list(tmp_path.iterdir())
    for options in ((small_inference(graph),), (None, ("one", "two", "three"))):
        write_library(*parts, *options)
        assert "classes" not in (tmp_path / "src/watch.h").read_text()


def test_other_data_make_other_sources(library: Path) -> None:
    """A build system does not look at what `.incbin` takes in."""
    before = (library / "src/watch_data.S").read_text()
    graph = small_graph()
    other = INITIAL | {"a_b": np.array([8], "<i4")}
    write_library("watch", graph, store_all_schedule(graph), {"table": TABLE}, other, library)
    assert (library / "src/watch_data.S").read_text() != before


def test_without_initial_data_all_begins_with_zeros(tmp_path: Path) -> None:
    graph = small_graph()
    write_library("watch", graph, store_all_schedule(graph), {"table": TABLE}, None, tmp_path)
    assert ".initial = 0," in (tmp_path / "src/watch.c").read_text()


@pytest.mark.parametrize("end", [[1.5, -0.0], [1.5, 1e-45], [1.5, 0.0], [0.0, 0.0]])
def test_zeros_are_left_out_at_the_end_alone(end: list[float], tmp_path: Path) -> None:
    """Word by word, with the sign of a zero."""
    graph = small_graph()
    arrays = {"a.b": np.array([0.0, 2.0], "<f4"), "a_b": np.array([0], "<i4"), "b.more": np.array(end, "<f4")}
    whole = b"".join(array.tobytes() for array in arrays.values())
    found = initial_bytes(graph, arrays)
    assert found + bytes(len(whole) - len(found)) == whole
    assert len(found) % 4 == 0 and any(found[-4:])
    nothing = {id: np.zeros_like(array) for id, array in arrays.items()}
    write_library("watch", graph, store_all_schedule(graph), {"table": TABLE}, nothing, tmp_path)
    assert ".initial = 0," in (tmp_path / "src/watch.c").read_text()


@pytest.mark.parametrize("optimizer", [Optimizer(momentum=0.9), Optimizer(Method.ADAM)])
def test_an_optimisers_state_takes_no_flash(optimizer: Optimizer) -> None:
    graph = training_step(MODEL, 2).graph(load_board("nrf52840"), optimizer=optimizer)
    place = {resident.id: resident.offset for resident in graph.residents}
    parameters = [resident.id for resident in graph.residents if resident.kind == "parameter"]
    for slot in ("velocity",) if optimizer.momentum else ("exp_avg", "exp_avg_sq"):
        apart = {place[f"{id}.{slot}"] - place[id] for id in parameters}
        assert len(apart) == 1  # one update can serve all
    kinds = [resident.kind for resident in graph.residents if resident.id.endswith((".velocity", ".exp_avg"))]
    assert kinds and set(kinds) == {"state"}
    initial = initial_state(MODEL, 0, 2)
    weights = sum(one.bytes for one in graph.residents if one.id in initial and one.kind in ("parameter", "state"))
    assert len(initial_bytes(graph, initial)) <= weights


@pytest.mark.parametrize(
    "name", ["", "1st", "my-net", "a b", "float", "größe", "_x", "Net", "EOF", "a__b", "net_", "B0", "F"]
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="not a name in C and C"):
        check_name(name)


def test_poets_own_names_are_refused() -> None:
    with pytest.raises(UserError, match="names that begin with poet are poet's own"):
        check_name("poet_net")


def write_small(name: str, folder: Path) -> None:
    """With an inference and names of classes: everything that a library can have."""
    graph = small_graph()
    beside = small_inference(graph)
    write_library(name, graph, store_all_schedule(graph), {"table": TABLE}, INITIAL, folder, beside, ("a", "b"))


def objects(folder: Path, name: str) -> list[str]:
    """What its sources compile to."""
    made = [f"{folder}/{name}.{kind}.o" for kind in ("c", "s")]
    for source, target in zip((f"{name}.c", f"{name}_data.S"), made, strict=True):
        folders = (INCLUDE, f"-I{folder}/src")
        subprocess.run(["gcc", *folders, "-c", str(folder / "src" / source), "-o", target], check=True)
    return made


def test_two_networks_in_one_program_have_no_name_in_common(tmp_path: Path) -> None:
    """With the second one called after each part of a name that the first one gives."""
    write_small("net", tmp_path / "net")
    text = "".join(path.read_text() for path in (tmp_path / "net").rglob("net*.[chS]"))
    given = {word.lower() for word in re.findall(r"\b(?:net|NET)_\w+", text)} | {"net_data", "net_inference_input"}
    others = {"_".join(word.split("_")[:count]) for word in given for count in range(2, word.count("_") + 2)}
    first, accepted = objects(tmp_path / "net", "net"), set()
    for other in sorted(others):
        try:
            write_small(other, tmp_path / other)
        except UserError as error:
            assert "a network net calls a part of its own so" in str(error)
            continue
        accepted.add(other)
        both = tmp_path / "both.c"
        both.write_text(f"#include <net.h>\n#include <{other}.h>\n")
        folders = (INCLUDE, f"-I{tmp_path}/net/src", f"-I{tmp_path / other}/src")
        subprocess.run(["gcc", "-Werror", *folders, "-c", str(both), "-o", f"{both}.o"], check=True)
        second = objects(tmp_path / other, other)
        subprocess.run(["ld", "-r", *first, *second, "-o", str(tmp_path / "one.o")], check=True)
    assert {"net_inference", "net_input", "net_batch", "net_model", "net_output", "net_data"} <= accepted
    assert others - accepted >= {"net_classes", "net_initial", "net_constant_words", "net_tensor"}


HEADERS = [
    *(
        *("assert", "complex", "ctype", "errno", "fenv", "float"),
        *("inttypes", "iso646", "limits", "locale", "math", "setjmp"),
    ),
    *("signal", "stdalign", "stdarg", "stdatomic", "stdbool", "stddef", "stdint", "stdio", "stdlib", "stdnoreturn"),
    *("string", "strings", "tgmath", "threads", "time", "uchar", "unistd", "wchar", "wctype"),
]
NOT_IN_CPP = ("complex", "stdatomic", "tgmath")  # C++ has others


@pytest.mark.parametrize("compiler", ["gcc", "arm-none-eabi-gcc"])
@pytest.mark.parametrize("language", ["c -std=c99", "c -std=gnu2x", "c++ -std=gnu++20"])
def test_a_network_may_stand_beside_all_headers_of_c(compiler: str, language: str) -> None:
    """Each word that these headers have, and that is not refused: a compiler takes a network of that name."""
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")

    def run(program: str, *options: str) -> subprocess.CompletedProcess[str]:
        call = [compiler, "-x", *language.split(), INCLUDE, *options, "-"]
        return subprocess.run(call, input=program, capture_output=True, text=True, check=False)

    headers = [f"#include <{name}.h>\n" for name in HEADERS if not ("c++" in language and name in NOT_IN_CPP)]
    includes = "".join(header for header in headers if run(header, "-fsyntax-only").returncode == 0)
    assert includes.count("\n") > 20
    words = {word for how in ("-P", "-dM") for word in re.findall(r"\b[A-Za-z]\w*", run(includes, "-E", how).stdout)}
    names = [word for word in sorted(words) if why_no_name(word) is None]
    assert len(words) > 1000 and len(names) > 50
    program = "".join(f"extern const poet_network {name};\n" for name in names)
    done = run(f'{includes}#include "poet/poet.h"\n{program}', "-fsyntax-only")
    assert done.returncode == 0, re.findall(r"error: .*", done.stderr)


@pytest.mark.parametrize("name", ["main", "errno", "time", "y0", "j1f", "strtok_r", "ptrdiff_t", "min", "spi", "aux"])
def test_names_of_the_languages_and_their_libraries_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"--library {name}: the name of something in C or its libraries"):
        check_name(name)


def test_a_parameter_without_its_data_is_refused() -> None:
    with pytest.raises(UserError, match=r"a\.b has 0 bytes to begin with, not 8"):
        initial_bytes(small_graph(), {"a_b": INITIAL["a_b"]})
    wrong = replace(small_graph().residents[2], bytes=8)
    with pytest.raises(UserError, match="a_b has 4 bytes to begin with, not 8"):
        initial_bytes(replace(small_graph(), residents=(small_graph().residents[0], wrong)), INITIAL)


@pytest.mark.parametrize(
    ("channels", "groups", "padding", "named"),
    [(4, 1, 1, ["triples"]), (8, 1, 1, ["winograd"]), (8, 8, 1, ["depthwise"]), (8, 8, 0, ["depthwise_padded"])],
)
def test_kernels_that_its_convolutions_need_are_named(
    channels: int, groups: int, padding: int, named: list[str], tmp_path: Path
) -> None:
    graph = convolution(channels, groups, padding)
    write_library("net", graph, store_all_schedule(graph), {}, None, tmp_path)
    assert re.findall(r"POET_KERNELS\((\w+)\)", (tmp_path / "src/net.c").read_text()) == named
