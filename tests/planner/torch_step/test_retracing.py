# SPDX-License-Identifier: Apache-2.0
"""A step that is traced again: its plan is kept where it can be, and plain tensors are read without."""

from __future__ import annotations

import colorsys
import copy
import cProfile
import gc
import importlib.util
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import poet_planner as poet
import pytest
import torch
from poet_planner.torch_step import profile_here
from poet_planner.torch_step.step import MOST_TRACES, PlannedStep
from poet_profiles.errors import UserError
from poet_runtime.peak import allocations
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from tests.planner.torch_step.networks import Batch, small_resnet
from tests.planner.torch_step.test_compile import CHEAP, differing, eager, state_of


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.drop, self.fc = nn.Dropout(0.5), nn.Linear(512, 5)
        self.scale: Any = 1.5

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.drop(torch.relu(self.bn(self.conv(x))) * self.scale).flatten(1))


def batch() -> Batch:
    return torch.randn(8, 3, 8, 8), torch.randint(5, (8,))


def compiled(module: nn.Module, given: Any, **asked: Any) -> PlannedStep:
    options = poet.OptimiseOptions(time_limit_s=60.0, gap=0.5)
    return poet.compile(module, cross_entropy, example=given, options=options, **asked)


def alike(step: PlannedStep, module: nn.Module, given: Batch) -> None:
    """A step leaves what eager PyTorch leaves on a copy."""
    module.zero_grad()
    other = copy.deepcopy(module)
    torch.manual_seed(3)
    expected = state_of(other, eager(other, *given))
    torch.manual_seed(3)
    assert differing(expected, state_of(module, step(*given))) == []


class Counted(TorchDispatchMode):
    """Counts the operators that compute with a tensor's numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if (
            type(result) is Tensor
            and result.device.type == "cpu"
            and not any(r.alias_info for r in func._schema.returns)
        ):
            self.names.append(str(func))
        return result


@pytest.mark.parametrize(
    ("change", "words", "keeps"),
    [
        (lambda m: setattr(m.bn, "momentum", 0.05), "bn.momentum is 0.05, and was 0.1", True),
        (lambda m: setattr(m.bn, "eps", 0.05), "bn.eps is 0.05, and was 1e-05", True),
        (lambda m: setattr(m.drop, "p", 0.1), "drop.p is 0.1, and was 0.5", True),
        (lambda m: setattr(m, "scale", 0.25), "scale is 0.25, and was 1.5", True),
        (lambda m: setattr(m, "scale", 2), "scale is 2, and was 1.5", True),
        (lambda m: setattr(m.drop, "p", 0.0), "drop.p is 0.0, and was 0.5", False),
        (lambda m: m.bn.eval(), "bn.training is False, and was True", False),
    ],
)
def test_a_plan_is_kept_where_only_numbers_are_others(
    change: Callable[[Any], object], words: str, keeps: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    module, given = Cnn(), batch()
    with compiled(module, given, ram="95%") as step:
        alike(step, module, given)
        plan, report = step.plan, step.report
        change(module)
        capsys.readouterr()
        alike(step, module, given)
        said = capsys.readouterr().err
        assert said.startswith(f"poet: Cnn: {words}: traced again (") and said.count("\n") == 1
        assert ("plan kept" in said) is (step.plan is plan) is (step.report is report) is keeps
        assert step.report.retraced == 1
        assert step.report.planned_peak_bytes <= report.budget_bytes
        alike(step, module, given)
        assert step.report.retraced == 1


class Convolutions(nn.Sequential):
    """Its memory at the peak is a kernel's own, and another with other threads, or without oneDNN."""

    def __init__(self) -> None:
        super().__init__(nn.Conv2d(16, 32, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4))


def one_thread_and_one_dnn() -> None:
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = True


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: torch.set_num_threads(4), "the number of threads is 4, and was 1"),
        (lambda: setattr(torch.backends.mkldnn, "enabled", False), "oneDNN is False, and was True"),
    ],
)
def test_other_kernels_are_planned_anew_and_both_plans_kept(
    change: Callable[[], object], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module, given = Convolutions(), (torch.randn(4, 16, 32, 32), torch.randint(4, (4,)))
    try:
        with compiled(module, given) as step:
            planned = [step.report.planned_peak_bytes]
            for turn in (change, one_thread_and_one_dnn, change):
                capsys.readouterr()
                turn()
                alike(step, module, given)
                with allocations() as seen:
                    step(*given)
                assert seen.bytes <= step.report.planned_peak_bytes
                planned.append(step.report.planned_peak_bytes)
                again = capsys.readouterr().err
                assert words in again if len(planned) == 2 else not again
            assert planned[0] == planned[2] != planned[1] == planned[3]
            assert step.report.retraced == 1
    finally:
        one_thread_and_one_dnn()


def test_a_thread_with_threads_of_its_own_has_a_plan_of_its_own() -> None:
    module, given = Convolutions(), (torch.randn(4, 16, 32, 32), torch.randint(4, (4,)))
    with (
        compiled(module, given, quiet=True) as step,
        ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(4,)) as other,
    ):
        planned = step.report.planned_peak_bytes
        other.submit(step, *given).result()
        assert step.report.retraced == 1 and step.report.planned_peak_bytes != planned
        torch.set_num_threads(1)
        step(*given)
        assert step.report.retraced == 1 and step.report.planned_peak_bytes == planned


def test_nothing_is_computed_while_a_plan_is_kept() -> None:
    module, given = Cnn(), batch()
    with compiled(module, given, quiet=True) as step:
        for _ in range(2):
            step(*given)
        with Counted() as plain:
            step(*given)
        module.bn.momentum = 0.05
        with Counted() as again:
            step(*given)
        assert step.report.retraced == 1
        assert again.names == plain.names


class Makes(dict[str, Any]):
    """As transformers keeps activations: each look makes another one."""

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name)()


def test_a_container_that_makes_what_it_is_asked_for_has_not_changed() -> None:
    module, given = Cnn(), batch()
    kinds = Makes(relu=nn.ReLU, gelu=nn.GELU)
    module.drop.forward = lambda x: kinds["relu"](x) + kinds["gelu"](x)
    with compiled(module, given, quiet=True) as step:
        for _ in range(3):
            alike(step, module, given)
        assert step.report.retraced == 0
        dict.__setitem__(kinds, "gelu", nn.Tanh)
        alike(step, module, given)
        assert step.report.retraced == 1


def executed(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Coloured(Cnn):
    def __init__(self, files: list[Any]) -> None:
        super().__init__()
        self.colours = [file.hls_to_rgb for file in files]

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        for colour in self.colours:
            y = y * colour(0.5, 0.3, 0.2)[0]
        return y


def test_copies_of_one_file_are_read_each_for_itself(tmp_path: Path) -> None:
    """Their code is equal. Python's own, which nobody changes, runs first."""
    files = [colorsys]
    for name in ("one", "other"):
        path = tmp_path / f"{name}.py"
        path.write_text(Path(colorsys.__file__).read_text())
        files.append(executed(name, path))
    assert len({file.hls_to_rgb.__code__ for file in files}) == 1
    module, given = Coloured(files), batch()
    with compiled(module, given, quiet=True) as step:
        for number, file in enumerate(files[1:]):
            file.ONE_THIRD = 0.0
            alike(step, module, given)
            assert step.report.retraced == number + 1


COLLECTIONS = 0


def count_collections(phase: str, info: dict[str, int]) -> None:
    """As libraries do that watch the garbage collector, hypothesis and Dask among them."""
    global COLLECTIONS
    COLLECTIONS += phase == "stop"


class Littered(Cnn):
    """Makes so many objects that the garbage collector runs meanwhile."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x * float(len([[] for _ in range(50_000)])))


def test_what_the_garbage_collector_calls_is_not_read_by_the_step() -> None:
    module, given = Littered(), batch()
    gc.callbacks.append(count_collections)
    try:
        before = COLLECTIONS
        module(given[0])
        assert before < COLLECTIONS
        with compiled(module, given, quiet=True, on_change="refuse") as step:
            for _ in range(3):
                gc.collect()
                alike(step, module, given)
    finally:
        gc.callbacks.remove(count_collections)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(enabled: bool) -> None:
    if not enabled:
        gc.disable()
    try:
        compiled(Cnn(), batch(), quiet=True).close()
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


def test_a_state_that_comes_back_finds_its_plan() -> None:
    module, given = Cnn(), batch()
    with compiled(module, given, quiet=True) as step:
        for mode in (True, False, True, False, True):
            module.bn.train(mode)
            alike(step, module, given)
        assert step.report.retraced == 1


def test_what_changes_at_each_step_is_refused_with_its_cure_and_what_changes_seldom_is_not() -> None:
    module, given = Cnn(), batch()
    with compiled(module, given, quiet=True) as step:
        for number in range(MOST_TRACES):
            module.scale = 1.0 + number
            step(*given)
        module.scale = 0.5
        with pytest.raises(
            UserError, match=rf"^Cnn: scale is 0.5, and was {MOST_TRACES}.0: .* {MOST_TRACES} times in"
        ) as refused:
            step(*given)
        assert "scale.fill_(0.5)" in str(refused.value) and "\n" not in str(refused.value)
    with compiled(module, given, quiet=True) as step:
        for number in range(MOST_TRACES + 2):
            module.scale = 1.0 + number
            for _ in range(MOST_TRACES):
                step(*given)
        assert step.report.retraced == MOST_TRACES + 2


def test_pages_and_the_optimizer_inside_go_on_with_a_kept_plan(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_here.PageCosts, "cost", lambda *_: CHEAP)
    monkeypatch.setattr(profile_here, "LEAST_PAGE_BYTES", 1024)
    module, given = small_resnet()
    other = copy.deepcopy(module)
    its, mine = (torch.optim.SGD(part.parameters(), lr=0.05, momentum=0.9) for part in (other, module))
    torch.manual_seed(1)
    for number in range(4):
        other[1].momentum = 0.1 / (1 + number // 2)
        its.zero_grad()
        expected = eager(other, *given)
        its.step()
    torch.manual_seed(1)
    with compiled(module, given, quiet=True, ram="60%", pages=tmp_path, optimizer=mine) as step:
        plan = step.plan
        for number in range(4):
            module[1].momentum = 0.1 / (1 + number // 2)
            found = step(*given)
        report = step.report
        assert step.plan is plan and report.retraced == 1 and report.planned_out_bytes > 0
        assert report.out_bytes == 4 * report.planned_out_bytes
        assert report.peak_bytes is not None and report.peak_bytes <= 1.02 * report.planned_peak_bytes
    assert torch.equal(expected, found)
    assert all(map(torch.equal, other.state_dict().values(), module.state_dict().values()))


class Clamped(nn.Module):
    """Its forward pass changes a parameter, a buffer and a batch in place, and draws numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.drop, self.fc = nn.Embedding(6, 4, max_norm=0.5), nn.Dropout(0.5), nn.Linear(8, 3)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, words: Tensor) -> Tensor:
        words.clamp_(min=1)
        x = self.fc(self.drop(self.words(words).flatten(1)))
        self.seen.add_(x.detach().mean(0))
        return x


@pytest.mark.parametrize("profiled", [False, True])
def test_compile_leaves_everything_as_it_was(profiled: bool) -> None:
    """Parameters, buffers, batch, generators, classes, and a profiler that was there."""
    module, given = Clamped(), (torch.randint(6, (5, 2)), torch.randint(3, (5,)))
    parts = {**module.state_dict(), "words": given[0], "generator": torch.get_rng_state()}
    before = {name: part.clone() for name, part in parts.items()}
    profiler = cProfile.Profile()
    if profiled:
        profiler.enable()
    step = compiled(module, given, quiet=True)
    if profiled:
        marked()
        profiler.disable()
        profiler.create_stats()
        assert any(name == "marked" for _, _, name in profiler.stats)
    assert sys.getprofile() is None
    after = {**module.state_dict(), "words": given[0], "generator": torch.get_rng_state()}
    assert [name for name in before if not torch.equal(before[name], after[name])] == []
    assert nn.Module.__getattribute__ is object.__getattribute__ and "__getattribute__" not in vars(nn.Module)
    alike(step, module, (given[0].clone(), given[1]))


def marked() -> None:
    """To be found in a profile."""


PRIOR = torch.full((4,), 0.25)


class Centred:
    def __init__(self) -> None:
        self.centre = torch.zeros(4)

    def __call__(self, output: Tensor, wanted: Tensor) -> Tensor:
        return ((output - self.centre) * wanted).square().mean() + (output.softmax(1) * PRIOR).sum()


class Scaled(nn.Module):
    base = torch.ones(4)

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 4)
        self.gains = [torch.ones(8), torch.ones(4)]
        self.pair = (torch.ones(4), (torch.zeros(4),))
        self.scale = torch.tensor(1.0)
        self.half = torch.arange(8.0)[4:]

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.a(x)) * self.gains[0] * self.scale
        return (self.b(hidden) * self.gains[1] * self.pair[0] + self.pair[1][0]) * self.base + self.half


def a_global(model: Any, loss: Any, number: int) -> None:
    global PRIOR
    PRIOR = torch.softmax(torch.arange(4.0) * number, 0)


def in_a_list(model: Any, loss: Any, number: int) -> None:
    model.gains[0] = model.gains[0] * (1 + 0.1 * number)
    model.gains[1].add_(0.1)


TENSORS: dict[str, tuple[Callable[[Any, Any, int], object], int]] = {
    "in place": (lambda m, loss, k: loss.centre.mul_(0.9).add_(0.1 * k), 0),
    "replaced": (lambda m, loss, k: setattr(loss, "centre", loss.centre * 0.9 + 0.1 * k), 0),
    "a number": (lambda m, loss, k: m.scale.fill_(1.0 + k), 0),
    "a global": (a_global, 0),
    "in a list": (in_a_list, 0),
    "in a tuple": (lambda m, loss, k: m.pair[1][0].fill_(float(k)), 0),
    "another tuple": (lambda m, loss, k: setattr(m, "pair", (m.pair[0] * 2, (m.pair[1][0] + 1,))), 0),
    "of a class": (lambda m, loss, k: setattr(type(m), "base", torch.ones(4) * k), 0),
    "a part of a tensor, once": (lambda m, loss, k: m.half.fill_(2.0) if k == 3 else None, 1),
    "of another type, once": (
        lambda m, loss, k: setattr(m, "scale", torch.tensor(2.0, dtype=torch.float64)) if k == 3 else None,
        1,
    ),
    "two that were one": (lambda m, loss, k: setattr(m, "pair", (m.gains[1], m.pair[1])) if k == 3 else None, 1),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_plain_tensors_are_read_at_each_call(kind: str) -> None:
    change, traces = TENSORS[kind]
    given = torch.randn(5, 6), torch.randn(5, 4)
    seen = []
    for planned in (False, True):
        a_global(None, None, 0)
        Scaled.base = torch.ones(4)
        torch.manual_seed(0)
        model, loss = Scaled(), Centred()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        step = poet.compile(model, loss, given, quiet=True) if planned else None
        for number in range(6):
            change(model, loss, number)
            optimizer.zero_grad()
            if step is None:
                loss(model(given[0]), given[1]).backward()
            else:
                step(*given)
            optimizer.step()
        if step is not None:
            assert step.report.retraced == traces
        seen.append([parameter.detach().clone() for parameter in model.parameters()])
    assert all(map(torch.equal, *seen))


@pytest.mark.parametrize("whole", [True, False])
def test_weights_of_classes_in_the_loss_are_read_at_each_call(whole: bool) -> None:
    """A buffer of the loss; where it is a part of a larger tensor, a change traces the step again."""
    module, given = Cnn(), batch()
    loss = nn.CrossEntropyLoss(weight=torch.ones(5) if whole else torch.ones(7)[1:6])
    with poet.compile(module, loss, given, quiet=True) as step:
        for number in range(3):
            loss.weight[2] = 2.0 + number
            if number == 2:
                loss.weight = loss.weight * 0.5
            module.zero_grad()
            other = copy.deepcopy(module)
            torch.manual_seed(3)
            expected = loss(other(given[0]), given[1])
            expected.backward()
            torch.manual_seed(3)
            assert torch.equal(step(*given), expected)
            gradients = ([p.grad for p in part.parameters()] for part in (module, other))
            assert all(map(torch.equal, *gradients))
        assert step.report.retraced == (0 if whole else 3)
