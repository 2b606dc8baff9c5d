"""Splits are told apart as Hugging Face's datasets tells them, and never opened as one dataset."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from readers import IndexedDataset, Sample, SourceError, open_dataset
from readers.detect.splits import folder_splits, splits_of
from tests.support.annotated import put
from tests.support.entries import fetch_all
from tests.support.opening import assert_refused, open_with_warning
from tests.support.tars import tar_of

Jpeg = Callable[..., bytes]


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """`datasets.load_dataset`, without a cache of the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hf")))
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield pytest.importorskip("datasets").load_dataset


def fill(root: Path, names: list[str]) -> Path:
    """Write tables of one row, whose id is the file's name."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table({"image": [b"bytes"], "id": [name]}), root / name)
    return root


def ids(dataset: Any) -> list[str]:
    return sorted(bytes(sample.fields["id"]).decode() for sample in fetch_all(dataset))


@pytest.mark.parametrize(
    "names",
    [
        [
            "data/train-00000-of-00002.parquet",
            "data/train-00001-of-00002.parquet",
            "data/test-00000-of-00001.parquet",
        ],
        ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet", "dev.parquet"],
        ["train.parquet", "val_0.parquet", "val_1.parquet", "test.parquet", "latest.parquet"],
        ["my-training.parquet", "my-eval.parquet", "trainset.parquet"],
        ["data/clean-00000-of-00001.parquet", "data/noisy-00000-of-00001.parquet"],
        ["train/a.parquet", "valid/a.parquet", "valid/b.parquet"],
        ["train/test.parquet", "test/train.parquet"],
    ],
)
def test_splits_are_those_of_hugging_face(load: Any, tmp_path: Path, names: list[str]) -> None:
    """Files with and without numbers, in folders of splits or of any name: the rows are those of load_dataset."""
    root = fill(tmp_path / "repository", names)
    expected = {
        split: sorted(row["id"] for row in rows)
        for split, rows in load(str(root), streaming=True).items()
    }

    assert_refused(f"holds the splits {', '.join(expected)}, .*split=", root)
    for split, rows in expected.items():
        assert ids(open_dataset(root, split=split)) == rows


def test_a_star_does_not_join_splits(tmp_path: Path) -> None:
    """A pattern that fits several is refused, the one that the error names works, and a list of patterns joins."""
    names = [f"train-0000{n}-of-00002.parquet" for n in range(2)]
    root = fill(tmp_path, [*names, "test-00000-of-00001.parquet"])

    with pytest.raises(SourceError, match=r"holds the splits train, test") as error:
        open_dataset(root / "*.parquet")
    assert ids(open_dataset(str(error.value).rpartition(" or ")[2])) == names
    assert ids(open_dataset(root / "*.parquet", split="train")) == names
    assert len(open_dataset(root / "{train,test}-*.parquet", split="test")) == 1
    assert len(open_dataset([root / "train-*.parquet", root / "test-*.parquet"])) == 3
    assert_refused("has no split 'val': its splits are train, test", root, split="val")


def write_column(path: Path, jpeg: Jpeg, splits: list[str]) -> Path:
    """Write a table, of the kind that the name ends in, whose rows have labels 0, 1, ... and these splits."""
    count = len(splits)
    if path.suffix in (".parquet", ".arrow"):
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        table = pa.table({"image": [jpeg(9, 9)] * count, "label": range(count), "split": splits})
        if path.suffix == ".parquet":
            pq.write_table(table, path, row_group_size=2)
        else:
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=2)
        return path
    put(path.parent, {f"{number}.jpg": jpeg(9, 9) for number in range(count)})
    rows = [
        {"path": f"{number}.jpg", "label": str(number), "split": split}
        for number, split in enumerate(splits)
    ]
    lines = ["path,label,split", *(",".join(row.values()) for row in rows)]
    path.write_text("\n".join(lines if path.suffix == ".csv" else map(json.dumps, rows)))
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "arrow"])
def test_splits_of_a_column(tmp_path: Path, jpeg: Jpeg, kind: str) -> None:
    """Rows of several splits are refused, with split= those of one are taken, and rows without a split are counted."""

    def made(stem: str, splits: list[str]) -> Path:
        return write_column(tmp_path / f"{stem}.{kind}", jpeg, splits)

    def labels(dataset: IndexedDataset) -> list[int]:
        return dataset.column("label").tolist()

    several = made("several", ["train", "val", "train"])
    assert labels(open_dataset(several, split="train")) == [0, 2]
    assert labels(open_dataset(several, split="validation")) == [1]
    assert_refused("holds the splits train, val, which are never one", several)
    assert_refused("no split 'test': its splits are train, val", several, split="test")
    capitals = made("capitals", ["train", "Train", "val"])
    for split in (None, "train"):
        assert_refused(r"'train' \(1 row\), 'Train' \(1 row\)", capitals, split=split)
    assert labels(open_dataset(capitals, split="val")) == [2]
    empty = made("empty", ["train", "", "train"])
    told = "1 of 3 rows without a split .* "
    assert labels(open_with_warning(told + "read together", empty)) == [0, 1, 2]
    assert labels(open_with_warning(told + "left out", empty, split="train")) == [0, 2]
    for split in (None, "train"):
        whole = open_dataset(made("whole", ["train"] * 3), split=split)
        assert labels(whole) == [0, 1, 2]
        assert type(whole).__name__ != "Subset"  # whose fingerprint is another one
    assert len(open_dataset(made("val", ["train"] * 3), split="val")) == 3


@pytest.mark.parametrize("suffix", [".tar", ".tfrecord", ".tfrecord-00000-of-00001", ""])
def test_shards_of_other_formats(tmp_path: Path, suffix: str) -> None:
    """Also TFRecords as TensorFlow Datasets calls them, beside its own description, and without any ending."""
    tfrecord = pytest.importorskip("tfrecord")
    for split, numbers in itertools.product(("train", "validation"), ("00000", "00001")):
        number = f"-{numbers}-of-00002"
        path = tmp_path / (f"x-{split}{suffix}" if "-of-" in suffix else f"{split}{number}{suffix}")
        if suffix == ".tar":
            path.write_bytes(tar_of([("a.jpg", b"x")]))
            continue
        writer = tfrecord.TFRecordWriter(str(path))
        writer.write({"image": (b"bytes", "byte"), "id": (path.name.encode(), "byte")})
        writer.close()
    (tmp_path / "dataset_info.json").write_text('{"fileFormat": "tfrecord"}')

    assert_refused("holds the splits train, validation", tmp_path)
    assert "validation" in open_dataset(tmp_path, split="val").fetch([0])[0].key


def test_saved_splits(tmp_path: Path) -> None:
    """A DatasetDict as datasets saves it, and shards of MDS in folders of splits."""
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"image": [b"bytes"] * 3, "label": [1, 2, 3]})
    datasets.DatasetDict(train=rows, test=rows.select([2])).save_to_disk(tmp_path / "saved")

    assert len(open_dataset(tmp_path / "saved", split="train")) == 3
    assert open_dataset(tmp_path / "saved", split="test").column("label").tolist() == [3]
    assert_refused(
        "has no split 'dev': its splits are train, test", tmp_path / "saved", split="dev"
    )


def test_folders_of_splits_are_no_classes(tmp_path: Path, jpeg: Jpeg) -> None:
    """Images in train/ and val/, whatever lies beside them: refused, one opened, or said to be classes."""
    names = ("train/cat/a.jpg", "train/dog/a.jpg", "val2017/cat/b.jpg", "annotations/c.jpg")
    put(tmp_path, dict.fromkeys(names, jpeg(9, 8)))

    assert_refused(r"splits train, validation, .*/train; .*format='folder'", tmp_path)
    assert open_dataset(tmp_path, split="train").class_names == ("cat", "dog")
    [sample] = open_dataset(tmp_path, split="val").fetch([0])
    assert (sample.key, type(sample)) == ("cat/b.jpg", Sample)
    assert len(open_dataset(tmp_path, format="folder").class_names) == 3


def test_lists_of_splits(tmp_path: Path, jpeg: Jpeg) -> None:
    """Manifests beside the images of all splits: the images alone would be all of them, without labels."""
    for name, label in (("train", 3), ("test", 4)):
        line = f'{{"file_name": "images/{name}.jpg", "label": {label}}}'
        put(tmp_path, {f"images/{name}.jpg": jpeg(9, 8), f"{name}.jsonl": line})

    assert_refused(r"splits train, test, .*the file .*/train\.jsonl", tmp_path)
    assert open_dataset(tmp_path, split="test").column("label").tolist() == [4]


@pytest.mark.parametrize(
    "names",
    [
        ["car", "train", "bus"],
        ["contrast", "latest"],
        ["train"],
        ["test_tube", "train", "beaker"],
        ["trainset", "testset"],
    ],
)
def test_classes_that_are_no_splits(names: list[str]) -> None:
    """A class may be called train."""
    assert folder_splits(names) == {}


def test_one_file_of_two_splits() -> None:
    """Nothing is told apart where all files are of the same splits."""
    assert splits_of(["train-val-0.tar", "train-val-1.tar"]) == [{"train", "validation"}] * 2


def test_classes_of_a_split_are_those_of_train(tmp_path: Path) -> None:
    """A class that validation lacks moves no number; one that only validation has is refused."""
    names = ("train/ant/1.jpg", "train/bee/1.jpg", "train/cow/1.jpg", "val/cow/1.jpg")
    put(tmp_path, dict.fromkeys(names, b"\xff\xd8"))
    val = open_dataset(tmp_path, split="val")
    match = r"so that their numbers differ: open_dataset\(.*'val'\)"

    assert val.class_names == open_dataset(tmp_path, split="train").class_names
    assert val.class_names == ("ant", "bee", "cow")
    assert [entry.label for entry in val.fetch([0])] == [2]
    assert open_with_warning(match, tmp_path / "val").class_names == ("cow",)
    put(tmp_path, {"val/dog/1.jpg": b"\xff\xd8"})
    assert_refused("has the class 'dog', and the classes are ant, bee, cow", tmp_path, split="val")
