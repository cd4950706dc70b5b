# SPDX-License-Identifier: Apache-2.0
"""What the user changes in Python between two steps: eager PyTorch's numbers, or one line that names the place."""

from __future__ import annotations

import copy
import importlib.util
import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import poet_planner as poet
import pytest
import torch
import torch.optim.swa_utils
from poet_planner.models.resnet import resnet18
from poet_planner.torch_step.guard import Guard
from poet_planner.torch_step.reads import reads_of
from poet_profiles.errors import UserError
from torch import Tensor, nn
from torch.nn.modules import module as every_module
from torch.nn.utils import parametrizations, prune

from tests.planner.torch_step.networks import (
    Batch,
    Llama,
    small_bert,
    small_llama,
    small_mobilenet,
    small_resnet,
    small_vgg,
    tiny,
)

Change = Callable[[Any, Any, Any], object]


def executed_anew() -> Any:
    spec = importlib.util.spec_from_file_location("changing", Path(__file__).parent / "changing.py")
    assert spec is not None and spec.loader is not None
    names = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = names
    spec.loader.exec_module(names)
    return names


def images(number: int) -> Batch:
    generator = torch.Generator().manual_seed(100 + number)
    return torch.randn(8, 3, 8, 8, generator=generator, dtype=torch.float32), torch.randint(
        0, 5, (8,), generator=generator
    )


def set_in(owner: Any, name: str, value: Any) -> None:
    setattr(owner, name, value)


def to(path: str, value: Any) -> Change:
    """Sets what is found by its path from the names ``n``, the model ``m`` or the loss."""
    way, _, last = path.rpartition(".")
    return lambda *roots: setattr(found(way, *roots), last, value)


def put(path: str, key: Any, value: Any) -> Change:
    """Sets an element of what is found so."""
    return lambda *roots: found(path, *roots).__setitem__(key, value)


def found(path: str, names: Any, model: Any, loss: Any) -> Any:
    return reduce(getattr, path.split("."), SimpleNamespace(n=names, m=model, loss=loss))


def replaced_forward(names: Any, model: Any, loss: Any) -> None:
    model.drop.forward = types.MethodType(lambda self, x: x * 0.25, model.drop)


def hooked_globally(names: Any, model: Any, loss: Any) -> None:
    every_module.register_module_forward_hook(lambda module, _, y: y * 1.5 if isinstance(module, nn.Linear) else y)


def without_statistics(names: Any, model: Any, loss: Any) -> None:
    model.bn.track_running_stats = False
    model.bn.running_mean = model.bn.running_var = None


def of_library(names: Any, model: Any, loss: Any) -> None:
    nn.functional.leaky_relu = lambda x, negative_slope, inplace=False: torch.where(x > 0, x, 2 * negative_slope * x)


def of_layers(names: Any, model: Any, loss: Any) -> None:
    nn.functional.batch_norm = lambda x, *_: x * 2.0


def of_layer(names: Any, model: Any, loss: Any) -> None:
    nn.LeakyReLU.forward = lambda self, x: x * 0.5


def untied(names: Any, model: Any, loss: Any) -> None:
    model.two.weight = nn.Parameter(model.one.weight.detach() * 0.5)


def called(names: Any, model: Any, loss: Any) -> None:
    before = names.Loss.__call__
    names.Loss.__call__ = lambda self, *given: before(self, *given) * 0.5


CHANGES: dict[str, tuple[Change, str]] = {
    # Modules: numbers, flags, texts.
    "momentum of a batch norm": (to("m.bn.momentum", 0.5), "bn.momentum is 0.5, and was 0.1"),
    "eps": (to("m.bn.eps", 0.5), "bn.eps is 0.5, and was 1e-05"),
    "dropout": (to("m.drop.p", 0.1), "drop.p is 0.1, and was 0.5"),
    "dropout off": (to("m.drop.p", 0.0), "drop.p is 0.0, and was 0.5"),
    "padding": (to("m.conv.padding_mode", "circular"), "conv.padding_mode is 'circular'"),
    "own float": (to("m.scale", 0.25), "scale is 0.25, and was 1.0"),
    "own flag": (to("m.add", False), "add is False, and was True"),
    "own text": (to("m.kind", "relu"), "kind is 'relu', and was 'tanh'"),
    "own count": (to("m.count", 3), "count is 3, and was 1"),
    "own enumeration": (lambda n, m, _: set_in(m, "mode", n.Mode.DOUBLED), "mode is <Mode.DOUBLED"),
    "times that a block runs": (to("m.blocks.1.repeats", 2), "blocks.1.repeats is 2, and was 1"),
    "another sign of zero": (to("m.slotted.bias", -0.0), "slotted.bias is -0.0, and was 0.0"),
    "read through vars": (to("m.hidden.factor", 2.0), "hidden.factor is 2.0, and was 1.0"),
    "read by a name made up": (to("m.length_3", 2.0), "length_3 is 2.0, and was 1.0"),
    "missing, then there": (to("m.ratio", 2.0), "ratio is set now"),
    # Objects and containers.
    "field of a dataclass": (to("m.options.slope", 0.5), "options.slope is 0.5, and was 0.1"),
    "list in a dataclass": (put("m.options.powers", 1, 2.0), r"options.powers\[1\] is 2.0"),
    "slot": (to("m.slotted.bias", 0.5), "slotted.bias is 0.5, and was 0.0"),
    "behind a method": (to("m.schedule.now", 0.5), "schedule.now is 0.5, and was 1.0"),
    "object in a list": (lambda n, m, _: set_in(m.parts[1], "share", 3.0), r"parts\[1\].share is 3.0, and was 1.0"),
    "another object in a list": (
        lambda n, m, _: m.parts.__setitem__(1, n.Share(3.0)),
        r"parts\[1\] is another Share now",
    ),
    "longer list": (lambda n, m, _: m.shifts.append(0.5), "shifts has 3 elements now, and had 2"),
    "longer deque": (lambda n, m, _: m.steps.append(0.5), "steps has 2 elements now, and had 1"),
    "set": (lambda n, m, _: m.chosen.add(0.5), "chosen has other elements now"),
    "tuple": (to("m.pair", (1.0, (0.5,))), "pair is another tuple now"),
    "dictionary": (put("m.named", "a", 2.0), r"named\['a'\] is 2.0, and was 1.0"),
    "another key": (put("m.named", "b", 2.0), "named has 'b' now"),
    "behind __getattr__": (put("m.proxy._held", "weight", 2.0), r"proxy._held\['weight'\] is 2.0"),
    "array": (lambda n, m, _: m.array.__setitem__(slice(None), 2.0), "the numbers in array are others now"),
    "function in a list": (put("m.functions", 0, lambda x: x * 2), r"functions\[0\] is another f"),
    "keyword of a partial": (put("m.doubled.keywords", "plus", 0.5), r"doubled\['plus'\] is 0.5"),
    # Classes and functions.
    "attribute of a class": (to("n.Net.power", 2.0), "Net.power is 2.0, and was 1.0"),
    "shadowed attribute of a class": (to("m.power", 2.0), "power is set now, and was the class's"),
    "attribute of an object's class": (to("n.Schedule.floor", 2.0), "Schedule.floor is 2.0"),
    "class as a name space": (to("n.Config.beta", 2.0), "changing.py: Config.beta is 2.0"),
    "class in a class": (to("n.Config.Deeper.gamma", 2.0), "configuration.Deeper.gamma is 2.0, and was 1.0"),
    "method of a class": (to("n.Net.helped", lambda s, x: x * 2), "Net.helped is another function"),
    "property of a class": (lambda n, m, _: set_in(n.Net, "factor", property(lambda s: 2.0)), "Net.factor is another"),
    "how an object is multiplied": (to("n.Share.__mul__", lambda s, x: x * 2), "Share.__mul__ is an"),
    "how the loss is called": (called, "Loss.__call__ is another function now"),
    "mutable default": (lambda n, m, _: n.scaled.__defaults__[0].__setitem__(0, 2.0), r"a default of .*\[0\] is 2.0"),
    "another default": (to("n.scaled.__defaults__", ([2.0],)), "a default of .* is another tuple"),
    "code of a function": (lambda n, m, _: set_in(n.scaled, "__code__", doubling.__code__), "the code of .*scaled"),
    "attribute of a function": (to("n.weighed.weight", 2.0), "changing.py: weighed.weight is 2.0"),
    "closure": (lambda n, m, _: n.closed.change(2.0), "value of changing.py: closed is 2.0, and was 1.0"),
    "state of a decorator": (put("n.same.state", 0, 2.0), r"changing.py: same.state\[0\] is 2.0, and was 1.0"),
    "state of a descriptor": (lambda n, m, _: set_in(vars(n.Net)["described"], "value", 2.0), "Net.described.value is"),
    "gradient of a function": (
        to("n.Same.backward", staticmethod(lambda context, gradient: gradient * 2)),
        "Same.backward is another staticmethod now",
    ),
    "state of a hook": (to("m.hook.gain", 2.0), r"head._forward_hooks\[\d+\].gain is 2.0"),
    "behind a proxy": (put("n.INNER", "gain", 2.0), r"changing.py: PROXIED\['gain'\] is 2.0, and was 1.0"),
    "of a thread": (to("n.OF_THREAD.gain", 2.0), "changing.py: OF_THREAD.gain is 2.0"),
    "element of a dictionary": (
        lambda n, m, _: m.options_read["of"].update(gain=2.0),
        r"options_read\['of'\]\['gain'\] is 2.0, and was 1.0",
    ),
    "behind a method that containers have": (to("m.bank.gain", 2.0), "bank.gain is 2.0, and was 1"),
    "element of a closure": (lambda n, m, _: n.PARTLY(2.0, "gain"), r"state of .*\['gain'\] is 2.0, and was 1.0"),
    # Globals.
    "global": (to("n.OFFSET", 0.5), "changing.py: OFFSET is 0.5, and was 0.0"),
    "global function": (to("n.scaled", lambda x: x * 3), "changing.py: scaled is another function"),
    "global dictionary": (put("n.TABLE", "scale", 2.0), r"changing.py: TABLE\['scale'\] is 2.0"),
    "simple name space": (to("n.SETTINGS.shift", 0.5), "changing.py: SETTINGS.shift is 0.5, and was 0.0"),
    "arguments of the program": (to("n.ARGUMENTS.gain", 2.0), "changing.py: ARGUMENTS.gain is 2.0"),
    "context variable": (lambda n, m, _: n.CONTEXT.set(2.0), "changing.py: CONTEXT.* is 2.0, and was 1.0"),
    "name of another file": (to("n.other_file.TEMPERATURE", 2.0), "changing.py: other_file.TEMPERATURE is 2.0"),
    "name of a file of a package": (to("n.other_file.inner.GAIN", 2.0), "changing.py: other_file.inner.GAIN is"),
    "function of a library": (of_library, "torch.nn.functional.leaky_relu is another function now"),
    "default dtype": (lambda n, m, _: torch.set_default_dtype(torch.bfloat16), "the default dtype is torch.bfloat16"),
    "function that a layer calls": (of_layers, "torch.nn.functional.batch_norm is another function now"),
    # The loss.
    "number of the loss": (to("loss.smoothing", 0.2), "loss.smoothing is 0.2, and was 0.0"),
    "text of the loss": (to("loss.reduction", "sum"), "loss.reduction is 'sum', and was 'mean'"),
    # What modules do.
    "forward of an object": (replaced_forward, "drop.forward is set now, and was the class's"),
    "forward of a layer's class": (of_layer, "LeakyReLU.forward is another function now"),
    "class of a child": (lambda n, m, _: set_in(m.drop, "__class__", nn.Identity), "the class of drop is Identity now"),
    "hook": (
        lambda n, m, _: m.one.register_forward_hook(lambda s, x, y: y * 2),
        "one._forward_hooks is no longer empt",
    ),
    "prehook": (lambda n, m, _: m.one.register_forward_pre_hook(lambda s, x: x[0] * 2), "one._forward_pre_hooks is"),
    "hook on all modules": (hooked_globally, "the hooks on all modules has"),
    # Structure and parameters.
    "child replaced": (
        lambda n, m, _: set_in(m.blocks[0], "act", nn.Tanh()),
        "blocks.0.act is a Tanh, and was a LeakyR",
    ),
    "child of its kind": (lambda n, m, _: set_in(m.blocks[0], "act", nn.LeakyReLU(0.5)), "blocks.0.act is another"),
    "child appended": (lambda n, m, _: m.blocks.append(n.Block()), "blocks.*has '2' now"),
    "child deleted": (lambda n, m, _: m.blocks.__delitem__(1), "blocks.*has no '1' any more"),
    "child of a sequence": (lambda n, m, _: m.tail.append(nn.Tanh()), "tail.*has '2' now"),
    "untied": (untied, "two.weight and one.weight are no longer one tensor"),
    "tied": (lambda n, m, _: set_in(m.two, "bias", m.one.bias), "two.bias and one.bias are now one tensor"),
    "no bias": (to("m.head.bias", None), "head.bias is None, and was a Parameter"),
    "part in evaluation": (lambda n, m, _: m.bn.eval(), "bn.training is False, and was True"),
    "frozen": (lambda n, m, _: m.one.requires_grad_(False), "requires_grad of .*weight is False, and was True"),
    "layout": (lambda n, m, _: m.to(memory_format=torch.channels_last), "the stride of conv.weight is"),
    "pruned": (
        lambda n, m, _: prune.l1_unstructured(m.conv, "weight", amount=0.5),
        "conv._forward_pre_hooks is no longer",
    ),
    "parametrized": (
        lambda n, m, _: parametrizations.weight_norm(m.conv),
        "the class of conv is ParametrizedConv2d now",
    ),
    "without statistics": (without_statistics, "bn.running_mean is None, and was a Tensor"),
}


def doubling(x: Tensor, by: Any = None, *, plus: float = 0.0) -> Tensor:
    return x * 2.0 + plus


PLATFORM = nn.functional.leaky_relu, nn.LeakyReLU.forward, torch.get_default_dtype(), nn.functional.batch_norm


def put_back() -> None:
    nn.functional.leaky_relu, nn.LeakyReLU.forward = PLATFORM[:2]
    torch.set_default_dtype(PLATFORM[2])
    nn.functional.batch_norm = PLATFORM[3]
    every_module._global_forward_hooks.clear()


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    yield
    put_back()


def left(changes: Sequence[Change], on_change: str | None) -> tuple[list[dict[str, Tensor]], Any]:
    """All that two steps leave, and two more after each change; eager PyTorch's without ``on_change``."""
    names = executed_anew()
    torch.manual_seed(0)
    model, loss = names.Net(), names.Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = on_change and poet.compile(model, loss, images(0), on_change=on_change)
    torch.manual_seed(7)
    states = []
    for change in (None, *changes):
        if change is not None:
            change(names, model, loss)
        for number in range(2):
            x, y = images(2 * len(states) + number)
            optimizer.zero_grad()
            if step:
                step(x, y)
            else:
                loss(model(x), y).backward()
            optimizer.step()
        tensors = {**dict(model.named_parameters()), **dict(model.named_buffers()), "generator": torch.get_rng_state()}
        states.append({name: tensor.detach().clone() for name, tensor in tensors.items()})
    return states, step


def differing(one: dict[str, Tensor], other: dict[str, Tensor]) -> list[str]:
    assert one.keys() == other.keys()
    return [name for name in one if not torch.equal(one[name], other[name])]


# Of one run are the changes that lie so far from each other above, fewer than a step is traced again in a row.
APART = 13


@pytest.mark.parametrize("first", range(APART))
def test_after_each_change_between_two_steps_they_are_eagers_and_it_is_named(
    first: int, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = [*CHANGES][first::APART]
    changes = [CHANGES[kind][0] for kind in kinds]
    expected, _ = left(changes, None)
    put_back()
    found, step = left(changes, "retrace")
    assert [differing(*states) for states in zip(expected, found, strict=True)] == [[]] * (len(kinds) + 1), kinds
    assert step.report.retraced == len(kinds)
    for kind, line in zip(kinds, capsys.readouterr().err.splitlines()[2:], strict=True):
        assert re.match(f"poet: Net: {CHANGES[kind][1]}.*: traced again", line)


@pytest.mark.parametrize("kind", [*CHANGES][::APART])
def test_a_change_that_is_not_to_be_traced_is_refused_in_one_line(kind: str) -> None:
    change, words = CHANGES[kind]
    with pytest.raises(UserError, match=f"^Net: {words}") as caught:
        left([change], "refuse")
    assert str(caught.value).endswith("; call poet_planner.compile again") and "\n" not in str(caught.value)


def evaluated(names: Any, model: Any, loss: Any) -> None:
    model.eval()
    model(images(9)[0])
    model.train()


def averaged(names: Any, model: Any, loss: Any) -> None:
    average = torch.optim.swa_utils.AveragedModel(model)
    average.update_parameters(model)
    copy.deepcopy(model)(images(9)[0])


def gradients_elsewhere(names: Any, model: Any, loss: Any) -> None:
    loss(model.eval()(images(9)[0]), images(9)[1]).backward()
    model.train()
    model.zero_grad()


HARMLESS: dict[str, Change] = {
    "evaluation that counts and keeps": evaluated,
    "another attribute": to("m.epoch", 3),
    "another attribute of a child and of the loss": lambda n, m, loss: (set_in(m.bn, "x", 3), set_in(loss, "x", 3)),
    "unread attribute": to("m.unread", 7),
    "unread field of a dataclass": to("m.options.unread", 7),
    "notes in an unread dictionary": put("m.seen", "loss", 0.3),
    "an equal number again": lambda n, m, loss: (
        set_in(m.options, "slope", float("0.1")),
        set_in(loss, "reduction", "me" + "an"),
    ),
    "state dictionary": lambda n, m, _: m.load_state_dict(copy.deepcopy(m.state_dict())),
    "assigned state": lambda n, m, _: m.head.load_state_dict(copy.deepcopy(m.head.state_dict())),
    "another Parameter": lambda n, m, _: set_in(m.head.weight, "data", m.head.weight.detach().clone()),
    "gradients, evaluation and back": gradients_elsewhere,
    "unused child frozen": lambda n, m, _: m.unused.requires_grad_(False),
    "unused child gone": to("m.unused", None),
    "copy and average": averaged,
    "a log": put("m.log", "shape", None),
    "a tensor that is read by a method": lambda n, m, _: m.shift.fill_(0.5),
    "unread elements": lambda n, m, _: (n.TABLE.update(step=3), m.options_read.update(step=3), n.PARTLY(3.0)),
    "unread global": to("n.LOSSES", [0.3]),
}


@pytest.mark.parametrize("first", range(3))
def test_a_change_of_what_no_step_reads_is_none(first: int) -> None:
    changes = [*HARMLESS.values()][first::3]
    expected, _ = left(changes, None)
    found, step = left(changes, "refuse")
    assert [differing(*states) for states in zip(expected, found, strict=True)] == [[]] * (len(changes) + 1)
    assert step.report.retraced == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda n, m, _: m.head.weight.register_hook(lambda gradient: gradient * 2),
            "head.weight has a hook on its grad",
        ),
        (lambda n, m, _: m.head.register_full_backward_hook(lambda *_: None), "head has a backward hook"),
        (to("m.bn.momentum", None), "bn .* takes a number out of a tensor"),
        (lambda n, m, _: m.compile(backend="eager"), r"is compiled \(torch.compile\)"),
    ],
)
def test_what_cannot_be_traced_again_ends_in_the_line_of_compile(change: Change, words: str) -> None:
    for on_change in ("retrace", "refuse"):
        with pytest.raises(UserError, match="Net.*" + (words if on_change == "retrace" else "")) as caught:
            left([change], on_change)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("make", "most"), [(lambda: resnet18(10), 700), (lambda: Llama(), 330)])
def test_a_check_compares_no_more_values_than_the_step_reads(make: Callable[[], nn.Module], most: int) -> None:
    module = make()
    x = torch.randn(2, 3, 64, 64) if most == 700 else torch.randint(512, (2, 16))
    y = torch.randint(10, (2,)) if most == 700 else x

    def run() -> None:
        nn.functional.cross_entropy(module(x), y).backward()

    reads = reads_of(run, (module,), [*module.buffers()], None)
    guard = Guard({"": module}, [], [*module.parameters(), *module.buffers()], reads)
    assert 100 < len(guard) <= most
    assert guard.changed() is None
    for part in module.modules():
        assert type(part).__getattribute__ is object.__getattribute__


class Logged:
    """A hook that keeps what it sees, and counts nothing."""

    def __init__(self) -> None:
        self.shapes: dict[str, Any] = {}
        self.last: Any = None

    def __call__(self, module: nn.Module, given: Any, found: Tensor) -> None:
        self.shapes[type(module).__name__ + f" of {found.shape}"] = found.shape
        LOG[f"{type(module)}"] = found.detach()
        self.last = found.detach()


LOG: dict[str, Any] = {}


def noting(means: dict[str, Any], path: str) -> Callable[..., None]:
    def note(module: nn.Module, given: Any) -> None:
        means["in " + path] = len(given)

    return note


@pytest.mark.parametrize("make", [small_resnet, small_mobilenet, small_bert, small_vgg, small_llama, tiny])
def test_an_ordinary_loop_traces_nothing_again(make: Callable[[], tuple[nn.Module, Batch]]) -> None:
    """Schedules, an average, accumulation, clipping, evaluations, saved states, hooks that come and go."""
    seen = []
    for planned in (False, True):
        torch.manual_seed(0)
        module, (x, y) = make()
        log, means = Logged(), {}
        for path, part in module.named_modules():
            part.register_forward_hook(log)
            part.register_forward_pre_hook(noting(means, path))
        module.epoch, module.history = 0, []
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=8)
        average = torch.optim.swa_utils.AveragedModel(module)
        step = poet.compile(module, nn.functional.cross_entropy, (x, y), quiet=True) if planned else None
        torch.manual_seed(7)
        for number in range(3):
            for _ in range(2):
                loss = nn.functional.cross_entropy(module(x), y) if step is None else step(x, y)
                if step is None:
                    loss.backward()
                module.history.append(loss.detach())
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            average.update_parameters(module)
            module.epoch = number
            module.eval()
            with torch.no_grad():
                module(x), average(x)
            module.train()
            module.load_state_dict(copy.deepcopy(module.state_dict()))
            handles = [part.register_forward_hook(Logged()) for part in module.modules()]
            copy.deepcopy(module)(x)
            for handle in handles:
                handle.remove()
        assert step is None or step.report.retraced == 0
        seen.append({**module.state_dict(), **{f"average.{id}": value for id, value in average.state_dict().items()}})
    assert differing(*seen) == []
