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
from readers import IndexedDataset, SourceError, open_dataset
from readers.formats.path_table import PathTableDataset
from readers.video.files import ClipListDataset
from tests.support.entries import fetch_samples
from tests.support.opening import assert_refused

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


def texts(dataset: IndexedDataset, name: str) -> list[str]:
    return [bytes(one.fields[name]).decode() for one in fetch_samples(dataset)]


def labels(dataset: IndexedDataset) -> list[Any]:
    return [np.asarray(one.label).tolist() for one in fetch_samples(dataset)]


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
        assert [one.key for one in fetch_samples(dataset)] == [
            f"{name}.jpg" for name in expected["image"]
        ]

    def test_what_pandas_does_without_being_told(self) -> None:
        """The comparison above can tell: by default pandas makes other values of such cells."""
        read = pd.read_csv(io.StringIO("image,note\n0000,NA\n0001,0007\n"))
        assert (read["image"].tolist(), read["note"].isna().tolist()) == ([0, 1], [True, False])

    def test_index_of_pandas(self, table: Callable[..., IndexedDataset]) -> None:
        """A column without a name, in which pandas numbers rows, is left out."""
        text = pd.DataFrame({"path": ["0000.jpg", "0001.jpg"], "n": [5, 6]}).to_csv()
        assert list(fetch_samples(table(text))[0].fields) == ["jpg", "n"]


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

        assert [(s.key, s.label, s.image) for s in fetch_samples(dataset)] == [
            (s.key, s.label, s.image) for s in fetch_samples(text)
        ]
        assert [s.fields.get("note") for s in fetch_samples(dataset)] == [b"NA", None]

    @pytest.mark.parametrize(
        ("name", "options", "expected"),
        [
            ("class", {}, ([1, 0], ("zebra", "ant"))),
            ("vector", {"label": "v"}, ([[0.5, 2.0], [1.0, 0.0]], ())),
            ("names", {"label": "n"}, ([[1, 1], [0, 0]], ("a", "b"))),
        ],
    )
    def test_labels(
        self, tmp_path: Path, pictures: Path, name: str, options: dict[str, Any], expected: Any
    ) -> None:
        """A ClassLabel of datasets has its names in its order; lists are vectors of numbers, or several classes."""
        features = {"label": {"names": ["zebra", "ant"], "_type": "ClassLabel"}}
        columns = {
            "class": {"label": [1, 0]},
            "vector": {"v": [[0.5, 2.0], [1.0, 0.0]]},
            "names": {"n": [["b", "a"], []]},
        }[name]
        written = pa.table({"image": ["0000.jpg", "0001.jpg"], **columns})
        info = json.dumps({"info": {"features": features}})
        written = written.replace_schema_metadata({"huggingface": info})
        pq.write_table(written, tmp_path / "t.parquet")
        dataset = open_dataset(tmp_path / "t.parquet", root=pictures, **options)
        assert (labels(dataset), dataset.class_names) == expected


class TestFiles:
    def test_names_without_extension(self, table: Callable[..., IndexedDataset]) -> None:
        """A name without extension stands for exactly one file, and is the key where it stands in a column id."""
        found = fetch_samples(table("id,label\n0003,1\n0001,0\n"))
        assert [(s.key, s.label, next(iter(s.fields))) for s in found] == [
            ("0003", 1, "jpg"),
            ("0001", 0, "jpg"),
        ]

    def test_absolute(self, tmp_path: Path, pictures: Path) -> None:
        """A list that you write may name any file; keys do not depend on where they lie."""
        (tmp_path / "a.csv").write_text(f"image\n{pictures}/0001.jpg\n{pictures}/0000.jpg\n")
        found = fetch_samples(open_dataset(tmp_path / "a.csv"))
        assert [s.key for s in found] == ["0001.jpg", "0000.jpg"]

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


SPLIT = "image,label,split\n0000,a,train\n0001,c,val\n0002,b,train\n0003,d d e,dev\n"


INTEGERS = 'image,label\n0000,"[0, 3]"\n0001,"[1]"\n'


SEVERAL_ROWS = "image,label,by\n0000,dog,Ann\n0001,cat,Bo\n0000,cat,Cy\n"


@pytest.mark.parametrize(
    ("text", "options", "expected", "names"),
    [
        # Rows of a path and a label need no names of columns; more columns are named.
        ("0001.jpg,dog\n0000.jpg,cat\n", {}, [1, 0], ("cat", "dog")),
        ("dog\t0001.jpg\ncat\t0000.jpg\n", {}, [1, 0], ("cat", "dog")),
        ("image\tlabel\n0000.jpg\tcat\n", {"name": "a.tsv"}, [0], ("cat",)),
        ("x,0001.jpg,3\ny,0000.jpg,2\n", {"header": ["note", "image", "label"]}, [3, 2], ()),
        # Whole numbers are the class numbers: 10 comes not before 9, and gaps stay.
        ("image,label\n0000,10\n0001,9\n0002,007\n", {}, [10, 9, 7], ()),
        # Numbers are numbers of the classes that are named; a class may be called by a number.
        ("image,label\n0000,1\n0001,0\n", {"classes": ["cat", "dog"]}, [1, 0], ("cat", "dog")),
        ("image,label\n0000,20\n0001,10\n", {"classes": ["20", "10"]}, [0, 1], ("20", "10")),
        # With the classes of training a class that val lacks shifts no number.
        ("image,label\n0003,eel\n0001,dog\n", {}, [1, 0], ("dog", "eel")),
        ("image,label\n0003,eel\n0001,dog\n", {"classes": ("cat", "dog", "eel")}, [2, 1], ("cat", "dog", "eel")),
        ("image,label\n0003,eel\n0001,dog\n", {"classes": {"eel": 2, "cat": 0, "dog": 1}}, [2, 1], ("cat", "dog", "eel")),
        # The splits of one table have the numbers of the whole table.
        (SPLIT, {"split": "val"}, [2], ("a", "b", "c", "d d e")),
        (SPLIT, {"split": "train", "label_separator": " "}, [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]], ("a", "b", "c", "d", "e")),
        # Lists of whole numbers may be classes or vectors, so somebody says which.
        (INTEGERS, {"multi_label": True}, [[1, 0, 0, 1], [0, 1, 0, 0]], ()),
        (INTEGERS, {"multi_label": False}, [[0, 3], [1]], ()),
        (INTEGERS.replace("3", "1").replace("[1]", "[1, 1]"), {}, [[0, 1], [1, 1]], ()),
        ('image,label\n0000,"[""b""]"\n0001,"[""a"", ""b""]"\n', {}, [[0, 1], [1, 1]], ("a", "b")),
        # A label that is asked for, or a text that says what the table is for, needs no warning.
        ("image,id,caption\n0000,x,a cat\n", {}, [-1], ()),
        ("image,species\n0000,cat\n", {"label": "species"}, [0], ("cat",)),
    ],
)  # fmt: skip
def test_classes(
    table: Callable[..., IndexedDataset],
    text: str,
    options: dict[str, Any],
    expected: list[Any],
    names: tuple[str, ...],
) -> None:
    """Labels of every kind become the numbers of classes, which have names where the table has them."""
    dataset = table(text, **options)
    assert (labels(dataset), dataset.class_names) == (expected, names)


class TestClasses:
    def test_sorted_text(self, table: Callable[..., IndexedDataset]) -> None:
        """Names are numbered in sorted order, as pandas' categories are."""
        names = ["b", "a10", "NA", "a2"]
        rows = "".join(f"{number:04d}.jpg,{name}\n" for number, name in enumerate(names))
        dataset = table(f"image,label\n{rows}")
        expected = pd.Categorical(names)
        assert dataset.class_names == tuple(expected.categories)
        assert labels(dataset) == expected.codes.tolist()

    def test_of_a_file(self, table: Callable[..., IndexedDataset], tmp_path: Path) -> None:
        """A file may hold the names of the classes."""
        (tmp_path / "classes.txt").write_text("cat\ndog\neel\n")
        val = table("image,label\n0003,eel\n0001,dog\n", classes=tmp_path / "classes.txt")
        assert (labels(val), val.class_names) == ([2, 1], ("cat", "dog", "eel"))


class TestVectors:
    TEXT = "image,label\n0000.jpg,cat dog\n0001.jpg,\n0002.jpg,eel\n0003.jpg,dog cat dog\n"

    def test_several_classes(self, table: Callable[..., IndexedDataset]) -> None:
        """Cells of several classes become the multi-hot vectors that pandas makes of them, also in a batch."""
        read = pd.read_csv(io.StringIO(self.TEXT), dtype=str, keep_default_na=False)
        expected = read["label"].str.get_dummies(" ").drop(columns=[""], errors="ignore")
        dataset = table(self.TEXT, label_separator=" ")
        [batch] = Loader.eval(dataset, Recipe([CenterCrop(16)]), batch_size=4, device="cpu")
        assert (dataset.class_names, dataset.label_shape) == (tuple(expected.columns), (3,))
        assert labels(dataset) == batch.labels.tolist() == expected.to_numpy().tolist()
        assert batch.labels.dtype == torch.float32

    def test_columns(self, table: Callable[..., IndexedDataset]) -> None:
        """Columns of numbers are the numbers of a vector, which they name."""
        text = "image,dog,cat,score\n0000.jpg,1,0,-0.25\n0001.jpg,0.5,.5,1e3\n"
        expected = pd.read_csv(io.StringIO(text))
        for names in (["score", "dog"], ["score"]):
            dataset = table(text, label=names)
            assert labels(dataset) == expected[names].to_numpy().tolist()
            assert dataset.class_names == tuple(names)

    def test_json(self, table: Callable[..., IndexedDataset]) -> None:
        """JSON lists are vectors of one length or several."""
        cells = [[0.5, 1], [2.5], [], [1, 2, 3.5]]
        rows = [f'000{number}.jpg,"{json.dumps(cell)}"' for number, cell in enumerate(cells)]
        dataset = table("image,label\n" + "\n".join(rows))
        assert (labels(dataset), dataset.label_shape) == (cells, None)

    def test_rows_of_one_image(self, table: Callable[..., IndexedDataset]) -> None:
        """With multi_label=True the rows of an image are one sample."""
        dataset = table(SEVERAL_ROWS, multi_label=True)
        assert (labels(dataset), dataset.class_names) == ([[1, 1], [1, 0]], ("cat", "dog"))
        assert texts(dataset, "by") == ['["Ann","Cy"]', "Bo"]


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


TWO_SPLITS = "image,label,split\n0000,a,train\n0001,b,val\n0002,a,train\n"


class TestDetection:
    @pytest.mark.parametrize("text", ["path,start,end,label\na.mp4,0,1,3\n", "a.mp4,3\n"])
    def test_videos_stay_videos(self, tmp_path: Path, text: str) -> None:
        """A .csv of videos is a list of clips, as ever."""
        (tmp_path / "a.csv").write_text(text)
        assert type(open_dataset(tmp_path / "a.csv")) is ClipListDataset

    def test_parquet_with_images_stays(self, tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
        """A table that holds images is read as ever, though it has a column of paths, too."""
        written = pa.table({"path": ["x.jpg"], "image": [jpeg(20, 20)]})
        pq.write_table(written, tmp_path / "t.parquet")
        assert type(open_dataset(tmp_path / "t.parquet")).__name__ == "ParquetDataset"


SIDES = ["xmin", "ymin", "xmax", "ymax"]


BOX_ROWS = "image,xmin,ymin,xmax,ymax,label\n0000,1,1,5,5,dog\n0000,2,2,6,6,{}\n"


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("0000.jpg\t3\n", {"name": "b.tsv"}, "list of files has no option 'root'"),
        ("image,label\nx/1.jpg,1\nx/2.jpg,2\n", {}, r"line 2: the file .*x/1.jpg is not there.* root="),
        (SPLIT, {"split": "validation"}, "'validation' may be dev or val"),
        (TWO_SPLITS, {}, "holds the splits train, val, which are never one"),
        (TWO_SPLITS, {"split": "test"}, "no split 'test': its splits are train, val"),
        (TWO_SPLITS, {"split": "train", "split_column": "fold"}, "no column 'fold' for split_column="),
        ("image,label\n0000,a\n", {"split": "val"}, "has no split 'val': no column 'split'"),
        (INTEGERS, {}, r"line 2: the label \[0, 3\] is a list of whole numbers: say multi"),
        (SEVERAL_ROWS, {}, r"lines 2 and 4: 0000.jpg has the labels dog and cat: .*multi_label"),
        ("path,label\na.mp4,1\nb.jpg,2\n", {}, r"names images \(b.jpg\) and videos \(a.mp4\): say format="),
        ("what,where\na,b\n", {}, "names neither images nor videos .* say format='csv' and image="),
        ("left,right\n0000.jpg,0001.jpg\n", {}, r"several columns of image files \(left, right\): name one"),
        (BOX_ROWS.format("cat"), {}, r"has the labels dog and cat: say (boxes=\['xmin', 'ymin', 'xmax', 'ymax'\]) where each row is a box, multi"),
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


@pytest.mark.parametrize(
    ("text", "options", "warning", "expected"),
    [
        ("image,label\n0000,cat\n0001,\n", {}, r"1 of 2 samples of .*t.* have no label", [0, -1]),
        ("image,id,species\n0000,x,cat\n", {}, "no sample of .* has a label .* with label=", [-1]),
        # Of two columns that may be the label or the image one is taken, also where it is called like its role.
        ("image,y,class\n0000,a,b\n", {}, "of the columns class, y, which may each be the label, class was", [0]),
        ("mask,path\n0000.jpg,0001.jpg\n", {}, "of the columns path, mask, which may each be the image, path was", [-1]),
        ("path,image,label\n0000.jpg,0001.jpg,a\n", {}, "of the columns image, path, which may each be the image", [0]),
        ("image,target,label\n0000,1,a\n", {}, "the columns label, target, which may each be the label", [0]),
        # No mask is a picture to train on, and a column that is named is no guess.
        ("mask,image,label\n0000.jpg,0001.jpg,a\n", {}, None, [0]),
        ("path,image,label\n0000.jpg,0001.jpg,a\n", {"image": "path"}, None, [0]),
        # Rows that are boxes, and boxes without a class.
        (BOX_ROWS.format("dog"), {}, "is a sample: say boxes=.* is a box, else remove", [0, 0]),
        (BOX_ROWS.format(""), {"boxes": SIDES, "coords": "zero-based"}, r"1 of 2 boxes have no class \(class -1\)", [-1]),
        # An image that two rows name with one label is two samples, and a key of two samples is said.
        ("image,label\n0000,1\n0001,2\n0000,1\n", {}, "names 1 image in several rows .*0000.jpg, lines 2 and 4", [1, 2, 1]),
        ("image,id\n0000,x\n0001,x\n", {}, r"1 of 2 samples have the key of another in the column id \(x, lines 2 and 3", [-1, -1]),
    ],
)  # fmt: skip
def test_warnings(
    table: Callable[..., IndexedDataset],
    text: str,
    options: dict[str, Any],
    warning: str | None,
    expected: list[int],
) -> None:
    """Where a guess may be wrong a warning says what was taken, and nothing where there is no doubt."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        dataset = table(text, **options)
    messages = [str(one.message) for one in said]
    assert any(re.search(warning, one) for one in messages) if warning else not messages, messages
    assert labels(dataset) == expected


def test_missing_files(tmp_path: Path) -> None:
    """A file that is not there is said to be missing."""
    for opened in (open_dataset, PathTableDataset):
        with pytest.raises(SourceError, match=r"trian.csv does not exist: give"):
            opened(tmp_path / "trian.csv")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_another_encoding(tmp_path: Path, encoding: str) -> None:
    """It is named."""
    (tmp_path / "wide.csv").write_bytes("image,label\n0000.jpg,cat\n".encode(encoding))
    message = r"wide.csv is in UTF-16 or UTF-32: write it as CSV in UTF-8"
    assert_refused(message, tmp_path / "wide.csv")
