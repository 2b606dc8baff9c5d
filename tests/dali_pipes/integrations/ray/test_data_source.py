"""Datasets as a source of Ray Data."""

import pickle
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray")

from dali_pipes import BadSampleError, Clips, ClusterError, LoaderError
from dali_pipes.integrations.ray.columns import named_fields
from dali_pipes.integrations.ray.data_source import DatasetSource
from readers import IndexedDataset, Mixture, Sample, open_dataset
from tests.readers.formats.test_formats import WRITERS, made, samples  # noqa: F401  # fixtures

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")  # of its own settings


def expected(dataset: IndexedDataset) -> list[dict[str, Any]]:
    """The rows of a dataset, made of what it fetches itself."""
    rows = []
    for sample in dataset.fetch(range(len(dataset))):
        assert isinstance(sample, Sample)
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

    assert with_files(one) == expected(dataset)
    assert many == one


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


def test_blocks_are_bounded_in_bytes(data: Path) -> None:
    """A block ends with the sample that makes it as large as the context says."""
    dataset = open_dataset(data / "photos")
    limit = int(dataset.column("num_bytes")[:5].sum())
    context = SimpleNamespace(target_max_block_size=limit)

    [task] = DatasetSource(dataset).get_read_tasks(1, data_context=context)
    sizes = [[len(image) for image in block.column("image").to_pylist()] for block in task()]

    assert sum(map(len, sizes)) == len(dataset)
    assert all(sum(block[:-1]) < limit for block in sizes)
    assert all(sum(block) >= limit for block in sizes[:-1])


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
    assert found[0].num_rows == 1
    assert sum(one.num_rows for one in found) == 20


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
    import tarfile

    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for number in range(100):
            for ending in ("jpg", "id", *(["txt"] if number == 55 else [])):
                archive.addfile(tarfile.TarInfo(f"{number:03d}.{ending}"))
    dataset = open_dataset(tmp_path / "a.tar")

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


@pytest.mark.long
def test_through_a_cluster(ray_data: Any, data: Path) -> None:
    """With and without a kept order, and counted: the same rows."""
    dataset = open_dataset(data / "captions.tar")
    wanted = expected(dataset)
    found = {}
    for keep in (True, False):
        ray_data.DataContext.get_current().execution_options.preserve_order = keep
        rows = ray_data.read_datasource(DatasetSource(dataset), override_num_blocks=4).take_all()
        found[keep] = with_files(rows)

    assert found[True] == wanted
    assert sorted(found[False], key=lambda row: row["index"]) == wanted


@pytest.mark.long
@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_every_format(
    writer: ModuleType,
    made: Callable[[ModuleType], Any],  # noqa: F811
    ray_data: Any,
) -> None:
    """On a cluster, rows are what the dataset fetches in this process."""
    dataset = open_dataset(made(writer), **getattr(writer, "OPTIONS", {}))
    ray_data.DataContext.get_current().execution_options.preserve_order = True

    rows = ray_data.read_datasource(DatasetSource(dataset), override_num_blocks=2).take_all()

    assert with_files(rows) == expected(dataset)
