# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests."""

from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import processor_time
from tests.support.firmware.host_operators import Operators, build

# No test depends on how fast the machine is: an example may take as long as it takes.
settings.register_profile("poet", deadline=None)
settings.load_profile("poet")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(processor_time.OPTION, type=Path, metavar="CSV", help="where to write each file's processor time")


def pytest_configure(config: pytest.Config) -> None:
    if path := config.getoption(processor_time.OPTION):
        config.pluginmanager.register(processor_time.Measured())
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(processor_time.Written(path))


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
