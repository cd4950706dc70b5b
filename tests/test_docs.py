# SPDX-License-Identifier: Apache-2.0
"""Links in the documentation lead somewhere: to a file, to a heading of it, to a module of the optimiser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.support import ROOT

FOLDERS = ("benchmarks", "demo", "docs", "firmware", "harness", "notebooks", "planner", "profiles")
PLANNER = ROOT / "planner"
SOLVE = PLANNER / "poet_planner" / "solve"


def _pages() -> list[Path]:
    """All pages but those in hidden folders, which tools fill."""
    pages = [page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md")]
    visible = [page for page in pages if not any(part.startswith(".") for part in page.relative_to(ROOT).parts)]
    return sorted([*ROOT.glob("*.md"), *visible])


def _tokens(page: Path) -> Iterator[Token]:
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(page.read_text(encoding="utf-8")):
        yield token
        yield from token.children or ()


def _anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    anchors: set[str] = set()
    for opening, token in pairwise(_tokens(page)):
        if opening.type == "heading_open":
            text = "".join(part.content for part in token.children or ())
            anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            same = sum(re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", other) is not None for other in anchors)
            anchors.add(f"{anchor}-{same}" if same else anchor)
    return anchors


def _faults(page: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    faults = []
    for token in _tokens(page):
        address = str(token.attrGet("href") or token.attrGet("src") or "")
        link = urlsplit(address)
        if not address or link.scheme or link.netloc:
            continue
        target = page.parent / unquote(link.path) if link.path else page
        if not target.exists():
            faults.append(f"{page.name}: no file {address}")
        elif link.fragment and target.suffix == ".md" and link.fragment not in _anchors(target):
            faults.append(f"{page.name}: no heading {address}")
    return faults


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    pages = _pages()
    assert {"README.md", "SPEC.md", "overview.md"} <= {page.name for page in pages}
    assert [fault for page in pages for fault in _faults(page)] == []


def test_modules_that_the_optimisers_pages_name_exist() -> None:
    pages = sorted((ROOT / "docs" / "optimiser").glob("*.md"))
    named = {token.content for page in pages for token in _tokens(page) if token.type == "code_inline"}
    modules = {name for name in named if name.endswith(".py")}
    assert len(modules) > 20
    anywhere = {path.name for path in SOLVE.rglob("*.py")}
    missing = {name for name in modules if not any((at / name).exists() for at in (SOLVE, PLANNER, ROOT))}
    assert missing - anywhere == set()


def test_links_to_nowhere_are_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# One: `code`\n\n## Twice\n\n## Twice\n")
    page.write_text(
        "[a](other.md#one-code) [b](other.md#twice-1) [c](https://example.org/none.md) `[d](none.md)`\n\n"
        "[e](none.md) ![f](none.png) [g](other.md#none) [h](#none)\n"
    )
    assert _faults(page) == [
        "page.md: no file none.md",
        "page.md: no file none.png",
        "page.md: no heading other.md#none",
        "page.md: no heading #none",
    ]
