"""Checkpoints: whole, read back to the bit, damage recognised, nothing half-written ever taken for one."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.crafted import CRAFTED, Craft, write_secret
from support.small_disk import largest_file

from mpitune.errors import DataError, MachineError, UsageError
from mpitune.learner.weights import NamedWeights, SparseWeights
from mpitune.run_folder import checkpoint as module
from mpitune.run_folder.checkpoint import (
    Checkpoint,
    ShardResult,
    digest,
    latest_valid_checkpoint,
    read_checkpoint,
    read_shard,
    write_checkpoint,
    write_shard,
)
from mpitune.run_folder.layout import checkpoint_path


def vector(seed: int, n: int) -> SparseWeights:
    generator = np.random.default_rng(seed)
    return SparseWeights(np.sort(generator.integers(0, 2**64, n, dtype=np.uint64)), generator.normal(size=n))


def published(seed: int, names: list[str]) -> NamedWeights:
    ids, value, _ = vector(seed, len(names))
    return NamedWeights(ids, names, value)


def unnamed(checkpoint: Checkpoint) -> SparseWeights:
    return SparseWeights(checkpoint.weights.ids, checkpoint.weights.value)


NAMES = ["R:X:NX_letzter_NX:N1_'s_last_N2", "RBS:<r>_größe", "WordPenalty", "Shape_S11000_T11000", "日本"]
PLAIN = Checkpoint(
    epoch=2,
    seed=7,
    job={"learner": {"algorithm": "itersel", "l1": 0.0}, "data": ["nc.de.gz"]},
    metrics={"gold": 0.25, "lambda": None, "busy_seconds": [1.5, 2.0]},
    weights=published(1, NAMES),
    start=vector(2, 4),
)
RESULT = ShardResult(5, vector(3, 6), {"sentences": 25.0, "gold": 6.125})


def same(a: SparseWeights, b: SparseWeights) -> bool:
    pairs = zip((*a[:2], *a.state), (*b[:2], *b.state), strict=True)
    return all(x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in pairs)


@pytest.mark.parametrize(
    "written",
    [
        PLAIN,
        # sgd and mix.
        replace(PLAIN, shards=3, total=vector(7, 9)),
        # Nothing learned at all.
        replace(PLAIN, weights=published(0, []), start=vector(0, 0), job={}, metrics={}),
        # A learner with a state, of some features and of none.
        replace(PLAIN, start=vector(2, 4)._replace(state=(vector(8, 4).value, vector(9, 4).value, np.zeros(4)))),
        replace(PLAIN, start=vector(0, 0)._replace(state=(np.zeros(0),) * 3)),
    ],
)
def test_a_checkpoint_comes_back_to_the_bit(tmp_path: Path, written: Checkpoint) -> None:
    write_checkpoint(tmp_path, written)
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-0002.h5"]
    read = read_checkpoint(checkpoint_path(tmp_path, 2))
    assert (read.epoch, read.seed, read.job, read.metrics) == (2, 7, written.job, written.metrics)
    assert read.job_digest == written.job_digest
    assert read.weights.names == written.weights.names
    assert read.shards == written.shards
    for a, b in [
        (unnamed(read), unnamed(written)),
        (read.start, written.start),
        (read.total, written.total),
    ]:
        assert same(a, b)


@pytest.mark.parametrize("arrays", [0, 1, 3])
def test_a_shard_keeps_what_its_learner_goes_on_with(tmp_path: Path, arrays: int) -> None:
    kept = RESULT.weights._replace(state=tuple(vector(n, 6).value for n in range(arrays)))
    write_shard(tmp_path, 2, "job", replace(RESULT, weights=kept))
    read = read_shard(tmp_path, 2, "job", RESULT.shard)
    assert read is not None and same(read.weights, kept)


def test_opens_with_plain_h5py(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, PLAIN)
    with h5py.File(checkpoint_path(tmp_path, 2)) as file:
        assert file.attrs["version"] == module.VERSION
        assert file.attrs["job_digest"] == PLAIN.job_digest
        assert (file.attrs["epoch"], file.attrs["seed"]) == (2, 7)
        assert file["weights/index"].dtype == np.uint64 and file["weights/value"].dtype == np.float64
        assert list(file["weights/name"].asstr()) == NAMES


def test_opens_with_h5dump(tmp_path: Path) -> None:
    if shutil.which("h5dump") is None:
        pytest.skip("needs h5dump on the PATH")
    write_checkpoint(tmp_path, PLAIN)
    command = ["h5dump", "-d", "weights/name", str(checkpoint_path(tmp_path, 2))]
    assert "Shape_S11000_T11000" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_digest_of_a_job_depends_on_its_values_only() -> None:
    assert digest({"a": 1, "b": {"c": 2.5, "d": []}}) == digest({"b": {"d": [], "c": 2.5}, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


def test_every_damage_is_recognised(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, PLAIN)
    path = checkpoint_path(tmp_path, 2)
    sound = path.read_bytes()
    for place in range(0, len(sound), 97):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 0x10]) + sound[place + 1 :])
        with pytest.raises(DataError, match="epoch-0002.h5: found a damaged or cut file"):
            read_checkpoint(path)
    for length in (0, 1, 511, 512, 513, len(sound) // 2, len(sound) - 1):
        path.write_bytes(sound[:length])
        with pytest.raises(DataError, match="damaged or cut"):
            read_checkpoint(path)
    path.write_bytes(sound + b"\0")
    with pytest.raises(DataError, match="damaged or cut"):
        read_checkpoint(path)
    path.write_bytes(sound)
    assert same(unnamed(read_checkpoint(path)), unnamed(PLAIN))


def hdf5(path: Path, **attributes: object) -> bytes:
    with h5py.File(path, "w") as file:
        file.attrs.update(attributes)
    return path.read_bytes()


def test_a_digest_does_not_vouch_for_the_content(tmp_path: Path) -> None:
    """Files that somebody else has made: not HDF5, cut before the digest, without what a run writes."""
    write_checkpoint(tmp_path, replace(PLAIN, epoch=1))
    path, shard = checkpoint_path(tmp_path, 2), tmp_path / "epoch-0003.shards" / "shard-0005.h5"
    write_checkpoint(tmp_path, PLAIN)
    write_shard(tmp_path, 3, "job", RESULT)
    sound = path.read_bytes()[512:]
    others = (
        hdf5(tmp_path / "a.h5"),
        hdf5(tmp_path / "b.h5", version="x"),
        hdf5(tmp_path / "c.h5", version=module.VERSION),
    )
    for content in (b"", bytes(4096), sound[: len(sound) // 2], *others):
        for file in (path, shard):
            file.write_bytes(module._user_block(hashlib.blake2b(content)) + content)
        with pytest.raises(DataError, match="epoch-0002.h5: found other content than a run writes .*, expected a chec"):
            read_checkpoint(path)
        assert read_shard(tmp_path, 3, "job", 5) is None, "it is learned again"
        found, unsound = latest_valid_checkpoint(tmp_path)
        assert found is not None and (found.epoch, len(unsound)) == (1, 1)


@pytest.mark.parametrize(
    ("version", "told"),
    [
        (6, "made by a newer mpitune (version 6, this one reads 5): update mpitune, or start over with --resume never"),
        (4, "made by an older mpitune (version 4, this one reads 5): go on with that one, or start over with --resume"),
    ],
)
def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, told: str) -> None:
    write_checkpoint(tmp_path, replace(PLAIN, epoch=1))
    monkeypatch.setattr(module, "VERSION", version)
    write_checkpoint(tmp_path, PLAIN)
    write_shard(tmp_path, 3, "job", RESULT)
    monkeypatch.undo()
    for read in (lambda: read_checkpoint(checkpoint_path(tmp_path, 2)), lambda: latest_valid_checkpoint(tmp_path)):
        with pytest.raises(UsageError, match=re.escape(f"epoch-0002.h5: {told}")):
            read()
    assert read_shard(tmp_path, 3, "job", 5) is None, "it is learned again"


def test_newest_sound_goes_back_past_damage(tmp_path: Path) -> None:
    for epoch in (1, 2, 9999, 10000, 10001):
        write_checkpoint(tmp_path, replace(PLAIN, epoch=epoch))
    found, unsound = latest_valid_checkpoint(tmp_path)
    assert found is not None and found.epoch == 10001 and unsound == []
    for epoch in (10001, 10000):
        path = checkpoint_path(tmp_path, epoch)
        path.write_bytes(path.read_bytes()[:-1])
    found, unsound = latest_valid_checkpoint(tmp_path)
    assert found is not None and found.epoch == 9999
    assert [str(error).split(":")[0] for error in unsound] == [
        str(checkpoint_path(tmp_path, e)) for e in (10001, 10000)
    ]


def test_a_checkpoint_of_another_epoch_is_left_out(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, PLAIN)
    shutil.copy(checkpoint_path(tmp_path, 2), checkpoint_path(tmp_path, 5))
    found, unsound = latest_valid_checkpoint(tmp_path)
    assert found is not None and found.epoch == 2
    assert [str(error) for error in unsound] == [
        f"{checkpoint_path(tmp_path, 5)}: found a checkpoint of epoch 2, expected epoch 5"
    ]


def test_only_checkpoints_are_taken_for_checkpoints(tmp_path: Path) -> None:
    assert latest_valid_checkpoint(tmp_path / "absent") == (None, [])
    assert latest_valid_checkpoint(tmp_path) == (None, [])
    write_checkpoint(tmp_path, PLAIN)
    content = checkpoint_path(tmp_path, 2).read_bytes()
    for name in (".epoch-0003.h5.part", "epoch-0003.h5.part", "epoch-0003.h5~", "xepoch-0003.h5", "epoch-3.h5"):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "epoch-0003.shards").mkdir()
    found, unsound = latest_valid_checkpoint(tmp_path)
    assert found is not None and found.epoch == 2 and unsound == []


def test_a_kill_while_writing_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    write_checkpoint(tmp_path, PLAIN)
    for call in ("fsync", "replace"):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(os, call, kill)
            write_checkpoint(tmp_path, replace(PLAIN, epoch=3))
        found, unsound = latest_valid_checkpoint(tmp_path)
        assert found is not None and found.epoch == 2 and unsound == []
    write_checkpoint(tmp_path, replace(PLAIN, epoch=3))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch-0002.h5", "epoch-0003.h5"]


def test_on_disk_before_it_has_its_name_and_the_name_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, os.replace

    def spy_fsync(descriptor: int) -> None:
        calls.append("fsync " + os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def spy_replace(source: Path, target: Path) -> None:
        calls.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "replace", spy_replace)
    write_checkpoint(tmp_path, PLAIN)
    assert calls == ["fsync .epoch-0002.h5.mpitune-part", "rename", f"fsync {tmp_path.name}"]


@pytest.mark.parametrize("size", [0, 100, 3000])
def test_no_room_is_the_machines_error(tmp_path: Path, size: int) -> None:
    with pytest.raises(MachineError, match="epoch-0002.h5: cannot be written: File too large"), largest_file(size):
        write_checkpoint(tmp_path, PLAIN)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_the_machines_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MachineError, match="No space left on device"):
        write_shard(tmp_path, 3, "job", RESULT)
    assert read_shard(tmp_path, 3, "job", 5) is None


def test_a_file_in_the_way_is_the_machines_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="cannot be written"):
        write_checkpoint(tmp_path / "file", PLAIN)
    checkpoint_path(tmp_path, 4).mkdir()
    with pytest.raises(MachineError, match="found a folder, expected a readable file"):
        latest_valid_checkpoint(tmp_path)
    checkpoint_path(tmp_path, 7).symlink_to("/dev/zero")
    with pytest.raises(MachineError, match="epoch-0007.h5: found a pipe or a device"):
        latest_valid_checkpoint(tmp_path)


def test_a_shard_comes_back_to_the_bit(tmp_path: Path) -> None:
    write_shard(tmp_path, 3, "job", RESULT)
    assert (tmp_path / "epoch-0003.shards" / "shard-0005.h5").is_file()
    read = read_shard(tmp_path, 3, "job", 5)
    assert read is not None and read.shard == 5
    assert same(read.weights, RESULT.weights)
    assert read.statistics == RESULT.statistics and list(read.statistics) == list(RESULT.statistics)
    empty = ShardResult(6, vector(0, 0), {})
    write_shard(tmp_path, 3, "job", empty)
    read = read_shard(tmp_path, 3, "job", 6)
    assert read is not None and len(read.weights.ids) == 0 and read.statistics == {}


def test_a_shard_that_does_not_fit_is_redone(tmp_path: Path) -> None:
    write_shard(tmp_path, 3, "job", RESULT)
    assert read_shard(tmp_path, 3, "another job", 5) is None
    assert read_shard(tmp_path, 3, "job", 4) is None
    assert read_shard(tmp_path, 4, "job", 5) is None
    path = tmp_path / "epoch-0003.shards" / "shard-0005.h5"
    path.rename(path.with_name("shard-0004.h5"))
    assert read_shard(tmp_path, 3, "job", 4) is None
    write_shard(tmp_path, 3, "job", RESULT)
    path.write_bytes(path.read_bytes()[:-1])
    assert read_shard(tmp_path, 3, "job", 5) is None


def test_a_checkpoint_removes_the_shards_that_it_supersedes(tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        write_shard(tmp_path, epoch, "job", RESULT)
    write_checkpoint(tmp_path, PLAIN)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch-0002.h5", "epoch-0003.shards"]


def test_shards_that_belong_to_a_checkpoint_are_kept_for_two_epochs(tmp_path: Path) -> None:
    for epoch in (1, 2, 3, 4):
        write_shard(tmp_path, epoch, "job", RESULT)
    write_checkpoint(tmp_path, replace(PLAIN, epoch=3, shards=8))
    assert {path.name for path in tmp_path.iterdir()} == {"epoch-0003.h5"} | {
        f"epoch-000{epoch}.shards" for epoch in (2, 3, 4)
    }


def test_a_checkpoint_is_not_whole_without_its_shards(tmp_path: Path) -> None:
    for epoch in (2, 3):
        checkpoint = replace(PLAIN, epoch=epoch, shards=2)
        for shard in (0, 1):
            write_shard(tmp_path, epoch, checkpoint.job_digest, replace(RESULT, shard=shard))
        write_checkpoint(tmp_path, checkpoint)
    found, unsound = latest_valid_checkpoint(tmp_path)
    assert found is not None and (found.epoch, unsound) == (3, [])
    path = tmp_path / "epoch-0003.shards" / "shard-0001.h5"
    path.write_bytes(path.read_bytes()[:-1])
    found, unsound = latest_valid_checkpoint(tmp_path)
    assert found is not None and found.epoch == 2
    assert [str(error) for error in unsound] == [
        f"{checkpoint_path(tmp_path, 3)}: found no sound result of shard 1 beside it, expected those of 2 shards"
    ]


def test_a_checkpoint_that_fails_keeps_the_shards(tmp_path: Path) -> None:
    write_shard(tmp_path, 2, "job", RESULT)
    with pytest.raises(MachineError), largest_file(100):
        write_checkpoint(tmp_path, PLAIN)
    assert read_shard(tmp_path, 2, "job", 5) is not None


@pytest.mark.parametrize("craft", CRAFTED)
def test_only_bytes_of_the_checkpoint_itself_are_read(tmp_path: Path, craft: Craft) -> None:
    write_checkpoint(tmp_path, PLAIN)
    path = checkpoint_path(tmp_path, PLAIN.epoch)
    with h5py.File(path, "r+") as file:
        del file["weights/name"]
        craft(file, "weights/name", write_secret(tmp_path))
    content = path.read_bytes()[module._USER_BLOCK :]
    path.write_bytes(module._user_block(hashlib.blake2b(content)) + content)
    expected = "weights/name.* is (a link|stored in other files|not stored in full), expected arrays in the file itself"
    with pytest.raises(DataError, match=expected):
        read_checkpoint(path)


@pytest.mark.parametrize("shards", [0, 4])
def test_passes_of_the_dense_start_go_with_the_first_checkpoint(tmp_path: Path, shards: int) -> None:
    """Also with algorithms 1 and 2, whose shards (here 4) go on from the results of the epoch before."""
    passes = tmp_path / "epoch-0000.shards"
    passes.mkdir()
    write_checkpoint(tmp_path, replace(PLAIN, epoch=1, shards=shards))
    assert not passes.exists()
