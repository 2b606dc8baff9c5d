"""Ray Data: datasets as its source, rows as indexed shards, and the pixels of a Loader in between."""

import json
import os
import pickle
import random
import runpy
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

from dali_pipes import BadSampleError, Clips, ClusterError, LoaderError
from dali_pipes.integrations.ray.cluster import connect
from dali_pipes.integrations.ray.data_source import DatasetSource
from dali_pipes.integrations.ray.rows import named_fields
from dali_pipes.integrations.ray.shard_sink import ShardSink
from readers import IndexedDataset, Mixture, Sample, open_dataset
from readers.prepare.errors import PrepareError
from tests.readers.formats.test_formats import WRITERS, made, samples  # noqa: F401  # fixtures
from tests.support.tars import write_samples

pytest.importorskip("ray")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")  # of its own settings


def expected(dataset: IndexedDataset) -> list[dict[str, Any]]:
    """The rows of a dataset, made of what it fetches itself."""
    rows = []
    for sample in dataset.fetch(range(len(dataset))):
        label = sample.label.tolist() if isinstance(sample.label, np.ndarray) else sample.label
        told = ("cls", str(label).encode()), ("label", str(label).encode())  # once is enough
        files = [bytes(data) for name, data in sample.fields.items() if (name, data) not in told]
        rows.append(
            {"key": sample.key, "index": sample.index, "label": None if label == -1 else label}
            | {"files": sorted(files)}
        )
    return rows


def with_files(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a source, with what they hold besides key, index and label in a list."""
    told = ("key", "index", "label")
    return [
        {name: row[name] for name in told}
        | {
            "files": sorted(
                value for name, value in row.items() if name not in told and value is not None
            )
        }
        for row in rows
    ]


def local_rows(source: DatasetSource, tasks: int = 3, **options: Any) -> list[dict[str, Any]]:
    """What the read tasks give, each in a pickle of its own, without a cluster."""
    import ray.cloudpickle

    found = []
    for task in source.get_read_tasks(tasks, **options):
        for block in pickle.loads(ray.cloudpickle.dumps(task))():
            assert block.schema == source.schema
            found += block.to_pylist()
    return found


@pytest.mark.parametrize("name", ["photos", "captions.tar", "stereo.tar", "bands.tar", "videos"])
def test_rows_are_the_samples(data: Path, name: str) -> None:
    """Keys, indices, labels and the bytes of all fields, in order, whatever the number of tasks."""
    dataset = open_dataset(data / name)
    source = DatasetSource(dataset)

    one, many = local_rows(source, 1), local_rows(source, 7)

    assert (with_files(one), many) == (expected(dataset), one)


def test_columns_have_plain_names(data: Path) -> None:
    """Image and video are called so; several images keep their names, as other fields do."""
    found = {
        name: DatasetSource(open_dataset(data / name)).schema.names[3:]
        for name in ("photos", "videos", "captions.tar", "stereo.tar", "data.parquet")
    }

    assert found == {
        "photos": ["image"],
        "videos": ["video"],
        "captions.tar": ["image", "txt", "json", "age", "npy"],
        "stereo.tar": ["left.png", "right.png", "depth.png", "flow.flo"],
        "data.parquet": ["image", "class"],
    }


def test_fields_called_as_columns_are_kept_apart() -> None:
    """A column has one meaning: a field "label" is none of them."""
    sample = Sample(0, "a", {"jpg": b"image", "label": b"3", "image": b"?"})

    assert named_fields(sample, has_main=True) == {
        "image": b"image",
        "label.bin": b"3",
        "image.bin": b"?",
    }


def test_selections_clips_and_mixtures(data: Path) -> None:
    """Anything with indices is a source; rows are those of its own `fetch`."""
    photos = open_dataset(data / "photos")
    mixture = Mixture([photos.where("label == 'cat'"), open_dataset(data / "more")], [1, 1])
    vectors = photos.take(4).with_labels(np.eye(4, dtype=np.float32))
    clips = Clips(open_dataset(data / "videos"), num_frames=4, stride=2)

    for dataset in (photos.split(0.5, 0.5)[1], mixture, vectors, clips):
        assert with_files(local_rows(DatasetSource(dataset))) == expected(dataset)


def test_a_stream_is_refused(data: Path) -> None:
    """It has no indices; the error says what to do."""
    stream: Any = open_dataset(data / "train-000000.tar", format="stream")

    with pytest.raises(LoaderError, match=r"TarStream.*gpu-aug pack"):
        DatasetSource(stream)


def test_tables_are_bounded_in_bytes(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are fetched as they are needed, and no table is much larger than the samples of one fetch."""
    dataset = open_dataset(data / "photos")
    limit = int(dataset.column("num_bytes")[:5].sum())
    monkeypatch.setattr(sys.modules[DatasetSource.__module__], "_TABLE_BYTES", limit)

    [task] = DatasetSource(dataset).get_read_tasks(1)
    sizes = [sum(map(len, block.column("image").to_pylist())) for block in task()]

    assert sum(sizes) == dataset.column("num_bytes").sum()
    assert len(sizes) > 5
    assert max(sizes) < 1.5 * limit


@pytest.mark.long
def test_blocks_are_bounded_in_bytes(ray_data: Any, data: Path) -> None:
    """Ray Data divides what a task returns into blocks of the size in its context."""
    context = ray_data.DataContext.get_current()
    before, dataset = context.target_max_block_size, open_dataset(data / "photos")
    context.target_max_block_size = limit = int(dataset.column("num_bytes")[:5].sum())
    try:
        rows = ray_data.read_datasource(DatasetSource(dataset), override_num_blocks=1)
        sizes = [bundle.size_bytes() for bundle in rows.iter_internal_ref_bundles()]
    finally:
        context.target_max_block_size = before

    assert len(sizes) > 3
    assert max(sizes) < 2 * limit


def test_a_limit_of_rows_is_kept(data: Path, tmp_path: Path) -> None:
    """Ray hands down how many rows it wants of a task; what lies behind them is not read, so it may be bad."""
    shutil.copytree(data / "more", tmp_path / "more")
    source = DatasetSource(open_dataset(tmp_path / "more"))
    (tmp_path / "more" / "cat" / "003.jpg").unlink()

    [one, two] = [local_rows(source, 1, per_task_row_limit=limit) for limit in (1, 3)]

    assert [[row["index"] for row in rows] for rows in (one, two)] == [[0], [0, 1, 2]]


def test_tasks_hold_about_as_many_bytes(tmp_path: Path) -> None:
    """One large sample does not weigh on its neighbours, and what was estimated is what there is."""
    for number in range(20):
        (tmp_path / f"{number:02d}.jpg").write_bytes(bytes(100_000 if number == 0 else 1000))
    source = DatasetSource(open_dataset(tmp_path))

    found = [task.metadata for task in source.get_read_tasks(4)]

    assert source.estimate_inmemory_data_size() == sum(one.size_bytes for one in found) == 119_000
    assert (found[0].num_rows, sum(one.num_rows for one in found)) == (1, 20)


def test_a_bad_sample_ends_the_read_or_is_left_out(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The error names machine, sample and reason; with "skip" the others come, and a warning names it."""
    shutil.copytree(data / "more", tmp_path / "more")
    dataset = open_dataset(tmp_path / "more")
    sources = [DatasetSource(dataset), DatasetSource(dataset, on_bad_sample="skip")]
    (tmp_path / "more" / "cat" / "003.jpg").unlink()

    with pytest.raises(
        BadSampleError, match=r"the worker on \S+ cannot read sample 3 \(cat/003\.jpg\)"
    ):
        local_rows(sources[0])
    rows = local_rows(sources[1])

    assert [row["index"] for row in rows] == [0, 1, 2, *range(4, 12)]
    assert "skipped 1 of the samples 0 to" in caplog.text
    assert "cat/003.jpg" in caplog.text


def test_a_worker_that_cannot_open_the_data_says_so(data: Path, tmp_path: Path) -> None:
    """Its name, the data and the path stand in the error."""
    shutil.copy(data / "train-000000.tar", tmp_path / "here.tar")
    [task] = DatasetSource(open_dataset(tmp_path / "here.tar")).get_read_tasks(1)
    (tmp_path / "here.tar").unlink()

    with pytest.raises(
        (ClusterError, BadSampleError), match=r"the worker on \S+ cannot .*here\.tar"
    ):
        list(task())


def test_a_field_that_turns_up_late_is_told(tmp_path: Path) -> None:
    """Columns are the same for all blocks, so one that the first look did not find is an error, not lost."""
    usual = {"jpg": b"", "id": b""}
    tar = {f"{number:03d}": usual | ({"txt": b""} if number == 55 else {}) for number in range(100)}
    dataset = open_dataset(write_samples(tmp_path / "a.tar", tar))

    with pytest.raises(
        LoaderError, match=r"a\.tar/055\) has the field txt.*fields=\['image', 'id', 'txt'\]"
    ):
        local_rows(DatasetSource(dataset))
    rows = local_rows(DatasetSource(dataset, fields=["image", "txt"]))

    assert [row["index"] for row in rows if row["txt"] is not None] == [55]
    assert "cls" not in rows[0]


def test_workers_of_other_versions_refuse(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The versions of the driver go with every task."""
    module = sys.modules["dali_pipes.integrations.ray.data_source"]
    monkeypatch.setattr(module, "versions", lambda: {"numpy": "1.0"})
    [task] = DatasetSource(open_dataset(data / "photos")).get_read_tasks(1)

    with pytest.raises(ClusterError, match=r"instead of 1\.0"):
        list(task())


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
    assert all("image" in block.column_names for some in blocks for block in some)
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

    assert [
        (key, label, fields["jpg"]) for key, (label, fields) in told(tmp_path / "out").items()
    ] == [
        (sample.key.removesuffix(".jpg"), sample.label, bytes(sample.image))
        for sample in open_dataset(data / "photos")
    ]


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

    assert [(row["key"], row["image"]["bytes"], row["txt"]) for row in rows] == [
        (f"{number:03d}", bytes(one.fields["jpg"]), bytes(one.fields["txt"]))
        for number, one in enumerate(open_dataset(data / "captions.tar"))
    ]
    assert len(open_dataset(tmp_path / "out")) == len(rows) == 10


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
    shards = manifest["shards"]
    assert {one["name"]: one["bytes"] for one in shards} == sizes
    assert len(sizes) > 2
    assert max(sizes.values()) <= 60_000
    assert [one["begin"] for one in shards[1:]] == [one["end"] for one in shards[:-1]]
    assert (shards[-1]["end"], manifest["complete"]) == (36, True)


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

    assert (len(open_dataset(tmp_path / "out")), len([*(tmp_path / "out").iterdir()])) == (36, 3)


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

    with pytest.raises(PrepareError, match=r"^row cat/005 cannot be written .* or repair it$"):
        rows.write_datasink(ShardSink(tmp_path / "out"))

    assert not [*(tmp_path / "out").glob("*.tar")]


def test_videos_stay_as_they_are(data: Path, tmp_path: Path) -> None:
    """A video goes through, byte for byte."""
    write(ShardSink(tmp_path / "out"), blocks_of(data / "videos"))
    before, after = (list(open_dataset(place)) for place in (data / "videos", tmp_path / "out"))

    assert [bytes(one.video) for one in after] == [bytes(one.video) for one in before]


EXAMPLES = Path(__file__).resolve().parents[4] / "examples"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of examples/ray_data.py."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports
        found = runpy.run_path(str(EXAMPLES / "ray_data.py"))
    sys.modules.pop("arguments")
    return found


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # Ray's own
def test_the_example(ray_cluster: Any, example: dict[str, Any]) -> None:
    """All 64 photographs that it makes are equal in both runs."""
    connect(ray_cluster.address)

    assert example["main"]([]) == 2 * 64
