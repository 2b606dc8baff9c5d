"""Pascal VOC, YOLO and LabelMe: which of them a folder holds, and that boxes lie on the objects of decoded batches."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dali_pipes import Loader
from gpu_aug import BoxParams, HorizontalFlip, KeypointParams, Recipe, Resize
from readers import open_dataset
from tests.support.annotated import (
    BOX,
    COLOR,
    HEIGHT,
    WIDTH,
    labelme_json,
    picture,
    put,
    shape,
    voc_object,
    voc_xml,
    write_voc,
    write_yolo,
    yolo_row,
)
from tests.support.opening import assert_refused

IMAGE = picture(kind="JPEG")
SHAPES = {"0.json": labelme_json(shape())}


def _voc(root: Path, image: bytes) -> dict[str, Any]:
    write_voc(root, image, 1, train="0\n")
    return {}


def _flat_voc(root: Path, image: bytes) -> dict[str, Any]:
    edge = voc_object("person", (1, 1, WIDTH, 9))
    put(root, {"train/0.jpg": image, "train/0.xml": voc_xml(voc_object(), edge)})
    return {"split": "train"}


def _yolo(root: Path, image: bytes) -> dict[str, Any]:
    write_yolo(root, image, yolo_row())
    return {}


def _labelme(root: Path, image: bytes) -> dict[str, Any]:
    put(root, {"0.jpg": image, "0.json": labelme_json(shape())})
    return {"classes": ["cat", "dog"], "masks": True}


WRITERS = {
    "voc": (_voc, "VocDataset"),
    "flat voc": (_flat_voc, "VocDataset"),
    "yolo": (_yolo, "YoloDataset"),
    "labelme": (_labelme, "LabelMeDataset"),
}


def background() -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(0).integers(0, 128, (HEIGHT, WIDTH, 3), np.uint8)


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
@pytest.mark.parametrize("name", WRITERS)
def test_boxes_lie_on_their_objects(tmp_path: Path, name: str, orientation: int) -> None:
    """The pixels of the batch below the box have the colour of the box, those around it have not."""
    write, kind = WRITERS[name]
    image = picture(orientation, "JPEG", background())
    dataset = open_dataset(tmp_path, **write(tmp_path, image))
    recipe = Recipe(
        [Resize((2 * HEIGHT, 2 * WIDTH)), HorizontalFlip(1)],
        boxes=BoxParams(),
        keypoints=KeypointParams(),
    )
    fixed: dict[str, Any] = {"device": "cpu", "decoder": "cpu", "shuffle": "none"}
    [batch] = Loader(dataset, recipe, batch_size=1, **fixed)
    left, top, right, bottom = (round(value) for value in batch.boxes[0][0].tolist())
    is_box = ((batch.images[0] * 255).permute(1, 2, 0) - torch.tensor(COLOR)).abs().amax(2) < 90
    below = torch.zeros_like(is_box)
    below[top:bottom, left:right] = True

    assert type(dataset).__name__ == kind
    assert (right - left, bottom - top) == (2 * (BOX[2] - BOX[0]), 2 * (BOX[3] - BOX[1]))
    assert left == 2 * (WIDTH - BOX[2])
    assert dataset.class_names[batch.box_labels[0][0]] == "dog"
    assert (is_box != below).float().mean() < 0.03
    moved = below.roll(12, 1)  # a box elsewhere is told apart
    assert (is_box != moved).float().mean() > 0.1
    if name == "labelme":
        assert torch.equal(batch.masks[0][0] > 0, below)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"VOCdevkit/VOC2007/JPEGImages/a.jpg": IMAGE, "VOCdevkit/VOC2007/Annotations/a.xml": voc_xml(voc_object(box=(1, 1, 64, 9)))}, "VocDataset"),
        ({"images/a.jpg": IMAGE, "annotations/xmls/a.xml": voc_xml(voc_object(box=(1, 1, 64, 9)))}, "VocDataset"),
        ({"a.jpg": IMAGE, "a.xml": "<?xml version='1.0'?>\n" + voc_xml(voc_object(box=(1, 1, 64, 9)))}, "VocDataset"),
        ({"a.jpg": IMAGE, "a.xml": "<svg/>"}, "FolderDataset"),
        ({"cat/a.jpg": IMAGE, "cat/a.json": '{"boxes": []}'}, "FolderDataset"),
        ({"images/a.jpg": IMAGE, "labels/a.txt": "0 .5 .5 .5 .5", "my.yml": "train: images\nnc: 1\n"}, "YoloDataset"),
        ({"cat/a.jpg": IMAGE, "data.yaml": "names: [a]\n"}, "FolderDataset"),
    ],
)  # fmt: skip
def test_what_a_folder_holds(tmp_path: Path, files: dict[str, Any], expected: str) -> None:
    """The content of files tells it, not their names alone."""
    assert type(open_dataset(put(tmp_path, files))).__name__ == expected


def test_several_formats_are_not_chosen_from(tmp_path: Path) -> None:
    """The caller says which is meant."""
    root = write_voc(tmp_path, IMAGE, 1, train="0\n")
    put(root, {"a.jpg": IMAGE, "0.jpg": IMAGE, **SHAPES})

    assert_refused("Pascal VOC and as LabelMe: say format='voc' or format='labelme'", root)
    assert type(open_dataset(root, format="voc")).__name__ == "VocDataset"


@pytest.mark.parametrize("names", [["data.yaml", "b.yaml"], ["a.yaml", "b.yaml"]])
def test_several_descriptions(tmp_path: Path, names: list[str]) -> None:
    """The usual name is taken, of others one is asked for."""
    root = write_yolo(tmp_path, IMAGE, yolo_row())
    text = (root / "data.yaml").read_text()
    (root / "data.yaml").unlink()
    put(root, dict.fromkeys(names, text))
    if "data.yaml" in names:
        assert len(open_dataset(root)) == 1
        return
    assert_refused(r"several files of splits \(a.yaml, b.yaml\): give one", root)
    assert len(open_dataset(root / "a.yaml")) == 1


@pytest.mark.parametrize("write", [write_yolo, write_voc], ids=["yolo", "voc"])
def test_links_out_of_the_folder(tmp_path: Path, write: Callable[..., Path]) -> None:
    """A name in the data that leads out of its folder is never followed."""
    secret = put(tmp_path / "secret", {"a.jpg": IMAGE})
    if write is write_voc:
        root = write(tmp_path / "data", IMAGE, 1, train=f"{secret}/a\n0\n")
        assert "there is no picture" in open_dataset(root).fetch([0])[0].reason
    else:
        root = write(tmp_path / "data", IMAGE, yolo_row(), yaml="train: l.txt\nnc: 2\n")
        assert_refused("leads out of", put(root, {"l.txt": f"{secret}/a.jpg\n"}))


LARGE = {
    "voc": ("Annotations/0.xml", f"<annotation>{'<a>' * 3000}{'</a>' * 3000}</annotation>"),
    "yolo": ("labels/train/0.txt", "1 1 1 1 1\n" * 400),
    "labelme": ("0.json", labelme_json(shape(), flags=[[]] * 1000)),
}


@pytest.mark.parametrize("name", LARGE)
def test_annotations_that_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A file whose content takes many times its bytes makes a bad sample; an ordinary one is read."""
    monkeypatch.setenv("GPU_AUG_MAX_SAMPLE_BYTES", "100000")
    dataset = open_dataset(tmp_path, **WRITERS[name][0](tmp_path, IMAGE))
    [good] = dataset.fetch([0])
    put(tmp_path, dict([LARGE[name]]))
    [bad] = dataset.fetch([0])

    assert good.fields
    assert f"{LARGE[name][0]} would take" in bad.reason
    assert "more than 100000" in bad.reason


def test_the_picture_decides_what_it_is(tmp_path: Path) -> None:
    """A file that is no picture is a bad sample of the stage header."""
    [bad] = open_dataset(write_yolo(tmp_path, b"no picture", yolo_row())).fetch([0])

    assert (bad.stage, bad.key) == ("header", "images/train/0")


@pytest.mark.parametrize("name", WRITERS)
def test_classes_are_given_as_elsewhere(tmp_path: Path, name: str) -> None:
    """``classes=`` takes a list, numbers by name, or a file with a name per line, as of a folder of classes."""
    root, names = tmp_path / "data", tmp_path / "classes.txt"
    options = WRITERS[name][0](root, IMAGE) | ({"format": "yolo"} if name == "yolo" else {})
    names.write_text("person\ndog\ncat\n")
    (root / "data.yaml").unlink(missing_ok=True)
    for classes in (["person", "dog", "cat"], {"dog": 1, "cat": 2, "person": 0}, names):
        opened = open_dataset(root, **{**options, "classes": classes})
        assert opened.class_names == ("person", "dog", "cat")
    options["classes"] = ["dog", "dog"]
    assert_refused("classes= names the class 'dog' twice", root, **options)
