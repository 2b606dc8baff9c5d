"""The 8-bit resize of the kernels, against torch's, byte for byte."""

import numba
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional as F

from gpu_aug.resampling.bilinear import resize_into, scratch_bytes
from gpu_aug.resampling.crop_and_resize import resample
from gpu_aug.resampling.crops import Crops

Bytes = NDArray[np.uint8]

GUARD = 4096


def torch_resize(image: Bytes, size: tuple[int, int], *, antialias: bool) -> Bytes:
    planar = torch.from_numpy(np.ascontiguousarray(image))[None].permute(0, 3, 1, 2)
    resized = F.interpolate(planar, size=size, mode="bilinear", antialias=antialias)
    return np.asarray(resized[0].permute(1, 2, 0).numpy())


def resize(
    image: Bytes, size: tuple[int, int], *, antialias: bool, at: tuple[int, int] = (0, 0)
) -> Bytes:
    canvas = np.full((*size, 3), 77, np.uint8)
    scratch = np.empty(scratch_bytes(*image.shape[:2], *size), np.uint8)
    resize_into(image, whole(image), canvas, *size, *at, antialias, scratch)
    return canvas


def whole(image: Bytes) -> tuple[float, float, float, float]:
    return 0.0, 0.0, float(image.shape[0]), float(image.shape[1])


def noise(seed: int, height: int, width: int) -> Bytes:
    """Noise that takes the extreme values often, so that rounding and clipping are tried."""
    values = np.random.default_rng(seed).integers(-128, 384, (height, width, 3))
    return np.clip(values, 0, 255).astype(np.uint8)


def random_sides(seed: int) -> tuple[int, ...]:
    """Four sides of 1 to 500 pixels, small ones as often as large ones."""
    rng = np.random.default_rng(seed)
    return tuple(int(rng.integers(1, most + 1)) for most in rng.choice((2, 8, 40, 500), 4))


@pytest.mark.parametrize("antialias", [True, False])
def test_resize_is_torchs(antialias: bool) -> None:
    """Hundreds of random sizes, enlarged and shrunk, come out byte for byte as torch's."""
    for seed in range(400):
        height, width, *size = random_sides(seed)
        image = noise(seed, height, width)
        expected = torch_resize(image, (size[0], size[1]), antialias=antialias)

        got = resize(image, (size[0], size[1]), antialias=antialias)

        np.testing.assert_array_equal(got, expected, err_msg=f"{image.shape} to {size}")


def test_random_sizes_can_tell_the_two_ways_apart() -> None:
    """Negative control: most of the sizes give another result without antialiasing."""
    different = 0
    for seed in range(100):
        height, width, *size = random_sides(seed)
        image = noise(seed, height, width)
        ways = [torch_resize(image, (size[0], size[1]), antialias=way) for way in (True, False)]
        different += not np.array_equal(*ways)

    assert different > 50


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((1, 1), (224, 224)),
        ((1, 900), (300, 1)),
        ((2000, 3), (1, 700)),
        ((1500, 2100), (3, 2)),
        ((1200, 1600), (224, 224)),
        ((224, 300), (224, 224)),
        ((300, 224), (224, 224)),
        ((50, 60), (50, 60)),
        ((7, 5), (7, 5)),
    ],
)
def test_extreme_sizes_are_torchs(
    shape: tuple[int, int], size: tuple[int, int], antialias: bool
) -> None:
    """One pixel, one line, a huge shrink and sides that keep their length come out as torch's."""
    image = noise(3, *shape)

    np.testing.assert_array_equal(
        resize(image, size, antialias=antialias), torch_resize(image, size, antialias=antialias)
    )


VIEWS = {
    "crop": lambda image: image[11:171, 23:143],
    "upside down": lambda image: image[::-1],
    "mirrored": lambda image: image[:, ::-1],
    "turned": lambda image: image.transpose(1, 0, 2),
    "turned back": lambda image: image.transpose(1, 0, 2)[::-1],
    "blue first": lambda image: image[:, :, ::-1],
    "every second pixel": lambda image: image[::2, ::2],
}


@pytest.mark.parametrize("view", list(VIEWS))
@pytest.mark.parametrize("size", [(96, 64), (160, 120), (200, 8)])
def test_source_may_have_any_strides(view: str, size: tuple[int, int]) -> None:
    """A crop, a turned or a mirrored view needs no copy, and what lies around a crop has no influence."""
    image = VIEWS[view](noise(5, 200, 180))

    np.testing.assert_array_equal(
        resize(image, size, antialias=True), torch_resize(image, size, antialias=True)
    )


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize(
    ("size", "at"),
    [
        ((120, 140), (0, 0)),
        ((120, 140), (-28, -38)),
        ((40, 50), (12, 7)),
        ((40, 300), (20, -100)),
        ((300, 20), (-250, 50)),
        ((30, 30), (70, 80)),
        ((30, 30), (200, 0)),
        ((30, 30), (0, -30)),
    ],
)
def test_what_lies_beside_the_canvas_is_left_out(
    size: tuple[int, int], at: tuple[int, int], antialias: bool
) -> None:
    """Borders become zero and what lies outside the canvas is left out, for uint8 and for torch's other types."""
    image = noise(8, 90, 110)
    pairs = ((5, 9), (70, 80), size, at, (80, 90))
    crops = Crops(*(np.array([pair], np.int32) for pair in pairs), antialias=antialias)
    resized = torch_resize(image[5:75, 9:89], size, antialias=antialias)
    surroundings = np.zeros((700, 700, 3), np.uint8)
    top, left = 300 + at[0], 300 + at[1]
    surroundings[top : top + size[0], left : left + size[1]] = resized
    expected = surroundings[300:380, 300:390]

    canvas = torch.full((80, 90, 3), 77, dtype=torch.uint8)
    resample(torch.from_numpy(image), crops, 0, canvas)
    np.testing.assert_array_equal(canvas.numpy(), expected)
    floats = torch.full((80, 90, 3), 77.0)
    resample(torch.from_numpy(image).float(), crops, 0, floats)
    assert (floats - torch.from_numpy(expected)).abs().max() < 1.5  # rounded after each pass


def test_canvas_rows_may_be_apart() -> None:
    """What lies between the rows of a canvas inside a larger one is not touched."""
    large = np.full((100, 120, 3), 77, np.uint8)
    image = noise(2, 64, 64)
    scratch = np.empty(scratch_bytes(64, 64, 30, 40), np.uint8)

    resize_into(image, whole(image), large[10:40, 20:60], 30, 40, 0, 0, True, scratch)

    np.testing.assert_array_equal(
        large[10:40, 20:60], torch_resize(image, (30, 40), antialias=True)
    )
    large[10:40, 20:60] = 77
    assert (large == 77).all()


def test_scratch_is_large_enough() -> None:
    """Nothing is written before or behind as much scratch as was asked for."""
    for seed in range(200):
        height, width, *size = random_sides(seed)
        num_bytes = scratch_bytes(height, width, *size)
        guarded = np.full(num_bytes + 2 * GUARD, 77, np.uint8)
        canvas = np.empty((size[0], size[1], 3), np.uint8)
        scratch = guarded[GUARD : GUARD + num_bytes]

        resize_into(
            noise(seed, height, width),
            (0.0, 0.0, float(height), float(width)),
            canvas,
            *size,
            0,
            0,
            True,
            scratch,
        )

        assert (guarded[:GUARD] == 77).all()
        assert (guarded[GUARD + num_bytes :] == 77).all(), (height, width, size)


def test_compiled_code_can_call_it() -> None:
    """Another kernel resizes without Python."""

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
    def caller(image: Bytes, canvas: Bytes) -> None:
        scratch = np.empty(scratch_bytes(image.shape[0], image.shape[1], 20, 30), np.uint8)
        resize_into(image, (0.0, 0.0, 50.0, 50.0), canvas, 20, 30, 0, 0, True, scratch)

    image, canvas = noise(6, 50, 50), np.empty((20, 30, 3), np.uint8)
    caller(image, canvas)

    np.testing.assert_array_equal(canvas, torch_resize(image, (20, 30), antialias=True))


def test_a_part_between_pixels_is_pillows() -> None:
    """A span with fractions gives Pillow's resize with a box, up to the rounding of two passes."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        height, width = rng.integers(20, 200, 2).tolist()
        image = noise(seed, height, width)
        top, left = rng.uniform(0, 5, 2).tolist()
        span = (top, left, height - top - rng.uniform(0, 5), width - left - rng.uniform(0, 5))
        size = tuple(rng.integers(5, 60, 2).tolist())
        canvas = np.empty((*size, 3), np.uint8)
        scratch = np.empty(scratch_bytes(height, width, *size), np.uint8)
        resize_into(image, span, canvas, *size, 0, 0, True, scratch)

        box = (left, top, left + span[3], top + span[2])
        expected = Image.fromarray(image).resize(size[::-1], Image.Resampling.BILINEAR, box=box)
        difference = np.abs(canvas.astype(int) - np.asarray(expected))
        assert difference.max() <= 1
