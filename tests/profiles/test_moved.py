# SPDX-License-Identifier: Apache-2.0
"""An import of a module that has moved says where it is now, and there it is."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec

import poet_harness.former_names
import poet_planner.former_names
import pytest

MOVED = [
    (f"{package.__name__.split('.')[0]}.{former}", now)
    for package in (poet_harness.former_names, poet_planner.former_names)
    for former, now in package.FORMER_NAMES.items()
]


@pytest.mark.parametrize(("former", "now"), MOVED)
def test_the_present_name_is_said_and_right(former: str, now: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=re.escape(f"{former} has moved: {now}")):
        import_module(former)
    for name in re.findall(r"poet_\w+(?:\.\w+)+", now):
        assert find_spec(name), name


def test_a_module_of_a_folder_that_has_moved_says_so_too() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"poet_planner\.schedule"):
        import_module("poet_planner.baselines.store_all")


def test_what_never_was_there_is_as_python_says_it() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'poet_planner\.nothing'"):
        import_module("poet_planner.nothing")
