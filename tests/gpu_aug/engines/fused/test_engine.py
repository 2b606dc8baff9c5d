"""The fused engine: passes, composed maps, rows that cost nothing, and what ``explain`` says of them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from gpu_aug import (
    CLAHE,
    D4,
    AutoContrast,
    CenterCrop,
    ColorJitter,
    CutMix,
    Draws,
    Equalize,
    Gamma,
    GaussianBlur,
    Grayscale,
    HorizontalFlip,
    HueSaturationValue,
    Invert,
    MixUp,
    Mosaic,
    Normalize,
    OneOf,
    Pad,
    Posterize,
    RandomAffine,
    RandomCrop,
    RandomErasing,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    Recipe,
    Resize,
    Solarize,
    ToDtype,
    ToSepia,
    UnsharpMask,
    VerticalFlip,
)
from gpu_aug.engines.fused.cpu import run as cpu
from gpu_aug.engines.fused.engine import FusedEngine
from tests.support.agreement import gaps
from tests.support.engines import CPU, draw_for, photographs, render

SIZE = (61, 84)
TURN = RandomAffine(20, (0.1, 0.1), scale=(0.9, 1.2))
MIRRORED = RandomAffine(20, (0.1, 0.1), padding_mode="reflect")


@pytest.fixture(scope="module")
def images(photos) -> torch.Tensor:
    """uint8 [8, *SIZE, 3]: small photographs."""
    return photographs(photos[:8], SIZE)


def gap(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference in units of 1/255."""
    return gaps(a, b).max().item()


def recipe_of(*operations: Any) -> Recipe:
    return Recipe([Resize(SIZE), HorizontalFlip(0), *operations])


CHAINS = {
    "moves": (D4(), RandomCrop((50, 50)), HorizontalFlip(), D4()),
    "crop, then warp": (RandomCrop((50, 70)), TURN),
    "padding, then crop, then warp": (RandomCrop((61, 84), padding=9), TURN),
    "padding of its edge, then warp": (Pad(7, padding_mode="edge"), RandomCrop((61, 84)), TURN),
    "mirrored padding twice": (
        Pad(30, padding_mode="reflect"),
        CenterCrop((100, 120)),
        Pad(40, padding_mode="symmetric"),
        CenterCrop((130, 150)),
    ),
    "paddings of two colours": (Pad(5, fill=0.2), Pad(6, fill=0.6), TURN),
    "flip, then warp, then flip": (HorizontalFlip(), TURN, D4(0.5), CenterCrop((40, 40))),
    "warp, then crop, then padding": (TURN, CenterCrop((40, 40)), Pad(3, fill=1.0)),
    "flip after values": (ColorJitter(0.4, 0.4, 0.4, 0.1), HorizontalFlip(), Solarize(0.5)),
    "crop after contrast": (ColorJitter(0, 0.5, 0, 0), CenterCrop((30, 30)), Normalize()),
    "flip after erasing": (RandomErasing(1.0), HorizontalFlip(), Normalize()),
    "warp after values": (Grayscale(0.5), TURN, Normalize()),
    "blur in the middle": (HorizontalFlip(), GaussianBlur(5, p=0.5), Solarize(0.5), Normalize()),
    "histograms": (Posterize(5), Equalize(), HorizontalFlip(), AutoContrast(0.7), Normalize()),
    "a gamma before a matrix": (HorizontalFlip(), Gamma((0.5, 2)), ToSepia(), Normalize()),
    "hue of bytes": (HueSaturationValue(), HorizontalFlip()),
    "lightness of bytes": (CLAHE(), HorizontalFlip(), Normalize()),
    "one of three": (OneOf([TURN, GaussianBlur(5), ColorJitter(0.4)]), Normalize()),
    "mixed twice": (
        HorizontalFlip(),
        MixUp(),
        Solarize(0.5),
        CutMix(),
        HorizontalFlip(),
        Normalize(),
    ),
    "mosaic": (ColorJitter(0.4), Mosaic(), HorizontalFlip(), Normalize()),
    "rounded": (TURN, ToDtype("uint8"), HorizontalFlip(), RandomErasing(1.0, value="random")),
}


@pytest.mark.parametrize("label", CHAINS)
def test_a_chain_is_what_kornia_makes_of_it(images, label):
    """Whatever shares a pass, values agree."""
    recipe = recipe_of(*CHAINS[label])
    # Rounding turns the noise of float32 into a step here and there.
    allowed = 1.01 if label in ("rounded", "hue of bytes") else 0.1

    by_fused = render("fused", recipe, images)

    assert gap(by_fused, render("kornia", recipe, images)) <= allowed
    assert gap(by_fused.roll(1, 0), by_fused) > 20


@pytest.mark.parametrize("second", [RandomRotation(15), RandomPerspective()])
def test_exact_keeps_warps_apart(images, second):
    """Then two warps are those of Kornia."""
    recipe = recipe_of(TURN, second)
    apart = render("kornia", recipe, images)

    assert gap(render("fused", recipe, images, exact=True), apart) <= 0.1
    assert gap(render("fused", recipe, images), apart) > 5


def test_images_of_several_sizes(images):
    """Each has its own map and size until they meet in one."""
    recipe = Recipe(
        [HorizontalFlip(), TURN, ColorJitter(0.4, 0.4), RandomResizedCrop(48), Normalize()]
    )
    ragged = [
        image[: 40 + 2 * row, : 84 - 3 * row].contiguous() for row, image in enumerate(images)
    ]
    given = list(ragged)

    by_fused = render("fused", recipe, ragged)

    assert gap(by_fused, render("kornia", recipe, ragged)) <= 0.2
    assert all(image is before for image, before in zip(ragged, given, strict=True))


def count(recipe: Recipe, images: torch.Tensor, draws: Draws, *, exact: bool = False) -> list[int]:
    """How many images each pass writes."""
    engine, written = FusedEngine(recipe, device=CPU, exact=exact), []

    def run_and_count(program: Any, sources: Any, others: Any, outs: Any) -> None:
        written.append(len(outs))
        cpu.run_program(program, sources, others, outs)

    engine._run_program = run_and_count
    engine.run(images, draws, torch.empty(len(images), 3, *recipe.fixed_size))
    return written


def test_only_open_gates_split_a_pass(images):
    """Images that are not blurred are written once; the others twice."""
    recipe = recipe_of(HorizontalFlip(1.0), GaussianBlur(5, p=0.5), Normalize())
    draws = draw_for(recipe, images)
    blurred = int(draws.params[2]["apply"].sum())

    assert 0 < blurred < 8
    assert count(recipe, images, draws) == [blurred, 8]


def test_mixing_reads_images_that_were_not_changed_as_they_are(images):
    """There is no copy of them in between."""
    recipe = recipe_of(MixUp(), Normalize())

    assert count(recipe, images, draw_for(recipe, images)) == [8]


EXPLAINED = {
    "one pass": ((HorizontalFlip(), ColorJitter(0.4, 0.4), Normalize(), RandomErasing()), 1),
    "composed": ((TURN, RandomPerspective()), 1),
    "composed around a crop": (
        (TURN, HorizontalFlip(1.0), RandomCrop((40, 50)), RandomPerspective()),
        1,
    ),
    "a third warp": ((TURN, RandomPerspective(), TURN), 2),
    "a mirrored border between": ((MIRRORED, MIRRORED), 2),
    "a padding after a warp": ((TURN, Pad(3), RandomPerspective()), 2),
    "a warp of a repeated edge": ((Pad(3, padding_mode="edge"), TURN), 2),
    "paddings of two colours": ((Pad(3), Pad(4, fill=0.5)), 2),
    "a warp after values": ((Grayscale(1.0), TURN), 2),
    "a histogram": ((CenterCrop((50, 50)), Equalize(1.0)), 2),
    "histograms after other operations": ((Invert(1.0), Equalize(1.0), AutoContrast(1.0)), 3),
    "a step of another engine": ((VerticalFlip(1.0), GaussianBlur(5, p=1.0)), 3),
    "mixed": ((Grayscale(1.0), MixUp()), 2),
    "mirrored holes": ((RandomErasing(1.0), HorizontalFlip(1.0)), 2),
}


@pytest.mark.parametrize("label", EXPLAINED)
def test_explain_counts_the_passes_that_are_made(images, label):
    """Those that write images, and the steps of other engines between them."""
    operations, passes = EXPLAINED[label]
    recipe = recipe_of(*operations)
    draws = draw_for(recipe, images)
    opened = tuple(params | {"apply": np.ones_like(params["apply"])} for params in draws.params)
    steps = sum(isinstance(operation, GaussianBlur) for operation in operations)

    text = recipe.explain()

    assert text.count("\npass ") == passes
    assert len(count(recipe, images, replace(draws, params=opened))) + steps == passes


FIRST = [  # operations, passes, and those of them that are steps of another engine
    ((MixUp(),), 1, 0),
    ((UnsharpMask(p=1.0), Normalize()), 3, 1),
    ((GaussianBlur(5, p=1.0), Normalize()), 2, 1),
    ((UnsharpMask(p=1.0), GaussianBlur(5, p=1.0)), 2, 2),
]


@pytest.mark.parametrize(("operations", "passes", "steps"), FIRST)
def test_explain_knows_when_the_first_operation_needs_a_copy(images, operations, passes, steps):
    """A mixture and a filter read 8-bit images as they are, other steps get float32; steps alone need no pass."""
    recipe = Recipe([Resize(SIZE), *operations])
    written = len(count(recipe, images, draw_for(recipe, images)))

    text = recipe.explain()

    assert text.startswith(f"{passes} pass")
    assert written + steps == passes


def test_explain_says_what_is_in_a_pass_and_why_it_was_split():
    """Names, bytes, reasons."""
    recipe = recipe_of(
        ColorJitter(0, 0.4, 0), TURN, RandomPerspective(), RandomRotation(5), GaussianBlur(5)
    )
    mirrored = recipe_of(MIRRORED, MIRRORED)

    text = recipe.explain()

    assert "pass 1, fused: HorizontalFlip, ColorJitter" in text
    assert "split: RandomAffine interpolates values that ColorJitter changed" in text
    assert "RandomAffine and RandomPerspective become one interpolation" in text
    assert "what the frame between cuts off stays cut off" in text
    assert "split: RandomRotation would be a third warp, and a pass composes two" in text
    assert "split: RandomAffine mirrors what lies in the frame between" in mirrored.explain()
    assert "a step of Albumentations: GaussianBlur" in text
    assert "uint8 [61, 84, 3] -> float32 [61, 84, 3]: 15 kB read, 61 kB written" in text
    assert "as exact=True asks for" in recipe.explain(exact=True)
    assert "as exact=True asks for" not in text
