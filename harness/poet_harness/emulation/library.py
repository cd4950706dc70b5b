# SPDX-License-Identifier: Apache-2.0
"""The compiled half of the emulation, `native/`: built by the host's compiler at first use, and kept.

Whatever it does, the Python beside it does too: it is there for speed alone, and for machines with a compiler.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from poet_profiles.cache import cache_folder

SOURCES = sorted(Path(__file__).with_name("native").glob("*.[ch]"))
FLAGS = ("-std=c99", "-O2", "-shared", "-fPIC")


def compiled() -> ctypes.CDLL | None:
    """The compiled half as a shared library, or None where there is no C compiler."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return None
    key = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES) + compiler.encode()).hexdigest()[:16]
    library = cache_folder() / f"emulation-{key}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
            built = Path(scratch) / library.name
            sources = [str(source) for source in SOURCES if source.suffix == ".c"]
            if subprocess.run([compiler, *FLAGS, "-o", str(built), *sources], capture_output=True).returncode != 0:
                return None
            built.replace(library)
    try:
        return ctypes.CDLL(str(library))
    except OSError:  # the folder lies where nothing may be run
        return None
