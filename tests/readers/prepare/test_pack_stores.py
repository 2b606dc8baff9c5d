"""Packing into an object store and out of one gives the bytes of a pack on a disk."""

from pathlib import Path

import pytest

from readers import open_dataset
from readers.prepare import PrepareError, load_plan, make_shard, merge, pack, plan_shards
from readers.storage.destination import Destination, open_destination
from readers.storage.remote import StorageOptions
from tests.support.commands import Run
from tests.support.killed_pack import OPTIONS as KILLED
from tests.support.killed_pack import pack_and_kill
from tests.support.remote_data import assert_same_samples
from tests.support.s3_server import Storage

OPTIONS = ["--shard-size", "30kB", "--shuffle", "3", "--workers", "2"]


@pytest.fixture
def named(s3: Storage, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """S3, which the environment names."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    return s3


def content(place: Destination) -> dict[str, bytes | None]:
    """All that a reader or a further run sees; local indexes hold times."""
    return {name: place.read(name) for name in place.names() if not name.endswith("-index")}


@pytest.mark.parametrize("format", ["tar", "parquet"])
def test_a_store_gets_what_a_folder_gets(
    run: Run, named: Storage, source: Path, tmp_path: Path, format: str
) -> None:
    """Shards, manifest and plan, byte for byte; a second run writes nothing; both hold the same samples."""
    options = [*OPTIONS, "--format", format]
    near = open_destination(tmp_path / "near")
    far = open_destination(f"s3://bucket/folder-{format}")
    run("pack", source, near.location, *options)
    code, printed, _ = run("pack", source, far.location, *options)
    assert (code, "24 samples in" in printed) == (0, True)
    assert content(far) == content(near)
    named.count()
    assert run("pack", source, far.location, *options)[0] == 0
    assert "writes" not in named.count()
    there, here = open_dataset(f"{far.location}/"), open_dataset(near.location)
    assert there.fingerprint == here.fingerprint
    assert there.class_names == here.class_names == open_dataset(source).class_names
    assert_same_samples(there, here)


@pytest.mark.parametrize(
    "place",
    [
        "readers.prepare.tar_shards:_pieces:7",  # within a shard
        *(
            pytest.param(place, marks=pytest.mark.long)
            for place in (
                "readers.storage.destination.remote:RemoteDestination.create:2",  # before the plan is there
                "readers.storage.destination.indexes:_put_index:1",  # behind a shard, before its index
                "readers.prepare.shards.making:note_shard:2",  # before its entry
                "readers.prepare.shards.merging:_refuse_empty:1",  # in the middle of the manifest
            )
        ),
    ],
)
@pytest.mark.usefixtures("named")
def test_a_killed_run_goes_on(source: Path, tmp_path: Path, place: str) -> None:
    """After kill -9 no half shard is there, and a second run gives what one run would have given."""
    whole = open_destination(tmp_path / "whole")
    far = open_destination(f"s3://bucket/killed-{place.rpartition(':')[0].replace(':', '-')}")
    pack(str(source), whole.location, **KILLED)
    pack_and_kill(place, source, far.location)
    assert content(far).items() <= content(whole).items()
    pack(str(source), far.location, **KILLED)
    assert content(far) == content(whole)
    shards = [name for name in far.names() if name.endswith(".tar")]
    assert all(far.size_bytes(f"{name}.gpuaug-index") for name in shards)


def test_the_options_of_a_store_are_given(s3: Storage, source: Path, tmp_path: Path) -> None:
    """The plan alone is enough to merge, and the shards are packed again from the store."""
    location, options = "s3://bucket/given", {"endpoint": s3.url, "cache_bytes": 0}
    reached = StorageOptions(**options)
    pack(str(source), tmp_path / "near", shard_size="30kB")
    make_shard(plan_shards(str(source), location, bytes_per_shard=30_000, storage=reached), 1)
    with pytest.raises(
        PrepareError, match=rf"7 of 8 shards are missing in {location} \(number 0, 2"
    ):
        merge(load_plan(location, reached))
    packed = pack(str(source), location, shard_size="30kB", storage=reached)

    assert pack(str(source), location, shard_size="30kB", storage=reached) == packed
    far, near = open_destination(location, reached), open_destination(tmp_path / "near")
    assert content(far) == content(near)
    indexes = [name for name in far.names() if name.endswith(".gpuaug-index")]
    assert (len(indexes), len(open_dataset(f"{location}/", **options))) == (packed.num_shards, 24)
    pack(f"{location}/", tmp_path / "back", **options)
    pack(str(tmp_path / "near"), tmp_path / "back_from_folder")
    one, other = (tmp_path / name / "shard-000000.tar" for name in ("back", "back_from_folder"))
    assert one.read_bytes() == other.read_bytes()


def test_a_store_that_fails_in_between(named: Storage, source: Path, tmp_path: Path) -> None:
    """It refuses from some write on: one sentence, and the same call goes on when it takes writes again."""
    near, far = open_destination(tmp_path / "near"), open_destination("s3://bucket/refusing")
    pack(str(source), near.location, shard_size="30kB")
    named.faults(writes=[""] * 5 + ["403"])
    told = (
        "s3://bucket/refusing/.* cannot be written .*give the account leave to write to the bucket"
    )
    with pytest.raises(PrepareError, match=told):
        pack(str(source), far.location, shard_size="30kB")
    named.faults()
    assert 2 < len(content(far)) < len(content(near))
    assert content(far).items() <= content(near).items()
    pack(str(source), far.location, shard_size="30kB")
    assert content(far) == content(near)


def test_what_cannot_be_a_destination(run: Run, named: Storage, source: Path) -> None:
    """No bucket, an HTTP server, and a prefix that holds something else: refused before anything is written."""
    named.put("bucket/other/file.txt", b"x")
    named.count()
    for location, told in (
        ("s3://nobody/shards", "there is no such bucket"),
        ("https://host/shards", "HTTP servers take no files"),
        ("s3://bucket/other", "holds files and no manifest.json"),
    ):
        code, _, printed = run("pack", source, location)
        assert code == 2
        assert told in " ".join(printed.split())
    assert "writes" not in named.count()
