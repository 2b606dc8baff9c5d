"""The engines give the same pixels on the same draws, and torchvision's.

Every comparison has a negative control: a slightly different parameter must be noticed.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as tv

from gpu_aug import (
    CenterCrop,
    ColorJitter,
    Draws,
    GaussianBlur,
    Grayscale,
    HorizontalFlip,
    Normalize,
    Operation,
    RandomAffine,
    RandomErasing,
    RandomResizedCrop,
    Recipe,
    Resize,
    VerticalFlip,
    compile_engine,
)

CPU = torch.device("cpu")
SIZE = (61, 84)  # odd and not square
BILINEAR = tv.InterpolationMode.BILINEAR

OPERATIONS = {
    "flip": HorizontalFlip(),
    "vertical flip": VerticalFlip(),
    "crop": CenterCrop((40, 33)),
    "crop and pad": CenterCrop((70, 51)),
    "jitter": ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
    "wide jitter": ColorJitter(1.0, 1.0, 1.0, 0.5),
    "gray": Grayscale(0.5),
    "blur": GaussianBlur(23),
    "small blur": GaussianBlur(3, (0.3, 0.8), p=0.5),
    "affine": RandomAffine(180, (0.2, 0.3), (0.5, 1.5), (-20, 20, -10, 10), p=0.8),
    "affine with fill": RandomAffine(30, fill=0.5),
    "erase": RandomErasing(0.7),
    "erase with value": RandomErasing(0.7, value=0.3),
    "normalize": Normalize(),
    "shrink": Resize((40, 48), antialias=False),
    "grow": Resize(100, antialias=False),
    "random crop": RandomResizedCrop((40, 48), antialias=False),
}
# Which drawn value is changed, and by how much, to see whether a comparison notices.
CHANGES: dict[type[Operation], dict[str, float]] = {
    HorizontalFlip: {"apply": 1},
    VerticalFlip: {"apply": 1},
    Grayscale: {"apply": 1},
    CenterCrop: {"start": 1},
    ColorJitter: {"hue": 0.0005, "contrast": 0.0005, "brightness": 0.0005, "saturation": 0.0005},
    GaussianBlur: {"sigma": 0.0005},
    RandomAffine: {"matrix": 0.002},
    RandomErasing: {"start": 1},
    Resize: {"shape": -1},
    RandomResizedCrop: {"shape": -1},
}


@pytest.fixture(scope="module")
def images(photos) -> torch.Tensor:
    """uint8 [24, *SIZE, 3]: noise, and small photographs."""
    noise = np.random.default_rng(0).integers(0, 256, (12, *SIZE, 3), dtype=np.uint8)
    small = [Image.open(path).convert("RGB").resize(SIZE[::-1]) for path in photos[:12]]
    return torch.from_numpy(np.concatenate([noise, np.stack([np.asarray(p) for p in small])]))


def recipe_with(operation: Operation) -> Recipe:
    """A recipe whose batch stage ends with ``operation`` on images of SIZE."""
    return Recipe([Resize(SIZE), HorizontalFlip(0), operation])


def draw(recipe: Recipe, num: int) -> Draws:
    return recipe.draw(1, 0, np.arange(num), np.full((num, 2), SIZE))


def run(
    name: str, recipe: Recipe, images: torch.Tensor, draws: Draws, device: torch.device = CPU
) -> torch.Tensor:
    """Float32 results [b, 3, H, W] on the CPU."""
    out = torch.full((len(images), 3, *recipe.size), torch.nan, device=device)
    compile_engine(name, recipe, device=device).run(images.to(device), draws, out)
    return out.cpu()


def gap(a: torch.Tensor, b: torch.Tensor) -> float:
    """Largest difference in units of 1/255."""
    return float((a.double() - b.double()).abs().max() * 255)


def changed(draws: Draws, name: str, amount: float) -> Draws:
    """The draws with one parameter of the last operation moved by ``amount``."""
    *others, last = draws.params
    values = ~last[name] if last[name].dtype == bool else last[name] + last[name].dtype.type(amount)
    if name == "matrix":  # a shift in pixels
        values[:, :, :2] = last[name][:, :, :2]
        values[:, 2] = last[name][:, 2]
    return replace(draws, params=(*others, last | {name: values}))


@pytest.mark.parametrize("label", OPERATIONS)
def test_engines_agree(images, label):
    """Kornia and Albumentations differ by no more than the operation's tolerance."""
    operation = OPERATIONS[label]
    recipe = recipe_with(operation)
    draws = draw(recipe, len(images))

    by_kornia = run("kornia", recipe, images, draws)
    by_albumentations = run("albumentations", recipe, images, draws)

    assert gap(by_kornia, by_albumentations) <= operation.tolerance


@pytest.mark.parametrize("label", OPERATIONS)
def test_the_tolerance_notices_a_changed_parameter(images, label):
    """The same comparison fails when one drawn value of one engine is slightly different."""
    operation = OPERATIONS[label]
    recipe = recipe_with(operation)
    draws = draw(recipe, len(images))
    by_kornia = run("kornia", recipe, images, draws)

    if isinstance(operation, Normalize):
        other = recipe_with(Normalize((0.485, 0.456, 0.40601)))
        assert gap(by_kornia, run("albumentations", other, images, draws)) > operation.tolerance
        return
    for name, amount in CHANGES[type(operation)].items():
        moved = changed(draws, name, amount)
        assert gap(by_kornia, run("albumentations", recipe, images, moved)) > operation.tolerance


def torchvision_jitter(x: torch.Tensor, p: dict) -> torch.Tensor:
    functions = [tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue]
    factors = [p["brightness"], p["contrast"], p["saturation"], p["hue"]]
    for function in p["order"]:
        x = functions[function](x, float(factors[function]))
    return x


def torchvision_affine(x: torch.Tensor, p: dict) -> torch.Tensor:
    # A rotation, scale and shift alone can be read back from the matrix.
    matrix = p["matrix"]
    center = np.array([(SIZE[1] - 1) / 2, (SIZE[0] - 1) / 2, 1])
    scale = float(np.hypot(matrix[0, 0], matrix[1, 0]))
    angle = float(np.degrees(np.arctan2(matrix[1, 0], matrix[0, 0])))
    shift = np.rint(matrix @ center - center)[:2].astype(int).tolist()
    return tv.affine(x, angle, shift, scale, [0.0, 0.0], interpolation=BILINEAR)


def torchvision_crop(x: torch.Tensor, p: dict) -> torch.Tensor:
    box = [*p["start"].tolist(), *p["shape"].tolist()]
    return tv.resized_crop(x, *box, size=[40, 48], antialias=True)


# One operation, torchvision's function for it, and the largest difference in 1/255 (measured in
# the comment). torchvision's gray weighs red with 0.2989 instead of 0.299.
ORACLES: dict[str, tuple[Operation, Callable[[torch.Tensor, dict], torch.Tensor], float]] = {
    "flip": (HorizontalFlip(), lambda x, _: tv.horizontal_flip(x), 0),
    "vertical flip": (VerticalFlip(), lambda x, _: tv.vertical_flip(x), 0),
    "crop": (CenterCrop((70, 51)), lambda x, _: tv.center_crop(x, [70, 51]), 0),
    "jitter": (ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8), torchvision_jitter, 0.05),
    "gray": (Grayscale(0.5), lambda x, _: tv.rgb_to_grayscale(x, 3), 0.03),
    "blur": (GaussianBlur(9), lambda x, p: tv.gaussian_blur(x, [9, 9], [float(p["sigma"])]), 0.001),
    "affine": (RandomAffine(180, (0.2, 0.3), (0.5, 1.5)), torchvision_affine, 0.05),
    "erase": (
        RandomErasing(0.7, value=0.3),
        lambda x, p: tv.erase(
            x, *p["start"].tolist(), *p["shape"].tolist(), v=torch.tensor([[[0.3]]])
        ),
        0,
    ),
    "normalize": (
        Normalize(),
        lambda x, _: tv.normalize(x, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        0.001,
    ),
    "resize": (Resize(31), lambda x, _: tv.resize(x, [31], antialias=True), 0.001),
    "random crop": (RandomResizedCrop((40, 48)), torchvision_crop, 0.001),
}


@pytest.mark.parametrize("label", ORACLES)
def test_kornia_engine_gives_torchvisions_pixels(images, label):
    """Each image is what torchvision's function makes of it with the drawn parameters."""
    operation, function, tolerance = ORACLES[label]
    recipe = recipe_with(operation)
    draws = draw(recipe, len(images))
    drawn = draws.params[-1]

    results = run("kornia", recipe, images, draws)

    originals = images.permute(0, 3, 1, 2).float() / 255
    wrong = 0.0
    for row, (original, result) in enumerate(zip(originals, results, strict=True)):
        mine = {name: values[row] for name, values in drawn.items()}
        expected = function(original, mine) if mine["apply"] else original
        assert gap(result, expected) <= tolerance
        before = {name: values[row - 1] for name, values in drawn.items()}
        wrong = max(wrong, gap(result, function(originals[row - 1], before)))
    assert wrong > max(tolerance, 1)  # its neighbour's image and parameters are another result


WHOLE = Recipe(
    [
        RandomResizedCrop(SIZE),
        HorizontalFlip(),
        RandomAffine(10, (0.1, 0.1), p=0.5),
        ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
        Grayscale(),
        GaussianBlur(5, p=0.5),
        Normalize(),
        RandomErasing(0.5),
    ]
)


def test_engines_agree_on_a_whole_recipe(images):
    """Differences do not grow along a chain of all kinds of operations."""
    draws = draw(WHOLE, len(images))

    by_kornia = run("kornia", WHOLE, images, draws)
    by_albumentations = run("albumentations", WHOLE, images, draws)

    # Normalize divides by 0.22, so the values are 4.5 times as far apart. Measured: 0.04.
    assert gap(by_kornia, by_albumentations) <= 0.3
    later = WHOLE.draw(1, 1, np.arange(len(images)), np.full((len(images), 2), SIZE))
    assert gap(by_kornia, run("albumentations", WHOLE, images, later)) > 100


@pytest.mark.needs_cuda
@pytest.mark.parametrize("label", OPERATIONS)
def test_devices_agree(images, label):
    """Kornia on CUDA differs from Kornia on the CPU by no more than the operation's tolerance."""
    operation = OPERATIONS[label]
    recipe = recipe_with(operation)
    draws = draw(recipe, len(images))

    on_cpu = run("kornia", recipe, images, draws)
    on_cuda = run("kornia", recipe, images, draws, torch.device("cuda"))

    assert gap(on_cpu, on_cuda) <= operation.tolerance
