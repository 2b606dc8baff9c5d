"""Class numbers: names of classes are never gathered from a part of what names them."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from readers import BadSample, SourceError, open_dataset
from tests.support.annotated import labelme_json, picture, put, shape, voc_object, voc_xml
from tests.support.failing import failing
from tests.support.loss import Cell, NotApplicable
from tests.support.opening import assert_refused, open_with_warning
from tests.support.target_files import TARGETS
from tests.support.writers import Written, imagenet

_NAMES = ("ant", "bee", "cow")


def _class_folders(files: dict[str, bytes], format_name: str, root: Path) -> None:
    """A class folder that cannot be listed for a while is no reason to number the others anew."""
    put(root, {f"{name}/{file}": data for name in _NAMES for file, data in files.items()})
    assert open_dataset(root, format=format_name).class_names == _NAMES
    with failing(root / "bee"):
        assert_refused("bee", root, format=format_name)


def _folder(root: Path) -> None:
    """Also of a split, whose numbers are those of the training data."""
    _class_folders({"a.jpg": b"x"}, "folder", root / "all")
    names = {"train": _NAMES, "val": _NAMES[1:]}
    files = [f"{split}/{name}/a.jpg" for split, some in names.items() for name in some]
    put(root / "s", dict.fromkeys(files, b"x"))
    assert open_dataset(root / "s", split="val").class_names == _NAMES
    with failing(root / "s" / "train"):
        assert_refused("train", root / "s", split="val")


def _annotations(
    write: Callable[[str], str], ending: str, format_name: str, broken: str, root: Path
) -> None:
    """One annotation that is damaged, or cannot be read for a while, may name a class that moves the numbers."""
    for number, name in enumerate(_NAMES):
        put(root, {f"{number}.jpg": picture(), f"{number}.{ending}": write(name)})
    options: dict[str, Any] = {"format": format_name}
    names = {"classes": ["ant", "bee", "cow"]}
    dataset = open_dataset(root, **options, **names)
    before = dataset.fingerprint
    annotation = root / f"1.{ending}"
    with failing(annotation):
        assert_refused(f"1.{ending}.*Input/output error.*the storage failed", root, **options)
        [bad] = dataset.fetch([1])
        assert bad.transient
        with pytest.raises(SourceError, match="the storage failed"):
            _ = open_dataset(root, **options, **names).fingerprint
    put(root, {f"1.{ending}": ""})
    empty = open_dataset(root, **options, **names).fingerprint
    put(root, {f"1.{ending}": broken})
    assert_refused(f"1.{ending}.*may name further classes.*classes=", root, **options)
    dataset = open_dataset(root, **options, **names)
    entries = dataset.fetch([0, 1, 2])
    assert [isinstance(one, BadSample) for one in entries] == [False, True, False]
    assert json.loads(entries[2].fields["json"])["labels"][0] == 2  # type: ignore[union-attr]
    annotation.unlink()
    annotation.mkdir()
    assert len({before, empty, dataset.fingerprint}) == 3
    assert_refused(f"1.{ending}.*may name further classes.*classes=", root, **options)
    [bad] = open_dataset(root, **options, **names).fetch([1])
    assert isinstance(bad, BadSample)


def _voc(root: Path) -> None:
    _annotations(
        lambda name: voc_xml(voc_object(name), voc_object(name, (1, 1, 64, 48))),
        "xml",
        "voc",
        "<annotation><object><name>bee</name>",
        root,
    )


@pytest.mark.filterwarnings("ignore:.*has no list of classes")
def _labelme(root: Path) -> None:
    def write(name: str) -> str:
        return labelme_json(shape(label=name), image=f"{_NAMES.index(name)}.jpg")

    _annotations(write, "json", "labelme", '{"shapes": [', root)


def _dota(root: Path) -> None:
    """A file of labels that is damaged, or cannot be read for a while, may name a class that moves the numbers."""

    def write(name: str) -> str:
        return f"8 4 40 4 40 36 8 36 {name} 0\n"

    put(root, {f"images/{number}.png": picture() for number in range(3)})
    put(root, {f"labelTxt/{number}.txt": write(name) for number, name in enumerate(_NAMES)})
    assert open_with_warning("sorted order", root).class_names == _NAMES
    put(root, {"labelTxt/1.txt": "8 4 40 bee"})
    assert_refused("1.txt:1: .*may name further classes.*classes=", root)
    _, bad, last = open_dataset(root, classes=list(_NAMES)).fetch([0, 1, 2])
    assert isinstance(bad, BadSample)
    assert json.loads(last.fields["json"])["labels"] == [2]  # type: ignore[union-attr]
    with failing(root / "labelTxt" / "1.txt"):
        assert_refused("the storage failed", root, classes=list(_NAMES))


def _csv(root: Path) -> None:
    """A row that lacks a cell, or a table that is away, is refused by its name."""
    put(root, {"a.jpg": picture(), "a.csv": "image,label\na.jpg,ant\na.jpg\na.jpg,cow\n"})
    assert_refused("line 3", root / "a.csv")
    put(root, {"a.csv": "image,label\na.jpg,ant\n"})
    with failing(root / "a.csv"):
        assert_refused("a.csv", root / "a.csv")


def _manifest(root: Path) -> None:
    """Names are given with classes=; a broken line is one bad sample and moves no number."""
    lines = ['{"image": "a.png", "label": "ant"}', "{", '{"image": "a.png", "label": "cow"}']
    put(root, {"a.png": picture(), "a.jsonl": "\n".join(lines)})
    found = open_dataset(root / "a.jsonl", classes=["ant", "bee", "cow"]).fetch([0, 1, 2])
    assert [getattr(one, "label", None) for one in found] == [0, None, 2]


def _coco(root: Path) -> None:
    """Categories of one id, or of ids of two kinds, are refused, and so are two images of one id."""
    source, _ = TARGETS["coco"][0](root)
    stored = json.loads(source.read_text())
    [dog], [image] = stored["categories"], stored["images"]
    for changed, match in (
        ({"categories": [dog, {"id": 18, "name": "cat"}]}, "category id 18 to dog and to cat"),
        ({"categories": [dog, {"id": "1", "name": "cat"}]}, "categories must be a list"),
        ({"images": [image, image | {"file_name": "b.png"}]}, "image id 7 to a.png and to b.png"),
    ):
        source.write_text(json.dumps(stored | changed))
        assert_refused(match, source)
    for nothing in ({"categories": []}, {"categories": None}):
        source.write_text(json.dumps(stored | nothing))
        open_with_warning("no categories, so that labels are its category_ids", source)
    source.write_text(json.dumps(stored | {"images": [image, image | {"id": 8}]}))
    open_with_warning("lists 1 image again under another id", source)
    objects = [*stored["annotations"], {"id": 2, "bbox": [1, 1, 2, 2]}, 3]
    source.write_text(json.dumps(stored | {"annotations": objects}))
    open_with_warning("has 2 annotations of images that it does not list", source)


def _openimages(root: Path) -> None:
    """A label that is described twice is refused, and so are descriptions that cannot be read for a while."""
    source, options = TARGETS["openimages"][0](root)
    descriptions = root / "class-descriptions-boxable.csv"
    with failing(descriptions):
        assert_refused("Input/output error", source, **options)
    put(root, {descriptions.name: "/m/1,Dog\n/m/1,Cat\n"})
    assert_refused("each label once", source, **options)


def _yolo(root: Path) -> None:
    """A number with two names is refused, and so is a description or a file of labels that is away for a while."""
    source, _ = TARGETS["yolo"][0](root)
    with failing(root / "labels" / "a.txt"):
        assert_refused("the storage failed", source)
    put(root, {"data.yaml": "train: images\nnames:\n  0: a\n  0: b\n"})
    assert_refused("cannot be read as YAML", source)


def _tfrecord(root: Path) -> None:
    """A label map with one id twice is refused."""
    source, _ = TARGETS["tfrecord"][0](root)
    items = "item { id: 1 name: 'ant' } item { id: 1 name: 'bee' }"
    put(root, {"label_map.pbtxt": items})
    assert_refused("the same number for two classes", source)


def _mask_folder(root: Path) -> None:
    """What values mean is not decided without a mask that is away for a while."""
    source, options = TARGETS["mask-folder"][0](root)
    with failing(root / "masks" / "a.png"):
        assert_refused("so the values of masks are unknown", source, **options)


def _imagenet(root: Path) -> None:
    """A kit that cannot be read is refused."""
    source = imagenet.write(root, [Written("a", picture(), 0)])
    truth = next(source.rglob("ILSVRC2012_validation_ground_truth.txt"))
    with failing(truth):
        assert_refused("Input/output error", source, split="val")
    truth.write_text("x\n")
    assert_refused("one number of a class for each line", source, split="val")


def _packed_classes(root: Path) -> None:
    """The numbers of a tar's labels do not hang on what other samples say."""
    source, options = TARGETS["tar"][0](root)
    [entry] = open_dataset(source, **options).fetch([0])
    assert entry.label == -1


_NUMBERS = NotApplicable(
    "Labels are class numbers, or names that are numbered by classes=; none are gathered."
)
_IN_SCHEMA = NotApplicable(
    "Names of classes stand as a whole in the metadata of the schema, not in rows."
)

CELLS: dict[str, Cell] = {
    "folder": _folder,
    "video-folder": partial(_class_folders, {"a.mp4": b"x"}, "video-folder"),
    "frame-folder": partial(_class_folders, {"v/1.jpg": b"x", "v/2.jpg": b"x"}, "frame-folder"),
    "list": _NUMBERS,
    "csv": _csv,
    "clip-list": _NUMBERS,
    "tar": _packed_classes,
    "stream": _NUMBERS,
    "parquet": _IN_SCHEMA,
    "arrow": _IN_SCHEMA,
    "lmdb": _NUMBERS,
    "hdf5": _NUMBERS,
    "tfrecord": _tfrecord,
    "arrayrecord": _NUMBERS,
    "mds": _NUMBERS,
    "npy": NotApplicable("An array of images holds no classes; labels are given as numbers."),
    "manifest": _manifest,
    "coco": _coco,
    "voc": _voc,
    "yolo": _yolo,
    "labelme": _labelme,
    "dota": _dota,
    "mask-folder": _mask_folder,
    "imagenet": _imagenet,
    "openimages": _openimages,
    "lerobot": NotApplicable("Tasks are numbered by the dataset's own table, which is read whole."),
    "lance": _IN_SCHEMA,
    "delta": _IN_SCHEMA,
    "iceberg": _IN_SCHEMA,
    "energon": _NUMBERS,
}
