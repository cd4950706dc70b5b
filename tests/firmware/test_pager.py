# SPDX-License-Identifier: Apache-2.0
"""The pager over a card with every fault that a card can have."""

from __future__ import annotations

import ctypes as c
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.firmware import core as fw

PAGES = 64


def opened(core: c.CDLL, card: fw.Card) -> fw.Pager:
    pager = fw.Pager()
    assert core.poet_pager_open(c.byref(pager), c.byref(card.device)) == fw.OK
    return pager


def page_out(core: c.CDLL, pager: fw.Pager, block: int, data: bytes) -> tuple[int, int]:
    crc = c.c_uint32()
    return core.poet_pager_out(c.byref(pager), fw.PAGE_AREA + block, data, len(data), c.byref(crc)), crc.value


def page_in(core: c.CDLL, pager: fw.Pager, block: int, count: int, crc: int) -> tuple[int, bytes]:
    data = c.create_string_buffer(count)
    status = core.poet_pager_in(c.byref(pager), c.c_uint32(fw.PAGE_AREA + block), data, count, c.c_uint32(crc))
    return status, data.raw


@given(data=st.binary(min_size=1, max_size=1500), block=st.integers(0, PAGES - 3), dma=st.booleans())
def test_a_page_comes_back_and_lies_where_the_format_says(core: c.CDLL, data: bytes, block: int, dma: bool) -> None:
    card = fw.Card(fw.PAGE_AREA + PAGES, dma)
    pager = opened(core, card)
    status, crc = page_out(core, pager, block, data)
    assert (status, crc) == (fw.OK, zlib.crc32(data))
    start = (fw.PAGE_AREA + block) * fw.BLOCK
    padded = -(-len(data) // fw.BLOCK) * fw.BLOCK
    assert card.content[start : start + padded] == data.ljust(padded, b"\0")
    assert page_in(core, pager, block, len(data), crc) == (fw.OK, data)


@given(data=st.binary(max_size=70), skip=st.integers(0, 7), split=st.integers(0, 70))
def test_crc32_is_zlibs_at_any_alignment_and_in_pieces(core: c.CDLL, data: bytes, skip: int, split: int) -> None:
    buffer = (c.c_uint64 * 10)()
    start = c.addressof(buffer) + skip
    c.memmove(start, data, len(data))
    core.poet_crc32.restype = c.c_uint32
    split = min(split, len(data))
    first = core.poet_crc32(c.c_uint32(0), c.c_void_p(start), split)
    whole = core.poet_crc32(c.c_uint32(first), c.c_void_p(start + split), len(data) - split)
    assert whole == zlib.crc32(data)


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize(
    ("flips", "expected", "reads"), [(1, fw.OK, 2), (2, fw.OK, 3), (3, fw.E_CORRUPT, 3), (9, fw.E_CORRUPT, 3)]
)
def test_a_damaged_read_is_repeated_twice_and_never_used(
    core: c.CDLL, flips: int, expected: int, reads: int, dma: bool
) -> None:
    card = fw.Card(fw.PAGE_AREA + PAGES, dma)
    pager = opened(core, card)
    data = bytes(range(256)) * 3
    _, crc = page_out(core, pager, 0, data)
    card.log.clear()
    card.flips = flips
    status, found = page_in(core, pager, 0, len(data), crc)
    assert status == expected
    assert sum("read" in kind for kind, _, _ in card.log) == reads
    if status == fw.OK:
        assert found == data


def test_a_page_damaged_on_the_card_is_reported(core: c.CDLL) -> None:
    card = fw.Card(fw.PAGE_AREA + PAGES)
    pager = opened(core, card)
    _, crc = page_out(core, pager, 4, b"x" * 600)
    card.content[(fw.PAGE_AREA + 5) * fw.BLOCK] ^= 1
    assert page_in(core, pager, 4, 600, crc)[0] == fw.E_CORRUPT


@pytest.mark.parametrize(("block", "count", "expected"), [(63, 512, fw.OK), (63, 513, fw.E_FULL), (64, 1, fw.E_FULL)])
def test_a_full_card(core: c.CDLL, block: int, count: int, expected: int) -> None:
    card = fw.Card(fw.PAGE_AREA + PAGES)
    pager = opened(core, card)
    before = bytes(card.content)
    assert page_out(core, pager, block, b"\1" * count)[0] == expected
    assert (bytes(card.content) == before) == (expected != fw.OK)
    assert page_in(core, pager, 2**32 - 1 - fw.PAGE_AREA, 512, 0)[0] == fw.E_FULL


def test_neither_label_nor_commits_are_pages(core: c.CDLL) -> None:
    card = fw.Card(fw.PAGE_AREA + PAGES)
    pager = opened(core, card)
    before = bytes(card.content)
    assert page_out(core, pager, -1, b"abc")[0] == fw.E_ARGUMENT
    assert page_in(core, pager, -fw.PAGE_AREA, 12, 0)[0] == fw.E_ARGUMENT
    assert bytes(card.content) == before


@pytest.mark.parametrize("dma", [False, True])
def test_errors_of_the_card_are_passed_on(core: c.CDLL, dma: bool) -> None:
    card = fw.Card(fw.PAGE_AREA + PAGES, dma)
    pager = opened(core, card)
    _, crc = page_out(core, pager, 0, b"abc")
    card.fail_reads = 0
    assert page_in(core, pager, 0, 3, crc)[0] == fw.E_IO
    card.fail_writes = 0
    assert page_out(core, pager, 0, b"abc")[0] == fw.E_IO


def test_only_a_labelled_card_is_used(core: c.CDLL) -> None:
    card = fw.Card(fw.PAGE_AREA + PAGES, labelled=False)
    pager = fw.Pager()
    assert core.poet_pager_open(c.byref(pager), c.byref(card.device)) == fw.E_ABSENT
    assert not any(kind == "write" for kind, _, _ in card.log)
    assert core.poet_pager_format(c.byref(card.device)) == fw.OK
    assert card.content[: fw.BLOCK] == b"POET CARD 1\n".ljust(fw.BLOCK, b"\0")
    assert core.poet_pager_open(c.byref(pager), c.byref(card.device)) == fw.OK


def test_a_card_without_room_for_two_commits_is_not_formatted(core: c.CDLL) -> None:
    card = fw.Card(5, labelled=False)
    assert core.poet_pager_format(c.byref(card.device)) == fw.E_FULL
    assert not any(card.content)


def test_a_card_that_does_not_answer_is_not_called_unlabelled(core: c.CDLL) -> None:
    card = fw.Card(fw.PAGE_AREA + PAGES)
    card.fail_reads = 0
    assert core.poet_pager_open(c.byref(fw.Pager()), c.byref(card.device)) == fw.E_IO
