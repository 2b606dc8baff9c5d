"""Splits are told apart as Hugging Face's datasets tells them, and never opened as one dataset."""

import io
import itertools
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from readers import IndexedDataset, Sample, SourceError, open_dataset
from readers.formats.splits import folder_splits, splits_of
from tests.support.opening import assert_refused, open_with_warning

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
    return sorted(
        bytes(sample.fields["id"]).decode() for sample in dataset.fetch(range(len(dataset)))
    )


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


def write_tar(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo("a.jpg")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "arrow"])
def test_splits_of_a_column(tmp_path: Path, jpeg: Jpeg, kind: str) -> None:
    """Rows of several splits are refused, with split= those of one are taken, and rows without a split are counted."""

    def made(told: list[str]) -> Path:
        for number in range(len(told)):
            (tmp_path / f"{number}.jpg").write_bytes(jpeg(9, 9))
        rows = [
            {"path": f"{number}.jpg", "label": str(number), "split": value}
            for number, value in enumerate(told)
        ]
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.{kind}"
        if kind in ("parquet", "arrow"):
            pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            made = {"image": [jpeg(9, 9)] * len(told), "label": range(len(told)), "split": told}
            if kind == "parquet":
                pq.write_table(pa.table(made), path, row_group_size=2)
            else:
                with pa.ipc.new_file(path, pa.table(made).schema) as writer:
                    writer.write_table(pa.table(made), max_chunksize=2)
        elif kind == "csv":
            path.write_text(
                "\n".join(["path,label,split", *(",".join(row.values()) for row in rows)])
            )
        else:
            path.write_text("\n".join(map(json.dumps, rows)))
        return path

    def labels(dataset: IndexedDataset) -> list[int]:
        return dataset.column("label").tolist()

    several = made(["train", "val", "train"])
    assert_refused("holds the splits train, val, which are never one", several)
    assert labels(open_dataset(several, split="train")) == [0, 2]
    assert labels(open_dataset(several, split="validation")) == [1]
    assert_refused("no split 'test': its splits are train, val", several, split="test")
    capitals = made(["train", "Train", "val"])
    for split in (None, "train"):
        assert_refused(r"'train' \(1 row\), 'Train' \(1 row\)", capitals, split=split)
    assert labels(open_dataset(capitals, split="val")) == [2]
    empty = made(["train", "", "train"])
    assert labels(open_with_warning("1 of 3 rows without a split .* read together", empty)) == [
        0,
        1,
        2,
    ]
    assert labels(
        open_with_warning("1 of 3 rows without a split .* left out", empty, split="train")
    ) == [0, 2]
    for split in (None, "train"):
        whole = open_dataset(made(["train"] * 3), split=split)
        assert labels(whole) == [0, 1, 2]
        assert type(whole).__name__ != "Subset"  # whose fingerprint is another one
    named = made(["train"] * 3)
    named = named.rename(named.with_name(f"val.{kind}"))
    assert len(open_dataset(named, split="val")) == 3


@pytest.mark.parametrize("suffix", [".tar", ".tfrecord", ".tfrecord-00000-of-00001", ""])
def test_shards_of_other_formats(tmp_path: Path, suffix: str) -> None:
    """Also TFRecords as TensorFlow Datasets calls them, beside its own description, and without any ending."""
    tfrecord = pytest.importorskip("tfrecord")
    for split, numbers in itertools.product(("train", "validation"), ("00000", "00001")):
        number = f"-{numbers}-of-00002"
        path = tmp_path / (f"x-{split}{suffix}" if "-of-" in suffix else f"{split}{number}{suffix}")
        if suffix == ".tar":
            write_tar(path)
            continue
        writer = tfrecord.TFRecordWriter(str(path))
        writer.write({"image": (b"bytes", "byte"), "id": (path.name.encode(), "byte")})
        writer.close()
    (tmp_path / "dataset_info.json").write_text('{"fileFormat": "tfrecord"}')

    assert_refused("holds the splits train, validation", tmp_path)
    keys = [sample.key for sample in open_dataset(tmp_path, split="val").fetch([0]) if sample.key]
    assert "validation" in keys[0]


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
    for name in ("train/cat/a.jpg", "train/dog/a.jpg", "val2017/cat/b.jpg", "annotations/c.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(jpeg(9, 8))

    assert_refused(r"splits train, validation, .*/train; .*format='folder'", tmp_path)
    assert open_dataset(tmp_path, split="train").class_names == ("cat", "dog")
    [sample] = open_dataset(tmp_path, split="val").fetch([0])
    assert isinstance(sample, Sample)
    assert sample.key == "cat/b.jpg"
    assert len(open_dataset(tmp_path, format="folder").class_names) == 3


def test_lists_of_splits(tmp_path: Path, jpeg: Jpeg) -> None:
    """Manifests beside the images of all splits: the images alone would be all of them, without labels."""
    (tmp_path / "images").mkdir()
    for name, label in (("train", 3), ("test", 4)):
        (tmp_path / "images" / f"{name}.jpg").write_bytes(jpeg(9, 8))
        line = f'{{"file_name": "images/{name}.jpg", "label": {label}}}'
        (tmp_path / f"{name}.jsonl").write_text(line)

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
    for name in ("train/ant/1.jpg", "train/bee/1.jpg", "train/cow/1.jpg", "val/cow/1.jpg"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"\xff\xd8")
    val = open_dataset(tmp_path, split="val")

    assert val.class_names == ("ant", "bee", "cow")
    assert [entry.label for entry in val.fetch([0])] == [2]
    assert open_dataset(tmp_path, split="train").class_names == val.class_names
    assert open_with_warning(
        r"so that their numbers differ: open_dataset\(.*'val'\)", tmp_path / "val"
    ).class_names == ("cow",)
    (tmp_path / "val" / "dog").mkdir()
    (tmp_path / "val" / "dog" / "1.jpg").write_bytes(b"\xff\xd8")
    assert_refused("has the class 'dog', and the classes are ant, bee, cow", tmp_path, split="val")
