# SPDX-License-Identifier: Apache-2.0
"""A user's module is a guest: what it sets for the program holds while its code runs.

Poet's working folder, command line, random state and the rest are the program's. Users' code has its own: an empty
command line, its folder at the end of `sys.path`, the same random state in each run, and then what it has left itself.
"""

from __future__ import annotations

import builtins
import logging
import pickle
import pkgutil
import random
import signal
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from poet_profiles.errors import UserError
from poet_profiles.program.missing_package import POET

Setting = tuple[str, Callable[[Any], Any], Callable[[Any, Any], object]]
_INSTALLED = {"site-packages", "dist-packages"}


def _calls(package: str, what: str) -> Setting:
    return package, lambda m: getattr(m, f"get_{what}")(), lambda m, to: getattr(m, f"set_{what}")(to)


def _logging(logging: Any) -> tuple[Any, ...]:
    root = logging.root
    return root.level, root.manager.disable, root.handlers[:], root.filters[:]


def _set_logging(_: Any, wanted: tuple[Any, ...]) -> None:
    level, disabled, logging.root.handlers[:], logging.root.filters[:] = wanted
    logging.root.setLevel(level)
    logging.disable(disabled)


def _set_warnings(_: Any, wanted: tuple[Any, ...]) -> None:
    warnings.resetwarnings()  # tells Python that they are others
    warnings.filters[:], warnings.showwarning = wanted  # type: ignore[index]


def _set_signals(_: Any, wanted: Mapping[int, Any]) -> None:
    for number, handler in wanted.items():
        if handler is not None and handler != signal.getsignal(number):
            signal.signal(number, handler)


def _device(torch: Any) -> Any:
    """None where none is set; `torch.get_default_device` would initialise a GPU."""
    return getattr(getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None), "device", None)


# What a program has once: the module that has it, how it is read, and set. Only what is loaded is looked at.
_SETTINGS: dict[str, Setting] = {
    "folder": ("os", lambda os: os.getcwd(), lambda os, to: os.chdir(to)),
    "environment": ("os", lambda os: dict(os.environ), lambda os, to: (os.environ.clear(), os.environ.update(to))),
    "command line": ("sys", lambda sys: sys.argv, lambda sys, to: setattr(sys, "argv", to)),
    "path": ("sys", lambda sys: sys.path[:], lambda sys, to: sys.path.__setitem__(slice(None), to)),
    "recursion": ("sys", lambda sys: sys.getrecursionlimit(), lambda sys, to: sys.setrecursionlimit(to)),
    "standard error": ("sys", lambda sys: sys.stderr, lambda sys, to: setattr(sys, "stderr", to)),
    "exceptions": ("sys", lambda sys: sys.excepthook, lambda sys, to: setattr(sys, "excepthook", to)),
    "print": ("builtins", lambda m: m.print, lambda m, to: setattr(m, "print", to)),
    "import": ("builtins", lambda m: m.__import__, lambda m, to: setattr(m, "__import__", to)),
    "garbage": ("gc", lambda gc: gc.isenabled(), lambda gc, to: gc.enable() if to else gc.disable()),
    "locale": ("locale", lambda m: m.setlocale(m.LC_ALL), lambda m, to: m.setlocale(m.LC_ALL, to)),
    "logging": ("logging", _logging, _set_logging),
    "warnings": ("warnings", lambda m: (m.filters[:], m.showwarning), _set_warnings),
    "signals": ("signal", lambda m: {number: m.getsignal(number) for number in m.valid_signals()}, _set_signals),
    "sockets": ("socket", lambda m: m.getdefaulttimeout(), lambda m, to: m.setdefaulttimeout(to)),
    # As it lies there: to ask for the backend chooses one.
    "matplotlib": ("matplotlib", lambda m: dict.copy(m.rcParams), lambda m, to: dict.update(m.rcParams, to)),
    "random": ("random", lambda m: m.getstate(), lambda m, to: m.setstate(to)),
    "numpy": ("numpy.random", lambda m: pickle.dumps(m.get_state()), lambda m, to: m.set_state(pickle.loads(to))),
    "numpy errors": ("numpy", lambda m: m.geterr(), lambda m, to: m.seterr(**to)),
    "torch": (
        "torch",
        lambda m: bytes(m.get_rng_state().numpy()),
        lambda m, to: m.set_rng_state(m.frombuffer(bytearray(to), dtype=m.uint8)),
    ),
    "device": ("torch", _device, lambda m, to: m.set_default_device(to)),
    "dtype": _calls("torch", "default_dtype"),
    "threads": _calls("torch", "num_threads"),
    "deterministic": _calls("torch", "deterministic_debug_mode"),
    "precision": _calls("torch", "float32_matmul_precision"),
    "anomalies": ("torch", lambda m: m.is_anomaly_enabled(), lambda m, to: m.autograd.set_detect_anomaly(to)),
    "gradients": ("torch", lambda m: m.is_grad_enabled(), lambda m, to: m.set_grad_enabled(to)),
}
if hasattr(signal, "ITIMER_REAL"):  # Windows has none
    _SETTINGS["alarm"] = "signal", lambda m: m.getitimer(m.ITIMER_REAL), lambda m, to: m.setitimer(m.ITIMER_REAL, *to)
# Poet's hold for users' code, too: a signal ends the command, and a step has gradients.
_POETS = ("signals", "alarm", "warnings", "gradients")


@dataclass
class _Guests:
    """The folder of users' code, what hides each module there, and the settings it has left."""

    home: Path | None = None
    hidden: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    inside: bool = False


_guests = _Guests()


@contextmanager
def as_guest() -> Iterator[None]:
    """Within, settings are those of users' code, if there is any."""
    if _guests.home is None or _guests.inside:
        yield
        return
    poets = _read()
    _write(poets, {**_guests.settings, "path": _path()})
    _guests.inside = True
    try:
        yield
    finally:
        _guests.inside = False
        left = _read()
        changed = {name for name, value in left.items() if value != poets.get(name, value)}
        _guests.settings = {name: left[name] for name in changed.difference(_POETS)}
        _write(left, poets)


def _path() -> list[str]:
    """Where users' code looks: what a program that uses poet has added since comes first."""
    theirs: list[str] = _guests.settings.get("path", sys.path)
    known = {Path(entry).resolve() for entry in theirs}
    return [*(entry for entry in sys.path if Path(entry).resolve() not in known), *theirs]


def receive(module: str) -> str:
    """Take a module's folder for that of users' code, and say what hides the module there."""
    first, here = module.partition(".")[0], Path.cwd()
    found = (one for one in map(Path, ("", *sys.path)) if (one / f"{first}.py").is_file() or (one / first).is_dir())
    home = next(found, here).resolve()
    home = home if is_users(home) else here
    if not _guests.inside and home != _guests.home:
        # PyTorch imports more when it is used; the first entry is that of a program which uses poet.
        sys.path[1:] = sorted(sys.path[1:], key=lambda entry: Path(entry).resolve() == home)
        path = [entry for entry in sys.path if Path(entry).resolve() not in (home, here)]
        command_line = [str(home.joinpath(*module.split(".")).with_suffix(".py"))]
        _guests.home = home
        _guests.settings = {"path": [*path, *dict.fromkeys((str(home), str(here)))], "command line": command_line}
        with as_guest():
            random.seed(0)
            if "numpy" in sys.modules:
                sys.modules["numpy"].random.seed(0)
            if "torch" in sys.modules:
                sys.modules["torch"].default_generator.manual_seed(0)
            names = {one.name for one in pkgutil.iter_modules([str(home)])}
            _guests.hidden = {name: _elsewhere(name, home) for name in names if not name.startswith("__")}
        _guests.settings["import"] = _importing(home)
    return _hides(first) if _guests.hidden.get(first) else ""


def is_users(file: Path) -> bool:
    """Neither Python's, nor an installed package's, nor poet's."""
    poets = {Path(sys.modules[name].__file__ or "").parent for name in POET & sys.modules.keys()}
    installed = _INSTALLED.intersection(file.parts) or str(file).startswith(("<", sysconfig.get_path("stdlib")))
    return not installed and not poets.intersection(file.parents)


def _elsewhere(name: str, home: Path) -> str:
    """What an import finds before the module of that name at home, unless it is users', too."""
    with suppress(ValueError, ImportError):
        spec = find_spec(name)
        file = Path(spec.origin or "") if spec and spec.has_location else None
        at_home = file and file.parent.resolve() in (home, (home / name).resolve())
        if spec and not at_home and not (file and name in sys.modules and is_users(file)):
            return f"Python's own {name}" if name in sys.stdlib_module_names else spec.origin or name
    return ""


def _hides(name: str) -> str:
    return f"{_guests.hidden[name]} hides {name} in {_guests.home}; rename yours"


def _importing(home: Path) -> Callable[..., Any]:
    """An import that gives users' code no other's module, and PyTorch none of users'."""
    imported = builtins.__import__

    def importing(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        first = name.partition(".")[0]
        if not level and globals and first in _guests.hidden:
            asks, file = str(globals.get("__name__")).partition(".")[0], Path(globals.get("__file__") or "")
            if _guests.hidden[first] and home in file.parents and is_users(file):
                raise UserError(f"{file.name} imports {first}: {_hides(first)}")
            if not _guests.hidden[first] and asks in ("torch", *POET) and first not in sys.modules:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return imported(name, globals, locals, fromlist, level)

    return importing


def _read() -> dict[str, Any]:
    modules = sys.modules
    return {name: read(modules[package]) for name, (package, read, _) in _SETTINGS.items() if package in modules}


def _write(now: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for name, value in wanted.items():
        if now.get(name, value) != value:
            _SETTINGS[name][2](sys.modules[_SETTINGS[name][0]], value)
