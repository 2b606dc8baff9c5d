"""Shards by plan in an object store, and from one."""

from pathlib import Path

import pytest

pytest.importorskip("obstore")
pytest.importorskip("moto")
pytest.importorskip("flask")

from readers import open_dataset
from readers.prepare import PrepareError, load_plan, make_shard, merge, pack, plan_shards
from readers.storage.destination import open_destination
from readers.storage.remote import StorageOptions
from tests.support.remote_data import set_up
from tests.support.s3_server import storage


def test_a_pack_into_a_store_is_that_into_a_folder(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal bytes, merged by whoever has the plan alone, with indexes beside the shards, and packed again from there."""
    with storage("moto") as server:
        server.put("bucket")
        set_up(monkeypatch, tmp_path)
        reached = StorageOptions(endpoint=server.url, cache_bytes=0)
        pack(str(source), tmp_path / "local", shard_size="30kB")
        place = open_destination("s3://bucket/train", reached)

        plan = plan_shards(
            str(source), "s3://bucket/train", bytes_per_shard=30_000, storage=reached
        )
        make_shard(plan, 1)
        with pytest.raises(PrepareError, match=r"shards of s3://bucket/train are missing \(0, 2"):
            merge(load_plan("s3://bucket/train", reached))
        packed = pack(str(source), "s3://bucket/train", shard_size="30kB", storage=reached)
        again = pack(str(source), "s3://bucket/train", shard_size="30kB", storage=reached)

        assert packed == again
        for path in (tmp_path / "local").iterdir():
            if path.suffix in (".tar", ".json"):
                assert place.read(path.name) == path.read_bytes()
        indexes = [name for name in place.names() if name.endswith(".gpuaug-index")]
        assert len(indexes) == packed.num_shards
        options = {"endpoint": server.url, "cache_bytes": 0}
        assert len(open_dataset("s3://bucket/train/", **options)) == 24
        pack("s3://bucket/train/", tmp_path / "back", **options)
        pack(str(tmp_path / "local"), tmp_path / "back_from_folder")
        name = "shard-000000.tar"
        one, other = (tmp_path / folder / name for folder in ("back", "back_from_folder"))
        assert one.read_bytes() == other.read_bytes()
