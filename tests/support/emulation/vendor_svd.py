# SPDX-License-Identifier: Apache-2.0
"""The vendors' own description of their registers: SVD files, which come inside two packages on PyPI.

They are fetched by pip once and kept in the user's cache folder.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from poet_profiles.files.cache import cache_folder

PYOCD = ("pyocd==0.46.0", ["--only-binary", ":all:"])
PACKAGES = {
    "nrf52840": PYOCD,
    "mkr1000": ("cmsis-svd==0.4", ["--no-binary", ":all:", "--no-build-isolation"]),
    "nucleo-f411re": ("cmsis-svd==0.4", ["--no-binary", ":all:", "--no-build-isolation"]),
}
FILES = {
    "nrf52840": "nrf52840.svd",
    "mkr1000": "ATSAMD21G18A.svd",
    "nucleo-f411re": "STM32F411xx.svd",
}


@dataclass(frozen=True)
class Field:
    """Lowest bit and number of bits of a field; its named values."""

    lsb: int
    width: int
    values: frozenset[int]


@dataclass(frozen=True)
class SvdRegister:
    """Absolute address, width in bytes (0: not stated), reset value (None: not stated) and fields."""

    address: int
    width: int
    reset: int | None
    fields: dict[str, Field]


@dataclass(frozen=True)
class Svd:
    """A chip: registers by peripheral and name, and interrupt numbers."""

    registers: dict[str, dict[str, list[SvdRegister]]]
    bases: dict[str, int]
    interrupts: dict[str, int]


def load_svd(board: str) -> Svd:
    """Registers of a board's chip; skips the test where the package cannot be had."""
    kept = cache_folder("svd") / f"{board}.svd"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(".partial")
        partial.write_bytes(_fetch(board))
        partial.replace(kept)
    return parse(ElementTree.parse(kept).getroot())


def _fetch(board: str) -> bytes:
    package, options = PACKAGES[board]
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", *options, "-d", scratch, package]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"no SVD file: pip could not fetch {package}")
        archive = next(Path(scratch).iterdir())
        if PACKAGES[board] is PYOCD:
            with zipfile.ZipFile(archive) as wheel:
                inner = wheel.read("pyocd/debug/svd/svd_data.zip")
            with zipfile.ZipFile(io.BytesIO(inner)) as svds:
                return svds.read(FILES[board])
        with tarfile.open(archive) as source:
            member = next(name for name in source.getnames() if name.endswith(f"/{FILES[board]}"))
            file = source.extractfile(member)
            assert file is not None
            return file.read()


def parse(root: ElementTree.Element) -> Svd:
    """Read a CMSIS-SVD document: peripherals with derivedFrom, clusters, register arrays, three styles of bit range."""
    peripherals = {_text(node, "name"): node for node in root.iter("peripheral")}
    registers, bases, interrupts, named = {}, {}, {}, {}
    for name, node in peripherals.items():
        base = int(_text(node, "baseAddress"), 0)
        source = node if node.find("registers") is not None else peripherals[node.attrib["derivedFrom"]]
        listing: dict[str, list[SvdRegister]] = {}
        _walk(source.find("registers"), base, "", listing)
        registers[name], bases[name] = listing, base
        for interrupt in node.iter("interrupt"):
            interrupts[name] = named[_text(interrupt, "name")] = int(_text(interrupt, "value"), 0)
    return Svd(registers, bases, {**interrupts, **named})  # ST's file has some at a peripheral that they are not of


def _walk(parent: ElementTree.Element | None, base: int, prefix: str, into: dict[str, list[SvdRegister]]) -> None:
    assert parent is not None
    for node in parent:
        if node.tag not in ("register", "cluster"):
            continue
        offset = int(_text(node, "addressOffset"), 0)
        count, step = int(node.findtext("dim", "1"), 0), int(node.findtext("dimIncrement", "0"), 0)
        for index in range(count):
            name = prefix + _text(node, "name").replace("%s", str(index))
            address = base + offset + index * step
            if node.tag == "cluster":
                _walk(node, address, name + ".", into)
            else:
                reset = node.findtext("resetValue")
                into.setdefault(name, []).append(
                    SvdRegister(
                        address,
                        int(node.findtext("size", "0"), 0) // 8,
                        None if reset is None else _number(reset),
                        {_text(field, "name"): _field(field) for field in node.iter("field")},
                    )
                )


def _number(text: str) -> int:
    """ST leaves the 0x out here and there."""
    return int(text, 0) if text.startswith("0x") or text == "0" else int(text, 16)


def _field(node: ElementTree.Element) -> Field:
    if node.find("bitOffset") is not None:
        lsb, width = int(_text(node, "bitOffset"), 0), int(_text(node, "bitWidth"), 0)
    elif node.find("lsb") is not None:
        lsb = int(_text(node, "lsb"), 0)
        width = int(_text(node, "msb"), 0) - lsb + 1
    else:
        high, low = _text(node, "bitRange").strip("[]").split(":")
        lsb, width = int(low), int(high) - int(low) + 1
    values = frozenset(int(value.text or "", 0) for value in node.findall("enumeratedValues/enumeratedValue/value"))
    return Field(lsb, width, values)


def _text(node: ElementTree.Element, tag: str) -> str:
    text = node.findtext(tag)
    assert text is not None, f"SVD: <{node.tag}> without <{tag}>"
    return text.strip()
