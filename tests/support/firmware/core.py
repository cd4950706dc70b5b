# SPDX-License-Identifier: Apache-2.0
"""The firmware's core as a shared library, and its structures for ctypes."""

from __future__ import annotations

import binascii
import ctypes as c
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.firmware.fenced import fenced

FIRMWARE = ROOT / "firmware"
NATIVE = ROOT / "tests" / "support" / "firmware" / "native"
WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-ffp-contract=off")
CORE = ("runtime", "protocol", "bench", "library")
# The real ones, beside the tiny ones of native/test_operators.c: the runner's tests need what they do.
KEPT_OPERATORS = ("fetch", "store", "commit", "sgd_update", "update", "shape", "stream", "advance")
KEPT_OPERATORS += ("embedding", "streamed_embedding", "streamed_embedding_update", "arithmetic", "mathematics", "share")

OK, E_ARGUMENT, E_MEMORY, E_HASH, E_ORDER, E_IO, E_FULL, E_CORRUPT, E_UNSUPPORTED, E_ABSENT = range(0, -10, -1)
E_TAKEN = -11
E_NOT_FINITE = -12
MORE, STOPPED, GATHERED = 1, 2, 3
COMPUTE, PAGE_IN, PAGE_OUT, FREE = 1, 2, 3, 4
RELU, ADD, NLL_LOSS, SGD = 7, 13, 16, 19
ADVANCE, FETCH, STORE, COMMIT, SGD_UPDATE = 66, 67, 68, 69, 130
PLAIN = (0,) * 6  # how an update descends
STREAMED_LINEAR, STREAMED_EMBEDDING, STREAMED_EMBEDDING_UPDATE = 77, 80, 81
PARAMETER, GRADIENT, STATE, INPUT, TARGET, LOSS, CONSTANT, OUTPUT, FEATURE = range(1, 10)
CALL_PAGE_IN, CALL_PAGE_OUT = 0xFE, 0xFF
FLAG_WORKSPACE, FLAG_WAITS, FLAG_CHANGES = 1, 2, 4
WORD_CONSTANT, WORD_KEPT, WORD_KEPT_SHIFT = 1, 2, 2
NOWHERE = 2**32 - 2  # a kept tensor that there is not
NO_CHECK = 0xFFFF
USES_CPU, USES_BUS, USES_BOTH = range(3)
USES = {FETCH: USES_BUS, STORE: USES_BUS, COMMIT: USES_BOTH, SGD_UPDATE: USES_BOTH}
USES |= {STREAMED_LINEAR: USES_BOTH, STREAMED_EMBEDDING: USES_BOTH, STREAMED_EMBEDDING_UPDATE: USES_BOTH}
NO_VALUE = 0xFFFF
SCHEDULE_HASH = 0xFEDCBA9876543210
BLOCK = 512
PAGE_AREA = 2048


def compile_c(output: Path, sources: Sequence[Path], *flags: str) -> Path:
    include = ("-I", str(FIRMWARE / "include"))
    command = ["gcc", *WARNINGS, *include, *flags, "-o", str(output), *map(str, sources)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output


def core_sources() -> list[Path]:
    sources = [source for folder in CORE for source in sorted((FIRMWARE / "src" / folder).glob("*.c"))]
    return [
        *sources,
        *(
            path
            for part in ("kernels", "ops")
            for path in sorted((FIRMWARE / "src" / part).glob("*.c"))
            if path.stem in KEPT_OPERATORS
        ),
    ]


READ = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_uint32, c.c_void_p, c.c_uint32)
SYNC = c.CFUNCTYPE(c.c_int, c.c_void_p)
ERASE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_uint32, c.c_uint32)
BETWEEN = c.CFUNCTYPE(c.c_bool, c.c_void_p, c.c_void_p)


def structure(name: str, **fields: type) -> type[c.Structure]:
    return type(name, (c.Structure,), {"_fields_": list(fields.items())})


u8, u16, u32, u64, i32 = c.c_uint8, c.c_uint16, c.c_uint32, c.c_uint64, c.c_int32
P = c.POINTER

BlockDevice = structure(
    "BlockDevice", context=c.c_void_p, block_count=u32, read=READ, write=READ, sync=SYNC,
    start_read=READ, start_write=READ, wait=SYNC, erase_blocks=u32, erase=ERASE, forgets=c.c_bool, lasting=c.c_void_p,
)  # fmt: skip
Pager = structure(
    "Pager", device=P(BlockDevice), page_area=u32, reading=c.c_bool, checked=c.c_bool, busy=c.c_bool, block=u32,
    data=c.c_void_p, bytes=u32, crc=u32,
)  # fmt: skip
Resident = structure("Resident", offset=u32, bytes=u32, kind=u8)
Kept = structure("Kept", bytes=u32, block=u32, rows=u32, bit=u32, check=u16, kind=u8)
Model = structure(
    "Model", graph_hash=u64, resident_bytes=u32, resident_count=u16, micro_batches=u16, residents=P(Resident),
    constant_bytes=u32, constant_crc=u32, constant_words=P(u32), kept_count=u16, unit_count=u16, check_count=u16,
    commit_each=u16, bit_count=u32, home_blocks=u32, batch_block=u32, batch_blocks=u32, kept=P(Kept),
)  # fmt: skip
Operator = structure(
    "Operator", code=u8, param_count=u8, sizes=c.c_void_p, run=c.c_void_p,
)  # fmt: skip
Call = structure("Call", op=u8, inputs=u8, outputs=u8, flags=u8, params=u16, words=u16)
Schedule = structure(
    "Schedule", graph_hash=u64, hash=u64, operators=P(Operator), calls=P(Call), words=P(u32), params=P(i32), crc=u32,
    ram_bytes=u32, page_blocks=u32, call_count=u32, word_count=u16, param_count=u16, page_count=u16, operator_count=u8,
)  # fmt: skip
Page = structure("Page", crc=u32)
TRACE_ROWS = 126
TracePart = structure("TracePart", ticks=u32 * TRACE_ROWS, number=u32, crc=u32)
Check = structure("Check", crc=u32, next_crc=u32, written=c.c_bool)
Record = structure(
    "Record", model=P(Model), residents=c.c_void_p, checks=P(Check), homes=P(u32), changed=P(u32),
    counts=P(u32), device=P(BlockDevice), sequence=u32, refused=u32, place=u32, step=u32, committed=u32, batches=u32,
    ways=c.c_void_p,
)  # fmt: skip
Operators = structure("Operators", operators=c.c_void_p, count=c.c_size_t)
Hooks = structure(
    "Hooks", ticks=c.c_void_p, ticks_hz=u32, window=c.c_void_p, between=BETWEEN, context=c.c_void_p,
)  # fmt: skip
Tables = structure(
    "Tables", pages=P(Page), checks=P(Check), homes=P(u32), trace=P(TracePart),
)  # fmt: skip
Runner = structure(
    "Runner", model=P(Model), schedule=P(Schedule), ram=c.c_void_p, pages=P(Page), trace=P(TracePart),
    trace_in_ram=c.c_bool, traced=c.c_bool, gathered=u32,
)  # fmt: skip
Run = structure(
    "Run", pager=P(Pager), record=P(Record), hooks=P(Hooks), learning_rate=c.c_float, trace=c.c_bool, ticks=u64,
    page_ins=u32, page_outs=u32, calls=u32, before=u32, under_way=c.c_bool,
)  # fmt: skip
Plan = structure("Plan", model=P(Model), schedule=P(Schedule))
Extraction = structure("Extraction", plan=Plan, samples=u16, at_once=u16, infer=P(Plan))
FeatureMaker = structure(
    "FeatureMaker", extraction=P(Extraction), check=c.c_void_p, make=c.c_void_p, begin=c.c_void_p, go_on=c.c_void_p,
)  # fmt: skip
Network = structure(
    "Network", train=P(Plan), infer=P(Plan), tables=P(Tables), initial=c.c_void_p, initial_bytes=u32, initial_crc=u32,
    batch=u32, ram_bytes=u32, owner=u32, keeping=c.c_void_p, maker=P(FeatureMaker), stream=P(Plan), stream_calls=u32,
)  # fmt: skip
Poet = structure(
    "Poet", network=P(Network), card=P(BlockDevice), hooks=Hooks, pager=Pager, runner=Runner, run=Run, steps=u32,
    making=u32, heard=u32, commits=c.c_bool, stale=c.c_bool,
)  # fmt: skip
Start = structure(
    "Start", cause=c.c_char_p, flags=u32, regulator=c.c_char_p, failures=u32, pc=u32, lr=u32, status=u32,
    waited_for=u32,
)  # fmt: skip
Sensors = structure("Sensors", has_clock=c.c_bool, has_temperature=c.c_bool, cpu_khz=u32, temperature_mc=i32)
Built = structure(
    "Built", model=P(Model), schedule=P(Schedule), tables=Tables, inference=P(Plan), extraction=P(Extraction),
    operators=P(Operators),
)  # fmt: skip
FeatureStore = structure(
    "FeatureStore", head=Plan, ram=c.c_void_p, records=c.c_void_p, record_bytes=u32, room=u32, samples=u32,
    seed=u32, card_blocks=u32, card=P(BlockDevice), card_from=u32,
)  # fmt: skip
Line = structure("Line", text=c.c_char * 513, length=u32, complete=c.c_bool, overflow=c.c_bool)
Request = structure("Request", sequence=u16, body=c.c_char_p)
Server = structure(
    "Server", built=P(Built), ram=c.c_void_p, ram_bytes=u32, hooks=Hooks, runner=Runner, runner_status=c.c_int,
    inference_status=c.c_int, extraction_status=c.c_int, extractor=Runner, store=FeatureStore,
    card=BlockDevice, card_up=c.c_bool, pager=Pager, record=Record, record_known=c.c_bool,
    record_status=c.c_int, preparing=c.c_bool, lasting=u32, residents_count=c.c_bool, residents_stale=c.c_bool,
    greeted=c.c_bool, leaving=c.c_bool, sequence=u16, line=Line, answer=c.c_char * 514, answer_length=u32,
)  # fmt: skip


# The operators of native/test_operators.c, in its order.
CODES = [RELU, ADD, NLL_LOSS, SGD, ADVANCE, FETCH, STORE, COMMIT, SGD_UPDATE, STREAMED_LINEAR, STREAMED_EMBEDDING]
CODES += [STREAMED_EMBEDDING_UPDATE]
# The library's own, filled when it is loaded: a net is made before.
OPERATORS, TABLE, HOOKS = Operators(), (Operator * len(CODES))(), Hooks()


class Card:
    """A RAM disk behind the callbacks of poet_block_device, with faults on request.

    `fail_reads`, `fail_writes`: how many operations still succeed before E_IO (None: all). `flips`: how many of the
    next reads give back one wrong bit. `log`: every call, in order. `before_read`: called with the block of each read.
    """

    def __init__(self, blocks: int, dma: bool = False, labelled: bool = True) -> None:
        self.blocks = blocks
        self.content = bytearray(blocks * BLOCK)
        self.fail_reads: int | None = None
        self.fail_writes: int | None = None
        self.flips = 0
        self.before_read: Callable[[int], None] | None = None
        self.log: list[tuple[str, int, int]] = []
        self._pending: tuple[str, int, int, int] | None = None
        if labelled:
            self.content[:12] = b"POET CARD 1\n"
        null = READ(0)
        self.device = BlockDevice(
            None,
            blocks,
            READ(self._read),
            READ(self._write),
            SYNC(self._sync),
            READ(self._start_read) if dma else null,
            READ(self._start_write) if dma else null,
            SYNC(self._wait) if dma else SYNC(0),
        )

    def _spend(self, name: str) -> bool:
        left = getattr(self, name)
        if left is None:
            return True
        setattr(self, name, max(0, left - 1))
        return left > 0

    def _read(self, _context: int, block: int, data: int, count: int) -> int:
        assert self._pending is None, "the core read while a transfer was under way"
        self.log.append(("read", block, count))
        if self.before_read is not None:
            self.before_read(block)
        assert block * BLOCK + count <= len(self.content), "the core read past the card's end"
        if not self._spend("fail_reads"):
            return E_IO
        content = bytearray(self.content[block * BLOCK : block * BLOCK + count])
        if self.flips:
            self.flips -= 1
            content[count // 2] ^= 0x10
        c.memmove(data, bytes(content), count)
        return OK

    def _write(self, _context: int, block: int, data: int, count: int) -> int:
        assert self._pending is None, "the core wrote while a transfer was under way"
        self.log.append(("write", block, count))
        padded = -(-count // BLOCK) * BLOCK
        assert block * BLOCK + padded <= len(self.content), "the core wrote past the card's end"
        if not self._spend("fail_writes"):
            return E_IO
        self.content[block * BLOCK : block * BLOCK + padded] = c.string_at(data, count).ljust(padded, b"\0")
        return OK

    def _sync(self, _context: int) -> int:
        self.log.append(("sync", 0, 0))
        return OK

    def _start_read(self, _context: int, block: int, data: int, count: int) -> int:
        return self._start("start_read", block, data, count)

    def _start_write(self, _context: int, block: int, data: int, count: int) -> int:
        return self._start("start_write", block, data, count)

    def _start(self, kind: str, block: int, data: int, count: int) -> int:
        assert self._pending is None, "a transfer was started while another was under way"
        self.log.append((kind, block, count))
        self._pending = (kind, block, data, count)
        if kind == "start_read":  # until the end of the transfer its buffer holds anything
            c.memset(data, 0xEE, count)
        return OK

    def _wait(self, _context: int) -> int:
        """Moves the data only now: whoever touched the buffer meanwhile is found out."""
        assert self._pending is not None
        self.log.append(("wait", 0, 0))
        kind, block, data, count = self._pending
        self._pending = None
        move = self._read if kind == "start_read" else self._write
        status = move(0, block, data, count)
        self.log.pop()
        return status


def blocks_of(count: int) -> int:
    return -(-count // BLOCK)


def checked(tensor: bytes, batch: int) -> bytes:
    """A tensor of a batch and its check, written after docs/SPEC.md alone."""
    return tensor + ((binascii.crc32(tensor) + batch) % 2**32).to_bytes(4, "little")


KeptTensor = tuple[int, int, int | None] | tuple[int, int, int | None, int]


@dataclass(frozen=True)
class Layout:
    """Where kept tensors lie on the card, written after docs/SPEC.md alone.

    `rows`: bytes, block, how many rows it lies by, first bit, check, kind.
    """

    rows: list[tuple[int, int, int, int, int, int]]
    units: int
    checks: int
    bits: int
    home_blocks: int
    resident_block: int
    batch_block: int
    batch_blocks: int

    @classmethod
    def of(
        cls, kept: Sequence[KeptTensor], residents: Sequence[tuple[int, int, int]] = (), three: bool = False
    ) -> Layout:
        counts = [tensor[3] if len(tensor) == 4 else 1 for tensor in kept]
        units = [tensor[2] for tensor in kept]
        changing = sorted((unit, place) for place, unit in enumerate(units) if unit is not None)
        blocks: dict[int, int] = {}
        first_bits: dict[int, int] = {}
        homes = bits = 0
        for _, place in changing:
            blocks[place], first_bits[place] = homes, bits
            homes += counts[place] * blocks_of(kept[place][0] // counts[place])
            bits += counts[place]
        resident_block = homes
        saved = sum(count for _, count, kind in residents if kind in (PARAMETER, STATE)) if kept else 0
        homes += blocks_of(saved)
        unit_count = len(changing) + (saved > 0)
        checks = {place: unit for unit, place in changing}
        block, constants = (2 + three) * homes, 0
        for place, (count, kind, unit, *_) in enumerate(kept):
            if unit is None and kind not in (INPUT, TARGET):
                blocks[place], checks[place] = block, unit_count + constants
                block += counts[place] * blocks_of(count // counts[place])
                constants += 1
        batch_block = block
        for place, (count, kind, *_) in enumerate(kept):
            if kind in (INPUT, TARGET):
                blocks[place] = block
                block += blocks_of(count + 4)
        rows = [
            (count, blocks[place], counts[place], first_bits.get(place, 0), checks.get(place, NO_CHECK), kind)
            for place, (count, kind, *_) in enumerate(kept)
        ]
        return cls(
            rows,
            unit_count,
            unit_count + constants,
            (1 + three) * (bits + (saved > 0)),
            homes,
            resident_block,
            batch_block,
            block - batch_block,
        )


class Resolved:
    """The calls of steps that name nodes and values, written after docs/SPEC.md alone."""

    def __init__(
        self,
        nodes: Sequence[tuple[int, Sequence[int], Sequence[int], Sequence[int], int]],
        values: Sequence[tuple[int, int | None]],
        lasting: Sequence[int],
        changing: set[int],
        arena: int,
    ) -> None:
        self.nodes, self.values, self.changing, self.arena = nodes, values, changing, arena
        self.calls: list[tuple[int, int, int, int, int, int]] = []
        self.words: list[int] = []
        self.params: list[int] = []
        self._places = dict(enumerate(lasting, len(values)))
        self.pages: list[int] = []
        self._moving: int | None = None
        self._reads = self._freed = False

    def take(self, action: int, index: int, place: object) -> None:
        if action == FREE:
            self._freed = self._freed or (self._moving is not None and index == self._moving)
        elif action == COMPUTE:
            if self.nodes[index][0]:
                self._compute(*self.nodes[index], list(place))  # type: ignore[call-overload]
        else:
            if action == PAGE_IN:
                self._places[index] = self.arena + place  # type: ignore[operator]
            count, block = self.values[index]
            self.pages += [] if index in self.pages else [index]
            words = [self._places[index], count, block or 0, self.pages.index(index)]
            self._add(CALL_PAGE_IN if action == PAGE_IN else CALL_PAGE_OUT, [], words, (0, 0), 0)
            self._moving, self._reads, self._freed = index, action == PAGE_IN, False

    def _compute(
        self, op: int, params: Sequence[int], inputs: Sequence[int], outputs: Sequence[int], workspace: int,
        offsets: list[int],
    ) -> None:  # fmt: skip
        words = [self._places.get(one, NOWHERE) for one in inputs]
        before = dict(self._places)
        for one in outputs:
            if one < len(self.values):
                self._places[one] = self.arena + offsets.pop(0)
        words += [self._places.get(one, NOWHERE) for one in outputs]
        words += [self.arena + offsets.pop(0)] if workspace else []
        changes = not self.changing.isdisjoint(outputs)
        arrives = self._reads and self._moving in inputs
        overwrites = any(self._moving in inputs and self._places[one] == before[self._moving] for one in outputs[:1])
        waits = self._moving is not None and (
            self._freed or arrives or overwrites or changes or USES.get(op) == USES_BOTH
        )
        if op in (FETCH, STORE):
            waits = False
        flags = (workspace > 0) * FLAG_WORKSPACE | waits * FLAG_WAITS | changes * FLAG_CHANGES
        number = CODES.index(op) if op in CODES else op
        self._add(number, params, words, (len(inputs), len(outputs)), flags)
        if op in (FETCH, STORE):
            self._moving, self._reads, self._freed = (outputs if op == FETCH else inputs)[0], op == FETCH, False
        elif waits:
            self._moving, self._freed = None, False

    def _add(self, op: int, params: Sequence[int], words: Sequence[int], counts: tuple[int, int], flags: int) -> None:
        self.calls.append((op, *counts, flags, len(self.params), len(self.words)))
        self.params += params
        self.words += words


class Net:
    """A model and a schedule in memory, with the tables that a runner needs."""

    def __init__(
        self,
        nodes: Sequence[tuple[int, Sequence[int], Sequence[int], Sequence[int], int]],
        values: Sequence[tuple[int, int | None]],
        residents: Sequence[tuple[int, int, int]],
        steps: Sequence[tuple[int, int, object]],
        arena_bytes: int,
        graph_hash: int = 0x0123456789ABCDEF,
        constants: Sequence[tuple[int, int]] = (),
        constant_words: bytes = b"",
        kept: Sequence[KeptTensor] = (),
        micro_batches: int = 1,
        commit_each: int = 0,
    ) -> None:
        """`nodes`: op, params, inputs, outputs, workspace; `steps`: action, index, offset or offsets.

        `values`: bytes, and the first block of the page or None. `kept`: bytes, kind, the unit or None, rows.
        """
        self.resident_bytes = sum(count for _, count, _ in residents)
        layout = Layout.of(kept, residents, commit_each > 1)
        self.layout = layout
        self.kept = (Kept * max(1, len(kept)))(*layout.rows)
        self.residents = (Resident * max(1, len(residents)))(*residents)
        self.constant_words = (u32 * max(1, len(constant_words) // 4)).from_buffer_copy(constant_words or bytes(4))
        self.model = Model(
            graph_hash,
            self.resident_bytes,
            len(residents),
            micro_batches,
            self.residents,
            len(constant_words),
            binascii.crc32(constant_words),
            self.constant_words,
            *(len(kept), layout.units, layout.checks, commit_each, layout.bits),
            *(layout.home_blocks, layout.batch_block, layout.batch_blocks),
            self.kept,
        )
        lasting = [offset for offset, _, _ in residents] + [offset | WORD_CONSTANT for offset, _ in constants]
        lasting += [number << WORD_KEPT_SHIFT | WORD_KEPT for number in range(len(kept))]
        changing = {len(values) + i for i, (_, _, kind) in enumerate(residents) if kind in (PARAMETER, STATE)}
        resolved = Resolved(nodes, values, lasting, changing, self.resident_bytes)
        for step in steps:
            resolved.take(*step)
        self.calls = (Call * max(1, len(resolved.calls)))(*resolved.calls)
        self.words = (u32 * max(1, len(resolved.words)))(*resolved.words)
        self.params = (i32 * max(1, len(resolved.params)))(*resolved.params)
        paged = [values[index][1] + blocks_of(values[index][0]) for index in resolved.pages]
        self.schedule = Schedule(
            *(graph_hash, SCHEDULE_HASH, TABLE, self.calls, self.words, self.params, 0),
            *(self.resident_bytes + arena_bytes, max(paged, default=0)),
            *(len(resolved.calls), len(resolved.words), len(resolved.params), len(paged), len(CODES)),
        )
        self.seal()
        self.pages = fenced(Page, len(paged))
        self.checks = fenced(Check, layout.checks)
        self.homes = fenced(u32, 3 * -(-layout.bits // 32))
        self.trace = fenced(TracePart, 1)
        self.tables = Tables(self.pages, self.checks, self.homes, self.trace)
        self.plan = Plan(c.pointer(self.model), c.pointer(self.schedule))
        self.built = Built(
            c.pointer(self.model), c.pointer(self.schedule), self.tables, None, None, c.pointer(OPERATORS)
        )

    def seal(self) -> None:
        """Let the check be that of the tables as they are."""
        schedule = self.schedule
        tables = ((self.calls, schedule.call_count * 8), (self.words, schedule.word_count * 4))
        data = b"".join(bytes(table)[:count] for table, count in (*tables, (self.params, schedule.param_count * 4)))
        schedule.crc = binascii.crc32(data)

    def infer_by(self, inference: Net) -> None:
        """Let another net be the inference beside this one: its residents begin with this one's.

        Both use the same tables, one after the other. Those of a build are as long as the longer needs; so are these.
        """
        self.model.residents = inference.model.residents
        self.pages = max(self.pages, inference.pages, key=len)
        for tables in (self.tables, self.built.tables):
            tables.pages = self.pages
        self.built.inference = c.pointer(inference.plan)
        self.inference = inference

    def extract_by(self, extraction: Net, samples: int, at_once: int, infer: Net | None = None) -> None:
        """Let another net make features of its batch, as `infer_by`; and one infer from those of a sample."""
        plan = None if infer is None else c.pointer(infer.plan)
        self.extraction = (extraction, Extraction(extraction.plan, samples, at_once, plan), infer)
        if infer is not None:
            self.model.residents = infer.model.residents
            if self.built.inference:
                self.inference.model.residents = infer.model.residents
        extraction.model.residents = self.model.residents
        self.built.extraction = c.pointer(self.extraction[1])
        for net in (extraction, *([infer] if infer else [])):
            self.pages = max(self.pages, net.pages, key=len)
        for tables in (self.tables, self.built.tables):
            tables.pages = self.pages


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> c.CDLL:
    """The core with a test board and a few tiny operators; undefined behaviour ends the process."""
    library = compile_c(
        tmp_path_factory.mktemp("core") / "core.so",
        [
            *core_sources(),
            *(NATIVE / f"test_{name}.c" for name in ("board", "operators")),
            FIRMWARE / "src/storage/memory.c",
        ],
        *("-shared", "-fPIC", "-g", "-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"),
    )
    loaded = c.CDLL(str(library))
    c.memmove(TABLE, c.byref(type(TABLE).in_dll(loaded, "poet_operators")), c.sizeof(TABLE))
    for mine, name in ((OPERATORS, "poet_all_operators"), (HOOKS, "test_hooks")):
        c.memmove(c.byref(mine), c.byref(type(mine).in_dll(loaded, name)), c.sizeof(mine))
    return loaded


SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@dataclass(frozen=True)
class HostFirmware:
    """The firmware for this computer, all but the built model; memory errors and undefined behaviour end it."""

    library: Path

    def link(self, output: Path, *flags: str) -> Path:
        """The whole program; ``flags`` say which model is built in."""
        return compile_c(output, [FIRMWARE / "src" / "built.c", self.library], "-g", "-O1", *SANITIZERS, *flags)


@pytest.fixture(scope="session")
def host_firmware(tmp_path_factory: pytest.TempPathFactory) -> HostFirmware:
    sources = [*sorted((FIRMWARE / "src").rglob("*.c")), *sorted((FIRMWARE / "boards" / "host").glob("*.c"))]
    sources.remove(FIRMWARE / "src" / "built.c")
    library = tmp_path_factory.mktemp("host") / "core.o"
    identity = '-DPOET_FIRMWARE_ID="test"'
    return HostFirmware(compile_c(library, sources, "-r", "-g", "-O1", identity, *SANITIZERS))


@pytest.fixture(scope="session")
def host_program(host_firmware: HostFirmware) -> Path:
    """The host board's program without a model."""
    return host_firmware.link(host_firmware.library.with_name("poet"), "-DPOET_NO_MODEL")
