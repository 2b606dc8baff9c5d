"""Warps: where pixels go, which pixel is nearest, borders, refusals, and imports."""

import warnings
from dataclasses import replace
from typing import Any

import albumentations as A
import cv2
import numpy as np
import pytest
import torch
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpu_aug import (
    Affine,
    ElasticDistortion,
    ElasticTransform,
    GridDistortion,
    HorizontalFlip,
    Operation,
    OpticalDistortion,
    Perspective,
    PiecewiseAffine,
    RandomAffine,
    RandomPerspective,
    RandomRotation,
    Recipe,
    Resize,
    Rotate,
    SafeRotate,
    ThinPlateSpline,
    compile_engine,
)
from gpu_aug.errors import EngineError, RecipeError
from gpu_aug.resampling.grid import sources, take_nearest
from gpu_aug.targets import masks as mask_math
from tests.support.engines import CPU, ENGINES, draw_for, render
from tests.support.laws import imported

SIZE = (61, 84)
MATRICES = {
    "affine": RandomAffine(180, (0.2, 0.3), (0.5, 1.5), (-20, 20)),
    "about a centre": RandomAffine(180, center=(20, 50)),
    "rotation": RandomRotation(180),
    "expanded": RandomRotation(180, expand=True),
    "perspective": RandomPerspective(0.5, p=1),
    "fitted": Affine(rotate=(-90, 90), shear=(-20, 20), fit_output=True, p=1),
    "cropped": Rotate(crop_border=True, p=1),
    "safe": SafeRotate(p=1),
    "corners": Perspective((0.05, 0.2), p=1),
    "free corners": Perspective((0.05, 0.2), keep_size=False, fit_output=True, p=1),
}
FIELDS = {
    "elastic": ElasticTransform(200.0, 5.0),
    "elastic of albumentations": ElasticDistortion(200.0, 8.0, p=1),
    "grid": GridDistortion(p=1),
    "optical": OpticalDistortion(0.5, p=1),
    "fisheye": OpticalDistortion(0.5, "fisheye", p=1),
    "points": PiecewiseAffine((0.03, 0.1), (2, 5), (3, 4), p=1),
    "spline": ThinPlateSpline(p=1),
}


def carry_out(engine: str, operation: Operation, image: torch.Tensor, seed: int = 0) -> Any:
    """Return the float32 result [3, H, W], and what was drawn for it."""
    recipe = Recipe([Resize(tuple(image.shape[:2])), HorizontalFlip(0), operation])
    draws = draw_for(recipe, image[None], seed)
    return render(engine, recipe, image[None], draws)[0].numpy(), draws.params[-1]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("label", MATRICES)
def test_the_forward_matrix_tells_where_pixels_go(label, engine):
    """An image of its own coordinates shows where each pixel came from; ``forward`` leads back."""
    operation = MATRICES[label]
    y, x = np.mgrid[:61, :84]
    image = torch.from_numpy(np.stack([x, y, np.full_like(x, 255)], axis=2).astype(np.uint8))

    for seed in range(3):
        (from_x, from_y, covered), params = carry_out(engine, operation, image, seed)
        rows, columns = np.nonzero(covered > 0.9999)
        points = np.stack([from_x * 255 + 0.5, from_y * 255 + 0.5, np.ones_like(from_x)])
        moved = operation.forward(params, np.array([SIZE]))[0] @ points[:, rows, columns]
        assert len(rows) > 500
        np.testing.assert_allclose(moved[0] / moved[2], columns + 0.5, atol=0.02)
        np.testing.assert_allclose(moved[1] / moved[2], rows + 0.5, atol=0.02)


@pytest.mark.parametrize("label", FIELDS)
def test_a_displacement_does_not_depend_on_the_batch(label):
    """It is the same to the bit alone and among others."""
    operation = FIELDS[label]
    u = np.random.default_rng(0).random((20, operation.num_uniforms))
    params = operation.draw(u, np.tile(SIZE, (20, 1)))
    together = operation.displacement(params, SIZE, CPU)
    assert (together.shape, together.dtype) == ((20, 2, *SIZE), torch.float32)

    for row in (0, 17):
        one = {name: values[row : row + 1] for name, values in params.items()}
        assert torch.equal(operation.displacement(one, SIZE, CPU)[0], together[row])
    assert not torch.equal(together[0], together[1])


@pytest.mark.parametrize("padding_mode", ["constant", "edge", "reflect", "symmetric"])
@pytest.mark.parametrize("label", ["affine", "perspective", "fitted"])
def test_nearest_images_take_the_pixels_that_masks_take(label, padding_mode):
    """To the bit, with one rule in two libraries."""
    operation = replace(MATRICES[label], padding_mode=padding_mode)
    u = np.random.default_rng(0).random((8, operation.num_uniforms))
    sizes = np.tile(SIZE, (8, 1))
    params = operation.draw(u, sizes)
    forward, after = operation.forward(params, sizes), operation.result_size(params, sizes)
    layers = np.random.default_rng(1).integers(1, 255, (2, *SIZE))
    for row in range(8):
        size = tuple(after[row].tolist())
        points = sources(forward[row : row + 1], size, CPU)
        taken = take_nearest(torch.from_numpy(layers)[None], *points, padding_mode, (0, 0))
        wanted = mask_math.warp(layers, forward[row], size, padding_mode, 0)
        np.testing.assert_array_equal(taken[0].numpy(), wanted)


def test_nearest_pixels_stay_whole():
    """Nearest warps keep uint8 images uint8, so that what follows is exact; a fill between is not."""
    assert RandomAffine(9, interpolation="nearest").moves_pixels_only
    assert RandomAffine(9, interpolation="nearest", fill=128 / 255).moves_pixels_only
    assert not RandomAffine(9, interpolation="nearest", fill=0.3).moves_pixels_only
    assert not RandomAffine(9).moves_pixels_only
    noise = torch.randint(0, 256, (*SIZE, 3), generator=torch.Generator().manual_seed(0)).byte()
    result, _ = carry_out("kornia", RandomAffine(9, interpolation="nearest", fill=1.0), noise)
    assert np.isin(np.rint(result * 255), noise.numpy()).all()


@pytest.mark.parametrize("operation", [*MATRICES.values(), *FIELDS.values()], ids=repr)
def test_a_warp_survives_its_description(operation):
    """to_dict and back, also of images of one and two pixels."""
    assert Operation.from_dict(operation.to_dict()) == operation
    if isinstance(operation, GridDistortion | Perspective):
        return
    small = torch.full((2, 3, 3), 128, dtype=torch.uint8)
    result, _ = carry_out("kornia", operation, small)
    assert np.isfinite(result).all()


def test_opencv_4_is_refused_where_it_would_resample(monkeypatch):
    """It warps on a grid of 1/32 pixel; nearest pixels do not come from it."""
    monkeypatch.setattr(cv2, "__version__", "4.12.0")
    for operation in (RandomAffine(9), ElasticTransform()):
        with pytest.raises(EngineError, match=type(operation).__name__):
            compile_engine("albumentations", Recipe([Resize(SIZE), operation]), device=CPU)
    nearest = Recipe([Resize(SIZE), RandomAffine(9, interpolation="nearest")])
    compile_engine("albumentations", nearest, device=CPU)


IMPORTS = [
    (
        lambda: A.Affine(scale=(0.8, 1.2), translate_percent=0.1, rotate=(-30, 30), fill=51),
        Affine((0.8, 1.2), 0.1, rotate=(-30, 30), fill=0.2),
    ),
    (lambda: A.Affine(shear={"x": (-5, 5)}), Affine(shear=((-5, 5), 1), translate_px=0)),
    (
        lambda: A.ShiftScaleRotate(0.1, (-0.25, 0.5), 30, border_mode=cv2.BORDER_REFLECT),
        Affine((0.75, 1.5), (-0.1, 0.1), rotate=(-30, 30), padding_mode="symmetric"),
    ),
    (
        lambda: A.Rotate(30, interpolation=cv2.INTER_NEAREST, crop_border=True, p=1),
        Rotate(30, crop_border=True, interpolation="nearest", p=1),
    ),
    (
        lambda: A.SafeRotate(border_mode=cv2.BORDER_REFLECT_101),
        SafeRotate(padding_mode="reflect"),
    ),
    # OpenCV takes one number for the first channel, and Albumentations hands it on.
    (lambda: A.Perspective(fill=51, fill_mask=7), Perspective(fill=(0.2, 0, 0), fill_mask=7)),
    (
        lambda: A.ElasticTransform(120, 6, interpolation=cv2.INTER_CUBIC, same_dxdy=True),
        ElasticDistortion(120, 6, interpolation="bicubic", same_dxdy=True),
    ),
    (lambda: A.GridDistortion(4, 0.2, normalized=False), GridDistortion(4, 0.2, normalized=False)),
    (
        lambda: A.OpticalDistortion(0.1, cv2.INTER_AREA, mode="fisheye"),
        OpticalDistortion(0.1, "fisheye"),
    ),
    (lambda: A.PiecewiseAffine(nb_rows=3), PiecewiseAffine(nb_rows=(3, 3))),
    (lambda: A.ThinPlateSpline(fill=(51, 102, 0)), ThinPlateSpline(fill=(0.2, 0.4, 0))),
    (lambda: v2.RandomAffine(10), RandomAffine(10, interpolation="nearest")),
    (
        lambda: v1.RandomAffine((5, 9), center=[3, 4]),
        RandomAffine((5, 9), center=(3, 4), interpolation="nearest"),
    ),
    (
        lambda: v2.RandomAffine(10, (0.1, 0), (0.5, 2), 8, v2.InterpolationMode.BILINEAR, fill=51),
        RandomAffine(10, (0.1, 0), (0.5, 2), 8, fill=0.2, fill_mask=51, blend="twice"),
    ),
    (
        lambda: v2.RandomRotation(30, v2.InterpolationMode.BILINEAR, expand=True, fill=None),
        RandomRotation(30, expand=True),
    ),
    (lambda: v2.RandomPerspective(0.3, 0.7), RandomPerspective(0.3, p=0.7, blend="twice")),
    (lambda: v1.ElasticTransform(40.0, 3.0), ElasticTransform(40, 3, blend="twice")),
]


@pytest.mark.parametrize(("build", "wanted"), IMPORTS)
def test_imports_mean_the_same(build, wanted):
    """Every argument arrives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = imported(build())
    assert type(got) is type(wanted)
    for name, value in wanted.to_dict().items():
        if name not in ("name", "fill"):
            assert got.to_dict()[name] == pytest.approx(value) if isinstance(value, float) else True
            assert np.allclose(_flat(got.to_dict()[name]), _flat(value)), name
    np.testing.assert_allclose(got.fill, wanted.fill)


def _flat(value: Any) -> list[float]:
    if isinstance(value, list):
        return [number for item in value for number in _flat(item)]
    return [float(hash(value)) if isinstance(value, str) or value is None else float(value)]


REFUSED = [
    (lambda: A.Rotate(interpolation=cv2.INTER_LANCZOS4), "INTER_LANCZOS4"),
    (lambda: A.Rotate(rotate_method="ellipse"), "largest_box"),
    (lambda: A.Affine(border_mode=cv2.BORDER_WRAP), "BORDER_WRAP"),
    (lambda: A.Affine(mask_interpolation=cv2.INTER_LINEAR), "mask_interpolation"),
    (lambda: A.Affine(fill_mask=0.5), "fill_mask"),
    (lambda: A.Perspective(interpolation=2, border_mode=cv2.BORDER_REFLECT), "bicubic"),
    (lambda: v2.RandomRotation(3, fill=[1, 2]), "fill"),
]


@pytest.mark.parametrize(("build", "named"), REFUSED)
def test_what_cannot_mean_the_same_is_refused_by_name(build, named):
    """With the reason, or with what comes nearest."""
    with pytest.raises(RecipeError, match=named):
        imported(build())
