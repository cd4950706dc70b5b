# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

from tests.support import ROOT, processor_time
from tests.support.firmware.host_operators import SOURCES, Operators, build
from tests.support.levels import FAST, PROFILE, REST, Levels, examples

LEVELS = Levels(ROOT / "tests" / "levels.toml")
settings.load_profile(PROFILE)
# Some tests write a module anew within a second: this process keeps no bytecode. The programs that they run do, apart
# from the tree: each of hundreds would compile PyTorch again, for five seconds.
sys.dont_write_bytecode = True
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("PYTHONPYCACHEPREFIX", str(ROOT / ".pytest_cache" / "bytecode"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--level", choices=(FAST, REST), help="tests of one level alone")
    parser.addoption("--processor-time", type=Path, metavar="CSV", help="where to write what each file of a level took")


def pytest_configure(config: pytest.Config) -> None:
    level, path = config.getoption("--level"), config.getoption("--processor-time")
    if level == FAST:
        settings.load_profile(FAST)
    if path:
        config.pluginmanager.register(processor_time.Measured())
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(processor_time.Written(path, level or "all"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out of the fast level, unread, what has no test of it."""
    if config.getoption("--level") != FAST or not collection_path.is_file():
        return None
    return collection_path.relative_to(ROOT).as_posix() not in LEVELS.files() or None


def pytest_collection_finish() -> None:
    """Let the collector of garbage look no more at what is imported, and seldom at the rest: a sixth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    level = config.getoption("--level")
    if level:
        here = [item for item in items if level in _levels(item)]
        config.hook.pytest_deselected(items=[item for item in items if item not in here])
        items[:] = here


def _levels(item: pytest.Item) -> set[str]:
    """Where a test runs: one that draws examples, by a decorator or in its body, also in the rest."""
    own = getattr(item.module, "examples", None) is examples and "examples" in item.function.__code__.co_names
    draws = is_hypothesis_test(item.function) or own
    return {LEVELS.of(item.nodeid), *([REST] if draws else [])}


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a test process builds the firmware, for ``PLATFORMIO_BUILD_DIR``.

    One folder for all plans: from one to the next, only what includes its headers is compiled again. So an image lasts
    until the next build for its board.
    """
    return tmp_path_factory.mktemp("builds") / "pio"


@pytest.fixture(scope="session")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Operators:
    """The operators in firmware/src/ops, built for this machine."""
    return build(tmp_path_factory.mktemp("operators") / "operators.so")


@pytest.fixture(scope="session")
def core_with(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Emulated cores, each of its own, with every operator, which is compiled once for each kind of core."""
    from benchmarks.firmware.emulated_core import FIRMWARE, FLAGS, MACHINE_FLAGS, EmulatedCore

    @cache
    def objects(core: str) -> list[Path]:
        folder = tmp_path_factory.mktemp("objects")
        flags = [*MACHINE_FLAGS[core], *FLAGS, f"-I{FIRMWARE / 'include'}"]
        subprocess.run(["arm-none-eabi-gcc", *flags, "-c", *map(str, SOURCES)], cwd=folder, check=True)
        return sorted(folder.glob("*.o"))

    return lambda core, *keep: EmulatedCore(core, objects(core), keep, tmp_path_factory.mktemp("core"))


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Several threads of PyTorch would wait for each other where other tests run beside these."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
