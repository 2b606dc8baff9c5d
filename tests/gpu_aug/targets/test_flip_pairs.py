"""Labels of left and right are exchanged exactly where an image is mirrored."""

import json
import warnings
from functools import reduce
from typing import Any

import albumentations as A
import numpy as np
import pytest

import gpu_aug
from gpu_aug import (
    D4,
    Affine,
    BoxParams,
    CenterCrop,
    GridDistortion,
    HorizontalFlip,
    KeypointParams,
    MaskParams,
    Mosaic,
    Operation,
    Perspective,
    RandomRotate90,
    Recipe,
    RecipeError,
    Resize,
    Targets,
    TargetsError,
    Transpose,
    VerticalFlip,
    move_batch,
)

SIZE = (48, 64)
# The nose, and an eye on each side: a triangle that turns clockwise.
FACE = np.array([[32.0, 18], [26, 30], [38, 30]])
EYES = KeypointParams(remove_invisible=False, flip_pairs=[(1, 2)])
SHEARED = Affine(shear=((-70, 70), (-70, 70)), rotate=(-180, 180), p=1)
"""Its determinant, 1 - tan(x) tan(y), is negative for strong shears along both axes."""

CHAINS: dict[str, list[Operation]] = {
    "D4": [D4(0.9)],
    "flips": [HorizontalFlip(), VerticalFlip(), Transpose(0.5)],
    "mirrored affine": [SHEARED],
    "affine twice": [SHEARED, Affine(shear=((-70, 70), (-70, 70)), p=0.7)],
    "perspective": [Perspective((0.05, 0.15), p=1), HorizontalFlip()],
    "all": [Resize((40, 40)), D4(), Perspective(p=0.8), SHEARED, CenterCrop((36, 44)), D4(0.7)],
}


def moved(recipe: Recipe, *targets: Targets, seed: int = 0) -> tuple[Any, list[Targets]]:
    """The draws for images of SIZE, and their targets afterwards."""
    draws = recipe.draw(seed, 0, np.arange(len(targets)), np.array([SIZE] * len(targets)))
    return draws, move_batch(recipe, draws, list(targets))


def turns_clockwise(points: np.ndarray) -> bool:
    """Of a triangle; it turns the other way round in a mirror."""
    (ax, ay), (bx, by) = points[1] - points[0], points[2] - points[0]
    return bool(ax * by - ay * bx > 0)


@pytest.mark.parametrize("name", CHAINS)
def test_labels_are_exchanged_exactly_in_mirrors(name: str) -> None:
    """As often as the composed matrix has a negative determinant, and the triangle of the face turns the other way."""
    recipe = Recipe(CHAINS[name], keypoints=EYES)
    face = Targets(keypoints=FACE, keypoint_labels=[0, 1, 2])
    count, mirrored = 400, 0

    for seed in range(2):
        draws, results = moved(recipe, *[face] * count, seed=seed)
        sizes, linear = draws.sizes, []
        for leaf, params in zip(recipe.leaves, draws.decode_params + draws.params, strict=True):
            open_gates = params["apply"][:, None, None]
            linear.append(np.where(open_gates, leaf.forward(params, sizes), np.eye(3)))  # type: ignore[attr-defined]
            sizes = leaf.result_size(params, sizes)
        composed = reduce(lambda first, then: then @ first, linear)
        for row, result in enumerate(results):
            is_mirror = np.linalg.det(composed[row]) < 0
            mirrored += is_mirror
            assert result.keypoint_labels is not None
            assert result.keypoints is not None
            assert result.keypoint_labels.tolist() == ([0, 2, 1] if is_mirror else [0, 1, 2])
            if not np.isnan(result.keypoints).any():
                assert turns_clockwise(result.keypoints) == (turns_clockwise(FACE) != is_mirror)

    assert 0.1 < mirrored / (2 * count) < 0.9


@pytest.mark.parametrize(
    ("operations", "changes"),
    [
        ([HorizontalFlip(1)], True),
        ([VerticalFlip(1)], True),
        ([Transpose(1)], True),
        ([HorizontalFlip(1), VerticalFlip(1)], False),
        ([HorizontalFlip(1), HorizontalFlip(1)], False),
        ([RandomRotate90(1)], False),
        ([GridDistortion(p=1)], False),
        ([CenterCrop((40, 40)), Resize((20, 30))], False),
    ],
    ids=str,
)
def test_two_mirrors_cancel_and_warps_do_not_count(
    operations: list[Operation], changes: bool
) -> None:
    """Keypoints, boxes and masks are treated alike, and each can be left alone."""
    pairs: Any = [(1, 2)]
    labels = {"boxes": [[20, 10, 40, 30]], "box_labels": [1], "keypoint_labels": [0, 1, 2]}
    targets = Targets(**labels, keypoints=FACE, masks=np.full((1, *SIZE), 2))
    recipe = Recipe(
        operations,
        boxes=BoxParams(flip_pairs=pairs),
        keypoints=EYES,
        masks=MaskParams(flip_pairs=pairs),
    )
    alone = Recipe(operations, keypoints=KeypointParams(remove_invisible=False, flip_pairs=()))

    for one, exchanged in ((recipe, changes), (alone, False)):
        [result] = moved(one, targets)[1]
        assert result.box_labels is not None
        assert result.keypoint_labels is not None
        assert result.masks is not None
        assert result.box_labels.tolist() == [2 if exchanged else 1]
        assert result.keypoint_labels.tolist() == ([0, 2, 1] if exchanged else [0, 1, 2])
        assert set(np.unique(result.masks)) - {0} == {1 if exchanged else 2}


def test_a_picture_whose_halves_differ() -> None:
    """The point in the red half stays in the red half, and label 1 is always that of the left half of the picture."""
    image = np.zeros((*SIZE, 3), np.uint8)
    image[:, :32, 0], image[:, 32:, 2] = 255, 255
    mask = np.where(np.arange(64) < 32, 1, 2) * np.ones((48, 1), int)
    sample = {"image": image, "keypoints": [[10, 20], [50, 20]], "keypoint_labels": [1, 2]}
    recipe = Recipe([D4(0.9)], keypoints=EYES, masks=MaskParams(flip_pairs=[(1, 2)]))
    upright = 0

    for result in gpu_aug.apply(recipe, [sample | {"mask": mask}] * 64, seed=0):
        pixels, points = result["image"], result["keypoints"]
        for (x, y), color in zip(points.int().tolist(), (0, 2), strict=True):
            assert pixels[:, y, x].argmax() == color
        middle = pixels.shape[2] / 2
        if points[0, 1] == points[1, 1] == 20:  # flipped left to right, or unchanged
            upright += 1
            labels = result["keypoint_labels"]
            assert labels.tolist() == [1 if x < middle else 2 for x, _ in points.tolist()]
            assert (result["mask"] == np.where(np.arange(64) < 32, 1, 2)).all()
    assert upright > 8


def test_rows_are_exchanged_without_labels() -> None:
    """Row k stays keypoint k of its object, as in Ultralytics: ``keypoints[:, flip_idx]`` of the flipped points."""
    flip_idx = [0, 2, 1, 4, 3]
    points = np.random.default_rng(0).uniform(0, 48, (3, 5, 2))
    params = KeypointParams(remove_invisible=False, flip_pairs=flip_idx)
    recipe = Recipe([HorizontalFlip(1)], keypoints=params)

    [result] = moved(recipe, Targets(keypoints=points.reshape(-1, 2)))[1]

    flipped = points * [-1, 1] + [SIZE[1], 0]
    assert result.keypoints is not None
    assert np.allclose(result.keypoints.reshape(3, 5, 2), flipped[:, flip_idx])
    assert not np.allclose(result.keypoints.reshape(3, 5, 2), flipped)


def test_members_of_a_mosaic_are_exchanged_one_by_one() -> None:
    """Each image of a mosaic has its own flip before, and the mosaic a flip of its own after it."""
    recipe = Recipe(
        [Resize(SIZE), HorizontalFlip(), Mosaic(), HorizontalFlip()],
        boxes=BoxParams(),
        keypoints=EYES,
    )
    draws, results = moved(recipe, *[Targets(keypoints=FACE, keypoint_labels=[0, 1, 2])] * 64)
    first, last = draws.params[0]["apply"], draws.params[2]["apply"]

    for row, result in enumerate(results):
        assert result.keypoint_labels is not None
        found = result.keypoint_labels.reshape(-1, 3).tolist()
        members = range(row // 4 * 4, row // 4 * 4 + 4)
        expected = [[0, 2, 1] if first[own] != last[row] else [0, 1, 2] for own in members]
        assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("labels", "pairs", "expected"),
    [
        (["eye", "r", "left"], [("left", "r")], ["eye", "left", "r"]),
        (["an eye", "l", "right"], [("l", "right")], ["an eye", "right", "l"]),
        ([7, 2**40, -3], [(7, 2**40)], [2**40, 7, -3]),
        ([0, 9, 2], [0, 2, 1], [0, 9, 1]),  # a permutation leaves other labels alone
        ([15, 16, 0], "coco_person", [16, 15, 0]),
    ],
)
def test_labels_of_any_kind(labels: list[Any], pairs: Any, expected: list[Any]) -> None:
    """Text and whole numbers; texts of different lengths are not cut off."""
    recipe = Recipe([HorizontalFlip(1)], keypoints=KeypointParams(flip_pairs=pairs))
    [result] = moved(recipe, Targets(keypoints=FACE, keypoint_labels=labels))[1]
    assert result.keypoint_labels is not None
    assert result.keypoint_labels.tolist() == expected


@pytest.mark.parametrize(
    ("operation", "pairs", "points", "is_said"),
    [
        (HorizontalFlip(1), None, FACE, True),
        (HorizontalFlip(1), (), FACE, False),
        (HorizontalFlip(1), None, np.empty((0, 2)), False),
        (RandomRotate90(1), None, FACE, False),
        (HorizontalFlip(1), [0, 2, 1], FACE, False),
    ],
)
def test_a_mirror_that_exchanges_nothing_is_warned_of(
    operation: Operation, pairs: Any, points: np.ndarray, is_said: bool
) -> None:
    """Only where keypoints were mirrored and nothing says what to exchange."""
    recipe = Recipe([operation], keypoints=KeypointParams(remove_invisible=False, flip_pairs=pairs))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        moved(recipe, Targets(keypoints=points))
    assert [str(one.message) for one in said if "left eye" in str(one.message)][1:] == []
    assert bool(said) == is_said
    assert all("flip_idx in data.yaml (YOLO)" in str(one.message) for one in said)


@pytest.mark.parametrize(
    ("targets", "params", "words"),
    [
        ({"keypoints": FACE}, {"keypoints": EYES}, "keypoint_labels must be .* got none"),
        (
            {"keypoints": FACE, "keypoint_labels": ["a", "b", "c"]},
            {"keypoints": EYES},
            "labels such as 2, which flip_pairs exchanges, got <U1",
        ),
        (
            {"keypoints": FACE, "keypoint_labels": np.zeros((3, 2), int)},
            {"keypoints": EYES},
            r"keypoint_labels must be \[N\] .* got int64 \[3, 2\]",
        ),
        (
            {"keypoints": FACE},
            {"keypoints": KeypointParams(flip_pairs=[0, 2, 1])},
            "all 3 of each object.*remove_invisible=False, got 3 and True",
        ),
        (
            {"keypoints": FACE[:2]},
            {"keypoints": KeypointParams(remove_invisible=False, flip_pairs=[0, 2, 1])},
            "all 3 of each object.*got 2 and False: give keypoint_labels",
        ),
        (
            {"boxes": [[0, 0, 9, 9]]},
            {"boxes": BoxParams(flip_pairs=[(0, 1)])},
            "box_labels must be .* got none",
        ),
        (
            {"masks": np.zeros((1, *SIZE), np.uint8)},
            {"masks": MaskParams(flip_pairs=[(3, 300)])},
            "masks must be .* such as 300, which .* got uint8",
        ),
        (
            {"boxes": [[0, 0, 9, 9]], "masks": np.zeros((1, *SIZE), np.uint8)},
            {"boxes": BoxParams(instance_masks=True), "masks": MaskParams(flip_pairs=[(0, 1)])},
            "masks must be 0 outside of their objects",
        ),
    ],
)
def test_targets_that_cannot_be_exchanged_are_refused(
    targets: dict[str, Any], params: dict[str, Any], words: str
) -> None:
    """Before anything is mirrored, so that an error does not depend on the draws."""
    with pytest.raises(TargetsError, match=words):
        moved(Recipe([HorizontalFlip(0)], **params), Targets(**targets))


def test_names_need_a_loader() -> None:
    """Class names are those of a dataset."""
    for name, params in (("boxes", BoxParams), ("masks", MaskParams)):
        recipe = Recipe([HorizontalFlip()], **{name: params(flip_pairs="names")})  # type: ignore[arg-type]
        with pytest.raises(RecipeError, match="only a Loader has: give pairs"):
            moved(recipe, Targets([[0, 0, 9, 9]], [1]))


@pytest.mark.parametrize(
    ("params", "value"),
    [
        (KeypointParams, [(1, 2), (2, 3)]),
        (KeypointParams, [(1, 1)]),
        (KeypointParams, [(1, "a")]),
        (KeypointParams, [1, 2, 0]),  # not its own inverse
        (KeypointParams, [0, 3, 1]),
        (KeypointParams, [(True, 2)]),
        (KeypointParams, "names"),
        (KeypointParams, 3),
        (BoxParams, [0, 2, 1]),
        (BoxParams, "coco_person"),
        (MaskParams, [("a", "b")]),
        (MaskParams, [(1.5, 2)]),
    ],
)
def test_pairs_that_are_none_are_refused(params: Any, value: Any) -> None:
    """The error has the value and an example."""
    with pytest.raises(RecipeError, match=rf"{params.__name__} flip_pairs must be pairs of labels"):
        params(flip_pairs=value)


def test_keypoints_need_no_names() -> None:
    """A Loader takes them from the data anyway."""
    with pytest.raises(RecipeError, match="without it, a Loader takes the pairs from the names"):
        KeypointParams(flip_pairs="names")  # type: ignore[arg-type]
    with pytest.raises(RecipeError) as told:
        BoxParams(flip_pairs="coco_person")  # type: ignore[arg-type]
    assert "a Loader takes" not in str(told.value)


def test_equal_pairs_are_equal_and_survive_a_file(tmp_path: Any) -> None:
    """The order of pairs and labels has no meaning; () has the fingerprint of a recipe that says nothing."""
    given = [[(3, 4), (2, 1)], ((1, 2), (4, 3)), np.array([[4, 3], [1, 2]])]
    recipes = [Recipe([D4()], keypoints=KeypointParams(flip_pairs=pairs)) for pairs in given]
    assert len({recipe.fingerprint for recipe in recipes}) == len(set(recipes)) == 1

    plain, none = (
        Recipe([D4()], keypoints=KeypointParams(flip_pairs=pairs)) for pairs in (None, ())
    )
    assert plain.fingerprint == none.fingerprint != recipes[0].fingerprint
    for number, recipe in enumerate([*recipes[:1], none]):
        full = Recipe(
            recipe.operations,
            boxes=BoxParams(flip_pairs="names", boxes_from_masks=True),
            masks=MaskParams(flip_pairs=[(1, 2)]),
            keypoints=recipe.keypoints,
        )
        assert Recipe.from_dict(json.loads(json.dumps(full.to_dict()))) == full
        for suffix in ("yaml", "json"):
            full.save(tmp_path / f"{number}.{suffix}")
            assert Recipe.load(tmp_path / f"{number}.{suffix}") == full


def test_imported_pipelines_exchange_nothing() -> None:
    """As in Albumentations, and without a warning; a recipe that exchanges is not exported."""
    params = A.KeypointParams("xy", label_fields=["names"], remove_invisible=False)
    pipeline = A.Compose([A.HorizontalFlip(p=1)], keypoint_params=params)
    image = np.zeros((*SIZE, 3), np.uint8)
    theirs = pipeline(image=image, keypoints=FACE, names=[0, 1, 2])
    recipe = Recipe.from_albumentations(pipeline)
    sample = {"image": image, "keypoints": FACE, "keypoint_labels": [0, 1, 2]}
    [ours] = gpu_aug.apply(recipe, [sample])

    assert ours["keypoint_labels"].tolist() == np.array(theirs["names"]).tolist() == [0, 1, 2]
    assert np.allclose(ours["keypoints"], theirs["keypoints"])
    with pytest.raises(RecipeError, match="exchanges no labels"):
        Recipe([HorizontalFlip()], masks=MaskParams(flip_pairs=[(1, 2)])).to_albumentations()


def test_new_borders_keep_their_value() -> None:
    """What lies beside a mirrored image is fill_mask, whatever its pair."""
    warp = Affine(shear=((60, 60), (60, 60)), fill_mask=1, p=1)
    recipe = Recipe([warp], masks=MaskParams(flip_pairs=[(1, 2)]))
    [result] = moved(recipe, Targets(masks=np.full((1, *SIZE), 1, np.uint8)))[1]
    assert result.masks is not None
    assert set(np.unique(result.masks)) == {1, 2}
