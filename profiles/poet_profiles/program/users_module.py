# SPDX-License-Identifier: Apache-2.0
"""The module that ``module:callable`` names, importable from where a command is run."""

from __future__ import annotations

import importlib
from types import ModuleType

from poet_profiles.errors import UserError
from poet_profiles.program.guest import receive
from poet_profiles.program.users_code import users_code


def module_of(source: str) -> tuple[ModuleType, str]:
    """The module, and the name of the callable in it, which may not be there.

    Raises
    ------
    UserError
        If there is no such module, another hides it, or it cannot be imported.
    """
    module_name, _, attribute = source.partition(":")
    if not module_name or not attribute or module_name.startswith("."):
        raise UserError(f"{source}: give module:callable, importable from here")
    if hidden := receive(module_name):
        raise UserError(f"{source}: {hidden}")
    try:
        with users_code(source):
            return importlib.import_module(module_name), attribute
    except UserError as refusal:
        error = refusal.__cause__
        if isinstance(error, SystemExit):
            main = 'it is imported without options: put what only a program does under if __name__ == "__main__"'
            raise UserError(f"{refusal}; {main}") from error
        missing = isinstance(error, ModuleNotFoundError) and error.name
        if not missing or not f"{module_name}.".startswith(f"{missing}."):
            raise
        raise UserError(f"{source}: {error}; give module:callable, importable from here") from None
