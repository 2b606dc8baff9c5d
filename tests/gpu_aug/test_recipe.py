"""Recipes: stages, crops, presets, files, fingerprints and errors."""

import json

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torchvision.transforms.v2 import functional as tv

from gpu_aug import (
    PRESETS,
    CenterCrop,
    ColorJitter,
    Crops,
    GaussianBlur,
    Grayscale,
    HorizontalFlip,
    Normalize,
    OneOf,
    RandomAffine,
    RandomApply,
    RandomErasing,
    RandomResizedCrop,
    Recipe,
    RecipeError,
    Resize,
    VerticalFlip,
)

EVERY_OPERATION = [
    RandomResizedCrop((64, 48), scale=(0.2, 0.9), ratio=(0.5, 2), antialias=False),
    HorizontalFlip(0.3),
    VerticalFlip(),
    RandomAffine(10, (0.1, 0.2), (0.9, 1.1), (-5, 5, -3, 3), fill=0.5, p=0.7),
    ColorJitter(0.4, (0.5, 1.5), 0.4, 0.1, p=0.8),
    Grayscale(0.2),
    GaussianBlur(5, (0.1, 1.0), p=0.5),
    RandomErasing(0.4, scale=(0.1, 0.2), ratio=(0.5, 2), value=0.25),
    Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2)),
    Resize(24),
    CenterCrop(20),
]


def decode(image: torch.Tensor, crops: Crops) -> torch.Tensor:
    """Carry out the only crop of ``crops`` on uint8 [3, H, W] with torch alone."""
    (top, left), (height, width) = crops.start[0].tolist(), crops.shape[0].tolist()
    cut = image[None, :, top : top + height, left : left + width]
    assert (height, width) == tuple(cut.shape[2:]), "the cut leaves the source"
    resized = F.interpolate(
        cut, crops.resize[0].tolist(), mode="bilinear", antialias=crops.antialias
    )
    (top, left), (height, width) = crops.paste[0].tolist(), crops.canvas[0].tolist()
    below, beside = height - resized.shape[2] - top, width - resized.shape[3] - left
    return F.pad(resized, (left, beside, top, below))[0]  # a negative pad is a cut


def draw_one(recipe: Recipe, image: torch.Tensor, *, index: int = 0) -> Crops:
    sizes = np.array([image.shape[1:]])
    return recipe.draw(0, 0, np.array([index]), sizes).crops


def noise(height: int, width: int) -> torch.Tensor:
    rng = np.random.default_rng(height * 1000 + width)
    return torch.from_numpy(rng.integers(0, 256, (3, height, width), dtype=np.uint8))


@pytest.mark.parametrize(
    "size", [(256, 256), (255, 300), (300, 257), (1000, 37), (37, 1000), (223, 225), (500, 333)]
)
@pytest.mark.parametrize(
    "operations",
    [
        [Resize(256), CenterCrop(224)],
        [Resize(64), CenterCrop((70, 91))],
        [Resize((50, 80))],
        [Resize((50, 80)), CenterCrop((31, 100))],
        [CenterCrop((224, 225))],
        [CenterCrop((1, 2000))],
        [CenterCrop(31), CenterCrop(64), CenterCrop(50)],
        [CenterCrop(37), Resize((20, 60)), CenterCrop((33, 41))],
    ],
    ids=lambda operations: "-".join(type(operation).__name__ for operation in operations),
)
def test_windows_are_torchvisions_operations_in_order(operations, size):
    """One cut, one resampling and one paste replace any run of crops and a resize."""
    image = noise(*size)
    expected = image
    for operation in operations:
        if isinstance(operation, CenterCrop):
            expected = tv.center_crop(expected, list(operation.size))
        else:
            wanted = operation.size
            wanted = [wanted] if isinstance(wanted, int) else list(wanted)
            expected = tv.resize(expected, wanted, antialias=True)

    assert torch.equal(expected, decode(image, draw_one(Recipe(operations), image)))


@pytest.mark.parametrize(("size", "first", "last"), [(40, 10, 30), (35, 9, 26), (90, 22, 68)])
def test_a_padded_crop_is_resampled_with_its_border_on_whole_pixels(size, first, last):
    """A crop larger than the image keeps its black border, rounded, when it is resampled."""
    image = noise(40, 100) | 1  # no black pixels
    recipe = Recipe([CenterCrop(80), Resize((size, size))])

    result = decode(image, draw_one(recipe, image))

    expected = tv.resize(tv.center_crop(image, [80, 80]), [size, size], antialias=True)
    assert result.any(dim=2).any(dim=0).nonzero().flatten().tolist() == [*range(first, last)]
    if (first, last) == (10, 30):  # no rounding: the same but where the filter meets the border
        assert torch.equal(expected[:, 12:28], result[:, 12:28])


def test_a_crop_beside_the_image_is_black():
    """A random crop that falls wholly on the border of a padded image gives a black image."""
    image = noise(4, 4)
    recipe = Recipe([CenterCrop(400), RandomResizedCrop(8, scale=(0.001, 0.001))])

    results = [decode(image, draw_one(recipe, image, index=index)) for index in range(5)]

    assert not any(result.any() for result in results)


def test_cuts_stay_inside_the_source():
    """Whatever the source's size, the cut is inside it and not empty."""
    sizes = np.random.default_rng(0).integers(1, 60, (2000, 2))
    recipe = Recipe([CenterCrop(40), RandomResizedCrop(16), CenterCrop(20)])

    crops = recipe.draw(0, 0, np.arange(2000), sizes).crops

    assert crops.start.min() >= 0
    assert crops.shape.min() >= 1
    assert crops.resize.min() >= 1
    assert (crops.start + crops.shape <= sizes).all()
    assert np.int32 == crops.start.dtype == crops.paste.dtype


@pytest.mark.parametrize(
    ("operations", "num_decode"),
    [
        ([RandomResizedCrop(8)], 1),
        ([CenterCrop(8), Normalize()], 1),
        ([Resize(9), CenterCrop(8), RandomResizedCrop(4)], 2),
        ([CenterCrop(9), Resize(8), CenterCrop(4), HorizontalFlip()], 3),
        ([Resize((9, 9)), Resize(4)], 1),
        ([Resize((9, 9)), CenterCrop(5), CenterCrop(9)], 2),
        ([RandomResizedCrop(8), HorizontalFlip(), CenterCrop(4)], 1),
    ],
)
def test_the_decode_stage_holds_one_resampling(operations, num_decode):
    """Leading crops and the first resampling are decoded; a second one is left to the batch."""
    recipe = Recipe(operations)

    assert tuple(operations[:num_decode]) == recipe.decode_operations
    assert tuple(operations[num_decode:]) == recipe.batch_leaves
    assert num_decode + len(recipe.draw(0, 0, np.arange(2), np.full((2, 2), 9)).params) == len(
        operations
    )


def test_size_is_that_of_the_last_operation():
    """The recipe knows the size of the decoded and of the final images."""
    recipe = Recipe([RandomResizedCrop((60, 90)), HorizontalFlip(), Resize(30), CenterCrop(20)])
    assert (recipe.decode_size, recipe.size) == ((60, 90), (20, 20))


@pytest.mark.parametrize(
    "operations",
    [
        [Normalize()],
        [Resize(256)],
        [RandomApply([CenterCrop(20)])],
        [CenterCrop(30), OneOf([CenterCrop(20), HorizontalFlip()])],
    ],
)
def test_images_of_several_sizes_make_no_batch(operations):
    """Where images can differ in size there is no fixed one, and the error says what to add."""
    recipe = Recipe(operations)

    assert recipe.size is None
    with pytest.raises(RecipeError, match=r"different sizes and make no batch: add .*CenterCrop"):
        recipe.fixed_size  # noqa: B018


@pytest.mark.parametrize(
    ("operations", "decode_size", "num_single"),
    [
        ([CenterCrop(30), HorizontalFlip()], (30, 30), 0),
        ([Resize(40), HorizontalFlip(), CenterCrop(30), Normalize()], None, 2),
        ([HorizontalFlip(), RandomResizedCrop(30), Normalize()], None, 2),
        ([CenterCrop(40), RandomApply([CenterCrop(30)]), Resize((9, 9))], (40, 40), 2),
        ([CenterCrop(40), OneOf([HorizontalFlip(), VerticalFlip()])], (40, 40), 0),
    ],
)
def test_images_are_taken_one_by_one_while_their_sizes_differ(operations, decode_size, num_single):
    """Leaves up to the one that makes the sizes equal are counted; the rest works on batches."""
    recipe = Recipe(operations)

    assert (recipe.decode_size, recipe.num_single_leaves) == (decode_size, num_single)


LIST = "must be a list of at least one operation"


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ([], LIST),
        ("HorizontalFlip", LIST),
        (None, LIST),
        (HorizontalFlip(), LIST),
        ([CenterCrop(8), "flip"], r"operation 1 of the recipe .* got 'flip'"),
        (
            [CenterCrop(8), Normalize(), ColorJitter(0.4)],
            "ColorJitter must come before Normalize",  # it needs values in [0, 1]
        ),
    ],
)
def test_what_is_no_list_of_operations_is_refused(operations, message):
    """Something else in the list is named with its place."""
    with pytest.raises(RecipeError, match=message):
        Recipe(operations)


def test_presets_are_what_their_names_say():
    """The presets for ImageNet, by method and by name; tests/gpu_aug/test_presets.py has the others."""
    crop, flip, jitter = (
        RandomResizedCrop(224),
        HorizontalFlip(),
        ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
    )
    expected = {
        "imagenet_train": [crop, flip, Normalize()],
        "imagenet_train_jitter": [crop, flip, jitter, Normalize()],
        "imagenet_eval": [Resize(256), CenterCrop(224), Normalize()],
    }

    assert expected.keys() < set(PRESETS)
    assert expected == {name: list(Recipe.preset(name).operations) for name in expected}
    assert Recipe.imagenet_train_jitter(size=128).size == (128, 128)


def test_an_unknown_preset_names_the_known_ones():
    """The error lists the presets."""
    with pytest.raises(RecipeError, match=r"one of deit3, .* got 'imagenet'"):
        Recipe.preset("imagenet")


def test_a_recipe_survives_its_file(tmp_path):
    """Saved and loaded, a recipe with every operation is equal and has the same fingerprint."""
    recipe = Recipe(EVERY_OPERATION)
    recipe.save(tmp_path / "recipe.json")

    loaded = Recipe.load(tmp_path / "recipe.json")

    assert recipe == loaded
    assert recipe.fingerprint == loaded.fingerprint
    assert recipe.to_dict() == json.loads((tmp_path / "recipe.json").read_text())


def test_fingerprints_are_pinned():
    """Stored states name a recipe by this value."""
    assert (
        Recipe.imagenet_train().fingerprint
        == "cf9a38bbd62f9241e9ac73fdaea48ac9c432f9e72c422b5753ac5c14f9c46269"
    )
    assert (
        Recipe(EVERY_OPERATION).fingerprint
        == "cc46f15792d9138af1ccb2da3b81151f6aa0f848b36c66a8ba93c52585a2e21b"
    )


def test_fingerprints_tell_recipes_apart():
    """Any field, and the order, changes the fingerprint; the spelling of a value does not."""
    crop, flip, jitter = RandomResizedCrop(32), HorizontalFlip(), ColorJitter(0.4)
    recipes = [
        Recipe([crop, flip, jitter]),
        Recipe([crop, jitter, flip]),
        Recipe([crop, HorizontalFlip(0.4), jitter]),
        Recipe([crop, VerticalFlip(), jitter]),
        Recipe([RandomResizedCrop(32, antialias=False), flip, jitter]),
    ]
    spelled = Recipe([RandomResizedCrop([32, 32], scale=[0.08, 1]), flip, ColorJitter((0.6, 1.4))])

    assert len(recipes) == len({recipe.fingerprint for recipe in recipes})
    assert recipes[0].fingerprint == spelled.fingerprint
    assert recipes[0] == spelled
