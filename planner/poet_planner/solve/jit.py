# SPDX-License-Identifier: Apache-2.0
"""How the inner loops are compiled: once per machine, then from numba's cache, and outside the interpreter's lock.

Counting references to the arrays in a named tuple, wherever one is read, takes half of an inner loop's time. Code that
makes no array does without: the caller holds what it is given.

A call is passed its named tuples word by word, hundreds of words for three of arrays: more work than most of what an
inner loop calls. What is inlined is compiled into its callers instead.
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Mapping, Set
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path

from numba import config, njit
from poet_profiles.cache import cache_folder, is_writable

_HERE = Path(__file__).resolve().parent


def keep_elsewhere(folder: Path) -> None:
    """Let numba keep what it compiles in the user's cache where ``folder``, beside the sources, cannot be written.

    There it has a folder for each state of the sources: numba goes by a function's own file alone.
    """
    if not is_writable(folder / "__pycache__") and not os.environ.get("NUMBA_CACHE_DIR"):
        contents = b"".join(source.read_bytes() for source in sorted(folder.rglob("*.py")))
        config.CACHE_DIR = str(cache_folder(f"numba/{hashlib.sha256(contents).hexdigest()[:16]}"))  # type: ignore[attr-defined]


keep_elsewhere(_HERE)
_njit = partial(njit, cache=True, nogil=True, error_model="numpy")
allocating = _njit()
compiled = _njit(_nrt=False)
inlined = _njit(_nrt=False, forceinline=True)


def forget_older(folder: Path) -> None:
    """Let what is in the caches below ``folder``, a package, be compiled anew where what it rests on is newer.

    numba goes by a function's own file; what it calls may be from others, and is compiled into it. So a module's
    functions are forgotten where it, or a module that it imports, itself or through others, has changed since.
    """
    sources = {_dotted(source.with_suffix(""), folder): source for source in folder.rglob("*.py")}
    changed_s = {module: source.stat().st_mtime for module, source in sources.items()}
    cached = [(path, path.stat().st_mtime) for path in folder.rglob("__pycache__/*.nb[ic]")]
    if not cached or min(made_s for _, made_s in cached) >= max(changed_s.values()):
        return
    imports = {module: _imported(source, sources.keys()) for module, source in sources.items()}
    for path, made_s in cached:
        module = _dotted(path.parent.parent / path.name.split(".")[0], folder)
        if made_s < max((changed_s[each] for each in _reached(module, imports)), default=inf):
            with suppress(OSError):
                path.unlink()


def _dotted(path: Path, package: Path) -> str:
    return ".".join(path.relative_to(package.parent).parts)


def _imported(source: Path, modules: Set[str]) -> set[str]:
    """Which of ``modules``, dotted from the package's own name on, a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            found.update(module for module in modules for name in names if f".{name}".endswith(f".{module}"))
    return found


def _reached(module: str, imports: Mapping[str, set[str]]) -> set[str]:
    """``module`` and all that it imports, itself or through others; nothing where there is no such module."""
    reached: set[str] = set()
    pending = [module] if module in imports else []
    while pending:
        one = pending.pop()
        if one not in reached:
            reached.add(one)
            pending += imports[one]
    return reached


forget_older(_HERE)
