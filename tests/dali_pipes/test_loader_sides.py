"""A Loader exchanges left and right as its dataset tells, and keeps masks with their boxes."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dali_pipes import ImageOptions, LoaderError, StateMismatchError
from dali_pipes.preview import preview_images
from dali_pipes.preview.pictures import annotate, color_of
from gpu_aug import (
    BoxParams,
    CenterCrop,
    HorizontalFlip,
    KeypointParams,
    MaskParams,
    Mosaic,
    RandomResizedCrop,
    RandomRotation,
    Recipe,
    Resize,
    Schedule,
    Views,
)
from readers import mix, open_dataset
from tests.support.loaders import loader_maker

SIZE = (48, 64)
FACE = [[32.0, 18], [26, 30], [38, 30]]
NAMES = ["nose", "left_eye", "right_eye"]
PAIRS = ((1, 2),)
ALWAYS = Recipe([Resize(SIZE), HorizontalFlip(1)])
EXCHANGED = KeypointParams(flip_pairs=PAIRS)

load = loader_maker(shuffle="none", last_batch="partial", seed=3)


def write_coco(
    root: Path,
    *,
    names: list[str] | None = None,
    classes: tuple[str, ...] = ("person",),
    **options: Any,
) -> Any:
    """Open 8 pictures, each with two objects with a mask, of which the first is a face in the middle."""
    root.mkdir(exist_ok=True)
    keypoints = [value for x, y in FACE for value in (x, y, 2)]
    images, objects = [], []
    for number in range(8):
        image = Image.fromarray(np.full((*SIZE, 3), 20 * number + 40, np.uint8))
        image.save(root / f"{number}.png")
        images.append({"id": number, "file_name": f"{number}.png", "height": 48, "width": 64})
        for box, points in (([20, 10, 24, 28], keypoints), ([0, 0, 8, 8], [0] * 9)):
            x, y, width, height = box
            outline = [x, y, x + width, y, x + width, y + height, x, y + height]
            told = {"bbox": box, "segmentation": [outline], "keypoints": points}
            objects.append(
                {"id": len(objects), "image_id": number, "category_id": 0, "iscrowd": 0, **told}
            )
    categories = [
        {"id": number, "name": name, "keypoints": NAMES if names is None else names}
        for number, name in enumerate(classes)
    ]
    stored = {"images": images, "annotations": objects, "categories": categories}
    (root / "a.json").write_text(json.dumps(stored))
    return open_dataset(root / "a.json", **options)


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return write_coco(tmp_path_factory.mktemp("faces"))


def labels_of(loader: Any) -> list[list[int]]:
    return [row.tolist() for batch in loader for row in batch.keypoint_labels]


@pytest.mark.parametrize(
    ("params", "expected"),
    [(None, [0, 2, 1]), (EXCHANGED, [0, 2, 1]), (KeypointParams(flip_pairs=()), [0, 1, 2])],
)
def test_the_pairs_of_the_data_are_the_default(faces: Any, params: Any, expected: Any) -> None:
    """A recipe that says something is believed; selections and mixtures have the pairs of the data."""
    recipe = Recipe(ALWAYS.operations, keypoints=params)
    for dataset in (faces, faces.take(4), mix([faces, faces])):
        assert labels_of(load(dataset, recipe)) == [expected] * len(dataset)


def test_it_is_exchanged_where_the_draws_mirror(faces: Any) -> None:
    """On any engine, in any batch size; the left eye of a face that was not turned is always left of its right eye."""
    recipe = Recipe([RandomResizedCrop(32, scale=(0.9, 1)), HorizontalFlip()])
    found = []
    for options in ({}, {"batch_size": 3}, {"engine": "kornia"}):
        rows = []
        for batch in load(faces, recipe, **options):
            for points, labels in zip(batch.keypoints, batch.keypoint_labels, strict=True):
                x = {label: point[0] for label, point in zip(labels.tolist(), points, strict=True)}
                assert x[1] < x[2]
                rows.append(labels.tolist())
        found.append(rows)
    assert found[0] == found[1] == found[2]
    assert [0, 1, 2] in found[0]
    assert [0, 2, 1] in found[0]


def test_the_state_sees_the_exchange(faces: Any) -> None:
    """A run that exchanges is another run; one that cannot mirror is the same with and without the pairs of the data."""
    none = Recipe(ALWAYS.operations, keypoints=KeypointParams(flip_pairs=()))
    named = Recipe(ALWAYS.operations, keypoints=EXCHANGED)
    state = load(faces, ALWAYS).state_dict()
    assert state["recipe"] == named.fingerprint != ALWAYS.fingerprint
    assert load(faces, none).state_dict()["recipe"] == none.fingerprint
    with pytest.raises(StateMismatchError, match=r"\+ keypoints=KeypointParams\(flip_pairs="):
        load(faces, ALWAYS).load_state_dict(load(faces, none).state_dict())
    with pytest.raises(StateMismatchError, match=r"\+ keypoints=KeypointParams\(flip_pairs=\(\)\)"):
        load(faces, none).load_state_dict(load(faces, ALWAYS).state_dict())
    load(faces, ALWAYS).load_state_dict(state)

    for recipe in (
        Recipe([Resize(SIZE)]),
        Recipe([Resize(SIZE), RandomRotation(20.0), CenterCrop(32)]),
    ):
        assert load(faces, recipe).state_dict()["recipe"] == recipe.fingerprint
    without = ImageOptions(targets=("boxes",))
    assert load(faces, ALWAYS, images=without).state_dict()["recipe"] == ALWAYS.fingerprint


def test_schedules_views_and_sizes_get_them(faces: Any) -> None:
    """All recipes of a run; explain says so."""
    plain = Recipe([Resize(SIZE)])
    views = Views([ALWAYS, plain])
    for recipe in (Schedule({0: ALWAYS, 1: plain}), views, Schedule({0: views})):
        loader = load(faces, recipe)
        assert labels_of(loader) == [[0, 2, 1]] * 8
        assert "mirrored keypoints: the labels ((1, 2),) are exchanged" in loader.explain()
    assert "are exchanged" not in load(faces, plain).explain()


def test_data_that_tells_nothing_is_warned_of(tmp_path: Path) -> None:
    """At the first mirror, once, with what to write."""
    dataset = write_coco(tmp_path, names=["a", "b", "c"])
    with pytest.warns(
        UserWarning, match=r"KeypointParams\(flip_pairs=\[\(1, 2\), ...\]\), or fl"
    ) as said:
        assert labels_of(load(dataset, ALWAYS, batch_size=8)) == [[0, 1, 2]] * 8
    assert {str(one.filename).endswith("move_one.py") for one in said} == {True}


def test_datasets_that_disagree_are_refused(faces: Any, tmp_path: Path) -> None:
    """Label 1 is an eye in one and the nose in the other; a recipe can decide, or mirror nothing."""
    other = write_coco(tmp_path, names=["left_eye", "right_eye", "nose"])
    both = mix([faces, other])
    with pytest.raises(LoaderError, match=r"different flip_pairs, \(\(1, 2\),\) and \(\(0, 1\),\)"):
        load(both, ALWAYS)
    load(both, Recipe([Resize(SIZE)]))
    load(both, Recipe(ALWAYS.operations, keypoints=EXCHANGED))


def test_class_names_with_sides(tmp_path: Path) -> None:
    """Boxes on request, by the names of the data; names without sides are refused."""
    classes = ("right hand", "face", "left hand")
    dataset = write_coco(tmp_path, classes=classes)
    named = BoxParams(flip_pairs="names")
    [batch] = load(dataset, Recipe(ALWAYS.operations, boxes=named), batch_size=8)
    assert {tuple(row.tolist()) for row in batch.box_labels} == {(2, 2)}
    [batch] = load(dataset, ALWAYS, batch_size=8)
    assert {tuple(row.tolist()) for row in batch.box_labels} == {(0, 0)}
    plain = write_coco(tmp_path / "plain", classes=("face", "hand"))
    with pytest.raises(LoaderError, match=r"'names' of boxes .* they are \('face', 'hand'\)"):
        load(plain, Recipe(ALWAYS.operations, boxes=named))
    assert preview_images(dataset, Recipe(ALWAYS.operations, boxes=named), [0], epochs=[0]).picture


def test_names_of_classes_and_keypoints_become_numbers(tmp_path: Path) -> None:
    """Boxes and keypoints are exchanged, and recipes identified, as with the numbers; also in a mixture of equal data."""
    dataset = write_coco(tmp_path, classes=("right hand", "face", "left hand"))
    recipes = [
        Recipe(
            ALWAYS.operations,
            boxes=BoxParams(flip_pairs=boxes),
            keypoints=KeypointParams(flip_pairs=points),
        )
        for boxes, points in (
            ([("left hand", "right hand")], [("left_eye", "right_eye")]),
            ([(0, 2)], [(1, 2)]),
        )
    ]
    for data in (dataset, dataset.take(4), mix([dataset, dataset])):
        loaders = [load(data, recipe, batch_size=8) for recipe in recipes]
        assert len({loader.state_dict()["recipe"] for loader in loaders}) == 1
        for batch in loaders[0]:
            assert {tuple(row.tolist()) for row in batch.box_labels} == {(2, 2)}
            assert {tuple(row.tolist()) for row in batch.keypoint_labels} == {(0, 2, 1)}


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (
            {"boxes": BoxParams(flip_pairs=[(0, 7)])},
            r"of boxes .* got \(\(0, 7\),\): give some of \[0, 1, 2\]",
        ),
        (
            {"boxes": BoxParams(flip_pairs=[("a", "hand")])},
            r"of boxes .* some of \['right hand', 'face",
        ),
        (
            {"keypoints": KeypointParams(flip_pairs="coco_person")},
            r"of keypoints .* of \[0, 1, 2\]",
        ),
        ({"keypoints": KeypointParams(flip_pairs=[("nose", "ear")])}, r"of keypoints .* \['nose'"),
    ],
)
def test_labels_that_the_data_lacks_are_refused(
    tmp_path: Path, params: dict[str, Any], said: str
) -> None:
    """When the loader is made; those of boxes are not looked at if none are read."""
    dataset = write_coco(tmp_path, classes=("right hand", "face", "left hand"))
    recipe = Recipe(ALWAYS.operations, **params)
    with pytest.raises(LoaderError, match=said):
        load(dataset, recipe)
    load(dataset, recipe, images=ImageOptions(targets=("masks",)))


def test_names_with_several_numbers_are_refused(tmp_path: Path) -> None:
    """In a mixture of data with other orders of the classes."""
    names = ("left hand", "right hand", "face")
    both = mix(
        [write_coco(tmp_path / str(by), classes=(*names[by:], *names[:by])) for by in (0, 1)],
        labels="offset",
    )
    recipe = Recipe(ALWAYS.operations, boxes=BoxParams(flip_pairs=[names[:2]]))
    with pytest.raises(LoaderError, match="one number in all datasets of a mixture"):
        load(both, recipe)


def test_classes_of_images_are_not_those_of_boxes(tmp_path: Path, jpeg: Any) -> None:
    """A folder of classes with boxes beside its images has labels of its own."""
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jpg").write_bytes(jpeg(*SIZE))
        content = {"boxes": [[1, 1, 9, 9]], "labels": [7]}
        (tmp_path / name / "a.json").write_text(json.dumps(content))
    recipe = Recipe(ALWAYS.operations, boxes=BoxParams(flip_pairs=[(6, 7)]))
    [batch] = load(open_dataset(tmp_path), recipe, batch_size=2)
    assert [row.tolist() for row in batch.box_labels] == [[6], [6]]


def test_masks_of_voc_count_from_the_background(tmp_path: Path) -> None:
    """Class k of a Pascal VOC mask has the value k + 1."""
    from tests.support.annotated import HEIGHT, WIDTH, mask_png, picture, put, voc_object, voc_xml

    put(tmp_path, {"JPEGImages/a.png": picture(), "Annotations/a.xml": voc_xml(voc_object())})
    put(tmp_path, {"SegmentationClass/a.png": mask_png(2)})
    put(tmp_path, {"ImageSets/Segmentation/train.txt": "a\n"})
    classes = ["left dog", "dog", "right dog"]
    for value, other in ((1, 3), (3, 1), (2, 2)):
        put(tmp_path, {"SegmentationClass/a.png": mask_png(value)})
        dataset = open_dataset(
            tmp_path,
            format="voc",
            split="train",
            masks="class",
            coords="zero-based",
            classes=classes,
        )
        recipe = Recipe(
            [Resize((HEIGHT, WIDTH)), HorizontalFlip(1)], masks=MaskParams(flip_pairs="names")
        )
        [batch] = load(dataset, recipe)
        assert set(batch.masks.unique().tolist()) - {0, 255} == {other}


@pytest.mark.parametrize(
    ("step", "most"), [(CenterCrop((30, 30)), 14), (Mosaic(), 4 * 14)], ids=["crop", "mosaic"]
)
def test_masks_stay_with_their_boxes(tmp_path: Path, step: Any, most: int) -> None:
    """Without a word in the recipe, as there is a mask per box; also if boxes are computed from masks."""
    write_coco(tmp_path)
    # A sample without objects has no mask at all.
    stored = json.loads((tmp_path / "a.json").read_text())
    stored["annotations"] = [one for one in stored["annotations"] if one["image_id"] != 5]
    (tmp_path / "b.json").write_text(json.dumps(stored))
    dataset = open_dataset(tmp_path / "b.json", masks=True)
    for params in (None, BoxParams(instance_masks=True), BoxParams(boxes_from_masks=True)):
        recipe = Recipe([Resize(SIZE), step], boxes=params)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            [batch] = load(dataset, recipe, batch_size=8)
            singles = [one.masks for one in load(dataset, recipe, batch_size=1)]
        # A list as well where a sample has no masks but those that a mosaic brings.
        assert [list(map(len, one or [[]])) for one in singles] == [[len(m)] for m in batch.masks]
        assert batch.masks is not None
        assert batch.boxes is not None
        assert 0 < sum(map(len, batch.boxes)) < most
        assert bool(said) == (params is None)
        for masks, boxes in zip(batch.masks, batch.boxes, strict=True):
            assert len(masks) == len(boxes)
            for mask, box in zip(masks, boxes, strict=True):
                rows, columns = torch.nonzero(mask, as_tuple=True)
                found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
                assert torch.allclose(torch.stack(found).float(), box, atol=0.51)


def test_colours_of_a_preview_follow_the_labels() -> None:
    """A dot has the colour of its label, in whatever row it stands."""
    picture = np.zeros((*SIZE, 3), np.uint8)
    drawn = annotate(picture, keypoints=np.array(FACE), keypoint_labels=np.array([0, 2, 1]))
    for (x, y), label in zip(FACE, (0, 2, 1), strict=True):
        assert tuple(drawn[int(y), int(x)]) == color_of(label + 1)
    plain = annotate(picture, keypoints=np.array(FACE))
    assert (plain != drawn).any()
