# SPDX-License-Identifier: Apache-2.0
"""Compares emulated cycles with published ones: `python -m benchmarks.truth`; exits 1 outside of the limits.

    .venv/bin/python -m benchmarks.truth [--cmsis DIR]

CMSIS-DSP's sources are fetched from the package index by pip (the source package `cmsisdsp`), unless --cmsis names a
folder that holds them. Exits 1, too, where they could not be had.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from benchmarks.firmware.kernels import CMSIS_DSP, fetch_cmsis
from benchmarks.truth import fir, own_fir, soft_float
from benchmarks.truth.figure import table_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cmsis", type=Path, help="folder with CMSIS-DSP's Source, Include and PrivateInclude")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder)
        figures = [*soft_float.figures(build), *own_fir.figures(build)]
        cmsis = options.cmsis or fetch_cmsis(build)
        if cmsis is None:
            print(f"truth: pip could not fetch {CMSIS_DSP}: arm_fir_f32 is not judged", file=sys.stderr)
        else:
            figures += fir.figures(build, cmsis)
    version = subprocess.run(["arm-none-eabi-gcc", "--version"], capture_output=True, text=True, check=True).stdout
    Console(width=120).print(table_of(figures))
    missed = sum(figure.missed for figure in figures)
    print(f"{version.splitlines()[0]}: {len(figures)} figures, {missed} outside of their limits")
    return 1 if missed or cmsis is None else 0


if __name__ == "__main__":
    sys.exit(main())
