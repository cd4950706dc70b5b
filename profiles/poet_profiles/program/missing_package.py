# SPDX-License-Identifier: Apache-2.0
"""A package that cannot be imported is one line that names the cure, not a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from poet_profiles.errors import UserError

POET = {"poet_harness", "poet_planner", "poet_profiles", "poet_runtime"}
_EMULATOR = "pip install unicorn capstone pyelftools"
# Where `pip install MODULE` would be wrong, or is not all that there is to say.
_CURES = {
    "torch": "pip install torch (docs/install.md: how to get its small CPU build; a costed graph needs none)",
    "sklearn": "pip install scikit-learn",
    "serial": "pip install pyserial",
    "SCons": "pip install scons",
    "capstone": _EMULATOR,
    "elftools": _EMULATOR,
    "unicorn": _EMULATOR,
}


@contextmanager
def missing_packages_named() -> Iterator[None]:
    """Around a whole command.

    Raises
    ------
    UserError
        If another's package is missing, or is there and cannot be loaded.
    ImportError
        As it came, if the module is poet's or Python's own.
    """
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if not package or package in POET or package in sys.stdlib_module_names:
            raise
        cure = _CURES.get(package, f"pip install {package}")
        raise UserError(f"{package} cannot be imported ({error}): {cure}") from error
