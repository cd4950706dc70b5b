# SPDX-License-Identifier: Apache-2.0
"""Whether a folder lies on a disk, or in RAM, as the kernel lists mounts and block devices."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_IN_RAM = ("tmpfs", "ramfs", "rootfs", "devtmpfs", "hugetlbfs")
_BLOCK_IN_RAM = re.compile(r"(zram|ram|nullb)\d+")
_MOST_LAYERS = 8


class _Mount(NamedTuple):
    """A line of mountinfo (see proc_pid_mountinfo(5)); ``upper`` is where an overlay's changes lie."""

    id: str
    parent: str
    device: str
    point: Path
    kind: str
    source: str
    upper: str


def ram_disk(folder: Path, mountinfo: str | None = None, sysfs: Path = Path("/sys")) -> str:
    """What a folder's files lie in if it is RAM: ``tmpfs``, ``overlay/tmpfs``, ``loop0/tmpfs``.

    Else empty; so it is where the kernel does not say, of what another container, or a program in user space, mounted.
    """
    try:
        text = mountinfo or Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    except OSError:
        return ""
    return _beneath(folder, [_mount(line) for line in text.splitlines() if " - " in line], sysfs, _MOST_LAYERS)


def ram_disk_text(folder: Path | str, kind: str) -> str:
    """A line for who named such a folder."""
    return f"{folder}: lies in RAM ({kind}): what goes there takes memory all the same; name a folder on a disk"


def _beneath(path: Path, mounts: list[_Mount], sysfs: Path, layers: int) -> str:
    mount = _mount_of(path.resolve(), mounts)
    if mount is None or not layers:
        return ""
    if mount.kind in _IN_RAM:
        return mount.kind
    if mount.kind == "overlay":
        below = _beneath(Path(mount.upper), mounts, sysfs, layers - 1) if mount.upper else ""
        return below and f"overlay/{below}"
    block = sysfs / "dev/block" / mount.device
    if not block.exists() and mount.source.startswith("/dev/"):  # btrfs, say, has numbers of its own
        block = sysfs / "class/block" / Path(mount.source).resolve().name
    return _of_block(block.resolve(), mounts, sysfs, layers - 1)


def _of_block(block: Path, mounts: list[_Mount], sysfs: Path, layers: int) -> str:
    """Of a block device, or of what it is made of: a file, a whole disk, other devices."""
    if _BLOCK_IN_RAM.fullmatch(block.name):
        return block.name
    if not layers:
        return ""
    file = block / "loop/backing_file"
    if file.is_file():
        below = _beneath(Path(file.read_text().rstrip("\n").removesuffix(" (deleted)")), mounts, sysfs, layers - 1)
    else:
        parts = [block.parent] if (block / "partition").exists() else sorted((block / "slaves").glob("*"))
        below = next(filter(None, (_of_block(part.resolve(), mounts, sysfs, layers - 1) for part in parts)), "")
    return below and f"{block.name}/{below}"


def _mount_of(path: Path, mounts: list[_Mount]) -> _Mount | None:
    """The mount that a path leads to, as the kernel walks: from each mount into the first that lies on the way."""
    ids = {mount.id for mount in mounts}
    here, inside = None, [mount for mount in mounts if mount.parent not in ids or mount.parent == mount.id]
    while inside := [mount for mount in inside if path.is_relative_to(mount.point)]:
        here = min(inside, key=lambda mount: len(mount.point.parts))
        inside = [mount for mount in mounts if mount.parent == here.id != mount.id]
    return here


def _mount(line: str) -> _Mount:
    front, _, back = line.partition(" - ")
    id, parent, device, _, point, *_ = front.split(" ")
    kind, source, options = (*back.split(" "), "", "")[:3]
    upper = next((option[9:] for option in options.split(",") if option.startswith("upperdir=")), "")
    return _Mount(id, parent, device, Path(_plain(point)), kind, _plain(source), _plain(upper))


def _plain(text: str) -> str:
    """With its spaces and backslashes, which the kernel writes in octal."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)
