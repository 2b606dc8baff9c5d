"""Images of any number of channels, of 16 bits and of floats: engines carry out the operations that take them, or refuse by name."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from gpu_aug import (
    Blur,
    Brightness,
    CenterCrop,
    CoarseDropout,
    ColorJitter,
    ElasticTransform,
    GaussianBlur,
    HorizontalFlip,
    Hue,
    ImageKind,
    KorniaModule,
    Normalize,
    OneOf,
    Operation,
    Posterize,
    RandAugment,
    RandomAffine,
    RandomApply,
    RandomResizedCrop,
    RandomRotation,
    Recipe,
    RecipeError,
    Resize,
    Solarize,
    compile_engine,
)
from gpu_aug.image_kind import DEPTHS
from gpu_aug.ops.combine import Combinator
from gpu_aug.ops.foreign.foreign import Foreign
from tests.gpu_aug.engines.test_engines_agree import ROWS, recipe_with, tolerance_of
from tests.support.agreement import gaps
from tests.support.engines import CPU, ENGINES, draw_for, render
from tests.support.extent import EVERYTHING
from tests.support.rows.row import SIZE

KINDS = {
    "five channels of 8 bits": ImageKind(5, 8),
    "gray of 8 bits": ImageKind(1, 8),
    "RGBA of 16 bits": ImageKind(4, 16),
    "RGB of floats": ImageKind(3, "float32"),
    "two channels of floats": ImageKind(2, "float32"),
}


def fits(operation: Operation, kind: ImageKind) -> bool:
    try:
        kind.require_fits([operation])
    except RecipeError:
        return False
    return True


def cases() -> Iterator[tuple[str, str]]:
    """Each operation with a kind that it takes, in turn; in the long tests every row of the table with every kind."""
    seen = {ElasticTransform}  # it takes seconds, by the same code as ElasticDistortion
    for number, (label, row) in enumerate(ROWS.items()):
        taken = [name for name, kind in KINDS.items() if fits(row.operation, kind)]
        if EVERYTHING or (taken and type(row.operation) not in seen):
            seen.add(type(row.operation))
            for name in taken if EVERYTHING else [taken[number % len(taken)]]:
                yield name, label


def images_of(kind: ImageKind) -> torch.Tensor:
    """Return noise, [2, *SIZE, C]; floats lie from -1000 to 1000."""
    drawn = np.random.default_rng(0).integers(0, 65536, (2, *SIZE, kind.channels))
    if kind.depth == 8:
        return torch.from_numpy((drawn >> 8).astype(np.uint8))
    values = torch.from_numpy((drawn / 65535).astype(np.float32))
    return values if kind.depth == 16 else values * 2000 - 1000


def run(
    name: str, recipe: Recipe, images: torch.Tensor, kind: ImageKind, epoch: int = 0
) -> list[torch.Tensor]:
    draws = draw_for(recipe, images, epoch=epoch)
    return list(render(name, recipe, images, draws, kind=kind, layout=torch.channels_last))


@pytest.mark.parametrize(("name", "label"), list(cases()))
def test_engines_agree(name: str, label: str) -> None:
    """All engines within the operation's tolerance; other channels are moved and changed as red, green and blue are."""
    kind, operation = KINDS[name], ROWS[label].operation
    recipe, images = recipe_with(operation), images_of(kind)
    scale = 1000 if kind.depth == "float32" else 1
    tolerance = max(tolerance_of(operation), 1e-4)

    by_kornia = run("kornia", recipe, images, kind)

    for engine in ("albumentations", "fused"):
        assert gaps(run(engine, recipe, images, kind), by_kornia).max() / scale <= tolerance
    if kind.channels > 3 and not isinstance(operation, Normalize):
        rgb = run("kornia", recipe, images[..., 1:4].contiguous(), replace(kind, channels=3))
        assert gaps(rgb, [result[1:4] for result in by_kornia]).max() <= 1e-3


@pytest.mark.parametrize("engine", ENGINES)
def test_the_comparison_notices_another_draw_and_another_order_of_channels(engine: str) -> None:
    """Where both would be missed, the agreement above would mean nothing."""
    kind = ImageKind(5, 16)
    recipe, images = recipe_with(RandomRotation(30)), images_of(kind)
    expected = run("kornia", recipe, images, kind)

    assert gaps(run(engine, recipe, images, kind), expected).max() < 0.01
    assert gaps(run(engine, recipe, images, kind, epoch=1), expected).max() > 10
    assert gaps(run(engine, recipe, images.flip(-1), kind), expected).max() > 10


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("channels", [1, 2, 4, 5, 7])
def test_channels_are_normalized_each_by_its_own_numbers(engine: str, channels: int) -> None:
    """By torch's arithmetic, inside a choice of operations as well."""
    kind = ImageKind(channels, "float32")
    images = images_of(kind)
    mean, std = np.arange(channels) * 10.0, np.arange(channels) + 1.0
    normalize = Normalize(tuple(mean), tuple(std)) if channels > 1 else Normalize(0.0, 1.0)
    recipe = Recipe([CenterCrop(SIZE), RandomApply([OneOf([normalize])], p=1.0)])

    results = run(engine, recipe, images, kind)

    expected = (images.numpy() - mean) / std
    assert np.allclose(torch.stack(results).permute(0, 2, 3, 1), expected, atol=1e-3)


@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_below_a_255th_survive(engine: str) -> None:
    """A flip of 16 bits is exact to the last one; the same image in 8 bits is not."""
    kind = ImageKind(1, 16)
    images = images_of(kind)
    recipe = Recipe([CenterCrop(SIZE), HorizontalFlip(1.0)])

    flipped = torch.stack(run(engine, recipe, images, kind))

    assert torch.equal(flipped[:, 0], images[..., 0].flip(2))
    assert not torch.equal(flipped, flipped.mul(255).round() / 255)


def test_a_mean_of_one_number_is_that_of_all_channels() -> None:
    """As Normalize says."""
    recipe = Recipe([CenterCrop(SIZE), Normalize(0.25, 0.5)])
    images = images_of(ImageKind(4, 16))
    for engine in ENGINES:
        result = torch.stack(run(engine, recipe, images, ImageKind(4, 16)))
        assert torch.allclose(result.permute(0, 2, 3, 1), (images - 0.25) / 0.5, atol=1e-5)


REFUSED = {
    "colour": (ImageKind(1), Hue(), r"Hue needs RGB images, got channels=1: take it out"),
    "jitter": (ImageKind(4, 16), ColorJitter(0.3), "ColorJitter needs RGB images, got channels=4"),
    "policy": (ImageKind(5), RandAugment(), "RandAugment needs RGB images, got channels=5"),
    "8 bits": (ImageKind(3, 16), Posterize(), "Posterize rounds values to 8 bits, got depth=16"),
    "policy, 16 bits": (ImageKind(3, 16), RandAugment(), "RandAugment rounds values to 8 bits"),
    "range": (
        ImageKind(1, "float32"),
        Solarize(),
        r"Solarize needs values in \[0, 1\], got depth='f",
    ),
    "fill": (ImageKind(2), RandomAffine(9, fill=(1, 0, 0)), "fill of three values, got channels=2"),
    "noise": (
        ImageKind(4),
        CoarseDropout(fill="random"),
        "CoarseDropout needs RGB images for the colours that it draws",
    ),
    "means": (ImageKind(5), Normalize(), "Normalize has 3 means .* got channels=5: give as many"),
    "of RGB": (ImageKind(), Normalize((0, 1), (1, 1)), "Normalize has 2 means .* got channels=3"),
    "own step": (
        ImageKind(4),
        KorniaModule(torch.nn.Identity(), spatial=False),
        "KorniaModule is called with RGB images",
    ),
    "within": (ImageKind(1), RandomApply([OneOf([Blur(), Hue()])]), "Hue needs RGB images"),
}


@pytest.mark.parametrize("engine", [*ENGINES, "auto"])
@pytest.mark.parametrize("case", REFUSED)
def test_operations_that_do_not_take_a_kind_are_refused_by_name(case: str, engine: str) -> None:
    """When the engine is made, by every engine alike."""
    kind, operation, sentence = REFUSED[case]
    recipe = Recipe([CenterCrop(8), operation])
    with pytest.raises(RecipeError, match=sentence):
        compile_engine(engine, recipe, device=CPU, kind=kind)


def test_what_is_no_kind_is_refused() -> None:
    """With what is allowed."""
    for channels in (0, -1, 1.5, True, "3"):
        with pytest.raises(RecipeError, match="channels must be a whole number from 1"):
            ImageKind(channels)  # type: ignore[arg-type]
    for depth in (12, True, "16", torch.float32):
        with pytest.raises(RecipeError, match="depth must be 8, 16 or 'float32'"):
            ImageKind(3, depth)  # type: ignore[arg-type]


def test_a_plan_of_many_channels_can_be_explained() -> None:
    """It is that of the first three."""
    recipe = Recipe(
        [RandomResizedCrop(32), Brightness(), GaussianBlur(3), Normalize((0,) * 5, (1,) * 5)]
    )
    assert recipe.explain() == Recipe(
        [RandomResizedCrop(32), Brightness(), GaussianBlur(3), Normalize(0.0, 1.0)]
    ).explain().replace("0.0, 0.0, 0.0, 0.0, 0.0", "0.0, 0.0, 0.0")


def test_a_decode_stage_resizes_every_channel() -> None:
    """Images of 16 bits are resized as torchvision resizes floats."""
    from torchvision.transforms.v2 import functional as tv

    from gpu_aug import apply

    image = np.random.default_rng(1).integers(0, 65536, (40, 50, 5), dtype=np.uint16)
    [result] = apply(Recipe([Resize((17, 23))]), [{"image": image}], seed=0, channels=5, depth=16)
    scaled = torch.from_numpy(image.astype(np.float32) / 65535).permute(2, 0, 1)
    expected = tv.resize(scaled, [17, 23], antialias=True)
    assert torch.allclose(result["image"], expected, atol=1e-6)


PAGE = Path(__file__).resolve().parents[3] / "docs" / "images.md"
_BOUNDS = ("<!-- table -->\n", "<!-- end of table -->")


def table() -> str:
    """Which operations take which images, by their default arguments, or those of the agreement table's first row."""
    rows = {type(row.operation): row.operation for row in reversed(ROWS.values())}
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cls, of_row in rows.items():
        try:
            operation = cls()
        except (RecipeError, TypeError):  # it needs arguments
            operation = of_row
        if isinstance(operation, Combinator | Foreign):
            continue
        depths = [
            str(kind.depth) for kind in map(partial(ImageKind, 3), DEPTHS) if fits(operation, kind)
        ]
        any_channels = isinstance(operation, Normalize) or fits(operation, ImageKind(5))
        groups["any" if any_channels else "RGB", ", ".join(depths)].append(cls.__name__)
    lines = ["| channels | depth | operations |", "| --- | --- | --- |"]
    for (channels, depths), names in sorted(
        groups.items(), key=lambda one: (one[0][0] != "any", -len(one[0][1]))
    ):
        lines.append(f"| {channels} | {depths} | {', '.join(sorted(names))} |")
    return "\n".join(lines) + "\n"


def test_the_documentation_says_which_operations_take_which_images(
    request: pytest.FixtureRequest,
) -> None:
    """Its table is the one that this run makes."""
    text = PAGE.read_text(encoding="utf-8")
    first, last = text.index(_BOUNDS[0]) + len(_BOUNDS[0]), text.index(_BOUNDS[1])
    if request.config.getoption("--write-image-kinds"):
        text = text[:first] + table() + text[last:]
        PAGE.write_text(text, encoding="utf-8")
        last = text.index(_BOUNDS[1])
    assert text[first:last] == table()
