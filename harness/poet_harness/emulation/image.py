# SPDX-License-Identifier: Apache-2.0
"""A firmware image as the linker made it: what to load where, and which bytes are instructions."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from poet_profiles.errors import UserError


@dataclass(frozen=True)
class Image:
    """An ELF file for a Cortex-M.

    Attributes
    ----------
    path : Path
        Where it came from.
    segments : tuple of (int, bytes)
        Load address and content.
    code : tuple of (int, bytes)
        Address and bytes of every run of Thumb instructions.
    entry_table : int
        Address of the vector table: the lowest load address.
    """

    path: Path
    segments: tuple[tuple[int, bytes], ...]
    code: tuple[tuple[int, bytes], ...]
    entry_table: int


def load_image(path: Path) -> Image:
    """Read an ELF file."""
    if not path.is_file():
        raise UserError(f"{path}: no such firmware image; build it with `pio run`")
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            if elf["e_machine"] != "EM_ARM":
                raise UserError(f"{path}: an image for {elf['e_machine']}, not for an Arm microcontroller")
            segments = tuple(
                (segment["p_paddr"], segment.data())
                for segment in elf.iter_segments("PT_LOAD")
                if segment["p_filesz"] > 0
            )
            code = tuple(_code_runs(elf))
    except ELFError:
        raise UserError(f"{path}: not an ELF file; the emulator runs firmware.elf, not firmware.bin") from None
    if not segments or not code:
        raise UserError(f"{path}: holds no code")
    return Image(path, segments, code, min(address for address, _ in segments))


def _code_runs(elf: ELFFile) -> list[tuple[int, bytes]]:
    """Runs between the linker's mapping symbols ``$t`` (Thumb begins) and ``$d`` (data begins)."""
    symbols = elf.get_section_by_name(".symtab")
    if not isinstance(symbols, SymbolTableSection):
        return []
    marks: dict[int, dict[int, bool]] = {}
    for symbol in symbols.iter_symbols():
        if symbol.name.startswith(("$t", "$d")):
            marks.setdefault(symbol["st_shndx"], {})[symbol["st_value"]] = symbol.name.startswith("$t")
    runs = []
    for index, places in marks.items():
        if not isinstance(index, int):
            continue
        section = elf.get_section(index)
        if not section["sh_flags"] & 4 or section["sh_type"] != "SHT_PROGBITS":  # SHF_EXECINSTR
            continue
        begin, data = section["sh_addr"], section.data()
        ordered = sorted(places)
        for address in ordered:
            if places[address]:
                after = bisect.bisect_right(ordered, address)
                end = ordered[after] if after < len(ordered) else begin + len(data)
                runs.append((address, data[address - begin : end - begin]))
    return runs
