"""DALI's own operators on the CPU, which share no code with any engine, make the same pixels."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from gpu_aug import (
    JPEG,
    Brightness,
    CenterCrop,
    GaussianBlur,
    HorizontalFlip,
    Operation,
    RandomAffine,
    RandomErasing,
    Recipe,
    VerticalFlip,
    compile_engine,
)

pytestmark = pytest.mark.needs_dali
SIZE = (61, 84)
NUM = 6


@pytest.fixture(scope="module")
def images(photos) -> np.ndarray:
    """uint8 [6, *SIZE, 3]: noise, and small photographs."""
    noise = np.random.default_rng(0).integers(0, 256, (3, *SIZE, 3), dtype=np.uint8)
    small = [Image.open(path).convert("RGB").resize(SIZE[::-1]) for path in photos[:3]]
    return np.concatenate([noise, np.stack([np.asarray(picture) for picture in small])])


def by_dali(images: np.ndarray, build: Callable[..., Any], *inputs: Any) -> np.ndarray:
    """Run `build(fn, images, *inputs)` as a DALI pipeline on the CPU, with one array of arguments per sample."""
    from nvidia.dali import Pipeline, fn

    pipeline = Pipeline(batch_size=len(images), num_threads=1, device_id=None)
    with pipeline:
        sources = [
            fn.external_source(name=f"in{place}", layout="HWC" if place == 0 else None)
            for place in range(1 + len(inputs))
        ]
        pipeline.set_outputs(build(fn, *sources))
    pipeline.build()
    for place, values in enumerate((images, *inputs)):
        pipeline.feed_input(f"in{place}", [np.array(value) for value in values])
    (output,) = pipeline.run()
    return np.stack([np.asarray(output[row]) for row in range(len(images))]).astype(np.float64)


def flip(images: np.ndarray, axis: str) -> np.ndarray:
    return by_dali(images, lambda fn, x: fn.flip(x, **{"horizontal": 0, "vertical": 0, axis: 1}))


def blur(images: np.ndarray, params: dict) -> np.ndarray:
    sigmas = params["sigma"].reshape(len(images), -1)[:, :1].astype(np.float32)[:, 0]
    return by_dali(
        images, lambda fn, x, sigma: fn.gaussian_blur(x, window_size=9, sigma=sigma), sigmas
    )


def warp(images: np.ndarray, params: dict) -> np.ndarray:
    from nvidia.dali import types

    shift = np.eye(3)
    shift[:2, 2] = 0.5  # DALI's matrices are between pixel corners
    matrices = (shift @ params["matrix"] @ np.linalg.inv(shift))[:, :2].astype(np.float32)
    return by_dali(
        images,
        lambda fn, x, matrix: fn.warp_affine(
            x, matrix=matrix, inverse_map=False, fill_value=0, interp_type=types.INTERP_LINEAR
        ),
        matrices,
    )


def erase(images: np.ndarray, params: dict) -> np.ndarray:
    holes = params["holes"].reshape(len(images), -1, 4)[:, 0].astype(np.float32)
    return by_dali(
        images,
        lambda fn, x, anchor, shape: fn.erase(
            x, anchor=anchor, shape=shape, axis_names="HW", fill_value=0
        ),
        holes[:, :2],
        holes[:, 2:] - holes[:, :2],
    )


def brighten(images: np.ndarray, params: dict) -> np.ndarray:
    factors = params["factor"].astype(np.float32)
    return by_dali(images, lambda fn, x, factor: fn.brightness(x, brightness=factor), factors)


def compress(images: np.ndarray, params: dict) -> np.ndarray:
    qualities = params["quality"].astype(np.int32)
    return by_dali(
        images, lambda fn, x, quality: fn.jpeg_compression_distortion(x, quality=quality), qualities
    )


# Operation, what DALI makes of it, and the largest difference in whole steps of 8 bits (DALI rounds
# its results, and its warp its positions).
CASES: dict[str, tuple[Operation, Callable[[np.ndarray, dict], np.ndarray], float]] = {
    "flip": (HorizontalFlip(1), lambda x, _: flip(x, "horizontal"), 0.001),
    "vertical flip": (VerticalFlip(1), lambda x, _: flip(x, "vertical"), 0.001),
    "blur": (GaussianBlur(9, (0.5, 2.0)), blur, 0.51),
    "affine": (RandomAffine(60, (0.2, 0.2), (0.7, 1.3)), warp, 0.6),
    "erase": (RandomErasing(1.0), erase, 0.001),
    "brightness": (Brightness((0.6, 1.4)), brighten, 0.51),
    "jpeg": (JPEG((30, 90)), compress, 0.001),
}


@pytest.mark.parametrize("name", ["kornia", "albumentations", "fused"])
@pytest.mark.parametrize("label", CASES)
def test_dali_makes_the_same_pixels(images, label, name):
    """With the drawn parameters handed to DALI; those of the next sample make another picture."""
    operation, oracle, tolerance = CASES[label]
    recipe = Recipe([CenterCrop(SIZE), HorizontalFlip(0), operation])
    draws = recipe.draw(0, 0, np.arange(NUM), np.full((NUM, 2), SIZE))
    params = draws.params[-1]
    out = torch.empty(NUM, 3, *SIZE)
    compile_engine(name, recipe, device=torch.device("cpu")).run(
        torch.from_numpy(images), draws, out
    )
    ours = out.permute(0, 2, 3, 1).double().numpy() * 255

    assert np.abs(ours - oracle(images, params)).max() <= tolerance
    shifted = np.roll(images, 1, axis=0)
    assert np.abs(ours - oracle(shifted, params)).max() > 10
