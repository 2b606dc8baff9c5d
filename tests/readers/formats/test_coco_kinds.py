"""The kinds of COCO files as pycocotools reads them: instances, keypoints, captions, panoptic masks; and files in the wild."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as api
from pycocotools.coco import COCO

from dali_pipes import Loader
from gpu_aug import Recipe, Resize
from readers import open_dataset
from tests.support.annotated import put
from tests.support.entries import json_of
from tests.support.kinds import by_pillow
from tests.support.moved import assert_boxes_fit, assert_masks_fit, block, moved_batch
from tests.support.opening import assert_refused, open_with_warning

SIZE = (48, 64)
BOX = (8, 4, 40, 36)
BLOCK = block(SIZE, BOX)
CATEGORIES = [
    {"id": 18, "name": "dog", "isthing": 1},
    {"id": 1, "name": "person", "isthing": 1},
    {"id": 90, "name": "grass", "isthing": 0},
]
CORNERS = [8, 4, 40, 4, 40, 36, 8, 36]


def save(path: Path, pixels: np.ndarray) -> None:
    put(path.parent, {path.name: by_pillow("PNG", Image.fromarray(pixels))})


def images(folder: Path, count: int = 3) -> list[dict[str, Any]]:
    """White blocks, the last one in a folder of its own; ids run backwards."""
    names = [f"{'sub/' if n == count - 1 else ''}{n:012d}.png" for n in range(count)]
    for name in names:
        save(folder / "train2017" / name, np.repeat(BLOCK[..., None], 3, axis=2))
    return [
        {"id": 1000 - number, "file_name": name, "width": 64, "height": 48}
        for number, name in enumerate(names)
    ]


def store(folder: Path, name: str = "i_train2017", **lists: Any) -> Path:
    """Write a file of annotations, of white blocks unless other images are given."""
    stored = {"info": {}, "categories": CATEGORIES, "images": None} | lists
    stored["images"] = stored["images"] or images(folder)
    text = json.dumps({key: one for key, one in stored.items() if one is not None})
    return put(folder, {f"annotations/{name}.json": text}) / "annotations" / f"{name}.json"


def box(image: int | str, **further: Any) -> dict[str, Any]:
    found = {"id": 1, "image_id": image, "category_id": 18, "bbox": [8, 4, 32, 32], "area": 1024.0}
    return found | {"iscrowd": 0, "segmentation": [CORNERS]} | further


class Coco(COCO):
    """Pycocotools' reader, silent, with the annotations of an image by its index in these tests."""

    def __init__(self, path: Path) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            super().__init__(str(path))

    def of(self, number: int) -> list[dict[str, Any]]:
        """Return the annotations of an image."""
        return self.loadAnns(self.getAnnIds(imgIds=[1000 - number]))


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_instances(tmp_path: Path) -> None:
    """Polygons, run lengths as a list and as text, a crowd: boxes, classes and pixels of pycocotools."""
    text = api.encode(np.asfortranarray(BLOCK > 0))["counts"].decode()
    listed = [4 + 8 * 48, *[32, 16] * 31]
    listed += [32, 48 * 64 - sum(listed) - 32]
    annotations = [
        box(1000, id=5, segmentation={"size": [48, 64], "counts": text}),
        box(999, id=6, segmentation={"size": [48, 64], "counts": listed}, iscrowd=1),
        box(999, id=7, segmentation=[CORNERS, [0, 40, 9, 40, 9, 47]], category_id=1),
        box(998, id=8),
    ]
    path = store(tmp_path, annotations=annotations)
    theirs = Coco(path)
    dataset = open_dataset(path, masks=True, crowd=True)
    found = dataset.fetch(range(3))

    assert dataset.class_names == ("person", "dog", "grass")
    assert [one.key.partition("/")[2] for one in found] == [
        one["file_name"] for one in theirs.dataset["images"]
    ]
    for number, sample in enumerate(found):
        wanted, ours = theirs.of(number), json_of(sample)
        boxes = [one["bbox"] for one in wanted]
        assert ours["boxes"] == [[x, y, x + w, y + h] for x, y, w, h in boxes]
        for name in ("area", "iscrowd"):
            assert ours[name] == [one[name] for one in wanted]
        names = [theirs.cats[one["category_id"]]["name"] for one in wanted]
        assert [dataset.class_names[label] for label in ours["labels"]] == names
        for place, one in enumerate(wanted):
            with Image.open(io.BytesIO(sample.fields[f"mask.{place}.png"])) as mask:
                assert np.array_equal(mask, theirs.annToMask(one).astype(bool)), (number, place)
    plain = open_dataset(path).fetch(range(3))
    assert [len(json_of(one)["boxes"]) for one in plain] == [
        sum(not one["iscrowd"] for one in theirs.of(number)) for number in range(3)
    ]


def test_captions(tmp_path: Path) -> None:
    """A list of texts for each image, and no empty boxes."""
    said = [{"id": k, "image_id": 1000 - k // 2, "caption": f"größe {k}"} for k in range(4)]
    path = store(tmp_path, "captions_train2017", annotations=said, categories=None)
    theirs = Coco(path)

    for number, sample in enumerate(open_dataset(path).fetch(range(3))):
        captions = [one["caption"] for one in theirs.of(number)]
        assert json.loads(bytes(sample.fields["captions"])) == captions
        assert "json" not in sample.fields


def panoptic(folder: Path, **segment: Any) -> Path:
    """Each image has a dog of id 70000 on grass of id 5; the first two rows are void."""
    listed = images(folder)
    ids = np.where(BLOCK > 0, 70000, 5)
    ids[:2] = 0
    colors = np.stack([ids & 255, ids >> 8 & 255, ids >> 16], -1).astype(np.uint8)
    dog = {"id": 70000, "category_id": 18, "iscrowd": 0, "bbox": [8, 4, 32, 32], "area": 1024}
    grass = dog | {"id": 5, "category_id": 90, "bbox": [0, 2, 64, 46]}
    annotations = [
        {"image_id": one["id"], "file_name": name, "segments_info": [dog | segment, grass]}
        for one in listed
        for name in [Path(one["file_name"]).name]
    ]
    for one in annotations:
        save(folder / "annotations" / "panoptic_train2017" / one["file_name"], colors)
    return store(folder, "panoptic_train2017", images=listed, annotations=annotations)


def test_panoptic(tmp_path: Path) -> None:
    """A semantic mask of the segments' classes, 255 where there is none, and the things as objects."""
    path = panoptic(tmp_path)
    dataset = open_dataset(path)
    first = json_of(dataset.fetch([0])[0])
    options = {"device": "cpu", "decoder": "cpu", "shuffle": "none"}
    [batch] = Loader(dataset, Recipe([Resize(SIZE)]), batch_size=3, **options)
    expected = np.where(BLOCK > 0, 1, 2)
    expected[:2] = 255

    assert all(np.array_equal(mask, expected) for mask in batch.masks)
    assert (first["boxes"], first["labels"]) == ([[8, 4, 40, 36]], [1])
    assert first["segment_ids"] == [70000]
    moved = moved_batch(dataset)
    assert_boxes_fit(moved.images, moved.boxes)
    assert_masks_fit(moved.images, moved.masks == 1)


@pytest.mark.parametrize(
    ("segment", "match"),
    [
        ({"id": 1 << 24}, "no number of 24 bits"),
        ({"category_id": 3}, "category_id 3"),
        ({"iscrowd": "no"}, "segment 70000: iscrowd must be 0 or 1, got 'no'"),
    ],
)
def test_segments_that_do_not_fit(tmp_path: Path, segment: dict[str, Any], match: str) -> None:
    """Ids of no mask, a category that is not listed."""
    [bad] = open_dataset(panoptic(tmp_path, **segment)).fetch([0])
    assert match in bad.reason


def test_panoptic_masks_that_are_elsewhere(tmp_path: Path) -> None:
    """A folder of masks that is not there has to be named."""
    path = panoptic(tmp_path)
    elsewhere = (path.parent / "panoptic_train2017").rename(path.parent / "elsewhere")
    assert_refused("names panoptic masks, and there is no folder", path)
    assert len(open_dataset(path, panoptic=elsewhere)) == 3


def test_ids_of_text(tmp_path: Path) -> None:
    """Images and categories may be called by text; classes are sorted as text."""
    listed = [one | {"id": f"ä{one['id']}"} for one in images(tmp_path)]
    categories = [{"id": "z", "name": "dog"}, {"id": "b", "name": "cat"}]
    annotations = [box("ä1000", category_id="z"), box("ä998", category_id="b")]
    path = store(tmp_path, images=listed, annotations=annotations, categories=categories)
    for text in (path.read_text(), json.dumps(json.loads(path.read_text()), ensure_ascii=False)):
        path.write_text(text)
        dataset = open_dataset(path)
        assert dataset.class_names == ("cat", "dog")
        assert [json_of(one)["labels"] for one in dataset.fetch(range(3))] == [[1], [], [0]]


def test_roboflow(tmp_path: Path) -> None:
    """The file beside the images is found in each split's folder."""
    for split in ("train", "valid"):
        listed = images(tmp_path / split)
        for one in (tmp_path / split / "train2017").rglob("*.png"):
            one.rename(tmp_path / split / one.name)
        for one in listed:
            one["file_name"] = Path(one["file_name"]).name
        path = store(tmp_path / split, "x", images=listed, annotations=[box(1000)])
        path.rename(tmp_path / split / "_annotations.coco.json")
    dataset = open_dataset(tmp_path, split="validation")

    assert json_of(dataset.fetch([0])[0])["boxes"] == [[8, 4, 40, 36]]
    assert dataset.fetch([1])[0].image is not None
    assert open_dataset(tmp_path / "train").fingerprint == dataset.fingerprint


@pytest.mark.parametrize(
    ("ids", "end"),
    [
        ((1000, 5, 6, "1000"), "together$"),
        ((1000, "1000", "998", "9"), r"together \(one has ids that are text, the o.*"),
    ],
)
def test_annotations_of_images_that_are_not_listed(
    tmp_path: Path, ids: tuple[Any, ...], end: str
) -> None:
    """They are counted in one warning, also when the index is there already."""
    path = store(tmp_path, annotations=[box(one) for one in ids])
    for _ in range(2):
        open_with_warning(f"has 3 annotations of images that it does not list.*{end}", path)


def test_corners_that_are_taken_for_sizes(tmp_path: Path) -> None:
    """A share of boxes beyond their images is told, and the argument reads them as they are meant."""
    boxes = [[8, 4, 40, 36], [40, 30, 60, 44], [1, 1, 9, 9], [50, 1, 60, 9]]
    annotations = [box(1000 - at // 2, bbox=one) for at, one in enumerate(boxes)]
    annotations += [box(998, bbox=one) for one in boxes * 3]
    path = store(tmp_path, annotations=annotations)
    wrong = open_with_warning(r"x \+ w or y \+ h exceeds the image in 50% of the boxes", path)
    right = open_dataset(path, box_format="xyxy")

    assert [json_of(one)["boxes"] for one in right.fetch(range(2))] == [boxes[:2], boxes[2:]]
    assert right.fingerprint != wrong.fingerprint
    assert_refused("box_format='yxyx' must be one of 'xywh', 'xyxy'", path, box_format="yxyx")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            {"categories": [{"id": 3, "name": "cat"}, {"id": 18, "name": "cat"}]},
            r"gives the name 'cat' to the classes 3 and 18, which count as different",
        ),
        (
            {"annotations": [box(1000, bbox=[0.1, 0.2, 0.5, 0.5], segmentation=None)] * 3},
            r"all boxes \(3\) lie within the first pixels.*look like shares",
        ),
    ],
)
def test_lists_that_are_warned_of(tmp_path: Path, change: Any, match: str) -> None:
    """Two categories of one name, and boxes that are shares of their images."""
    path = store(tmp_path, **{"annotations": [box(1000)]} | change)
    open_with_warning(match, path)


def test_ids_with_a_point(tmp_path: Path) -> None:
    """1.0 is the id 1, as pandas writes it; 1.5 and true are no ids, which the refusal says."""
    listed = [one | {"id": float(one["id"])} for one in images(tmp_path)]
    categories = [{"id": 18.0, "name": "dog"}, {"id": 1.0, "name": "cat"}]
    lists = {"images": listed, "annotations": [box(1000.0), box(998, category_id=1.0)]}
    path = store(tmp_path, "i_train2017", **lists, categories=categories)
    dataset = open_dataset(path)
    assert dataset.class_names == ("cat", "dog")
    assert [json_of(one)["labels"] for one in dataset.fetch(range(3))] == [[1], [], [0]]
    bare = open_with_warning(
        "no categories", store(tmp_path, "j_train2017", **lists, categories=None)
    )
    assert [json_of(one)["labels"] for one in bare.fetch(range(3))] == [[18], [], [1]]
    for number in (True, 1.5):
        odd = {**lists, "images": [one | {"id": number} for one in listed[:1]]}
        match = rf"images\[0\]: it has no file_name or no id.*{number}"
        assert_refused(match, store(tmp_path, "k_train2017", **odd))
        odd = {**lists, "annotations": [box(1000, category_id=number)]}
        [bad] = open_dataset(store(tmp_path, "l_train2017", **odd)).fetch([0])
        assert f"category_id {number!r}" in bad.reason
