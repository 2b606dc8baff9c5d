"""Rows of Ray Data as indexed shards."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pyarrow as pa
import pytest

pytest.importorskip("ray")

from dali_pipes.integrations.ray.data_source import DatasetSource
from dali_pipes.integrations.ray.shard_sink import ShardSink
from readers import open_dataset
from readers.prepare.errors import PrepareError
from readers.storage.destination import open_destination
from readers.storage.remote import StorageOptions
from tests.support.remote_data import set_up
from tests.support.s3_server import storage

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")  # of its own settings


def write(sink: ShardSink, blocks: list[list[Any]]) -> None:
    """Do what Ray does: start, write each list of blocks in a task of its own, and end."""
    import ray.cloudpickle

    sink.on_write_start()
    away = ray.cloudpickle.dumps(sink)
    returns = [ray.cloudpickle.loads(away).write(some, None) for some in blocks]
    sink.on_write_complete(SimpleNamespace(write_returns=returns))


def blocks_of(path: Path, tasks: int = 3) -> list[list[Any]]:
    """The blocks of a dataset, task by task."""
    return [list(task()) for task in DatasetSource(open_dataset(path)).get_read_tasks(tasks)]


def told(path: Path) -> dict[str, Any]:
    """What a dataset holds, by key without the shard."""
    return {
        sample.key.partition("/")[2]: (
            sample.label,
            {name: bytes(value) for name, value in sample.fields.items()},
        )
        for sample in open_dataset(path)
    }


def relabelled(block: Any) -> Any:
    """A block with every label three higher."""
    place = block.column_names.index("label")
    labels = [label + 3 for label in block.column("label").to_pylist()]
    return block.set_column(place, "label", pa.array(labels, pa.int64()))


def files(folder: Path) -> dict[str, bytes]:
    """The files of a folder; indexes without their content, which has the time of their shard."""
    return {
        path.name: b"" if path.name.endswith("-index") else path.read_bytes()
        for path in folder.iterdir()
    }


@pytest.mark.parametrize("name", ["train-000000.tar", "captions.tar", "stereo.tar"])
def test_tar_shards_hold_what_the_source_does(data: Path, tmp_path: Path, name: str) -> None:
    """Keys, labels and fields with all their bytes; samples are in order, since shards are named by it."""
    write(ShardSink(tmp_path / "out"), blocks_of(data / name))

    assert told(tmp_path / "out") == told(data / name)
    assert list(told(tmp_path / "out")) == list(told(data / name))


@pytest.mark.parametrize("format", ["tar", "parquet"])
def test_labels_that_were_changed_leave_no_old_ones(
    data: Path, tmp_path: Path, format: Literal["tar", "parquet"]
) -> None:
    """A shard that is written, relabelled and written again has the new labels, and the fields of its source."""
    write(ShardSink(tmp_path / "one", format=format), blocks_of(data / "train-000000.tar"))
    before, blocks = told(tmp_path / "one"), blocks_of(tmp_path / "one")
    for block in (block for some in blocks for block in some):
        assert "image" in block.column_names
    changed = [[relabelled(block) for block in some] for some in blocks]

    write(ShardSink(tmp_path / "two", format=format), changed)

    name = {"tar": "cls", "parquet": "label"}[format]
    assert told(tmp_path / "two") == {
        key: (label + 3, fields | {name: b"%d" % (label + 3)})
        for key, (label, fields) in before.items()
    }


def test_the_class_file_of_other_readers_is_the_label(
    tmp_path: Path, jpeg: Callable[..., bytes]
) -> None:
    """Ray's own reader of WebDataset gives a column ``cls`` and no label."""
    rows = pa.table({"key": ["a"], "image": [jpeg(20, 30)], "cls": [7]})
    write(ShardSink(tmp_path / "out"), [[rows]])

    [sample] = open_dataset(tmp_path / "out")

    assert (sample.label, sorted(sample.fields)) == (7, ["cls", "jpg"])


def test_a_folder_of_classes(data: Path, tmp_path: Path) -> None:
    """Keys lose the ending of a file, which the field has; images stay as they are."""
    write(ShardSink(tmp_path / "out"), blocks_of(data / "photos"))
    before = [
        (sample.key.removesuffix(".jpg"), sample.label, bytes(sample.image or b""))
        for sample in open_dataset(data / "photos")
    ]

    after = [
        (sample.key.partition("/")[2], sample.label, bytes(sample.fields["jpg"]))
        for sample in open_dataset(tmp_path / "out")
    ]

    assert after == before


@pytest.mark.parametrize("format", ["tar", "parquet"])
def test_names_of_classes_are_those_that_were_given(
    data: Path, tmp_path: Path, format: Literal["tar", "parquet"]
) -> None:
    """Rows have numbers alone: the manifest keeps the names, and so does Parquet's schema, as those of a pack."""
    names = open_dataset(data / "photos").class_names
    write(ShardSink(tmp_path / "out", format=format, class_names=names), blocks_of(data / "photos"))

    assert names == ("cat", "dog")
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["class_names"] == [*names]
    if format == "parquet":
        assert open_dataset(tmp_path / "out").class_names == names


def test_parquet_shards_are_read_by_pyarrow(data: Path, tmp_path: Path) -> None:
    """Parquet's own library finds the bytes, keys, labels and texts."""
    import pyarrow.parquet as pq

    write(ShardSink(tmp_path / "out", format="parquet"), blocks_of(data / "captions.tar"))
    paths = sorted((tmp_path / "out").glob("*.parquet"))
    rows = [row for path in paths for row in pq.read_table(path).to_pylist()]

    expected = open_dataset(data / "captions.tar")
    assert [row["image"]["bytes"] for row in rows] == [bytes(one.fields["jpg"]) for one in expected]
    assert [row["txt"] for row in rows] == [bytes(one.fields["txt"]) for one in expected]
    assert [row["key"] for row in rows] == [f"{number:03d}" for number in range(10)]
    assert len(open_dataset(tmp_path / "out")) == 10


def test_the_index_is_beside_its_shard(data: Path, tmp_path: Path) -> None:
    """Readers take it as it is, and do not write another one."""
    write(ShardSink(tmp_path / "out"), blocks_of(data / "photos"))
    before = {path.name: path.stat().st_ino for path in (tmp_path / "out").iterdir()}
    shards = [name for name in before if name.endswith(".tar")]

    open_dataset(tmp_path / "out")

    assert len(shards) == 3
    assert {f"{name}.gpuaug-index" for name in shards} | {*shards, "manifest.json"} == before.keys()
    assert before == {path.name: path.stat().st_ino for path in (tmp_path / "out").iterdir()}


def test_order_and_retries_leave_no_trace(data: Path, tmp_path: Path) -> None:
    """Blocks in any order, and tasks that run twice, make the same files, manifest included."""
    blocks = blocks_of(data / "photos", 5)
    write(ShardSink(tmp_path / "one"), blocks)
    random.Random(1).shuffle(blocks)
    sink = ShardSink(tmp_path / "two")
    sink.on_write_start()
    sink.write(blocks[2], None)
    write(sink, blocks)

    assert files(tmp_path / "two") == files(tmp_path / "one")


def test_large_blocks_become_several_shards(data: Path, tmp_path: Path) -> None:
    """No shard is larger than it may be, and the manifest counts what there is."""
    write(ShardSink(tmp_path / "out", shard_size="60kB"), blocks_of(data / "photos", 1))
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())

    sizes = {path.name: path.stat().st_size for path in (tmp_path / "out").glob("*.tar")}
    assert {one["name"]: one["bytes"] for one in manifest["shards"]} == sizes
    assert len(sizes) > 2
    assert max(sizes.values()) <= 60_000
    assert [one["begin"] for one in manifest["shards"][1:]] == [
        one["end"] for one in manifest["shards"][:-1]
    ]
    assert manifest["shards"][-1]["end"] == 36
    assert manifest["complete"] is True


def test_other_columns_become_fields(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    """Text in UTF-8, numbers as JSON has them, nulls not at all."""
    columns = {
        "key": ["a", "b"],
        "image": [jpeg(20, 30), jpeg(20, 30, seed=1)],
        "caption": ["größer", None],
        "age": [1.5, 2.0],
        "count": [3, 4],
        "is_new": [True, False],
    }
    write(ShardSink(tmp_path / "out"), [[pa.table(columns)]])

    one, two = open_dataset(tmp_path / "out")

    assert [bytes(one.fields[name]) for name in ("caption", "age", "count", "is_new")] == [
        "größer".encode(),
        b"1.5",
        b"3",
        b"true",
    ]
    assert "caption" not in two.fields
    assert (one.label, bytes(one.fields["jpg"])) == (-1, columns["image"][0])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"image": [b"?"]}, r"need a column 'key' and have image: rename"),
        ({"key": [None]}, r"the key of a row is None"),
        ({"key": ["a"], "image": [b"no image"]}, r"row a cannot be written \(not an image"),
        ({"key": ["a"], "label": [[1.0, 0.0]]}, r"label of row a is .*class numbers"),
        ({"key": ["a"], "label": ["dog"]}, r"label of row a is the text 'dog', .* an integer"),
        ({"key": ["a"], "numbers": [[1, 2]]}, r"column numbers of row a holds .*encode it"),
    ],
)
def test_what_no_shard_holds_is_refused(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    """The row, the column and what to do are named, and no shard is left."""
    sink = ShardSink(tmp_path / "out")
    sink.on_write_start()

    with pytest.raises(PrepareError, match=message):
        sink.write([pa.table(columns)], None)

    assert [path.name for path in (tmp_path / "out").iterdir()] == ["manifest.json"]


def test_equal_blocks_are_refused(data: Path, tmp_path: Path) -> None:
    """They would be one shard, and half of the samples would be missing without a word."""
    blocks = blocks_of(data / "photos", 2)

    with pytest.raises(PrepareError, match=r"two blocks hold the same rows"):
        write(ShardSink(tmp_path / "out"), [*blocks, blocks[0]])


def test_folders_that_hold_something_are_refused(data: Path, tmp_path: Path) -> None:
    """Other files, a finished write, one of other settings; one that was broken off is gone on with."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    write(ShardSink(tmp_path / "done"), blocks_of(data / "more"))
    ShardSink(tmp_path / "begun").on_write_start()
    ShardSink(tmp_path / "begun").on_write_start()

    for name, message in [
        ("other", r"holds something else \(thesis\.tex\): give a new"),
        ("done", r"holds a finished write"),
        ("begun", r"holds a write of other settings"),
    ]:
        with pytest.raises(PrepareError, match=message):
            ShardSink(tmp_path / name, format="parquet").on_write_start()


def test_a_write_that_is_refused_removes_nothing(data: Path, tmp_path: Path) -> None:
    """Shards of another write, which may be under way, stay."""
    before = ShardSink(tmp_path / "out")
    before.on_write_start()
    before.write(blocks_of(data / "more")[0], None)
    shards, other = files(tmp_path / "out"), ShardSink(tmp_path / "out", shard_size="1MB")

    with pytest.raises(PrepareError, match=r"holds a write of other settings") as refused:
        other.on_write_start()
    with pytest.raises(PrepareError, match=r"holds a write of other settings"):
        other.on_write_failed(refused.value)

    assert files(tmp_path / "out") == shards


def test_what_attempts_left_behind_is_removed(data: Path, tmp_path: Path) -> None:
    """Shards that no task reported, with their indexes."""
    sink = ShardSink(tmp_path / "out")
    sink.on_write_start()
    sink.write(blocks_of(data / "more")[0], None)

    write(sink, blocks_of(data / "photos", 1))

    assert len(open_dataset(tmp_path / "out")) == 36
    assert len([*(tmp_path / "out").iterdir()]) == 3


def test_a_write_that_fails_leaves_no_shard(data: Path, tmp_path: Path) -> None:
    """The manifest says that nothing is complete, and the same write can be run again."""
    sink = ShardSink(tmp_path / "out")
    sink.on_write_start()
    sink.write(blocks_of(data / "photos")[0], None)

    sink.on_write_failed(RuntimeError("a task died"))

    assert [path.name for path in (tmp_path / "out").iterdir()] == ["manifest.json"]
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["complete"] is False
    write(sink, blocks_of(data / "photos"))
    assert len(open_dataset(tmp_path / "out")) == 36


@pytest.mark.long
def test_through_a_cluster_and_back(
    ray_data: Any, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without a kept order the files are the same, and hold what the source does; paths may be relative."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(data)
    for keep in (True, False):
        ray_data.DataContext.get_current().execution_options.preserve_order = keep
        source = DatasetSource(open_dataset("data/captions.tar"))
        rows = ray_data.read_datasource(source, override_num_blocks=4)
        rows.write_datasink(ShardSink(str(keep)))

    assert told(tmp_path / "True") == told(data / "captions.tar")
    assert files(tmp_path / "True") == files(tmp_path / "False")
    assert len([*(tmp_path / "True").glob("*.tar")]) == 4


@pytest.mark.long
def test_a_worker_dies_while_it_writes(ray_data: Any, data: Path, tmp_path: Path) -> None:
    """A task whose process ends behind its shards runs again; what is there in the end is what ever was to be."""
    write(ShardSink(tmp_path / "whole", shard_size="60kB"), blocks_of(data / "photos", 4))
    died = tmp_path / "died"

    class Dying(ShardSink):
        def write(self, blocks: Any, ctx: Any) -> list[dict[str, Any]]:
            found = super().write(blocks, ctx)
            if not died.exists():
                died.touch()
                os._exit(1)
            return found

    source = DatasetSource(open_dataset(data / "photos"))
    ray_data.read_datasource(source, override_num_blocks=4).write_datasink(
        Dying(tmp_path / "out", shard_size="60kB")
    )

    assert died.exists()
    assert files(tmp_path / "out") == files(tmp_path / "whole")


@pytest.mark.long
def test_a_bad_row_ends_the_write_on_a_cluster(ray_data: Any, data: Path, tmp_path: Path) -> None:
    """The sentence is the error itself, without Ray's stacks, and no shard is left."""
    rows = ray_data.read_datasource(DatasetSource(open_dataset(data / "photos")))
    rows = rows.map(lambda row: row | {"image": b"" if row["index"] == 5 else row["image"]})

    with pytest.raises(PrepareError, match=r"^row cat/005 cannot be written .* or mend it$"):
        rows.write_datasink(ShardSink(tmp_path / "out"))

    assert not [*(tmp_path / "out").glob("*.tar")]


def test_videos_stay_as_they_are(data: Path, tmp_path: Path) -> None:
    """A video goes through, byte for byte."""
    write(ShardSink(tmp_path / "out"), blocks_of(data / "videos"))
    before = [*open_dataset(data / "videos")]

    after = [*open_dataset(tmp_path / "out")]

    assert [bytes(one.video or b"") for one in after] == [bytes(one.video or b"") for one in before]


@pytest.mark.long
def test_shards_in_an_object_store(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards, indexes and manifest are those of a folder; what was left is removed, and what is finished is kept."""
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    pytest.importorskip("flask")
    set_up(monkeypatch, tmp_path)
    write(ShardSink(tmp_path / "out"), blocks_of(data / "captions.tar"))
    with storage("moto") as server:
        server.put("photos")
        options = StorageOptions(endpoint=server.url)
        sink = ShardSink("s3://photos/shards", storage=options)
        sink.on_write_start()
        sink.write(blocks_of(data / "more")[0], None)
        write(sink, blocks_of(data / "captions.tar"))
        there = open_destination("s3://photos/shards", options)
        found = {
            name: b"" if name.endswith("-index") else there.read(name) for name in there.names()
        }
        back = list(open_dataset("s3://photos/shards/", endpoint=server.url))
        with pytest.raises(PrepareError, match=r"s3://photos/shards holds a finished write"):
            sink.on_write_start()

    assert found == files(tmp_path / "out")
    assert [bytes(one.fields["jpg"]) for one in back] == [
        bytes(one.fields["jpg"]) for one in open_dataset(data / "captions.tar")
    ]
