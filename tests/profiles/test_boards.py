# SPDX-License-Identifier: Apache-2.0
"""Board descriptions and shipped files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from poet_profiles.boards import board_names, load_board
from poet_profiles.cells import cell_names, load_cell
from poet_profiles.errors import UserError
from poet_profiles.profile import read_profile
from poet_profiles.shipped import SHIPPED, profile_names, shipped_profile

from tests.support import ROOT


@pytest.mark.parametrize("name", board_names())
def test_every_shipped_board_is_whole(name: str) -> None:
    board = load_board(name)
    assert board.name == name
    assert 0 < board.usable_ram_bytes <= board.ram_bytes
    assert board.rails_a.cpu_active >= board.rails_a.cpu_idle


@pytest.mark.parametrize("name", board_names())
def test_what_the_runner_takes_is_what_the_benchmark_found_on_the_core(name: str) -> None:
    board = load_board(name)
    page = (ROOT / "benchmarks" / "firmware" / "README.md").read_text()
    row = rf"^\| {board.core} \| [^|]*\| (\d+) \| [\d,]+ \| ([\d,]+) \| [^|]*\| (\d+) \|"
    rows = re.findall(row, page, re.MULTILINE)
    assert bool(rows) == (board.kind == "microcontroller")
    if rows:
        least = min(int(at_once) for *_, at_once in rows)
        assert (
            least <= board.runner_cycles <= max(int(cycles.replace(",", "")) / int(calls) for calls, cycles, _ in rows)
        )


@pytest.mark.parametrize("name", profile_names())
def test_every_shipped_profile_is_whole(name: str) -> None:
    profile = read_profile(shipped_profile(name))
    assert set(profile["board"]) <= set(board_names())


@pytest.mark.parametrize("name", cell_names())
def test_every_shipped_cell_is_whole_and_names_its_data_sheet(name: str) -> None:
    cell = load_cell(name)
    assert cell.name == name
    assert len(cell.source) > 10
    # Between a coin cell at a tenth of an hour's rate and a power cell: what is not, has a wrong unit.
    assert 0.05 < cell.capacity_ah < 20
    assert cell.rated_current_a is not None and cell.rated_current_a < cell.capacity_ah


def test_an_own_cell_is_read_and_a_wrong_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\ntitle = "Mine"\ncapacity_ah = 2\nvoltage_v = 1.2\nsource = "its label"\n')
    assert load_cell(str(path)).capacity_ah == 2
    path.write_text(path.read_text().replace("= 2", "= -2"))
    with pytest.raises(UserError, match=r"mine.toml: capacity_ah: .*greater than 0"):
        load_cell(str(path))
    with pytest.raises(UserError, match=r"no cell named 'aa'; known are .*cr123a"):
        load_cell("aa")


def test_a_board_without_its_converter_draws_more() -> None:
    board = load_board("nrf52840")
    assert board.regulator is not None and board.drawn_a == board.rails_a
    off = board.model_copy(update={"regulator": board.regulator.model_copy(update={"dcdc": False})})
    assert off.drawn_a.cpu_active == pytest.approx(6.3e-3, rel=0.01)
    assert off.drawn_a.storage_read == board.rails_a.storage_read


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"no board named 'z80'.*mkr1000.*nrf52840"):
        load_board("z80")
    with pytest.raises(UserError, match="no profile named"):
        shipped_profile("z80")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("clock_hz = 64_000_000", "", "clock_hz: Field required"),
        ("clock_hz = 64_000_000", "clock_hz = -1", "clock_hz: Input should be greater than 0"),
        ("fpu = true", "fpu = true\ncolour = 1", "colour: Extra inputs are not permitted"),
        ('storage = "sd-spi"', 'storage = "tape"', "storage: Input should be"),
        ("cpu_idle = 1.0e-3", 'cpu_idle = "a little"', "rails_a.cpu_idle"),
        ('name = "nrf52840"', 'name = "other"', "must be the file's own"),
        ("[rails_a]", "[rails_a", "nrf52840.toml:"),
        ('"1366:10[56]?"', '"1366"', "usb_ids"),
        ('"1366:10[56]?"', '"1366:10[56]"', "usb_ids"),
        ('"1366:10[56]?"', '"1366:10*"', "usb_ids"),
        ('"1366:10[56]?"', '"1366:10[z]5"', "usb_ids"),
        ('window = "P1.08"', 'window = "P2.08"', "pins.window: String should match"),
        ('window = "P1.08"', 'window = "P1.12"', "nrf52840.toml: pins: Value error, P1.12 is named 2 times"),
        ("flash_begin = 0x0000_0000", "flash_begin = 0x0000_0080", "image.flash_begin: .*multiple of 256"),
        ("flash_begin = 0x0000_0000", "flash_begin = 0x0020_0000", "image: Value error, begins after its end"),
        ("flash_begin = 0x0000_0000", "flash_begin = 0x0009_0000", "toml: .*flash_reserved_bytes must cover .* 589824"),
        ("ram_begin = 0x2000_0000", "ram_begin = 0x2000_2000", "toml: .*ram_reserved_bytes must cover"),
        ("[image]", "[regulator2]", "nrf52840.toml: "),
    ],
)
def test_a_bad_description_is_one_line(tmp_path: Path, before: str, after: str, message: str) -> None:
    text = (SHIPPED / "boards" / "nrf52840.toml").read_text()
    assert before in text
    path = tmp_path / "nrf52840.toml"
    path.write_text(text.replace(before, after, 1))
    with pytest.raises(UserError, match=message) as caught:
        load_board(str(path))
    assert "\n" not in str(caught.value)


WIRES = {
    "window line, to the meter": "window",
    "card chip select": "card_cs",
    "card data in (MOSI)": "card_mosi",
    "card data out (MISO)": "card_miso",
    "card clock": "card_sck",
}


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("nRF52840-DK", "nrf52840"),
        ("bare nRF52840", "nrf52840"),
        ("MKR1000", "mkr1000"),
        ("Nucleo-F411RE", "nucleo-f411re"),
    ],
)
def test_the_wiring_of_the_page_is_that_of_the_boards_file(heading: str, name: str) -> None:
    page = (ROOT / "docs" / "boards.md").read_text(encoding="utf-8").split("## Wiring")[1]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    column = rows[0].index(heading)
    wired = {row[0]: re.search(r"P[0-9A-F]\.?\d+", row[column]) for row in rows if row[0] in WIRES}
    pins = tomllib.loads((ROOT / "profiles" / "boards" / f"{name}.toml").read_text(encoding="utf-8"))["pins"]
    for row, key in WIRES.items():
        pin = wired[row]
        assert pin and re.sub(r"^(P[A-F])(\d)$", r"\g<1>0\2", pin[0]) == pins[key], row
