"""YOLO: rows of every task as objects in pixels, descriptions, splits, and what is refused rather than guessed."""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as api

from readers import open_dataset
from readers.formats.yolo.dataset import YoloDataset
from readers.formats.yolo.layout import file_of_picture
from tests.support.annotated import (
    BOX,
    HEIGHT,
    WIDTH,
    outline,
    picture,
    put,
    shares,
    write_yolo,
    yolo_row,
)
from tests.support.entries import fetch_all, json_of
from tests.support.kinds import by_pillow
from tests.support.opening import assert_refused, open_with_warning, warnings_of

IMAGE = picture(kind="JPEG")
TRIANGLE = (0.125, 0.25, 0.75, 0.25, 0.5, 0.875)
POSE = "train: images/train\nnames: {0: person}\nkpt_shape: [3, 3]\nflip_idx: [1, 0, 2]\n"
KEYPOINTS = (0.125, 0.25, 2, 0.5, 0.75, 1, 0, 0, 0)


def told(entry: Any) -> Any:
    found = json_of(entry)
    assert found.pop("box_format") == "xyxy"
    return found


def near(found: Any, expected: Any) -> bool:
    return np.shape(found) == np.shape(expected) and np.allclose(found, expected, atol=1e-9)


def test_boxes(tmp_path: Path) -> None:
    """In pixels between the edges, with the classes as they are written; equal rows count once, as a warning says."""
    text = yolo_row(1) + "\n" + yolo_row(0, (0.5, 0.5, 1, 1)) + yolo_row(1)
    dataset = open_with_warning(
        "repeats 1 row of labels exactly, in 3 files",
        write_yolo(tmp_path, IMAGE, text, "", "1.0  5e-1 .5 0.25 1\r\n"),
    )
    first, empty, third = dataset.fetch(range(3))

    assert isinstance(dataset, YoloDataset)
    assert (dataset.task, dataset.class_names) == ("detect", ("person", "dog"))
    assert near(told(first)["boxes"], [[*BOX], [0, 0, WIDTH, HEIGHT]])
    assert told(first)["labels"] == [1, 0]
    assert told(empty) == {"boxes": [], "labels": []}
    assert near(told(third)["boxes"], [[24, 0, 40, 48]])
    assert [first.key, first.size] == ["images/train/0", (HEIGHT, WIDTH)]
    assert dataset.column("height").tolist() == [0] * 3


def test_repeated_rows_in_files_that_were_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("readers.formats.yolo.dataset._LOOKED_AT", 1)
    dataset = open_dataset(write_yolo(tmp_path, IMAGE, yolo_row(1), 2 * yolo_row(0), yolo_row(0)))

    with pytest.warns(UserWarning, match="repeats 1 row of labels exactly, in 1 file"):
        dataset.fetch([1])
    dataset.fetch([1])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # pycocotools 2.0.11 and NumPy 2
def test_outlines(tmp_path: Path) -> None:
    """Polygons in pixels, their extents, and masks as pycocotools makes them of the same corners."""
    text = yolo_row(0, TRIANGLE) + yolo_row(1, outline())
    root = write_yolo(tmp_path, IMAGE, text)
    assert YoloDataset(root).task == "segment"
    [entry] = YoloDataset(root, masks=True).fetch([0])
    corners = (np.array(TRIANGLE).reshape(-1, 2) * (WIDTH, HEIGHT)).ravel().tolist()

    assert near(told(entry)["polygons"][0], corners)
    assert near(told(entry)["boxes"], [[8, 12, 48, 42], [*BOX]])
    for number, polygon in enumerate(told(entry)["polygons"]):
        expected = api.decode(api.frPyObjects([polygon], HEIGHT, WIDTH))[..., 0]
        mask = np.asarray(Image.open(io.BytesIO(entry.fields[f"mask.{number}.png"])))
        assert np.array_equal(mask, expected)
    rows, columns = np.nonzero(mask)
    assert (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) == BOX


def test_poses(tmp_path: Path) -> None:
    """Keypoints that are labelled, with number, visibility and owner; the others are left out."""
    text = yolo_row(0, (*shares(), *KEYPOINTS)) + yolo_row(0, (0.5, 0.5, 1, 1, *([0.5, 1, 2] * 3)))
    dataset = YoloDataset(write_yolo(tmp_path, IMAGE, text, yaml=POSE))
    found = told(dataset.fetch([0])[0])

    assert (dataset.task, dataset.flip_idx) == ("pose", (1, 0, 2))
    assert near(found["boxes"], [[*BOX], [0, 0, WIDTH, HEIGHT]])
    assert near(found["keypoints"], [[8, 12], [32, 36], *[[32, HEIGHT]] * 3])
    assert found["keypoint_labels"] == [0, 1, 0, 1, 2]
    assert found["keypoint_visibility"] == [2, 1, 2, 2, 2]
    assert found["keypoint_objects"] == [0, 0, 1, 1, 1]


def test_poses_without_visibility(tmp_path: Path) -> None:
    """Every keypoint counts; classes that are only counted have names all the same."""
    yaml = "train: images/train\nnc: 1\nkpt_shape: [2, 2]\n"
    text = yolo_row(0, (*shares(), 0.5, 0.5, 0.25, 0.125))
    dataset = YoloDataset(write_yolo(tmp_path, IMAGE, text, yaml=yaml))

    assert told(dataset.fetch([0])[0])["keypoints"] == [[32, 24], [16, 6]]
    assert dataset.class_names == ("class_0",)


def test_masks_of_classes(tmp_path: Path) -> None:
    """A mask for each picture; a palette of greys may be read in two ways, which is refused."""
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[BOX[1] : BOX[3], BOX[0] : BOX[2]] = 1
    plain = by_pillow("PNG", Image.fromarray(mask))
    greys = Image.frombytes("P", (WIDTH, HEIGHT), mask.tobytes())
    greys.putpalette([0, 0, 0, 255, 255, 255])
    yaml = "train: images/train\nnames: [bg, dog]\nmasks_dir: maps\n"
    files: dict[str, Any] = {f"images/train/{number}.jpg": IMAGE for number in range(3)}
    files |= {"masks/train/0.png": plain, "masks/train/1.png": by_pillow("PNG", greys)}
    root = put(tmp_path, files | {"data.yaml": yaml.replace("maps", "masks")})
    assert type(open_dataset(root)) is YoloDataset
    (root / "masks").rename(root / "maps")
    dataset = YoloDataset(put(root, {"data.yaml": yaml}))
    good, bad, gone = dataset.fetch(range(3))

    assert dataset.task == "semantic"
    assert good.fields == {"jpg": IMAGE, "mask.png": plain}
    assert "maps/train/1.png has a palette of greys" in bad.reason
    assert "maps/train/2.png cannot be read" in gone.reason
    put(root, {"data.yaml": yaml + "label_mapping: {0: 1}\n"})
    assert_refused("label_mapping, which is not applied here", root, by=YoloDataset)


def test_masks_of_classes_need_no_labels(tmp_path: Path) -> None:
    """Pictures without a label file are no background then, so that nothing is said of them."""
    mask = by_pillow("PNG", Image.fromarray(np.zeros((HEIGHT, WIDTH), np.uint8)))
    root = write_yolo(tmp_path, IMAGE, yolo_row())
    put(root, {"images/train/1.jpg": IMAGE, "masks/train/0.png": mask, "masks/train/1.png": mask})

    assert warnings_of(root, format="yolo", task="semantic") == []
    assert (
        open_dataset(root, format="yolo", task="semantic").fetch([1])[0].fields["mask.png"] == mask
    )
    [warning] = warnings_of(root, format="yolo", task="detect")
    assert "no .txt for 1 of the 2 pictures of the split, which count as background" in warning


BAD = {
    yolo_row(2): r"^labels/train/0.txt:1: class 2, names are 0..1 \(1-based\?\)$",
    yolo_row(-1): "0.txt:1: class -1, names are 0..1$",
    yolo_row() + yolo_row(7): "0.txt:2: class 7, names are 0..1$",
    "0.5 0.5 0.5 0.5 0.5": "class 0.5 must be whole",
    "1 0.5 0.5 nan 0.5": "and all else numbers",
    "1 0.5 x 0.5 0.5": "'x' is no number",
    "1 0.5 0.5 0.5 1.02": r"1.02 is no share of the picture's size, which is from -0.01 to 1.01",
    "1 20 24 0.5 0.5": r"20 is no share .* \(pixels\?\)",
    "1 0.5 0.5 0.5 0.5 0.9": "5 numbers behind the class, task='detect' has 4",
    yolo_row() + yolo_row(1, outline()): "0.txt:2: 8 numbers behind the class, task='detect' has 4",
    "1 0.9 0.5 0.5 0.5": "xmax 73.6 > width 64; outside='clip' cuts",
    "1 0.5 0.5 0 0.5": "xmax 32 leaves no area behind xmin 32",
    "1 0.5 0.5 0.5 0.5\udcff": "is no text in UTF-8",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_rows_are_bad_samples(tmp_path: Path, text: str) -> None:
    """One sentence that names file, line and value; the neighbour is read."""
    root = write_yolo(tmp_path, IMAGE, "", yolo_row())
    put(root, {"labels/train/0.txt": text.encode("utf-8", "surrogateescape")})
    bad, good = YoloDataset(root, task="detect").fetch([0, 1])

    assert re.search(BAD[text], bad.reason), bad.reason
    assert near(told(good)["boxes"], [[*BOX]])


@pytest.mark.parametrize(
    ("task", "text", "sentence"),
    [
        ("segment", yolo_row(1, TRIANGLE[:4]), "4 numbers behind .* has 6 or more, in pairs"),
        ("segment", yolo_row(1, (*TRIANGLE, 0.5)), "7 numbers behind"),
        ("obb", yolo_row(1, TRIANGLE), "6 numbers behind the class, task='obb' has 8"),
        ("pose", yolo_row(0), "4 numbers behind the class, task='pose' has 4 and 3 times 3"),
        ("pose", yolo_row(0, (*shares(), *KEYPOINTS[:8], 3)), "visibility of a keypoint must be"),
        ("pose", yolo_row(0, (*shares(), 1.5, *KEYPOINTS[1:])), "1.5 is no share"),
    ],
)
def test_rows_of_other_tasks(tmp_path: Path, task: Any, text: str, sentence: str) -> None:
    """Are bad samples, whatever they are of."""
    root = write_yolo(tmp_path, IMAGE, text, yaml=POSE if task == "pose" else "")
    [bad] = YoloDataset(root, task=task).fetch([0])

    assert re.search(sentence, bad.reason), bad.reason


def test_rounding_and_clipping(tmp_path: Path) -> None:
    """What rounding moves over the edge is put back; more is cut where the caller says so."""
    root = write_yolo(tmp_path, IMAGE, "0 0.5 0.5 1.005 1\n", "0 0.9 0.5 0.5 0.5\n")
    rounded, _ = YoloDataset(root).fetch([0, 1])
    _, cut = YoloDataset(root, outside="clip").fetch([0, 1])

    assert told(rounded)["boxes"] == [[0, 0, WIDTH, HEIGHT]]
    assert near(told(cut)["boxes"], [[41.6, 12, WIDTH, 36]])


def test_splits_and_lists(tmp_path: Path) -> None:
    """Folders with all below them, lists, and lists of these; one of several splits must be named."""
    names = ("train/1", "train/deep/a.b", "val/0", "more/2")
    files: dict[str, Any] = {f"images/{name}.jpg": IMAGE for name in names}
    files |= {f"labels/{name}.txt": yolo_row() for name in names}
    lists = {"list.txt": "./images/val/0.jpg\nimages/more/2.jpg\n\n", "sub/l.txt": "./x.jpg\n"}
    files |= lists | {"sub/x.jpg": IMAGE, "sub/x.txt": yolo_row(0)}
    yaml = (
        "train: [images/train, list.txt]\nval: ../images/val\ntest:\nnc: 2\nnames: [person, dog]\n"
    )
    other = yaml.replace("test:", "test: sub/l.txt")
    root = put(tmp_path, files | {"data.yaml": yaml, "other.yaml": yaml + "test: sub/l.txt\n"})

    assert_refused("holds the splits train, val, which are never one", root)
    assert_refused("has no split 'test': its splits are train, val", root, split="test")
    train = fetch_all(open_dataset(root, split="train"))
    assert [entry.key for entry in train] == [
        "images/more/2", "images/train/1", "images/train/deep/a.b", "images/val/0",
    ]  # fmt: skip
    assert all(near(told(entry)["boxes"], [[*BOX]]) for entry in train)
    for split in ("val", "validation", "valid"):
        entries = open_dataset(root, split=split).fetch([0])
        assert [entry.key for entry in entries] == ["images/val/0"]
    [entry] = open_dataset(put(root, {"other.yaml": other}) / "other.yaml", split="test").fetch([0])
    assert told(entry)["labels"] == [0]


def test_lists_of_pictures_that_are_elsewhere(tmp_path: Path) -> None:
    """A list whose names begin at another folder is refused, not read as pictures without labels."""
    files: dict[str, Any] = {"images/train/0.jpg": IMAGE, "labels/train/0.txt": yolo_row()}
    files |= {
        "train.txt": "data/images/train/0.jpg\n",
        "data.yaml": "train: train.txt\nnames: [a, b]\n",
    }

    assert_refused(r"train.txt:1 names data/images/train/0.jpg, but .* exist", put(tmp_path, files))
    put(tmp_path, {"train.txt": "images/train/0.jpg\nimages/train/gone.jpg\n"})
    assert len(open_with_warning("has no .txt for 1", tmp_path)) == 2


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("images/train/a.b.jpg", "labels/train/a.b.txt"),
        ("images/images/a.jpg", "images/labels/a.txt"),
        ("x/images/a.jpg", "x/labels/a.txt"),
        ("myimages/a.jpg", "myimages/a.txt"),
        ("a.jpg", "a.txt"),
    ],
)
def test_where_labels_lie(name: str, label: str) -> None:
    """The last folder called images is another one, else they lie beside."""
    assert file_of_picture(name, "labels", ".txt") == label


def test_pictures_without_labels(tmp_path: Path) -> None:
    """Some are background, which is said; none at all is refused, as it would train on nothing."""
    root = write_yolo(tmp_path, IMAGE, yolo_row(), "")
    put(root, {"images/train/2.jpg": IMAGE, "labels/train/9.txt": "", "labels/train/classes.txt": "dog"})  # fmt: skip

    with pytest.warns(UserWarning, match="without") as warned:
        dataset = open_dataset(root)
    first, second = (str(one.message) for one in warned)
    assert "0 pictures without .txt and 1 .txt without a picture" in first
    assert "no .txt for 1 of the 3 pictures of the split, which count as background" in second
    assert told(dataset.fetch([2])[0]) == {"boxes": [], "labels": []}
    for path in (root / "labels" / "train").iterdir():
        path.unlink()
    assert_refused(r"labels for none of the 3 .*labels/train/0.txt", root)


def test_the_folder_of_the_dataset(tmp_path: Path) -> None:
    """Below the YAML file's folder, or named; other folders that a description names are not entered."""
    root = write_yolo(tmp_path / "coco8", IMAGE, yolo_row())
    names = "train: images/train\nnames: [person, dog]\n"
    put(root, {"data.yaml": f"path: ../somewhere/coco8\n{names}"})
    assert len(open_dataset(root)) == 1
    above = put(tmp_path, {"data.yaml": f"path: coco8\n{names}", "else/a.yaml": f"path: {root}\n{names}"})  # fmt: skip
    assert open_dataset(above).fingerprint == open_dataset(root).fingerprint

    assert_refused("do not lie in its folder: name the folder", tmp_path / "else" / "a.yaml")
    moved = open_dataset(tmp_path / "else" / "a.yaml", root=root)
    assert moved.fingerprint == open_dataset(root).fingerprint
    for place in ("/etc", "images/../../..", "images/gone"):
        put(root, {"data.yaml": f"train: {place}\nval: images/train\nnc: 2\n"})
        assert_refused(r"leads out of|does not exist", root, split="train")
    put(root, {"data.yaml": "train: l.txt\nnc: 2\n", "l.txt": "images/train/0.jpg\n/etc/a.jpg\n"})
    assert_refused(r"l.txt:2 names /etc/a.jpg, which leads out of", root)


@pytest.mark.parametrize(
    ("yaml", "sentence"),
    [
        ("train: images/train\nnames: {1: a, 2: b}\n", "names must have the numbers 0 to 1"),
        ("train: images/train\nnames: [a]\nnc: 2\n", "nc is 2, and names has 1"),
        ("train: images/train\nnc: a\n", "nc must be the number of classes, got 'a'"),
        ("train: images/train\nnames: a\n", "names must be a list of names, got 'a'"),
        ("train: [1]\nnames: [a]\n", "train must be a folder, a .txt list"),
        ("train:\nval:\nnames: [a]\n", "has none of train, val and test"),
        ("train: a.jpg\nnames: [a]\n", "names a.jpg, but .*a.jpg does not exist"),
        ("train: images/train\nnames: [a\n", "cannot be read as YAML"),
        ("train: !!python/object/apply:os.system [ls]\nnames: [a]\n", "cannot be read as YAML"),
        ("train: a\nnames: [a]\nkpt_shape: [3]\n", r"kpt_shape must be \[keypoints, 2 or 3\]"),
        (
            "train: a\nnames: [a]\nkpt_shape: [2, 3]\nflip_idx: [0]\n",
            "flip_idx must hold the number of each",
        ),
        (
            "train: a\nnames: [a]\nflip_idx: [1, 0]\n",
            r"flip_idx and no kpt_shape, .*such as kpt_shape: \[2, 3\], or remove",
        ),
        ("train: images/train\npath: 3\nnames: [a]\n", "path must be a path, got 3"),
    ],
)
def test_descriptions_are_refused(tmp_path: Path, yaml: str, sentence: str) -> None:
    """Each with what is wrong in it."""
    assert_refused(sentence, write_yolo(tmp_path, IMAGE, yolo_row(), yaml=yaml))


def test_without_a_description(tmp_path: Path) -> None:
    """Folders of images and labels, once the caller names the classes."""
    root = write_yolo(tmp_path, IMAGE, yolo_row())
    (root / "data.yaml").unlink()
    put(root, {"images/val/0.jpg": IMAGE, "labels/val/0.txt": yolo_row(0)})

    assert_refused("format='yolo', classes=", root, split="train", format="yolo")
    dataset = open_dataset(root, split="val", format="yolo", classes=["person", "dog"])
    assert told(dataset.fetch([0])[0])["labels"] == [0]
    assert_refused(
        "holds the splits train, validation", root, format="yolo", classes=["person", "dog"]
    )


def test_nothing_is_written_or_run(tmp_path: Path) -> None:
    """Caches of other tools are not read, and downloads are not started."""
    root = write_yolo(tmp_path, IMAGE, yolo_row())
    put(root, {"labels/train.cache": b"\x80\x04no pickle"})
    yaml = (root / "data.yaml").read_text() + f"download: |\n  open({str(root / 'x')!r}, 'w')\n"
    put(root, {"data.yaml": yaml})
    before = sorted((path, path.stat().st_mtime_ns) for path in root.rglob("*"))
    open_dataset(root).fetch([0])

    assert sorted((path, path.stat().st_mtime_ns) for path in root.rglob("*")) == before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"task": "boxes"}, "task='boxes' must be one of None, 'detect', 'segment', 'pose'"),
        ({"task": "pose"}, "task='pose' needs kpt_shape"),
        ({"classes": ["a"]}, "names other classes than classes="),
    ],
)
def test_arguments(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    """Of no meaning, or against the description."""
    root = write_yolo(tmp_path, IMAGE, yolo_row())
    assert_refused(sentence, root, by=YoloDataset, **options)


def test_pictures_of_other_kinds(tmp_path: Path) -> None:
    """They are counted."""
    root = put(write_yolo(tmp_path, IMAGE, yolo_row()), {"images/train/a.psd": b"x"})
    open_with_warning(r"left out by their endings \(1 of .psd\)", root)
