# SPDX-License-Identifier: Apache-2.0
"""``poet-harness card``: what it writes, what it reads, and what it refuses to touch."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import struct
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from poet_harness.card import places, writing
from poet_harness.card.contents import card_contents
from poet_harness.card.places import CardPlace, card_place, refuse_in_use
from poet_harness.card.reading import CardReader, look_at, weights_on
from poet_harness.card.writing import write_card
from poet_harness.plan_folder.plan import Plan, read_plan
from poet_profiles.card.layout import BLOCK_BYTES, RECORD_BLOCKS
from poet_profiles.card.record import Record, decode_record, encode_record
from poet_profiles.errors import UserError
from poet_profiles.program.stopping import Stopped

from tests.support.graphs.kept_graphs import table_step
from tests.support.harness.kept_plan import B, W, X, write_data, write_kept_plan
from tests.support.programs import Said, poet_harness

# Units: w, then the residents (b). Homes 2048 and 2049, then 2050 and 2051; batches from 2052 on.
W_BLOCKS, B_BLOCKS, FIRST_BATCH = (2048, 2050), (2049, 2051), 2052


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_kept_plan(tmp_path / "plan")


@pytest.fixture
def plan(folder: Path) -> Plan:
    return read_plan(folder)


def at(image: Path, block: int, count: int = BLOCK_BYTES) -> bytes:
    with image.open("rb") as file:
        file.seek(block * BLOCK_BYTES)
        return file.read(count)


def put(image: Path, block: int, content: bytes) -> None:
    with image.open("r+b") as file:
        file.seek(block * BLOCK_BYTES)
        file.write(content)


def padded(array: np.ndarray[Any, Any]) -> bytes:
    return array.tobytes().ljust(BLOCK_BYTES, b"\0")


def checked(array: np.ndarray[Any, Any], number: int) -> bytes:
    """A batch's tensor with the check that follows it."""
    content = array.tobytes()
    return (content + struct.pack("<I", (zlib.crc32(content) + number) % 2**32)).ljust(BLOCK_BYTES, b"\0")


def made(folder: Path, image: Path) -> Path:
    write_card(card_place(image), card_contents(folder / "data.npz", read_plan(folder)), None, lambda *_: None)
    return image


def trained(folder: Path, image: Path) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """What a board would leave behind one step: second homes, and a record in the second place."""
    made(folder, image)
    w, b = W * 2, B + 1
    put(image, W_BLOCKS[1], padded(w))
    put(image, B_BLOCKS[1], padded(b))
    checks = tuple(zlib.crc32(array.tobytes()) for array in (w, b))
    record = Record(2, read_plan(folder).graph_hash, 1, 3, (True, True), checks)
    put(image, RECORD_BLOCKS[1], encode_record(record))
    return w, b


# --- writing ---


def test_an_image_holds_label_weights_batches_and_record(folder: Path, tmp_path: Path, capsys: Said) -> None:
    image = tmp_path / "card.img"
    assert poet_harness("card", image, "--plan", folder, "--data", folder / "data.npz") == 0
    assert image.stat().st_size == 64 * 2**20
    assert at(image, 0) == b"POET CARD 1\n".ljust(BLOCK_BYTES, b"\0")
    assert at(image, W_BLOCKS[0]) == padded(W)
    assert at(image, B_BLOCKS[0]) == padded(B)
    assert not any(at(image, W_BLOCKS[1], 2 * BLOCK_BYTES)), "nothing lies in the second homes yet"
    for number in range(3):
        assert at(image, FIRST_BATCH + number) == checked(X[number], number)
    record = decode_record(at(image, RECORD_BLOCKS[0]))
    hash_ = read_plan(folder).graph_hash
    assert record == Record(1, hash_, 0, 3, (False, False), (zlib.crc32(W.tobytes()), zlib.crc32(B.tobytes())))
    assert at(image, RECORD_BLOCKS[1]) == b"POET EMPTY\n".ljust(BLOCK_BYTES, b"\0")
    output = capsys.readouterr().out
    assert hash_ in output
    assert "2 tensors and 3 batches" in output
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".poet-")]


def test_fewer_batches_and_another_size_may_be_asked_for(folder: Path, tmp_path: Path, capsys: Said) -> None:
    image = tmp_path / "card.img"
    options = ("--plan", folder, "--data", folder / "data.npz", "--batches", 2, "--size-mib", 2, "--json")
    assert poet_harness("card", image, *options) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["batches"] == 2
    assert document["card_bytes_needed"] == (FIRST_BATCH + 2 + 2) * BLOCK_BYTES, "a page and a trace after them"
    assert image.stat().st_size == 2 * 2**20
    assert not any(at(image, FIRST_BATCH + 2))


def test_an_image_made_before_is_overwritten_on_a_typed_yes_alone(folder: Path, tmp_path: Path, capsys: Said) -> None:
    image = tmp_path / "card.img"
    image.write_bytes(b"\xff" * 2**21)
    options = (image, "--plan", folder, "--data", folder / "data.npz")
    for typed in ("", "no\n", "y\n"):
        assert poet_harness("card", *options, typed=typed) == 2
        assert "not confirmed" in capsys.readouterr().err
        assert image.read_bytes() == b"\xff" * 2**21
    assert poet_harness("card", *options, typed="yes\n") == 0
    assert image.stat().st_size == 2**21, "an image keeps its size"
    assert not any(at(image, 100)), "what it held is gone"
    assert poet_harness("card", *options, "--yes") == 0


def test_an_interrupted_image_leaves_the_one_before(folder: Path, tmp_path: Path) -> None:
    image = made(folder, tmp_path / "card.img")
    before = image.read_bytes()

    def stop(_what: str, _done: int, _total: int) -> None:
        raise Stopped(signal.SIGTERM)

    with pytest.raises(Stopped):
        write_card(card_place(image), card_contents(folder / "data.npz", read_plan(folder)), None, stop)
    assert image.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"card.img", "plan"}


def test_progress_goes_up_to_the_end_twice(folder: Path, tmp_path: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    contents = card_contents(folder / "data.npz", read_plan(folder))
    write_card(card_place(tmp_path / "c.img"), contents, None, lambda *words: calls.append(words))
    for what in ("writing", "verifying"):
        done = [count for name, count, _ in calls if name == what]
        assert done == sorted(done)
        assert done[-1] == contents.bytes


def test_a_card_too_small_is_refused_before_anything_is_written(folder: Path, tmp_path: Path, capsys: Said) -> None:
    image = tmp_path / "card.img"
    assert poet_harness("card", image, "--plan", folder, "--data", folder / "data.npz", "--size-mib", 1) == 2
    assert "the plan needs" in capsys.readouterr().err
    assert not image.exists()


def test_a_card_that_loses_what_is_written_is_found_out(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A counterfeit that is smaller than it says: its blocks come round again."""
    real = writing._put
    monkeypatch.setattr(writing, "_put", lambda handle, block, data: real(handle, block % 2050, data))
    image = tmp_path / "card.img"
    with pytest.raises(UserError, match=r"batch 0 of x, at block 2052, is not what was written"):
        made(folder, image)
    assert not image.exists()


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("w", np.zeros(3, np.float32), "shape"),
        ("b", np.zeros(2), "float64"),
        ("x", np.full((3, 2), np.nan, np.float32), "finite"),
        ("x", None, "no such array"),
    ],
)
def test_data_that_is_not_the_plans_is_refused(
    folder: Path, plan: Plan, name: str, array: np.ndarray[Any, Any] | None, words: str
) -> None:
    arrays = {key: value for key, value in {"w": W, "b": B, "x": X, name: array}.items() if value is not None}
    np.savez(folder / "data.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=words):
        card_contents(folder / "data.npz", plan)


# --- devices ---

MOUNTS = "proc /proc proc rw 0 0\n/dev/sdb1 /media/my\\040photos vfat rw 0 0\n/dev/mmcblk0p2 / ext4 rw 0 0\n"
SWAPS = "Filename\tType\tSize\tUsed\tPriority\n/dev/sdd3 partition 100 0 -2\n"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files under /proc and /sys that say what we like."""
    (tmp_path / "mounts").write_text(MOUNTS)
    (tmp_path / "swaps").write_text(SWAPS)
    (tmp_path / "block" / "sde" / "sde1" / "holders" / "dm-0").mkdir(parents=True)
    (tmp_path / "block" / "sdc" / "holders").mkdir(parents=True)
    for name, path in (("MOUNTS", "mounts"), ("SWAPS", "swaps"), ("SYSTEM", "block")):
        monkeypatch.setattr(places, name, tmp_path / path)
    return tmp_path


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("/dev/sdb", r"is mounted \(/dev/sdb1 on /media/my photos\); unmount it first"),
        ("/dev/sdb1", "is mounted"),
        ("/dev/mmcblk0", "is mounted"),
        ("/dev/sdd", "swapping"),
        ("/dev/sde", "part of dm-0"),
    ],
)
@pytest.mark.usefixtures("system")
def test_a_device_in_use_is_refused(device: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        refuse_in_use(CardPlace(Path(device), True, 2**30))


@pytest.mark.parametrize("device", ["/dev/sdc", "/dev/sd", "/dev/mmcblk", "/dev/mmcblk01"])
@pytest.mark.usefixtures("system")
def test_a_device_whose_name_is_like_anothers_is_not(device: str) -> None:
    refuse_in_use(CardPlace(Path(device), True, 2**30))


def test_a_mounted_device_is_refused_before_anybody_is_asked(
    folder: Path, system: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    device = system / "sdb"
    device.write_bytes(bytes(2**21))
    with (system / "mounts").open("a") as mounts:
        mounts.write(f"{device} /mnt ext4 rw 0 0\n")
    monkeypatch.setattr(places, "card_place", lambda path: CardPlace(path, True, 2**21))
    assert poet_harness("card", device, "--plan", folder, "--data", folder / "data.npz", "--yes") == 2
    assert "is mounted" in capsys.readouterr().err
    assert device.read_bytes() == bytes(2**21)


def test_a_device_gets_its_label_last(folder: Path, system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file stands for a device that nobody uses; the preparation is cut off at every write."""
    device = system / "sdz"
    contents = card_contents(folder / "data.npz", read_plan(folder))
    real, left = writing._put, 0

    def cut(handle: int, block: int, data: bytes) -> None:
        nonlocal left
        if left == 0:
            raise Stopped(signal.SIGTERM)
        left -= 1
        real(handle, block, data)

    monkeypatch.setattr(writing, "_put", cut)
    for written in range(20):
        made_before = made_with(real, folder, device, monkeypatch, cut)
        left = written
        try:
            write_card(CardPlace(device, True, made_before), contents, None, lambda *_: None)
        except Stopped:
            if written:
                with CardReader(device) as reader:
                    assert not look_at(reader).labelled
            continue
        break
    assert written == 3 + len(contents.pieces) + 1
    with CardReader(device) as reader:
        assert look_at(reader).labelled


def made_with(real: Any, folder: Path, device: Path, monkeypatch: pytest.MonkeyPatch, then: Any) -> int:
    """A card as it was before, at a device's place; its size."""
    monkeypatch.setattr(writing, "_put", real)
    device.unlink(missing_ok=True)
    write_card(card_place(device), card_contents(folder / "data.npz", read_plan(folder)), 2**21, lambda *_: None)
    monkeypatch.setattr(writing, "_put", then)
    return 2**21


@pytest.mark.parametrize(
    ("path", "words"),
    [("/dev/null", "neither a block device nor an image"), (".", "neither"), ("/dev/poet-none", "no such device")],
)
def test_what_is_no_card_is_refused(path: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        card_place(Path(path))


# --- reading ---


def test_a_card_says_what_it_holds(folder: Path, tmp_path: Path, capsys: Said) -> None:
    image = tmp_path / "card.img"
    trained(folder, image)
    assert poet_harness("card", image, "--read") == 0
    output = capsys.readouterr().out
    assert "has poet's label" in output
    assert "record 1: step 0" in output
    assert "record 2: step 1" in output
    assert poet_harness("card", image, "--read", "--plan", folder, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["labelled"] is True
    assert [record["step"] for record in document["records"]] == [0, 1]
    assert document["checked"] == {"graph_hash": read_plan(folder).graph_hash, "step": 1}


def test_trained_weights_come_off_the_card_under_their_names(folder: Path, tmp_path: Path) -> None:
    from safetensors import safe_open

    image, out = tmp_path / "card.img", tmp_path / "net.safetensors"
    w, b = trained(folder, image)
    options = ("--plan", folder, "--data", folder / "data.npz", "--out", out)
    assert poet_harness("weights", "--card", image, *options) == 0
    with safe_open(out, "np") as file:
        graph = read_plan(folder).graph_hash
        assert file.metadata() == {"format": "pt", "graph": graph, "step": "1", "optimizer": "SGD()"}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert np.array_equal(tensors["layer.weight"], w)
    assert np.array_equal(tensors["layer.bias"], b)
    assert tensors["steps"] == 1, "a counter that the board does not have"


def test_damage_falls_back_one_step_and_no_further(folder: Path, plan: Plan, tmp_path: Path) -> None:
    image = tmp_path / "card.img"
    trained(folder, image)
    put(image, W_BLOCKS[1], b"\x01")
    with CardReader(image) as reader:
        found = weights_on(reader, image, plan)
        assert (found.step, found.fell_back) == (0, True)
        assert np.array_equal(found.tensors["w"], W)
        assert np.array_equal(found.tensors["b"], B)
        put(image, B_BLOCKS[0], b"\x77")
        with pytest.raises(UserError, match=r"damaged: those of step 1: w, at block 2050; those of step 0: the res"):
            weights_on(reader, image, plan)


def test_a_torn_record_leaves_the_one_before(folder: Path, plan: Plan, tmp_path: Path) -> None:
    image = tmp_path / "card.img"
    trained(folder, image)
    put(image, RECORD_BLOCKS[1], at(image, RECORD_BLOCKS[1])[:60] + b"\xff")
    with CardReader(image) as reader:
        assert look_at(reader).records[1] is None
        assert weights_on(reader, image, plan).step == 0


def test_another_graphs_card_is_refused(folder: Path, plan: Plan, tmp_path: Path) -> None:
    image = made(folder, tmp_path / "card.img")
    record = Record(9, "00000000000000aa", 5, 3, (False, False), (0, 0))
    for block in RECORD_BLOCKS:
        put(image, block, encode_record(record))
    with CardReader(image) as reader, pytest.raises(UserError, match="it holds: 00000000000000aa"):
        weights_on(reader, image, plan)


def test_a_card_without_a_label_is_refused(folder: Path, plan: Plan, tmp_path: Path) -> None:
    image = made(folder, tmp_path / "card.img")
    put(image, 0, bytes(BLOCK_BYTES))
    with CardReader(image) as reader, pytest.raises(UserError, match="no label"):
        weights_on(reader, image, plan)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "--plan and --data"),
        (["--read", "--yes"], "belongs to writing"),
        (["--read", "--weights", "w.safetensors"], "belongs to writing"),
        (["--read", "--data", "data.npz"], "poet needs --plan, too"),
        (["--read", "--batches", "2"], "belongs to writing"),
        (["--read"], "no such file"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, capsys: Said, options: list[str], words: str
) -> None:
    assert poet_harness("card", tmp_path / "none.img", *options) == 2
    assert words in capsys.readouterr().err


def test_a_damaged_batch_is_found_and_named(folder: Path, tmp_path: Path, capsys: Said) -> None:
    image = made(folder, tmp_path / "card.img")
    reading, data = (image, "--read", "--plan", folder), ("--data", folder / "data.npz")
    assert poet_harness("card", *reading) == 0
    assert "3 batches are whole\n" in capsys.readouterr().out
    assert poet_harness("card", *reading, *data, "--json") == 0
    assert json.loads(capsys.readouterr().out)["batches_checked"] == 3
    whole = at(image, FIRST_BATCH + 1)
    for byte in (0, X[1].nbytes - 1, X[1].nbytes, X[1].nbytes + 3):  # the last two are its check's
        put(image, FIRST_BATCH + 1, whole[:byte] + bytes([whole[byte] ^ 1]) + whole[byte + 1 :])
        for more in ((), data):
            assert poet_harness("card", *reading, *more) == 4
            assert f"batch 1 of x, at block {FIRST_BATCH + 1}, is damaged" in capsys.readouterr().err
    put(image, FIRST_BATCH + 1, at(image, FIRST_BATCH + 2))  # whole, in another's place
    assert poet_harness("card", *reading) == 4
    put(image, FIRST_BATCH + 1, checked(X[1] + 1, 1))  # whole, and other data
    assert poet_harness("card", *reading) == 0
    assert poet_harness("card", *reading, *data) == 2
    assert "batch 1 of x is not that of the data" in capsys.readouterr().err


def test_the_card_of_an_older_version_is_refused(folder: Path, tmp_path: Path, capsys: Said) -> None:
    image = made(folder, tmp_path / "card.img")
    size = 52 + 4 * 3
    body = b"POET RECORD 1\n\0\0" + at(image, RECORD_BLOCKS[0])[16 : size - 4]
    put(image, RECORD_BLOCKS[0], body + struct.pack("<I", zlib.crc32(body)))
    assert poet_harness("card", image, "--read") == 0
    assert "has a record of an older version of poet" in capsys.readouterr().out
    assert poet_harness("card", image, "--read", "--plan", folder) == 2
    assert "was prepared by an older version of poet, whose batches have no checks" in capsys.readouterr().err


def copied_sparsely(image: Path, card: Path, unit: int) -> None:
    """As `dd conv=sparse` and `cp --sparse` copy onto a used card: what is all zeros is left as it was."""
    content = image.read_bytes()
    with card.open("r+b") as file:
        for begin in range(0, len(content), unit):
            if any(content[begin : begin + unit]):
                file.seek(begin)
                file.write(content[begin : begin + unit])


@pytest.mark.parametrize("unit", [512, 4096, 65536, 2**20])
def test_a_sparse_copy_leaves_no_older_record_that_counts(folder: Path, plan: Plan, tmp_path: Path, unit: int) -> None:
    """The used card has a higher sequence number in the second place, and whole weights of the same graph."""
    card = tmp_path / "used.img"
    trained(folder, card)
    used = replace(decode_record(at(card, RECORD_BLOCKS[1])), sequence=9, step=7)
    put(card, RECORD_BLOCKS[1], encode_record(used))
    copied_sparsely(made(folder, tmp_path / "fresh.img"), card, unit)
    with CardReader(card) as reader:
        assert [record and record.sequence for record in look_at(reader).records] == [1, None]
        assert weights_on(reader, card, plan).step == 0


# --- what may be lost ---

# Where file systems and others have their marks, in bytes; from the end where negative.
MARKS = {
    "LVM2": (536, b"LVM2 001"),
    "ext4": (1024 + 56, b"\x53\xef"),
    "F2FS": (1024, b"\x10\x20\xf5\xf2"),
    "RAID 1.2": (4096, b"\xfc\x4e\x2b\xa9"),
    "swap": (4086, b"SWAPSPACE2"),
    "ISO 9660": (32769, b"CD001"),
    "ReiserFS": (65536 + 52, b"ReIsEr2Fs"),
    "Btrfs": (65536 + 64, b"_BHRfS_M"),
    "UFS2": (262144 + 1372, b"\x19\x01\x54\x19"),
    "VMFS": (2**20, b"\x0d\xd0\x01\xc0"),
    "backup GPT": (-512, b"EFI PART"),
    "RAID 1.0": (-8192, b"\xfc\x4e\x2b\xa9"),
    "RAID 0.90": (-65536, b"\xfc\x4e\x2b\xa9"),
}


@pytest.mark.parametrize("is_device", [False, True])
@pytest.mark.parametrize("erased", [b"\0", b"\xff"])
def test_empty_is_said_of_what_is_empty(tmp_path: Path, erased: bytes, is_device: bool) -> None:
    card, size = tmp_path / "card", 8 * 2**20
    card.write_bytes(erased * size)
    assert "empty" in CardPlace(card, is_device, size).words
    for name, (where, mark) in MARKS.items():
        card.write_bytes(erased * size)
        with card.open("r+b") as file:
            file.seek(where, io.SEEK_SET if where >= 0 else io.SEEK_END)
            file.write(mark)
        assert "with data" in CardPlace(card, is_device, size).words, name
    card.write_bytes(erased * 5 * 2**20 + b"photograph" * 10**5 + erased * 2**21)  # its table was wiped
    assert "with data" in CardPlace(card, is_device, card.stat().st_size).words
    card.write_bytes(bytes(size // 2) + b"\xff" * (size // 2))
    assert "with data" in CardPlace(card, is_device, size).words


@pytest.mark.parametrize("tool", ["mkfs.ext2", "mkfs.ext4", "mkswap"])
def test_a_file_system_is_not_empty(folder: Path, tmp_path: Path, capsys: Said, tool: str) -> None:
    program = shutil.which(tool, path=f"{os.environ['PATH']}:/sbin:/usr/sbin")
    if program is None:
        pytest.skip(f"needs {tool}")
    image = tmp_path / "card.img"
    with image.open("wb") as file:
        file.truncate(400 * 2**20)
    subprocess.run([program, str(image)], check=True, capture_output=True)
    assert poet_harness("card", image, "--plan", folder, "--data", folder / "data.npz", typed="no\n") == 2
    output = capsys.readouterr().err
    assert "empty" not in output
    assert ", with " in output


@pytest.mark.parametrize("way", ["itself", "symlink_to", "hardlink_to"])
def test_a_card_does_not_overwrite_what_it_is_made_from(folder: Path, tmp_path: Path, capsys: Said, way: str) -> None:
    data = tmp_path / "data.npz"
    shutil.move(folder / "data.npz", data)
    np.savez(tmp_path / "w.npz", w=W, b=B)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for option, file in (("--data", data), ("--weights", tmp_path / "w.npz")):
        card = file if way == "itself" else tmp_path / f"card of {file.name}"
        if way != "itself":
            getattr(card, way)(file)
        given = ("--plan", folder, "--data", data, "--weights", tmp_path / "w.npz", "--yes")
        assert poet_harness("card", card, *given) == 2
        assert f"is the file of {option}" in capsys.readouterr().err
    (tmp_path / "same").symlink_to(folder)
    for card in (folder / "schedule.json", folder / "new.img", tmp_path / "same" / "new.img"):
        assert poet_harness("card", card, "--plan", folder, "--data", data, "--yes") == 2
        assert "lies in the plan's folder" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in before} == before
    assert not (folder / "new.img").exists()


# --- a tensor that lies by rows ---


def test_the_rows_that_count_are_read_from_either_home(tmp_path: Path) -> None:
    folder = write_kept_plan(tmp_path / "plan", table_step())
    table, ids = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([[0, 1], [1, 1], [2, 0]], np.int32)
    write_data(folder, table=table, ids=ids)
    image = made(folder, tmp_path / "card.img")
    for row in range(3):
        assert at(image, 2048 + row) == padded(table[row])
    assert at(image, 2051) == padded(B)
    assert at(image, 2048 + 2 * 4) == checked(ids[0], 0)

    new = table + np.array([[0, 0], [7, 7], [0, 0]], np.float32)
    put(image, 2049 + 4, padded(new[1]))
    put(image, 2051 + 4, padded(B))
    check = sum(zlib.crc32(row.tobytes(), number) for number, row in enumerate(new)) % 2**32
    plan = read_plan(folder)
    bits = (False, True, False, True)
    record = Record(2, plan.graph_hash, 1, 3, bits, (check, zlib.crc32(B.tobytes())))
    put(image, RECORD_BLOCKS[1], encode_record(record))
    with CardReader(image) as reader:
        found = weights_on(reader, image, plan)
    assert (found.step, found.fell_back) == (1, False)
    np.testing.assert_array_equal(found.tensors["table"], new)

    put(image, 2049 + 4, padded(new[1] + 1))
    with CardReader(image) as reader:
        found = weights_on(reader, image, plan)
    assert (found.step, found.fell_back) == (0, True)
    np.testing.assert_array_equal(found.tensors["table"], table)
