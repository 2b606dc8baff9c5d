"""DOTA: files of labels as people and programs write them, layouts of its versions and of tiles, and classes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readers import BadSample, open_dataset
from readers.formats.dota.dataset import DotaDataset
from readers.formats.dota.labels import CLASSES, parse_labels
from readers.formats.dota.layout import find_layout
from tests.support.annotated import picture, put
from tests.support.entries import json_of
from tests.support.opening import assert_refused, open_with_warning, warnings_of

IMAGE = picture()
HEADER = "imagesource:GoogleEarth\ngsd:0.146343590398\n"
ROW = "20 4 40 24 28 36 8 16"  # within the picture of 64 x 48
CORNERS = [20, 4, 40, 24, 28, 36, 8, 16]
SHIP = f"{ROW} ship 0\n"


def write(root: Path, **texts: str) -> Path:
    """Pictures in images and labels in labelTxt, by stem."""
    put(root, {f"images/{stem}.png": IMAGE for stem in texts})
    return put(root, {f"labelTxt/{stem}.txt": text for stem, text in texts.items()})


def first(root: Path, **options: Any) -> Any:
    [entry] = open_dataset(root, **options).fetch([0])
    return entry.reason if isinstance(entry, BadSample) else json_of(entry)


def test_objects(tmp_path: Path) -> None:
    """Corners in the order of the file, with classes, flags and the header; numpy reads the same numbers."""
    rows = f"{ROW} large-vehicle 1\n8 16 28 36 40 24 20 4 ship 2\n-3.5 1 9 1 9 9 -3.5 9 plane 0\n"
    root = write(tmp_path, P0001=HEADER + rows, P0002="")
    dataset = open_dataset(root)
    found, empty = (json_of(one) for one in dataset.fetch([0, 1]))
    table = np.loadtxt(root / "labelTxt" / "P0001.txt", str, skiprows=2)

    assert found == {
        "boxes": table[:, :8].astype(float).tolist(),
        "labels": [CLASSES.index(name) for name in table[:, 8]],
        "difficult": table[:, 9].astype(int).tolist(),
        "header": {"imagesource": "GoogleEarth", "gsd": "0.146343590398"},
        "box_format": "xyxyxyxy",
    }
    assert empty == {
        "boxes": [],
        "labels": [],
        "difficult": [],
        "header": {},
        "box_format": "xyxyxyxy",
    }
    assert isinstance(dataset, DotaDataset)
    assert dataset.keys() == ["images/P0001", "images/P0002"]
    assert first(root, difficult=False)["labels"] == [0]
    assert open_dataset(root, difficult=False).fingerprint != dataset.fingerprint


@pytest.mark.parametrize(
    ("line", "name", "difficult"),
    [
        ("ship 0", "ship", 0),
        ("ship 1 \r", "ship", 1),
        ("ship 1.0", "ship", 1),
        ("\tship", "ship", 0),
        ("fishing boat 2", "fishing boat", 2),
        ("fishing boat", "fishing boat", 0),
        ("3 1", "3", 1),
        ("3", "3", 0),
        ("Boeing 737 0", "Boeing 737", 0),
    ],
)
def test_classes_and_flags(line: str, name: str, difficult: int) -> None:
    """A class may have blanks or be a number; the flag may be missing."""
    header, [row] = parse_labels(f"\ufeff gsd : null\r\n\r\n  {ROW} {line}\r\n".encode(), "a")

    assert header == {"gsd": "null"}
    assert (row.line, row.corners, row.name, row.difficult) == (3, (*CORNERS,), name, difficult)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (ROW, "labelTxt/a.txt:1: 8 words, and a row has x, y of four corners"),
        (f"{ROW} ship 3", "a.txt:1: difficult must be 0 or 1 or 2, got"),
        (f"{SHIP}20 4 40 24 28 36 8 x ship 0", "a.txt:2 must be a number"),
        (f"{SHIP}gsd:1", "a.txt:2: 1 words"),
        ("20 4 40 24 28 36 8 nan ship 0", "a.txt:1 must be a number"),
        (f"{ROW} tank 0", "a.txt:1: 'tank' is none of the classes"),
        ("90 4 99 4 99 9 90 9 ship 0", "a.txt:1: its centre .* lies outside the picture"),
    ],
    ids=["no class", "flag", "letter", "late header", "nan", "class", "outside"],
)
def test_malformed_lines_make_one_bad_sample(tmp_path: Path, text: str, match: str) -> None:
    root = write(tmp_path, a=text, b=SHIP)
    bad, good = open_dataset(root, classes=["ship"]).fetch([0, 1])

    assert isinstance(bad, BadSample)
    with pytest.raises(AssertionError, match=match):
        raise AssertionError(bad.reason)
    assert json_of(good)["boxes"] == [CORNERS]


def test_boxes_without_an_area_are_counted(tmp_path: Path) -> None:
    """Tiles have such rests of objects at their edges."""
    flat = "1 4 1 9 1 20 1 7 ship 0\n5 5 5 5 5 5 5 5 ship 2\n"
    root = write(tmp_path, P1__1__0___0=SHIP + flat, P1__1__512___0="")

    assert first_with_warning("2 boxes without an area", root)["boxes"] == [CORNERS]
    assert first_with_warning("2 boxes without an area", root, classes=["ship"])["labels"] == [0]


def first_with_warning(match: str, root: Path, **options: Any) -> Any:
    [entry] = open_with_warning(match, root, **options).fetch([0])
    return json_of(entry)


@pytest.mark.parametrize(
    ("files", "options"),
    [
        ({"images/a.png": IMAGE, "labelTxt/a.txt": SHIP}, {}),
        ({"images/a.PNG": IMAGE, "labelTxt/a.TXT": SHIP}, {}),
        ({"train/images/a.png": IMAGE, "train/labelTxt/a.txt": SHIP}, {"split": "train"}),
        ({"images/train/a.png": IMAGE, "labelTxt/train/a.txt": SHIP}, {"split": "train"}),
        ({"Train/images/a.tif": IMAGE, "Train/labelTxt/a.txt": SHIP}, {"split": "train"}),
        ({"images/a__1__0___0.png": IMAGE, "annfiles/a__1__0___0.txt": SHIP}, {}),
        (
            {
                "train/images/part1/images/a.png": IMAGE,
                "train/labelTxt-v1.5/DOTA-v1.5_train/a.txt": SHIP,
                "train/labelTxt-v1.5/DOTA-v1.5_train_hbb/a.txt": "0 0 9 0 9 9 0 9 plane 0",
            },
            {"split": "train"},
        ),
        (
            {
                "images/a.png": IMAGE,
                "labelTxt-v1.0/labelTxt/a.txt": SHIP,
                "labelTxt-v1.0/trainset_reclabelTxt/a.txt": "0 0 9 0 9 9 0 9 plane 0",
            },
            {},
        ),
        ({"images/a.png": IMAGE, "obb/a.txt": SHIP}, {"annotations": "obb", "format": "dota"}),
    ],
    ids=[
        *("development kit", "capitals", "splits", "splits inside", "Train", "MMRotate", "v1.5"),
        *("v1.0", "own folder"),
    ],
)
def test_layouts(tmp_path: Path, files: dict[str, Any], options: dict[str, Any]) -> None:
    """All are detected but for names of one's own, and other splits are not mixed in."""
    put(tmp_path, files)
    found = json_of(open_dataset(tmp_path, **options).fetch([0])[0])

    assert found["boxes"] == [CORNERS]
    assert warnings_of(tmp_path, **options) == []
    if "split" in options:
        other = {name.replace("rain", "est"): content for name, content in files.items()}
        put(tmp_path, {name.replace("a.", "b."): content for name, content in other.items()})
        assert_refused("holds the splits train, test", tmp_path)
        assert len(open_dataset(tmp_path, **options)) == 1


def test_several_versions_are_refused(tmp_path: Path) -> None:
    files = {
        f"labelTxt-{name}/a.txt": f"{ROW} {one} 0"
        for name, one in (("v1.0", "ship"), ("v1.5", "plane"))
    }
    put(tmp_path, {"images/a.png": IMAGE, **files})

    assert_refused("labelTxt-v1.0, labelTxt-v1.5: say which, annotations='labelTxt-v1.0'", tmp_path)
    assert first(tmp_path, annotations="labelTxt-v1.5")["labels"] == [0]


def test_files_without_a_counterpart(tmp_path: Path) -> None:
    """They are counted; no labels at all, and two files of one name, are refused."""
    root = write(tmp_path / "a", a=SHIP, b=SHIP)
    put(root, {"images/c.png": IMAGE, "labelTxt/d.txt": "no labels", "labelTxt/e.txt": SHIP})
    dataset = open_with_warning("1 picture without .txt and 2 .txt without a picture", root)
    assert len(dataset) == 2

    bare = put(tmp_path / "b", {"images/a.png": IMAGE, "labelTxt/b.txt": SHIP})
    assert_refused("has labels for none of the 1 picture of the split", bare)
    put(bare, {"images/x/b.png": IMAGE, "images/y/b.png": IMAGE})
    assert_refused("images/x/b.png and images/y/b.png have the same name but for the folder", bare)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["helicopter", "ship"], CLASSES[:15]),
        (["container-crane"], CLASSES[:16]),
        (["helipad", "plane"], CLASSES),
    ],
    ids=["v1.0", "v1.5", "v2.0"],
)
def test_classes_are_those_of_the_first_version_that_has_them(
    tmp_path: Path, names: list[str], expected: tuple[str, ...]
) -> None:
    root = write(tmp_path, a="".join(f"{ROW} {name} 0\n" for name in names))

    assert open_dataset(root).class_names == expected
    assert first(root)["labels"] == [expected.index(name) for name in names]


def test_other_classes_are_sorted_with_a_warning(tmp_path: Path) -> None:
    """They are those of all splits; without any object they must be given."""
    put(tmp_path, {f"{split}/images/{split}.png": IMAGE for split in ("train", "val")})
    put(tmp_path, {"train/labelTxt/train.txt": SHIP, "val/labelTxt/val.txt": f"{ROW} boat 0"})
    warning = r"classes that are not DOTA's, .* sorted order \(boat.* ship\): say classes="
    dataset = open_with_warning(warning, tmp_path, split="train")

    assert dataset.class_names == ("boat", "ship")
    assert warnings_of(tmp_path, split="train", classes=["ship", "boat"]) == []
    empty = write(tmp_path / "empty", a=HEADER)
    assert_refused("name no objects: give the names of the classes", empty, format="dota")
    assert first(empty, classes=["ship"])["boxes"] == []


def test_a_folder_with_labels_of_yolo_as_well_is_refused(tmp_path: Path) -> None:
    put(tmp_path, {"images/a.png": IMAGE, "labels/a.txt": "0 0.5 0.5 0.1 0.1\n"})
    put(tmp_path, {"labelTxt/a.txt": SHIP, "data.yaml": "train: images\nnames: [ship]\n"})

    assert_refused("as Ultralytics YOLO and as DOTA: say format='yolo' or format='dota'", tmp_path)
    assert first(tmp_path, format="dota")["boxes"] == [CORNERS]


def test_pictures_opened_without_their_labels(tmp_path: Path) -> None:
    root = write(tmp_path, a=SHIP)

    assert any("without the oriented boxes of DOTA" in one for one in warnings_of(root / "images"))


def test_labels_of_all_splits_are_found_for_the_classes(tmp_path: Path) -> None:
    put(tmp_path, {f"{split}/images/1.png": IMAGE for split in ("train", "val")})
    put(tmp_path, {f"{split}/labelTxt/1.txt": SHIP for split in ("train", "val")})
    entries, labels, remarks = find_layout(tmp_path, "val", None)

    assert [one.annotation for one in entries] == ["val/labelTxt/1.txt"]
    assert labels == ["train/labelTxt/1.txt", "val/labelTxt/1.txt"]
    assert remarks == []


def test_classes_are_those_of_a_yaml_file_beside(tmp_path: Path) -> None:
    """Roboflow writes data.yaml beside labelTxt; the names in it have their numbers there, and classes= precedes them."""
    root = write(tmp_path, a=f"{ROW} truck 0\n{ROW} bus 0\n")
    yaml = "train: ../train/images\nval: ../valid/images\nnc: 3\nnames: ['van', 'truck', 'bus']\n"
    put(root, {"data.yaml": yaml})
    options: dict[str, Any] = {"format": "dota"}

    assert warnings_of(root, **options) == []
    assert open_dataset(root, **options).class_names == ("van", "truck", "bus")  # type: ignore[attr-defined]
    assert first(root, **options)["labels"] == [1, 2]
    assert first(root, classes=["bus", "truck"], **options)["labels"] == [1, 0]
    put(root, {"data.yaml": "version: 3\n"})
    assert open_with_warning("in sorted order", root).class_names == ("bus", "truck")
