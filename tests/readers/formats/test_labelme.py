"""LabelMe: shapes of every kind as boxes, keypoints and masks, by the rules of its documentation, and bad files."""

import base64
import io
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from readers import BadSample, open_dataset
from readers.formats.labelme.dataset import LabelMeDataset
from tests.support.annotated import (
    BOX,
    HEIGHT,
    WIDTH,
    labelme_json,
    picture,
    put,
    shape,
)
from tests.support.entries import json_of
from tests.support.kinds import by_pillow
from tests.support.opening import assert_refused, open_with_warning

IMAGE = picture(kind="JPEG")
CORNERS = [[8, 4], [40, 4], [40, 36], [8, 36]]
CLASSES = ["cat", "dog"]


def png(pixels: NDArray[Any]) -> str:
    return base64.b64encode(by_pillow("PNG", Image.fromarray(pixels))).decode()


def mask_of(entry: Any, number: int = 0) -> NDArray[np.bool_]:
    with Image.open(io.BytesIO(entry.fields[f"mask.{number}.png"])) as mask:
        return np.asarray(mask) > 0


def inside(box: tuple[int, ...] = BOX) -> NDArray[np.bool_]:
    made = np.zeros((HEIGHT, WIDTH), bool)
    made[box[1] : box[3], box[0] : box[2]] = True
    return made


def write(root: Path, *shapes: dict[str, Any], **more: object) -> Path:
    return put(root, {"0.jpg": IMAGE, "0.json": labelme_json(*shapes, **more)})  # type: ignore[arg-type]


STORED = {"mask": png(np.full((32, 32), 255, np.uint8))}


@pytest.mark.parametrize(
    "made",
    [
        shape(),
        shape(points=[[8, 36], [40, 4]]),
        shape("polygon", CORNERS),
        shape(None, CORNERS),  # type: ignore[arg-type]
        shape("oriented_rectangle", CORNERS),
        shape("mask", [[8, 4], [39, 35]], **STORED),
    ],
    ids=["rectangle", "other corners", "polygon", "no type", "oriented", "mask"],
)
def test_the_filled_box(tmp_path: Path, made: dict[str, Any]) -> None:
    """All shapes of the same pixels have the same box and the same mask."""
    root = write(tmp_path, made)
    [entry] = LabelMeDataset(root, classes=CLASSES, masks=True, oriented=False).fetch([0])

    assert (json_of(entry)["boxes"], json_of(entry)["labels"]) == ([[*BOX]], [1])
    assert json_of(entry)["shapes"][0]["points"] == made["points"]
    assert np.array_equal(mask_of(entry), inside())
    assert (entry.image, entry.size) == (IMAGE, (HEIGHT, WIDTH))


def test_circles(tmp_path: Path) -> None:
    """Centre and rim; a pixel counts where its centre lies inside, as a large drawing by Pillow has it, but for the rim."""
    circle = shape("circle", [[20, 21.5], [26, 29.5]])
    [entry] = LabelMeDataset(write(tmp_path, circle), classes=CLASSES, masks=True).fetch([0])
    large = Image.new("1", (WIDTH * 16, HEIGHT * 16))
    ImageDraw.Draw(large).ellipse([10 * 16, 11.5 * 16, 30 * 16, 31.5 * 16], fill=1)
    share = np.asarray(large, np.float64).reshape(HEIGHT, 16, WIDTH, 16).mean((1, 3))

    assert json_of(entry)["boxes"] == [[10, 11.5, 30, 31.5]]
    assert mask_of(entry)[share == 1].all()
    assert not mask_of(entry)[share == 0].any()
    assert abs(mask_of(entry).sum() - np.pi * 100) < 6


def test_points_and_lines(tmp_path: Path) -> None:
    """Points are keypoints, and of the box of their group; lines have no area."""
    root = write(
        tmp_path,
        shape("line", [[0, 0], [9, 9]], "road"),
        shape("linestrip", [[0, 0], [9, 9], [9, 0]], "road"),
        shape("point", [[3.5, 4.5]], "nose"),
        shape(group_id=7),
        shape("point", [[9, 5]], "nose", group_id=7),
        shape("point", [[9, 5]], "ear", group_id=8),
    )
    with (
        pytest.warns(UserWarning, match=r"in sorted order \(dog, ear, nose, road\): say classes="),
        pytest.warns(
            UserWarning, match="has 2 shapes of the types line and linestrip, which have no"
        ),
    ):
        dataset = open_dataset(root)
    [entry] = dataset.fetch([0])
    found = json_of(entry)

    assert dataset.class_names == ("dog", "ear", "nose", "road")
    assert (found["boxes"], found["labels"]) == ([[*BOX]], [0])
    assert found["keypoints"] == [[3.5, 4.5], [9, 5], [9, 5]]
    assert (found["keypoint_labels"], found["keypoint_objects"]) == ([2, 2, 1], [-1, 0, -1])
    assert len(found["shapes"]) == 6


@pytest.mark.filterwarnings("ignore:.*has no list of classes")
def test_shapes_that_cannot_be_read_name_their_class(tmp_path: Path) -> None:
    """They make their sample bad; the class that they name has its number."""
    root = write(tmp_path, shape("star", label="ant"))
    put(root, {"1.jpg": IMAGE, "1.json": labelme_json(shape(label="cow"), image="1.jpg")})
    dataset = open_dataset(root)

    assert dataset.class_names == ("ant", "cow")
    assert [isinstance(one, BadSample) for one in dataset.fetch([0, 1])] == [True, False]


def test_groups_are_one_object(tmp_path: Path) -> None:
    """Shapes of one label and one group_id: the box around all, the mask of all."""
    parts = [
        shape(points=[[1, 2], [5, 6]], group_id=1),
        shape(points=[[1, 2], [5, 6]], label="cat", group_id=1),
        shape(points=[[20, 30], [40, 41]], group_id=1),
        shape(points=[[1, 2], [5, 6]]),
    ]
    [entry] = LabelMeDataset(write(tmp_path, *parts), classes=CLASSES, masks=True).fetch([0])

    assert json_of(entry)["boxes"] == [[1, 2, 40, 41], [1, 2, 5, 6], [1, 2, 5, 6]]
    assert json_of(entry)["labels"] == [1, 0, 1]
    assert np.array_equal(mask_of(entry), inside((1, 2, 5, 6)) | inside((20, 30, 40, 41)))


def test_the_picture_in_the_file_counts(tmp_path: Path) -> None:
    """Before the one that it names; without it the name is relative to the file, with either slash."""
    other = picture()
    held = base64.b64encode(other).decode()
    root = write(tmp_path, shape(), imageData=held)
    [entry] = LabelMeDataset(root, classes=CLASSES).fetch([0])
    assert (entry.image, entry.image_field) == (other, "png")
    (root / "0.jpg").unlink()
    assert LabelMeDataset(root, classes=CLASSES).fetch([0]) == [entry]

    named = put(tmp_path / "b", {"pictures/x.JPG": IMAGE})
    text = labelme_json(shape(), image="..\\pictures\\x.JPG")
    put(named, {"notes/deep.json": text, "pictures/0.json": labelme_json(image="x.JPG")})
    first, second = LabelMeDataset(named, classes=CLASSES).fetch([0, 1])
    assert [first.key, second.key] == ["notes/deep", "pictures/0"]
    assert list(first.fields) == ["jpg", "json"]
    assert json_of(second)["boxes"] == []


BAD: list[tuple[list[dict[str, Any]], dict[str, Any], str]] = [
    (
        [shape(), shape("circle", [[1, 1]] * 3)],
        {},
        r"^0.json: circle has 3 points, needs 2 - at `\$\.shapes\[1\]`$",
    ),
    ([shape("polygon", [[1, 1]] * 2)], {}, "polygon has 2 points, needs 3 or more"),
    ([shape("star")], {}, "shape_type must be one of polygon, rectangle, .*, got 'star'"),
    (
        [shape(points=[[1, "a"], [2, 3]])],
        {},
        r"`float`, got `str` - at `\$\.shapes\[0\]\.points\[0\]\[1\]`",
    ),
    ([shape(points=[[1, float("inf")], [2, 3]])], {}, r"`float` < 1000000000.0 - at .*\.points"),
    ([shape(label="bird")], {}, r"0.json shape 1: 'bird' is none of the classes \(cat, dog\)"),
    ([shape("point", [[1, 1]], "bird")], {}, "shape 1: 'bird' is none of the classes"),
    ([shape(label="")], {}, r"`str` of length >= 1 - at `\$\.shapes\[0\]\.label`"),
    ([shape(points=[[1, 1], [65, 9]])], {}, "shape 1: xmax 65 > width 64; outside='clip' cuts"),
    ([shape(points=[[-1, 1], [5, 9]])], {}, "shape 1: xmin -1 < 0"),
    ([shape(points=[[1, 1], [1, 9]])], {}, "xmax 1 leaves no area behind xmin 1"),
    (
        [shape()],
        {"imageHeight": 47},
        "0.json states 64 x 47 .*, the upright picture is 64 x 48",
    ),
    ([shape()], {"imageWidth": "64px"}, "imageWidth must be a number of pixels, got '64px'"),
    ([shape()], {"imagePath": "x.jpg"}, "the file x.jpg cannot be read"),
    ([shape()], {"imagePath": "../../etc/x.jpg"}, "lies outside the folder of the dataset"),
    ([shape()], {"imagePath": "/etc/x.jpg"}, "lies outside the folder of the dataset"),
    ([shape()], {"imagePath": None}, r"`str`, got `null` - at `\$\.imagePath`"),
    ([shape()], {"imageData": "?"}, "imageData is no base64"),
    ([shape()], {"imageData": "AAAA"}, "not an image"),
    ([shape()], {"shapes": {}}, r"0.json: Expected `array`, got `object` - at `\$\.shapes`"),
    ([shape("mask", [[8, 4], [39, 35]])], {}, "mask must be a PNG in base64"),
    ([shape("mask", [[8, 4], [39, 36]], **STORED)], {}, "32 x 32 .*, and its points span 32 x 33"),
    ([shape("mask", [[8, 4], [39, 35]], mask="AAAA")], {}, "mask cannot be decoded: not an image"),
    (
        [shape("mask", [[8, 4], [39, 35]], mask=png(np.zeros((32, 32, 3), np.uint8)))],
        {},
        "mask must have one channel, got 3",
    ),
    ([shape("mask", [[8, 4], [39, 35]], mask=STORED["mask"][:60])], {}, "mask cannot be decoded"),
]


@pytest.mark.parametrize(("shapes", "more", "sentence"), BAD, ids=[one[2] for one in BAD])
def test_bad_files_are_bad_samples(
    tmp_path: Path, shapes: list[dict[str, Any]], more: dict[str, Any], sentence: str
) -> None:
    """One sentence that names file, shape and value; the neighbour is read."""
    root = write(tmp_path, *shapes, **more)
    put(root, {"1.jpg": IMAGE, "1.json": labelme_json(shape(), image="1.jpg")})
    bad, good = LabelMeDataset(root, classes=CLASSES, masks=True).fetch([0, 1])

    assert re.search(sentence, bad.reason), bad.reason
    assert str(tmp_path) not in bad.reason
    assert json_of(good)["boxes"] == [[*BOX]]


def test_boxes_can_be_clipped(tmp_path: Path) -> None:
    """With its mask, a shape that lies outside is gone."""
    shapes = [shape(points=[[70, 1], [80, 9]]), shape(points=[[60, 40], [80, 50]])]
    dataset = LabelMeDataset(write(tmp_path, *shapes), classes=CLASSES, masks=True, outside="clip")
    [entry] = dataset.fetch([0])

    assert json_of(entry)["boxes"] == [[60, 40, 64, 48]]
    assert list(entry.fields) == ["jpg", "json", "mask.0.png"]
    assert np.array_equal(mask_of(entry), inside((60, 40, 64, 48)))


def test_splits_and_counterparts(tmp_path: Path) -> None:
    """Classes are those of all splits; pictures that nobody has annotated are counted."""
    write(tmp_path / "train", shape(label="dog"))
    root = write(tmp_path / "val", shape(label="cat")).parent
    assert_refused("holds the splits train, validation", root)
    dataset = open_with_warning(r"sorted order \(cat, dog\)", root, split="train")
    assert json_of(dataset.fetch([0])[0])["labels"] == [1]
    put(root, {"val/9.jpg": IMAGE})
    options = {"split": "val", "classes": CLASSES}
    assert len(open_with_warning(r"has 1 picture without \.json", root, **options)) == 1
    shutil.rmtree(root / "train")
    assert_refused(
        "has no split 'train': its splits are validation", root, by=LabelMeDataset, split="train"
    )
    (root / "val" / "0.json").unlink()
    assert_refused(r"holds no \.json files", root, by=LabelMeDataset)


def test_fingerprint(tmp_path: Path) -> None:
    """It sees one digit of a shape, the classes and the options; sizes are told by the files."""
    root = write(tmp_path, shape())
    dataset = LabelMeDataset(root, classes=CLASSES)
    settings = ({"classes": ["dog", "cat"]}, {"masks": True}, {"outside": "clip"})
    found = {LabelMeDataset(root, **{"classes": CLASSES, **one}).fingerprint for one in settings}
    found.add(dataset.fingerprint)
    write(tmp_path, shape(points=[[8, 4], [40, 37]]))
    found.add(LabelMeDataset(root, classes=CLASSES).fingerprint)

    assert len(found) == 5
    assert dataset.column("height").tolist() == [HEIGHT]
    assert dataset.column("width").tolist() == [WIDTH]
