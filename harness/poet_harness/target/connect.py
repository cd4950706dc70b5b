# SPDX-License-Identifier: Apache-2.0
"""A board to measure or train on, with the meter on its supply: real, emulated, or this computer."""

from __future__ import annotations

import platform
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from poet_profiles.boards import Board
from poet_profiles.errors import UserError
from poet_profiles.files.ram_disk import ram_disk, ram_disk_text
from poet_profiles.program.closing import Closing

from ..meters.meter import Meter
from ..meters.registry import board_meter, open_meter, supply_meter
from ..ports import check_port, open_port
from ..protocol.device import Device
from ..protocol.link import Link, Patience
from .held_image import held_image
from .process import SSH, ProcessStream, ssh_command
from .upload_port import console_port

# The emulated board and this computer's program lose nothing; they are only sometimes slow.
SURE_LINE = Patience(acknowledge_s=5.0, answer_s=60.0, attempts=4)
# Far away, or PyTorch is still being imported there.
AGENT_LINE = Patience(acknowledge_s=20.0, answer_s=60.0, attempts=4)
# A whole step of a large network takes minutes on a small board, which is silent meanwhile.
AGENT_ATTEMPTS = 40
AGENT_MODULE = "poet_runtime.agent"
# The program counts its RAM in 32 bits.
MOST_PROGRAM_RAM = 2**32 - 4096


@dataclass
class Target(Closing):
    """An open device and its meter. Closes both.

    ``fresh_card`` says that the card is a file made just now, which may be labelled without asking.
    """

    device: Device
    meter: Meter
    fresh_card: bool
    _resources: ExitStack

    def close(self) -> None:
        """Close both."""
        self._resources.close()


def connect(
    board: Board,
    port: str | None = None,
    *,
    image: Path | None = None,
    emulate: bool = False,
    meter: str | None = None,
    card: Path | None = None,
    card_pauses: int | None = None,
    threads: int | None = None,
) -> Target:
    """Open a board. Whatever meter is named, an emulated board's rows and the host's are never called measured.

    Parameters
    ----------
    port : str, optional
        Device name, pyserial URL or ``ssh://``. If not given, a microcontroller is found by its USB ids, and a Linux
        board is this computer.
    image : Path, optional
        Firmware that the emulated board runs, or this computer's program (see :func:`takes_image`).
    emulate : bool
        Run the image on the emulated board instead of looking for a real one.
    card : Path, optional
        Card image of the emulated board or this computer's program, kept for later; a fresh one if not given.
    card_pauses : int, optional
        Seed of the emulated card's pauses; it has none if not given.
    meter : str, optional
        See :func:`poet_harness.meters.registry.open_meter`.
    threads : int, optional
        Of the agent that is started here; PyTorch's own choice if not given.

    Raises
    ------
    UserError
        With exit code 4, if there is no such port, or nothing answers at it; with 2, if another board does, or pauses
        are asked of a card that is not emulated.
    """
    if card_pauses is not None and not emulate:
        raise UserError("--card-pauses: only the emulated card takes them from a seed; add --emulate, or leave it out")
    if threads is not None and (board.kind != "linux" or port is not None or image is not None):
        raise UserError(
            "--threads: is for the agent on this computer; write --port 'ssh://user@board/poet-agent --threads N'"
        )
    with ExitStack() as opening:
        if takes_image(board, port, emulate) or (board.kind == "linux" and port is None and image is not None):
            assert image is not None
            if emulate:
                target = _emulated(board, image, meter, card, card_pauses, opening)
            else:
                target = _program(board, image, meter, card, opening)
        elif board.kind == "linux" and port is None:
            target = _agent_here(board, meter, card, threads, opening)
        else:
            target = _real(board, port, meter, opening)
        _check_board(target.device, board)
        place = card or Path.cwd() if board.kind == "linux" and image is not None else None
        in_ram = target.device.hello.ram_disk if place is None else ram_disk(place)
        if in_ram:
            target.meter.identity += f", pages in RAM ({in_ram})"
            if place is not None or (port is not None and not port.lower().startswith(SSH)):
                # Else the agent says so here itself.
                print(ram_disk_text(place or f"{port}, --pages there", in_ram), file=sys.stderr)
        target._resources = opening.pop_all()
        return target


def takes_image(board: Board, port: str | None, emulate: bool) -> bool:
    """Whether the board is a firmware image that runs here: on the emulator, or as a program on this computer.

    A Linux board runs the agent. It takes an image (the firmware core as a program) only where one is named.

    Raises
    ------
    UserError
        If there is no emulator for such a board, or it is asked for beside a port, or a port that can be none.
    """
    if port is not None:
        check_port(port)
    if emulate and port is not None:
        raise UserError(
            f"--emulate --port {port}: is it the emulated board, or the one at that port? leave one out; "
            "POET_EMULATE and POET_PORT count as well"
        )
    if emulate and board.kind == "linux":
        raise UserError(
            f"{board.name}: only microcontrollers are emulated; run poet-agent there, and name it with --port ssh://"
        )
    return emulate or (board.kind == "program" and port is None)


def _emulated(
    board: Board, image: Path, meter: str | None, card: Path | None, card_pauses: int | None, opening: ExitStack
) -> Target:
    from ..emulation import CardTiming, open_emulated_board
    from ..emulation.meter import EmulatedMeter

    card, fresh = _card(card, opening)
    emulated = opening.enter_context(open_emulated_board(board, image, card, timing=CardTiming(pause_seed=card_pauses)))
    device = Device(Link(emulated.serial, f"emulated {board.name}", SURE_LINE))
    power = EmulatedMeter(emulated, board.voltage_v) if meter is None else open_meter(meter, board)
    power.source = "emulated"
    return Target(device, power, fresh, opening)


def _program(board: Board, image: Path, meter: str | None, card: Path | None, opening: ExitStack) -> Target:
    """This computer: the host, or a Linux board on which the harness itself runs."""
    if board.kind == "linux":
        _check_processor(board)
    # The card of a board that is measured lies on a disk, which the folder for temporary files may not do.
    card, fresh = _card(card, opening, Path.cwd() if board.kind == "linux" else None)
    ram_bytes = min(board.usable_ram_bytes, MOST_PROGRAM_RAM)
    stream = ProcessStream([str(image.resolve()), "--card", str(card.resolve()), "--ram", str(ram_bytes)])
    opening.callback(stream.close)
    device = Device(Link(stream, str(image), SURE_LINE))
    if board.kind == "linux":
        return Target(device, _aligned(open_meter(meter, board), device, opening), fresh, opening)
    power = open_meter("nominal" if meter is None else meter, board)
    power.source = "emulated"
    return Target(device, power, fresh, opening)


def _agent_here(board: Board, meter: str | None, card: Path | None, threads: int | None, opening: ExitStack) -> Target:
    """The agent as a child of this program: pages go to a file in the current folder, or to ``card``."""
    _check_processor(board)
    pages = card or Path.cwd()
    options = [] if threads is None else ["--threads", str(threads)]
    stream = ProcessStream([sys.executable, "-P", "-m", AGENT_MODULE, "--pages", str(pages.resolve()), *options])
    opening.callback(stream.close)
    device = Device(Link(stream, f"{board.name} (this computer)", AGENT_LINE))
    power = board_meter(meter, board, device.hello.is_agent, here=True)
    return Target(device, _aligned(power, device, opening), False, opening)


def _may_be(board: Board, machine: str) -> bool:
    """Whether a computer with such a processor can be the board."""
    return not board.core.startswith("cortex-") or machine.startswith(("aarch64", "arm"))


def _check_processor(board: Board) -> None:
    """A row must not carry the name of a board that this computer cannot be."""
    here = platform.machine()
    if not _may_be(board, here):
        raise UserError(
            f"this computer ({here}) is no {board.name} ({board.core}): run poet-harness on the board, or name it with "
            "--port ssh://user@board"
        )


def _check_board(device: Device, board: Board) -> None:
    """A Linux board runs the host's program, which does not know the board's name; firmware does.

    Its supply must be the one of the board file, or every energy would be another board's.
    """
    said = device.hello.board
    if board.sketch and device.hello.loads:  # it does not know its board's name
        core = device.about()["core"]
        if core != board.core:
            raise UserError(f"{device.link.name}: the sketch there runs on {core}, and {board.name} is {board.core}")
    elif board.kind == "microcontroller" and said != board.name:
        raise UserError(f"{device.link.name}: the board there is {said}, not {board.name}; use --board {said}")
    if device.hello.machine and not _may_be(board, device.hello.machine):
        raise UserError(
            f"{device.link.name}: the computer there ({device.hello.machine}) is no {board.name} ({board.core}); name "
            "the board that it is with --board"
        )
    if board.regulator is not None and device.hello.regulator:
        wanted = "dcdc" if board.regulator.dcdc else "ldo"
        if device.hello.regulator != wanted:
            raise UserError(
                f"{device.link.name}: its firmware runs the core on the {device.hello.regulator}, the board file says "
                f"{wanted}; put the firmware on it again with poet-harness flash"
            )


def _card(card: Path | None, opening: ExitStack, folder: Path | None = None) -> tuple[Path, bool]:
    """The card image to use, and whether it is made just now: in ``folder``, or where temporary files go."""
    if card is None:
        card = Path(opening.enter_context(tempfile.TemporaryDirectory(prefix="poet-", dir=folder))) / "card.img"
    opening.enter_context(held_image(card))
    return card, card.is_file() and not card.stat().st_size


def _real(board: Board, port: str | None, meter: str | None, opening: ExitStack) -> Target:
    if port and port.lower().startswith(SSH):
        stream = ProcessStream(ssh_command(port))
        opening.callback(stream.close)
        link = Link(stream, port, AGENT_LINE)
    else:
        url = console_port(board, port)
        patience = Patience(attempts=AGENT_ATTEMPTS) if board.kind == "linux" else Patience()
        link = Link(open_port(url, board.baud), url, patience)
        opening.callback(link.close)
    supply = supply_meter(meter, board)
    if supply is not None:
        opening.callback(supply.close)
        return Target(Device(link), supply, False, opening)
    device = Device(link)
    power = board_meter(meter, board, device.hello.is_agent or board.sketch, here=False)
    return Target(device, _aligned(power, device, opening), False, opening)


def _aligned(power: Meter, device: Device, opening: ExitStack) -> Meter:
    """The meter, aligned with the host's clock where it needs that, and closed at the end."""
    opening.callback(power.close)

    def idle(duration_s: float) -> tuple[float, float]:
        timing = device.idle(duration_s)
        return timing.host_start_s, timing.work_s

    power.synchronise(idle)
    return power
