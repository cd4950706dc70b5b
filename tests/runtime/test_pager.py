# SPDX-License-Identifier: Apache-2.0
"""Pages move in the background; what goes wrong there reaches the step, and costs nothing but that step."""

from __future__ import annotations

import errno
import os
import signal
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch
from poet_planner import models
from poet_planner.tracing import trace
from poet_profiles.errors import UserError
from poet_profiles.schedule import Action, Step
from poet_runtime.compiled_step import CompiledStep, compile_steps
from poet_runtime.executor import residents_of, store_all_steps
from poet_runtime.pager import Pager
from poet_runtime.traced_graph import TracedGraph
from torch import Tensor

from tests.support.networks.eager import differences, eager_step

LAYOUTS = {
    "dense": torch.randn(3, 5),
    "transposed": torch.randn(300, 1200).t(),
    "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "booleans": torch.arange(7) > 3,
    "within a storage": torch.randn(1000)[17:],
    "half the bits": torch.randn(4, dtype=torch.bfloat16),
    "empty": torch.empty(0, 3),
    "scalar": torch.tensor(3),
}


@pytest.mark.parametrize("tensor", LAYOUTS.values(), ids=LAYOUTS)
def test_a_value_comes_back_as_it_was(tensor: Tensor, tmp_path: Path) -> None:
    with Pager(tmp_path) as pager:
        slot, other = pager.slot("value", tensor.untyped_storage().nbytes()), pager.slot("other", 1 << 21)
        pager.open()
        pager.page_out(other, torch.randn(1 << 19))
        for _ in range(2):
            pager.page_out(slot, tensor)
            found = pager.page_in(slot)
            pager.wait(slot)
            assert torch.equal(found, tensor)
            assert (found.dtype, found.stride()) == (tensor.dtype, tensor.stride())
        assert not [*tmp_path.iterdir()]


def test_a_tensor_is_free_as_soon_as_it_has_been_waited_for(tmp_path: Path) -> None:
    with Pager(tmp_path) as pager:
        slot = pager.slot("value", 4096)
        pager.open()
        tensor = torch.randn(1024)
        gone = weakref.ref(tensor.untyped_storage())
        pager.page_out(slot, tensor)
        del tensor
        pager.wait(slot)
        assert gone() is None


def test_transfers_run_in_the_order_in_which_they_were_begun(tmp_path: Path) -> None:
    with Pager(tmp_path) as pager:
        slot = pager.slot("value", 1 << 22)
        pager.open()
        found = []
        for number in range(5):
            pager.page_out(slot, torch.full((1 << 20,), float(number)))
            found.append(pager.page_in(slot))
        pager.drain()
        assert [float(tensor.unique()) for tensor in found] == [0.0, 1.0, 2.0, 3.0, 4.0]
        assert pager.traffic.out_bytes == pager.traffic.in_bytes == 5 << 22


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", write)


def failing_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", read)


def emptied_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "preadv", lambda *_: 0)


Paged = tuple[CompiledStep, TracedGraph, dict[str, Tensor]]


@pytest.fixture
def paged(tmp_path: Path) -> Iterator[Paged]:
    """A step that pages the first activation out and in again."""
    model = models.load("digits_cnn_small", 2)
    graph = trace(model.module, model.inputs, model.targets, model.loss, model.name)
    steps: list[Step] = []
    for step in store_all_steps(graph):
        if step == Step(Action.COMPUTE, "loss.backward"):
            steps += [Step(Action.PAGE_OUT, "relu1"), Step(Action.FREE, "relu1"), Step(Action.PAGE_IN, "relu1")]
        steps.append(step)
    with Pager(tmp_path) as pager:
        yield compile_steps(graph, steps, pager), graph, residents_of(graph, *model_of(model))


def model_of(model: models.Model) -> tuple[torch.nn.Module, tuple[Tensor, ...], tuple[Tensor, ...]]:
    return model.module, model.inputs, model.targets


@pytest.mark.parametrize(
    ("fault", "words"),
    [(full_disk, "cannot page out relu1"), (failing_disk, "cannot page in relu1"), (emptied_file, "cannot page in")],
)
def test_a_fault_ends_the_step_in_one_line_and_the_next_step_is_well(
    fault: Callable[[pytest.MonkeyPatch], None], words: str, paged: Paged, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, graph, residents = paged
    before = {id: tensor.clone() for id, tensor in residents.items()}
    with monkeypatch.context() as patch:
        fault(patch)
        with pytest.raises(UserError, match=words) as caught:
            step.result(graph, residents)
        assert "\n" not in str(caught.value)
    assert all(torch.equal(tensor, before[id]) for id, tensor in residents.items())
    model = models.load("digits_cnn_small", 2)
    assert differences(model, eager_step(model), step.result(graph, residents)) == []


def test_short_transfers_go_on(paged: Paged, monkeypatch: pytest.MonkeyPatch) -> None:
    step, graph, residents = paged
    write, read = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[:4096], at))
    monkeypatch.setattr(os, "preadv", lambda file, into, at: read(file, [into[0][:4096]], at))
    model = models.load("digits_cnn_small", 2)
    assert differences(model, eager_step(model), step.result(graph, residents)) == []


def test_a_place_without_room_or_without_direct_transfers_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pager = Pager(tmp_path / "nowhere")
    pager.slot("value", 1)
    with pytest.raises(UserError, match="nowhere"):
        pager.open()
    opened = os.open

    def refusing(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", refusing)
    with Pager(tmp_path) as pager:
        slot = pager.slot("value", 40)
        pager.open()
        assert "refuses transfers past the kernel's cache" in pager.note
        pager.page_out(slot, torch.arange(10.0))
        assert torch.equal(pager.page_in(slot), torch.arange(10.0)) or pager.wait(slot) is None


def test_a_forked_process_has_pages_of_its_own(paged: Paged) -> None:
    """Parent and children take steps at the same time, and all find what a step without pages finds."""
    step, graph, residents = paged
    plain = compile_steps(graph, store_all_steps(graph))
    batches = [{**residents, "input": residents["input"] * factor} for factor in (1.0, 2.0, 3.0)]

    def faults(number: int) -> int:
        results = [step.result(graph, batches[number]) for _ in range(10)]
        return sum(
            not torch.equal(result.loss, expected[number].loss)
            or any(not torch.equal(result.gradients[id], tensor) for id, tensor in expected[number].gradients.items())
            for result in results
        )

    with one_thread():
        expected = [plain.result(graph, batch) for batch in batches]
        assert len({float(result.loss) for result in expected}) == 3
        assert faults(0) == 0
        children = [forked(partial(faults, number)) for number in (1, 2)]
        assert faults(0) == 0
        assert [exit_code(child) for child in children] == [0, 0]


@contextmanager
def one_thread() -> Iterator[None]:
    """OpenMP's other threads are not in a forked process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def forked(work: Callable[[], int]) -> int:
    """The process that does it, and ends with what it returns."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        code = work()
    finally:
        os._exit(code)


def exit_code(child: int, patience_s: float = 60.0) -> int:
    """That of a child, which is killed if it does not end."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
