# SPDX-License-Identifier: Apache-2.0
"""Every option of both programs: what can be no value of it is refused in words that name it, and leaves nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import poet_harness.cli
import poet_planner.cli
import pytest
import typer
from poet_profiles.errors import BAD_INPUT, NO_DEVICE, NO_SCHEDULE
from poet_profiles.files.locks import held
from poet_profiles.graph.file import write_graph

from tests.support.command_options import unknown_options
from tests.support.graphs.chains import chain
from tests.support.harness.tiny_plan import write_plan
from tests.support.programs import Said, exit_code

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = {"poet-harness": poet_harness.cli, "poet-plan": poet_planner.cli}
# -1 is one job a core; an optimiser's numbers are looked at together, and a voltage beside what it is of.
MAY_BE_NEGATIVE = ("--jobs", "--momentum", "--weight-decay", "--eps", "--clip-value", "--voltage", "--threshold")
WORDS = {int: ("", "x", "1.5", "1" + 30 * "0", "-1"), float: ("", "x", "nan", "-inf", "1e400", "-1")}


def verbs() -> Iterator[tuple[str, str, Any]]:
    for program, module in PROGRAMS.items():
        group: Any = typer.main.get_command(module.app)
        yield program, "", group
        for verb, command in group.commands.items():
            yield program, verb, command


def options(*kinds: type) -> Iterator[Any]:
    for program, verb, command in verbs():
        for option in command.params:
            if option.opts[0].startswith("--") and not option.is_flag and kind_of(option) in kinds:
                yield pytest.param(program, verb, option.opts[0], id=f"{program} {verb} {option.opts[0]}")


def kind_of(option: Any) -> type:
    """``int`` and ``float`` for numbers and lists of them, ``str`` for the rest, which click's own types tell."""
    words = str(getattr(getattr(option, "type_descriptor", None), "annotation", "")) + str(getattr(option, "type", ""))
    return next((kind for kind in (int, float) if re.search(rf"\b{kind.__name__}|{kind.__name__.upper()}", words)), str)


def required(program: str, verb: str, without: str) -> list[str]:
    """What the verb has to be given beside an option; a folder that is there does for all but numbers."""
    command = next(command for of, name, command in verbs() if (of, name) == (program, verb))
    given = [verb] if verb else []
    for parameter in command.params:
        if parameter.required and parameter.opts[0] != without:
            value = "1" if kind_of(parameter) is int else "."
            given += [parameter.opts[0], value] if parameter.opts[0].startswith("-") else [value]
    return given


def refused(program: str, arguments: list[str], capsys: Any, codes: tuple[int, ...] = (2,)) -> str:
    """Run a program that has to refuse and leave nothing; what it said, in one line."""
    before = sorted(Path().rglob("*"))
    code, captured = exit_code(PROGRAMS[program].main, program, *arguments), capsys.readouterr()
    assert code in codes, (arguments, captured.err)
    assert sorted(Path().rglob("*")) == before, arguments
    assert all(line.startswith(f"{program}: ") for line in captured.err.splitlines()), captured.err
    return " ".join(re.sub("[^ -~]", " ", captured.err).split())


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize(("program", "verb", "option"), [*options(int, float)])
def test_no_number_is_none(program: str, verb: str, option: str, capsys: Said) -> None:
    command = next(command for of, name, command in verbs() if (of, name) == (program, verb))
    kind = kind_of(next(parameter for parameter in command.params if parameter.opts[0] == option))
    given = required(program, verb, option)
    for word in WORDS[kind]:
        if word != "-1" or option not in MAY_BE_NEGATIVE:
            assert option in refused(program, [*given, f"{option}={word}"], capsys), word


@pytest.mark.parametrize(("program", "verb", "option"), [*options(str)])
def test_no_text_is_empty(program: str, verb: str, option: str, capsys: Said) -> None:
    given = required(program, verb, option)
    for arguments in ([*given, f"{option}="], [*given, option, ""], [*given, option, " "]):
        assert option in refused(program, arguments, capsys)


def test_the_examples_of_the_help_have_options_that_exist_and_all_that_is_required() -> None:
    shown = set()
    for program, verb, command in verbs():
        for line in re.findall(r"^ {4,}(poet-\S+ .+)$", command.help or "", re.MULTILINE):
            words = shlex.split(line)
            assert (words[0], words[1]) == (program, verb) or not verb, line
            assert unknown_options(words) == set(), line
            needed = [one for one in command.params if one.required and one.opts[0].startswith("-")]
            assert all(set(one.opts) & set(words) for one in needed), line
            shown.add(verb)
    assert shown >= {"", "train", "run", "eval", "sweep", "plot"}


USAGE = [
    ("poet-plan", ["--ram"], "--ram"),
    ("poet-plan", ["--frobnicate"], "--frobnicate (Possible options: --frozen); see "),
    ("poet-plan", ["frobnicate"], "frobnicate"),
    ("poet-plan", ["--gradients", "some"], "--gradients: 'some' is not one of 'auto', "),
    ("poet-plan", ["sweep", "--batch", "0"], "--batch: "),
    ("poet-plan", ["--json=3"], "--json"),
    ("poet-plan", ["verify", "one"], "schedule: is missing; see "),
    ("poet-plan", ["verify", "one", "two", "three"], "three"),
    ("poet-harness", ["run", "--board", "host"], "--plan: is missing; see "),
    ("poet-harness", ["run", "--plan", "nosuch"], "nosuch"),
    ("poet-harness", ["-x"], "-x"),
]


@pytest.mark.parametrize(("program", "arguments", "words"), USAGE)
def test_a_command_line_that_is_none_is_one_line(program: str, arguments: list[str], words: str, capsys: Said) -> None:
    assert exit_code(PROGRAMS[program].main, program, *arguments) == BAD_INPUT
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith(f"{program}: ") and words in captured.err


AMOUNTS = ("x", "nan", "inf", "0", "-5KB", "5XB", "1e99", "1e400", "1e99GB", "1e-9")
SHARES = ("x", "nan%", "inf%", "0%", "-1%", "101%")
PLANNED = ["--graph", "graph.json", "--ram", "100%"]
TRACED = ["--model", "digits_cnn_small", "--profile", "m4"]
ADAM = ["--optimizer", "adam"]
RUN = ["run", "--board", "native", "--plan", "plan", "--data", "plan/data.npz"]
EPOCHS = ["train", *RUN[1:], "--samples", "plan/set.npz", "--epochs", "2"]
BATTERY = ["battery", "--plan", str(ROOT / "notebooks" / "data" / "digits_cnn_216KB"), "--cell", "cr123a"]
SCALES = ("x", "nan", "inf", "0", "1/0", "1e400", "1e-60")
SHIFTS = ("x", "nan", "inf", "1e400")
NAMES = {"--solver": "solver", "--methods": "method", "--cell": "cell named"}
TEXTS: list[tuple[str, list[str], str, tuple[str, ...]]] = [
    ("poet-plan", PLANNED, "--ram", (*AMOUNTS, "0%", "-5%", "nan%", "1e400%", "1e99%")),
    ("poet-plan", PLANNED, "--deadline", ("x", "nan", "inf", "0", "-1x", "0x", "1e400", "1e400x", "5parsecs", "nanx")),
    ("poet-plan", PLANNED, "--solver", ("nosuch",)),
    ("poet-plan", PLANNED, "--library", ("a b", "1x", "../x", ".")),
    ("poet-plan", TRACED, "--momentum", ("-1", "1.5")),
    ("poet-plan", TRACED, "--weight-decay", ("-1", "1e39")),
    ("poet-plan", TRACED, "--clip-value", ("-1", "0", "1e39")),
    ("poet-plan", [*TRACED, *ADAM], "--eps", ("-1", "1e39")),
    ("poet-plan", [*TRACED, *ADAM], "--betas", ("x", "0.9", "1,1", "nan,0.9", "0.9,inf", "-0.1,0.9", "0.9,0.9,0.9")),
    ("poet-plan", TRACED, "--time-limit", ("0",)),
    ("poet-plan", [*TRACED, "--parameters", "card"], "--card-above", AMOUNTS),
    ("poet-plan", [*TRACED, "--parameters", "card"], "--stream-above", AMOUNTS),
    ("poet-plan", ["sweep", "--graph", "graph.json"], "--ram", (*AMOUNTS, "0%")),
    ("poet-plan", ["sweep", *PLANNED], "--deadline", ("x", "nan", "-1x", "0")),
    ("poet-plan", ["sweep", *PLANNED], "--jobs", ("0",)),
    ("poet-plan", ["sweep", *PLANNED], "--methods", ("nosuch",)),
    ("poet-plan", ["sweep", *PLANNED], "--solver", ("nosuch",)),
    ("poet-plan", ["compare", "--graph", "graph.json"], "--ram", (*AMOUNTS, "0%")),
    ("poet-plan", ["compare", *PLANNED], "--deadline", ("x", "nan", "-1x", "0")),
    ("poet-plan", ["compare", *PLANNED], "--methods", ("nosuch",)),
    ("poet-plan", ["compare", *PLANNED], "--solver", ("nosuch",)),
    ("poet-plan", ["data", "--model", "digits_cnn_small", "--out", "d.npz"], "--scale", SCALES),
    ("poet-plan", ["data", "--model", "digits_cnn_small", "--out", "d.npz", "--scale", "1"], "--shift", SHIFTS),
    ("poet-harness", RUN, "--lr", ("1e39", "1e-60")),
    ("poet-harness", RUN, "--steps", ("1000000000000",)),
    ("poet-harness", EPOCHS, "--schedule", ("nosuch",)),
    ("poet-harness", EPOCHS, "--scale", SCALES),
    ("poet-harness", [*EPOCHS, "--scale", "1"], "--shift", SHIFTS),
    ("poet-harness", BATTERY, "--cell", ("nan", "nanmAh", "0mAh", "-5mAh", "infmAh", "1e400mAh")),
    ("poet-harness", BATTERY, "--usable", SHARES),
    ("poet-harness", BATTERY, "--efficiency", SHARES),
    ("poet-harness", BATTERY, "--duty", SHARES),
    ("poet-harness", BATTERY, "--idle-power", ("x", "nan", "inf", "-1uW", "5XW", "1e400W")),
    ("poet-harness", ["diff", "rows.csv", "rows.csv"], "--limit", ("x", "nan%", "inf%", "-1%", "1e400%")),
]


@pytest.mark.parametrize(
    ("program", "given", "option", "words"),
    [pytest.param(*row, id=" ".join([row[0], *row[1][:1], row[2]])) for row in TEXTS],
)
def test_no_amount_is_none(program: str, given: list[str], option: str, words: tuple[str, ...], capsys: Said) -> None:
    write_plan(Path("plan"))
    np.savez("plan/set.npz", x=np.arange(9, dtype="f4"))
    write_graph(chain(5), Path("graph.json"))
    Path("rows.csv").write_text("op\n")
    for word in words:
        said = refused(program, [*given, f"{option}={word}"], capsys)
        assert option in said or (option in NAMES and f"no {NAMES[option]} {word!r}" in said), (word, said)


NO_BOARD = ["--board", "nrf52840", "--port", "socket://127.0.0.1:1", "--meter", "nominal"]
EVALUATED = ["eval", *NO_BOARD, *RUN[3:5], "--samples", "plan/set.npz"]
ON_NO_BOARD = ["run", *NO_BOARD, *RUN[3:]]
REFUSED_LATE = [
    ("poet-plan", ["--profile", "nosuch", "--out", "new/plan"]),
    ("poet-plan", ["--graph", "nosuch.json", "--out", "new/plan", "--library", "net"]),
    ("poet-plan", [*PLANNED, "--deadline", "1ns", "--out", "new/plan"]),
    ("poet-plan", ["sweep", "--profile", "nosuch", "--out", "new/sweep"]),
    ("poet-plan", ["compare", "--profile", "nosuch", "--out", "new/compare"]),
    ("poet-plan", ["data", "--model", "nosuch", "--out", "new/data.npz"]),
    ("poet-plan", ["graph", "--model", "nosuch", "--profile", "m4", "--out", "new/graph.json"]),
    ("poet-plan", ["reference", "--model", "nosuch", "--data", "plan/data.npz", "--out", "new/reference.npz"]),
    ("poet-plan", ["execute", "plan", "--data", "plan/data.npz", "--out", "new/run.npz"]),
    ("poet-plan", ["report", "nosuch", "--out", "new/report.html"]),
    ("poet-plan", ["plot", "nosuch.csv", "--out", "new"]),
    ("poet-plan", ["models", "--board", "nosuch", "--graphs", "new"]),
    ("poet-harness", ["profile", *NO_BOARD, "--configs", "rows.csv", "--out", "new/profile.csv"]),
    ("poet-harness", [*ON_NO_BOARD, "--out", "new/o.csv", "--save", "new/s.npz", "--trained", "new/t.safetensors"]),
    ("poet-harness", [*EPOCHS, "--folder", "new/run", "--card", "new.img"]),
    ("poet-harness", ["train", *ON_NO_BOARD[1:], *EPOCHS[len(RUN) :], "--folder", "new/run"]),
    ("poet-harness", [*EVALUATED, "--weights", "plan/data.npz", "--save", "new/scores.npz"]),
    ("poet-harness", ["weights", "--plan", "plan", "--card", "nosuch.img", "--out", "new/w.safetensors"]),
    ("poet-harness", ["card", "new/card.img", "--plan", "plan", "--data", "plan/data.npz"]),
]


@pytest.mark.parametrize(("program", "arguments"), REFUSED_LATE)
def test_a_command_that_is_refused_leaves_nothing(program: str, arguments: list[str], capsys: Said) -> None:
    write_plan(Path("plan"))
    np.savez("plan/set.npz", x=np.arange(9, dtype="f4"))
    write_graph(chain(5), Path("graph.json"))
    Path("rows.csv").write_text('op,params\npointwise,"size=4 steps=relu(y0,x0)"\n')
    refused(program, arguments, capsys, (BAD_INPUT, NO_SCHEDULE, NO_DEVICE))


@pytest.mark.parametrize("verb", [[], ["sweep"], ["compare"]])
def test_a_folder_is_one_commands_at_a_time(verb: list[str], capsys: Said) -> None:
    write_graph(chain(5), Path("graph.json"))
    Path("out").mkdir()
    with held(Path("out"), ""):
        said = refused("poet-plan", [*verb, *PLANNED, "--out", "out"], capsys)
    assert "out: another command writes there" in said


# A file's place is @. What each verb reads otherwise is there.
READ = [
    ("poet-plan", ["--graph", "@"]),
    ("poet-plan", ["--model", "digits_cnn_small", "--profile", "@"]),
    ("poet-plan", ["verify", "graph.json", "@"]),
    ("poet-plan", ["report", "@"]),
    ("poet-plan", ["plot", "@"]),
    ("poet-plan", ["data", "--model", "digits_cnn_small", "--out", "d.npz", "--arrays", "@"]),
    ("poet-plan", ["data", "--model", "digits_cnn_small", "--out", "d.npz", "--weights", "@"]),
    ("poet-plan", ["reference", "--model", "digits_cnn_small", "--out", "r.npz", "--data", "@"]),
    ("poet-harness", ["profile", "--board", "native", "--out", "p.csv", "--configs", "@"]),
    ("poet-harness", ["flash", "--board", "native", "--plan", "@"]),
    ("poet-harness", [*RUN[:-1], "@"]),
    ("poet-harness", [*RUN, "--weights", "@"]),
    ("poet-harness", ["train", *RUN[1:], "--epochs", "1", "--samples", "@"]),
    ("poet-harness", ["diff", "@", "@"]),
    ("poet-harness", ["energy", "--trace", "@", "--windows", "@"]),
]


@pytest.mark.parametrize(("program", "given"), READ)
def test_a_file_that_is_none_of_these_is_named_in_words_of_poets_own(
    program: str, given: list[str], capsys: Said
) -> None:
    write_plan(Path("plan"))
    write_graph(chain(5), Path("graph.json"))
    Path("folder").mkdir()
    Path("empty").touch()
    Path("table.npz").write_text("a,b\n1,2\n")
    Path("binary").write_bytes(bytes(range(256)))
    np.savez("objects.npz", a=np.array([None]))
    np.save("one.npy", np.ones(3))
    for name in ("missing", "folder", "empty", "table.npz", "binary", "objects.npz", "one.npy"):
        said = refused(program, [word.replace("@", name) for word in given], capsys)
        assert name in said
        assert not re.search("pickle|allow_|weights_only|Errno|Traceback", said), said
