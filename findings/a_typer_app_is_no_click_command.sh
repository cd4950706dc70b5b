#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Guess: Typer stands on click, so a Typer app is a click command: typer.main.get_command(app) goes into a click.Group,
# and what it raises (Exit, BadParameter, Abort) the group ends on as on its own.
# Seen (Typer 0.29.2, click 8.5.1): Typer has a click of its own, typer._click. The group takes the command, shows it in
# its help and runs it. But Exit(0), with which --version and a clean end go, comes out of the group as a RuntimeError,
# Exit(3) loses its code, and a wrong option is a traceback and not a line of usage with code 2. `except
# click.ClickException` around an app sees nothing either. Alone the same app ends as it should.
# So a program that takes poet's verbs, or any Typer app, into its own click group calls the app by itself:
# a command with ignore_unknown_options that hands its arguments to app(arguments) keeps codes and lines.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
python="$folder/env/bin/python"
"$python" -m pip install --quiet typer==0.29.2 click==8.5.1

seen=$("$python" - <<'PROGRAM'
import click
import typer
from click.testing import CliRunner
from typer.testing import CliRunner as TyperRunner

app = typer.Typer()


@app.command()
def end(code: int = 0) -> None:
    raise typer.Exit(code)


command = typer.main.get_command(app)
group = click.Group("tools")
group.add_command(command, "end")


@group.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def handed(arguments: tuple[str, ...]) -> None:
    app(list(arguments))


print("is a click command:", isinstance(command, click.Command))
for words in ([], ["--code", "3"], ["--code", "three"]):
    alone = TyperRunner().invoke(app, words)
    within, by_itself = (CliRunner().invoke(group, [name, *words]) for name in ("end", "handed"))
    print(*words, "alone:", alone.exit_code, "in a group:", within.exit_code, type(within.exception).__name__,
          "handed on:", by_itself.exit_code)
PROGRAM
)
echo "$seen"
known='is a click command: False
alone: 0 in a group: 1 Exit handed on: 0
--code 3 alone: 3 in a group: 1 Exit handed on: 3
--code three alone: 2 in a group: 1 BadParameter handed on: 2'
[[ $seen == "$known" ]] || { echo "has changed; was: $known"; exit 1; }
