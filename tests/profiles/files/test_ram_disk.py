# SPDX-License-Identifier: Apache-2.0
"""A disk that is RAM, by mounts as kernels list them, shortened."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from poet_profiles.files.ram_disk import ram_disk

ROOT = "27 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n"
TMP = "40 27 0:35 / /tmp rw,nosuid - tmpfs tmpfs rw,size=1g\n"
LIVE = "29 1 0:27 / / rw - overlay overlay rw,lowerdir=/run/live/rootfs/filesystem.squashfs/"
LIVE += ",upperdir=/run/live/overlay/rw,workdir=/run/live/overlay/work\n"
ON_ROOT = "41 27 {device} / /data rw - {kind} {source} rw\n"
DM, LOOP, ZRAM, DISK, PART = ("253:0", "7:4", "252:0", "8:2", "259:3")
BLOCKS = {DM: "virtual/block/dm-0", LOOP: "virtual/block/loop4", ZRAM: "virtual/block/zram0", DISK: "sda/sda2"}
BLOCKS |= {PART: "virtual/block/loop4/loop4p1", "1:0": "virtual/block/ram0"}


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """Block devices: dm-0 made of zram0, loop4 of a file in /tmp, and a partition of loop4."""
    for folder in ("dev/block", "class/block"):
        (tmp_path / folder).mkdir(parents=True)
    for number, place in BLOCKS.items():
        device = tmp_path / "devices" / place
        device.mkdir(parents=True)
        (tmp_path / "dev/block" / number).symlink_to(device)
        (tmp_path / "class/block" / device.name).symlink_to(device)
    (tmp_path / "devices/virtual/block/dm-0/slaves").mkdir()
    (tmp_path / "devices/virtual/block/dm-0/slaves/zram0").symlink_to(tmp_path / "devices/virtual/block/zram0")
    (tmp_path / "devices/virtual/block/loop4/loop").mkdir()
    (tmp_path / "devices/virtual/block/loop4/loop/backing_file").write_text("/tmp/of mine.img (deleted)\n")
    (tmp_path / "devices/virtual/block/loop4/loop4p1/partition").write_text("1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("mounts", "folder", "found"),
    [
        (TMP, "/home", ""),
        (TMP, "/tmp/a/b", "tmpfs"),
        (TMP, "/tmpfiles", ""),
        ("40 27 0:35 / /mnt rw - ramfs none rw\n", "/mnt", "ramfs"),
        ("40 27 0:6 / /dev rw - devtmpfs udev rw\n", "/dev/poet", "devtmpfs"),
        ("40 27 0:35 / /my\\040disk rw - tmpfs none rw\n", "/my disk/x", "tmpfs"),
        # A disk within, over or under it: what was mounted last there, however the lines stand.
        (TMP + "41 40 8:3 / /tmp/disk rw - ext4 /dev/sda3 rw\n", "/tmp/disk", ""),
        ("41 40 8:3 / /tmp rw - ext4 /dev/sda3 rw\n" + TMP, "/tmp", ""),
        ("41 27 8:3 / /a rw - ext4 /dev/sda3 rw\n40 27 0:35 / /a/b rw - tmpfs none rw\n", "/a/b", ""),
        ("40 27 0:35 /sub /home/me/bound rw - tmpfs tmpfs rw\n", "/home/me/bound", "tmpfs"),
        (ON_ROOT.format(device=ZRAM, kind="ext4", source="/dev/zram0"), "/data", "zram0"),
        (ON_ROOT.format(device="1:0", kind="ext2", source="/dev/ram0"), "/data", "ram0"),
        (ON_ROOT.format(device="0:44", kind="btrfs", source="/dev/zram0"), "/data", "zram0"),
        (ON_ROOT.format(device="0:44", kind="nfs4", source="box:/zram0"), "/data", ""),
        (ON_ROOT.format(device=DM, kind="xfs", source="/dev/mapper/secret"), "/data", "dm-0/zram0"),
        (TMP + ON_ROOT.format(device=LOOP, kind="ext4", source="/dev/loop4"), "/data", "loop4/tmpfs"),
        (TMP + ON_ROOT.format(device=PART, kind="vfat", source="/x"), "/data", "loop4p1/loop4/tmpfs"),
        (ON_ROOT.format(device=LOOP, kind="ext4", source="/dev/loop4"), "/data", ""),
    ],
)
def test_what_a_folder_lies_in(sysfs: Path, mounts: str, folder: str, found: str) -> None:
    for text in (ROOT + mounts, mounts + ROOT):
        assert ram_disk(Path(folder), text, sysfs) == found


@pytest.mark.parametrize(
    ("mounts", "found"),
    [
        (LIVE + "26 29 0:24 / /run rw - tmpfs tmpfs rw\n", "overlay/tmpfs"),
        (LIVE + "26 29 0:24 / /run rw - tmpfs tmpfs rw\n30 26 8:3 / /run/live/overlay rw - ext4 /dev/sda3 rw\n", ""),
        # A container's upper layer is not in its sight.
        (LIVE, ""),
        (LIVE.replace(",upperdir=/run/live/overlay/rw", ""), ""),
    ],
)
def test_an_overlay_is_where_its_upper_layer_is(sysfs: Path, mounts: str, found: str) -> None:
    assert ram_disk(Path("/home/user"), mounts, sysfs) == found


def test_links_are_followed_and_the_kernels_own_list_is_read(tmp_path: Path) -> None:
    """``df`` says what this machine's /dev/shm is."""
    if not Path("/dev/shm").is_dir() or shutil.which("df") is None:
        pytest.skip("there is no /dev/shm, or no df")
    kind = subprocess.run(["df", "--output=fstype", "/dev/shm"], capture_output=True, text=True, check=True).stdout
    (tmp_path / "link").symlink_to("/dev/shm")
    expected = "tmpfs" if "tmpfs" in kind else ""
    assert ram_disk(tmp_path / "link" / "below") == ram_disk(Path("/dev/shm")) == expected
