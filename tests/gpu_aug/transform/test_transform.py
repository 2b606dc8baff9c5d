"""Recipes as callables: the same pixels as `apply` with the same draws, for whatever kind of image is given."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from gpu_aug import (
    Affine,
    ColorJitter,
    GaussianBlur,
    GaussNoise,
    HorizontalFlip,
    Invert,
    MixUp,
    Normalize,
    Pad,
    RandomCrop,
    RandomErasing,
    RandomResizedCrop,
    RandomRotate90,
    Recipe,
    RecipeError,
    SmallestMaxSize,
    Superpixels,
    TargetsError,
    Transpose,
    VerticalFlip,
    apply,
)
from gpu_aug.engines.fused.prepared import prepare
from gpu_aug.transform import ahead

HALF_STEP = 0.5 / 255 + 1e-6  # what rounding to uint8 may change

RECIPES = {
    "moves": Recipe([RandomCrop((20, 24)), HorizontalFlip(), VerticalFlip()]),
    "turns": Recipe([HorizontalFlip(), Transpose(), RandomRotate90()]),
    "pads": Recipe([RandomCrop((34, 46), padding=4), HorizontalFlip()]),
    "pads alone": Recipe([Pad((3, 1, 2, 5))]),
    "resizes": Recipe([RandomResizedCrop(24)]),
    "resizes and turns": Recipe([RandomResizedCrop(24), Transpose(), HorizontalFlip()]),
    "warps": Recipe(
        [RandomResizedCrop(24), Affine(rotate=(-20, 20)), ColorJitter(0.4, 0.4, 0.4, 0.1)]
    ),
    "normalised": Recipe([RandomResizedCrop(24), HorizontalFlip(), Normalize()]),
    "turns and values": Recipe(
        [RandomRotate90(), ColorJitter(0.4, 0.4, 0.4, 0.1), HorizontalFlip(), Normalize()]
    ),
    "shrinks and turns": Recipe([SmallestMaxSize(30), Transpose(), Invert(), VerticalFlip()]),
    "rotates": Recipe([HorizontalFlip(), Affine(rotate=(-20, 20)), Invert()]),
    "holes": Recipe([Transpose(), RandomErasing(p=1.0)]),
    "several passes": Recipe([RandomResizedCrop(24), ColorJitter(0.4), GaussianBlur(5)]),
}


def picture(number: int, height: int = 36, width: int = 48) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (height, width, 3), np.uint8)


def expected(recipe: Recipe, image: np.ndarray, number: int, **options: Any) -> torch.Tensor:
    [result] = apply(recipe, [{"image": image}], seed=7, indices=[number], **options)
    pixels: torch.Tensor = result["image"]
    return pixels


def check(got: torch.Tensor, want: torch.Tensor) -> None:
    if got.dtype == torch.uint8:
        torch.testing.assert_close(got / 255, want, rtol=0, atol=HALF_STEP)
    else:
        torch.testing.assert_close(got, want, rtol=0, atol=0)


def planes(result: Any) -> torch.Tensor:
    if isinstance(result, torch.Tensor):
        return result
    return torch.from_numpy(np.array(result)).movedim(-1, 0)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("sizes", [[(36, 48)], [(36, 48), (50, 41)]], ids=["one size", "two sizes"])
def test_calls_have_the_pixels_of_apply(name: str, sizes: list[tuple[int, int]]) -> None:
    recipe = RECIPES[name]
    transform = recipe.transform(seed=7)
    for number in range(6):
        image = picture(number, *sizes[number % len(sizes)])
        check(planes(transform(image)), expected(recipe, image, number))


@pytest.mark.parametrize(
    ("name", "num"),
    [("turns", 1), ("turns and values", 1), ("shrinks and turns", 1), ("rotates", 9), ("holes", 9)],
)
def test_images_of_many_sizes_share_their_programs_where_only_sizes_differ(
    name: str, num: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flips, turns and changes of values are prepared once for a block of calls, other operations for each size."""
    made = []

    def note(*args: Any, **kwargs: Any) -> Any:
        made.append(prepare(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(ahead, "prepare", note)
    transform = RECIPES[name].transform(seed=7)
    for number in range(9):
        transform(picture(number, 36 + number, 50 - number))
    assert len(made) == num
    assert None not in made


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("kind", ["array", "pillow", "tensor"])
def test_a_sample_has_the_pixels_and_targets_of_apply(name: str, kind: str) -> None:
    """Plain images of samples are rendered by prepared programs, their targets are moved as by `apply`."""
    recipe = RECIPES[name]
    transform = recipe.transform(seed=7)
    for number in range(4):
        image = picture(number, 40 + 3 * (number // 2), 48)
        given = {
            "array": image,
            "pillow": Image.fromarray(image),
            "tensor": torch.from_numpy(image).permute(2, 0, 1),
        }[kind]
        targets = {"boxes": [[4, 5, 30, 20], [1, 2, 9, 40]], "mask": image[..., 0], "label": 3}
        result = transform({"image": given, **targets, "extra": "x"})
        [want] = apply(recipe, [{"image": image, **targets}], seed=7, indices=[number])
        check(planes(result["image"]), want["image"])
        assert torch.equal(result["boxes"], want["boxes"])
        assert torch.equal(result["mask"], want["mask"])
        assert (result["label"], result["extra"]) == (3, "x")


def test_samples_with_plain_images_are_checked() -> None:
    transform = RECIPES["moves"].transform()
    with pytest.raises(TargetsError, match="got 'box'"):
        transform({"image": picture(0), "box": []})
    with pytest.raises(TargetsError, match="as large as the image"):
        transform({"image": picture(0), "mask": np.zeros((3, 3), np.uint8)})


def test_other_draws_give_other_pixels() -> None:
    """The negative control of the comparison with `apply`."""
    recipe = RECIPES["moves"]
    with pytest.raises(AssertionError):
        check(planes(recipe.transform(seed=7)(picture(0))), expected(recipe, picture(0), 1))


@pytest.mark.parametrize("name", ["moves", "turns", "warps", "normalised"])
def test_all_kinds_of_images_have_the_same_pixels(name: str) -> None:
    image = picture(3)
    as_tensor = torch.from_numpy(image).permute(2, 0, 1)
    kinds = [
        image,
        image[:, ::-1][:, ::-1],
        Image.fromarray(image),
        as_tensor,
        as_tensor.contiguous(),
    ]
    results = [RECIPES[name].transform(seed=7)(kind) for kind in kinds]
    for result in results[1:]:
        assert torch.equal(planes(result), planes(results[0]))


def test_what_comes_back_is_as_what_was_given() -> None:
    moves, normalised = RECIPES["moves"].transform(), RECIPES["normalised"].transform()
    array, tensor = picture(0), torch.from_numpy(picture(0)).permute(2, 0, 1)
    for transform, given, dtype, shape in (
        (moves, array, np.uint8, (20, 24, 3)),
        (normalised, array, np.float32, (24, 24, 3)),
        (moves, tensor, torch.uint8, (3, 20, 24)),
        (normalised, tensor, torch.float32, (3, 24, 24)),
        (moves, tensor / 255, torch.float32, (3, 20, 24)),
        (moves, array[..., 0], np.uint8, (20, 24, 3)),
    ):
        result = transform(given)
        assert (result.dtype, result.shape) == (dtype, shape)
    assert moves(Image.fromarray(array)).size == (24, 20)
    assert isinstance(normalised(Image.fromarray(array)), torch.Tensor)


def test_a_result_has_memory_of_its_own() -> None:
    image = picture(0)
    for transform in (Recipe([RandomCrop((36, 48))]).transform(), RECIPES["moves"].transform()):
        for given in (image, torch.from_numpy(image).permute(2, 0, 1)):
            result = transform(given)
            result[...] = 0
    assert (image == picture(0)).all()


def test_an_index_has_the_draws_of_a_loader_in_that_epoch() -> None:
    recipe, image = RECIPES["warps"], picture(0)
    transform = recipe.transform(seed=7)
    transform.set_epoch(2)
    want = expected(recipe, image, 31, epoch=2)
    check(planes(transform(image, index=31)), want)
    batch = transform([image, image], indices=[31, 5])
    torch.testing.assert_close(batch[0], want, rtol=0, atol=0)


def test_boxes_and_masks_move_with_their_image() -> None:
    mask = np.arange(36 * 48).reshape(36, 48) % 200
    sample = {"image": picture(0), "boxes": [[4, 5, 30, 20]], "box_labels": [3], "mask": mask}
    result = RECIPES["moves"].transform(seed=7)(sample)
    [want] = apply(RECIPES["moves"], [sample], seed=7, indices=[0])
    check(planes(result["image"]), want["image"])
    assert result["image"].dtype == np.uint8
    assert torch.equal(result["boxes"], want["boxes"])
    assert torch.equal(result["mask"], want["mask"])


@pytest.mark.parametrize("name", ["moves", "warps", "normalised", "several passes"])
def test_batches_have_the_pixels_of_apply(name: str) -> None:
    images = [picture(number, 36 + number, 50 - number) for number in range(5)]
    batch = RECIPES[name].transform(seed=7)(images)
    assert (batch.dtype, batch.shape[:2]) == (torch.float32, (5, 3))
    for number, image in enumerate(images):
        want = expected(RECIPES[name], image, number)
        torch.testing.assert_close(batch[number], want, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["moves", "warps", "normalised"])
def test_a_tensor_of_images_is_a_batch(name: str) -> None:
    images = [picture(number) for number in range(3)]
    want = RECIPES[name].transform(seed=7)(images)
    tensor = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
    got = RECIPES[name].transform(seed=7)(tensor)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-6)
    floats = RECIPES[name].transform(seed=7)(tensor / 255)
    torch.testing.assert_close(floats, want, rtol=0, atol=0.02)  # uint8 is rounded when resized


def test_collate_puts_labels_beside_the_images() -> None:
    items = [(picture(number), number, f"name {number}") for number in range(3)]
    images, labels, names = RECIPES["moves"].transform(seed=7).collate(items)
    assert images.shape == (3, 3, 20, 24)
    assert labels.tolist() == [0, 1, 2]
    assert list(names) == ["name 0", "name 1", "name 2"]


def test_images_are_mixed_in_batches_alone() -> None:
    mixing = Recipe([RandomResizedCrop(24), MixUp(num_classes=4)]).transform(seed=7)
    images, labels = mixing([picture(0), picture(1)], [0, 1])
    assert (images.shape, labels.shape) == ((2, 3, 24, 24), (2, 4))
    with pytest.raises(RecipeError, match="call it with a list of images"):
        mixing(picture(0))


class Pictures(torch.utils.data.Dataset[Any]):
    """The same picture again and again: what differs is drawn."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.transform(picture(0)))


def test_workers_and_epochs_draw_differently_and_the_same_under_one_seed() -> None:
    recipe = Recipe([RandomResizedCrop(24)])

    def two_epochs() -> list[bytes]:
        torch.manual_seed(3)
        loader = DataLoader(Pictures(recipe.transform(seed=7)), num_workers=2, batch_size=None)
        return [pixels.numpy().tobytes() for _ in range(2) for pixels in loader]

    first = two_epochs()
    assert len(set(first)) == 16
    assert two_epochs() == first


@pytest.mark.parametrize("index", [{}, {"index": 3}])
def test_without_a_seed_torchs_generator_gives_one(index: dict[str, int]) -> None:
    recipe = Recipe([RandomResizedCrop(24)])
    torch.manual_seed(5)
    first = recipe.transform()(picture(0), **index).tobytes()
    torch.manual_seed(5)
    again, other = (recipe.transform()(picture(0), **index).tobytes() for _ in range(2))
    assert first == again != other


def test_threads_get_a_draw_each() -> None:
    transform = Recipe([RandomResizedCrop(24)]).transform(seed=7)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: transform(picture(0)).tobytes(), range(300)))
    again = Recipe([RandomResizedCrop(24)]).transform(seed=7)
    assert sorted(results) == sorted(again(picture(0)).tobytes() for _ in range(300))


def test_a_transform_can_be_pickled_and_counts_anew() -> None:
    transform = RECIPES["warps"].transform(seed=7)
    first = transform(picture(0))
    copy = pickle.loads(pickle.dumps(transform))
    assert (copy(picture(0)) == first).all()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.zeros((4, 4, 3), np.int64), "must be uint8 or float"),
        ([], "at least one image"),
        (torch.zeros(2, 4, 8, 8), r"\[B, 3, H, W\], got float32 \[2, 4, 8, 8\]"),
        ("a.jpg", "must be uint8 or float"),
    ],
)
def test_what_is_no_image_is_refused(given: Any, said: str) -> None:
    with pytest.raises(TargetsError, match=said):
        Recipe([RandomCrop(4)]).transform()(given)


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        ([picture(0)], {"index": 1}, "give indices"),
        ([picture(0)], {"indices": [1, 2]}, r"per sample \(1\), got \[1, 2\]"),
        ([picture(0)], {"indices": [2**63 - 1]}, "from 0 to 9223372036854775806"),
        ([picture(0)], {"indices": [2**70]}, "from 0 to 9223372036854775806"),
        (picture(0), {"indices": [1]}, "give index="),
        (picture(0), {"labels": {"boxes": []}}, 'one dictionary with the image, {"image": ...'),
        (picture(0), {"index": 2**63 - 1}, "got 9223372036854775807"),
    ],
)
def test_indices_are_checked(given: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises((RecipeError, TargetsError), match=said):
        RECIPES["moves"].transform()(given, **options)


def test_the_largest_indices_have_draws_of_their_own() -> None:
    transform = Recipe([GaussNoise(p=1.0)]).transform(seed=0)
    last = 2**63 - 2

    first, second = (transform(picture(0), index=index) for index in (last, last - 1))

    assert (first != second).any()
    assert (transform(picture(0), index=last) == first).all()


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (1, 500), (500, 1)])
def test_superpixels_of_tiny_images_of_one_colour_change_nothing(size: tuple[int, int]) -> None:
    image = picture(0)[:1, :1].repeat(size[0], axis=0).repeat(size[1], axis=1)

    assert (Recipe([Superpixels(p=1.0)]).transform(seed=0)(image) == image).all()


def test_recipes_and_seeds_are_checked() -> None:
    with pytest.raises(RecipeError, match="seed"):
        RECIPES["moves"].transform(seed=-1)
    with pytest.raises(RecipeError, match="different sizes"):
        Recipe([HorizontalFlip()]).transform()([picture(0)])
