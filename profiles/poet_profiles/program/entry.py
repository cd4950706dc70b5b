# SPDX-License-Identifier: Apache-2.0
"""How a program runs: with streams that last, and each fault of the user's in one line."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from poet_profiles.errors import BAD_INPUT, UserError

from .missing_package import missing_packages_named
from .standard_streams import lasting_streams
from .stopping import Stopped, listening


def run_program(name: str, command: Callable[[], object]) -> None:
    """Run a command line; a fault of the user's is one line and an exit code, never a traceback.

    The environment variable POET_DEBUG shows the traceback as well. Where nobody reads what is printed, the command
    goes on to its end, and its exit code says what came of it.
    """
    with lasting_streams():
        try:
            with listening(), missing_packages_named():
                command()
        except UserError as error:
            _end(name, error.printed, error.exit_code)
        except Stopped as stopped:
            _end(name, str(stopped), stopped.exit_code)
        except OSError as error:
            _end(name, f"{error.filename or 'input or output'}: {error.strerror or error}", BAD_INPUT)


def _end(name: str, words: str, exit_code: int) -> NoReturn:
    if os.environ.get("POET_DEBUG"):
        traceback.print_exc()
    print(f"{name}: {words}", file=sys.stderr)
    sys.exit(exit_code)
