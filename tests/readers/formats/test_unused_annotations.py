"""What lies beside images and is not read is said when they are opened; so is a choice among columns."""

import json
import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from readers import Sample, SourceError, open_dataset
from readers.formats.columns import ColumnOptions
from readers.formats.mds.columns import make_plan
from tests.support.annotated import put, voc_object, voc_xml
from tests.support.opening import assert_refused, open_with_warning, warnings_of
from tests.support.tars import tar_of

Jpeg = Callable[..., bytes]
CVAT = b"<?xml version='1.0'?><annotations><version>1.1</version></annotations>"
OPEN_IMAGES = b"ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax\n"


@pytest.mark.parametrize(
    ("images", "beside", "match"),
    [
        ("JPEGImages/a.jpg", {"Annotations/a.xml": b"<annotation/>"}, "boxes of Pascal VOC"),
        ("photos/cat/a.jpg", {"photos/cat/a.xml": b"<annotation/>"}, "boxes of Pascal VOC"),
        ("images/train/a.jpg", {"labels/train/a.txt": b"0 0.5 0.5 0.25 1\n"}, "boxes of YOLO"),
        ("images/a.jpg", {"labels/a.txt": b"12 0.5 .5 0.25 0.1 0.3 0.2\n"}, "boxes of YOLO"),
        ("photos/a.jpg", {"photos/a.txt": b"3 0.1 0.2 0.3 0.4"}, "boxes of YOLO"),
        (
            "photos/a.jpg",
            {"photos/metadata.csv": b"photo,label\n"},
            "metadata.csv: .*column file_name",
        ),
        ("a/p.jpg", {"a/labels.csv": b"image,label\np.jpg,cat\n"}, "rows of .*labels.csv"),
        ("a/p.jpg", {"a.csv": b"id,label\np,cat\n"}, r"rows of .*a.csv: .*a.csv', root="),
        ("val/a.jpg", {"annotations/instances_val.json": b"{}"}, "objects in .*instances_val"),
    ],
)
def test_annotations_that_nobody_reads(
    tmp_path: Path, jpeg: Jpeg, images: str, beside: dict[str, bytes], match: str
) -> None:
    """Of Pascal VOC, YOLO, COCO and Hugging Face: one warning that says what to do; the images are there."""
    put(tmp_path, {images: jpeg(9, 8), **beside})

    folder = tmp_path / images.split("/")[0] if "cat" in images else (tmp_path / images).parent
    with pytest.warns(UserWarning, match=f"is read without .*{match}") as warned:
        dataset = open_dataset(folder)
    assert isinstance(dataset.fetch([0])[0], Sample)
    if not any(name in match for name in ("metadata", "instances", "rows")):
        [call] = re.findall(r"use open_dataset(\(.*\))$", str(warned[0].message))
        options = {"classes": ["cat"]} if "voc" in call else {"task": "detect"}
        opened = eval(f"opener{call}", {"opener": partial(open_dataset, **options)})
        assert type(opened).__name__ in ("VocDataset", "YoloDataset")


@pytest.mark.parametrize(
    ("image", "folder", "name"),
    [
        *(("a.jpg", "", name) for name in ("ann.json", "annotations.json", "train.json")),
        ("a.jpg", "", "annotations/objects.json"),
        ("images/a.jpg", "", "ann.json"),
        ("images/a.jpg", "images", "labels.json"),
        ("images/a.jpg", "images", "annotations/ann.json"),
        ("photos/a.jpg", "photos", "some.json"),
        ("train/a.jpg", "train", "my_train.json"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*has the (one )?class:UserWarning")
def test_coco_files_of_any_name(
    tmp_path: Path, jpeg: Jpeg, image: str, folder: str, name: str
) -> None:
    """They are told by the two ends of their text, and the sentence says a call that opens them."""
    listed = [{"id": 1, "file_name": "a.jpg", "height": 9, "width": 8}]
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 2, 2], "area": 4}
    content = {
        "images": listed,
        "info": "-" * (140_000 if "ann" in name else 0),
        "annotations": [box | {"iscrowd": 0}],
    }
    content["categories"] = [{"id": 1, "name": "cat"}]
    put(tmp_path, {image: jpeg(9, 8), name: json.dumps(content).encode()})

    with pytest.warns(UserWarning, match="is read without the objects") as warned:
        open_dataset(tmp_path / folder)
    [call] = [
        found for one in warned for found in re.findall(r"open_dataset\(.*\)$", str(one.message))
    ]
    [sample] = eval(call).fetch([0])
    assert json.loads(bytes(sample.fields["json"]))["boxes"] == [[1, 1, 3, 3]]


@pytest.mark.parametrize(
    "text", ['{"images": ["a.jpg"]}', '[{"image_id": 1, "category_id": 3}]', '{"shapes": []}', "{"]
)
def test_other_json_is_none_of_coco(tmp_path: Path, jpeg: Jpeg, text: str) -> None:
    """Nothing is said of results, of LabelMe, or of a list of images alone (warnings are errors here)."""
    open_dataset(put(tmp_path, {"a.jpg": jpeg(9, 8), "notes.json": text.encode()}))


@pytest.mark.parametrize(
    ("names", "match"),
    [
        (["a.jpg", "a_mask.png", "b.jpg"], "holds a_mask.png beside a.jpg.* call it a.mask.png"),
        (["x/a.jpg", "x/a-seg.PNG", "y/b.jpg"], "holds a-seg.PNG beside a.jpg"),
        (
            ["gt/1.png", "gt/2.png", "gt/3.png", "in/1.jpg", "in/2.jpg", "in/3.jpg"],
            "two classes with the same names of files, in/1.jpg and gt/1.png.*NAME.mask.png",
        ),
        (["images/a.jpg", "masks/b.png"], "has the class 'masks': its images are taken"),
    ],
)
def test_masks_that_are_taken_for_images(
    tmp_path: Path, jpeg: Jpeg, names: list[str], match: str
) -> None:
    """Pictures that differ from others in name or kind alone are said to be read as images."""
    with pytest.warns(UserWarning, match=match) as said:
        open_dataset(put(tmp_path, dict.fromkeys(names, jpeg(9, 8))))
    assert len([one for one in said if "has a label" not in str(one.message)]) == 1


@pytest.mark.parametrize(
    "names",
    [
        ["cat/1.jpg", "cat/2.jpg", "cat/3.jpg", "dog/1.jpg", "dog/2.jpg", "dog/3.jpg"],
        ["cat/1.jpg", "cat/2.jpg", "cat/3.jpg", "dog/1.png", "dog/2.png", "dog/4.png"],
        ["cat/gas_mask.jpg", "dog/b.jpg"],
        ["cat/1.jpg", "results.csv"],
        ["cat/a.jpg", "cat/a.cls", "cat/more/b.jpg", "testing grounds/a.jpg"],
        # Pictures with numbers of a camera, far apart, are no frames.
        [f"cat/trip/img_{number:04d}.jpg" for number in (1, 7, 30)],
    ],
)
def test_classes_that_are_none(tmp_path: Path, jpeg: Jpeg, names: list[str]) -> None:
    """Numbered pictures of two classes, a picture of a mask and folders within classes are said nothing of."""
    images = [name for name in names if name.endswith(("jpg", "png"))]
    files = dict.fromkeys(names, b"1") | dict.fromkeys(images, jpeg(9, 8))
    dataset = open_dataset(put(tmp_path, files))
    assert len(dataset) == len(images)
    assert set(dataset.class_names) == {name.partition("/")[0] for name in names if "/" in name}


@pytest.mark.parametrize("name", ["Annotations/a.xml", "labels/a.txt"])
def test_a_folder_of_annotations_is_no_class(tmp_path: Path, jpeg: Jpeg, name: str) -> None:
    """Beside the folder of images: the error says which of them to open."""
    root = put(tmp_path, {"images/a.jpg": jpeg(9, 8), name: b"0 0.5 0.5 0.25 1"})

    assert_refused(r"annotations .*: say format='yolo', classes=.*/images to", root)


@pytest.mark.parametrize(
    "text", [{"a.txt": b"a cat 0.5"}, {"a.txt": b"7"}, {"a.txt": b""}, {"a.json": b"{}"}]
)
def test_other_texts_are_no_boxes(tmp_path: Path, jpeg: Jpeg, text: dict[str, bytes]) -> None:
    """Captions, numbers and what is read anyway are nothing to warn of (warnings are errors here)."""
    open_dataset(put(tmp_path, {"a.jpg": jpeg(9, 8), **text}))


def test_boxes_of_tensorflow(tmp_path: Path) -> None:
    """Features that the object detection of TensorFlow writes."""
    tfrecord = pytest.importorskip("tfrecord")
    writer = tfrecord.TFRecordWriter(str(tmp_path / "a.tfrecord"))
    boxes = {f"image/object/bbox/{side}": ([0.1, 0.2], "float") for side in ("xmin", "xmax")}
    writer.write({"image/encoded": (b"bytes", "byte"), **boxes})
    writer.close()

    open_with_warning(
        "boxes in the features image/object/bbox/xmax, image", tmp_path / "a.tfrecord"
    )


@pytest.mark.parametrize("missing", [0, 1, 5, 9])
def test_a_missing_frame(tmp_path: Path, jpeg: Jpeg, missing: int) -> None:
    """Pictures called like frames are neither videos nor images by themselves where a number is missing."""
    numbers = [number for number in range(1, 11) if number != missing]
    names = [f"jump/video/img_{number:05d}.jpg" for number in numbers]
    root = put(tmp_path, dict.fromkeys(names, jpeg(9, 8)))

    if not missing:
        assert len(open_dataset(root)) == 1
        return
    assert_refused(rf"but number {missing} is missing: say format=", root)
    assert len(open_dataset(root, format="frame-folder")) == 1
    assert len(open_dataset(root, format="folder")) == 9


def write_parquet(path: Path, columns: dict[str, Any]) -> Path:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table(columns), path)
    return path


def write_tfrecord(path: Path, columns: dict[str, Any]) -> Path:
    tfrecord = pytest.importorskip("tfrecord")
    path = path.with_suffix(".tfrecord")
    writer = tfrecord.TFRecordWriter(str(path))
    for row in zip(*columns.values(), strict=True):
        kinds = [(value, "byte" if isinstance(value, bytes) else "int") for value in row]
        writer.write(dict(zip(columns, kinds, strict=True)))
    writer.close()
    return path


@pytest.mark.parametrize("write", [write_parquet, write_tfrecord])
@pytest.mark.parametrize(
    ("image", "label"), [("image_png", "class_id"), ("img", "fine_label"), ("x", "y")]
)
def test_usual_columns(
    tmp_path: Path, jpeg: Jpeg, write: Callable[..., Path], image: str, label: str
) -> None:
    """Those of Petastorm, of CIFAR on the Hugging Face Hub, of Keras, beside others of the same types."""
    images = [jpeg(9, 8), jpeg(7, 8)]
    path = write(tmp_path / "a.parquet", {"thumb": [b"-"] * 2, image: images, label: [3, 4]})
    dataset = open_dataset(path)
    samples = dataset.fetch([0, 1])

    assert [bytes(sample.image) for sample in samples] == images
    assert dataset.column("label").tolist() == [sample.label for sample in samples] == [3, 4]


@pytest.mark.parametrize("write", [write_parquet, write_tfrecord])
def test_a_choice_is_said(tmp_path: Path, jpeg: Jpeg, write: Callable[..., Path]) -> None:
    """Of two columns that may be the label the one taken is named, unless the caller chose."""
    columns = {"img": [jpeg(9, 8)], "coarse_label": [1], "fine_label": [7]}
    path = write(tmp_path / "a.parquet", columns)

    assert open_with_warning("fine_label was taken; say label='fine_label'", path).column(
        "label"
    ).tolist() == [7]
    assert open_dataset(path, label="coarse_label").column("label").tolist() == [1]


def test_columns_of_mds() -> None:
    """By their encodings: whole numbers may be labels, texts under such a name may not."""
    stored = (("image_png", "png", 0), ("digit", "int8", 1), ("category", "str", 0))
    plan = make_plan(stored, ColumnOptions(), "data")

    assert (plan.image_field, plan.label and plan.label.name) == ("image_png", "digit")
    assert plan.remarks == ()


def test_the_class_label_of_hugging_face(tmp_path: Path) -> None:
    """The only column of that type is the label, whatever it is called."""
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["cat", "dog"])
    features = datasets.Features(
        image=datasets.Value("binary"), kind=names, n=datasets.Value("int64")
    )
    rows = {"image": [b"a", b"b"], "kind": [1, 0], "n": [5, 6]}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "a.parquet")
    dataset = open_dataset(tmp_path / "a.parquet")

    assert (dataset.column("label").tolist(), dataset.class_names) == ([1, 0], ("cat", "dog"))


def test_text_is_no_label_by_a_further_name(tmp_path: Path, jpeg: Jpeg) -> None:
    """A category in words leaves samples without a label, but not bad."""
    path = write_parquet(tmp_path / "a.parquet", {"image": [jpeg(9, 8)], "category": ["sports"]})

    assert [sample.label for sample in open_dataset(path).fetch([0])] == [-1]


def test_splits_within_a_tar_are_told(tmp_path: Path) -> None:
    """Names of folders in a tar tell no splits to anybody but people."""
    for name, folders in (("one", ("train/a", "train/b")), ("two", ("train/a", "test/a"))):
        files = [(f"data/{folder}/{n}.jpg", b"\xff\xd8") for n, folder in enumerate(folders)]
        put(tmp_path, {f"{name}.tar": tar_of(files)})
    assert len(open_dataset(tmp_path / "one.tar")) == 2
    open_with_warning("the splits train, test, and all of it is read as one", tmp_path / "two.tar")


def test_our_own_files_fit_no_pattern(tmp_path: Path) -> None:
    """A pattern without an ending fits the index beside a shard, which is no shard."""
    put(tmp_path, {"shard-0.tar": tar_of([("a.jpg", b"\xff\xd8")])})
    for _ in range(2):
        assert len(open_dataset(str(tmp_path / "shard-*"))) == 1
    assert list(tmp_path.glob("*gpuaug*"))


@pytest.mark.parametrize(
    ("names", "beside", "match"),
    [
        # What lies around the images, and what tools write beside such folders, is no class without a word.
        (["images/a.jpg"], {}, "one class 'images', so that all labels are 0.*open .*/images$"),
        (["train_images/a.jpg"], {}, "one class 'train_images', so that all labels are 0"),
        (["train/im/a.jpg"], {}, "one class 'train', so that all labels are 0"),
        (["a/a.jpg", "b/b.jpg"], {"annotations.xml": CVAT}, "export them from CVAT as COCO"),
        (["a/a.jpg", "b/b.jpg"], {"x-train-annotations-bbox.csv": OPEN_IMAGES}, "objects in .*x-train-annotations-bbox.csv: open that file"),
        (["train2017/a.jpg", "annotations/p.png"], {"annotations/instances_train2017.json": b"{}"}, "objects in .*instances_train2017.json: open that file"),
        # A split, masks, a folder too high and files of other kinds among classes.
        (["cat/a.jpg", "dog/a.jpg", "test/a.jpg"], {}, "the class 'test', which is called like a split"),
        (["images/a.jpg", "masks/b.png"], {}, "the class 'masks': its images are taken for photographs"),
        (["data/cat/a.jpg", "data/dog/a.jpg"], {}, "the one class 'data', whose images lie in folders"),
        ([f"a/v/img_{n:05d}.jpg" for n in range(7, 12)], {}, "do not begin at 0 or 1"),
        (["cat/a.jpg", "dog/a.jpg", "dog/b.psd", "dog/c.PSD"], {}, r"left out by their endings \(2 of .psd\)"),
    ],
)  # fmt: skip
def test_folders_that_are_no_classes(
    tmp_path: Path, jpeg: Jpeg, names: list[str], beside: dict[str, bytes], match: str
) -> None:
    """A warning says what is doubtful about the folders that are read as classes."""
    said = warnings_of(put(tmp_path, {**dict.fromkeys(names, jpeg(9, 8)), **beside}))
    assert [text for text in said if re.search(match, text)], said


def test_folders_of_annotations_name_their_file(tmp_path: Path, jpeg: Jpeg) -> None:
    """As CVAT exports COCO: the refusal names the file to open."""
    put(tmp_path, {"images/a.jpg": jpeg(9, 8), "annotations/instances_default.json": b"{}"})

    assert_refused(r"give .*annotations/instances_default\.json of COCO's", tmp_path)


@pytest.mark.parametrize(
    ("names", "is_told"),
    [
        (("a.v1.0.jpg", "a.v1.0.cls", "a.v1.1.jpg", "a.v1.1.cls"), True),
        (("a.jpg", "a.cls", "a.left.jpg", "a.right.jpg"), False),
        (("a.left.jpg", "a.right.jpg", "a.depth.jpg"), False),
        (("a.0.jpg", "a.txt"), False),
    ],
)
def test_dots_in_the_names_of_a_tar(
    tmp_path: Path, jpeg: Jpeg, names: tuple[str, ...], is_told: bool
) -> None:
    """Names with dots become one sample, as for WebDataset; it is said where that is not meant."""
    files = [(name, jpeg(9, 8) if name.endswith("jpg") else b"1") for name in names]
    said = warnings_of(put(tmp_path, {"a.tar": tar_of(files)}) / "a.tar")
    told = [text for text in said if "v1.0.jpg, v1.1.jpg" in text and "first dot" in text]

    assert len(told) == is_told
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(open_dataset(tmp_path / "a.tar")) == 1


def test_columns_of_boxes(tmp_path: Path, jpeg: Jpeg) -> None:
    """A table of boxes that is opened without them says how they are had."""
    put(tmp_path, {"a.jpg": jpeg(99, 98)})
    table = tmp_path / "a.csv"
    table.write_text("filename,class,XMin,YMin,XMax,YMax\na.jpg,dog,1,2,30,40\n")

    with pytest.warns(UserWarning, match=r"without the boxes .*say (boxes=.*) to have") as warned:
        open_dataset(table, label="class")
    found = re.findall(r"say boxes=(\[.*\])", str(warned[0].message))
    sides = [word.strip("' ") for word in found[0][1:-1].split(",")]
    [sample] = open_dataset(table, label="class", boxes=sides, coords="zero-based").fetch([0])
    assert b"[1.0,2.0,30.0,40.0]" in bytes(sample.fields["json"])


BOXES = voc_xml(voc_object("gadget", (1, 1, 5, 5)))


@pytest.mark.parametrize("record", ["extra.tar", "extra.parquet"])
def test_annotations_beside_a_record_file(tmp_path: Path, jpeg: Jpeg, record: str) -> None:
    """Both calls are named; the name of the format decides."""
    put(tmp_path, {"a.jpg": jpeg(20, 20), "a.xml": BOXES, record: bytes(1024)})
    with pytest.raises(SourceError, match="holds files of voc and extra") as refused:
        open_dataset(tmp_path)
    assert f"open_dataset({str(tmp_path)!r}, format='voc')" in str(refused.value)
    assert f"open_dataset({str(tmp_path / record)!r})" in str(refused.value)
    assert open_with_warning("coordinates", tmp_path, format="voc").class_names == ("gadget",)


def test_a_folder_of_annotations_alone(tmp_path: Path) -> None:
    """The call that opens its file is named."""
    nothing = json.dumps({"images": [], "annotations": [], "categories": []})
    folder = put(tmp_path, {"annotations/instances.json": nothing}) / "annotations"
    (tmp_path / "images").mkdir()
    call = f"as in open_dataset({str(folder / 'instances.json')!r})"
    assert_refused(re.escape(call), folder)
