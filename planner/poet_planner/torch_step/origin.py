# SPDX-License-Identifier: Apache-2.0
"""Whose a file, a class or a function is: the user's, an installed package's, or PyTorch's, Python's and poet's."""

from __future__ import annotations

import sys
import sysconfig
import threading
from argparse import Namespace
from collections import ChainMap, UserDict, UserList
from collections.abc import Mapping
from enum import Enum, auto
from functools import cache, cached_property, partialmethod
from pathlib import Path
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any

import poet_profiles
import poet_runtime
import torch
from torch import Tensor, nn

import poet_planner
from poet_planner import models


class Origin(Enum):
    USER = auto()
    PACKAGE = auto()
    PLATFORM = auto()


_STANDARD = sysconfig.get_path("stdlib")
_SITES = ("site-packages", "dist-packages")
_MODELS, *_PLATFORM = (
    str(Path(str(part.__file__)).parent) for part in (models, torch, poet_planner, poet_runtime, poet_profiles)
)
# Classes of the standard library that hold what a user has put there.
_HOLDERS = (SimpleNamespace, Namespace, UserDict, UserList, ChainMap, threading.local)
_HEAP_TYPE = 1 << 9


@cache
def origin_of(file: str) -> Origin:
    """Whose a file is; what was typed in or made by `exec` is the user's."""
    if file.startswith(_MODELS):
        return Origin.USER
    if file.startswith((*_PLATFORM, "<frozen")):
        return Origin.PLATFORM
    if any(site in file for site in _SITES):
        return Origin.PACKAGE
    return Origin.PLATFORM if file.startswith(_STANDARD) else Origin.USER


def origin_of_code(code: CodeType, names: Mapping[str, Any]) -> Origin:
    """Whose code is, by its globals where it comes from no file: what a dataclass writes is its file's."""
    file = code.co_filename
    if not file.startswith("<"):
        return origin_of(file)
    if str(names.get("__name__")).startswith("namedtuple_"):
        return Origin.PLATFORM
    return origin_of(str(names.get("__file__") or file))


@cache
def origin_of_class(kind: Any) -> Origin:
    """Whose a class is."""
    if not kind.__flags__ & _HEAP_TYPE:
        return Origin.PLATFORM
    module = str(kind.__module__)
    if module.partition(".")[0] in sys.stdlib_module_names and module != "__main__":
        return Origin.PLATFORM
    return origin_of(str(getattr(sys.modules.get(module), "__file__", None) or ""))


@cache
def has_state(kind: Any) -> bool:
    """Whether objects of a class hold what a user may change: loggers, locks, files and PyTorch's own do not."""
    if issubclass(kind, Tensor | type | Enum):
        return False
    if issubclass(kind, (nn.Module, torch.distributions.Distribution, *_HOLDERS)):
        return True
    return origin_of_class(kind) is not Origin.PLATFORM


def function_of(value: Any) -> FunctionType | None:
    """The function of what stands in a class: a method, a property, or what a decorator has made of one."""
    for _ in range(8):
        if isinstance(value, FunctionType) and not hasattr(value, "__wrapped__"):
            return value
        if isinstance(value, property):
            value = value.fget
        elif isinstance(value, cached_property | partialmethod):
            value = value.func
        else:
            value = getattr(value, "__wrapped__", None) or getattr(value, "__func__", None)
    return None
