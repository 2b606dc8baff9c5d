"""Lance datasets: one version, whatever others do; blobs; damage; and what is refused."""

import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("lance")

import lance
import pyarrow as pa

from readers import BadSample, SourceError, open_dataset
from readers.formats.lance.dataset import LanceDataset
from tests.readers.formats.conftest import answer_of_a_fork
from tests.support.entries import numbers_of
from tests.support.opening import assert_refused


def table(ids: Sequence[int]) -> Any:
    """Rows whose images are texts of their number."""
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "image": pa.array([b"image %d" % number for number in ids], pa.large_binary()),
            "label": pa.array([number % 3 for number in ids], pa.int64()),
        }
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three versions: rows 0..5 in two fragments, then 6 and 7, then without row 1."""
    made = tmp_path / "images.lance"
    lance.write_dataset(table(range(6)), str(made), max_rows_per_file=3)
    lance.write_dataset(table([6, 7]), str(made), mode="append")
    lance.dataset(str(made)).delete("id = 1")
    return made


@pytest.mark.parametrize("version", [1, 2, 3])
def test_positions_are_those_of_lance(path: Path, version: int) -> None:
    """They count the rows that a version has: the second row is another one after a deletion."""
    dataset = open_dataset(path, version=version)
    own = lance.dataset(str(path), version=version)
    order = [1, 0, 4, 1]

    assert dataset.version == version
    assert numbers_of(dataset) == own.to_table()["id"].to_pylist()
    fetched = [int(bytes(sample.fields["id"])) for sample in dataset.fetch(order)]
    assert (fetched, fetched[0]) == (own.take(order)["id"].to_pylist(), 2 if version == 3 else 1)
    assert dataset.column("label").tolist() == own.to_table()["label"].to_pylist()


def test_an_open_dataset_stays_at_its_version(path: Path) -> None:
    """Rows that are added, deleted and compacted are seen by who opens it then."""
    dataset = open_dataset(path)
    before = dataset.fetch(range(len(dataset)))
    stored = pickle.dumps(dataset)
    lance.write_dataset(table([8]), str(path), mode="append")
    lance.dataset(str(path)).delete("id < 3")
    lance.dataset(str(path)).optimize.compact_files()

    assert dataset.fetch(range(len(dataset))) == before
    again = pickle.loads(stored)
    assert (again.version, again.fingerprint) == (3, dataset.fingerprint)
    assert again.fetch([6]) == before[6:]
    newest = open_dataset(path)
    assert numbers_of(newest) == [3, 4, 5, 6, 7, 8]
    assert newest.fingerprint != dataset.fingerprint
    assert open_dataset(path, version=3).fingerprint == dataset.fingerprint


def test_fingerprints(path: Path) -> None:
    """Each version has its own; a commit that changes no rows changes none, and names of columns count."""
    found = {open_dataset(path, version=version).fingerprint for version in (1, 2, 3)}
    before = open_dataset(path).fingerprint
    lance.dataset(str(path)).create_scalar_index("label", "BTREE")

    assert len(found) == 3
    assert open_dataset(path).version == 4
    assert open_dataset(path).fingerprint == before
    assert open_dataset(path, label="id").fingerprint != before


def test_tags(path: Path) -> None:
    """A version may be named."""
    lance.dataset(str(path)).tags.create("first", 1)
    assert open_dataset(path, version="first").version == 1
    assert_refused(
        "has no version 'second': it has version 1 to 3, and the tags first", path, version="second"
    )


def blob_v1(path: Path, values: list[bytes | None]) -> None:
    mark = {"lance-encoding:blob": "true"}
    schema = pa.schema([pa.field("image", pa.large_binary(), metadata=mark)])
    lance.write_dataset(pa.table({"image": values}, schema), str(path), data_storage_version="2.0")


def blob_v2(path: Path, values: list[bytes | None]) -> None:
    schema = pa.schema([lance.blob_field("image")])
    content = pa.table({"image": lance.blob_array(values)}, schema)
    lance.write_dataset(content, str(path), data_storage_version="2.2")


@pytest.mark.parametrize("write", [blob_v1, blob_v2])
def test_blobs(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that lie apart, small and large, in any order; a null and one that is too large are bad samples."""
    values = [b"a" * 100, b"b" * 90_000, None, b"d"]
    write(tmp_path / "blobs.lance", values)
    dataset = open_dataset(tmp_path / "blobs.lance")
    monkeypatch.setenv("GPU_AUG_MAX_SAMPLE_BYTES", "89999")
    fetched = dataset.fetch([3, 1, 2, 0, 3])

    images = [getattr(one, "image", None) for one in fetched]
    assert images == [b"d", None, None, b"a" * 100, b"d"]
    assert [one.reason.partition(":")[0] for one in fetched if isinstance(one, BadSample)] == [
        "the value would take 90000 bytes of memory, more than 89999",
        "the column 'image' holds no bytes here",
    ]


def test_a_lost_file_takes_its_rows_alone(path: Path) -> None:
    """The rows of its fragment are bad samples, without a path of this machine in what is said."""
    dataset = open_dataset(path, version=1)
    [file] = lance.dataset(str(path)).get_fragments()[1].data_files()
    (path / "data" / file.path).write_bytes(b"")
    fetched = dataset.fetch([5, 0, 3, 2])

    assert [isinstance(one, BadSample) for one in fetched] == [True, False, True, False]
    assert bytes(fetched[1].image) == b"image 0"
    assert all("the row cannot be read" in one.reason for one in fetched[::2])
    assert str(path.parent) not in fetched[0].reason


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_is_refused(path: Path) -> None:
    """The threads of lance stay behind in the parent."""
    dataset = open_dataset(path)

    def is_refused() -> bool:
        assert_refused("spawn", [0], by=dataset.fetch)
        return True

    assert answer_of_a_fork(is_refused)
    assert len(dataset.fetch([0])) == 1


def test_a_dataset_that_was_written_anew(path: Path) -> None:
    """Under the same name and number it is another one."""
    stored = pickle.dumps(open_dataset(path, version=1))
    lance.write_dataset(table([9]), str(path.parent / "other.lance"))
    path.rename(path.parent / "old")
    (path.parent / "other.lance").rename(path)
    with pytest.raises(SourceError, match="has been written anew since it was opened"):
        pickle.loads(stored)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"version": 9}, "has no version 9: it has version 1 to 3"),
        ({"image": "photo"}, "has no column 'photo' for image=: its columns are id, image, label"),
        ({"image": "label"}, "column 'label' of .* holds int64, not the bytes of images"),
        ({"columns": ["x"]}, "has no column 'x' for columns="),
        ({"columns": "image"}, r"write \['image'\]"),
        ({"split": "train"}, "has no split 'train'"),
        ({"decoded_bytes": 1}, "Lance has no option 'decoded_bytes': it has version, image, label"),
    ],
)
def test_refusals(path: Path, options: dict[str, Any], match: str) -> None:
    """What there is not, told with what there is."""
    assert_refused(match, path, **options)


def test_sources_that_are_no_dataset(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder above, one of other data, a renamed column, one without rows, and two formats at once."""
    assert_refused(r"holds images\.lance: give one of these folders", path.parent)
    assert_refused("is no Lance dataset: give the folder", path.parent, by=LanceDataset)
    lance.dataset(str(path)).alter_columns({"path": "image", "name": "picture_of"})
    assert_refused(
        r"has no column 'image' .* its columns are id, picture_of, label", path, image="image"
    )
    lance.dataset(str(path)).delete("true")
    assert_refused("holds no rows at version 5", path)
    (path / "_delta_log").mkdir()
    assert_refused("is laid out as Lance and as Delta table: say format='lance' or", path)
    monkeypatch.setitem(sys.modules, "lance", None)
    assert_refused(r"lance.*pip install 'gpu-aug\[lance\]'", path, format="lance")
