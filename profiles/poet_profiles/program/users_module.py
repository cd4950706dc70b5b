# SPDX-License-Identifier: Apache-2.0
"""The module that ``module:callable`` names, importable from where a command is run."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from poet_profiles.errors import UserError


def module_of(source: str) -> tuple[ModuleType, str]:
    """The module, and the name of the callable in it, which may not be there."""
    module_name, _, attribute = source.partition(":")
    if not module_name or not attribute or module_name.startswith("."):
        raise UserError(f"{source}: give module:callable, importable from here")
    # A console script does not look where it is run from, and that is where a user's code is.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(module_name), attribute
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise UserError(f"{source}: {error}; give module:callable, importable from here") from None
