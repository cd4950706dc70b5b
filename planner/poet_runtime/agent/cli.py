# SPDX-License-Identifier: Apache-2.0
"""`poet-agent`: serves the protocol until the line ends."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from poet_profiles.errors import BAD_INPUT, UserError
from poet_profiles.files.ram_disk import ram_disk, ram_disk_text
from poet_profiles.program.missing_package import missing_packages_named
from poet_profiles.program.standard_streams import lasting_streams

from poet_runtime.allocator import release_freed


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the console script."""
    with lasting_streams():
        try:
            with missing_packages_named():
                _serve(_parser().parse_args(arguments))
        except UserError as error:
            print(f"poet-agent: {error}", file=sys.stderr)
            raise SystemExit(error.exit_code) from None
        except KeyboardInterrupt:
            raise SystemExit(130) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="poet-agent",
        description="Lets poet-harness measure PyTorch on this computer. Without --listen and --serial it speaks on "
        "its standard streams: poet-harness profile --port ssh://user@this-computer/poet-agent",
    )
    line = parser.add_mutually_exclusive_group()
    line.add_argument("--listen", metavar="HOST:PORT", type=_given, help="serve at a TCP port (socket://HOST:PORT)")
    line.add_argument(
        "--serial", metavar="DEVICE", type=_given, help="serve at a serial line, 1,000,000 baud; needs pyserial"
    )
    parser.add_argument("--threads", type=int, help="threads, and processors, for PyTorch; its own choice if not given")
    parser.add_argument(
        "--release-freed",
        metavar="BYTES",
        type=int,
        help="give blocks of so many bytes back to the system when they are freed, as a board short of RAM wants it",
    )
    parser.add_argument("--pages", type=_path, default=Path(), help="folder, on the disk that pages are to go to")
    parser.add_argument("--window", type=_path, help="file that takes 1 and 0: a GPIO at a meter's window input")
    parser.add_argument("--sysfs", type=Path, default=Path("/sys"), help=argparse.SUPPRESS)
    return parser


def _given(text: str) -> str:
    """The value of an option; an empty one would be none, and the agent would serve elsewhere."""
    if not text.strip():
        raise UserError("the value of an option is empty; give it one, or leave the option out", BAD_INPUT)
    return text


def _path(text: str) -> Path:
    return Path(_given(text))


def _serve(options: argparse.Namespace) -> None:
    if options.threads is not None:
        _take_processors(options.threads)
    if options.release_freed is not None:
        release_freed(options.release_freed)
    in_ram = ram_disk(options.pages)
    if in_ram:
        print(f"poet-agent: --pages {ram_disk_text(options.pages, in_ram)}", file=sys.stderr)
    from poet_runtime.agent.server import Server
    from poet_runtime.agent.streams import serve_serial, serve_standard_streams, serve_tcp
    from poet_runtime.agent.verbs import Agent
    from poet_runtime.agent.window import WindowLine

    allocator = "glibc" if options.release_freed is None else f"glibc-release-{options.release_freed}"
    with Agent(options.pages, WindowLine(options.window), options.sysfs, options.threads, allocator) as agent:
        server = Server(agent.verbs)
        if options.listen:
            serve_tcp(server, options.listen)
        elif options.serial:
            serve_serial(server, options.serial)
        else:
            serve_standard_streams(server)


def _take_processors(threads: int) -> None:
    """As many processors as threads, before PyTorch counts them."""
    allowed = sorted(os.sched_getaffinity(0))
    if not 0 < threads <= len(allowed):
        raise UserError(f"--threads {threads}: this computer has {len(allowed)} processors", BAD_INPUT)
    os.sched_setaffinity(0, allowed[:threads])
