"""What was drawn, in words: the numbers, read out of the text, give the pixels again with torchvision or by hand."""

import re
from importlib import import_module

import numpy as np
import pytest
import torch
from torchvision.transforms.v2 import functional

from dali_pipes.preview.draw_descriptions import draw_words
from gpu_aug import (
    ColorJitter,
    CutMix,
    HorizontalFlip,
    MixUp,
    Normalize,
    RandomAffine,
    RandomErasing,
    RandomResizedCrop,
    RandomRotation,
    Recipe,
    Resize,
    RGBShift,
    apply,
)
from tests.support.rows.row import SIZE, Row

ROWS: dict[str, Row] = {
    f"{part}: {name}": row
    for part in ("colour", "erase", "filters", "geometry", "mix", "policy", "warps")
    for name, row in import_module(f"tests.support.rows.{part}").ROWS.items()
}
IMAGE = np.random.default_rng(0).integers(0, 256, (61, 84, 3), np.uint8)
SIZES = np.array([IMAGE.shape[:2]])


def words_and_result(
    recipe: Recipe, index: int = 3, epoch: int = 2
) -> tuple[list[str], torch.Tensor]:
    drawn = recipe.draw(0, epoch, np.array([index]), SIZES)
    [result] = apply(recipe, [{"image": IMAGE}], indices=[index], epoch=epoch, engine="kornia")
    return draw_words(recipe, drawn, 0), 255 * result["image"]


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"[-+]?\d+(?:\.\d+)?", text)]


def gap(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.float() - other.float()).abs().mean())


def test_every_operation_can_be_told() -> None:
    """Words begin with the operation's name, are short, and print no arrays."""
    told, boxes = 0, [[(4, 5, 20, 20)]] * 2
    for name, row in ROWS.items():
        recipe = Recipe([Resize(SIZE), row.operation])
        drawn = recipe.draw(0, 0, np.arange(2), np.tile(SIZES, (2, 1)), boxes=boxes)
        words = draw_words(recipe, drawn, 0, keys=["a.jpg", "b.jpg"])
        assert words[0].startswith("Resize: "), name
        for text in words[1:]:
            assert re.match(r"[A-Z]\w+(: \S|$)", text), name
            assert len(text) < 300, name
            assert not re.search(r"[\[\]{}]|array|nan", text), name
            told += 1
    assert told > 100


def test_what_is_not_drawn_is_not_told() -> None:
    """Operations that were left out and those that are alike for all have no words."""
    recipe = Recipe([HorizontalFlip(p=0.0), Normalize()])
    assert words_and_result(recipe)[0] == ["nothing is changed at random"]
    assert words_and_result(Recipe([HorizontalFlip(p=1.0)]))[0] == [
        "HorizontalFlip: left and right mirrored"
    ]


def test_crop_is_the_one_that_was_cut_out() -> None:
    """Torchvision cuts the same rectangle out; one pixel beside it is another."""
    [text], result = words_and_result(Recipe([RandomResizedCrop(40, antialias=False)]))
    top, left, height, width, *size = (int(number) for number in numbers(text))
    whole = torch.from_numpy(IMAGE).permute(2, 0, 1)

    def cut(top: int) -> torch.Tensor:
        return functional.resized_crop(whole, top, left, height, width, size, antialias=False)

    assert size == [40, 40]
    assert gap(result, cut(top)) < 0.5  # torchvision rounds to 8 bits
    assert gap(result, cut(top + 1 if top < 10 else top - 1)) > 5


def test_factors_of_jitter_are_torchvisions() -> None:
    """Torchvision's adjustments by the described factors, in the drawn order, give the same picture."""
    recipe = Recipe([Resize(SIZE), ColorJitter(0.6, 0.6, 0.6, 0.4)])
    words, result = words_and_result(recipe)
    drawn = recipe.draw(0, 2, np.array([3]), SIZES)
    factors = re.findall(r"(\w+) ([-+]?[\d.]+)", words[1])
    steps = [factors[number] for number in drawn.params[0]["order"][0].tolist()]

    def adjusted(steps: list[tuple[str, str]]) -> torch.Tensor:
        image = torch.from_numpy(IMAGE).permute(2, 0, 1).float() / 255
        for name, value in steps:
            image = getattr(functional, f"adjust_{name}")(image, float(value))
        return 255 * image

    assert {name for name, _ in steps} == {"brightness", "contrast", "saturation", "hue"}
    assert gap(result, adjusted(steps)) < 1  # factors have three digits
    assert gap(result, adjusted(steps[::-1])) > 2


def test_turn_has_the_side_that_is_told() -> None:
    """Torchvision turns counter-clockwise by positive angles."""
    words, result = words_and_result(
        Recipe([Resize(SIZE), RandomRotation((25, 25), interpolation="nearest")])
    )
    whole = torch.from_numpy(IMAGE).permute(2, 0, 1)

    assert words[1] == "RandomRotation: turned 25.0° counter-clockwise"
    assert gap(result, functional.rotate(whole, 25)) < 0.5
    assert gap(result, functional.rotate(whole, -25)) > 5


def test_affine_words_make_the_matrix_again() -> None:
    """Shear, scale, turn and way, in this order, about the middle."""
    recipe = Recipe(
        [Resize(SIZE), RandomAffine(80, translate=(0.2, 0.2), scale=(0.5, 2), shear=20)]
    )
    drawn = recipe.draw(0, 0, np.arange(20), np.tile(SIZES, (20, 1)))
    for row in range(20):
        matrix = drawn.params[0]["matrix"][row]
        text = draw_words(recipe, drawn, row)[1]

        def told(pattern: str, usual: float, text: str = text) -> float:
            found = re.search(pattern, text)
            return float(found[1]) if found else usual

        across = told(r"scaled x([\d.]+)", 1)
        down = told(r", x([\d.]+) down", across)
        shear = np.tan(np.radians(told(r"across by ([-+.\d]+)", 0)))
        side = -1 if "counter-clockwise" in text else 1
        turn = side * np.radians(told(r"turned ([\d.]+)", 0))
        way = [told(r"([-+.\d]+) px right", 0), told(r"([-+.\d]+) px down", 0)]
        turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        linear = turned @ np.diag([across, down]) @ np.array([[1, shear * down / across], [0, 1]])
        middle = np.array([(SIZE[1] - 1) / 2, (SIZE[0] - 1) / 2])
        assert np.allclose(linear, matrix[:2, :2], atol=0.012)
        assert np.allclose(matrix[:2, :2] @ middle + matrix[:2, 2] - middle, way, atol=0.051)


def test_color_matrices() -> None:
    """Factors and shifts of the channels."""
    recipe = Recipe([Resize(SIZE), RGBShift((0.2, 0.2), (-0.1, -0.1), (0, 0), p=1.0)])
    words, _ = words_and_result(recipe)
    assert words[1] == "RGBShift: RGB factors 1, 1, 1, shifts 51, -25.5, 0 of 255"


def test_erased_rectangle_is_black_there() -> None:
    """Where the words say, and nowhere else."""
    words, result = words_and_result(Recipe([Resize(SIZE), RandomErasing(p=1.0)]))
    top, left, bottom, right = (int(number) for number in numbers(words[1]))
    expected = np.zeros(SIZE, bool)
    expected[top:bottom, left:right] = True

    changed = (result.round().byte().numpy() != IMAGE.transpose(2, 0, 1)).any(axis=0)
    assert np.array_equal(changed, expected & (IMAGE != 0).any(axis=2))


def test_shares_of_mixed_images() -> None:
    """The blend of the told shares; the partner is named by its key."""
    recipe = Recipe([Resize(SIZE), MixUp(num_classes=2)])
    drawn = recipe.draw(0, 1, np.array([4, 9]), np.tile(SIZES, (2, 1)))
    words = draw_words(recipe, drawn, 0, keys=["own.jpg", "other.jpg"])
    pair = [IMAGE, 255 - IMAGE]
    samples = [{"image": image, "label": 0} for image in pair]
    [result, _] = apply(
        Recipe([Resize(SIZE), MixUp()]),
        [{**one, "label": np.eye(2, dtype=np.float32)[0]} for one in samples],
        indices=[4, 9],
        epoch=1,
    )
    own, others = numbers(words[1])

    assert words[1].endswith("% of other.jpg")
    assert own + others == pytest.approx(100, abs=1)
    expected = (own * pair[0] + (100 - own) * pair[1].astype(float)) / 100
    assert np.abs(255 * result["image"].numpy() - expected.transpose(2, 0, 1)).max() < 3
    assert len(draw_words(recipe, drawn.rows(0, 1), 0, keys=["own.jpg"])) == 1  # without a partner


def test_cutmix_names_its_rectangle() -> None:
    """Height, width, top and left of the part that is another image's."""
    recipe = Recipe([Resize(SIZE), CutMix(num_classes=2)])
    drawn = recipe.draw(0, 0, np.array([4, 9]), np.tile(SIZES, (2, 1)))
    text = draw_words(recipe, drawn, 1, keys=["first", "second"])[1]
    [start], [shape] = drawn.params[0]["start"][1:], drawn.params[0]["shape"][1:]

    assert "% of first" in text
    assert text.endswith(f"top {start[0]}, left {start[1]}, {shape[0]} x {shape[1]} px")
