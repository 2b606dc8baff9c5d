"""Tables of image paths: what pandas and pyarrow read from the same files, labels of every kind, and what is refused."""

import io
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torchvision.ops import box_convert

from dali_pipes import Loader
from gpu_aug import CenterCrop, Recipe
from readers import BadSample, IndexedDataset, Sample, SourceError, open_dataset
from readers.formats.path_table import PathTableDataset
from readers.video.files import ClipListDataset

COUNT = 4


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Path:
    """A folder with 0000.jpg to 0003.jpg, and b.jpg and b.png."""
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(COUNT):
        (folder / f"{number:04d}.jpg").write_bytes(jpeg(24, 32, seed=number))
    for name in ("b.jpg", "b.png"):
        (folder / name).write_bytes(jpeg(24, 32))
    return folder


@pytest.fixture
def table(tmp_path: Path, pictures: Path) -> Callable[..., IndexedDataset]:
    """A maker of datasets: the text of a table in a folder of its own, with the pictures as root."""

    def make(text: str, name: str = "train.csv", **options: Any) -> IndexedDataset:
        (tmp_path / name).write_bytes(text.encode())
        return open_dataset(tmp_path / name, root=pictures, **options)

    return make


def samples(dataset: IndexedDataset) -> list[Sample]:
    found = dataset.fetch(range(len(dataset)))
    assert all(isinstance(one, Sample) for one in found), found
    return found  # type: ignore[return-value]


def texts(dataset: IndexedDataset, name: str) -> list[str]:
    return [bytes(one.fields[name]).decode() for one in samples(dataset)]


def labels(dataset: IndexedDataset) -> list[Any]:
    return [np.asarray(one.label).tolist() for one in samples(dataset)]


TRICKY = [
    "\ufeffimage,note\r\n0000,NA\r\n0001,0007\r\n",
    'image;note\n0000;"a;b"\n0001;"two\nlines, ""quoted"""\n',
    "image\tnote\n0000\tnull\n0001\t\n",
    "image,note\n\n0000,  left\n0001,1e5\n\n",
]


class TestText:
    @pytest.mark.parametrize("text", TRICKY)
    def test_is_pandas_text(self, table: Callable[..., IndexedDataset], text: str) -> None:
        """Cells are the text that pandas reads with dtype=str, whatever they look like."""
        delimiter = next(sign for sign in ",;\t" if sign in text.splitlines()[0])
        options: dict[str, Any] = {"sep": delimiter, "skipinitialspace": True}
        source = io.BytesIO(text.encode())
        expected = pd.read_csv(source, dtype=str, keep_default_na=False, **options)

        dataset = table(text)

        assert texts(dataset, "note") == expected["note"].tolist()
        assert [one.key for one in samples(dataset)] == [
            f"{name}.jpg" for name in expected["image"]
        ]

    def test_what_pandas_does_without_being_told(self) -> None:
        """The comparison above can tell: by default pandas makes other values of such cells."""
        read = pd.read_csv(io.StringIO("image,note\n0000,NA\n0001,0007\n"))
        assert read["image"].tolist() == [0, 1]
        assert read["note"].isna().tolist() == [True, False]

    def test_index_of_pandas(self, table: Callable[..., IndexedDataset]) -> None:
        """A column without a name, in which pandas numbers rows, is left out."""
        text = pd.DataFrame({"path": ["0000.jpg", "0001.jpg"], "n": [5, 6]}).to_csv()
        assert list(samples(table(text))[0].fields) == ["jpg", "n"]

    def test_without_header(self, table: Callable[..., IndexedDataset]) -> None:
        """Rows of a path and a label need no names of columns; more columns are named."""
        assert labels(table("0001.jpg,dog\n0000.jpg,cat\n")) == [1, 0]
        assert labels(table("dog\t0001.jpg\ncat\t0000.jpg\n", "a.csv")) == [1, 0]
        dataset = table("x,0001.jpg,3\ny,0000.jpg,2\n", header=["note", "image", "label"])
        assert (labels(dataset), texts(dataset, "note")) == ([3, 2], ["x", "y"])

    def test_tsv(self, table: Callable[..., IndexedDataset]) -> None:
        """A .tsv with names of columns is a table, one without is a list as ever."""
        assert type(table("image\tlabel\n0000.jpg\tcat\n", "a.tsv")) is PathTableDataset
        with pytest.raises(SourceError, match="list of files has no option 'root'"):
            table("0000.jpg\t3\n", "b.tsv")


class TestArrow:
    @pytest.mark.parametrize("kind", ["parquet", "arrow file", "arrow stream"])
    def test_same_as_text(
        self, table: Callable[..., IndexedDataset], tmp_path: Path, pictures: Path, kind: str
    ) -> None:
        """A table that pyarrow wrote, whose images are paths, is read as its text is."""
        columns = {"file_name": ["0002", "0000.jpg"], "label": ["dog", "cat"], "note": ["NA", None]}
        written = pa.table(columns)
        path = tmp_path / f"t.{kind.partition(' ')[0]}"
        if kind == "parquet":
            pq.write_table(written, path)
        else:
            new = pa.ipc.new_stream if kind.endswith("stream") else pa.ipc.new_file
            with new(path, written.schema) as writer:
                writer.write_table(written)
        dataset = open_dataset(path, root=pictures)
        text = table("file_name,label\n0002,dog\n0000.jpg,cat\n")

        assert [(s.key, s.label, s.image) for s in samples(dataset)] == [
            (s.key, s.label, s.image) for s in samples(text)
        ]
        assert [s.fields.get("note") for s in samples(dataset)] == [b"NA", None]

    def test_class_names_of_hugging_face(self, tmp_path: Path, pictures: Path) -> None:
        """Numbers that datasets calls a ClassLabel have its names, in its order."""
        features = {"label": {"names": ["zebra", "ant"], "_type": "ClassLabel"}}
        info = {"info": {"features": features}}
        written = pa.table({"image": ["0000.jpg", "0001.jpg"], "label": [1, 0]})
        pq.write_table(
            written.replace_schema_metadata({"huggingface": json.dumps(info)}),
            tmp_path / "t.parquet",
        )
        dataset = open_dataset(tmp_path / "t.parquet", root=pictures)
        assert (dataset.class_names, labels(dataset)) == (("zebra", "ant"), [1, 0])

    def test_lists(self, tmp_path: Path, pictures: Path) -> None:
        """Lists of numbers are vectors, lists of names are several classes."""
        columns = {
            "image": ["0000.jpg", "0001.jpg"],
            "v": [[0.5, 2.0], [1.0, 0.0]],
            "n": [["b", "a"], []],
        }
        pq.write_table(pa.table(columns), tmp_path / "t.parquet")
        vectors = open_dataset(tmp_path / "t.parquet", root=pictures, label="v")
        names = open_dataset(tmp_path / "t.parquet", root=pictures, label="n")
        assert labels(vectors) == columns["v"]
        assert (labels(names), names.class_names) == ([[1, 1], [0, 0]], ("a", "b"))


class TestFiles:
    def test_names_without_extension(self, table: Callable[..., IndexedDataset]) -> None:
        """A name without extension stands for exactly one file, and is the key where it stands in a column id."""
        dataset = table("id,label\n0003,1\n0001,0\n")
        assert [(s.key, s.label) for s in samples(dataset)] == [("0003", 1), ("0001", 0)]
        assert [next(iter(s.fields)) for s in samples(dataset)] == ["jpg", "jpg"]

    def test_missing_file(self, table: Callable[..., IndexedDataset]) -> None:
        """A file that is not there is one bad sample; if none of the first is, the folder is another."""
        dataset = table("image,label\n0000.jpg,1\nnowhere.jpg,2\n")
        first, bad = dataset.fetch([0, 1])
        assert isinstance(first, Sample)
        assert isinstance(bad, BadSample)
        assert "No such file" in bad.reason
        with pytest.raises(SourceError, match=r"line 2: the file .*x/1.jpg is not there.* root="):
            table("image,label\nx/1.jpg,1\nx/2.jpg,2\n")

    def test_absolute(self, tmp_path: Path, pictures: Path) -> None:
        """A list that you write may name any file; keys do not depend on where they lie."""
        (tmp_path / "a.csv").write_text(f"image\n{pictures}/0001.jpg\n{pictures}/0000.jpg\n")
        assert [s.key for s in samples(open_dataset(tmp_path / "a.csv"))] == [
            "0001.jpg",
            "0000.jpg",
        ]

    def test_pickled_elsewhere(self, table: Callable[..., IndexedDataset]) -> None:
        """Fields, labels and keys survive pickling, whose result is the same data."""
        import pickle

        dataset = table("image,label,note\n0000.jpg,a b,x\n0001.jpg,,y\n", label_separator=" ")
        again = pickle.loads(pickle.dumps(dataset))
        assert samples(again) == samples(dataset)
        assert again.fingerprint == dataset.fingerprint

    @pytest.mark.parametrize(
        "other",
        [
            "image,label,note\n0000.jpg,cat,y\n0001.jpg,dog,y\n",
            "image,label,note\n0000.jpg,cat,x\n0001.jpg,cow,y\n",
            "image,label,note\n0000.jpg,dog,x\n0001.jpg,cat,y\n",
            "image,label,text\n0000.jpg,cat,x\n0001.jpg,dog,y\n",
            "image,label,note\n0001.jpg,cat,x\n0000.jpg,dog,y\n",
        ],
    )
    def test_fingerprint(self, table: Callable[..., IndexedDataset], other: str) -> None:
        """Another text, class, label, name of a column or order is other data."""
        text = "image,label,note\n0000.jpg,cat,x\n0001.jpg,dog,y\n"
        assert table(text).fingerprint == table(text, "b.csv").fingerprint
        assert table(other).fingerprint != table(text).fingerprint


class TestClasses:
    def test_sorted_text(self, table: Callable[..., IndexedDataset]) -> None:
        """Names are numbered in sorted order, as pandas' categories are."""
        names = ["b", "a10", "NA", "a2"]
        rows = "".join(f"{number:04d}.jpg,{name}\n" for number, name in enumerate(names))
        dataset = table(f"image,label\n{rows}")
        expected = pd.Categorical(names)
        assert dataset.class_names == tuple(expected.categories)
        assert labels(dataset) == expected.codes.tolist()

    def test_numbers_are_themselves(self, table: Callable[..., IndexedDataset]) -> None:
        """Whole numbers are the class numbers: 10 comes not before 9, and gaps stay."""
        assert labels(table("image,label\n0000,10\n0001,9\n0002,007\n")) == [10, 9, 7]

    def test_the_same_for_train_and_val(
        self, table: Callable[..., IndexedDataset], tmp_path: Path
    ) -> None:
        """With the classes of training a class that val lacks shifts no number, out of a list or a file."""
        train = table("image,label\n0000,cat\n0001,dog\n0002,eel\n")
        (tmp_path / "classes.txt").write_text("cat\ndog\neel\n")
        for classes in (
            train.class_names,
            tmp_path / "classes.txt",
            {"eel": 2, "cat": 0, "dog": 1},
        ):
            val = table("image,label\n0003,eel\n0001,dog\n", "val.csv", classes=classes)
            assert (labels(val), val.class_names) == ([2, 1], train.class_names)
        assert labels(table("image,label\n0003,eel\n0001,dog\n", "val.csv")) == [1, 0]  # without

    def test_splits_share_numbers(self, table: Callable[..., IndexedDataset]) -> None:
        """The splits of one table have the numbers of the whole table."""
        text = "image,label,split\n0000,a,train\n0001,c,val\n0002,b,train\n0003,d d e,dev\n"
        val = table(text, split="val")
        assert (labels(val), val.class_names) == ([2], ("a", "b", "c", "d d e"))
        with pytest.raises(SourceError, match="'validation' may be dev or val"):
            table(text, split="validation")
        several = table(text, split="train", label_separator=" ")
        assert (labels(several), several.class_names) == (
            [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]],
            ("a", "b", "c", "d", "e"),
        )

    def test_numbers_with_names(self, table: Callable[..., IndexedDataset]) -> None:
        """Numbers are numbers of the classes that are named; a class may be called by a number."""
        assert labels(table("image,label\n0000,1\n0001,0\n", classes=["cat", "dog"])) == [1, 0]
        assert labels(table("image,label\n0000,20\n0001,10\n", classes=["20", "10"])) == [0, 1]

    def test_unlabelled(self, table: Callable[..., IndexedDataset]) -> None:
        """An empty label is -1, and one warning says how many there are."""
        with pytest.warns(UserWarning, match=r"1 of 2 samples of .*t.* have no label"):
            assert labels(table("image,label\n0000,cat\n0001,\n")) == [0, -1]


class TestVectors:
    TEXT = "image,label\n0000.jpg,cat dog\n0001.jpg,\n0002.jpg,eel\n0003.jpg,dog cat dog\n"

    def test_several_classes(self, table: Callable[..., IndexedDataset]) -> None:
        """Cells of several classes become the multi-hot vectors that pandas makes of them."""
        read = pd.read_csv(io.StringIO(self.TEXT), dtype=str, keep_default_na=False)
        expected = read["label"].str.get_dummies(" ").drop(columns=[""], errors="ignore")
        dataset = table(self.TEXT, label_separator=" ")
        assert dataset.class_names == tuple(expected.columns)
        assert labels(dataset) == expected.to_numpy().tolist()
        assert dataset.label_shape == (3,)

    def test_columns(self, table: Callable[..., IndexedDataset]) -> None:
        """Columns of numbers are the numbers of a vector, which they name."""
        text = "image,dog,cat,score\n0000.jpg,1,0,-0.25\n0001.jpg,0.5,.5,1e3\n"
        expected = pd.read_csv(io.StringIO(text))[["score", "dog"]]
        dataset = table(text, label=["score", "dog"])
        assert (labels(dataset), dataset.class_names) == (
            expected.to_numpy().tolist(),
            ("score", "dog"),
        )
        assert labels(table(text, label=["score"])) == [[-0.25], [1000]]

    def test_json(self, table: Callable[..., IndexedDataset]) -> None:
        """JSON lists are vectors of one length or several, or names of classes."""
        cells = [[0.5, 1], [2.5], [], [1, 2, 3.5]]
        rows = [f'000{number}.jpg,"{json.dumps(cell)}"' for number, cell in enumerate(cells)]
        dataset = table("image,label\n" + "\n".join(rows))
        assert (labels(dataset), dataset.label_shape) == (cells, None)
        names = table('image,label\n0000,"[""b""]"\n0001,"[""a"", ""b""]"\n')
        assert (labels(names), names.class_names) == ([[0, 1], [1, 1]], ("a", "b"))

    def test_whole_numbers_in_lists(self, table: Callable[..., IndexedDataset]) -> None:
        """Lists of whole numbers may be classes or vectors, so somebody says which."""
        text = 'image,label\n0000,"[0, 3]"\n0001,"[1]"\n'
        with pytest.raises(
            SourceError, match=r"line 2: the label \[0, 3\] is a list of whole numbers: say multi"
        ):
            table(text)
        assert labels(table(text, multi_label=True)) == [[1, 0, 0, 1], [0, 1, 0, 0]]
        assert labels(table(text, multi_label=False)) == [[0, 3], [1]]
        assert labels(table(text.replace("3", "1").replace("[1]", "[1, 1]"))) == [[0, 1], [1, 1]]

    def test_rows_of_one_image(self, table: Callable[..., IndexedDataset]) -> None:
        """With multi_label=True the rows of an image are one sample; else two labels are an error with both lines."""
        text = "image,label,by\n0000,dog,Ann\n0001,cat,Bo\n0000,cat,Cy\n"
        dataset = table(text, multi_label=True)
        assert (labels(dataset), dataset.class_names) == ([[1, 1], [1, 0]], ("cat", "dog"))
        assert texts(dataset, "by") == ['["Ann","Cy"]', "Bo"]
        with pytest.raises(
            SourceError, match=r"lines 2 and 4: 0000.jpg has the labels dog and cat: .*multi_label"
        ):
            table(text)

    def test_loader(self, table: Callable[..., IndexedDataset]) -> None:
        """The vectors reach the batch."""
        dataset = table(self.TEXT, label_separator=" ")
        loader = Loader.eval(dataset, Recipe([CenterCrop(16)]), batch_size=4, device="cpu")
        [batch] = loader
        assert batch.labels.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1], [1, 1, 0]]
        assert batch.labels.dtype == torch.float32


class TestBoxes:
    TEXT = "image,label,a,b,c,d\n0000,dog,1,2,11,8.5\n0001,,,,,\n0000,cat,0,0,4,5\n"

    @pytest.mark.parametrize("form", ["xyxy", "xywh"])
    def test_columns(self, table: Callable[..., IndexedDataset], form: Any) -> None:
        """The rows of an image are its boxes, which torchvision converts likewise."""
        dataset = table(self.TEXT, boxes=["a", "b", "c", "d"], box_format=form)
        boxes = torch.tensor([[1, 2, 11, 8.5], [0, 0, 4, 5]])
        loader = Loader.eval(dataset, Recipe([CenterCrop((24, 32))]), batch_size=2, device="cpu")
        [batch] = loader
        assert torch.equal(batch.boxes[0], box_convert(boxes, form, "xyxy"))
        assert batch.box_labels[0].tolist() == [1, 0]
        assert (len(batch.boxes[1]), batch.labels.tolist()) == (0, [-1, -1])
        assert dataset.class_names == ("cat", "dog")

    def test_json(self, table: Callable[..., IndexedDataset]) -> None:
        """A column of JSON holds the boxes of an image, and their classes beside them."""
        text = (
            'image,b,label\n0000,"[[1,2,3,4],[5,6,7,8]]","[2, 0]"\n0001,"[1,2,3,4]",1\n0002,[],[]\n'
        )
        found = [json.loads(text) for text in texts(table(text, boxes="b"), "json")]
        assert [one.pop("box_format") for one in found] == ["xyxy"] * 3
        assert found == [
            {"boxes": [[1, 2, 3, 4], [5, 6, 7, 8]], "labels": [2, 0]},
            {"boxes": [[1, 2, 3, 4]], "labels": [1]},
            {"boxes": [], "labels": []},
        ]


class TestDetection:
    def test_videos_stay_videos(self, tmp_path: Path) -> None:
        """A .csv of videos is a list of clips, as ever."""
        (tmp_path / "a.csv").write_text("path,start,end,label\na.mp4,0,1,3\n")
        assert type(open_dataset(tmp_path / "a.csv")) is ClipListDataset
        (tmp_path / "b.csv").write_text("a.mp4,3\n")
        assert type(open_dataset(tmp_path / "b.csv")) is ClipListDataset

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (
                "path,label\na.mp4,1\nb.jpg,2\n",
                r"names images \(b.jpg\) and videos \(a.mp4\): say format=",
            ),
            ("what,where\na,b\n", "names neither images nor videos .* say format='csv' and image="),
        ],
    )
    def test_undecidable(self, tmp_path: Path, text: str, reason: str) -> None:
        """What may be either is refused, and the error says how to say it."""
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(SourceError, match=reason):
            open_dataset(tmp_path / "a.csv")

    def test_parquet_with_images_stays(self, tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
        """A table that holds images is read as ever, though it has a column of paths, too."""
        pq.write_table(
            pa.table({"path": ["x.jpg"], "image": [jpeg(20, 20)]}), tmp_path / "t.parquet"
        )
        assert type(open_dataset(tmp_path / "t.parquet")).__name__ == "ParquetDataset"

    def test_splits(self, table: Callable[..., IndexedDataset]) -> None:
        """Rows of several splits are opened one split at a time, by any of its names."""
        text = "image,label,split\n0000,a,train\n0001,b,val\n0002,a,train\n"
        with pytest.raises(SourceError, match="holds the splits train, val, which are never one"):
            table(text)
        assert len(table(text, split="train")) == 2
        assert [s.key for s in samples(table(text, split="validation"))] == ["0001.jpg"]
        with pytest.raises(SourceError, match="no split 'test': its splits are train, val"):
            table(text, split="test")
        with pytest.raises(SourceError, match="no column 'fold' for split_column="):
            table(text, split="train", split_column="fold")
        with pytest.raises(SourceError, match="has no split 'val': no column 'split'"):
            table("image,label\n0000,a\n", split="val")
        assert len(table("image,label\n0000,a\n", "val.csv", split="val")) == 1


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("image,label\n0000,a,b\n0001\n", {}, r"line 2 has 3 cells, the header 2 \(image, label\)"),
        ("image,label\n", {}, "has no rows"),
        (f"image,label\n0000,1\n0001,{'x' * (1 << 18)}\n", {}, r"train.csv, line 3 .* 131,072 .* csv.field_size_limit\(n\)"),
        ("image,image\n0000,0001\n", {}, "two columns 'image'"),
        ("image,label\n../b,1\n", {}, r"line 2: \.\./b leaves the folder"),
        ("image,label\nhttps://x.org/a.jpg,1\n", {}, "line 2: the image https://x.org/a.jpg is a URL"),
        ("image,label\n0000,1\n,1\n", {}, "line 3: it names no image"),
        ("image,label\nb,1\n", {}, r"line 2: b names several files \(b.jpg, b.png\)"),
        ("image,label\n9999,1\n", {}, r"no image 9999 or 9999.jpg is in .*root="),
        ("image,label\n0000,cat\n0001,3\n", {}, r"column label: some labels are whole numbers \('3'\) and"),
        ("image,label\n0000,0.5\n0001,0.25\n", {}, r"'0.25' is no whole number: .*label=\[column\]"),
        ("image,label\n0000,cow\n", {"classes": ["cat", "dog"]}, r"train.csv, line 2: the label 'cow' is not among"),
        ("image,label\n0000,7\n", {"classes": ["cat", "dog"]}, "line 2: the label '7' is not among the 2 classes"),
        ("image,label\n0000,dog\n", {"classes": ["cat"]}, r"the label 'dog' is not among the 1 class \(cat\)"),
        ("image,label\n0000,1\n", {"image": "photo"}, "no column 'photo' for image=: its columns are image, label"),
        ("image,label\n0000,1\n", {"label": "y"}, "no column 'y' for label="),
        ("image,label\n0000,1\n", {"label": ["label", "y"]}, "no column 'y' for label="),
        ("image,a\n0000,\n", {"label": ["a"]}, "line 2: the column 'a' of the label is empty"),
        ("image,a\n0000,nan\n", {"label": ["a"]}, "holds 'nan', which is no number"),
        ('image,label\n0000,"[1.5]"\n0001,x\n', {}, "line 3: the label 'x' is no JSON list"),
        ("image,label\n0000,\"['a']\"\n", {}, "is no JSON list.* double quotes"),
        ('image,label\n0000,"[1.5]"\n0001,"[""a""]"\n', {}, "line 3: the label .* another kind"),
        ("image,b\n0000,1\n", {"boxes": "b"}, "line 2: the cell of boxes '1' is no JSON list"),
        ('image,b\n0000,"[3,4,NaN,9]"\n', {"boxes": "b"}, r"the box \[3.0, 4.0, nan, 9.0\] \(xyxy\) has a number that is not finite$"),
        ('image,b\n0000,"[3,4,3,9]"\n', {"boxes": "b"}, r"the box \[3.0, 4.0, 3.0, 9.0\] \(xyxy\) has no area; say box"),
        ('image,b,label\n0000,"[[1,2,3,4]]","[1,2]"\n', {"boxes": "b"}, "there are 2 labels for 1 boxes"),
        ("image,b\n0000,1\n", {"boxes": ["b", "b"]}, "must be one column of JSON or four columns"),
        ("image,b\n0000,1\n", {"box_format": "yxyx", "boxes": "b"}, "must be one of 'xyxy', 'xywh'"),
        ("image,label\n0000,1\n", {"classes": ["a", "a"]}, "names the class 'a' twice"),
        ("image,label\n0000,1\n", {"classes": []}, "must hold names of classes"),
        ("image,label\n0000,1\n", {"classes": "nowhere.txt"}, "the file of classes nowhere.txt cannot be read"),
        ("image,what\n0000,a\n", {"classes": ["a"]}, r"no column of a usual name for labels, .*: name it with label="),
        ("image,label\n0000,1\n", {"delimiter": "::"}, "must be one character"),
        ("a,b\n0000,1\n", {"format": "csv"}, r"no column that is known to name images \(its columns are a, b\)"),
        ("image,label\n0000,1\n", {"colour": 3}, "has no option 'colour'"),
    ],
)  # fmt: skip
def test_refused(
    table: Callable[..., IndexedDataset], text: str, options: dict[str, Any], reason: str
) -> None:
    """What cannot be read is said in one sentence with file, line and value."""
    with pytest.raises(SourceError, match=reason) as error:
        table(text, **options)
    assert "\n" not in str(error.value)


def test_two_columns_that_fit(table: Callable[..., IndexedDataset]) -> None:
    """Of two columns that may be the label or the image one is taken, and a warning names both."""
    with pytest.warns(
        UserWarning, match="of the columns class, y, which may each be the label, class was"
    ):
        table("image,y,class\n0000,a,b\n")
    with pytest.warns(
        UserWarning, match="of the columns path, mask, which may each be the image, path was"
    ):
        table("mask,path\n0000.jpg,0001.jpg\n")
    with pytest.raises(
        SourceError, match=r"several columns of image files \(left, right\): name one"
    ):
        table("left,right\n0000.jpg,0001.jpg\n")


def test_two_columns_of_which_one_is_called_like_its_role(
    table: Callable[..., IndexedDataset],
) -> None:
    """A warning comes as well; not of a mask, which is no picture to train on, and not where one is named."""
    with pytest.warns(UserWarning, match="of the columns image, path, which may each be the image"):
        table("path,image,label\n0000.jpg,0001.jpg,a\n")
    with pytest.warns(UserWarning, match="the columns label, target, which may each be the label"):
        table("image,target,label\n0000,1,a\n")
    table("mask,image,label\n0000.jpg,0001.jpg,a\n")
    table("path,image,label\n0000.jpg,0001.jpg,a\n", image="path")


def test_a_table_without_labels(table: Callable[..., IndexedDataset]) -> None:
    """It is said, and not where the label was asked for, or a column of texts says what the table is for."""
    with pytest.warns(UserWarning, match="no sample of .* has a label .* with label="):
        assert labels(table("image,id,species\n0000,x,cat\n")) == [-1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert labels(table("image,id,caption\n0000,x,a cat\n")) == [-1]
    assert labels(table("image,species\n0000,cat\n", label="species")) == [0]


def test_rows_that_are_boxes(table: Callable[..., IndexedDataset]) -> None:
    """Of columns that are called like sides boxes= is named first, before what would lose boxes, and it reads them."""
    text = "image,xmin,ymin,xmax,ymax,label\n0000,1,1,5,5,dog\n0000,2,2,6,6,{}\n"
    match = r"has the labels dog and cat: say (boxes=\['xmin', 'ymin', 'xmax', 'ymax'\]) where each row is a box, multi"
    with pytest.raises(SourceError, match=match):
        table(text.format("cat"))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        table(text.format("dog"))
    assert any(
        re.search("is a sample: say boxes=.* is a box, else remove", str(one.message))
        for one in said
    )
    [sample] = samples(
        table(text.format("cat"), boxes=["xmin", "ymin", "xmax", "ymax"], coords="zero-based")
    )
    assert json.loads(bytes(sample.fields["json"]))["labels"] == [1, 0]
    with pytest.warns(UserWarning, match=r"1 of 2 boxes have no class \(class -1\)"):
        table(text.format(""), boxes=["xmin", "ymin", "xmax", "ymax"], coords="zero-based")


def test_missing_and_in_another_encoding(tmp_path: Path) -> None:
    """A file that is not there is said to be missing, and of UTF-16 the encoding is named."""
    with pytest.raises(SourceError, match=r"trian.csv does not exist: give"):
        open_dataset(tmp_path / "trian.csv")
    with pytest.raises(SourceError, match=r"nowhere.csv does not exist: give"):
        PathTableDataset(tmp_path / "nowhere.csv")
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        (tmp_path / "wide.csv").write_bytes("image,label\n0000.jpg,cat\n".encode(encoding))
        with pytest.raises(
            SourceError, match=r"wide.csv is in UTF-16 or UTF-32: write it as CSV in UTF-8"
        ):
            open_dataset(tmp_path / "wide.csv")


def test_repeated_rows(table: Callable[..., IndexedDataset]) -> None:
    """An image that two rows name with one label is two samples, and a key of two samples is said."""
    with pytest.warns(UserWarning, match="names 1 image in several rows .*0000.jpg, lines 2 and 4"):
        assert len(table("image,label\n0000,1\n0001,2\n0000,1\n")) == 3
    with pytest.warns(
        UserWarning,
        match=r"1 of 2 samples have the key of another in the column id \(x, lines 2 and 3",
    ):
        table("image,id\n0000,x\n0001,x\n")
