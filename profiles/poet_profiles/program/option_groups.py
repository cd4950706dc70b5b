# SPDX-License-Identifier: Apache-2.0
"""Verbs that take a group of options as one parameter: a dataclass, whose fields are the options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_args, get_type_hints


def flattened(command: Callable[..., None], last: str = "") -> Callable[..., None]:
    """A verb whose parameters that are groups stand for the groups' options, as typer needs them.

    Parameters
    ----------
    last : str
        The heading in the help that comes after all others, whose options may be of any group.
    """
    parameters = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {name: one.annotation for name, one in parameters.items() if is_dataclass(one.annotation)}
    flat = [each for name, one in parameters.items() for each in (_options(groups[name]) if name in groups else [one])]
    flat.sort(key=lambda one: bool(last) and _heading(one) == last)

    @wraps(command)
    def verb(**given: Any) -> None:
        made = {name: group(**{of.name: given.pop(of.name) for of in fields(group)}) for name, group in groups.items()}
        command(**made, **given)

    verb.__signature__ = inspect.Signature([one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in flat])  # type: ignore[attr-defined]
    verb.__annotations__ = {one.name: one.annotation for one in flat}
    return verb


def _options(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    signature = inspect.signature(group)
    return [one.replace(annotation=hints[name]) for name, one in signature.parameters.items()]


def _heading(one: inspect.Parameter) -> str | None:
    return next((getattr(of, "rich_help_panel", None) for of in get_args(one.annotation)[1:]), None)
