# SPDX-License-Identifier: Apache-2.0
"""A compiled step leaves what `backward()` leaves, in the memory that was asked for, or refuses in one line."""

from __future__ import annotations

import copy
import errno
import io
import os
import pickle
import re
from collections import OrderedDict, UserDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import poet_planner as poet
import pytest
import torch
from poet_planner.graph import PageCost
from poet_planner.report.quantities import bytes_text
from poet_planner.torch_step import profile_here
from poet_planner.torch_step.step import PlannedStep
from poet_profiles.errors import NO_SCHEDULE, NOT_FOUND, UserError
from torch import Tensor, nn
from torch.autograd import set_detect_anomaly
from torch.autograd.graph import allow_mutation_on_saved_tensors, save_on_cpu, saved_tensors_hooks
from torch.func import functional_call, grad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.planner.torch_step.networks import Batch, small_bert, small_mobilenet, small_resnet, small_vgg, tiny
from tests.support import ROOT

NETWORKS: dict[str, Callable[[], tuple[nn.Module, Batch]]] = {
    "resnet": small_resnet,
    "mobilenet": small_mobilenet,
    "bert": small_bert,
    "vgg": small_vgg,
}


SHARES = {"resnet": "75%", "mobilenet": "90%", "bert": "75%", "vgg": "75%"}
CHEAP = PageCost(1e-9, 1e-9, 1e-9, 1e-9)


def compiled(module: nn.Module, batch: Any, **asked: Any) -> PlannedStep:
    options = poet.OptimiseOptions(time_limit_s=60.0, gap=0.5)
    return poet.compile(module, cross_entropy, example=batch, options=options, quiet=True, **asked)


def eager(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    loss = cross_entropy(module(x), y)
    loss.backward()
    return loss.detach()


def state_of(module: nn.Module, loss: Tensor) -> dict[str, Any]:
    """Every bit that a step leaves, and the layout of gradients."""
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    gradients = {f"{name}.grad": p.grad for name, p in module.named_parameters() if p.grad is not None}
    tensors = {"loss": loss, "generator": torch.get_rng_state(), **named, **gradients}
    return {name: (tensor.detach().clone(), tensor.stride()) for name, tensor in tensors.items()}


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    assert one.keys() == other.keys()
    return [name for name in one if one[name][1] != other[name][1] or not torch.equal(one[name][0], other[name][0])]


def trained(module: nn.Module, step: Callable[[Tensor, Tensor], Tensor], batch: Batch) -> list[dict[str, Any]]:
    """Three steps of descent with momentum; the third adds its gradients to the second's."""
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)
    torch.manual_seed(1)
    states = []
    for number in range(3):
        if number < 2:
            optimiser.zero_grad()
        states.append(state_of(module, step(*batch)))
        optimiser.step()
    return states


@pytest.mark.parametrize(
    ("name", "paged"), [("resnet", True), ("bert", True), ("bert", False), ("mobilenet", False), ("vgg", False)]
)
def test_three_steps_leave_eagers_bits_in_less_memory(
    name: str, paged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile_here.PageCosts, "cost", lambda *_: CHEAP)
    monkeypatch.setattr(profile_here, "LEAST_PAGE_BYTES", 1024)
    module, batch = NETWORKS[name]()
    ours = copy.deepcopy(module)
    expected = trained(module, lambda x, y: eager(module, x, y), batch)
    before = {id: tensor.clone() for id, tensor in ours.state_dict().items()}
    with compiled(ours, batch, ram=SHARES[name], pages=tmp_path if paged else None) as step:
        assert all(torch.equal(tensor, before[id]) for id, tensor in ours.state_dict().items())
        found = trained(ours, step, batch)
    assert [differing(one, other) for one, other in zip(expected, found, strict=True)] == [[], [], []]
    report = step.report
    assert report.budget_bytes is not None
    assert report.planned_peak_bytes <= report.budget_bytes < report.plain_peak_bytes
    assert report.peak_bytes is not None
    assert report.peak_bytes <= 1.02 * report.planned_peak_bytes
    assert report.steps == 3
    assert report.time_s is not None and report.time_s > 0
    assert (report.planned_out_bytes > 0) is paged
    assert report.out_bytes == 3 * report.planned_out_bytes


def test_where_everything_fits_nothing_is_spent() -> None:
    module, batch = tiny()
    for asked in ({}, {"ram": "100%"}, {"ram": "1GB", "deadline": "1.01x"}):
        with compiled(module, batch, **asked) as step:
            report = step.report
            assert (report.recomputations, report.planned_out_bytes, report.gap) == (0, 0, 0)
            assert report.planned_time_s == report.plain_time_s
            assert report.planned_peak_bytes <= 1.01 * report.plain_peak_bytes
            assert "convolution_backward_default" in step.source
            assert step.plan.graph == "Tiny"


def test_the_peak_falls_with_the_budget() -> None:
    module, batch = NETWORKS["vgg"]()
    peaks = []
    for share in (100, 90, 85):
        with compiled(module, batch, ram=f"{share}%") as step:
            for _ in range(2):
                step(*batch)
            peaks.append((step.report.peak_bytes, step.report.budget_bytes))
    assert peaks == sorted(peaks, reverse=True)
    assert all(peak <= 1.02 * budget for peak, budget in peaks)


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\fb", "a'b\"c\\", "#", "a\0b", "a+b", "{0}%s", "\u2028"])
def test_a_module_may_have_any_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """PyTorch forbids only the dot and the empty name."""
    module = nn.Sequential(nn.Conv2d(2, 5, 3), nn.ReLU())
    module.add_module(name, nn.Conv2d(5, 4, 3))
    module.append(nn.Flatten())
    x, y = torch.randn(8, 2, 5, 5), torch.arange(8) % 4
    other = copy.deepcopy(module)
    step = compiled(module, (x, y), ram="100%")
    assert differing(state_of(module, step(x, y)), state_of(other, eager(other, x, y))) == []


def test_what_becomes_of_parameters_between_steps_is_seen() -> None:
    """`load_state_dict`, `p.data = …` and a parameter put in another's place."""
    module, batch = tiny()
    other = copy.deepcopy(module)
    with compiled(module, batch, ram="90%") as step:
        step(*batch)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.mul_(1.25)
        module.load_state_dict(other.state_dict())
        module.conv1.weight.data = other.conv1.weight.detach() * 2
        module.fc.bias = nn.Parameter(torch.ones(10))
        with torch.no_grad():
            other.conv1.weight.mul_(2)
            other.fc.bias.fill_(1)
        module.zero_grad()
        assert differing(state_of(other, eager(other, *batch)), state_of(module, step(*batch))) == []


def test_a_smaller_last_batch_is_planned_when_it_comes() -> None:
    module, (x, y) = NETWORKS["bert"]()
    other = copy.deepcopy(module)
    with compiled(module, (x, y), ram="80%") as step:
        budget = step.report.budget_bytes
        for size in (4, 3, 4):
            torch.manual_seed(size)
            expected = state_of(other, eager(other, x[:size], y[:size]))
            torch.manual_seed(size)
            assert differing(expected, state_of(module, step(x[:size], y[:size]))) == []
        assert step.report.steps == 2
        assert step.report.budget_bytes == budget


def test_autocast_is_traced_and_held_to() -> None:
    module, batch = tiny()
    other = copy.deepcopy(module)
    with torch.autocast("cpu", torch.bfloat16):
        loss = cross_entropy(other(batch[0]), batch[1])
        step = compiled(module, batch, ram="90%")
        found = step(*batch)
    loss.backward()
    assert differing(state_of(other, loss), state_of(module, found)) == []
    with torch.autocast("cpu", torch.bfloat16):
        step, refusing = compiled(module, batch), compiled(module, batch, on_change="refuse")
    assert differing(state_of(other, eager(other, *batch)), state_of(module, step(*batch))) == []
    assert step.report.retraced == 1
    with pytest.raises(UserError, match=r"autocast is off, and was torch.bfloat16 when compiled; .*compile again"):
        refusing(*batch)


def test_times_in_place_add_up_to_the_median_step() -> None:
    """Another operator is slow in each step, so that every median is 1 and every step 6."""
    steps = np.array([[4.0, 1.0, 1.0], [1.0, 4.0, 1.0], [1.0, 1.0, 4.0]])
    assert profile_here._typical(steps).tolist() == [2.0, 2.0, 2.0]
    assert profile_here._typical(np.zeros((3, 2))).tolist() == [0.0, 0.0]


def test_costs_are_measured_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module, batch = tiny()
    measured = []
    timed = profile_here._timed
    monkeypatch.setattr(profile_here, "cache_folder", lambda name: tmp_path / name)
    monkeypatch.setattr(profile_here, "_timed", lambda *given: measured.append(1) or timed(*given))
    first = compiled(module, batch, pages=tmp_path).report.planned_time_s
    assert compiled(module, batch, pages=tmp_path).report.planned_time_s == first
    assert len(measured) == 1
    for kept in (tmp_path / profile_here.CACHE).iterdir():
        kept.write_text(kept.read_text()[:-20])
    compiled(module, batch)
    assert len(measured) == 2
    torch.set_num_threads(2)
    compiled(module, batch)
    assert len(measured) == 3


def test_pages_in_ram_are_told_of_before_anything_is_planned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module, batch = tiny()
    monkeypatch.setattr("poet_planner.torch_step.compiling.ram_disk", lambda folder: "overlay/tmpfs")
    step = poet.compile(module, cross_entropy, batch, pages=tmp_path)
    first, _, second = capsys.readouterr().err.splitlines()
    note = f"pages {tmp_path}: lies in RAM (overlay/tmpfs): what goes there takes memory all the same"
    assert first.startswith(f"poet: {note}")
    assert note in second and note in str(step.report)
    monkeypatch.setattr("poet_planner.torch_step.compiling.ram_disk", lambda folder: "")
    assert compiled(module, batch, pages=tmp_path).report.note == ""


def test_a_boards_profile_serves_as_well() -> None:
    module, batch = tiny()
    with compiled(module, batch, ram="95%", profile="a72") as step:
        assert step.plan.objective == "energy"
        other = copy.deepcopy(module)
        assert differing(state_of(other, eager(other, *batch)), state_of(module, step(*batch))) == []
    assert compiled(module, batch, profile="a72", objective="time").plan.time_s > 0


def test_a_full_disk_costs_the_step_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, batch = tiny()
    other = copy.deepcopy(module)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(profile_here.PageCosts, "cost", lambda *_: CHEAP)
    monkeypatch.setattr(profile_here, "LEAST_PAGE_BYTES", 1024)
    with compiled(module, batch, ram="90%", pages=tmp_path) as step:
        assert step.report.planned_out_bytes > 0
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            with pytest.raises(UserError, match="cannot page out"):
                step(*batch)
        assert all(parameter.grad is None for parameter in module.parameters())
        assert differing(state_of(other, eager(other, *batch)), state_of(module, step(*batch))) == []


def frozen(module: nn.Module) -> None:
    module.fc.weight.requires_grad_(False)  # type: ignore[union-attr, operator]


def widened(module: nn.Module) -> None:
    module.fc = nn.Linear(8, 10)


def narrowed(module: nn.Module) -> None:
    module.fc.weight.data = module.fc.weight.detach()[:, :3]  # type: ignore[union-attr, index, operator]


def last_mode(module: nn.Module) -> None:
    module.bn1.eval()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (nn.Module.eval, "bn1.training is False, and was True when compiled"),
        (last_mode, "bn1.training is False, and was True"),
        (frozen, "requires_grad of fc.weight is False, and was True"),
        (nn.Module.double, "the type of conv1.weight is torch.float64, and was torch.float32"),
        (widened, "fc is another Linear now"),
        (narrowed, r"the shape of fc.weight is torch.Size\(\[10, 3\]\)"),
        (lambda module: module.to(memory_format=torch.channels_last), "the stride of conv1.weight"),
    ],
)
def test_another_module_is_refused_in_one_line(change: Callable[[nn.Module], object], words: str) -> None:
    module, batch = tiny()
    with compiled(module, batch, on_change="refuse") as step:
        change(module)
        before = state_of(module, torch.zeros(()))
        with pytest.raises(UserError, match=f"^Tiny: {words}.*; call poet_planner.compile again$") as caught:
            step(*batch)
    assert "\n" not in str(caught.value)
    assert differing(before, state_of(module, torch.zeros(()))) == []


class Doubled(TorchFunctionMode):
    """Linear layers yield twice as much."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        return 2 * found if function is torch.nn.functional.linear else found


class Halved(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tangents are half of what they are."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        return found / 2 if function is torch.ops.aten.tanh.default else found


def compressed() -> Any:
    return saved_tensors_hooks(
        lambda x: x.bfloat16() if x.is_floating_point() else x, lambda x: x.float() if x.is_floating_point() else x
    )


@contextmanager
def setting(owner: Any, name: str, value: object) -> Iterator[None]:
    """By the attribute of that name, or by the functions that get and set it."""
    if hasattr(owner, name):
        get, put = partial(getattr, owner, name), partial(setattr, owner, name)
    else:
        get, put = getattr(owner, f"get_{name}"), getattr(owner, f"set_{name}")
    before = get()
    put(value)
    try:
        yield
    finally:
        put(before)


AROUND: dict[str, Callable[[], Any]] = {
    "hooks on saved tensors": compressed,
    "a mode of functions": Doubled,
    "a mode of operators": Halved,
    "saved tensors elsewhere": save_on_cpu,
    "saved tensors that may change": allow_mutation_on_saved_tensors,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "anomalies": lambda: set_detect_anomaly(True),
    "a device": lambda: torch.device("meta"),
    "a default device": lambda: setting(torch, "default_device", "cpu"),
    "a default type": lambda: setting(torch, "default_dtype", torch.float64),
    "determinism": lambda: setting(torch, "deterministic_debug_mode", 1),
    "precision, the old way": lambda: setting(torch, "float32_matmul_precision", "medium"),
    "precision, the new way": lambda: setting(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    "a GPU's precision": lambda: setting(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "attention's kernels": lambda: sdpa_kernel(SDPBackend.MATH),
}


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
def test_what_stands_around_the_call_is_looked_at(around: Callable[[], Any]) -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    x, labels = torch.randn(2, 4), torch.tensor([0, 2])
    with compiled(module, (x, labels)) as step:
        for context in (nullcontext, around, nullcontext):
            module.zero_grad()
            with context():
                cross_entropy(module(x), labels).backward()
            expected = [parameter.grad for parameter in module.parameters()]
            module.zero_grad()
            with context():
                step(x, labels)
            for one, parameter in zip(expected, module.parameters(), strict=True):
                assert one is not None and parameter.grad is not None and torch.equal(one, parameter.grad)


def test_no_gradient_is_wanted_in_inference_mode() -> None:
    module, batch = tiny()
    with compiled(module, batch) as step, torch.inference_mode(), pytest.raises(UserError, match="no parameter that"):
        step(*batch)


@torch.library.custom_op("poet_test::bump", mutates_args=("x",))
def bump(x: Tensor) -> None:
    x.add_(1.0)


class Doing(nn.Module):
    def __init__(self, do: Callable[[nn.Linear, Tensor], Tensor]) -> None:
        super().__init__()
        self.fc, self.do = nn.Linear(6, 6), do

    def forward(self, x: Tensor) -> Tensor:
        return self.do(self.fc, x)


def learned(fc: nn.Linear, x: Tensor) -> Tensor:
    """After a step of descent on all of its parameters, in a dict."""
    own = dict(fc.named_parameters())
    slopes = grad(lambda own: functional_call(fc, own, (x,)).square().mean())(own)
    return functional_call(fc, {name: own[name] - slopes[name] for name in own}, (x,))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "do",
    [learned, lambda fc, x: fc(x.mul_(2)), lambda fc, x: torch.fft.fft(fc(x)).abs()],
    ids=["gradients within", "an input that is written", "complex numbers"],
)
def test_what_a_step_does_besides_is_eagers(do: Callable[[nn.Linear, Tensor], Tensor]) -> None:
    module, x, labels = Doing(do), torch.randn(4, 6), torch.tensor([0, 2, 1, 5])
    given, ours = x.clone(), copy.deepcopy(module)
    loss = eager(module, given, labels)
    with compiled(ours, (x, labels)) as step:
        assert differing(state_of(module, loss), state_of(ours, step(x, labels))) == []
    assert torch.equal(given, x)


def test_an_operator_that_only_writes_is_refused() -> None:
    def do(fc: nn.Linear, x: Tensor) -> Tensor:
        y = fc(x).detach().clone()
        bump(y)
        return fc(x) + y

    with pytest.raises(UserError, match=r"test_compile.py:\d+\) calls poet_test.bump.default, which writes .* nothing"):
        compiled(Doing(do), (torch.randn(4, 6), torch.tensor([0, 2, 1, 5])))


class Named(nn.Module):
    """Of two parts of a sample: by their names, and in their order."""

    def __init__(self, in_order: bool) -> None:
        super().__init__()
        self.fc, self.in_order = nn.Linear(8 if in_order else 4, 3), in_order

    def forward(self, parts: dict[str, Tensor]) -> Tensor:
        x = torch.cat([*parts.values()], 1) if self.in_order else parts["a"] + 0.1 * parts["b"]
        y: Tensor = self.fc(x)
        return y


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("nested", [lambda parts: parts, UserDict, OrderedDict])
def test_parts_with_names_come_in_any_order(in_order: bool, nested: Callable[[dict[str, Tensor]], Any]) -> None:
    module, labels = Named(in_order), torch.tensor([0, 2])
    parts = {"a": torch.randn(2, 4), "b": torch.randn(2, 4)}
    with compiled(module, (nested(parts), labels)) as step:
        for order in ("ba", "ab", "ba"):
            given = nested({name: parts[name] for name in order})
            module.zero_grad()
            cross_entropy(module(given), labels).backward()
            expected = module.fc.weight.grad
            module.zero_grad()
            step(given, labels)
            assert expected is not None and module.fc.weight.grad is not None
            assert torch.equal(module.fc.weight.grad, expected)


def test_another_batch_is_refused_in_one_line() -> None:
    module, (x, y) = tiny()
    step = compiled(module, (x, y))
    with pytest.raises(UserError, match=r"input is torch.float64 .* convert it"):
        step(x.double(), y)
    with pytest.raises(UserError, match=r"input is torch.float32 with strides"):
        step(x.to(memory_format=torch.channels_last), y)
    with pytest.raises(UserError, match="another nesting"):
        step((x,), (y, y))
    with pytest.raises(UserError, match="another nesting"):
        step(x)
    step.close()
    with pytest.raises(UserError, match="has been closed"):
        step(x, y)


class Tagged(Tensor):
    """Computes as a tensor does."""


class Computing(Tensor):
    """Computes in a way of its own."""

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


UNFIT: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "no samples": (lambda x: x[:0], "Tiny: a batch without samples has no step to plan; leave it out"),
    "with a gradient": (lambda x: x.clone().requires_grad_(), "requires a gradient, .* detach"),
    "computed": (lambda x: x * nn.Parameter(torch.ones(())), "requires a gradient, .* detach"),
    "sparse": (Tensor.to_sparse, r"is a sparse tensor .* \.to_dense\(\)"),
    "sparse rows": (lambda x: x.to_sparse_csr(), r"is a sparse tensor .* \.to_dense\(\)"),
    "oneDNN's": (Tensor.to_mkldnn, r"is no plain tensor \(torch._mkldnn\)"),
    "nested": (lambda x: torch.nested.nested_tensor([*x]), "is a nested tensor"),
    "ragged": (lambda x: torch.nested.nested_tensor([*x], layout=torch.jagged), "is a nested tensor"),
    "quantised": (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), "is quantised"),
    "without data": (lambda x: x.to("meta"), r"has no data \(device meta\); make it on the CPU"),
    "of a class": (lambda x: x.as_subclass(Computing), "is a Computing, which computes in a way of its own"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_what_no_batch_may_be_is_refused_at_compile_and_at_the_call(what: str) -> None:
    change, words = UNFIT[what]
    module, (x, y) = tiny()
    unfit = (change(x), y[:0] if what == "no samples" else y)
    with compiled(module, (x, y)) as step:
        before = state_of(module, torch.zeros(()))
        for refused in (lambda: compiled(module, unfit), lambda: step(*unfit)):
            with pytest.raises(UserError, match=words) as caught:
                refused()
            assert "\n" not in str(caught.value)
        assert differing(before, state_of(module, torch.zeros(()))) == []


def test_a_target_with_a_gradient_is_refused_at_the_call() -> None:
    module, (x, _) = tiny()
    y = torch.rand(4, 10)
    step = compiled(module, (x, y))
    with pytest.raises(UserError, match="requires a gradient"):
        step(x, y.requires_grad_())


def test_a_tensor_beside_the_samples_may_be_empty() -> None:
    class WithEdges(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.nodes, self.edges = nn.Linear(3, 10), nn.Linear(2, 10)

        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            return self.nodes(x) + self.edges(edges).sum(0)

    module = WithEdges()
    other = copy.deepcopy(module)
    x, edges, y = torch.randn(4, 3), torch.randn(0, 2), torch.arange(4)
    step = compiled(module, ((x, edges), y))
    cross_entropy(other(x, edges), y).backward()
    step((x, edges), y)
    for ours, eagers in zip(module.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours.grad, eagers.grad)


def test_gradients_are_plain_tensors_whatever_class_the_batch_is_of() -> None:
    module, (x, y) = tiny()
    other = copy.deepcopy(module)
    batch = (x.as_subclass(Tagged), y)
    with compiled(module, (x, y)) as step:
        assert differing(state_of(other, eager(other, *batch)), state_of(module, step(*batch))) == []
    assert {type(parameter.grad) for part in (module, other) for parameter in part.parameters()} == {Tensor}


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, pickle.dumps, ForkingPickler.dumps, lambda step: torch.save(step, io.BytesIO())],
)
def test_a_step_is_neither_copied_nor_pickled(copied: Callable[[PlannedStep], object]) -> None:
    module, batch = tiny()
    with compiled(module, batch) as step:
        module.step = step
        for thing in (step,) if copied is copy.copy else (step, {"step": step}, module):
            with pytest.raises(TypeError, match=r"belongs to its process and model; call poet_planner\.compile there"):
                copied(thing)  # type: ignore[arg-type]
        for part in (step.report, step.plan):
            assert pickle.loads(pickle.dumps(part)) == part
        assert torch.isfinite(step(*batch))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"objective": "joy"}, "objective 'joy': there are energy, time"),
        ({"on_change": "cry"}, "on_change 'cry': there are retrace, refuse"),
        ({"pages": "nowhere"}, "pages nowhere: is no folder"),
        ({"ram": "much"}, "much: not an amount"),
        ({"profile": "nothing.csv"}, "no profile nothing.csv"),
    ],
)
def test_what_cannot_be_honoured_is_refused(asked: dict[str, Any], words: str) -> None:
    module, batch = tiny()
    with pytest.raises(UserError, match=words):
        compiled(module, batch, **asked)


def test_wrapped_modules_and_wrong_examples_are_refused() -> None:
    module, batch = tiny()
    with pytest.raises(UserError, match=r"is compiled \(torch.compile\)"):
        compiled(torch.compile(module), batch)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="is spread over devices"):
        compiled(nn.DataParallel(module), batch)
    with pytest.raises(UserError, match="give a tuple of the model's input"):
        compiled(module, batch[0])


def test_too_little_memory_names_what_would_do_and_what_takes_it() -> None:
    module, batch = tiny()
    gradients = sum(parameter.nbytes for parameter in module.parameters()) + 4
    said = r"Tiny: no plan allocates \S+ KB a step; .* and conv\S+ takes \S+ KB while it runs"
    with pytest.raises(poet.NoScheduleError, match=said) as caught:
        compiled(module, batch, ram="1%")
    assert f"what lives to the step's end takes {bytes_text(gradients)}" in str(caught.value)
    assert caught.value.exit_code == NO_SCHEDULE
    enough = caught.value.possible_bytes
    assert f"; the smallest that does is {bytes_text(enough)}" in str(caught.value)
    assert enough <= 1.01 * caught.value.impossible_below_bytes
    with compiled(module, batch, ram=enough) as step:
        for _ in range(2):
            step(*batch)
        assert step.report.peak_bytes <= 1.02 * enough


def test_where_the_time_ended_the_search_nothing_is_called_impossible_or_the_smallest() -> None:
    module, batch = NETWORKS["resnet"]()
    hurried = poet.OptimiseOptions(time_limit_s=0.0)
    with pytest.raises(poet.NoScheduleError) as caught:
        poet.compile(module, cross_entropy, example=batch, ram="57%", options=hurried, quiet=True)
    said = str(caught.value)
    assert "no plan that allocates" in said and "was found within 0 s (options=OptimiseOptions(time_limit_s=…)" in said
    assert f"; {bytes_text(caught.value.possible_bytes)} does" in said
    assert caught.value.exit_code == NOT_FOUND
    assert caught.value.impossible_below_bytes < caught.value.possible_bytes
    assert "smallest" not in said
    # Less does.
    with compiled(module, batch, ram="60%") as step:
        assert step.report.planned_peak_bytes < caught.value.possible_bytes


def test_what_would_do_is_no_more_than_keeping_everything_takes() -> None:
    """The generator's states, here five times the rest, are for those plans that draw again."""
    layers = [layer for _ in range(4) for layer in (nn.Linear(16, 16), nn.Dropout(0.1), nn.ReLU())]
    module, batch = nn.Sequential(*layers, nn.Linear(16, 10)), (torch.randn(8, 16), torch.randint(10, (8,)))
    with compiled(module, batch) as step:
        plain_bytes = step.report.plain_peak_bytes
    with pytest.raises(poet.NoScheduleError) as caught:
        compiled(module, batch, ram="90%")
    assert caught.value.possible_bytes <= plain_bytes
    with compiled(module, batch, ram=caught.value.possible_bytes) as step:
        assert torch.isfinite(step(*batch))


def test_a_deadline_that_no_plan_keeps_is_not_blamed_on_the_memory() -> None:
    module, batch = tiny()
    with pytest.raises(poet.NoScheduleError, match=r"Tiny: no plan takes .* keeps everything takes .* none takes less"):
        compiled(module, batch, ram="95%", deadline="0.5x")
    with pytest.raises(poet.NoScheduleError, match=r"none takes less"):
        compiled(module, batch, deadline="0.5x")


def test_a_loss_with_parameters_and_models_with_several_inputs(tmp_path: Path) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(6, 8), nn.Linear(3, 8)

        def forward(self, x: Tensor, z: Tensor) -> Tensor:
            return torch.relu(self.one(x)) + self.other(z)

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(8))

        def forward(self, output: Tensor, wanted: Tensor, weight: Tensor) -> Tensor:
            return ((output * self.scale - wanted) ** 2 * weight).mean()

    module, loss = Two(), Scaled()
    others = copy.deepcopy((module, loss))
    batch = (torch.randn(5, 6), torch.randn(5, 3)), (torch.randn(5, 8), torch.rand(5, 1))
    step = poet.compile(module, loss, example=batch, quiet=True)
    found = step(*batch)
    expected = others[1](others[0](*batch[0]), *batch[1])
    expected.backward()
    for one, other in zip(others, (module, loss), strict=True):
        assert differing(state_of(one, expected), state_of(other, found)) == []


def test_it_says_in_one_line_what_came_out(capsys: pytest.CaptureFixture[str]) -> None:
    module, batch = tiny()
    step = poet.compile(module, cross_entropy, example=batch, ram="90%")
    need, said = capsys.readouterr().err.splitlines()
    assert need.startswith("poet: Tiny: compiling needs 90% of what an eager step takes, and about 150")
    assert said.startswith("poet: Tiny: ")
    assert " a step instead of " in said
    for _ in range(2):
        step(*batch)
    assert "; seen: " in str(step.report)


def test_the_example_of_the_page_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    plain, with_optimizer, sliced = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "pytorch.md").read_text(), re.DOTALL
    )
    names: dict[str, Any] = {}
    exec(plain, names)
    printed = capsys.readouterr()
    assert " a step instead of " in printed.out
    assert printed.err.startswith("poet: Sequential: ")
    before = copy.deepcopy(names["model"].state_dict())
    exec(with_optimizer, names)
    assert names["optimizer"].param_groups[0]["lr"] == 0.01 * 0.5**4
    assert all(not torch.equal(tensor, before[id]) for id, tensor in names["model"].state_dict().items())
    model, other = names["model"], copy.deepcopy(names["model"])
    names["optimizer"] = torch.optim.SGD(model.parameters(), lr=0.01)
    exec(sliced, names)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.01)
    (by_hand,) = re.findall(r"# instead of: (for .*)", sliced)
    for batch in names["loader"]:
        optimizer.zero_grad()
        exec(by_hand, {"cross_entropy": cross_entropy, "model": other, "x": batch[0], "y": batch[1]})
        optimizer.step()
    assert all(map(torch.equal, model.state_dict().values(), other.state_dict().values()))
