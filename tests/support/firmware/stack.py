# SPDX-License-Identifier: Apache-2.0
"""The stack that calls of the library take at most, along the call graph that gcc writes."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.support.firmware.core import FIRMWARE

FUNCTION = re.compile(r'node: \{ title: "([^"]+)" label: "[^"]*?(\d+) bytes \((\w+)\)')
CALL = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')
BY_POINTER = "__indirect_call"
GEMM = r"poet_gemm_multiply|poet_gemm_add|poet_conv_multiply"
KEPT = r"kept_operands\.c:(read|write|write_row|wait)"
OPERATORS = r"poet_(?!command|reply)\w+_run"
# What calls through a pointer in a function or a file may end in, without the storage that the program gives.
POINTED_AT = {
    **dict.fromkeys(("convolution", "input_gradient", "small_planes"), GEMM),
    **dict.fromkeys(("gemm", "gemm_nt"), r"(\w+\.c:)?poet_kernel_\w+"),
    **dict.fromkeys(("stream", "update", "streamed_embedding_update"), KEPT),
    "run_call": OPERATORS,
    "runner": rf"{OPERATORS}|kept_operands\.c:(run_call|begin)|card_part\.c:\w+",
    "matmul": r"poet_product_(compute|add)",
    **dict.fromkeys(("pointwise", "conv2d_relu"), r"steps\.c:\w+_each"),
    "conv2d_s8": r"conv2d_s8\.c:\w+",
    "max_pool2d_s8": r"max_pool2d_s8\.c:\w+",
    "poet_begin": r"poet_feature_maker_check|poet_keeping_open",
    "poet_train": r"poet_feature_maker_(make|go_on)",
    "poet_train_begin": r"poet_feature_maker_begin",
    "poet": r"poet_feature_maker_go_on",
    "card": r"poet_keeping_\w+",
    "plan_check": r"poet_\w+_sizes|card_part\.c:\w+",
    "trace": r"poet_\w+_sizes",
    "commands": r"poet_verb_\w+",
    "benchmark_verbs": r"poet_\w+_sizes",
    "operator_bench": rf"poet_\w+_sizes|{OPERATORS}",
    "plan_apart": r"poet_\w+_sizes",
}
ONLY_ENDS = ("begin_making", "poet_feature_maker_go_on")  # each calls the other where there is nothing to make
STORAGE = {"kept", "kept_operands", "record", "saved", "checkpoint", "pager", "sample_set", "sdcard", "spi_flash"}
STORAGE.add("features")
STORAGE |= {"block_window", "sample_verbs", "page_bench", "session", "sketch_verbs", "tensor_verbs", "training_verbs"}


class Stack:
    """Of the library without the card's driver; the compiler writes into a new ``folder``."""

    def __init__(self, compiler: list[str], folder: Path, more: Sequence[str] = ()) -> None:
        folder.mkdir()
        parts = (*(f"src/{name}" for name in ("kernels", "library", "ops", "runtime", "storage")), *more)
        sources = sorted(path for part in parts for path in (FIRMWARE / part).glob("*.c"))
        folders = (f"-I{FIRMWARE / 'include'}", f"-I{FIRMWARE / 'src'}")
        flags = ("-std=c99", "-c", "-fcallgraph-info=su", *folders)
        subprocess.run([*compiler, *flags, *sources], check=True, cwd=folder)
        self._own: dict[str, int] = {}
        self._file: dict[str, str] = {}
        self._calls: dict[str, set[str]] = defaultdict(set)
        self._most: dict[str, int | None] = {}
        for path in folder.glob("*.ci"):
            for name, size, kind in FUNCTION.findall(path.read_text()):
                assert kind == "static", f"{name} takes a stack that depends on what it is given"
                self._own[name], self._file[name] = int(size), path.stem
            for name, called in CALL.findall(path.read_text()):
                self._calls[name].add(called)
        self._defined = {name.rpartition(":")[2]: name for name in self._own}  # weak ones by their names elsewhere

    def most(self, name: str) -> int:
        """Bytes of the longest way from a function."""
        name = name if name in self._own else self._defined.get(name, name)
        if name not in self._own:
            return 0  # of the compiler's library
        if name not in self._most:
            self._most[name] = None
            self._most[name] = self._own[name] + max(map(self.most, self._called(name)), default=0)
        found = self._most[name]
        assert found is not None or name.endswith(ONLY_ENDS), f"{name} calls itself"
        return found or 0

    def _called(self, name: str) -> set[str]:
        called, function, file = self._calls[name] - {BY_POINTER}, name.rpartition(":")[2], self._file[name]
        if BY_POINTER not in self._calls[name] or (file in STORAGE and function not in POINTED_AT):
            return called
        pattern = re.compile(f"(\\S*/)?({POINTED_AT.get(function) or POINTED_AT[file]})")
        return called | {one for one in self._own if pattern.fullmatch(one) and one != name}
