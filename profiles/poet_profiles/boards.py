# SPDX-License-Identifier: Apache-2.0
"""Board descriptions: the constants of one device under test, from ``profiles/boards/NAME.toml``."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from .errors import FaultError, UserError
from .files.json_file import check_document
from .files.text_file import read_text
from .shipped import SHIPPED

# Vendor and product; of the product's four digits any may be `?`, or a choice such as `[4-7c-f]`.
UsbId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{4}:([0-9a-f?]|\[([0-9a-f](-[0-9a-f])?)+\]){4}$")]
Pin = Annotated[str, StringConstraints(pattern=r"^P([01]\.|[ABC])([012][0-9]|3[01])$")]


class Rails(BaseModel):
    """Current drawn from the supply in each state, in ampere. The emulated meter adds them up."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu_active: float = Field(ge=0)
    cpu_idle: float = Field(ge=0)
    storage_idle: float = Field(ge=0)
    storage_read: float = Field(ge=0)
    storage_write: float = Field(ge=0)


class Regulator(BaseModel):
    """What feeds the core: the firmware switches the DC/DC converter on (`dcdc`), or leaves the linear regulator.

    `rails_a` holds with the converter on; the linear regulator draws `ldo_current_ratio` times the CPU's part.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dcdc: bool
    ldo_current_ratio: float = Field(ge=1)


class Image(BaseModel):
    """Where the firmware lies: what the linker may use. The rest of flash and RAM is a bootloader's, or its data.

    `stack_bytes` is the part at the beginning of RAM that is the stack.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    flash_begin: int = Field(ge=0, multiple_of=256)
    flash_end: int = Field(gt=0)
    ram_begin: int = Field(ge=0, multiple_of=8)
    ram_end: int = Field(gt=0)
    stack_bytes: int = Field(ge=1024, multiple_of=8)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.flash_begin >= self.flash_end or self.ram_begin >= self.ram_end:
            raise ValueError("begins after its end")
        return self


class Pins(BaseModel):
    """Which pin does what. `high` and `low` are outputs that keep their level: what else is on the board sleeps."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    serial_tx: Pin
    serial_rx: Pin
    window: Pin
    card_cs: Pin
    card_mosi: Pin
    card_miso: Pin
    card_sck: Pin
    high: tuple[Pin, ...] = ()
    low: tuple[Pin, ...] = ()

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        single = self.model_dump(exclude={"high", "low"}).values()
        used = [*single, *self.high, *self.low]
        for pin in used:
            if used.count(pin) > 1:
                raise ValueError(f"{pin} is named {used.count(pin)} times")
        return self


class SlowMemory(BaseModel):
    """Further RAM in the memory map, where ``storage`` is ``memory``; ``bytes_per_s`` is for the emulated board."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    begin: int = Field(gt=0, multiple_of=4096)
    bytes: int = Field(gt=0, multiple_of=4096)
    bytes_per_s: float = Field(gt=0)


class Bootloader(BaseModel):
    """How the firmware asks for the bootloader: it puts `request` where the chip's bootloaders look, and restarts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    request: int = Field(gt=0, lt=2**32)


class Upload(BaseModel):
    """How firmware gets onto a board.

    Attributes
    ----------
    tools : tuple of str
        Names of ``poet_harness.upload_tools.TOOLS``, the best first.
    overwrites_bootloader : bool
        The firmware goes to address 0, where another maker's board may have a bootloader.
    usb_ids : tuple of str
        Of the bootloader's port, where that is not the console's.
    sketch_usb_ids : tuple of str
        Of the port of a maker's program that goes to the bootloader when its port is opened at 1,200 baud.
    by_hand : str
        What a person does so that the bootloader's port appears.
    before_metering : str
        What an upload leaves behind that a measurement would see, and how to end it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tools: tuple[str, ...] = ()
    overwrites_bootloader: bool = False
    usb_ids: tuple[UsbId, ...] = ()
    sketch_usb_ids: tuple[UsbId, ...] = ()
    by_hand: str = ""
    before_metering: str = ""

    @property
    def own_usb_ids(self) -> tuple[UsbId, ...]:
        """Of every port at the board's own connector that is no console."""
        return self.usb_ids + self.sketch_usb_ids


class Board(BaseModel):
    """One device under test. Every field stands in ``profiles/boards/*.toml`` with its meaning beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    title: str
    kind: Literal["microcontroller", "linux", "program"]
    chip: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+$")] | None = None
    sketch: bool = False
    core: str
    clock_hz: int = Field(gt=0)
    crystal_hz: int | None = Field(default=None, gt=0)
    crystal_is_clock: bool = False
    runner_cycles: int = Field(default=240, ge=0)
    fpu: bool
    ram_bytes: int = Field(gt=0)
    ram_reserved_bytes: int = Field(default=0, ge=0)
    flash_bytes: int = Field(default=0, ge=0)
    flash_reserved_bytes: int = Field(default=0, ge=0)
    storage: Literal["none", "sd-spi", "memory", "file"]
    storage_block_bytes: int = Field(default=512, gt=0)
    storage_endurance_bytes: int = Field(default=0, ge=0)
    smallest_page_bytes: int = Field(default=0, ge=0)
    dma_overlap: bool = False
    voltage_v: float = Field(gt=0)
    baud: int = Field(default=1_000_000, gt=0)
    usb_ids: tuple[UsbId, ...] = ()
    console: str = ""
    platformio_env: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$")] | None = None
    image: Image | None = None
    pins: Pins | None = None
    memory: SlowMemory | None = None
    bootloader: Bootloader | None = None
    regulator: Regulator | None = None
    upload: Upload = Upload()
    rails_a: Rails

    @model_validator(mode="after")
    def _fits_its_image(self) -> Self:
        if self.chip is None:
            return self
        if (self.storage == "memory") != (self.memory is not None):
            raise ValueError('storage = "memory" needs [memory], and nothing else has it')
        if self.image is None or self.pins is None:
            raise ValueError("a board with a chip needs [image] and [pins]")
        kept = self.flash_bytes - (self.image.flash_end - self.image.flash_begin)
        if kept < 0 or self.flash_reserved_bytes < kept:
            raise ValueError(f"flash_reserved_bytes must cover what [image] leaves out of flash_bytes, {kept}")
        kept = self.ram_bytes - (self.image.ram_end - self.image.ram_begin)
        if kept < 0 or self.ram_reserved_bytes < kept + self.image.stack_bytes:
            raise ValueError("ram_reserved_bytes must cover the stack and what [image] leaves out of ram_bytes")
        return self

    @property
    def drawn_a(self) -> Rails:
        """The rails as this board draws them: the linear regulator's where the converter stays off."""
        if self.regulator is None or self.regulator.dcdc:
            return self.rails_a
        ratio = self.regulator.ldo_current_ratio
        cpu = {"cpu_active": ratio * self.rails_a.cpu_active, "cpu_idle": ratio * self.rails_a.cpu_idle}
        return self.rails_a.model_copy(update=cpu)

    @property
    def has_assembly(self) -> bool:
        """Whether its firmware computes by the assembly for a Cortex-M with a unit; any other core has loops in C."""
        return self.fpu and self.core.startswith("cortex-m")

    @property
    def has_card(self) -> bool:
        """Whether its firmware can keep parameters on a card."""
        return self.kind == "microcontroller" and self.storage != "none"

    @property
    def usable_ram_bytes(self) -> int:
        """What a plan may use, in bytes: residents, arena and the tables of the firmware that runs it."""
        return self.ram_bytes - self.ram_reserved_bytes

    @property
    def usable_flash_bytes(self) -> int | None:
        """What a plan's constants and tables may use together, in bytes; None if the flash's size is not known."""
        return self.flash_bytes - self.flash_reserved_bytes if self.flash_bytes else None


def pin_number(name: str) -> int:
    """A pin's port (0 and 1, or A to C) times 32, and its place there."""
    return 32 * max("01".find(name[1]), "ABC".find(name[1])) + int(name[-2:])


def user_folders() -> list[Path]:
    """Where users' boards are: ``./boards``, folders of ``POET_BOARDS``, and ``poet/boards`` of the user's."""
    named = os.environ.get("POET_BOARDS", "").split(os.pathsep)
    return [Path("boards"), *map(Path, filter(None, named)), platformdirs.user_config_path("poet") / "boards"]


def _files() -> dict[str, Path]:
    """Each board's file, by its name: users' boards, the first of a name, and those that poet ships.

    Raises
    ------
    UserError
        If a user's board bears the name of one of poet's: rows of the two could not be told apart.
    """
    shipped = {path.stem: path for path in (SHIPPED / "boards").glob("*.toml")}
    users: dict[str, Path] = {}
    for folder in user_folders():
        for path in folder.glob("*.toml"):
            if path.stem in shipped and path.resolve() != shipped[path.stem].resolve():
                raise UserError(f"{path}: poet ships a board of that name; give yours another, in the file as well")
            users.setdefault(path.stem, path)
    return users | shipped


def board_names() -> list[str]:
    """Names of the boards that poet knows, and of the user's."""
    return sorted(_files())


def load_board(name: str) -> Board:
    """Read a board by its name, or from the path of a ``.toml`` file.

    Raises
    ------
    UserError
        If there is no such board, or its file is not a board description.
    """
    path = Path(name) if name.endswith(".toml") else _files().get(name)
    if path is None or not path.is_file():
        raise UserError(f"no board named {name!r}; known are {', '.join(board_names())} (or give a .toml file)")
    try:
        document = tomllib.loads(read_text(path))
        check_document(document)
        board = Board.model_validate(document)
    except (tomllib.TOMLDecodeError, FaultError) as error:
        raise UserError(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"{part}." for part in first["loc"]).removesuffix(".")
        raise UserError(": ".join(filter(None, (str(path), place, first["msg"])))) from None
    if board.name != path.stem:
        raise UserError(f"{path}: name is {board.name!r}, must be the file's own, {path.stem!r}")
    return board
